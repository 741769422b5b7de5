//! Runs the derived packets again from the beginning and reports the coverage.

use super::set::{Set, events, goes};
use super::trail::{Edge, Event, Graph, Trail};
use super::{Search, plain, switch};
use crate::Error;
use p4jet_dataplane::{Processed, Trace, TraceEvent};
use p4jet_ir::{BlockKind, NodeId, Program, SourceLoc, Terminator};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write;

/// Frames by ingress port.
pub type Frames = BTreeMap<u32, Vec<Vec<u8>>>;

/// Packets, entries, and their coverage.
pub struct Derived {
    /// Runtime commands with the captures that belong to them, by ingress port; most programs need one.
    pub sets: Vec<(String, Frames)>,
    /// Every packet, set by set.
    pub packets: Vec<Packet>,
    /// Number of paths through the parser for which packets were sought.
    pub paths: usize,
    /// Number of those that packets take.
    pub paths_taken: usize,
    /// True if the parser has more paths than were requested.
    pub paths_more: bool,
    /// True if the search ended at a limit, [`super::STEPS_MAX`] or [`super::PATHS_BYTES_MAX`].
    pub stopped: bool,
    /// Number of branches of the parser that are unreachable because of an earlier case.
    pub paths_impossible: usize,
    /// Paths through the parser that were not followed, with reasons.
    pub paths_lost: Vec<(Vec<String>, String)>,
    /// Number of parser states, and of those that packets reach.
    pub states: (usize, usize),
    /// Paths through the parser that no packet takes: the last decision, and the reason.
    pub not_taken: Vec<(String, String)>,
    /// Every decision of the pipeline.
    pub decisions: Vec<Decision>,
    /// Hits and misses of each table.
    pub tables: BTreeMap<String, (u64, u64)>,
    /// Number of runs of each action in a table.
    pub actions: BTreeMap<String, u64>,
}

/// A packet.
pub struct Packet {
    /// Its entries.
    pub set: usize,
    /// Its ingress port.
    pub port: u32,
    /// The parser's states.
    pub states: Vec<String>,
    /// Tables that were applied to it, with the actions that ran.
    pub lookups: Vec<String>,
    /// Its result.
    pub outcome: String,
    /// True if it took the intended path.
    pub taken: bool,
}

/// An outcome of a decision.
pub struct Decision {
    /// The place and the outcome.
    pub what: String,
    /// True if a packet had it.
    pub taken: bool,
    /// The reason why none had it.
    pub why: Option<String>,
}

/// Packets that share entries, in the order in which they run.
pub struct RunSet {
    /// The runtime commands for the entries.
    pub commands: String,
    /// The packets.
    pub runs: Vec<Run>,
}

/// A packet.
pub struct Run {
    /// Its ingress port.
    pub port: u32,
    /// Its bytes.
    pub frame: Vec<u8>,
    /// Its path; `None` if another packet took the same one, or if it ends where a parser needs more bytes.
    pub way: Option<Way>,
}

/// The path of a packet, up to its first copy.
pub struct Way {
    /// The parsers' states.
    pub states: Vec<String>,
    /// The outcomes of its decisions.
    pub decisions: Vec<String>,
    /// Its steps with those of its copies, without nodes.
    events: Vec<Event>,
    goes_on: bool,
}

impl Way {
    /// True if a trace follows this path, by blocks, lookups, actions and copies. Its program may be another form of the one
    /// from which the path was derived, with other nodes.
    pub fn is_of(&self, trace: &Trace) -> bool {
        let found: Vec<Event> = events(trace).into_iter().filter(is_no_node).collect();
        let copy_follows = self.goes_on && found.get(self.events.len()) == Some(&Event::Copy);
        found.starts_with(&self.events) && (found.len() == self.events.len() || copy_follows)
    }
}

fn is_no_node(event: &Event) -> bool {
    !matches!(event, Event::Node(_))
}

