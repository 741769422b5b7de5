//! What is predicted about the code of a path agrees with what the code does: packets reach the stages that
//! [`Switch::path_codes`] says, in random programs, with their copies.

use crate::group;

use p4jet_dataplane::{Switch, Worker};
use p4jet_externs::{Replica, Session};
use p4jet_ir::{Intrinsic, random};
use p4jet_jit::{Options, Seen, StageCode};

/// Programs, and packets of each.
const PROGRAMS: u64 = 60;
const PACKETS: u64 = 6;

/// Code that measures each stage.
const OPTIONS: Options = Options {
    cut_entries_min: Some(0),
    live_limbs_max: None,
    optimised_max: None,
    listing: false,
    plan: false,
    measured: true,
    counted: false,
    threads: None,
};

fn reached(worker: &Worker) -> Vec<u64> {
    worker.stage_times().map(|(_, time)| time.packets).collect()
}

#[test]
fn packets_reach_the_stages_that_are_predicted() {
    let (mut compared, mut stages_max) = (0, 0);
    for seed in 0..PROGRAMS {
        let mut program = random::program(seed);
        // The time passes between prediction and packet.
        let is_time = |i: Intrinsic| matches!(i, Intrinsic::IngressTimestamp | Intrinsic::EgressTimestamp);
        program.intrinsics.retain(|(intrinsic, _)| !is_time(*intrinsic));
        p4jet_ir::passes::run(&mut program);
        if program.is_queued() {
            continue;
        }
        let switch = Switch::with_options(program.clone(), OPTIONS, 1);
        let switch = switch.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let replica = |port, replication_id| Replica { port, replication_id };
        group::set_group(switch.state(), 1, [replica(3, 7), replica(4, 8)]);
        let session = Session {
            replicas: vec![replica(6, 10)],
            group: Some(1),
            class_of_service: 3,
            bytes_max: Some(20),
        };
        switch.state().change_destinations(|d| d.sessions.set(1, Some(session.into())));
        let mut worker = switch.measured_worker(0).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        for k in 0..PACKETS {
            let frame = random::packet(seed * PACKETS + k, &program);
            let port = (k % 8) as u32;
            let codes = switch.path_codes(&Seen::default(), true, std::iter::once((port, frame.as_slice())));
            let codes = codes.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            let before = reached(&worker);
            let mut expected = before.clone();
            for path in &codes.packets[0] {
                for stage in &codes.paths[*path].code.stages {
                    expected[stage.stage] += 1;
                }
            }
            worker.process_one(port, &frame);
            assert_eq!(
                reached(&worker),
                expected,
                "seed {seed}, packet {k}, before {before:?}: {frame:02x?}"
            );
            compared += 1;
            stages_max = stages_max.max(expected.len());
        }
    }
    assert!(compared > 100 && stages_max > 5, "{compared} packets, at most {stages_max} stages");
}

#[test]
fn every_path_has_code_and_equal_packets_have_one_path() {
    for seed in 0..PROGRAMS {
        let mut program = random::program(seed);
        p4jet_ir::passes::run(&mut program);
        let switch = Switch::new(program.clone()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let frame = random::packet(seed, &program);
        let packets = || [(0, frame.as_slice()), (0, frame.as_slice())].into_iter();
        let seen = switch.seen(packets()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        for seen in [Seen::default(), seen] {
            let codes =
                switch.path_codes(&seen, false, packets()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            assert_eq!(codes.packets[0], codes.packets[1], "seed {seed}: nothing changes between them");
            for path in &codes.paths {
                let stages = &path.code.stages;
                let of_stage = |stage: &StageCode| {
                    stage.around.instructions + stage.blocks.iter().map(|(_, c)| c.instructions).sum::<u32>()
                };
                let instructions: u32 = stages.iter().map(of_stage).sum();
                assert!(!stages.is_empty() && instructions > 0, "seed {seed}, {seen:?}: {:?}", path.code);
            }
        }
    }
}
