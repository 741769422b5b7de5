//! DATAPLANE_ATOMIC (requirement: packets see all of a batch or none of it).

use crate::common;

use crate::common::{Around, Fixture, exact, update};
use p4jet_control::ControlError;
use p4jet_p4info::proto::v1::{
    Atomicity, EntityKind, MeterConfig, TableEntry, Update, UpdateType, ValueSetEntry, ValueSetMember,
};
use p4jet_tables::KeyMatch;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A host that counts how often packets were held.
#[derive(Default)]
struct Holding {
    holds: AtomicUsize,
    /// Refuses to hold packets, as if a worker were stuck.
    stuck: bool,
}

impl Around for Holding {
    fn hold_packets(&self, change: &mut dyn FnMut()) -> Result<(), ControlError> {
        if self.stuck {
            return Err(ControlError::new("worker 0 is stuck"));
        }
        self.holds.fetch_add(1, Ordering::SeqCst);
        change();
        Ok(())
    }
}

fn fixture(host: Option<Arc<Holding>>) -> Fixture {
    host.iter().fold(Fixture::new(), |fixture, host| fixture.hosted(host))
}

fn inserts(fixture: &Fixture, macs: &[u64]) -> Vec<Update> {
    let insert = |mac: &u64| update(UpdateType::Insert, EntityKind::TableEntry(fixture.l2(*mac, 1)));
    macs.iter().map(insert).collect()
}

#[test]
fn an_atomic_batch_runs_while_packets_are_held() {
    let host = Arc::new(Holding::default());
    let fixture = fixture(Some(Arc::clone(&host)));
    let written = fixture.write(inserts(&fixture, &[1, 2, 3]), Atomicity::DataplaneAtomic);
    assert_eq!((written.refused, written.errors), (None, None));
    assert_eq!((fixture.all("l2").len(), host.holds.load(Ordering::SeqCst)), (3, 1));
    // Other batches let packets flow.
    fixture.write(inserts(&fixture, &[4]), Atomicity::RollbackOnError);
    assert_eq!((fixture.all("l2").len(), host.holds.load(Ordering::SeqCst)), (4, 1));
}

#[test]
fn e_55_an_entry_appears_with_its_meter() {
    let fixture = fixture(None);
    let control = fixture.switch.control();
    let table = control.schema().table("aged").unwrap();
    let meter = control.schema().meter("speed").unwrap();
    let config = MeterConfig { cir: 1, cburst: 1, pir: 2, pburst: 2, eburst: 0 };
    let entry = TableEntry {
        meter_config: Some(config),
        ..fixture.entry("aged", vec![exact(1, 1)], fixture.act("measured", &[1]))
    };
    let done = AtomicBool::new(false);
    let seen = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let key = [KeyMatch::Exact(1u32.into())];
            while !done.load(Ordering::SeqCst) {
                let found = control.switch().table(table).find(&key, 0);
                // The entry may be deleted meanwhile.
                if let Some(Ok(rates)) = found.map(|handle| control.meter_rates(meter, handle.0)) {
                    assert!(rates.is_some(), "an entry without its meter");
                    seen.fetch_add(1, Ordering::SeqCst);
                }
            }
        });
        let end = Instant::now() + Duration::from_secs(10);
        while seen.load(Ordering::SeqCst) < 1000 && Instant::now() < end {
            assert_eq!(fixture.insert(entry.clone()), common::OK);
            assert_eq!(fixture.delete(entry.clone()), common::OK);
        }
        done.store(true, Ordering::SeqCst);
    });
    assert!(seen.load(Ordering::SeqCst) > 0);
}

#[test]
fn w_21_an_update_is_one_step_for_packets() {
    let host = Arc::new(Holding::default());
    let fixture = fixture(Some(Arc::clone(&host)));
    let holds = || host.holds.load(Ordering::SeqCst);
    let config = MeterConfig { cir: 1, cburst: 1, pir: 2, pburst: 2, eburst: 0 };
    let entry = |port, meter_config| TableEntry {
        meter_config,
        ..fixture.entry("aged", vec![exact(1, 1)], fixture.act("measured", &[port]))
    };
    assert_eq!(fixture.insert(entry(1, None)), common::OK);
    assert_eq!(fixture.modify(entry(2, None)), common::OK);
    assert_eq!(holds(), 0);
    // Action and meter change.
    assert_eq!(fixture.modify(entry(3, Some(config.clone()))), common::OK);
    assert_eq!(holds(), 1);
    assert_eq!(fixture.modify(entry(4, Some(config))), common::OK);
    assert_eq!(holds(), 1);
    // VS-5: so do several members of a value set.
    let members = |values: &[u64]| {
        let member = |value: &u64| ValueSetMember { r#match: vec![exact(1, *value)] };
        let members = values.iter().map(member).collect();
        EntityKind::ValueSetEntry(ValueSetEntry { value_set_id: fixture.value_set("kinds"), members })
    };
    for (values, expected) in [(&[1][..], 1), (&[1, 2], 1), (&[3, 4], 2), (&[4], 2), (&[5], 3)] {
        assert_eq!(fixture.code(UpdateType::Modify, members(values)), common::OK);
        assert_eq!(holds(), expected, "{values:?}");
        assert_eq!(fixture.read(members(&[])), [members(values)]);
    }
}

#[test]
fn a_refused_atomic_batch_changes_nothing() {
    let host = Arc::new(Holding::default());
    let fixture = fixture(Some(Arc::clone(&host)));
    let written = fixture.write(inserts(&fixture, &[1, 2, 1]), Atomicity::DataplaneAtomic);
    let codes: Vec<_> = written.errors.expect("a refusal").iter().map(|e| e.canonical_code).collect();
    assert_eq!(codes, [common::ABORTED, common::ABORTED, common::EXISTS]);
    assert_eq!((fixture.all("l2").len(), host.holds.load(Ordering::SeqCst)), (0, 1));
}

#[test]
fn an_atomic_batch_is_refused_if_packets_cannot_be_held() {
    for host in [None, Some(Arc::new(Holding { stuck: true, ..Holding::default() }))] {
        let fixture = fixture(host);
        let written = fixture.write(inserts(&fixture, &[1]), Atomicity::DataplaneAtomic);
        assert!(written.refused.is_some() && fixture.all("l2").is_empty(), "{written:?}");
    }
}
