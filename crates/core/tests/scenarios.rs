//! Small networks whose every figure can be checked by hand.

mod common;

use common::{Plain, assert_balanced, drain, frame, host, send, topology};
use longhaul_core::engine::{CREATED, GATEWAY_MAC, host_mac};
use longhaul_core::packet::FrameError;
use longhaul_core::params::LossModel;
use longhaul_core::router::Silent;
use longhaul_core::topology::{Link, PipeParams};
use longhaul_core::units::{Framing, Probability, QueueLimit, Rate};
use longhaul_core::{Engine, EngineConfig, PipeId, Refused, Span, Time, Topology};

fn pipe(rate: &str, delay: &str) -> PipeParams {
    PipeParams {
        rate: rate.parse().ok(),
        delay: delay.parse().unwrap(),
        ..PipeParams::default()
    }
}

fn engine(topology: Topology) -> Engine {
    Engine::new(topology, EngineConfig::default(), Box::new(Plain))
}

/// h1 - r1 - r2 - h2: 100 Mbit/s and 1 ms, 10 Mbit/s and 5 ms, 1 Gbit/s and 100 us.
fn chain(queue: QueueLimit) -> Topology {
    let bottleneck = PipeParams {
        queue,
        ..pipe("10 Mbit/s", "5 ms")
    };
    let links = [
        ("h1", "r1", pipe("100 Mbit/s", "1 ms")),
        ("r1", "r2", bottleneck),
        ("r2", "h2", pipe("1 Gbit/s", "100 us")),
    ];
    topology(&["h1", "h2", "r1", "r2"], &links)
}

fn find(engine: &Engine, name: &str) -> PipeId {
    engine.topology().find_pipes(name)[0]
}

/// Compares what came out with a table of `id  due in ns`.
fn assert_table(engine: &mut Engine, table: &str) {
    engine.advance(Time::MAX);
    let rows = drain(engine)
        .into_iter()
        .map(|(id, _, due, ..)| format!("{id} {due}"));
    let words = |row: &str| row.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected: Vec<String> = table
        .lines()
        .map(words)
        .filter(|row| !row.is_empty())
        .collect();
    assert_eq!(rows.collect::<Vec<_>>(), expected);
    assert_balanced(engine);
}

/// 1518 bytes take 121,440 ns, then 1,214,400, then 12,144. Packet n comes to r1 at
/// 1,121,440 + 121,440·n. With room for two: 0 is sent, 1 and 2 wait, 3 to 9 find no room; 10 comes
/// at 2,335,840, the very instant at which 0 has been sent and 1 starts, and finds room; 11 none.
#[test]
fn a_chain_of_three_hops() {
    let mut engine = engine(chain(QueueLimit::Packets(2)));
    (0..12).for_each(|_| send(&mut engine, "h1", "h2", 0, 1500));
    assert_table(
        &mut engine,
        "0      7447984
         1      8662384
         2      9876784
         10    11091184",
    );
    assert_eq!(engine.counters().dropped.queue, 8);
    let counters = engine.pipe_counters(find(&engine, "r1>r2"));
    assert_eq!((counters.packets, counters.bytes), (4, 4 * 1518));
    assert_eq!((counters.drops_queue, counters.busy_ns), (8, 4 * 1_214_400));
}

/// Room for 2000 bytes: behind the packet in service, one of 1518 fits, and one of 482 with it.
#[test]
fn a_queue_counted_in_bytes() {
    let mut engine = engine(chain(QueueLimit::Bytes(2000)));
    for ip_len in [1500, 1500, 1500, 464, 464] {
        send(&mut engine, "h1", "h2", 0, ip_len);
    }
    engine.advance(Time::from_ns(2_000_000));
    assert_eq!(engine.waiting(find(&engine, "r1>r2")), (2, 2000));
    assert_eq!(engine.counters().dropped.queue, 2);
    engine.advance(Time::MAX);
    assert_eq!(drain(&mut engine).len(), 3);
}