/// Returns the packets that were found.
pub(super) fn runs(search: &Search) -> Vec<RunSet> {
    let program = search.map.program;
    let names: HashMap<Edge, String> = decisions(program).into_iter().collect();
    let trails: HashMap<(usize, usize), &Trail> =
        search.trails.iter().map(|(set, place, trail)| ((*set, *place), trail)).collect();
    let mut seen = HashSet::new();
    let mut way = |trail: &Trail| {
        let (edges, nodes) = trail.before_copies.unwrap_or((trail.edges.len(), trail.nodes.len()));
        let own = trail.events.iter().take_while(|event| **event != Event::Copy);
        // A hit and a miss with the same action pass through the same nodes.
        let path = (trail.nodes[..nodes].to_vec(), own.clone().cloned().collect::<Vec<_>>());
        if trail.edges.iter().any(super::is_short) || !seen.insert(path) {
            return None;
        }
        let decisions = trail.edges[..edges].iter().filter_map(|edge| names.get(&plain(edge)).cloned());
        Some(Way {
            states: states(program, own),
            decisions: decisions.collect(),
            events: trail.events.iter().filter(|event| is_no_node(event)).cloned().collect(),
            goes_on: trail.goes_on,
        })
    };
    let mut found = Vec::new();
    for (index, set) in search.sets.iter().enumerate().filter(|(_, set)| !set.frames.is_empty()) {
        let runs = set.frames.iter().enumerate().map(|(place, (port, frame))| Run {
            port: *port,
            frame: frame.clone(),
            way: trails.get(&(index, place)).and_then(|trail| way(trail)),
        });
        let before = search.options.commands.as_ref().map(|(_, text)| text.as_str());
        found.push(RunSet { runs: runs.collect(), commands: commands(before, set) });
    }
    found
}

/// Describes an event.
pub(super) fn words(program: &Program, event: &Event) -> String {
    match event {
        Event::Block(id) => format!("block {}", program.blocks[id.index()].name),
        Event::Node(label) => format!("`{label}`"),
        Event::Apply { table, hit } => {
            let found = if *hit { "a hit in" } else { "a miss in" };
            format!("{found} {}", program.tables[table.index()].name)
        }
        Event::Action(id) => format!("action {}", program.actions[id.index()].name),
        Event::Copy => "a copy".to_string(),
    }
}

