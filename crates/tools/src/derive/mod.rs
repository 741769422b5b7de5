//! Derives packets for a program: one for every path through its parser, and one for every outcome of each decision
//! after it, with the required table entries.
//!
//! A packet starts with all bits open. It walks through the program and forks at each decision, recording the
//! conditions. All paths through parsers are walked, up to a number; after them, a path is followed if it has an
//! outcome that no packet has had so far. For missing outcomes, paths that come near branch off at an earlier decision.
//! At the end the conditions are solved, lookups become entries, and the interpreter runs the packet: only what its
//! trace shows counts as covered.

mod replay;
mod report;
mod set;
mod solve;
#[cfg(test)]
mod tests;
mod trail;
mod walk;
mod work;

pub use report::{Decision, Derived, Packet};
pub use work::{PATHS_BYTES_MAX, STEPS_MAX};

use crate::Error;
use crate::random::mix;
use p4jet_control::Control;
use p4jet_dataplane::Switch;
use p4jet_ir::{NodeId, Program};
use p4jet_text::Commands;
use set::{Conflict, Set};
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use trail::{Base, Edge, Event, SHORT, THERE, Trail, Unsolved};
use walk::{Map, Next, Walker};
use work::Work;

pub use report::{Run, RunSet, Way};
pub(crate) use trail::Graph;

/// The limits of the search.
#[derive(Clone, Debug)]
pub struct Options {
    /// Ingress port of all packets; by default port 0 if the program does not test the port.
    pub port: Option<u32>,
    /// Maximum number of paths through the parser.
    pub paths_max: usize,
    /// Maximum number of times that a packet may reach the same decision: bounds loops.
    pub visits_max: u32,
    /// Determines bits without conditions.
    pub seed: u64,
    /// Initial runtime commands: a name for messages, and the text.
    pub commands: Option<(String, String)>,
}

impl Default for Options {
    /// Up to 256 paths, each of which reaches a decision up to four times.
    fn default() -> Options {
        Options { port: None, paths_max: 256, visits_max: 4, seed: 1, commands: None }
    }
}

/// Maximum number of attempts to solve a path, with different bits each time, because some depend on a hash.
const TRIES_MAX: u64 = 8;
/// Number of these attempts after which another set is started if the packet fits no set.
const TRIES_WITH_SETS: u64 = 3;
/// Maximum number of sets of entries.
const SETS_MAX: usize = 64;
/// Maximum number of packets to look for with the same outcome.
const LOOKED_FOR_MAX: u32 = 12;
/// Maximum number of paths that are walked to come nearer to missing outcomes, in total and for each outcome with the
/// same branch, and maximum number of branches.
const WIDENED_MAX: u32 = 3000;
const TURNS_EACH_MAX: u32 = 4;
const TURNS_MAX: u32 = 6;
/// Maximum number of other paths that are kept until a path through the parser has its first packet.
const OTHERS_MAX: usize = 64;

/// Maximum number of bytes of all beginnings of paths through the parser; after it, the search follows single paths.
const OPEN_BYTES_MAX: usize = 32 << 20;

/// About how many steps a runtime command takes, and the comparison of a key with an entry, here and in the report.
const COMMAND_STEPS: usize = 2000;
const ENTRY_STEPS: usize = 8;
/// About how many steps a table takes to create.
const TABLE_STEPS: usize = 30_000;

/// Room for derived entries in each table: more than the packets of a set can need.
const ENTRIES_MAX: u32 = 1 << 14;

/// Creates a switch with the user's entries. Without these, tables have less room than the program requests: each set of entries has
/// a switch of its own, and together they would reserve gigabytes of address space.
pub fn switch(program: &Program, options: &Options) -> Result<Arc<Switch>, Error> {
    let mut program = program.clone();
    if options.commands.is_none() {
        for table in &mut program.tables {
            table.size = table.size.min(table.entries.len() as u32 + ENTRIES_MAX);
        }
    }
    let switch = Switch::new(program).map_err(Error::Program)?;
    if let Some((name, text)) = &options.commands {
        let control = Control::new(Arc::clone(&switch));
        control.load(name, text).map_err(|e| Error::Input(e.to_string()))?;
    }
    Ok(switch)
}

/// Derives packets and entries for a program: the pipeline IR as lowered.
pub fn derive(program: &Program, options: &Options) -> Result<Derived, Error> {
    let base = switch(program, options)?;
    let (search, paths) = Search::run(program, &base, options)?;
    report::derived(search, paths)
}

