//! The complexity of a program: of the whole program and of each path of a packet.
//!
//! The whole program is counted from the source: every statement reachable from `main`, once. Paths are found in the
//! pipeline IR; the counts of a path are those of the source statements on it.

mod count;
mod graph;
mod picture;
mod source;

pub use count::{Counts, What};
pub use graph::{dot, svg};

use crate::Error;
use crate::derive::{self, Graph};
use p4jet_analysis::typed;
use p4jet_ir::{Cfg, Node, NodeId, Op, Program, Terminator};
use serde_json::{Value, json};
use source::Source;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Stack size for statements and expressions nested as deeply as analysis allows; analysis uses the same.
const STACK_BYTES: usize = 256 << 20;

/// The complexity of a program.
pub struct Complexity {
    /// Counts of the whole program, each statement once.
    pub program: Counts,
    /// Length of the longest sequence of tables for one packet.
    pub depth: usize,
    /// The paths of packets: the parsers' states, the tables, the counts.
    pub paths: Vec<Path>,
    /// True if there may be more paths than those: the search has a limit.
    pub more: bool,
}

/// A path through the program.
pub struct Path {
    /// The parsers' states.
    pub states: Vec<String>,
    /// The tables, in order.
    pub tables: Vec<String>,
    /// Counts of the statements on it, each once; but headers count as often as they are extracted.
    pub counts: Counts,
}

/// Counts the program, which was lowered from `source`. The paths are those of the packets that [`derive::derive`] finds: at
/// least one for each path through the parser, and one for each decision after it.
pub fn complexity(
    program: &Program,
    source: &typed::Program,
    options: &derive::Options,
) -> Result<Complexity, Error> {
    with_stack(|| {
        let source = Source::new(source);
        let (paths, more) = derive::paths(program, options)?;
        let paths = paths.into_iter().map(|path| count_path(program, &source, path)).collect();
        Ok(Complexity { program: source.whole(), depth: depth(program), paths, more })
    })
}

/// Runs `work` with room for deep recursion.
fn with_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = p4jet_threads::builder("complexity", STACK_BYTES)
            .and_then(|thread| thread.spawn_scoped(scope, work));
        let thread = thread.expect("memory for a thread");
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn count_path(program: &Program, source: &Source, path: derive::Path) -> Path {
    let node = |(graph, node): &(Graph, NodeId)| -> &Node { &body(program, *graph).nodes[node.index()] };
    let nodes: Vec<&Node> = path.nodes.iter().map(node).collect();
    let applied = nodes.iter().filter_map(|node| match node.terminator {
        Terminator::Apply { table, .. } => Some(&program.tables[table.index()]).filter(|table| !table.hidden),
        _ => None,
    });
    let applied: Vec<_> = applied.collect();
    let mut locs: BTreeSet<_> = applied.iter().map(|table| table.loc).collect();
    let tables = locs.len();
    for node in &nodes {
        locs.extend(node.stmts.iter().map(|stmt| stmt.loc));
        locs.insert(node.terminator_loc);
    }
    let mut counts = source.of_places(locs.iter().map(|loc| &program.locs[loc.index()]));
    let extracted = nodes.iter().flat_map(|node| &node.stmts).filter_map(|stmt| match &stmt.op {
        Op::Extract { header, .. } => Some(header),
        Op::ExtractElement { headers, .. } => headers.first(),
        _ => None,
    });
    let fields: Vec<usize> = extracted.map(|header| program.headers[header.index()].fields.len()).collect();
    counts[What::Headers] = fields.len();
    counts[What::Fields] = fields.iter().sum();
    counts[What::ParserStates] = path.states.len();
    counts[What::Transitions] = path.states.len();
    counts[What::Tables] = tables;
    let actions = path.nodes.iter().filter_map(|(graph, _)| match graph {
        Graph::Action(id) => Some(&program.actions[id.index()]),
        Graph::Block(_) => None,
    });
    let actions: BTreeSet<_> =
        actions.filter(|action| action.control_name != "NoAction").map(|action| action.loc).collect();
    counts[What::Actions] = actions.len();
    let tables = applied.iter().map(|table| table.name.clone()).collect();
    Path { states: path.states, tables, counts }
}

fn body(program: &Program, graph: Graph) -> &Cfg {
    match graph {
        Graph::Block(id) => &program.blocks[id.index()].body,
        Graph::Action(id) => &program.actions[id.index()].body,
    }
}

/// Returns the maximum number of lookups on one path, block after block; a lookup in a loop counts once.
fn depth(program: &Program) -> usize {
    let longest = |id: &p4jet_ir::BlockId| {
        let body = &program.blocks[id.index()].body;
        let mut known = vec![None; body.nodes.len()];
        longest_from(program, body, NodeId(0), &mut known)
    };
    program.ingress.iter().chain(&program.egress).map(longest).sum()
}

fn longest_from(program: &Program, body: &Cfg, start: NodeId, known: &mut [Option<usize>]) -> usize {
    // Without recursion, because graphs may be deep. Each node is visited twice, before and after its successors.
    let mut work = vec![(start, false)];
    let mut open = vec![false; body.nodes.len()];
    while let Some((at, after)) = work.pop() {
        let terminator = &body.nodes[at.index()].terminator;
        if after {
            let mut best = 0;
            terminator.for_each_target(&mut |next| best = best.max(known[next.index()].unwrap_or(0)));
            let looked_up = matches!(terminator, Terminator::Apply { table, .. } if !program.tables[table.index()].hidden);
            known[at.index()] = Some(best + usize::from(looked_up));
        } else if known[at.index()].is_none() && !std::mem::replace(&mut open[at.index()], true) {
            work.push((at, true));
            terminator.for_each_target(&mut |next| work.push((next, false)));
        }
    }
    known[start.index()].unwrap_or(0)
}

impl Complexity {
    /// Returns the maximum of each count on one path.
    pub fn most(&self) -> Counts {
        self.paths.iter().fold(Counts::default(), |most, path| most.max(&path.counts))
    }

    /// Returns tables in Markdown.
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
        let all = "one for each path through the parser, and one for each decision after it";
        let found = match self.more {
            false => format!("{paths} paths of packets: {all}."),
            true => format!(
                "Only {paths} paths of packets were examined. There may be more, and more on one path."
            ),
        };
        writeln!(text, "\n## Paths\n\n{found}\n").expect("a String takes everything");
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
            "architecture's (bits)",
            "lookups",
        ]);
        line(&["---"; 10]);
        for path in &self.paths {
            let c = &path.counts;
            line(&[
                &path.states.join(" "),
                &path.tables.join(" "),
                &c[What::Headers].to_string(),
                &c[What::Fields].to_string(),
                &c[What::ParserBranches].to_string(),
                &c[What::FieldWrites].to_string(),
                &format!("{}, {}, {}", c[What::HeaderAdds], c[What::HeaderCopies], c[What::HeaderRemoves]),
                &format!("{} ({})", c.metadata.len(), c.metadata_bits()),
                &format!("{} ({})", c.architecture_metadata.len(), c.architecture_metadata_bits()),
                &c.lookups_text(),
            ]);
        }
        text
    }

    /// Returns the result for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "program": self.program.to_json(),
            "depth": self.depth,
            "most": self.most().to_json(),
            "paths_more": self.more,
            "paths": self.paths.iter().map(|path| json!({
                "states": path.states, "tables": path.tables, "counts": path.counts.to_json(),
            })).collect::<Vec<_>>(),
        })
    }
}
