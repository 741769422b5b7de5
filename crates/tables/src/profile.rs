//! Action profiles: members and groups that the entries of several tables can share.
//!
//! Entries and groups refer to members by slots that readers follow, so that a change of a member reaches all of them with
//! one store. Unlike a handle, a slot is reused only after readers have passed.
#![allow(unsafe_code)]

use crate::action::check_action;
use crate::grace::{Pool, Returns};
use crate::memory::{Region, prefetch};
use crate::rows::{Rows, SLOTS_MAX, encode, row_words};
use crate::steps::{Step, Steps};
use crate::{Action, ActionSpec, Resolved, TableError};
use rangemap::RangeInclusiveSet;
use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of members, and of groups, of a profile that sets no limit.
const COUNT_MAX: u32 = 1 << 20;

/// An action profile: members (actions with data) and, if it is a selector, groups of members. Tables that share it hold
/// clones of it. Changes are visible to readers when the call returns.
///
/// ```
/// use p4jet_tables::*;
/// let actions = vec![ActionSpec { param_widths: vec![] }, ActionSpec { param_widths: vec![9] }];
/// let default = Action { action: 0, data: vec![] };
/// let keys = vec![KeySpec { width: 16, kind: MatchKind::Exact }];
/// let profile = ActionProfile::new(actions.clone(), 0, true);
/// let spec = TableSpec { keys, actions, size: 8, row_per_entry: false, idle_timeout: false, default };
/// let mut table = Table::with_profile(spec, &profile);
///
/// let to_port = |port: u32| Action { action: 1, data: vec![port.into()] };
/// let (first, second) = (profile.create_member(to_port(3))?, profile.create_member(to_port(4))?);
/// let group = profile.create_group()?;
/// profile.add_to_group(first, group)?;
/// profile.add_to_group(second, group)?;
/// let key = vec![KeyMatch::Exact(7u32.into())];
/// let handle = table.insert(Entry { key, priority: 0, action: Action::group(group) })?;
///
/// let entry = table.get(handle).expect("it was inserted");
/// assert_eq!(table.resolve(&entry.action, 5).action, Some(to_port(4)));
/// let guard = pin();
/// let readers = table.view_handle();
/// assert_eq!(readers.get(&guard).selected(table.row_of(handle), 5), [1, 4]);
/// # Ok::<(), TableError>(())
/// ```
#[derive(Clone)]
pub struct ActionProfile(Arc<Mutex<Profile>>);

/// Sums over the members of all groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// The number of members, each counted once for each of its groups.
    pub members: u64,
    /// Their places.
    pub places: u64,
    /// The number of those that have no place.
    pub without_place: u64,
}

impl Sizes {
    fn add(&mut self, places: u32) {
        self.members += 1;
        self.places += u64::from(places);
        self.without_place += u64::from(places == 0);
    }

    fn remove(&mut self, places: u32) {
        self.members -= 1;
        self.places -= u64::from(places);
        self.without_place -= u64::from(places == 0);
    }
}

/// The handles of a profile without members or groups, as free ranges: the smallest free handle is found at once.
fn all_handles() -> RangeInclusiveSet<u32> {
    [0..=u32::MAX].into_iter().collect()
}

/// Returns the smallest free handle: handles count from 0, and scripts rely on it.
fn first(free: &RangeInclusiveSet<u32>) -> u32 {
    *free.first().expect("there are more handles than objects").start()
}

pub(crate) struct Profile {
    actions: Vec<ActionSpec>,
    members_max: u32,
    selector: bool,
    members: BTreeMap<u32, Member>,
    groups: BTreeMap<u32, Group>,
    free_members: RangeInclusiveSet<u32>,
    free_groups: RangeInclusiveSet<u32>,
    sizes: Sizes,
    rows: Rows,
    member_slots: Pool,
    group_slots: Pool,
    shared: Arc<Shared>,
    old_lists: Returns<Box<List>>,
    /// Shared with the tables that use the profile.
    pub steps: Steps,
}

struct Member {
    action: Action,
    slot: u32,
    row: u32,
    /// Number of entries, defaults and groups that name it.
    users: u32,
    /// True if something has named it, so that readers may be on their way to it.
    known: bool,
}

