//! The text form: [`print`] and [`parse`], which are inverse to each other for every program that the verifier accepts.
//!
//! ```text
//! program router
//! locs router.p4 41:9 44:5
//! errors NoError, PacketTooShort, HeaderTooShort
//! error_packet_too_short 1
//! error_header_too_short 2
//! error_invalid_argument 3
//! drop_reasons "no route"
//! field hdr.ipv4.$valid$: 1 valid hdr.ipv4
//! field hdr.ipv4.ttl: 8 in hdr.ipv4
//! field meta.port: 9 metadata
//! column c0 { hdr.mpls[0].label, hdr.mpls[1].label }
//! header hdr.ipv4 valid hdr.ipv4.$valid$ { hdr.ipv4.ttl }
//! block ingress control {
//!   n0 "start":
//!     hdr.ipv4.ttl = sub(hdr.ipv4.ttl, 0x1:8) @router.p4:41:9
//!     if eq(hdr.ipv4.ttl, 0x0:8) then n1 else n2
//!   n1:
//!     drop "no route" @router.p4:44:5
//!   n2:
//!     return
//! }
//! ingress ingress
//! ```
//!
//! Things have their full names. A name that is not an ordinary one (letters, digits, `_`, `$`, `.`, `[3]`) or that is a
//! keyword of this language is quoted; if several things share a name, `#3` refers to one by index. Declarations may
//! come in any order; things of one kind (fields, headers …) are numbered in the order of the text. A column of fields
//! or `stack` of headers, which has a name only here, is declared before it is used. Layout does not matter; `//` starts
//! a comment. A `@file:line:column` after a statement is part of the program: its source place. Places missing in `locs`
//! are added to it, so hand-written text needs none.

use std::collections::HashMap;
use std::fmt;

use num_bigint::BigUint;
use num_traits::Num;

use crate::*;

/// Maximum nesting depth of expressions that [`parse`] reads and the verifier accepts, so that code that walks
/// expressions may recurse.
pub const EXPR_DEPTH_MAX: u32 = 512;

/// Keywords, which names must not equal.
const WORDS: &[&str] = &[
    "program",
    "locs",
    "errors",
    "error_packet_too_short",
    "error_header_too_short",
    "error_invalid_argument",
    "drop_reasons",
    "translated",
    "field",
    "header",
    "action",
    "as",
    "table",
    "instance",
    "block",
    "ingress",
    "egress",
    "egress_port",
    "drop_place",
    "turns",
    "intrinsic",
    "in",
    "valid",
    "metadata",
    "data",
    "temp",
    "varbit",
    "key",
    "default",
    "const",
    "size",
    "entry",
    "direct",
    "hidden",
    "extract",
    "advance",
    "lookahead",
    "emit",
    "call",
    "on",
    "text",
    "goto",
    "if",
    "then",
    "else",
    "switch",
    "apply",
    "hit",
    "run",
    "next",
    "exit",
    "return",
    "reject",
    "drop",
    "any",
    "opt",
    "error",
    "const_entries",
    "tableonly",
    "defaultonly",
    "profile",
    "idle_timeout",
    "copy",
    "queue",
    "of",
    "keep",
    "set",
    "arrived",
    "current",
    "group",
    "session",
    "truncate",
    "selector",
    "done",
    "port",
    "class",
    "column",
    "stack",
    "element",
    "at",
];

// ---------------------------------------------------------------------------------------------------------------------
// Words shared by printer and parser

impl UnaryOp {
    /// All variants.
    pub const ALL: [UnaryOp; 2] = [UnaryOp::Not, UnaryOp::Neg];

    /// Returns its name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            UnaryOp::Not => "not",
            UnaryOp::Neg => "neg",
        }
    }
}

impl BinaryOp {
    /// All variants.
    pub const ALL: [BinaryOp; 21] = {
        use BinaryOp::*;
        [
            Add, Sub, Mul, DivU, RemU, SatAddU, SatSubU, SatAddS, SatSubS, And, Or, Xor, Shl, ShrU, ShrS, Eq,
            Ne, LtU, LeU, LtS, LeS,
        ]
    };

    /// Returns its name in the text form.
    pub fn name(self) -> &'static str {
        use BinaryOp::*;
        match self {
            Add => "add",
            Sub => "sub",
            Mul => "mul",
            DivU => "divu",
            RemU => "remu",
            SatAddU => "sataddu",
            SatSubU => "satsubu",
            SatAddS => "satadds",
            SatSubS => "satsubs",
            And => "and",
            Or => "or",
            Xor => "xor",
            Shl => "shl",
            ShrU => "shru",
            ShrS => "shrs",
            Eq => "eq",
            Ne => "ne",
            LtU => "ltu",
            LeU => "leu",
            LtS => "lts",
            LeS => "les",
        }
    }
}

impl MatchKind {
    /// All variants.
    pub const ALL: [MatchKind; 5] =
        [MatchKind::Exact, MatchKind::Lpm, MatchKind::Ternary, MatchKind::Range, MatchKind::Optional];

    /// Returns its P4 name.
    pub fn name(self) -> &'static str {
        match self {
            MatchKind::Exact => "exact",
            MatchKind::Lpm => "lpm",
            MatchKind::Ternary => "ternary",
            MatchKind::Range => "range",
            MatchKind::Optional => "optional",
        }
    }
}

impl fmt::Display for MatchKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl CounterUnit {
    /// All variants.
    pub const ALL: [CounterUnit; 3] = [CounterUnit::Packets, CounterUnit::Bytes, CounterUnit::Both];

    /// Returns its name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            CounterUnit::Packets => "packets",
            CounterUnit::Bytes => "bytes",
            CounterUnit::Both => "packets_and_bytes",
        }
    }
}

impl BlockKind {
    /// All variants.
    pub const ALL: [BlockKind; 3] = [BlockKind::Parser, BlockKind::Control, BlockKind::Deparser];

    /// Returns its name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            BlockKind::Parser => "parser",
            BlockKind::Control => "control",
            BlockKind::Deparser => "deparser",
        }
    }
}

impl PipelineHalf {
    /// All variants.
    pub const ALL: [PipelineHalf; 2] = [PipelineHalf::Ingress, PipelineHalf::Egress];

    /// Returns its name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            PipelineHalf::Ingress => "ingress",
            PipelineHalf::Egress => "egress",
        }
    }
}

impl CopyFrame {
    /// All variants.
    pub const ALL: [CopyFrame; 2] = [CopyFrame::Arrived, CopyFrame::Current];

    /// Returns its name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            CopyFrame::Arrived => "arrived",
            CopyFrame::Current => "current",
        }
    }
}

impl ReplicaList {
    /// All variants.
    pub const ALL: [ReplicaList; 2] = [ReplicaList::Group, ReplicaList::Session];

    /// Returns its name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            ReplicaList::Group => "group",
            ReplicaList::Session => "session",
        }
    }
}

impl Intrinsic {
    /// All variants.
    pub const ALL: [Intrinsic; 9] = [
        Intrinsic::IngressPort,
        Intrinsic::PacketLength,
        Intrinsic::IngressTimestamp,
        Intrinsic::EgressTimestamp,
        Intrinsic::EnqueueTimestamp,
        Intrinsic::EnqueueDepth,
        Intrinsic::QueueTime,
        Intrinsic::DequeueDepth,
        Intrinsic::QueueNumber,
    ];

