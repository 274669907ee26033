//! Schedules: order, repetition, ramps, and failures that overlap, against naive models.

use std::collections::BTreeMap;
use std::sync::Arc;

use longhaul_core::params::PipeParams;
use longhaul_core::topology::{Link, Node, NodeKind, PipeId, Topology};
use longhaul_core::trace::{Sample, Series, Trace};
use longhaul_core::units::Rate;
use longhaul_core::{Span, Time};
use longhaul_plan::patch::Patch;
use longhaul_plan::schedule::{Action, Change, Event, Ramp, Schedule, Step, Timeline};
use proptest::prelude::*;

const CONVERGENCE: Span = Span::from_ms(7);

fn ms(ms: u64) -> Time {
    Time::ZERO + Span::from_ms(ms)
}

fn event(at: u64, repeat: Option<(u64, Option<u64>)>, action: Action) -> Event {
    Event {
        at: ms(at),
        every: repeat.map(|(every, _)| Span::from_ms(every)),
        times: repeat.and_then(|(_, times)| times),
        action,
        text: String::new(),
    }
}

fn delay(ms: u64) -> Arc<Patch> {
    Arc::new(Patch {
        delay: Some((Span::from_ms(ms), None)),
        ..Patch::default()
    })
}

fn timeline(events: Vec<Event>) -> Timeline {
    Timeline::new(Arc::new(Schedule {
        events,
        convergence: CONVERGENCE,
    }))
}

/// All steps up to `until`, with the parameters that they lead to.
fn run(events: Vec<Event>, until: Time) -> (Vec<Step>, BTreeMap<PipeId, PipeParams>) {
    let mut timeline = timeline(events);
    let mut params: BTreeMap<PipeId, PipeParams> = BTreeMap::new();
    let mut steps = Vec::new();
    loop {
        let next = timeline.next_at();
        let present = |pipe: PipeId| params.get(&pipe).cloned().unwrap_or_default();
        let Some(step) = timeline.pop(until, present) else {
            assert!(
                next.is_none_or(|at| at > until),
                "a step that is due is taken"
            );
            return (steps, params);
        };
        assert_eq!(next, Some(step.at));
        for change in &step.changes {
            if let Change::Params(pipe, patch) = change {
                let now = params.get(pipe).cloned().unwrap_or_default();
                params.insert(*pipe, patch.apply(&now));
            }
        }
        steps.push(step);
    }
}

#[test]
fn a_failure_ends_and_routes_follow_both_times() {
    let down = Action::Down {
        pipes: vec![PipeId(1), PipeId(2)],
        lasts: Some(Span::from_ms(20)),
        keep_queue: true,
    };
    let (steps, _) = run(vec![event(10, None, down)], Time::MAX);
    let change = |pipe, up, keep_queue| Change::Up {
        pipe: PipeId(pipe),
        up,
        keep_queue,
    };
    let step = |at, begins, changes| Step {
        at: ms(at),
        begins,
        changes,
    };
    assert_eq!(
        steps,
        [
            step(
                10,
                Some(0),
                vec![change(1, false, true), change(2, false, true)]
            ),
            step(17, None, vec![Change::Reroute]),
            step(
                30,
                None,
                vec![change(1, true, false), change(2, true, false)]
            ),
            step(37, None, vec![Change::Reroute]),
        ]
    );
}

#[test]
fn at_one_time_the_order_is_that_of_the_file_and_routes_come_last() {
    let up = || Action::Up {
        pipes: vec![PipeId(0)],
    };
    let down = || Action::Down {
        pipes: vec![PipeId(0)],
        lasts: None,
        keep_queue: false,
    };
    let set = |n| Action::Set {
        pipes: vec![PipeId(0)],
        patch: delay(n),
    };
    let events = vec![
        event(0, None, down()),
        event(7, None, set(1)),
        event(7, None, up()),
        event(7, None, set(2)),
    ];
    let (steps, params) = run(events, Time::MAX);
    let order: Vec<_> = steps.iter().map(|step| (step.at, step.begins)).collect();
    let expected = [
        (0, Some(0)),
        (7, Some(1)),
        (7, Some(2)),
        (7, Some(3)),
        (7, None),
        (14, None),
    ];
    assert_eq!(order, expected.map(|(at, begins)| (ms(at), begins)));
    assert_eq!(params[&PipeId(0)].delay, Span::from_ms(2));
}