/// 1500 bytes leave h1 in 121,440 ns. Two enter at once; a third, handed over ahead of its stamp,
/// finds its pipe idle by then. What waits now waits all the same, and the third is counted with it;
/// of what has been sent nothing is.
#[test]
fn what_waits_is_known_behind_arrivals_ahead_of_time() {
    let mut engine = engine(chain(QueueLimit::Packets(10)));
    for stamp in [0, 0, 1_000_000] {
        send(&mut engine, "h1", "h2", stamp, 1500);
    }
    let first = find(&engine, "h1>r1");
    assert_eq!(engine.waiting(first), (2, 2 * 1518));
    engine.advance(Time::from_ns(500_000));
    assert_eq!(engine.waiting(first), (0, 0));
    engine.advance(Time::MAX);
    assert_eq!(
        (engine.waiting(first), drain(&mut engine).len()),
        ((0, 0), 3)
    );
}

/// 1000 bytes of IP at 1 Mbit/s take 8 ms. At 4 ms half of packet 0 is left; at 2 Mbit/s that
/// takes 2 ms, and the others 4 ms each. At 8 ms packet 1 is half sent too, and the rest takes no
/// time; the new delay holds for what departs from then on, and nothing overtakes packet 0.
#[test]
fn a_changed_rate_holds_pro_rata() {
    let params = PipeParams {
        framing: Framing::Ip,
        ..pipe("1 Mbit/s", "3 ms")
    };
    let mut engine = engine(topology(&["h1", "h2"], &[("h1", "h2", params.clone())]));
    (0..3).for_each(|_| send(&mut engine, "h1", "h2", 0, 1000));
    let there = find(&engine, "h1>h2");
    engine.advance(Time::from_ns(4_000_000));
    let faster = PipeParams {
        rate: "2 Mbit/s".parse().ok(),
        ..params
    };
    engine.set(there, faster.clone());
    assert_eq!(engine.pipe_counters(there).busy_ns, 4_000_000);
    assert_eq!(engine.next_due(), Some(Time::from_ns(9_000_000)));
    engine.advance(Time::from_ns(8_000_000));
    engine.set(
        there,
        PipeParams {
            rate: None,
            delay: Span::ZERO,
            ..faster
        },
    );
    send(&mut engine, "h1", "h2", 8_500_000, 1000);
    send(&mut engine, "h1", "h2", 9_500_000, 1000);
    assert_table(
        &mut engine,
        "0      9000000
         1      9000000
         2      9000000
         3      9000000
         4      9500000",
    );
    assert_eq!(engine.pipe_counters(there).busy_ns, 8_000_000);
}

#[test]
fn a_late_reading_is_staleness_and_nothing_else() {
    let mut engine = engine(topology(
        &["h1", "h2"],
        &[("h1", "h2", pipe("8 Mbit/s", "1 ms"))],
    ));
    engine.advance(Time::from_ns(10_000_000));
    send(&mut engine, "h1", "h2", 7_518_000, 482); // 500 us to send: due at 9.018 ms
    send(&mut engine, "h1", "h2", 9_500_000, 482); // due at 11 ms, as if read at once
    engine.advance(Time::MAX);
    let out: Vec<_> = drain(&mut engine).iter().map(|d| (d.2, d.3, d.4)).collect();
    assert_eq!(
        out,
        [(10_000_000, 1_000_000, 982_000), (11_000_000, 1_000_000, 0)]
    );
}

/// A frame that waits at ingress no longer than it would in its first pipe loses nothing.
#[test]
fn a_backlog_makes_up_for_late_reading() {
    let links = [
        ("h1", "h2", pipe("8 Mbit/s", "1 ms")),
        ("h2", "h3", PipeParams::default()),
    ];
    let mut engine = engine(topology(&["h1", "h2", "h3"], &links));
    let backlog = |engine: &Engine, name, ns| {
        let host = host(engine, name);
        engine.backlog(host, Time::from_ns(ns)).as_ns()
    };
    assert_eq!(backlog(&engine, "h1", 0), 0);
    (0..4).for_each(|_| send(&mut engine, "h1", "h2", 0, 482)); // 500 us to send
    assert_eq!(backlog(&engine, "h1", 0), 2_000_000);
    assert_eq!(backlog(&engine, "h1", 700_000), 1_300_000);
    assert_eq!(backlog(&engine, "h1", 2_000_001), 0);
    assert_eq!(backlog(&engine, "h3", 0), 0, "no rate, no backlog");
    // Its stamp, the way of 1 ms and the backlog allow for 2.3 ms at ingress.
    engine.advance(Time::from_ns(700_000 + 2_300_000));
    send(&mut engine, "h1", "h2", 700_000, 482);
    engine.advance(Time::MAX);
    let last = drain(&mut engine).pop().unwrap();
    assert_eq!((last.2, last.4), (3_500_000, 0), "due, shift");
}

