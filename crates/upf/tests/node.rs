//! The entity with messages that scapy's layers and the writer here build, against a model of the switch that refuses what the
//! switch would refuse; and with mutated ones.

use p4jet_upf::config::{Config, Endpoint, Network, Underlay};
use p4jet_upf::switch::Entries;
use p4jet_upf::wire::{Header, Ies, Writer, f_seid, ie, message, node_id, read};
use p4jet_upf::{Change, Entry, Node, Output, Table};
use std::collections::BTreeMap;
use std::net::SocketAddr;

fn config() -> Config {
    let endpoint = |number, address: &str| Endpoint { number, address: address.parse().unwrap() };
    let network = |name: &str, number| Network { name: name.into(), number, next_hop: number };
    Config {
        address: "10.0.0.1".parse().unwrap(),
        recovery: 7,
        endpoints: vec![endpoint(1, "10.0.0.1"), endpoint(2, "2001:db8::1")],
        networks: vec![network("internet", 1), network("ims", 2)],
        underlay: Underlay { port: 1, vid: 0, mac: 2, next_hop: 3, mtu: 1500, copies: 1, sums: false },
        sessions_max: 1000,
    }
}

fn smf() -> SocketAddr {
    "10.0.0.9:8805".parse().unwrap()
}

/// The entity, and the switch as its changes make it.
struct Pair {
    node: Node,
    entries: Entries,
    cells: BTreeMap<(&'static str, u32), u64>,
    usage: BTreeMap<u32, (u64, u64)>,
    now: u64,
}

impl Pair {
    fn new() -> Pair {
        let node = Node::new(config());
        Pair { node, entries: Entries::new(), cells: BTreeMap::new(), usage: BTreeMap::new(), now: 0 }
    }

    fn carry_out(&mut self, outputs: &[Output]) {
        for output in outputs {
            let Output::Change(changes) = output else { continue };
            for change in changes {
                match change {
                    Change::Add(Entry { key, action }) => {
                        let old = self.entries.insert(key.clone(), action.clone());
                        assert!(old.is_none(), "{key:?} exists");
                    }
                    Change::Modify(Entry { key, action }) => {
                        let old = self.entries.insert(key.clone(), action.clone());
                        assert!(
                            old.is_some_and(|old| old != *action),
                            "{key:?} does not exist or does not change"
                        );
                    }
                    Change::Remove(key) => {
                        assert!(self.entries.remove(key).is_some(), "{key:?} does not exist")
                    }
                    Change::Rate { .. } => {}
                    Change::Register { name, cell, value } => drop(self.cells.insert((name, *cell), *value)),
                }
            }
        }
    }

    fn send(&mut self, from: SocketAddr, datagram: &[u8]) -> Vec<Output> {
        let usage = &self.usage;
        let mut read = |cell| usage.get(&cell).copied().unwrap_or_default();
        let outputs = self.node.receive(self.now, from, datagram, &mut read);
        self.carry_out(&outputs);
        outputs
    }

