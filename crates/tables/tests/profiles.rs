//! Action profiles: random changes against a plain model, and readers beside the writer.
//!
//! On a failure the output contains the seed: pass it to `run`.

use crate::patience::patiently;
use p4jet_tables::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

fn actions() -> Vec<ActionSpec> {
    vec![ActionSpec { param_widths: vec![] }, ActionSpec { param_widths: vec![64, 64] }]
}

fn spec(row_per_entry: bool) -> TableSpec {
    TableSpec {
        keys: vec![KeySpec { width: 16, kind: MatchKind::Exact }],
        actions: actions(),
        size: 16,
        row_per_entry,
        idle_timeout: false,
        default: Action { action: 0, data: vec![] },
    }
}

fn action(value: u64) -> Action {
    Action { action: 1, data: vec![value.into(), value.into()] }
}

fn entry(key: u64, action: Action) -> Entry {
    Entry { key: vec![KeyMatch::Exact(key.into())], priority: 0, action }
}

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ x >> 31) % end
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Names {
    Member(u32),
    Group(u32),
}

impl Names {
    fn action(self) -> Action {
        match self {
            Names::Member(handle) => Action::member(handle),
            Names::Group(handle) => Action::group(handle),
        }
    }
}

/// The expected state: tables by number, entries by key; `None` is the default.
#[derive(Default)]
struct Model {
    members: BTreeMap<u32, u64>,
    groups: BTreeMap<u32, BTreeSet<u32>>,
    entries: BTreeMap<(usize, Option<u64>), (Names, EntryHandle)>,
}

impl Model {
    fn free<T>(of: &BTreeMap<u32, T>) -> u32 {
        (0..).find(|handle| !of.contains_key(handle)).unwrap()
    }

    fn named(&self, names: Names) -> bool {
        let in_group = |g: &BTreeSet<u32>| matches!(names, Names::Member(member) if g.contains(&member));
        self.entries.values().any(|(n, _)| *n == names) || self.groups.values().any(in_group)
    }

    fn check(&self, names: Names, empty_allowed: bool) -> Result<(), &'static str> {
        match names {
            Names::Member(member) if !self.members.contains_key(&member) => Err("INVALID_MBR_HANDLE"),
            Names::Group(group) => match self.groups.get(&group) {
                None => Err("INVALID_GRP_HANDLE"),
                Some(members) if members.is_empty() && !empty_allowed => Err("EMPTY_GRP"),
                Some(_) => Ok(()),
            },
            Names::Member(_) => Ok(()),
        }
    }
}

