//! Packets for a program: for every way through its parser one that goes it, and for every decision behind the parser
//! one that makes it, with the table entries that this takes.
//!
//! A packet begins as bits that are all open. It walks through the program; at each decision it splits, and what the
//! decision asks is noted. Parsers are walked on all ways, up to a number; behind them a way is followed if it has a
//! decision that no packet has made so far. For those that are missing then, ways that come near turn at an earlier
//! decision. At the end the notes are solved, lookups become entries, and the interpreter runs the packet: what
//! counts as covered is what its trace tells.

mod replay;
mod report;
mod set;
mod solve;
mod walk;
mod way;

pub use report::{Decision, Derived, Packet};

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
use walk::{Map, Next, Walker};
use way::{Base, Edge, Event, SHORT, THERE, Unsolved, Way};

pub(crate) use way::Graph;

/// How far to go.
#[derive(Clone, Debug)]
pub struct Options {
    /// Ingress port of all packets; by default port 0 where the program does not test the port.
    pub port: Option<u32>,
    /// Most ways through the parser.
    pub paths_max: usize,
    /// How often a packet may reach the same decision: bounds loops.
    pub visits_max: u32,
    /// Decides the bits that nothing asks anything of.
    pub seed: u64,
    /// Runtime commands that are carried out before: a name for messages, and the text.
    pub commands: Option<(String, String)>,
}

/// Tries to solve a way, with other bits each time: some depend on a hash.
const TRIES_MAX: u64 = 8;
/// Of these such that another set is begun if no set goes with the packet.
const TRIES_WITH_SETS: u64 = 3;
/// Most sets of entries.
const SETS_MAX: usize = 64;
/// How many packets are looked for that make the same decision.
const LOOKED_FOR_MAX: u32 = 12;
/// How many ways are walked to come nearer to decisions that no packet made, in all and for each such decision with the
/// same turn, and after how many turns it is given up.
const WIDENED_MAX: u32 = 3000;
const TURNS_EACH_MAX: u32 = 4;
const TURNS_MAX: u32 = 6;
/// How many other ways are kept until a way through the parser has its first packet.
const OTHERS_MAX: usize = 64;

/// A switch with the user's entries.
fn switch(program: &Program, options: &Options) -> Result<Arc<Switch>, Error> {
    let switch = Switch::new(program.clone()).map_err(Error::Input)?;
    if let Some((name, text)) = &options.commands {
        let control = Control::new(Arc::clone(&switch));
        control.load(name, text).map_err(|e| Error::Input(e.to_string()))?;
    }
    Ok(switch)
}

/// Derives packets and entries for a program: the pipeline IR as lowering made it.
pub fn derive(program: &Program, options: &Options) -> Result<Derived, Error> {
    let base = switch(program, options)?;
    let (search, paths) = Search::run(program, &base, options)?;
    report::derived(search, paths)
}

/// A way through the pipeline that a packet goes.
pub(crate) struct Path {
    /// The parsers' states.
    pub states: Vec<String>,
    /// Where it was, in order.
    pub nodes: Vec<(Graph, NodeId)>,
}

/// The ways of the packets that [`derive`] finds, each once.
pub(crate) fn paths(program: &Program, options: &Options) -> Result<Vec<Path>, Error> {
    let base = switch(program, options)?;
    let (search, _) = Search::run(program, &base, options)?;
    let mut seen = HashSet::new();
    let ways = search.ways.into_iter().filter(|(.., way)| !way.edges.iter().any(is_short));
    let paths = ways.map(|(.., way)| {
        let own = way.events.iter().take_while(|event| **event != Event::Copy);
        let states = report::states(program, own);
        let nodes = way.before_copies.map_or(way.nodes.len(), |(_, nodes)| nodes);
        Path { states, nodes: way.nodes[..nodes].to_vec() }
    });
    Ok(paths.filter(|path| seen.insert(path.nodes.clone())).collect())
}

