use super::words::at_most;
use super::*;
use crate::fidelity::LONG_NS;
use crate::fidelity::meter::{Meter, Packet};
use crate::noise::{self, Comparison, CpuNoise, Noise};
use crate::pace::{Dilation, Now, Pace};
use longhaul_core::Time;
use longhaul_linux::clock::MachineTime;

const TOLERANCE: Span = Span::from_us(200);
const HOSTS: u32 = 3;
const PACE: Pace = Pace::new(MachineTime::from_ns(1 << 40), Dilation::NONE);

/// A moment of the experiment.
fn moment(time: Time) -> Now {
    PACE.read(PACE.moment_of(time))
}

/// A run whose packets go between hosts a, b and c, a millisecond after one another.
struct Run {
    meter: Meter,
    judge: Judge,
    now: Time,
    path_delay: Span,
}

impl Run {
    fn new() -> Self {
        let names = ["a", "b", "c"].map(str::to_owned).to_vec();
        let hosts = (0..HOSTS).map(NodeId).collect();
        Self {
            meter: Meter::new(
                TOLERANCE,
                PACE,
                Measured::new(HOSTS as usize, HOSTS as usize),
            ),
            judge: Judge::new(TOLERANCE, hosts, names),
            now: Time::ZERO,
            path_delay: Span::from_ms(1),
        }
    }

    /// `count` packets, late by `late`.
    fn packets(&mut self, [from, to]: [u32; 2], count: u64, late: Span) {
        for _ in 0..count {
            self.now += Span::from_ms(1);
            self.meter.count(&Packet {
                from: Some(NodeId(from)),
                to: NodeId(to),
                host: to as usize,
                due: self.now,
                error: late,
                path_delay: self.path_delay,
                is_unknown: false,
            });
            self.meter.lateness(late);
        }
    }

    /// Ends a second, in which something else may have happened.
    fn second(&mut self, change: impl FnOnce(&mut Second)) {
        let mut second = self.meter.close(moment(self.now));
        change(&mut second);
        self.judge.second(&second);
    }

    fn verdict(&self) -> Verdict {
        self.judge
            .verdict(&self.meter.measured, Spurious::default())
    }
}

#[test]
fn a_clean_run_is_faithful_and_says_what_holds() {
    let mut run = Run::new();
    run.packets([0, 1], 1000, Span::from_us(10));
    run.second(|_| {});
    let verdict = run.verdict();
    assert_eq!(verdict.state, State::Faithful);
    assert_eq!(verdict.reasons, Vec::<String>::new());
    let holds = "delay percentiles of a > b are off by at most 200 us";
    assert_eq!(verdict.holds.as_deref(), Some(holds));
    assert_eq!((verdict.percentile_shift, verdict.worst_pair), (0.0, None));
}

#[test]
fn the_line_follows_the_worst_pair() {
    let mut run = Run::new();
    run.packets([0, 1], 100_000, Span::from_us(10));
    run.packets([1, 0], 200, Span::from_us(10));
    for _ in 0..2 {
        run.meter
            .detector
            .woken(moment(run.now), moment(run.now).at);
        run.now += Span::from_ms(5);
        run.meter.detector.observe(moment(run.now));
        run.packets([1, 0], 3, Span::from_ms(2));
        run.now += Span::from_ms(100);
    }
    run.second(|second| second.stolen = Duration::from_millis(160));
    let verdict = run.verdict();
    assert_eq!(verdict.state, State::Degraded);
    let worst = verdict.worst_pair.as_ref().expect("one that is late");
    let pair = (worst.from.as_deref(), worst.to.as_str());
    assert_eq!(pair, (Some("b"), "a"));
    assert_eq!((worst.packets, worst.late, worst.episodes), (206, 6, 2));
    assert!((verdict.percentile_shift - 6.0 / 206.0).abs() < 1e-12);
    assert_eq!(verdict.episodes, 2);
    let by_cause = ByCause {
        stall: 6,
        ..ByCause::default()
    };
    assert_eq!(verdict.by_cause, by_cause);
    let holds = "delay percentiles of b > a are off by at most 3.0 points and 200 us, mean rates by at \
                 most 0.01 % (this machine stalled 2 times, for up to 5 ms)";
    assert_eq!(verdict.holds.as_deref(), Some(holds));
    let reason = "0.01 % of packets late: the machine stalled 2 times, for up to 5 ms; its \
                  hypervisor took 160 ms of CPU time";
    let pair = "3.0 % of packets late in the worst pair, b > a";
    assert_eq!(verdict.reasons, [reason, pair]);
    assert!(verdict.blames_noise());
}

