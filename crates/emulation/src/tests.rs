//! Windows change nothing, and neither does anything else that is not the experiment.

mod changes;
mod cores;
mod early_release;

use std::sync::Arc;
use std::time::Duration;

use longhaul_core::engine::{EngineConfig, MODELLED_SLOT};
use longhaul_core::observe::Counters;
use longhaul_core::parallel::Split;
use longhaul_core::{Span, Time};
use longhaul_plan::plan::Plan;
use proptest::prelude::*;

use crate::{Clocks, Emulation, Outcome, Stop, VirtualConfig, VirtualRun, Watch};

/// Clocks that never advance.
const STOPPED: Clocks<'static> = Clocks {
    now: &|| Duration::ZERO,
    cpu_time: &|| Duration::ZERO,
};

/// Everything that a run has come to.
#[derive(Debug, PartialEq)]
struct Result {
    stop: Stop,
    end: Time,
    counters: Counters,
    trace: u64,
    flows: Vec<String>,
}

fn simulate(text: &str, windows: bool) -> Result {
    let plan = Plan::from_text(text, "f.yaml").unwrap_or_else(|e| panic!("{e}\n{text}"));
    let split = Split::whole(plan.topology.clone());
    let config = VirtualConfig {
        windows,
        ..VirtualConfig::of(&plan)
    };
    run(&plan, split, config)
}

/// Runs a plan on the cores of a split network.
fn run(plan: &Plan, split: Split, config: VirtualConfig) -> Result {
    let mut run = VirtualRun::new(plan, Arc::new(split), config).unwrap();
    let mut horizon = Time::ZERO;
    let stop = loop {
        let watch = Watch {
            pauses: &mut || true,
            clocks: STOPPED,
        };
        match run.run(horizon, watch) {
            Outcome::More => {}
            Outcome::Reached => horizon += Span::from_ms(700),
            Outcome::Over(stop) => break stop,
        }
    };
    let (counters, inside) = (run.counters(), run.inside());
    let out = counters.delivered + counters.dropped.total() + inside;
    assert_eq!(counters.entered + counters.created, out, "{counters:?}");
    assert_eq!(counters.pool_exhausted, 0);
    Result {
        stop,
        end: run.now(),
        counters,
        trace: run.trace_hash(),
        flows: run.flows().map(|flow| format!("{flow:?}")).collect(),
    }
}

const ACCESS: &str = "delay: 300 us, rate: 50 Mbit/s";

/// Two pairs of hosts beside each other, with links and traffic as given.
fn experiment(access: &str, middle: &str, traffic: &str, events: &str) -> String {
    format!(
        "clock: virtual
duration: 4 s
topology:
  nodes: {{ a: {{ count: 2 }}, b: {{ count: 2 }}, g: {{ kind: router }}, h: {{ kind: router }} }}
  links:
    - {{ ends: [a, g], {access} }}
    - {{ ends: [g, h], {middle} }}
    - {{ ends: [h, b], {access} }}
traffic:
{traffic}events:
{events}"
    )
}

/// Packets of a virtual run are headers alone; nothing else depends on the clock.
#[test]
fn an_engine_is_built_as_the_plan_says() {
    let text = "seed: 7\ntopology: { nodes: { a: { count: 2 } }, links: [{ ends: [a0, a1] }] }\n";
    let plan = |text: &str| Plan::from_text(text, "f.yaml").unwrap_or_else(|e| panic!("{e}"));
    let real = plan(text);
    let traffic = "clock: virtual\ntraffic: { x: { from: a0, to: a1, bytes: 1 kB } }\n";
    let simulated = plan(&format!("{text}{traffic}"));
    let config = EngineConfig {
        seed: 7,
        slot_size: 1536,
        slots: 4096,
        ..EngineConfig::default()
    };
    assert_eq!(Emulation::engine_config(&real), config);
    let config = EngineConfig {
        slot_size: MODELLED_SLOT,
        ..config
    };
    assert_eq!(Emulation::engine_config(&simulated), config);
}

#[test]
fn a_run_ends_when_its_traffic_has_ended() {
    let traffic = "  x: { from: a0, to: b0, bytes: 100 kB, start: 200 ms }
  y: { from: a1, to: b1, model: udp, rate: 1 Mbit/s }
";
    let text = experiment(ACCESS, "delay: 10 ms", traffic, "");
    let result = simulate(&text, true);
    assert_eq!(result.stop, Stop::Done);
    assert!(result.end > Time::from_ns(220_000_000) && result.end < Time::from_ns(500_000_000));
    assert_eq!(result.end.as_ns() % super::GRID.as_ns(), 0);
    let endless = text.replace("bytes: 100 kB, ", "");
    assert_eq!(simulate(&endless, true).end, Time::from_ns(4_000_000_000));
}

