//! Extern functions and extern state that both executors share.
//!
//! * [`ExternDef`]: a function, found by [`find`] under the name that the IR uses; [`CallSite`] is one place that calls it.
//! * [`State`]: registers, counters, meters and digests of a program, shared by all workers and the control plane.
//! * [`Destinations`]: multicast groups and clone sessions, part of the state.
//! * [`Env`]: what one worker hands to the functions it calls.
//!
//! A value crosses as little-endian `u64` limbs, as many as its width takes; the arguments of a call follow each other in
//! one slice, and so do the results.
//!
//! To add a function: write it in `functions.rs` (or a file of its own) and list it in [`all`].
//!
//! ```
//! use p4jet_externs::{CallSite, State, find};
//! let state = State::new(&[], 1)?;
//! let mut env = state.env(0);
//! let def = find("csum16").expect("it is listed");
//! let site = CallSite {
//!     def,
//!     instance: None,
//!     arg_widths: vec![16, 16],
//!     out_widths: vec![16],
//!     text: vec![],
//! };
//! let mut sum = [0];
//! (def.call)(&mut env, &site, &[0x4500, 0x0073], &mut sum);
//! assert_eq!(sum[0], !0x4573 & 0xffff);
//! # Ok::<(), p4jet_externs::StateError>(())
//! ```

mod apart;
mod bits;
mod crc;
mod digests;
mod env;
mod functions;
mod hash;
mod meter;
mod multicast;
mod replication;
mod state;

pub use apart::{Apart, Zeroed};
pub use crc::{Crc, CrcParams};
pub use digests::{Digest, DigestCounts};
pub use env::Env;
pub use hash::{ByteParts, byte_parts};
pub use meter::{GREEN, RED, Rate, Rates, YELLOW};
pub use multicast::{Multicast, MulticastError, Node};
pub use replication::{Destinations, Replica, Session, Targets};
pub use state::{CounterValue, DIRECT_BANKS, InstanceKind, InstanceSpec, State, StateError, Unit};

/// One place that calls an extern function.
#[derive(Clone, Debug)]
pub struct CallSite {
    /// The function.
    pub def: &'static ExternDef,
    /// The instance it works on, by its index in [`State`].
    pub instance: Option<u32>,
    /// Width in bits of each argument.
    pub arg_widths: Vec<u32>,
    /// Width in bits of each result.
    pub out_widths: Vec<u32>,
    /// String literals: the format of `log_msg`, what an `assert` says, the name of a custom hash.
    pub text: Vec<String>,
}

/// An extern function.
pub struct ExternDef {
    /// Its name in the IR.
    pub name: &'static str,
    /// Calls it. `args` and `outs` have the limbs that the widths of the site take, unused high bits 0; every limb of
    /// `outs` is written.
    pub call: fn(&mut Env<'_>, &CallSite, args: &[u64], outs: &mut [u64]),
    /// Whether it only computes: the result depends on the arguments (and payload) alone and nothing else changes.
    pub pure_function: bool,
    /// Whether it reads the payload, which [`Env::set_packet`] or [`Env::with_packet`] then must have told.
    pub uses_payload: bool,
    /// Arguments, results, meaning.
    pub doc: &'static str,
}

impl std::fmt::Debug for ExternDef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ExternDef").field(&self.name).finish()
    }
}

/// Limbs that a value of `width` bits takes.
pub fn limb_count(width: u32) -> usize {
    bits::limbs(width)
}

/// The function of this name.
pub fn find(name: &str) -> Option<&'static ExternDef> {
    all().find(|def| def.name == name)
}

/// All functions.
pub fn all() -> impl Iterator<Item = &'static ExternDef> {
    hash::all().chain(&functions::DEFS)
}
