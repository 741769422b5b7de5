//! A refused batch leaves no trace.

use crate::common;

use crate::common::{control, set_up};
use p4jet_control::{
    Act, Atomicity, Cell, CloneDestination, Control, EntryRef, ObjectKind, Queue, QueueUpdate, Ref,
    SharedControl, Update,
};
use p4jet_dataplane::Rate;
use p4jet_externs::{CounterValue, CrcParams};
use p4jet_ir::{InstanceId, TableId};
use p4jet_tables::{Action, EntryHandle, KeyMatch};
use std::collections::BTreeSet;

/// Everything that is set, with the handles and generations of parser value sets.
fn dump(control: &Control) -> String {
    let sets = control.schema().names(ObjectKind::ValueSet).sorted().map(TableId);
    let sets = sets.map(|set| {
        let table = control.switch().table(set);
        (table.entries().collect::<Vec<_>>(), table.next_generations().collect::<Vec<_>>())
    });
    format!("{}{:?}", control.dump(true), sets.collect::<Vec<_>>())
}

/// Random updates, most of which the sample program allows.
struct Random<'c>(u64, &'c Control);

impl Random<'_> {
    fn below(&mut self, n: u32) -> u32 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 40) % u64::from(n)) as u32
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u32) as usize]
    }

    fn ports(&mut self) -> BTreeSet<u32> {
        (0..self.below(3)).map(|_| self.below(4)).collect()
    }

    fn table(&mut self) -> TableId {
        let name = self.of(&["l2", "ipv4_lpm", "acl", "next_hop", "route", "near"]);
        self.1.schema().table(name).unwrap()
    }

    fn set(&mut self) -> TableId {
        let name = self.of(&["value_set", "pairs", "masked"]);
        self.1.schema().value_set(name).unwrap()
    }

    fn profile(&mut self) -> InstanceId {
        let name = self.of(&["hops", "ecmp", "shared"]);
        self.1.schema().profile(name).unwrap()
    }

    fn key(&mut self, table: TableId) -> Vec<KeyMatch> {
        use p4jet_ir::MatchKind::*;
        let kinds: Vec<_> = self.1.program().tables[table.index()].keys.iter().map(|key| key.kind).collect();
        let field = |kind| {
            let value = self.below(3);
            match kind {
                Exact => KeyMatch::Exact(value.into()),
                Lpm => KeyMatch::Lpm { value: (value << 24).into(), prefix_len: 8 },
                Ternary => KeyMatch::Ternary { value: value.into(), mask: 7u32.into() },
                Range => KeyMatch::Range { lo: value.into(), hi: 9u32.into() },
                Optional => KeyMatch::Optional((value > 0).then(|| value.into())),
            }
        };
        kinds.into_iter().map(field).collect()
    }

    /// The handle of some entry, or of none.
    fn entry(&mut self, table: TableId) -> EntryRef {
        let handles: Vec<_> = self.1.switch().table(table).entries().map(|(handle, _)| handle.0).collect();
        match handles.is_empty() {
            true => self.below(4).into(),
            false => self.of(&handles).into(),
        }
    }

    fn action(&mut self, table: TableId) -> Action {
        let program = self.1.program();
        let listed = &program.tables[table.index()].actions;
        let action = self.below(listed.len() as u32);
        let params = &program.actions[listed[action as usize].action.index()].params;
        Action { action, data: params.iter().map(|_| self.below(9).into()).collect() }
    }

    fn act(&mut self, table: TableId) -> Act {
        match self.1.program().tables[table.index()].profile {
            None => Act::Action(self.action(table)),
            Some(_) if self.below(2) == 0 => Act::Member(self.below(3).into()),
            Some(_) => Act::Group(self.below(2).into()),
        }
    }

    fn cell(&mut self, instance: InstanceId) -> Cell {
        match self.1.schema().direct_table(instance) {
            Some(table) => Cell::Entry(self.entry(table)),
            None => Cell::Index(self.below(4)),
        }
    }

    fn queue(&mut self) -> QueueUpdate {
        let port = (self.below(4) > 0).then(|| self.below(3));
        let of = Queue { port, queue: (self.below(2) > 0).then(|| self.below(8) as usize) };
        let rate = self.of(&[None, Some(Rate::Packets(5)), Some(Rate::Bits(7))]);
        match self.below(4) {
            0 => QueueUpdate::Depth { packets: self.below(9), of },
            1 => QueueUpdate::Rate { rate, of },
            2 => QueueUpdate::Weight { weight: self.below(3), of },
            _ => QueueUpdate::PortRate { rate, port },
        }
    }

    fn update(&mut self) -> Update {
        let schema = self.1.schema();
        let (table, set, profile) = (self.table(), self.set(), self.profile());
        let rates = self
            .of(&[None, Some([1.0, 2.0])])
            .map(|rates| rates.map(|per_us| p4jet_externs::Rate { per_us, burst: 9 }));
        let member = Ref::Handle(self.below(3));
        let (group, node) = (Ref::Handle(self.below(2)), Ref::Handle(self.below(4)));
        let multicast = 1 + self.below(3);
        let counter = schema.counter(self.of(&["seen", "hits"])).unwrap();
        let register = schema.register(self.of(&["cells", "wide"])).unwrap();
        let meter = schema.meter(self.of(&["ingress.police", "color"])).unwrap();
        let direct = schema.table("l2").unwrap();
        match self.below(44) {
            0..=5 => {
                let priority = if schema.shape(table).needs_priority { self.below(3) } else { 0 };
                Update::Insert { table, key: self.key(table), priority, act: self.act(table) }
            }
            6 => Update::Modify { table, entry: self.entry(table), act: self.act(table) },
            7..=9 => Update::Delete { table, entry: self.entry(table) },
            10 => Update::Clear(table),
            11 => Update::SetDefault { table, act: self.act(table) },
            12 => Update::ResetDefault(table),
            13 => Update::SetTimeout {
                table: direct,
                entry: self.entry(direct),
                timeout_ms: self.below(3) * 5000,
            },
            14 | 15 => {
                let action = self.action(schema.profile_table(profile).unwrap());
                Update::CreateMember { profile, action }
            }
            16 => {
                let action = self.action(schema.profile_table(profile).unwrap());
                Update::ModifyMember { profile, member, action }
            }
            17 => Update::DeleteMember { profile, member },
            18 => Update::CreateGroup { profile },
            19 => Update::DeleteGroup { profile, group },
            20 | 21 => Update::AddToGroup { profile, group, member },
            22 => Update::RemoveFromGroup { profile, group, member },
            23 => {
                let value = CounterValue { packets: self.below(9).into(), bytes: self.below(99).into() };
                Update::WriteCounter { counter, cell: self.cell(counter), value }
            }
            24 => Update::ResetCounter(counter),
            25 => Update::WriteRegister { register, index: self.below(2), value: self.below(99).into() },
            26 => Update::ResetRegister(register),
            27 => Update::SetMeter { meter, cell: self.cell(meter), rates },
            28 => Update::SetMeterArray { meter, rates },
            29 => {
                let crc = schema.crc("calc").unwrap();
                Update::SetCrc { crc, params: CrcParams { init: self.below(9).into(), ..CrcParams::CRC16 } }
            }
            30 | 31 => Update::AddToValueSet { set, key: self.key(set) },
            32 => Update::RemoveFromValueSet { set, key: self.key(set) },
            33 => Update::ClearValueSet(set),
            34 => Update::CreateMulticastGroup(multicast),
            35 => match self.below(3) {
                0 => Update::DestroyMulticastGroup(multicast),
                1 => Update::DestroyNode(node),
                _ => Update::UpdateNode { node, ports: self.ports(), lags: self.ports() },
            },
            36 | 37 => {
                Update::CreateNode { replication_id: self.below(9), ports: self.ports(), lags: self.ports() }
            }
            38 => Update::Associate { group: multicast, node },
            39 => Update::Dissociate { group: multicast, node },
            40 => Update::SetLag { lag: self.below(3), ports: self.ports() },
            41 => {
                let to = self.of(&[CloneDestination::Port(1), CloneDestination::Group(2)]);
                let bytes_max = self.of(&[None, Some(64)]);
                match self.below(3) {
                    0 => Update::DeleteSession(multicast),
                    _ => Update::SetSession { session: multicast, to, bytes_max },
                }
            }
            42 => Update::Queue(self.queue()),
            _ if self.below(8) == 0 => Update::Reset,
            _ => Update::ResetDefault(table),
        }
    }
}

