//! Pipes with everything that a plain one does not do: what does not depend on how the engine is
//! driven, and tables that can be checked by hand.

mod common;

use std::num::NonZeroU32;
use std::sync::Arc;

use common::cases::{Action, Case, Manner, TICK, build, case, params, run_engine, target};
use common::{Delivery, Plain, assert_balanced, drain, frame, host, send, topology};
use longhaul_core::element::{Element, ElementFactory, Fate};
use longhaul_core::params::{
    CoDel, Discipline, Distribution, FqCodel, Jitter, LossModel, Pie, PipeParams, Red, Reorder,
    Which,
};
use longhaul_core::rng::Stream;
use longhaul_core::trace::{Capacity, Sample, Series, Trace};
use longhaul_core::units::{Bytes, Framing, Probability, QueueLimit, Rate};
use longhaul_core::{Engine, EngineConfig, NodeId, PipeId, Span, Time};
use proptest::prelude::*;

fn per_cent(n: u64) -> Probability {
    Probability::from_ratio(n, 100).unwrap()
}

/// Holds or drops some, and writes into all.
#[derive(Debug, Default)]
struct Moody(u8);

impl Element for Moody {
    fn pass(&mut self, now: Time, packet: &mut [u8], random: &mut Stream) -> Fate {
        self.0 = self.0.wrapping_add(1);
        if let [_, .., byte] = &mut packet[20..]
            && is_third(now)
        {
            *byte = self.0;
        }
        match random.draw() % 16 {
            0 => Fate::Drop,
            1 => Fate::Hold(Span::from_ns(700)),
            _ => Fate::Pass,
        }
    }
}

/// Something that depends on the time.
const fn is_third(now: Time) -> bool {
    now.as_ns().is_multiple_of(3)
}

fn moody() -> ElementFactory {
    ElementFactory {
        name: "moody".into(),
        make: Arc::new(|| Box::new(Moody::default())),
    }
}

fn discipline() -> impl Strategy<Value = Discipline> {
    let codel = |ecn| CoDel {
        target: Span::from_ns(500),
        interval: Span::from_us(5),
        ecn,
    };
    prop_oneof![
        2 => Just(Discipline::DropTail),
        1 => any::<bool>().prop_map(|ecn| Discipline::Red(Red {
            min: 1,
            max: 4,
            probability: per_cent(20),
            weight_log2: 1,
            ecn,
        })),
        1 => any::<bool>().prop_map(move |ecn| Discipline::CoDel(codel(ecn))),
        1 => any::<bool>().prop_map(|ecn| Discipline::Pie(Pie {
            target: Span::from_us(1),
            update: Span::from_us(2),
            max_burst: Span::from_us(3),
            ecn,
        })),
        1 => any::<bool>().prop_map(move |ecn| Discipline::FqCodel(FqCodel {
            codel: codel(ecn),
            flows: NonZeroU32::new(4).unwrap(),
            quantum: 700,
        })),
    ]
}

fn jitter() -> impl Strategy<Value = Jitter> {
    let distribution = prop_oneof![
        (0f64..5000.0).prop_map(|low| Distribution::Uniform {
            low,
            high: low + 3000.0
        }),
        (0f64..5000.0).prop_map(|mean| Distribution::Normal {
            mean,
            deviation: 1000.0
        }),
        Just(Distribution::Gamma {
            base: 0.0,
            shape: 2.0,
            scale: 800.0
        }),
    ];
    (distribution, 0..2u8, any::<bool>()).prop_map(|(distribution, half, reorder)| Jitter {
        distribution,
        correlation: f64::from(half) / 2.0,
        reorder,
    })
}

fn loss() -> impl Strategy<Value = LossModel> {
    prop_oneof![
        Just(LossModel::OneIn(NonZeroU32::new(5).unwrap())),
        Just(LossModel::Pattern([false, true, false].as_slice().into())),
        Just(LossModel::GilbertElliott {
            to_bad: per_cent(10),
            to_good: per_cent(40),
            in_good: Probability::NEVER,
            in_bad: Probability::ALWAYS,
        }),
    ]
}

