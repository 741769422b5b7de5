//! Extern functions: what [`Op::Extern`] calls, and what each call may read or change.
//!
//! This is the only declaration of their names and effects. Crate externs computes them. To add a function, add it to the list of
//! `functions!` here and its computation there; the compiler reports each missing match arm.

use crate::{InstanceId, Op};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Declares [`Function`]: each function without parameters of its own with its name in IR text, its effect, and the numbers of
/// arguments and results of a call.
macro_rules! functions {
    ($($(#[doc = $doc:literal])+ $function:ident = $name:literal, $effect:ident, $args:expr => $results:literal;)*) => {
        /// An extern function.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum Function {
            /// `(data…) -> hash`.
            Hash(Hash),
            $($(#[doc = $doc])+ $function,)*
            /// A function that only the program declares. Its behaviour is unknown, so such a program can be compiled but not run.
            Foreign(Box<str>),
        }

        impl Function {
            /// All functions, except hashes and foreign ones.
            const SIMPLE: &[Function] = &[$(Function::$function),*];

            /// Returns the dependencies and the changes of a call.
            pub fn effect(&self) -> Effect {
                match self {
                    Function::Hash(hash) => hash.algorithm.effect(),
                    $(Function::$function => Effect::$effect,)*
                    Function::Foreign(_) => Effect::Outside,
                }
            }

            /// Returns the possible numbers of arguments of a call.
            pub fn argument_counts(&self) -> RangeInclusive<usize> {
                match self {
                    Function::Hash(hash) => usize::from(hash.continues)..=usize::MAX,
                    $(Function::$function => $args,)*
                    Function::Foreign(_) => 0..=usize::MAX,
                }
            }

            /// Returns the number of results of a call; `None` if it is unknown.
            pub fn result_count(&self) -> Option<usize> {
                match self {
                    Function::Hash(_) => Some(1),
                    $(Function::$function => Some($results),)*
                    Function::Foreign(_) => None,
                }
            }
        }

        impl fmt::Display for Function {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    Function::Hash(hash) => hash.fmt(f),
                    $(Function::$function => f.write_str($name),)*
                    Function::Foreign(name) => write!(f, "{FOREIGN}{name}"),
                }
            }
        }
    };
}

functions! {
    /// `(lo, hi) -> number`: a random number from lo to hi, both included; lo if hi < lo.
    Random = "random", Outside, 2..=2 => 1;
    /// `(values…)`: logs the first text, each `{}` in it replaced by the next value.
    LogMsg = "log_msg", Outside, 0..=usize::MAX => 0;
    /// `(condition)`: drops the packet if the condition is 0.
    Assert = "assert", Outside, 1..=1 => 0;
    /// `(condition)`: drops the packet if the condition is 0. Its name is the only difference from [`Function::Assert`].
    Assume = "assume", Outside, 1..=1 => 0;
    /// `(index) -> value`: 0 beyond the end.
    RegisterRead = "register.read", Reads, 1..=1 => 1;
    /// `(index, value)`: no effect beyond the end.
    RegisterWrite = "register.write", Writes, 2..=2 => 0;
    /// `()`: locks the register for this packet, which may hold the lock already; waits for other workers.
    RegisterLock = "register.lock", Marks, 0..=0 => 0;
    /// `()`: unlocks the register when called as often as [`Function::RegisterLock`].
    RegisterUnlock = "register.unlock", Marks, 0..=0 => 0;
    /// `()`: begins a part that is atomic with respect to other packets.
    AtomicBegin = "atomic.begin", Marks, 0..=0 => 0;
    /// `()`: ends the part.
    AtomicEnd = "atomic.end", Marks, 0..=0 => 0;
    /// `(index)`: counts the packet; no effect beyond the end.
    Count = "counter.count", Adds, 1..=1 => 0;
    /// `(row)`: counts the packet in the counter of the entry with this row.
    CountDirect = "direct_counter.count", Adds, 1..=1 => 0;
    /// `(index)` or `(index, colour before) -> colour`: 0 green, 1 yellow, 2 red; beyond the end green, or the colour before.
    Meter = "meter.execute", Writes, 1..=2 => 1;
    /// `(row)` or `(row, colour before) -> colour`: by the meter of the entry with this row.
    MeterDirect = "direct_meter.execute", Writes, 1..=2 => 1;
    /// `(values…)`: sends them to the control plane.
    SendDigest = "digest.send", Outside, 0..=usize::MAX => 0;
}

/// A hash function and how it takes its data.
///
/// The arguments are concatenated in order, most significant bit first, and padded with zero bits to whole bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hash {
    /// The algorithm of the hash.
    pub algorithm: Algorithm,
    /// The first argument is the CRC of earlier data, or 0 without any; the result is the CRC of all data. CRCs only.
    pub continues: bool,
    /// The packet's payload follows the data.
    pub payload: bool,
    /// Each datum follows an argument with its length: that many of its low bits count. For varbits and for fields of headers
    /// that may be invalid (length 0).
    pub pieces: bool,
}

