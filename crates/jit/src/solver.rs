//! The dataflow solver. Every dataflow analysis of the crate runs on it, forward or backward, with its own lattice: union,
//! intersection, or one of a few states.
//!
//! The solver visits places in rounds: each round goes through the queued places in one order, so that a change reaches all later
//! places before the place that caused it is visited again. Every analysis is bounded by a [`Budget`].

use crate::graph::{Graph, PerPlace, Place};
use std::collections::BTreeSet;

/// An analysis would take more steps than its budget.
#[derive(Clone, Copy, Debug)]
pub struct Exceeded;

/// The steps that the analyses which share the budget may still take. It cannot be copied, so every step counts.
#[derive(Debug)]
pub struct Budget(usize);

impl Budget {
    /// A budget of this many steps.
    pub fn new(steps: usize) -> Budget {
        Budget(steps)
    }

    /// Without a limit: for lattices so low that the graph itself is the bound.
    pub fn unlimited() -> Budget {
        Budget(usize::MAX)
    }

    fn spend(&mut self, steps: usize) -> Result<(), Exceeded> {
        self.0 = self.0.checked_sub(steps).ok_or(Exceeded)?;
        Ok(())
    }
}

/// Places to visit, by their number in the order of visits.
struct Rounds {
    work: BTreeSet<(usize, Place)>,
    last: Option<(usize, Place)>,
}

impl Rounds {
    fn next(&mut self) -> Option<Place> {
        let later = self.last.and_then(|last| self.work.range(last..).next().copied());
        let next = later.or_else(|| self.work.first().copied())?;
        self.work.remove(&next);
        self.last = Some(next);
        Some(next.1)
    }
}

/// Visits the queued places until none is left. `visit` calls its second argument with places to queue again.
fn run(
    number: impl Fn(Place) -> usize,
    queued: impl Iterator<Item = Place>,
    budget: &mut Budget,
    cost: impl Fn(Place) -> usize,
    mut visit: impl FnMut(Place, &mut dyn FnMut(Place)),
) -> Result<(), Exceeded> {
    let mut rounds = Rounds { work: queued.map(|place| (number(place), place)).collect(), last: None };
    while let Some(place) = rounds.next() {
        budget.spend(cost(place))?;
        visit(place, &mut |again| _ = rounds.work.insert((number(again), again)));
    }
    Ok(())
}

/// Solves a forward problem: improves `values`, what holds before each place, until nothing changes.
///
/// `starts` are the places to visit first. `flow` passes what holds after a place, on each edge, to its last argument. `join` adds
/// to a value what holds on one more edge, and returns whether that changed the value.
pub fn forward<V: Clone + Default>(
    graph: &Graph,
    values: &mut PerPlace<V>,
    starts: impl Iterator<Item = Place>,
    budget: &mut Budget,
    cost: impl Fn(Place) -> usize,
    mut join: impl FnMut(&mut V, &V) -> bool,
    mut flow: impl FnMut(Place, &V, &mut dyn FnMut(Place, &V)),
) -> Result<(), Exceeded> {
    run(
        |place| graph.order(place).unwrap_or(usize::MAX),
        starts,
        budget,
        cost,
        |place, again| {
            // Taken out while its edges are followed, of which one may lead back.
            let value = std::mem::take(&mut values[place]);
            let mut back: Option<V> = None;
            flow(place, &value, &mut |to, behind| match &mut back {
                Some(back) if to == place => _ = join(back, behind),
                None if to == place => back = Some(behind.clone()),
                _ => {
                    if join(&mut values[to], behind) {
                        again(to);
                    }
                }
            });
            values[place] = value;
            if back.is_some_and(|back| join(&mut values[place], &back)) {
                again(place);
            }
        },
    )
}

/// Solves a backward problem: improves `values`, what holds before each place, until nothing changes.
///
/// `flow` computes the value of a place from those of other places; `dependents` are the places whose values are computed from the
/// value of a place.
pub fn backward<V>(
    graph: &Graph,
    values: &mut PerPlace<V>,
    dependents: &PerPlace<Vec<Place>>,
    budget: &mut Budget,
    cost: impl Fn(Place) -> usize,
    join: impl Fn(&mut V, &V) -> bool,
    flow: impl Fn(Place, &PerPlace<V>) -> V,
) -> Result<(), Exceeded> {
    run(
        |place| usize::MAX - graph.order(place).unwrap_or(usize::MAX),
        graph.reached(),
        budget,
        cost,
        |place, again| {
            let value = flow(place, values);
            if join(&mut values[place], &value) {
                dependents[place].iter().for_each(|&dependent| again(dependent));
            }
        },
    )
}
