//! The machine's time is the machine's, however slowly the experiment's passes.
//!
//! Of an experiment whose clock is ten times slower, and whose times are all ten times shorter, a
//! machine sees no difference: the same frames come and go at the same moments of its clock. So it
//! must stall as often, shed as much, be as busy, and be blamed for as much. Only what is
//! counted by seconds of the experiment has ten times fewer of them.

use std::time::Duration;

use longhaul_core::{Span, Time};
use longhaul_linux::clock::MachineTime;

use super::harness::{Run, Setup};
use super::machine::{Fault, Machine};
use super::{every, every_ms, ms, s, stalls, us};
use crate::fidelity::{PhysicalDrops, State};

/// The same by the machine's clock, at the experiment's own pace and ten times slower.
fn at_both_paces(machine: impl Fn() -> Machine, end: Span) -> [Run; 2] {
    [1, 10].map(|factor| Setup::slowed(machine(), end, factor).run())
}

fn moments(run: &Run) -> Vec<MachineTime> {
    run.cables[1].iter().map(|now| now.at).collect()
}

/// How long a run took by the machine's clock.
fn took(run: &Run) -> Duration {
    run.seconds.iter().map(|second| second.took).sum()
}

/// Whether all frames were on their cables at the same moments. The end of a second of the
/// experiment takes the machine a reading of its clock, and each reading moves that.
fn is_the_same_to_the_machine(own: &Run, slow: &Run) -> bool {
    let apart = |(own, slow): (&MachineTime, &MachineTime)| own.since(*slow).max(slow.since(*own));
    let (own, slow) = (moments(own), moments(slow));
    own.len() == slow.len() && own.iter().zip(&slow).map(apart).all(|apart| apart < us(1))
}

#[test]
fn a_machine_that_keeps_up_does_so_at_any_pace() {
    let [own, slow] = at_both_paces(|| every_ms(2), Span::from_s(3));
    assert!(is_the_same_to_the_machine(&own, &slow));
    for run in [&own, &slow] {
        assert_eq!((run.delivered, run.verdict.late_share), (2000, 0.0));
        assert_eq!(run.verdict.state, State::Faithful);
    }
    // Its lateness is ten times shorter by the experiment's clock.
    let p50 = |run: &Run| run.verdict.lateness_ns.expect("a live run").p50;
    assert!(p50(&slow) * 5 < p50(&own), "{} {}", p50(&slow), p50(&own));
}

#[test]
fn a_stall_of_the_machine_is_one_at_any_pace() {
    // 5 ms of each 100, and some that are too short to make any packet late.
    for (length, each_late) in [(ms(5), 5), (us(600), 0)] {
        let machine = || {
            let mut machine = every_ms(10);
            machine.stalls = stalls(ms(100), length, s(10));
            machine
        };
        let [own, slow] = at_both_paces(machine, Span::from_s(11));
        assert!(is_the_same_to_the_machine(&own, &slow));
        // How long rates have lost, which is a share of how long the run took.
        let lost = |run: &Run| (1.0 - run.verdict.rate_share) * took(run).as_secs_f64();
        let apart = (lost(&own) - lost(&slow)).abs();
        assert!(apart < 1e-4, "{} s, {} s", lost(&own), lost(&slow));
        let (own, slow) = (own.verdict, slow.verdict);
        assert_eq!(own.by_cause.stall, 99 * each_late);
        assert_eq!(own.by_cause, slow.by_cause);
        assert_eq!(own.late_share, slow.late_share);
        assert_eq!(own.stalls.count, slow.stalls.count);
        let apart = own.stalls.total_ns.abs_diff(slow.stalls.total_ns);
        assert!(apart < own.stalls.total_ns / 1000 + 1, "{apart} ns");
    }
}

