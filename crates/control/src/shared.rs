//! Control of one running switch by several clients.

use crate::changes::Changes;
use crate::compilations::{Compilation, Compilations, Owner};
use crate::control::Control;
use crate::error::{ControlError, NO_MEMORY, Result, Subject, UNAVAILABLE, count};
use crate::event::Subscription;
use crate::guard::{MemoryClaim, guarded};
use crate::host::{Host, Keep, Program, Ready, Swap, Swapped};
use crate::journal::Journal;
use crate::made::Made;
use crate::named::NamedUpdate;
use crate::presence::Presence;
use crate::restore::ReadCommand;
use crate::rights::Rights;
use crate::stats::PortStats;
use crate::update::{Atomicity, Direct, Update};
use crate::write::{Batch, Mark, Written};
use p4jet_dataplane::{Cancel, QueueConfig, Switch, Topics};
use p4jet_ir::InstanceId;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

/// Control of a running switch for several clients: batches are applied one after the other.
#[derive(Clone)]
pub struct SharedControl(Arc<Shared>, Owner);

struct Shared {
    /// Held by each change from its beginning to its end.
    kept: Mutex<Kept>,
    /// Signals the end of [`Kept::array`].
    array_done: Condvar,
    /// The control of the running program. Who holds `kept` may replace it; readers lock it only to clone it, so they do not wait
    /// for batches.
    current: Mutex<Control>,
    host: Option<Arc<dyn Host>>,
    /// The program that waits for [`SharedControl::swap_program`].
    next: Mutex<Option<Swap>>,
    compilations: Compilations,
    /// Output queues that could not be compiled.
    no_queues: Mutex<Option<NoQueues>>,
    /// See [`SharedControl::loads`].
    loads: AtomicU64,
}

/// A program that could not be compiled with output queues. It is not compiled again until the program or the queues change.
struct NoQueues {
    switch: Weak<Switch>,
    queues: QueueConfig,
    why: ControlError,
}

/// Address space that must be free for each compilation. The limits of the compiler keep its memory below that, and the process
/// ends if the heap refuses memory.
const COMPILATION_BYTES: usize = 1 << 30;

/// Time for which the end of the switch waits for a batch.
const END_WAIT: Duration = Duration::from_secs(1);

/// Maximum number of cells of an array that are set while all other changes wait.
const STEP_CELLS_MAX: u32 = 1 << 18;

/// Time after such a step in which others can begin.
const STEP_PAUSE: Duration = Duration::from_micros(200);

/// Memory for a port: its rings and the buffers of its captures.
const PORT_BYTES: usize = 16 << 20;

/// Checks that there is memory for one more compilation beside the others.
fn check_compilation_memory(all: usize) -> Result<()> {
    let is_free = || p4jet_threads::check_mappable(all * COMPILATION_BYTES);
    let freed = is_free().or_else(|_| {
        // Replaced programs may still hold theirs.
        p4jet_tables::reclaim();
        is_free()
    });
    freed.map_err(|_| {
        let mib = (all * COMPILATION_BYTES) >> 20;
        let all = count(all, "compilation");
        let message = format!(
            "no memory: {all} may need {mib} MiB of address space, which the system refuses (see ulimit -v)"
        );
        ControlError::new(message).code(NO_MEMORY)
    })
}

/// The journal, and the change in progress.
struct Kept {
    journal: Option<Journal>,
    /// The large counter, register or meter that an update of the whole array is setting in steps. Between the steps there may
    /// be changes that do not touch it; everything else waits.
    array: Option<InstanceId>,
}

impl Kept {
    /// Changes in progress, if there is a journal.
    fn changes(&self) -> Option<Changes> {
        self.journal.is_some().then(Changes::default)
    }

    /// Records changes. Returns a description of a failure.
    fn note(&mut self, control: &Control, changes: Option<Changes>) -> Option<String> {
        let Kept { journal: Some(journal), array } = self else { return None };
        let changes = changes.filter(|changes| !changes.is_empty())?;
        journal.note(control, changes, array.is_none()).err().map(unkept)
    }

    /// Writes a new snapshot of the configuration.
    fn replace(&mut self, control: &Control) -> Option<String> {
        let journal = self.journal.as_mut()?;
        journal.replace(control).unwrap_or_else(|error| {
            // The journal continues an older snapshot: later changes must not be appended to it.
            journal.mark_unwritten();
            Some(unkept(error))
        })
    }
}

