//! The verifier: the invariants on which every executor may rely.
//!
//! [`verify`] accepts a program if all of the following holds.
//!
//! Program
//! * Every index (field, header, action, table, instance, block, node, place, drop reason, error code) is in range;
//!   `locs` has its dummy entry 0 (line 0).
//! * Names of fields, headers, actions, tables, instances, blocks, errors and drop reasons are unique among their kind.
//! * Widths are 1 to [`WIDTH_MAX`], registers' too. Expressions are at most [`EXPR_DEPTH_MAX`] deep.
//! * A field of kind `Header(h)` is listed in `h` exactly once and only there; one of kind `Valid(h)` has width 1 and is
//!   `h`'s validity. One of kind `ActionData(a)` is a parameter of `a`, exactly once. The converse holds too.
//! * The fields of a header that are not varbits have a whole number of bytes in total.
//! * The length field of a varbit is wide enough for the varbit's width.
//! * An intrinsic has at most one field. `ingress` and `egress` together name each block at most once.
//!
//! Tables
//! * A table has at least one action; no two have the same control-plane name. Actions of entries are not default-only.
//!   Actions of entries and the default action have one value per parameter, which fits it.
//! * Each entry has one match per key, of the key's kind and within its width: lpm values are 0 beyond the prefix, ternary
//!   values are 0 outside the mask, and ranges are not empty. There are at most `size` entries. In a table with const
//!   entries every entry is const.
//! * `direct` lists direct counters of this table, each once.
//! * `profile` is an action profile. All tables of a profile list the same actions; the program declares no entries for
//!   them.
//!
//! Code
//! * A graph has at least one node and all its targets exist.
//! * Operands have the widths that [`BinaryOp`] and the other expressions require; constants fit their width; slices are
//!   inside their operand, and extensions are not narrower than theirs.
//! * `Set` has equal widths; conditions have width 1; switch values fit and differ; `Apply` has one expression per key, of
//!   the key's width; `hit` has width 1, `action_run` 32, and they differ; error codes have width 32.
//! * `Copy`, `Truncate` and `Done` occur only in controls, `Egress` only in controls of `ingress`. The fields that a copy
//!   sets and those that its replicas receive are different; values have the fields' widths; none is action data. Copies
//!   wait in queues only before egress.
//! * An `Apply` has a selector if and only if the table's profile has groups; `entry` has width 32.
//! * `Extract`, `ExtractElement`, `Advance`, `Lookahead` and `Reject` occur only in parsers that have an error field (width
//!   32); `Emit` only in deparsers. Actions contain none of these and do not apply tables, so nothing recurses. `Exit`
//!   occurs only in actions.
//! * `Extract` has a varbit length if and only if the header has a varbit; a header has at most one. The same holds for
//!   `ExtractElement` and each of its headers, whose fields have the same widths.
//! * A column has at least one field; its fields have one width and none is action data. Of two columns that share fields,
//!   including those of header columns, one is a part of the other ([`crate::columns`]).
//! * A node of a block neither reads nor writes action data; an action accesses only its own.
//! * Atomic parts ([`crate::atomic`]) start and end equally often on every path from the start to the end of the block or
//!   action; a drop or reject may leave them.
//! * An extern call has as many arguments and results as its function; the results are different fields. Functions accept
//!   arguments of any width.
//!
//! * Every cycle is bounded, progressing or counted, as [`crate::turns`] defines. `turns` is a temporary of width 32 that no
//!   statement reads or writes, except that every copy sets it to [`Program::turns_of_copy`]. `Turn` requires it.
//!
//! Not checked: that the packet leaves, and that a temporary is written before it is read (it is 0 until then).

use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::text::EXPR_DEPTH_MAX;
use crate::*;

/// Maximum width of a field or expression in bits. It is generous: the widest in use are whole header stacks of a few
/// hundred bytes.
pub const WIDTH_MAX: u32 = 1 << 16;

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyError {
    /// The place: `block ingress, n3, statement 2 (router.p4:41:9)`.
    pub place: String,
    /// The violated invariant.
    pub message: String,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl std::error::Error for VerifyError {}

/// Checks every invariant listed above and reports all that do not hold.
pub fn verify(program: &Program) -> Result<(), Vec<VerifyError>> {
    let mut v = Verifier { p: program, errors: Vec::new(), place: String::new() };
    v.program();
    if v.errors.is_empty() { Ok(()) } else { Err(v.errors) }
}

/// The owner of a piece of code.
#[derive(Clone, Copy)]
enum Owner<'a> {
    Action(ActionId),
    Block(&'a Block),
}

struct Verifier<'a> {
    p: &'a Program,
    errors: Vec<VerifyError>,
    place: String,
}