/// The general form knows it too, without the packet in service.
#[test]
fn a_shaped_pipe_has_a_backlog() {
    let shaped = |link: &str| PipeParams {
        bit_errors: Probability::from_ratio(1, u64::MAX).unwrap(),
        ..pipe(link, "1 ms")
    };
    let bursts = PipeParams {
        burst: Some(longhaul_core::units::Bytes(1000)),
        ..pipe("8 Mbit/s", "1 ms")
    };
    let links = [("h1", "h2", shaped("8 Mbit/s")), ("h2", "h3", bursts)];
    let mut engine = engine(topology(&["h1", "h2", "h3"], &links));
    for pair in [["h1", "h2"], ["h3", "h2"]] {
        (0..5).for_each(|_| send(&mut engine, pair[0], pair[1], 0, 482)); // 500 us each
    }
    engine.advance(Time::ZERO);
    let backlog = |name, ns| {
        let host = host(&engine, name);
        engine.backlog(host, Time::from_ns(ns)).as_ns()
    };
    assert_eq!(backlog("h1", 0), 2_000_000);
    assert_eq!(backlog("h1", 700_000), 1_300_000);
    assert_eq!(backlog("h3", 0), 0, "with a burst nobody knows");
}

/// Thousands are under way, and still exactly those that find 300 waiting are dropped.
#[test]
fn a_long_pipe_drops_exactly_what_finds_no_room() {
    for queue in [QueueLimit::Packets(300), QueueLimit::Bytes(150_000)] {
        let long = PipeParams {
            queue,
            ..pipe("1 Gbit/s", "100 ms")
        };
        let mut engine = engine(topology(&["h1", "h2"], &[("h1", "h2", long)]));
        for burst in 0..10 {
            let ns = burst * 2_000_000; // the last one took 1.2 ms
            engine.advance(Time::from_ns(ns));
            (0..310).for_each(|_| send(&mut engine, "h1", "h2", ns, 482));
        }
        engine.advance(Time::MAX);
        assert_eq!(drain(&mut engine).len(), 3010);
        assert_eq!(engine.counters().dropped.queue, 90);
    }
}

/// Both come to r at the same time; that of the pipe first by name goes first.
#[test]
fn ties_fall_by_name() {
    let instant = PipeParams::default();
    let slow = pipe("1 Mbit/s", "0 s");
    let links = [
        ("h1", "r", instant.clone()),
        ("h2", "r", instant),
        ("r", "h3", slow),
    ];
    for order in [["h1", "h2"], ["h2", "h1"]] {
        let mut engine = engine(topology(&["h1", "h2", "h3", "r"], &links));
        order
            .iter()
            .for_each(|from| send(&mut engine, from, "h3", 5, 982));
        engine.advance(Time::MAX);
        let ids: Vec<u32> = drain(&mut engine).iter().map(|d| d.0).collect();
        assert_eq!(ids, if order[0] == "h1" { [0, 1] } else { [1, 0] });
    }
}

#[test]
fn what_is_delivered_carries_its_edits() {
    let mut engine = engine(chain(QueueLimit::default()));
    send(&mut engine, "h1", "h2", 0, 100);
    engine.advance(Time::MAX);
    let egress = engine.poll_egress().unwrap();
    let bytes = engine.frame(&egress);
    let to = host(&engine, "h2");
    let address = |name| engine.topology().node(host(&engine, name)).ipv4;
    let mut expected = frame(address("h1"), address("h2"), 100, 62, false);
    expected[..6].copy_from_slice(&host_mac(to));
    expected[6..12].copy_from_slice(&GATEWAY_MAC);
    assert_eq!(bytes, expected);
    assert_eq!((egress.host, egress.path_delay), (to, Span::from_us(6100)));
    assert_eq!(engine.slots_in_use(), 1);
    engine.release(egress);
    assert_eq!(engine.slots_in_use(), 0);
}

