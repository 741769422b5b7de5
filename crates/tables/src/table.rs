//! Tables as the control plane uses them.

use crate::action::check_action;
use crate::by_slot::BySlot;
use crate::classifier::Classifier;
use crate::exact::Exact;
use crate::grace::Returns;
use crate::growing::Growing;
use crate::index::{Index, packed, rank};
use crate::key::{self, KeyLayout};
use crate::lpm::{self, Lpm};
use crate::lpm32::{Lpm32, SHORT_MAX};
use crate::memory::NoMemory;
use crate::profile::{ActionProfile, Shared};
use crate::routes::Route;
use crate::rows::{Rows, SLOTS_MAX, decode, encode, row_words};
use crate::steps::{Step, Steps};
use crate::timeouts::{HIT_SHIFT, Idle, Life, SavedTimeout, Timeouts, hit_word};
use crate::view::{Parts, Structure, View, ViewHandle, further_steps, lookup_fast, structure_of};
use crate::{Action, Entry, EntryHandle, KeyMatch, Resolved, TableError, TableSpec};
use num_bigint::BigUint;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A table: its entries and handles, and the views of readers. It has one writer at a time, by `&mut`; readers take a
/// [`ViewHandle`].
///
/// ```
/// use p4jet_tables::*;
/// let mut table = Table::new(TableSpec {
///     keys: vec![KeySpec { width: 32, kind: MatchKind::Lpm }],
///     actions: vec![ActionSpec { param_widths: vec![] }, ActionSpec { param_widths: vec![9] }],
///     size: 1024,
///     row_per_entry: false,
///     idle_timeout: false,
///     default: Action { action: 0, data: vec![] },
/// });
/// let route = KeyMatch::Lpm { value: 0x0a00_0000u32.into(), prefix_len: 8 };
/// let action = Action { action: 1, data: vec![3u32.into()] };
/// let handle = table.insert(Entry { key: vec![route], priority: 0, action })?;
/// assert_eq!(table.lookup(&[0x0a01_0203u32.into()]), Some(handle));
///
/// let handle_of_readers = table.view_handle();
/// let guard = pin();
/// let view = handle_of_readers.get(&guard);
/// let row = lookup_fast(view, &[0x0a01_0203]);
/// assert_eq!(row, table.row_of(handle));
/// assert_eq!(view.row(row), [1, 3]);
/// assert_eq!(lookup_fast(view, &[0x0b01_0203]), 0);
/// # Ok::<(), TableError>(())
/// ```
pub struct Table {
    spec: TableSpec,
    profile: Option<ActionProfile>,
    /// The profile as readers see it.
    shared: Option<Arc<Shared>>,
    /// Used only without a profile, which otherwise has the steps.
    steps: Steps,
    layout: KeyLayout,
    /// The generation of the next or present entry, by slot.
    generations: BySlot<u8>,
    /// The generation of the entry after the present one, by slot, where it is not the next number: the slot had later entries
    /// before this one was restored. Free slots are not among them.
    later_generations: BTreeMap<u32, u8>,
    /// No new entry gets a handle with a lower generation.
    generation_min: u8,
    /// Slots from this one on have never had an entry.
    slots_used: u32,
    /// Lower slots without an entry.
    free_slots: BTreeSet<u32>,
    len: usize,
    rows: Rows,
    timeouts: Timeouts,
    default: Action,
    /// See [`Table::is_default_set`].
    is_default_set: bool,
    default_row: u32,
    finder: Finder,
    /// The entries, unless the finder has them.
    listed: Listed,
    views: ViewHandle,
    old_views: Returns<Box<View>>,
}

/// Entries by slot.
struct Listed {
    slots: BySlot<Option<Stored>>,
    index: Index,
    /// Age of the next entry.
    sequence: u64,
}

struct Stored {
    key: Vec<KeyMatch>,
    priority: u32,
    rank: (u32, u64),
    row: u32,
    /// The entry's number in the classifier, if there is one.
    rule: u32,
}

/// The structure that packets use.
enum Finder {
    Keyless,
    /// Contains the entries.
    Exact(Box<Exact>),
    /// Contains the entries.
    Lpm32(Box<Lpm32>),
    Lpm(Box<Lpm>),
    Classifier(Box<Classifier>),
}

/// Returns the route of the only key field.
fn route(layout: &KeyLayout, key: &[KeyMatch]) -> Route {
    let [KeyMatch::Lpm { value, prefix_len }] = key else { unreachable!("kinds were checked") };
    let prefix = value.iter_u32_digits().next().unwrap_or(0) << (32 - layout.fields[0].width);
    Route { prefix, len: *prefix_len }
}

impl Listed {
    fn new(spec: &TableSpec) -> Listed {
        Listed { slots: BySlot::new(), index: Index::new(spec), sequence: 0 }
    }

    fn get(&self, slot: u32) -> Option<&Stored> {
        self.slots.get(slot as usize)?.as_ref()
    }

    fn get_mut(&mut self, slot: u32) -> &mut Stored {
        self.slots.get_mut(slot as usize).as_mut().expect("the slot is in use")
    }

    fn find(&self, key: &[KeyMatch], priority: u32) -> Option<u32> {
        self.index.find(key, priority, |slot| key_in(&self.slots, slot))
    }

    fn insert(&mut self, slot: u32, stored: Stored) {
        let rank = stored.rank;
        *self.slots.get_mut(slot as usize) = Some(stored);
        self.index.insert(rank, slot, |slot| key_in(&self.slots, slot));
        self.sequence += 1;
    }