fn trace() -> impl Strategy<Value = Trace> {
    let sample = |at: u64, delay: u64, mbit: u64| Sample {
        at: Span::from_ns(at),
        delay: delay.checked_sub(500).map(Span::from_ns),
        rate: (!mbit.is_multiple_of(3)).then(|| match mbit {
            4 => Capacity::Unlimited,
            5 => Capacity::Outage,
            _ => Capacity::Limited(Rate::from_bits_per_s(mbit * 1_000_000_000).unwrap()),
        }),
        loss: delay.is_multiple_of(4).then(|| per_cent(10)),
    };
    let samples = prop::collection::vec((0u64..3000, 1u64..20), 1..6);
    let samples = (samples, any::<bool>()).prop_map(move |(rows, interpolate)| Series::Samples {
        samples: (0..)
            .zip(rows)
            .map(|(n, (delay, mbit))| sample(n * 2000, delay, mbit))
            .collect(),
        interpolate,
    });
    let times = prop::collection::vec(0u64..8000, 1..8);
    let opportunities = times.prop_map(|mut at| {
        at.sort_unstable();
        Series::Opportunities {
            at: at.into_iter().map(Span::from_ns).collect(),
            bytes: 1500,
        }
    });
    // The series starts over, so that no outage lasts for ever where there is a rate at all.
    prop_oneof![samples, opportunities].prop_map(|series| Trace {
        series,
        offset: Span::from_ns(900),
        period: Some(Span::from_ns(13_000)),
    })
}

/// Parameters of pipes with any mechanism.
fn all() -> impl Strategy<Value = PipeParams> {
    let some = prop::option::weighted(0.3, 0u64..4000);
    let chances = prop::collection::vec(prop_oneof![2 => Just(0u64), 1 => 0u64..8], 4);
    let options = (
        prop::option::weighted(0.3, jitter()),
        prop::option::weighted(0.3, loss()),
        prop::option::weighted(0.3, trace()),
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.2),
    );
    (params(), some, discipline(), chances, options).prop_map(
        |(plain, burst, discipline, chances, options)| {
            let (jitter, loss, trace, overtake, element, timed) = options;
            let only_outages = trace.as_ref().is_some_and(never_sends);
            PipeParams {
                burst: burst.map(Bytes),
                discipline,
                jitter: jitter.map(Arc::new),
                overtake,
                loss: loss.unwrap_or(plain.loss),
                bit_errors: Probability::from_ratio(chances[0], 1_000_000).unwrap(),
                duplicate: per_cent(chances[1]),
                corrupt: per_cent(chances[2]),
                reorder: (chances[3] > 0).then(|| Reorder {
                    which: Which::Random(per_cent(chances[3] * 3)),
                    hold: Span::from_ns(chances[3] * 1000),
                }),
                trace: trace.filter(|_| !only_outages).map(Arc::new),
                element: element.then(moody),
                queue: if timed {
                    QueueLimit::Time(Span::from_us(2))
                } else {
                    plain.queue
                },
                ..plain
            }
        },
    )
}

/// Whether a trace records rates and all of them are none.
fn never_sends(trace: &Trace) -> bool {
    match &trace.series {
        Series::Opportunities { .. } => false,
        Series::Samples { samples, .. } => samples
            .iter()
            .all(|sample| sample.rate == Some(Capacity::Outage)),
    }
}