#[test]
fn what_cannot_end_is_noticed() {
    // Without any delay, both ends answer each other at one point in time.
    let traffic = "  x: { from: a0, to: b0 }\n";
    let text = experiment("queue: 10 packets", "queue: 10 packets", traffic, "");
    assert_eq!(simulate(&text, true).stop, Stop::Stuck);
}

#[test]
fn the_order_of_the_file_changes_nothing() {
    let lines = [
        "  x: { from: a0, to: b0, bytes: 300 kB }\n",
        "  y: { from: a1, to: b1, model: udp, rate: 8 Mbit/s, gaps: poisson, stop: 3 s }\n",
        "  z: { from: b, to: a, request: 1 kB, response: { exponential: 20 kB }, think: { exponential: 50 ms }, requests: 20 }\n",
        "  w: { from: a, pattern: all-to-all, bytes: { pareto: { mean: 20 kB, shape: 1.3 } }, every: { exponential: 300 ms } }\n",
    ];
    let middle = "delay: 5 ms, rate: 10 Mbit/s, loss: 1 %, queue: 20 packets";
    let forward = experiment(ACCESS, middle, &lines.concat(), "");
    let back: Vec<&str> = lines.iter().rev().copied().collect();
    let back = experiment(ACCESS, middle, &back.concat(), "");
    let first = simulate(&forward, true);
    assert_eq!(first, simulate(&forward, true));
    assert_eq!(first, simulate(&back, true));
    assert_ne!(
        first.trace,
        simulate(&forward.replace("clock", "seed: 2\nclock"), true).trace
    );
}

fn one_of(list: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    prop::sample::select(list)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() })]

    /// The engine may go on alone for a window, or stop at each event: the results are the same.
    #[test]
    fn windows_change_nothing(
        access in one_of(&[
            ACCESS,
            "delay: 40 us",
            "delay: 25 ms, rate: 3 Mbit/s, queue: 5 packets",
            "delay: 1 ms, loss: 2 %",
            "delay: 2 ms, rate: 20 Mbit/s, queue: codel",
            "rate: 100 Mbit/s",
        ]),
        middle in one_of(&[
            "delay: 10 ms, rate: 5 Mbit/s, queue: 15 packets",
            "delay: 1 ms, rate: 20 Mbit/s, loss: 1 %",
            "delay: { uniform: [1 ms, 9 ms] }, rate: 8 Mbit/s, queue: { red: { limit: 40 packets } }",
        ]),
        entries in prop::collection::vec(one_of(&[
            "{ from: a, to: b, bytes: 150 kB, congestion: reno }",
            "{ from: b0, to: a, bytes: { exponential: 30 kB }, start: { uniform: [0 s, 1 s] }, flows: 3, congestion: bbr }",
            "{ from: a0, to: b1, model: udp, rate: 2 Mbit/s, packet: 400 B }",
            "{ from: b1, to: a1, model: udp, rate: 2 Mbit/s, on: { exponential: 30 ms }, off: 20 ms, ip: 6 }",
            "{ from: a, to: b, request: 400 B, response: 9 kB, think: { exponential: 10 ms }, requests: 12, connection: new }",
            "{ from: a, pattern: permutation, bytes: 90 kB, ip: 6, tcp: { sack: false, delack_min: 0 s } }",
        ]), 1..4),
        events in one_of(&[
            "",
            "  - { at: 350 ms, link: g-h, set: { delay: 1 ms } }\n  - { at: 500 ms, link: a-g, set: { delay: 7 us } }\n",
            "  - { at: 300 ms, link: g-h, down: 200 ms }\n  - { at: 1 s, link: h-b, down: 50 ms }\n",
        ]),
        seed in 1u64..1000,
    ) {
        let entries = entries.iter().enumerate();
        let traffic: String = entries.map(|(n, entry)| format!("  t{n}: {entry}\n")).collect();
        let text = format!("seed: {seed}\n{}", experiment(access, middle, &traffic, events));
        prop_assert_eq!(simulate(&text, true), simulate(&text, false), "{}", text);
    }
}