/// Of two switches, only one sees refused batches. Both hold the same after each batch, and give the same handles.
#[test]
fn a_refused_batch_leaves_no_trace() {
    let mut carried_out = 0;
    for seed in 1..=40u64 {
        let (tried, other) = (control(), control());
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), &tried);
        for round in 0..25 {
            let before = dump(&tried);
            let mut batch = tried.batch(0);
            let mut done = Vec::new();
            for _ in 0..=random.below(14) {
                let update = random.update();
                if batch.write(update.clone()).is_ok() {
                    done.push(update);
                }
            }
            carried_out += done.len();
            match round % 3 {
                0 => drop(batch),
                1 => {
                    let error = batch.take_back(p4jet_control::ControlError::new("refused"));
                    assert_eq!(error.message, "refused", "seed {seed}: {done:?}");
                }
                _ => {
                    drop(batch);
                    assert_eq!(dump(&tried), before, "seed {seed}, round {round}: {done:?}");
                    done.push(Update::DeleteSession(99));
                    assert!(!tried.write(done.clone(), Atomicity::AllOrNothing).in_effect);
                }
            }
            assert_eq!(dump(&tried), before, "seed {seed}, round {round}: {done:?}");
            let kept: Vec<_> = (0..6).map(|_| random.update()).collect();
            let results = |control: &Control| {
                let written = control.write(kept.clone(), Atomicity::ContinueOnError);
                written.results.into_iter().map(|one| one.map_err(|e| e.message)).collect::<Vec<_>>()
            };
            assert_eq!(results(&tried), results(&other), "seed {seed}, round {round}: {kept:?}");
            assert_eq!(dump(&tried), dump(&other), "seed {seed}, round {round}: {kept:?}");
        }
    }
    assert!(carried_out > 3000, "only {carried_out} updates were carried out");
}

