//! Random IR programs behave the same in the interpreter (without passes) and the JIT (with them): outputs, drops,
//! registers and counters, and the workers' counts of lookups and drops.
//!
//! Blind spots: programs that the generator never makes (see `p4jet_ir::random`), and code that both engines share
//! (table entries, extern functions).

use crate::group;

use p4jet_dataplane::{EngineKind, ErrorKind, Pipelined, Processed, Switch, Worker};
use p4jet_externs::{Replica, Session};
use p4jet_ir::{InstanceKind, Program, random};
use p4jet_jit::Options;
use p4jet_packet::{Batch, PORT_DROP, Packet, Pool};

/// Programs per test; `P4JET_PROGRAMS=20000 cargo test -p p4jet-dataplane` runs more.
fn programs() -> u64 {
    std::env::var("P4JET_PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(150)
}
const PACKETS: u64 = 24;

fn outcome(processed: &Processed) -> String {
    let sent = processed.sent.iter().map(|(port, frame)| format!("port {port}: {frame:02x?}"));
    let dropped = processed.dropped.iter().map(|reason| format!("dropped: {reason}"));
    sent.chain(dropped).collect::<Vec<_>>().join("\n")
}

fn state(switch: &Switch) -> Vec<String> {
    let mut out = Vec::new();
    for (i, instance) in switch.program().instances.iter().enumerate() {
        let i = i as u32;
        out.push(match instance.kind {
            InstanceKind::Register { size, .. } => {
                let cells: Vec<_> = (0..size.min(64)).map(|c| switch.state().register_read(i, c)).collect();
                format!("{}: {cells:?}", instance.name)
            }
            InstanceKind::Counter { size, .. } => {
                let cells: Vec<_> = (0..size.min(64)).map(|c| switch.state().counter_read(i, c)).collect();
                format!("{}: {cells:?}", instance.name)
            }
            InstanceKind::DirectCounter { .. } => {
                let cells: Vec<_> = (0..16).map(|c| switch.state().counter_read(i, c).ok()).collect();
                format!("{}: {cells:?}", instance.name)
            }
            _ => continue,
        });
    }
    out
}

/// The outcome of a batch.
fn outcomes(pool: &Pool, batch: &Batch) -> Vec<String> {
    let outcome = |p: &Packet| match p.egress_port {
        PORT_DROP => format!("reason {}", p.drop_reason),
        port => format!("port {port}: {:02x?}", pool.frame(p)),
    };
    batch.packets().iter().map(outcome).collect()
}

/// Runs packets, and their copies, as one batch and returns the outcome.
fn in_batches(worker: &mut Worker, frames: &[Vec<u8>]) -> Vec<String> {
    let mut pool = worker.pool(256, 4096).expect("memory for packets");
    let mut batch = Batch::new();
    for (k, frame) in frames.iter().enumerate() {
        batch.push(&mut pool, k as u32 % 8, frame).expect("it has room");
    }
    let mut out = Vec::new();
    worker.process(&mut pool, &mut batch);
    loop {
        out.extend(outcomes(&pool, &batch));
        if !worker.process_copies(&mut pool, &mut batch) {
            break;
        }
    }
    out.push(format!("refused: {:?}", worker.take_refused()));
    out
}

/// Every table that can end a stage does: values are spilled and reloaded at every such place.
const CUT_EVERYWHERE: Options = Options {
    cut_entries_min: Some(0),
    live_limbs_max: None,
    optimised_max: None,
    listing: false,
    plan: false,
    measured: false,
    counted: false,
    threads: None,
};
/// Code that measures each stage: also cut between blocks, and between lookup and action.
const MEASURED: Options = Options { measured: true, ..CUT_EVERYWHERE };
/// Cut everywhere, with all fields in the PHV, or the longest-lived; and with code that is compiled quickly, as for
/// large programs.
const IN_MEMORY: [Options; 3] = [
    Options { live_limbs_max: Some(0), ..CUT_EVERYWHERE },
    Options { live_limbs_max: Some(200), ..CUT_EVERYWHERE },
    Options { optimised_max: Some(0), ..CUT_EVERYWHERE },
];

/// Workers that count, with the cuts of large tables and of none.
const COUNTED: [Options; 2] = [
    Options { counted: true, cut_entries_min: None, ..CUT_EVERYWHERE },
    Options { counted: true, ..CUT_EVERYWHERE },
];

/// Compares both engines. Returns the number of hot paths of the last code.
fn compare(seed: u64, program: &Program, options: Options) -> usize {
    p4jet_ir::verify::verify(program).unwrap_or_else(|e| panic!("seed {seed}: {e:?}"));
    let mut optimised = program.clone();
    p4jet_ir::passes::run(&mut optimised);
    // The passes do not keep all places of drops.
    let reference = if options.counted { &optimised } else { program };
    let reference = Switch::with_options(reference.clone(), options, 1);
    let reference = reference.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    // With room for a second worker, registers are locked.
    let workers = 1 + seed as usize % 2;
    let fast =
        Switch::with_options(optimised, options, workers).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    for switch in [&reference, &fast] {
        let replica = |port, replication_id| Replica { port, replication_id };
        group::set_group(switch.state(), 1, [replica(3, 7), replica(4, 8)]);
        group::set_group(switch.state(), 2, [replica(5, 9)]);
        let replicas = vec![replica(6, 10)];
        let session = Session { replicas, group: Some(2), class_of_service: 3, bytes_max: Some(20) };
        switch.state().change_destinations(|d| d.sessions.set(1, Some(session.into())));
    }
    let mut interp = reference.worker(EngineKind::Interp, 0).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let mut jit = fast.worker(EngineKind::Jit, 0).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let frames: Vec<Vec<u8>> =
        (0..PACKETS).map(|k| random::packet(seed.wrapping_mul(PACKETS).wrapping_add(k), program)).collect();
    for (k, frame) in (0..).zip(&frames) {
        interp.set_time(Some(1000 * k));
        jit.set_time(Some(1000 * k));
        let want = interp.process_one((k % 8) as u32, frame);
        let got = jit.process_one((k % 8) as u32, frame);
        assert_eq!(
            outcome(&got),
            outcome(&want),
            "seed {seed}, packet {k}: jit (left) and interpreter (right) differ\nframe {frame:02x?}\n{}",
            reference.trace((k % 8) as u32, frame).map(|(t, _)| t.render(program)).unwrap_or_else(|e| e)
        );
    }
    assert_eq!(state(&fast), state(&reference), "seed {seed}: extern state differs");
    let (got, want) = (in_batches(&mut jit, &frames), in_batches(&mut interp, &frames));
    assert_eq!(got, want, "seed {seed}: in a batch jit (left) and interpreter (right) differ");
    assert_eq!(state(&fast), state(&reference), "seed {seed}: extern state differs after a batch");
    assert_eq!(jit.tallies().is_some(), options.counted);
    assert_eq!(jit.tallies(), interp.tallies(), "seed {seed}: what was counted differs");

    // Repeats the comparison with code for the paths that the packets took.
    let packets = frames.iter().zip(0..).map(|(frame, k)| (k % 8, frame.as_slice()));
    let seen = fast.seen(packets).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let code = fast.code_for_seen(&seen).unwrap_or_else(|e| panic!("seed {seed}: {e:?}"));
    if !jit.change_code(&code) {
        assert!(program.is_queued(), "seed {seed}: copies wait");
        return 0;
    }
    for (k, frame) in (0..).zip(&frames) {
        interp.set_time(Some(1000 * k));
        jit.set_time(Some(1000 * k));
        let want = interp.process_one((k % 8) as u32, frame);
        let got = jit.process_one((k % 8) as u32, frame);
        assert_eq!(outcome(&got), outcome(&want), "seed {seed}, packet {k}: code for {seen:?}");
    }
    assert_eq!(state(&fast), state(&reference), "seed {seed}: extern state differs with code for {seen:?}");
    assert_eq!(
        jit.tallies(),
        interp.tallies(),
        "seed {seed}: what was counted differs with code for {seen:?}"
    );
    seen.hot_paths.len()
}

#[test]
fn random_programs_agree() {
    let seeds = 0..programs();
    let hot: usize = seeds.map(|seed| compare(seed, &random::program(seed), Options::default())).sum();
    assert!(hot as u64 > programs(), "{hot} hot paths");
}

#[test]
fn random_programs_agree_when_cut_everywhere() {
    for seed in programs()..2 * programs() {
        compare(seed, &random::program(seed), CUT_EVERYWHERE);
    }
}

#[test]
fn random_programs_agree_in_memory() {
    for seed in 2 * programs()..3 * programs() {
        compare(seed, &random::program(seed), IN_MEMORY[seed as usize % 3]);
    }
}

#[test]
fn random_programs_agree_when_measured() {
    for seed in 3 * programs()..4 * programs() {
        compare(seed, &random::program(seed), MEASURED);
    }
}

#[test]
fn random_programs_agree_when_counted() {
    let mut counted = 0;
    for seed in 4 * programs()..5 * programs() {
        let program = random::program(seed);
        compare(seed, &program, COUNTED[seed as usize % 2]);
        let switch = Switch::with_options(program, COUNTED[0], 1).expect("it was possible before");
        counted += usize::from(switch.program().drop_place.is_some());
    }
    assert!(counted > 0);
}

/// Runs a program on several threads, each with a part of it. Returns false if that is refused.
fn compare_on_threads(seed: u64, program: &Program) -> bool {
    let threads = 2 + seed as usize % 3;
    let options = [Options::default(), CUT_EVERYWHERE][seed as usize / 3 % 2];
    let options = Options { threads: Some(threads), ..options };
    let mut optimised = program.clone();
    p4jet_ir::passes::run(&mut optimised);
    let fast = Switch::with_options(optimised, options, threads);
    let made = fast.and_then(|fast| Ok((Pipelined::new(&fast, 64, 4096)?, fast)));
    let (mut pipelined, fast) = match made {
        Ok(made) => made,
        Err(error) => {
            assert_eq!(error.kind, ErrorKind::Unsupported, "seed {seed}: {error}");
            return false;
        }
    };
    let reference = Switch::new(program.clone()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let mut interp = reference.worker(EngineKind::Interp, 0).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let together = 5;
    let frames: Vec<Vec<u8>> = (0..PACKETS).map(|k| random::packet(seed * PACKETS + k, program)).collect();
    let push = |pool: &mut Pool, batch: &mut Batch, frames: &[Vec<u8>]| {
        frames.iter().zip(0..).for_each(|(frame, port)| batch.push(pool, port, frame).expect("it has room"));
    };
    let mut pool = interp.pool(64, 4096).expect("memory for packets");
    let mut batch = Batch::new();
    let mut want = Vec::new();
    interp.set_time(Some(77));
    for frames in frames.chunks(together) {
        batch.clear();
        push(&mut pool, &mut batch, frames);
        interp.process(&mut pool, &mut batch);
        want.extend(outcomes(&pool, &batch));
    }
    let mut got = Vec::new();
    let mut chunks = frames.chunks(together).peekable();
    pipelined.set_time(Some(77));
    pipelined.run(
        &|_| {},
        &mut |pool, batch| {
            push(pool, batch, chunks.next().unwrap_or_default());
            chunks.peek().is_some()
        },
        &mut |pool, batch, _| got.extend(outcomes(pool, batch)),
    );
    assert_eq!(got, want, "seed {seed}: {threads} threads (left) and interpreter (right) differ");
    assert_eq!(state(&fast), state(&reference), "seed {seed}: extern state differs");
    true
}

#[test]
fn random_programs_agree_on_threads() {
    let seeds = 5 * programs()..6 * programs();
    let ran = seeds.filter(|seed| compare_on_threads(*seed, &random::program(*seed))).count();
    assert!(ran as u64 > programs() / 10, "{ran} programs ran");
}

/// A header whose checksum is verified, and updated after something has changed.
const CHECKSUMS: &str = include_str!("../../jit/src/analysis/checksums.ir");

/// A checksum derived from the verified one equals the recomputed one, for each value of a word: with all other words
/// 0 (a sum of 0 differs from 0xffff) and not, for right and wrong received checksums.
#[test]
fn checksums_verified_and_updated_agree() {
    let sum = |bytes: &[u8]| {
        let words = bytes.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
        let sum: u32 = words.sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        !((sum & 0xffff) + (sum >> 16)) as u16
    };
    let mut frames: Vec<Vec<u8>> = Vec::new();
    for value in 0..=u16::MAX {
        let [high, low] = value.to_be_bytes();
        let other = if value % 3 == 0 { [0xff, 0xff, 0, 0] } else { [0, 0, 0xff, 0xfe] };
        for mut frame in
            [vec![0; 12], vec![low, 0, high, 0x80, 0, 0, other[0], other[1], other[2], other[3], 0, 0]]
        {
            frame[10..].copy_from_slice(&[high, low]);
            let right = if value % 5 == 0 { value } else { sum(&frame) };
            frame[4..6].copy_from_slice(&right.to_be_bytes());
            frames.push(frame);
        }
    }
    frames.push(vec![0; 11]);
    let run = |program: &Program, options: Options, engine: EngineKind| {
        let switch = Switch::with_options(program.clone(), options, 1).expect("it compiles");
        let mut worker = switch.worker(engine, 0).expect("it runs");
        let mut pool = worker.pool(64, 64).expect("memory for packets");
        let mut batch = Batch::new();
        let mut out = Vec::new();
        for frames in frames.chunks(64) {
            batch.clear();
            frames.iter().for_each(|frame| batch.push(&mut pool, 0, frame).expect("it has room"));
            worker.process(&mut pool, &mut batch);
            let left = |p: &Packet| (p.egress_port, pool.frame(p).to_vec());
            out.extend(batch.packets().iter().map(left));
        }
        out
    };
    for change in [
        "meta.error = 0x0:32",
        "h.a = sub(h.a, 0x1:8)",
        "h.b = add(h.b, 0xff01:16)",
        "h.c = 0x0:8\n    h.e = 0x0:16",
        "h.d = xor(h.d, 0xffffffff:32)\n    h.e = xor(h.e, 0xffff:16)",
        "h.a = 0x1:8\n    h.b = 0x2:16\n    h.c = 0x3:8",
    ] {
        let program = p4jet_ir::text::parse(&CHECKSUMS.replace("CHANGE", change)).expect(change);
        p4jet_ir::verify::verify(&program).expect(change);
        let want = run(&program, Options::default(), EngineKind::Interp);
        // An updated packet has the right checksum; without a change it is as received.
        for ((port, left), frame) in want.iter().zip(&frames).filter(|((port, _), _)| *port != PORT_DROP) {
            let unsummed = [&left[..4], &left[6..]].concat();
            assert_eq!(left[4..6], sum(&unsummed).to_be_bytes(), "{change}: {frame:02x?}");
            let was_right = frame[4..6] == sum(&[&frame[..4], &frame[6..]].concat()).to_be_bytes();
            assert_eq!(*port, u32::from(!was_right), "{change}: {frame:02x?}");
        }
        for options in [Options::default(), CUT_EVERYWHERE, MEASURED, IN_MEMORY[0]] {
            let got = run(&program, options, EngineKind::Jit);
            for ((got, want), frame) in got.iter().zip(&want).zip(&frames) {
                assert_eq!(got, want, "{change}, {options:?}: {frame:02x?}");
            }
        }
    }
}

/// Repeats one program: `P4JET_SEED=n cargo test -p p4jet-dataplane one_seed`.
#[test]
fn one_seed() {
    let seed = std::env::var("P4JET_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    let program = random::program(seed);
    if std::env::var("P4JET_SEED").is_ok() {
        println!("{}", p4jet_ir::text::print(&program));
    }
    compare(seed, &program, Options::default());
    compare(seed, &program, CUT_EVERYWHERE);
    compare(seed, &program, MEASURED);
    compare_on_threads(seed, &program);
    for options in COUNTED.into_iter().chain(IN_MEMORY) {
        compare(seed, &program, options);
    }
}

/// A caller that cancels a compilation does not wait for the code.
#[test]
fn a_cancelled_compilation_ends() {
    let program = random::program(1);
    let tables = p4jet_interp::build_tables(&program).expect("they fit");
    let specs: Vec<_> = tables.iter().map(|table| table.spec().clone()).collect();
    let cancel = p4jet_jit::Cancel::default();
    let compile = || {
        p4jet_jit::Compiled::new(&program, &specs, &p4jet_jit::Seen::default(), Options::default(), &cancel)
    };
    assert!(compile().is_ok());
    cancel.cancel();
    assert_eq!(compile().err().map(|e| e.message).as_deref(), Some("the compilation was cancelled"));
}