#[test]
fn a_ramp_begins_where_the_pipe_is() {
    let set = Action::Set {
        pipes: vec![PipeId(0)],
        patch: delay(10),
    };
    let ramp = Action::Ramp {
        pipes: vec![PipeId(0), PipeId(1)],
        ramp: Ramp {
            to: delay(20),
            over: Span::from_ms(10),
            step: Span::from_ms(4),
        },
    };
    let (steps, _) = run(vec![event(5, None, set), event(5, None, ramp)], Time::MAX);
    let delays: Vec<(u64, u64, u64)> = steps
        .iter()
        .filter_map(|step| match &step.changes[..] {
            [Change::Params(_, first), Change::Params(_, second)] => {
                let us = |patch: &Patch| patch.delay.as_ref().unwrap().0.as_ns() / 1000;
                Some((step.at.as_ns() / 1_000_000, us(first), us(second)))
            }
            _ => None,
        })
        .collect();
    // From 10 ms, and from nothing, to 20 ms within 10 ms, in steps of 4 ms.
    assert_eq!(
        delays,
        [
            (9, 14_000, 8000),
            (13, 18_000, 16_000),
            (15, 20_000, 20_000)
        ]
    );
}

#[test]
fn a_ramp_of_a_rate_is_exact_at_its_end() {
    let ramp = Action::Ramp {
        pipes: vec![PipeId(0)],
        ramp: Ramp {
            to: Arc::new(Patch {
                rate: Some(Rate::from_bits_per_s(10_000_000)),
                ..Patch::default()
            }),
            over: Span::from_s(5),
            step: Span::from_ms(10),
        },
    };
    let mut timeline = timeline(vec![event(0, None, ramp)]);
    let start = PipeParams {
        rate: Rate::from_bits_per_s(999_999_937),
        ..PipeParams::default()
    };
    let mut rates = Vec::new();
    while let Some(step) = timeline.pop(Time::MAX, |_| start.clone()) {
        for change in step.changes {
            let Change::Params(_, patch) = change else {
                panic!()
            };
            rates.push(patch.rate.unwrap().unwrap().bits_per_s());
        }
    }
    assert_eq!((rates.len(), rates.last()), (500, Some(&10_000_000)));
    assert!(rates.is_sorted_by(|a, b| a > b), "steadily down");
}

#[test]
fn hands_and_schedule_count_together() {
    let down = Action::Down {
        pipes: vec![PipeId(0)],
        lasts: Some(Span::from_ms(10)),
        keep_queue: false,
    };
    let mut timeline = timeline(vec![event(10, None, down)]);
    let present = |_: PipeId| PipeParams::default();
    assert!(timeline.switch(PipeId(0), false, ms(1)) && !timeline.is_up(PipeId(0)));
    let taken = |step: Option<Step>| step.map(|step| (step.at, step.changes.len()));
    assert_eq!(
        taken(timeline.pop(ms(30), present)),
        Some((ms(8), 1)),
        "routes follow"
    );
    assert_eq!(
        taken(timeline.pop(ms(30), present)),
        Some((ms(10), 0)),
        "it is down already"
    );
    assert!(
        !timeline.switch(PipeId(0), true, ms(12)),
        "the schedule holds it down"
    );
    assert_eq!(
        taken(timeline.pop(ms(30), present)),
        Some((ms(20), 1)),
        "now it is up"
    );
    assert!(timeline.is_up(PipeId(0)));
    assert!(!timeline.switch(PipeId(0), true, ms(21)), "up is up");
    assert!(
        timeline.switch(PipeId(0), false, ms(22)),
        "one failure is enough again"
    );
}

