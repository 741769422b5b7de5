//! Queues alone, in virtual time.

use super::*;

const S: u64 = 1_000_000_000;

/// Queues with settings made by `change`.
fn serving(change: impl FnOnce(&mut QueueConfig)) -> Serving<u32> {
    let shared = Arc::new(Queues::default());
    shared.configure(change);
    Serving::new(shared)
}

/// Returns the packets that leave until `end_ns`, with their times. The clock jumps from one due time to the next.
fn run(serving: &mut Serving<u32>, end_ns: u64) -> Vec<(u64, u32, Queued)> {
    let mut all = Vec::new();
    while let Some(now) = serving.next_due_ns().filter(|now| *now <= end_ns) {
        while let Some((packet, queued)) = serving.next(now) {
            all.push((now, packet, queued));
        }
    }
    all
}

fn packets(all: &[(u64, u32, Queued)]) -> Vec<u32> {
    all.iter().map(|(_, packet, _)| *packet).collect()
}

#[test]
fn a_queue_keeps_the_order() {
    let mut s = serving(|config| config.change(None, |port| port.queues[0].rate = Some(Rate::Packets(1000))));
    (0..50).for_each(|i| s.enqueue((1, 0), i, 100, 0).expect("room"));
    assert_eq!(packets(&run(&mut s, S)), (0..50).collect::<Vec<_>>());
    assert_eq!(s.packets(), 0);
    assert_eq!(s.next_due_ns(), None);
}

#[test]
fn the_higher_number_is_served_first() {
    let mut s = serving(|config| {
        config.change(Some(1), |port| port.rate = Some(Rate::Packets(1000)));
    });
    for i in 0..4 {
        for queue in [2, 0, 7] {
            s.enqueue((1, queue), 10 * queue + i, 100, 0).expect("room");
        }
    }
    assert_eq!(packets(&run(&mut s, S)), [70, 71, 72, 73, 20, 21, 22, 23, 0, 1, 2, 3]);
}

/// A packet of high priority that arrives after the time at which another one was due does not overtake that one,
/// even if the worker looks later.
#[test]
fn served_packets_do_not_depend_on_polling() {
    let mut s = serving(|config| config.change(None, |port| port.rate = Some(Rate::Packets(1000))));
    (0..3).for_each(|i| s.enqueue((1, 0), i, 100, 0).expect("room"));
    s.enqueue((1, 7), 70, 100, 1_500_000).expect("room");
    let late: Vec<u32> = std::iter::from_fn(|| s.next(S).map(|(packet, _)| packet)).collect();
    assert_eq!(late, [0, 1, 70, 2]);
}

#[test]
fn weights_share_what_strict_queues_leave() {
    let mut s = serving(|config| {
        config.change(None, |port| {
            port.rate = Some(Rate::Bits(8_000_000));
            for (queue, weight) in [(0, 1), (1, 3), (2, 4)] {
                port.queues[queue] = QueueSettings { weight, depth: Some(100_000), ..Default::default() };
            }
            port.queues[3].depth = Some(100_000);
        });
    });
    // Frames of different lengths: shares are of bytes. 1 MB a second, of which the strict queue takes 100 kB.
    let lengths = [1500, 200, 700];
    for (queue, length) in lengths.into_iter().enumerate() {
        (0..4 * 1_000_000 / length).for_each(|_| {
            s.enqueue((1, queue as u32), queue as u32, length, 0).expect("room");
        });
    }
    (0..4000).for_each(|_| s.enqueue((1, 3), 3, 100, 0).expect("room"));
    let mut bytes = [0usize; 4];
    for (_, queue, _) in run(&mut s, 4 * S) {
        bytes[queue as usize] += [1500, 200, 700, 100][queue as usize];
    }
    assert_eq!(bytes[3], 400_000);
    for (queue, share) in [(0, 1), (1, 3), (2, 4)] {
        let wanted = 3_600_000.0 * f64::from(share) / 8.0;
        assert!((bytes[queue] as f64 / wanted - 1.0).abs() < 0.05, "queue {queue}: {bytes:?}");
    }
}

