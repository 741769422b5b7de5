//! The controller of programs/vxlan_gateway.
//!
//! * [`Config`]: what the gateway is to do, read from a file and checked ([`Complaint`]).
//! * [`plan()`]: what a switch must have for that, as a [`State`]. A pure function of the configuration, of
//!   which back ends live, and of the numbers that things already have on the switch.
//! * [`Actual`]: what a switch has, from its `dump`; [`diff()`]: the commands from one to the other.
//! * [`controller`]: does that again and again, looking after back ends and the file.
//! * [`icmp`]: what answers a packet that the switch hands to the controller.
//! * [`slots`]: which back end has which share of a pool.
//!
//! Nothing here is kept anywhere but on the switch: a controller that starts reads what is there.

mod answering;
mod complaint;
mod config;
pub mod controller;
mod diff;
mod file;
mod health;
pub mod icmp;
mod learn;
mod plan;
mod schema;
pub mod slots;
mod state;

pub use complaint::{Complaint, render};
pub use config::{Config, Health, HealthTimes};
pub use diff::{Act, Change, commands, diff, summary};
pub use health::check_all;
pub use plan::{Location, Plan, plan, station_entries};
pub use schema::{Call, Field, Key, Table, key_text, params_text};
pub use state::{Actual, OwnVtep, PoolHandles, State, Strays};
