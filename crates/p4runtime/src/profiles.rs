//! Members and groups of action profiles, and one shots.
//!
//! The client's ids of members and groups are their handles ([`handle_of_id`]). Each one shot has a separate group with separate
//! members. The note of a group is an `ActionProfileGroup` with the weights and ports as the client sent them, in order; the note of
//! a one shot has the group id 0.

use crate::notes::note;
use crate::pipeline::{Pipeline, Profile, Table};
use crate::ports::{Ports, check_watch, watched};
use crate::refusal::{Code, Reason, Refusal, Result};
use crate::value::{handle_of_id, id_of_handle};
use crate::write::Writer;
use p4jet_control::schema::check_places;
use p4jet_control::{Act, Control, ControlError, INVALID_ARGUMENT, Noted, Ref, Share, Subject, Update};
use p4jet_ir::{InstanceId, TableId};
use p4jet_p4info::proto::v1::{
    self, ActionSelectionMode, GroupMember, SizeSemantics, TableActionType, UpdateType,
};
use p4jet_tables::ActionProfile;
use std::collections::HashSet;

/// The group id in the note of a one shot.
const ONE_SHOT: u32 = 0;

/// The present use of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Unused,
    Members,
    OneShots,
}

/// The note of a group.
pub(crate) fn group_note(
    control: &Control,
    profile: &Profile,
    handle: u32,
) -> Option<v1::ActionProfileGroup> {
    note(control, &Noted::Group(profile.instance, handle))
}

/// The id in the note of a group. Decoding it skips the members.
#[derive(Clone, PartialEq, ::prost::Message)]
struct GroupId {
    /// Field 2 of ActionProfileGroup.
    #[prost(uint32, tag = "2")]
    group_id: u32,
}

/// True if a group belongs to a one-shot of an entry.
fn is_one_shot_of(control: &Control, profile: InstanceId, handle: u32) -> bool {
    let note = note::<GroupId>(control, &Noted::Group(profile, handle));
    note.is_some_and(|note| note.group_id == ONE_SHOT)
}

/// The members of all one-shots.
fn members_of_one_shots(control: &Control, profile: InstanceId) -> HashSet<u32> {
    let groups = control.noted(Noted::Group(profile, 0)..=Noted::Group(profile, u32::MAX));
    let groups = groups.iter().filter_map(|of| note::<v1::ActionProfileGroup>(control, of));
    let of_one_shots = groups.filter(|note| note.group_id == ONE_SHOT);
    of_one_shots.flat_map(|note| note.members).map(|member| member.member_id).collect()
}

/// Refuses an update by a runtime command that would change the members or the group of a one-shot, or refer to them; they have no
/// ids, and belong to one entry. While a selector has one-shots, it takes no other members and groups (OS-6). A group whose entry
/// is gone can be deleted.
pub(crate) fn check_one_shots(control: &Control, update: &Update) -> std::result::Result<(), ControlError> {
    use Update::*;
    let program = control.program();
    let of_table = |table: &TableId| program.tables[table.index()].profile;
    let (mut groups, mut members) = (Vec::new(), Vec::new());
    let (profile, is_new) = match update {
        CreateMember { profile, .. } | CreateGroup { profile } => (Some(*profile), true),
        ModifyMember { profile, member, .. } | DeleteMember { profile, member } => {
            members.push(*member);
            (Some(*profile), false)
        }
        AddToGroup { profile, group, member } | RemoveFromGroup { profile, group, member } => {
            groups.push(*group);
            members.push(*member);
            (Some(*profile), false)
        }
        SetGroup { profile, group, members: new } => {
            groups.push(*group);
            members.extend(new.iter().map(|share| Ref::Handle(share.member)));
            (Some(*profile), false)
        }
        Insert { table, act, .. } | Modify { table, act, .. } | SetDefault { table, act } => {
            match act {
                Act::Member(member) => members.push(*member),
                Act::Group(group) => groups.push(*group),
                Act::Action(_) => return Ok(()),
            }
            (of_table(table), false)
        }
        _ => return Ok(()),
    };
    let Some(profile) = profile else { return Ok(()) };
    let store = control.profile(control.schema().profile_table(profile)?)?;
    let has_one_shots =
        store.groups_from(0, 1).0.first().is_some_and(|(group, _)| is_one_shot_of(control, profile, *group));
    if !has_one_shots {
        return Ok(());
    }
    let name = &program.instances[profile.index()].name;
    let refuse = |field: &str, why: String| {
        Err(ControlError::refused(Subject::Table, INVALID_ARGUMENT, why).entity(name).field(field))
    };
    if is_new {
        let why = format!(
            "`{name}` has one-shots of P4Runtime; delete their entries before you add members or groups"
        );
        return refuse("action profile", why);
    }
    // An object created by the same batch does not belong to a one-shot.
    let handle = |of: Ref| match of {
        Ref::Handle(handle) => Some(handle),
        Ref::Made(_) => None,
    };
    let remedy = "its entry can be changed or deleted";
    for group in groups.into_iter().filter_map(handle) {
        if is_one_shot_of(control, profile, group) {
            return refuse(
                "group",
                format!("group {group} of `{name}` is a one-shot of P4Runtime: {remedy}"),
            );
        }
    }
    let mut members = members.into_iter().filter_map(handle).peekable();
    if members.peek().is_none() {
        return Ok(());
    }
    let of_one_shots = members_of_one_shots(control, profile);
    match members.find(|member| of_one_shots.contains(member)) {
        None => Ok(()),
        Some(member) => refuse(
            "member",
            format!("member {member} of `{name}` belongs to a one-shot of P4Runtime: {remedy}"),
        ),
    }
}

