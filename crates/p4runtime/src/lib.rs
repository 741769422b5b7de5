//! P4Runtime: the server of a switch.
//!
//! * [`server`]: the gRPC server and its threads; [`client`]: a small client for tests and measurements.
//! * [`programs`]: programs in the forms that clients send.
//! * [`pipeline`]: a P4Info whose ids are resolved to objects of the running program.
//! * [`types`]: whether the types of a P4Info are those of the program.
//! * [`write`](mod@write): updates of entities, [`read`](mod@read): reads of entities.
//! * [`links`]: groups and copies follow the state of ports; [`owner`]: what runtime commands leave of what clients wrote.
//! * [`session`]: client arbitration, the state machine that decides which client may write.
//!
//! The messages are in crate `p4jet-p4info`.

mod cells;
pub mod client;
mod data;
mod digests;
mod kept;
pub mod links;
mod notes;
pub mod owner;
pub mod pipeline;
mod ports;
mod profiles;
pub mod programs;
pub mod read;
mod reconcile;
pub mod refusal;
mod replication;
pub mod server;
pub mod session;
mod table_entry;
pub mod types;
mod value;
mod wire;
pub mod write;
