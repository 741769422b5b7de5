//! Digests: the configurations of clients, and the lists in which digests are sent.

use crate::pipeline::{Pipeline, Wanted, id_of};
use crate::refusal::{Code, Reason, Refusal, Result};
use crate::session::RoleView;
use crate::write::Writer;
use bytes::Bytes;
use num_bigint::BigUint;
use p4jet_control::{Control, Noted};
use p4jet_ir::{InstanceId, InstanceKind};
use p4jet_p4info::proto::v1::{self, P4Data, UpdateType};
use prost::Message;
use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

/// Maximum size of a list in bytes.
const LIST_BYTES_MAX: usize = 1 << 20;
/// Maximum number of digests of each kind that wait for an acknowledgement. Later ones may be sent again.
const REMEMBERED_MAX: usize = 1 << 18;

/// The refusal of a digest that no client has configured.
fn no_entry(name: &str) -> Refusal {
    let why = format!("`{name}` has no DigestEntry: INSERT it first");
    Refusal::new(Code::NotFound, Reason::Absent, why)
}

impl Pipeline {
    /// Changes the configuration of a digest.
    pub(crate) fn write_digest(
        &self,
        role: &RoleView,
        kind: UpdateType,
        entry: &v1::DigestEntry,
    ) -> Result<()> {
        let name = self.digest(entry.digest_id)?;
        role.check(entry.digest_id, name, None)?;
        let config = entry.config.clone().unwrap_or_default();
        let numbers = [
            ("max_timeout_ns", config.max_timeout_ns),
            ("max_list_size", config.max_list_size.into()),
            ("ack_timeout_ns", config.ack_timeout_ns),
        ];
        if kind != UpdateType::Delete
            && let Some((field, found)) = numbers.into_iter().find(|(_, number)| *number < 0)
        {
            let why = format!("`{name}`: `config.{field}` is {found}, expected 0 or more");
            return Err(Refusal::invalid(Reason::Form, why));
        }
        let mut wanted = self.wanted();
        let is_there = wanted.contains_key(&entry.digest_id);
        match (kind, is_there) {
            (UpdateType::Insert, true) => Err(Refusal::new(
                Code::AlreadyExists,
                Reason::Exists,
                format!("`{name}` has a DigestEntry already"),
            )),
            (UpdateType::Modify | UpdateType::Delete, false) => Err(no_entry(name)),
            (UpdateType::Delete, true) => {
                wanted.remove(&entry.digest_id);
                Ok(())
            }
            _ => {
                wanted.insert(entry.digest_id, config);
                Ok(())
            }
        }
    }

    /// All configured digests, or the one with this id.
    pub(crate) fn read_digests(&self, role: &RoleView, id: u32) -> Result<Vec<v1::DigestEntry>> {
        if id != 0 {
            let name = self.digest(id)?;
            let config = self.wanted().get(&id).filter(|_| role.covers(id, None)).cloned();
            let config = Some(config.ok_or_else(|| no_entry(name))?);
            return Ok(vec![v1::DigestEntry { digest_id: id, config }]);
        }
        let wanted = self.wanted();
        let visible = wanted.iter().filter(|(id, _)| role.covers(**id, None));
        let entry = |(id, config): (&u32, &v1::DigestConfig)| v1::DigestEntry {
            digest_id: *id,
            config: Some(config.clone()),
        };
        Ok(visible.map(entry).collect())
    }

    /// The id of a digest of the program, and a message of it.
    pub(crate) fn show_digest(
        &self,
        control: &Control,
        instance: InstanceId,
        values: &[BigUint],
    ) -> Option<(u32, P4Data)> {
        let sender = control.program().instances.get(instance.index())?;
        let InstanceKind::Digest { fields } = &sender.kind else { return None };
        let id = self.digests.iter().find(|(_, name)| **name == sender.name).map(|(id, _)| *id)?;
        let declared = self.p4info().digests.iter().find(|digest| id_of(&digest.preamble) == id)?;
        let bits = fields
            .iter()
            .zip(values)
            .fold(BigUint::default(), |bits, ((_, width), value)| (bits << *width) | value);
        let spec = declared.type_spec.as_ref()?;
        let data = self.with_types(control, false, |types| crate::data::show(spec, types, &bits)).ok()?;
        Some((id, data))
    }
}

