//! The loop on a clock that a test winds: stalls, losses and overload of known size must give
//! the shares, causes and grades that are worked out by hand.

mod applied;
mod dilated;
mod flood;
mod harness;
mod machine;

use std::time::Duration;

use longhaul_core::{Span, Time};

use crate::fidelity::{ByCause, PhysicalDrops, State};
use harness::{Setup, run};
use machine::{Fault, Machine};

/// One packet from a to b every millisecond for `seconds` seconds, due 5 ms later.
fn every_ms(seconds: u64) -> Machine {
    Machine::new(every(seconds, Span::from_ms(1)))
}

fn every(seconds: u64, gap: Span) -> Vec<(usize, usize, Time)> {
    let count = seconds * 1_000_000_000 / gap.as_ns();
    let stamp = |number| Time::ZERO + Span::from_ns(gap.as_ns() * number);
    (0..count).map(|number| (0, 1, stamp(number))).collect()
}

/// Stalls at intervals of `every`, each half a millisecond off a multiple of it, until `until`.
fn stalls(every: Duration, length: Duration, until: Duration) -> Vec<(Duration, Duration)> {
    let first = every + us(500);
    let starts = (0..).map(|n| first + every * n);
    let starts = starts.take_while(|at| *at < until);
    starts.map(|at| (at, length)).collect()
}

const fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

#[test]
fn a_machine_that_keeps_up_is_faithful() {
    let run = run(every_ms(2), Span::from_s(3));
    assert_eq!((run.sent, run.delivered), (2000, 2000));
    assert_eq!(run.verdict.state, State::Faithful, "{:?}", run.verdict);
    assert_eq!((run.verdict.late_share, run.verdict.episodes), (0.0, 0));
    for (number, &at) in run.cables[1].iter().enumerate() {
        let due = Time::ZERO + Span::from_ms(number as u64 + 5);
        let late = at.time.since(due);
        assert!(at.time >= due, "packet {number} is early");
        assert!(late < Span::from_us(10), "packet {number}: {late:?}");
    }
}

#[test]
fn nothing_is_ever_early_whatever_a_wake_up_does() {
    // A machine that is back from each wait too soon.
    let mut machine = every_ms(1);
    machine.wakes_early = us(70);
    let run = run(machine, Span::from_s(2));
    assert_eq!(run.delivered, 1000);
    for (number, &at) in run.cables[1].iter().enumerate() {
        assert!(at.time >= Time::ZERO + Span::from_ms(number as u64 + 5));
    }
}

#[test]
fn stalls_make_the_packets_late_that_were_due_meanwhile() {
    // In each 100 ms, 5 ms from .5 on: five packets are 4.5 to 0.5 ms late.
    let mut machine = every_ms(10);
    machine.stalls = stalls(ms(100), ms(5), s(10));
    let count = machine.stalls.len() as u64;
    let run = run(machine, Span::from_s(11));
    assert_eq!((count, run.delivered), (99, 10_000));
    let verdict = run.verdict;
    assert_eq!(verdict.late_share, 5.0 * 99.0 / 10_000.0);
    assert_eq!(verdict.episodes, 99);
    let by_cause = ByCause {
        stall: 5 * 99,
        ..ByCause::default()
    };
    assert_eq!(verdict.by_cause, by_cause);
    assert_eq!(verdict.stalls.count, 99);
    // Counted from the first packet that was due, half a millisecond later.
    let longest = Duration::from_nanos(verdict.stalls.longest_ns);
    let expected = us(4_500);
    assert!(
        longest >= expected && longest < expected + us(20),
        "{longest:?}"
    );
    assert_eq!(verdict.state, State::Degraded, "{:?}", verdict.reasons);
    assert!(verdict.blames_noise());
    assert_eq!(verdict.lost_share, 0.0);
}

#[test]
fn the_grade_follows_the_length_and_the_rate_of_stalls() {
    let cases = [
        // Once in ten seconds: 5 of 10,000 packets.
        (s(8), ms(5), State::Faithful),
        // Once a second: 5 of 1000, and no second by itself is above 1 %.
        (s(1), ms(5), State::Degraded),
        // 6 of 100.
        (ms(100), ms(6), State::Broken),
        // Once, but later than any figure bears.
        (s(8), ms(110), State::Broken),
        // Too short to make any packet late.
        (ms(10), us(600), State::Faithful),
    ];
    for (every, length, state) in cases {
        let mut machine = every_ms(10);
        machine.stalls = stalls(every, length, s(10));
        let verdict = run(machine, Span::from_s(11)).verdict;
        assert_eq!(verdict.state, state, "{every:?} {length:?}: {verdict:?}");
    }
}

#[test]
fn lost_packets_are_counted_where_they_were_lost() {
    // The kernel refuses one of 4000, and the ring has no room for what came in a stall.
    let mut machine = every_ms(10);
    machine.fault = |number| match number % 4000 {
        999 => Fault::Refused,
        _ => Fault::None,
    };
    let refused = run(machine, Span::from_s(11)).verdict;
    let drops = PhysicalDrops {
        send: 3,
        ..PhysicalDrops::default()
    };
    assert_eq!(refused.physical_drops_by_place, drops);
    assert_eq!(refused.lost_share, 3.0 / 10_000.0);
    assert_eq!(refused.state, State::Broken);
    let mut machine = every_ms(10);
    machine.fault = |number| match number {
        999 => Fault::Refused,
        _ => Fault::None,
    };
    assert_eq!(
        run(machine, Span::from_s(11)).verdict.state,
        State::Degraded
    );

    let mut machine = every_ms(10);
    machine.ring = 20;
    machine.stalls = vec![(us(2_000_500), ms(50))];
    let run = run(machine, Span::from_s(11));
    let drops = PhysicalDrops {
        ring: 30,
        ..PhysicalDrops::default()
    };
    assert_eq!(run.verdict.physical_drops_by_place, drops);
    assert_eq!(run.sent, run.delivered + 30);
    assert_eq!(run.verdict.state, State::Broken);
}