#[test]
fn what_a_pair_may_have_lost_is_in_its_share() {
    let mut run = Run::new();
    run.packets([0, 1], 99_999, Span::ZERO);
    run.packets([2, 1], 99, Span::ZERO);
    run.packets([1, 2], 199, Span::ZERO);
    run.meter.refused(Some(NodeId(1)), NodeId(2), 1);
    run.second(|second| second.drops.ring = 1);
    run.judge.cables_lost(1, 2, 0);
    let verdict = run.verdict();
    // b > c: one for c that was refused, two of b's, and one that may have been anybody's.
    let worst = verdict.worst_pair.expect("one that may have lost most");
    assert_eq!((worst.from.as_deref(), worst.to.as_str()), (Some("b"), "c"));
    assert!((worst.lost_share - 4.0 / 203.0).abs() < 1e-12);
    let reason = "the machine, not the network, lost 2 packets, 1 in 50149: 1 in the core's receive \
                  ring, 1 refused by the kernel on sending";
    assert_eq!(verdict.reasons, [reason]);
    assert_eq!(verdict.state, State::Degraded);
}

#[test]
fn each_cause_has_a_line() {
    let mut run = Run::new();
    run.packets([0, 1], 1000, Span::ZERO);
    run.meter
        .detector
        .woken(moment(run.now), moment(run.now).at);
    run.packets([0, 1], 20, Span::from_us(300));
    run.meter
        .detector
        .woken(moment(run.now), moment(run.now).at);
    for _ in 0..22 {
        run.now += Span::from_us(500);
        run.meter.detector.observe(moment(run.now));
    }
    run.packets([0, 1], 20, Span::from_us(400));
    run.second(|second| {
        second.clock_steps = 2;
        second.rate_left = Some(0.962);
        second.starved = vec![
            (0, Duration::from_millis(700)),
            (2, Duration::from_millis(600)),
        ];
        second.core_load = 1.0;
    });
    let verdict = run.verdict();
    let expected = [
        "2.0 % of packets late: the core was overloaded (busy for up to 100 % of a second)",
        "2.0 % of packets late: wake-ups or send calls took longer than the tolerance (up to 400 \
         us late)",
        "more than 1 % of packets late in 1 of 1 seconds",
        "the machine's clock was stepped 2 times",
        "the machine did not keep up: hosts that needed the full rate of their links got 96.2 % of \
         it",
        "programs on a, c waited for a CPU, for up to 700 ms of a second",
    ];
    assert_eq!(verdict.reasons, expected);
    assert_eq!(verdict.starved_hosts, ["a", "c"]);
    assert_eq!(verdict.state, State::Degraded);
    assert!(!verdict.blames_noise(), "it never stalled");
}

#[test]
fn a_pair_that_is_late_is_named_though_the_run_is_not() {
    let mut run = Run::new();
    run.packets([0, 1], 100_000, Span::ZERO);
    for _ in 0..3 {
        run.packets([2, 1], 50, Span::ZERO);
        run.packets([2, 1], 5, Span::from_ms(3));
    }
    run.second(|_| {});
    let verdict = run.verdict();
    assert_eq!(verdict.state, State::Broken);
    let expected = [
        "0.02 % of packets late: wake-ups or send calls took longer than the tolerance (up to 3 ms \
         late)",
        "9.1 % of packets late in the worst pair, c > b",
    ];
    assert_eq!(verdict.reasons, expected);
}