struct Group {
    /// Its members with the number of places that each has in the list.
    members: BTreeMap<u32, u32>,
    /// True if [`ActionProfile::set_group`] set it: it may be empty, and its list may have several places for a member.
    weighted: bool,
    slot: u32,
    /// Number of entries and default actions that name it.
    users: u32,
    /// True if something has named it, so that readers may be on their way to it.
    known: bool,
    /// Number of places in its list that readers may have seen and that are therefore not written again.
    seen: usize,
}

impl Group {
    fn places(&self) -> GroupPlaces {
        (self.members.iter().map(|(member, places)| (*member, *places)).collect(), self.weighted)
    }
}

/// The members of a group as [`ActionProfile::set_group`] takes them, handles with numbers of places, and whether that set them.
pub type GroupPlaces = (Vec<(u32, u32)>, bool);

/// The members of a group: their number, which is never 0; the capacity; then their slots in the order of their handles,
/// followed by free places, so that a large group can be built by single changes.
type List = [AtomicU32];

/// Number of words that precede the slots of a list.
const LIST_HEAD: usize = 2;

/// # Safety
/// The pointer came from [`Box::into_raw`] of a list, and nothing else uses it.
unsafe fn list_from_raw(list: *mut AtomicU32) -> Box<List> {
    // SAFETY: as the caller promises; a list starts with its numbers.
    unsafe {
        let room = (*list.add(1)).load(Ordering::Relaxed) as usize;
        Box::from_raw(ptr::slice_from_raw_parts_mut(list, LIST_HEAD + room))
    }
}

/// The profile as readers see it.
pub(crate) struct Shared {
    rows: Arc<Region>,
    row_words: usize,
    /// The row, by slot.
    members: Region,
    /// The list, by slot; null for none.
    groups: Region,
    /// Slots from this one on have never had a list.
    groups_used: AtomicU32,
}

/// The pointers for readers that follow [`crate::View`]'s layout themselves.
pub(crate) struct ProfileBases {
    pub groups: *const u8,
    pub members: *const u8,
    pub rows: *const u64,
}

/// Maximum number of rows for [`Shared::of_rows`].
pub(crate) const SELECTED_MAX: usize = 64;

/// Returns the place in a list that `selector` picks, as in bmv2.
///
/// # Safety
/// `list` is a list.
unsafe fn nth(list: *const AtomicU32, selector: u64) -> *const AtomicU32 {
    // SAFETY: as the caller promises; a list has this many slots after its numbers.
    unsafe {
        let count = (*list).load(Ordering::Acquire);
        // A 32-bit division takes half the time.
        let nth = match u32::try_from(selector) {
            Ok(selector) => selector % count,
            Err(_) => (selector % u64::from(count)) as u32,
        };
        list.add(LIST_HEAD + nth as usize)
    }
}

/// The result of a group without members.
static NONE: [u64; 1] = [Action::NONE as u64];

impl Shared {
    pub fn row_words(&self) -> usize {
        self.row_words
    }

    pub fn bases(&self) -> ProfileBases {
        let (groups, members) = (self.groups.start(), self.members.start());
        ProfileBases { groups, members, rows: self.rows.start().cast() }
    }

    /// The part of [`crate::select_batch`] that follows profiles: each element of `found` points to the words of a row and
    /// is replaced by a pointer to the words of the action to run.
    ///
    /// # Safety
    /// The reader is pinned, and rows are long enough.
    pub unsafe fn of_rows(&self, found: &mut [*const u64], selectors: &[u64]) {
        let mut next = [ptr::null::<AtomicU32>(); SELECTED_MAX];
        let word = |words: *const u64, i: usize| {
            // SAFETY: as the caller promises; a row that names a member or group has two words.
            unsafe { (*words.add(i).cast::<AtomicU64>()).load(Ordering::Relaxed) as u32 }
        };
        for (words, next) in found.iter().zip(&mut next) {
            match word(*words, 0) {
                Action::GROUP => prefetch(self.list(word(*words, 1))),
                Action::MEMBER => {
                    *next = &self.members.halves()[word(*words, 1) as usize];
                    prefetch(*next);
                }
                _ => {}
            }
        }
        let is_group = |words: *const u64| word(words, 0) == Action::GROUP;
        for (words, next) in found.iter().zip(&mut next).filter(|(words, _)| is_group(**words)) {
            *next = self.list(word(*words, 1)).load(Ordering::Acquire);
            prefetch(*next);
        }
        for ((words, next), selector) in found.iter().zip(&mut next).zip(selectors) {
            if is_group(*words) && !next.is_null() {
                // SAFETY: lists are not freed until readers have passed.
                *next = unsafe { nth(*next, *selector) };
                prefetch(*next);
            }
        }
        for (words, next) in found.iter().zip(&mut next) {
            if is_group(*words) && !next.is_null() {
                // SAFETY: as above, and the place is within the list.
                let member = unsafe { (**next).load(Ordering::Relaxed) };
                *next = &self.members.halves()[member as usize];
                prefetch(*next);
            }
        }
        for (words, next) in found.iter_mut().zip(&next) {
            match word(*words, 0) {
                Action::GROUP if next.is_null() => *words = NONE.as_ptr(),
                Action::GROUP | Action::MEMBER => {
                    // SAFETY: it points to the row of a member.
                    let row = unsafe { (**next).load(Ordering::Acquire) };
                    *words = self.rows.words()[row as usize * self.row_words..].as_ptr().cast();
                    prefetch(*words);
                }
                _ => {}
            }
        }
    }