    fn remove(&mut self, slot: u32) -> Stored {
        let stored = self.slots.get_mut(slot as usize).take().expect("the slot is in use");
        self.index.remove(&stored.key, stored.priority, stored.rank, slot);
        stored
    }
}

/// Returns key and priority of the entry in a slot that is in use.
fn key_in(slots: &BySlot<Option<Stored>>, slot: u32) -> (&[KeyMatch], u32) {
    let stored = slots.get(slot as usize).and_then(Option::as_ref).expect("the index names slots in use");
    (&stored.key, stored.priority)
}

impl Finder {
    fn new(spec: &TableSpec, layout: &KeyLayout) -> Finder {
        let bits = spec.keys.iter().map(|key| key.width).sum();
        match structure_of(spec) {
            Structure::Keyless => Finder::Keyless,
            Structure::Direct => Finder::Exact(Box::new(Exact::direct(bits))),
            Structure::Quotient => Finder::Exact(Box::new(Exact::quotient(bits))),
            Structure::Hash => Finder::Exact(Box::new(Exact::hash(layout))),
            Structure::Lpm32 => Finder::Lpm32(Box::new(Lpm32::new(bits, spec.size.min(SLOTS_MAX)))),
            Structure::Generic if lpm::serves(spec) => Finder::Lpm(Box::new(Lpm::new(spec, layout))),
            Structure::Generic => Finder::Classifier(Box::new(Classifier::new(spec, layout))),
        }
    }

    /// See [`Changes::let_readers_through`](crate::changes::Changes::let_readers_through).
    fn let_readers_through(&self) -> Result<(), TableError> {
        match self {
            Finder::Keyless | Finder::Exact(_) | Finder::Lpm32(_) => Ok(()),
            Finder::Lpm(lpm) => lpm.changes.let_readers_through(),
            Finder::Classifier(classifier) => classifier.changes.let_readers_through(),
        }
    }

    fn parts(&self) -> Parts {
        let mut parts = Parts::default();
        match self {
            Finder::Keyless => {}
            Finder::Exact(exact) => match &**exact {
                Exact::Direct(direct) => parts.base = Some(Arc::clone(&direct.rows)),
                Exact::Quotient(Growing { now: quotient, .. }) => {
                    parts.base = Some(Arc::clone(&quotient.region));
                    let shape = &quotient.shape;
                    (parts.mask, parts.shift) = (shape.row_mask(), shape.implied.into());
                    (parts.seed, parts.buckets, parts.step) = (shape.seed, shape.buckets, shape.step());
                }
                Exact::Hash(hash) => {
                    let probe = &hash.now.probe;
                    parts.base = Some(Arc::clone(&probe.region));
                    (parts.mask, parts.shift, parts.seed) = (probe.mask(), probe.shift(), probe.seed);
                }
            },
            Finder::Lpm32(lpm) => {
                parts.base = Some(Arc::clone(&lpm.first.now));
                parts.aux = Some(Arc::clone(&lpm.groups));
            }
            Finder::Lpm(lpm) => {
                parts.base = Some(Arc::clone(&lpm.memory));
                parts.changes = Some(Arc::clone(&lpm.changes));
                parts.lookups = Some(lpm.lookups());
            }
            Finder::Classifier(classifier) => {
                let (searcher, lookups) = classifier.searcher();
                parts.searched = Some(Box::new(searcher));
                parts.lookups = Some(lookups);
                parts.changes = Some(Arc::clone(&classifier.changes));
            }
        }
        parts
    }
}

/// Returns the first word of row 0 for this default action.
fn miss(spec: &TableSpec, default: &Action) -> u32 {
    let params = spec.actions.get(default.action as usize).map(|action| &action.param_widths);
    match params {
        Some(params) if params.iter().all(|width| *width == 0) => default.action,
        _ => Action::DEFAULT,
    }
}

impl Table {
    /// Creates an empty table.
    ///
    /// # Panics
    /// Panics if the default action of the spec is not one of its actions with matching data, or if the system refuses
    /// address space.
    pub fn new(spec: TableSpec) -> Table {
        Self::with(spec, None)
    }

    /// Creates an empty table whose entries, and whose default action if it is set, may also name members and groups of a
    /// profile. Both have the same actions.
    ///
    /// # Panics
    /// Like [`Self::new`].
    pub fn with_profile(spec: TableSpec, profile: &ActionProfile) -> Table {
        Self::with(spec, Some(profile.clone()))
    }

    fn with(spec: TableSpec, profile: Option<ActionProfile>) -> Table {
        if let Err(error) = check_action(&spec.actions, &spec.default) {
            panic!("the default action of a table is wrong: {error}");
        }
        let layout = KeyLayout::new(&spec);
        // A member or group takes two words of data: its slot and its handle.
        let action_words = row_words(&spec.actions).max(if profile.is_some() { 3 } else { 1 });
        let row_words = action_words + usize::from(spec.idle_timeout);
        let mut rows = Rows::new(row_words, spec.size, spec.row_per_entry || spec.idle_timeout);
        let default_row =
            rows.take(encode(&spec.actions, &spec.default), None, None).expect("no row is taken yet");
        rows.set_miss(miss(&spec, &spec.default));
        let finder = Finder::new(&spec, &layout);
        let shared = profile.as_ref().map(ActionProfile::shared);
        let view = View::new(
            &spec,
            layout.limbs,
            row_words,
            rows.region(),
            default_row,
            finder.parts(),
            shared.as_ref(),
        );
        Table {
            profile,
            shared,
            steps: Steps::default(),
            generations: BySlot::new(),
            later_generations: BTreeMap::new(),
            generation_min: 0,
            slots_used: 0,
            free_slots: BTreeSet::new(),
            len: 0,
            rows,
            timeouts: Timeouts::default(),
            default: spec.default.clone(),
            is_default_set: false,
            default_row,
            finder,
            listed: Listed::new(&spec),
            views: ViewHandle::new(view),
            old_views: Returns::new(),
            layout,
            spec,
        }
    }

