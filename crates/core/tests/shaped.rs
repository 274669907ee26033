//! Pipes with everything that a plain one does not do: what does not depend on how the engine is
//! driven. Tables that can be checked by hand are in `shaped_tables.rs`.

mod common;

use std::num::NonZeroU32;
use std::sync::Arc;

use common::cases::{Action, Case, Manner, TICK, build, case, params, run_engine, target};
use common::{Delivery, Plain, assert_balanced, drain, frame};
use longhaul_core::element::{Action as Passage, Element, ElementFactory};
use longhaul_core::params::{
    CoDel, Discipline, Distribution, FqCodel, Jitter, LossModel, Pie, PipeParams, Red, Reorder,
    Which,
};
use longhaul_core::rng::Stream;
use longhaul_core::trace::{Capacity, Sample, Series, Trace};
use longhaul_core::units::{Bytes, Probability, QueueLimit, Rate};
use longhaul_core::{Engine, EngineConfig, NodeId, PipeId, Span, Time};
use proptest::prelude::*;

fn per_cent(n: u64) -> Probability {
    Probability::from_ratio(n, 100).unwrap()
}

/// Holds or drops some, and writes into all.
#[derive(Debug, Default)]
struct Moody(u8);

impl Element for Moody {
    fn pass(&mut self, now: Time, packet: &mut [u8], random: &mut Stream) -> Passage {
        self.0 = self.0.wrapping_add(1);
        if let [_, .., byte] = &mut packet[20..]
            && is_third(now)
        {
            *byte = self.0;
        }
        match random.draw() % 16 {
            0 => Passage::Drop,
            1 => Passage::Hold(Span::from_ns(700)),
            _ => Passage::Pass,
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
