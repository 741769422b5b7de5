//! Updates by name, as JSON, for the journal and control connections.
//!
//! Keys and values are texts as runtime commands take them, so their meaning does not depend on the program's ids.

use crate::call::Call;
use crate::error::{ControlError, Result, count};
use crate::fields::Param;
use crate::made::Made;
use crate::notes::Noted;
use crate::queues::{Queue, QueueUpdate};
use crate::schema::{ObjectKind, PRIORITY_MAX, Schema};
use crate::update::{Act, Cell, CloneDestination, EntryKey, EntryRef, Ref, Share, Update};
use crate::value::{KeyWord, NumberWord, key_match, key_word, number_word, parse_rate, parse_value};
use num_bigint::BigUint;
use p4jet_dataplane::Rate;
use p4jet_externs::{CounterValue, CrcParams, Rates, Replica};
use p4jet_ir::{InstanceId, TableId};
use p4jet_tables::{Action, KeyMatch};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::{BTreeSet, HashMap};
use std::fmt;

/// An [`Update`] with names in place of ids.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[expect(missing_docs, reason = "as in Update")]
pub enum NamedUpdate {
    Insert {
        /// In a journal, empty for the table of the previous insertion; without an action, also its action.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        table: String,
        key: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        priority: Option<u32>,
        r#do: Call,
    },
    Modify {
        table: String,
        entry: NamedEntry,
        r#do: Call,
    },
    Delete {
        table: String,
        entry: NamedEntry,
    },
    Clear {
        table: String,
    },
    SetDefault {
        table: String,
        r#do: Call,
    },
    ResetDefault {
        table: String,
    },
    SetTimeout {
        table: String,
        entry: NamedEntry,
        timeout_ms: u32,
    },
    CreateMember {
        profile: String,
        r#do: Call,
    },
    ModifyMember {
        profile: String,
        member: Ref,
        r#do: Call,
    },
    DeleteMember {
        profile: String,
        member: Ref,
    },
    CreateGroup {
        profile: String,
    },
    DeleteGroup {
        profile: String,
        group: Ref,
    },
    AddToGroup {
        profile: String,
        group: Ref,
        member: Ref,
    },
    RemoveFromGroup {
        profile: String,
        group: Ref,
        member: Ref,
    },
    WriteCounter {
        counter: String,
        cell: NamedCell,
        packets: u64,
        bytes: u64,
    },
    ResetCounter {
        counter: String,
    },
    WriteRegister {
        register: String,
        index: u32,
        value: String,
    },
    ResetRegister {
        register: String,
    },
    SetMeter {
        meter: String,
        cell: NamedCell,
        /// Committed and peak rate: units per microsecond, a colon, the burst in units.
        rates: Option<[String; 2]>,
    },
    SetMeterArray {
        meter: String,
        rates: Option<[String; 2]>,
    },
    SetCrc(Crc),
    AddToValueSet {
        set: String,
        key: Vec<String>,
    },
    RemoveFromValueSet {
        set: String,
        key: Vec<String>,
    },
    ClearValueSet {
        set: String,
    },
    CreateMulticastGroup {
        group: u32,
    },
    DestroyMulticastGroup {
        group: u32,
    },
    CreateNode {
        rid: u32,
        ports: BTreeSet<u32>,
        lags: BTreeSet<u32>,
    },
    UpdateNode {
        node: Ref,
        ports: BTreeSet<u32>,
        lags: BTreeSet<u32>,
    },
    Associate {
        group: u32,
        node: Ref,
    },
    Dissociate {
        group: u32,
        node: Ref,
    },
    DestroyNode {
        node: Ref,
    },
    SetLag {
        lag: u32,
        ports: BTreeSet<u32>,
    },
    /// Replaces the members of a group: handles, each with its weight.
    SetGroup {
        profile: String,
        group: Ref,
        members: Vec<(u32, u32)>,
    },
    /// Replaces a multicast group: ports and replication ids; `None` deletes it.
    SetMulticastGroup {
        group: u32,
        #[serde(default)]
        replicas: Option<Vec<(u32, u32)>>,
    },
    /// Sets a client's note about an object: pairs of hexadecimal digits; `None` deletes it.
    Note {
        of: NamedNoted,
        #[serde(default)]
        note: Option<String>,
    },
    SetSession(Session),
    DeleteSession {
        number: u32,
    },
    SetQueueDepth {
        packets: u32,
        #[serde(flatten)]
        of: Queue,
    },
    SetQueueRate {
        rate: Option<RateRecord>,
        #[serde(flatten)]
        of: Queue,
    },
    SetQueueWeight {
        weight: u32,
        #[serde(flatten)]
        of: Queue,
    },
    SetPortRate {
        rate: Option<RateRecord>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u32>,
    },
    Reset {},
}

/// An entry by its handle, or by its key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = r#"expected an entry: its handle, `{"made": N}`, or `{"key": [...]}` with `priority` if entries have one"#
)]
pub enum NamedEntry {
    /// Its handle.
    Handle(Ref),
    /// Its key.
    Key {
        /// A match for each field.
        key: Vec<String>,
        /// The priority, if entries have one; otherwise none or 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        priority: Option<u32>,
    },
}

/// A cell, by its index or by the entry to which it belongs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NamedCell {
    /// Its index.
    Index(u32),
    /// Its entry.
    Entry(NamedEntry),
}

/// A clone session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// Its number.
    pub number: u32,
    /// The port of its copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u32>,
    /// The multicast group of its copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
    /// Maximum number of bytes that copies keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u32>,
    /// Ports and replication ids, instead of one port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<Vec<(u32, u32)>>,
    /// The class of service of these copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<u32>,
}