/// Runs all packets again, each set on a fresh switch, and counts.
pub(super) fn derived(search: Search, paths: usize) -> Result<Derived, Error> {
    let program = search.map.program;
    let mut derived = Derived {
        sets: Vec::new(),
        packets: Vec::new(),
        paths,
        paths_taken: 0,
        paths_more: search.paths_more,
        stopped: search.stopped,
        paths_impossible: search.paths_impossible,
        paths_lost: search.paths_lost,
        states: (0, 0),
        not_taken: Vec::new(),
        decisions: Vec::new(),
        tables: BTreeMap::new(),
        actions: BTreeMap::new(),
    };
    for table in program.tables.iter().filter(|table| !table.hidden) {
        derived.tables.insert(table.name.clone(), (0, 0));
        for listed in &table.actions {
            derived.actions.insert(format!("{} of {}", action_name(program, listed.action), table.name), 0);
        }
    }
    let trails: HashMap<(usize, usize), &Trail> =
        search.trails.iter().map(|(set, place, trail)| ((*set, *place), trail)).collect();
    let mut covered: HashSet<Edge> = HashSet::new();
    let mut paths_taken: HashSet<Vec<Edge>> = HashSet::new();
    let mut states_taken = BTreeSet::new();
    let after_parser = search.map.after_parser();
    // A set whose packets all went other ways than sought has none.
    let with_packets = search.sets.iter().enumerate().filter(|(_, set)| !set.frames.is_empty());
    for (index, set) in with_packets {
        let text = commands(search.options.commands.as_ref().map(|(_, text)| text.as_str()), set);
        let commands = Some(("the derived commands".to_string(), text.clone()));
        let fresh = switch(program, &super::Options { commands, ..search.options.clone() })?;
        let mut captures: BTreeMap<u32, Vec<Vec<u8>>> = BTreeMap::new();
        for (place, (port, frame)) in set.frames.iter().enumerate() {
            captures.entry(*port).or_default().push(frame.clone());
            let (trace, processed) = fresh.trace(*port, frame).map_err(Error::Input)?;
            let found = events(&trace);
            let trail = trails.get(&(index, place)).copied();
            let taken = trail.is_some_and(|trail| goes(trail, &found));
            if let Some(trail) = trail.filter(|_| taken) {
                covered.extend(trail.edges.iter().map(plain));
                let blocks = program.ingress.iter().take(after_parser);
                let blocks: Vec<Graph> = blocks.map(|id| Graph::Block(*id)).collect();
                let own = trail.before_copies.map_or(trail.edges.len(), |(edges, _)| edges);
                let own = trail.edges[..own].iter().filter(|edge| blocks.contains(&edge.0));
                let own: Vec<Edge> = own.copied().collect();
                if !own.iter().any(super::is_short) {
                    paths_taken.insert(own);
                }
            }
            let states = states(program, &found);
            states_taken.extend(states.iter().cloned());
            derived.packets.push(Packet {
                set: derived.sets.len(),
                port: *port,
                states,
                lookups: count(program, &trace, &mut derived.tables, &mut derived.actions),
                outcome: outcome(&processed),
                taken,
            });
        }
        derived.sets.push((text, captures));
    }
    derived.paths_taken = paths_taken.len();
    let parsers = program.blocks.iter().filter(|block| block.kind == BlockKind::Parser);
    let labels: BTreeSet<&str> = parsers
        .flat_map(|block| &block.body.nodes)
        .map(|node| node.label.as_str())
        .filter(|l| !l.is_empty())
        .collect();
    derived.states = (labels.len(), labels.iter().filter(|label| states_taken.contains(**label)).count());
    let decisions = decisions(program);
    let visited: HashSet<_> = search.trails.iter().flat_map(|(.., trail)| &trail.nodes).copied().collect();
    let failed: HashMap<Edge, &str> =
        search.failed.iter().map(|(edge, (why, _))| (plain(edge), why.as_str())).collect();
    for (edge, what) in &decisions {
        let taken = covered.contains(edge);
        let why = || match failed.get(edge) {
            Some(why) => *why,
            None if visited.contains(&(edge.0, edge.1)) => SETTLED,
            None => "no packet reaches it",
        };
        derived.decisions.push(Decision {
            what: what.clone(),
            taken,
            why: (!taken).then(|| why().to_string()),
        });
    }
    let names: HashMap<Edge, String> = decisions.into_iter().collect();
    for (edges, why) in &search.not_taken {
        let last = edges.last().and_then(|edge| names.get(&plain(edge)));
        derived.not_taken.push((last.cloned().unwrap_or_default(), why.clone()));
    }
    Ok(derived)
}

/// The reason for a missing outcome that no condition could request.
const SETTLED: &str = "an earlier step decides it";

fn commands(before: Option<&str>, set: &Set) -> String {
    let mut text = String::new();
    if let Some(before) = before {
        text += before.trim_end();
        text += "\n";
    }
    for line in &set.commands {
        text += line;
        text += "\n";
    }
    text
}

fn action_name(program: &Program, id: p4jet_ir::ActionId) -> &str {
    &program.actions[id.index()].control_name
}

/// Returns the labels of the parsers' nodes.
pub(super) fn states<'a>(program: &Program, events: impl IntoIterator<Item = &'a Event>) -> Vec<String> {
    let mut states = Vec::new();
    let mut parser = false;
    for event in events {
        match event {
            Event::Block(id) => parser = program.blocks[id.index()].kind == BlockKind::Parser,
            Event::Node(label) if parser => states.push(label.to_string()),
            _ => {}
        }
    }
    states
}