    /// Returns the count and the places of a group's list.
    ///
    /// # Safety
    /// The reader is pinned, or the caller holds the lock that is needed to replace lists.
    unsafe fn listed(&self, slot: u32) -> Option<(&AtomicU32, &[AtomicU32])> {
        let list = self.list(slot).load(Ordering::Acquire);
        if list.is_null() {
            return None;
        }
        // SAFETY: a list starts with its numbers, and is not freed meanwhile.
        unsafe {
            let room = (*list.add(1)).load(Ordering::Relaxed) as usize;
            Some((&*list, std::slice::from_raw_parts(list.add(LIST_HEAD), room)))
        }
    }

    /// Appends a member to a group, if its list has room. The caller must hold the lock.
    fn push(&self, slot: u32, member: u32) -> bool {
        // SAFETY: as the caller promises.
        let Some((count, slots)) = (unsafe { self.listed(slot) }) else { return false };
        let n = count.load(Ordering::Relaxed);
        let Some(place) = slots.get(n as usize) else { return false };
        place.store(member, Ordering::Relaxed);
        count.store(n + 1, Ordering::SeqCst);
        true
    }

    /// Removes the last member of a group, unless it is the only one. The caller must hold the lock. Readers that are on
    /// their way to it still find it.
    fn pop(&self, slot: u32) -> bool {
        // SAFETY: as the caller promises.
        let Some((count, _)) = (unsafe { self.listed(slot) }) else { return false };
        let n = count.load(Ordering::Relaxed);
        if n > 1 {
            count.store(n - 1, Ordering::SeqCst);
        }
        n > 1
    }

    fn list(&self, slot: u32) -> &AtomicPtr<AtomicU32> {
        &self.groups.pointers()[slot as usize]
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // No view leads here any more, and a view is freed only after its readers have passed.
        for slot in 0..*self.groups_used.get_mut() {
            let list = self.list(slot).swap(ptr::null_mut(), Ordering::AcqRel);
            if !list.is_null() {
                // SAFETY: it came from `Box::into_raw`, and nothing else refers to it.
                drop(unsafe { list_from_raw(list) });
            }
        }
    }
}

fn replace_list(shared: &Shared, old_lists: &Returns<Box<List>>, slot: u32, list: Option<Box<List>>) {
    let new = list.map_or(ptr::null_mut(), |list| Box::into_raw(list).cast());
    let old = shared.list(slot).swap(new, Ordering::AcqRel);
    if !old.is_null() {
        // SAFETY: it came from `Box::into_raw` and the swap made it ours; `retire` only stores it until readers have
        // passed.
        old_lists.retire(unsafe { list_from_raw(old) });
    }
}

