//! Traces as text for people.

use std::borrow::Cow;
use std::fmt::Write;

use num_bigint::BigUint;
use p4jet_ir::{BlockKind, Expr, FieldId, Intrinsic, Key, Loc, MatchKind, Program, ReplicaList, TableId};
use p4jet_tables::{Difference, Entry, EntryHandle, HitReason, KeyMatch};

use crate::trace::{Absent, Cause, Matched, Since, Trace, TraceEvent};
use crate::wording::{Wording, code_name, field_name, is_nameless};

impl Trace {
    /// Returns the trace as indented text, one step per line, with the place in the P4 text at the end.
    pub fn render(&self, program: &Program) -> String {
        let mut renderer = Renderer {
            p: program,
            words: Wording::new(program),
            out: String::new(),
            in_action: false,
            in_parser: false,
        };
        for event in &self.events {
            renderer.event(event);
        }
        renderer.out
    }

    /// Like [`Self::render`], without the middle if there are more than `lines_max` lines: an endless loop produces
    /// hundreds of thousands.
    pub fn render_shortened(&self, program: &Program, lines_max: usize) -> String {
        shortened(self.render(program), lines_max)
    }
}

fn shortened(text: String, lines_max: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let Some(left_out) = lines.len().checked_sub(lines_max).filter(|&n| n > 0) else { return text };
    let (first, last) = (&lines[..lines_max / 2], &lines[lines.len() - lines_max / 2..]);
    format!("{}\n… {left_out} lines left out …\n{}\n", first.join("\n"), last.join("\n"))
}

/// Returns a value in readable form: addresses as such, small numbers in decimal.
pub fn value_text(value: &BigUint, width: u32) -> String {
    let bytes = |count: usize| {
        let digits = value.to_bytes_be();
        let mut bytes = vec![0; count.saturating_sub(digits.len())];
        bytes.extend(digits);
        bytes
    };
    match width {
        1 => value.to_string(),
        48 => bytes(6).iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":"),
        32 if value.bits() > 16 => {
            let dotted = bytes(4).iter().map(u8::to_string).collect::<Vec<_>>().join(".");
            format!("{value:#x} ({dotted})")
        }
        _ if value.bits() <= 3 => value.to_string(),
        _ if value.bits() <= 16 => format!("{value:#x} ({value})"),
        _ => format!("{value:#x}"),
    }
}

fn match_text(m: &KeyMatch, width: u32) -> String {
    let text = |v: &BigUint| value_text(v, width);
    match m {
        KeyMatch::Exact(v) | KeyMatch::Optional(Some(v)) => text(v),
        KeyMatch::Lpm { value, prefix_len } => format!("{}/{prefix_len}", text(value)),
        KeyMatch::Ternary { value, mask } => format!("{value:#x} &&& {mask:#x}"),
        KeyMatch::Range { lo, hi } => format!("{} to {}", text(lo), text(hi)),
        KeyMatch::Optional(None) => "anything".to_string(),
    }
}

fn hit_reason_text(reason: HitReason) -> String {
    let others = |others: usize| match others {
        0 => String::new(),
        1 => ", before 1 other that matches".to_string(),
        n => format!(", before {n} others that match"),
    };
    match reason {
        HitReason::Equal => String::new(),
        HitReason::LongestPrefix { others: n, .. } if n > 0 => format!(" (longest prefix{})", others(n)),
        HitReason::Priority { others: n, .. } if n > 0 => format!(" (best priority{})", others(n)),
        HitReason::LongestPrefix { .. } | HitReason::Priority { .. } => String::new(),
    }
}

fn difference_text(key: &Key, difference: &Difference) -> String {
    let found = value_text(&difference.found, key.width);
    let expected = value_text(&difference.expected, key.width);
    match (key.kind, &difference.mask) {
        (MatchKind::Range, _) if difference.found < difference.expected => {
            format!("{} is {found}, below {expected}", key.name)
        }
        (MatchKind::Range, _) => format!("{} is {found}, above {expected}", key.name),
        (_, Some(mask)) if &difference.found & mask != difference.found => {
            let masked = value_text(&(&difference.found & mask), key.width);
            format!("{} is {found}, so {masked} under the mask {mask:#x}, not {expected}", key.name)
        }
        _ => format!("{} is {found}, not {expected}", key.name),
    }
}

