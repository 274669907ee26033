//! A million modelled hosts: memory and speed of the network and of its TCP endpoints.
//!
//! `cargo run --release -p longhaul-proto --example million [HOSTS ROUTERS FLOWS]`: hosts under edge
//! routers, these under one hub, all links with rate and delay. Within one simulated second so many
//! flows of 10 kB for each host (10) start, between random hosts at random times; the run ends with
//! the last of them.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Instant;

use longhaul_core::engine::{MODELLED_SLOT, Modelled};
use longhaul_core::params::PipeParams;
use longhaul_core::rng::Stream;
use longhaul_core::topology::{Link, Node, NodeKind};
use longhaul_core::units::Rate;
use longhaul_core::{Engine, EngineConfig, NodeId, Span, Time, Topology};
use longhaul_proto::RouterReplies;
use longhaul_proto::modelled::{
    Application, FlowSpec, Host, IpVersion, Name, Outcome, Peer, Traffic, Transport,
};
use longhaul_proto::tcp::Config;

/// The delay of hosts' links, so the longest step in which nothing comes back to where it left.
const STEP: Span = Span::from_us(200);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u32| {
        let text = arguments.next();
        text.map_or(default, |text| text.parse().expect("a number"))
    };
    let (hosts, routers, flows) = (number(1_000_000), number(1000), number(10));
    let topology = network(hosts, routers);
    report("topology");
    let mut traffic = traffic(&topology, hosts, u64::from(hosts) * u64::from(flows));
    report("traffic");
    let pipes = topology.pipes().len();
    let config = EngineConfig {
        slot_size: MODELLED_SLOT,
        slots: 4_000_000,
        ..EngineConfig::default()
    };
    let mut engine = Engine::new(topology, config, Box::new(RouterReplies::new()));
    report("engine");

    #[allow(clippy::disallowed_methods)] // measuring is what this program is for
    let started = Instant::now();
    let mut most_inside = 0;
    while let Some(next) = [engine.next_due(), traffic.poll_timeout()]
        .into_iter()
        .flatten()
        .min()
    {
        step(&mut engine, &mut traffic, next + STEP);
        most_inside = most_inside.max(engine.inside());
    }
    let seconds = started.elapsed().as_secs_f64();
    report("run");
    let c = engine.counters();
    let (over, all) = traffic.progress();
    let finished = traffic
        .flows()
        .filter(|flow| flow.outcome == Outcome::Finished)
        .count();
    println!(
        "{hosts} hosts, {pipes} pipes; of {all} flows {over} are over and {finished} finished"
    );
    println!(
        "{} packets in, {} delivered, {} dropped, at most {most_inside} at once",
        c.entered,
        c.delivered,
        c.dropped.total()
    );
    println!(
        "{:.2} s simulated in {seconds:.1} s: {:.2} M packet-hops/s",
        engine.now().as_ns() as f64 / 1e9,
        c.hops as f64 / 1e6 / seconds
    );
}

/// Everything up to `to`.
fn step(engine: &mut Engine, traffic: &mut Traffic, to: Time) {
    engine.advance(to);
    while let Some(egress) = engine.poll_egress() {
        let (headers, ip_len) = (engine.frame(&egress), egress.len - 14);
        traffic.handle_packet(egress.due, egress.host, headers, ip_len);
        engine.release(egress);
    }
    traffic.handle_timeout(to);
    while let Some(packet) = traffic.poll_transmit() {
        let modelled = Modelled {
            to: packet.to,
            headers: packet.headers,
            ip_len: packet.ip_len,
        };
        engine
            .arrive_modelled(packet.host, packet.at, &modelled)
            .expect("a sound packet, and room");
    }
}

fn traffic(topology: &Topology, hosts: u32, flows: u64) -> Traffic {
    let all = topology.hosts().map(|(node, it)| Host {
        node,
        ipv4: it.ipv4,
        ipv6: it.ipv6,
    });
    let transport = Transport::Tcp(Arc::new(Config::default()), IpVersion::V4);
    let group: Arc<str> = "flow".into();
    let mut random = Stream::new(1, "traffic");
    let mut pick = move |n: u64| random.draw() % n;
    let flow = |number: u64| {
        let from = pick(u64::from(hosts)) as u32;
        let to = (from + 1 + pick(u64::from(hosts) - 1) as u32) % hosts;
        FlowSpec {
            name: Name {
                group: Arc::clone(&group),
                number: Some(number as u32),
            },
            from: NodeId(from),
            to: Peer::Model(NodeId(to)),
            transport: transport.clone(),
            application: Application::Bulk {
                bytes: Some(10_000.into()),
            },
            start: Time::from_ns(pick(1_000_000_000)),
            stop: None,
            series: false,
        }
    };
    Traffic::new(all.collect(), (0..flows).map(flow), 1).expect("sound flows")
}

/// The address of the first host.
const FIRST: u32 = 0x0a00_0001;

fn network(hosts: u32, routers: u32) -> Topology {
    let node = |name: String, kind, n: u32| Node {
        name,
        kind,
        ipv4: Ipv4Addr::from(FIRST + n),
        ipv6: Ipv6Addr::from(0xfd00 << 112 | u128::from(n)),
    };
    let params = |gbit: u64, delay| PipeParams {
        rate: Rate::from_bits_per_s(gbit * 1_000_000_000),
        delay,
        ..PipeParams::default()
    };
    let access = Arc::new(params(1, STEP));
    let router = |n: u32| format!("r{n:05}");
    let mut nodes = vec![node("hub".to_owned(), NodeKind::Router, hosts + routers)];
    let mut links = Vec::new();
    for n in 0..routers {
        nodes.push(node(router(n), NodeKind::Router, hosts + n));
        let delay = Span::from_us(u64::from(1000 + n * 7919 % 3000));
        links.push(Link::new(&router(n), "hub", params(40, delay)));
    }
    for n in 0..hosts {
        let host = node(format!("h{n:07}"), NodeKind::Host, n);
        links.push(Link::new(
            &host.name,
            &router(n % routers),
            Arc::clone(&access),
        ));
        nodes.push(host);
    }
    Topology::new(nodes, links).expect("a network")
}

/// Prints the memory of this process so far.
fn report(what: &str) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap_or("?").trim().to_owned()
    };
    println!(
        "{what}: {} in use, {} at most",
        line("VmRSS:"),
        line("VmHWM:")
    );
}
