//! Balanced routes: who takes which of several equal pipes, counted pipe by pipe.

mod common;

use common::{assert_balanced, frame, host, node, seal};
use longhaul_core::route::Routes;
use longhaul_core::route::balance::Balancer;
use longhaul_core::router::Silent;
use longhaul_core::topology::{Balance, Link, PipeParams};
use longhaul_core::{Engine, EngineConfig, NodeId, PipeId, Time, Topology};

/// h1 – ra ≡ rb ≡ rc – h2 with `width` parallel links where there are three strokes.
fn ladder(width: usize, balance: Balance, seed: u64) -> Engine {
    let names = ["h1", "h2", "ra", "rb", "rc"];
    let nodes = names.iter().zip(0..).map(|(name, n)| node(name, n));
    let mut links = Vec::new();
    for (x, y, width) in [
        ("h1", "ra", 1),
        ("ra", "rb", width),
        ("rb", "rc", width),
        ("rc", "h2", 1),
    ] {
        for number in 0..width {
            let mut link = Link::new(x, y, PipeParams::default());
            link.name = format!("{x}-{y}#{number}");
            link.pipe_names = [format!("{x}>{y}#{number}"), format!("{y}>{x}#{number}")];
            // The first one decides.
            link.balance = if number == 0 { balance } else { Balance::First };
            links.push(link);
        }
    }
    let topology = Topology::new(nodes.collect(), links).unwrap();
    let config = EngineConfig {
        seed,
        ..EngineConfig::default()
    };
    Engine::new(topology, config, Box::new(Silent))
}

/// A datagram of a flow from h1 to h2.
fn datagram(engine: &Engine, flow: u32) -> Vec<u8> {
    let address = |name| engine.topology().node(host(engine, name)).ipv4;
    let mut frame = frame(address("h1"), address("h2"), 40, 64, false);
    let [a, b, c, d] = flow.to_be_bytes();
    frame[34..38].copy_from_slice(&[c, d, a, b]);
    seal(&mut frame[14..34]);
    frame
}

/// Sends a datagram through and returns which of the pipes from ra to rb, and from rb to rc, it
/// took.
fn walk(engine: &mut Engine, flow: u32) -> [usize; 2] {
    let pipes = |engine: &Engine| -> Vec<(String, u64)> {
        let pipes = engine.topology().pipes().iter().zip(0..);
        pipes
            .map(|(pipe, id)| (pipe.name.clone(), engine.pipe_counters(PipeId(id)).packets))
            .collect()
    };
    let before = pipes(engine);
    let frame = datagram(engine, flow);
    let from = host(engine, "h1");
    engine.arrive(from, engine.now(), &frame).unwrap();
    engine.advance(engine.now());
    let egress = engine.poll_egress().expect("it comes out");
    assert_eq!(egress.host, host(engine, "h2"));
    engine.release(egress);
    let after = pipes(engine);
    let risen = before.iter().zip(&after).filter(|(old, new)| old != new);
    let risen: Vec<&str> = risen.map(|(_, (name, _))| name.as_str()).collect();
    ["ra>rb#", "rb>rc#"].map(|stage| {
        let took: Vec<_> = risen
            .iter()
            .filter_map(|name| name.strip_prefix(stage))
            .collect();
        assert_eq!(took.len(), 1, "{risen:?}");
        took[0].parse().unwrap()
    })
}

/// The chi-squared of counts that should be equal.
fn chi_squared(counts: &[u32]) -> f64 {
    let mean = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
    let terms = counts.iter().map(|&n| (f64::from(n) - mean).powi(2) / mean);
    terms.sum()
}

#[test]
fn the_first_takes_all_unless_asked() {
    let mut engine = ladder(4, Balance::First, 1);
    for flow in 0..50 {
        assert_eq!(walk(&mut engine, flow), [0, 0]);
    }
}

#[test]
fn flows_spread_evenly_stay_and_do_not_polarise() {
    const WIDTH: usize = 4;
    // Each cell of the table of both stages is hit with probability 1/16, independently: its
    // chi-squared has 15 degrees of freedom, mean 15 and deviation sqrt(30).
    for seed in [1, 2, 3] {
        let mut engine = ladder(WIDTH, Balance::Flow, seed);
        let mut table = [0; WIDTH * WIDTH];
        let walks: Vec<_> = (0..4000).map(|flow| walk(&mut engine, flow)).collect();
        for [first, second] in &walks {
            table[first * WIDTH + second] += 1;
        }
        let chi = chi_squared(&table);
        assert!(chi < 15.0 + 6.0 * 30f64.sqrt(), "seed {seed}: {table:?}");
        for flow in (0..4000).rev().step_by(7) {
            assert_eq!(walk(&mut engine, flow), walks[flow as usize], "flow {flow}");
        }
        assert_balanced(&engine);
    }
}

