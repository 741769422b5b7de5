//! Watch ports and backups: packets use only ports that are up.

use crate::common::*;
use UpdateType::{Insert, Modify};
use p4jet_control::{ControlError, PortStats};
use p4jet_p4info::proto::v1::{
    self, ActionProfileAction, ActionProfileActionSet, ActionProfileGroup, ActionProfileMember,
    BackupReplica, CloneSessionEntry, EntityKind, GroupMember, MulticastGroupEntry,
    PacketReplicationEngineEntry, PortKind, Replica, ReplicationType, TableAction, TableActionType,
    UpdateType, WatchKind,
};
use p4jet_p4runtime::links::follow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A host with ports that go up and down.
#[derive(Default)]
struct Ports(Mutex<BTreeMap<u32, bool>>);

impl Around for Ports {
    fn ports(&self) -> Vec<PortStats> {
        let info = |(number, up): (&u32, &bool)| PortStats {
            port: *number,
            spec: "test".to_string(),
            up: *up,
            ..PortStats::default()
        };
        self.0.lock().unwrap().iter().map(info).collect()
    }

    fn hold_packets(&self, change: &mut dyn FnMut()) -> Result<(), ControlError> {
        // Workers that hold packets do not answer.
        let ports = self.0.try_lock();
        change();
        drop(ports);
        Ok(())
    }
}

/// A switch with the ports 1 to 3, which are up.
fn fixture() -> (Fixture, Arc<Ports>) {
    let f = Fixture::new();
    let ports = Arc::new(Ports(Mutex::new((1..4).map(|port| (port, true)).collect())));
    (f.hosted(&ports), ports)
}

/// Changes a port and notifies the server.
fn set_port(f: &Fixture, ports: &Ports, port: u32, up: bool) {
    ports.0.lock().unwrap().insert(port, up);
    assert_eq!(follow(&f.switch, Some(port)).unwrap(), None);
}

/// How many of 12 packets choose each port.
fn chosen(f: &Fixture) -> [usize; 4] {
    let control = f.switch.control();
    let table = control.switch().table(control.schema().table("spread").unwrap());
    let (_, entry) = table.entries().next().unwrap();
    let mut chosen = [0; 4];
    for selector in 0..12 {
        if let Some(action) = table.resolve(&entry.action, selector).action {
            chosen[usize::try_from(&action.data[0]).unwrap()] += 1;
        }
    }
    chosen
}