/// Several changes of one value set: what was there keeps its handle.
#[test]
fn a_refused_batch_keeps_value_sets() {
    let control = control();
    let set = control.schema().value_set("pairs").unwrap();
    let key = |n: u32| vec![KeyMatch::Exact(0u32.into()), KeyMatch::Exact(n.into())];
    set_up(
        &control,
        r#"{"add_to_value_set":{"set":"pairs","key":["0","1"]}}
{"add_to_value_set":{"set":"pairs","key":["0","2"]}}
{"add_to_value_set":{"set":"pairs","key":["0","3"]}}"#,
    );
    let before = dump(&control);
    let batch = vec![
        Update::RemoveFromValueSet { set, key: key(1) },
        Update::AddToValueSet { set, key: key(7) },
        Update::RemoveFromValueSet { set, key: key(2) },
        Update::AddToValueSet { set, key: key(1) },
        Update::ClearValueSet(set),
        Update::AddToValueSet { set, key: key(8) },
        Update::DeleteSession(99),
    ];
    assert!(!control.write(batch, Atomicity::AllOrNothing).in_effect);
    assert_eq!(dump(&control), before);
}

/// A refused change of a timeout does not make the entry younger.
#[test]
fn a_refused_batch_keeps_the_age_of_entries() {
    let control = control();
    let table = control.schema().table("l2").unwrap();
    set_up(
        &control,
        r#"{"insert":{"table":"l2","key":["1"],"do":{"action":"deny"}}}
{"set_timeout":{"table":"l2","entry":0,"timeout_ms":5000}}"#,
    );
    let since_hit_ms = || {
        let now_us = control.switch().now_us();
        control.switch().table(table).life(EntryHandle(0), now_us).unwrap().since_hit_ms
    };
    std::thread::sleep(std::time::Duration::from_millis(120));
    let entry = || EntryRef::Handle(Ref::Handle(0));
    for first in [
        Update::SetTimeout { table, entry: entry(), timeout_ms: 7 },
        Update::Delete { table, entry: entry() },
        Update::Clear(table),
    ] {
        let batch = vec![first, Update::DeleteSession(99)];
        assert!(!control.write(batch, Atomicity::AllOrNothing).in_effect);
        assert!(since_hit_ms() >= 110, "{}", since_hit_ms());
    }
}

