//! Counting what some nodes do.

use crate::derive::Graph;
use p4jet_ir::{
    BinaryOp, BlockKind, Expr, FieldId, FieldKind, HeaderId, MatchKind, Node, Op, Program, TableId,
    Terminator, UnaryOp,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// How often things are done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Headers that parsers take off the packet.
    pub headers: usize,
    /// Their fields.
    pub fields: usize,
    /// Decisions of parsers; of a whole program the ways that these go.
    pub parser_branches: usize,
    /// Tables, each once.
    pub tables: usize,
    /// Decisions outside of parsers.
    pub branches: usize,
    /// Internet checksums.
    pub checksums: usize,
    /// Reads of registers.
    pub register_reads: usize,
    /// Writes of registers.
    pub register_writes: usize,
    /// Headers that become valid outside of parsers.
    pub header_adds: usize,
    /// Headers that are set, field by field, to another one.
    pub header_copies: usize,
    /// Headers that become invalid.
    pub header_removes: usize,
    /// Metadata fields that are read or written, with their widths.
    pub metadata: BTreeMap<String, u32>,
    /// Writes of header fields outside of parsers, but for copies.
    pub field_writes: usize,
    /// Writes of metadata.
    pub metadata_writes: usize,
    /// Arithmetic: sums, products, shifts.
    pub arithmetic: usize,
    /// Comparisons, and operations on their results.
    pub boolean: usize,
    /// Calls of other externs, by name.
    pub externs: BTreeMap<String, usize>,
    /// Lookups by kind and widths of the key: `exact[48]`.
    pub lookups: BTreeMap<String, usize>,
}

impl Counts {
    /// Of these nodes, as often as they are named.
    pub(super) fn of(program: &Program, nodes: &[(Graph, &Node)]) -> Counts {
        let mut counts = Counts::default();
        let mut tables = BTreeSet::new();
        for (graph, node) in nodes {
            let parser = match graph {
                Graph::Block(id) => program.blocks[id.index()].kind == BlockKind::Parser,
                Graph::Action(_) => false,
            };
            counts.node(program, node, parser, &mut tables);
        }
        counts.tables = tables.len();
        counts
    }

    fn node(&mut self, program: &Program, node: &Node, parser: bool, tables: &mut BTreeSet<TableId>) {
        let copied = copies(program, node);
        self.header_copies += copied.len();
        for stmt in &node.stmts {
            stmt.op.for_each_expr(&mut |e| self.expr(program, e));
            match &stmt.op {
                Op::Extract { header, .. } => {
                    self.headers += 1;
                    self.fields += program.headers[header.index()].fields.len();
                }
                Op::ExtractElement { headers, .. } => {
                    self.headers += 1;
                    self.fields += program.headers[headers[0].index()].fields.len();
                }
                Op::SetElement { column, value, .. } => self.set(program, column[0], value, parser, &copied),
                Op::Set { dest, value } => self.set(program, *dest, value, parser, &copied),
                Op::Extern { function, .. } => match function.as_str() {
                    "register.read" => self.register_reads += 1,
                    "register.write" => self.register_writes += 1,
                    name if name.starts_with("csum16") => self.checksums += 1,
                    name => *self.externs.entry(name.to_string()).or_default() += 1,
                },
                _ => {}
            }
        }
        node.terminator.for_each_expr(&mut |e| self.expr(program, e));
        match &node.terminator {
            Terminator::If { .. } | Terminator::Switch { .. } if parser => self.parser_branches += 1,
            Terminator::If { .. } | Terminator::Switch { .. } => self.branches += 1,
            Terminator::Apply { table, .. } => {
                if !program.tables[table.index()].hidden {
                    tables.insert(*table);
                }
                let keys = &program.tables[table.index()].keys;
                let kinds: Vec<String> =
                    keys.iter().map(|key| format!("{}[{}]", kind_name(key.kind), key.width)).collect();
                if !kinds.is_empty() {
                    *self.lookups.entry(kinds.join("+")).or_default() += 1;
                }
            }
            _ => {}
        }
    }

