//! DATAPLANE_ATOMIC (requirement: packets see all of a batch or none of it).

mod common;

use common::{Fixture, update};
use p4jet_control::{Host, PortInfo, Program, Rights, SharedControl, Swap};
use p4jet_dataplane::{Cancel, Subscription, Topics};
use p4jet_p4info::proto::v1::{Atomicity, EntityKind, Update, UpdateType};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A host that counts how often packets were held.
#[derive(Default)]
struct Holding {
    holds: AtomicUsize,
    /// Refuses to hold packets, as if a worker were stuck.
    stuck: bool,
}

impl Host for Holding {
    fn prepare(&self, _: &Program<'_>, _: &Cancel) -> Result<Swap, String> {
        Err("no programs".to_string())
    }

    fn prepare_queues(&self) -> Result<Swap, String> {
        Err("no queues".to_string())
    }

    fn subscribe(&self, _: Topics) -> Result<Subscription, String> {
        Err("no events".to_string())
    }

    fn ports(&self) -> Vec<PortInfo> {
        Vec::new()
    }

    fn add_port(&self, _: u32, _: &str, _: &Rights) -> Result<(), String> {
        Err("no ports".to_string())
    }

    fn remove_port(&self, _: u32) -> Result<(), String> {
        Err("no ports".to_string())
    }

    fn hold_packets(&self, change: &mut dyn FnMut()) -> Result<(), String> {
        if self.stuck {
            return Err("worker 0 is stuck".to_string());
        }
        self.holds.fetch_add(1, Ordering::SeqCst);
        change();
        Ok(())
    }

    fn stop(&self) {}
}

fn fixture(host: Option<Arc<Holding>>) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.switch = SharedControl::new(fixture.switch.control(), host.map(|host| host as Arc<dyn Host>));
    fixture
}

fn inserts(fixture: &Fixture, macs: &[u64]) -> Vec<Update> {
    let insert = |mac: &u64| update(UpdateType::Insert, EntityKind::TableEntry(fixture.l2(*mac, 1)));
    macs.iter().map(insert).collect()
}

#[test]
fn an_atomic_batch_is_made_while_packets_are_held() {
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
