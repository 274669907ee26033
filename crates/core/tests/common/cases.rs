//! Random cases: a network, traffic, and changes, and how the engine does them.
//!
//! Times are drawn from few values, so that ties are common.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use longhaul_core::engine::Windows;
use longhaul_core::observe::{Counters, PipeCounters, QueueUse};
use longhaul_core::params::LossModel;
use longhaul_core::router::{Responder, Silent};
use longhaul_core::topology::{Balance, Link, Node, NodeKind, PipeParams};
use longhaul_core::units::{Framing, Probability, QueueLimit, Rate};
use longhaul_core::witness::{PacketEvent, PacketEvents, Place, Sighting, Witness};
use longhaul_core::{Engine, EngineConfig, NodeId, PipeId, Span, Time, Topology};
use proptest::prelude::*;

use super::tally::Teller;
use super::{Delivery, Plain, assert_balanced, drain, frame, node};

/// Time passes in units of this many ns, so that things coincide.
pub(crate) const TICK: u64 = 400;

#[derive(Debug, Clone)]
pub(crate) enum Action {
    Send {
        from: usize,
        to: usize,
        ip_len: u16,
        ttl: u8,
        burst: usize,
    },
    Set {
        pipe: usize,
        params: Box<PipeParams>,
        /// Make the pipe a shaped one, without a difference.
        shape: bool,
    },
    Up {
        pipe: usize,
        up: bool,
        keep_queue: bool,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) routers: usize,
    pub(crate) hosts: usize,
    pub(crate) extra: Vec<(usize, usize)>,
    pub(crate) params: Vec<(PipeParams, u32)>,
    pub(crate) seed: u64,
    /// Ticks until the action, and the action.
    pub(crate) actions: Vec<(u64, Action)>,
}

