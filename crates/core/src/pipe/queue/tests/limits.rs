//! Drop-tail at its limits, exactly.

use super::super::{Drain, Dropped, Enqueued, Queue};
use super::{Discipline, busy, idle, item, queue};
use crate::params::Red;
use crate::time::{Span, Time};
use crate::units::{QueueLimit, Rate};

/// Puts in packets of these sizes behind one in service with 500 ns to go; which get in?
fn admitted(queue: &mut Queue, sizes: &[u32]) -> Vec<bool> {
    let mut lost = Vec::new();
    let admitted = sizes.iter().zip(0..).map(|(&bytes, index)| {
        let mut on_drop = |dropped: Dropped| lost.push((dropped.item.index, dropped.early));
        let item = item(index, bytes, 0);
        queue.enqueue(Time::ZERO, item, busy(500), &mut on_drop) == Enqueued::Queued
    });
    let admitted: Vec<bool> = admitted.collect();
    let expected = (0..).zip(&admitted).filter(|(_, admitted)| !**admitted);
    let expected: Vec<_> = expected.map(|(index, _)| (index, false)).collect();
    assert_eq!(lost, expected);
    admitted
}

#[test]
fn a_limit_in_packets_counts_packets() {
    let mut queue = queue(QueueLimit::Packets(2), Discipline::DropTail);
    assert_eq!(admitted(&mut queue, &[1, 60_000, 1]), [true, true, false]);
    assert_eq!((queue.len(), queue.bytes()), (2, 60_001));
}

#[test]
fn a_limit_in_bytes_admits_a_small_packet_after_a_large_one_is_refused() {
    let mut queue = queue(QueueLimit::Bytes(100), Discipline::DropTail);
    let fits = admitted(&mut queue, &[60, 41, 40, 1]);
    assert_eq!(fits, [true, false, true, false]);
    assert_eq!((queue.len(), queue.bytes()), (2, 100));
}

#[test]
fn so_much_time_until_service_starts() {
    // A byte takes 1000 ns: the third packet would start at 500 + 100 · 1000 ns.
    for (span, third) in [(100_500, true), (100_499, false)] {
        let mut queue = queue(QueueLimit::Time(Span::from_ns(span)), Discipline::DropTail);
        assert_eq!(admitted(&mut queue, &[60, 40, 9000]), [true, true, third]);
    }
}

#[test]
fn time_is_exact_at_rates_that_do_not_divide() {
    // 100 bytes at 7 bit/ns take 114 2/7 ns.
    let drain = Drain {
        rate: Rate::from_bits_per_s(7_000_000_000),
        rest: Some(Span::ZERO),
    };
    for (span, second) in [(115, Enqueued::Queued), (114, Enqueued::Dropped)] {
        let mut queue = queue(QueueLimit::Time(Span::from_ns(span)), Discipline::DropTail);
        let mut put = |index| queue.enqueue(Time::ZERO, item(index, 100, 0), drain, &mut |_| ());
        assert_eq!((put(0), put(1)), (Enqueued::Queued, second));
    }
}

#[test]
fn nobody_waits_for_an_unlimited_rate() {
    let drain = Drain {
        rate: None,
        rest: Some(Span::ZERO),
    };
    let mut queue = queue(QueueLimit::Time(Span::ZERO), Discipline::DropTail);
    for index in 0..1000 {
        let put = queue.enqueue(Time::ZERO, item(index, 1500, 0), drain, &mut |_| ());
        assert_eq!(put, Enqueued::Queued);
    }
}

#[test]
fn without_a_place_to_wait_one_is_still_served() {
    for limit in [
        QueueLimit::Packets(0),
        QueueLimit::Bytes(0),
        QueueLimit::Time(Span::ZERO),
    ] {
        let mut queue = queue(limit, Discipline::DropTail);
        let put = queue.enqueue(Time::ZERO, item(0, 1500, 0), idle(), &mut |_| ());
        assert_eq!(put, Enqueued::Queued);
        let out = queue.dequeue(Time::ZERO, &mut |_| ());
        assert_eq!(out, Some((item(0, 1500, 0), false)));
        let put = queue.enqueue(Time::ZERO, item(1, 1500, 0), busy(1), &mut |_| ());
        assert_eq!(put, Enqueued::Dropped);
    }
}

#[test]
fn red_by_default_leaves_room_above_its_thresholds() {
    for (limit, bound) in [
        (QueueLimit::Packets(240), 240),
        (QueueLimit::Bytes(120_000), 120_000),
        (QueueLimit::Time(Span::from_ms(12)), 12_000_000),
    ] {
        let red = Red::for_limit(limit);
        assert_eq!((3 * red.min, 4 * red.max), (red.max, bound));
    }
    let least = Red::for_limit(QueueLimit::Packets(0));
    assert!(0 < least.min && least.min < least.max);
}