impl Verifier<'_> {
    fn error(&mut self, message: impl Into<String>) {
        self.errors.push(VerifyError { place: self.place.clone(), message: message.into() });
    }

    fn check(&mut self, holds: bool, message: impl FnOnce() -> String) -> bool {
        if !holds {
            self.error(message());
        }
        holds
    }

    fn in_range(&mut self, index: u32, len: usize, what: &str) -> bool {
        self.check((index as usize) < len, || format!("{what} {index} of {len}"))
    }

    fn field(&mut self, f: FieldId) -> Option<&Field> {
        let p = self.p;
        self.in_range(f.0, p.fields.len(), "field").then(|| &p.fields[f.index()])
    }

    /// Returns the name of a field that exists.
    fn name(&self, f: FieldId) -> &str {
        &self.p.fields[f.index()].name
    }

    fn width_is(&mut self, f: FieldId, width: u32, what: &str) {
        if let Some(found) = self.field(f).map(|f| f.width) {
            self.check(found == width, || format!("{what} has width {found}, expected {width}"));
        }
    }

    fn loc(&mut self, loc: Loc) {
        self.in_range(loc.0, self.p.locs.len().max(1), "place");
    }

    fn width(&mut self, width: u32, what: &str) -> bool {
        self.check((1..=WIDTH_MAX).contains(&width), || {
            format!("{what} has width {width}, expected 1 to {WIDTH_MAX}")
        })
    }

    fn unique<'n>(&mut self, what: &str, names: impl Iterator<Item = &'n String>) {
        let mut seen = HashSet::new();
        for name in names {
            if !seen.insert(name) {
                self.error(format!("two {what} are named `{name}`"));
            }
        }
    }

    fn program(&mut self) {
        let p = self.p;
        self.place = "program".to_string();
        self.check(p.locs.first().is_some_and(|l| *l == SourceLoc::default()), || {
            "place 0 is not the dummy".to_string()
        });
        self.unique("fields", p.fields.iter().map(|x| &x.name));
        self.unique("headers", p.headers.iter().map(|x| &x.name));
        self.unique("actions", p.actions.iter().map(|x| &x.name));
        self.unique("tables", p.tables.iter().map(|x| &x.name));
        self.unique("instances", p.instances.iter().map(|x| &x.name));
        self.unique("blocks", p.blocks.iter().map(|x| &x.name));
        self.unique("errors", p.errors.iter());
        self.unique("drop reasons", p.drop_reasons.iter());
        if p.blocks.iter().any(|b| b.error_field.is_some()) {
            self.in_range(p.error_packet_too_short, p.errors.len(), "error code");
            self.in_range(p.error_header_too_short, p.errors.len(), "error code");
            self.in_range(p.error_invalid_argument, p.errors.len(), "error code");
        }
        let mut seen = HashSet::new();
        for b in p.ingress.iter().chain(&p.egress) {
            self.in_range(b.0, p.blocks.len(), "block");
            self.check(seen.insert(*b), || format!("block {} runs twice", b.0));
        }
        if let Some(f) = p.egress_port {
            self.field(f);
        }
        if let Some(f) = p.drop_place {
            self.field(f);
            self.check(p.fields.get(f.index()).is_none_or(|f| f.width == 32), || {
                "the drop place has 32 bits".to_string()
            });
        }
        if let Some(f) = p.turns {
            self.width_is(f, 32, "the field of turns taken");
            let temporary = p.fields.get(f.index()).is_none_or(|f| f.kind == FieldKind::Temporary);
            self.check(temporary, || "turns are not counted in a temporary".to_string());
        }
        let mut seen = HashSet::new();
        for (intrinsic, f) in &p.intrinsics {
            self.field(*f);
            self.check(seen.insert(*intrinsic), || format!("intrinsic {} is given twice", intrinsic.name()));
        }
        self.fields();
        self.headers();
        self.instances();
        let sound = self.errors.is_empty();
        for t in &p.tables {
            self.place = format!("table {}", t.name);
            self.table(t);
        }
        for (index, a) in p.actions.iter().enumerate() {
            self.place = format!("action {}", a.name);
            self.loc(a.loc);
            for f in &a.params {
                if let Some(field) = self.field(*f)
                    && field.kind != FieldKind::ActionData(ActionId(index as u32))
                {
                    let message = format!("parameter `{}` is not action data of this action", field.name);
                    self.error(message);
                }
            }
            let place = self.place.clone();
            self.cfg(&place, &a.body, Owner::Action(ActionId(index as u32)));
        }
        for b in &p.blocks {
            self.place = format!("block {}", b.name);
            if let Some(f) = b.error_field {
                self.width_is(f, 32, "the error field");
            }
            let place = self.place.clone();
            self.cfg(&place, &b.body, Owner::Block(b));
        }
        // This check requires correct fields and headers.
        if sound
            && self.errors.is_empty()
            && let Err(shared) = crate::columns::Columns::of(p)
        {
            self.place = "program".to_string();
            let name = self.name(shared).to_string();
            self.error(format!("two columns share `{name}`, and neither is a part of the other"));
        }
        // This check requires correct targets.
        if self.errors.is_empty() {
            self.loops();
        }
    }

    /// Checks that every cycle is bounded.
    fn loops(&mut self) {
        let p = self.p;
        for crate::turns::Uncounted { graph, nodes, weight } in crate::turns::uncounted(p) {
            let (what, name) = match graph {
                CfgId::Action(action) => ("action", &p.actions[action.index()].name),
                CfgId::Block(block) => ("block", &p.blocks[block.index()].name),
            };
            let node = |id: &NodeId| &p.cfg(graph).nodes[id.index()];
            let first = nodes.first().copied().unwrap_or(NodeId(0));
            let at = self.at(node(&first).terminator_loc);
            self.place = format!("{what} {name}, n{}{at}", first.index());
            let counted = nodes.iter().any(|n| matches!(node(n).terminator, Terminator::Turn { .. }));
            self.error(match counted && weight > 1 {
                true => format!("a turn of this loop must count as {weight} or more"),
                false => "a loop that is neither bounded nor counted by turns".to_string(),
            });
        }
    }

    /// Checks a column, and returns the width of its fields.
    fn column(&mut self, column: &[FieldId], owner: Owner) -> Option<u32> {
        let mut width = None;
        for f in column {
            let found = self.access(*f, owner)?;
            let plain = !matches!(self.p.fields[f.index()].kind, FieldKind::ActionData(_));
            let same = *width.get_or_insert(found) == found;
            if !self.check(plain && same, || "a column of fields of different kinds".to_string()) {
                return None;
            }
        }
        self.check(width.is_some(), || "a column without fields".to_string());
        width
    }

    fn extracted(&mut self, header: HeaderId, is_given: bool) {
        let p = self.p;
        if self.in_range(header.0, p.headers.len(), "header") {
            let fields = &p.headers[header.index()].fields;
            let varbits = fields.iter().filter(|f| f.varbit_length.is_some()).count();
            let has = varbits > 0;
            self.check(varbits <= 1, || format!("{varbits} varbits, expected at most one"));
            self.check(has || !is_given, || "a varbit length for a header without varbit".to_string());
            self.check(is_given || !has, || "no varbit length for a header with a varbit".to_string());
        }
    }

    fn fields(&mut self) {
        let p = self.p;
        let mut in_headers: HashMap<(FieldId, HeaderId), u32> = HashMap::new();
        for (index, h) in p.headers.iter().enumerate() {
            for f in &h.fields {
                *in_headers.entry((f.field, HeaderId(index as u32))).or_default() += 1;
            }
        }
        let mut in_actions: HashMap<(FieldId, ActionId), u32> = HashMap::new();
        for (index, a) in p.actions.iter().enumerate() {
            for f in &a.params {
                *in_actions.entry((*f, ActionId(index as u32))).or_default() += 1;
            }
        }
        for (index, f) in p.fields.iter().enumerate() {
            let id = FieldId(index as u32);
            self.place = format!("field {}", f.name);
            self.width(f.width, "it");
            match f.kind {
                FieldKind::Header(h) => {
                    let times = in_headers.get(&(id, h)).copied().unwrap_or(0);
                    self.check(times == 1, || format!("its header lists it {times} times, expected once"));
                }
                FieldKind::Valid(h) => {
                    self.check(f.width == 1, || format!("a validity bit of width {}", f.width));
                    if self.in_range(h.0, p.headers.len(), "header") {
                        self.check(p.headers[h.index()].valid == id, || {
                            "not the validity bit of its header".to_string()
                        });
                    }
                }
                FieldKind::ActionData(a) => {
                    let times = in_actions.get(&(id, a)).copied().unwrap_or(0);
                    self.check(times == 1, || format!("its action lists it {times} times, expected once"));
                }
                FieldKind::Metadata | FieldKind::Temporary => {}
            }
        }
    }

    fn headers(&mut self) {
        for (index, h) in self.p.headers.iter().enumerate() {
            let id = HeaderId(index as u32);
            self.place = format!("header {}", h.name);
            if let Some(kind) = self.field(h.valid).map(|f| f.kind) {
                self.check(kind == FieldKind::Valid(id), || "its validity field is not one".to_string());
            }
            for f in &h.fields {
                let Some((kind, width)) = self.field(f.field).map(|f| (f.kind, f.width)) else { continue };
                self.check(kind == FieldKind::Header(id), || {
                    format!("field {} is not of this header", f.field.0)
                });
                if let Some(length) = f.varbit_length
                    && let Some(length_width) = self.field(length).map(|f| f.width)
                {
                    self.check(length_width >= 32 || width < 1 << length_width, || {
                        format!("a length field of width {length_width} for a varbit of {width} bits")
                    });
                }
            }
            let fixed: u64 = h
                .fields
                .iter()
                .filter(|f| f.varbit_length.is_none())
                .filter_map(|f| self.p.fields.get(f.field.index()))
                .map(|f| u64::from(f.width))
                .sum();
            self.check(fixed.is_multiple_of(8), || format!("{fixed} bits, expected a multiple of 8"));
        }
    }

    fn instances(&mut self) {
        let p = self.p;
        for (index, i) in p.instances.iter().enumerate() {
            self.place = format!("instance {}", i.name);
            self.loc(i.loc);
            match i.kind {
                InstanceKind::Register { width, ref initial, .. } => {
                    self.width(width, "a cell");
                    let fits = initial.bits() <= u64::from(width);
                    self.check(fits, || format!("initial value {initial} beyond {width} bits"));
                }
                InstanceKind::Counter { .. } => {}
                InstanceKind::DirectCounter { table, .. } => {
                    if self.in_range(table.0, p.tables.len(), "table") {
                        let id = InstanceId(index as u32);
                        let times = p.tables[table.index()].direct.iter().filter(|d| **d == id).count();
                        self.check(times <= 1, || format!("its table lists it {times} times"));
                    }
                }
                InstanceKind::Meter { unit, .. } => {
                    self.check(unit != CounterUnit::Both, || "a meter of both packets and bytes".to_string());
                }
                InstanceKind::DirectMeter { unit, table } => {
                    self.check(unit != CounterUnit::Both, || "a meter of both packets and bytes".to_string());
                    self.in_range(table.0, p.tables.len(), "table");
                }
                InstanceKind::ActionProfile { .. } => {
                    let id = InstanceId(index as u32);
                    let users: Vec<_> = p.tables.iter().filter(|t| t.profile == Some(id)).collect();
                    let same = users.windows(2).all(|pair| pair[0].actions == pair[1].actions);
                    self.check(same, || "its tables list different actions".to_string());
                }
                InstanceKind::Digest { ref fields } => {
                    for (name, width) in fields {
                        self.width(*width, &format!("`{name}`"));
                    }
                }
            }
        }
    }

    fn table(&mut self, t: &Table) {
        let p = self.p;
        self.loc(t.loc);
        for k in &t.keys {
            self.width(k.width, &format!("key `{}`", k.name));
        }
        self.check(!t.actions.is_empty(), || "no actions".to_string());
        for a in &t.actions {
            self.in_range(a.action.0, p.actions.len(), "action");
        }
        let listed = t.actions.iter().filter_map(|a| p.actions.get(a.action.index()));
        self.unique("listed actions", listed.map(|a| &a.control_name));
        self.action_call(t, &t.default, "the default action");
        self.check(t.entries.len() <= t.size as usize, || {
            format!("{} entries, but the size is {}", t.entries.len(), t.size)
        });
        if let Some(profile) = t.profile
            && self.in_range(profile.0, p.instances.len(), "instance")
        {
            let instance = &p.instances[profile.index()];
            let right = matches!(instance.kind, InstanceKind::ActionProfile { .. });
            self.check(right, || format!("`{}` is not an action profile", instance.name));
            self.check(t.entries.is_empty(), || "entries in a table with an action profile".to_string());
        }
        for d in &t.direct {
            if self.in_range(d.0, p.instances.len(), "instance") {
                let instance = &p.instances[d.index()];
                let ours = matches!(instance.kind, InstanceKind::DirectCounter { table, .. }
                    if p.tables.get(table.index()).is_some_and(|other| std::ptr::eq(other, t)));
                self.check(ours, || format!("`{}` is not a direct counter of this table", instance.name));
            }
        }
        for (index, e) in t.entries.iter().enumerate() {
            self.place = format!("table {}, entry {index}", t.name);
            self.loc(e.loc);
            self.check(e.is_const || !t.const_entries, || {
                "not const, in a table with const entries".to_string()
            });
            self.action_call(t, &e.action, "the action");
            if t.actions.get(e.action.action as usize).is_some_and(|a| a.default_only) {
                self.error("the action is default-only");
            }
            if !self.check(e.key.len() == t.keys.len(), || {
                format!("{} matches for {} keys", e.key.len(), t.keys.len())
            }) {
                continue;
            }
            for (k, m) in t.keys.iter().zip(&e.key) {
                let fits = |v: &BigUint| v.bits() <= u64::from(k.width);
                let good = match (k.kind, m) {
                    (MatchKind::Exact, KeyMatch::Exact(v)) => fits(v),
                    (MatchKind::Lpm, KeyMatch::Lpm { value, prefix_len }) => {
                        *prefix_len <= k.width
                            && fits(value)
                            && value.trailing_zeros().is_none_or(|z| z >= u64::from(k.width - prefix_len))
                    }
                    (MatchKind::Ternary, KeyMatch::Ternary { value, mask }) => {
                        fits(mask) && value & mask == *value
                    }
                    (MatchKind::Range, KeyMatch::Range { lo, hi }) => lo <= hi && fits(hi),
                    (MatchKind::Optional, KeyMatch::Optional(v)) => v.as_ref().is_none_or(fits),
                    _ => {
                        self.error(format!("key `{}` is {}, the match is {m:?}", k.name, k.kind.name()));
                        continue;
                    }
                };
                self.check(good, || format!("key `{}`: {m:?} is not a match for width {}", k.name, k.width));
            }
        }
    }

    fn action_call(&mut self, t: &Table, call: &ActionCall, what: &str) {
        let p = self.p;
        if !self.in_range(call.action, t.actions.len(), what) {
            return;
        }
        let Some(action) = p.actions.get(t.actions[call.action as usize].action.index()) else { return };
        let (values, params) = (call.data.len(), action.params.len());
        if !self.check(values == params, || format!("{what} has {values} values for {params} parameters")) {
            return;
        }
        for (value, f) in call.data.iter().zip(&action.params) {
            if let Some(width) = p.fields.get(f.index()).map(|f| f.width) {
                self.check(value.bits() <= u64::from(width), || {
                    format!(
                        "{what}: {value:#x} does not fit `{}` of width {width}",
                        self.p.fields[f.index()].name
                    )
                });
            }
        }
    }

    fn cfg(&mut self, name: &str, cfg: &Cfg, owner: Owner) {
        self.check(!cfg.nodes.is_empty(), || "no nodes".to_string());
        for (index, node) in cfg.nodes.iter().enumerate() {
            for (number, stmt) in node.stmts.iter().enumerate() {
                self.place = format!("{name}, n{index}, statement {number}{}", self.at(stmt.loc));
                self.loc(stmt.loc);
                self.stmt(&stmt.op, owner);
            }
            self.place = format!("{name}, n{index}, end{}", self.at(node.terminator_loc));
            self.loc(node.terminator_loc);
            self.terminator(&node.terminator, cfg.nodes.len(), owner);
        }
        self.place = name.to_string();
        // This check requires correct targets.
        if self.errors.is_empty() {
            match cfg.nesting() {
                Some(nesting) => {
                    let left_open = cfg.nodes.iter().zip(nesting).any(|(node, nesting)| {
                        use Terminator::{Done, Egress, Exit, Return};
                        nesting > 0 && matches!(node.terminator, Return | Exit | Done | Egress)
                    });
                    self.check(!left_open, || "it ends within an atomic part".to_string());
                }
                None => {
                    self.error("atomic parts that depend on the path or end without a beginning".to_string())
                }
            }
        }
    }

    fn at(&self, loc: Loc) -> String {
        match self.p.locs.get(loc.index()) {
            Some(l) if l.line > 0 => format!(" ({}:{}:{})", l.file, l.line, l.column),
            _ => String::new(),
        }
    }

    fn in_parser(&mut self, owner: Owner, what: &str) {
        let right =
            matches!(owner, Owner::Block(b) if b.kind == BlockKind::Parser && b.error_field.is_some());
        self.check(right, || format!("{what} outside a parser with an error field"));
    }

    /// Returns the width of a field that code of `owner` reads or writes.
    fn access(&mut self, f: FieldId, owner: Owner) -> Option<u32> {
        self.check(self.p.turns != Some(f), || "a statement reads or writes the turns taken".to_string());
        let (kind, width) = self.field(f).map(|f| (f.kind, f.width))?;
        if let FieldKind::ActionData(of) = kind {
            let own = matches!(owner, Owner::Action(a) if a == of);
            self.check(own, || {
                format!("`{}` is action data of another action", self.p.fields[f.index()].name)
            });
        }
        Some(width)
    }

    fn in_control(&mut self, owner: Owner, what: &str) {
        let right = matches!(owner, Owner::Block(b) if b.kind == BlockKind::Control);
        self.check(right, || format!("{what} outside a control"));
    }

    fn stmt(&mut self, op: &Op, owner: Owner) {
        let p = self.p;
        match op {
            Op::Set { dest, value } => {
                let width = self.access(*dest, owner);
                let found = self.expr(value, owner);
                if let (Some(width), Some(found)) = (width, found) {
                    self.check(width == found, || {
                        format!("`{}` has width {width}, its value {found}", self.p.fields[dest.index()].name)
                    });
                }
            }
            Op::Extract { header, varbit_length } => {
                self.in_parser(owner, "extract");
                if let Some(bits) = varbit_length {
                    self.expr(bits, owner);
                }
                self.extracted(*header, varbit_length.is_some());
            }
            Op::SetElement { column, index, value } => {
                let width = self.column(column, owner);
                self.expr(index, owner);
                let found = self.expr(value, owner);
                if let (Some(width), Some(found)) = (width, found) {
                    self.check(width == found, || {
                        format!("a column of width {width}, the value has {found}")
                    });
                }
            }
            Op::ExtractElement { headers, index, varbit_length } => {
                self.in_parser(owner, "extract");
                self.expr(index, owner);
                if let Some(bits) = varbit_length {
                    self.expr(bits, owner);
                }
                headers.iter().for_each(|h| self.extracted(*h, varbit_length.is_some()));
                let layout = |h: &HeaderId| -> Option<Vec<(u32, Option<u32>)>> {
                    let width = |f: FieldId| p.fields.get(f.index()).map(|f| f.width);
                    let fields = p.headers.get(h.index())?.fields.iter();
                    let widths = fields.map(|f| Some((width(f.field)?, f.varbit_length.and_then(width))));
                    widths.collect()
                };
                let same = headers.windows(2).all(|pair| layout(&pair[0]) == layout(&pair[1]));
                self.check(same && !headers.is_empty(), || {
                    "a stack without headers or of headers of different layouts".to_string()
                });
            }
            Op::Advance { bits } => {
                self.in_parser(owner, "advance");
                self.expr(bits, owner);
            }
            Op::Lookahead { dest } => {
                self.in_parser(owner, "lookahead");
                self.access(*dest, owner);
            }
            Op::Emit { header } => {
                let right = matches!(owner, Owner::Block(b) if b.kind == BlockKind::Deparser);
                self.check(right, || "emit outside a deparser".to_string());
                self.in_range(header.0, p.headers.len(), "header");
            }
            Op::Truncate { bytes } => {
                self.in_control(owner, "truncate");
                self.expr(bytes, owner);
            }
            Op::Copy(copy) => {
                self.in_control(owner, "copy");
                if let Keep::Fields(fields) = &copy.keep {
                    for f in fields {
                        self.access(*f, owner);
                    }
                }
                let mut seen = HashSet::new();
                let of_copy = |(f, value): &&(FieldId, Expr)| {
                    p.turns == Some(*f) && *value == Program::turns_of_copy(*f)
                };
                let counted = copy.set.iter().filter(of_copy).count() == 1;
                self.check(counted || p.turns.is_none(), || {
                    "a copy begins with other turns taken than `turns_of_copy` says".to_string()
                });
                seen.extend(p.turns.filter(|_| counted));
                for (dest, value) in copy.set.iter().filter(|set| !of_copy(set)) {
                    let width = self.access(*dest, owner);
                    let found = self.expr(value, owner);
                    if let (Some(width), Some(found)) = (width, found) {
                        self.check(width == found, || {
                            format!(
                                "`{}` has width {width}, its value {found}",
                                self.p.fields[dest.index()].name
                            )
                        });
                        seen.insert(*dest);
                    }
                }
                let mut expected = copy.set.len();
                if let Some(replicas) = &copy.replicas {
                    self.expr(&replicas.id, owner);
                    for f in
                        [replicas.port, replicas.instance, replicas.class_of_service].into_iter().flatten()
                    {
                        self.access(f, owner);
                        seen.insert(f);
                        expected += 1;
                    }
                }
                self.check(seen.len() == expected, || "a copy sets a field twice".to_string());
                if let Some(queue) = &copy.queue {
                    self.expr(&queue.port, owner);
                    self.expr(&queue.number, owner);
                    let egress = copy.begin == PipelineHalf::Egress;
                    self.check(egress, || "a copy that begins with ingress waits in a queue".to_string());
                }
            }
            Op::Extern { function, instance, args, outs, .. } => {
                self.counts(function, args.len(), outs.len());
                if let Some(i) = instance {
                    self.in_range(i.0, p.instances.len(), "instance");
                }
                for arg in args {
                    self.expr(arg, owner);
                }
                let mut seen = HashSet::new();
                for f in outs {
                    if self.access(*f, owner).is_some() && !seen.insert(*f) {
                        let message = format!("two results go to `{}`", self.name(*f));
                        self.error(message);
                    }
                }
            }
        }
    }

    fn counts(&mut self, function: &Function, args: usize, results: usize) {
        let expected = function.argument_counts();
        self.check(expected.contains(&args), || {
            let expected = match (*expected.start(), *expected.end()) {
                (min, usize::MAX) => format!("at least {min}"),
                (min, max) if min == max => min.to_string(),
                (min, max) => format!("{min} to {max}"),
            };
            format!("number of arguments of `{function}`: found {args}, expected {expected}")
        });
        if let Some(expected) = function.result_count() {
            self.check(results == expected, || {
                format!("number of results of `{function}`: found {results}, expected {expected}")
            });
        }
    }

    fn terminator(&mut self, terminator: &Terminator, nodes: usize, owner: Owner) {
        let p = self.p;
        match terminator {
            Terminator::Goto(n) => {
                self.in_range(n.0, nodes, "node");
            }
            Terminator::If { cond, then, otherwise } => {
                if let Some(width) = self.expr(cond, owner) {
                    self.check(width == 1, || format!("a condition of width {width}"));
                }
                self.in_range(then.0, nodes, "node");
                self.in_range(otherwise.0, nodes, "node");
            }
            Terminator::Switch { value, cases, default } => {
                let width = self.expr(value, owner);
                let mut seen = HashSet::new();
                for (case, n) in cases {
                    self.in_range(n.0, nodes, "node");
                    if let Some(width) = width {
                        self.check(case.bits() <= u64::from(width), || {
                            format!("case {case:#x} of a value of width {width}")
                        });
                    }
                    self.check(seen.insert(case), || format!("two cases {case:#x}"));
                }
                self.in_range(default.0, nodes, "node");
            }
            Terminator::Apply { table, keys, hit, action_run, entry, selector, next, exit } => {
                self.check(matches!(owner, Owner::Block(_)), || "an action applies a table".to_string());
                let widths: Vec<_> = keys.iter().map(|k| self.expr(k, owner)).collect();
                if self.in_range(table.0, p.tables.len(), "table") {
                    let t = &p.tables[table.index()];
                    self.check(keys.len() == t.keys.len(), || {
                        format!("{} keys for table `{}`, expected {}", keys.len(), t.name, t.keys.len())
                    });
                    let profile = t.profile.and_then(|i| p.instances.get(i.index())).map(|i| &i.kind);
                    let groups = matches!(profile, Some(InstanceKind::ActionProfile { selector: true, .. }));
                    self.check(selector.is_some() == groups, || {
                        format!("a selector for table `{}`: expected one exactly if it has groups", t.name)
                    });
                    for (k, width) in t.keys.iter().zip(widths) {
                        if let Some(width) = width {
                            self.check(width == k.width, || {
                                format!("key `{}` has width {}, its expression {width}", k.name, k.width)
                            });
                        }
                    }
                }
                if let Some(f) = hit {
                    self.access(*f, owner);
                    self.width_is(*f, 1, "the hit field");
                }
                if let Some(f) = action_run {
                    self.access(*f, owner);
                    self.width_is(*f, 32, "the action_run field");
                }
                if let Some(f) = entry {
                    self.access(*f, owner);
                    self.width_is(*f, 32, "the entry field");
                }
                if let Some(e) = selector {
                    self.expr(e, owner);
                }
                let results: Vec<_> = [hit, action_run, entry].into_iter().flatten().collect();
                let distinct = (1..results.len()).all(|i| !results[..i].contains(&results[i]));
                self.check(distinct, || "two of hit, action_run and entry are the same field".to_string());
                self.in_range(next.0, nodes, "node");
                self.in_range(exit.0, nodes, "node");
            }
            Terminator::Turn { weight, next, spent } => {
                let weights = 1..=crate::turns::TURNS_MAX + 1;
                self.check(weights.contains(weight), || {
                    format!("a turn that counts as {weight}, expected 1 to {}", weights.end())
                });
                self.check(p.turns.is_some(), || "a turn, but no field of turns taken".to_string());
                self.in_range(next.0, nodes, "node");
                self.in_range(spent.0, nodes, "node");
            }
            Terminator::Return => {}
            Terminator::Exit => {
                self.check(matches!(owner, Owner::Action(_)), || "exit outside an action".to_string());
            }
            Terminator::Reject(code) => {
                self.in_parser(owner, "reject");
                if let Some(width) = self.expr(code, owner) {
                    self.check(width == 32, || format!("an error code of width {width}, expected 32"));
                }
            }
            Terminator::Drop(reason) => {
                self.in_range(*reason, p.drop_reasons.len(), "drop reason");
            }
            Terminator::Done => self.in_control(owner, "done"),
            Terminator::Egress => {
                let right = matches!(owner, Owner::Block(b) if b.kind == BlockKind::Control
                    && p.ingress.iter().any(|i| p.blocks.get(i.index()).is_some_and(|x| std::ptr::eq(x, b))));
                self.check(right, || "egress outside a control of ingress".to_string());
            }
        }
    }

    fn expr(&mut self, expr: &Expr, owner: Owner) -> Option<u32> {
        self.nested(expr, owner, 1)
    }

    /// Returns the width, unless something inside is wrong (and reported).
    fn nested(&mut self, expr: &Expr, owner: Owner, depth: u32) -> Option<u32> {
        if !self.check(depth <= EXPR_DEPTH_MAX, || format!("an expression deeper than {EXPR_DEPTH_MAX}")) {
            return None;
        }
        let depth = depth + 1;
        let width = match expr {
            Expr::Const { value, width } => {
                let fits = value.bits() <= u64::from(*width);
                self.check(fits, || format!("{value:#x} does not fit width {width}")).then_some(*width)?
            }
            Expr::Field(f) => return self.access(*f, owner),
            Expr::Element { column, index } => {
                let width = self.column(column, owner);
                self.nested(index, owner, depth)?;
                return width;
            }
            Expr::Unary(_, a) => return self.nested(a, owner, depth),
            Expr::Binary(op, a, b) => {
                let (a, b) = (self.nested(a, owner, depth), self.nested(b, owner, depth));
                let (a, b) = (a?, b?);
                if !op.is_shift() && !self.check(a == b, || format!("{} of widths {a} and {b}", op.name())) {
                    return None;
                }
                return Some(if op.is_comparison() { 1 } else { a });
            }
            Expr::Slice { value, hi, lo } => {
                let width = self.nested(value, owner, depth)?;
                let inside = lo <= hi && *hi < width;
                self.check(inside, || format!("slice [{hi}:{lo}] of width {width}"))
                    .then_some(hi.wrapping_sub(*lo))?
                    + 1
            }
            Expr::Concat(a, b) => {
                let (a, b) = (self.nested(a, owner, depth), self.nested(b, owner, depth));
                // Both are at most WIDTH_MAX, so the sum is far from overflow.
                a? + b?
            }
            Expr::ZeroExtend(a, width) | Expr::SignExtend(a, width) => {
                let from = self.nested(a, owner, depth)?;
                self.check(from <= *width, || format!("extension from width {from} to {width}"))
                    .then_some(*width)?
            }
            Expr::Select(c, a, b) => {
                let (c, a, b) = (
                    self.nested(c, owner, depth),
                    self.nested(a, owner, depth),
                    self.nested(b, owner, depth),
                );
                let (c, a, b) = (c?, a?, b?);
                let right = c == 1 && a == b;
                self.check(right, || format!("select of widths {c}, {a} and {b}, expected 1 and equal ones"))
                    .then_some(a)?
            }
        };
        self.width(width, "an expression").then_some(width)
    }
}