#[test]
fn what_is_lost_in_a_stall_is_lost_at_any_pace() {
    let machine = || {
        let mut machine = every_ms(10);
        machine.ring = 20;
        machine.stalls = vec![(us(2_000_500), ms(50))];
        machine.fault = |number| match number {
            999 => Fault::Refused,
            _ => Fault::None,
        };
        machine
    };
    let drops = PhysicalDrops {
        ring: 30,
        send: 1,
        ..PhysicalDrops::default()
    };
    for run in at_both_paces(machine, Span::from_s(11)) {
        assert_eq!(run.verdict.physical_drops_by_place, drops);
    }
}

#[test]
fn the_kernel_is_asked_as_often_at_any_pace() {
    // 100,000 packets a second of the machine are more than it is asked about one by one.
    let machine = || {
        let mut machine = Machine::new(every(1, Span::from_us(10)));
        machine.send_cost = us(2);
        machine
    };
    let [own, slow] = at_both_paces(machine, Span::from_s(2));
    assert_eq!((own.delivered, slow.delivered), (100_000, 100_000));
    let (own, slow) = (own.asked_of_last, slow.asked_of_last);
    assert!(own > 20_000, "{own}");
    assert!(own.abs_diff(slow) < own / 100, "{own} {slow}");
}

/// 20,000 packets a second are carried, and 40,000 come: a second of the machine has the same in
/// store for them, whichever part of a second of the experiment it is.
#[test]
fn overload_is_met_alike_at_any_pace() {
    let machine = || {
        let mut machine = Machine::new(every(20, Span::from_us(25)));
        machine.send_cost = us(50);
        // What is late after it has been made good is not late through it.
        machine.stalls = vec![(s(2), ms(20))];
        machine
    };
    let [own, slow] = at_both_paces(machine, Span::from_s(21));
    let part = |run: &Run| run.delivered as f64 / (20.0 * 20_000.0);
    assert!(part(&own) > 0.7, "{} of what it carries", part(&own));
    assert!(
        (part(&own) - part(&slow)).abs() < 0.02,
        "{} {}",
        part(&own),
        part(&slow)
    );
    let (mut of_own, mut of_slow) = (own.verdict.clone(), slow.verdict.clone());
    for (verdict, factor) in [(&mut of_own, 1), (&mut of_slow, 10)] {
        let lateness = verdict.lateness_ns.take().expect("a live run");
        // Half a millisecond of the machine.
        assert!(lateness.p50 * factor < 500_000, "{factor}: {lateness:?}");
        assert!(verdict.late_share < 0.01, "{}", verdict.late_share);
        assert!(verdict.by_cause.other <= 400, "{:?}", verdict.by_cause);
    }
    let apart = (of_own.late_share - of_slow.late_share).abs();
    assert!(apart < 0.01, "{} {}", of_own.late_share, of_slow.late_share);
    for run in [&own, &slow] {
        let busiest = run.seconds.iter().map(|second| second.core_load);
        let busiest = busiest.fold(0.0, f64::max);
        assert!((0.9..=1.01).contains(&busiest), "a load of {busiest}");
        let busy = run.seconds.iter();
        let busy = busy.map(|second| second.core_load * second.took.as_secs_f64());
        let busy = busy.sum::<f64>();
        assert!((18.0..20.5).contains(&busy), "busy for {busy} s");
    }
}

/// Each second of the machine has a flood of its own, and patience for it.
#[test]
fn patience_is_there_again_in_each_second_of_the_machine() {
    let machine = || {
        let at =
            |second: u64, us: u64| Time::ZERO + Span::from_us(1_000_000 * second + 300_000 + us);
        let flood = |second| (0..1200).map(move |n| (0, 1, at(second, 25 * n)));
        let mut machine = Machine::new((0..10).flat_map(flood).collect());
        machine.send_cost = us(50);
        machine
    };
    let [own, slow] = at_both_paces(machine, Span::from_s(11)).map(|run| run.delivered);
    // Of 1200 packets in 30 ms the loop may be booked for 95 in 100 of half, and takes some more while it
    // has patience.
    assert!((5_700..8_000).contains(&own), "{own}");
    assert!(own.abs_diff(slow) < own / 50, "{own} {slow}");
}