    /// Returns its name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            Intrinsic::IngressPort => "ingress_port",
            Intrinsic::PacketLength => "packet_length",
            Intrinsic::IngressTimestamp => "ingress_timestamp",
            Intrinsic::EgressTimestamp => "egress_timestamp",
            Intrinsic::EnqueueTimestamp => "enqueue_timestamp",
            Intrinsic::EnqueueDepth => "enqueue_depth",
            Intrinsic::QueueTime => "queue_time",
            Intrinsic::DequeueDepth => "dequeue_depth",
            Intrinsic::QueueNumber => "queue_number",
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Printer

/// Prints a program.
pub fn print(program: &Program) -> String {
    let columns = Columns::of(program);
    let mut p = Printer { names: Names::new(program), columns, program, out: String::new() };
    p.program();
    p.out
}

/// Prints an expression, for messages and traces.
pub fn print_expr(program: &Program, expr: &Expr) -> String {
    let mut out = String::new();
    let field = |f: FieldId| match program.fields.get(f.index()) {
        Some(field) => ident(&field.name),
        None => format!("#{}", f.0),
    };
    let column = |column: &Column| match &column[..] {
        [first, .., last] => format!("{} .. {}", field(*first), field(*last)),
        fields => fields.iter().map(|f| field(*f)).collect(),
    };
    write_expr(&mut out, expr, &field, &column);
    out
}

/// The columns that a program uses, in the order of their declarations.
#[derive(Default)]
struct Columns {
    fields: Vec<Column>,
    fields_at: HashMap<Column, usize>,
    headers: Vec<HeaderColumn>,
    headers_at: HashMap<HeaderColumn, usize>,
}

impl Columns {
    fn of(program: &Program) -> Columns {
        let mut columns = Columns::default();
        let actions = program.actions.iter().map(|a| &a.body);
        for node in actions.chain(program.blocks.iter().map(|b| &b.body)).flat_map(|body| &body.nodes) {
            for stmt in &node.stmts {
                stmt.op.for_each_expr(&mut |e| e.for_each_column(&mut |c| columns.add(c)));
                match &stmt.op {
                    Op::SetElement { column, .. } => columns.add(column),
                    Op::ExtractElement { headers, .. } => {
                        let next = columns.headers.len();
                        if *columns.headers_at.entry(headers.clone()).or_insert(next) == next {
                            columns.headers.push(headers.clone());
                        }
                    }
                    _ => {}
                }
            }
            node.terminator.for_each_expr(&mut |e| e.for_each_column(&mut |c| columns.add(c)));
        }
        columns
    }

    fn add(&mut self, column: &Column) {
        let next = self.fields.len();
        if *self.fields_at.entry(column.clone()).or_insert(next) == next {
            self.fields.push(column.clone());
        }
    }
}

/// The names by which the text refers to the program's parts.
struct Names {
    fields: Vec<String>,
    headers: Vec<String>,
    actions: Vec<String>,
    tables: Vec<String>,
    instances: Vec<String>,
    blocks: Vec<String>,
    drop_reasons: Vec<String>,
    locs: Vec<String>,
}

impl Names {
    fn new(p: &Program) -> Names {
        Names {
            fields: references(p.fields.iter().map(|x| ident(&x.name))),
            headers: references(p.headers.iter().map(|x| ident(&x.name))),
            actions: references(p.actions.iter().map(|x| ident(&x.name))),
            tables: references(p.tables.iter().map(|x| ident(&x.name))),
            instances: references(p.instances.iter().map(|x| ident(&x.name))),
            blocks: references(p.blocks.iter().map(|x| ident(&x.name))),
            drop_reasons: references(p.drop_reasons.iter().map(|x| quoted(x))),
            locs: references(p.locs.iter().map(|l| format!("{}:{}:{}", path(&l.file), l.line, l.column))),
        }
    }
}

/// Returns the names as written, with those that several things share replaced by `#index`.
fn references(written: impl Iterator<Item = String>) -> Vec<String> {
    let mut written: Vec<String> = written.collect();
    let mut count: HashMap<String, u32> = HashMap::new();
    for name in &written {
        *count.entry(name.clone()).or_default() += 1;
    }
    for (index, name) in written.iter_mut().enumerate() {
        if count[name.as_str()] > 1 {
            *name = format!("#{index}");
        }
    }
    written
}

fn get(names: &[String], index: u32) -> String {
    names.get(index as usize).cloned().unwrap_or_else(|| format!("#{index}"))
}

/// Returns the name, quoted if necessary.
fn ident(name: &str) -> String {
    if bare_name_len(name) == name.len() && !name.is_empty() && !WORDS.contains(&name) {
        name.to_string()
    } else {
        quoted(name)
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Returns a file name in the form for `@` and `locs`.
fn path(file: &str) -> String {
    if !file.is_empty() && file.bytes().all(is_path_byte) { file.to_string() } else { quoted(file) }
}

fn is_path_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'/' | b'-' | b'+')
}

/// Returns the length in bytes of the ordinary name at the start of `text`.
fn bare_name_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' => at += 1,
            b'0'..=b'9' | b'.' if at > 0 => at += 1,
            b'[' if at > 0 => {
                let digits = bytes[at + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
                if digits == 0 || bytes.get(at + 1 + digits) != Some(&b']') {
                    break;
                }
                at += digits + 2;
            }
            _ => break,
        }
    }
    at
}

fn write_expr(
    out: &mut String,
    expr: &Expr,
    field: &dyn Fn(FieldId) -> String,
    column: &dyn Fn(&Column) -> String,
) {
    let call = |out: &mut String, name: &str, args: &[&Expr], width: Option<u32>| {
        out.push_str(name);
        out.push('(');
        for (index, arg) in args.iter().enumerate() {
            if index > 0 {
                out.push_str(", ");
            }
            write_expr(out, arg, field, column);
        }
        if let Some(width) = width {
            out.push_str(&format!(", {width}"));
        }
        out.push(')');
    };
    match expr {
        Expr::Const { value, width } => out.push_str(&format!("{value:#x}:{width}")),
        Expr::Field(f) => out.push_str(&field(*f)),
        Expr::Element { column: c, index } => {
            out.push_str(&format!("element({}, ", column(c)));
            write_expr(out, index, field, column);
            out.push(')');
        }
        Expr::Unary(op, a) => call(out, op.name(), &[a], None),
        Expr::Binary(op, a, b) => call(out, op.name(), &[a, b], None),
        Expr::Slice { value, hi, lo } => {
            write_expr(out, value, field, column);
            out.push_str(&format!("[{hi}:{lo}]"));
        }
        Expr::Concat(a, b) => call(out, "concat", &[a, b], None),
        Expr::ZeroExtend(a, w) => call(out, "zext", &[a], Some(*w)),
        Expr::SignExtend(a, w) => call(out, "sext", &[a], Some(*w)),
        Expr::Select(c, a, b) => call(out, "select", &[c, a, b], None),
    }
}

struct Printer<'a> {
    names: Names,
    columns: Columns,
    program: &'a Program,
    out: String,
}