/// True if a group belongs to a one shot.
pub(crate) fn is_one_shot(control: &Control, profile: &Profile, handle: u32) -> bool {
    is_one_shot_of(control, profile.instance, handle)
}

/// The share of a member of a group: no places while its watch port is down.
pub(crate) fn share(ports: &Ports, handle: u32, member: &GroupMember) -> Share {
    let is_up = watched(member.watch_kind.as_ref()).is_none_or(|port| ports.is_up(port));
    Share { member: handle, weight: if is_up { member.weight.max(1) as u32 } else { 0 } }
}

/// The handle of a member of a group's note.
pub(crate) fn handle_in(group: &v1::ActionProfileGroup, member: &GroupMember) -> u32 {
    if group.group_id == ONE_SHOT { member.member_id } else { handle_of_id(member.member_id) }
}

/// The members and groups of a profile.
fn store(control: &Control, profile: &Profile) -> Result<ActionProfile> {
    Ok(control.profile(control.schema().profile_table(profile.instance)?)?)
}

/// The present use of a profile: while one shots exist, all its members and groups belong to them.
pub(crate) fn style(control: &Control, profile: &Profile) -> Result<Style> {
    let store = store(control, profile)?;
    if let Some((group, _)) = store.groups_from(0, 1).0.first() {
        return Ok(match is_one_shot(control, profile, *group) {
            true => Style::OneShots,
            false => Style::Members,
        });
    }
    Ok(if store.members_from(0, 1).0.is_empty() { Style::Unused } else { Style::Members })
}

/// Maximum number of ids that a refusal lists.
const IDS_MAX: usize = 8;

/// The refusal of a member or group that does not exist, with the ids that do.
fn no_object(profile: &Profile, what: &str, id: u32, known: impl Iterator<Item = u32>) -> Refusal {
    let known: Vec<String> = known.map(|handle| id_of_handle(handle).to_string()).collect();
    let expected = match known.len() {
        0 => "there is none".to_string(),
        IDS_MAX => format!("expected one such as {}", known.join(", ")),
        _ => format!("expected {}", known.join(", ")),
    };
    let why = format!("`{}` has no {what} {id}: {expected}", profile.name);
    Refusal::new(Code::NotFound, Reason::Absent, why)
}

impl Pipeline {
    /// The first table of a profile; all have the same list of actions.
    pub(crate) fn profile_table(&self, profile: &Profile) -> Result<&Table> {
        let table = profile.tables.iter().find_map(|id| self.tables.get(id));
        table.ok_or_else(|| {
            let why = format!("no table of the P4Info has the action profile `{}`", profile.name);
            Refusal::invalid(Reason::Form, why)
        })
    }

