//! Random traffic through a queue and through the model of its text: the same drops, the same
//! marks, the same order.
//!
//! Packets come and go in phases of random growth and decline with long pauses, so that each
//! discipline gets into all its states. Times fall on a grid, so that things coincide.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::num::NonZeroU32;

use super::super::{Drain, Enqueued, Item, Queue};
use super::models::{Event, Log, model};
use super::{params, rate};
use crate::params::{CoDel, Discipline, FqCodel, Pie, Red};
use crate::rng::Stream;
use crate::time::{Span, Time};
use crate::units::{Probability, QueueLimit};

/// Time passes in units of so many ns.
const GRID: u64 = 50_000;

#[derive(Debug, Clone, Copy)]
enum Step {
    Enqueue(Item, Option<u64>),
    Dequeue(u64),
}

/// Traffic of about `packets` packets in eight phases.
fn traffic(seed: u64, packets: u32) -> Vec<Step> {
    let mut stream = Stream::new(seed, "traffic");
    let mut draw = |below: u64| stream.draw() % below;
    let (mut steps, mut now, mut index) = (Vec::new(), GRID, 0);
    for phase in 0..8 {
        let arrivals = [2, 8, 3, 9][(phase + seed as usize) % 4];
        let end = packets * (phase as u32 + 1) / 8;
        while index < end {
            now += draw(30) * GRID;
            if draw(10) < arrivals {
                let rest = (draw(4) > 0).then(|| draw(30) * GRID);
                let item = Item {
                    index,
                    bytes: [40, 576, 1500, 1500][draw(4) as usize],
                    flow: draw(6).pow(2),
                    ecn_capable: draw(2) == 0,
                    entered: Time::from_ns(now),
                };
                steps.push(Step::Enqueue(item, rest));
                index += 1;
            } else {
                steps.push(Step::Dequeue(now));
            }
        }
        now += draw(3) * 400_000_000;
        if phase == 4 {
            // Nothing waits, for long.
            steps.extend((0..index).map(|_| Step::Dequeue(now)));
            now += 100_000_000_000;
        }
    }
    steps
}

fn run_queue(queue: &mut Queue, steps: &[Step]) -> Log {
    let mut log = Log::new();
    for step in steps {
        match *step {
            Step::Enqueue(item, rest) => {
                let drain = Drain {
                    rate: rate(),
                    rest: rest.map(Span::from_ns),
                };
                let mut dropped = |dropped: super::super::Dropped| {
                    log.push(Event::Dropped {
                        index: dropped.item.index,
                        early: dropped.early,
                    });
                };
                match queue.enqueue(item.entered, item, drain, &mut dropped) {
                    Enqueued::Queued => log.push(Event::In(item.index)),
                    Enqueued::QueuedMarked => log.push(Event::InMarked(item.index)),
                    Enqueued::Dropped => {}
                }
            }
            Step::Dequeue(now) => {
                let mut dropped = |dropped: super::super::Dropped| {
                    log.push(Event::Dropped {
                        index: dropped.item.index,
                        early: dropped.early,
                    });
                };
                let out = queue.dequeue(Time::from_ns(now), &mut dropped);
                log.push(out.map_or(Event::Nothing, |(item, marked)| Event::Out {
                    index: item.index,
                    marked,
                }));
            }
        }
    }
    log
}

fn run_model(limit: QueueLimit, discipline: Discipline, steps: &[Step]) -> Log {
    let mut log = Log::new();
    let mut model = model(limit, discipline, Stream::new(1, "queue"));
    for step in steps {
        match *step {
            Step::Enqueue(item, rest) => model.enqueue(item.entered.as_ns(), item, rest, &mut log),
            Step::Dequeue(now) => model.dequeue(now, &mut log),
        }
    }
    log
}

/// Early drops, drops for want of room, marks.
fn tally(log: &Log) -> [usize; 3] {
    let count = |wanted: fn(&Event) -> bool| log.iter().filter(|event| wanted(event)).count();
    [
        count(|event| matches!(event, Event::Dropped { early: true, .. })),
        count(|event| matches!(event, Event::Dropped { early: false, .. })),
        count(|event| matches!(event, Event::InMarked(_) | Event::Out { marked: true, .. })),
    ]
}

