//! What the control plane works with.

use crate::classifier::Classifier;
use crate::grace::Returns;
use crate::index::{Index, packed, rank};
use crate::key::{self, KeyLayout};
use crate::lpm::{self, Lpm};
use crate::lpm32::{Lpm32, Route};
use crate::memory::Region;
use crate::probe::Probe;
use crate::profile::ActionProfile;
use crate::rows::{Rows, SLOTS_MAX, encode, row_words};
use crate::view::{Parts, Structure, View, ViewHandle, structure_of};
use crate::{Action, ActionSpec, Entry, EntryHandle, KeyMatch, Resolved, TableError, TableSpec};
use num_bigint::BigUint;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A table: entries, handles and what readers see of them. One writer at a time, by `&mut`; readers take a
/// [`ViewHandle`].
///
/// ```
/// use p4jet_tables::*;
/// let mut table = Table::new(TableSpec {
///     keys: vec![KeySpec { width: 32, kind: MatchKind::Lpm }],
///     actions: vec![ActionSpec { param_widths: vec![] }, ActionSpec { param_widths: vec![9] }],
///     size: 1024,
///     row_per_entry: false,
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
    layout: KeyLayout,
    index: Index,
    slots: Vec<Slot>,
    /// Slots below the length of `slots` without entry.
    free_slots: BTreeSet<u32>,
    len: usize,
    /// Age of the next entry.
    sequence: u64,
    rows: Rows,
    default: Action,
    default_row: u32,
    finder: Finder,
    views: ViewHandle,
    old_views: Returns<Box<View>>,
}

struct Slot {
    generation: u8,
    stored: Option<Stored>,
}

struct Stored {
    entry: Entry,
    rank: (u32, u64),
    row: u32,
    /// Its number in the classifier, if there is one.
    rule: u32,
}

/// The structure that packets use.
enum Finder {
    Keyless,
    Direct(Arc<Region>),
    Hash(Probe),
    Lpm32(Box<Lpm32>),
    Lpm(Box<Lpm>),
    Classifier(Box<Classifier>),
}

/// An action that is one of these.
pub(crate) fn check_action(actions: &[ActionSpec], action: &Action) -> Result<(), TableError> {
    let Some(shape) = actions.get(action.action as usize) else {
        return Err(TableError::UnknownAction { found: action.action, expected: actions.len() });
    };
    let (found, expected) = (action.data.len(), shape.param_widths.len());
    if found != expected {
        return Err(TableError::DataCount { action: action.action, found, expected });
    }
    for (param, (value, width)) in action.data.iter().zip(&shape.param_widths).enumerate() {
        if value.bits() > u64::from(*width) {
            let (found, expected) = (value.bits(), *width);
            return Err(TableError::DataWidth { action: action.action, param, found, expected });
        }
    }
    Ok(())
}

fn route(width: u32, key: &KeyMatch) -> Route {
    let KeyMatch::Lpm { value, prefix_len } = key else { unreachable!("kinds were checked") };
    let prefix = value.iter_u32_digits().next().unwrap_or(0) << (32 - width);
    Route { prefix, len: *prefix_len }
}

impl Finder {
    fn new(spec: &TableSpec, layout: &KeyLayout) -> Finder {
        match structure_of(spec) {
            Structure::Keyless => Finder::Keyless,
            Structure::Direct => {
                let bits: u32 = spec.keys.iter().map(|key| key.width).sum();
                Finder::Direct(Arc::new(Region::zeroed(4 << bits)))
            }
            Structure::Hash => Finder::Hash(Probe::new(layout.limbs)),
            Structure::Lpm32 => {
                Finder::Lpm32(Box::new(Lpm32::new(spec.keys[0].width, spec.size.min(SLOTS_MAX))))
            }
            Structure::Generic if lpm::serves(spec) => Finder::Lpm(Box::new(Lpm::new(spec, layout))),
            Structure::Generic => Finder::Classifier(Box::new(Classifier::new(spec, layout))),
        }
    }