/// Declares [`Algorithm`]: each algorithm with its name in IR text and the effect of a hash.
macro_rules! algorithms {
    ($($(#[doc = $doc:literal])+ $algorithm:ident = $name:literal, $effect:ident;)*) => {
        /// A hash algorithm.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Algorithm {
            $($(#[doc = $doc])+ $algorithm,)*
        }

        impl Algorithm {
            /// All algorithms.
            const ALL: &[Algorithm] = &[$(Algorithm::$algorithm),*];

            fn name(self) -> &'static str {
                match self {
                    $(Algorithm::$algorithm => $name,)*
                }
            }

            fn effect(self) -> Effect {
                match self {
                    $(Algorithm::$algorithm => Effect::$effect,)*
                }
            }
        }
    };
}

algorithms! {
    /// CRC-16/ARC.
    Crc16 = "crc16", Pure;
    /// A CRC with 16 bits whose parameters are set at run time under the name in the first text.
    Crc16Custom = "crc16_custom", Outside;
    /// CRC-32 (Ethernet).
    Crc32 = "crc32", Pure;
    /// A CRC with 32 bits whose parameters are set at run time under the name in the first text.
    Crc32Custom = "crc32_custom", Outside;
    /// RFC 1071 checksum.
    Csum16 = "csum16", Pure;
    /// The exclusive or of the 16-bit words.
    Xor16 = "xor16", Pure;
    /// The first 8 bytes as a number.
    Identity = "identity", Pure;
    /// A random number, independent of the data.
    Random = "random_hash", Outside;
}

/// The dependencies of a call other than its arguments and the payload, and its changes other than its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Pure,
    /// It reads its instance.
    Reads,
    /// It writes its instance, and may read it: the order of calls matters.
    Writes,
    /// It adds to its instance and returns nothing: the order of calls does not matter.
    Adds,
    /// It concerns no instance: random numbers, parameters set at run time, the log, messages, the packet's fate.
    Outside,
    /// It marks a part of the program for other packets' sake and changes nothing for this one.
    Marks,
}

/// A statement's use of an instance if the order of its uses matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It only reads.
    Read,
    /// It writes, and may read.
    Write,
}

impl Algorithm {
    /// Width of the result in bits, if its parameters are set at run time.
    pub fn custom_width(self) -> Option<u32> {
        match self {
            Algorithm::Crc16Custom => Some(16),
            Algorithm::Crc32Custom => Some(32),
            _ => None,
        }
    }

    /// True for algorithms that can continue a hash of earlier data.
    pub fn is_crc(self) -> bool {
        use Algorithm::*;
        matches!(self, Crc16 | Crc16Custom | Crc32 | Crc32Custom)
    }

    /// The hash of the data alone, without lengths.
    pub const fn plain(self) -> Hash {
        Hash { algorithm: self, continues: false, payload: false, pieces: false }
    }
}

impl Hash {
    /// Returns the same hash, with a length before each datum.
    pub fn in_pieces(self) -> Hash {
        Hash { pieces: true, ..self }
    }
}

impl From<Hash> for Function {
    fn from(hash: Hash) -> Function {
        Function::Hash(hash)
    }
}

impl Function {
    /// All functions, except foreign ones.
    pub fn all() -> Vec<Function> {
        let mut all = Function::SIMPLE.to_vec();
        for &algorithm in Algorithm::ALL {
            for (payload, pieces) in [(false, false), (true, false), (false, true), (true, true)] {
                all.push(Hash { algorithm, continues: false, payload, pieces }.into());
            }
            for pieces in [false, true] {
                if algorithm.is_crc() {
                    all.push(Hash { algorithm, continues: true, payload: false, pieces }.into());
                }
            }
        }
        all
    }

    /// True if it reads bytes that the program did not parse.
    pub fn reads_payload(&self) -> bool {
        matches!(self, Function::Hash(hash) if hash.payload)
    }

    /// The algorithm, if it is a hash of the data alone, without lengths.
    pub fn plain_hash(&self) -> Option<Algorithm> {
        match self {
            Function::Hash(hash) if *hash == hash.algorithm.plain() => Some(hash.algorithm),
            _ => None,
        }
    }

    /// Returns the reason why a program that calls it cannot run, if it cannot.
    pub fn why_not_run(&self) -> Option<String> {
        match self {
            Function::Foreign(name) => Some(format!(
                "only the program declares the extern `{name}`: its behaviour is unknown, so the program cannot run"
            )),
            _ => None,
        }
    }
}

/// Prefix of the names of foreign functions.
const FOREIGN: &str = "foreign.";

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let when = |given: bool, suffix| if given { suffix } else { "" };
        write!(
            f,
            "{}{}{}{}",
            self.algorithm.name(),
            when(self.continues, "_more"),
            when(self.payload, "_payload"),
            when(self.pieces, "_pieces")
        )
    }
}

impl FromStr for Function {
    type Err = String;

    fn from_str(name: &str) -> Result<Function, String> {
        if let Some(foreign) = name.strip_prefix(FOREIGN) {
            return Ok(Function::Foreign(foreign.into()));
        }
        let found = Function::all().into_iter().find(|function| function.to_string() == name);
        found.ok_or_else(|| format!("no extern function `{name}`"))
    }
}

impl Op {
    /// The instance that the statement uses, and how, if the order of its uses by different packets matters.
    pub fn access(&self) -> Option<(InstanceId, Access)> {
        let Op::Extern { function, instance, .. } = self else { return None };
        let access = match function.effect() {
            Effect::Reads => Access::Read,
            Effect::Writes => Access::Write,
            Effect::Pure | Effect::Adds | Effect::Outside | Effect::Marks => return None,
        };
        instance.map(|instance| (instance, access))
    }
}
