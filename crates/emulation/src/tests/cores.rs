//! The number of cores and the split change nothing, on threads of their own.

use std::sync::Arc;

use longhaul_core::parallel::{CoreId, Split};
use longhaul_core::topology::PipeId;
use longhaul_core::{NodeId, Span};
use longhaul_plan::plan::Plan;
use proptest::prelude::*;

use super::{one_of, run};
use crate::VirtualConfig;

/// A split of a plan's network, in which no pipe is cut that may take no time.
fn split(plan: &Plan, cores: usize, pick: u64) -> Split {
    let topology = &plan.topology;
    let least = plan.schedule.least_delays(topology);
    let mut group: Vec<usize> = (0..topology.nodes().len()).collect();
    for (pipe, least) in (0..topology.pipes().len() as u32).map(PipeId).zip(least) {
        if least == Span::ZERO {
            let [from, to] = [topology.pipe(pipe).from, topology.pipe(pipe).to];
            let (from, to) = (group[from.index()], group[to.index()]);
            group
                .iter_mut()
                .filter(|g| **g == to)
                .for_each(|g| *g = from);
        }
    }
    let owner = |group: &usize| {
        let mixed = (*group as u64 + 1).wrapping_mul(pick | 1) >> 24;
        CoreId((mixed % cores as u64) as u16)
    };
    let owners = group.iter().map(owner).collect();
    Split::new(Arc::clone(topology), owners, cores)
}

/// Three sites on a ring of routers, a lan at one of them, and a bundle of links between two.
fn experiment(access: &str, middle: &str, bundle: &str, traffic: &str, events: &str) -> String {
    format!(
        "clock: virtual
duration: 500 ms
routing: {{ convergence: 20 ms }}
topology:
  nodes:
    a: {{ count: 3 }}
    b: {{ count: 2 }}
    c: {{ count: 2 }}
    l: {{ kind: lan }}
    x: {{ kind: router }}
    y: {{ kind: router }}
    z: {{ kind: router }}
  links:
    - {{ ends: [a, l], {access} }}
    - {{ ends: [l, x], delay: 20 us }}
    - {{ ends: [b, y], {access} }}
    - {{ ends: [c, z], {access} }}
    - {{ ends: [x, y], {middle}, {bundle} }}
    - {{ ends: [x, y], {middle}, {bundle} }}
    - {{ ends: [y, z], {middle} }}
    - {{ ends: [z, x], {middle}, mtu: 1300 }}
traffic:
{traffic}events:
{events}"
    )
}

const ACCESS: &[&str] = &[
    "delay: 300 us, rate: 50 Mbit/s",
    "delay: 1 ms",
    "rate: 20 Mbit/s",
    "delay: 200 us, rate: 30 Mbit/s, loss: 0.5 %, queue: 30 packets",
];
const MIDDLE: &[&str] = &[
    "delay: 3 ms, rate: 20 Mbit/s, queue: 25 packets",
    "delay: { uniform: [2 ms, 5 ms] }, rate: 15 Mbit/s",
    "delay: 2 ms, rate: 10 Mbit/s, queue: codel",
    "delay: 4 ms, rate: 12 Mbit/s, loss: 1 %, duplicate: 1 %, corrupt: 0.5 %",
];
const BUNDLE: &[&str] = &["balance: flow", "balance: round_robin", "mtu: 1500"];
const TRAFFIC: &[&str] = &[
    "  p: { from: a, pattern: all-to-all, bytes: 40 kB, every: { exponential: 90 ms } }\n",
    "  q: { from: b, to: c, model: udp, rate: 6 Mbit/s, gaps: poisson }\n",
    "  r: { from: c0, to: a1, bytes: 400 kB, congestion: bbr }\n",
    "  s: { from: a2, to: b1, request: 2 kB, response: { exponential: 20 kB }, think: { exponential: 10 ms }, requests: 12, connection: new }\n",
    "  t: { from: b0, to: a0 }\n",
];
const EVENTS: &[&str] = &[
    "",
    "  - { at: 100 ms, link: z-x, down: 150 ms }\n  - { at: 400 ms, link: y-z, set: { delay: 1 ms } }\n",
    "  - { at: 50 ms, link: y-z, ramp: { rate: 3 Mbit/s }, over: 300 ms }\n",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..Default::default() })]

    #[test]
    fn cores_change_nothing(
        access in one_of(ACCESS),
        middle in one_of(MIDDLE),
        bundle in one_of(BUNDLE),
        flows in prop::collection::vec(any::<bool>(), TRAFFIC.len()),
        events in one_of(EVENTS),
        picks in any::<[u64; 3]>(),
        windows in any::<bool>(),
    ) {
        let chosen = TRAFFIC.iter().zip(&flows).filter(|(_, chosen)| **chosen);
        let mut traffic: String = chosen.map(|(flow, _)| *flow).collect();
        if traffic.is_empty() {
            traffic = TRAFFIC.concat();
        }
        let text = experiment(access, middle, bundle, &traffic, events);
        let plan = Plan::from_text(&text, "f.yaml").unwrap_or_else(|e| panic!("{e}\n{text}"));
        let whole = || Split::whole(Arc::clone(&plan.topology));
        let one = run(&plan, whole(), VirtualConfig::of(&plan));
        prop_assert!(one.counters.delivered > 0);
        for (cores, pick) in [2, 3, 4, 8].into_iter().zip(picks.into_iter().cycle()) {
            let config = VirtualConfig { windows, ..VirtualConfig::of(&plan) };
            let many = run(&plan, split(&plan, cores, pick), config);
            prop_assert_eq!(&one, &many, "{} cores\n{}", cores, text);
        }
    }
}

/// The splits above are of use only if work is spread and packets cross.
#[test]
fn work_is_spread_and_packets_cross() {
    let traffic = TRAFFIC.concat();
    let text = experiment(ACCESS[0], MIDDLE[0], BUNDLE[0], &traffic, EVENTS[0]);
    let plan = Plan::from_text(&text, "f.yaml").unwrap_or_else(|e| panic!("{e}\n{text}"));
    let split = split(&plan, 3, 0x9e37_79b9_7f4a_7c15);
    let used =
        |core| (0..plan.topology.nodes().len() as u32).any(|n| split.owner(NodeId(n)) == core);
    assert!((0..3).map(CoreId).all(used));
    let mut run = crate::VirtualRun::new(&plan, Arc::new(split), VirtualConfig::of(&plan)).unwrap();
    let watch = crate::Watch {
        pauses: &mut || false,
        clocks: super::STOPPED,
    };
    let outcome = run.run(longhaul_core::Time::MAX, watch);
    assert_eq!(outcome, crate::Outcome::Over(crate::Stop::Duration));
    for emulation in run.emulations() {
        let counters = emulation.engine().counters();
        assert!(
            counters.imported > 100 && counters.exported > 100,
            "{counters:?}"
        );
    }
}