#[test]
fn endless_repetition_takes_no_memory_and_ends_with_time() {
    let set = Action::Set {
        pipes: vec![PipeId(0)],
        patch: delay(1),
    };
    let mut event = event(0, Some((1, None)), set);
    event.every = Some(Span::from_ns(u64::MAX / 3));
    let (steps, _) = run(vec![event], Time::MAX);
    let times: Vec<u64> = steps.iter().map(|step| step.at.as_ns()).collect();
    let third = u64::MAX / 3;
    assert_eq!(times, [0, third, 2 * third, 3 * third]);
}

/// An event as a person might draw it on paper.
#[derive(Debug, Clone)]
struct Drawn {
    at: u64,
    pipe: u32,
    /// The failure's length; `None` sets a delay instead.
    lasts: Option<u64>,
    every: u64,
    times: u64,
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let lasts = prop::option::of(1u64..20);
    (0u64..50, 0u32..3, lasts, 1u64..20, 1u64..5).prop_map(|(at, pipe, lasts, more, times)| Drawn {
        at,
        pipe,
        lasts,
        every: lasts.unwrap_or(0) + more,
        times,
    })
}

fn lowered(drawn: &Drawn, repeats: bool, at: u64) -> Event {
    let pipes = vec![PipeId(drawn.pipe)];
    let action = match drawn.lasts {
        Some(lasts) => Action::Down {
            pipes,
            lasts: Some(Span::from_ms(lasts)),
            keep_queue: false,
        },
        None => Action::Set {
            pipes,
            patch: delay(at),
        },
    };
    event(
        at,
        repeats.then_some((drawn.every, Some(drawn.times))),
        action,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Steps come in order of time, each taken once, whatever the stride.
    #[test]
    fn steps_are_ordered_whatever_the_stride(list in prop::collection::vec(drawn(), 0..6), stride in 1u64..40) {
        let events = |list: &[Drawn]| list.iter().map(|d| lowered(d, true, d.at)).collect::<Vec<_>>();
        let (whole, _) = run(events(&list), Time::MAX);
        prop_assert!(whole.is_sorted_by_key(|step| step.at));
        let mut timeline = timeline(events(&list));
        let mut parts = Vec::new();
        for part in 1.. {
            while let Some(step) = timeline.pop(ms(part * stride), |_| PipeParams::default()) {
                prop_assert!(step.at <= ms(part * stride));
                parts.push(step);
            }
            if timeline.next_at().is_none() {
                break;
            }
        }
        prop_assert_eq!(parts, whole);
    }

    /// An event that repeats is as many events that do not. A pipe is down while any failure
    /// lasts; its state changes only where the sum of failures becomes or ceases to be zero.
    #[test]
    fn repetition_and_overlap_equal_the_naive_expansion(list in prop::collection::vec(drawn(), 0..6)) {
        let lazy: Vec<Event> = list.iter().map(|d| lowered(d, true, d.at)).collect();
        let (steps, _) = run(lazy, Time::MAX);
        // The naive model: every failure of every pipe as an interval.
        for pipe in 0..3 {
            let failures: Vec<(u64, u64)> = list
                .iter()
                .filter(|d| d.pipe == pipe)
                .filter_map(|d| Some((d, d.lasts?)))
                .flat_map(|(d, lasts)| (0..d.times).map(move |n| (d.at + n * d.every, lasts)))
                .map(|(at, lasts)| (at, at + lasts))
                .collect();
            let is_down = |t: u64| failures.iter().any(|(from, to)| (*from..*to).contains(&t));
            let mut up = true;
            let mut left = steps.iter().peekable();
            for t in 0..400 {
                while let Some(step) = left.next_if(|step| step.at <= ms(t)) {
                    for change in &step.changes {
                        if let Change::Up { pipe: PipeId(p), up: now, .. } = change
                            && *p == pipe
                        {
                            prop_assert_ne!(up, *now, "only changes are reported");
                            up = *now;
                        }
                    }
                }
                prop_assert_eq!(up, !is_down(t), "pipe {} at {} ms: {:?}", pipe, t, failures);
            }
        }
        // What is set, is set as often as naively, at the same times.
        let mut naive: Vec<u64> = list
            .iter()
            .filter(|d| d.lasts.is_none())
            .flat_map(|d| (0..d.times).map(|n| d.at + n * d.every))
            .collect();
        naive.sort_unstable();
        let sets = steps.iter().filter(|step| matches!(step.changes[..], [Change::Params(..)]));
        let sets: Vec<u64> = sets.map(|step| step.at.as_ns() / 1_000_000).collect();
        prop_assert_eq!(sets, naive);
        // Routes follow each change, one time of convergence later.
        let moments = |steps: &[Step], f: &dyn Fn(&Change) -> bool| {
            let mut at: Vec<Time> = steps.iter().filter(|s| s.changes.iter().any(f)).map(|s| s.at).collect();
            at.dedup();
            at
        };
        let changes = moments(&steps, &|c| matches!(c, Change::Up { .. }));
        let followed: Vec<Time> = changes.into_iter().map(|at| at + CONVERGENCE).collect();
        prop_assert_eq!(moments(&steps, &|c| *c == Change::Reroute), followed);
    }

    /// Two timelines of one schedule take the same steps.
    #[test]
    fn timelines_agree(list in prop::collection::vec(drawn(), 0..6)) {
        let events: Vec<Event> = list.iter().map(|d| lowered(d, true, d.at)).collect();
        prop_assert_eq!(run(events.clone(), Time::MAX).0, run(events, Time::MAX).0);
    }
}

/// A change of delay or of trace, each in ms; 0 ms of a trace is none.
fn change(kind: u8, value: u64) -> Arc<Patch> {
    let sample = Sample {
        at: Span::ZERO,
        delay: (!value.is_multiple_of(5)).then(|| Span::from_ms(value)),
        rate: None,
        loss: None,
    };
    let trace = Trace {
        series: Series::Samples {
            samples: vec![sample],
            interpolate: false,
        },
        offset: Span::ZERO,
        period: None,
    };
    match kind {
        0 => delay(value),
        _ => Arc::new(Patch {
            trace: Some((value > 0).then(|| Arc::new(trace))),
            ..Patch::default()
        }),
    }
}

proptest! {
    /// Whatever repeats in whatever order, no pipe's delay falls below the bound given before.
    #[test]
    fn no_delay_is_less_than_the_bound_given_before(
        events in prop::collection::vec((0..50_u64, 3..40_u64, 0..2_u8, 0..20_u64), 1..8),
        [delay, traced] in [1..20_u64, 0..20],
    ) {
        let host = |name: &str, number| Node {
            name: name.to_owned(),
            kind: NodeKind::Host,
            ipv4: std::net::Ipv4Addr::from_bits(number),
            ipv6: std::net::Ipv6Addr::from_bits(number.into()),
        };
        let own = change(0, delay).apply(&PipeParams::default());
        let own = change(1, traced).apply(&own);
        let link = Link::new("a", "b", own.clone());
        let topology = Topology::new(vec![host("a", 1), host("b", 2)], vec![link]).unwrap();
        let pipe = PipeId(0);
        let event = |&(at, every, kind, value): &(u64, u64, u8, u64)| {
            let (pipes, patch) = (vec![pipe], change(kind, value));
            event(at, Some((every, None)), Action::Set { pipes, patch })
        };
        let events: Vec<Event> = events.iter().map(event).collect();
        let schedule = Schedule { events, convergence: CONVERGENCE };
        let bound = schedule.least_delays(&topology)[pipe.index()];
        let mut timeline = Timeline::new(Arc::new(schedule));
        let mut params = own;
        while let Some(step) = timeline.pop(ms(2000), |_| params.clone()) {
            for change in &step.changes {
                if let Change::Params(_, patch) = change {
                    params = patch.apply(&params);
                }
            }
            prop_assert!(params.least_delay() >= bound, "{params:?}, {bound:?}");
        }
    }
}