    /// Returns the shape of the table.
    pub fn spec(&self) -> &TableSpec {
        &self.spec
    }

    /// Returns the action profile.
    pub fn profile(&self) -> Option<&ActionProfile> {
        self.profile.as_ref()
    }

    /// Resolves the action of an entry, or the default action, to that of its member, or of the group's member that
    /// `selector` picks.
    pub fn resolve(&self, action: &Action, selector: u64) -> Resolved {
        match &self.profile {
            Some(profile) => profile.resolve(action, selector),
            None => Resolved { member: None, action: Some(action.clone()) },
        }
    }

    /// Returns the words of an action that is about to be used; from now on its member or group cannot be deleted.
    fn hold(&self, action: &Action, empty_allowed: bool) -> Result<Vec<u64>, TableError> {
        match (action.action, &self.profile) {
            (Action::MEMBER | Action::GROUP, Some(profile)) => profile.hold(action, empty_allowed),
            (Action::MEMBER | Action::GROUP, None) => Err(TableError::NoProfile),
            _ => {
                check_action(&self.spec.actions, action)?;
                Ok(encode(&self.spec.actions, action))
            }
        }
    }

    /// Returns a row for an action that holds its member or group.
    fn take_row(
        &mut self,
        action: &Action,
        slot: Option<u32>,
        now: Option<u32>,
        empty_allowed: bool,
    ) -> Result<u32, TableError> {
        let words = self.hold(action, empty_allowed)?;
        let row = self.rows.take(words, slot, now);
        if row.is_err() {
            self.let_go(action);
        }
        row
    }

    /// Reverses [`Self::take_row`].
    fn release(&mut self, action: &Action, row: u32) {
        // Before the release: a reader that comes in between must not take the row for its old action when another entry
        // uses it.
        if self.rows.has_one_user(row) {
            self.views.row_released();
        }
        self.rows.release(row);
        self.let_go(action);
    }

    fn let_go(&self, action: &Action) {
        if let Some(profile) = &self.profile {
            profile.let_go(action);
        }
    }

    fn new_view(&mut self) {
        drop(self.old_views.take());
        let view = View::new(
            &self.spec,
            self.layout.limbs,
            self.rows.row_words(),
            self.rows.region(),
            self.default_row,
            self.finder.parts(),
            self.shared.as_ref(),
        );
        self.views.replace(view, &self.old_views);
    }

    /// Changes what lookups find, as one step for readers. `change` returns true if readers need a new view; if it fails,
    /// nothing has changed.
    fn change(
        &mut self,
        step: Step,
        change: impl FnOnce(&mut Self) -> Result<bool, TableError>,
    ) -> Result<(), TableError> {
        self.finder.let_readers_through()?;
        let profile = self.profile.clone();
        // Holding the profile's lock orders changes of tables that share it with changes of the profile.
        let mut held = profile.as_ref().map(ActionProfile::lock);
        held.as_mut().map_or(&mut self.steps, |profile| &mut profile.steps).begin(step)?;
        self.views.entries_change();
        let stale = NoMemory::caught(|| change(self)).unwrap_or_else(|no_memory| Err(no_memory.into()));
        // A failed change may have replaced the structure by another one with the same entries.
        if !matches!(stale, Ok(false)) {
            self.new_view();
            if matches!(self.finder, Finder::Classifier(_)) {
                held.as_mut().map_or(&mut self.steps, |profile| &mut profile.steps).new_tree();
            }
        } else {
            self.views.entries_changed();
        }
        stale.map(drop)
    }

    fn with_steps(&mut self, f: impl FnOnce(&mut Steps)) {
        match &self.profile {
            Some(profile) => f(&mut profile.lock().steps),
            None => f(&mut self.steps),
        }
    }

    /// Returns the kind of read by which a lookup finds an entry with this key.
    fn step_of(&self, key: &[KeyMatch]) -> Step {
        match (&self.finder, key) {
            (Finder::Lpm32(_), [KeyMatch::Lpm { prefix_len, .. }]) if *prefix_len <= SHORT_MAX => {
                Step::ShortRoute
            }
            _ => Step::Entry,
        }
    }

    fn handle(&self, slot: u32) -> EntryHandle {
        let generation = self.generations.value(slot as usize);
        EntryHandle(slot | u32::from(generation) << 24)
    }

    fn slot_of(&self, handle: EntryHandle) -> Result<u32, TableError> {
        let slot = handle.0 & (SLOTS_MAX - 1);
        match self.row_in(slot) {
            Some(_) => match self.handle(slot) {
                current if current == handle => Ok(slot),
                current => Err(TableError::ExpiredHandle { found: handle, current }),
            },
            None => Err(TableError::InvalidHandle(handle)),
        }
    }

    /// Returns the row of the entry in a slot.
    fn row_in(&self, slot: u32) -> Option<u32> {
        match &self.finder {
            Finder::Keyless => None,
            Finder::Exact(exact) => exact.row(slot),
            Finder::Lpm32(lpm) => lpm.routes.get(slot).map(|(_, row)| row),
            Finder::Lpm(_) | Finder::Classifier(_) => self.listed.get(slot).map(|stored| stored.row),
        }
    }