fn list_name(list: ReplicaList) -> &'static str {
    match list {
        ReplicaList::Group => "multicast group",
        ReplicaList::Session => "clone session",
    }
}

fn bytes_text(bits: &BigUint) -> String {
    if (bits % 8u32) == BigUint::ZERO { format!("{} bytes", bits / 8u32) } else { format!("{bits} bits") }
}

struct Renderer<'a> {
    p: &'a Program,
    words: Wording<'a>,
    out: String,
    in_action: bool,
    in_parser: bool,
}

impl<'a> Renderer<'a> {
    /// Writes a line. Blocks are not indented, nodes by one step, their statements by two, those of actions by four.
    fn line(&mut self, depth: usize, text: &str, loc: Loc) {
        let _ = write!(self.out, "{:depth$}{text}", "", depth = 2 * depth);
        let place = &self.p.locs[loc.index()];
        if place.line > 0 {
            let _ = write!(self.out, "  [{}:{}:{}]", place.file, place.line, place.column);
        }
        self.out.push('\n');
    }

    /// Writes a line for a statement.
    fn step(&mut self, text: &str, loc: Loc) {
        self.line(if self.in_action { 4 } else { 2 }, text, loc);
    }

    /// Writes a line that continues the previous one.
    fn detail(&mut self, text: &str) {
        self.line(if self.in_action { 5 } else { 3 }, text, Loc(0));
    }

