//! Applies changes and undoes them.
//!
//! `batch` checks updates and applies them in order; `resolve` finds the objects to which one refers; `apply` applies it and
//! records how to undo it (`undo`); `take_back` executes these steps. `entries` and `multicast` hold both directions of what
//! needs other undo steps than updates; `cells` reads and writes counters, meters and registers; `sessions` sets clone
//! sessions; `notes` keeps, deletes and restores the notes about objects.

mod apply;
mod batch;
mod cells;
mod entries;
mod multicast;
mod notes;
mod resolve;
mod sessions;
mod take_back;
mod undo;

pub use batch::{Batch, Mark, Written};
pub(crate) use multicast::check_node_handle;
pub(crate) use sessions::is_plain;
pub(crate) use sessions::no_session;
pub(crate) use undo::{Undo, UndoOther};
