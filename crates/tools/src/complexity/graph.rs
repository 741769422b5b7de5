//! Parsers and controls as a picture.

use super::picture::Picture;
use p4jet_ir::{BlockKind, Op, Program, Terminator};
use std::collections::HashMap;
use std::fmt::Write;

/// Longer texts are cut.
const LABEL_CHARS_MAX: usize = 60;

/// A Graphviz text: block after block, parser states, decisions and tables with their actions. Nodes that
/// only lead on are left out.
pub fn dot(program: &Program) -> String {
    let drawing = Drawing::new(program);
    let mut dot = "digraph program {\n  node [shape=box, style=filled];\n".to_string();
    for (name, label, colour) in &drawing.nodes {
        writeln!(dot, "  {name} [fillcolor=\"{colour}\", label=\"{}\"];", escape(label))
            .expect("a String takes everything");
    }
    for (from, to, label) in &drawing.edges {
        writeln!(dot, "  {from} -> {to} [label=\"{}\"];", escape(label)).expect("a String takes everything");
    }
    dot + "}\n"
}

/// The same as an SVG picture.
pub fn svg(program: &Program) -> String {
    let drawing = Drawing::new(program);
    let index: HashMap<&str, usize> =
        drawing.nodes.iter().enumerate().map(|(i, (name, ..))| (name.as_str(), i)).collect();
    let nodes = drawing.nodes.iter().map(|(_, label, colour)| (label.as_str(), *colour)).collect();
    let edges = drawing.edges.iter().filter_map(|(from, to, label)| {
        Some((*index.get(from.as_str())?, *index.get(to.as_str())?, label.as_str()))
    });
    Picture::new(nodes, edges.collect()).svg()
}

struct Drawing<'a> {
    program: &'a Program,
    /// Name, label, colour.
    nodes: Vec<(String, String, &'static str)>,
    /// From, to, label.
    edges: Vec<(String, String, String)>,
}