/// What was found so far.
struct Search<'a> {
    map: Map<'a>,
    options: &'a Options,
    /// Decisions that packets made.
    covered: HashSet<Edge>,
    sets: Vec<Set>,
    /// For each packet: its set, its place in that, the way it went.
    ways: Vec<(usize, usize, Way)>,
    /// For decisions that no packet made when it was wanted: why the first did not, and how many there were.
    failed: HashMap<Edge, (String, u32)>,
    /// Ways through the parser that no packet goes, by the decisions that it makes, and why.
    not_taken: Vec<(Vec<Edge>, String)>,
    /// Branches of the parser that are not entered, because a case before them was: how many.
    paths_impossible: usize,
    /// Ways through the parser that could not be followed.
    paths_lost: Vec<(Way, String)>,
    /// Whether there are more ways through the parser.
    paths_more: bool,
    packets: u64,
}

impl<'a> Search<'a> {
    /// Finds all that there is to find; also how many ways there are through the parser.
    fn run(
        program: &'a Program,
        base: &'a Switch,
        options: &'a Options,
    ) -> Result<(Search<'a>, usize), Error> {
        let map = Map {
            program,
            switch: base,
            base: Base { program, state: base.state(), port: options.port.unwrap_or(0) },
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
            ways: Vec::new(),
            failed: HashMap::new(),
            not_taken: Vec::new(),
            paths_impossible: 0,
            paths_lost: Vec::new(),
            paths_more: false,
            packets: 0,
        };
        let paths = search.parser_paths();
        let count = paths.len();
        for path in paths {
            search.explore(path, None)?;
        }
        for path in search.map.short.take() {
            search.explore(path, None)?;
        }
        search.widen()?;
        Ok((search, count))
    }

    /// The ways through the parser, shortest first.
    fn parser_paths(&mut self) -> Vec<Walker> {
        let until = self.map.after_parser();
        let mut found = Vec::new();
        let mut open = VecDeque::from([self.map.start()]);
        while let Some(mut walker) = open.pop_front() {
            match self.map.walk(&mut walker, until) {
                Next::End if found.len() == self.options.paths_max => {
                    self.paths_more = true;
                    break;
                }
                Next::End => found.push(walker),
                Next::Fork(ways) => {
                    for mut walker in ways {
                        match walker.way.check(&self.map.base) {
                            Ok(()) => open.push_back(walker),
                            Err(why) => {
                                self.fail(&walker.way, None, &why.to_string());
                                match why {
                                    Unsolved::Impossible => self.paths_impossible += 1,
                                    Unsolved::GaveUp => self.paths_lost.push((walker.way, why.to_string())),
                                }
                            }
                        }
                    }
                }
                Next::Lost(why) => self.paths_lost.push((walker.way, why)),
            }
        }
        found
    }

    /// Notes why a decision was not made: the last of the way if none is wanted.
    fn fail(&mut self, way: &Way, wanted: Option<Edge>, why: &str) {
        let Some(edge) = wanted.or(way.edges.last().copied()) else { return };
        let (_, count) = self.failed.entry(edge).or_insert_with(|| (why.to_string(), 0));
        *count += 1;
    }

