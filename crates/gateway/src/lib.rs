//! The controller of programs/vxlan_gateway.
//!
//! * [`Config`]: the configuration of the gateway, read from a file and checked ([`Complaint`]).
//! * [`plan()`]: the state that a switch must have for that, as a [`State`]. A pure function of the configuration, of
//!   the back ends that are alive, and of the numbers already used on the switch.
//! * [`Actual`]: the state of a switch, read from the switch or from its `dump`; [`diff()`]: the updates from one to the other.
//! * [`Objects`]: the objects of the compiled program that the gateway sets, by their ids.
//! * [`controller`]: repeats this, and checks back ends and the file.
//! * [`icmp`]: the answers to packets that the switch hands to the controller.
//! * [`slots`]: the share of each back end in a pool.
//!
//! All state is on the switch: a controller that starts reads it there.

mod answering;
mod complaint;
mod config;
pub mod controller;
mod diff;
mod file;
mod health;
pub mod icmp;
mod learn;
mod log;
mod plan;
mod schema;
pub mod slots;
mod state;

pub use complaint::{Complaint, render};
pub use config::{Config, Health, HealthTimes};
pub use diff::{Change, ChangeKind, commands, diff, summary};
pub use health::check_all;
pub use log::{Level, Log};
pub use plan::{Location, Plan, plan, station_entries};
pub use schema::{Call, Field, Key, Objects, Table};
pub use state::{Actual, OwnVtep, PoolHandles, State, Strays};