fn run(seed: u64) {
    let mut rng = Rng(seed);
    let profile = ActionProfile::new(actions(), 6, true);
    let mut tables = [Table::with_profile(spec(false), &profile), Table::with_profile(spec(true), &profile)];
    let mut model = Model::default();
    for step in 0..400u64 {
        let (member, group) = (rng.below(8) as u32, rng.below(4) as u32);
        let (t, key) = (rng.below(2) as usize, rng.below(6));
        let names = if rng.below(2) == 0 { Names::Member(member) } else { Names::Group(group) };
        let code = |e: TableError| e.code();
        match rng.below(10) {
            0 => {
                let expected =
                    if model.members.len() == 6 { Err("ERROR") } else { Ok(Model::free(&model.members)) };
                assert_eq!(profile.create_member(action(step)).map_err(code), expected);
                if let Ok(handle) = expected {
                    model.members.insert(handle, step);
                }
            }
            1 => {
                let expected = model.check(Names::Member(member), true);
                assert_eq!(profile.modify_member(member, action(step)).map(drop).map_err(code), expected);
                if expected.is_ok() {
                    model.members.insert(member, step);
                }
            }
            2 => {
                let expected = model.check(Names::Member(member), true);
                let used = model.named(Names::Member(member));
                let expected = expected.and(if used { Err("MBR_STILL_USED") } else { Ok(()) });
                assert_eq!(profile.delete_member(member).map(drop).map_err(code), expected);
                if expected.is_ok() {
                    model.members.remove(&member);
                }
            }
            3 => {
                assert_eq!(profile.create_group(), Ok(Model::free(&model.groups)));
                model.groups.insert(Model::free(&model.groups), BTreeSet::new());
            }
            4 => {
                let expected = model.check(Names::Group(group), true);
                let used = model.named(Names::Group(group));
                let expected = expected.and(if used { Err("GRP_STILL_USED") } else { Ok(()) });
                assert_eq!(profile.delete_group(group).map(drop).map_err(code), expected);
                if expected.is_ok() {
                    model.groups.remove(&group);
                }
            }
            5 | 6 => {
                let mut expected = model.check(Names::Member(member), true);
                expected = expected.and(model.check(Names::Group(group), true));
                let adds = rng.below(2) == 0;
                if let (Ok(()), Some(members)) = (expected, model.groups.get_mut(&group)) {
                    expected = match adds {
                        true => members.insert(member).then_some(()).ok_or("MBR_ALREADY_IN_GRP"),
                        false => members.remove(&member).then_some(()).ok_or("MBR_NOT_IN_GRP"),
                    };
                }
                let found = match adds {
                    true => profile.add_to_group(member, group),
                    false => profile.remove_from_group(member, group),
                };
                assert_eq!(found.map_err(code), expected);
            }
            7 | 8 => {
                let at = (t, Some(key));
                let expected = model.check(names, false);
                match model.entries.get_mut(&at) {
                    Some((_, handle)) if rng.below(2) == 0 => {
                        assert_eq!(tables[t].delete(*handle).map(drop), Ok(()));
                        model.entries.remove(&at);
                    }
                    Some((now, handle)) => {
                        assert_eq!(tables[t].modify(*handle, names.action()).map_err(code), expected);
                        if expected.is_ok() {
                            *now = names;
                        }
                    }
                    None => {
                        let found = tables[t].insert(entry(key, names.action()));
                        assert_eq!(found.clone().map(drop).map_err(code), expected);
                        if let Ok(handle) = found {
                            model.entries.insert(at, (names, handle));
                        }
                    }
                }
            }
            _ if rng.below(4) == 0 => {
                tables[t].reset_default().unwrap();
                model.entries.remove(&(t, None));
            }
            _ => {
                let expected = model.check(names, true);
                assert_eq!(tables[t].set_default(names.action()).map_err(code), expected);
                if expected.is_ok() {
                    model.entries.insert((t, None), (names, EntryHandle(0)));
                }
            }
        }
        for (t, table) in tables.iter().enumerate() {
            for key in 0..6u64 {
                let selector = rng.below(u64::MAX);
                let found = model.entries.get(&(t, Some(key))).or_else(|| model.entries.get(&(t, None)));
                let member = found.and_then(|(names, _)| match names {
                    Names::Member(member) => Some(*member),
                    Names::Group(group) => {
                        let members = &model.groups[group];
                        let nth = selector.checked_rem(members.len() as u64)?;
                        members.iter().nth(nth as usize).copied()
                    }
                });
                let expected = match (found, member) {
                    (None, _) => Some(Action { action: 0, data: vec![] }),
                    (_, member) => member.map(|member| action(model.members[&member])),
                };
                let handle = table.lookup(&[key.into()]);
                assert_eq!(handle.is_some(), model.entries.contains_key(&(t, Some(key))));
                let named = handle.map_or(table.default_action().clone(), |h| table.get(h).unwrap().action);
                assert_eq!(table.resolve(&named, selector), Resolved { member, action: expected.clone() });

                let guard = pin();
                let views = table.view_handle();
                let view = views.get(&guard);
                let words = view.selected(lookup_fast(view, &[key]), selector);
                match expected {
                    None => assert_eq!(words[0] as u32, Action::NONE),
                    Some(Action { action: 0, .. }) => assert_eq!(words[0] as u32, 0),
                    Some(action) => {
                        assert_eq!(words[0] as u32, action.action);
                        assert_eq!(words[1..3], [words[1], words[1]]);
                        assert_eq!(action.data[0], words[1].into());
                    }
                }
            }
        }
    }
    let groups = model.groups.iter().map(|(handle, members)| (*handle, members.iter().copied().collect()));
    assert_eq!(profile.groups(), groups.collect::<Vec<_>>());
    let members = model.members.iter().map(|(handle, value)| (*handle, action(*value)));
    assert_eq!(profile.members(), members.collect::<Vec<_>>());
    for table in &mut tables {
        table.clear();
        table.reset_default().unwrap();
    }
    profile.clear();
    assert_eq!((profile.members(), profile.groups()), (vec![], vec![]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn as_the_model(seed: u64) {
        run(seed);
    }
}

/// Key 7 names a group all of whose members contain 7; other members, which contain 9, get the handles of deleted ones.
#[test]
fn readers_see_members_that_were_or_are() {
    let profile = ActionProfile::new(actions(), 64, true);
    let mut table = Table::with_profile(spec(true), &profile);
    let value = |tag: u64, version: u64| action(tag << 32 | version);
    let always = profile.create_member(value(7, 0)).unwrap();
    let group = profile.create_group().unwrap();
    profile.add_to_group(always, group).unwrap();
    table.insert(entry(7, Action::group(group))).unwrap();
    let views = table.view_handle();
    let stop = AtomicBool::new(false);
    /// Stops the readers also when the writer panics.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        for reader in 0..2u64 {
            let (views, stop) = (views.clone(), &stop);
            scope.spawn(move || {
                let mut selector = reader;
                while !stop.load(Ordering::Relaxed) {
                    let guard = pin();
                    let view = views.get(&guard);
                    for _ in 0..32 {
                        selector += 1;
                        let words = view.selected(lookup_fast(view, &[7]), selector);
                        assert_eq!(words[0] as u32, 1, "the group always has a member");
                        assert_eq!(words[1], words[2], "a mix of two versions");
                        assert_eq!(words[1] >> 32, 7, "a member that was never in the group");
                        // An entry that is added and removed together with its member.
                        let row = lookup_fast(view, &[9]);
                        if row != 0 {
                            let words = view.selected(row, selector);
                            assert_eq!(words[1] >> 32, 9, "a member that the entry never named");
                        }
                    }
                }
            });
        }
        for version in 1..400 {
            let more = patiently(|| profile.create_member(value(7, version)));
            patiently(|| profile.add_to_group(more, group));
            patiently(|| profile.modify_member(always, value(7, version)));
            patiently(|| profile.modify_member(more, value(7, version + 1)));
            patiently(|| profile.remove_from_group(more, group));
            patiently(|| profile.delete_member(more));
            let other = patiently(|| profile.create_member(value(9, version)));
            assert_eq!(other, more, "the handle is used again");
            let handle = patiently(|| table.insert(entry(9, Action::member(other))));
            assert_eq!(profile.delete_member(other), Err(TableError::MemberUsed(other)));
            patiently(|| table.delete(handle));
            patiently(|| profile.delete_member(other));
        }
    });
}