#[test]
fn the_seed_decides_where_flows_go() {
    let of = |seed| {
        let mut engine = ladder(4, Balance::Flow, seed);
        (0..64)
            .map(|flow| walk(&mut engine, flow))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

#[test]
fn round_robin_is_exact_and_flows_stay() {
    for width in [2, 3, 5] {
        let mut engine = ladder(width, Balance::RoundRobin, 7);
        for flow in 0..200 {
            let turn = flow as usize % width;
            assert_eq!(walk(&mut engine, flow), [turn, turn]);
            let earlier = flow * 13 % (flow + 1);
            let turn = earlier as usize % width;
            assert_eq!(walk(&mut engine, earlier), [turn, turn], "flow {earlier}");
        }
        assert_balanced(&engine);
    }
}

#[test]
fn a_node_remembers_as_many_flows_as_documented() {
    use longhaul_core::route::balance::MAX_FLOWS;
    let mut engine = ladder(2, Balance::RoundRobin, 7);
    let most = MAX_FLOWS as u32;
    let send = |engine: &mut Engine, flow| {
        let frame = datagram(engine, flow);
        let from = host(engine, "h1");
        engine.arrive(from, Time::ZERO, &frame).unwrap();
        engine.advance(Time::ZERO);
        let egress = engine.poll_egress().expect("it comes out");
        engine.release(egress);
    };
    (0..most).for_each(|flow| send(&mut engine, flow));
    assert_eq!(walk(&mut engine, 1), [1, 1], "still known");
    // The turn is even here; flow `most` takes the place of flow 0, which is then new again.
    assert_eq!(walk(&mut engine, most), [0, 0]);
    assert_eq!(
        walk(&mut engine, 0),
        [1, 1],
        "forgotten, so the next in turn"
    );
    assert_eq!(walk(&mut engine, 1), [1, 1], "passed over once");
}

#[test]
fn a_flow_leaves_a_member_that_has_gone_and_only_then() {
    let engine = ladder(3, Balance::RoundRobin, 7);
    let frames: Vec<_> = (0..9).map(|flow| datagram(&engine, flow)).collect();
    let topology = engine.topology().clone();
    let (ra, h2) = (host(&engine, "ra"), host(&engine, "h2"));
    let mut routes = Routes::new(&topology);
    let mut balancer = Balancer::new(7);
    let mut choose = |routes: &mut Routes, frame: &[u8], node: NodeId| {
        let Some(longhaul_core::route::NextHop::OneOf(set)) = routes.next_hop(&topology, node, h2)
        else {
            panic!("several are equal");
        };
        balancer.choose(node, set, routes.set(set), Balance::RoundRobin, frame)
    };
    let before: Vec<PipeId> = frames.iter().map(|f| choose(&mut routes, f, ra)).collect();
    let gone = before[1];
    routes.set_usable(gone, false);
    routes.reroute();
    for (frame, &pipe) in frames.iter().zip(&before) {
        let now = choose(&mut routes, frame, ra);
        assert_ne!(now, gone);
        assert!(pipe == gone || now == pipe, "a flow moved without need");
        assert_eq!(choose(&mut routes, frame, ra), now);
    }
    // Of three flows that had to move, the two left have taken turns.
    let moved: Vec<_> = [1, 4, 7]
        .map(|flow| choose(&mut routes, &frames[flow], ra))
        .into();
    assert_eq!(moved, [before[0], before[2], before[0]]);
}

/// The whole of it: a link fails, packets are lost on it until routes follow, and come back when
/// it is repaired.
#[test]
fn routes_follow_failures_when_asked_to() {
    let mut engine = ladder(2, Balance::First, 1);
    let pipes = ["ra>rb#0", "ra>rb#1"].map(|name| engine.topology().find_pipes(name)[0]);
    let send = |engine: &mut Engine| {
        let (frame, from) = (datagram(engine, 5), host(engine, "h1"));
        engine.arrive(from, engine.now(), &frame).unwrap();
        engine.advance(engine.now());
        let took = pipes.map(|pipe| engine.pipe_counters(pipe).packets);
        if let Some(egress) = engine.poll_egress() {
            engine.release(egress);
        }
        assert_balanced(engine);
        took
    };
    assert_eq!(send(&mut engine), [1, 0]);
    engine.set_up(pipes[0], false, false);
    assert_eq!(send(&mut engine), [1, 0]);
    assert_eq!(engine.counters().dropped.link_down, 1);
    engine.reroute();
    assert_eq!(send(&mut engine), [1, 1]);
    engine.set_up(pipes[0], true, false);
    assert_eq!(
        send(&mut engine),
        [1, 2],
        "a repair is not known at once either"
    );
    engine.reroute();
    assert_eq!(send(&mut engine), [2, 2]);
    // No way at all: the router says so.
    for pipe in pipes {
        engine.set_up(pipe, false, false);
    }
    engine.reroute();
    let (h1, h2) = (host(&engine, "h1"), host(&engine, "h2"));
    assert_eq!(engine.path(h1, h2), None);
    assert_eq!(send(&mut engine), [2, 2]);
    assert_eq!(engine.counters().dropped.no_route, 1);
    assert_eq!(
        (
            engine.counters().delivered,
            engine.counters().dropped.total()
        ),
        (4, 2)
    );
}