/// A path of a packet through the pipeline.
pub(crate) struct Path {
    /// The parsers' states.
    pub states: Vec<String>,
    /// The visited nodes, in order.
    pub nodes: Vec<(Graph, NodeId)>,
}

/// Returns the paths of the packets that [`derive`] finds, each once, and true if there may be more.
pub(crate) fn paths(program: &Program, options: &Options) -> Result<(Vec<Path>, bool), Error> {
    let base = switch(program, options)?;
    let (search, _) = Search::run(program, &base, options)?;
    let mut seen = HashSet::new();
    let more = search.paths_more || search.stopped;
    let trails = search.trails.into_iter().filter(|(.., trail)| !trail.edges.iter().any(is_short));
    let paths = trails.map(|(.., trail)| {
        let own = trail.events.iter().take_while(|event| **event != Event::Copy);
        let states = report::states(program, own);
        let nodes = trail.before_copies.map_or(trail.nodes.len(), |(_, nodes)| nodes);
        Path { states, nodes: trail.nodes[..nodes].to_vec() }
    });
    Ok((paths.filter(|path| seen.insert(path.nodes.clone())).collect(), more))
}

/// Returns the packets that [`derive`] finds with the entries that they need, and true if there may be more paths.
pub fn runs(program: &Program, options: &Options) -> Result<(Vec<report::RunSet>, bool), Error> {
    let base = switch(program, options)?;
    let (search, _) = Search::run(program, &base, options)?;
    let more = search.paths_more || search.stopped;
    Ok((report::runs(&search), more))
}

/// The results so far.
struct Search<'a> {
    map: Map<'a>,
    options: &'a Options,
    /// Outcomes of decisions that packets had.
    covered: HashSet<Edge>,
    sets: Vec<Set>,
    /// For each packet: its set, its index there, and its path.
    trails: Vec<(usize, usize, Trail)>,
    /// For outcomes that no packet had when one was sought: why the first failed, and the number of attempts.
    failed: HashMap<Edge, (String, u32)>,
    /// Paths through the parser that no packet takes, by their decisions, with the reasons.
    not_taken: Vec<(Vec<Edge>, String)>,
    /// Number of branches of the parser that are unreachable because of an earlier case.
    paths_impossible: usize,
    /// Paths through the parser that could not be followed, by their states, with the reasons.
    paths_lost: Vec<(Vec<String>, String)>,
    /// True if there are more paths through the parser.
    paths_more: bool,
    /// True if some search ended because it had no steps or bytes left.
    stopped: bool,
    packets: u64,
}

impl<'a> Search<'a> {
    /// Runs the whole search; also returns the number of paths through the parser.
    fn run(
        program: &'a Program,
        base: &'a Switch,
        options: &'a Options,
    ) -> Result<(Search<'a>, usize), Error> {
        let map = Map {
            program,
            switch: base,
            base: Base { program, state: base.state(), port: options.port.unwrap_or(0) },
            work: Rc::new(Work::new()),
            port: options.port,
            visits_max: options.visits_max,
            short: Default::default(),
            short_seen: Default::default(),
            sets: Default::default(),
        };
        let mut search = Search {
            map,
            options,
            covered: HashSet::new(),
            sets: Vec::new(),
            trails: Vec::new(),
            failed: HashMap::new(),
            not_taken: Vec::new(),
            paths_impossible: 0,
            paths_lost: Vec::new(),
            paths_more: false,
            stopped: false,
            packets: 0,
        };
        // Each part leaves steps for the next one.
        let part = |search: &mut Search, quarters| {
            search.stopped |= search.map.work.is_spent();
            search.map.work.allow_quarters(quarters);
        };
        part(&mut search, 1);
        let paths = search.parser_paths();
        part(&mut search, 3);
        let mut count = 0;
        for path in paths {
            if search.map.work.is_spent() {
                search.paths_more = true;
                break;
            }
            search.explore(path, None)?;
            count += 1;
        }
        part(&mut search, 4);
        for path in search.map.short.take() {
            search.explore(path, None)?;
        }
        search.widen()?;
        search.stopped |= search.map.work.is_spent();
        Ok((search, count))
    }