#[test]
fn rates_hold_within_two_percent() {
    for (rate, length, wanted) in [
        (Rate::Packets(777), 64, 7770.0),
        (Rate::Bits(1_000_000), 1500, 10.0 * 1_000_000.0 / 12_000.0),
        (Rate::Packets(1_000_000), 64, 10_000_000.0),
        (Rate::Bits(3_333_333), 77, 10.0 * 3_333_333.0 / 616.0),
    ] {
        for of_port in [false, true] {
            let mut s = serving(|config| {
                config.change(None, |port| {
                    port.queues[0].depth = Some(5000);
                    match of_port {
                        true => port.rate = Some(rate),
                        false => port.queues[0].rate = Some(rate),
                    }
                });
            });
            // Packets come faster than they leave, and the worker looks every 3 ms.
            let (mut sent, mut now) = (0, 0);
            while now < 10 * S {
                while s.enqueue((1, 0), 0, length, now).is_ok() {}
                while s.next(now).is_some() {
                    sent += 1;
                    s.enqueue((1, 0), 0, length, now).expect("one has left");
                }
                now += 3_000_000;
            }
            assert!((f64::from(sent) / wanted - 1.0).abs() < 0.02, "{rate:?}: {sent}, not {wanted}");
        }
    }
}

#[test]
fn excess_packets_are_dropped_and_counted() {
    let mut s = serving(|config| {
        config.change(Some(4), |port| {
            port.queues[2] = QueueSettings { depth: Some(5), rate: Some(Rate::Packets(10)), weight: 0 };
        });
    });
    let results: Vec<bool> = (0..9).map(|i| s.enqueue((4, 2), i, 100, 0).is_ok()).collect();
    assert_eq!(results, [true, true, true, true, true, false, false, false, false]);
    assert_eq!(s.enqueue((4, 2), 0, 100, 0), Err((0, Refusal::Full)));
    let stats = s.shared.stats()[&4][2];
    assert_eq!(stats, QueueStats { enqueued: 5, dequeued: 0, dropped: 5, depth: 5, depth_max: 5 });
    let all = run(&mut s, S);
    assert_eq!(packets(&all), [0, 1, 2, 3, 4]);
    assert_eq!(all.iter().map(|(at, ..)| *at).collect::<Vec<_>>(), [0, S / 10, S / 5, 3 * S / 10, 2 * S / 5]);
    let stats = s.shared.stats()[&4][2];
    assert_eq!(stats, QueueStats { enqueued: 5, dequeued: 5, dropped: 5, depth: 0, depth_max: 5 });
}

#[test]
fn packets_learn_of_their_queue() {
    let mut s = serving(|config| config.change(None, |port| port.queues[1].rate = Some(Rate::Packets(1000))));
    for i in 0..3 {
        s.enqueue((1, 1), i, 100, 5_000 + u64::from(i) * 100_000).expect("room");
    }
    let seen: Vec<_> = run(&mut s, S).into_iter().map(|(now, _, queued)| (now, queued)).collect();
    let queued = |enqueued_us, enqueue_depth, dequeue_depth| Queued {
        enqueued_us,
        enqueue_depth,
        dequeue_depth,
        queue: 1,
    };
    let wanted = [(5_000, queued(5, 0, 2)), (1_005_000, queued(105, 1, 1)), (2_005_000, queued(205, 2, 0))];
    assert_eq!(seen, wanted);
    assert_eq!(seen[2].1.value(p4jet_ir::Intrinsic::QueueTime, 2005), 1800);
}

#[test]
fn there_are_as_many_queues_and_ports_as_there_are() {
    let mut s = serving(|config| config.queues_per_port = 2);
    s.enqueue((1, 1), 0, 100, 0).expect("room");
    assert_eq!(s.enqueue((1, 2), 0, 100, 0), Err((0, Refusal::NoQueue)));
    for port in 2..=QUEUED_PORTS_MAX as u32 {
        s.enqueue((port * 1000, 0), 0, 100, 0).expect("room");
    }
    assert_eq!(s.enqueue((5, 0), 0, 100, 0), Err((0, Refusal::NoQueue)));
    s.enqueue((1, 0), 0, 100, 0).expect("a port that is known");
    assert_eq!(run(&mut s, 0).len(), QUEUED_PORTS_MAX + 1);
}

/// Programs that invent port numbers, and are replaced, neither use memory without bound nor take away the room of their
/// successors.
#[test]
fn reloads_keep_the_number_of_ports_bounded() {
    let first = serving(|_| ());
    let shared = Arc::clone(&first.shared);
    let mut earlier = first;
    for program in 0..3u32 {
        for port in 0..(QUEUED_PORTS_MAX - earlier.ports.len()) as u32 {
            let entered = earlier.enqueue((program * 1_000_000 + port, 0), 0, 100, 0);
            assert!(entered.is_ok(), "program {program}, port {port}");
        }
        assert_eq!(shared.stats().len(), QUEUED_PORTS_MAX);
        let mut next: Serving<u32> = Serving::new(Arc::clone(&shared));
        assert_eq!(
            next.enqueue((7_000_000, 0), 0, 100, 0),
            Err((0, Refusal::NoQueue)),
            "the earlier one has all"
        );
        assert!(next.enqueue((program * 1_000_000, 0), 0, 100, 0).is_ok(), "a port that is known");
        earlier = next;
    }
}

