//! The environment in which a worker calls extern functions.
#![allow(unsafe_code)]

use crate::crc::Crc;
use crate::{Destinations, State};
use num_bigint::BigUint;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Maximum number of log lines kept for the reader.
const LOG_LINES_MAX: usize = 4096;
/// Maximum number of their bytes.
const LOG_BYTES_MAX: usize = 1 << 20;

/// Changes that an environment keeps private.
struct Dry {
    /// Cells that were written, by instance and index.
    registers: HashMap<(u32, u64), Vec<u64>>,
    random: u64,
}

/// The environment of one worker's extern calls. It is created once, or once per batch (creation is cheap, and it
/// keeps no state between batches); the packet is set before calls that need it.
#[repr(C)]
pub struct Env<'a> {
    payload: *const u8,
    payload_len: usize,
    now_us: u64,
    packet_len: u32,
    failed: bool,
    state: &'a State,
    worker: usize,
    log: Vec<String>,
    log_bytes: usize,
    log_dropped: usize,
    custom: HashMap<String, Arc<Crc>>,
    custom_version: u64,
    destinations: Arc<Destinations>,
    destinations_version: u64,
    /// Private changes, if it must not change the state.
    dry: Option<Dry>,
    /// Buffer in which arguments are concatenated.
    pub(crate) scratch: Vec<u8>,
    /// Its number as a holder of locks; no two environments have the same.
    owner: u32,
    /// The registers whose locks it holds.
    held: Vec<u32>,
}

/// Number of environments so far.
static OWNERS: AtomicU32 = AtomicU32::new(0);

impl State {
    /// Creates the environment in which worker `worker` calls extern functions.
    pub fn env(&self, worker: usize) -> Env<'_> {
        assert!(worker < self.workers(), "worker {worker} of {}", self.workers());
        Env {
            payload: std::ptr::null(),
            payload_len: 0,
            now_us: 0,
            packet_len: 0,
            failed: false,
            state: self,
            worker,
            log: Vec::new(),
            log_bytes: 0,
            log_dropped: 0,
            custom: HashMap::new(),
            custom_version: 0,
            destinations: self.destinations(),
            destinations_version: 0,
            dry: None,
            scratch: Vec::new(),
            // 0 means no holder.
            owner: OWNERS.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1),
            held: Vec::new(),
        }
    }
}

impl<'a> Env<'a> {
    /// Stops functions from changing the state from now on: only this environment reads what they write to registers;
    /// counters, meters and digests do not change.
    pub fn keep_dry(&mut self) {
        let random = self.state.random(self.worker).load(Ordering::Relaxed);
        self.dry = Some(Dry { registers: HashMap::new(), random });
    }

    pub(crate) fn read_cell(&self, instance: u32, index: u64, out: &mut [u64]) {
        match self.dry.as_ref().and_then(|dry| dry.registers.get(&(instance, index))) {
            Some(value) => out.iter_mut().zip(value).for_each(|(out, word)| *out = *word),
            None => self.state.read_cell(instance, index, out),
        }
    }

    pub(crate) fn write_cell(&mut self, instance: u32, index: u64, value: &[u64]) {
        match &mut self.dry {
            None => self.state.write_cell(instance, index, value),
            Some(dry) if index < self.state.register_size(instance) => {
                let width = self.state.register_width(instance);
                let mut value = value.to_vec();
                value.resize(crate::bits::limbs(width), 0);
                for (i, word) in value.iter_mut().enumerate() {
                    *word = crate::bits::mask_low(*word, width.saturating_sub(64 * i as u32));
                }
                dry.registers.insert((instance, index), value);
            }
            Some(_) => {}
        }
    }

    /// True if functions do not change the state.
    pub fn is_dry(&self) -> bool {
        self.dry.is_some()
    }