impl Writer<'_> {
    /// Applies an update of a digest.
    pub(crate) fn digest_entry(&mut self, kind: UpdateType, entry: &v1::DigestEntry) -> Result<()> {
        self.pipeline.write_digest(self.role, kind, entry)?;
        let config = (kind != UpdateType::Delete).then(|| entry.config.clone().unwrap_or_default());
        let kept = v1::DigestEntry { digest_id: 0, config };
        let name = self.pipeline.digest(entry.digest_id)?;
        self.set_note(Noted::Digest(name.into()), &kept)
    }
}

/// The lists of all digests.
#[derive(Debug, Default)]
pub(crate) struct Lists(HashMap<u32, List>);

/// The list of a digest that is being filled, and the lists sent before.
#[derive(Debug, Default)]
struct List {
    data: Vec<P4Data>,
    /// The encoded messages of the list.
    distinct: HashSet<Bytes>,
    bytes: usize,
    since: Option<Instant>,
    /// The number of the last list.
    id: u64,
    /// Lists that were sent and not acknowledged: number, expiry, messages.
    sent: VecDeque<(u64, Instant, HashSet<Bytes>)>,
    remembered: usize,
}

impl Lists {
    /// Adds a message. Returns the list if it is full now.
    pub fn take(
        &mut self,
        id: u32,
        config: &v1::DigestConfig,
        data: P4Data,
        now: Instant,
    ) -> Option<v1::DigestList> {
        let list = self.0.entry(id).or_default();
        list.forget(now);
        let encoded: Bytes = data.encode_to_vec().into();
        if list.distinct.contains(&encoded) || list.sent.iter().any(|(.., sent)| sent.contains(&encoded)) {
            return None;
        }
        list.bytes += encoded.len() + 8;
        list.since.get_or_insert(now);
        list.data.push(data);
        list.distinct.insert(encoded);
        let is_full = config.max_timeout_ns == 0
            || (config.max_list_size > 0 && list.data.len() >= config.max_list_size as usize)
            || list.bytes >= LIST_BYTES_MAX;
        is_full.then(|| list.close(id, config, now))
    }

    /// The lists that are due, and the time of the next one.
    pub fn due(&mut self, wanted: &Wanted, now: Instant) -> (Vec<v1::DigestList>, Option<Instant>) {
        self.0.retain(|id, _| wanted.contains_key(id));
        let (mut lists, mut next) = (Vec::new(), None);
        for (id, list) in &mut self.0 {
            let (Some(since), Some(config)) = (list.since, wanted.get(id)) else { continue };
            let at = since + Duration::from_nanos(config.max_timeout_ns.unsigned_abs());
            if at <= now {
                lists.push(list.close(*id, config, now));
            } else {
                next = Some(next.map_or(at, |next: Instant| next.min(at)));
            }
        }
        (lists, next)
    }

    /// Acknowledges a list.
    pub fn acknowledge(&mut self, id: u32, list_id: u64) {
        let Some(list) = self.0.get_mut(&id) else { return };
        if let Some(at) = list.sent.iter().position(|(sent, ..)| *sent == list_id)
            && let Some((.., messages)) = list.sent.remove(at)
        {
            list.remembered -= messages.len();
        }
    }

