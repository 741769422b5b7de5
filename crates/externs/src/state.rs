//! Registers, counters, meters, digests and run-time parameters of a program.
//!
//! Registers are shared by all workers. Counters are per worker, so that counting takes no locked instruction; reading
//! sums them. A control write never touches a worker's cells: it sets an offset that is added on reading, so that no count
//! is lost to a race.

use crate::apart::Apart;
use crate::bits::{limbs, mask_low};
use crate::cells::{CELLS_MAX, CounterValue, StateError, zeroed};
use crate::crc::Crc;
use crate::digests::Digests;
use crate::meter::{Meters, Rates};
use crate::multicast::Multicast;
use crate::replication::Replication;
use crate::{CrcParams, Destinations, Digest, DigestCounts, Pages};
use num_bigint::BigUint;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// An entry of a table that has direct counters may have any of this many rows in its life; the row of the entry in slot
/// `s` is `s + 1 + bank * (table_size + 1)` for a bank below this number (see `p4jet_tables::Table::row_of`). A direct
/// counter has a cell for each; reading sums the banks.
pub const DIRECT_BANKS: u32 = 8;

/// Maximum number of entries of a table; handles have 24 bits for the slot.
const ENTRIES_MAX: u32 = 1 << 24;

/// The unit that the program declares for a counter. Both units are always counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Packets.
    Packets,
    /// Bytes.
    Bytes,
    /// Both.
    Both,
}

/// An extern instance with state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceSpec {
    /// Full dotted control-plane name.
    pub name: String,
    /// Its kind.
    pub kind: InstanceKind,
}

/// Kinds of extern state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceKind {
    /// Array of values.
    Register {
        /// Width of a cell in bits.
        width: u32,
        /// Cells.
        size: u32,
    },
    /// Array of counters.
    Counter {
        /// The declared unit.
        unit: Unit,
        /// Cells.
        size: u32,
    },
    /// One counter per entry of a table.
    DirectCounter {
        /// The declared unit.
        unit: Unit,
        /// Maximum number of entries of the table.
        table_size: u32,
    },
    /// Array of meters.
    Meter {
        /// True if it meters bytes, false for packets.
        bytes: bool,
        /// Cells.
        size: u32,
    },
    /// One meter per entry of a table.
    DirectMeter {
        /// True if it meters bytes, false for packets.
        bytes: bool,
        /// Maximum number of entries of the table.
        table_size: u32,
    },
    /// Messages to the control plane.
    Digest,
    /// Members and groups; the tables hold them.
    ActionProfile,
}

enum Cells {
    Register { width: u32, cells: Apart<AtomicU64>, lock: RegisterLock },
    Counter { banks: u32, stride: u32, workers: Vec<Apart<AtomicU64>>, offsets: Apart<AtomicU64> },
    Meter(Meters),
    None,
}

/// A reentrant lock that gives one environment at a time access to a register.
pub(crate) struct RegisterLock(Apart<AtomicU64>);

impl RegisterLock {
    /// Number of polls before a waiter yields: the holder of the lock may have no processor.
    const LOOKS: u32 = 100;