    /// Returns the state that the functions use.
    pub fn state(&self) -> &'a State {
        self.state
    }

    /// Returns the index of the worker.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Sets the time: microseconds since the switch started.
    pub fn set_now(&mut self, now_us: u64) {
        self.now_us = now_us;
    }

    /// Returns the time that was set last.
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Sets the packet of the next calls: its payload (what the parser left) and its whole length.
    ///
    /// # Safety
    /// `payload_len` bytes at `payload` stay readable until the next `set_packet`, or until no more extern functions are
    /// called with this environment. `payload` may be null if `payload_len` is 0.
    pub unsafe fn set_packet(&mut self, payload: *const u8, payload_len: usize, packet_len: u32) {
        self.payload = payload;
        self.payload_len = payload_len;
        self.packet_len = packet_len;
    }

    /// Calls `f` with a packet as in [`Self::set_packet`].
    pub fn with_packet<R>(&mut self, payload: &[u8], packet_len: u32, f: impl FnOnce(&mut Self) -> R) -> R {
        /// Forgets the payload even if `f` panics.
        struct Forget<'e, 'a>(&'e mut Env<'a>);
        impl Drop for Forget<'_, '_> {
            fn drop(&mut self) {
                self.0.payload = std::ptr::null();
                self.0.payload_len = 0;
            }
        }
        self.payload = payload.as_ptr();
        self.payload_len = payload.len();
        self.packet_len = packet_len;
        f(Forget(self).0)
    }

    /// Returns the payload of the packet.
    pub fn payload(&self) -> &[u8] {
        if self.payload_len == 0 {
            return &[];
        }
        // SAFETY: by the contracts of `set_packet` and `with_packet`, the memory is readable as long as it is set.
        unsafe { std::slice::from_raw_parts(self.payload, self.payload_len) }
    }

    /// Returns the length of the whole packet.
    pub fn packet_len(&self) -> u32 {
        self.packet_len
    }

    /// Returns true if an assertion has failed since the last call.
    pub fn take_failed(&mut self) -> bool {
        std::mem::take(&mut self.failed)
    }

    pub(crate) fn fail(&mut self, what: String) {
        // The packet ends here.
        self.release();
        self.failed = true;
        self.log(what);
    }

    /// Waits until no other environment holds the register, and locks it. The holder may lock it repeatedly.
    pub(crate) fn lock_register(&mut self, instance: u32) {
        if let Some(lock) = self.state.register_lock(instance)
            && lock.take(self.owner)
        {
            self.held.push(instance);
        }
    }

    /// Undoes one lock.
    pub(crate) fn unlock_register(&mut self, instance: u32) {
        if let Some(lock) = self.state.register_lock(instance)
            && lock.give(self.owner)
        {
            self.held.retain(|held| *held != instance);
        }
    }

    /// Unlocks all registers; must be called if a packet may have ended before it unlocked them.
    pub fn release(&mut self) {
        for instance in self.held.drain(..) {
            if let Some(lock) = self.state.register_lock(instance) {
                lock.free();
            }
        }
    }

    /// Appends a line to the log.
    pub fn log(&mut self, line: String) {
        if self.log.len() < LOG_LINES_MAX && self.log_bytes + line.len() <= LOG_BYTES_MAX {
            self.log_bytes += line.len();
            self.log.push(line);
        } else {
            // A program that logs every packet must not fill memory without a reader.
            self.log_dropped += 1;
        }
    }

    /// Returns the lines that `log_msg` and failed assertions wrote since the last call.
    pub fn take_log(&mut self) -> Vec<String> {
        let mut lines = std::mem::take(&mut self.log);
        self.log_bytes = 0;
        let dropped = std::mem::take(&mut self.log_dropped);
        if dropped > 0 {
            let were = if dropped == 1 { "line was" } else { "lines were" };
            lines.push(format!(
                "({dropped} more {were} dropped: at most {LOG_LINES_MAX} lines and {LOG_BYTES_MAX} bytes are kept)"
            ));
        }
        lines
    }

    /// Counts a packet of this many bytes in this worker's part of a counter; has no effect beyond the end. For a
    /// direct counter `index` is the entry's row.
    pub fn count(&mut self, instance: u32, index: u32, bytes: usize) {
        if self.dry.is_some() {
            return;
        }
        self.state.count(instance, self.worker, index, bytes as u64);
    }

    /// Returns a random number of 64 bits.
    pub(crate) fn random_word(&mut self) -> u64 {
        // SplitMix64: its state only counts, so workers and successive environments can share it by adding.
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let x = match &mut self.dry {
            None => self.state.random(self.worker).fetch_add(STEP, Ordering::Relaxed),
            Some(dry) => {
                let x = dry.random;
                dry.random = x.wrapping_add(STEP);
                x
            }
        };
        let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// Returns a random number below `end`, which is not 0.
    pub(crate) fn random_below(&mut self, end: &BigUint) -> BigUint {
        let bits = (end - 1u32).bits();
        let one = BigUint::from(1u32);
        loop {
            // Draws numbers with the bits of the largest result; at least half of them are small enough.
            let mut x = BigUint::default();
            for _ in 0..bits.div_ceil(64) {
                x = (x << 64) | BigUint::from(self.random_word());
            }
            x &= (&one << bits) - 1u32;
            if x < *end {
                return x;
            }
        }
    }

    /// Returns the current destinations of copies.
    pub fn destinations(&mut self) -> &Destinations {
        let version = self.state.destinations_version();
        if version != self.destinations_version {
            self.destinations = self.state.destinations();
            self.destinations_version = version;
        }
        &self.destinations
    }

    /// Returns the custom CRC set for this name, if any.
    pub(crate) fn custom_crc(&mut self, name: &str) -> Option<Arc<Crc>> {
        let version = self.state.custom_version();
        if version != self.custom_version {
            self.custom = self.state.custom_crcs();
            self.custom_version = version;
        }
        self.custom.get(name).cloned()
    }
}

impl Drop for Env<'_> {
    fn drop(&mut self) {
        self.release();
    }
}