/// A packet of a program waits for those of an earlier one at its own port, and for no others. This takes no longer if all ports
/// have such packets.
#[test]
fn ports_are_held_until_earlier_packets_have_left() {
    let ports = QUEUED_PORTS_MAX as u32;
    let mut earlier = serving(|_| ());
    (0..ports).for_each(|port| earlier.enqueue((port * 3, 0), 0, 100, 0).expect("room"));
    let mut s: Serving<u32> = Serving::new(Arc::clone(&earlier.shared));
    s.follow([&earlier].into_iter());
    (0..ports).for_each(|port| s.enqueue((port * 3, 0), port, 100, 0).expect("room"));
    let start = time();
    for _ in 0..2000 {
        s.earliest = 0;
        assert!(s.next(1).is_none() && s.next_due_ns().is_none());
    }
    let took = time() - start;
    assert!(took < Duration::from_secs(1), "{took:?}");
    let left = earlier.next(1).expect("the first has left");
    assert_eq!((left.0, earlier.ports[0].waiting), (0, 0));
    s.follow([&earlier].into_iter());
    assert_eq!(s.next(1).map(|(packet, _)| packet), Some(0));
    assert!(s.next(1).is_none());
    s.follow([].into_iter());
    assert_eq!(run(&mut s, 1).len(), QUEUED_PORTS_MAX - 1);
}

/// The processor time of this thread.
fn time() -> Duration {
    let text =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts the time of threads");
    let ns = text.split(' ').next().and_then(|ns| ns.parse().ok());
    Duration::from_nanos(ns.expect("the first number is the time in nanoseconds"))
}

#[test]
fn settings_change_while_packets_wait() {
    let mut s = serving(|config| config.change(None, |port| port.rate = Some(Rate::Packets(1))));
    (0..10).for_each(|i| s.enqueue((1, 0), i, 100, 0).expect("room"));
    assert_eq!(run(&mut s, 0).len(), 1);
    let shared = Arc::clone(&s.shared);
    shared.configure(|config| config.change(Some(1), |port| port.rate = Some(Rate::Packets(1000))));
    s.refresh();
    assert_eq!(run(&mut s, S + 8_000_000).len(), 9);
}

#[test]
fn an_inbox_hands_packets_over_and_memory_back() {
    let inbox: Inbox<u32, char> = Inbox::new().expect("sockets");
    assert!(inbox.sleep(), "nothing is there");
    inbox.put(&mut vec![1, 2], 0, |_| panic!("no memory yet"));
    assert!(!inbox.sleep());
    let (mut taken, mut memory) = (vec![0], "abc".chars());
    inbox.take(&mut taken, 0, || memory.next());
    assert_eq!(taken, [0, 1, 2]);
    assert!(!inbox.is_filled());
    let mut back = Vec::new();
    inbox.put(&mut vec![3], 1, |c| back.push(c));
    assert_eq!(back, ['a', 'b']);
    // The sender has contributed to sample 1: the packets stay until this worker has, too.
    inbox.take(&mut taken, 0, || None);
    assert_eq!(taken, [0, 1, 2]);
    assert!(inbox.is_filled());
    inbox.take(&mut taken, 1, || None);
    assert_eq!(taken, [0, 1, 2, 3]);
}

#[test]
fn workers_rest_only_together() {
    let inboxes: Vec<Inbox<u32, char>> = (0..2).map(|_| Inbox::new().expect("sockets")).collect();
    assert!(!all_rest(&inboxes));
    inboxes.iter().for_each(|inbox| inbox.set_resting(true));
    assert!(all_rest(&inboxes));
    inboxes[1].put(&mut vec![1], 0, drop);
    assert!(!all_rest(&inboxes), "something is on its way");
    inboxes[1].take(&mut Vec::new(), 0, || None);
    assert!(!all_rest(&inboxes), "something has come");
    inboxes[1].set_resting(true);
    assert!(all_rest(&inboxes));
}