    fn set(
        &mut self,
        program: &Program,
        dest: FieldId,
        value: &Expr,
        parser: bool,
        copied: &BTreeSet<HeaderId>,
    ) {
        let field = &program.fields[dest.index()];
        match field.kind {
            FieldKind::Metadata => {
                self.metadata_writes += 1;
                self.touch(program, dest);
            }
            _ if parser => {}
            FieldKind::Header(header) if !copied.contains(&header) && !is_cleared(dest, value) => {
                self.field_writes += 1;
            }
            FieldKind::Valid(_) => match value {
                Expr::Const { value, .. } if value.bits() == 0 => self.header_removes += 1,
                // Of a copy the validity comes along.
                Expr::Const { .. } | Expr::Field(_) | Expr::Element { .. } => self.header_adds += 1,
                _ => {}
            },
            _ => {}
        }
    }

    fn expr(&mut self, program: &Program, expr: &Expr) {
        // One element stands for all.
        let mut one = expr.clone();
        one.rewrite(&mut |e| {
            if let Expr::Element { column, index } = e {
                index.for_each_field(&mut |field| self.touch(program, field));
                *e = Expr::Field(column[0]);
            }
        });
        one.for_each_field(&mut |field| self.touch(program, field));
        let mut count = |operator: &Expr| match operator {
            Expr::Binary(op, a, _) => match op {
                BinaryOp::And | BinaryOp::Or | BinaryOp::Xor if a.width(program) > 1 => {}
                BinaryOp::And | BinaryOp::Or | BinaryOp::Xor => self.boolean += 1,
                op if op.is_comparison() => self.boolean += 1,
                _ => self.arithmetic += 1,
            },
            Expr::Unary(UnaryOp::Neg, _) => self.arithmetic += 1,
            Expr::Unary(UnaryOp::Not, a) if a.width(program) == 1 => self.boolean += 1,
            _ => {}
        };
        expr.clone().rewrite(&mut |e| count(e));
    }

    fn touch(&mut self, program: &Program, field: FieldId) {
        let field = &program.fields[field.index()];
        // `$` is in names that the compiler made.
        if field.kind == FieldKind::Metadata && !field.name.contains('$') {
            self.metadata.insert(field.name.clone(), field.width);
        }
    }

    /// Bits of the metadata.
    pub fn metadata_bits(&self) -> u32 {
        self.metadata.values().sum()
    }

    /// The larger of each.
    pub(super) fn max(mut self, other: &Counts) -> Counts {
        let larger = |mine: &mut BTreeMap<String, usize>, others: &BTreeMap<String, usize>| {
            for (name, count) in others {
                let mine = mine.entry(name.clone()).or_default();
                *mine = (*mine).max(*count);
            }
        };
        larger(&mut self.externs, &other.externs);
        larger(&mut self.lookups, &other.lookups);
        if other.metadata_bits() > self.metadata_bits() {
            self.metadata = other.metadata.clone();
        }
        for (mine, (_, _, others)) in self.numbers_mut().into_iter().zip(other.numbers()) {
            *mine = (*mine).max(others);
        }
        self
    }

    fn numbers(&self) -> [(&'static str, &'static str, usize); 15] {
        [
            ("Parsing", "packet headers", self.headers),
            ("Parsing", "packet fields", self.fields),
            ("Parsing", "branches in the parse graph", self.parser_branches),
            ("Processing", "tables", self.tables),
            ("Processing", "branches", self.branches),
            ("Processing", "checksums", self.checksums),
            ("State accesses", "register reads", self.register_reads),
            ("State accesses", "register writes", self.register_writes),
            ("Packet modification", "header adds", self.header_adds),
            ("Packet modification", "header copies", self.header_copies),
            ("Packet modification", "header removes", self.header_removes),
            ("Action complexity", "field writes", self.field_writes),
            ("Action complexity", "metadata writes", self.metadata_writes),
            ("Action complexity", "arithmetic expressions", self.arithmetic),
            ("Action complexity", "boolean expressions", self.boolean),
        ]
    }