#[test]
fn pairs_of_few_packets_are_judged_together() {
    let mut run = Run::new();
    run.packets([0, 1], 100_000, Span::ZERO);
    for pair in [[2, 1], [1, 2]] {
        run.packets(pair, 59, Span::from_ms(3));
        run.packets([0, 1], 100, Span::ZERO);
    }
    run.second(|_| {});
    let verdict = run.verdict();
    let worst = verdict.worst_pair.expect("one that is late");
    assert_eq!(
        (worst.from.as_deref(), worst.to.as_str()),
        (None, "all other pairs")
    );
    assert_eq!((worst.packets, worst.late), (118, 118));
    assert_eq!(verdict.state, State::Broken);
}

#[test]
fn of_pairs_that_are_in_time_the_longest_path_is_named() {
    let mut run = Run::new();
    run.packets([0, 1], 200, Span::ZERO);
    run.path_delay = Span::from_ms(80);
    run.packets([0, 2], 200, Span::ZERO);
    run.path_delay = Span::ZERO;
    run.packets([1, 2], 200, Span::ZERO);
    run.second(|_| {});
    let holds = run.verdict().holds.expect("something was due");
    assert_eq!(
        holds,
        "delay percentiles of a > c are off by at most 800 us"
    );
}

#[test]
fn a_run_that_lost_everything_claims_nothing() {
    let mut run = Run::new();
    run.meter.refused(Some(NodeId(0)), NodeId(1), 500);
    run.now += Span::from_s(1);
    run.second(|_| {});
    let verdict = run.verdict();
    assert_eq!((verdict.state, verdict.lost_share), (State::Broken, 1.0));
    assert_eq!(verdict.percentile_shift, 1.0);
    let worst = verdict.worst_pair.expect("one that lost all");
    assert_eq!((worst.from.as_deref(), worst.packets), (Some("a"), 0));
}

#[test]
fn stalls_of_the_machine_are_a_reason_without_late_packets() {
    let mut run = Run::new();
    run.packets([0, 1], 1000, Span::ZERO);
    run.second(|second| {
        second.stalls = Stalls {
            count: 3,
            long: 3,
            total_ns: 30_000_000,
            longest_ns: 12_000_000,
        };
    });
    let verdict = run.verdict();
    assert_eq!(verdict.state, State::Degraded);
    let expected = ["the machine stalled 3 times, for up to 12 ms, 3.0 % of the run in all"];
    assert_eq!(verdict.reasons, expected);
    assert!(verdict.blames_noise());
}

/// A run with so many long stalls, on a machine that had `alone` in ten seconds of idling.
fn stalled_beside(stalls: u64, alone: Option<u64>) -> Verdict {
    let some = |count: u64| Stalls {
        count,
        long: count,
        total_ns: count * 12_000_000,
        longest_ns: 12_000_000,
    };
    let mut run = Run::new();
    run.judge.alone(alone.map(|count| Noise {
        seconds: 10.0,
        threshold_ns: noise::THRESHOLD_NS,
        long_ns: LONG_NS,
        cpus: vec![CpuNoise {
            cpu: 1,
            stalls: some(count),
        }],
        stolen_ns: 0,
    }));
    run.packets([0, 1], 1000, Span::ZERO);
    run.second(|second| second.stalls = some(stalls));
    run.verdict()
}

#[test]
fn stalls_are_compared_with_the_idle_machine() {
    let said = |stalls, alone| {
        let verdict = stalled_beside(stalls, alone);
        assert_eq!(
            verdict.state,
            State::Degraded,
            "the comparison changes no grade"
        );
        let comparison = verdict.alone.map(|alone| alone.comparison);
        (comparison, verdict.reasons.concat())
    };
    let (none, silent) = said(4, None);
    assert!(
        none.is_none() && !silent.contains("machine gets"),
        "{silent}"
    );
    let (alike, words) = said(4, Some(30));
    assert_eq!(alike, Some(Comparison::Alike));
    let expected =
        "as quiet as this machine gets: 240.0 stalls of 2 ms or more a minute, and 180.0";
    assert!(words.contains(expected), "{words}");
    let (exceeds, words) = said(4, Some(1));
    assert_eq!(exceeds, Some(Comparison::Exceeds));
    assert!(
        words.contains("noisier than this machine is by itself"),
        "{words}"
    );
    let (unknown, words) = said(1, Some(0));
    assert_eq!(unknown, Some(Comparison::Unknown));
    assert!(words.contains("too briefly to compare"), "{words}");
}

