//! What runs on each path of a packet: counts of constructs, as x(NF) of the latency model, and finer counts.
//!
//! The paths are those of the packets that [`derive::derive`] finds. Each packet, with its entries, runs through the
//! interpreter, on the pipeline IR after all passes, from which machine code is made; its trace is counted. So what a pass
//! removed does not count, and no validity, index or length is guessed. docs/predict.md has the rules.

mod count;
mod follow;
mod statements;
#[cfg(test)]
mod tests;

pub use count::{Calls, Counts, Lookup};

use crate::Error;
use crate::derive;
use follow::Map;
use p4jet_ir::Program;
use serde_json::{Value, json};
use std::fmt::Write;

/// The constructs on the paths of a program.
pub struct Constructs {
    /// The paths.
    pub paths: Vec<Path>,
    /// True if there may be more paths: the search has a limit, and a path whose packet did not take it again is left out.
    pub more: bool,
}

/// A path through the program.
pub struct Path {
    /// The parsers' states.
    pub states: Vec<String>,
    /// The outcomes of the decisions, in the words of [`derive::Decision`].
    pub decisions: Vec<String>,
    /// True if the packet itself was sent; it may also be dropped, or continue as copies.
    pub sent: bool,
    /// What the packet does.
    pub counts: Counts,
    /// What each copy does, and its copies in turn, in the order in which they run.
    pub copies: Vec<Counts>,
}

impl Path {
    /// Returns x(NF) of the packet itself.
    pub fn x(&self) -> [u32; 6] {
        self.counts.x()
    }

    /// Returns the tables, in the order of the lookups.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.counts.lookups.iter().map(|lookup| lookup.table.as_str())
    }
}

/// Counts the constructs on each path. `lowered` is the pipeline IR before the passes, `program` the same program after them.
pub fn constructs(
    lowered: &Program,
    program: &Program,
    options: &derive::Options,
) -> Result<Constructs, Error> {
    let statements = statements::of(lowered);
    let map = Map::new(program, &statements);
    let (sets, mut more) = derive::runs(lowered, options)?;
    let mut paths = Vec::new();
    for set in sets {
        let commands = Some(("the derived commands".to_string(), set.commands));
        let switch = derive::switch(program, &derive::Options { commands, ..options.clone() })?;
        for run in set.runs {
            // Every packet runs, because it may change registers.
            let (trace, _) = switch.trace(run.port, &run.frame).map_err(Error::Input)?;
            let Some(way) = run.way else { continue };
            let followed = map.follow(&trace);
            if followed.is_cut || !way.is_of(&trace) {
                more = true;
                continue;
            }
            let (counts, copies, sent) = (followed.packet, followed.copies, followed.sent);
            paths.push(Path { states: way.states, decisions: way.decisions, sent, counts, copies });
        }
    }
    Ok(Constructs { paths, more })
}

impl Constructs {
    /// Returns tables in Markdown.
    pub fn markdown(&self, name: &str) -> String {
        let mut text = format!("# Constructs of {name}\n\n");
        let paths = self.paths.len();
        let found = match self.more {
            false => format!("{paths} paths of packets."),
            true => format!("Only {paths} paths of packets were examined. There may be more."),
        };
        writeln!(text, "{found} x = [parsed − 1, modified, copied, removed, added, tables − 1]\n")
            .expect("a String takes everything");
        let mut line = |cells: &[&str]| {
            writeln!(text, "| {} |", cells.join(" | ")).expect("a String takes everything");
        };
        line(&["path", "parser", "tables", "end", "x", "x of copies"]);
        line(&["---"; 6]);
        for (number, path) in (1..).zip(&self.paths) {
            let lookups = path.counts.lookups.iter().map(|lookup| {
                let action = lookup.action.as_deref().unwrap_or("no action");
                let action = action.rsplit('.').next().unwrap_or(action);
                format!("{}: {action}{}", lookup.table, if lookup.hit { "" } else { " (miss)" })
            });
            let vector = |x: [u32; 6]| format!("[{}]", x.map(|n| n.to_string()).join(" "));
            line(&[
                &format!("{number}"),
                &path.states.join(" "),
                &lookups.collect::<Vec<_>>().join(", "),
                if path.sent { "sent" } else { "" },
                &vector(path.x()),
                &path.copies.iter().map(|copy| vector(copy.x())).collect::<Vec<_>>().join(" "),
            ]);
        }
        text += "\n## Finer counts\n\nOf the packet itself. Bytes, unless stated otherwise.\n\n";
        let mut line = |cells: &[&str]| {
            writeln!(text, "| {} |", cells.join(" | ")).expect("a String takes everything");
        };
        line(&[
            "path",
            "parsed",
            "emitted",
            "moved",
            "copied",
            "fields written (bits)",
            "keys × size",
            "checksums",
            "externs",
            "branches",
            "packet copies",
        ]);
        line(&["---"; 11]);
        for (number, path) in (1..).zip(&self.paths) {
            let c = &path.counts;
            let keys: Vec<String> =
                c.lookups.iter().map(|lookup| format!("{} × {}", lookup.key_text(), lookup.size)).collect();
            let externs = c.externs.iter().map(|calls| {
                let of = calls.instance.as_ref().map_or(String::new(), |name| format!(" {name}"));
                format!("{} × {}{of} ({})", calls.calls, calls.function, calls.bytes)
            });
            line(&[
                &format!("{number}"),
                &c.parsed_bytes.to_string(),
                &c.emitted_bytes.to_string(),
                &c.moved_bytes.to_string(),
                &c.copied_bytes.to_string(),
                &format!("{} ({})", c.fields_written, c.written_bits),
                &keys.join(", "),
                &format!("{} ({})", c.checksums, c.checksum_bytes),
                &externs.collect::<Vec<_>>().join(", "),
                &c.branches.to_string(),
                &c.packet_copies.to_string(),
            ]);
        }
        text
    }

    /// Returns the result for programs.
    pub fn to_json(&self) -> Value {
        let path = |path: &Path| {
            json!({
                "states": path.states,
                "tables": path.tables().collect::<Vec<_>>(),
                "decisions": path.decisions,
                "sent": path.sent,
                "x": path.x(),
                "counts": path.counts.to_json(),
                "copies": path.copies.iter().map(Counts::to_json).collect::<Vec<_>>(),
            })
        };
        json!({
            "paths": self.paths.iter().map(path).collect::<Vec<_>>(),
            "paths_more": self.more,
        })
    }
}