fn same(limit: QueueLimit, discipline: Discipline, seed: u64) -> Log {
    let steps = traffic(seed, 1500);
    let mut queue = Queue::new(&params(limit, discipline), Stream::new(1, "queue"));
    let log = run_queue(&mut queue, &steps);
    let expected = run_model(limit, discipline, &steps);
    let differs = (0..log.len().max(expected.len())).find(|&at| log.get(at) != expected.get(at));
    if let Some(at) = differs {
        let (ours, theirs) = (log.get(at), expected.get(at));
        panic!("event {at}: {ours:?} and not {theirs:?}; {limit:?} {discipline:?} seed {seed}");
    }
    log
}

fn limit() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        (0u32..300).prop_map(QueueLimit::Packets),
        (0u64..300_000).prop_map(QueueLimit::Bytes),
        (0u64..300).prop_map(|ms| QueueLimit::Time(Span::from_ms(ms))),
    ]
}

fn codel() -> impl Strategy<Value = CoDel> {
    (0u64..40, 1u64..100, any::<bool>()).prop_map(|(target, interval, ecn)| CoDel {
        target: Span::from_us(target * 500),
        interval: Span::from_ms(interval),
        ecn,
    })
}

fn pie() -> impl Strategy<Value = Pie> {
    let numbers = (0u64..40, 1u64..30, 0u64..200, any::<bool>());
    numbers.prop_map(|(target, update, max_burst, ecn)| Pie {
        target: Span::from_ms(target),
        update: Span::from_ms(update),
        max_burst: Span::from_ms(max_burst),
        ecn,
    })
}

/// A bound, and thresholds in its unit.
fn red() -> impl Strategy<Value = (QueueLimit, Red)> {
    let numbers = (0u64..30, 0u64..60, 0u64..=100, 0u8..10, any::<bool>());
    (limit(), numbers).prop_map(|(limit, (min, more, percent, weight_log2, ecn))| {
        let unit = match limit {
            QueueLimit::Packets(_) => 1,
            QueueLimit::Bytes(_) => 1000,
            QueueLimit::Time(_) => 1_000_000,
        };
        let red = Red {
            min: min * unit,
            max: (min + more) * unit,
            probability: Probability::from_ratio(percent, 100).unwrap(),
            weight_log2,
            ecn,
        };
        (limit, red)
    })
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 500,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(8290),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn drop_tail_is_as_its_model(limit in limit(), seed: u64) {
        same(limit, Discipline::DropTail, seed);
    }

    #[test]
    fn red_is_as_its_model((limit, red) in red(), seed: u64) {
        same(limit, Discipline::Red(red), seed);
    }

    #[test]
    fn codel_is_as_its_model(limit in limit(), codel in codel(), seed: u64) {
        same(limit, Discipline::CoDel(codel), seed);
    }

    #[test]
    fn pie_is_as_its_model(limit in limit(), pie in pie(), seed: u64) {
        same(limit, Discipline::Pie(pie), seed);
    }

    #[test]
    fn fq_codel_is_as_its_model(
        limit in limit(),
        codel in codel(),
        flows in 1u32..40,
        quantum in 256u32..3000,
        seed: u64,
    ) {
        let flows = NonZeroU32::new(flows).unwrap();
        same(limit, Discipline::FqCodel(FqCodel { codel, flows, quantum }), seed);
    }
}

/// The comparison is worth nothing where nothing happens.
#[test]
fn the_traffic_makes_each_discipline_act() {
    let limit = QueueLimit::Packets(120);
    let codel = CoDel {
        ecn: true,
        ..CoDel::default()
    };
    let pie = Pie {
        ecn: true,
        ..Pie::default()
    };
    let red = Red {
        ecn: true,
        min: 20,
        max: 110,
        weight_log2: 5,
        ..Red::for_limit(limit)
    };
    let acting = [
        Discipline::Red(red),
        Discipline::CoDel(codel),
        Discipline::Pie(pie),
        Discipline::FqCodel(FqCodel {
            codel,
            ..FqCodel::default()
        }),
    ];
    for discipline in acting {
        let logs = (0..8).map(|seed| tally(&same(limit, discipline, seed)));
        let tally = logs.fold([0; 3], |sum, tally| [0, 1, 2].map(|i| sum[i] + tally[i]));
        println!("{discipline:?}: {tally:?} early drops, overflows, marks");
        assert!(
            tally.iter().all(|&events| events > 20),
            "{discipline:?}: {tally:?}"
        );
    }
}