proptest! {
    /// Sums are checked after every step of these runs, and slots at their end.
    #[test]
    fn steps_of_any_size_give_the_same(case in case(true, all()), step in 1u64..5000) {
        let one = run_engine(&case, Manner::default());
        for (step, eager) in [(step, false), (0, true), (step, true)] {
            let other = run_engine(&case, Manner { step, eager, ..Manner::default() });
            prop_assert_eq!(&one.deliveries, &other.deliveries);
            prop_assert_eq!(one.drops, other.drops);
            prop_assert_eq!(&one.pipes, &other.pipes);
        }
    }

    #[test]
    fn a_link_elsewhere_changes_nothing(case in case(true, all())) {
        let elsewhere = Manner { elsewhere: true, ..Manner::default() };
        let (one, other) = (run_engine(&case, Manner::default()), run_engine(&case, elsewhere));
        prop_assert_eq!(one.deliveries, other.deliveries);
        prop_assert_eq!(one.drops, other.drops);
    }
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
    rows.map(|(id, _, due, ..)| (id, due / 1000)).collect()
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
fn jitter_keeps_the_order_unless_told_otherwise() {
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
    fn pass(&mut self, now: Time, packet: &mut [u8], _: &mut Stream) -> Fate {
        packet[20..28].copy_from_slice(&now.as_ns().to_be_bytes());
        self.0 += 1;
        if self.0.is_multiple_of(3) {
            Fate::Drop
        } else {
            Fate::Hold(Span::from_ms(2))
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

/// Runs a case in which arrivals are read late, by so many tenths of a microsecond in turn; the
/// stamps of a host are in order. What comes out is in order of time and never in the past.
fn run_late(case: &Case, always_shaped: bool, late: &[u64]) -> Vec<Delivery> {
    let topology = build(case);
    let config = EngineConfig {
        seed: case.seed,
        slots: 4096,
        always_shaped,
        ..EngineConfig::default()
    };
    let mut engine = Engine::new(topology.clone(), config, Box::new(Plain));
    let hosts: Vec<NodeId> = topology.hosts().map(|(id, _)| id).collect();
    let pipe = |number: usize| PipeId((number % topology.pipes().len()) as u32);
    let mut late = late.iter().cycle();
    let mut stamps = vec![0; hosts.len()];
    let (mut time, mut latest) = (0, 0);
    let mut deliveries: Vec<Delivery> = Vec::new();
    let mut take = |engine: &mut Engine, to: u64| {
        let before = engine.now().as_ns();
        engine.advance(Time::from_ns(to));
        assert_balanced(engine);
        for row in drain(engine) {
            assert!(row.2 >= latest.max(before) && row.2 <= to, "{row:?}");
            latest = row.2;
            deliveries.push(row);
        }
    };
    for (ticks, action) in &case.actions {
        time += ticks * TICK;
        take(&mut engine, time);
        match action {
            Action::Set {
                pipe: n, params, ..
            } => {
                engine.set(pipe(*n), PipeParams::clone(params));
            }
            Action::Up {
                pipe: n,
                up,
                keep_queue,
            } => engine.set_up(pipe(*n), *up, *keep_queue),
            Action::Send {
                from,
                to,
                ip_len,
                ttl,
                burst,
            } => {
                let number = from % hosts.len();
                let source = topology.node(hosts[number]).ipv4;
                let nobody = [192, 0, 2, 1].into();
                let to = target(&topology, *to).map_or(nobody, |to| topology.node(to).ipv4);
                let frame = frame(source, to, *ip_len, *ttl, false);
                for by in late.by_ref().take(*burst) {
                    let stamp = time.saturating_sub(by * 100).max(stamps[number]);
                    stamps[number] = stamp;
                    let stamp = Time::from_ns(stamp);
                    engine.arrive(hosts[number], stamp, &frame).unwrap();
                }
            }
        }
    }
    for n in 0..topology.pipes().len() {
        engine.set_up(pipe(n), true, true);
    }
    take(&mut engine, u64::MAX);
    assert_eq!((engine.inside(), engine.slots_in_use()), (0, 0));
    deliveries
}

fn late() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![3 => Just(0u64), 2 => 0u64..80], 1..30)
}

/// Queues that are never full: whether a late packet finds room depends on the departures that
/// have been done, and those a plain pipe takes back.
fn roomy() -> impl Strategy<Value = PipeParams> {
    params().prop_map(|params| PipeParams {
        queue: QueueLimit::default(),
        ..params
    })
}

proptest! {
    #[test]
    fn late_packets_come_out_in_order(case in case(true, all()), late in late()) {
        run_late(&case, false, &late);
    }

    /// Staleness too: each packet has its own, not the first of a burst alone.
    #[test]
    fn late_packets_are_served_as_in_plain_pipes(case in case(false, roomy()), late in late()) {
        prop_assert_eq!(run_late(&case, false, &late), run_late(&case, true, &late));
    }
}