impl Printer<'_> {
    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn field(&self, f: FieldId) -> String {
        get(&self.names.fields, f.0)
    }

    fn fields(&self, fields: &[FieldId]) -> String {
        fields.iter().map(|f| self.field(*f)).collect::<Vec<_>>().join(", ")
    }

    /// ` @file:line:column`, or nothing if there is no place.
    fn loc(&self, loc: Loc) -> String {
        if loc.0 == 0 { String::new() } else { format!(" @{}", get(&self.names.locs, loc.0)) }
    }

    fn expr(&self, expr: &Expr) -> String {
        let mut out = String::new();
        write_expr(&mut out, expr, &|f| self.field(f), &|c| self.column(c));
        out
    }

    fn column(&self, column: &Column) -> String {
        format!("c{}", self.columns.fields_at[column])
    }

    fn exprs(&self, exprs: &[Expr]) -> String {
        exprs.iter().map(|e| self.expr(e)).collect::<Vec<_>>().join(", ")
    }

    fn program(&mut self) {
        let p = self.program;
        self.line(&format!("program {}", quoted(&p.name)));
        self.locs();
        if !p.errors.is_empty() {
            let errors: Vec<_> = p.errors.iter().map(|e| ident(e)).collect();
            self.line(&format!("errors {}", errors.join(", ")));
        }
        self.line(&format!("error_packet_too_short {}", p.error_packet_too_short));
        self.line(&format!("error_header_too_short {}", p.error_header_too_short));
        self.line(&format!("error_invalid_argument {}", p.error_invalid_argument));
        if !p.drop_reasons.is_empty() {
            let reasons: Vec<_> = p.drop_reasons.iter().map(|r| quoted(r)).collect();
            self.line(&format!("drop_reasons {}", reasons.join(", ")));
        }
        for (name, width) in &p.translated {
            self.line(&format!("translated {} {width}", ident(name)));
        }
        self.blank();
        for f in &p.fields {
            let kind = match f.kind {
                FieldKind::Header(h) => format!("in {}", get(&self.names.headers, h.0)),
                FieldKind::Valid(h) => format!("valid {}", get(&self.names.headers, h.0)),
                FieldKind::Metadata => "metadata".to_string(),
                FieldKind::ActionData(a) => format!("data {}", get(&self.names.actions, a.0)),
                FieldKind::Temporary => "temp".to_string(),
            };
            self.line(&format!("field {}: {} {kind}", ident(&f.name), f.width));
        }
        self.blank();
        for h in &p.headers {
            let fields: Vec<_> = h
                .fields
                .iter()
                .map(|f| match f.varbit_length {
                    None => self.field(f.field),
                    Some(length) => format!("{} varbit {}", self.field(f.field), self.field(length)),
                })
                .collect();
            let line = format!(
                "header {} valid {} {{ {} }}",
                ident(&h.name),
                self.field(h.valid),
                fields.join(", ")
            );
            self.line(&line);
        }
        self.blank();
        for (number, column) in self.columns.fields.clone().iter().enumerate() {
            self.line(&format!("column c{number} {{ {} }}", self.fields(column)));
        }
        for (number, column) in self.columns.headers.clone().iter().enumerate() {
            let headers: Vec<_> = column.iter().map(|h| get(&self.names.headers, h.0)).collect();
            self.line(&format!("stack s{number} {{ {} }}", headers.join(", ")));
        }
        self.blank();
        for i in &p.instances {
            let kind = match &i.kind {
                InstanceKind::Register { width, size, initial } => {
                    let initial = match initial.bits() {
                        0 => String::new(),
                        _ => format!(" initial {initial:#x}"),
                    };
                    format!("register {width} size {size}{initial}")
                }
                InstanceKind::Counter { unit, size } => format!("counter {} size {size}", unit.name()),
                InstanceKind::DirectCounter { unit, table } => {
                    format!("direct_counter {} on {}", unit.name(), get(&self.names.tables, table.0))
                }
                InstanceKind::Meter { unit, size } => format!("meter {} size {size}", unit.name()),
                InstanceKind::DirectMeter { unit, table } => {
                    format!("direct_meter {} on {}", unit.name(), get(&self.names.tables, table.0))
                }
                InstanceKind::ActionProfile { size, selector } => {
                    format!("action_profile size {size}{}", if *selector { " selector" } else { "" })
                }
                InstanceKind::Digest { fields } => {
                    let fields: Vec<_> =
                        fields.iter().map(|(name, width)| format!("{}: {width}", ident(name))).collect();
                    format!("digest {{ {} }}", fields.join(", "))
                }
            };
            self.line(&format!("instance {} {kind}{}", ident(&i.name), self.loc(i.loc)));
        }
        for a in &p.actions {
            self.blank();
            let known_as = match a.control_name == a.name {
                true => String::new(),
                false => format!(" as {}", ident(&a.control_name)),
            };
            self.line(&format!(
                "action {}{known_as}({}){} {{",
                ident(&a.name),
                self.fields(&a.params),
                self.loc(a.loc)
            ));
            self.cfg(&a.body);
            self.line("}");
        }
        for t in &p.tables {
            self.blank();
            self.table(t);
        }
        for b in &p.blocks {
            self.blank();
            let error = b.error_field.map(|f| format!(" error {}", self.field(f))).unwrap_or_default();
            self.line(&format!("block {} {}{error} {{", ident(&b.name), b.kind.name()));
            self.cfg(&b.body);
            self.line("}");
        }
        self.blank();
        for (word, blocks) in [("ingress", &p.ingress), ("egress", &p.egress)] {
            if !blocks.is_empty() {
                let blocks: Vec<_> = blocks.iter().map(|b| get(&self.names.blocks, b.0)).collect();
                self.line(&format!("{word} {}", blocks.join(", ")));
            }
        }
        if let Some(f) = p.egress_port {
            self.line(&format!("egress_port {}", self.field(f)));
        }
        if let Some(f) = p.drop_place {
            self.line(&format!("drop_place {}", self.field(f)));
        }
        if let Some(f) = p.turns {
            self.line(&format!("turns {}", self.field(f)));
        }
        for (intrinsic, f) in &p.intrinsics {
            self.line(&format!("intrinsic {} {}", intrinsic.name(), self.field(*f)));
        }
    }

    /// An empty line between sections, never two.
    fn blank(&mut self) {
        if !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    fn locs(&mut self) {
        let mut file: Option<&str> = None;
        for loc in self.program.locs.iter().skip(1) {
            if file != Some(&loc.file) {
                if file.is_some() {
                    self.out.push('\n');
                }
                self.out.push_str(&format!("locs {}", path(&loc.file)));
                file = Some(&loc.file);
            }
            self.out.push_str(&format!(" {}:{}", loc.line, loc.column));
        }
        if file.is_some() {
            self.out.push('\n');
        }
    }

    fn table(&mut self, t: &Table) {
        let call = |p: &Printer, c: &ActionCall| {
            let named = t.actions.get(c.action as usize).map(|a| a.action);
            let name = match named {
                Some(id) if t.actions.iter().filter(|a| a.action == id).count() == 1 => {
                    match get(&p.names.actions, id.0) {
                        // An index here would be one in the table's list, not the program's.
                        shared if shared.starts_with('#') => format!("#{}", c.action),
                        name => name,
                    }
                }
                _ => format!("#{}", c.action),
            };
            let data: Vec<_> = c.data.iter().map(|v| format!("{v:#x}")).collect();
            format!("{name}({})", data.join(", "))
        };
        self.line(&format!("table {}{} {{", ident(&t.name), self.loc(t.loc)));
        for k in &t.keys {
            self.line(&format!("  key {}: {} {}", ident(&k.name), k.width, k.kind.name()));
        }
        for a in &t.actions {
            let mut line = format!("  action {}", get(&self.names.actions, a.action.0));
            if a.table_only {
                line.push_str(" tableonly");
            }
            if a.default_only {
                line.push_str(" defaultonly");
            }
            self.line(&line);
        }
        let constant = if t.const_default { "const " } else { "" };
        self.line(&format!("  default {constant}{}", call(self, &t.default)));
        self.line(&format!("  size {}", t.size));
        for (e, from_last) in t.entries.iter().zip((1..=t.entries.len() as u32).rev()) {
            let key: Vec<_> = e
                .key
                .iter()
                .map(|k| match k {
                    KeyMatch::Exact(v) => format!("{v:#x}"),
                    KeyMatch::Lpm { value, prefix_len } => format!("{value:#x}/{prefix_len}"),
                    KeyMatch::Ternary { value, mask } => format!("{value:#x}&{mask:#x}"),
                    KeyMatch::Range { lo, hi } => format!("{lo:#x}..{hi:#x}"),
                    KeyMatch::Optional(Some(v)) => format!("opt {v:#x}"),
                    KeyMatch::Optional(None) => "any".to_string(),
                })
                .collect();
            // `const_entries` says it once for all entries.
            let constant = if e.is_const && !t.const_entries { "const " } else { "" };
            let shown = match e.shown_priority {
                shown if shown == from_last => String::new(),
                shown => format!(" shown {shown}"),
            };
            let line = format!(
                "  entry {constant}{}{shown} ({}) {}{}",
                e.priority,
                key.join(", "),
                call(self, &e.action),
                self.loc(e.loc)
            );
            self.line(&line);
        }
        if t.const_entries {
            self.line("  const_entries");
        }
        for d in &t.direct {
            self.line(&format!("  direct {}", get(&self.names.instances, d.0)));
        }
        if t.hidden {
            self.line("  hidden");
        }
        if let Some(profile) = t.profile {
            self.line(&format!("  profile {}", get(&self.names.instances, profile.0)));
        }
        if t.idle_timeout {
            self.line("  idle_timeout");
        }
        self.line("}");
    }

    fn cfg(&mut self, cfg: &Cfg) {
        for (index, node) in cfg.nodes.iter().enumerate() {
            if node.label.is_empty() {
                self.line(&format!("  n{index}:"));
            } else {
                self.line(&format!("  n{index} {}:", quoted(&node.label)));
            }
            for stmt in &node.stmts {
                self.line(&format!("    {}{}", self.op(&stmt.op), self.loc(stmt.loc)));
            }
            self.line(&format!("    {}{}", self.terminator(&node.terminator), self.loc(node.terminator_loc)));
        }
    }

    fn op(&self, op: &Op) -> String {
        match op {
            Op::Set { dest, value } => format!("{} = {}", self.field(*dest), self.expr(value)),
            Op::SetElement { column, index, value } => {
                format!("element {} at {} = {}", self.column(column), self.expr(index), self.expr(value))
            }
            Op::ExtractElement { headers, index, varbit_length } => {
                let stack = self.columns.headers_at[headers];
                let mut line = format!("extract element s{stack} at {}", self.expr(index));
                if let Some(bits) = varbit_length {
                    line.push_str(&format!(" varbit {}", self.expr(bits)));
                }
                line
            }
            Op::Extract { header, varbit_length: None } => {
                format!("extract {}", get(&self.names.headers, header.0))
            }
            Op::Extract { header, varbit_length: Some(bits) } => {
                format!("extract {} varbit {}", get(&self.names.headers, header.0), self.expr(bits))
            }
            Op::Advance { bits } => format!("advance {}", self.expr(bits)),
            Op::Lookahead { dest } => format!("lookahead {}", self.field(*dest)),
            Op::Emit { header } => format!("emit {}", get(&self.names.headers, header.0)),
            Op::Truncate { bytes } => format!("truncate {}", self.expr(bytes)),
            Op::Copy(copy) => self.copy(copy),
            Op::Extern { function, instance, args, outs, text } => {
                let mut line = String::new();
                if !outs.is_empty() {
                    line.push_str(&format!("{} = ", self.fields(outs)));
                }
                line.push_str(&format!("call {}", ident(&function.to_string())));
                if let Some(i) = instance {
                    line.push_str(&format!(" on {}", get(&self.names.instances, i.0)));
                }
                line.push_str(&format!("({})", self.exprs(args)));
                if !text.is_empty() {
                    let text: Vec<_> = text.iter().map(|t| quoted(t)).collect();
                    line.push_str(&format!(" text {}", text.join(", ")));
                }
                line
            }
        }
    }

    fn copy(&self, copy: &PacketCopy) -> String {
        let keep = match &copy.keep {
            Keep::All => "keep".to_string(),
            Keep::Fields(fields) => format!("keep ({})", self.fields(fields)),
        };
        let mut line = format!("copy {} {} {keep}", copy.begin.name(), copy.frame.name());
        if !copy.set.is_empty() {
            let set: Vec<_> =
                copy.set.iter().map(|(f, e)| format!("{} = {}", self.field(*f), self.expr(e))).collect();
            line.push_str(&format!(" set ({})", set.join(", ")));
        }
        if let Some(r) = &copy.replicas {
            line.push_str(&format!(" {} {}", r.list.name(), self.expr(&r.id)));
            for (word, field) in [("port", r.port), ("instance", r.instance), ("class", r.class_of_service)] {
                if let Some(f) = field {
                    line.push_str(&format!(" {word} {}", self.field(f)));
                }
            }
        }
        if let Some(queue) = &copy.queue {
            line.push_str(&format!(" queue {} of {}", self.expr(&queue.number), self.expr(&queue.port)));
        }
        line
    }

    fn terminator(&self, terminator: &Terminator) -> String {
        match terminator {
            Terminator::Goto(n) => format!("goto n{}", n.0),
            Terminator::If { cond, then, otherwise } => {
                format!("if {} then n{} else n{}", self.expr(cond), then.0, otherwise.0)
            }
            Terminator::Switch { value, cases, default } => {
                let cases: Vec<_> = cases.iter().map(|(v, n)| format!("{v:#x}: n{}", n.0)).collect();
                format!("switch {} {{ {} }} else n{}", self.expr(value), cases.join(", "), default.0)
            }
            Terminator::Apply { table, keys, hit, action_run, entry, selector, next, exit } => {
                let mut line = format!("apply {}({})", get(&self.names.tables, table.0), self.exprs(keys));
                if let Some(f) = hit {
                    line.push_str(&format!(" hit {}", self.field(*f)));
                }
                if let Some(f) = action_run {
                    line.push_str(&format!(" run {}", self.field(*f)));
                }
                if let Some(f) = entry {
                    line.push_str(&format!(" entry {}", self.field(*f)));
                }
                if let Some(e) = selector {
                    line.push_str(&format!(" selector {}", self.expr(e)));
                }
                line.push_str(&format!(" next n{} exit n{}", next.0, exit.0));
                line
            }
            Terminator::Turn { weight: 1, next, spent } => format!("turn n{} else n{}", next.0, spent.0),
            Terminator::Turn { weight, next, spent } => {
                format!("turn {weight} n{} else n{}", next.0, spent.0)
            }
            Terminator::Return => "return".to_string(),
            Terminator::Exit => "exit".to_string(),
            Terminator::Reject(code) => format!("reject {}", self.expr(code)),
            Terminator::Drop(reason) => format!("drop {}", get(&self.names.drop_reasons, *reason)),
            Terminator::Done => "done".to_string(),
            Terminator::Egress => "egress".to_string(),
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Lexer

/// The reason why a text is not a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// 1-based.
    pub line: u32,
    /// 1-based, in characters.
    pub column: u32,
    /// The token found there.
    pub found: String,
    /// The expected text.
    pub expected: String,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: found {}, expected {}", self.line, self.column, self.found, self.expected)
    }
}

impl std::error::Error for TextError {}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A bare name or word.
    Word(String),
    /// Something in quotes.
    Quoted(String),
    Number(BigUint),
    /// `#3`
    Index(u32),
    /// `@file:1:2`
    Place(SourceLoc),
    /// `@#3`
    PlaceIndex(u32),
    /// The file name after `locs`.
    Path(String),
    /// `..` or one punctuation character.
    Mark(&'static str),
    End,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Word(w) => write!(f, "`{w}`"),
            Token::Quoted(q) | Token::Path(q) => write!(f, "`{}`", quoted(q)),
            Token::Number(n) => write!(f, "number {n:#x}"),
            Token::Index(i) => write!(f, "`#{i}`"),
            Token::Place(l) => write!(f, "place `@{}:{}:{}`", l.file, l.line, l.column),
            Token::PlaceIndex(i) => write!(f, "place `@#{i}`"),
            Token::Mark(m) => write!(f, "`{m}`"),
            Token::End => write!(f, "the end"),
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

/// Returns the error at this byte. Lines and columns are counted only now, because a line may be very long.
fn error_at(text: &str, offset: usize, found: impl Into<String>, expected: impl Into<String>) -> TextError {
    let before = &text[..offset];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    TextError {
        line: before.matches('\n').count() as u32 + 1,
        column: before[line_start..].chars().count() as u32 + 1,
        found: found.into(),
        expected: expected.into(),
    }
}

const MARKS: [&str; 14] = ["..", "(", ")", "{", "}", "[", "]", ",", ":", "=", "/", "&", ";", "."];

impl Lexer<'_> {
    fn error(&self, at: usize, found: impl Into<String>, expected: impl Into<String>) -> TextError {
        error_at(self.text, at, found, expected)
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            match rest {
                [b' ' | b'\t' | b'\r' | b'\n', ..] => self.at += 1,
                [b'/', b'/', ..] => self.at += self.rest().find('\n').unwrap_or(rest.len()),
                _ => return,
            }
        }
    }

    fn token(&mut self) -> Result<Token, TextError> {
        let Some(first) = self.rest().chars().next() else { return Ok(Token::End) };
        let start = self.at;
        if first == '"' {
            return Ok(Token::Quoted(self.quoted()?));
        }
        if first == '@' {
            self.at += 1;
            if self.rest().starts_with('#') {
                self.at += 1;
                return Ok(Token::PlaceIndex(self.small("an index")?));
            }
            let file = self.path()?;
            self.colon()?;
            let line = self.small("a line number")?;
            self.colon()?;
            let column = self.small("a column number")?;
            return Ok(Token::Place(SourceLoc { file, line, column }));
        }
        if first == '#' {
            self.at += 1;
            return Ok(Token::Index(self.small("an index")?));
        }
        if first.is_ascii_digit() {
            let len = self.rest().bytes().take_while(u8::is_ascii_alphanumeric).count();
            let digits = &self.text[start..start + len];
            self.at += len;
            let number = match digits.strip_prefix("0x") {
                Some(hex) => BigUint::from_str_radix(hex, 16),
                None => BigUint::from_str_radix(digits, 10),
            };
            return match number {
                Ok(number) => Ok(Token::Number(number)),
                Err(_) => Err(self.error(start, format!("`{digits}`"), "a number: `12` or `0xc`")),
            };
        }
        let len = bare_name_len(self.rest());
        if len > 0 {
            self.at += len;
            return Ok(Token::Word(self.text[start..start + len].to_string()));
        }
        for mark in MARKS {
            if self.rest().starts_with(mark) {
                self.at += mark.len();
                return Ok(Token::Mark(mark));
            }
        }
        Err(self.error(start, format!("`{}`", first.escape_default()), "a name, a number or punctuation"))
    }

    fn colon(&mut self) -> Result<(), TextError> {
        if self.rest().starts_with(':') {
            self.at += 1;
            return Ok(());
        }
        Err(self.error(self.at, "something else", "`:` in `@file:line:column`"))
    }

    fn small(&mut self, what: &str) -> Result<u32, TextError> {
        let start = self.at;
        let len = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        self.at += len;
        let digits = &self.text[start..self.at];
        digits.parse().map_err(|_| self.error(start, format!("`{digits}`"), what))
    }

    fn path(&mut self) -> Result<String, TextError> {
        if self.rest().starts_with('"') {
            return self.quoted();
        }
        let start = self.at;
        self.at += self.rest().bytes().take_while(|b| is_path_byte(*b)).count();
        if self.at == start {
            return Err(self.error(start, "something else", "a file name"));
        }
        Ok(self.text[start..self.at].to_string())
    }

    fn quoted(&mut self) -> Result<String, TextError> {
        let start = self.at;
        let mut out = String::new();
        let mut chars = self.text[self.at + 1..].char_indices();
        let base = self.at + 1;
        while let Some((index, c)) = chars.next() {
            match c {
                '"' => {
                    self.at = base + index + 1;
                    return Ok(out);
                }
                '\n' => break,
                '\\' => match chars.next() {
                    Some((_, 'n')) => out.push('\n'),
                    Some((_, c @ ('"' | '\\'))) => out.push(c),
                    Some((_, 'u')) => {
                        let text: String = chars
                            .by_ref()
                            .map(|(_, c)| c)
                            .skip_while(|c| *c == '{')
                            .take_while(|c| *c != '}')
                            .take(9)
                            .collect();
                        match u32::from_str_radix(&text, 16).ok().and_then(char::from_u32) {
                            Some(c) => out.push(c),
                            None => {
                                return Err(self.error(
                                    base + index,
                                    format!("`\\u{{{text}}}`"),
                                    "a character's number",
                                ));
                            }
                        }
                    }
                    _ => return Err(self.error(base + index, "`\\`", "one of \\\", \\\\, \\n, \\u{…}")),
                },
                c => out.push(c),
            }
        }
        Err(self.error(start, "`\"`", "a closing quote on the same line"))
    }
}

