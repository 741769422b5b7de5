//! Traces in the wording of bmv2's log, which scripts search. Information that only bmv2 has (its names for conditions
//! and checksums) is missing; field values, which bmv2 does not print, are included.

use num_bigint::BigUint;
use p4jet_ir::{
    ActionId, BlockId, BlockKind, FieldId, FieldKind, Key, Loc, MatchKind, PipelineHalf, Program,
    ReplicaList, TableId,
};
use p4jet_tables::{Entry, EntryHandle, KeyMatch};

use crate::render::value_text;
use crate::trace::{Matched, Trace, TraceEvent};
use crate::wording::{Wording, code_name, field_name, is_nameless};

/// The level of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Single steps: actions, assignments, conditions.
    Trace,
    /// The main events of the packet.
    Debug,
    /// Messages of the program (`log_msg`).
    Info,
    /// Packets that the parser rejects.
    Error,
}

/// The role of a block in bmv2.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Parser,
    Ingress,
    /// The block after ingress that decides where a packet goes.
    Manager,
    Egress,
    Deparser,
    /// Checksums, and what else the architecture adds.
    Other,
}

/// Returns the role of each block. The architecture's own blocks are at the end of ingress and after the control of
/// egress.
fn roles(p: &Program) -> Vec<Role> {
    let mut roles = vec![Role::Other; p.blocks.len()];
    let kind = |block: &BlockId| p.blocks[block.index()].kind;
    for block in p.ingress.iter().chain(&p.egress) {
        match kind(block) {
            BlockKind::Parser => roles[block.index()] = Role::Parser,
            BlockKind::Deparser => roles[block.index()] = Role::Deparser,
            BlockKind::Control => {}
        }
    }
    let controls = p.ingress.iter().filter(|block| kind(block) == BlockKind::Control);
    let mut controls = controls.rev();
    for role in [Role::Manager, Role::Ingress] {
        if let Some(block) = controls.next() {
            roles[block.index()] = role;
        }
    }
    let before_deparser = p.egress.iter().take_while(|block| kind(block) != BlockKind::Deparser);
    let controls: Vec<_> = before_deparser.filter(|block| kind(block) == BlockKind::Control).collect();
    if let Some(block) = controls.get(controls.len().saturating_sub(3)) {
        roles[block.index()] = Role::Egress;
    }
    roles
}

impl Trace {
    /// Writes the trace line by line as bmv2 does, without time and packet number; like there, one call may pass several
    /// lines. `said` holds the messages of the program's `log_msg` calls; `misses_port` is true if the switch lacks the port by
    /// which the packet leaves.
    pub fn write_bmv2_lines(
        &self,
        program: &Program,
        said: &[String],
        misses_port: bool,
        write: &mut dyn FnMut(LogLevel, &str),
    ) {
        let mut writer = Writer {
            p: program,
            words: Wording::new(program),
            roles: roles(program),
            said: said.iter(),
            misses_port,
            write,
            block: None,
            state: None,
            half: PipelineHalf::Ingress,
            entry: None,
        };
        self.events.iter().for_each(|event| writer.event(event));
        // Failed assertions produce messages too.
        for line in writer.said.by_ref() {
            (writer.write)(LogLevel::Info, line);
        }
    }
}

struct Writer<'a, 't> {
    p: &'a Program,
    words: Wording<'a>,
    roles: Vec<Role>,
    said: std::slice::Iter<'a, String>,
    misses_port: bool,
    write: &'t mut dyn FnMut(LogLevel, &str),
    block: Option<BlockId>,
    /// The parser state, and true once it has selected the next one.
    state: Option<(String, bool)>,
    half: PipelineHalf,
    /// The matching entry; its lines end with its action.
    entry: Option<String>,
}

/// Returns the value's bytes as hexadecimal digits.
fn hex(value: &BigUint, width: u32) -> String {
    format!("{value:0>digits$x}", digits = 2 * width.div_ceil(8) as usize)
}

/// Returns a name without the parameter that contains the field, as in bmv2: `ethernet` for `hdr.ethernet`.
fn header_name(name: &str) -> &str {
    name.split_once('.').map_or(name, |(_, name)| name)
}