/// Sends a frame from h1 over the chain and gives (host, created by a router) of what comes out.
fn provoke(engine: &mut Engine, frame: &[u8]) -> Vec<(String, bool)> {
    let from = host(engine, "h1");
    engine.arrive(from, engine.now(), frame).unwrap();
    engine.advance(engine.now() + Span::from_s(1));
    assert_balanced(engine);
    let out = drain(engine).into_iter().map(|d| (d.1, d.0 & CREATED != 0));
    out.map(|(node, made)| (engine.topology().nodes()[node as usize].name.clone(), made))
        .collect()
}

#[test]
fn routers_answer() {
    let mut engine = engine(chain(QueueLimit::default()));
    let address = |name: &str| engine.topology().node(host(&engine, name)).ipv4;
    let [h1, h2, r2] = ["h1", "h2", "r2"].map(address);
    let answered = [("h1".to_owned(), true)];
    assert_eq!(
        provoke(&mut engine, &frame(h1, h2, 100, 1, false)),
        answered
    );
    assert_eq!(
        provoke(&mut engine, &frame(h1, h2, 100, 2, false)),
        answered
    );
    assert_eq!(
        provoke(&mut engine, &frame(h1, r2, 100, 64, false)),
        answered
    );
    assert_eq!(
        provoke(
            &mut engine,
            &frame(h1, [192, 0, 2, 1].into(), 100, 64, false)
        ),
        answered
    );
    // A packet for its own host goes to the router and comes back.
    assert_eq!(
        provoke(&mut engine, &frame(h2, h1, 100, 64, false)),
        [("h1".to_owned(), false)]
    );
    // A false source gets the answer; where it is the router itself, nobody does.
    let to_h2 = [("h2".to_owned(), true)];
    assert_eq!(
        provoke(
            &mut engine,
            &frame(h2, [192, 0, 2, 1].into(), 100, 64, false)
        ),
        to_h2
    );
    assert_eq!(provoke(&mut engine, &frame(r2, r2, 100, 64, false)), []);
    let counters = engine.counters();
    assert_eq!(counters.created, 6);
    let dropped = counters.dropped;
    assert_eq!(
        (dropped.hop_limit, dropped.no_route, dropped.absorbed),
        (2, 2, 3)
    );
}

/// h1 - r - h2, the second link with an MTU of 600.
fn narrow(first: bool) -> Topology {
    let wide = chain(QueueLimit::default());
    let mut links = [
        Link::new("h1", "r1", pipe("1 Gbit/s", "1 ms")),
        Link::new("r1", "h2", pipe("", "1 ms")),
    ];
    links[usize::from(!first)].mtu = 600;
    Topology::new(wide.nodes()[..3].to_vec(), links.to_vec()).unwrap()
}

#[test]
fn too_big_is_fragmented_or_answered() {
    for first in [false, true] {
        let mut engine = engine(narrow(first));
        let address = |name: &str| engine.topology().node(host(&engine, name)).ipv4;
        let [h1, h2] = ["h1", "h2"].map(address);
        let piece = ("h2".to_owned(), true);
        let pieces = [piece.clone(), piece.clone(), piece];
        assert_eq!(
            provoke(&mut engine, &frame(h1, h2, 1500, 64, false)),
            pieces
        );
        assert_eq!(
            (engine.counters().created, engine.counters().delivered),
            (2, 3)
        );
        let answered = [("h1".to_owned(), true)];
        assert_eq!(
            provoke(&mut engine, &frame(h1, h2, 1500, 64, true)),
            answered
        );
        assert_eq!(engine.counters().dropped.too_big, 1);
        assert_eq!(engine.slots_in_use(), 0);
    }
}