#[test]
fn tables_without_profile_and_profiles_without_groups() {
    let mut plain = Table::new(spec(false));
    assert_eq!(plain.insert(entry(1, Action::member(0))), Err(TableError::NoProfile));
    let profile = ActionProfile::new(actions(), 0, false);
    assert_eq!(profile.create_group(), Err(TableError::NoGroups));
    let mut table = Table::with_profile(spec(false), &profile);
    assert_eq!(table.insert(entry(1, Action::group(0))), Err(TableError::NoGroups));
    let error = profile.create_member(Action { action: 1, data: vec![] }).unwrap_err();
    assert_eq!(error.code(), "BAD_ACTION_DATA");
    assert_eq!(error.to_string(), "action 1: found 0 parameters, expected 2");
}

/// Groups built and emptied by single changes, as controllers do it: if each change copied all members, this would take
/// minutes.
#[test]
fn groups_of_many_members() {
    const MEMBERS: u32 = 1 << 16;
    let profile = ActionProfile::new(actions(), 0, true);
    let mut table = Table::with_profile(spec(false), &profile);
    let group = profile.create_group().unwrap();
    for i in 0..MEMBERS {
        assert_eq!(profile.create_member(action(i.into())), Ok(i));
    }
    let begin = Instant::now();
    profile.add_to_group(0, group).unwrap();
    table.insert(entry(7, Action::group(group))).unwrap();
    let views = table.view_handle();
    let nth = |n: u32| {
        let guard = pin();
        let view = views.get(&guard);
        view.selected(lookup_fast(view, &[7]), n.into())[1]
    };
    for i in 1..MEMBERS {
        profile.add_to_group(i, group).unwrap();
        assert_eq!((nth(i), nth(i + 1)), (i.into(), 0));
    }
    // Removed from the middle and added again.
    profile.remove_from_group(9, group).unwrap();
    assert_eq!((nth(8), nth(9), nth(MEMBERS - 1)), (8, 10, 0));
    profile.add_to_group(9, group).unwrap();
    assert_eq!((nth(8), nth(9), nth(MEMBERS)), (8, 9, 0));
    for i in (1..MEMBERS).rev() {
        profile.remove_from_group(i, group).unwrap();
        assert_eq!((nth(i - 1), nth(i)), (u64::from(i) - 1, 0));
    }
    assert!(begin.elapsed().as_secs() < 30, "{:?}", begin.elapsed());
}

/// A member and a group with the highest handle do not slow later ones down: before, each of them searched all handles.
#[test]
fn the_highest_handle_costs_nothing_later() {
    let profile = ActionProfile::new(actions(), 0, true);
    assert_eq!(profile.restore_member(u32::MAX, action(1)).unwrap(), u32::MAX);
    assert_eq!(profile.restore_group(u32::MAX).unwrap(), u32::MAX);
    let start = std::time::Instant::now();
    for handle in 0..100_000 {
        assert_eq!(profile.create_member(action(1)).unwrap(), handle);
        assert_eq!(profile.create_group().unwrap(), handle);
    }
    assert!(start.elapsed() < std::time::Duration::from_secs(6), "{:?}", start.elapsed());
    profile.delete_member(7).unwrap();
    profile.delete_group(9).unwrap();
    assert_eq!((profile.create_member(action(1)).unwrap(), profile.create_group().unwrap()), (7, 9));
}