    /// The one shot as the client wrote it. `store` is the profile of the table, which may be locked.
    pub(crate) fn show_one_shot(
        &self,
        control: &Control,
        table: &Table,
        store: &ActionProfile,
        handle: u32,
    ) -> Option<v1::ActionProfileActionSet> {
        let profile = self.profiles.get(&table.profile?)?;
        let note = group_note(control, profile, handle).filter(|note| note.group_id == ONE_SHOT)?;
        let actions = note.members.into_iter().filter_map(|member| {
            let action = store.member(member.member_id)?;
            let action = self.show_action(table, &action);
            Some(v1::ActionProfileAction { action, weight: member.weight, watch_kind: member.watch_kind })
        });
        Some(v1::ActionProfileActionSet {
            action_profile_actions: actions.collect(),
            action_selection_mode: (u32::MAX - note.action_profile_id) as i32,
            size_semantics: note.max_size,
            group_action: None,
        })
    }
}

impl Writer<'_> {
    fn check_style(&self, profile: &Profile, wanted: Style) -> Result<()> {
        let now = style(&self.control, profile)?;
        if now == wanted || now == Style::Unused {
            return Ok(());
        }
        let (now, wanted) = match now {
            Style::OneShots => ("one shots", "members and groups"),
            _ => ("members and groups", "one shots"),
        };
        let why = format!("`{}` has {now}; delete these before you add {wanted}", profile.name);
        Err(Refusal::invalid(Reason::Form, why))
    }

    /// Refuses ids of members and groups in a table whose selector has one shots, which have no ids.
    pub(crate) fn check_named(&self, table: &Table) -> Result<()> {
        match table.profile.and_then(|id| self.pipeline.profiles.get(&id)) {
            Some(profile) if profile.selector => self.check_style(profile, Style::Members),
            _ => Ok(()),
        }
    }

    fn check_room(&self, profile: &Profile, more: usize) -> Result<()> {
        Ok(self.control.check_room(profile.instance, more)?)
    }

    /// True if the profile of a table has room for a one-shot.
    pub(crate) fn has_room(&self, table: &Table, set: &v1::ActionProfileActionSet) -> bool {
        let Some(profile) = table.profile.and_then(|id| self.pipeline.profiles.get(&id)) else { return true };
        self.check_room(profile, set.action_profile_actions.len()).is_ok()
            && self.check_size(profile, weights(set).into_iter(), None).is_ok()
    }

    /// Refuses a group or one-shot with these weights if the groups of its selector would be larger than the selector's size
    /// (AP-11, OS-8). `replaced` is the group that it replaces.
    fn check_size(
        &self,
        profile: &Profile,
        weights: impl Iterator<Item = i32>,
        replaced: Option<u32>,
    ) -> Result<()> {
        let Some(max) = self.control.schema().profile_size(profile.instance) else { return Ok(()) };
        let counts_members = profile.members_counted.is_some();
        let size = |weights: &mut dyn Iterator<Item = i32>| match counts_members {
            true => weights.count() as u64,
            false => weights.map(|weight| weight.max(1) as u64).sum(),
        };
        let store = store(&self.control, profile)?;
        let size_of = |handle: u32| match group_note(&self.control, profile, handle) {
            Some(note) => size(&mut note.members.iter().map(|member| member.weight)),
            None => {
                let (members, _) = store.group_places(handle).unwrap_or_default();
                size(&mut members.iter().map(|(_, places)| *places as i32))
            }
        };
        let sizes = store.sizes();
        let before = match sizes.without_place {
            _ if counts_members => sizes.members,
            0 => sizes.places,
            // The places of members whose watch ports are down are known from their weights only.
            _ => {
                let down = store.groups_without_place().into_iter();
                sizes.places
                    + down.map(|(handle, places)| size_of(handle).saturating_sub(places)).sum::<u64>()
            }
        };
        let old = replaced.map_or(0, size_of);
        let total = before.saturating_sub(old) + size(&mut { weights });
        if total <= u64::from(max) {
            return Ok(());
        }
        let what = if counts_members { "members" } else { "weights" };
        let why = format!(
            "`{}`: all groups together would have {total} {what}, but its size is {max}",
            profile.name
        );
        Err(Refusal::new(Code::ResourceExhausted, Reason::Full, why))
    }

    /// The members and groups whose ids a refusal may offer; those of one-shots have none.
    fn offered(&self, profile: &Profile) -> Option<ActionProfile> {
        let is_listed = style(&self.control, profile) != Ok(Style::OneShots);
        store(&self.control, profile).ok().filter(|_| is_listed)
    }

    /// The refusal of a member that does not exist.
    fn no_member(&self, profile: &Profile, id: u32) -> Refusal {
        let known = self.offered(profile).map(|store| store.members_from(0, IDS_MAX).0).unwrap_or_default();
        no_object(profile, "member", id, known.iter().map(|(handle, _)| *handle))
    }

    /// The refusal of a group that does not exist.
    fn no_group(&self, profile: &Profile, id: u32) -> Refusal {
        let known = self.offered(profile).map(|store| store.groups_from(0, IDS_MAX).0).unwrap_or_default();
        no_object(profile, "group", id, known.iter().map(|(handle, _)| *handle))
    }

    /// The refusal of an entry; one because of the member or group that the entry names gets the field and the choices.
    pub(crate) fn explain(&self, entry: &v1::TableEntry, refusal: Refusal) -> Refusal {
        if refusal.code != Code::NotFound {
            return refusal;
        }
        let named = entry.action.as_ref().and_then(|action| action.r#type.as_ref());
        let table = self.pipeline.tables.get(&entry.table_id);
        let profile = table.and_then(|table| self.pipeline.profiles.get(&table.profile?));
        let (Some(named), Some(table), Some(profile)) = (named, table, profile) else { return refusal };
        let Ok(store) = store(&self.control, profile) else { return refusal };
        let why = match *named {
            TableActionType::ActionProfileMemberId(id) if store.member(handle_of_id(id)).is_none() => {
                self.no_member(profile, id).of("`action_profile_member_id`")
            }
            TableActionType::ActionProfileGroupId(id) if store.group(handle_of_id(id)).is_none() => {
                self.no_group(profile, id).of("`action_profile_group_id`")
            }
            _ => return refusal,
        };
        why.of(format!("`{}`", table.name))
    }

    /// Applies an update of a member.
    pub(crate) fn member(&mut self, kind: UpdateType, member: &v1::ActionProfileMember) -> Result<()> {
        let pipeline = self.pipeline;
        let profile = pipeline.profile(member.action_profile_id)?;
        self.role.check(member.action_profile_id, &profile.name, None)?;
        if member.member_id == 0 {
            let why = format!("`{}`: the member id is 0, expected 1 or more", profile.name);
            return Err(Refusal::invalid(Reason::Form, why));
        }
        let handle = handle_of_id(member.member_id);
        let instance = profile.instance;
        let absent = || self.no_member(profile, member.member_id);
        // Members of one shots have no ids.
        let found = style(&self.control, profile)? != Style::OneShots
            && store(&self.control, profile)?.member(handle).is_some();
        if kind == UpdateType::Delete {
            if !found {
                return Err(absent());
            }
            return self.make(Update::DeleteMember { profile: instance, member: handle.into() }).map(drop);
        }
        let Some(action) = &member.action else {
            let why = format!("`{}`: `action` is unset, and a member needs one", profile.name);
            return Err(Refusal::invalid(Reason::Action, why));
        };
        let given = action;
        let action = pipeline.action(pipeline.profile_table(profile)?, given, false)?;
        // AP-17: entries of all tables of the profile may name the member.
        for other in profile.tables.iter().skip(1).filter_map(|id| pipeline.tables.get(id)) {
            pipeline.action(other, given, false)?;
        }
        if kind == UpdateType::Modify {
            if !found {
                return Err(absent());
            }
            return self
                .make(Update::ModifyMember { profile: instance, member: handle.into(), action })
                .map(drop);
        }
        self.check_style(profile, Style::Members)?;
        if found {
            let why = format!("`{}` has a member {} already", profile.name, member.member_id);
            return Err(Refusal::new(Code::AlreadyExists, Reason::Exists, why));
        }
        self.check_room(profile, 1)?;
        self.batch.write_at(Update::CreateMember { profile: instance, action }, Some(handle))?;
        Ok(())
    }

    /// Applies an update of a group.
    pub(crate) fn group(&mut self, kind: UpdateType, group: &v1::ActionProfileGroup) -> Result<()> {
        let profile = self.pipeline.profile(group.action_profile_id)?;
        self.role.check(group.action_profile_id, &profile.name, None)?;
        let invalid = |why: String| Refusal::invalid(Reason::Form, format!("`{}`: {why}", profile.name));
        if !profile.selector {
            return Err(invalid("it has no selector, so it has no groups".to_string()));
        }
        if group.group_id == 0 {
            return Err(invalid("the group id is 0, expected 1 or more".to_string()));
        }
        let (handle, instance) = (handle_of_id(group.group_id), profile.instance);
        let found = style(&self.control, profile)? != Style::OneShots
            && store(&self.control, profile)?.group(handle).is_some();
        let absent = || self.no_group(profile, group.group_id);
        if kind == UpdateType::Delete {
            if !found {
                return Err(absent());
            }
            return self.make(Update::DeleteGroup { profile: instance, group: handle.into() }).map(drop);
        }
        check_max_size(profile, group.max_size)?;
        let before = group_note(&self.control, profile, handle).map_or(0, |note| note.max_size);
        let max_size = match kind {
            // Z-9: 0 keeps the size.
            UpdateType::Modify if found => {
                if ![0, before].contains(&group.max_size) {
                    let why = format!(
                        "`max_size` is {}, and it was {before} when the group was created",
                        group.max_size
                    );
                    return Err(invalid(why));
                }
                before
            }
            _ => group.max_size,
        };
        let mut known = HashSet::new();
        for member in &group.members {
            if !known.insert(member.member_id) {
                return Err(invalid(format!("the member {} is given twice", member.member_id)));
            }
        }
        let weights: Vec<i32> = group.members.iter().map(|member| member.weight).collect();
        let limit = if max_size > 0 { max_size } else { profile.max_group_size };
        check_weights(profile, &weights, limit, profile.members_counted)?;
        for member in &group.members {
            check_watch(&self.ports, member.watch_kind.as_ref())
                .map_err(|refusal| refusal.of(format!("`{}`", profile.name)))?;
        }
        match (kind, found) {
            (UpdateType::Insert, true) => {
                let why = format!("`{}` has a group {} already", profile.name, group.group_id);
                return Err(Refusal::new(Code::AlreadyExists, Reason::Exists, why));
            }
            (UpdateType::Modify, false) => return Err(absent()),
            _ => {}
        }
        let members = store(&self.control, profile)?;
        let member = |member: &GroupMember| {
            let handle = handle_of_id(member.member_id);
            match member.member_id != 0 && members.member(handle).is_some() {
                true => Ok(share(&self.ports, handle, member)),
                false => Err(self.no_member(profile, member.member_id)),
            }
        };
        let members = group.members.iter().map(member).collect::<Result<Vec<_>>>()?;
        if kind == UpdateType::Insert {
            self.check_style(profile, Style::Members)?;
        }
        self.check_size(profile, weights.into_iter(), found.then_some(handle))?;
        if kind == UpdateType::Insert {
            self.batch.write_at(Update::CreateGroup { profile: instance }, Some(handle))?;
        }
        self.make(Update::SetGroup { profile: instance, group: handle.into(), members })?;
        let note = v1::ActionProfileGroup { action_profile_id: 0, max_size, ..group.clone() };
        self.set_note(Noted::Group(instance, handle), &note)
    }

    /// Creates the group of a one shot.
    pub(crate) fn one_shot(
        &mut self,
        table: &Table,
        set: &v1::ActionProfileActionSet,
        actions: Vec<p4jet_tables::Action>,
    ) -> Result<Act> {
        let Some(profile) = table.profile.and_then(|id| self.pipeline.profiles.get(&id)) else {
            return Err(Refusal::invalid(Reason::Action, format!("`{}` has no selector", table.name)));
        };
        self.check_style(profile, Style::OneShots)?;
        self.check_room(profile, actions.len())?;
        self.check_size(profile, weights(set).into_iter(), None)?;
        let instance = profile.instance;
        let (mut members, mut noted) = (Vec::new(), Vec::new());
        for (action, given) in actions.into_iter().zip(&set.action_profile_actions) {
            let handle = self.make(Update::CreateMember { profile: instance, action })?.unwrap_or(0);
            let member =
                GroupMember { member_id: handle, weight: given.weight, watch_kind: given.watch_kind.clone() };
            members.push(share(&self.ports, handle, &member));
            noted.push(member);
        }
        let group = self.make(Update::CreateGroup { profile: instance })?.unwrap_or(0);
        self.make(Update::SetGroup { profile: instance, group: group.into(), members })?;
        // Not empty even for an empty set: the note marks the group as a one shot.
        let note = v1::ActionProfileGroup {
            action_profile_id: u32::MAX - set.action_selection_mode as u32,
            group_id: ONE_SHOT,
            members: noted,
            max_size: set.size_semantics,
        };
        self.set_note(Noted::Group(instance, group), &note)?;
        Ok(Act::Group(group.into()))
    }

    /// Checks the form of a one shot. Returns its actions.
    pub(crate) fn one_shot_actions(
        &self,
        table: &Table,
        profile: &Profile,
        set: &v1::ActionProfileActionSet,
    ) -> Result<Vec<p4jet_tables::Action>> {
        if set.group_action.is_some() {
            return Err(Refusal::unsupported("`group_action` is not supported"));
        }
        match ActionSelectionMode::try_from(set.action_selection_mode) {
            // Selectors choose by a hash.
            Ok(ActionSelectionMode::DefaultModeDeterminedByActionSelector | ActionSelectionMode::Hash) => {}
            Ok(ActionSelectionMode::Random) => {
                let why = "`action_selection_mode`: the selector chooses by a hash, so it must be the default or HASH";
                return Err(Refusal::unsupported(why));
            }
            Err(_) => return Err(Refusal::invalid(Reason::Form, "`action_selection_mode` is unknown")),
        }
        let counted = counted_in(profile, set.size_semantics)?;
        check_weights(profile, &weights(set), profile.max_group_size, counted)?;
        let mut actions = Vec::with_capacity(set.action_profile_actions.len());
        for action in &set.action_profile_actions {
            check_watch(&self.ports, action.watch_kind.as_ref())
                .map_err(|refusal| refusal.of(format!("`{}`", profile.name)))?;
            let Some(given) = &action.action else {
                let why = format!("`{}`: an action of the set is unset", table.name);
                return Err(Refusal::invalid(Reason::Action, why));
            };
            actions.push(self.pipeline.action(table, given, false)?);
        }
        Ok(actions)
    }

    /// Deletes the members of a one shot.
    pub(crate) fn empty_one_shot(&mut self, table: &Table, group: u32) -> Result<()> {
        let Some(profile) = table.profile.and_then(|id| self.pipeline.profiles.get(&id)) else {
            return Ok(());
        };
        let Some(note) = group_note(&self.control, profile, group) else { return Ok(()) };
        let instance = profile.instance;
        let set = Update::SetGroup { profile: instance, group: group.into(), members: Vec::new() };
        self.make(set)?;
        for member in &note.members {
            self.make(Update::DeleteMember { profile: instance, member: member.member_id.into() })?;
        }
        let note = v1::ActionProfileGroup { members: Vec::new(), ..note };
        self.set_note(Noted::Group(instance, group), &note)
    }

    /// Deletes the group of an unused one shot, and its members.
    pub(crate) fn delete_one_shot(&mut self, table: &Table, group: u32) -> Result<()> {
        let Some(profile) = table.profile.and_then(|id| self.pipeline.profiles.get(&id)) else {
            return Ok(());
        };
        let Some(note) = group_note(&self.control, profile, group) else { return Ok(()) };
        let instance = profile.instance;
        self.make(Update::DeleteGroup { profile: instance, group: group.into() })?;
        for member in note.members {
            self.make(Update::DeleteMember { profile: instance, member: member.member_id.into() })?;
        }
        Ok(())
    }

    /// The group of an entry's one shot.
    pub(crate) fn one_shot_of(&self, table: &Table, handle: p4jet_tables::EntryHandle) -> Option<u32> {
        let profile = self.pipeline.profiles.get(&table.profile?).filter(|profile| profile.selector)?;
        let entry = self.control.switch().table(table.table).get(handle)?;
        let group = entry.action.as_group()?;
        is_one_shot(&self.control, profile, group).then_some(group)
    }
}