#[test]
fn a_rate_makes_the_default_depth_small() {
    let depth = |change: fn(&mut PortSettings)| {
        let mut s = serving(|config| config.change(None, change));
        (0..DEPTH_WITHOUT_RATE + 1).take_while(|i| s.enqueue((1, 2), *i, 100, 0).is_ok()).count() as u32
    };
    assert_eq!(depth(|_| ()), DEPTH_WITHOUT_RATE);
    assert_eq!(depth(|port| port.rate = Some(Rate::Packets(1000))), DEPTH_WITH_RATE);
    assert_eq!(depth(|port| port.queues[2].rate = Some(Rate::Packets(1000))), DEPTH_WITH_RATE);
    assert_eq!(depth(|port| port.queues[1].rate = Some(Rate::Packets(1000))), DEPTH_WITHOUT_RATE);
    assert_eq!(
        depth(|port| {
            port.rate = Some(Rate::Packets(1000));
            port.queues[2].depth = Some(7);
        }),
        7
    );
}

/// A queue that is emptied again and again, by packets shorter than its share, accumulates no credit.
#[test]
fn an_empty_queue_keeps_no_credit() {
    let mut s = serving(|config| {
        config.change(None, |port| {
            port.rate = Some(Rate::Packets(1_000_000));
            port.queues[0].weight = 1;
            port.queues[1].weight = 1;
        });
    });
    for round in 0..50 {
        let now = round * 1_000_000;
        s.enqueue((1, 0), 0, 64, now).expect("room");
        s.enqueue((1, 1), 1, 512, now).expect("room");
        run(&mut s, now + 999_999);
    }
    for _ in 0..20 {
        s.enqueue((1, 0), 0, 512, 50_000_000).expect("room");
        s.enqueue((1, 1), 1, 512, 50_000_000).expect("room");
    }
    let order = packets(&run(&mut s, S));
    assert_eq!(order.len(), 40);
    for pair in order.chunks(2) {
        assert_eq!(pair[0] + pair[1], 1, "each its turn: {order:?}");
    }
}

#[test]
fn queues_follow_a_busy_link() {
    let mut serving: Serving<u32> = Serving::following_links(Arc::default());
    let put = |serving: &mut Serving<u32>, packet| serving.enqueue((1, 0), packet, 100, 1000);
    let depths = |serving: &mut Serving<u32>| {
        let left = std::iter::from_fn(|| serving.next(2000));
        left.map(|(packet, queued)| (packet, queued.enqueue_depth, queued.dequeue_depth)).collect::<Vec<_>>()
    };
    // Packets that the link accepts at once count no packets before them.
    (0..3).for_each(|packet| put(&mut serving, packet).unwrap());
    assert_eq!(depths(&mut serving), [(0, 0, 0), (1, 0, 0), (2, 0, 0)]);
    serving.set_room(1, 2);
    (0..6).for_each(|packet| put(&mut serving, packet).unwrap());
    assert_eq!(depths(&mut serving), [(0, 0, 4), (1, 0, 4)]);
    assert_eq!(serving.next_due(2000), Some(LOOK_AT_LINK));
    serving.set_room(1, 1);
    assert_eq!(depths(&mut serving), [(2, 0, 3)]);
    serving.set_room(1, 0);
    let refused = (6..100).map(|packet| put(&mut serving, packet)).filter(Result::is_err).count();
    assert_eq!(refused, 94 - (64 - 3), "as many fit as into a queue of bmv2");
    serving.set_room(1, usize::MAX);
    let left = depths(&mut serving);
    assert_eq!((left[3], left.len()), ((6, 3, 0), 64));
    assert_eq!(serving.next_due(2000), None);
    // The first packets of a port meet its link as the later ones do.
    serving.set_room(2, 1);
    (0..4).for_each(|packet| serving.enqueue((2, 0), packet, 100, 1000).unwrap());
    serving.set_room(2, usize::MAX);
    assert_eq!(depths(&mut serving), [(0, 0, 0), (1, 0, 0), (2, 1, 0), (3, 2, 0)]);
}

#[test]
fn the_bytes_of_all_queues_are_limited() {
    let mut s = serving(|config| {
        config.change(None, |port| {
            port.rate = Some(Rate::Packets(1_000_000));
            port.queues[0].depth = Some(u32::MAX);
        });
    });
    let most = QUEUED_BYTES_MAX / (9000 + PACKET_BYTES);
    for i in 0..most as u32 {
        s.enqueue((i % 3, 0), i, 9000, 0).expect("room");
    }
    assert_eq!(s.enqueue((3, 0), 0, 9000, 0), Err((0, Refusal::Full)), "another port has no room either");
    // A packet that leaves makes room for another.
    assert!(s.next(S).is_some());
    s.enqueue((3, 0), 0, 9000, S).expect("room");
    assert_eq!(run(&mut s, 2 * S).len(), most);
    assert_eq!(s.bytes, 0);
}
