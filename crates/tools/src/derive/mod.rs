//! Packets for a program: for every way through its parser one that goes it, and for every decision behind
//! the parser one that makes it, with the table entries that this takes.
//!
//! A packet begins as bits that are all open. It walks through the program; at each decision it splits, and
//! what the decision asks is noted. Parsers are walked on all ways, up to a number; behind them a way is
//! followed if it has a decision that no packet has made so far. At the end the notes are solved, lookups
//! become entries, and the interpreter runs the packet: what counts as covered is what its trace tells.

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
use set::Set;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use walk::{Map, Next, Walker};
use way::{Edge, Event, Way};

pub(crate) use way::Graph;

/// How far to go.
#[derive(Clone, Debug)]
pub struct Options {
    /// By which packets come in.
    pub port: u32,
    /// Most ways through the parser.
    pub paths_max: usize,
    /// How often a packet may come to the same decision: bounds loops.
    pub visits_max: u32,
    /// Decides the bits that nothing asks anything of.
    pub seed: u64,
    /// Runtime commands that are carried out before: a name for messages, and the text.
    pub commands: Option<(String, String)>,
}

/// Why a branch of the parser is not entered, as a rule because a case before it was.
const IMPOSSIBLE: &str = "impossible, or its conditions are not solved";

/// Tries to solve a way, with other bits each time: some depend on a hash.
const TRIES_MAX: u64 = 8;
/// Most sets of entries.
const SETS_MAX: usize = 64;

/// A switch with the user's entries.
fn switch(program: &Program, options: &Options) -> Result<Arc<Switch>, Error> {
    let switch = Switch::new(program.clone()).map_err(Error::Input)?;
    if let Some((name, text)) = &options.commands {
        let mut control = Control::new(Arc::clone(&switch));
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
    let ways = search.ways.into_iter().map(|(.., way)| way).filter(|way| seen.insert(way.nodes.clone()));
    Ok(ways.map(|way| Path { states: report::states(program, &way.events), nodes: way.nodes }).collect())
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
    /// Ways for which no packet was found, or that the packet did not go, and why.
    not_taken: Vec<(Way, String)>,
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
        let map = Map { program, switch: base, port: options.port, visits_max: options.visits_max };
        let mut search = Search {
            map,
            options,
            covered: HashSet::new(),
            sets: Vec::new(),
            ways: Vec::new(),
            not_taken: Vec::new(),
            paths_lost: Vec::new(),
            paths_more: false,
            packets: 0,
        };
        let paths = search.parser_paths();
        let count = paths.len();
        for path in paths {
            search.explore(path)?;
        }
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
                    for walker in ways {
                        if walker.way.feasible(self.map.program) {
                            open.push_back(walker);
                        } else {
                            self.paths_lost.push((walker.way, IMPOSSIBLE.to_string()));
                        }
                    }
                }
                Next::Lost(why) => self.paths_lost.push((walker.way, why)),
            }
        }
        found
    }

    /// Makes packets for a way through the parser: one at least, and one for each decision that is new.
    fn explore(&mut self, start: Walker) -> Result<(), Error> {
        let mut open = vec![(start, None)];
        let mut first = true;
        while let Some((mut walker, wanted)) = open.pop() {
            // Somebody else may have made that decision meanwhile.
            if wanted.is_some_and(|edge| self.covered.contains(&edge)) {
                continue;
            }
            if wanted.is_some() && !walker.way.feasible(self.map.program) {
                continue;
            }
            let lost = loop {
                match self.map.walk(&mut walker, usize::MAX) {
                    Next::End => break None,
                    Next::Lost(why) => break Some(why),
                    Next::Fork(ways) => {
                        let Some(next) = self.choose(ways, &mut open) else {
                            break Some("its conditions are not solved".to_string());
                        };
                        walker = next;
                    }
                }
            };
            let way = walker.way;
            let result = match lost {
                Some(why) => Err(why),
                None => self.settle(&way)?,
            };
            match result {
                Ok(()) => {
                    self.covered.extend(way.edges.iter().copied());
                    first = false;
                }
                Err(why) => self.not_taken.push((way, why)),
            }
            // A way through the parser is not given up with its first packet.
            if first && open.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// The way on: where most can be seen. Others with new decisions wait.
    fn choose(&self, mut ways: Vec<Walker>, open: &mut Vec<(Walker, Option<Edge>)>) -> Option<Walker> {
        ways.sort_by_key(|walker| std::cmp::Reverse(walker.score));
        let at = ways.iter().position(|walker| walker.way.feasible(self.map.program))?;
        let chosen = ways.remove(at);
        for walker in ways.into_iter().rev() {
            let edge = walker.way.edges.last().copied();
            if edge.is_some_and(|edge| !self.covered.contains(&edge)) {
                open.push((walker, edge));
            }
        }
        Some(chosen)
    }

    /// Finds a packet for a way, and entries that go with those of a set; runs it.
    fn settle(&mut self, way: &Way) -> Result<Result<(), String>, Error> {
        let mut why = "its conditions are not solved".to_string();
        for attempt in 0..TRIES_MAX {
            let number = self.packets << 8 | attempt;
            let seed = mix(self.options.seed) ^ mix(number);
            // At first the action data that others have: they may share entries then. If these are in the
            // way, others.
            let flavour = if attempt == 0 { 0 } else { number + 1 };
            let state = self.map.switch.state();
            let Some(solution) = way.solve(self.map.program, state, seed, flavour) else { continue };
            let mut place = None;
            for (index, set) in self.sets.iter_mut().enumerate() {
                if set.add(self.map.program, way, &solution) {
                    place = Some(index);
                    break;
                }
            }
            let index = match place {
                Some(index) => index,
                None if self.sets.len() == SETS_MAX => {
                    return Ok(Err(format!("its entries go with none of {SETS_MAX} sets")));
                }
                None if attempt < TRIES_MAX / 2 && !self.sets.is_empty() => continue,
                None => {
                    let mut set = Set::new(switch(self.map.program, self.options)?);
                    if !set.add(self.map.program, way, &solution) {
                        why = "the switch refuses its entries".to_string();
                        continue;
                    }
                    self.sets.push(set);
                    self.sets.len() - 1
                }
            };
            let set = &mut self.sets[index];
            let (trace, _) = set.switch.trace(self.options.port, &solution.frame).map_err(Error::Input)?;
            let found = set::events(&trace);
            if found == way.events {
                set.frames.push(solution.frame);
                self.ways.push((index, set.frames.len() - 1, way.clone()));
                self.packets += 1;
                return Ok(Ok(()));
            }
            why = difference(self.map.program, &way.events, &found);
        }
        Ok(Err(why))
    }
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