    /// Returns the paths through the parser, shortest first. When their beginnings have [`OPEN_BYTES_MAX`], it follows single
    /// paths to their ends: in turn the first and the last beginning, because these differ most.
    fn parser_paths(&mut self) -> Vec<Walker> {
        let until = self.map.after_parser();
        let mut found = Vec::new();
        let start = self.map.start();
        let mut bytes = start.trail.bytes();
        let mut open = VecDeque::from([start]);
        // The number of beginnings that have one decision less than the others.
        let mut shorter = 0usize;
        let (mut deep, mut from_end) = (false, false);
        while let Some(mut walker) = if from_end { open.pop_back() } else { open.pop_front() } {
            bytes -= walker.trail.bytes();
            shorter = shorter.checked_sub(1).unwrap_or(open.len());
            let next = self.map.walk(&mut walker, until);
            if self.map.work.is_spent() {
                self.paths_more = true;
                break;
            }
            let mut possible: Vec<Walker> = Vec::new();
            match next {
                Next::End if found.len() == self.options.paths_max => {
                    self.paths_more = true;
                    break;
                }
                Next::End => {
                    walker.trail.hold();
                    found.push(walker);
                }
                Next::Fork(walkers) => {
                    for mut walker in walkers {
                        match walker.trail.check(&self.map.base) {
                            Ok(()) => possible.push(walker),
                            Err(why) => {
                                self.fail(&walker.trail, None, &why.to_string());
                                match why {
                                    Unsolved::Impossible => self.paths_impossible += 1,
                                    Unsolved::GaveUp => self.lose(&walker.trail, why.to_string()),
                                }
                            }
                        }
                    }
                }
                Next::Lost(why) => self.lose(&walker.trail, why),
            }
            bytes += possible.iter().map(|walker| walker.trail.bytes()).sum::<usize>();
            if !deep && bytes > OPEN_BYTES_MAX {
                deep = true;
                open.extend(possible.drain(..));
                // In the order of their first decisions.
                open.rotate_left(shorter);
            } else if deep && possible.is_empty() {
                from_end = !from_end;
            } else if deep && !from_end {
                possible.into_iter().rev().for_each(|walker| open.push_front(walker));
            } else {
                open.extend(possible);
            }
        }
        found
    }

    /// Records a path through the parser that cannot be followed.
    fn lose(&mut self, trail: &Trail, why: String) {
        self.paths_lost.push((report::states(self.map.program, &trail.events), why));
    }

    /// Records why an outcome was not reached: the last one of the path if none was sought.
    fn fail(&mut self, trail: &Trail, wanted: Option<Edge>, why: &str) {
        let Some(edge) = wanted.or(trail.edges.last().copied()) else { return };
        let (_, count) = self.failed.entry(edge).or_insert_with(|| (why.to_string(), 0));
        *count += 1;
    }

    /// Searches for paths to outcomes that no packet had: such an outcome depends on fields that earlier decisions
    /// cause to be set or not; packets with other outcomes of these come nearer to it.
    fn widen(&mut self) -> Result<(), Error> {
        let decisions: Vec<Edge> =
            report::decisions(self.map.program).into_iter().map(|(edge, _)| edge).collect();
        // Paths, with the outcome for which they were walked and the number of branches so far.
        let mut paths: VecDeque<(Rc<[Edge]>, Option<Edge>, u32)> =
            self.trails.iter().map(|(.., trail)| (trail.edges.as_slice().into(), None, 0)).collect();
        let mut seen = HashSet::new();
        let mut tried: HashMap<(Edge, Edge), u32> = HashMap::new();
        let mut left = WIDENED_MAX;
        while let Some((path, target, turns)) = paths.pop_front()
            && !self.map.work.is_spent()
        {
            self.map.work.spend(decisions.len() + path.len());
            let reached: HashSet<_> = path.iter().map(|edge| (edge.0, edge.1)).collect();
            let missing = decisions.iter().copied().filter(|edge| !self.is_covered(edge));
            let near = |edge: &Edge| Some(*edge) == target || reached.contains(&(edge.0, edge.1));
            let wanted: Vec<Edge> = missing.filter(near).collect();
            if wanted.is_empty() || path.iter().any(is_short) || !seen.insert(Rc::clone(&path)) {
                continue;
            }
            let Some(replay) = self.map.replay(&path) else { continue };
            for edge in wanted {
                let Some(next) = replay.on_the_way_to(&self.map, edge) else { continue };
                for other in replay.others_for(&self.map, next) {
                    if self.is_covered(&edge) {
                        break;
                    }
                    let turned = other.trail.edges.last().copied().unwrap_or(edge);
                    let times = tried.entry((edge, turned)).or_default();
                    if *times == TURNS_EACH_MAX || left == 0 {
                        continue;
                    }
                    *times += 1;
                    left -= 1;
                    let walked = self.explore(other, Some(&path))?;
                    if turns < TURNS_MAX {
                        paths.extend(walked.into_iter().map(|path| (path, Some(edge), turns + 1)));
                    }
                }
            }
        }
        Ok(())
    }

