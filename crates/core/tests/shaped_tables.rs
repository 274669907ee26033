//! Pipes with everything that a plain one does not do: tables that can be checked by hand.

mod common;

use std::num::NonZeroU32;
use std::sync::Arc;

use common::{Plain, assert_balanced, drain, frame, host, send, topology};
use longhaul_core::element::{Action, Element, ElementFactory};
use longhaul_core::params::{
    CoDel, Discipline, Distribution, Jitter, LossModel, PipeParams, Reorder, Which,
};
use longhaul_core::rng::Stream;
use longhaul_core::trace::{Capacity, Sample, Series, Trace};
use longhaul_core::units::{Bytes, Framing, Probability, QueueLimit, Rate};
use longhaul_core::{Engine, EngineConfig, PipeId, Span, Time};

fn per_cent(n: u64) -> Probability {
    Probability::from_ratio(n, 100).unwrap()
}

/// 1000 bytes of IP a millisecond, and 3 ms on the way.
fn slow() -> PipeParams {
    PipeParams {
        rate: "8 Mbit/s".parse().ok(),
        framing: Framing::Ip,
        delay: Span::from_ms(3),
        ..PipeParams::default()
    }
}

/// h1 - h2 with such a pipe there, plain where it can be or not.
fn engine(params: PipeParams, always_shaped: bool) -> Engine {
    let config = EngineConfig {
        always_shaped,
        slots: 1000,
        ..EngineConfig::default()
    };
    let topology = topology(&["h1", "h2"], &[("h1", "h2", params)]);
    Engine::new(topology, config, Box::new(Plain))
}

fn there(engine: &Engine) -> PipeId {
    engine.topology().find_pipes("h1>h2")[0]
}

fn to_us(engine: &mut Engine, us: u64) {
    engine.advance(Time::ZERO + Span::from_us(us));
}

/// Sends packets of 1000 bytes, all at one time.
fn send_at_us(engine: &mut Engine, us: u64, packets: u32) {
    (0..packets).for_each(|_| send(engine, "h1", "h2", us * 1000, 1000));
}

/// What comes out, as (id, due in us).
fn rest(engine: &mut Engine) -> Vec<(u64, u64)> {
    engine.advance(Time::from_ns(u64::MAX - 1));
    assert_balanced(engine);
    let rows = drain(engine).into_iter();
    rows.map(|(id, _, due, ..)| (u64::from(id), due / 1000))
        .collect()
}

/// At 1.5 ms packet 0 is on its way, half of packet 1 is sent, 2 and 3 wait. At half the rate the
/// rest of 1 takes 1 ms more; sent at 2.5 ms with 1 ms to go, it must not overtake 0.
#[test]
fn a_pipe_becomes_shaped_while_it_runs() {
    let mut engine = engine(slow(), false);
    send_at_us(&mut engine, 0, 4);
    to_us(&mut engine, 1500);
    let pipe = there(&engine);
    let changed = PipeParams {
        rate: "4 Mbit/s".parse().ok(),
        delay: Span::from_ms(1),
        discipline: Discipline::CoDel(CoDel::default()),
        ..slow()
    };
    engine.set(pipe, changed);
    assert_eq!(engine.pipe_counters(pipe).busy_ns, 1_500_000);
    assert_eq!(engine.waiting(pipe), (2, 2000));
    assert_eq!(engine.next_due(), Some(Time::ZERO + Span::from_us(2500)));
    assert_eq!(
        rest(&mut engine),
        [(0, 4000), (1, 4000), (2, 5500), (3, 7500)]
    );
    assert_eq!(engine.pipe_counters(pipe).busy_ns, 6_500_000);
}

/// Packet 0 is lost at 1 ms and would have come out at 4 ms; packet 1, sent at 3 ms with no delay
/// any more, does not come out before, whether the pipe has been a shaped one or not.
#[test]
fn a_pipe_that_is_plain_again_keeps_the_order() {
    for corrupt in [Probability::NEVER, per_cent(1)] {
        let lossy = PipeParams {
            loss: LossModel::Independent(Probability::ALWAYS),
            corrupt,
            ..slow()
        };
        let mut engine = engine(lossy, false);
        let pipe = there(&engine);
        send_at_us(&mut engine, 0, 1);
        to_us(&mut engine, 1500);
        let instant = PipeParams {
            delay: Span::ZERO,
            ..slow()
        };
        engine.set(pipe, instant);
        engine.set_up(pipe, true, false);
        send_at_us(&mut engine, 2000, 1);
        assert_eq!(rest(&mut engine), [(1, 4000)]);
    }
}