    /// Takes the lock. Returns true if the owner did not hold it before.
    pub fn take(&self, owner: u32) -> bool {
        let (word, mine) = (&self.0[0], u64::from(owner) << 32);
        let mut looks = 0;
        loop {
            let now = word.load(Ordering::Relaxed);
            if now >> 32 == u64::from(owner) {
                // Only the owner writes now.
                word.store(now + 1, Ordering::Relaxed);
                return false;
            }
            if now == 0
                && word.compare_exchange_weak(0, mine + 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return true;
            }
            looks += 1;
            if looks % Self::LOOKS == 0 {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Undoes one `take`. Returns true if the owner no longer holds the lock. Has no effect if it did not hold it.
    pub fn give(&self, owner: u32) -> bool {
        let (word, mine) = (&self.0[0], u64::from(owner) << 32);
        let now = word.load(Ordering::Relaxed);
        if now == mine + 1 {
            self.free();
            return true;
        }
        if now >> 32 == u64::from(owner) {
            word.store(now - 1, Ordering::Relaxed);
        }
        false
    }

    /// Frees the lock entirely. Only the owner may call this.
    pub fn free(&self) {
        self.0[0].store(0, Ordering::Release);
    }
}

/// Number of locks for cells wider than a machine word; a cell always uses the same one.
const WIDE_LOCKS: usize = 64;

/// Number of counters or meters that are changed while other changes of them wait.
const CHANGED_MAX: u32 = 4096;

/// State of all extern instances of a program.
pub struct State {
    specs: Vec<InstanceSpec>,
    /// The cells of each instance. An instance that is unchanged since the previous program shares them with that
    /// program's state.
    cells: Vec<Arc<Cells>>,
    digests: Digests,
    shared: Arc<Shared>,
}

/// State that belongs to no instance, shared by the states of all programs that a switch has run.
struct Shared {
    /// The random number generator of each worker.
    random: Vec<Apart<AtomicU64>>,
    wide_locks: [Mutex<()>; WIDE_LOCKS],
    /// Held by a thread that changes counters or meters.
    control_writes: Mutex<()>,
    custom: RwLock<HashMap<String, (CrcParams, Arc<Crc>)>>,
    custom_version: AtomicU64,
    replication: Replication,
    multicast: Mutex<Multicast>,
    /// True if digests have a receiver.
    heard: AtomicBool,
}

/// Locks a mutex. A panic while it was held leaves no visible change half done.
fn lock(mutex: &Mutex<()>) -> MutexGuard<'_, ()> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// Creates state for these instances, all 0, with counters for `workers` workers. Memory is committed when it is
    /// written.
    pub fn new(instances: &[InstanceSpec], workers: usize) -> Result<State, StateError> {
        let shared = Shared {
            random: (0..workers).map(|_| Apart::zeroed(1)).collect(),
            wide_locks: [const { Mutex::new(()) }; WIDE_LOCKS],
            control_writes: Mutex::new(()),
            custom: RwLock::default(),
            custom_version: AtomicU64::new(0),
            replication: Replication::default(),
            multicast: Mutex::default(),
            heard: AtomicBool::new(true),
        };
        let state = State::with_cells(instances, Arc::new(shared), |_| None)?;
        state.set_random_seed(0);
        Ok(state)
    }

    /// Creates state for these instances of another program, for the same workers. Instance `i` is instance `same(i)`
    /// of this state itself, so both programs may run during a reload; the other instances are 0. State that belongs
    /// to no instance (multicast groups, clone sessions, custom hashes) is shared, too.
    ///
    /// # Panics
    /// If `same` names an instance of another kind.
    pub fn succeeding(
        &self,
        instances: &[InstanceSpec],
        same: impl Fn(u32) -> Option<u32>,
    ) -> Result<State, StateError> {
        State::with_cells(instances, Arc::clone(&self.shared), |i| {
            let old = same(i)? as usize;
            assert_eq!(self.specs[old].kind, instances[i as usize].kind, "instance {i}");
            Some(Arc::clone(&self.cells[old]))
        })
    }

    fn with_cells(
        instances: &[InstanceSpec],
        shared: Arc<Shared>,
        same: impl Fn(u32) -> Option<Arc<Cells>>,
    ) -> Result<State, StateError> {
        let workers = shared.random.len();
        let mut total = 0u64;
        let mut cells = Vec::new();
        for (InstanceSpec { name, kind }, number) in instances.iter().zip(0..) {
            let size = match *kind {
                InstanceKind::Register { size, width } => u64::from(size) * limbs(width) as u64,
                InstanceKind::Counter { size, .. } => u64::from(size),
                InstanceKind::DirectCounter { table_size, .. }
                | InstanceKind::DirectMeter { table_size, .. } => u64::from(table_size.min(ENTRIES_MAX)) + 1,
                InstanceKind::Meter { size, .. } => u64::from(size),
                InstanceKind::Digest | InstanceKind::ActionProfile => 0,
            };
            total += size;
            if total > CELLS_MAX {
                return Err(StateError::TooLarge { name: name.clone(), cells: total });
            }
            if let Some(same) = same(number) {
                cells.push(same);
                continue;
            }
            let counter = |banks: u32, stride: u32| {
                let words = 2 * u64::from(banks) * u64::from(stride);
                let workers = (0..workers).map(|_| zeroed(name, words)).collect::<Result<_, _>>()?;
                Ok(Cells::Counter { banks, stride, workers, offsets: zeroed(name, 2 * u64::from(stride))? })
            };
            cells.push(Arc::new(match *kind {
                InstanceKind::Register { width, .. } => {
                    let lock = RegisterLock(zeroed(name, 1)?);
                    Cells::Register { width, cells: zeroed(name, size)?, lock }
                }
                InstanceKind::Counter { size, .. } => counter(1, size)?,
                InstanceKind::DirectCounter { table_size, .. } => {
                    counter(DIRECT_BANKS, table_size.min(ENTRIES_MAX) + 1)?
                }
                InstanceKind::Meter { bytes, size } => Cells::Meter(Meters::new(name, size, bytes)?),
                InstanceKind::DirectMeter { bytes, table_size } => {
                    Cells::Meter(Meters::new(name, table_size.min(ENTRIES_MAX) + 1, bytes)?)
                }
                InstanceKind::Digest | InstanceKind::ActionProfile => Cells::None,
            }));
        }
        let sends = instances.iter().any(|instance| instance.kind == InstanceKind::Digest);
        let digests = Digests::new(if sends { workers } else { 0 });
        Ok(State { specs: instances.to_vec(), cells, digests, shared })
    }

    /// Returns the instances.
    pub fn instances(&self) -> &[InstanceSpec] {
        &self.specs
    }

    /// Returns the number of workers with counters.
    pub fn workers(&self) -> usize {
        self.shared.random.len()
    }

    /// Restarts the workers' random numbers; a seed gives the same ones each time.
    pub fn set_random_seed(&self, seed: u64) {
        for (worker, random) in self.shared.random.iter().enumerate() {
            // Far apart: the sequence of a worker takes 2^40 numbers to reach the next one's.
            let start = seed.wrapping_add((worker as u64) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            random[0].store(start, Ordering::Relaxed);
        }
    }

    pub(crate) fn random(&self, worker: usize) -> &AtomicU64 {
        &self.shared.random[worker][0]
    }

    fn cells_of(&self, instance: u32) -> Option<&Cells> {
        self.cells.get(instance as usize).map(Arc::as_ref)
    }

    fn name(&self, instance: u32) -> String {
        self.specs[instance as usize].name.clone()
    }

    // ---- registers ----

    fn register(&self, instance: u32) -> Option<(u32, &[AtomicU64])> {
        match self.cells_of(instance)? {
            Cells::Register { width, cells, .. } => Some((*width, cells)),
            Cells::Counter { .. } | Cells::Meter(_) | Cells::None => None,
        }
    }

    /// Returns the cells of a register for generated code: each cell has as many whole words as its
    /// width needs, little-endian. Null if the instance is no register. Valid as long as the state is. Cells of
    /// more than one word may only be read and written by [`crate::find`]'s `register.read` and `register.write`, which lock
    /// them.
    pub fn register_base(&self, instance: u32) -> *const AtomicU64 {
        self.register(instance).map_or(std::ptr::null(), |(_, cells)| cells.as_ptr())
    }

    pub(crate) fn register_lock(&self, instance: u32) -> Option<&RegisterLock> {
        match self.cells_of(instance)? {
            Cells::Register { lock, .. } => Some(lock),
            Cells::Counter { .. } | Cells::Meter(_) | Cells::None => None,
        }
    }

    /// Returns the number of cells of a register; 0 if the instance is none.
    pub(crate) fn register_size(&self, instance: u32) -> u64 {
        self.register(instance).map_or(0, |(width, cells)| (cells.len() / limbs(width).max(1)) as u64)
    }

    /// Returns the number of bits of a cell.
    pub(crate) fn register_width(&self, instance: u32) -> u32 {
        self.register(instance).map_or(0, |(width, _)| width)
    }

    /// Returns the cell's words, and its lock if there are several.
    fn cell(&self, instance: u32, index: u64) -> Option<(&[AtomicU64], Option<MutexGuard<'_, ()>>)> {
        let (width, cells) = self.register(instance)?;
        let n = limbs(width);
        let start = usize::try_from(index).ok()?.checked_mul(n)?;
        let cell = cells.get(start..start.checked_add(n)?)?;
        if n == 0 {
            return None;
        }
        Some((cell, (n > 1).then(|| lock(&self.shared.wide_locks[index as usize % WIDE_LOCKS]))))
    }

    pub(crate) fn read_cell(&self, instance: u32, index: u64, out: &mut [u64]) {
        let Some((cell, _lock)) = self.cell(instance, index) else { return };
        for (out, word) in out.iter_mut().zip(cell) {
            *out = word.load(Ordering::Relaxed);
        }
    }

    pub(crate) fn write_cell(&self, instance: u32, index: u64, value: &[u64]) {
        let Some((width, _)) = self.register(instance) else { return };
        let Some((cell, _lock)) = self.cell(instance, index) else { return };
        for (i, word) in cell.iter().enumerate() {
            let value = value.get(i).copied().unwrap_or(0);
            word.store(mask_low(value, width - 64 * i as u32), Ordering::Relaxed);
        }
    }

    fn check_register(&self, instance: u32, index: u64) -> Result<u32, StateError> {
        let (width, cells) = self
            .register(instance)
            .ok_or(StateError::WrongInstance { found: instance, expected: "register" })?;
        let size = (cells.len() / limbs(width).max(1)) as u64;
        if index >= size {
            return Err(StateError::Index { name: self.name(instance), found: index, size });
        }
        Ok(width)
    }

    /// Returns the value of a register cell.
    pub fn register_read(&self, instance: u32, index: u32) -> Result<BigUint, StateError> {
        let width = self.check_register(instance, index.into())?;
        let mut words = vec![0; limbs(width)];
        self.read_cell(instance, index.into(), &mut words);
        Ok(BigUint::new(words.iter().flat_map(|w| [*w as u32, (*w >> 32) as u32]).collect()))
    }

    /// Returns the cells of a register that are not 0, with their indices.
    pub fn register_values(&self, instance: u32) -> impl Iterator<Item = (u32, BigUint)> {
        let (width, cells) = self.register(instance).unwrap_or((0, &[]));
        let used = |cell: &[AtomicU64]| cell.iter().any(|word| word.load(Ordering::Relaxed) != 0);
        let used = (0..).zip(cells.chunks(limbs(width).max(1))).filter(move |(_, cell)| used(cell));
        used.filter_map(move |(index, _)| Some((index, self.register_read(instance, index).ok()?)))
    }

    /// Sets a register cell.
    pub fn register_write(&self, instance: u32, index: u32, value: &BigUint) -> Result<(), StateError> {
        let width = self.check_register(instance, index.into())?;
        if value.bits() > u64::from(width) {
            let name = self.name(instance);
            return Err(StateError::Width { name, found: value.bits(), expected: width });
        }
        self.write_cell(instance, index.into(), &value.to_u64_digits());
        Ok(())
    }

    /// Sets all cells of a register to 0.
    pub fn register_reset(&self, instance: u32) -> Result<(), StateError> {
        self.register_reset_cells(instance, 0..u32::MAX)
    }

    /// Sets these cells of a register to 0, as far as they exist.
    pub fn register_reset_cells(&self, instance: u32, range: Range<u32>) -> Result<(), StateError> {
        let (width, cells) = self
            .register(instance)
            .ok_or(StateError::WrongInstance { found: instance, expected: "register" })?;
        let cells = (0..).zip(cells.chunks(limbs(width).max(1)));
        for (index, cell) in cells.skip(range.start as usize).take(range.len()) {
            // Reading first keeps memory that was never written uncommitted.
            if cell.iter().any(|word| word.load(Ordering::Relaxed) != 0) {
                self.write_cell(instance, index, &[]);
            }
        }
        Ok(())
    }

    // ---- counters ----

    /// Returns the cells of a counter for worker `worker`, for generated code: cell `i` holds packets in word `2 * i`
    /// and bytes in word `2 * i + 1`; for a direct counter `i` is the entry's row. Only the worker itself writes
    /// them. Null if the instance is no counter. Valid as long as the state is.
    pub fn counter_base(&self, instance: u32, worker: usize) -> *const AtomicU64 {
        match self.cells_of(instance) {
            Some(Cells::Counter { workers, .. }) => workers[worker].as_ptr(),
            _ => std::ptr::null(),
        }
    }

    pub(crate) fn count(&self, instance: u32, worker: usize, index: u32, bytes: u64) {
        let Some(Cells::Counter { workers, .. }) = self.cells_of(instance) else { return };
        let at = index as usize * 2;
        if let Some([packets, total]) = workers[worker].get(at..at + 2) {
            packets.fetch_add(1, Ordering::Relaxed);
            total.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn check_counter(&self, instance: u32, index: u64) -> Result<usize, StateError> {
        let Some(Cells::Counter { banks, stride, .. }) = self.cells_of(instance) else {
            return Err(StateError::WrongInstance { found: instance, expected: "counter" });
        };
        if index >= u64::from(*banks) * u64::from(*stride) {
            let (name, size) = (self.name(instance), u64::from(*stride));
            return Err(StateError::Index { name, found: index, size });
        }
        Ok((index % u64::from(*stride)) as usize)
    }

    /// Returns the sum of the workers' counts in cell `at` (of the first bank), without the offset.
    fn counted(&self, instance: u32, at: usize) -> CounterValue {
        let Cells::Counter { banks, stride, workers, .. } = &*self.cells[instance as usize] else {
            unreachable!("the caller checked it");
        };
        let mut sum = CounterValue::default();
        for cells in workers {
            for bank in 0..*banks as usize {
                let cell = 2 * (bank * *stride as usize + at);
                sum.packets = sum.packets.wrapping_add(cells[cell].load(Ordering::Relaxed));
                sum.bytes = sum.bytes.wrapping_add(cells[cell + 1].load(Ordering::Relaxed));
            }
        }
        sum
    }

    fn offsets(&self, instance: u32, at: usize) -> &[AtomicU64] {
        match &*self.cells[instance as usize] {
            Cells::Counter { offsets, .. } => &offsets[2 * at..2 * at + 2],
            Cells::Register { .. } | Cells::Meter(_) | Cells::None => unreachable!("the caller checked it"),
        }
    }

    /// Returns the value of a counter. For a direct counter `index` is the entry's row, or any earlier row of the
    /// entry.
    pub fn counter_read(&self, instance: u32, index: u32) -> Result<CounterValue, StateError> {
        let at = self.check_counter(instance, index.into())?;
        let sum = self.counted(instance, at);
        let offset = self.offsets(instance, at);
        Ok(CounterValue {
            packets: sum.packets.wrapping_add(offset[0].load(Ordering::Relaxed)),
            bytes: sum.bytes.wrapping_add(offset[1].load(Ordering::Relaxed)),
        })
    }

    /// Returns the cells of a counter that are not 0, with their indices; none of a direct counter, whose cells belong to entries.
    pub fn counter_values(&self, instance: u32) -> impl Iterator<Item = (u32, CounterValue)> {
        let size = match self.specs.get(instance as usize).map(|spec| spec.kind) {
            Some(InstanceKind::Counter { size, .. }) => size,
            _ => 0,
        };
        let value = move |index| Some((index, self.counter_read(instance, index).ok()?));
        (0..size).filter_map(value).filter(|(_, value)| *value != CounterValue::default())
    }

    /// Sets a counter. The control plane does so with 0 for the direct counter of a new entry, whose row another entry may
    /// have had.
    pub fn counter_write(&self, instance: u32, index: u32, value: CounterValue) -> Result<(), StateError> {
        let at = self.check_counter(instance, index.into())?;
        let _lock = lock(&self.shared.control_writes);
        self.counter_set(instance, at, value);
        Ok(())
    }

    /// Sets a counter that exists. The lock of changes is held.
    fn counter_set(&self, instance: u32, at: usize, value: CounterValue) {
        let sum = self.counted(instance, at);
        let offset = self.offsets(instance, at);
        for (offset, change) in
            offset.iter().zip([value.packets.wrapping_sub(sum.packets), value.bytes.wrapping_sub(sum.bytes)])
        {
            // Reading first keeps memory that was never written uncommitted.
            if offset.load(Ordering::Relaxed) != change {
                offset.store(change, Ordering::Relaxed);
            }
        }
    }

    /// Sets all cells of a counter to 0.
    pub fn counter_reset(&self, instance: u32) -> Result<(), StateError> {
        self.counter_reset_cells(instance, 0..u32::MAX)
    }

    /// Sets these cells of a counter to 0, as far as they exist.
    pub fn counter_reset_cells(&self, instance: u32, range: Range<u32>) -> Result<(), StateError> {
        let Some(Cells::Counter { stride, .. }) = self.cells_of(instance) else {
            return Err(StateError::WrongInstance { found: instance, expected: "counter" });
        };
        let range = range.start..range.end.min(*stride);
        self.each_locked(range, |at| self.counter_set(instance, at as usize, CounterValue::default()));
        Ok(())
    }

    /// Changes cells. Changes of others come between those of [`CHANGED_MAX`] cells.
    fn each_locked(&self, cells: Range<u32>, change: impl Fn(u32)) {
        for first in cells.clone().step_by(CHANGED_MAX as usize) {
            let _lock = lock(&self.shared.control_writes);
            (first..cells.end.min(first.saturating_add(CHANGED_MAX))).for_each(&change);
        }
    }

    // ---- meters ----

    pub(crate) fn meter(&self, instance: u32) -> Option<&Meters> {
        match self.cells_of(instance)? {
            Cells::Meter(meters) => Some(meters),
            Cells::Register { .. } | Cells::Counter { .. } | Cells::None => None,
        }
    }

    fn checked_meter(&self, instance: u32, index: u32) -> Result<&Meters, StateError> {
        let meters =
            self.meter(instance).ok_or(StateError::WrongInstance { found: instance, expected: "meter" })?;
        let direct = matches!(self.specs[instance as usize].kind, InstanceKind::DirectMeter { .. });
        if meters.stride() == 0 || (!direct && index >= meters.stride()) {
            let (name, size) = (self.name(instance), meters.stride().into());
            return Err(StateError::Index { name, found: index.into(), size });
        }
        Ok(meters)
    }

    /// Returns the rates of a meter, if any are set. For a direct meter `index` is the entry's row.
    pub fn meter_rates(&self, instance: u32, index: u32) -> Result<Option<Rates>, StateError> {
        self.checked_meter(instance, index).map(|meters| meters.rates(index))
    }

    /// Returns the rates of a meter with the indices of the cells that have some; none of a direct meter, whose cells belong to
    /// entries.
    pub fn meter_values(&self, instance: u32) -> impl Iterator<Item = (u32, Rates)> {
        let size = match self.specs.get(instance as usize).map(|spec| spec.kind) {
            Some(InstanceKind::Meter { size, .. }) => size,
            _ => 0,
        };
        (0..size).filter_map(move |index| Some((index, self.meter_rates(instance, index).ok()??)))
    }

    /// Sets the rates of a meter, with full buckets, or removes them: then every packet is green. The control plane
    /// removes those of the direct meter of a new entry, whose row another entry may have had.
    pub fn meter_set_rates(&self, instance: u32, index: u32, rates: Option<Rates>) -> Result<(), StateError> {
        let meters = self.checked_meter(instance, index)?;
        self.check_rates(instance, rates)?;
        let _lock = lock(&self.shared.control_writes);
        meters.set_rates(index, rates);
        Ok(())
    }

    /// Like [`Self::meter_set_rates`] for these cells of a meter, as far as they exist; none of a direct meter, whose cells
    /// belong to entries.
    pub fn meter_set_cells_rates(
        &self,
        instance: u32,
        range: Range<u32>,
        rates: Option<Rates>,
    ) -> Result<(), StateError> {
        let meters =
            self.meter(instance).ok_or(StateError::WrongInstance { found: instance, expected: "meter" })?;
        self.check_rates(instance, rates)?;
        if let InstanceKind::Meter { size, .. } = self.specs[instance as usize].kind {
            let range = range.start..range.end.min(size);
            self.each_locked(range, |index| meters.set_rates(index, rates));
        }
        Ok(())
    }

    fn check_rates(&self, instance: u32, rates: Option<Rates>) -> Result<(), StateError> {
        let Some([committed, peak]) = rates else { return Ok(()) };
        let right = |per_us: f64| per_us.is_finite() && per_us >= 0.0;
        match right(committed.per_us) && right(peak.per_us) && committed.per_us <= peak.per_us {
            true => Ok(()),
            false => Err(StateError::Rates { name: self.name(instance) }),
        }
    }

    /// Returns packets and bytes of each colour that a meter has given: green, yellow, red. It counts from the first call
    /// for any of its cells on.
    pub fn meter_counts(&self, instance: u32, index: u32) -> Result<[CounterValue; 3], StateError> {
        self.checked_meter(instance, index)?.counts(&self.name(instance), index)
    }

    /// Sets these counts to 0.
    pub fn meter_reset_counts(&self, instance: u32, index: u32) -> Result<(), StateError> {
        self.checked_meter(instance, index).map(|meters| meters.reset_counts(index))
    }

    // ---- digests ----

    pub(crate) fn send_digest(&self, worker: usize, instance: u32, now_us: u64, limbs: &[u64]) {
        let heard = self.shared.heard.load(Ordering::Relaxed);
        self.digests.send(worker, heard, instance, now_us, limbs);
    }

    /// Sets whether digests have a receiver, for this program and its successors; initially they have. Without a receiver,
    /// digests are only counted.
    pub fn hear_digests(&self, heard: bool) {
        self.shared.heard.store(heard, Ordering::Relaxed);
    }

    /// Removes at most this many digests of each worker, the oldest first.
    pub fn take_digests(&self, max: usize, to: impl FnMut(Digest)) {
        self.digests.take(max, to);
    }

    /// Returns the counts of this program's digests.
    pub fn digest_counts(&self) -> DigestCounts {
        self.digests.counts()
    }

    // ---- destinations of copies ----

    /// Returns the multicast groups and clone sessions.
    pub fn destinations(&self) -> Arc<Destinations> {
        self.shared.replication.get()
    }

    /// Changes multicast groups and clone sessions; workers see the whole change from their next packet on.
    pub fn change_destinations(&self, change: impl FnOnce(&mut Destinations)) {
        self.shared.replication.change(change);
    }

    /// Returns a copy of the replication engine's nodes and groups.
    pub fn multicast(&self) -> Multicast {
        self.shared.multicast.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Calls a function on the multicast groups, nodes and link aggregation groups, without a copy.
    pub fn with_multicast<R>(&self, look: impl FnOnce(&Multicast) -> R) -> R {
        look(&self.shared.multicast.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes multicast groups, nodes and link aggregation groups. `change` fails without an effect. Workers see the whole change from
    /// their next packet on.
    pub fn change_multicast<R, E>(
        &self,
        change: impl FnOnce(&mut Multicast) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut now = self.shared.multicast.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut now)?;
        let changed = now.take_changed();
        if !changed.is_empty() {
            self.change_destinations(|destinations| {
                changed
                    .iter()
                    .for_each(|group| destinations.groups.set(*group, now.groups().get(group).cloned()));
            });
        }
        Ok(result)
    }

    /// Replaces all multicast groups, nodes and link aggregation groups; workers see the whole change from their next
    /// packet on.
    pub fn set_multicast(&self, mut new: Multicast) {
        new.take_changed();
        let mut now = self.shared.multicast.lock().unwrap_or_else(PoisonError::into_inner);
        self.change_destinations(|destinations| {
            destinations.groups = Pages::default();
            new.groups()
                .iter()
                .for_each(|(number, group)| destinations.groups.set(*number, Some(group.clone())));
        });
        *now = new;
    }

    pub(crate) fn destinations_version(&self) -> u64 {
        self.shared.replication.version()
    }

    // ---- custom hashes ----

    /// Sets the parameters of the custom CRC of this name (the text of its call sites).
    ///
    /// # Panics
    /// If the width is not 8 to 64.
    pub fn set_crc(&self, name: &str, params: CrcParams) {
        assert!((8..=64).contains(&params.width), "a CRC of {} bits", params.width);
        let mut custom = self.shared.custom.write().unwrap_or_else(PoisonError::into_inner);
        custom.insert(name.to_string(), (params, Arc::new(Crc::new(params))));
        self.shared.custom_version.fetch_add(1, Ordering::Release);
    }

    /// Returns the parameters set for the custom CRC of this name; `None` if it has the default ones.
    pub fn crc(&self, name: &str) -> Option<CrcParams> {
        let custom = self.shared.custom.read().unwrap_or_else(PoisonError::into_inner);
        custom.get(name).map(|(params, _)| *params)
    }

    pub(crate) fn custom_version(&self) -> u64 {
        self.shared.custom_version.load(Ordering::Acquire)
    }

    pub(crate) fn custom_crcs(&self) -> HashMap<String, Arc<Crc>> {
        let custom = self.shared.custom.read().unwrap_or_else(PoisonError::into_inner);
        custom.iter().map(|(name, (_, crc))| (name.clone(), Arc::clone(crc))).collect()
    }
}