fn match_text(m: &KeyMatch, key: &Key) -> String {
    let hex = |value: &BigUint| hex(value, key.width);
    let (kind, text) = match m {
        KeyMatch::Exact(value) => ("EXACT", hex(value)),
        KeyMatch::Lpm { value, prefix_len } => ("LPM", format!("{}/{prefix_len}", hex(value))),
        KeyMatch::Ternary { value, mask } => ("TERNARY", format!("{} &&& {}", hex(value), hex(mask))),
        KeyMatch::Range { lo, hi } => ("RANGE", format!("{} -> {}", hex(lo), hex(hi))),
        // bmv2 treats optional keys as ternary.
        KeyMatch::Optional(value) => {
            let ones = (BigUint::from(1u32) << key.width) - 1u32;
            let (value, mask) = value.clone().map_or_else(Default::default, |value| (value, ones));
            ("TERNARY", format!("{} &&& {}", hex(&value), hex(&mask)))
        }
    };
    format!("{kind:<10}{text}")
}

impl Writer<'_, '_> {
    fn trace(&mut self, text: &str) {
        (self.write)(LogLevel::Trace, text);
    }

    fn debug(&mut self, text: &str) {
        (self.write)(LogLevel::Debug, text);
    }

    fn role(&self) -> Role {
        self.block.map_or(Role::Other, |block| self.roles[block.index()])
    }

    fn place(&self, loc: Loc) -> String {
        let place = &self.p.locs[loc.index()];
        if place.line == 0 { String::new() } else { format!("{}({}) ", place.file, place.line) }
    }

    fn end_state(&mut self) {
        if let Some((name, false)) = self.state.take() {
            self.debug(&format!("Parser state '{name}' has no switch, going to default next state"));
        }
    }

    fn end_block(&mut self) {
        match self.role() {
            Role::Parser => {
                self.end_state();
                self.debug("Parser 'parser': end");
            }
            Role::Ingress => self.debug("Pipeline 'ingress': end"),
            Role::Egress => self.debug("Pipeline 'egress': end"),
            Role::Deparser => self.debug("Deparser 'deparser': end"),
            Role::Manager | Role::Other => {}
        }
        self.block = None;
    }

    fn begin_block(&mut self, block: BlockId) {
        self.end_block();
        self.block = Some(block);
        if self.p.egress.contains(&block) {
            self.half = PipelineHalf::Egress;
        }
        match self.role() {
            Role::Parser => self.debug("Parser 'parser': start"),
            Role::Ingress => self.debug("Pipeline 'ingress': start"),
            Role::Egress => self.debug("Pipeline 'egress': start"),
            Role::Deparser => self.debug("Deparser 'deparser': start"),
            Role::Manager | Role::Other => {}
        }
    }

    fn reject(&mut self, error: &str) {
        self.state = None;
        (self.write)(LogLevel::Error, &format!("Exception while parsing: {error}"));
    }

