//! The engine against the reference model, on random networks with random traffic.
//!
//! Every delivery is compared: which packet, where, when to the nanosecond, in which order; and
//! every drop by cause. Times are drawn from few values, so that ties are common.

mod common;

use common::reference::Reference;
use common::{Delivery, assert_balanced, drain, frame, node};
use longhaul_core::params::LossModel;
use longhaul_core::router::Silent;
use longhaul_core::topology::{Link, Node, NodeKind, PipeParams};
use longhaul_core::units::{Framing, Probability, QueueLimit, Rate};
use longhaul_core::{Engine, EngineConfig, NodeId, PipeId, Span, Time, Topology};
use proptest::prelude::*;

/// Time passes in units of this many ns, so that things coincide.
const TICK: u64 = 400;

#[derive(Debug, Clone)]
enum Action {
    Send {
        from: usize,
        to: usize,
        ip_len: u16,
        ttl: u8,
        burst: usize,
    },
    Set {
        pipe: usize,
        params: PipeParams,
    },
}

#[derive(Debug, Clone)]
struct Case {
    routers: usize,
    hosts: usize,
    extra: Vec<(usize, usize)>,
    params: Vec<(PipeParams, u32)>,
    seed: u64,
    /// Ticks until the action, and the action.
    actions: Vec<(u64, Action)>,
}

fn params() -> impl Strategy<Value = PipeParams> {
    let rate = prop_oneof![
        2 => Just(None),
        3 => Just(Rate::from_bits_per_s(10_000_000_000)),
        2 => (1_000_000u64..20_000_000_000).prop_map(Rate::from_bits_per_s),
        1 => Just(Rate::from_bits_per_s(7_000_000_000_000)),
    ];
    let delay = prop_oneof![
        2 => Just(Span::ZERO),
        3 => (0u64..6).prop_map(|ticks| Span::from_ns(ticks * TICK)),
        2 => (0u64..100_000).prop_map(Span::from_ns),
    ];
    let loss = prop_oneof![
        3 => Just(Probability::NEVER),
        1 => (0u64..100).prop_map(|n| Probability::from_ratio(n, 100).unwrap()),
    ];
    let queue = prop_oneof![
        2 => Just(QueueLimit::default()),
        2 => (0u32..6).prop_map(QueueLimit::Packets),
        2 => (0u64..6000).prop_map(QueueLimit::Bytes),
    ];
    let framing = prop_oneof![
        Just(Framing::Ethernet),
        Just(Framing::Ip),
        Just(Framing::Wire)
    ];
    (rate, delay, loss, queue, framing).prop_map(|(rate, delay, loss, queue, framing)| PipeParams {
        rate,
        delay,
        loss: LossModel::Independent(loss),
        queue,
        framing,
        ..PipeParams::default()
    })
}

fn action(set: bool) -> BoxedStrategy<Action> {
    let ip_len = prop_oneof![Just(1500u16), Just(482), 20u16..1500];
    let ttl = prop_oneof![4 => Just(64u8), 1 => 1u8..6];
    let send = (0..64usize, 0..72usize, ip_len, ttl, 1..8usize).prop_map(
        |(from, to, ip_len, ttl, burst)| Action::Send {
            from,
            to,
            ip_len,
            ttl,
            burst,
        },
    );
    if !set {
        return send.boxed();
    }
    let set = (0..64usize, params()).prop_map(|(pipe, params)| Action::Set { pipe, params });
    prop_oneof![4 => send, 1 => set].boxed()
}

fn case(set: bool) -> impl Strategy<Value = Case> {
    let extra = prop::collection::vec((0..8usize, 0..8usize), 0..4);
    let mtu = prop_oneof![6 => Just(1500u32), 1 => 400u32..1500];
    let all = prop::collection::vec((params(), mtu), 48);
    let wait = prop_oneof![2 => Just(0u64), 3 => 0u64..4, 1 => 0u64..200];
    let actions = prop::collection::vec((wait, action(set)), 1..60);
    (1..7usize, 2..6usize, extra, all, any::<u64>(), actions).prop_map(
        |(routers, hosts, extra, params, seed, actions)| Case {
            routers,
            hosts,
            extra,
            params,
            seed,
            actions,
        },
    )
}

/// A random tree of routers with further links, hosts hung on; each way has parameters of its own.
fn build(case: &Case) -> Topology {
    let router = |n: usize| format!("r{}", n % case.routers);
    let mut params = case.params.iter().cycle();
    let mut links: Vec<Link> = Vec::new();
    let mut add = |x: String, y: String| {
        let ((there, mtu), (back, _)) = (params.next().unwrap(), params.next().unwrap());
        let taken = links
            .iter()
            .any(|l| l.ends.contains(&x) && l.ends.contains(&y));
        if x != y && !taken {
            links.push(Link {
                params: [there.clone(), back.clone()],
                mtu: *mtu,
                ..Link::new(&x, &y, there.clone())
            });
        }
    };
    for n in 1..case.routers {
        add(router(n), router(case.seed as usize / n % n));
    }
    case.extra
        .iter()
        .for_each(|&(x, y)| add(router(x), router(y)));
    (0..case.hosts).for_each(|n| add(format!("h{n}"), router(case.seed as usize % 97 + n * n)));
    let names = (0..case.routers)
        .map(router)
        .chain((0..case.hosts).map(|n| format!("h{n}")));
    let nodes: Vec<Node> = names.zip(0..).map(|(name, n)| node(&name, n)).collect();
    Topology::new(nodes, links).unwrap()
}