/// Parameters of plain pipes.
pub(crate) fn params() -> impl Strategy<Value = PipeParams> {
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

fn action(set: bool, params: BoxedStrategy<PipeParams>) -> BoxedStrategy<Action> {
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
    let shape = prop::bool::weighted(0.3);
    let set = (0..64usize, params, shape).prop_map(|(pipe, params, shape)| Action::Set {
        pipe,
        params: Box::new(params),
        shape,
    });
    let up =
        (0..64usize, any::<bool>(), any::<bool>()).prop_map(|(pipe, up, keep_queue)| Action::Up {
            pipe,
            up,
            keep_queue,
        });
    prop_oneof![8 => send, 2 => set, 1 => up].boxed()
}

/// A case whose pipes have such parameters, with or without changes.
pub(crate) fn case(
    set: bool,
    params: impl Strategy<Value = PipeParams> + 'static,
) -> impl Strategy<Value = Case> {
    let params = params.boxed();
    let extra = prop::collection::vec((0..8usize, 0..8usize), 0..4);
    let mtu = prop_oneof![6 => Just(1500u32), 1 => 400u32..1500];
    let all = prop::collection::vec((params.clone(), mtu), 48);
    let wait = prop_oneof![2 => Just(0u64), 3 => 0u64..4, 1 => 0u64..200];
    let actions = prop::collection::vec((wait, action(set, params)), 1..60);
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
pub(crate) fn build(case: &Case) -> Topology {
    let (nodes, links) = parts(case);
    Topology::new(nodes, links).unwrap()
}

fn parts(case: &Case) -> (Vec<Node>, Vec<Link>) {
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
                params: [there.clone().into(), back.clone().into()],
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
    let nodes = names.zip(0..).map(|(name, n)| node(&name, n)).collect();
    (nodes, links)
}

pub(crate) struct Outcome {
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) drops: [u64; 8],
    pub(crate) pipes: Vec<PipeCounters>,
    pub(crate) counters: Counters,
    pub(crate) hash: u64,
    /// Of measured pipes: at each reading, when it was and what all queues had been like since the last.
    pub(crate) queues: Vec<(Time, Vec<QueueUse>)>,
    /// Of measured pipes: when each packet that came out or was lost had entered and was served, by pipe.
    pub(crate) services: Vec<(u32, u64, u64)>,
}

pub(crate) fn outcome_of(
    counters: Counters,
    pipes: Vec<PipeCounters>,
    hash: u64,
    deliveries: Vec<Delivery>,
) -> Outcome {
    let d = counters.dropped;
    let drops = [
        d.queue,
        d.loss,
        d.hop_limit,
        d.no_route,
        d.too_big,
        d.misdelivered,
        d.absorbed,
        d.link_down,
    ];
    Outcome {
        deliveries,
        drops,
        pipes,
        counters,
        hash,
        queues: Vec::new(),
        services: Vec::new(),
    }
}

/// Where a packet of the case goes: a node, or an address that nobody has.
pub(crate) fn target(topology: &Topology, to: usize) -> Option<NodeId> {
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

/// How a case is run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Manner {
    /// Between actions, advance in steps of so many ns (0: not at all).
    pub(crate) step: u64,
    /// Advance up to the very time of each action before the action.
    pub(crate) eager: bool,
    pub(crate) always_shaped: bool,
    /// As [`EngineConfig::windows`].
    pub(crate) windows: Windows,
    /// Routers answer and fragment, the first of them is a lan, and groups are sent to.
    pub(crate) lively: bool,
    /// Add a link that has nothing to do with the case.
    pub(crate) elsewhere: bool,
    /// How equal pipes share packets, if they do.
    pub(crate) balance: Option<Balance>,
    /// Routes are made anew after some changes of links.
    pub(crate) reroutes: bool,
    /// A witness counts along, and has to find what the counters say.
    pub(crate) watched: bool,
    /// All queues are measured, and read before each action.
    pub(crate) measured: bool,
}

/// Parameters that make a pipe of its own mechanism out of a plain one, where `shape` says so: a
/// chance of damage that never comes.
pub(crate) fn shaped(params: &PipeParams, shape: bool) -> PipeParams {
    let mut params = params.clone();
    if shape && params.is_plain() {
        params.corrupt = Probability::from_ratio(1, u64::MAX).unwrap();
    }
    params
}

/// Runs a case on the engine.
pub(crate) fn run_engine(case: &Case, manner: Manner) -> Outcome {
    let Manner { step, eager, .. } = manner;
    let there = Manner {
        elsewhere: false,
        ..manner
    };
    let (base, topology) = (topology_of(case, there), topology_of(case, manner));
    let named = |pipe: usize| {
        let pipes = base.pipes();
        topology.find_pipes(&pipes[pipe % pipes.len()].name)[0]
    };
    let config = EngineConfig {
        seed: case.seed,
        slots: 4096,
        always_shaped: manner.always_shaped,
        windows: manner.windows,
        trace_hash: true,
        ..EngineConfig::default()
    };
    let responder: Box<dyn Responder> = if manner.lively {
        Box::new(Plain)
    } else {
        Box::new(Silent)
    };
    let mut engine = Engine::new(topology.clone(), config, responder);
    let teller = manner.watched.then(Teller::default);
    if let Some(teller) = &teller {
        engine.watch(Box::new(teller.clone()));
    }
    let services = Services::default();
    if manner.measured {
        engine.watch(Box::new(services.clone()));
    }
    let mut queues = Vec::new();
    let pipes = (0..topology.pipes().len() as u32).map(PipeId);
    let mut read_queues = |engine: &mut Engine| {
        if manner.measured {
            let all = pipes.clone();
            let all = all.map(|pipe| engine.take_queue_use(pipe)).collect();
            queues.push((engine.now(), all));
        }
    };
    if manner.measured {
        pipes.clone().for_each(|pipe| engine.measure_queue(pipe));
    }
    let hosts: Vec<NodeId> = topology.hosts().map(|(id, _)| id).collect();
    let mut time = 0;
    let mut deliveries = Vec::new();
    for (ticks, action) in &case.actions {
        let from = time;
        time += ticks * TICK;
        let is_set = !matches!(action, Action::Send { .. });
        if step > 0 && time > 0 {
            (from..time).step_by(step as usize).skip(1).for_each(|at| {
                engine.advance(Time::from_ns(at));
                assert_balanced(&engine);
            });
        }
        if eager || is_set || manner.measured {
            engine.advance_before(Time::from_ns(time));
            read_queues(&mut engine);
        }
        if eager {
            deliveries.extend(drain(&mut engine));
        }
        match action {
            Action::Set {
                pipe,
                params,
                shape,
            } => {
                engine.set(named(*pipe), shaped(params, *shape));
                assert_balanced(&engine);
            }
            Action::Up {
                pipe,
                up,
                keep_queue,
            } => {
                engine.set_up(named(*pipe), *up, *keep_queue);
                if manner.reroutes && named(*pipe).index() % 3 == 0 {
                    engine.reroute();
                }
                assert_balanced(&engine);
            }
            Action::Send {
                from,
                to,
                ip_len,
                ttl,
                burst,
            } => {
                let host = hosts[from % hosts.len()];
                let nobody = manner.nobody();
                let to = target(&base, *to).map_or(nobody, |to| base.node(to).ipv4);
                let frame = frame(topology.node(host).ipv4, to, *ip_len, *ttl, !manner.lively);
                for _ in 0..*burst {
                    let entered = engine.arrive(host, Time::from_ns(time), &frame);
                    assert!(entered.is_ok() || to == nobody, "{entered:?}");
                    assert_balanced(&engine);
                }
            }
        }
    }
    // What is still kept by links that are down goes on.
    engine.advance_before(Time::from_ns(time + TICK));
    for pipe in 0..topology.pipes().len() as u32 {
        engine.set_up(PipeId(pipe), true, true);
    }
    if step > 0 {
        while let Some(due) = engine.next_due() {
            engine.advance(due);
            assert_balanced(&engine);
        }
    }
    if manner.measured {
        engine.advance_before(Time::from_ns(u64::MAX >> 1)); // readings cover what is before their time
        read_queues(&mut engine);
    }
    engine.advance(Time::MAX);
    deliveries.extend(drain(&mut engine));
    assert_balanced(&engine);
    assert_eq!((engine.inside(), engine.slots_in_use()), (0, 0));
    if let Some(teller) = &teller {
        teller.0.lock().unwrap().check(&engine);
    }
    let pipes = (0..engine.topology().pipes().len() as u32).map(PipeId);
    let pipes = pipes.map(|pipe| engine.pipe_counters(pipe)).collect();
    let (counters, hash) = (*engine.counters(), engine.trace_hash());
    let mut services = std::mem::take(&mut services.0.lock().unwrap().1);
    services.sort_unstable();
    Outcome {
        queues,
        services,
        ..outcome_of(counters, pipes, hash, deliveries)
    }
}

/// Packets in pipes by pipe and slot, with their entries and services; and those that have left.
type Passages = (HashMap<(u32, u32), (u64, u64)>, Vec<(u32, u64, u64)>);

/// Keeps the last report of when each packet is served.
#[derive(Clone, Default)]
struct Services(Arc<Mutex<Passages>>);

impl Witness for Services {
    fn events(&self) -> PacketEvents {
        let events = [
            PacketEvent::In,
            PacketEvent::Served,
            PacketEvent::Out,
            PacketEvent::Loss,
            PacketEvent::Queue,
            PacketEvent::LinkDown,
        ];
        events
            .into_iter()
            .fold(PacketEvents::NONE, PacketEvents::with)
    }

    fn see(&mut self, sighting: &Sighting<'_>) {
        let Place::Pipe(pipe) = sighting.place else {
            return;
        };
        let (inside, left) = &mut *self.0.lock().unwrap();
        let (key, time) = ((pipe.0, sighting.slot()), sighting.time.as_ns());
        match sighting.event {
            PacketEvent::In => drop(inside.insert(key, (time, u64::MAX))),
            PacketEvent::Served => {
                inside.entry(key).and_modify(|(_, service)| *service = time);
            }
            event => {
                let passage = inside.remove(&key);
                if let (PacketEvent::Out | PacketEvent::Loss, Some((entry, service))) =
                    (event, passage)
                {
                    left.push((pipe.0, entry, service));
                }
            }
        }
    }
}

/// The network of a case.
pub(crate) fn topology_of(case: &Case, manner: Manner) -> Topology {
    let (mut nodes, mut links) = parts(case);
    if manner.lively {
        nodes[0].kind = NodeKind::Lan;
    }
    if let Some(balance) = manner.balance {
        links.iter_mut().for_each(|link| link.balance = balance);
    }
    if manner.elsewhere {
        nodes.extend([node("m0", 900), node("m1", 901)]);
        links.push(Link::new("m0", "m1", case.params[0].0.clone()));
    }
    Topology::new(nodes, links).unwrap()
}

impl Manner {
    /// An address that no node has: of a group, where groups are sent to.
    pub(crate) fn nobody(&self) -> std::net::Ipv4Addr {
        if self.lively {
            [224, 0, 0, 9].into()
        } else {
            [192, 0, 2, 1].into()
        }
    }
}