/// 50 at once, then one each millisecond.
#[test]
fn replies_are_limited() {
    let mut engine = engine(chain(QueueLimit::default()));
    let address = |name: &str| engine.topology().node(host(&engine, name)).ipv4;
    let expired = frame(address("h1"), address("h2"), 100, 1, false);
    let from = host(&engine, "h1");
    (0..80).for_each(|_| engine.arrive(from, Time::ZERO, &expired).unwrap());
    engine.advance(Time::from_ns(5_000_000));
    // 80 packets of 118 bytes take 755 us.
    assert_eq!(
        (
            engine.counters().created,
            engine.counters().replies_suppressed
        ),
        (50, 30)
    );
    (0..80).for_each(|_| engine.arrive(from, engine.now(), &expired).unwrap());
    engine.advance(Time::MAX);
    assert_eq!(
        (
            engine.counters().created,
            engine.counters().replies_suppressed
        ),
        (55, 105)
    );
    assert_balanced(&engine);
}

#[test]
fn bounds_are_counted() {
    let config = EngineConfig {
        slots: 2,
        slot_size: 1000,
        ..EngineConfig::default()
    };
    let mut engine = Engine::new(chain(QueueLimit::default()), config, Box::new(Silent));
    let address = |name: &str| engine.topology().node(host(&engine, name)).ipv4;
    let (from, to) = (address("h1"), address("h2"));
    let h1 = host(&engine, "h1");
    let mut arrive = |frame: &[u8]| engine.arrive(h1, Time::ZERO, frame);
    assert_eq!(
        arrive(&frame(from, to, 987, 64, false)),
        Err(Refused::TooLong)
    );
    assert_eq!(arrive(&[0; 10]), Err(Refused::Frame(FrameError::Malformed)));
    assert_eq!(arrive(&frame(from, to, 986, 64, false)), Ok(()));
    assert_eq!(arrive(&frame(from, to, 100, 1, false)), Ok(()));
    assert_eq!(
        arrive(&frame(from, to, 100, 64, false)),
        Err(Refused::PoolExhausted)
    );
    engine.advance(Time::MAX);
    assert_balanced(&engine);
    let counters = engine.counters();
    assert_eq!(
        (counters.entered, counters.delivered, counters.created),
        (2, 1, 0)
    );
    assert_eq!(
        (counters.refused.too_long, counters.refused.malformed),
        (1, 1)
    );
    // One frame, and the answer to the packet that ran out of hops.
    assert_eq!(counters.pool_exhausted, 2);
}

#[test]
fn loss_takes_its_share() {
    let lossy = PipeParams {
        loss: LossModel::Independent(Probability::from_ratio(1, 10).unwrap()),
        queue: QueueLimit::Packets(u32::MAX),
        ..pipe("1 Gbit/s", "1 ms")
    };
    let mut engine = engine(topology(&["h1", "h2"], &[("h1", "h2", lossy)]));
    (0..50_000).for_each(|_| send(&mut engine, "h1", "h2", 0, 100));
    engine.advance(Time::MAX);
    let lost = engine.pipe_counters(find(&engine, "h1>h2")).drops_loss;
    assert!(
        (4_700..5_300).contains(&lost),
        "{lost} of 50000 lost at 10 %"
    );
    assert_eq!(lost, engine.counters().dropped.loss);
    // A lost packet has used the rate.
    let busy = engine.pipe_counters(find(&engine, "h1>h2")).busy_ns;
    assert_eq!(busy, 50_000 * 118 * 8);
}

/// Rates that no clock divides: 3 bit/ns, where every third packet ends on a whole nanosecond.
#[test]
fn thirds_of_a_nanosecond_do_not_add_up() {
    let third = PipeParams {
        rate: Rate::from_bits_per_s(3_000_000_000),
        framing: Framing::Ip,
        ..PipeParams::default()
    };
    let mut engine = engine(topology(&["h1", "h2"], &[("h1", "h2", third)]));
    (0..999).for_each(|_| send(&mut engine, "h1", "h2", 0, 100));
    engine.advance(Time::MAX);
    let due: Vec<u64> = drain(&mut engine).iter().map(|d| d.2).collect();
    assert_eq!(due[..3], [267, 534, 800]);
    assert_eq!(due[998], 333 * 800);
}