    /// Returns the entry in a slot.
    fn entry_in(&self, slot: u32) -> Option<Entry> {
        let (key, priority, row) = match &self.finder {
            Finder::Keyless => return None,
            Finder::Exact(exact) => {
                let (key, row) = exact.get(slot)?;
                (self.layout.unpack(&key).into_iter().map(KeyMatch::Exact).collect(), 0, row)
            }
            Finder::Lpm32(lpm) => {
                let (route, row) = lpm.routes.get(slot)?;
                let value = route.prefix >> (32 - self.layout.fields[0].width);
                (vec![KeyMatch::Lpm { value: value.into(), prefix_len: route.len }], 0, row)
            }
            Finder::Lpm(_) | Finder::Classifier(_) => {
                let stored = self.listed.get(slot)?;
                (stored.key.clone(), stored.priority, stored.row)
            }
        };
        Some(Entry { key, priority, action: self.action_of(row) })
    }

    /// Returns the action of a row.
    fn action_of(&self, row: u32) -> Action {
        let words = self.rows.words(row);
        match words[0] as u32 {
            Action::MEMBER => Action::member(words[2] as u32),
            Action::GROUP => Action::group(words[2] as u32),
            _ => decode(&self.spec.actions, &words),
        }
    }

    /// Returns the slot of the entry with this key, which has been checked.
    fn slot_with(&self, key: &[KeyMatch], priority: u32) -> Option<u32> {
        match &self.finder {
            Finder::Keyless => None,
            Finder::Exact(exact) => exact.find(&packed(&self.layout, key)),
            Finder::Lpm32(lpm) => lpm.routes.find(route(&self.layout, key)),
            Finder::Lpm(_) | Finder::Classifier(_) => self.listed.find(key, priority),
        }
    }

    /// Adds an entry; clears the don't-care bits of its key. Only tables with a ternary, range or optional key use the
    /// priority; others store 0.
    pub fn insert(&mut self, entry: Entry) -> Result<EntryHandle, TableError> {
        self.insert_prepared(entry, |_| ())
    }

    /// Like [`Self::insert`], but calls `prepare` with the entry's row (see [`Self::row_of`]) before readers can find the
    /// entry.
    pub fn insert_prepared(
        &mut self,
        entry: Entry,
        prepare: impl FnOnce(u32),
    ) -> Result<EntryHandle, TableError> {
        let slot = self.next_slot();
        let generation = self.generations.value(slot as usize).max(self.generation_min);
        self.insert_at(slot, entry, false, prepare)?;
        self.set_generation(slot, generation);
        Ok(self.handle(slot))
    }

    /// Returns the slot of the next new entry.
    fn next_slot(&self) -> u32 {
        self.free_slots.first().copied().unwrap_or(self.slots_used)
    }

    /// Returns the generation of the slot that [`Self::insert`] would use now. [`Self::undo_insert`] takes it.
    pub fn next_generation(&self) -> u8 {
        self.generations.value(self.next_slot() as usize)
    }

    /// Returns the generation of a handle's slot, which is free, before [`Self::restore`]. [`Self::undo_insert`] takes it.
    pub fn free_generation(&self, handle: EntryHandle) -> u8 {
        self.generations.value((handle.0 & (SLOTS_MAX - 1)) as usize)
    }

    /// Removes a new entry as if it had never been inserted: the next entry of its slot gets the same handle.
    /// `generation` is the previous generation of the slot.
    pub fn undo_insert(&mut self, handle: EntryHandle, generation: u8) -> Result<(), TableError> {
        self.delete(handle)?;
        self.set_generation(handle.0 & (SLOTS_MAX - 1), generation);
        Ok(())
    }

    /// Restores a removed entry with its old handle. If its slot is in use by now, this is [`Self::insert`]. The entry that
    /// follows it in the slot gets no generation below the one that a new entry would get now.
    pub fn restore(&mut self, handle: EntryHandle, entry: Entry) -> Result<EntryHandle, TableError> {
        self.restore_prepared(handle, entry, |_| ())
    }

    /// Like [`Self::restore`], but calls `prepare` with the entry's row before readers can find the entry.
    pub fn restore_prepared(
        &mut self,
        handle: EntryHandle,
        entry: Entry,
        prepare: impl FnOnce(u32),
    ) -> Result<EntryHandle, TableError> {
        let slot = handle.0 & (SLOTS_MAX - 1);
        if self.row_in(slot).is_some() || slot >= self.spec.size {
            return self.insert_prepared(entry, prepare);
        }
        self.insert_at(slot, entry, true, prepare)?;
        let next = self.generations.value(slot as usize);
        self.set_generation(slot, (handle.0 >> 24) as u8);
        self.retire_generations(slot, next);
        Ok(handle)
    }

    /// Returns the age of an entry where it decides between entries of the same priority: the entry with the smaller number
    /// is older.
    pub fn age(&self, handle: EntryHandle) -> Option<u64> {
        let slot = self.slot_of(handle).ok()?;
        self.listed.get(slot).map(|stored| stored.rank.1)
    }

    /// Like [`Self::restore_prepared`], but the entry keeps its age.
    pub fn restore_aged(
        &mut self,
        handle: EntryHandle,
        entry: Entry,
        age: Option<u64>,
        prepare: impl FnOnce(u32),
    ) -> Result<EntryHandle, TableError> {
        let next = self.listed.sequence;
        self.listed.sequence = age.unwrap_or(next);
        let restored = self.restore_prepared(handle, entry, prepare);
        self.listed.sequence = self.listed.sequence.max(next);
        restored
    }