/// At 2.5 ms packets 0 and 1 are on their way, 2 is half sent, 3 waits. What is kept starts anew
/// at 10 ms.
#[test]
fn a_link_goes_down_and_up() {
    for (always_shaped, keep) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut engine = engine(slow(), always_shaped);
        let pipe = there(&engine);
        send_at_us(&mut engine, 0, 4);
        to_us(&mut engine, 2500);
        engine.set_up(pipe, false, keep);
        let kept = if keep { 2 } else { 0 };
        assert_eq!((engine.inside(), engine.is_up(pipe)), (kept, false));
        assert_eq!(engine.waiting(pipe), (kept as u32, kept * 1000));
        assert_eq!(engine.next_due(), None);
        send_at_us(&mut engine, 3000, 1);
        to_us(&mut engine, 10_000);
        engine.set_up(pipe, true, false);
        send_at_us(&mut engine, 10_500, 1);
        let expected: &[(u64, u64)] = if keep {
            &[(2, 14_000), (3, 15_000), (5, 16_000)]
        } else {
            &[(5, 14_500)]
        };
        assert_eq!(rest(&mut engine), expected);
        let counters = engine.pipe_counters(pipe);
        assert_eq!(counters.drops_down, 5 - kept);
        assert_eq!(engine.counters().dropped.link_down, 5 - kept);
        // Half of packet 2 was sent twice, if it was kept.
        let sent_us = 2500 + 1000 + kept * 1000;
        assert_eq!(counters.busy_ns, sent_us * 1000);
    }
}

/// A queue that was kept can still be lost, and a link that is up stays as it is.
#[test]
fn a_link_goes_down_twice() {
    let mut engine = engine(slow(), false);
    let pipe = there(&engine);
    engine.set_up(pipe, true, false);
    send_at_us(&mut engine, 0, 4);
    to_us(&mut engine, 500);
    engine.set_up(pipe, false, true);
    engine.set_up(pipe, false, true);
    assert_eq!(engine.inside(), 4);
    engine.set_up(pipe, false, false);
    assert_eq!((engine.inside(), engine.slots_in_use()), (0, 0));
    assert_eq!(engine.counters().dropped.link_down, 4);
}

/// Of a bucket of 3000 bytes, three packets go at once, and then one each millisecond. At 1.5 ms
/// half of the tokens for packet 3 are there; at half the rate the others take 1 ms.
#[test]
fn a_bucket_lets_bursts_pass() {
    let bucket = PipeParams {
        burst: Some(Bytes(3000)),
        ..slow()
    };
    let mut engine = engine(bucket.clone(), false);
    let pipe = there(&engine);
    send_at_us(&mut engine, 1000, 5);
    to_us(&mut engine, 1500);
    let half = PipeParams {
        rate: "4 Mbit/s".parse().ok(),
        ..bucket
    };
    engine.set(pipe, half);
    let expected = [(0, 4000), (1, 4000), (2, 4000), (3, 5500), (4, 7500)];
    assert_eq!(rest(&mut engine), expected);
    // Three at a millisecond each, two at two.
    assert_eq!(engine.pipe_counters(pipe).busy_ns, 7_000_000);
}

/// Half of packet 1 is sent at 8 Mbit/s, half at 4; the delay is that at the departure.
#[test]
fn a_trace_says_when_packets_leave_and_come() {
    let sample = |ms, mbit: u64, delay_ms| Sample {
        at: Span::from_ms(ms),
        delay: Some(Span::from_ms(delay_ms)),
        rate: Rate::from_bits_per_s(mbit * 1_000_000).map(Capacity::Limited),
        loss: None,
    };
    let trace = Trace {
        series: Series::Samples {
            samples: vec![sample(0, 8, 3), sample(1, 4, 5)],
            interpolate: false,
        },
        offset: Span::from_us(500),
        period: None,
    };
    let traced = PipeParams {
        trace: Some(trace.into()),
        ..slow()
    };
    let mut engine = engine(traced, false);
    send_at_us(&mut engine, 0, 3);
    assert_eq!(rest(&mut engine), [(0, 4000), (1, 7500), (2, 9500)]);
}