    /// True if a packet had this outcome, with any entry.
    fn is_covered(&self, edge: &Edge) -> bool {
        self.covered.contains(edge) || self.covered.contains(&(edge.0, edge.1, edge.2 | THERE))
    }

    /// Creates packets for a path through the parser: at least one, and one for each new outcome. If `like` is given,
    /// only packets with a new outcome are created. Returns the decisions of the walked paths.
    fn explore(&mut self, start: Walker, like: Option<&[Edge]>) -> Result<Vec<Rc<[Edge]>>, Error> {
        let mut walked = Vec::new();
        let parser_edges = start.trail.edges.clone();
        let mut open = vec![(start, None)];
        // Paths with known outcomes, in case the others yield none.
        let mut others = VecDeque::new();
        let (mut found, mut lost) = (false, None);
        loop {
            // A path through the parser is not abandoned because its first packet fails.
            let other = || others.pop_back().filter(|_| !found).map(|walker| (walker, None));
            let Some((mut walker, wanted)) = open.pop().or_else(other) else { break };
            if self.map.work.is_spent() {
                break;
            }
            if let Some(edge) = wanted {
                // Another packet may have had that outcome meanwhile.
                if self.covered.contains(&edge)
                    || self.failed.get(&edge).is_some_and(|(_, count)| *count >= LOOKED_FOR_MAX)
                {
                    continue;
                }
            }
            if let Err(why) = walker.trail.check(&self.map.base) {
                self.fail(&walker.trail, wanted, &why.to_string());
                continue;
            }
            let end = loop {
                match self.map.walk(&mut walker, usize::MAX) {
                    Next::End => break Ok(()),
                    Next::Lost(why) => break Err(why),
                    Next::Fork(walkers) => {
                        match self.choose(walkers, &mut open, &mut others, like.unwrap_or_default()) {
                            Ok(next) => walker = next,
                            Err(why) => break Err(why.to_string()),
                        }
                    }
                }
            };
            if self.map.work.is_spent() {
                break;
            }
            let without_copy = walker.without_copy.take();
            let mut trail = walker.trail;
            walked.push(trail.edges.as_slice().into());
            if like.is_some() && trail.edges.iter().all(|edge| self.covered.contains(edge)) {
                found = true;
                continue;
            }
            let mut result = match end {
                Ok(()) => self.settle(&mut trail)?,
                Err(why) => Err(why),
            };
            if let (Err(_), Some(without)) = (&result, without_copy) {
                trail = (*without).clone();
                result = self.settle(&mut trail)?;
            }
            match result {
                Ok(()) => {
                    self.covered.extend(trail.edges.iter().copied());
                    found = true;
                }
                Err(why) => {
                    self.fail(&trail, wanted, &why);
                    lost.get_or_insert(why);
                }
            }
        }
        if let Some(why) = lost.filter(|_| like.is_none() && !found) {
            self.not_taken.push((parser_edges, why));
        }
        Ok(walked)
    }

    /// Selects how to continue: where most is new. Other paths with new outcomes wait.
    fn choose(
        &mut self,
        mut walkers: Vec<Walker>,
        open: &mut Vec<(Walker, Option<Edge>)>,
        others: &mut VecDeque<Walker>,
        like: &[Edge],
    ) -> Result<Walker, Unsolved> {
        let as_other = |walker: &Walker| walker.trail.edges.last().is_some_and(|edge| like.contains(edge));
        walkers.sort_by_key(|walker| std::cmp::Reverse((as_other(walker), walker.score)));
        let mut why = Unsolved::Impossible;
        let mut chosen = None;
        let mut rest = Vec::new();
        for mut walker in walkers {
            if chosen.is_some() {
                rest.push(walker);
                continue;
            }
            match walker.trail.check(&self.map.base) {
                Ok(()) => chosen = Some(walker),
                Err(Unsolved::Impossible) => {
                    self.fail(&walker.trail, None, &Unsolved::Impossible.to_string())
                }
                Err(Unsolved::GaveUp) => {
                    why = Unsolved::GaveUp;
                    self.fail(&walker.trail, None, &why.to_string());
                }
            }
        }
        for walker in rest.into_iter().rev() {
            let edge = walker.trail.edges.last().copied();
            match edge.is_some_and(|edge| !self.covered.contains(&edge)) {
                true => open.push((walker, edge)),
                false => others.push_back(walker),
            }
        }
        let many = others.len().saturating_sub(OTHERS_MAX);
        others.drain(..many);
        chosen.ok_or(why)
    }