impl ActionProfile {
    /// Creates an empty profile whose members have these actions, at most `size` of them (0: no limit of its own). A
    /// selector also has groups.
    pub fn new(actions: Vec<ActionSpec>, size: u32, selector: bool) -> ActionProfile {
        let members_max = if size == 0 { COUNT_MAX } else { size.min(SLOTS_MAX) };
        let groups_max = if selector { COUNT_MAX } else { 0 };
        // Twice as many and a few more, for slots that wait until readers have passed.
        let slots = |count: u32| 2 * count + 1024;
        let rows = Rows::new(row_words(&actions), members_max, false);
        let shared = Shared {
            rows: Arc::clone(rows.region()),
            row_words: rows.row_words(),
            members: Region::zeroed(4 * slots(members_max) as usize),
            groups: Region::zeroed(8 * slots(groups_max) as usize),
            groups_used: AtomicU32::new(0),
        };
        ActionProfile(Arc::new(Mutex::new(Profile {
            actions,
            members_max,
            selector,
            members: BTreeMap::new(),
            groups: BTreeMap::new(),
            free_members: all_handles(),
            free_groups: all_handles(),
            sizes: Sizes::default(),
            rows,
            member_slots: Pool::new(0, slots(members_max)),
            group_slots: Pool::new(0, slots(groups_max)),
            shared: Arc::new(shared),
            old_lists: Returns::new(),
            steps: Steps::default(),
        })))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Profile> {
        // A panic under the lock is a bug, but each step leaves what readers see consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.lock().shared)
    }

    /// True if the profile has groups.
    pub fn is_selector(&self) -> bool {
        self.lock().selector
    }

    /// Adds a member and returns its handle, the smallest free one.
    pub fn create_member(&self, action: Action) -> Result<u32, TableError> {
        let mut profile = self.lock();
        let handle = first(&profile.free_members);
        profile.add_member(handle, action)
    }

    /// Restores a deleted member under its handle, or under another one if that is in use by now.
    pub fn restore_member(&self, handle: u32, action: Action) -> Result<u32, TableError> {
        let mut profile = self.lock();
        let taken = profile.members.contains_key(&handle);
        let handle = if taken { first(&profile.free_members) } else { handle };
        profile.add_member(handle, action)
    }

    /// Changes the action of a member, for all entries and groups that name it at once. Returns the old action.
    pub fn modify_member(&self, handle: u32, action: Action) -> Result<Action, TableError> {
        let profile = &mut *self.lock();
        check_action(&profile.actions, &action)?;
        let member = profile.members.get_mut(&handle).ok_or(TableError::InvalidMember(handle))?;
        if member.known {
            profile.steps.begin(Step::Member)?;
        }
        let row = profile.rows.take(encode(&profile.actions, &action), None, None)?;
        profile.shared.members.halves()[member.slot as usize].store(row, Ordering::Release);
        profile.rows.release(std::mem::replace(&mut member.row, row));
        Ok(std::mem::replace(&mut member.action, action))
    }

    /// Deletes a member that nothing names. Returns its action.
    pub fn delete_member(&self, handle: u32) -> Result<Action, TableError> {
        let mut profile = self.lock();
        match profile.members.get(&handle) {
            None => Err(TableError::InvalidMember(handle)),
            Some(member) if member.users > 0 => Err(TableError::MemberUsed(handle)),
            Some(_) => Ok(profile.drop_member(handle)),
        }
    }

    /// Returns the action of a member.
    pub fn member(&self, handle: u32) -> Option<Action> {
        self.lock().members.get(&handle).map(|member| member.action.clone())
    }

    /// Returns the number of members, of groups, and of places of members in groups, all together.
    pub fn objects_count(&self) -> usize {
        let profile = self.lock();
        profile.members.len() + profile.groups.values().map(|group| 1 + group.members.len()).sum::<usize>()
    }

    /// Returns the number of members.
    pub fn members_count(&self) -> usize {
        self.lock().members.len()
    }

    /// Returns all members in the order of their handles.
    pub fn members(&self) -> Vec<(u32, Action)> {
        self.lock().members.iter().map(|(handle, member)| (*handle, member.action.clone())).collect()
    }

    /// Returns up to `max` members from the handle `from` on, in the order of their handles, and where the next ones begin, if there are
    /// more.
    pub fn members_from(&self, from: u32, max: usize) -> (Vec<(u32, Action)>, Option<u32>) {
        let profile = self.lock();
        let mut rest = profile.members.range(from..);
        let members = rest.by_ref().take(max).map(|(handle, member)| (*handle, member.action.clone()));
        (members.collect(), rest.next().map(|(handle, _)| *handle))
    }

    /// Returns up to `max` groups from the handle `from` on, as [`Self::members_from`] returns members, with what
    /// [`Self::group_places`] returns.
    pub fn groups_from(&self, from: u32, max: usize) -> (Vec<(u32, GroupPlaces)>, Option<u32>) {
        let profile = self.lock();
        let mut rest = profile.groups.range(from..);
        let groups = rest.by_ref().take(max);
        let groups = groups.map(|(handle, group)| (*handle, group.places()));
        (groups.collect(), rest.next().map(|(handle, _)| *handle))
    }

    /// Adds an empty group and returns its handle, the smallest free one.
    pub fn create_group(&self) -> Result<u32, TableError> {
        let mut profile = self.lock();
        let handle = first(&profile.free_groups);
        profile.add_group(handle)
    }

    /// Restores a deleted group, without members, under its handle, or under another one if that is in use by now.
    pub fn restore_group(&self, handle: u32) -> Result<u32, TableError> {
        let mut profile = self.lock();
        let taken = profile.groups.contains_key(&handle);
        let handle = if taken { first(&profile.free_groups) } else { handle };
        profile.add_group(handle)
    }

    /// Deletes a group that no entry names. Returns its members, which remain.
    pub fn delete_group(&self, handle: u32) -> Result<Vec<u32>, TableError> {
        let mut profile = self.lock();
        match profile.groups.get(&handle) {
            None => Err(TableError::InvalidGroup(handle)),
            Some(group) if group.users > 0 => Err(TableError::GroupUsed(handle)),
            Some(_) => Ok(profile.drop_group(handle)),
        }
    }

    /// Returns the members of a group in the selector's order.
    pub fn group(&self, handle: u32) -> Option<Vec<u32>> {
        self.lock().groups.get(&handle).map(|group| group.members.keys().copied().collect())
    }

    /// Returns all groups with their members, in the order of their handles.
    pub fn groups(&self) -> Vec<(u32, Vec<u32>)> {
        let members = |group: &Group| group.members.keys().copied().collect();
        self.lock().groups.iter().map(|(handle, group)| (*handle, members(group))).collect()
    }

    /// Returns the groups that have a member without a place, with the places of their other members.
    pub fn groups_without_place(&self) -> Vec<(u32, u64)> {
        let profile = self.lock();
        let of = |(handle, group): (&u32, &Group)| {
            let places = || group.members.values().copied();
            places().any(|places| places == 0).then(|| (*handle, places().map(u64::from).sum()))
        };
        profile.groups.iter().filter_map(of).collect()
    }

    /// Adds a member to a group.
    pub fn add_to_group(&self, member: u32, group: u32) -> Result<(), TableError> {
        let profile = &mut *self.lock();
        let found = profile.members.get_mut(&member).ok_or(TableError::InvalidMember(member))?;
        let to = profile.groups.get_mut(&group).ok_or(TableError::InvalidGroup(group))?;
        let is_last = to.members.last_key_value().is_some_and(|(last, _)| *last < member);
        if to.members.contains_key(&member) {
            return Err(TableError::MemberInGroup { member, group });
        }
        if to.known {
            profile.steps.begin(Step::Group)?;
        }
        to.members.insert(member, 1);
        profile.sizes.add(1);
        found.users += 1;
        found.known = true;
        // A reader that saw an earlier member count may be about to read a place that had a member.
        let in_new_place = is_last && !to.weighted && to.members.len() > to.seen;
        if in_new_place && profile.shared.push(to.slot, found.slot) {
            to.seen += 1;
        } else {
            profile.publish(group);
        }
        Ok(())
    }

    /// Removes a member from a group.
    pub fn remove_from_group(&self, member: u32, group: u32) -> Result<(), TableError> {
        let profile = &mut *self.lock();
        let found = profile.members.get_mut(&member).ok_or(TableError::InvalidMember(member))?;
        let from = profile.groups.get_mut(&group).ok_or(TableError::InvalidGroup(group))?;
        let is_last = from.members.last_key_value().is_some_and(|(last, _)| *last == member);
        if !from.members.contains_key(&member) {
            return Err(TableError::MemberNotInGroup { member, group });
        }
        if from.known {
            profile.steps.begin(Step::Group)?;
        }
        from.members.remove(&member).into_iter().for_each(|places| profile.sizes.remove(places));
        found.users -= 1;
        if !(is_last && !from.weighted && profile.shared.pop(from.slot)) {
            profile.publish(group);
        }
        Ok(())
    }

    /// Replaces the members of a group, each with its number of places in the selector's order: one with two is chosen twice as
    /// often as one with one, and one with none is never chosen. Readers see the old group or the new one. With `weighted`, entries
    /// may name the group even if it is empty. Returns the old members and the old value of `weighted`.
    pub fn set_group(
        &self,
        handle: u32,
        members: &[(u32, u32)],
        weighted: bool,
    ) -> Result<(Vec<(u32, u32)>, bool), TableError> {
        let profile = &mut *self.lock();
        let group = profile.groups.get_mut(&handle).ok_or(TableError::InvalidGroup(handle))?;
        let new: BTreeMap<u32, u32> = members.iter().copied().collect();
        if let Some(absent) = new.keys().find(|member| !profile.members.contains_key(member)) {
            return Err(TableError::InvalidMember(*absent));
        }
        if group.known {
            profile.steps.begin(Step::Group)?;
        }
        let was =
            (std::mem::replace(&mut group.members, new), std::mem::replace(&mut group.weighted, weighted));
        for member in group.members.keys() {
            let member = profile.members.get_mut(member).expect("it was found");
            member.users += 1;
            member.known = true;
        }
        for member in was.0.keys() {
            profile.members.get_mut(member).expect("groups have members that exist").users -= 1;
        }
        group.members.values().for_each(|places| profile.sizes.add(*places));
        was.0.values().for_each(|places| profile.sizes.remove(*places));
        profile.publish(handle);
        Ok((was.0.into_iter().collect(), was.1))
    }

    /// Returns the members of a group as [`Self::set_group`] takes them, and whether that set them.
    pub fn group_places(&self, handle: u32) -> Option<GroupPlaces> {
        self.lock().groups.get(&handle).map(Group::places)
    }

    /// Returns the places of a member in a group that [`Self::set_group`] set with `weighted`.
    pub fn places_in(&self, member: u32, group: u32) -> Option<u32> {
        let profile = self.lock();
        let group = profile.groups.get(&group).filter(|group| group.weighted)?;
        group.members.get(&member).copied()
    }

    /// Returns the sums over the members of all groups.
    pub fn sizes(&self) -> Sizes {
        self.lock().sizes
    }

    /// Deletes all members and groups that no entry names. If none is left, handles start at 0 again.
    pub fn clear(&self) {
        let mut profile = self.lock();
        let unused: Vec<u32> = profile.groups.iter().filter(|(_, g)| g.users == 0).map(|(h, _)| *h).collect();
        for group in unused {
            profile.drop_group(group);
        }
        let unused: Vec<u32> =
            profile.members.iter().filter(|(_, m)| m.users == 0).map(|(h, _)| *h).collect();
        for member in unused {
            profile.drop_member(member);
        }
    }

    /// See [`crate::Table::resolve`].
    pub(crate) fn resolve(&self, action: &Action, selector: u64) -> Resolved {
        let profile = self.lock();
        let nth = |members: &BTreeMap<u32, u32>| {
            let places = members.values().map(|places| u64::from(*places)).sum();
            let mut nth = selector.checked_rem(places)?;
            let at = members.iter().find(|(_, places)| {
                let is_here = nth < u64::from(**places);
                nth = nth.saturating_sub(u64::from(**places));
                is_here
            });
            at.map(|(member, _)| *member)
        };
        let member = match (action.as_member(), action.as_group()) {
            (None, None) => return Resolved { member: None, action: Some(action.clone()) },
            (Some(member), _) => Some(member),
            (_, Some(group)) => profile.groups.get(&group).and_then(|group| nth(&group.members)),
        };
        let found = member.and_then(|member| profile.members.get(&member));
        Resolved { member, action: found.map(|member| member.action.clone()) }
    }

    /// Counts a use of the member or group that an entry is about to name. Returns the words of the entry's row.
    pub(crate) fn hold(&self, action: &Action, empty_allowed: bool) -> Result<Vec<u64>, TableError> {
        let (found, expected) = (action.data.len(), 1);
        if found != expected {
            return Err(TableError::DataCount { action: action.action, found, expected });
        }
        let profile = &mut *self.lock();
        // Numbers beyond the range of handles are not handles either.
        let handle = u32::try_from(&action.data[0]).unwrap_or(u32::MAX);
        let slot = if action.action == Action::MEMBER {
            let member = profile.members.get_mut(&handle).ok_or(TableError::InvalidMember(handle))?;
            member.users += 1;
            member.known = true;
            member.slot
        } else {
            if !profile.selector {
                return Err(TableError::NoGroups);
            }
            let group = profile.groups.get_mut(&handle).ok_or(TableError::InvalidGroup(handle))?;
            if group.members.is_empty() && !empty_allowed && !group.weighted {
                return Err(TableError::EmptyGroup(handle));
            }
            group.users += 1;
            group.known = true;
            group.slot
        };
        Ok(vec![action.action.into(), slot.into(), handle.into()])
    }

    /// Counts the end of a use.
    pub(crate) fn let_go(&self, action: &Action) {
        let profile = &mut *self.lock();
        if let Some(member) = action.as_member().and_then(|handle| profile.members.get_mut(&handle)) {
            member.users -= 1;
        } else if let Some(group) = action.as_group().and_then(|handle| profile.groups.get_mut(&handle)) {
            group.users -= 1;
        }
    }
}

impl Profile {
    fn add_member(&mut self, handle: u32, action: Action) -> Result<u32, TableError> {
        check_action(&self.actions, &action)?;
        if self.members.len() >= self.members_max as usize {
            return Err(TableError::ProfileFull { what: "members", size: self.members_max });
        }
        let slot = self.member_slots.take()?;
        let row = match self.rows.take(encode(&self.actions, &action), None, None) {
            Ok(row) => row,
            Err(error) => {
                self.member_slots.retire(slot);
                return Err(error);
            }
        };
        self.shared.members.halves()[slot as usize].store(row, Ordering::Release);
        self.members.insert(handle, Member { action, slot, row, users: 0, known: false });
        self.free_members.remove(handle..=handle);
        Ok(handle)
    }