#[test]
fn a_run_is_repeated_only_if_it_would_have_been_better_without_stalls() {
    let stalled = |second: &mut Second| {
        second.stalls.count = 2;
        second.stalls.longest_ns = 5_000_000;
    };
    let judged = |change: &dyn Fn(&mut Second)| {
        let mut run = Run::new();
        run.packets([0, 1], 1000, Span::ZERO);
        let woken = moment(run.now + Span::from_ms(5));
        run.meter.detector.woken(woken, moment(run.now).at);
        run.packets([0, 1], 5, Span::from_ms(1));
        run.second(|second| {
            stalled(second);
            change(second);
        });
        let verdict = run.verdict();
        (verdict.state, verdict.blames_noise())
    };
    assert_eq!(judged(&|_| {}), (State::Degraded, true));
    // What the ring loses in a stall is the stall's.
    assert_eq!(
        judged(&|second| second.drops.ring = 5),
        (State::Broken, true)
    );
    // None of these is.
    assert_eq!(
        judged(&|second| second.drops.send = 5),
        (State::Broken, false)
    );
    assert_eq!(
        judged(&|second| second.clock_steps = 1),
        (State::Degraded, false)
    );
    assert_eq!(
        judged(&|second| second.rate_left = Some(0.9)),
        (State::Broken, false)
    );
    let starved = vec![(0, Duration::from_millis(700))];
    assert_eq!(
        judged(&|second| second.starved.clone_from(&starved)),
        (State::Degraded, false)
    );
    let overloaded = |second: &mut Second| {
        second.by_cause = ByCause {
            overload: second.by_cause.stall,
            ..ByCause::default()
        };
    };
    assert_eq!(judged(&overloaded), (State::Degraded, false));
}

#[test]
fn overload_is_not_blamed_on_stalls() {
    let mut run = Run::new();
    run.packets([0, 1], 1000, Span::ZERO);
    run.second(|second| {
        second.drops.shed = 500;
        second.stalls = Stalls {
            count: 1,
            long: 0,
            total_ns: 1_000_000,
            longest_ns: 1_000_000,
        };
    });
    let verdict = run.verdict();
    assert_eq!(verdict.state, State::Broken);
    assert!(!verdict.blames_noise());
}

#[test]
fn slow_receiving_stacks_are_reported() {
    let mut run = Run::new();
    run.packets([0, 1], 1000, Span::from_us(10));
    (0..1000).for_each(|_| run.meter.measured.after_call.record(Span::from_us(250)));
    run.second(|_| {});
    let verdict = run.verdict();
    assert_eq!(verdict.state, State::Faithful);
    assert!(verdict.reasons[0].starts_with("hosts received packets slowly"));
}

#[test]
fn without_a_packet_there_is_nothing_to_judge() {
    let mut run = Run::new();
    run.second(|_| {});
    let verdict = run.verdict();
    assert_eq!(verdict.state, State::Faithful);
    assert_eq!(
        verdict.reasons,
        ["no packet was due, so there was nothing to judge"]
    );
    assert_eq!((verdict.holds, verdict.worst_pair), (None, None));
}

#[test]
fn figures_are_rounded_up() {
    let cases = [
        (0.0, "0"),
        (0.00601, "0.01"),
        (0.5201, "0.53"),
        (0.52, "0.52"),
        (1.0, "1.0"),
        (9.91, "10.0"),
        (42.0, "42"),
        (99.1, "100"),
    ];
    for (number, text) in cases {
        assert_eq!(at_most(number), text, "{number}");
    }
}
