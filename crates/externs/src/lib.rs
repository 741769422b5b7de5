//! Extern functions and extern state that both executors share.
//!
//! * [`CallSite`]: one place that calls a [`Function`] of the IR.
//! * [`State`]: registers, counters, meters and digests of a program, shared by all workers and the control plane.
//! * [`Destinations`]: multicast groups and clone sessions, part of the state.
//! * [`Env`]: the environment in which a worker calls extern functions.
//!
//! Values are passed as little-endian `u64` limbs, as many as the width takes; the arguments of a call lie in
//! sequence in one slice, and so do the results.
//!
//! To add a function, declare it as a [`Function`] and compute it in `functions.rs` or a file of its own.
//!
//! ```
//! use p4jet_externs::{CallSite, State};
//! use p4jet_ir::Algorithm;
//! let state = State::new(&[], 1)?;
//! let mut env = state.env(0);
//! let site = CallSite::new(Algorithm::Csum16.plain().into(), None, vec![16, 16], vec![16], vec![])?;
//! let mut sum = [0];
//! site.call(&mut env, &[0x4500, 0x0073], &mut sum);
//! assert_eq!(sum[0], !0x4573 & 0xffff);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use num_bigint::BigUint;
use p4jet_ir::Function;
use std::hash::{Hash, Hasher};

mod apart;
mod bits;
mod cells;
mod crc;
mod digests;
mod env;
mod functions;
mod group;
mod hash;
mod meter;
mod multicast;
mod pages;
mod replication;
mod state;

pub use apart::{Apart, Zeroed};
pub use cells::{CounterValue, StateError};
pub use crc::{Crc, CrcParams};
pub use digests::{Digest, DigestCounts};
pub use env::Env;
pub use group::{Group, Replica};
pub use hash::{ByteParts, byte_parts};
pub use meter::{GREEN, RED, Rate, Rates, YELLOW};
pub use multicast::{Multicast, MulticastError, NODES_MAX, Node, Place};
pub use pages::Pages;
pub use replication::{Destinations, Session, Targets};
pub use state::{DIRECT_BANKS, InstanceKind, InstanceSpec, State, Unit};

/// A function that computes an extern call. `args` and `outs` have the limbs that the widths of the site take, with
/// unused high bits 0; the function writes every limb of `outs`.
type Call = fn(&mut Env<'_>, &CallSite, args: &[u64], outs: &mut [u64]);

/// One place that calls an extern function.
#[derive(Clone, Debug)]
pub struct CallSite {
    function: Function,
    computation: Call,
    instance: Option<u32>,
    arg_widths: Vec<u32>,
    out_widths: Vec<u32>,
    text: Vec<String>,
}

impl CallSite {
    /// Creates a call of `function` on an instance, given by its index in [`State`]. Widths are those of the
    /// arguments and results in bits. The texts are string literals: the format of `log_msg`, the message of an
    /// `assert`, the name of a custom CRC.
    ///
    /// # Errors
    /// The function is foreign: p4jet has no implementation of it.
    pub fn new(
        function: Function,
        instance: Option<u32>,
        arg_widths: Vec<u32>,
        out_widths: Vec<u32>,
        text: Vec<String>,
    ) -> Result<CallSite, String> {
        let computation = functions::computation(&function).ok_or_else(|| {
            function.why_not_run().unwrap_or_else(|| format!("`{function}` has no computation"))
        })?;
        Ok(CallSite { function, computation, instance, arg_widths, out_widths, text })
    }

    /// Returns the width in bits of each result.
    pub fn out_widths(&self) -> &[u32] {
        &self.out_widths
    }

    /// Calls the function. `args` and `outs` have as many limbs as the widths take, with unused high bits 0; every limb of
    /// `outs` is written. If the function reads the payload, [`Env::set_packet`] or [`Env::with_packet`] must have set it.
    pub fn call(&self, env: &mut Env<'_>, args: &[u64], outs: &mut [u64]) {
        (self.computation)(env, self, args, outs);
    }

    /// Like [`Self::call`], for numbers, each smaller than 2 to the power of its width.
    pub fn call_with_numbers(&self, env: &mut Env<'_>, args: &[BigUint]) -> Vec<BigUint> {
        let mut limbs = Vec::new();
        for (arg, width) in args.iter().zip(&self.arg_widths) {
            let end = limbs.len() + limb_count(*width);
            limbs.extend(arg.iter_u64_digits());
            limbs.resize(end, 0);
        }
        let mut results = vec![0; self.out_widths.iter().map(|width| limb_count(*width)).sum()];
        self.call(env, &limbs, &mut results);
        let mut rest = results.as_slice();
        let numbers = self.out_widths.iter().map(|width| {
            let (limbs, after) = rest.split_at(limb_count(*width));
            rest = after;
            bits::number(limbs)
        });
        numbers.collect()
    }
}

impl CallSite {
    /// Everything that determines the results of a call; the computation follows from the function.
    fn key(&self) -> (&Function, Option<u32>, &[u32], &[u32], &[String]) {
        (&self.function, self.instance, &self.arg_widths, &self.out_widths, &self.text)
    }
}

/// Two sites are equal if their calls compute the same results.
impl PartialEq for CallSite {
    fn eq(&self, other: &CallSite) -> bool {
        self.key() == other.key()
    }
}

impl Eq for CallSite {}

impl Hash for CallSite {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

/// Returns the number of limbs of a value of `width` bits.
pub fn limb_count(width: u32) -> usize {
    bits::limbs(width)
}