    fn event(&mut self, event: &TraceEvent) {
        let p = self.p;
        self.words.follow(event);
        match event {
            TraceEvent::Arrived { port, .. } => {
                self.debug(&format!("Processing packet received on port {port}"));
            }
            TraceEvent::CopyBegins { begin, .. } => self.half = *begin,
            TraceEvent::Block { block } => self.begin_block(*block),
            TraceEvent::Node { label } if self.role() == Role::Parser => {
                self.end_state();
                self.debug(&format!("Parser 'parser' entering state '{label}'"));
                self.state = Some((label.clone(), false));
            }
            TraceEvent::Extract { header, .. } => {
                let header = &p.headers[header.index()];
                let varbit = header.fields.iter().any(|field| field.varbit_length.is_some());
                let kind = if varbit { "variable-sized " } else { "" };
                self.debug(&format!("Extracting {kind}header '{}'", header_name(&header.name)));
            }
            TraceEvent::Advance { bits, .. } => self.debug(&format!("Advancing by {} bytes", bits / 8u32)),
            TraceEvent::TooShort { .. } => self.reject(&code_name(p, &p.error_packet_too_short.into())),
            TraceEvent::VarbitTooLong { .. } => self.reject(&code_name(p, &p.error_header_too_short.into())),
            TraceEvent::Reject { code, .. } => self.reject(&code_name(p, code)),
            TraceEvent::Switch { selector, value, .. } if self.role() == Role::Parser => {
                if let Some((name, selected @ false)) = &mut self.state {
                    *selected = true;
                    let text = format!("Parser state '{name}': key is {}", hex(value, selector.width(p)));
                    self.debug(&text);
                }
            }
            TraceEvent::Branch { fields, .. } if self.role() == Role::Parser => {
                // The branches of a `select` whose labels are more than plain values.
                if let Some((_, selected)) = self.state.as_mut().filter(|_| !fields.is_empty()) {
                    *selected = true;
                }
            }
            TraceEvent::Branch { condition, fields, held, loc } => {
                let is_the_programs = matches!(self.role(), Role::Ingress | Role::Egress);
                if is_the_programs && !fields.is_empty() && self.words.has_words_for(condition) {
                    let (place, condition) = (self.place(*loc), self.words.expr(condition));
                    self.trace(&format!("{place}Condition \"{condition}\" is {held}"));
                }
            }
            TraceEvent::Set { field, new, loc, .. } => self.set(*field, new, *loc),
            TraceEvent::Apply { table, keys, matched, .. } => self.apply(*table, keys, matched),
            TraceEvent::Selected { group: Some(group), member: Some(member), .. } => {
                self.debug(&format!("Choosing member {member} from group {group}"));
            }
            TraceEvent::Selected { group: Some(_), member: None, .. } => {
                (self.write)(LogLevel::Error, "Lookup yielded empty group");
            }
            TraceEvent::Action { action, data } => self.action(*action, data),
            TraceEvent::Extern { function, instance, args, text, loc, .. } => {
                self.call(function, instance.map(|i| p.instances[i.index()].name.as_str()), args, text, *loc);
            }
            TraceEvent::Emit { header, valid: true, .. } => {
                let name = header_name(&p.headers[header.index()].name);
                self.debug(&format!("Deparsing header '{name}'"));
            }
            TraceEvent::Copied { begin, to, .. } => self.copied(*begin, to.as_ref()),
            TraceEvent::Ends { waiting } => {
                self.debug(&format!("No more steps: packets in output queues: {waiting}"));
            }
            TraceEvent::LeftOut { steps } => {
                self.debug(&format!("{steps} more steps, which are not logged"));
            }
            TraceEvent::CopiesDropped { why } => self.debug(&format!("No more copies: {why}")),
            TraceEvent::Dropped { reason, causes, .. } => {
                let (role, half) = (self.role(), self.half);
                self.end_block();
                if role == Role::Manager
                    && let Some(cause) = causes.first()
                {
                    self.debug(&format!("Egress port is {}", cause.value));
                }
                match half {
                    _ if causes.is_empty() => {
                        self.debug(&format!("Dropping packet: {}", reason.text(p)));
                    }
                    PipelineHalf::Ingress => self.debug("Dropping packet at the end of ingress"),
                    PipelineHalf::Egress => self.debug("Dropping packet at the end of egress"),
                }
            }
            TraceEvent::Done => self.end_block(),
            TraceEvent::Sent { port, length, .. } => {
                self.end_block();
                let missing = if self.misses_port { ", which does not exist" } else { "" };
                self.debug(&format!("Transmitting packet of size {length} out of port {port}{missing}"));
            }
            TraceEvent::Node { .. }
            | TraceEvent::Switch { .. }
            | TraceEvent::Lookahead { .. }
            | TraceEvent::Selected { .. }
            | TraceEvent::ActionEnd { .. }
            | TraceEvent::Emit { .. }
            | TraceEvent::Deparsed { .. }
            | TraceEvent::Enqueued { .. }
            | TraceEvent::Truncated { .. } => {}
        }
    }

