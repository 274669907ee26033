//! The engine under a million modelled hosts: its memory and its speed.
//!
//! `cargo run --release -p longhaul-core --example million [HOSTS ROUTERS FLOWS]`: hosts under edge
//! routers, these under one hub, all links with rate and delay. Within one simulated second each
//! host starts so many flows (10) of 10 kB, to random hosts at random times: seven packets at
//! once, and an answer to every second one as it comes out. Packets are modelled ones with TCP's
//! headers, but nothing holds any state of a flow: this is what the network itself costs.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use longhaul_core::engine::{MODELLED_SLOT, Modelled};
use longhaul_core::params::PipeParams;
use longhaul_core::rng::Stream;
use longhaul_core::router::Silent;
use longhaul_core::topology::{Link, Node, NodeKind};
use longhaul_core::units::Rate;
use longhaul_core::{Engine, EngineConfig, NodeId, Span, Time, Topology};

/// The delay of hosts' links, so the longest window in which nothing comes back to where it left.
const WINDOW: Span = Span::from_us(200);
/// Payloads of the packets of a flow: 10,000 bytes.
const PACKETS: [u32; 7] = [1448, 1448, 1448, 1448, 1448, 1448, 1312];
/// Ethernet, IPv4, and TCP with time stamps.
const HEADERS: usize = 14 + 20 + 32;

/// A packet that a host is to send.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Send {
    at: Time,
    from: NodeId,
    to: NodeId,
    payload: u32,
    number: u8,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u32| {
        let text = arguments.next();
        text.map_or(default, |text| text.parse().expect("a number"))
    };
    let (hosts, routers, flows) = (number(1_000_000), number(1000), number(10));
    let topology = network(hosts, routers);
    report("topology");
    let pipes = topology.pipes().len();
    let config = EngineConfig {
        slot_size: MODELLED_SLOT,
        slots: 4_000_000,
        ..EngineConfig::default()
    };
    let mut engine = Engine::new(topology, config, Box::new(Silent));
    report("engine");

    #[allow(clippy::disallowed_methods)] // measuring is what this program is for
    let started = Instant::now();
    let mut random = Stream::new(1, "traffic");
    let (mut sends, mut most_inside): (Vec<Send>, u64) = (Vec::new(), 0);
    let windows = Span::from_s(1).as_ns() / WINDOW.as_ns();
    let all = u64::from(hosts) * u64::from(flows);
    let mut window = 0;
    while window < windows || engine.inside() > 0 || !sends.is_empty() {
        let begin = Time::from_ns(window * WINDOW.as_ns());
        if window < windows {
            for _ in all * window / windows..all * (window + 1) / windows {
                let mut pick = |n: u64| random.draw() % n;
                let at = begin + Span::from_ns(pick(WINDOW.as_ns()));
                let [from, to] = [(); 2].map(|()| NodeId(pick(u64::from(hosts)) as u32));
                let packets = PACKETS.iter().zip(0..);
                sends.extend(packets.map(|(&payload, number)| Send {
                    at,
                    from,
                    to,
                    payload,
                    number,
                }));
            }
        }
        sends.sort_unstable();
        for send in sends.drain(..) {
            let headers = headers(&engine, &send);
            let packet = Modelled {
                to: send.to,
                headers: &headers,
                ip_len: HEADERS as u32 - 14 + send.payload,
            };
            engine
                .arrive_modelled(send.from, send.at, &packet)
                .expect("a sound packet, and room");
        }
        most_inside = most_inside.max(engine.inside());
        window += 1;
        engine.advance(Time::from_ns(window * WINDOW.as_ns()));
        while let Some(egress) = engine.poll_egress() {
            let frame = engine.frame(&egress);
            // Hosts are numbered as their addresses are.
            let from = u32::from_be_bytes(frame[26..30].try_into().expect("four bytes"));
            let is_data = egress.len as usize > HEADERS;
            if is_data && frame[38] % 2 == 1 {
                sends.push(Send {
                    at: egress.due,
                    from: egress.host,
                    to: NodeId(from - FIRST),
                    payload: 0,
                    number: 0,
                });
            }
            engine.release(egress);
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    report("run");
    let c = engine.counters();
    println!(
        "{hosts} hosts, {pipes} pipes, {all} flows of 10 kB, at most {most_inside} packets inside"
    );
    println!(
        "{} packets in, {} delivered, {} dropped",
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
    let access = std::sync::Arc::new(params(1, WINDOW));
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
            std::sync::Arc::clone(&access),
        ));
        nodes.push(host);
    }
    Topology::new(nodes, links).expect("a network")
}

/// The headers of a packet; its number in its flow is in the sequence number.
fn headers(engine: &Engine, send: &Send) -> [u8; HEADERS] {
    let address = |node: NodeId| engine.topology().node(node).ipv4.octets();
    let mut frame = [0; HEADERS];
    frame[12] = 0x08;
    let ip = &mut frame[14..34];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&((HEADERS - 14) as u16 + send.payload as u16).to_be_bytes());
    (ip[6], ip[8], ip[9]) = (0x40, 64, 6);
    ip[12..16].copy_from_slice(&address(send.from));
    ip[16..20].copy_from_slice(&address(send.to));
    let words = ip
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let sum = !((folded & 0xffff) + (folded >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    (frame[38], frame[46]) = (send.number, 0x80);
    frame
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