/// What was not committed is gone: it is in no journal.
#[test]
fn a_batch_that_is_dropped_leaves_no_trace() {
    let control = control();
    let clear = || Update::CreateMulticastGroup(5);
    let before = dump(&control);
    let mut batch = control.batch(1);
    batch.write(clear()).unwrap();
    drop(batch);
    assert_eq!(dump(&control), before);
    let shared = SharedControl::new(control.clone(), None);
    let mut transaction = shared.transaction(&control, 1).unwrap();
    transaction.write(clear()).unwrap();
    drop(transaction);
    assert_eq!(dump(&control), before);
    let mut transaction = shared.transaction(&control, 1).unwrap();
    transaction.write(clear()).unwrap();
    transaction.commit().unwrap();
    assert_ne!(dump(&control), before);
}

/// A rate of 0 means no limit, as in the command; ports end at 510.
#[test]
fn queue_updates_follow_the_rules_of_commands() {
    let control = control();
    let one = |update| control.write(vec![Update::Queue(update)], Atomicity::AllOrNothing).results.remove(0);
    let of = |port| Queue { port: Some(port), queue: Some(1) };
    one(QueueUpdate::Rate { rate: Some(Rate::Packets(0)), of: of(510) }).unwrap();
    one(QueueUpdate::PortRate { rate: Some(Rate::Bits(0)), port: Some(3) }).unwrap();
    let config = control.switch().queues().config();
    assert!(config.ports.values().all(|port| port.rate.is_none() && port.queues[1].rate.is_none()));
    let error = one(QueueUpdate::Depth { packets: 3, of: of(511) }).unwrap_err();
    assert_eq!(error.message, "found port 511, expected 0 to 510: the program sends to no other port");
    assert_eq!(error.field.as_deref(), Some("port"));
    assert!(one(QueueUpdate::PortRate { rate: None, port: Some(70_000) }).is_err());
    // Dumps are checked, too.
    let text = control.dump(false).replace("\"510\":", "\"511\":");
    let error = SharedControl::new(control.clone(), None).restore(&text).unwrap_err();
    assert!(error.message.contains("found port 511"), "{error}");
}

/// Entries can have no `@defaultonly` action, nor can the members that they name.
#[test]
fn members_have_no_default_only_actions() {
    let text = common::PROGRAM.replace(
        "  action ingress.out\n  action ingress.deny\n  action NoAction\n  default NoAction()\n  size 4\n  profile ingress.ecmp",
        "  action ingress.out\n  action ingress.deny defaultonly\n  action NoAction\n  default NoAction()\n  size 4\n  profile ingress.ecmp",
    );
    assert_ne!(text, common::PROGRAM);
    let control = Control::new(p4jet_dataplane::Switch::new(p4jet_ir::text::parse(&text).unwrap()).unwrap());
    let profile = control.schema().profile("ecmp").unwrap();
    let write = |update| control.write(vec![update], Atomicity::AllOrNothing).results.remove(0);
    let deny = || Action { action: 1, data: Vec::new() };
    let error = write(Update::CreateMember { profile, action: deny() }).unwrap_err();
    assert!(error.message.contains("@defaultonly"), "{error}");
    let out = Action { action: 0, data: vec![1u32.into()] };
    write(Update::CreateMember { profile, action: out }).unwrap();
    let member = Ref::Handle(0);
    assert!(write(Update::ModifyMember { profile, member, action: deny() }).is_err());
}