    fn parts(&self) -> Parts {
        let mut parts = Parts { base: None, aux: None, hash: (0, 0, 0), searcher: None, lookups: None };
        match self {
            Finder::Keyless => {}
            Finder::Direct(region) => parts.base = Some(Arc::clone(region)),
            Finder::Hash(probe) => {
                parts.base = Some(Arc::clone(&probe.region));
                parts.hash = (probe.mask(), probe.shift(), probe.seed);
            }
            Finder::Lpm32(lpm) => {
                parts.base = Some(Arc::clone(&lpm.first));
                parts.aux = Some(Arc::clone(&lpm.groups));
            }
            Finder::Lpm(lpm) => {
                parts.base = Some(Arc::clone(&lpm.memory));
                parts.lookups = Some(lpm.lookups());
            }
            Finder::Classifier(classifier) => {
                let (searcher, lookups) = classifier.searcher();
                (parts.searcher, parts.lookups) = (Some(searcher), Some(lookups));
            }
        }
        parts
    }

    /// The number of the rule in the classifier; true if readers need a new view.
    fn insert(
        &mut self,
        layout: &KeyLayout,
        key: &[KeyMatch],
        rank: (u32, u64),
        row: u32,
    ) -> Result<(u32, bool), TableError> {
        let mut rule = 0;
        let stale = match self {
            Finder::Keyless => unreachable!("a table without key takes no entries"),
            Finder::Direct(region) => {
                region.halves()[packed(layout, key)[0] as usize].store(row, Ordering::Release);
                false
            }
            Finder::Hash(probe) => probe.set(&packed(layout, key), row),
            Finder::Lpm32(lpm) => lpm.insert(route(layout.fields[0].width, &key[0]), row)?,
            Finder::Lpm(lpm) => lpm.insert(lpm.route(layout, key), row),
            Finder::Classifier(classifier) => {
                let stale;
                (rule, stale) = classifier.insert(layout, key, rank, row)?;
                stale
            }
        };
        Ok((rule, stale))
    }

    fn modify(&mut self, layout: &KeyLayout, key: &[KeyMatch], rule: u32, row: u32) {
        match self {
            Finder::Keyless => unreachable!("a table without key has no entries"),
            Finder::Direct(region) => {
                region.halves()[packed(layout, key)[0] as usize].store(row, Ordering::Release);
            }
            Finder::Hash(probe) => {
                let moved = probe.set(&packed(layout, key), row);
                debug_assert!(!moved, "the key was there");
            }
            Finder::Lpm32(lpm) => lpm.modify(route(layout.fields[0].width, &key[0]), row),
            Finder::Lpm(lpm) => lpm.modify(lpm.route(layout, key), row),
            Finder::Classifier(classifier) => classifier.modify(rule, row),
        }
    }
}

impl Table {
    /// An empty table.
    ///
    /// # Panics
    /// If the default action of the spec is none of its actions with their data, or the system refuses address space.
    pub fn new(spec: TableSpec) -> Table {
        Self::with(spec, None)
    }

