//! Makes the records of objects, for dumps, state files and reads by name.

use crate::call::Call;
use crate::control::Control;
use crate::named::{RateRecord, Session, pairs};
use crate::record::{
    Cells, Group, GroupNode, Member, OneQueue, PortRecord, QueueRecord, Record, Register, TableDefault,
    TableEntry, ValueSet,
};
use crate::schema::{Schema, is_const_entry};
use crate::value::key_word;
use crate::write::is_plain;
use p4jet_dataplane::{PortSettings, QueueConfig, QueueSettings};
use p4jet_externs::Node;
use p4jet_ir::{InstanceId, TableId};
use p4jet_tables::{Action, KeyMatch};
use std::collections::BTreeMap;

impl Control {
    pub(crate) fn entry_record(
        &self,
        table: TableId,
        handle: u32,
        key: &[KeyMatch],
        priority: u32,
        action: &Action,
        timeout_ms: Option<u32>,
    ) -> Record {
        let declared = &self.program().tables[table.index()];
        Record::Entry(TableEntry {
            table: declared.name.clone(),
            handle,
            key: key.iter().map(key_word).collect(),
            priority: self.schema.shape(table).needs_priority.then_some(priority),
            r#do: self.schema.call(table, action),
            timeout_ms,
            is_const: declared.const_entries || is_const_entry(declared, handle),
        })
    }
}

impl Schema {
    pub(crate) fn default_record(&self, table: TableId, action: &Action) -> Record {
        let call = self.call(table, action);
        Record::Default(TableDefault { table: self.table_name(table).to_string(), r#do: call })
    }

    pub(crate) fn member_record(&self, profile: InstanceId, handle: u32, action: &Action) -> Record {
        let call = self.profile_table(profile).map(|table| self.call(table, action));
        let call = call.unwrap_or_else(|_| Call::default());
        Record::Member(Member { profile: self.name_of(profile), handle, r#do: call })
    }

    /// The record of a group. `members` are handles, each with its weight.
    pub(crate) fn group_record(
        &self,
        profile: InstanceId,
        handle: u32,
        members: &[(u32, u32)],
        weighted: bool,
    ) -> Record {
        let weights = weighted.then(|| members.iter().map(|(_, weight)| *weight).collect());
        let members = members.iter().map(|(member, _)| *member).collect();
        Record::Group(Group { profile: self.name_of(profile), handle, members, weights })
    }

    pub(crate) fn value_set_record(&self, set: TableId, values: Vec<Vec<String>>) -> Record {
        let (name, key) = (self.table_name(set).to_string(), self.key(set).to_vec());
        Record::ValueSet(ValueSet { name, key, values })
    }

    pub(crate) fn register_record(&self, register: InstanceId, cells: BTreeMap<u32, String>) -> Record {
        let width = self.register_cells(register).map_or(0, |cells| cells.width);
        Record::Register(Register { name: self.name_of(register), width, cells })
    }

    pub(crate) fn counter_record(&self, counter: InstanceId, cells: BTreeMap<u32, (u64, u64)>) -> Record {
        Record::Counter(Cells { name: self.name_of(counter), cells })
    }

    pub(crate) fn meter_record(&self, meter: InstanceId, cells: BTreeMap<u32, [String; 2]>) -> Record {
        Record::Meter(Cells { name: self.name_of(meter), cells })
    }

    fn name_of(&self, instance: InstanceId) -> String {
        self.instance_name(instance).to_string()
    }
}

pub(crate) fn session_record(number: u32, session: &p4jet_externs::Session) -> Record {
    let (group, bytes) = (session.group, session.bytes_max);
    if is_plain(session) {
        let port = session.replicas.first().map(|replica| replica.port);
        return Record::Session(Session { number, port, group, bytes, replicas: None, class: None });
    }
    let replicas = pairs(&session.replicas);
    let class = Some(session.class_of_service).filter(|class| *class != 0);
    Record::Session(Session { number, port: None, group: None, bytes, replicas: Some(replicas), class })
}

impl From<Node> for GroupNode {
    fn from(node: Node) -> GroupNode {
        GroupNode { rid: node.replication_id, ports: node.ports, lags: node.lags }
    }
}

impl From<&PortSettings> for PortRecord {
    fn from(port: &PortSettings) -> PortRecord {
        let queue = |queue: &QueueSettings| OneQueue {
            depth: queue.depth,
            rate: queue.rate.map(RateRecord::from),
            weight: queue.weight,
        };
        PortRecord { queues: port.queues.iter().map(queue).collect(), rate: port.rate.map(RateRecord::from) }
    }
}

impl From<&QueueConfig> for QueueRecord {
    fn from(queues: &QueueConfig) -> QueueRecord {
        let ports = queues.ports.iter().map(|(port, settings)| (*port, settings.into())).collect();
        QueueRecord { per_port: queues.queues_per_port, others: (&queues.others).into(), ports }
    }
}