#[test]
fn many_packets_are_bounded_by_the_last_stamp_of_their_call() {
    // 100,000 a second, on a machine whose clock readings take as long as the gaps: calls of several frames.
    let mut machine = Machine::new(every(1, Span::from_us(10)));
    machine.send_cost = us(2);
    machine.fault = |number| match number % 20_000 {
        7 => Fault::Refused,
        11 => Fault::Unanswered,
        _ => Fault::None,
    };
    let run = run(machine, Span::from_s(2));
    let verdict = run.verdict;
    assert_eq!((run.sent, run.delivered), (100_000, 100_000));
    assert_eq!(verdict.physical_drops_by_place.send, 5);
    let lateness = verdict.lateness_ns.expect("a live run");
    assert!(lateness.max <= verdict.after_call_ns.expect("a live run").max);
    // Of an unanswered question's frames at most those of its call are late.
    assert!(
        verdict.late_share <= 5.0 * 16.0 / 100_000.0,
        "{}",
        verdict.late_share
    );
    assert!(verdict.worst_pair.expect("one that lost").lost_share > 4e-5);
}

#[test]
fn a_run_that_nobody_hears_loses_no_second() {
    let mut machine = every_ms(3);
    machine.ring = 20;
    machine.stalls = vec![(us(200_500), ms(50))];
    // No report finds room but the last one.
    let setup = Setup {
        heard: 0,
        ..Setup::new(machine, Span::from_s(4))
    };
    let verdict = setup.run().verdict;
    assert_eq!(verdict.physical_drops_by_place.ring, 30);
    // Five were inside, and twenty found room.
    assert_eq!((verdict.by_cause.stall, verdict.stalls.count), (25, 1));
}

#[test]
fn a_question_without_an_answer_counts_as_late() {
    let mut machine = every_ms(10);
    machine.fault = |number| match number % 2000 {
        999 => Fault::Unanswered,
        _ => Fault::None,
    };
    let verdict = run(machine, Span::from_s(11)).verdict;
    assert_eq!(verdict.late_share, 5.0 / 10_000.0);
    assert_eq!(verdict.lost_share, 0.0);
}

#[test]
fn a_busy_flow_does_not_hide_a_pair_that_is_late() {
    // 100,000 packets from a to b, and 200 from c to b, each of which comes into a stall.
    let mut frames = every(10, Span::from_us(100));
    let probes = (0..200).map(|n| Time::ZERO + Span::from_ms(50 * n + 1));
    frames.extend(probes.clone().map(|stamp| (2, 1, stamp)));
    frames.sort_by_key(|(_, _, stamp)| *stamp);
    let mut machine = Machine::new(frames);
    let before_due = |stamp: Time| (Duration::from_nanos(stamp.as_ns()) + us(5_950), us(300));
    machine.stalls = probes.map(before_due).collect();
    let verdict = run(machine, Span::from_s(11)).verdict;
    let worst = verdict.worst_pair.as_ref().expect("one that is late");
    assert_eq!((worst.from.as_deref(), worst.to.as_str()), (Some("c"), "b"));
    assert_eq!((worst.packets, worst.late), (200, 200));
    assert!(verdict.late_share < 0.01, "{}", verdict.late_share);
    assert_eq!(verdict.state, State::Broken);
}

#[test]
fn more_than_the_machine_carries_is_overload() {
    // 40,000 packets a second on a machine that takes 50 us for each.
    let mut machine = Machine::new(every(3, Span::from_us(25)));
    machine.send_cost = us(50);
    let run = run(machine, Span::from_s(4));
    let (verdict, drops) = (&run.verdict, run.verdict.physical_drops_by_place);
    assert_eq!(verdict.state, State::Broken);
    assert!(!verdict.blames_noise());
    assert!(drops.shed > run.sent / 3, "{drops:?}");
    assert_eq!(run.delivered + drops.total(), run.sent);
    // Packets inside leave on time, except at first: the loop cannot yet distinguish the first 10 ms of a
    // flood from a burst.
    assert!(verdict.late_share < 0.03, "{}", verdict.late_share);
    let causes = verdict.by_cause;
    assert!(causes.other <= 400 && causes.overload > 0, "{causes:?}");
    assert_eq!(causes.stall, 0);
}

#[test]
fn twice_the_capacity_does_not_delay_what_is_inside() {
    // 20,000 packets a second are carried; 40,000 come.
    let mut machine = Machine::new(every(5, Span::from_us(25)));
    machine.send_cost = us(50);
    let run = run(machine, Span::from_s(6));
    let lateness = run.verdict.lateness_ns.expect("a live run");
    assert!(lateness.p50 < 500_000, "{lateness:?}");
    let part = run.delivered as f64 / (5.0 * 20_000.0);
    assert!(part > 0.7, "{part} of what it carries");
}