fn count(
    program: &Program,
    trace: &Trace,
    tables: &mut BTreeMap<String, (u64, u64)>,
    actions: &mut BTreeMap<String, u64>,
) -> Vec<String> {
    let mut lookups = Vec::new();
    let mut last = None;
    for event in events(trace) {
        match event {
            Event::Apply { table, hit } => {
                let name = &program.tables[table.index()].name;
                if let Some((hits, misses)) = tables.get_mut(name) {
                    *if hit { hits } else { misses } += 1;
                }
                last = Some((name, hit));
            }
            Event::Action(id) => {
                if let Some((table, hit)) = last.take() {
                    let action = action_name(program, id);
                    if let Some(count) = actions.get_mut(&format!("{action} of {table}")) {
                        *count += 1;
                    }
                    let short = action.rsplit('.').next().unwrap_or(action);
                    lookups.push(format!("{table}: {short}{}", if hit { "" } else { " (miss)" }));
                }
            }
            Event::Block(_) | Event::Node(_) | Event::Copy => {}
        }
    }
    let copies = trace.events.iter().filter(|e| matches!(e, TraceEvent::CopyBegins { .. })).count();
    if copies > 0 {
        lookups.push(format!("{copies} copies"));
    }
    lookups
}

fn outcome(processed: &Processed) -> String {
    let mut parts: Vec<String> =
        processed.sent.iter().map(|(port, frame)| format!("port {port}, {} bytes", frame.len())).collect();
    parts.extend(processed.dropped.iter().map(|why| format!("dropped: {why}")));
    if parts.is_empty() { "nothing".to_string() } else { parts.join("; ") }
}

fn place(loc: &SourceLoc) -> String {
    if loc.line == 0 { String::new() } else { format!("{}:{}: ", loc.file, loc.line) }
}

/// Returns every outcome of every decision of the pipeline, with a description.
pub(super) fn decisions(program: &Program) -> Vec<(Edge, String)> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let blocks = program.ingress.iter().chain(&program.egress).filter(|id| seen.insert(**id));
    let mut graphs: Vec<_> = blocks
        .map(|id| (Graph::Block(*id), &program.blocks[id.index()].name, &program.blocks[id.index()].body))
        .collect();
    let listed: BTreeSet<_> =
        program.tables.iter().flat_map(|t| &t.actions).map(|listed| listed.action).collect();
    for id in listed {
        let action = &program.actions[id.index()];
        graphs.push((Graph::Action(id), &action.name, &action.body));
    }
    for (graph, name, body) in graphs {
        for (at, node) in (0..).map(NodeId).zip(&body.nodes) {
            let place = place(&program.locs[node.terminator_loc.index()]);
            let mut outcome = |index: u32, what: String| {
                found.push(((graph, at, index), format!("{place}{name}: {what}")));
            };
            match &node.terminator {
                Terminator::If { .. } => {
                    outcome(0, "condition holds".to_string());
                    outcome(1, "condition does not hold".to_string());
                }
                Terminator::Switch { cases, .. } => {
                    for (index, (value, _)) in (0..).zip(cases) {
                        outcome(index, format!("case {value:#x}"));
                    }
                    outcome(cases.len() as u32, "no case".to_string());
                }
                Terminator::Apply { table, keys, .. } => {
                    let table = &program.tables[table.index()];
                    let hits = if keys.is_empty() { &[][..] } else { &table.actions[..] };
                    for (index, listed) in (0..).zip(hits).filter(|(_, listed)| !listed.default_only) {
                        let entries = table.entries.iter().any(|entry| entry.action.action == index);
                        if !table.const_entries || entries {
                            outcome(
                                index,
                                format!("{} hits {}", table.name, action_name(program, listed.action)),
                            );
                        }
                    }
                    outcome(table.actions.len() as u32, format!("{} runs its default action", table.name));
                }
                _ => {}
            }
        }
    }
    found
}