    /// Looks for what stands between packets and the decisions that none of them made: what such a decision is about
    /// was set because of others, or not set; packets that make these in another way come nearer to it.
    fn widen(&mut self) -> Result<(), Error> {
        let decisions: Vec<Edge> =
            report::decisions(self.map.program).into_iter().map(|(edge, _)| edge).collect();
        // Ways, with the decision that they were walked for and how many turns that took.
        let mut ways: VecDeque<(Rc<[Edge]>, Option<Edge>, u32)> =
            self.ways.iter().map(|(.., way)| (way.edges.as_slice().into(), None, 0)).collect();
        let mut seen = HashSet::new();
        let mut tried: HashMap<(Edge, Edge), u32> = HashMap::new();
        let mut left = WIDENED_MAX;
        while let Some((way, target, turns)) = ways.pop_front() {
            let missing = decisions.iter().copied().filter(|edge| !self.is_covered(edge));
            let near = |edge: &Edge| Some(*edge) == target || replay::comes_to(&way, edge);
            let wanted: Vec<Edge> = missing.filter(near).collect();
            if wanted.is_empty() || way.iter().any(is_short) || !seen.insert(Rc::clone(&way)) {
                continue;
            }
            let Some(replay) = self.map.replay(&way) else { continue };
            for edge in wanted {
                let Some(next) = replay.on_the_way_to(&self.map, edge) else { continue };
                for other in replay.others_for(&self.map, next) {
                    if self.is_covered(&edge) {
                        break;
                    }
                    let turned = other.way.edges.last().copied().unwrap_or(edge);
                    let times = tried.entry((edge, turned)).or_default();
                    if *times == TURNS_EACH_MAX || left == 0 {
                        continue;
                    }
                    *times += 1;
                    left -= 1;
                    let walked = self.explore(other, Some(&way))?;
                    if turns < TURNS_MAX {
                        ways.extend(walked.into_iter().map(|way| (way, Some(edge), turns + 1)));
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether a packet made this decision, by whatever entry.
    fn is_covered(&self, edge: &Edge) -> bool {
        self.covered.contains(edge) || self.covered.contains(&(edge.0, edge.1, edge.2 | THERE))
    }

    /// Makes packets for a way through the parser: one at least, and one for each decision that is new. Those that are
    /// to be `like` another are made only if they make a new decision. Gives the decisions of the ways walked.
    fn explore(&mut self, start: Walker, like: Option<&[Edge]>) -> Result<Vec<Rc<[Edge]>>, Error> {
        let mut walked = Vec::new();
        let parser_edges = start.way.edges.clone();
        let mut open = vec![(start, None)];
        // Ways with old decisions, in case that none is found with the others.
        let mut others = VecDeque::new();
        let (mut found, mut lost) = (false, None);
        loop {
            // A way through the parser is not given up with its first packet.
            let other = || others.pop_back().filter(|_| !found).map(|walker| (walker, None));
            let Some((mut walker, wanted)) = open.pop().or_else(other) else { break };
            if let Some(edge) = wanted {
                // Somebody else may have made that decision meanwhile.
                if self.covered.contains(&edge)
                    || self.failed.get(&edge).is_some_and(|(_, count)| *count >= LOOKED_FOR_MAX)
                {
                    continue;
                }
            }
            if let Err(why) = walker.way.check(&self.map.base) {
                self.fail(&walker.way, wanted, &why.to_string());
                continue;
            }
            let end = loop {
                match self.map.walk(&mut walker, usize::MAX) {
                    Next::End => break Ok(()),
                    Next::Lost(why) => break Err(why),
                    Next::Fork(ways) => {
                        match self.choose(ways, &mut open, &mut others, like.unwrap_or_default()) {
                            Ok(next) => walker = next,
                            Err(why) => break Err(why.to_string()),
                        }
                    }
                }
            };
            let without_copy = walker.without_copy.take();
            let mut way = walker.way;
            walked.push(way.edges.as_slice().into());
            if like.is_some() && way.edges.iter().all(|edge| self.covered.contains(edge)) {
                found = true;
                continue;
            }
            let mut result = match end {
                Ok(()) => self.settle(&mut way)?,
                Err(why) => Err(why),
            };
            if let (Err(_), Some(without)) = (&result, without_copy) {
                way = (*without).clone();
                result = self.settle(&mut way)?;
            }
            match result {
                Ok(()) => {
                    self.covered.extend(way.edges.iter().copied());
                    found = true;
                }
                Err(why) => {
                    self.fail(&way, wanted, &why);
                    lost.get_or_insert(why);
                }
            }
        }
        if let Some(why) = lost.filter(|_| like.is_none() && !found) {
            self.not_taken.push((parser_edges, why));
        }
        Ok(walked)
    }

    /// The way on: where most can be seen. Others with new decisions wait.
    fn choose(
        &mut self,
        mut ways: Vec<Walker>,
        open: &mut Vec<(Walker, Option<Edge>)>,
        others: &mut VecDeque<Walker>,
        like: &[Edge],
    ) -> Result<Walker, Unsolved> {
        let as_other = |walker: &Walker| walker.way.edges.last().is_some_and(|edge| like.contains(edge));
        ways.sort_by_key(|walker| std::cmp::Reverse((as_other(walker), walker.score)));
        let mut why = Unsolved::Impossible;
        let mut chosen = None;
        let mut rest = Vec::new();
        for mut walker in ways {
            if chosen.is_some() {
                rest.push(walker);
                continue;
            }
            match walker.way.check(&self.map.base) {
                Ok(()) => chosen = Some(walker),
                Err(Unsolved::Impossible) => self.fail(&walker.way, None, &Unsolved::Impossible.to_string()),
                Err(Unsolved::GaveUp) => {
                    why = Unsolved::GaveUp;
                    self.fail(&walker.way, None, &why.to_string());
                }
            }
        }
        for walker in rest.into_iter().rev() {
            let edge = walker.way.edges.last().copied();
            match edge.is_some_and(|edge| !self.covered.contains(&edge)) {
                true => open.push((walker, edge)),
                false => others.push_back(walker),
            }
        }
        let many = others.len().saturating_sub(OTHERS_MAX);
        others.drain(..many);
        chosen.ok_or(why)
    }

    /// Finds a packet for a way, and entries that go with those of a set; runs it.
    fn settle(&mut self, way: &mut Way) -> Result<Result<(), String>, Error> {
        let mut why = String::new();
        // At first the action data that others have: they may share entries then. What is in the way changes.
        let mut fresh = HashSet::new();
        for attempt in 0..TRIES_MAX {
            let number = self.packets << 8 | attempt;
            let seed = mix(self.options.seed) ^ mix(number);
            let mut solution = way.solve(&self.map.base, seed, &fresh);
            if solution.is_err() && attempt + 1 == TRIES_MAX {
                solution = way.solve_as_seen(&self.map.base);
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
                match set.add(self.map.program, way, &solution) {
                    Ok(()) => {
                        place = Some(index);
                        break;
                    }
                    Err(Conflict::Lookup(at)) => {
                        conflicts.extend(way.lookups[at].keys.iter().flat_map(|key| way.data_in(key)));
                    }
                    Err(Conflict::Copies(at)) => conflicts.extend(way.data_in(&way.copies[at].id)),
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
                    let mut set = Set::new(switch(self.map.program, self.options)?);
                    if set.add(self.map.program, way, &solution).is_err() {
                        why = "the switch refuses its entries".to_string();
                        fresh = way.data().collect();
                        continue;
                    }
                    self.sets.push(set);
                    self.sets.len() - 1
                }
            };
            let set = &mut self.sets[index];
            let (trace, _) = set.switch.trace(solution.port, &solution.frame).map_err(Error::Input)?;
            let found = set::events(&trace);
            if set::goes(way, &found) {
                set.frames.push((solution.port, solution.frame));
                self.ways.push((index, set.frames.len() - 1, way.clone()));
                self.packets += 1;
                return Ok(Ok(()));
            }
            why = difference(self.map.program, &way.events, &found);
            fresh = way.data().collect();
        }
        Ok(Err(why))
    }
}

/// Whether an entry was there or made makes no difference here.
fn plain(edge: &Edge) -> Edge {
    (edge.0, edge.1, edge.2 & !THERE)
}

fn is_short(edge: &Edge) -> bool {
    edge.2 & SHORT != 0
}

/// Where a packet went another way.
fn difference(program: &Program, expected: &[Event], found: &[Event]) -> String {
    let say = |event: Option<&Event>| match event {
        None => "the end".to_string(),
        Some(event) => report::words(program, event),
    };
    let at = expected.iter().zip(found).take_while(|(a, b)| a == b).count();
    format!("it comes to {} instead of {}", say(found.get(at)), say(expected.get(at)))
}