fn act(of: TableActionType) -> Option<TableAction> {
    Some(TableAction { r#type: Some(of) })
}

/// Inserts the members 1 to 3, which forward to the ports of their numbers.
fn insert_members(f: &Fixture, profile: u32) {
    for id in 1..4 {
        let action = Some(f.action("forward", &[id.into()]));
        let member = ActionProfileMember { action_profile_id: profile, member_id: id, action };
        assert_eq!(f.code(Insert, EntityKind::ActionProfileMember(member)), OK);
    }
}

#[test]
fn ap_8_members_follow_their_watch_ports() {
    let (f, ports) = fixture();
    let profile = f.profile("paths");
    insert_members(&f, profile);
    let member = |id: u32, weight, watch_kind| GroupMember { member_id: id, weight, watch_kind };
    let group = ActionProfileGroup {
        action_profile_id: profile,
        group_id: 7,
        members: vec![
            member(1, 1, Some(WatchKind::WatchPort(bytes(1)))),
            // As before 1.3.
            member(2, 2, Some(WatchKind::Watch(2))),
            member(3, 1, Some(WatchKind::WatchPort(Default::default()))),
        ],
        max_size: 0,
    };
    let entity = || EntityKind::ActionProfileGroup(group.clone());
    for wrong in
        [WatchKind::WatchPort(bytes(9)), WatchKind::Watch(-1), WatchKind::WatchPort(vec![1; 9].into())]
    {
        let mut group = group.clone();
        group.members[0].watch_kind = Some(wrong);
        let error = f.update(Insert, EntityKind::ActionProfileGroup(group));
        assert_eq!(error.canonical_code, INVALID, "{error:?}");
        assert!(error.message.ends_with("expected a port of the switch: 1, 2, 3"), "{error:?}");
    }
    assert_eq!(f.code(Insert, entity()), OK);
    assert_eq!(
        f.insert(f.entry("spread", vec![exact(1, 1)], act(TableActionType::ActionProfileGroupId(7)))),
        OK
    );
    let read = || f.read(EntityKind::ActionProfileGroup(ActionProfileGroup::default()));
    assert_eq!(chosen(&f), [0, 3, 6, 3]);
    set_port(&f, &ports, 2, false);
    assert_eq!(chosen(&f), [0, 6, 0, 6]);
    // Reads return the same as before.
    assert_eq!(read(), [entity()]);
    set_port(&f, &ports, 1, false);
    assert_eq!(chosen(&f), [0, 0, 0, 12]);
    set_port(&f, &ports, 2, true);
    assert_eq!(chosen(&f), [0, 0, 8, 4]);
    // A Write knows which ports are up, also while packets are held.
    let update = update(Modify, entity());
    assert_eq!(f.write(vec![update], v1::Atomicity::DataplaneAtomic).errors, None);
    assert_eq!(chosen(&f), [0, 0, 8, 4]);
    // AP-9: no member is left.
    let mut alone = group.clone();
    alone.members.truncate(1);
    assert_eq!(f.code(Modify, EntityKind::ActionProfileGroup(alone)), OK);
    assert_eq!(chosen(&f), [0; 4]);
    set_port(&f, &ports, 1, true);
    assert_eq!(chosen(&f), [0, 12, 0, 0]);
}

/// Weights count while the watch ports of their members are down.
#[test]
fn ap_11_sizes_count_members_whose_watch_ports_are_down() {
    let (f, ports) = fixture();
    let profile = f.profile("paths");
    insert_members(&f, profile);
    let group = |group_id, weights: [i32; 2]| {
        let member = |(id, weight): (u32, i32)| {
            let watch_kind = Some(WatchKind::WatchPort(bytes(id.into())));
            GroupMember { member_id: id, weight, watch_kind }
        };
        let members = [1, 2].into_iter().zip(weights).map(member).collect();
        let group = ActionProfileGroup { action_profile_id: profile, group_id, members, max_size: 0 };
        EntityKind::ActionProfileGroup(group)
    };
    assert_eq!(f.code(Insert, group(1, [5, 1])), OK);
    set_port(&f, &ports, 1, false);
    assert_eq!(f.code(Insert, group(2, [1, 5])), OK);
    let error = f.update(Insert, group(3, [2, 3]));
    let why = "all groups together would have 17 weights, but its size is 16";
    assert!(error.message.contains(why), "{error:?}");
    assert_eq!(f.code(Insert, group(3, [1, 3])), OK);
    assert_eq!(f.code(Modify, group(3, [2, 3])), FULL);
    assert_eq!(f.code(Modify, group(1, [4, 1])), OK);
    assert_eq!(f.code(Modify, group(3, [2, 3])), OK);
}

#[test]
fn os_2_one_shots_have_watch_ports() {
    let (f, ports) = fixture();
    let action = |port: u32| ActionProfileAction {
        action: Some(f.action("forward", &[port.into()])),
        weight: 1,
        watch_kind: Some(WatchKind::WatchPort(bytes(port.into()))),
    };
    let set = ActionProfileActionSet {
        action_profile_actions: vec![action(1), action(2)],
        // OS-9: what selectors do anyway.
        action_selection_mode: v1::ActionSelectionMode::Hash as i32,
        ..Default::default()
    };
    let entry = f.entry("spread", vec![exact(1, 1)], act(TableActionType::ActionProfileActionSet(set)));
    assert_eq!(f.insert(entry.clone()), OK);
    assert_eq!(chosen(&f), [0, 6, 6, 0]);
    set_port(&f, &ports, 1, false);
    assert_eq!(chosen(&f), [0, 0, 12, 0]);
    assert_eq!(f.all("spread"), std::slice::from_ref(&entry));
    assert_eq!(f.delete(entry), OK);
    set_port(&f, &ports, 1, true);
}

#[test]
fn mc_9_backups_replace_ports_that_are_down() {
    let (f, ports) = fixture();
    let backup = |port: u32, instance| BackupReplica { port: bytes(port.into()), instance };
    let replica = |port: u32, instance, backup_replicas: Vec<BackupReplica>| Replica {
        port_kind: Some(PortKind::Port(bytes(port.into()))),
        instance,
        backup_replicas,
    };
    let replicas = vec![replica(1, 1, vec![backup(2, 5), backup(3, 6)]), replica(9, 2, Vec::new())];
    let pre =
        |of| EntityKind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: Some(of) });
    let group = |replicas: Vec<Replica>| {
        pre(ReplicationType::MulticastGroupEntry(MulticastGroupEntry {
            multicast_group_id: 4,
            replicas,
            metadata: Default::default(),
        }))
    };
    let session = pre(ReplicationType::CloneSessionEntry(CloneSessionEntry {
        session_id: 8,
        replicas: replicas.clone(),
        packet_length_bytes: 99,
        ..Default::default()
    }));
    assert_eq!(f.code(Insert, group(replicas.clone())), OK);
    assert_eq!(f.code(Insert, session.clone()), OK);
    let copies = || {
        let destinations = f.switch.control().switch().state().destinations();
        let (group, session) = (destinations.groups.get(4).unwrap(), destinations.sessions.get(8).unwrap());
        assert!(group.replicas().eq(session.replicas.iter().copied()));
        assert_eq!(session.bytes_max, Some(99));
        group.replicas().map(|r| (r.port, r.replication_id)).collect::<Vec<_>>()
    };
    assert_eq!(copies(), [(1, 1), (9, 2)]);
    set_port(&f, &ports, 1, false);
    assert_eq!(copies(), [(2, 5), (9, 2)]);
    set_port(&f, &ports, 2, false);
    assert_eq!(copies(), [(3, 6), (9, 2)]);
    set_port(&f, &ports, 3, false);
    assert_eq!(copies(), [(9, 2)]);
    // The preferred port takes over again.
    set_port(&f, &ports, 2, true);
    assert_eq!(copies(), [(2, 5), (9, 2)]);
    set_port(&f, &ports, 1, true);
    assert_eq!(copies(), [(1, 1), (9, 2)]);
    assert_eq!(f.read(session.clone()), [session]);
    assert_eq!(f.read(group(Vec::new())), [group(replicas)]);
    // MC-3.
    for wrong in [
        vec![replica(1, 1, vec![backup(2, 5), backup(2, 5)])],
        vec![replica(1, 1, vec![backup(1, 5)])],
        vec![replica(1, 1, vec![backup(2, 5)]), replica(2, 5, Vec::new())],
        vec![replica(1, 1, vec![BackupReplica::default()])],
    ] {
        assert_eq!(f.code(Modify, group(wrong)), INVALID);
    }
}
