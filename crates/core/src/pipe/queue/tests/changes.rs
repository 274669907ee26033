//! Changes of a queue that holds packets.

use std::num::NonZeroU32;

use super::super::{Item, Queue};
use super::{Discipline, busy, item, params, queue};
use crate::params::{CoDel, FqCodel, Pie, Red};
use crate::time::{Span, Time};
use crate::units::{Probability, QueueLimit};

const LIMIT: QueueLimit = QueueLimit::Packets(100);

fn all() -> [Discipline; 5] {
    [
        Discipline::DropTail,
        Discipline::Red(Red::for_limit(LIMIT)),
        Discipline::CoDel(CoDel::default()),
        Discipline::Pie(Pie::default()),
        Discipline::FqCodel(FqCodel::default()),
    ]
}

/// A queue in which the packets 0 to 5 wait, of two flows by turns.
fn filled(discipline: Discipline) -> Queue {
    let mut queue = queue(LIMIT, discipline);
    for index in 0..6 {
        let item = Item {
            flow: u64::from(index % 2),
            ..item(index, 1000, u64::from(index))
        };
        queue.enqueue(item.entered, item, busy(1), &mut |_| panic!("no drops"));
    }
    queue
}

fn rest(queue: &mut Queue) -> Vec<u32> {
    let out = std::iter::from_fn(|| queue.dequeue(Time::from_ns(9), &mut |_| ()));
    out.map(|(item, _)| item.index).collect()
}

#[test]
fn packets_stay_in_order_whatever_comes_after_what() {
    for from in all() {
        for to in all() {
            let mut queue = filled(from);
            let mut seen = 0;
            // A limit below what waits holds for packets to come only.
            let new = params(QueueLimit::Packets(1), to);
            queue.set(&new, |item| {
                seen += 1;
                item.bytes = 100;
                item.flow = 7;
            });
            assert_eq!((seen, queue.len(), queue.bytes()), (6, 6, 600));
            // Within flow queues that stay, the flows keep their turns: 2 quanta of bytes.
            let stays = matches!((from, to), (Discipline::FqCodel(_), Discipline::FqCodel(_)));
            let expected = if stays {
                [0, 2, 4, 1, 3, 5]
            } else {
                [0, 1, 2, 3, 4, 5]
            };
            assert_eq!(rest(&mut queue), expected, "{from:?} to {to:?}");
            assert_eq!((queue.len(), queue.bytes()), (0, 0));
        }
    }
}

#[test]
fn another_number_of_flow_queues_spreads_the_packets_anew() {
    let one = FqCodel {
        flows: NonZeroU32::MIN,
        ..FqCodel::default()
    };
    let mut queue = filled(Discipline::FqCodel(FqCodel::default()));
    queue.set(&params(LIMIT, Discipline::FqCodel(one)), |_| ());
    assert_eq!(rest(&mut queue), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_drained_queue_is_empty_and_works_on() {
    for discipline in all() {
        let mut queue = filled(discipline);
        let mut out = Vec::new();
        queue.drain(|item| out.push(item.index));
        assert_eq!(out, [0, 1, 2, 3, 4, 5], "{discipline:?}");
        assert!(queue.is_empty() && queue.bytes() == 0);
        assert_eq!(queue.dequeue(Time::from_ns(9), &mut |_| ()), None);
        let new = item(8, 10, 9);
        queue.enqueue(Time::from_ns(9), new, busy(1), &mut |_| ());
        assert_eq!(rest(&mut queue), [8]);
    }
}

#[test]
fn state_survives_a_change_of_parameters() {
    // CoDel is dropping; another interval must not make it start over.
    let codel = |interval| {
        Discipline::CoDel(CoDel {
            interval: Span::from_ms(interval),
            ..CoDel::default()
        })
    };
    for changed in [false, true] {
        let mut queue = filled(codel(10));
        let mut dropped = 0;
        let mut step = |queue: &mut Queue, ms: u64| {
            queue.dequeue(Time::from_ns(ms * 1_000_000), &mut |_| dropped += 1);
        };
        step(&mut queue, 20); // above target
        step(&mut queue, 30); // for an interval: drops one, serves one
        if changed {
            queue.set(&params(LIMIT, codel(11)), |_| ());
        }
        step(&mut queue, 40); // the next drop
        assert_eq!(dropped, 2);
    }
}

/// Whatever the parameters, a queue neither panics nor loses count.
#[test]
fn absurd_parameters_do_no_harm() {
    let spans = [0, 1, u64::MAX].map(Span::from_ns);
    let mut absurd = Vec::new();
    for (&a, &b) in spans.iter().flat_map(|a| spans.iter().map(move |b| (a, b))) {
        let (target, interval) = (a, b);
        let codel = CoDel {
            target,
            interval,
            ecn: true,
        };
        absurd.push(Discipline::CoDel(codel));
        for (flows, quantum) in [(1, u32::MAX), (u32::MAX, 0)] {
            absurd.push(Discipline::FqCodel(FqCodel {
                codel,
                flows: NonZeroU32::new(flows).unwrap(),
                quantum,
            }));
        }
        absurd.push(Discipline::Pie(Pie {
            target,
            update: interval,
            max_burst: target,
            ecn: false,
        }));
        absurd.push(Discipline::Red(Red {
            min: a.as_ns(),
            max: b.as_ns(),
            probability: Probability::ALWAYS,
            weight_log2: if a < b { 255 } else { 0 },
            ecn: true,
        }));
    }
    for discipline in absurd {
        for limit in [
            QueueLimit::Packets(u32::MAX),
            QueueLimit::Bytes(0),
            QueueLimit::Time(Span::MAX),
        ] {
            let mut queue = queue(limit, discipline);
            let mut gone = 0;
            for round in 0..6u64 {
                let now = Time::from_ns(
                    [0, 1, 1 << 40, u64::MAX - 1, u64::MAX, u64::MAX][round as usize],
                );
                for index in 0..20 {
                    let new = Item {
                        flow: u64::MAX - u64::from(index),
                        ..item(index, [0, 65_573][round as usize % 2], now.as_ns())
                    };
                    queue.enqueue(now, new, busy(u64::MAX), &mut |_| gone += 1);
                }
                for _ in 0..10 {
                    let mut dropped = 0;
                    let out = queue.dequeue(now, &mut |_| dropped += 1);
                    gone += dropped + usize::from(out.is_some());
                }
                assert_eq!(
                    gone + queue.len(),
                    20 * (round as usize + 1),
                    "{discipline:?}"
                );
            }
        }
    }
}

#[test]
fn only_what_is_needed_is_asked_for() {
    let needs = all().map(|discipline| {
        let queue = queue(LIMIT, discipline);
        (queue.needs_flow(), queue.needs_ecn())
    });
    let plain = (false, false);
    assert_eq!(needs, [plain, plain, plain, plain, (true, true)]);
}