/// The wait for the sender may be 5 ms: that of packets 1 to 5.
#[test]
fn a_queue_counted_in_time() {
    let timed = PipeParams {
        queue: QueueLimit::Time(Span::from_ms(5)),
        ..slow()
    };
    let mut engine = engine(timed, false);
    send_at_us(&mut engine, 0, 10);
    let ids: Vec<u64> = rest(&mut engine).iter().map(|row| row.0).collect();
    assert_eq!(ids, [0, 1, 2, 3, 4, 5]);
    let counters = engine.pipe_counters(there(&engine));
    assert_eq!((counters.drops_queue, counters.drops_early), (4, 0));
}

/// Packet 0 takes 10 ms; packet 1, sent after the change, 1 ms. Only with `overtake` it does not
/// wait for packet 0.
#[test]
fn packets_overtake_where_they_may() {
    for overtake in [false, true] {
        let change = |delay_ms| PipeParams {
            rate: None,
            overtake,
            delay: Span::from_ms(delay_ms),
            ..slow()
        };
        let mut engine = engine(change(10), false);
        send_at_us(&mut engine, 0, 1);
        to_us(&mut engine, 2000);
        let pipe = there(&engine);
        engine.set(pipe, change(1));
        send_at_us(&mut engine, 3000, 1);
        send_at_us(&mut engine, 3500, 1);
        let expected = if overtake {
            [(1, 4000), (2, 4500), (0, 10_000)]
        } else {
            [(0, 10_000), (1, 10_000), (2, 10_000)]
        };
        assert_eq!(rest(&mut engine), expected);
        assert_eq!(engine.pipe_counters(pipe).reordered, u64::from(overtake));
    }
}

/// One of each two packets is held for 5 ms longer, and none waits for it.
#[test]
fn held_packets_hold_nobody_up() {
    let holding = PipeParams {
        rate: None,
        reorder: Some(Reorder {
            which: Which::OneIn(NonZeroU32::new(2).unwrap()),
            hold: Span::from_ms(5),
        }),
        ..slow()
    };
    let mut engine = engine(holding, false);
    (0..20).for_each(|ms| send_at_us(&mut engine, ms * 1000, 1));
    let mut rows = rest(&mut engine);
    assert!(rows.is_sorted_by_key(|row| row.1));
    rows.sort_unstable();
    let times: Vec<u64> = rows.iter().map(|(id, due)| due - id * 1000).collect();
    for pair in times.chunks(2) {
        let mut pair = pair.to_vec();
        pair.sort_unstable();
        assert_eq!(pair, [3000, 8000]);
    }
    let reordered = engine.pipe_counters(there(&engine)).reordered;
    assert!((8..=10).contains(&reordered), "{reordered} of 10 came late");
}

/// Delays between 1 and 9 ms, a packet each millisecond.
#[test]
fn jitter_keeps_the_order_unless_configured_otherwise() {
    for reorder in [false, true] {
        let jitter = Jitter {
            distribution: Distribution::Uniform {
                low: 1e6,
                high: 9e6,
            },
            correlation: 0.0,
            reorder,
        };
        let jittery = PipeParams {
            rate: None,
            jitter: Some(Arc::new(jitter)),
            ..slow()
        };
        let mut engine = engine(jittery, false);
        (0..200).for_each(|ms| send_at_us(&mut engine, ms * 1000, 1));
        let rows = rest(&mut engine);
        assert_eq!(rows.len(), 200);
        assert_eq!(rows.is_sorted_by_key(|row| row.0), !reorder);
        let times: Vec<u64> = rows.iter().map(|(id, due)| due - id * 1000).collect();
        assert!(times.iter().all(|us| (1000..=9000).contains(us)));
        assert!(times.iter().any(|us| *us < 6000) && times.iter().any(|us| *us > 8000));
        let reordered = engine.pipe_counters(there(&engine)).reordered;
        assert_eq!(reordered > 20, reorder);
    }
}