/// Checks the weights of a group or one shot. `limit` is its maximum size, or 0; `counted` is the maximum weight if sizes
/// count members.
fn check_weights(profile: &Profile, weights: &[i32], limit: i32, counted: Option<i32>) -> Result<()> {
    let invalid = |why: String| Err(Refusal::invalid(Reason::Form, format!("`{}`: {why}", profile.name)));
    let wrong = |weight: &&i32| if profile.weights_disallowed { **weight != 0 } else { **weight < 1 };
    if let Some(weight) = weights.iter().find(wrong) {
        let expected = if profile.weights_disallowed { "0: it allows no weights" } else { "1 or more" };
        return invalid(format!("found the weight {weight}, expected {expected}"));
    }
    let sum: i64 = weights.iter().map(|weight| i64::from(*weight).max(1)).sum();
    let size = match counted {
        Some(max) => {
            if let Some(weight) = weights.iter().find(|weight| max > 0 && **weight > max) {
                return invalid(format!("found the weight {weight}, expected at most {max}"));
            }
            weights.len() as i64
        }
        None => sum,
    };
    if limit > 0 && size > i64::from(limit) {
        let what = if counted.is_some() { "members" } else { "weights" };
        return invalid(format!("the size of the group ({what}) is {size}, expected at most {limit}"));
    }
    check_places(sum as u64).map_err(|error| {
        let refusal = Refusal::from(error).of(format!("`{}`", profile.name));
        Refusal { code: Code::ResourceExhausted, reason: Reason::Full, ..refusal }
    })
}

