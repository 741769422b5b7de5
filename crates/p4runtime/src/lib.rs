//! P4Runtime: the parts of a server that need neither a socket nor a switch.
//!
//! * [`session`]: client arbitration, the state machine that decides which client may write.
//! * [`constraints`]: the language of `@entry_restriction` and `@action_restriction`.
//!
//! The messages are in crate `p4jet-p4info`. p4jet has no P4Runtime server yet.

pub mod constraints;
pub mod session;