/// An object that can have a note.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[expect(missing_docs, reason = "as in Noted")]
pub enum NamedNoted {
    Entry { table: String, handle: u32 },
    Default { table: String },
    Group { profile: String, group: u32 },
    MulticastGroup(u32),
    Session(u32),
    Digest(String),
    Own(String),
}

fn resolve_noted<'n>(of: &'n NamedNoted, names: &mut Names<'_, 'n>) -> Result<Noted> {
    Ok(match of {
        NamedNoted::Entry { table, handle } => Noted::Entry(names.table(table)?, *handle),
        NamedNoted::Default { table } => Noted::Default(names.table(table)?),
        NamedNoted::Group { profile, group } => Noted::Group(names.profile(profile)?, *group),
        NamedNoted::MulticastGroup(group) => Noted::MulticastGroup(*group),
        NamedNoted::Session(session) => Noted::Session(*session),
        NamedNoted::Digest(name) => Noted::Digest(name.as_str().into()),
        NamedNoted::Own(name) => Noted::Own(name.as_str().into()),
    })
}

/// Bytes as pairs of hexadecimal digits.
pub(crate) fn hex_text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hex_bytes(text: &str) -> Result<Vec<u8>> {
    let wrong = || ControlError::new("a note consists of pairs of hexadecimal digits").field("note");
    let pair = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok().filter(|text| text.len() == 2)?;
        u8::from_str_radix(text, 16).ok()
    };
    text.as_bytes().chunks(2).map(pair).collect::<Option<_>>().ok_or_else(wrong)
}

/// The constants of a custom CRC.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "as in CrcParams")]
pub struct Crc {
    pub name: String,
    pub width: u32,
    pub polynomial: u64,
    pub initial: u64,
    pub xor: u64,
    pub reflect_in: bool,
    pub reflect_out: bool,
}

/// The rate at which packets leave a queue or port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum RateRecord {
    PacketsPerSecond(u64),
    BitsPerSecond(u64),
}

impl From<Rate> for RateRecord {
    fn from(rate: Rate) -> RateRecord {
        match rate {
            Rate::Packets(rate) => RateRecord::PacketsPerSecond(rate),
            Rate::Bits(rate) => RateRecord::BitsPerSecond(rate),
        }
    }
}

impl From<RateRecord> for Rate {
    fn from(rate: RateRecord) -> Rate {
        match rate {
            RateRecord::PacketsPerSecond(rate) => Rate::Packets(rate),
            RateRecord::BitsPerSecond(rate) => Rate::Bits(rate),
        }
    }
}

/// A [`NamedUpdate::Insert`] with an action, borrowing its strings, because a file may hold millions of entries.
#[derive(Serialize)]
struct Inserted<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<&'a str>,
    key: Words<'a, KeyMatch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u32>,
    r#do: Called<'a>,
}

#[derive(Serialize)]
struct Called<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<&'a str>,
    #[serde(skip_serializing_if = "Words::is_empty")]
    params: Words<'a, BigUint>,
}

struct Words<'a, T>(&'a [T]);

impl<T> Words<'_, T> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Words<'_, KeyMatch> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|key| Text(KeyWord(key))))
    }
}

impl Serialize for Words<'_, BigUint> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|value| Text(NumberWord(value))))
    }
}

struct Text<T>(T);