    fn set_generation(&mut self, slot: u32, generation: u8) {
        if generation != self.generations.value(slot as usize) {
            *self.generations.get_mut(slot as usize) = generation;
        }
    }

    fn insert_at(
        &mut self,
        slot: u32,
        mut entry: Entry,
        empty_allowed: bool,
        prepare: impl FnOnce(u32),
    ) -> Result<EntryHandle, TableError> {
        key::check(&self.spec, &mut entry.key)?;
        if key::order_of(&self.spec) != key::Order::Priority {
            entry.priority = 0;
        }
        if let Some(slot) = self.slot_with(&entry.key, entry.priority) {
            return Err(TableError::Duplicate { existing: self.handle(slot) });
        }
        let size = self.spec.size.min(SLOTS_MAX);
        if self.len >= size as usize {
            return Err(TableError::Full { size });
        }
        drop(self.old_views.take());
        let row = self.take_row(&entry.action, Some(slot), None, empty_allowed)?;
        prepare(row);
        let Entry { key, priority, action } = entry;
        let step = self.step_of(&key);
        let inserted = self.change(step, |table| table.find_from_now(slot, key, priority, row));
        if let Err(error) = inserted {
            self.release(&action, row);
            return Err(error);
        }
        self.len += 1;
        self.free_slots.extend(self.slots_used..slot);
        self.slots_used = self.slots_used.max(slot + 1);
        self.free_slots.remove(&slot);
        Ok(self.handle(slot))
    }

    /// Makes an entry visible to readers. True if they need a new view for that.
    fn find_from_now(
        &mut self,
        slot: u32,
        key: Vec<KeyMatch>,
        priority: u32,
        row: u32,
    ) -> Result<bool, TableError> {
        let layout = &self.layout;
        match &mut self.finder {
            Finder::Keyless => unreachable!("a table without key takes no entries"),
            Finder::Exact(exact) => Ok(exact.insert(&packed(layout, &key), row, slot)),
            Finder::Lpm32(lpm) => lpm.insert(route(layout, &key), row, slot),
            Finder::Lpm(lpm) => {
                let stale = lpm.insert(lpm.route(layout, &key), row);
                let rank = rank(&self.spec, &key, priority, self.listed.sequence);
                self.listed.insert(slot, Stored { key, priority, rank, row, rule: 0 });
                Ok(stale)
            }
            Finder::Classifier(classifier) => {
                let rank = rank(&self.spec, &key, priority, self.listed.sequence);
                let (rule, stale) = classifier.insert(layout, &key, rank, row)?;
                self.listed.insert(slot, Stored { key, priority, rank, row, rule });
                Ok(stale)
            }
        }
    }

    /// Changes the action of an entry, which gets another row (see [`Self::row_of`]).
    pub fn modify(&mut self, handle: EntryHandle, action: Action) -> Result<(), TableError> {
        let slot = self.slot_of(handle)?;
        let now = self.row_in(slot).expect("checked by slot_of");
        let old = self.action_of(now);
        let row = self.take_row(&action, Some(slot), Some(now), false)?;
        if self.spec.idle_timeout {
            let hit = self.rows.last_word(now).load(Ordering::Relaxed);
            self.rows.last_word(row).store(hit, Ordering::Relaxed);
        }
        let step = match &self.finder {
            Finder::Lpm32(lpm) if lpm.is_short(slot) => Step::ShortRoute,
            Finder::Classifier(_) => Step::RowOfRule,
            _ => Step::Entry,
        };
        let modified = self.change(step, |table| {
            Ok(match &mut table.finder {
                Finder::Keyless => unreachable!("a table without key has no entries"),
                Finder::Exact(exact) => exact.set_row(slot, row),
                Finder::Lpm32(lpm) => {
                    lpm.set_row(slot, row);
                    false
                }
                Finder::Lpm(lpm) => {
                    let stored = table.listed.get_mut(slot);
                    lpm.modify(lpm.route(&table.layout, &stored.key), row);
                    stored.row = row;
                    false
                }
                Finder::Classifier(classifier) => {
                    let stored = table.listed.get_mut(slot);
                    classifier.modify(stored.rule, row);
                    stored.row = row;
                    false
                }
            })
        });
        if let Err(error) = modified {
            self.release(&action, row);
            return Err(error);
        }
        self.release(&old, now);
        Ok(())
    }

    /// Removes an entry and returns it.
    pub fn delete(&mut self, handle: EntryHandle) -> Result<Entry, TableError> {
        let slot = self.slot_of(handle)?;
        let entry = self.entry_in(slot).expect("checked by slot_of");
        let row = self.row_in(slot).expect("checked by slot_of");
        self.change(self.step_of(&entry.key), |table| {
            Ok(match &mut table.finder {
                Finder::Keyless => unreachable!("a table without key has no entries"),
                Finder::Exact(exact) => {
                    exact.remove(slot);
                    false
                }
                Finder::Lpm32(lpm) => {
                    lpm.remove(slot);
                    false
                }
                Finder::Lpm(lpm) => {
                    let stale = lpm.delete(lpm.route(&table.layout, &entry.key))?;
                    table.listed.remove(slot);
                    stale
                }
                Finder::Classifier(classifier) => classifier.delete(table.listed.remove(slot).rule),
            })
        })?;
        self.release(&entry.action, row);
        let next = self.generation_after(slot);
        self.set_generation(slot, next);
        self.later_generations.remove(&slot);
        self.free_slots.insert(slot);
        self.timeouts.remove(slot);
        self.len -= 1;
        Ok(entry)
    }