    fn set(&mut self, field: FieldId, new: &BigUint, loc: Loc) {
        let p = self.p;
        let is_error = p.blocks.iter().any(|block| block.error_field == Some(field));
        match self.role() {
            Role::Manager if Some(field) == p.egress_port => self.debug(&format!("Egress port is {new}")),
            Role::Parser if !is_error && !is_nameless(p, field) => {
                let name = field_name(p, field);
                self.debug(&format!("Parser set: setting field '{name}' to {new}"));
            }
            Role::Ingress | Role::Egress => {
                let place = self.place(loc);
                let text = match p.fields[field.index()].kind {
                    FieldKind::Valid(header) => {
                        let name = &p.headers[header.index()].name;
                        let call = if *new == BigUint::ZERO { "setInvalid" } else { "setValid" };
                        format!("{place}Primitive {name}.{call}()")
                    }
                    _ if is_nameless(p, field) => return,
                    _ => {
                        let value = value_text(new, p.width(field));
                        format!("{place}Primitive {} = {value}", field_name(p, field))
                    }
                };
                self.trace(&text);
            }
            _ => {}
        }
    }

    fn apply(&mut self, id: TableId, keys: &[BigUint], matched: &Matched) {
        let table = &self.p.tables[id.index()];
        self.trace(&format!("Applying table '{}'", table.name));
        let width = table.keys.iter().map(|key| key.name.len()).max().unwrap_or(0).max(20);
        let line = |key: &Key, text: String| format!("* {:<width$}: {text}\n", key.name);
        let mut text = "Looking up key:\n".to_string();
        for (key, value) in table.keys.iter().zip(keys) {
            text += &line(key, hex(value, key.width));
        }
        self.debug(&text);
        match matched {
            Matched::Hit { handle: EntryHandle(handle), entry: Entry { key, priority, .. }, .. } => {
                self.debug(&format!("Table '{}': hit with handle {handle}", table.name));
                let mut text = format!("Dumping entry {handle}\nMatch key:\n");
                for (key, m) in table.keys.iter().zip(key) {
                    text += &line(key, match_text(m, key));
                }
                if table.keys.iter().any(|key| !matches!(key.kind, MatchKind::Exact | MatchKind::Lpm)) {
                    text += &format!("Priority: {priority}\n");
                }
                self.entry = Some(text);
            }
            Matched::Miss { .. } => self.debug(&format!("Table '{}': miss", table.name)),
        }
    }

    fn action(&mut self, id: ActionId, data: &[BigUint]) {
        let name = &self.p.actions[id.index()].control_name;
        let data: String = data.iter().map(|value| format!("{value:x},")).collect();
        if let Some(entry) = self.entry.take() {
            self.debug(&format!("{entry}Action entry: {name} - {data}\n"));
        }
        self.debug(&format!("Action entry is {name} - {data}"));
        self.trace(&format!("Action {name}"));
    }

    fn call(
        &mut self,
        function: &str,
        instance: Option<&str>,
        args: &[(BigUint, u32)],
        text: &[String],
        loc: Loc,
    ) {
        if !matches!(self.role(), Role::Ingress | Role::Egress) && function != "log_msg" {
            return;
        }
        let texts = text.iter().map(|text| format!("{text:?}"));
        let args = args.iter().map(|(value, width)| value_text(value, *width));
        let args: Vec<String> = texts.chain(args).collect();
        let name = match (instance, function.split_once('.')) {
            (Some(instance), Some((_, method))) => format!("{instance}.{method}"),
            _ => function.to_string(),
        };
        let place = self.place(loc);
        self.trace(&format!("{place}Primitive {name}({})", args.join(", ")));
        if function == "log_msg"
            && let Some(line) = self.said.next()
        {
            (self.write)(LogLevel::Info, line);
        }
    }

    fn copied(&mut self, begin: PipelineHalf, to: Option<&(ReplicaList, BigUint, Vec<u32>)>) {
        let half = self.half;
        match (to, begin) {
            // It continues in its output queue.
            (None, PipelineHalf::Egress) => {}
            (None, PipelineHalf::Ingress) if half == PipelineHalf::Ingress => {
                self.debug("Resubmitting packet")
            }
            (None, PipelineHalf::Ingress) => self.debug("Recirculating packet"),
            (Some((ReplicaList::Session, _, ports)), _) => {
                let half = half.name();
                self.debug(&format!("Cloning packet at {half}"));
                for port in ports {
                    self.debug(&format!("Cloning packet to egress port {port}"));
                }
            }
            (Some((ReplicaList::Group, _, ports)), _) => {
                self.debug("Multicast requested for packet");
                for port in ports {
                    self.debug(&format!("Replicating packet on port {port}"));
                }
            }
        }
    }
}