    /// An empty table whose entries, and whose default if it is set, may also name members and groups of a profile. The
    /// actions of both are the same.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub fn with_profile(spec: TableSpec, profile: &ActionProfile) -> Table {
        Self::with(spec, Some(profile.clone()))
    }

    fn with(spec: TableSpec, profile: Option<ActionProfile>) -> Table {
        if let Err(error) = check_action(&spec.actions, &spec.default) {
            panic!("the default action of a table is wrong: {error}");
        }
        let layout = KeyLayout::new(&spec);
        // The handle of a member or group takes a word.
        let row_words = row_words(&spec.actions).max(if profile.is_some() { 2 } else { 1 });
        let mut rows = Rows::new(row_words, spec.size, spec.row_per_entry);
        let default_row =
            rows.take(encode(&spec.actions, &spec.default), None, None).expect("no row is taken yet");
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
            index: Index::new(&spec),
            slots: Vec::new(),
            free_slots: BTreeSet::new(),
            len: 0,
            sequence: 0,
            rows,
            default: spec.default.clone(),
            default_row,
            finder,
            views: ViewHandle::new(view),
            old_views: Returns::new(),
            layout,
            spec,
        }
    }

    /// The shape of the table.
    pub fn spec(&self) -> &TableSpec {
        &self.spec
    }

    /// The action profile.
    pub fn profile(&self) -> Option<&ActionProfile> {
        self.profile.as_ref()
    }

    /// What an action of an entry, or the default, comes to: that of the member, or of the member of the group which
    /// `selector` picks.
    pub fn resolve(&self, action: &Action, selector: u64) -> Resolved {
        match &self.profile {
            Some(profile) => profile.resolve(action, selector),
            None => Resolved { member: None, action: Some(action.clone()) },
        }
    }

    /// The words of an action that is about to be used; a member or group cannot be deleted from now on.
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

    /// A row for an action that holds its member or group.
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

    /// The opposite of [`Self::take_row`].
    fn release(&mut self, action: &Action, row: u32) {
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
        let shared = self.profile.as_ref().map(ActionProfile::shared);
        let view = View::new(
            &self.spec,
            self.layout.limbs,
            self.rows.row_words(),
            self.rows.region(),
            self.default_row,
            self.finder.parts(),
            shared.as_ref(),
        );
        self.views.replace(view, &self.old_views);
    }

    fn handle(&self, slot: u32) -> EntryHandle {
        EntryHandle(slot | u32::from(self.slots[slot as usize].generation) << 24)
    }

    fn slot_of(&self, handle: EntryHandle) -> Result<u32, TableError> {
        let slot = handle.0 & (SLOTS_MAX - 1);
        match self.slots.get(slot as usize) {
            Some(Slot { stored: Some(_), .. }) => match self.handle(slot) {
                current if current == handle => Ok(slot),
                current => Err(TableError::ExpiredHandle { found: handle, current }),
            },
            _ => Err(TableError::InvalidHandle(handle)),
        }
    }

    fn stored(&self, slot: u32) -> &Stored {
        self.slots[slot as usize].stored.as_ref().expect("callers pass slots in use")
    }

    /// Adds an entry; bits of its key that do not matter are cleared. The priority counts only in tables with a ternary,
    /// range or optional key; elsewhere it is stored as 0.
    pub fn insert(&mut self, entry: Entry) -> Result<EntryHandle, TableError> {
        let slot = self.free_slots.first().copied().unwrap_or(self.slots.len() as u32);
        self.insert_at(slot, entry, false)
    }

    /// Brings back an entry that was removed, under the handle that it had. If its slot has another entry by now, this is
    /// [`Self::insert`].
    pub fn restore(&mut self, handle: EntryHandle, entry: Entry) -> Result<EntryHandle, TableError> {
        let slot = handle.0 & (SLOTS_MAX - 1);
        let in_use = self.slots.get(slot as usize).is_some_and(|s| s.stored.is_some());
        if in_use || slot >= self.spec.size {
            return self.insert(entry);
        }
        self.insert_at(slot, entry, true)?;
        self.slots[slot as usize].generation = (handle.0 >> 24) as u8;
        Ok(handle)
    }

    fn insert_at(
        &mut self,
        slot: u32,
        mut entry: Entry,
        empty_allowed: bool,
    ) -> Result<EntryHandle, TableError> {
        key::check(&self.spec, &mut entry.key)?;
        if key::order_of(&self.spec) != key::Order::Priority {
            entry.priority = 0;
        }
        if let Some(slot) = self.index.find(&self.layout, &entry.key, entry.priority) {
            return Err(TableError::Duplicate { existing: self.handle(slot) });
        }
        let size = self.spec.size.min(SLOTS_MAX);
        if self.len >= size as usize {
            return Err(TableError::Full { size });
        }
        let row = self.take_row(&entry.action, Some(slot), None, empty_allowed)?;
        let rank = rank(&self.spec, &entry, self.sequence);
        let (rule, stale) = match self.finder.insert(&self.layout, &entry.key, rank, row) {
            Ok(done) => done,
            Err(error) => {
                self.release(&entry.action, row);
                return Err(error);
            }
        };
        if stale {
            self.new_view();
        }
        self.sequence += 1;
        self.len += 1;
        self.index.insert(&self.layout, &entry, rank, slot);
        while self.slots.len() <= slot as usize {
            self.free_slots.insert(self.slots.len() as u32);
            self.slots.push(Slot { generation: 0, stored: None });
        }
        self.free_slots.remove(&slot);
        self.slots[slot as usize].stored = Some(Stored { entry, rank, row, rule });
        Ok(self.handle(slot))
    }

    /// Changes what an entry does. Its row becomes another (see [`Self::row_of`]).
    pub fn modify(&mut self, handle: EntryHandle, action: Action) -> Result<(), TableError> {
        let slot = self.slot_of(handle)?;
        let now = self.stored(slot).row;
        let row = self.take_row(&action, Some(slot), Some(now), false)?;
        let stored = self.slots[slot as usize].stored.as_mut().expect("checked by slot_of");
        self.finder.modify(&self.layout, &stored.entry.key, stored.rule, row);
        stored.row = row;
        let old = std::mem::replace(&mut stored.entry.action, action);
        self.release(&old, now);
        Ok(())
    }

    /// Removes an entry and gives it back.
    pub fn delete(&mut self, handle: EntryHandle) -> Result<Entry, TableError> {
        let slot = self.slot_of(handle)?;
        let place = &mut self.slots[slot as usize];
        let stored = place.stored.take().expect("checked by slot_of");
        place.generation = place.generation.wrapping_add(1);
        let key = &stored.entry.key;
        let stale = match &mut self.finder {
            Finder::Keyless => unreachable!("a table without key has no entries"),
            Finder::Direct(region) => {
                region.halves()[packed(&self.layout, key)[0] as usize].store(0, Ordering::Release);
                false
            }
            Finder::Hash(probe) => {
                probe.remove(&packed(&self.layout, key));
                false
            }
            Finder::Lpm32(lpm) => {
                let cover = self.index.covering(&self.layout, key).map_or((0, 0), |slot| {
                    let cover =
                        self.slots[slot as usize].stored.as_ref().expect("the index names slots in use");
                    (cover.row, key::prefix_sum(&cover.entry.key))
                });
                lpm.delete(route(self.layout.fields[0].width, &key[0]), cover);
                false
            }
            Finder::Lpm(lpm) => lpm.delete(lpm.route(&self.layout, key)),
            Finder::Classifier(classifier) => {
                classifier.delete(stored.rule);
                false
            }
        };
        if stale {
            self.new_view();
        }
        self.index.remove(&self.layout, &stored.entry, stored.rank);
        self.release(&stored.entry.action, stored.row);
        self.free_slots.insert(slot);
        self.len -= 1;
        Ok(stored.entry)
    }

    /// The entry with this handle.
    pub fn get(&self, handle: EntryHandle) -> Option<&Entry> {
        self.slot_of(handle).ok().map(|slot| &self.stored(slot).entry)
    }

    /// All entries in the order of their slots.
    pub fn entries(&self) -> impl Iterator<Item = (EntryHandle, &Entry)> {
        let used = self.slots.iter().enumerate().filter_map(|(i, slot)| Some((i, slot.stored.as_ref()?)));
        used.map(|(i, stored)| (self.handle(i as u32), &stored.entry))
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entry with exactly this key, and this priority if priorities count.
    pub fn find(&self, key: &[KeyMatch], priority: u32) -> Option<EntryHandle> {
        let mut key = key.to_vec();
        key::check(&self.spec, &mut key).ok()?;
        let priority = if key::order_of(&self.spec) == key::Order::Priority { priority } else { 0 };
        self.index.find(&self.layout, &key, priority).map(|slot| self.handle(slot))
    }

    /// Removes all entries. Handles begin at 0 again, generations too, as in bmv2 (`MatchUnitAbstract::reset_state`). The
    /// default action stays.
    pub fn clear(&mut self) {
        self.finder = Finder::new(&self.spec, &self.layout);
        self.new_view();
        for slot in std::mem::take(&mut self.slots) {
            if let Some(stored) = slot.stored {
                self.release(&stored.entry.action, stored.row);
            }
        }
        self.index = Index::new(&self.spec);
        self.free_slots.clear();
        self.len = 0;
    }

    /// What happens on a miss.
    pub fn default_action(&self) -> &Action {
        &self.default
    }

    /// Changes what happens on a miss.
    pub fn set_default(&mut self, action: Action) -> Result<(), TableError> {
        let row = self.take_row(&action, None, None, true)?;
        let guard = crate::pin();
        self.views.get(&guard).default_row.store(row, Ordering::Release);
        drop(guard);
        let old = std::mem::replace(&mut self.default, action);
        self.release(&old, self.default_row);
        self.default_row = row;
        Ok(())
    }

    /// Makes what happens on a miss what the program says. The only error possible is [`TableError::Busy`].
    pub fn reset_default(&mut self) -> Result<(), TableError> {
        self.set_default(self.spec.default.clone())
    }

    /// The entry that applies to a key, one value per field. This is the meaning of the table, found without the
    /// structures that packets use.
    pub fn lookup(&self, key: &[BigUint]) -> Option<EntryHandle> {
        self.matching(key).next()
    }

    /// The entries that match a key, best first.
    pub fn matching<'a>(&'a self, key: &'a [BigUint]) -> impl Iterator<Item = EntryHandle> + 'a {
        assert_eq!(key.len(), self.spec.keys.len(), "one value per key field");
        let found = self.index.matching(&self.layout, key, |slot| &self.stored(slot).entry);
        found.map(|slot| self.handle(slot))
    }

    /// The row of an entry; 0 if the handle is of none.
    ///
    /// In a table with a row per entry this is where its direct counters count: `slot + 1`, and for an entry that was
    /// modified, or whose slot had another entry shortly before, a multiple (below 8) of `size + 1` more. The state of
    /// direct counters adds those together, so any row of the entry names its counter.
    pub fn row_of(&self, handle: EntryHandle) -> u32 {
        self.slot_of(handle).map_or(0, |slot| self.stored(slot).row)
    }

    /// Where readers find the table.
    pub fn view_handle(&self) -> ViewHandle {
        self.views.clone()
    }

    /// To be called after a batch of changes. They are visible without it; this frees what they replaced, as far as
    /// readers have passed, instead of waiting for the next change to do so.
    pub fn publish(&mut self) {
        crossbeam_epoch::pin().flush();
        drop(self.old_views.take());
    }

    /// Memory in use, by entries (estimated) and by what packets read.
    pub fn memory_bytes(&self) -> usize {
        let entry = size_of::<Slot>()
            + self.spec.keys.len() * (size_of::<KeyMatch>() + 8)
            + 4 * self.layout.limbs * 8
            + size_of::<(Box<[u64]>, u32)>();
        let finder = match &self.finder {
            Finder::Keyless => 0,
            Finder::Direct(region) => region.committed_bytes(),
            Finder::Hash(probe) => probe.region.committed_bytes(),
            Finder::Lpm32(lpm) => lpm.committed_bytes(),
            Finder::Lpm(lpm) => lpm.committed_bytes(),
            Finder::Classifier(classifier) => classifier.committed_bytes(),
        };
        self.len * entry + finder + self.rows.region().committed_bytes()
    }
}