    /// Finds a packet for a path, and entries that are compatible with those of a set; runs it.
    fn settle(&mut self, trail: &mut Trail) -> Result<Result<(), String>, Error> {
        let mut why = String::new();
        // Starts with the action data of other packets, because then entries can be shared. Conflicting data change.
        let mut fresh = HashSet::new();
        for attempt in 0..TRIES_MAX {
            if self.map.work.is_spent() {
                break;
            }
            let number = self.packets << 8 | attempt;
            let seed = mix(self.options.seed) ^ mix(number);
            let mut solution = trail.solve(&self.map.base, seed, &fresh);
            if solution.is_err() && attempt + 1 == TRIES_MAX {
                solution = trail.solve_as_seen(&self.map.base);
            }
            let solution = match solution {
                Ok(solution) => solution,
                Err(unsolved) => {
                    why = unsolved.to_string();
                    continue;
                }
            };
            let mut place = None;
            let mut conflicts = HashSet::new();
            for (index, set) in self.sets.iter_mut().enumerate() {
                self.map.work.spend(16 * trail.lookups.len());
                let commands = set.commands.len();
                let added = set.add(self.map.program, trail, &solution);
                self.map.work.spend(COMMAND_STEPS * (set.commands.len() - commands));
                match added {
                    Ok(()) => {
                        place = Some(index);
                        break;
                    }
                    Err(Conflict::Lookup(at)) => {
                        conflicts.extend(trail.lookups[at].keys.iter().flat_map(|key| trail.data_in(key)));
                    }
                    Err(Conflict::Copies(at)) => conflicts.extend(trail.data_in(&trail.copies[at].id)),
                    Err(Conflict::Refused) => {}
                }
            }
            let index = match place {
                Some(index) => index,
                None if attempt < TRIES_WITH_SETS && !self.sets.is_empty() => {
                    fresh.extend(conflicts);
                    continue;
                }
                None if self.sets.len() == SETS_MAX => {
                    return Ok(Err(format!("its entries go with none of {SETS_MAX} sets")));
                }
                None => {
                    self.map.work.spend(program_size(self.map.program));
                    let mut set = Set::new(switch(self.map.program, self.options)?);
                    if set.add(self.map.program, trail, &solution).is_err() {
                        why = "the switch refuses its entries".to_string();
                        fresh = trail.data().collect();
                        continue;
                    }
                    self.sets.push(set);
                    self.sets.len() - 1
                }
            };
            let set = &mut self.sets[index];
            // The reference implementation of tables compares all entries.
            let entries = set.commands.len() / self.map.program.tables.len().max(1);
            self.map.work.spend(2 * trail.nodes.len() + ENTRY_STEPS * entries * trail.lookups.len());
            let (trace, _) = set.switch.trace(solution.port, &solution.frame).map_err(Error::Input)?;
            self.map.work.spend(4 * trace.events.len());
            let found = set::events(&trace);
            if set::goes(trail, &found) {
                set.frames.push((solution.port, solution.frame));
                trail.hold();
                self.trails.push((index, set.frames.len() - 1, trail.clone()));
                self.packets += 1;
                return Ok(Ok(()));
            }
            why = difference(self.map.program, &trail.events, &found);
            fresh = trail.data().collect();
        }
        Ok(Err(why))
    }
}

/// Returns about how many steps a switch takes to create.
fn program_size(program: &Program) -> usize {
    let bodies = program.blocks.iter().map(|block| &block.body);
    let bodies = bodies.chain(program.actions.iter().map(|action| &action.body));
    let nodes = bodies.flat_map(|body| &body.nodes).map(|node| 1 + node.stmts.len());
    8 * (nodes.sum::<usize>() + program.fields.len()) + TABLE_STEPS * program.tables.len()
}

/// Ignores whether an entry existed or was created.
fn plain(edge: &Edge) -> Edge {
    (edge.0, edge.1, edge.2 & !THERE)
}

fn is_short(edge: &Edge) -> bool {
    edge.2 & SHORT != 0
}

/// Returns where a packet took another path.
fn difference(program: &Program, expected: &[Event], found: &[Event]) -> String {
    let say = |event: Option<&Event>| match event {
        None => "the end".to_string(),
        Some(event) => report::words(program, event),
    };
    let at = expected.iter().zip(found).take_while(|(a, b)| a == b).count();
    format!("it reaches {} instead of {}", say(found.get(at)), say(expected.get(at)))
}