    /// In the order of [`Self::numbers`].
    fn numbers_mut(&mut self) -> [&mut usize; 15] {
        [
            &mut self.headers,
            &mut self.fields,
            &mut self.parser_branches,
            &mut self.tables,
            &mut self.branches,
            &mut self.checksums,
            &mut self.register_reads,
            &mut self.register_writes,
            &mut self.header_adds,
            &mut self.header_copies,
            &mut self.header_removes,
            &mut self.field_writes,
            &mut self.metadata_writes,
            &mut self.arithmetic,
            &mut self.boolean,
        ]
    }

    /// Group, what is counted, how many: what a table shows.
    pub(super) fn rows(&self) -> Vec<(&'static str, &'static str, String)> {
        let mut rows: Vec<_> = self.numbers().map(|(group, what, n)| (group, what, n.to_string())).into();
        rows.push(("Action complexity", "externs", list(&self.externs)));
        rows.push(("Metadata", "fields", self.metadata.len().to_string()));
        rows.push(("Metadata", "bits", self.metadata_bits().to_string()));
        rows.push(("Lookups", "count × kind[bits of the key]", self.lookups_text()));
        rows
    }

    /// `2 × exact[48], 1 × lpm[32]`
    pub(super) fn lookups_text(&self) -> String {
        list(&self.lookups)
    }

    pub(super) fn to_json(&self) -> Value {
        let mut value = json!({});
        for (_, what, n) in self.numbers() {
            value[what.replace(' ', "_")] = json!(n);
        }
        value["metadata"] = json!(self.metadata);
        value["metadata_bits"] = json!(self.metadata_bits());
        value["externs"] = json!(self.externs);
        value["lookups"] = json!(self.lookups);
        value
    }
}

fn list(counts: &BTreeMap<String, usize>) -> String {
    let parts: Vec<String> = counts.iter().map(|(name, count)| format!("{count} × {name}")).collect();
    if parts.is_empty() { "none".to_string() } else { parts.join(", ") }
}

fn kind_name(kind: MatchKind) -> &'static str {
    match kind {
        MatchKind::Exact => "exact",
        MatchKind::Lpm => "lpm",
        MatchKind::Ternary => "ternary",
        MatchKind::Range => "range",
        MatchKind::Optional => "optional",
    }
}

/// The field that this copies, perhaps only if its header is valid.
fn copied_from(dest: FieldId, value: &Expr) -> Option<FieldId> {
    match value {
        Expr::Field(source) => Some(*source),
        Expr::Select(_, new, old) if **old == Expr::Field(dest) => copied_from(dest, new),
        _ => None,
    }
}

/// Whether this is part of `setValid`, which clears the fields of a header that was invalid.
fn is_cleared(dest: FieldId, value: &Expr) -> bool {
    let Expr::Select(_, kept, cleared) = value else { return false };
    let keeps = matches!(&**kept, Expr::Element { .. }) || **kept == Expr::Field(dest);
    keeps && matches!(&**cleared, Expr::Const { value, .. } if value.bits() == 0)
}

/// The headers whose fields are all set to those of one other header.
fn copies(program: &Program, node: &Node) -> BTreeSet<HeaderId> {
    let mut from: BTreeMap<HeaderId, (BTreeSet<HeaderId>, usize)> = BTreeMap::new();
    for stmt in &node.stmts {
        if let Op::Set { dest, value } = &stmt.op
            && let Some(source) = copied_from(*dest, value)
            && let FieldKind::Header(to) = program.fields[dest.index()].kind
            && let FieldKind::Header(source) = program.fields[source.index()].kind
            && to != source
        {
            let (sources, count) = from.entry(to).or_default();
            sources.insert(source);
            *count += 1;
        }
    }
    let whole = from.into_iter().filter(|(header, (sources, count))| {
        let fields = program.headers[header.index()].fields.len();
        sources.len() == 1 && *count >= fields && fields > 1
    });
    whole.map(|(header, _)| header).collect()
}