    /// Returns the entry with this handle.
    pub fn get(&self, handle: EntryHandle) -> Option<Entry> {
        self.slot_of(handle).ok().and_then(|slot| self.entry_in(slot))
    }

    /// Returns all entries in the order of their slots.
    pub fn entries(&self) -> impl Iterator<Item = (EntryHandle, Entry)> {
        (0..self.slots_used).filter_map(|slot| Some((self.handle(slot), self.entry_in(slot)?)))
    }

    /// Returns the entries in at most `slots` slots from slot `from` on, and the next slot if there are more. So a caller
    /// can release the table between two pieces.
    pub fn entries_from(
        &self,
        from: u64,
        slots: usize,
    ) -> (impl Iterator<Item = (EntryHandle, Entry)>, Option<u64>) {
        let begin = u32::try_from(from).map_or(self.slots_used, |from| from.min(self.slots_used));
        let slots = u32::try_from(slots).unwrap_or(u32::MAX);
        let end = begin.saturating_add(slots).min(self.slots_used);
        let entries = (begin..end).filter_map(|slot| Some((self.handle(slot), self.entry_in(slot)?)));
        (entries, (end < self.slots_used).then_some(u64::from(end)))
    }

    /// Returns all entries, older ones first where age decides between equal priorities.
    pub fn entries_by_age(&self) -> impl Iterator<Item = (EntryHandle, Entry)> {
        let slots = 0..self.slots_used;
        let by_age = matches!(key::order_of(&self.spec), key::Order::Priority | key::Order::PrefixSum);
        let order = by_age.then(|| {
            let mut slots: Vec<u32> = slots.clone().filter(|slot| self.listed.get(*slot).is_some()).collect();
            slots.sort_by_key(|slot| self.listed.get(*slot).map(|stored| stored.rank.1));
            slots
        });
        let slots = order.unwrap_or_else(|| slots.collect());
        slots.into_iter().filter_map(|slot| Some((self.handle(slot), self.entry_in(slot)?)))
    }

    /// Returns the generations that do not follow from the entries, by slot: those of free slots, if above 0, and those after
    /// restored entries, if the slot had later ones. [`Self::set_free_generation`] for these and then [`Self::restore`] for the
    /// entries bring an empty table back to this state.
    pub fn retired_generations(&self) -> impl Iterator<Item = (u32, u8)> {
        let free = self.generations.used().filter(|(slot, _)| self.row_in(*slot).is_none());
        free.chain(self.later_generations.iter().map(|(slot, generation)| (*slot, *generation)))
    }

    /// Returns each slot that has or had an entry and whose next handle has a generation above 0, with that generation.
    pub fn next_generations(&self) -> impl Iterator<Item = (u32, u8)> {
        let next = |slot| match self.row_in(slot) {
            Some(_) => self.generation_after(slot),
            None => self.generations.value(slot as usize),
        };
        let slots = self.generations.used().map(|(slot, _)| slot).filter(|slot| *slot >= self.slots_used);
        (0..self.slots_used).chain(slots).map(move |slot| (slot, next(slot))).filter(|(_, next)| *next != 0)
    }

    /// The generation of the entry that follows the present one in a slot.
    fn generation_after(&self, slot: u32) -> u8 {
        let next = self.generations.value(slot as usize).wrapping_add(1);
        self.later_generations.get(&slot).copied().unwrap_or(next)
    }

    /// Retires the generations of a slot below this one: no handle that [`Self::insert`] gives in the slot from now on has one
    /// of them, whatever is restored in the slot before, until the slot's generation has passed 255. Has no effect where they
    /// are retired already, or if there is no such slot.
    pub fn retire_generations(&mut self, slot: u32, below: u8) {
        let now = self.generations.value(slot as usize);
        match self.row_in(slot) {
            None if below > now && slot < self.spec.size.min(SLOTS_MAX) => self.set_generation(slot, below),
            Some(_)
                if below > self.later_generations.get(&slot).copied().unwrap_or(now.saturating_add(1)) =>
            {
                self.later_generations.insert(slot, below);
            }
            _ => {}
        }
    }

    /// Sets the generation of the next entry in a slot, even to a lower one, unless the slot is in use or does not exist.
    pub fn set_free_generation(&mut self, slot: u32, generation: u8) {
        if slot < self.spec.size.min(SLOTS_MAX) && self.row_in(slot).is_none() {
            self.set_generation(slot, generation);
        }
    }

    /// Returns the lowest generation of new handles.
    pub fn generation_min(&self) -> u8 {
        self.generation_min
    }

    /// Sets the lowest generation of new handles.
    pub fn set_generation_min(&mut self, generation: u8) {
        self.generation_min = generation;
    }

