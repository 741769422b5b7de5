//! Tables change while packets flow: after each change both engines process every packet in the same way, with
//! any earlier results in the caches of the machine code.

use crate::common::chain::{Outcome, compile};
use crate::common::mutate::Random;
use crate::common::{program, workload};
use p4jet_control::Control;
use p4jet_dataplane::{EngineKind, Switch, Worker};
use p4jet_jit::Options;
use p4jet_text::Commands;
use std::net::Ipv4Addr;
use std::sync::Arc;

const ROUNDS: usize = 30_000;
const ROUTES: usize = 12;
const HOPS: usize = 5;
const PORTS: usize = 500;

fn switches(options: Options) -> [Arc<Switch>; 2] {
    // So small that rows of deleted entries are soon reused.
    let text = std::fs::read_to_string(program("simple_router")).unwrap().replace("1048576", "16");
    match compile("simple_router.p4", &text, options) {
        Outcome::Compiled { reference, optimised } => [reference, optimised],
        Outcome::Refused(stage) => panic!("refused by `{stage}`"),
    }
}

fn route(i: usize) -> Ipv4Addr {
    Ipv4Addr::new(20, i as u8, 0, 0)
}

/// Returns a change of some table, or of routes; many are refused because an entry already exists or does not
/// exist. `routes` and `hops` are handles that were assigned.
fn change(random: &mut Random, routes_only: bool, routes: &[String], hops: &[String]) -> String {
    let hop = |i: usize| Ipv4Addr::new(10, 0, 0, i as u8 + 1);
    // Ports by which all packets may leave, and many ports for separate rows.
    let (i, next, port) = (random.below(ROUTES), random.below(HOPS), random.below(PORTS));
    match random.below(if routes_only { 5 } else { 14 }) {
        0 | 1 => format!("table_add ipv4_lpm set_nhop {}/16 => {} {port}", route(i), hop(next)),
        2 => format!("table_add ipv4_lpm _drop {}/16 =>", route(i)),
        3 => format!("table_delete ipv4_lpm {}", routes[random.below(routes.len())]),
        4 => {
            format!(
                "table_modify ipv4_lpm set_nhop {} {} {port}",
                routes[random.below(routes.len())],
                hop(next)
            )
        }
        5 | 6 => format!("table_add forward set_dmac {} => 02:00:00:00:01:{i:02x}", hop(next)),
        7 => format!("table_delete forward {}", hops[random.below(hops.len())]),
        8 => {
            format!("table_modify forward set_dmac {} 02:00:00:00:02:{i:02x}", hops[random.below(hops.len())])
        }
        9 => format!("table_set_default ipv4_lpm set_nhop {} {port}", hop(next)),
        10 => format!("table_set_default forward set_dmac 02:00:00:00:03:{i:02x}"),
        11 => "table_set_default forward _drop".to_string(),
        12 if random.below(20) == 0 => "table_clear forward".to_string(),
        12 if random.below(20) == 0 => "table_clear ipv4_lpm".to_string(),
        12 => "table_set_default send_frame rewrite_mac 02:00:00:00:09:ff".to_string(),
        _ => format!("table_add send_frame rewrite_mac {port} => 02:00:00:00:09:{i:02x}"),
    }
}

fn packet(random: &mut Random) -> Vec<u8> {
    let to = route(random.below(ROUTES + 1));
    workload::udp_frame(workload::mac(1), workload::mac(2), Ipv4Addr::LOCALHOST, to, 64, 7, 60)
}

fn agree_after_each_change(options: Options, seed: u64) {
    let switches = switches(options);
    let mut controls = switches.each_ref().map(|switch| Control::new(switch.clone()));
    let [mut interp, mut jit]: [Worker; 2] =
        [switches[0].worker(EngineKind::Interp, 0).unwrap(), switches[1].worker(EngineKind::Jit, 0).unwrap()];
    let mut random = Random(seed);
    let (mut sent, mut done) = (0, 0);
    let (mut routes, mut hops) = (vec!["0".to_string()], vec!["0".to_string()]);
    for round in 0..ROUNDS {
        // For a while only routes change, so rows of deleted routes are reused.
        let line = change(&mut random, round > ROUNDS / 4, &routes, &hops);
        let [a, b] = controls.each_mut().map(|control| control.execute(&line));
        assert_eq!(a, b, "round {round}: {line}");
        if let Ok(reply) = &a {
            done += 1;
            let handles = if line.contains("ipv4_lpm") { &mut routes } else { &mut hops };
            if let Some((_, handle)) = reply.trim().split_once("with handle ") {
                handles.push(handle.to_string());
                // Old handles mostly belong to deleted entries.
                handles.drain(..handles.len().saturating_sub(ROUTES));
            }
        }
        for _ in 0..random.below(4) {
            let frame = packet(&mut random);
            let (a, b) = (interp.process_one(0, &frame), jit.process_one(0, &frame));
            assert_eq!(a, b, "seed {seed}, round {round}, after {line}");
            sent += a.sent.len();
        }
    }
    assert!(sent > ROUNDS / 10 && done > ROUNDS / 8, "{sent} packets got through, {done} changes");
}

#[test]
fn engines_agree_after_each_change() {
    let plain = Options::default();
    let others = [
        Options { cut_entries_min: Some(0), ..plain },
        Options { measured: true, ..plain },
        Options { live_limbs_max: Some(0), ..plain },
        Options { optimised_max: Some(0), ..plain },
    ];
    let [_, switch] = switches(plain);
    assert_eq!(switch.code().unwrap().memos(), 1, "the next hop of a route leads to its address");
    agree_after_each_change(plain, 1);
    agree_after_each_change(plain, 2);
    for (seed, options) in (3..).zip(others) {
        agree_after_each_change(options, seed);
    }
}
