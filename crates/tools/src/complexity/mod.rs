//! How complex a program is: for the whole of it and for each way that a packet takes through it.
//!
//! What is counted is the pipeline IR as lowering made it: parsers, controls, deparsers, and what the
//! architecture adds between them.

mod count;
mod graph;
mod picture;

pub use count::Counts;
pub use graph::{dot, svg};

use crate::Error;
use crate::derive::{self, Graph};
use p4jet_ir::{ActionId, Cfg, NodeId, Program, Terminator};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The complexity of a program.
pub struct Complexity {
    /// Of the whole program, each thing counted once.
    pub program: Counts,
    /// Tables that one packet may come to, one after another.
    pub depth: usize,
    /// Of the ways that packets go: the parsers' states, the tables, the counts.
    pub paths: Vec<Path>,
}

/// A way through the program.
pub struct Path {
    /// The parsers' states.
    pub states: Vec<String>,
    /// The tables, in order.
    pub tables: Vec<String>,
    /// What it takes.
    pub counts: Counts,
}

/// Counts. The ways are those of packets that [`derive::derive`] finds: one at least for each way through the
/// parser, and one for each decision behind it.
pub fn complexity(program: &Program, options: &derive::Options) -> Result<Complexity, Error> {
    let mut paths = Vec::new();
    for path in derive::paths(program, options)? {
        let nodes: Vec<_> = path
            .nodes
            .iter()
            .map(|(graph, node)| (*graph, &body(program, *graph).nodes[node.index()]))
            .collect();
        let tables = nodes.iter().filter_map(|(_, node)| match node.terminator {
            Terminator::Apply { table, .. } => Some(program.tables[table.index()].name.clone()),
            _ => None,
        });
        let tables = tables.collect();
        paths.push(Path { states: path.states, tables, counts: Counts::of(program, &nodes) });
    }
    let mut nodes = Vec::new();
    for graph in graphs(program) {
        nodes.extend(body(program, graph).nodes.iter().map(|node| (graph, node)));
    }
    Ok(Complexity { program: Counts::of(program, &nodes), depth: depth(program), paths })
}

/// The graphs that packets come to, each once.
fn graphs(program: &Program) -> Vec<Graph> {
    let mut seen = BTreeSet::new();
    let blocks = program.ingress.iter().chain(&program.egress).filter(|id| seen.insert(**id));
    let mut graphs: Vec<Graph> = blocks.map(|id| Graph::Block(*id)).collect();
    let tables = program.tables.iter();
    let actions: BTreeSet<ActionId> = tables.flat_map(|t| &t.actions).map(|listed| listed.action).collect();
    graphs.extend(actions.into_iter().map(Graph::Action));
    graphs
}

fn body(program: &Program, graph: Graph) -> &Cfg {
    match graph {
        Graph::Block(id) => &program.blocks[id.index()].body,
        Graph::Action(id) => &program.actions[id.index()].body,
    }
}

/// The most lookups on one way, block after block; what is in a loop counts once.
fn depth(program: &Program) -> usize {
    let longest = |id: &p4jet_ir::BlockId| {
        let body = &program.blocks[id.index()].body;
        let mut known = vec![None; body.nodes.len()];
        longest_from(body, NodeId(0), &mut known)
    };
    program.ingress.iter().chain(&program.egress).map(longest).sum()
}

fn longest_from(body: &Cfg, start: NodeId, known: &mut [Option<usize>]) -> usize {
    // Without recursion: graphs may be deep. A node is looked at twice, before and after what follows it.
    let mut work = vec![(start, false)];
    let mut open = vec![false; body.nodes.len()];
    while let Some((at, after)) = work.pop() {
        let terminator = &body.nodes[at.index()].terminator;
        if after {
            let mut best = 0;
            terminator.for_each_target(&mut |next| best = best.max(known[next.index()].unwrap_or(0)));
            known[at.index()] = Some(best + usize::from(matches!(terminator, Terminator::Apply { .. })));
        } else if known[at.index()].is_none() && !std::mem::replace(&mut open[at.index()], true) {
            work.push((at, true));
            terminator.for_each_target(&mut |next| work.push((next, false)));
        }
    }
    known[start.index()].unwrap_or(0)
}

impl Complexity {
    /// The most of everything on one way.
    pub fn most(&self) -> Counts {
        self.paths.iter().fold(Counts::default(), |most, path| most.max(&path.counts))
    }

    /// Tables in Markdown.
    pub fn markdown(&self, name: &str) -> String {
        let mut text = format!("# Complexity of {name}\n\n");
        let most = self.most();
        let deepest = self.paths.iter().map(|path| path.tables.len()).max().unwrap_or(0);
        let mut line = |cells: &[&str]| {
            writeln!(text, "| {} |", cells.join(" | ")).expect("a String takes everything");
        };
        line(&["", "", "whole program", "most on one path"]);
        line(&["---", "---", "---", "---"]);
        for ((group, what, whole), (_, _, most)) in self.program.rows().into_iter().zip(most.rows()) {
            line(&[group, what, &whole, &most]);
        }
        line(&["Processing", "depth of the pipeline", &self.depth.to_string(), &deepest.to_string()]);
        let paths = self.paths.len();
        writeln!(
            text,
            "\n## Paths\n\n{paths} paths of packets: one for each way through the parser, and one for \
                        each decision behind it.\n"
        )
        .expect("a String takes everything");
        let mut line = |cells: &[&str]| {
            writeln!(text, "| {} |", cells.join(" | ")).expect("a String takes everything");
        };
        line(&[
            "parser",
            "tables",
            "headers",
            "fields",
            "branches",
            "writes",
            "adds, copies, removes",
            "metadata (bits)",
            "lookups",
        ]);
        line(&["---"; 9]);
        for path in &self.paths {
            let c = &path.counts;
            line(&[
                &path.states.join(" "),
                &path.tables.join(" "),
                &c.headers.to_string(),
                &c.fields.to_string(),
                &c.parser_branches.to_string(),
                &c.field_writes.to_string(),
                &format!("{}, {}, {}", c.header_adds, c.header_copies, c.header_removes),
                &format!("{} ({})", c.metadata.len(), c.metadata_bits()),
                &c.lookups_text(),
            ]);
        }
        text
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        json!({
            "program": self.program.to_json(),
            "depth": self.depth,
            "most": self.most().to_json(),
            "paths": self.paths.iter().map(|path| json!({
                "states": path.states, "tables": path.tables, "counts": path.counts.to_json(),
            })).collect::<Vec<_>>(),
        })
    }
}
