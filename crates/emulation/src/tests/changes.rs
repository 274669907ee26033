//! Reports of changes describe the network whole: a listener derives nothing.

use longhaul_core::units::Rate;
use longhaul_core::{PipeId, Span, Time};
use longhaul_plan::patch::Patch;
use longhaul_plan::plan::Plan;
use proptest::prelude::*;

use crate::{Emulation, Known};

fn plan(events: &str) -> Plan {
    let events = match events {
        "" => String::new(),
        events => format!("events:\n{events}"),
    };
    let text = format!(
        "topology:
  nodes: {{ a: {{}}, b: {{}}, g: {{ kind: router }}, h: {{ kind: router }} }}
  links:
    - {{ ends: [a, g], rate: 10 Mbit/s, delay: 1 ms }}
    - {{ ends: [g, h], delay: 5 ms }}
    - {{ ends: [h, b], rate: 10 Mbit/s }}
routing: {{ convergence: 100 ms }}
{events}"
    );
    Plan::from_text(&text, "f.yaml").unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn emulation(plan: &Plan) -> Emulation {
    Emulation::new(plan, Emulation::engine_config(plan)).unwrap()
}

/// A step of a test: time passes, a caller changes something, or a listener takes reports.
#[derive(Debug, Clone)]
enum Step {
    /// Time passes.
    Pass(u64),
    Set(u32, u64),
    Switch(u32, bool),
    /// A listener takes the reports.
    Take,
    /// A listener is too busy to take them, and they are kept.
    Keep,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1u64..400).prop_map(Step::Pass),
        (0u32..6, 1u64..50).prop_map(|(pipe, mbit)| Step::Set(pipe, mbit)),
        (0u32..6, any::<bool>()).prop_map(|(pipe, up)| Step::Switch(pipe, up)),
        Just(Step::Take),
        Just(Step::Keep),
    ]
}

const EVENTS: &[&str] = &[
    "  - { at: 200 ms, link: g-h, set: { delay: 9 ms } }\n",
    "  - { at: 300 ms, link: a-g, down: 150 ms }\n",
    "  - { at: 100 ms, link: a-g, set: { rate: 2 Mbit/s }, every: 250 ms, times: 4 }\n",
    "  - { at: 400 ms, router: h, down: true }\n",
    "  - { at: 900 ms, router: h, up: true }\n",
    "  - { at: 500 ms, link: h-b, ramp: { delay: 20 ms }, over: 300 ms }\n",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..Default::default() })]

    #[test]
    fn reports_describe_the_network(
        events in prop::sample::subsequence(EVENTS, 0..=EVENTS.len()),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let plan = plan(&events.concat());
        let mut emulation = emulation(&plan);
        emulation.report_network_changes();
        let (mut known, mut begun) = (Known::default(), 0);
        let pipes = (0..plan.topology.pipes().len() as u32).map(PipeId);
        for step in steps.into_iter().chain([Step::Take]) {
            match step {
                Step::Pass(ms) => {
                    let now = emulation.now() + Span::from_ms(ms);
                    while let Some(at) = emulation.next_step().filter(|at| *at <= now) {
                        emulation.take_steps(at);
                    }
                    emulation.advance(now);
                }
                Step::Set(pipe, mbit) => {
                    let rate = Some(Rate::from_bits_per_s(mbit * 1_000_000));
                    emulation.set(PipeId(pipe), &Patch { rate, ..Patch::default() });
                }
                Step::Switch(pipe, up) => {
                    emulation.switch(&[PipeId(pipe)], up, false);
                }
                Step::Take | Step::Keep => {
                    let Some(applied) = emulation.take_applied() else { continue };
                    prop_assert!(applied.params.len() <= 6 && applied.up.len() <= 6);
                    if matches!(step, Step::Keep) {
                        emulation.restore_applied(applied);
                        continue;
                    }
                    begun += applied.begun.len();
                    known.take(applied);
                    for pipe in pipes.clone() {
                        let state = emulation.pipe_state(pipe);
                        prop_assert_eq!(known.is_up(pipe), state.up);
                        prop_assert_eq!(emulation.engine().is_up(pipe), state.up);
                        prop_assert_eq!(known.params(&plan.topology, pipe), &state.params);
                    }
                }
            }
        }
        let due = |at: Time| at <= emulation.now();
        let first = plan.schedule.events.iter().filter(|event| due(event.at)).count();
        prop_assert!(begun >= first, "{} of {}", begun, first);
    }
}

#[test]
fn routes_that_follow_are_reported() {
    let plan = plan("  - { at: 1 s, link: g-h, down: 500 ms }\n");
    let mut emulation = emulation(&plan);
    emulation.report_network_changes();
    let mut known = Known::default();
    // The failure, and routes 100 ms later; the same of the repair.
    for (ms, up, rerouted) in [
        (1000, 4, None),
        (1100, 4, Some(1100)),
        (1500, 6, Some(1100)),
        (1600, 6, Some(1600)),
    ] {
        let at = Time::ZERO + Span::from_ms(ms);
        assert_eq!(emulation.next_step(), Some(at));
        emulation.take_steps(at);
        known.take(emulation.take_applied().expect("something has changed"));
        let rerouted = rerouted.map(|ms| Time::ZERO + Span::from_ms(ms));
        assert_eq!(known.rerouted(), rerouted, "at {ms} ms");
        let pipes = (0..6).map(PipeId);
        assert_eq!(
            pipes.filter(|pipe| known.is_up(*pipe)).count(),
            up,
            "at {ms} ms"
        );
    }
    assert_eq!(emulation.next_step(), None);
}

/// In virtual time there is no listener, and no reports are kept.
#[test]
fn without_asking_only_events_are_reported() {
    let plan = plan(
        "  - { at: 1 s, link: g-h, down: 500 ms }\n  - { at: 1 s, link: a-g, set: { delay: 2 ms } }\n",
    );
    let mut emulation = emulation(&plan);
    emulation.take_steps(Time::ZERO + Span::from_s(2));
    emulation.switch(&[PipeId(0)], false, false);
    let applied = emulation.take_applied().expect("events began");
    assert_eq!(applied.begun.len(), 2);
    assert!(applied.params.is_empty() && applied.up.is_empty() && applied.rerouted.is_none());
}
