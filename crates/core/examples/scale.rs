//! What a packet-hop costs as networks grow, on one thread.
//!
//! `cargo run --release -p longhaul-core --example scale [PIPES...]`: for each number of pipes
//! (1,000, 10,000, 100,000 and 1,000,000) the same work: a tree of three levels under one hub, with
//! hosts as its leaves, and five packets in flight for each pipe, without payload, from everywhere
//! to everywhere. Nearly all take six hops, whatever the size, and each is sent anew from where it
//! came out. What grows is memory, and what it costs to reach it.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use longhaul_core::engine::{MODELLED_SLOT, Modelled, PACKET_BYTES};
use longhaul_core::packet::{ETHERNET_LEN, sum16};
use longhaul_core::params::PipeParams;
use longhaul_core::rng::Stream;
use longhaul_core::router::Silent;
use longhaul_core::topology::{Link, Node, NodeKind};
use longhaul_core::units::{QueueLimit, Rate};
use longhaul_core::{Engine, EngineConfig, NodeId, Span, Topology};

/// Packets in flight for each pipe.
const LOAD: u32 = 5;
/// How far the engine is advanced at a time: the least delay of any pipe.
const STEP: Span = Span::from_us(100);
/// Steps over which packets are put in, then as many again until they are everywhere.
const FILL: u32 = 40;
/// Packet-hops of a round, at least.
const ROUND: u64 = 5_000_000;
const ROUNDS: u32 = 5;
/// How many receivers are drawn at a time.
const PICKED: usize = 64;
/// Bytes of an IP packet.
const IP_LEN: u16 = 1500;

fn main() {
    let mut sizes: Vec<u32> = std::env::args()
        .skip(1)
        .map(|text| text.parse().expect("a number of pipes"))
        .collect();
    if sizes.is_empty() {
        sizes = vec![1_000, 10_000, 100_000, 1_000_000];
    }
    println!("a packet: {PACKET_BYTES} bytes, and a slot of {MODELLED_SLOT} for its headers");
    let mut first = None;
    for pipes in sizes {
        let mut net = Net::new(pipes);
        for step in 0..2 * FILL {
            net.step(if step < FILL { pipes * LOAD / FILL } else { 0 });
        }
        let rate = (0..ROUNDS).map(|_| net.round()).fold(0.0, f64::max);
        let first = *first.get_or_insert(rate);
        println!(
            "{} pipes, {} packets in flight, {:.2} times the first's cost",
            net.engine.topology().pipes().len(),
            net.engine.inside(),
            first / rate
        );
        println!("best: {:.1} M packet-hops/s", rate / 1e6);
    }
}

/// The network with its traffic.
struct Net {
    engine: Engine,
    hosts: Vec<(NodeId, Ipv4Addr)>,
    /// Where the next packets go: drawn several at a time, so that what is measured is not how long
    /// this program waits for its own list.
    picked: Vec<(NodeId, Ipv4Addr)>,
    random: Stream,
}

impl Net {
    fn new(pipes: u32) -> Self {
        let topology = tree(pipes / 2);
        let config = EngineConfig {
            slots: (LOAD + 1) * pipes,
            slot_size: MODELLED_SLOT,
            ..EngineConfig::default()
        };
        let hosts: Vec<_> = topology.hosts().map(|(id, host)| (id, host.ipv4)).collect();
        Self {
            picked: Vec::new(),
            hosts,
            engine: Engine::new(topology, config, Box::new(Silent)),
            random: Stream::new(1, "traffic"),
        }
    }

    /// One step; whatever comes out is sent anew, and `more` packets besides.
    fn step(&mut self, more: u32) {
        let now = self.engine.now() + STEP;
        self.engine.advance(now);
        while let Some(egress) = self.engine.poll_egress() {
            let host = egress.host;
            self.engine.release(egress);
            self.send(host);
        }
        for _ in 0..more {
            let (host, _) = self.pick();
            self.send(host);
        }
    }

    /// A packet from a host to any other.
    fn send(&mut self, from: NodeId) {
        let (to, address) = self.pick();
        let headers = headers(address);
        let packet = Modelled {
            to,
            headers: &headers,
            ip_len: IP_LEN.into(),
        };
        let now = self.engine.now();
        let entered = self.engine.arrive_modelled(from, now, &packet);
        entered.expect("a sound packet, and room");
    }

    fn pick(&mut self) -> (NodeId, Ipv4Addr) {
        if self.picked.is_empty() {
            let (hosts, random) = (&self.hosts, &mut self.random);
            let any = || hosts[(random.draw() % hosts.len() as u64) as usize];
            self.picked.extend(std::iter::repeat_with(any).take(PICKED));
        }
        self.picked.pop().expect("some have been picked")
    }

    /// Packet-hops per second of one round.
    fn round(&mut self) -> f64 {
        let before = self.engine.counters().hops;
        #[allow(clippy::disallowed_methods)] // measuring is what this program is for
        let started = Instant::now();
        while self.engine.counters().hops < before + ROUND {
            self.step(0);
        }
        (self.engine.counters().hops - before) as f64 / started.elapsed().as_secs_f64()
    }
}

/// Hosts under edge routers, these under others, and those under a hub, so many links in all;
/// delays of 100 to 1099 us.
fn tree(links: u32) -> Topology {
    let width = (1..).find(|n: &u32| n.pow(3) > links).unwrap_or(1) - 1;
    let node = |name: String, kind, n: u32| Node {
        name,
        kind,
        ipv4: Ipv4Addr::from(0x0a00_0001 + n),
        ipv6: Ipv6Addr::from(0xfd00 << 112 | u128::from(n)),
    };
    let mut nodes = vec![node("hub".to_owned(), NodeKind::Router, 0)];
    let mut made: Vec<Link> = Vec::new();
    for n in 1..=links {
        let (name, above, gbit) = if n <= width {
            (format!("a{n:07}"), "hub".to_owned(), 1000)
        } else if n <= width + width * width {
            (format!("b{n:07}"), format!("a{:07}", 1 + n % width), 100)
        } else {
            let edge = width + 1 + n % (width * width);
            (format!("h{n:07}"), format!("b{edge:07}"), 10)
        };
        let params = PipeParams {
            rate: Rate::from_bits_per_s(gbit * 1_000_000_000),
            delay: Span::from_us(u64::from(100 + n * 7919 % 1000)),
            queue: QueueLimit::Packets(100_000),
            ..PipeParams::default()
        };
        let kind = match gbit {
            10 => NodeKind::Host,
            _ => NodeKind::Router,
        };
        made.push(Link::new(&name, &above, params));
        nodes.push(node(name, kind, n));
    }
    Topology::new(nodes, made).expect("a tree is a topology")
}

/// The headers of a UDP packet with hop limit 64.
fn headers(to: Ipv4Addr) -> [u8; ETHERNET_LEN + 28] {
    let mut frame = [0; ETHERNET_LEN + 28];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    let header = &mut frame[14..34];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&IP_LEN.to_be_bytes());
    (header[8], header[9]) = (64, 17);
    header[12..16].copy_from_slice(&[10, 255, 255, 254]);
    header[16..20].copy_from_slice(&to.octets());
    let sum = !sum16(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    frame
}