fn unkept(error: io::Error) -> String {
    format!(
        "cannot write the state file: {error}; this and earlier unsaved changes are lost if the switch stops before it can be written"
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic is a bug, but no reason to stop serving other clients.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The outcome of loading a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// What was kept and what was lost, in lines.
    pub report: String,
    /// Later failures: the state could not be kept, or output queues have no effect.
    pub note: Option<String>,
}

/// The state file could not be written when the switch ended.
#[derive(Clone, Debug)]
pub struct NotWritten {
    /// Number of finished changes that neither the file nor its journal has.
    pub lost: u64,
    /// The reason.
    pub why: ControlError,
}

/// Updates of one client that arrive one after the other: all or nothing. Other batches wait. If it is dropped without
/// [`Transaction::commit`], the switch keeps none of its changes.
pub struct Transaction<'s> {
    shared: &'s SharedControl,
    // Declared before the lock: its changes are undone while others wait.
    batch: Batch,
    kept: MutexGuard<'s, Kept>,
}

impl<'s> Transaction<'s> {
    /// Marks the batch as one of the owner of the notes ([`NoteOwner`](crate::NoteOwner)), which may change everything.
    #[must_use]
    pub fn of_note_owner(mut self) -> Transaction<'s> {
        self.batch.set_owners();
        self
    }

    /// Applies one update, like [`Batch::write`].
    ///
    /// # Errors
    ///
    /// Those of [`Batch::write`].
    pub fn write(&mut self, update: Update) -> Result<Option<u32>> {
        self.batch.write(update)
    }

    /// Adds an entry, as [`Batch::insert`].
    ///
    /// # Errors
    ///
    /// Those of [`Batch::write`].
    pub fn insert(&mut self, update: Update, direct: &Direct) -> Result<Option<u32>> {
        self.batch.insert(update, direct)
    }

    /// Applies one update, like [`Batch::write_at`].
    ///
    /// # Errors
    ///
    /// Those of [`Batch::write_at`].
    pub fn write_at(&mut self, update: Update, handle: Option<u32>) -> Result<Option<u32>> {
        self.batch.write_at(update, handle)
    }

    /// A mark for [`Self::take_back_to`].
    pub fn mark(&self) -> Mark {
        self.batch.mark()
    }

    /// Undoes the changes since a mark because of an error, like [`Batch::take_back_to`].
    pub fn take_back_to(&mut self, mark: Mark, error: ControlError) -> ControlError {
        self.batch.take_back_to(mark, error)
    }

    /// Keeps the changes so far, whatever happens to later ones.
    pub fn settle(&mut self) {
        self.batch.settle();
    }

    /// Ends the batch, keeps its changes and adds them to the journal. The text describes a failure, such as output queues that
    /// have no effect.
    ///
    /// # Errors
    ///
    /// Those of [`Self::publish`].
    pub fn commit(self) -> Result<Option<String>> {
        Ok(self.publish()?.record())
    }

    /// Ends the batch and keeps its changes. The caller must record them.
    ///
    /// # Errors
    ///
    /// Memory is short. The changes are undone.
    pub fn publish(self) -> Result<Published<'s>> {
        let Transaction { shared, kept, mut batch } = self;
        match batch.publish() {
            Ok(changes) => Ok(Published { shared, kept, changes }),
            Err(error) => Err(batch.take_back(error)),
        }
    }

    /// Undoes all changes, like [`Batch::undo`].
    ///
    /// # Errors
    ///
    /// Those of [`Batch::undo`].
    pub fn undo(self) -> Result<()> {
        self.batch.undo()
    }

    /// Undoes all changes because of an error, like [`Batch::take_back`].
    pub fn take_back(self, error: ControlError) -> ControlError {
        self.batch.take_back(error)
    }
}

/// The changes of a transaction that has ended. They are not in the journal yet.
#[must_use = "the journal does not have the changes yet"]
pub struct Published<'s> {
    shared: &'s SharedControl,
    kept: MutexGuard<'s, Kept>,
    changes: Option<Changes>,
}

impl Published<'_> {
    /// Adds the changes to the journal, and compiles the program for output queues that they configure. The text describes a
    /// failure of either.
    pub fn record(self) -> Option<String> {
        let Published { shared, mut kept, changes } = self;
        let unkept = kept.note(&shared.control(), changes);
        drop(kept);
        both(unkept, shared.make_queues())
    }
}