#[test]
fn duplicates_are_packets_of_their_own() {
    let doubling = PipeParams {
        duplicate: Probability::ALWAYS,
        ..slow()
    };
    let mut engine = engine(doubling.clone(), false);
    send_at_us(&mut engine, 0, 2);
    engine.advance(Time::ZERO + Span::from_ms(4));
    let (first, second) = (engine.poll_egress().unwrap(), engine.poll_egress().unwrap());
    assert_eq!((first.id, second.id), (0, 0));
    assert_eq!(engine.frame(&first), engine.frame(&second));
    engine.release(first);
    engine.release(second);
    assert_eq!(rest(&mut engine), [(1, 5000), (1, 5000)]);
    assert_eq!(
        (engine.counters().created, engine.counters().delivered),
        (2, 4)
    );
    assert_eq!(engine.pipe_counters(there(&engine)).duplicated, 2);

    let config = EngineConfig {
        slots: 1,
        ..EngineConfig::default()
    };
    let topology = topology(&["h1", "h2"], &[("h1", "h2", doubling)]);
    let mut engine = Engine::new(topology, config, Box::new(Plain));
    send_at_us(&mut engine, 0, 1);
    assert_eq!(rest(&mut engine), [(0, 4000)]);
    assert_eq!(
        (engine.counters().created, engine.counters().pool_exhausted),
        (0, 1)
    );
}

/// What comes out of h1>h2 of one frame that goes in.
fn frames_out(engine: &mut Engine, frame: &[u8], times: u32) -> Vec<Vec<u8>> {
    let from = host(engine, "h1");
    (0..times).for_each(|_| engine.arrive(from, Time::ZERO, frame).unwrap());
    engine.advance(Time::ZERO + Span::from_s(1000));
    assert_balanced(engine);
    let mut out = Vec::new();
    while let Some(egress) = engine.poll_egress() {
        out.push(engine.frame(&egress).to_vec());
        engine.release(egress);
    }
    out
}