    fn name(&self, field: FieldId) -> Cow<'_, str> {
        field_name(self.p, field)
    }

    fn field(&self, field: FieldId, value: &BigUint) -> String {
        format!("{} = {}", self.name(field), value_text(value, self.p.width(field)))
    }

    fn event(&mut self, event: &TraceEvent) {
        let p = self.p;
        self.words.follow(event);
        match event {
            TraceEvent::Arrived { port, length } => {
                self.line(0, &format!("packet of {length} bytes arrives at port {port}"), Loc(0));
            }
            TraceEvent::Block { block } => {
                let block = &p.blocks[block.index()];
                self.in_parser = block.kind == BlockKind::Parser;
                self.line(0, &format!("{} {}", block.kind.name(), block.name), Loc(0));
            }
            TraceEvent::Node { label } => {
                let depth = if self.in_action { 4 } else { 1 };
                self.line(depth, label, Loc(0));
            }
            TraceEvent::Extract { header, at_bit, fields, loc, .. } => {
                let name = &p.headers[header.index()].name;
                let place = bytes_text(&(*at_bit).into());
                self.step(&format!("extract {name}, {place} into the frame"), *loc);
                for (field, value) in fields {
                    let text = self.field(*field, value);
                    self.detail(&text);
                }
            }
            TraceEvent::TooShort { header, bits_needed, bits_available, loc } => {
                let what = match header {
                    Some(header) => format!("extract {}", p.headers[header.index()].name),
                    None => "look or move ahead".to_string(),
                };
                let (needed, available) = (bytes_text(bits_needed), bytes_text(&(*bits_available).into()));
                self.step(&format!("cannot {what}: it takes {needed}, {available} are left"), *loc);
            }
            TraceEvent::VarbitTooLong { header, bits, bits_max, loc } => {
                let name = &p.headers[header.index()].name;
                let text =
                    format!("cannot extract {name}: its varbit would get {bits} bits and holds {bits_max}");
                self.step(&text, *loc);
            }
            TraceEvent::Advance { bits, loc } => self.step(&format!("advance {}", bytes_text(bits)), *loc),
            TraceEvent::Lookahead { dest, value, loc } => {
                let text = match is_nameless(p, *dest) {
                    true => value_text(value, p.width(*dest)),
                    false => self.field(*dest, value),
                };
                self.step(&format!("look ahead: {text}"), *loc);
            }
            TraceEvent::Set { field, old, new, loc } => {
                let is_error = p.blocks.iter().any(|block| block.error_field == Some(*field));
                let text = |value: &BigUint| match is_error {
                    true => format!("error.{}", code_name(p, value)),
                    false => value_text(value, p.width(*field)),
                };
                let (old, new) = (text(old), text(new));
                self.step(&format!("{}: {old} -> {new}", self.name(*field)), *loc);
            }
            TraceEvent::Branch { condition, fields, held, loc } => {
                // A condition that the compiler added is of interest only if it has an effect; a constant one never is.
                if fields.is_empty() || (!held && !self.words.has_words_for(condition)) {
                    return;
                }
                let mut values: Vec<String> = Vec::new();
                if !matches!(condition, Expr::Field(_)) {
                    for (field, value) in fields {
                        let name = self.words.name(*field);
                        values.extend(name.map(|n| format!("{n} = {}", value_text(value, p.width(*field)))));
                    }
                }
                let values =
                    if values.is_empty() { String::new() } else { format!(" ({})", values.join(", ")) };
                self.step(&format!("if {}: {held}{values}", self.words.expr(condition)), *loc);
            }
            TraceEvent::Switch { selector, value, matched, loc } => {
                let case = if *matched { "" } else { ": the default, as no case lists it" };
                let verb = if self.in_parser { "select" } else { "switch" };
                let text = match self.words.switched_table(selector) {
                    Some(table) => {
                        let table = &p.tables[table.index()];
                        let action = u32::try_from(value).ok().and_then(|i| table.actions.get(i as usize));
                        let action = action.map_or("?", |a| &p.actions[a.action.index()].control_name);
                        format!("switch {}: {action}{case}", self.words.expr(selector))
                    }
                    None => {
                        let value = value_text(value, selector.width(p));
                        match self.words.has_words_for(selector) {
                            true => format!("{verb} {}: {value}{case}", self.words.expr(selector)),
                            false => format!("{verb}: {value}{case}"),
                        }
                    }
                };
                self.step(&text, *loc);
            }
            TraceEvent::Apply { table, keys, absent, matched, loc } => {
                self.apply(*table, keys, absent, matched, *loc);
            }
            TraceEvent::Selected { group, selector, member, .. } => self.detail(&match (group, member) {
                (Some(group), Some(member)) => {
                    format!("group {group}: the selector, {selector:#x}, picks member {member}")
                }
                (Some(group), None) => format!("group {group} has no members, so no action runs"),
                (None, Some(member)) => format!("member {member}"),
                (None, None) => String::new(),
            }),
            TraceEvent::Action { action, data } => {
                let id = *action;
                let action = &p.actions[id.index()];
                let data: Vec<_> = (action.params.iter().zip(data))
                    .map(|(f, v)| format!("{} = {}", p.param_name(id, *f), value_text(v, p.width(*f))))
                    .collect();
                self.line(3, &format!("action {}({})", action.control_name, data.join(", ")), action.loc);
                self.in_action = true;
            }
            TraceEvent::ActionEnd { exits, .. } => {
                if *exits {
                    self.step("exit", Loc(0));
                }
                self.in_action = false;
            }
            TraceEvent::Extern { function, instance, args, outs, text, loc } => {
                let args: Vec<_> = args.iter().map(|(value, width)| value_text(value, *width)).collect();
                // `counter.count` of an object is printed as `count`, as in the program.
                let (on, function) = match (instance, function.split_once('.')) {
                    (Some(i), Some((_, method))) => (format!("{}.", p.instances[i.index()].name), method),
                    (Some(i), None) => (format!("{}.", p.instances[i.index()].name), function.as_str()),
                    (None, _) => (String::new(), function.as_str()),
                };
                let text: String = text.iter().map(|t| format!(" {t:?}")).collect();
                let outs: Vec<_> = outs
                    .iter()
                    .map(|(field, value)| match is_nameless(p, *field) {
                        true => value_text(value, p.width(*field)),
                        false => self.field(*field, value),
                    })
                    .collect();
                let outs = if outs.is_empty() { String::new() } else { format!(" -> {}", outs.join(", ")) };
                self.step(&format!("call {on}{function}({}){text}{outs}", args.join(", ")), *loc);
            }
            TraceEvent::Emit { header, valid, bits, loc } => {
                let name = &p.headers[header.index()].name;
                let text = match valid {
                    true => format!("emit {name}, {}", bytes_text(&(*bits).into())),
                    false => format!("do not emit {name}: it is invalid"),
                };
                self.step(&text, *loc);
            }
            TraceEvent::Deparsed { header_bytes, payload_bytes } => {
                let text = format!(
                    "the frame is now {header_bytes} bytes of headers and {payload_bytes} of payload"
                );
                self.line(1, &text, Loc(0));
            }
            TraceEvent::Copied { begin, to, loc } => {
                let text = match to {
                    None => format!("a copy will begin at {}", begin.name()),
                    Some((list, id, ports)) if ports.is_empty() => {
                        let list = list_name(*list);
                        format!("no copies: {list} {id} is not configured or empty")
                    }
                    Some((list, id, ports)) => {
                        let list = list_name(*list);
                        let s = if ports.len() == 1 { "copy" } else { "copies" };
                        let to: Vec<_> = ports.iter().map(u32::to_string).collect();
                        format!(
                            "{} {s} will begin at {}: {list} {id} has port {}",
                            ports.len(),
                            begin.name(),
                            to.join(", ")
                        )
                    }
                };
                self.step(&text, *loc);
            }
            TraceEvent::Enqueued { port, queue, why: None } => {
                self.line(0, &format!("the copy enters queue {queue} of port {port}"), Loc(0));
            }
            TraceEvent::Enqueued { port, queue, why: Some(why) } => {
                self.line(0, &format!("the copy does not enter queue {queue} of port {port}: {why}"), Loc(0));
            }
            TraceEvent::CopyBegins { begin, length, queue } => {
                let mut text = format!("a copy of {length} bytes begins at {}", begin.name());
                if let Some((port, queued, now_us)) = queue {
                    let waited = queued.value(Intrinsic::QueueTime, *now_us);
                    text += &format!(
                        ": it leaves queue {} of port {port} after {waited} us; {} packets were there when it came, {} are now",
                        queued.queue, queued.enqueue_depth, queued.dequeue_depth
                    );
                }
                self.line(0, &text, Loc(0));
            }
            TraceEvent::Truncated { length, loc } => {
                self.step(&format!("truncated to {length} bytes"), *loc);
            }
            TraceEvent::Ends { waiting } => {
                let text =
                    format!("the trace ends here; packets that still wait in output queues: {waiting}");
                self.line(0, &text, Loc(0));
            }
            TraceEvent::LeftOut { steps } => {
                let are =
                    if *steps == 1 { "1 further step is" } else { &format!("{steps} further steps are") };
                self.line(0, &format!("{are} left out"), Loc(0));
            }
            TraceEvent::CopiesDropped { why } => self.line(0, &format!("no more copies: {why}"), Loc(0)),
            TraceEvent::Done => self.line(0, "done: its copies continue", Loc(0)),
            TraceEvent::Reject { code, loc } => {
                let error = code_name(p, code);
                self.step(&format!("reject: {error}"), *loc);
            }
            TraceEvent::Dropped { reason, loc, causes } => {
                self.line(0, &format!("dropped: {}", reason.text(p)), *loc);
                self.causes(causes);
            }
            TraceEvent::Sent { port, length, causes } => {
                self.line(0, &format!("{length} bytes leave by port {port}"), Loc(0));
                self.causes(causes);
            }
        }
    }

    /// Explains why a header's fields are meaningless.
    fn absent(&self, absent: &Absent) -> String {
        let header = &self.p.headers[absent.header.index()].name;
        match absent.since {
            Since::Ever => format!("{header} was never extracted"),
            Since::TheCopyBegan => format!("{header} is invalid"),
            Since::Here(loc) => match &self.p.locs[loc.index()] {
                place if place.line == 0 => format!("{header} was made invalid"),
                place => {
                    format!("{header} was made invalid at {}:{}:{}", place.file, place.line, place.column)
                }
            },
        }
    }

    fn apply(
        &mut self,
        id: TableId,
        keys: &[BigUint],
        absent: &[Option<Absent>],
        matched: &Matched,
        loc: Loc,
    ) {
        let table = &self.p.tables[id.index()];
        self.step(&format!("table {}", table.name), loc);
        for ((key, value), absent) in table.keys.iter().zip(keys).zip(absent) {
            let (kind, value) = (key.kind.name(), value_text(value, key.width));
            let why = absent.as_ref().map_or(String::new(), |absent| format!(": {}", self.absent(absent)));
            self.detail(&format!("key {} ({kind}) = {value}{why}", key.name));
        }
        match matched {
            Matched::Hit { handle, entry, reason } => {
                let text = self.entry(id, *handle, entry);
                let reason = reason.map(hit_reason_text).unwrap_or_default();
                self.detail(&format!("hit entry {:#x}: {text}{reason}", handle.0));
            }
            Matched::Miss { nearest } => {
                let why = if nearest.is_empty() && !table.keys.is_empty() { ": no entries" } else { "" };
                self.detail(&format!("miss, so the default action runs{why}"));
                for (near, entry) in nearest {
                    let text = self.entry(id, near.handle, entry);
                    self.detail(&format!("nearest: entry {:#x}: {text}", near.handle.0));
                    for (key, difference) in table.keys.iter().zip(&near.fields) {
                        if let Some(difference) = difference {
                            let text = difference_text(key, difference);
                            self.detail(&format!("  but {text}"));
                        }
                    }
                }
            }
        }
    }

    fn entry(&self, table: TableId, handle: EntryHandle, entry: &Entry) -> String {
        let table = &self.p.tables[table.index()];
        let key: Vec<_> = table.keys.iter().zip(&entry.key).map(|(k, m)| match_text(m, k.width)).collect();
        let key = key.join(", ");
        // The program's entries come first, so the handle of one is its index. Whether a larger or a smaller priority
        // wins is the program's choice, and only its text shows what it wrote.
        if let Some(declared) = table.entries.get(handle.0 as usize) {
            let place = &self.p.locs[declared.loc.index()];
            return match place.line {
                0 => format!("{key}, in the program"),
                line => format!("{key}, in the program at {}:{line}:{}", place.file, place.column),
            };
        }
        let ordered = table.keys.iter().any(|k| !matches!(k.kind, MatchKind::Exact | MatchKind::Lpm));
        let priority =
            if ordered { format!(", priority {} (smaller wins)", entry.priority) } else { String::new() };
        key + &priority
    }

    fn causes(&mut self, causes: &[Cause]) {
        for cause in causes {
            let what = self.field(cause.field, &cause.value);
            let (who, loc) = match cause.written {
                None => match &cause.absent {
                    Some(absent) => (self.absent(absent), Loc(0)),
                    None if cause.of_copy => ("which it had when the copy began".to_string(), Loc(0)),
                    None => ("which the program never wrote".to_string(), Loc(0)),
                },
                Some(written) => match written.by {
                    None => ("written here".to_string(), written.loc),
                    Some((action, table)) => {
                        let (action, table) = (
                            &self.p.actions[action.index()].control_name,
                            &self.p.tables[table.index()].name,
                        );
                        (format!("written by action {action} of table {table}"), written.loc)
                    }
                },
            };
            self.line(1, &format!("because {what}, {who}"), loc);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_traces_lose_their_middle() {
        let lines = |n: usize| (0..n).map(|i| format!("{i}\n")).collect::<String>();
        assert_eq!(shortened(lines(400), 400), lines(400));
        let long = shortened(lines(410), 400);
        assert!(long.contains("\n199\n… 10 lines left out …\n210\n") && long.ends_with("409\n"), "{long}");
    }
}