impl SharedControl {
    /// Shares a control. Without a host, ports and programs cannot change.
    pub fn new(control: Control, host: Option<Arc<dyn Host>>) -> SharedControl {
        let current = Mutex::new(control);
        let kept = Mutex::new(Kept { journal: None, array: None });
        let shared = Arc::new(Shared {
            kept,
            array_done: Condvar::new(),
            current,
            host,
            next: Mutex::new(None),
            compilations: Compilations::default(),
            no_queues: Mutex::new(None),
            loads: AtomicU64::new(0),
        });
        SharedControl(shared, Owner::default())
    }

    /// The same, for clients of this user. Users get turns to compile.
    pub fn of_user(&self, user: &str) -> SharedControl {
        SharedControl(Arc::clone(&self.0), Some(user.into()))
    }

    /// Waits until a program may be compiled.
    fn begin_compilation(&self, cancel: &Cancel) -> Result<Compilation<'_>> {
        let begun = self.0.compilations.begin(&self.1, cancel)?;
        check_compilation_memory(begun.running())?;
        Ok(begun)
    }

    /// The control of the running program, for reading, which delays no other client and waits for none. Changes made through it are
    /// not kept.
    pub fn control(&self) -> Control {
        lock(&self.0.current).clone()
    }

    /// The control of the running program, like [`Self::control`], and [`Self::loads`] at the same moment.
    pub fn control_and_loads(&self) -> (Control, u64) {
        let current = lock(&self.0.current);
        (current.clone(), self.loads())
    }

    /// From now on, this control is that of the running program, which counts as `loads` loads. The caller holds `kept`.
    fn set_control(&self, control: Control, loads: u64) {
        let mut current = lock(&self.0.current);
        // Whoever sees the program sees the number.
        self.0.loads.fetch_add(loads, Ordering::AcqRel);
        let old = std::mem::replace(&mut *current, control);
        drop(current);
        // Readers do not wait for the end of the old program.
        drop(old);
    }

    /// Applies a state file and keeps all further changes in it, so that the configuration survives however the process
    /// ends. Returns a report in lines: another program's name, records that did not fit, and where
    /// they are kept. Without a file, or with an empty one, the switch is unchanged. `read_command` parses the runtime
    /// commands in journals of earlier versions.
    ///
    /// # Errors
    ///
    /// The file cannot be used.
    pub fn keep(&self, path: &Path, read_command: ReadCommand) -> Result<Vec<String>> {
        let mut kept = self.kept();
        let control = self.control();
        let open = || Journal::open(&control, path, read_command);
        let (journal, mut lost) = guarded(|| open().map_err(|error| ControlError::of_named_file(&error)))?;
        kept.journal = Some(journal);
        drop(kept);
        lost.extend(self.make_queues().and_then(std::result::Result::err));
        Ok(lost)
    }

    /// Updates the state file, including the registers, when the switch ends. Waits at most a second for a batch to end.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or a batch is still being applied, which the file does not have then.
    pub fn write_state_file(&self) -> std::result::Result<(), NotWritten> {
        let start = Instant::now();
        let mut kept = loop {
            let kept = match self.0.kept.try_lock() {
                Ok(kept) => Some(kept),
                Err(TryLockError::Poisoned(kept)) => Some(kept.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            };
            if let Some(kept) = kept.filter(|kept| kept.array.is_none()) {
                break kept;
            }
            if start.elapsed() >= END_WAIT {
                let why = "a batch of updates has not ended: neither its updates nor the latest register values are saved";
                return Err(NotWritten { lost: 0, why: ControlError::new(why).code(UNAVAILABLE) });
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let Some(journal) = &mut kept.journal else { return Ok(()) };
        match journal.replace(&self.control()) {
            Ok(_) => Ok(()),
            Err(error) => {
                let why = ControlError::of_named_file(&error);
                Err(NotWritten { lost: journal.unsaved(), why })
            }
        }
    }

    /// Returns the whole configuration at one moment: one JSON record per line.
    pub fn dump(&self, counters: bool) -> String {
        let _kept = self.kept();
        self.control().dump(counters)
    }

    /// Replaces the whole configuration by the output of [`Self::dump`]: all or nothing. The text is as for [`Self::write`].
    ///
    /// # Errors
    ///
    /// Some record does not fit the program, or memory is short. The configuration is as before.
    pub fn restore(&self, text: &str) -> Result<Option<String>> {
        let mut kept = self.kept();
        let control = self.control();
        control.restore(text)?;
        let note = kept.replace(&control);
        drop(kept);
        Ok(both(note, self.make_queues()))
    }

    /// Applies a batch of updates, like [`Control::write`], and keeps those that changed something. The text reports if they could
    /// not be kept, or if output queues that they configure have no effect.
    pub fn write(&self, batch: Vec<Update>, atomicity: Atomicity) -> (Written, Option<String>) {
        let mut presence = Presence::new(&|| false);
        let batch: Vec<_> = batch.into_iter().map(Ok).collect();
        self.write_with(self.kept_for(&batch), batch, atomicity, &mut presence)
    }

    /// Like [`Self::write`], if the program of `of`, to which the ids belong, still runs.
    pub fn write_for(
        &self,
        of: &Control,
        batch: Vec<Update>,
        atomicity: Atomicity,
    ) -> Option<(Written, Option<String>)> {
        let batch: Vec<_> = batch.into_iter().map(Ok).collect();
        let now = self.if_runs(self.kept_for(&batch), of)?;
        let mut presence = Presence::new(&|| false);
        Some(self.write_with(now, batch, atomicity, &mut presence))
    }

    /// Like [`Self::write`], for updates by name. If the client leaves, the rest is refused.
    pub fn write_named(
        &self,
        batch: &[NamedUpdate],
        atomicity: Atomicity,
        mut presence: Presence<'_>,
    ) -> (Written, Option<String>) {
        loop {
            // A large batch is parsed without blocking others.
            let control = self.control();
            let updates = control.schema().resolve_all(batch);
            if let Some(now) = self.if_runs(self.kept_for(&updates), &control) {
                return self.write_with(now, updates, atomicity, &mut presence);
            }
        }
    }

    /// Reads several objects at one moment: no batch comes between them. Batches wait, so `read` should be short.
    pub fn at_one_moment<T>(&self, read: impl FnOnce(&Control) -> T) -> T {
        let _kept = self.kept();
        read(&self.control())
    }

    /// Begins a batch of about `updates` updates that arrive one after the other, if the program of `of`, to which their ids
    /// belong, still runs.
    pub fn transaction(&self, of: &Control, updates: usize) -> Option<Transaction<'_>> {
        let kept = self.if_runs(self.kept(), of)?;
        let batch = Batch::new(&self.control(), Atomicity::AllOrNothing, updates, kept.changes());
        Some(Transaction { shared: self, batch, kept })
    }

    /// Calls `change` while no packets are processed, so that each packet sees all of the change or none of it. `change` must not
    /// use the ports, load a program, or record a transaction.
    ///
    /// # Errors
    ///
    /// The switch has no host, or a worker does not stop. `change` was not called.
    pub fn hold_packets<T>(&self, change: impl FnOnce() -> T) -> Result<T> {
        let (mut change, mut result) = (Some(change), None);
        let mut once = || result = change.take().map(|change| change());
        self.host()?.hold_packets(&mut once)?;
        result.ok_or_else(|| ControlError::new("the host did not make the change"))
    }

    /// Calls `change` once, while no packets are processed if that is possible: without a host nothing holds them, and a worker that
    /// is stuck must not stop the control plane. The conditions of [`Self::hold_packets`].
    pub fn between_packets(&self, change: &mut dyn FnMut()) {
        if self.hold_packets(&mut *change).is_err() {
            change();
        }
    }

    /// The lock, if the program of `of` still runs.
    fn if_runs<'s>(&self, kept: MutexGuard<'s, Kept>, of: &Control) -> Option<MutexGuard<'s, Kept>> {
        Arc::ptr_eq(self.control().switch(), of.switch()).then_some(kept)
    }

    /// Locks everything, at a moment when no array is half set.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept_unless(|_| true)
    }

    /// Locks everything for updates, at a moment when no array that they touch is half set, and none at all if they set an array.
    fn kept_for(&self, updates: &[Result<Update>]) -> MutexGuard<'_, Kept> {
        self.kept_unless(|array| {
            let mut updates = updates.iter().flatten();
            updates.any(|update| update.is_of_arrays() || update.is_of_cells(array))
        })
    }

    fn kept_unless(&self, waits_for: impl Fn(InstanceId) -> bool) -> MutexGuard<'_, Kept> {
        let kept = lock(&self.0.kept);
        let is_half_set = |kept: &mut Kept| kept.array.is_some_and(&waits_for);
        self.0.array_done.wait_while(kept, is_half_set).unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies an update that sets all cells of a large array. Batches that do not touch the array come between the steps. As
    /// they change other things, the journal may have them first.
    fn set_array<'s>(
        &'s self,
        mut kept: MutexGuard<'s, Kept>,
        update: &Update,
        (array, size): (InstanceId, u32),
    ) -> (Written, Option<String>) {
        let control = self.control();
        kept.array = Some(array);
        let (mut done, mut next) = (Ok(None), 0);
        while done.is_ok() && next < size {
            if next > 0 {
                drop(kept);
                std::thread::sleep(STEP_PAUSE);
                kept = lock(&self.0.kept);
            }
            let cells = next..size.min(next.saturating_add(STEP_CELLS_MAX));
            next = cells.end;
            done = guarded(|| control.set_some(update, cells)).map(|()| None);
        }
        kept.array = None;
        self.0.array_done.notify_all();
        let changes = kept.changes().filter(|_| done.is_ok()).map(|mut changes| {
            changes.add(control.schema(), update, &Made::default());
            changes.done(None);
            changes
        });
        let unkept = kept.note(&control, changes);
        (Written { results: vec![done], in_effect: true }, unkept)
    }

    fn write_with<'s>(
        &'s self,
        mut kept: MutexGuard<'s, Kept>,
        batch: Vec<Result<Update>>,
        atomicity: Atomicity,
        presence: &mut Presence<'_>,
    ) -> (Written, Option<String>) {
        let control = self.control();
        if let [Ok(update)] = &*batch
            && let Some(array) = control.array_of(update).filter(|(_, size)| *size > STEP_CELLS_MAX)
            && control.check(update).and_then(|()| control.check_owned(update)).is_ok()
        {
            return self.set_array(kept, update, array);
        }
        let hold = |change: &mut dyn FnMut()| self.between_packets(change);
        let (written, changes) = control.write_with(batch, atomicity, kept.changes(), hold, presence);
        let unkept = kept.note(&control, changes);
        drop(kept);
        (written, both(unkept, self.make_queues()))
    }

    /// Replaces the program without output queues by one with queues, once they are configured. `None` if there was
    /// nothing to do.
    fn make_queues(&self) -> Option<std::result::Result<(), String>> {
        let host = self.0.host.as_ref()?;
        let needs_queues = || self.control().switch().needs_queues();
        let switch = Arc::clone(self.control().switch());
        if !switch.needs_queues() {
            return None;
        }
        let (switch, queues) = (Arc::downgrade(&switch), switch.queues().config());
        let same = |failed: &&NoQueues| failed.switch.ptr_eq(&switch) && failed.queues == queues;
        let failed = lock(&self.0.no_queues).as_ref().filter(same).map(|failed| failed.why.clone());
        let made = match failed {
            Some(why) => Err(why),
            None => guarded(|| {
                let _one_of_few = self.begin_compilation(&Cancel::default())?;
                let prepared = host.prepare_queues().inspect_err(|why| {
                    *lock(&self.0.no_queues) = Some(NoQueues { switch, queues, why: why.clone() });
                })?;
                self.swap(prepared, 0)
            }),
        };
        match made {
            // Another client's batch has already done it.
            Err(_) if !needs_queues() => Some(Ok(())),
            done => {
                Some(done.map(drop).map_err(|error| format!("the output queues have no effect: {error}")))
            }
        }
    }

    /// True if ports and programs can change.
    pub fn has_host(&self) -> bool {
        self.0.host.is_some()
    }

    /// The process around the switch: statistics, traces, captures. Programs are loaded by [`Self::load_program`].
    ///
    /// # Errors
    ///
    /// The switch has no host: the code is `UNSUPPORTED`.
    pub fn host(&self) -> Result<&dyn Host> {
        let none =
            || ControlError::unsupported("not supported: the ports and program of this switch are fixed");
        self.0.host.as_deref().ok_or_else(none)
    }

    /// Subscribes to events while this process lives.
    ///
    /// # Errors
    ///
    /// The switch has no host, or too many subscribers.
    pub fn subscribe(&self, topics: Topics) -> Result<Subscription> {
        self.host()?.subscribe(topics).map(Subscription::new)
    }

    /// All ports, sorted by number.
    ///
    /// # Errors
    ///
    /// The switch has no host.
    pub fn ports(&self) -> Result<Vec<PortStats>> {
        Ok(self.host()?.ports())
    }

    /// Opens a port, specified as after `-i N@`, and captures its frames in a file, if there is one: both or neither.
    ///
    /// # Errors
    ///
    /// The switch has no host, memory is short, the number or a file is in use, or something cannot be opened with these rights.
    pub fn add_port(&self, number: u32, spec: &str, capture: Option<&Path>, rights: &Rights) -> Result<()> {
        let host = self.host()?;
        let _memory = MemoryClaim::new(PORT_BYTES, || "a port".to_string())?;
        let added = match capture {
            Some(capture) => host.add_captured_port(number, spec, capture, rights),
            None => host.add_port(number, spec, rights),
        };
        added.map_err(|error| error.subject(Subject::Ports))
    }

    /// Closes a port.
    ///
    /// # Errors
    ///
    /// The switch has no host or no such port.
    pub fn remove_port(&self, number: u32) -> Result<()> {
        self.host()?.remove_port(number).map_err(|error| error.subject(Subject::Ports))
    }

    /// Recompiles the running program with or without counts of its lookups and actions.
    ///
    /// # Errors
    ///
    /// The switch has no host, other compilations take too long, memory is short, or the compilation was cancelled or failed. The
    /// program runs as before.
    pub fn count(&self, counted: bool, cancel: &Cancel) -> Result<()> {
        let host = self.host()?;
        let _one_of_few = self.begin_compilation(cancel)?;
        if let Some(swap) = host.prepare_counted(counted, cancel)? {
            let _kept = self.kept();
            let control = self.control().succeed(swap()?.switch);
            self.set_control(control, 0);
        }
        Ok(())
    }

    /// Compiles a program and runs it.
    ///
    /// # Errors
    ///
    /// Those of [`Self::prepare_program`], except that a prepared program is no error: it is discarded. The old program continues.
    pub fn load_program(&self, program: &Program<'_>, cancel: &Cancel) -> Result<Loaded> {
        let swap = self.prepare(program, cancel)?;
        let report = self.load(|| {
            let swapped = swap()?;
            *lock(&self.0.next) = None;
            Ok(swapped)
        })?;
        // Another client may have configured queues meanwhile.
        let note = self.make_queues().and_then(std::result::Result::err);
        Ok(Loaded { report, note })
    }

    /// Compiles a program, which runs after [`Self::swap_program`].
    ///
    /// # Errors
    ///
    /// A program is prepared already, the switch has no host, other compilations take too long, memory is short, the program
    /// cannot be read or is refused, or the compilation was cancelled.
    pub fn prepare_program(&self, program: &Program<'_>, cancel: &Cancel) -> Result<()> {
        let ongoing = || {
            let why = "a program is already prepared: activate it, or load another in its place";
            ControlError::refused(Subject::Program, "ONGOING_SWAP", why)
        };
        if lock(&self.0.next).is_some() {
            return Err(ongoing());
        }
        let swap = self.prepare(program, cancel)?;
        let mut next = lock(&self.0.next);
        if next.is_some() {
            return Err(ongoing());
        }
        *next = Some(swap);
        Ok(())
    }

    /// Runs the prepared program.
    ///
    /// # Errors
    ///
    /// No program is prepared, or it cannot replace the running one, which continues.
    pub fn swap_program(&self) -> Result<Loaded> {
        let none = || ControlError::refused(Subject::Program, "NO_ONGOING_SWAP", "no program is prepared");
        if lock(&self.0.next).is_none() {
            return Err(none());
        }
        // If a worker is stuck, the program remains prepared.
        self.host()?.responds()?;
        let next = lock(&self.0.next).take();
        let report = self.load(next.ok_or_else(none)?)?;
        // It was prepared for the queues of that time.
        let note = self.make_queues().and_then(std::result::Result::err);
        Ok(Loaded { report, note })
    }

    /// Compiles a program. A client that cancelled the compilation does not get the program, even if it is ready.
    fn prepare(&self, program: &Program<'_>, cancel: &Cancel) -> Result<Swap> {
        let host = self.host()?;
        let compile = || {
            let _one_of_few = self.begin_compilation(cancel)?;
            host.prepare(program, cancel)
        };
        let swap = compile();
        if cancel.is_cancelled() {
            host.load_cancelled(program.path());
            return Err(ControlError::cancelled());
        }
        swap
    }

    /// Runs a program that a client has loaded.
    fn load(&self, swap: impl FnOnce() -> Result<Swapped>) -> Result<String> {
        self.swap(swap, 1)
    }

    /// The number of programs that [`Self::load_program`] and [`Self::swap_program`] have run.
    pub fn loads(&self) -> u64 {
        self.0.loads.load(Ordering::Acquire)
    }

    /// Runs the prepared program, which counts as `loads` loads. Returns the report of the swap.
    fn swap(&self, swap: impl FnOnce() -> Result<Swapped>, loads: u64) -> Result<String> {
        let mut kept = self.kept();
        let swapped = swap()?;
        let control = self.control().succeed(swapped.switch);
        self.set_control(control.clone(), loads);
        let unkept = kept.replace(&control).map_or_else(String::new, |why| why + "\n");
        Ok(swapped.report + &unkept)
    }

    /// Compiles a program with a state of its own; without a program, the running one.
    ///
    /// # Errors
    ///
    /// The switch has no host, other compilations take too long, memory is short, the program cannot be read or is refused, or
    /// the compilation was cancelled.
    pub fn prepare_pipeline(&self, program: Option<&Program<'_>>, cancel: &Cancel) -> Result<Ready> {
        let host = self.host()?;
        let _one_of_few = self.begin_compilation(cancel)?;
        let ready = host.prepare_pipeline(program, cancel)?;
        match cancel.is_cancelled() {
            true => Err(ControlError::cancelled()),
            false => Ok(ready),
        }
    }

    /// Runs a program of [`Self::prepare_pipeline`], if `check` finds nothing in the old state that would be lost. Calls `then` with
    /// the new switch before any batch is applied to it. The notes beside the state are those of the old program, or those written
    /// through `aside`.
    ///
    /// # Errors
    ///
    /// The program cannot replace the running one, which continues, or its state does not fit with [`Keep::Old`].
    pub fn run_pipeline(
        &self,
        ready: Ready,
        keep: Keep,
        aside: Option<&SharedControl>,
        check: impl FnOnce(&Control) -> Option<String>,
        then: impl FnOnce(&Control),
    ) -> Result<Loaded> {
        let mut kept = self.kept();
        if let Some(lost) = check(&self.control()) {
            return Err(ControlError::new(format!("this would be lost:\n{lost}")));
        }
        let swapped = (ready.run)(keep)?;
        let control = match (keep, aside) {
            (Keep::Old, _) => self.control().succeed(swapped.switch),
            (Keep::Own, Some(aside)) => aside.control().succeed(swapped.switch),
            (Keep::Own, None) => {
                let new = Control::new(swapped.switch);
                new.adopt_note_owner(&self.control());
                new
            }
        };
        self.set_control(control.clone(), 0);
        *lock(&self.0.next) = None;
        then(&control);
        let unkept = kept.replace(&control);
        drop(kept);
        Ok(Loaded { report: swapped.report, note: both(unkept, self.make_queues()) })
    }

    /// The P4Info of the running program in binary form, and the switch with that program.
    ///
    /// # Errors
    ///
    /// The switch has no host, or the host has no P4Info.
    pub fn p4info(&self) -> Result<(Arc<Switch>, Vec<u8>)> {
        self.host()?.p4info()
    }

    /// Requests that the switch stop.
    ///
    /// # Errors
    ///
    /// The switch has no host.
    pub fn stop(&self) -> Result<()> {
        self.host()?.stop();
        Ok(())
    }

    /// Makes the switch report that clients were refused.
    pub fn clients_refused(&self, why: &str) {
        if let Some(host) = &self.0.host {
            host.clients_refused(why);
        }
    }
}

/// Notes on changes that are in effect: they are not kept, or output queues have no effect.
fn both(unkept: Option<String>, made: Option<std::result::Result<(), String>>) -> Option<String> {
    let without_effect = made.and_then(std::result::Result::err);
    match (unkept, without_effect) {
        (Some(unkept), Some(why)) => Some(format!("{unkept}\n{why}")),
        (one, other) => one.or(other),
    }
}