#[test]
fn corruption_flips_one_bit_behind_the_header() {
    let corrupting = PipeParams {
        corrupt: Probability::ALWAYS,
        ..slow()
    };
    let mut engine = engine(corrupting, false);
    let sent = frame([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 60, 64, true);
    let out = frames_out(&mut engine, &sent, 50);
    let mut places: Vec<usize> = Vec::new();
    for frame in &out {
        let differ = |at: &usize| frame[*at] != sent[*at];
        let at: Vec<usize> = (12..sent.len()).filter(differ).collect();
        assert_eq!(at.len(), 1);
        assert_eq!((frame[at[0]] ^ sent[at[0]]).count_ones(), 1);
        assert!(at[0] >= 34, "byte {} is in the header", at[0]);
        places.push(at[0]);
    }
    places.dedup();
    assert!(places.len() > 20, "{places:?}");
    assert_eq!(engine.pipe_counters(there(&engine)).corrupted, 50);
}

/// 200 packets at once make CoDel act on each of them that has waited for too long: it marks those
/// whose sender understands that, and drops the others.
#[test]
fn a_discipline_marks_or_drops() {
    for (tos, marks) in [(0b10, true), (0b01, true), (0b00, false)] {
        let codel = CoDel {
            ecn: true,
            ..CoDel::default()
        };
        let managed = PipeParams {
            discipline: Discipline::CoDel(codel),
            ..slow()
        };
        let mut engine = engine(managed, false);
        let mut sent = frame([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 1000, 64, true);
        sent[15] = tos;
        common::seal(&mut sent[14..34]);
        let out = frames_out(&mut engine, &sent, 200);
        let marked = out.iter().filter(|frame| frame[15] == 0b11).count() as u64;
        let sound = out
            .iter()
            .all(|frame| longhaul_core::packet::parse(frame).is_ok());
        let counters = engine.pipe_counters(there(&engine));
        assert!(sound);
        assert_eq!(counters.marked, marked);
        assert_eq!((marked > 0, counters.drops_early > 0), (marks, !marks));
        assert_eq!(counters.drops_queue, counters.drops_early);
        assert_eq!(engine.counters().dropped.queue, counters.drops_queue);
        assert_eq!(out.len() as u64, 200 - counters.drops_queue);
    }
}

/// Drops each third packet, holds the others for 2 ms, and writes the time into them.
#[derive(Debug, Default)]
struct Third(u32);

impl Element for Third {
    fn pass(&mut self, now: Time, packet: &mut [u8], _: &mut Stream) -> Action {
        packet[20..28].copy_from_slice(&now.as_ns().to_be_bytes());
        self.0 += 1;
        if self.0.is_multiple_of(3) {
            Action::Drop
        } else {
            Action::Hold(Span::from_ms(2))
        }
    }
}

#[test]
fn an_element_of_one_s_own_decides() {
    let own = PipeParams {
        element: Some(ElementFactory {
            name: "third".into(),
            make: Arc::new(|| Box::new(Third::default())),
        }),
        ..slow()
    };
    let mut engine = engine(own.clone(), false);
    // Setting the same element anew does not make another one.
    send_at_us(&mut engine, 0, 2);
    to_us(&mut engine, 2500);
    let pipe = there(&engine);
    engine.set(pipe, own);
    send_at_us(&mut engine, 2500, 2);
    engine.advance(Time::ZERO + Span::from_ms(100));
    let mut rows = Vec::new();
    while let Some(egress) = engine.poll_egress() {
        let written: [u8; 8] = engine.frame(&egress)[34..42].try_into().unwrap();
        rows.push((egress.id, u64::from_be_bytes(written), egress.due.as_ns()));
        engine.release(egress);
    }
    let expected = [(0, 1, 6), (1, 2, 7), (3, 4_500_000, 9_500_000)];
    let ms = |n: u64| if n < 100 { n * 1_000_000 } else { n };
    assert_eq!(rows, expected.map(|(id, out, due)| (id, ms(out), ms(due))));
    assert_eq!(engine.counters().dropped.loss, 1);
}

/// As in a plain pipe: 1000 us to send, 3 ms on the way; read when it should have come out.
#[test]
fn a_late_reading_is_staleness_and_nothing_else() {
    for always_shaped in [false, true] {
        let mut engine = engine(slow(), always_shaped);
        to_us(&mut engine, 10_000);
        send_at_us(&mut engine, 5000, 1);
        send_at_us(&mut engine, 5500, 1);
        send_at_us(&mut engine, 9500, 1);
        assert_eq!(engine.next_due(), Some(Time::ZERO + Span::from_ms(10)));
        engine.advance(Time::MAX);
        let out: Vec<_> = drain(&mut engine).iter().map(|d| (d.2, d.3, d.4)).collect();
        let expected = [(10, 3, 1000), (10, 3, 0), (13_500, 3, 0)];
        let ms = |n: u64| if n < 100 { n * 1_000_000 } else { n * 1000 };
        assert_eq!(
            out,
            expected.map(|(due, path, late)| (ms(due), ms(path), late * 1000))
        );
    }
}

/// Twenty pipes in no time at all, there and back: every packet or its answer comes out at the
/// instant at which it went in.
#[test]
fn what_takes_no_time_ends() {
    let names: Vec<String> = (0..20).map(|n| format!("r{n:02}")).collect();
    let mut nodes = vec!["h1", "h2"];
    nodes.extend(names.iter().map(String::as_str));
    let instant = PipeParams::default;
    let mut links = vec![("h1", nodes[2], instant()), (nodes[21], "h2", instant())];
    links.extend((2..21).map(|n| (nodes[n], nodes[n + 1], instant())));
    let topology = topology(&nodes, &links);
    let config = EngineConfig {
        always_shaped: true,
        ..EngineConfig::default()
    };
    let mut engine = Engine::new(topology, config, Box::new(Plain));
    let (h1, h2) = (host(&engine, "h1"), host(&engine, "h2"));
    let address = |node| engine.topology().node(node).ipv4;
    let (from, to) = (address(h1), address(h2));
    for ttl in 1..=25 {
        let frame = frame(from, to, 100, ttl, false);
        engine.arrive(h1, Time::from_ns(5), &frame).unwrap();
    }
    engine.advance(Time::from_ns(5));
    assert_balanced(&engine);
    assert_eq!(engine.inside(), 0);
    let out = drain(&mut engine);
    assert!(out.iter().all(|row| row.2 == 5));
    let answers = out.iter().filter(|row| row.1 == h1.0).count();
    assert_eq!((answers, out.len()), (20, 25));
}