impl<T: fmt::Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl NamedUpdate {
    /// Fills in the table and action that an insertion of a journal omits; `before` has those of the previous one.
    pub(crate) fn fill_in(&mut self, before: &mut (String, Option<String>)) {
        let NamedUpdate::Insert { table, r#do: call, .. } = self else { return };
        if table.is_empty() {
            table.clone_from(&before.0);
            if matches!(call, Call { action: None, member: None, group: None, .. }) {
                call.action.clone_from(&before.1);
            }
        } else {
            before.0.clone_from(table);
        }
        if call.action.is_some() {
            before.1.clone_from(&call.action);
        }
    }

    /// Replaces references to objects of the first updates of the batch by their handles. References to later updates
    /// count from the end of those.
    pub fn with_handles(&mut self, made: &[Option<u32>]) {
        let fix = |of: &mut Ref| {
            let Ref::Made(place) = of else { return };
            match made.get(*place as usize) {
                Some(Some(handle)) => *of = Ref::Handle(*handle),
                // No object has this handle, in this batch or a later one.
                Some(None) => *place = u32::MAX,
                None => *place -= made.len() as u32,
            }
        };
        let fix_call = |call: &mut Call| call.member.iter_mut().chain(&mut call.group).for_each(fix);
        let fix_entry = |entry: &mut NamedEntry| {
            if let NamedEntry::Handle(of) = entry {
                fix(of);
            }
        };
        match self {
            NamedUpdate::Insert { r#do, .. } | NamedUpdate::SetDefault { r#do, .. } => fix_call(r#do),
            NamedUpdate::Modify { entry, r#do, .. } => {
                fix_entry(entry);
                fix_call(r#do);
            }
            NamedUpdate::Delete { entry, .. } | NamedUpdate::SetTimeout { entry, .. } => fix_entry(entry),
            NamedUpdate::ModifyMember { member, .. } | NamedUpdate::DeleteMember { member, .. } => {
                fix(member)
            }
            NamedUpdate::DeleteGroup { group, .. } | NamedUpdate::SetGroup { group, .. } => fix(group),
            NamedUpdate::AddToGroup { group, member, .. }
            | NamedUpdate::RemoveFromGroup { group, member, .. } => {
                fix(group);
                fix(member);
            }
            NamedUpdate::WriteCounter { cell: NamedCell::Entry(entry), .. }
            | NamedUpdate::SetMeter { cell: NamedCell::Entry(entry), .. } => fix_entry(entry),
            NamedUpdate::UpdateNode { node, .. }
            | NamedUpdate::Associate { node, .. }
            | NamedUpdate::Dissociate { node, .. }
            | NamedUpdate::DestroyNode { node } => fix(node),
            _ => {}
        }
    }
}

impl Schema {
    /// Appends an update by name as JSON. `made` has the handles from earlier updates of the batch; `before` has the table and the
    /// action of the previous insertion, which are not repeated.
    pub(crate) fn write_named(
        &self,
        update: &Update,
        made: &Made,
        before: &mut (Option<TableId>, Option<u32>),
        json: &mut Vec<u8>,
    ) {
        // Texts and numbers always have a JSON form, and writing to memory does not fail.
        if let Update::Insert { table: id, key, priority, act: Act::Action(action) } = update
            && let Some(listed) = self.actions_of(*id).get(action.action as usize)
        {
            let same_table = before.0 == Some(*id);
            let same = same_table && before.1 == Some(action.action);
            *before = (Some(*id), Some(action.action));
            let inserted = Inserted {
                table: (!same_table).then_some(self.table_name(*id)),
                key: Words(key),
                priority: self.shape(*id).needs_priority.then_some(*priority),
                r#do: Called { action: (!same).then_some(&listed.name), params: Words(&action.data) },
            };
            json.extend_from_slice(br#"{"insert":"#);
            let _ = serde_json::to_writer(&mut *json, &inserted);
            json.push(b'}');
            return;
        }
        if matches!(update, Update::Insert { .. }) {
            // It names another table, or the same one without an action.
            *before = (None, None);
        }
        let mut named = self.named(update);
        named.with_handles(made.handles());
        let _ = serde_json::to_writer(json, &named);
    }

    /// An update by name, with values in the form of state files.
    pub fn named(&self, update: &Update) -> NamedUpdate {
        let table = |id: &TableId| self.table_name(*id).to_string();
        let instance = |id: &InstanceId| self.instance_name(*id).to_string();
        let words = |key: &[KeyMatch]| key.iter().map(key_word).collect();
        let of_profile = |id: &InstanceId, action: &Action| match self.profile_table(*id) {
            Ok(table) => self.call(table, action),
            Err(_) => Call::default(),
        };
        match update {
            Update::Insert { table: id, key, priority, act } => NamedUpdate::Insert {
                table: table(id),
                key: words(key),
                priority: self.shape(*id).needs_priority.then_some(*priority),
                r#do: self.named_act(*id, act),
            },
            Update::Modify { table: id, entry, act } => NamedUpdate::Modify {
                table: table(id),
                entry: self.named_entry(*id, entry),
                r#do: self.named_act(*id, act),
            },
            Update::Delete { table: id, entry } => {
                NamedUpdate::Delete { table: table(id), entry: self.named_entry(*id, entry) }
            }
            Update::Clear(id) => NamedUpdate::Clear { table: table(id) },
            Update::SetDefault { table: id, act } => {
                NamedUpdate::SetDefault { table: table(id), r#do: self.named_act(*id, act) }
            }
            Update::ResetDefault(id) => NamedUpdate::ResetDefault { table: table(id) },
            Update::SetTimeout { table: id, entry, timeout_ms } => NamedUpdate::SetTimeout {
                table: table(id),
                entry: self.named_entry(*id, entry),
                timeout_ms: *timeout_ms,
            },
            Update::CreateMember { profile, action } => {
                NamedUpdate::CreateMember { profile: instance(profile), r#do: of_profile(profile, action) }
            }
            Update::ModifyMember { profile, member, action } => NamedUpdate::ModifyMember {
                profile: instance(profile),
                member: *member,
                r#do: of_profile(profile, action),
            },
            Update::DeleteMember { profile, member } => {
                NamedUpdate::DeleteMember { profile: instance(profile), member: *member }
            }
            Update::CreateGroup { profile } => NamedUpdate::CreateGroup { profile: instance(profile) },
            Update::DeleteGroup { profile, group } => {
                NamedUpdate::DeleteGroup { profile: instance(profile), group: *group }
            }
            Update::AddToGroup { profile, group, member } => {
                NamedUpdate::AddToGroup { profile: instance(profile), group: *group, member: *member }
            }
            Update::RemoveFromGroup { profile, group, member } => {
                NamedUpdate::RemoveFromGroup { profile: instance(profile), group: *group, member: *member }
            }
            Update::WriteCounter { counter, cell, value } => NamedUpdate::WriteCounter {
                counter: instance(counter),
                cell: self.named_cell(*counter, cell),
                packets: value.packets,
                bytes: value.bytes,
            },
            Update::ResetCounter(counter) => NamedUpdate::ResetCounter { counter: instance(counter) },
            Update::WriteRegister { register, index, value } => NamedUpdate::WriteRegister {
                register: instance(register),
                index: *index,
                value: number_word(value),
            },
            Update::ResetRegister(register) => NamedUpdate::ResetRegister { register: instance(register) },
            Update::SetMeter { meter, cell, rates } => NamedUpdate::SetMeter {
                meter: instance(meter),
                cell: self.named_cell(*meter, cell),
                rates: rates.as_ref().map(rates_words),
            },
            Update::SetMeterArray { meter, rates } => {
                NamedUpdate::SetMeterArray { meter: instance(meter), rates: rates.as_ref().map(rates_words) }
            }
            Update::SetCrc { crc, params } => NamedUpdate::SetCrc(self.crc_record(*crc, params)),
            Update::AddToValueSet { set, key } => {
                NamedUpdate::AddToValueSet { set: table(set), key: words(key) }
            }
            Update::RemoveFromValueSet { set, key } => {
                NamedUpdate::RemoveFromValueSet { set: table(set), key: words(key) }
            }
            Update::ClearValueSet(set) => NamedUpdate::ClearValueSet { set: table(set) },
            Update::CreateMulticastGroup(group) => NamedUpdate::CreateMulticastGroup { group: *group },
            Update::DestroyMulticastGroup(group) => NamedUpdate::DestroyMulticastGroup { group: *group },
            Update::CreateNode { replication_id, ports, lags } => {
                NamedUpdate::CreateNode { rid: *replication_id, ports: ports.clone(), lags: lags.clone() }
            }
            Update::UpdateNode { node, ports, lags } => {
                NamedUpdate::UpdateNode { node: *node, ports: ports.clone(), lags: lags.clone() }
            }
            Update::Associate { group, node } => NamedUpdate::Associate { group: *group, node: *node },
            Update::Dissociate { group, node } => NamedUpdate::Dissociate { group: *group, node: *node },
            Update::DestroyNode(node) => NamedUpdate::DestroyNode { node: *node },
            Update::SetLag { lag, ports } => NamedUpdate::SetLag { lag: *lag, ports: ports.clone() },
            Update::SetSession { session, to, bytes_max } => {
                let (port, group) = match to {
                    CloneDestination::Port(port) => (Some(*port), None),
                    CloneDestination::Group(group) => (None, Some(*group)),
                };
                let (replicas, class) = (None, None);
                NamedUpdate::SetSession(Session {
                    number: *session,
                    port,
                    group,
                    bytes: *bytes_max,
                    replicas,
                    class,
                })
            }
            Update::SetReplicas { session, replicas, class_of_service, bytes_max } => {
                NamedUpdate::SetSession(Session {
                    number: *session,
                    port: None,
                    group: None,
                    bytes: *bytes_max,
                    replicas: Some(pairs(replicas)),
                    class: (*class_of_service != 0).then_some(*class_of_service),
                })
            }
            Update::SetMulticastGroup { group, replicas } => {
                NamedUpdate::SetMulticastGroup { group: *group, replicas: replicas.as_deref().map(pairs) }
            }
            Update::SetGroup { profile, group, members } => {
                let members = members.iter().map(|Share { member, weight }| (*member, *weight)).collect();
                NamedUpdate::SetGroup { profile: instance(profile), group: *group, members }
            }
            Update::Note { of, note } => {
                NamedUpdate::Note { of: self.named_noted(of), note: note.as_deref().map(hex_text) }
            }
            Update::DeleteSession(session) => NamedUpdate::DeleteSession { number: *session },
            Update::Queue(QueueUpdate::Depth { packets, of }) => {
                NamedUpdate::SetQueueDepth { packets: *packets, of: *of }
            }
            Update::Queue(QueueUpdate::Rate { rate, of }) => {
                NamedUpdate::SetQueueRate { rate: rate.map(RateRecord::from), of: *of }
            }
            Update::Queue(QueueUpdate::Weight { weight, of }) => {
                NamedUpdate::SetQueueWeight { weight: *weight, of: *of }
            }
            Update::Queue(QueueUpdate::PortRate { rate, port }) => {
                NamedUpdate::SetPortRate { rate: rate.map(RateRecord::from), port: *port }
            }
            Update::Reset => NamedUpdate::Reset {},
        }
    }

    pub(crate) fn named_noted(&self, of: &Noted) -> NamedNoted {
        let table = |id: &TableId| self.table_name(*id).to_string();
        match of {
            Noted::Entry(id, handle) => NamedNoted::Entry { table: table(id), handle: *handle },
            Noted::Default(id) => NamedNoted::Default { table: table(id) },
            Noted::Group(id, group) => {
                NamedNoted::Group { profile: self.instance_name(*id).to_string(), group: *group }
            }
            Noted::MulticastGroup(group) => NamedNoted::MulticastGroup(*group),
            Noted::Session(session) => NamedNoted::Session(*session),
            Noted::Digest(name) => NamedNoted::Digest(name.to_string()),
            Noted::Own(name) => NamedNoted::Own(name.to_string()),
        }
    }

    /// Resolves a named update for this program.
    ///
    /// # Errors
    ///
    /// The program has no object of a name, or a key, value or action does not have the form that the program needs. Limits are checked
    /// when the update is applied.
    pub fn resolve(&self, named: &NamedUpdate) -> Result<Update> {
        self.resolve_with(named, &mut Names::for_one(self, true))
    }

    /// An object that can have a note.
    ///
    /// # Errors
    ///
    /// The program has no such table or action profile.
    pub(crate) fn resolve_noted(&self, of: &NamedNoted) -> Result<Noted> {
        resolve_noted(of, &mut Names::for_one(self, true))
    }

    /// An object that can have a note, in this program; `None` if the program lacks it.
    pub(crate) fn find_noted(&self, of: &NamedNoted) -> Option<Noted> {
        resolve_noted(of, &mut Names::for_one(self, false)).ok()
    }

    /// Like [`Self::resolve`], for a batch: each distinct name is looked up once, and only the first errors list similar names.
    pub fn resolve_all(&self, batch: &[NamedUpdate]) -> Vec<Result<Update>> {
        let mut names = Names::new(self, true);
        batch.iter().map(|update| self.resolve_with(update, &mut names)).collect()
    }

    pub(crate) fn resolve_with<'n>(
        &self,
        named: &'n NamedUpdate,
        names: &mut Names<'_, 'n>,
    ) -> Result<Update> {
        let of_profile = |names: &mut Names<'_, 'n>, name: &'n str, call: &'n Call| {
            let profile = names.profile(name)?;
            let act = self.profile_table(profile).and_then(|table| self.resolve_call(table, call, names));
            let action = act.and_then(|act| match act {
                Act::Action(action) => Ok((profile, action)),
                Act::Member(_) | Act::Group(_) => {
                    let message = "found a member or a group, expected an action: a member has an action";
                    Err(ControlError::new(message).field("action"))
                }
            });
            action.map_err(|error| error.entity(self.instance_name(profile)))
        };
        Ok(match named {
            NamedUpdate::Insert { table, key, priority, r#do } => {
                let id = names.table(table)?;
                let (key, priority) = self.resolve_key(id, key, *priority)?;
                Update::Insert { table: id, key, priority, act: self.resolve_act(id, r#do, names)? }
            }
            NamedUpdate::Modify { table, entry, r#do } => {
                let id = names.table(table)?;
                let entry = self.resolve_entry(id, entry)?;
                Update::Modify { table: id, entry, act: self.resolve_act(id, r#do, names)? }
            }
            NamedUpdate::Delete { table, entry } => {
                let id = names.table(table)?;
                Update::Delete { table: id, entry: self.resolve_entry(id, entry)? }
            }
            NamedUpdate::Clear { table } => Update::Clear(names.table(table)?),
            NamedUpdate::SetDefault { table, r#do } => {
                let id = names.table(table)?;
                Update::SetDefault { table: id, act: self.resolve_act(id, r#do, names)? }
            }
            NamedUpdate::ResetDefault { table } => Update::ResetDefault(names.table(table)?),
            NamedUpdate::SetTimeout { table, entry, timeout_ms } => {
                let id = names.table(table)?;
                let entry = self.resolve_entry(id, entry)?;
                Update::SetTimeout { table: id, entry, timeout_ms: *timeout_ms }
            }
            NamedUpdate::CreateMember { profile, r#do } => {
                let (profile, action) = of_profile(names, profile, r#do)?;
                Update::CreateMember { profile, action }
            }
            NamedUpdate::ModifyMember { profile, member, r#do } => {
                let (profile, action) = of_profile(names, profile, r#do)?;
                Update::ModifyMember { profile, member: *member, action }
            }
            NamedUpdate::DeleteMember { profile, member } => {
                Update::DeleteMember { profile: names.profile(profile)?, member: *member }
            }
            NamedUpdate::CreateGroup { profile } => Update::CreateGroup { profile: names.profile(profile)? },
            NamedUpdate::DeleteGroup { profile, group } => {
                Update::DeleteGroup { profile: names.profile(profile)?, group: *group }
            }
            NamedUpdate::AddToGroup { profile, group, member } => {
                let profile = names.profile(profile)?;
                Update::AddToGroup { profile, group: *group, member: *member }
            }
            NamedUpdate::RemoveFromGroup { profile, group, member } => {
                let profile = names.profile(profile)?;
                Update::RemoveFromGroup { profile, group: *group, member: *member }
            }
            NamedUpdate::WriteCounter { counter, cell, packets, bytes } => {
                let counter = names.counter(counter)?;
                let value = CounterValue { packets: *packets, bytes: *bytes };
                Update::WriteCounter { counter, cell: self.resolve_cell(counter, cell)?, value }
            }
            NamedUpdate::ResetCounter { counter } => Update::ResetCounter(names.counter(counter)?),
            NamedUpdate::WriteRegister { register, index, value } => {
                let register = names.register(register)?;
                let value = parse_value(value, self.register_cells(register)?.width).map_err(|why| {
                    ControlError::new(why).entity(self.instance_name(register)).field("value")
                })?;
                Update::WriteRegister { register, index: *index, value }
            }
            NamedUpdate::ResetRegister { register } => Update::ResetRegister(names.register(register)?),
            NamedUpdate::SetMeter { meter, cell, rates } => {
                let meter = names.meter(meter)?;
                let rates = self.resolve_rates(meter, rates.as_ref())?;
                Update::SetMeter { meter, cell: self.resolve_cell(meter, cell)?, rates }
            }
            NamedUpdate::SetMeterArray { meter, rates } => {
                let meter = names.meter(meter)?;
                Update::SetMeterArray { meter, rates: self.resolve_rates(meter, rates.as_ref())? }
            }
            NamedUpdate::SetCrc(crc) => Update::SetCrc {
                crc: names.crc(&crc.name)?,
                params: CrcParams {
                    width: crc.width,
                    poly: crc.polynomial,
                    init: crc.initial,
                    xor: crc.xor,
                    reflect_in: crc.reflect_in,
                    reflect_out: crc.reflect_out,
                },
            },
            NamedUpdate::AddToValueSet { set, key } => {
                let set = names.value_set(set)?;
                Update::AddToValueSet { set, key: self.matches(set, key)? }
            }
            NamedUpdate::RemoveFromValueSet { set, key } => {
                let set = names.value_set(set)?;
                Update::RemoveFromValueSet { set, key: self.matches(set, key)? }
            }
            NamedUpdate::ClearValueSet { set } => Update::ClearValueSet(names.value_set(set)?),
            NamedUpdate::CreateMulticastGroup { group } => Update::CreateMulticastGroup(*group),
            NamedUpdate::DestroyMulticastGroup { group } => Update::DestroyMulticastGroup(*group),
            NamedUpdate::CreateNode { rid, ports, lags } => {
                Update::CreateNode { replication_id: *rid, ports: ports.clone(), lags: lags.clone() }
            }
            NamedUpdate::UpdateNode { node, ports, lags } => {
                Update::UpdateNode { node: *node, ports: ports.clone(), lags: lags.clone() }
            }
            NamedUpdate::Associate { group, node } => Update::Associate { group: *group, node: *node },
            NamedUpdate::Dissociate { group, node } => Update::Dissociate { group: *group, node: *node },
            NamedUpdate::DestroyNode { node } => Update::DestroyNode(*node),
            NamedUpdate::SetLag { lag, ports } => Update::SetLag { lag: *lag, ports: ports.clone() },
            NamedUpdate::SetGroup { profile, group, members } => {
                let members =
                    members.iter().map(|(member, weight)| Share { member: *member, weight: *weight });
                let members = members.collect();
                Update::SetGroup { profile: names.profile(profile)?, group: *group, members }
            }
            NamedUpdate::SetMulticastGroup { group, replicas } => {
                Update::SetMulticastGroup { group: *group, replicas: replicas.as_deref().map(replicas_of) }
            }
            NamedUpdate::Note { of, note } => {
                let of = resolve_noted(of, names)?;
                let note = note.as_deref().map(hex_bytes).transpose();
                let note = note.map_err(|error| self.of_noted(error, &of))?.map(Vec::into_boxed_slice);
                Update::Note { of, note }
            }
            NamedUpdate::SetSession(Session {
                number,
                port: None,
                group: None,
                bytes,
                replicas: Some(replicas),
                class,
            }) => Update::SetReplicas {
                session: *number,
                replicas: replicas_of(replicas),
                class_of_service: class.unwrap_or(0),
                bytes_max: *bytes,
            },
            NamedUpdate::SetSession(Session { number, port, group, bytes, .. }) => {
                let to = match (port, group) {
                    (Some(port), None) => CloneDestination::Port(*port),
                    (None, Some(group)) => CloneDestination::Group(*group),
                    _ => {
                        let found = if port.is_some() { "both" } else { "neither" };
                        let message = format!(
                            "found {found} of `port` and `group` for session {number}, expected one of them"
                        );
                        let choices = ["port", "group"].into_iter();
                        return Err(ControlError::new(message).field("port").choices(choices));
                    }
                };
                Update::SetSession { session: *number, to, bytes_max: *bytes }
            }
            NamedUpdate::DeleteSession { number } => Update::DeleteSession(*number),
            NamedUpdate::SetQueueDepth { packets, of } => {
                Update::Queue(QueueUpdate::Depth { packets: *packets, of: *of })
            }
            NamedUpdate::SetQueueRate { rate, of } => {
                Update::Queue(QueueUpdate::Rate { rate: rate.map(Rate::from), of: *of })
            }
            NamedUpdate::SetQueueWeight { weight, of } => {
                Update::Queue(QueueUpdate::Weight { weight: *weight, of: *of })
            }
            NamedUpdate::SetPortRate { rate, port } => {
                Update::Queue(QueueUpdate::PortRate { rate: rate.map(Rate::from), port: *port })
            }
            NamedUpdate::Reset {} => Update::Reset,
        })
    }

    /// Names an action, member or group.
    pub(crate) fn call(&self, table: TableId, action: &Action) -> Call {
        if let Some(member) = action.as_member() {
            return Call { member: Some(member.into()), ..Call::default() };
        }
        if let Some(group) = action.as_group() {
            return Call { group: Some(group.into()), ..Call::default() };
        }
        let listed = self.actions_of(table).get(action.action as usize);
        let name = listed.map(|listed| listed.name.clone());
        Call { action: name, params: action.data.iter().map(number_word).collect(), ..Call::default() }
    }

    fn named_act(&self, table: TableId, act: &Act) -> Call {
        match act {
            Act::Action(action) => self.call(table, action),
            Act::Member(member) => Call { member: Some(*member), ..Call::default() },
            Act::Group(group) => Call { group: Some(*group), ..Call::default() },
        }
    }

    fn named_entry(&self, table: TableId, entry: &EntryRef) -> NamedEntry {
        match entry {
            EntryRef::Handle(of) => NamedEntry::Handle(*of),
            EntryRef::Key(of) => NamedEntry::Key {
                key: of.key.iter().map(key_word).collect(),
                priority: self.shape(table).needs_priority.then_some(of.priority),
            },
        }
    }

    fn named_cell(&self, of: InstanceId, cell: &Cell) -> NamedCell {
        match (cell, self.direct_table(of)) {
            (Cell::Entry(entry), Some(table)) => NamedCell::Entry(self.named_entry(table, entry)),
            (Cell::Index(index), _) => NamedCell::Index(*index),
            // The check refuses it.
            (Cell::Entry(_), None) => NamedCell::Index(0),
        }
    }

    pub(crate) fn crc_record(&self, crc: u32, params: &CrcParams) -> Crc {
        let CrcParams { width, poly, init, xor, reflect_in, reflect_out } = *params;
        let name = self.names(ObjectKind::Crc).name(crc).to_string();
        Crc { name, width, polynomial: poly, initial: init, xor, reflect_in, reflect_out }
    }

    /// Resolves a named action, member or group of a table.
    ///
    /// # Errors
    ///
    /// The table has no such action, or the action has other parameters, or a value does not fit.
    pub fn act(&self, table: TableId, call: &Call) -> Result<Act> {
        self.resolve_act(table, call, &mut Names::for_one(self, false))
    }

    /// Resolves a named action of a table. Errors name the table.
    pub(crate) fn resolve_act<'n>(
        &self,
        id: TableId,
        call: &'n Call,
        names: &mut Names<'_, 'n>,
    ) -> Result<Act> {
        let resolved = self.resolve_call(id, call, names);
        resolved.map_err(|error| error.entity(self.table_name(id)))
    }

    fn resolve_call<'n>(&self, id: TableId, call: &'n Call, names: &mut Names<'_, 'n>) -> Result<Act> {
        match call {
            Call { action: None, params, member: Some(member), group: None } if params.is_empty() => {
                Ok(Act::Member(*member))
            }
            Call { action: None, params, member: None, group: Some(group) } if params.is_empty() => {
                Ok(Act::Group(*group))
            }
            Call { action: Some(name), params, member: None, group: None } => {
                let index = names.action(id, name)?;
                let fields = &self.actions_of(id)[index as usize].params;
                if fields.len() != params.len() {
                    let (n, found) = (count(fields.len(), "parameter"), params.len());
                    let why = format!("the action `{name}` has {n}, found {found}");
                    return Err(ControlError::new(why).field("action"));
                }
                let data = fields.iter().zip(params).map(|(Param { name, width }, text)| {
                    parse_value(text, *width).map_err(|why| {
                        let message = format!("parameter {name}: {why}");
                        ControlError::new(message).field(format!("parameter {name}"))
                    })
                });
                Ok(Act::Action(Action { action: index, data: data.collect::<Result<_>>()? }))
            }
            _ => {
                let why = "expected an action with its parameters, a member or a group";
                Err(ControlError::new(why).field("action"))
            }
        }
    }

    /// The matches of a key, of which `words` are texts. The error names the field.
    ///
    /// # Errors
    ///
    /// The number of fields differs, or a word does not have the form that the match kind needs, or a value does not fit.
    pub fn matches(&self, id: TableId, words: &[String]) -> Result<Vec<KeyMatch>> {
        let fields = self.key(id);
        if words.len() != fields.len() {
            let (n, found) = (fields.len(), words.len());
            let why = format!("the key has {}, found {found}", count(n, "field"));
            return Err(ControlError::new(why).entity(self.table_name(id)).field("key"));
        }
        let fields = fields.iter().zip(words).map(|(field, text)| {
            key_match(field, text).map_err(|why| {
                let message = format!("key field {}: {why}", field.name);
                ControlError::new(message).entity(self.table_name(id)).field(format!("key {}", field.name))
            })
        });
        fields.collect()
    }

    pub(crate) fn resolve_key(
        &self,
        id: TableId,
        key: &[String],
        priority: Option<u32>,
    ) -> Result<(Vec<KeyMatch>, u32)> {
        let key = self.matches(id, key)?;
        let name = self.table_name(id);
        let wrong = |why: String| Err(ControlError::new(why).entity(name).field("priority"));
        match (self.shape(id).needs_priority, priority) {
            (true, Some(priority)) => Ok((key, priority)),
            (false, None | Some(0)) => Ok((key, 0)),
            (true, None) => wrong(format!(
                "found no priority, expected 0 to {PRIORITY_MAX}: entries of `{name}` have one, and the smallest wins"
            )),
            (false, Some(found)) => wrong(format!(
                "found priority {found}, expected none or 0: entries of `{name}` have no priority"
            )),
        }
    }

    pub(crate) fn resolve_entry(&self, id: TableId, entry: &NamedEntry) -> Result<EntryRef> {
        Ok(match entry {
            NamedEntry::Handle(of) => EntryRef::Handle(*of),
            NamedEntry::Key { key, priority } => {
                let (key, priority) = self.resolve_key(id, key, *priority)?;
                EntryRef::Key(Box::new(EntryKey { key, priority }))
            }
        })
    }

    fn resolve_rates(&self, meter: InstanceId, words: Option<&[String; 2]>) -> Result<Option<Rates>> {
        let rates = words.map(resolve_rates).transpose();
        rates.map_err(|error| error.entity(self.instance_name(meter)))
    }

    fn resolve_cell(&self, of: InstanceId, cell: &NamedCell) -> Result<Cell> {
        Ok(match (cell, self.direct_table(of)) {
            (NamedCell::Index(index), _) => Cell::Index(*index),
            (NamedCell::Entry(entry), Some(table)) => Cell::Entry(self.resolve_entry(table, entry)?),
            (NamedCell::Entry(_), None) => {
                return Err(self.not_direct(of));
            }
        })
    }
}

/// The names of a program. Each distinct name of a batch is looked up once.
pub(crate) struct Names<'s, 'n> {
    schema: &'s Schema,
    /// True if `known` keeps names: a single update does not use one twice.
    keeps: bool,
    /// The latest table and the latest other name, which the next update is likely to repeat.
    latest: [Option<(ObjectKind, &'n str, u32)>; 2],
    known: HashMap<(ObjectKind, &'n str), u32>,
    /// Number of further errors that list similar names.
    described: usize,
}

/// Maximum number of errors of a batch that list similar names: such a list takes about 10 KiB and 300 µs.
const DESCRIBED_MAX: usize = 20;

impl<'s, 'n> Names<'s, 'n> {
    fn new(schema: &'s Schema, keeps: bool) -> Names<'s, 'n> {
        Names { schema, keeps, latest: [None; 2], known: HashMap::new(), described: DESCRIBED_MAX }
    }

    /// The names for one update. With `described`, an error lists similar names.
    pub(crate) fn for_one(schema: &'s Schema, described: bool) -> Names<'s, 'n> {
        Names { described: usize::from(described), ..Names::new(schema, false) }
    }

    fn find(&mut self, kind: ObjectKind, name: &'n str) -> Result<u32> {
        let place = usize::from(kind != ObjectKind::Table);
        if let Some((latest, text, id)) = self.latest[place]
            && latest == kind
            && text == name
        {
            return Ok(id);
        }
        let found = match self.known.get(&(kind, name)) {
            Some(found) => *found,
            None => {
                let names = self.schema.names(kind);
                let found = match self.described {
                    0 => names.find_briefly(name),
                    _ => names.find(name).inspect_err(|_| self.described -= 1),
                }?;
                if self.keeps {
                    self.known.insert((kind, name), found);
                }
                found
            }
        };
        self.latest[place] = Some((kind, name, found));
        Ok(found)
    }

    fn crc(&mut self, name: &'n str) -> Result<u32> {
        self.find(ObjectKind::Crc, name)
    }

    pub(crate) fn table(&mut self, name: &'n str) -> Result<TableId> {
        self.find(ObjectKind::Table, name).map(TableId)
    }

    fn action(&mut self, table: TableId, name: &'n str) -> Result<u32> {
        self.find(ObjectKind::ActionOf(table), name)
    }

    pub(crate) fn counter(&mut self, name: &'n str) -> Result<InstanceId> {
        self.find(ObjectKind::Counter, name).map(InstanceId)
    }

    pub(crate) fn register(&mut self, name: &'n str) -> Result<InstanceId> {
        self.find(ObjectKind::Register, name).map(InstanceId)
    }

    pub(crate) fn meter(&mut self, name: &'n str) -> Result<InstanceId> {
        self.find(ObjectKind::Meter, name).map(InstanceId)
    }

    pub(crate) fn profile(&mut self, name: &'n str) -> Result<InstanceId> {
        self.find(ObjectKind::Profile, name).map(InstanceId)
    }

    pub(crate) fn value_set(&mut self, name: &'n str) -> Result<TableId> {
        self.find(ObjectKind::ValueSet, name).map(TableId)
    }
}

/// Copies as pairs of port and replication id.
pub(crate) fn pairs(replicas: &[Replica]) -> Vec<(u32, u32)> {
    replicas.iter().map(|replica| (replica.port, replica.replication_id)).collect()
}

fn replicas_of(pairs: &[(u32, u32)]) -> Vec<Replica> {
    pairs.iter().map(|(port, id)| Replica { port: *port, replication_id: *id }).collect()
}

pub(crate) fn rates_words(rates: &Rates) -> [String; 2] {
    rates.map(|rate| format!("{}:{}", rate.per_us, rate.burst))
}

pub(crate) fn resolve_rates(words: &[String; 2]) -> Result<Rates> {
    let wrong = || ControlError::new("expected rates such as 0.125:9000").field("rate");
    let [committed, peak] = words.each_ref().map(|text| parse_rate(text).ok_or_else(wrong));
    Ok([committed?, peak?])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Errors of a large batch take little: only the first ones list similar names.
    #[test]
    fn wrong_names_of_a_batch_take_little() {
        let program = p4jet_ir::text::parse(include_str!("../tests/common/sample.ir")).unwrap();
        let schema = Schema::new(&program);
        for same in [false, true] {
            let wrong = |i| NamedUpdate::Clear { table: format!("l{}", if same { 3 } else { i + 3 }) };
            let batch: Vec<_> =
                (0..1000).map(wrong).chain([NamedUpdate::Clear { table: "l2".into() }]).collect();
            let resolved = schema.resolve_all(&batch);
            assert!(resolved[1000].is_ok());
            let errors = resolved[..1000].iter().map(|resolved| resolved.as_ref().unwrap_err());
            for (i, error) in errors.enumerate() {
                assert_eq!(&*error.code, "UNKNOWN_NAME");
                assert!(error.message.starts_with("the table name `l"), "{error}");
                assert_eq!(error.choices.is_empty(), i >= DESCRIBED_MAX, "{i}: {error}");
            }
        }
    }

    /// Every kind of update survives reading, naming and writing, in the forms of the journal and of clients.
    #[test]
    fn updates_survive_their_names() {
        let program = p4jet_ir::text::parse(include_str!("../tests/common/sample.ir")).unwrap();
        let schema = Schema::new(&program);
        let mut kinds = BTreeSet::new();
        for line in include_str!("../tests/common/updates.json").lines() {
            let read: NamedUpdate = serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
            let update = schema.resolve(&read).unwrap_or_else(|e| panic!("{line}: {e}"));
            assert_eq!(serde_json::to_string(&schema.named(&update)).unwrap(), line);
            let twice = schema.resolve_all(&[read.clone(), read]);
            assert_eq!(twice, [Ok(update.clone()), Ok(update.clone())]);
            let mut written = Vec::new();
            schema.write_named(&update, &Made::default(), &mut (None, None), &mut written);
            assert_eq!(String::from_utf8(written).unwrap(), line);
            kinds.insert(line.split('"').nth(1).unwrap().to_string());
        }
        // All kinds.
        assert_eq!(kinds.len(), 39, "{kinds:?}");
        for of in [Ref::Handle(3), Ref::Made(7)] {
            let json = serde_json::to_string(&of).unwrap();
            assert_eq!(serde_json::from_str::<Ref>(&json).unwrap(), of, "{json}");
        }
    }
}