impl<'a> Drawing<'a> {
    fn new(program: &'a Program) -> Drawing<'a> {
        let mut drawing = Drawing { program, nodes: Vec::new(), edges: Vec::new() };
        let order: Vec<_> = program.ingress.iter().chain(&program.egress).collect();
        for (place, id) in order.iter().enumerate() {
            drawing.block(place, &program.blocks[id.index()], place + 1 < order.len());
        }
        drawing.node("end", "packet leaves", "white");
        drawing
    }

    fn node(&mut self, name: &str, label: &str, colour: &'static str) {
        self.nodes.push((name.to_string(), label.to_string(), colour));
    }

    fn edge(&mut self, from: &str, to: &str, label: &str) {
        self.edges.push((from.to_string(), to.to_string(), cut(label)));
    }

    fn block(&mut self, place: usize, block: &p4jet_ir::Block, more: bool) {
        let program = self.program;
        let begin = format!("b{place}");
        let next = if more { format!("b{}", place + 1) } else { "end".to_string() };
        self.node(&begin, &block.name, "lightgray");
        let drawn = |node: usize| {
            let node = &block.body.nodes[node];
            let statements = match block.kind {
                BlockKind::Parser => {
                    node.stmts.iter().any(|s| matches!(s.op, Op::Extract { .. } | Op::ExtractElement { .. }))
                }
                BlockKind::Control | BlockKind::Deparser => !node.stmts.is_empty(),
            };
            let decides = matches!(
                node.terminator,
                Terminator::If { .. }
                    | Terminator::Switch { .. }
                    | Terminator::Apply { .. }
                    | Terminator::Reject(_)
                    | Terminator::Drop(_)
                    | Terminator::Done
            );
            statements || decides || (block.kind == BlockKind::Parser && !node.label.is_empty())
        };
        let name = |node: usize| format!("b{place}n{node}");
        // Where a way into a node leads: past those that are not drawn.
        let lead = |node: p4jet_ir::NodeId| {
            let mut at = node;
            for _ in 0..block.body.nodes.len() {
                if drawn(at.index()) {
                    return name(at.index());
                }
                match block.body.nodes[at.index()].terminator {
                    Terminator::Goto(next) | Terminator::Turn { next, .. } => at = next,
                    _ => return next.clone(),
                }
            }
            next.clone()
        };
        self.edge(&begin, &lead(p4jet_ir::NodeId(0)), "");
        for (index, node) in block.body.nodes.iter().enumerate().filter(|(index, _)| drawn(*index)) {
            let from = name(index);
            let mut lines: Vec<String> = Vec::new();
            if !node.label.is_empty() {
                lines.push(node.label.clone());
            }
            let mut others = 0;
            for stmt in &node.stmts {
                match &stmt.op {
                    Op::Extract { header, .. } => {
                        lines.push(format!("extract {}", program.headers[header.index()].name))
                    }
                    Op::ExtractElement { headers, .. } => {
                        let name = &program.headers[headers[0].index()].name;
                        lines.push(format!("extract {}", name.replace("[0]", "[…]")))
                    }
                    Op::Emit { header } => {
                        lines.push(format!("emit {}", program.headers[header.index()].name))
                    }
                    Op::Extern { function, .. } => lines.push(function.clone()),
                    Op::Copy(_) => lines.push("copy".to_string()),
                    _ => others += 1,
                }
            }
            if others > 0 {
                lines.push(format!("{others} statement{}", if others == 1 { "" } else { "s" }));
            }
            let words = |e: &p4jet_ir::Expr| p4jet_ir::text::print_expr(program, e);
            let mut look = "white";
            let mut edges: Vec<(String, String)> = Vec::new();
            match &node.terminator {
                Terminator::Goto(to) | Terminator::Turn { next: to, .. } => {
                    edges.push((lead(*to), String::new()))
                }
                Terminator::If { cond, then, otherwise } => {
                    look = "lightyellow";
                    lines.push(format!("{}?", words(cond)));
                    edges.push((lead(*then), "yes".to_string()));
                    edges.push((lead(*otherwise), "no".to_string()));
                }
                Terminator::Switch { value, cases, default } => {
                    look = "lightyellow";
                    lines.push(format!("{}?", words(value)));
                    for (case, to) in cases {
                        edges.push((lead(*to), format!("{case:#x}")));
                    }
                    edges.push((lead(*default), "else".to_string()));
                }
                Terminator::Apply { table, next: to, exit, .. } => {
                    look = "lightblue";
                    let table = &program.tables[table.index()];
                    lines.push(format!("table {}", table.name));
                    let kind = |key: &p4jet_ir::Key| format!("{:?}", key.kind).to_lowercase();
                    lines.extend(
                        table.keys.iter().map(|key| format!("{}: {}[{}]", key.name, kind(key), key.width)),
                    );
                    let actions =
                        table.actions.iter().map(|a| program.actions[a.action.index()].control_name.as_str());
                    lines.push(format!("{{ {} }}", actions.collect::<Vec<_>>().join("; ")));
                    edges.push((lead(*to), String::new()));
                    if lead(*exit) != lead(*to) {
                        edges.push((lead(*exit), "exit".to_string()));
                    }
                }
                Terminator::Drop(reason) => {
                    look = "lightpink";
                    lines.push(format!("drop: {}", program.drop_reasons[*reason as usize]));
                }
                Terminator::Done => lines.push("only copies go on".to_string()),
                Terminator::Reject(code) => {
                    look = "lightpink";
                    lines.push(format!("reject {}", words(code)));
                    edges.push((next.clone(), String::new()));
                }
                Terminator::Egress => {
                    edges.push((format!("b{}", program.ingress.len()), "egress".to_string()));
                }
                Terminator::Return | Terminator::Exit => edges.push((next.clone(), String::new())),
            }
            let lines: Vec<String> = lines.iter().map(|line| cut(line)).collect();
            self.node(&from, &lines.join("\n"), look);
            for (to, label) in edges {
                self.edge(&from, &to, &label);
            }
        }
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LABEL_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_string(),
    }
}

/// For a text in quotes.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