    fn commands(&self) -> Vec<String> {
        let all = self.entries.iter();
        all.map(|(key, action)| Entry { key: key.clone(), action: action.clone() }.command()).collect()
    }
}

fn answer(outputs: &[Output]) -> (Header, Vec<(u16, Vec<u8>)>) {
    let sent = outputs
        .iter()
        .rev()
        .find_map(|o| if let Output::Send { bytes, .. } = o { Some(bytes) } else { None });
    let (header, body, _) = read(sent.expect("an answer")).expect("a message");
    (header, Ies::new(body).map(|i| i.map(|(k, v)| (k, v.to_vec())).expect("an IE")).collect())
}

fn cause(outputs: &[Output]) -> u8 {
    answer(outputs).1.iter().find(|(kind, _)| *kind == ie::CAUSE).expect("a cause").1[0]
}

/// Heartbeat, association, establishment, modification, deletion, as scapy writes them.
fn scapy() -> Vec<Vec<u8>> {
    let byte = |text: &str, i: usize| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hex");
    include_str!("scapy.hex").lines().map(|l| (0..l.len() / 2).map(|i| byte(l, i)).collect()).collect()
}

#[test]
fn a_session_from_its_beginning_to_its_end() {
    let mut pair = Pair::new();
    let messages = scapy();
    let heartbeat = pair.send(smf(), &messages[0]);
    assert_eq!(
        answer(&heartbeat).0,
        Header { message: message::HEARTBEAT_RESPONSE, seid: None, sequence: 1 }
    );
    // Without an association there is no session.
    assert_eq!(cause(&pair.send(smf(), &messages[2])), 72);
    let mut pair = Pair::new();
    assert_eq!(cause(&pair.send(smf(), &messages[1])), 1);
    let established = pair.send(smf(), &messages[2]);
    let (header, ies) = answer(&established);
    assert_eq!(
        (header.message, header.seid, header.sequence),
        (message::SESSION_ESTABLISHMENT_RESPONSE, Some(77), 3)
    );
    assert_eq!(ies[1], (ie::CAUSE, vec![1]));
    assert_eq!(ies[2], (ie::F_SEID, f_seid(1, "10.0.0.1".parse().unwrap())));
    // Packets with these entries: that file is a packet test of programs/upf.
    let test = include_str!("../../../programs/upf/tests/pfcp.stf");
    let made = |line: &&str| {
        let tables = ["peers", "encapsulations", "rules", "filters_v4", "filters_v6", "teids", "ues_v4"];
        line.split(' ').nth(1).is_some_and(|table| line.starts_with("table_add") && tables.contains(&table))
    };
    assert_eq!(pair.commands(), test.lines().filter(made).collect::<Vec<_>>());
    assert_eq!(pair.entries.len(), 10);
    assert_eq!(pair.cells[&("credit", 1)], 1_000_000);
    let rates: Vec<_> = established
        .iter()
        .flat_map(|o| if let Output::Change(changes) = o { changes.clone() } else { Vec::new() })
        .filter(|c| matches!(c, Change::Rate { .. }))
        .collect();
    let rate = |cell, bytes| Change::Rate { cell, committed: (bytes, bytes / 20), peak: (bytes, bytes / 20) };
    assert_eq!(rates, [rate(2, 12_500_000), rate(3, 25_000_000)]);
    // The same request again gets the same answer, and changes nothing.
    assert_eq!(answer(&pair.send(smf(), &messages[2])), answer(&established));

    // Handover with an end marker on the old path, while PDR 2 goes; usage.
    pair.usage.insert(2, (3, 300));
    pair.usage.insert(3, (5, 5000));
    let modified = pair.send(smf(), &messages[3]);
    assert_eq!(cause(&modified), 1);
    assert!(modified.contains(&Output::EndMarker { peer: 1, teid: 0x2001 }));
    let report = answer(&modified).1.pop().unwrap();
    assert_eq!(report.0, ie::USAGE_REPORT_MODIFICATION);
    let volume =
        Ies::new(&report.1).flatten().find(|(kind, _)| *kind == ie::VOLUME_MEASUREMENT).unwrap().1.to_vec();
    let numbers: Vec<u64> =
        volume[1..].chunks(8).map(|c| u64::from_be_bytes(c.try_into().unwrap())).collect();
    assert_eq!(numbers, [5300, 300, 5000, 8, 3, 5]);
    assert!(!pair.commands().iter().any(|c| c.contains("ues_v4")));

    let deleted = pair.send(smf(), &messages[4]);
    assert_eq!((cause(&deleted), answer(&deleted).0.seid), (1, Some(77)));
    assert_eq!(pair.commands(), [""; 0]);
    assert_eq!(cause(&pair.send(smf(), &request(message::SESSION_DELETION_REQUEST, Some(1), 9, |_| {}))), 65);
}

fn request(kind: u8, seid: Option<u64>, sequence: u32, write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::default();
    write(&mut writer);
    writer.message(Header { message: kind, seid, sequence })
}

fn associate(pair: &mut Pair, recovery: u32, sequence: u32) -> u8 {
    let setup = request(message::ASSOCIATION_SETUP_REQUEST, None, sequence, |w| {
        w.ie(ie::NODE_ID, &node_id(smf().ip())).ie(ie::RECOVERY_TIME_STAMP, &recovery.to_be_bytes());
    });
    cause(&pair.send(smf(), &setup))
}

/// What tests vary in an establishment: a UE 10.60.0.`ue` whose uplink TEID we choose, and what the downlink FAR does.
fn establish(ue: u8, sequence: u32, action: u8, peer: u8, filters: &[&str]) -> Vec<u8> {
    request(message::SESSION_ESTABLISHMENT_REQUEST, Some(0), sequence, |w| {
        w.ie(ie::NODE_ID, &node_id(smf().ip())).ie(ie::F_SEID, &f_seid(u64::from(ue) + 100, smf().ip()));
        w.group(ie::CREATE_PDR, |w| {
            w.ie(ie::PDR_ID, &[0, 1]).ie(ie::PRECEDENCE, &[0, 0, 0, 255]);
            w.group(ie::PDI, |w| {
                w.ie(ie::SOURCE_INTERFACE, &[0])
                    .ie(ie::F_TEID, &[5])
                    .ie(ie::UE_IP_ADDRESS, &[2, 10, 60, 0, ue]);
            });
            w.ie(ie::FAR_ID, &[0, 0, 0, 1]);
        });
        for (i, filter) in filters.iter().chain([&""]).enumerate() {
            w.group(ie::CREATE_PDR, |w| {
                w.ie(ie::PDR_ID, &[0, 2 + i as u8]).ie(ie::PRECEDENCE, &[0, 0, 0, i as u8]);
                w.group(ie::PDI, |w| {
                    w.ie(ie::SOURCE_INTERFACE, &[1]).ie(ie::UE_IP_ADDRESS, &[6, 10, 60, 0, ue]);
                    if !filter.is_empty() {
                        w.ie(
                            ie::SDF_FILTER,
                            &[&[1, 0][..], &(filter.len() as u16).to_be_bytes(), filter.as_bytes()].concat(),
                        );
                    }
                });
                w.ie(ie::FAR_ID, &[0, 0, 0, 2]);
            });
        }
        w.group(ie::CREATE_FAR, |w| {
            w.ie(ie::FAR_ID, &[0, 0, 0, 1]).ie(ie::APPLY_ACTION, &[2]);
            w.group(ie::FORWARDING_PARAMETERS, |w| {
                w.ie(ie::DESTINATION_INTERFACE, &[1]).ie(ie::NETWORK_INSTANCE, b"\x08internet");
            });
        });
        w.group(ie::CREATE_FAR, |w| {
            w.ie(ie::FAR_ID, &[0, 0, 0, 2]).ie(ie::APPLY_ACTION, &[action]);
            w.group(ie::FORWARDING_PARAMETERS, |w| {
                w.ie(ie::DESTINATION_INTERFACE, &[0]);
                w.ie(ie::OUTER_HEADER_CREATION, &[1, 0, 0, 0, 0, ue, 10, 0, 0, peer]);
            });
        });
    })
}

fn update_far(seid: u64, sequence: u32, action: u8) -> Vec<u8> {
    request(message::SESSION_MODIFICATION_REQUEST, Some(seid), sequence, |w| {
        w.group(ie::UPDATE_FAR, |w| {
            w.ie(ie::FAR_ID, &[0, 0, 0, 2]).ie(ie::APPLY_ACTION, &[action]);
        });
    })
}

#[test]
fn teids_that_we_choose_are_reported() {
    let mut pair = Pair::new();
    associate(&mut pair, 1, 1);
    let mut seen = Vec::new();
    for ue in 1..4 {
        let (_, ies) = answer(&pair.send(smf(), &establish(ue, u32::from(ue) + 1, 2, 11, &[])));
        let created: Vec<_> = ies.iter().filter(|(kind, _)| *kind == ie::CREATED_PDR).collect();
        assert_eq!(created.len(), 1);
        let inner: Vec<_> = Ies::new(&created[0].1).flatten().collect();
        assert_eq!(inner[0], (ie::PDR_ID, &[0, 1][..]));
        assert_eq!((inner[1].0, inner[1].1[0], &inner[1].1[5..]), (ie::F_TEID, 1, &[10, 0, 0, 1][..]));
        seen.push(inner[1].1[1..5].to_vec());
    }
    seen.dedup();
    assert_eq!(seen.len(), 3);
}

#[test]
fn idle_mode_and_paging() {
    let mut pair = Pair::new();
    associate(&mut pair, 1, 1);
    pair.send(smf(), &establish(1, 2, 12, 11, &[]));
    let has = |pair: &Pair, start: &str| pair.commands().iter().any(|c| c.starts_with(start));
    assert!(has(&pair, "table_add rules buffer 0x101 => 0x80000101 0x1 0x0"));
    assert!(has(&pair, "table_add rules to_tunnel 0x80000101 "));
    let report = pair.node.downlink_data(0, 0x101);
    let (header, ies) = answer(&report);
    assert_eq!((header.message, header.seid), (message::SESSION_REPORT_REQUEST, Some(101)));
    assert_eq!(ies[0], (ie::REPORT_TYPE, vec![1]));
    assert_eq!(ies[1], (ie::DOWNLINK_DATA_REPORT, vec![0, 56, 0, 2, 0, 2]));
    pair.cells.insert(("notified", 1), 1);
    let outputs = pair.send(smf(), &update_far(1, 3, 2));
    assert_eq!(cause(&outputs), 1);
    assert!(has(&pair, "table_add rules to_tunnel 0x101 "));
    assert_eq!(pair.cells[&("notified", 1)], 0);
}

#[test]
fn sessions_with_the_same_filters_share_them() {
    let mut pair = Pair::new();
    associate(&mut pair, 1, 1);
    let filters =
        ["permit out 17 from 192.0.2.53 53 to assigned", "permit out 6 from any 80-443 to assigned"];
    for ue in 1..=50 {
        assert_eq!(cause(&pair.send(smf(), &establish(ue, u32::from(ue) + 1, 2, 11, &filters))), 1);
    }
    let count = |pair: &Pair, table| pair.entries.keys().filter(|k| k.table == table).count();
    assert_eq!((count(&pair, Table::FiltersV4), count(&pair, Table::FiltersV6)), (3, 2));
    assert_eq!(
        (count(&pair, Table::Teids), count(&pair, Table::UesV4), count(&pair, Table::Peers)),
        (50, 50, 1)
    );
    for seid in 1..=50 {
        pair.send(smf(), &request(message::SESSION_DELETION_REQUEST, Some(seid), 100 + seid as u32, |_| {}));
    }
    assert_eq!(pair.entries.len(), 0);
}

#[test]
fn two_sessions_cannot_have_one_address() {
    let mut pair = Pair::new();
    associate(&mut pair, 1, 1);
    assert_eq!(cause(&pair.send(smf(), &establish(1, 2, 2, 11, &[]))), 1);
    let before = pair.commands();
    assert_eq!(cause(&pair.send(smf(), &establish(1, 3, 2, 12, &[]))), 73);
    assert_eq!(pair.commands(), before);
    // The other session's number is free again.
    let (_, ies) = answer(&pair.send(smf(), &establish(2, 4, 2, 12, &[])));
    assert_eq!(ies[2], (ie::F_SEID, f_seid(2, "10.0.0.1".parse().unwrap())));
}

#[test]
fn an_smf_that_vanishes_or_begins_again_loses_its_sessions() {
    let mut pair = Pair::new();
    associate(&mut pair, 1, 1);
    pair.send(smf(), &establish(1, 2, 2, 11, &[]));
    assert_ne!(pair.entries.len(), 0);
    // Another recovery time stamp in a heartbeat.
    let heartbeat = |stamp: u8| {
        request(message::HEARTBEAT_REQUEST, None, 50 + u32::from(stamp), |w| {
            w.ie(ie::RECOVERY_TIME_STAMP, &[0, 0, 0, stamp]);
        })
    };
    pair.send(smf(), &heartbeat(1));
    assert_ne!(pair.entries.len(), 0);
    pair.send(smf(), &heartbeat(2));
    assert_eq!(pair.entries.len(), 0);
    // Silence: a heartbeat, three more, and another one before the end.
    pair.send(smf(), &establish(1, 3, 2, 11, &[]));
    let mut sent = 0;
    for second in 1..60 {
        pair.now = 1000 * second;
        let outputs = pair.node.tick(pair.now);
        sent += outputs.iter().filter(|o| matches!(o, Output::Send { .. })).count();
        pair.carry_out(&outputs);
    }
    assert_eq!((sent, pair.entries.len(), pair.node.associations().count()), (5, 0, 0));
    assert_eq!(cause(&pair.send(smf(), &establish(1, 4, 2, 11, &[]))), 72);
}

#[test]
fn a_threshold_is_reported_and_set_again() {
    let mut pair = Pair::new();
    pair.send(smf(), &scapy()[1]);
    pair.send(smf(), &scapy()[2]);
    pair.usage.insert(2, (10, 1_000_100));
    let usage = pair.usage.clone();
    let outputs =
        pair.node.credit_used(0, 0x100, 1, &mut |cell| usage.get(&cell).copied().unwrap_or_default());
    let (header, ies) = answer(&outputs);
    assert_eq!(
        (header.message, ies[0].clone(), ies[1].0),
        (message::SESSION_REPORT_REQUEST, (ie::REPORT_TYPE, vec![2]), ie::USAGE_REPORT)
    );
    assert!(outputs.contains(&Output::Change(vec![Change::Register {
        name: "credit",
        cell: 1,
        value: 1_000_000
    }])));
    // Repeated until it is answered.
    let tick = pair.node.tick(3000);
    assert_eq!(answer(&tick).0.sequence, header.sequence);
    let response = request(message::SESSION_REPORT_RESPONSE, Some(1), header.sequence, |w| {
        w.ie(ie::CAUSE, &[1]);
    });
    assert_eq!(pair.send(smf(), &response), []);
    assert_eq!(pair.node.tick(6000), []);
}

#[test]
fn other_versions_and_nonsense() {
    let mut pair = Pair::new();
    let outputs = pair.send(smf(), &[0x40, 1, 0, 4, 0, 0, 9, 0]);
    assert_eq!(
        answer(&outputs).0,
        Header { message: message::VERSION_NOT_SUPPORTED, seid: None, sequence: 9 }
    );
    for bytes in [&[][..], &[0x20], &[0x20, 1, 0, 200, 1], &[0x21, 50, 0, 4, 0, 0, 0, 0]] {
        assert_eq!(pair.send(smf(), bytes), []);
    }
}

/// Mutated messages, in any order: the switch never refuses a change, and when all sessions have ended it is empty.
#[test]
fn mutated_messages_keep_the_switch_right() {
    let mut state = 88_172_645_463_325_252_u64;
    let mut below = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % n as u64) as usize
    };
    let filters = [
        "permit out 17 from 192.0.2.53 53 to assigned",
        "permit out ip from 10.0.0.0/8 to 10.60.0.0/16 1-5,7",
    ];
    let rounds = std::env::var("MESSAGES").ok().and_then(|n| n.parse().ok()).unwrap_or(60_000);
    let mut pair = Pair::new();
    let mut seeds = scapy();
    for ue in 1..6 {
        seeds.push(establish(
            ue,
            0,
            [2, 12, 4, 1, 9][usize::from(ue) - 1],
            11 + ue % 3,
            &filters[..usize::from(ue % 3)],
        ));
        seeds.push(update_far(ue.into(), 0, [2, 4, 12, 1, 18][usize::from(ue) - 1]));
        seeds.push(request(message::SESSION_DELETION_REQUEST, Some(ue.into()), 0, |_| {}));
    }
    let mut accepted = 0;
    for round in 0..rounds {
        let mut bytes = seeds[below(seeds.len())].clone();
        for _ in 0..below(4) {
            let at = below(bytes.len());
            match below(6) {
                0 => bytes[at] ^= 1 << below(8),
                1 => bytes[at] = below(256) as u8,
                2 => bytes.truncate(at.max(1)),
                3 => {
                    let piece = bytes[at..(at + below(12)).min(bytes.len())].to_vec();
                    let to = below(bytes.len());
                    bytes.splice(to..to, piece);
                }
                4 => {
                    let other = &seeds[below(seeds.len())];
                    bytes.truncate(at.max(1));
                    bytes.extend(&other[below(other.len())..]);
                }
                _ => bytes[at] = [0, 1, 2, 0x7f, 0x80, 0xff][below(6)],
            }
        }
        // Right lengths and new numbers, most of the time, so that the rest is read.
        if bytes.len() >= 16 && below(10) > 0 {
            let length = (bytes.len() - 4) as u16;
            bytes[2..4].copy_from_slice(&length.to_be_bytes());
            let at = if bytes[0] & 1 == 1 { 12 } else { 4 };
            bytes[at..at + 3].copy_from_slice(&(round as u32).to_be_bytes()[1..]);
        }
        if below(50) == 0 {
            associate(&mut pair, 3_900_000_000, round as u32 | 0x80_0000);
        }
        let outputs = pair.send(smf(), &bytes);
        let is_answer = |o: &Output| matches!(o, Output::Send { bytes, .. } if [51, 53].contains(&bytes[1]));
        if outputs.iter().any(is_answer) && cause(&outputs) == 1 {
            accepted += 1;
        }
        if below(20) == 0 {
            pair.now += 500;
            let outputs = pair.node.tick(pair.now);
            pair.carry_out(&outputs);
        }
    }
    assert!(accepted > rounds / 100, "only {accepted} of {rounds} messages were accepted");
    let release = request(message::ASSOCIATION_RELEASE_REQUEST, None, 0xff_fffe, |w| {
        w.ie(ie::NODE_ID, &node_id(smf().ip()));
    });
    pair.send(smf(), &release);
    assert_eq!(pair.node.sessions().iter().count(), 0);
    assert_eq!(pair.commands(), [""; 0]);
}
