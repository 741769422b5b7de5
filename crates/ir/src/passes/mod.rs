//! Passes: they turn a program into a simpler one with the same meaning.
//!
//! The verifier accepts the program before and after every pass, and every packet has the same result. Passes do not
//! preserve the steps of a trace: where steps matter, run the program before the passes.

use crate::Program;

mod fold_constants;
mod fold_zeros;
mod place_drops;
mod propagate_copies;
mod remove_dead_sets;
mod thread_jumps;

pub use fold_constants::{fold_constants, fold_expr};
pub use fold_zeros::fold_zeros;
pub use place_drops::{forget_drop_places, place_drops};
pub use propagate_copies::propagate_copies;
pub use remove_dead_sets::remove_dead_sets;
pub use thread_jumps::thread_jumps;

/// A pass with its name.
pub type Pass = (&'static str, fn(&mut Program));

/// The passes of [`run`], in order.
pub const PASSES: [Pass; 7] = [
    // First, because it decides branches.
    ("fold_zeros", fold_zeros),
    // Turns branches into jumps.
    ("fold_constants", fold_constants),
    // Joins nodes, because the next pass examines one node at a time.
    ("thread_jumps", thread_jumps),
    ("propagate_copies", propagate_copies),
    // Constants have been propagated to their uses.
    ("fold_constants", fold_constants),
    // After propagation, many copies are unused.
    ("remove_dead_sets", remove_dead_sets),
    // Folding and removal leave jumps and empty nodes.
    ("thread_jumps", thread_jumps),
];

/// Simplifies a program.
pub fn run(program: &mut Program) {
    for (_, pass) in PASSES {
        pass(program);
    }
}

/// Returns all graphs of a program: those of actions and blocks.
pub(crate) fn graphs_mut(program: &mut Program) -> impl Iterator<Item = &mut crate::Cfg> {
    let actions = program.actions.iter_mut().map(|a| &mut a.body);
    actions.chain(program.blocks.iter_mut().map(|b| &mut b.body))
}