    /// Forgets all messages but keeps the numbering of lists.
    pub fn forget(&mut self) {
        for list in self.0.values_mut() {
            *list = List { id: list.id, ..List::default() };
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl List {
    /// Forgets lists whose acknowledgement is overdue.
    fn forget(&mut self, now: Instant) {
        while let Some((_, until, messages)) = self.sent.front()
            && (*until <= now || self.remembered > REMEMBERED_MAX)
        {
            self.remembered -= messages.len();
            self.sent.pop_front();
        }
    }

    fn close(&mut self, id: u32, config: &v1::DigestConfig, now: Instant) -> v1::DigestList {
        self.id += 1;
        let messages = std::mem::take(&mut self.distinct);
        if config.ack_timeout_ns > 0 {
            self.remembered += messages.len();
            let until = now + Duration::from_nanos(config.ack_timeout_ns.unsigned_abs());
            self.sent.push_back((self.id, until, messages));
        }
        (self.bytes, self.since) = (0, None);
        v1::DigestList {
            digest_id: id,
            list_id: self.id,
            data: std::mem::take(&mut self.data),
            timestamp: crate::server::now_ns(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(value: u8) -> P4Data {
        P4Data { data: Some(v1::DataValue::Bitstring(Bytes::copy_from_slice(&[value]))) }
    }

    fn config(max_timeout_ns: i64, max_list_size: i32, ack_timeout_ns: i64) -> v1::DigestConfig {
        v1::DigestConfig { max_timeout_ns, max_list_size, ack_timeout_ns }
    }

    #[test]
    fn dg_2_lists_are_closed_when_full_or_old() {
        let (mut lists, now) = (Lists::default(), Instant::now());
        let wanted =
            Wanted::from([(1, config(1_000_000, 3, 0)), (2, config(0, 100, 0)), (3, config(10, 1, 0))]);
        let mut take = |id, value| lists.take(id, &wanted[&id], data(value), now).map(|list| list.data.len());
        assert_eq!([take(1, 1), take(1, 2), take(1, 3), take(1, 4)], [None, None, Some(3), None]);
        assert_eq!([take(2, 1), take(2, 2), take(3, 1)], [Some(1); 3]);
        let (due, next) = lists.due(&wanted, now);
        assert_eq!((due.len(), next), (0, Some(now + Duration::from_millis(1))));
        let (due, next) = lists.due(&wanted, now + Duration::from_millis(1));
        // DG-4.
        assert_eq!((due[0].data.len(), due[0].list_id, next), (1, 2, None));
    }

    #[test]
    fn dg_3_unacknowledged_digests_are_not_sent_again() {
        let (mut lists, now) = (Lists::default(), Instant::now());
        let config = config(0, 1, 1_000_000);
        let take =
            |lists: &mut Lists, value, at| lists.take(1, &config, data(value), at).map(|list| list.list_id);
        assert_eq!(take(&mut lists, 7, now), Some(1));
        assert_eq!(take(&mut lists, 7, now), None);
        assert_eq!(take(&mut lists, 8, now), Some(2));
        lists.acknowledge(1, 1);
        lists.acknowledge(1, 99);
        assert_eq!(take(&mut lists, 7, now), Some(3));
        assert_eq!(take(&mut lists, 8, now), None);
        assert_eq!(take(&mut lists, 8, now + Duration::from_millis(1)), Some(4));
        // DG-5: the next primary gets everything.
        lists.forget();
        assert_eq!(take(&mut lists, 7, now), Some(5));
    }

    #[test]
    fn memory_of_digests_is_bounded() {
        let (mut lists, now) = (Lists::default(), Instant::now());
        let config = config(1_000_000, 0, i64::MAX);
        let mut largest = 0;
        for value in 0..2_000_000u32 {
            let data = v1::DataValue::Bitstring(Bytes::copy_from_slice(&value.to_be_bytes()));
            lists.take(1, &config, P4Data { data: Some(data) }, now);
            let list = &lists.0[&1];
            largest = largest.max(list.remembered + list.data.len());
        }
        assert!(largest < 2 * REMEMBERED_MAX, "{largest}");
    }
}
