//! P4Runtime: the parts of a server that need no socket.
//!
//! * [`pipeline`]: a P4Info made ready for requests: its ids as those of the running program.
//! * [`write`](mod@write): updates of entities, [`read`](mod@read): reads of entities.
//! * [`session`]: client arbitration, the state machine that decides which client may write.
//! * [`constraints`]: the language of `@entry_restriction` and `@action_restriction`.
//!
//! The messages are in crate `p4jet-p4info`. p4jet has no P4Runtime server yet.

mod cells;
pub mod constraints;
mod data;
pub mod pipeline;
pub mod read;
pub mod refusal;
pub mod session;
mod table_entry;
mod value;
pub mod write;