/// A batch for which there is not enough memory changes nothing.
#[test]
fn a_batch_that_does_not_fit_in_memory_is_refused() {
    let control = control();
    let before = dump(&control);
    let mut batch = control.batch(usize::MAX >> 11);
    let error = batch.write(Update::CreateMulticastGroup(5)).unwrap_err();
    assert!(error.message.contains("no memory: "), "{error}");
    batch.commit().unwrap();
    assert_eq!(dump(&control), before);
}

/// A restore makes the checks of a write. A refused one changes nothing, the generations of later handles included.
#[test]
fn restore_checks_what_a_write_checks() {
    let control = control();
    set_up(
        &control,
        r#"{"insert":{"table":"l2","key":["1"],"do":{"action":"deny"}}}
{"insert":{"table":"l2","key":["2"],"do":{"action":"deny"}}}
{"delete":{"table":"l2","entry":0}}
{"write_counter":{"counter":"seen","cell":{"index":3},"packets":10,"bytes":640}}
{"set_meter":{"meter":"ingress.police","cell":{"index":1},"rates":["1:2","3:4"]}}
{"set_queue_weight":{"weight":5,"port":3,"queue":1}}"#,
    );
    let shared = SharedControl::new(control.clone(), None);
    let before = dump(&control);
    let good = control.dump(true);
    let node = |handle: u64, rid: u32, port: u32, lag: u32| {
        format!(
            r#"{{"multicast":{{"groups":{{}},"nodes":{{"{handle}":{{"rid":{rid},"ports":[{port}],"lags":[{lag}]}}}},"lags":{{}}}}}}"#
        )
    };
    let multicast = |rest: &str| format!(r#"{{"multicast":{{"nodes":{{}},{rest}}}}}"#);
    let entry = r#"{"entry":{"table":"ipv4_lpm","handle":0,"key":["0.0.0.0/0"],"do":{"action":"deny"},"timeout_ms":5}}"#;
    for (line, why) in [
        (multicast(r#""groups":{"0":[]},"lags":{}"#), "found multicast group 0, which means none"),
        (multicast(r#""groups":{"99999999":[]},"lags":{}"#), "found group 99999999, expected 1 to 65535"),
        (multicast(r#""groups":{"1":[5]},"lags":{}"#), "no node has handle 5"),
        (multicast(r#""groups":{},"lags":{"65536":[]}"#), "found lag 65536, expected 0 to 65535"),
        (multicast(r#""groups":{},"lags":{"1":[65536]}"#), "found port 65536, expected 0 to 511"),
        (node(4_294_967_295, 1, 1, 1), "found node 4294967295, expected 0 to 1048575"),
        (node(1, 4_294_967_295, 1, 1), "found replication id 4294967295, expected 0 to 65535"),
        (node(1, 1, 4_294_967_295, 1), "found port 4294967295, expected 0 to 511"),
        (node(1, 1, 1, 4_294_967_295), "found lag 4294967295, expected 0 to 65535"),
        (
            r#"{"did":{"updates":[{"create_node":{"rid":1,"ports":[],"lags":[]}}],"handles":[1048576]}}"#
                .into(),
            "found node 1048576, expected 0 to 1048575",
        ),
        (
            r#"{"meter":{"name":"ingress.police","cells":{"0":["3:1","2:1"]}}}"#.into(),
            "the committed rate is above the peak rate",
        ),
        (entry.into(), "does not support entry timeouts"),
        (good.lines().last().unwrap().replace("\"weight\":5", "\"weight\":10001"), "found weight 10001"),
        (
            r#"{"queues":{"per_port":8,"others":{"queues":[]},"ports":{}}}"#.into(),
            "found 0 queues per port, expected 8",
        ),
        (
            r#"{"group":{"profile":"ecmp","handle":1,"members":[],"places":[1]}}"#.into(),
            "found 1 weight, expected 0",
        ),
    ] {
        // The generations of slots change before the wrong line.
        let raised =
            good.replace(r#""generations":{"0":1}"#, r#""generations":{"0":9,"2":3},"generation_min":5"#);
        assert_ne!(raised, good);
        let error = shared.restore(&format!("{raised}{line}\n")).unwrap_err();
        assert!(error.message.contains(why), "{line}: {error}");
        assert_eq!(dump(&control), before, "{line}");
    }
    assert_eq!(shared.restore(&good), Ok(None));
}

/// However often a slot was used, restoring its first entry does not bring back the handles of later ones, nor does a second
/// restore.
#[test]
fn restored_entries_do_not_revive_deleted_handles() {
    let control = control();
    let shared = SharedControl::new(control.clone(), None);
    let l2 = control.schema().table("l2").unwrap();
    let insert = r#"{"insert":{"table":"l2","key":["1"],"do":{"action":"deny"}}}"#;
    let handle = || control.switch().table(l2).entries().next().unwrap().0.0;
    let renew = || {
        let delete = format!(r#"{{"delete":{{"table":"l2","entry":{}}}}}"#, handle());
        set_up(&control, &format!("{delete}\n{insert}"));
        handle()
    };
    set_up(&control, insert);
    let first = control.dump(false);
    let mut given: BTreeSet<u32> = std::iter::once(handle()).chain((0..230).map(|_| renew())).collect();
    assert_eq!(given.len(), 231);
    for _ in 0..3 {
        assert_eq!(shared.restore(&first), Ok(None));
        assert_eq!(handle(), 0);
        // A dump has what is needed, too.
        assert_eq!(shared.restore(&control.dump(false)), Ok(None));
        for _ in 0..5 {
            let new = renew();
            assert!(given.insert(new), "{:#x} was given before", new);
        }
    }
}

/// Neither the time nor the report of a wrong restore grows with the number of wrong records more than the text does.
#[test]
fn a_restore_with_many_wrong_names_is_refused_briefly() {
    let control = control();
    let shared = SharedControl::new(control.clone(), None);
    let before = dump(&control);
    let line = |i: u32| format!(r#"{{"register":{{"name":"cell{i}","width":16,"cells":{{}}}}}}"#) + "\n";
    let text = control.dump(false) + &(0..50_000).map(line).collect::<String>();
    let error = shared.restore(&text).unwrap_err();
    assert!(
        error.message.contains("cell0: the register name `cell0` is unknown: did you mean `ingress.cells`?"),
        "{error}"
    );
    assert!(error.message.contains("others: 49960 records more"), "{error}");
    assert!(error.message.len() < 20_000, "{}", error.message.len());
    assert_eq!(dump(&control), before);
}

/// Undoing a reset of cells takes memory only for those in use.
#[test]
fn refused_batch_restores_cells() {
    let control = control();
    set_up(
        &control,
        r#"{"insert":{"table":"l2","key":["1"],"do":{"action":"deny"}}}
{"write_counter":{"counter":"seen","cell":{"index":3},"packets":10,"bytes":640}}
{"write_counter":{"counter":"hits","cell":{"entry":0},"packets":5,"bytes":50}}
{"set_meter":{"meter":"ingress.police","cell":{"index":1},"rates":["1:2","3:4"]}}
{"write_register":{"register":"wide","index":1,"value":"0xfffffffffffffffffffffffff"}}"#,
    );
    let before = dump(&control);
    let counter = |name| control.schema().counter(name).unwrap();
    let meter = control.schema().meter("ingress.police").unwrap();
    let refuse = || Update::DeleteSession(99);
    for update in [
        Update::ResetCounter(counter("seen")),
        Update::ResetCounter(counter("hits")),
        Update::SetMeterArray { meter, rates: None },
        Update::SetMeterArray { meter, rates: Some([p4jet_externs::Rate { per_us: 1.0, burst: 7 }; 2]) },
        Update::Reset,
    ] {
        // What counts between the change and its undoing is undone, too.
        let counted = Update::WriteCounter {
            counter: counter("seen"),
            cell: Cell::Index(0),
            value: CounterValue { packets: 1, bytes: 1 },
        };
        assert!(!control.write(vec![update.clone(), counted, refuse()], Atomicity::AllOrNothing).in_effect);
        assert_eq!(dump(&control), before, "{update:?}");
    }
}