/// The weight that a member may have at most, if sizes count members: a one-shot may say what they count.
fn counted_in(profile: &Profile, size_semantics: i32) -> Result<Option<i32>> {
    match SizeSemantics::try_from(size_semantics) {
        Ok(SizeSemantics::DefaultSizeDeterminedByActionSelector) => Ok(profile.members_counted),
        Ok(SizeSemantics::SumOfWeights) => Ok(None),
        Ok(SizeSemantics::SumOfMembers) => Ok(Some(profile.members_counted.unwrap_or(0))),
        Err(_) => Err(Refusal::invalid(Reason::Form, "`size_semantics` is unknown")),
    }
}

/// Checks the maximum size of a group.
fn check_max_size(profile: &Profile, max_size: i32) -> Result<()> {
    let max = profile.max_group_size;
    if max_size < 0 || (max > 0 && max_size > max) {
        let expected = if max > 0 { format!("0 to {max}") } else { "0 or more".to_string() };
        let why = format!("`{}`: `max_size` is {max_size}, expected {expected}", profile.name);
        return Err(Refusal::invalid(Reason::Form, why));
    }
    Ok(())
}

/// Checks a group or one-shot in the form of its note.
pub(crate) fn check_noted(profile: &Profile, group: &v1::ActionProfileGroup) -> Result<()> {
    let weights: Vec<i32> = group.members.iter().map(|member| member.weight).collect();
    if group.group_id == ONE_SHOT {
        let counted = counted_in(profile, group.max_size)?;
        return check_weights(profile, &weights, profile.max_group_size, counted);
    }
    check_max_size(profile, group.max_size)?;
    let limit = if group.max_size > 0 { group.max_size } else { profile.max_group_size };
    check_weights(profile, &weights, limit, profile.members_counted)
}