    fn drop_member(&mut self, handle: u32) -> Action {
        let member = self.members.remove(&handle).expect("the caller found it");
        self.free_members.insert(handle..=handle);
        // Readers that are on their way to it still find its old action.
        self.rows.release(member.row);
        self.member_slots.retire(member.slot);
        member.action
    }

    fn add_group(&mut self, handle: u32) -> Result<u32, TableError> {
        if !self.selector {
            return Err(TableError::NoGroups);
        }
        if self.groups.len() >= COUNT_MAX as usize {
            return Err(TableError::ProfileFull { what: "groups", size: COUNT_MAX });
        }
        let slot = self.group_slots.take()?;
        self.shared.groups_used.fetch_max(slot + 1, Ordering::Relaxed);
        // Readers that knew a group in this slot have passed, so its list can be freed.
        replace_list(&self.shared, &self.old_lists, slot, None);
        self.groups.insert(
            handle,
            Group { members: BTreeMap::new(), weighted: false, slot, users: 0, known: false, seen: 0 },
        );
        self.free_groups.remove(handle..=handle);
        Ok(handle)
    }

    fn drop_group(&mut self, handle: u32) -> Vec<u32> {
        let group = self.groups.remove(&handle).expect("the caller found it");
        self.free_groups.insert(handle..=handle);
        for (member, places) in &group.members {
            self.members.get_mut(member).expect("groups have members that exist").users -= 1;
            self.sizes.remove(*places);
        }
        // The list remains for readers that are on their way to it, until the slot is reused.
        self.group_slots.retire(group.slot);
        group.members.into_keys().collect()
    }

    /// Publishes the members of a group to readers.
    fn publish(&mut self, handle: u32) {
        drop(self.old_lists.take());
        let group = self.groups.get_mut(&handle).expect("the caller found it");
        let count = group.members.values().map(|places| *places as usize).sum::<usize>();
        group.seen = count;
        let slots = group
            .members
            .iter()
            .flat_map(|(member, places)| std::iter::repeat_n(self.members[member].slot, *places as usize));
        let room = count.next_power_of_two();
        let numbers = [count as u32, room as u32].into_iter().chain(slots).map(AtomicU32::new);
        let mut list: Vec<AtomicU32> = numbers.collect();
        list.resize_with(LIST_HEAD + room, AtomicU32::default);
        let list = (count > 0).then(|| list.into_boxed_slice());
        replace_list(&self.shared, &self.old_lists, group.slot, list);
    }
}