struct Outcome {
    deliveries: Vec<Delivery>,
    drops: [u64; 7],
}

fn outcome_of(engine: &Engine, deliveries: Vec<Delivery>) -> Outcome {
    let d = engine.counters().dropped;
    let drops = [
        d.queue,
        d.loss,
        d.hop_limit,
        d.no_route,
        d.too_big,
        d.misdelivered,
        d.absorbed,
    ];
    Outcome { deliveries, drops }
}

/// Where a packet of the case goes: a node, or an address that nobody has.
fn target(topology: &Topology, to: usize) -> Option<NodeId> {
    let hosts: Vec<NodeId> = topology.hosts().map(|(id, _)| id).collect();
    let routers = topology
        .nodes()
        .iter()
        .position(|n| n.kind == NodeKind::Router);
    match to {
        70.. => None,
        64.. => routers.map(|n| NodeId(n as u32)),
        _ => Some(hosts[to % hosts.len()]),
    }
}

/// Runs a case on the engine. Between actions it advances in steps of `step` ns (0: not at all),
/// and, with `eager`, up to the very time of each action before the action.
fn run_engine(case: &Case, step: u64, eager: bool) -> Outcome {
    let topology = build(case);
    let config = EngineConfig {
        seed: case.seed,
        slots: 1024,
        ..EngineConfig::default()
    };
    let mut engine = Engine::new(topology.clone(), config, Box::new(Silent));
    let hosts: Vec<NodeId> = topology.hosts().map(|(id, _)| id).collect();
    let mut time = 0;
    let mut deliveries = Vec::new();
    for (ticks, action) in &case.actions {
        let from = time;
        time += ticks * TICK;
        let is_set = matches!(action, Action::Set { .. });
        if step > 0 && time > 0 {
            (from..time).step_by(step as usize).skip(1).for_each(|at| {
                engine.advance(Time::from_ns(at));
                assert_balanced(&engine);
            });
        }
        if eager || is_set {
            engine.advance_before(Time::from_ns(time));
        }
        if eager {
            deliveries.extend(drain(&mut engine));
        }
        match action {
            Action::Set { pipe, params } => {
                engine.set(PipeId((pipe % topology.pipes().len()) as u32), params.clone());
            }
            Action::Send {
                from,
                to,
                ip_len,
                ttl,
                burst,
            } => {
                let host = hosts[from % hosts.len()];
                let nobody = [192, 0, 2, 1].into();
                let to = target(&topology, *to).map_or(nobody, |to| topology.node(to).ipv4);
                let frame = frame(topology.node(host).ipv4, to, *ip_len, *ttl, true);
                for _ in 0..*burst {
                    engine.arrive(host, Time::from_ns(time), &frame).unwrap();
                    assert_balanced(&engine);
                }
            }
        }
    }
    if step > 0 {
        while let Some(due) = engine.next_due() {
            engine.advance(due);
            assert_balanced(&engine);
        }
    }
    engine.advance(Time::MAX);
    deliveries.extend(drain(&mut engine));
    assert_balanced(&engine);
    assert_eq!((engine.inside(), engine.slots_in_use()), (0, 0));
    outcome_of(&engine, deliveries)
}

fn run_reference(case: &Case) -> Outcome {
    let topology = build(case);
    let hosts: Vec<NodeId> = topology.hosts().map(|(id, _)| id).collect();
    let mut reference = Reference::new(topology.clone(), case.seed);
    let mut time = 0;
    for (ticks, action) in &case.actions {
        time += ticks * TICK;
        match action {
            Action::Set { pipe, params } => {
                reference.advance_before(time);
                let pipe = PipeId((pipe % topology.pipes().len()) as u32);
                reference.set(pipe, params.clone(), time);
            }
            Action::Send {
                from,
                to,
                ip_len,
                ttl,
                burst,
            } => {
                let host = hosts[from % hosts.len()];
                let to = target(&topology, *to);
                for _ in 0..*burst {
                    reference.arrive(host, time, to, u32::from(*ip_len), *ttl);
                }
            }
        }
    }
    reference.advance_before(u64::MAX);
    assert_eq!(reference.inside(), 0);
    Outcome {
        deliveries: reference.deliveries,
        drops: reference.drops,
    }
}

proptest! {
    #[test]
    fn the_engine_equals_the_reference(case in case(false)) {
        let (engine, reference) = (run_engine(&case, 0, false), run_reference(&case));
        prop_assert_eq!(engine.deliveries, reference.deliveries);
        prop_assert_eq!(engine.drops, reference.drops);
    }

    #[test]
    fn the_engine_equals_the_reference_under_changes(case in case(true)) {
        let (engine, reference) = (run_engine(&case, 0, true), run_reference(&case));
        prop_assert_eq!(engine.deliveries, reference.deliveries);
        prop_assert_eq!(engine.drops, reference.drops);
    }

    #[test]
    fn steps_of_any_size_give_the_same(case in case(true), step in 1u64..5000) {
        let one = run_engine(&case, 0, false);
        for (step, eager) in [(step, false), (0, true), (step, true), (TICK, true)] {
            let other = run_engine(&case, step, eager);
            prop_assert_eq!(&one.deliveries, &other.deliveries);
            prop_assert_eq!(one.drops, other.drops);
        }
    }
}