/// The size of all groups and one-shots of a profile, as it counts for the profile's own size.
pub(crate) fn total_size(profile: &Profile, groups: &[v1::ActionProfileGroup]) -> u64 {
    let size = |group: &v1::ActionProfileGroup| match profile.members_counted {
        Some(_) => group.members.len() as u64,
        None => group.members.iter().map(|member| member.weight.max(1) as u64).sum(),
    };
    groups.iter().map(size).sum()
}

/// The weights of a one-shot.
fn weights(set: &v1::ActionProfileActionSet) -> Vec<i32> {
    set.action_profile_actions.iter().map(|action| action.weight).collect()
}

/// A group in the form of P4Runtime.
pub(crate) fn show_group(
    control: &Control,
    id: u32,
    profile: &Profile,
    handle: u32,
    members: &[Share],
) -> v1::ActionProfileGroup {
    let (mut members, max_size) = match group_note(control, profile, handle) {
        Some(note) => (note.members, note.max_size),
        None => {
            // Set by another client.
            let plain = |share: &Share| GroupMember {
                member_id: id_of_handle(share.member),
                weight: share.weight as i32,
                watch_kind: None,
            };
            (members.iter().map(plain).collect(), 0)
        }
    };
    if profile.weights_disallowed {
        members.iter_mut().for_each(|member| member.weight = 0);
    }
    v1::ActionProfileGroup { action_profile_id: id, group_id: id_of_handle(handle), members, max_size }
}