impl Derived {
    /// Returns the report as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let taken = |n: usize, of: usize| format!("{n} of {of}");
        let decisions = self.decisions.iter().filter(|d| d.taken).count();
        let hit = self.tables.values().filter(|(hits, _)| *hits > 0).count();
        let ran = self.actions.values().filter(|count| **count > 0).count();
        let mut line = |what: &str, value: String| {
            writeln!(text, "{what:<26}{value}").expect("a String takes everything");
        };
        let more = if self.paths_more { ", and there are more" } else { "" };
        line("paths through the parser", taken(self.paths_taken, self.paths) + more);
        line("parser states", taken(self.states.1, self.states.0));
        line("decisions", taken(decisions, self.decisions.len()));
        line("tables hit", taken(hit, self.tables.len()));
        line("actions run", taken(ran, self.actions.len()));
        line("packets", self.packets.len().to_string());
        if self.stopped {
            line("search", "ended at its limit: there may be more".to_string());
        }
        let astray = self.packets.iter().filter(|packet| !packet.taken).count();
        if astray > 0 {
            line("packets gone astray", astray.to_string());
        }
        if self.paths_impossible > 0 {
            line("branches not entered", format!("{}: impossible", self.paths_impossible));
        }
        let mut list = |title: &str, items: Vec<String>| {
            if !items.is_empty() {
                writeln!(text, "\n{title}").expect("a String takes everything");
                items.iter().for_each(|item| text.push_str(&format!("  {item}\n")));
            }
        };
        list(
            "Paths through the parser that were not followed:",
            self.paths_lost.iter().map(|(states, why)| format!("{}: {why}", states.join(" "))).collect(),
        );
        let decisions =
            self.decisions.iter().filter_map(|d| Some(format!("{}: {}", d.what, d.why.as_ref()?)));
        list("Decisions not taken:", decisions.collect());
        let not_taken: BTreeSet<String> =
            self.not_taken.iter().map(|(what, why)| format!("{what}: {why}")).collect();
        list("Paths through the parser that no packet takes:", not_taken.into_iter().collect());
        let packets = self.packets.iter().enumerate().map(|(i, packet)| {
            let lookups =
                if packet.lookups.is_empty() { String::new() } else { packet.lookups.join(", ") + "; " };
            let astray = if packet.taken { "" } else { " (went astray)" };
            format!(
                "{}.{i}  {}; {lookups}{}{astray}",
                packet.set + 1,
                packet.states.join(" "),
                packet.outcome
            )
        });
        list("Packets (set.number):", packets.collect());
        text
    }

    /// Returns the report for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "paths": self.paths,
            "paths_taken": self.paths_taken,
            "paths_more": self.paths_more,
            "stopped": self.stopped,
            "paths_impossible": self.paths_impossible,
            "paths_not_followed": self.paths_lost.iter()
                .map(|(states, why)| json!({ "states": states, "why": why })).collect::<Vec<_>>(),
            "states": self.states.0,
            "states_taken": self.states.1,
            "decisions": self.decisions.iter()
                .map(|d| json!({ "what": d.what, "taken": d.taken, "why": d.why })).collect::<Vec<_>>(),
            "not_taken": self.not_taken.iter()
                .map(|(what, why)| json!({ "decision": what, "why": why })).collect::<Vec<_>>(),
            "tables": self.tables.iter()
                .map(|(name, (hits, misses))| (name.clone(), json!({ "hits": hits, "misses": misses })))
                .collect::<serde_json::Map<_, _>>(),
            "actions": self.actions.iter()
                .map(|(name, count)| (name.clone(), json!(count))).collect::<serde_json::Map<_, _>>(),
            "packets": self.packets.iter().map(|packet| json!({
                "set": packet.set + 1, "port": packet.port, "states": packet.states, "lookups": packet.lookups,
                "outcome": packet.outcome, "taken": packet.taken,
            })).collect::<Vec<_>>(),
        })
    }
}