    /// Raises the lowest generation of new handles.
    pub fn raise_generation_min(&mut self, generation: u8) {
        self.generation_min = self.generation_min.max(generation);
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the entry with exactly this key, and with this priority if priorities count.
    pub fn find(&self, key: &[KeyMatch], priority: u32) -> Option<EntryHandle> {
        let mut key = key.to_vec();
        key::check(&self.spec, &mut key).ok()?;
        let priority = if key::order_of(&self.spec) == key::Order::Priority { priority } else { 0 };
        self.slot_with(&key, priority).map(|slot| self.handle(slot))
    }

    /// Removes all entries. Handles and generations restart at 0, as in bmv2 (`MatchUnitAbstract::reset_state`). The
    /// default action and the lowest generation stay.
    pub fn clear(&mut self) {
        let rows: Vec<u32> = (0..self.slots_used).filter_map(|slot| self.row_in(slot)).collect();
        self.finder = Finder::new(&self.spec, &self.layout);
        self.listed = Listed::new(&self.spec);
        self.new_view();
        self.with_steps(Steps::new_entries);
        for row in rows {
            let action = self.action_of(row);
            self.release(&action, row);
        }
        self.generations = BySlot::new();
        self.later_generations.clear();
        self.slots_used = 0;
        self.free_slots.clear();
        self.timeouts.clear();
        self.len = 0;
    }

    /// Returns the default action.
    pub fn default_action(&self) -> &Action {
        &self.default
    }

    /// True if the default action was set, even if to that of the program, and not reset since.
    pub fn is_default_set(&self) -> bool {
        self.is_default_set
    }

    /// Changes the default action.
    pub fn set_default(&mut self, action: Action) -> Result<(), TableError> {
        let row = self.take_row(&action, None, None, true)?;
        let profile = self.profile.clone();
        let mut held = profile.as_ref().map(ActionProfile::lock);
        let steps = held.as_mut().map_or(&mut self.steps, |profile| &mut profile.steps);
        if let Err(error) = steps.begin(Step::Default) {
            drop(held);
            self.release(&action, row);
            return Err(error);
        }
        let guard = crate::pin();
        self.views.get(&guard).default_row.store(row, Ordering::Release);
        drop(guard);
        self.rows.set_miss(miss(&self.spec, &action));
        drop(held);
        let old = std::mem::replace(&mut self.default, action);
        self.is_default_set = true;
        let old_row = std::mem::replace(&mut self.default_row, row);
        self.release(&old, old_row);
        Ok(())
    }

    /// Restores the program's default action. The only possible error is [`TableError::Busy`].
    pub fn reset_default(&mut self) -> Result<(), TableError> {
        self.set_default(self.spec.default.clone())?;
        self.is_default_set = false;
        Ok(())
    }

    /// Returns the entry that applies to a key, which has one value per field. This defines the meaning of the table. Except
    /// in tables of exact keys, it does not use the structure that packets use.
    pub fn lookup(&self, key: &[BigUint]) -> Option<EntryHandle> {
        self.matching(key).next()
    }

    /// Like [`Self::lookup`], but finds the entry in the structure that packets use, so that the time does not grow with the
    /// number of entries as it does there. Returns the row of the entry with its action, or row 0 with the default action.
    pub fn look_up_row(&self, key: &[BigUint]) -> (u32, Action) {
        assert_eq!(key.len(), self.spec.keys.len(), "one value per key field");
        let key = self.layout.pack(key);
        let guard = crate::pin();
        let row = lookup_fast(self.views.get(&guard), &key);
        drop(guard);
        (row, if row == 0 { self.default.clone() } else { self.action_of(row) })
    }

    /// Returns the entries that match a key, best first.
    pub fn matching<'a>(&'a self, key: &'a [BigUint]) -> impl Iterator<Item = EntryHandle> + 'a {
        assert_eq!(key.len(), self.spec.keys.len(), "one value per key field");
        let slots: Box<dyn Iterator<Item = u32>> = match &self.finder {
            Finder::Keyless => Box::new(std::iter::empty()),
            Finder::Exact(exact) => Box::new(exact.find(&self.layout.pack(key)).into_iter()),
            Finder::Lpm32(lpm) => {
                let key = key[0].iter_u32_digits().next().unwrap_or(0);
                Box::new(lpm.routes.matching(key << (32 - self.layout.fields[0].width)))
            }
            Finder::Lpm(_) | Finder::Classifier(_) => {
                self.listed.index.matching(&self.layout, key, |slot| key_in(&self.listed.slots, slot))
            }
        };
        slots.map(|slot| self.handle(slot))
    }

    /// Returns the row of an entry; 0 if no entry has the handle.
    ///
    /// In a table with a row per entry, the entry's direct counters have this index: `slot + 1`, plus a multiple (below 8)
    /// of `size + 1` for an entry that was modified or whose slot had another entry shortly before. The state of direct
    /// counters adds these up, so any row of the entry names its counter.
    pub fn row_of(&self, handle: EntryHandle) -> u32 {
        self.slot_of(handle).ok().and_then(|slot| self.row_in(slot)).unwrap_or(0)
    }

    /// Sets the number of milliseconds without a hit, from now on, after which an entry is idle; 0 means never.
    pub fn set_timeout(&mut self, handle: EntryHandle, ms: u32, now_us: u64) -> Result<(), TableError> {
        let slot = self.slot_of(handle)?;
        if self.spec.idle_timeout {
            let row = self.row_in(slot).expect("checked by slot_of");
            self.hit(row, now_us);
            self.timeouts.set(slot, ms, now_us);
        }
        Ok(())
    }

    /// Returns an entry's timeout and the time of its last hit, for [`Self::restore_timeout`].
    pub fn saved_timeout(&self, handle: EntryHandle) -> Option<SavedTimeout> {
        let slot = self.slot_of(handle).ok().filter(|_| self.spec.idle_timeout)?;
        let (ms, reported) = (self.timeouts.get(slot), self.timeouts.reported(slot));
        Some(SavedTimeout { ms, hit: self.hit_in(slot), reported })
    }

    /// Restores an entry's timeout and the time of its last hit. A later hit by a packet counts; the hit that
    /// [`Self::set_timeout`] recorded at `set_us` does not.
    pub fn restore_timeout(&mut self, handle: EntryHandle, saved: SavedTimeout, set_us: Option<u64>) {
        let Ok(slot) = self.slot_of(handle) else { return };
        if !self.spec.idle_timeout {
            return;
        }
        let row = self.row_in(slot).expect("checked by slot_of");
        let word = self.rows.last_word(row);
        let now = word.load(Ordering::Relaxed);
        let hit = if set_us.map(hit_word) == Some(now) { saved.hit } else { saved.hit.max(now) };
        word.store(hit, Ordering::Relaxed);
        self.timeouts.restore(slot, saved.ms, hit, saved.reported);
    }

    /// Returns the state of an entry with a timeout.
    pub fn life(&self, handle: EntryHandle, now_us: u64) -> Option<Life> {
        let slot = self.slot_of(handle).ok()?;
        let timeout_ms = self.timeouts.get(slot);
        let since_us = now_us.saturating_sub(self.hit_in(slot) << HIT_SHIFT);
        (timeout_ms > 0).then_some(Life { timeout_ms, since_hit_ms: since_us / 1000 })
    }

    /// Returns the time since an entry was hit, or its timeout set ([`Self::set_timeout`]), in milliseconds; `None` if the table does not note it.
    pub fn since_hit_ms(&self, handle: EntryHandle, now_us: u64) -> Option<u64> {
        let slot = self.slot_of(handle).ok().filter(|_| self.spec.idle_timeout)?;
        Some(now_us.saturating_sub(self.hit_in(slot) << HIT_SHIFT) / 1000)
    }

    /// Notes that a packet hit the entry with this row. Generated code does so itself.
    pub fn hit(&self, row: u32, now_us: u64) {
        if self.spec.idle_timeout {
            self.rows.last_word(row).store(hit_word(now_us), Ordering::Relaxed);
        }
    }

    /// Returns the time when the entry in a slot was last hit.
    fn hit_in(&self, slot: u32) -> u64 {
        self.row_in(slot).map_or(0, |row| self.rows.last_word(row).load(Ordering::Relaxed))
    }

    /// Returns the entries that have become idle since the last call, each once until it is hit again. Examines at most
    /// `max` entries.
    pub fn sweep(&mut self, now_us: u64, max: usize) -> Idle {
        let mut timeouts = std::mem::take(&mut self.timeouts);
        let mut slots = Vec::new();
        let more = timeouts.sweep(now_us, max, |slot| self.hit_in(slot), &mut slots);
        self.timeouts = timeouts;
        Idle { handles: slots.into_iter().map(|slot| self.handle(slot)).collect(), more }
    }

    /// Returns all entries that are idle now, whether or not [`Self::sweep`] has reported them.
    pub fn idle(&self, now_us: u64) -> Vec<EntryHandle> {
        let slots = self.timeouts.idle(now_us, |slot| self.hit_in(slot));
        slots.into_iter().map(|slot| self.handle(slot)).collect()
    }

    /// Returns the handle by which readers find the table.
    pub fn view_handle(&self) -> ViewHandle {
        self.views.clone()
    }

    /// Should be called after many changes. They are visible without it, but the call completes work that makes
    /// the table larger or faster, instead of leaving it to later changes, and frees replaced memory that no reader uses any
    /// more.
    pub fn publish(&mut self) {
        let stale = match &mut self.finder {
            Finder::Keyless | Finder::Lpm(_) => false,
            Finder::Exact(exact) => exact.settle(),
            Finder::Lpm32(lpm) => lpm.settle(),
            Finder::Classifier(classifier) => classifier.settle(),
        };
        if stale {
            self.new_view();
            self.with_steps(Steps::new_tree);
        }
        crossbeam_epoch::pin().flush();
        drop(self.old_views.take());
    }

    /// Returns the name of the structure that finds entries; `None` for a table without a key.
    pub fn structure_name(&self) -> Option<String> {
        let structure = match &self.finder {
            Finder::Keyless => return None,
            Finder::Exact(_) | Finder::Lpm32(_) => format!("{:?}", structure_of(&self.spec)).to_lowercase(),
            Finder::Lpm(_) => "trie".to_string(),
            Finder::Classifier(_) => "tree".to_string(),
        };
        Some(format!("{structure} of {} bits", 64 * self.layout.limbs))
    }

    /// Returns what a lookup of a key takes beyond the first access: in a decision tree nodes, blocks of leaves and single rules;
    /// in a trie nodes; otherwise further buckets, slots or arrays.
    pub fn steps(&self, key: &[BigUint]) -> [usize; 3] {
        let key = self.layout.pack(key);
        match &self.finder {
            Finder::Classifier(classifier) => classifier.searcher().0.looks_at(&key),
            Finder::Lpm(_) => [crate::lpm::nodes(self.views.get(&crate::pin()), &key), 0, 0],
            _ => [further_steps(self.views.get(&crate::pin()), &key), 0, 0],
        }
    }

    /// Returns the memory in use, by entries (in some tables estimated) and by the structures that packets read.
    pub fn memory_bytes(&self) -> usize {
        let finder = match &self.finder {
            Finder::Keyless => 0,
            Finder::Exact(exact) => exact.committed_bytes(),
            Finder::Lpm32(lpm) => lpm.committed_bytes(),
            Finder::Lpm(lpm) => lpm.committed_bytes() + self.listed_bytes(),
            Finder::Classifier(classifier) => classifier.committed_bytes() + self.listed_bytes(),
        };
        finder + self.rows.committed_bytes() + self.generations.bytes()
    }

    /// Estimates the memory of the entries in `listed`.
    fn listed_bytes(&self) -> usize {
        // The numbers of a key are allocated separately; a range and a value with mask have two.
        let key = self.spec.keys.len() * size_of::<KeyMatch>() + 2 * self.layout.limbs * 8;
        self.listed.slots.bytes() + self.listed.index.bytes() + self.len * key
    }
}