struct Spanned {
    token: Token,
    /// Its start in bytes.
    offset: usize,
}

fn tokens(text: &str) -> Result<Vec<Spanned>, TextError> {
    let mut lexer = Lexer { text, at: 0 };
    let mut out: Vec<Spanned> = Vec::new();
    loop {
        lexer.skip_blanks();
        let offset = lexer.at;
        let after_locs = matches!(out.last(), Some(Spanned { token: Token::Word(w), .. }) if w == "locs");
        let token = if after_locs { Token::Path(lexer.path()?) } else { lexer.token()? };
        let end = token == Token::End;
        out.push(Spanned { token, offset });
        if end {
            return Ok(out);
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Parser

/// Reads a program. [`crate::verify::verify`] checks whether it is valid.
pub fn parse(text: &str) -> Result<Program, TextError> {
    let tokens = tokens(text)?;
    let names = Declared::collect(&tokens);
    let mut parser = Parser {
        text,
        names,
        tokens,
        at: 0,
        depth: 0,
        places: HashMap::new(),
        columns: HashMap::new(),
        stacks: HashMap::new(),
    };
    parser.program()
}

/// Names of one kind of thing, by name.
#[derive(Default)]
struct Scope {
    count: u32,
    /// `None` if several share the name.
    by_name: HashMap<String, Option<u32>>,
}

impl Scope {
    fn add(&mut self, name: &str) {
        let index = self.count;
        self.count += 1;
        self.by_name.entry(name.to_string()).and_modify(|i| *i = None).or_insert(Some(index));
    }
}

/// The declarations in the text, collected before it is read, because uses may come first.
#[derive(Default)]
struct Declared {
    fields: Scope,
    headers: Scope,
    actions: Scope,
    tables: Scope,
    instances: Scope,
    blocks: Scope,
    /// Index of the first reason with this text.
    drop_reasons: HashMap<String, u32>,
}

impl Declared {
    fn collect(tokens: &[Spanned]) -> Declared {
        let mut declared = Declared::default();
        let mut depth = 0u32;
        for (index, pair) in tokens.windows(2).enumerate() {
            let word = match &pair[0].token {
                Token::Mark("{") => {
                    depth += 1;
                    continue;
                }
                Token::Mark("}") => {
                    depth = depth.saturating_sub(1);
                    continue;
                }
                Token::Word(word) if depth == 0 => word.as_str(),
                _ => continue,
            };
            if word == "drop_reasons" {
                declared.drop_reasons(&tokens[index + 1..]);
            }
            let scope = match word {
                "field" => &mut declared.fields,
                "header" => &mut declared.headers,
                "action" => &mut declared.actions,
                "table" => &mut declared.tables,
                "instance" => &mut declared.instances,
                "block" => &mut declared.blocks,
                _ => continue,
            };
            if let Token::Word(name) | Token::Quoted(name) = &pair[1].token {
                scope.add(name);
            }
        }
        declared
    }

    fn drop_reasons(&mut self, tokens: &[Spanned]) {
        let list = tokens.iter().map_while(|t| match &t.token {
            Token::Quoted(reason) => Some(Some(reason)),
            Token::Mark(",") => Some(None),
            _ => None,
        });
        for (index, reason) in list.flatten().enumerate() {
            self.drop_reasons.entry(reason.clone()).or_insert(index as u32);
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Spanned>,
    at: usize,
    names: Declared,
    depth: u32,
    /// Index of each place in [`Program::locs`].
    places: HashMap<SourceLoc, u32>,
    /// By name.
    columns: HashMap<String, Column>,
    stacks: HashMap<String, HeaderColumn>,
}

type Parsed<T> = Result<T, TextError>;

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].token
    }

    fn peek_second(&self) -> &Token {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].token
    }

    fn advance(&mut self) {
        // The last token marks the end and is never consumed.
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
    }

    fn error_here<T>(&self, expected: impl Into<String>) -> Parsed<T> {
        let t = &self.tokens[self.at];
        Err(error_at(self.text, t.offset, t.token.to_string(), expected))
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Word(w) if w == word)
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is = self.is_word(word);
        if is {
            self.advance();
        }
        is
    }

    fn is_mark(&self, mark: &str) -> bool {
        matches!(self.peek(), Token::Mark(m) if *m == mark)
    }

    fn take_mark(&mut self, mark: &str) -> bool {
        let is = self.is_mark(mark);
        if is {
            self.advance();
        }
        is
    }

    fn expect_mark(&mut self, mark: &str) -> Parsed<()> {
        if self.take_mark(mark) { Ok(()) } else { self.error_here(format!("`{mark}`")) }
    }

    fn expect_word(&mut self, word: &str) -> Parsed<()> {
        if self.take_word(word) { Ok(()) } else { self.error_here(format!("`{word}`")) }
    }

    fn name(&mut self, what: &str) -> Parsed<String> {
        match self.peek() {
            Token::Word(name) | Token::Quoted(name) => {
                let name = name.clone();
                self.advance();
                Ok(name)
            }
            _ => self.error_here(what),
        }
    }

    fn string(&mut self, what: &str) -> Parsed<String> {
        match self.peek() {
            Token::Quoted(text) => {
                let text = text.clone();
                self.advance();
                Ok(text)
            }
            _ => self.error_here(format!("{what} in quotes")),
        }
    }

    fn number(&mut self, what: &str) -> Parsed<BigUint> {
        match self.peek() {
            Token::Number(n) => {
                let n = n.clone();
                self.advance();
                Ok(n)
            }
            _ => self.error_here(what),
        }
    }

    fn small(&mut self, what: &str) -> Parsed<u32> {
        match self.peek() {
            Token::Number(n) => match u32::try_from(n) {
                Ok(n) => {
                    self.advance();
                    Ok(n)
                }
                Err(_) => self.error_here(format!("{what} below 2^32")),
            },
            _ => self.error_here(what),
        }
    }

    /// Reads one of the keywords and returns its value.
    fn one_of<T: Copy>(&mut self, values: &[T], word: fn(T) -> &'static str) -> Parsed<T> {
        for value in values {
            if self.take_word(word(*value)) {
                return Ok(*value);
            }
        }
        let words: Vec<_> = values.iter().map(|v| format!("`{}`", word(*v))).collect();
        self.error_here(format!("one of {}", words.join(", ")))
    }

    fn reference(&mut self, what: &str, scope: fn(&Declared) -> &Scope) -> Parsed<u32> {
        let index = match self.peek() {
            Token::Index(index) => *index,
            Token::Word(name) | Token::Quoted(name) => match scope(&self.names).by_name.get(name) {
                Some(Some(index)) => *index,
                Some(None) => {
                    return self.error_here(format!("a name that only one {what} has, or `#index`"));
                }
                None => return self.error_here(format!("the name of a declared {what}")),
            },
            _ => return self.error_here(format!("a {what}")),
        };
        self.advance();
        Ok(index)
    }

    fn field(&mut self) -> Parsed<FieldId> {
        self.reference("field", |n| &n.fields).map(FieldId)
    }

    fn header(&mut self) -> Parsed<HeaderId> {
        self.reference("header", |n| &n.headers).map(HeaderId)
    }

    fn action(&mut self) -> Parsed<ActionId> {
        self.reference("action", |n| &n.actions).map(ActionId)
    }

    fn table_ref(&mut self) -> Parsed<TableId> {
        self.reference("table", |n| &n.tables).map(TableId)
    }

    fn instance(&mut self) -> Parsed<InstanceId> {
        self.reference("instance", |n| &n.instances).map(InstanceId)
    }

    fn block(&mut self) -> Parsed<BlockId> {
        self.reference("block", |n| &n.blocks).map(BlockId)
    }

    fn column(&mut self) -> Parsed<Column> {
        let known = match self.peek() {
            Token::Word(name) => self.columns.get(name).cloned(),
            _ => None,
        };
        let Some(column) = known else { return self.error_here("a column declared above") };
        self.advance();
        Ok(column)
    }

    fn stack(&mut self) -> Parsed<HeaderColumn> {
        let known = match self.peek() {
            Token::Word(name) => self.stacks.get(name).cloned(),
            _ => None,
        };
        let Some(stack) = known else { return self.error_here("a stack declared above") };
        self.advance();
        Ok(stack)
    }

    fn comma_list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.take_mark(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// `open a, b close`, possibly empty.
    fn enclosed<T>(
        &mut self,
        open: &str,
        close: &str,
        item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        self.expect_mark(open)?;
        if self.take_mark(close) {
            return Ok(Vec::new());
        }
        let items = self.comma_list(item)?;
        if !self.take_mark(close) {
            return self.error_here(format!("`,` or `{close}`"));
        }
        Ok(items)
    }

    fn loc(&mut self, p: &mut Program) -> Parsed<Loc> {
        match self.peek() {
            Token::Place(place) => {
                let place = place.clone();
                self.advance();
                Ok(Loc(*self.places.entry(place).or_insert_with_key(|place| {
                    p.locs.push(place.clone());
                    p.locs.len() as u32 - 1
                })))
            }
            Token::PlaceIndex(index) => {
                let index = *index;
                self.advance();
                Ok(Loc(index))
            }
            _ => Ok(Loc(0)),
        }
    }

    fn program(&mut self) -> Parsed<Program> {
        let mut p = Program { locs: vec![SourceLoc::default()], ..Program::default() };
        loop {
            let word = match self.peek() {
                Token::End => return Ok(p),
                Token::Word(word) => word.clone(),
                _ => return self.error_here("a declaration"),
            };
            if !matches!(
                word.as_str(),
                "program"
                    | "locs"
                    | "errors"
                    | "error_packet_too_short"
                    | "error_header_too_short"
                    | "error_invalid_argument"
                    | "drop_reasons"
                    | "translated"
                    | "field"
                    | "header"
                    | "column"
                    | "stack"
                    | "instance"
                    | "action"
                    | "table"
                    | "block"
                    | "ingress"
                    | "egress"
                    | "egress_port"
                    | "drop_place"
                    | "turns"
                    | "intrinsic"
            ) {
                return self.error_here(
                    "a declaration: program, locs, errors, error_packet_too_short, error_header_too_short, error_invalid_argument, drop_reasons, \
                     translated, field, header, column, stack, instance, action, table, block, ingress, egress, egress_port, drop_place, turns, \
                     intrinsic",
                );
            }
            self.advance();
            self.declaration(&word, &mut p)?;
        }
    }

    fn declaration(&mut self, word: &str, p: &mut Program) -> Parsed<()> {
        match word {
            "program" => p.name = self.name("the program's name")?,
            "locs" => self.locs(p)?,
            "errors" => p.errors = self.comma_list(|s| s.name("the name of an error"))?,
            "error_packet_too_short" => p.error_packet_too_short = self.small("an error code")?,
            "error_header_too_short" => p.error_header_too_short = self.small("an error code")?,
            "error_invalid_argument" => p.error_invalid_argument = self.small("an error code")?,
            "drop_reasons" => p.drop_reasons = self.comma_list(|s| s.string("a reason"))?,
            "translated" => {
                let name = self.name("the name of a type")?;
                let width = self.small("its width")?;
                p.translated.push((name, width));
            }
            "field" => {
                let name = self.name("the field's name")?;
                self.expect_mark(":")?;
                let width = self.small("a width")?;
                let kind = if self.take_word("in") {
                    FieldKind::Header(self.header()?)
                } else if self.take_word("valid") {
                    FieldKind::Valid(self.header()?)
                } else if self.take_word("metadata") {
                    FieldKind::Metadata
                } else if self.take_word("data") {
                    FieldKind::ActionData(self.action()?)
                } else if self.take_word("temp") {
                    FieldKind::Temporary
                } else {
                    return self.error_here("one of `in`, `valid`, `metadata`, `data`, `temp`");
                };
                p.fields.push(Field { name, width, kind });
            }
            "header" => {
                let name = self.name("the header's name")?;
                self.expect_word("valid")?;
                let valid = self.field()?;
                let fields = self.enclosed("{", "}", |s| {
                    let field = s.field()?;
                    let varbit_length = if s.take_word("varbit") { Some(s.field()?) } else { None };
                    Ok(HeaderField { field, varbit_length })
                })?;
                p.headers.push(Header { name, valid, fields });
            }
            "column" => {
                let name = self.name("the column's name")?;
                self.expect_mark("{")?;
                let fields = self.comma_list(Parser::field)?;
                self.expect_mark("}")?;
                self.columns.insert(name, fields.into());
            }
            "stack" => {
                let name = self.name("the stack's name")?;
                self.expect_mark("{")?;
                let headers = self.comma_list(Parser::header)?;
                self.expect_mark("}")?;
                self.stacks.insert(name, headers.into());
            }
            "instance" => self.instance_declaration(p)?,
            "action" => {
                let name = self.name("the action's name")?;
                let control_name = match self.take_word("as") {
                    true => self.name("the action's control-plane name")?,
                    false => name.clone(),
                };
                let params = self.enclosed("(", ")", Parser::field)?;
                let loc = self.loc(p)?;
                let body = self.cfg(p)?;
                p.actions.push(Action { name, control_name, params, body, loc });
            }
            "table" => self.table(p)?,
            "block" => {
                let name = self.name("the block's name")?;
                let kind = self.one_of(&BlockKind::ALL, BlockKind::name)?;
                let error_field = if self.take_word("error") { Some(self.field()?) } else { None };
                let body = self.cfg(p)?;
                p.blocks.push(Block { name, kind, body, error_field });
            }
            "ingress" => p.ingress = self.comma_list(Parser::block)?,
            "egress" => p.egress = self.comma_list(Parser::block)?,
            "egress_port" => p.egress_port = Some(self.field()?),
            "drop_place" => p.drop_place = Some(self.field()?),
            "turns" => p.turns = Some(self.field()?),
            _ => {
                let intrinsic = self.one_of(&Intrinsic::ALL, Intrinsic::name)?;
                let field = self.field()?;
                p.intrinsics.push((intrinsic, field));
            }
        }
        Ok(())
    }

    fn locs(&mut self, p: &mut Program) -> Parsed<()> {
        let Token::Path(file) = self.peek() else { return self.error_here("a file name") };
        let file = file.clone();
        self.advance();
        while matches!(self.peek(), Token::Number(_)) {
            let line = self.small("a line number")?;
            self.expect_mark(":")?;
            let column = self.small("a column number")?;
            let place = SourceLoc { file: file.clone(), line, column };
            self.places.insert(place.clone(), p.locs.len() as u32);
            p.locs.push(place);
        }
        Ok(())
    }

    fn instance_declaration(&mut self, p: &mut Program) -> Parsed<()> {
        let name = self.name("the instance's name")?;
        let kind = if self.take_word("register") {
            let width = self.small("a width")?;
            self.expect_word("size")?;
            let size = self.small("a number of cells")?;
            let given = self.take_word("initial");
            let initial = if given { self.number("the initial value")? } else { BigUint::ZERO };
            InstanceKind::Register { width, size, initial }
        } else if self.take_word("counter") {
            let unit = self.one_of(&CounterUnit::ALL, CounterUnit::name)?;
            self.expect_word("size")?;
            InstanceKind::Counter { unit, size: self.small("a number of cells")? }
        } else if self.take_word("direct_counter") {
            let unit = self.one_of(&CounterUnit::ALL, CounterUnit::name)?;
            self.expect_word("on")?;
            InstanceKind::DirectCounter { unit, table: self.table_ref()? }
        } else if self.take_word("meter") {
            let unit = self.one_of(&CounterUnit::ALL, CounterUnit::name)?;
            self.expect_word("size")?;
            InstanceKind::Meter { unit, size: self.small("a number of cells")? }
        } else if self.take_word("direct_meter") {
            let unit = self.one_of(&CounterUnit::ALL, CounterUnit::name)?;
            self.expect_word("on")?;
            InstanceKind::DirectMeter { unit, table: self.table_ref()? }
        } else if self.take_word("action_profile") {
            self.expect_word("size")?;
            let size = self.small("a number of members")?;
            InstanceKind::ActionProfile { size, selector: self.take_word("selector") }
        } else if self.take_word("digest") {
            let fields = self.enclosed("{", "}", |s| {
                let name = s.name("the field's name")?;
                s.expect_mark(":")?;
                Ok((name, s.small("a width")?))
            })?;
            InstanceKind::Digest { fields }
        } else {
            return self.error_here(
                "one of `register`, `counter`, `direct_counter`, `meter`, `direct_meter`, `action_profile`, `digest`",
            );
        };
        let loc = self.loc(p)?;
        p.instances.push(Instance { name, kind, loc });
        Ok(())
    }

    fn table(&mut self, p: &mut Program) -> Parsed<()> {
        let name = self.name("the table's name")?;
        let loc = self.loc(p)?;
        let mut t = Table {
            name,
            keys: Vec::new(),
            actions: Vec::new(),
            default: ActionCall { action: 0, data: Vec::new() },
            const_default: false,
            size: 0,
            entries: Vec::new(),
            const_entries: false,
            direct: Vec::new(),
            hidden: false,
            profile: None,
            idle_timeout: false,
            loc,
        };
        self.expect_mark("{")?;
        let mut shown: Vec<Option<u32>> = Vec::new();
        while !self.take_mark("}") {
            if self.take_word("key") {
                let name = self.name("the key's name")?;
                self.expect_mark(":")?;
                let width = self.small("a width")?;
                let kind = self.one_of(&MatchKind::ALL, MatchKind::name)?;
                t.keys.push(Key { name, width, kind });
            } else if self.take_word("action") {
                let action = self.action()?;
                let table_only = self.take_word("tableonly");
                let default_only = self.take_word("defaultonly");
                t.actions.push(TableAction { action, table_only, default_only });
            } else if self.take_word("default") {
                t.const_default = self.take_word("const");
                t.default = self.action_call(&t.actions)?;
            } else if self.take_word("size") {
                t.size = self.small("a number of entries")?;
            } else if self.take_word("entry") {
                let is_const = self.take_word("const");
                let priority = self.small("a priority")?;
                shown.push(if self.take_word("shown") { Some(self.small("a priority")?) } else { None });
                let key = self.enclosed("(", ")", Parser::key_match)?;
                let action = self.action_call(&t.actions)?;
                let loc = self.loc(p)?;
                t.entries.push(Entry { key, priority, shown_priority: 0, is_const, action, loc });
            } else if self.take_word("const_entries") {
                t.const_entries = true;
            } else if self.take_word("direct") {
                t.direct.push(self.instance()?);
            } else if self.take_word("hidden") {
                t.hidden = true;
            } else if self.take_word("profile") {
                t.profile = Some(self.instance()?);
            } else if self.take_word("idle_timeout") {
                t.idle_timeout = true;
            } else {
                return self.error_here(
                    "one of `key`, `action`, `default`, `size`, `entry`, `const_entries`, `direct`, `hidden`, `profile`, \
                     `idle_timeout`, `}`",
                );
            }
        }
        let from_last = (1..=t.entries.len() as u32).rev();
        for ((entry, shown), from_last) in t.entries.iter_mut().zip(shown).zip(from_last) {
            entry.is_const |= t.const_entries;
            entry.shown_priority = shown.unwrap_or(from_last);
        }
        p.tables.push(t);
        Ok(())
    }

    fn key_match(&mut self) -> Parsed<KeyMatch> {
        if self.take_word("any") {
            return Ok(KeyMatch::Optional(None));
        }
        if self.take_word("opt") {
            return Ok(KeyMatch::Optional(Some(self.number("a value")?)));
        }
        let value = self.number("a value, `any` or `opt`")?;
        Ok(if self.take_mark("/") {
            KeyMatch::Lpm { value, prefix_len: self.small("a prefix length")? }
        } else if self.take_mark("&") {
            KeyMatch::Ternary { value, mask: self.number("a mask")? }
        } else if self.take_mark("..") {
            KeyMatch::Range { lo: value, hi: self.number("a value")? }
        } else {
            KeyMatch::Exact(value)
        })
    }

    fn action_call(&mut self, actions: &[TableAction]) -> Parsed<ActionCall> {
        let action = if let Token::Index(index) = self.peek() {
            let index = *index;
            self.advance();
            index
        } else {
            let start = self.at;
            let id = self.action()?;
            match actions.iter().position(|a| a.action == id) {
                Some(index) => index as u32,
                None => {
                    self.at = start;
                    return self.error_here("an action that the table lists above");
                }
            }
        };
        let data = self.enclosed("(", ")", |s| s.number("a value"))?;
        Ok(ActionCall { action, data })
    }

    fn cfg(&mut self, p: &mut Program) -> Parsed<Cfg> {
        self.expect_mark("{")?;
        let mut nodes = Vec::new();
        while !self.take_mark("}") {
            let expected = format!("n{}", nodes.len());
            if !self.take_word(&expected) {
                return self.error_here(format!("node `{expected}` or `}}`"));
            }
            let label = if self.is_mark(":") { String::new() } else { self.string("a label")? };
            self.expect_mark(":")?;
            let mut stmts = Vec::new();
            while let Some(op) = self.statement()? {
                stmts.push(Stmt { op, loc: self.loc(p)? });
            }
            let terminator = self.terminator()?;
            let terminator_loc = self.loc(p)?;
            nodes.push(Node { label, stmts, terminator, terminator_loc });
        }
        Ok(Cfg { nodes })
    }

    /// Reads a statement; `None` where a terminator must follow.
    fn statement(&mut self) -> Parsed<Option<Op>> {
        if matches!(self.peek_second(), Token::Mark("=" | ",")) {
            let outs = self.comma_list(Parser::field)?;
            self.expect_mark("=")?;
            if self.is_word("call") && matches!(self.peek_second(), Token::Word(_) | Token::Quoted(_)) {
                return self.call(outs).map(Some);
            }
            let &[dest] = outs.as_slice() else { return self.error_here("`call`, after several fields") };
            return Ok(Some(Op::Set { dest, value: self.expr()? }));
        }
        let op = if self.is_word("call") {
            self.call(Vec::new())?
        } else if self.take_word("element") {
            let column = self.column()?;
            self.expect_word("at")?;
            let index = self.expr()?;
            self.expect_mark("=")?;
            Op::SetElement { column, index, value: self.expr()? }
        } else if self.is_word("extract") && matches!(self.peek_second(), Token::Word(w) if w == "element") {
            self.advance();
            self.advance();
            let headers = self.stack()?;
            self.expect_word("at")?;
            let index = self.expr()?;
            let varbit_length = if self.take_word("varbit") { Some(self.expr()?) } else { None };
            Op::ExtractElement { headers, index, varbit_length }
        } else if self.take_word("extract") {
            let header = self.header()?;
            let varbit_length = if self.take_word("varbit") { Some(self.expr()?) } else { None };
            Op::Extract { header, varbit_length }
        } else if self.take_word("advance") {
            Op::Advance { bits: self.expr()? }
        } else if self.take_word("lookahead") {
            Op::Lookahead { dest: self.field()? }
        } else if self.take_word("emit") {
            Op::Emit { header: self.header()? }
        } else if self.take_word("truncate") {
            Op::Truncate { bytes: self.expr()? }
        } else if self.take_word("copy") {
            Op::Copy(Box::new(self.copy()?))
        } else {
            return Ok(None);
        };
        Ok(Some(op))
    }

    fn call(&mut self, outs: Vec<FieldId>) -> Parsed<Op> {
        self.expect_word("call")?;
        let function = self.function()?;
        let instance = if self.take_word("on") { Some(self.instance()?) } else { None };
        let args = self.enclosed("(", ")", Parser::expr)?;
        let text = if self.take_word("text") { self.comma_list(|s| s.string("a text"))? } else { Vec::new() };
        Ok(Op::Extern { function, instance, args, outs, text })
    }

    /// Reads what follows `copy`.
    fn copy(&mut self) -> Parsed<PacketCopy> {
        let begin = self.one_of(&PipelineHalf::ALL, PipelineHalf::name)?;
        let frame = self.one_of(&CopyFrame::ALL, CopyFrame::name)?;
        self.expect_word("keep")?;
        let keep = match self.is_mark("(") {
            true => Keep::Fields(self.enclosed("(", ")", Parser::field)?),
            false => Keep::All,
        };
        let set = match self.take_word("set") {
            true => self.enclosed("(", ")", |s| {
                let field = s.field()?;
                s.expect_mark("=")?;
                Ok((field, s.expr()?))
            })?,
            false => Vec::new(),
        };
        let list = ReplicaList::ALL.into_iter().find(|list| self.take_word(list.name()));
        let replicas = match list {
            Some(list) => {
                let id = self.expr()?;
                let mut field = |word| match self.take_word(word) {
                    true => self.field().map(Some),
                    false => Ok(None),
                };
                let (port, instance) = (field("port")?, field("instance")?);
                Some(Replicas { list, id, port, instance, class_of_service: field("class")? })
            }
            None => None,
        };
        let queue = match self.take_word("queue") {
            true => {
                let number = self.expr()?;
                self.expect_word("of")?;
                Some(Queue { port: self.expr()?, number })
            }
            false => None,
        };
        Ok(PacketCopy { begin, frame, keep, set, replicas, queue })
    }

    fn node(&mut self) -> Parsed<NodeId> {
        let number = match self.peek() {
            Token::Word(w) => w.strip_prefix('n').and_then(|digits| digits.parse().ok()),
            _ => None,
        };
        match number {
            Some(number) => {
                self.advance();
                Ok(NodeId(number))
            }
            None => self.error_here("a node like `n3`"),
        }
    }

    fn terminator(&mut self) -> Parsed<Terminator> {
        Ok(if self.take_word("goto") {
            Terminator::Goto(self.node()?)
        } else if self.take_word("if") {
            let cond = self.expr()?;
            self.expect_word("then")?;
            let then = self.node()?;
            self.expect_word("else")?;
            Terminator::If { cond, then, otherwise: self.node()? }
        } else if self.take_word("switch") {
            let value = self.expr()?;
            let cases = self.enclosed("{", "}", |s| {
                let value = s.number("a value")?;
                s.expect_mark(":")?;
                Ok((value, s.node()?))
            })?;
            self.expect_word("else")?;
            Terminator::Switch { value, cases, default: self.node()? }
        } else if self.take_word("apply") {
            let table = self.table_ref()?;
            let keys = self.enclosed("(", ")", Parser::expr)?;
            let hit = if self.take_word("hit") { Some(self.field()?) } else { None };
            let action_run = if self.take_word("run") { Some(self.field()?) } else { None };
            let entry = if self.take_word("entry") { Some(self.field()?) } else { None };
            let selector = if self.take_word("selector") { Some(self.expr()?) } else { None };
            self.expect_word("next")?;
            let next = self.node()?;
            self.expect_word("exit")?;
            Terminator::Apply { table, keys, hit, action_run, entry, selector, next, exit: self.node()? }
        } else if self.take_word("turn") {
            let is_heavy = matches!(self.peek(), Token::Number(_));
            let weight = if is_heavy { self.small("the turns that this one counts as")? } else { 1 };
            let next = self.node()?;
            self.expect_word("else")?;
            Terminator::Turn { weight, next, spent: self.node()? }
        } else if self.take_word("return") {
            Terminator::Return
        } else if self.take_word("exit") {
            Terminator::Exit
        } else if self.take_word("reject") {
            Terminator::Reject(self.expr()?)
        } else if self.take_word("drop") {
            Terminator::Drop(self.drop_reason()?)
        } else if self.take_word("done") {
            Terminator::Done
        } else if self.take_word("egress") {
            Terminator::Egress
        } else {
            return self.error_here(
                "a statement (`field = …`, element, call, extract, advance, lookahead, emit, copy, truncate) or an end (goto, if, \
                 switch, turn, apply, return, exit, reject, drop, done, egress)",
            );
        })
    }

    fn function(&mut self) -> Parsed<Function> {
        let found = match self.peek() {
            Token::Word(name) | Token::Quoted(name) => name.parse().ok(),
            _ => None,
        };
        match found {
            Some(function) => {
                self.advance();
                Ok(function)
            }
            None => {
                let all = Function::all();
                let listed =
                    all.iter().filter(|f| !matches!(f, Function::Hash(_)) || f.plain_hash().is_some());
                let names: Vec<String> = listed.map(|f| format!("`{f}`")).collect();
                let names = names.join(", ");
                self.error_here(format!(
                    "an extern function: {names}, another form of a hash, or `foreign.NAME`"
                ))
            }
        }
    }

    /// Reads a drop reason and returns its index, whether `drop_reasons` comes before or after.
    fn drop_reason(&mut self) -> Parsed<u32> {
        let text = match self.peek() {
            Token::Index(index) => {
                let index = *index;
                self.advance();
                return Ok(index);
            }
            Token::Quoted(text) => text.clone(),
            _ => return self.error_here("a reason in quotes or `#index`"),
        };
        match self.names.drop_reasons.get(&text).copied() {
            Some(index) => {
                self.advance();
                Ok(index)
            }
            None => self.error_here("one of the `drop_reasons`"),
        }
    }

    fn expr(&mut self) -> Parsed<Expr> {
        self.depth = 0;
        self.expr_and_height().map(|(expr, _)| expr)
    }

    /// The height is counted separately from the nesting of the text, because slices nest without brackets.
    fn expr_and_height(&mut self) -> Parsed<(Expr, u32)> {
        let too_deep = format!("an expression nested at most {EXPR_DEPTH_MAX} deep");
        self.depth += 1;
        if self.depth > EXPR_DEPTH_MAX {
            return self.error_here(too_deep);
        }
        let (mut expr, mut height) = self.primary()?;
        while self.is_mark("[") {
            height += 1;
            if height > EXPR_DEPTH_MAX {
                return self.error_here(too_deep);
            }
            self.advance();
            let hi = self.small("the highest bit")?;
            self.expect_mark(":")?;
            let lo = self.small("the lowest bit")?;
            self.expect_mark("]")?;
            expr = Expr::Slice { value: Box::new(expr), hi, lo };
        }
        self.depth -= 1;
        Ok((expr, height))
    }

    fn primary(&mut self) -> Parsed<(Expr, u32)> {
        if let Token::Number(value) = self.peek() {
            let value = value.clone();
            self.advance();
            self.expect_mark(":")?;
            return Ok((Expr::Const { value, width: self.small("a width")? }, 1));
        }
        let function = match (self.peek(), self.peek_second()) {
            (Token::Word(word), Token::Mark("(")) => word.clone(),
            _ => return Ok((Expr::Field(self.field()?), 1)),
        };
        let start = self.at;
        self.advance();
        self.advance();
        let mut height = 0;
        let mut operand = |s: &mut Self, first: bool| -> Parsed<Box<Expr>> {
            if !first {
                s.expect_mark(",")?;
            }
            let (expr, h) = s.expr_and_height()?;
            height = height.max(h);
            Ok(Box::new(expr))
        };
        let expr = if let Some(op) = UnaryOp::ALL.into_iter().find(|op| op.name() == function) {
            Expr::Unary(op, operand(self, true)?)
        } else if let Some(op) = BinaryOp::ALL.into_iter().find(|op| op.name() == function) {
            Expr::Binary(op, operand(self, true)?, operand(self, false)?)
        } else {
            match function.as_str() {
                "element" => {
                    let column = self.column()?;
                    Expr::Element { column, index: operand(self, false)? }
                }
                "concat" => Expr::Concat(operand(self, true)?, operand(self, false)?),
                "zext" | "sext" => {
                    let a = operand(self, true)?;
                    self.expect_mark(",")?;
                    let width = self.small("a width")?;
                    if function == "zext" { Expr::ZeroExtend(a, width) } else { Expr::SignExtend(a, width) }
                }
                "select" => Expr::Select(operand(self, true)?, operand(self, false)?, operand(self, false)?),
                _ => {
                    self.at = start;
                    return self.error_here(
                        "an operator: not, neg, add, sub, …, concat, zext, sext, select, element",
                    );
                }
            }
        };
        if height >= EXPR_DEPTH_MAX {
            return self.error_here(format!("an expression nested at most {EXPR_DEPTH_MAX} deep"));
        }
        self.expect_mark(")")?;
        Ok((expr, height + 1))
    }
}
