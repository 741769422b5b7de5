//! Applies changes and undoes them.
//!
//! `batch` checks updates and applies them in order; `apply` applies one and records how to undo it (`undo`); `take_back`
//! executes these steps. `entries`, `cells` and `multicast` hold both directions of what needs other undo steps than updates.

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
pub use sessions::no_session;
pub(crate) use undo::{Undo, UndoOther};
