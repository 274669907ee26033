//! The engine's speed in packet-hops per second, on one thread.
//!
//! `cargo run --release -p longhaul-core --example hops [ROUTERS PACKETS [PIPES [STEP]]]`: a ring of
//! routers, a host at every fourth, packets to a random one of the next 50 hosts (100 hops in the
//! mean), each sent anew from where it came out. The default has 1000 pipes and 5000 packets in
//! flight.
//!
//! PIPES are `plain` (the default: rate, delay and drop-tail on the fast path), `shaped` (the same
//! by the general form, with every mechanism off), `jitter` (normal delays, in order), `codel`, or
//! `heap` and `hash` (plain ones without look-ahead windows, and with the trace hash). STEP is how
//! far the engine is advanced at a time, in us (100). Every host is a destination with a route
//! table of its own, so that memory and the time before the first round grow with the square of
//! ROUTERS.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Instant;

use longhaul_core::engine::Windows;
use longhaul_core::params::{CoDel, Discipline, Distribution, Jitter};
use longhaul_core::rng::Stream;
use longhaul_core::router::Silent;
use longhaul_core::topology::{Link, Node, NodeKind, PipeParams};
use longhaul_core::units::Rate;
use longhaul_core::{Engine, EngineConfig, NodeId, Span, Time, Topology};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize| arguments.get(place).map(|text| text.parse());
    let routers = number(0).unwrap_or(Ok(400)).expect("a number of routers");
    let packets = number(1).unwrap_or(Ok(5_000)).expect("a number of packets");
    let pipes = arguments.get(2).map_or("plain", String::as_str);
    let step = number(3).unwrap_or(Ok(100)).expect("a number of us");
    let topology = ring(routers, mechanism(pipes));
    let count = topology.pipes().len();
    let hosts: Vec<NodeId> = topology.hosts().map(|(id, _)| id).collect();
    let frames: Vec<Vec<u8>> = hosts
        .iter()
        .map(|&host| frame(topology.node(host).ipv4))
        .collect();
    let config = EngineConfig {
        slots: packets + packets / 8 + 1000,
        slot_size: if packets > 200_000 { 128 } else { 2048 },
        always_shaped: pipes == "shaped",
        windows: match pipes {
            "heap" => Windows::Never,
            _ => Windows::Paying,
        },
        trace_hash: pipes == "hash",
        ..EngineConfig::default()
    };
    let mut engine = Engine::new(topology, config, Box::new(Silent));
    hosts.iter().for_each(|&host| engine.prepare_routes(host));

    let mut random = Stream::new(1, "traffic");
    let mut pick = move |n: usize| (random.draw() % n as u64) as usize;
    let place: HashMap<NodeId, usize> = hosts.iter().copied().zip(0..).collect();
    for _ in 0..packets {
        let from = pick(hosts.len());
        let to = (from + 1 + pick(50)) % hosts.len();
        engine
            .arrive(hosts[from], Time::ZERO, &frames[to])
            .expect("a sound frame");
    }
    let mut out = Vec::new();
    let mut best = 0.0f64;
    for round in 0..5 {
        let before = engine.counters().hops;
        #[allow(clippy::disallowed_methods)] // measuring is what this program is for
        let started = Instant::now();
        while engine.counters().hops < before + 10_000_000 && engine.inside() > 0 {
            let now = engine.now() + Span::from_us(u64::from(step));
            engine.advance(now);
            while let Some(egress) = engine.poll_egress() {
                out.push(egress.host);
                engine.release(egress);
            }
            for host in out.drain(..) {
                let to = (place[&host] + 1 + pick(50)) % hosts.len();
                engine
                    .arrive(host, now, &frames[to])
                    .expect("a sound frame");
            }
        }
        let hops = engine.counters().hops - before;
        let rate = hops as f64 / started.elapsed().as_secs_f64();
        best = best.max(rate);
        println!("round {round}: {:.1} M packet-hops/s", rate / 1e6);
    }
    let (counters, inside) = (engine.counters(), engine.inside());
    println!("{count} {pipes} pipes, {inside} packets in flight, {counters:?}");
    println!("best: {:.1} M packet-hops/s", best / 1e6);
}

/// What the pipes called `name` have beyond a rate and a delay.
fn mechanism(name: &str) -> fn(PipeParams) -> PipeParams {
    match name {
        "plain" | "shaped" | "heap" | "hash" => |params| params,
        "jitter" => |params| {
            let distribution = Distribution::Normal {
                mean: params.delay.as_ns() as f64,
                deviation: params.delay.as_ns() as f64 / 100.0,
            };
            let jitter = Jitter {
                distribution,
                correlation: 0.0,
                reorder: false,
            };
            PipeParams {
                jitter: Some(Arc::new(jitter)),
                ..params
            }
        },
        "codel" => |params| PipeParams {
            discipline: Discipline::CoDel(CoDel::default()),
            ..params
        },
        _ => panic!("pipes are plain, shaped, jitter, codel, heap or hash, not {name}"),
    }
}

/// A ring of routers with a host at every fourth; delays of 100 to 1099 us.
fn ring(routers: u32, with: fn(PipeParams) -> PipeParams) -> Topology {
    let node = |name: String, kind, n: u32| Node {
        name,
        kind,
        ipv4: Ipv4Addr::from(0x0a00_0001 + n),
        ipv6: Ipv6Addr::from(0xfd00 << 112 | u128::from(n)),
    };
    let params = |n: u32| {
        with(PipeParams {
            rate: Rate::from_bits_per_s(10_000_000_000),
            delay: Span::from_us(u64::from(100 + n * 7919 % 1000)),
            ..PipeParams::default()
        })
    };
    let router = |n: u32| format!("r{:05}", n % routers);
    let mut nodes: Vec<Node> = (0..routers)
        .map(|n| node(router(n), NodeKind::Router, n))
        .collect();
    let mut links: Vec<Link> = (0..routers)
        .map(|n| Link::new(&router(n), &router(n + 1), params(n)))
        .collect();
    for n in (0..routers).step_by(4) {
        nodes.push(node(format!("h{n:05}"), NodeKind::Host, routers + n));
        links.push(Link::new(&format!("h{n:05}"), &router(n), params(n)));
    }
    Topology::new(nodes, links).expect("a ring is a topology")
}

/// A UDP packet of 1500 bytes with TTL 255.
fn frame(to: Ipv4Addr) -> Vec<u8> {
    let mut frame = vec![0; 1514];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    let header = &mut frame[14..34];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&1500u16.to_be_bytes());
    (header[8], header[9]) = (255, 17);
    header[12..16].copy_from_slice(&[10, 255, 255, 254]);
    header[16..20].copy_from_slice(&to.octets());
    let words = header
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let sum = !((folded & 0xffff) + (folded >> 16)) as u16;
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    frame
}
