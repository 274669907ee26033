//! What the tests share: small topologies, frames, a responder, and the reference model.
#![allow(dead_code)] // each test program uses its part

pub(crate) mod cases;
pub(crate) mod mechanisms;
pub(crate) mod reference;
pub(crate) mod split;
pub(crate) mod tally;

use std::net::{Ipv4Addr, Ipv6Addr};

use longhaul_core::packet;
use longhaul_core::router::{PuntReason, Responder};
use longhaul_core::topology::{Link, Node, NodeKind, PipeParams};
use longhaul_core::{Engine, NodeId, Time, Topology};

/// A packet that came out: (id, host, due, path delay, shift, frame length), in ns.
pub(crate) type Delivery = (u32, u32, u64, u64, u64, u32);

pub(crate) fn node(name: &str, n: u32) -> Node {
    Node {
        name: name.to_owned(),
        kind: if name.starts_with('h') {
            NodeKind::Host
        } else {
            NodeKind::Router
        },
        ipv4: Ipv4Addr::from(0x0a00_0001 + n),
        ipv6: Ipv6Addr::from(0xfd00 << 112 | u128::from(n)),
    }
}

/// Nodes by name (`h…` are hosts), links with the parameters of both ways.
pub(crate) fn topology(names: &[&str], links: &[(&str, &str, PipeParams)]) -> Topology {
    let nodes = names
        .iter()
        .zip(0..)
        .map(|(name, n)| node(name, n))
        .collect();
    let links = links
        .iter()
        .map(|(x, y, params)| Link::new(x, y, params.clone()))
        .collect();
    Topology::new(nodes, links).unwrap()
}

/// An IPv4 frame of `ip_len` bytes of IP.
pub(crate) fn frame(from: Ipv4Addr, to: Ipv4Addr, ip_len: u16, ttl: u8, df: bool) -> Vec<u8> {
    let mut frame = vec![0; 14 + usize::from(ip_len.max(20))];
    frame[12] = 0x08;
    let header = &mut frame[14..34];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&ip_len.to_be_bytes());
    header[6] = if df { 0x40 } else { 0 };
    (header[8], header[9]) = (ttl, 17);
    header[12..16].copy_from_slice(&from.octets());
    header[16..20].copy_from_slice(&to.octets());
    seal(header);
    frame
}

/// Writes an IPv4 header's checksum.
pub(crate) fn seal(header: &mut [u8]) {
    header[10..12].fill(0);
    let words = header
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// Takes everything out of the egress.
pub(crate) fn drain(engine: &mut Engine) -> Vec<Delivery> {
    let mut deliveries = Vec::new();
    while let Some(egress) = engine.poll_egress() {
        let frame = engine.frame(&egress);
        assert_eq!(frame.len(), egress.len as usize);
        assert!(packet::parse_any(frame).is_ok(), "what comes out is sound");
        deliveries.push((
            egress.id,
            egress.host.0,
            egress.due.as_ns(),
            egress.path_delay.as_ns(),
            egress.shift.as_ns(),
            egress.len,
        ));
        engine.release(egress);
    }
    deliveries
}

/// Every packet is accounted for, by the counters and by the slots.
pub(crate) fn assert_balanced(engine: &Engine) {
    let c = engine.counters();
    let sum = c.delivered + c.dropped.total() + engine.inside();
    assert_eq!(c.entered + c.created, sum, "{c:?}");
    let pipes = 0..engine.topology().pipes().len() as u32;
    let hops: u64 = pipes
        .map(|pipe| engine.pipe_counters(longhaul_core::PipeId(pipe)).packets)
        .sum();
    assert_eq!(c.hops, hops);
    assert!(engine.next_due().is_none_or(|due| due >= engine.now()));
}

pub(crate) fn host(engine: &Engine, name: &str) -> NodeId {
    engine.topology().find(name).unwrap()
}

/// Sends `ip_len` bytes from one host to another at `stamp` ns.
pub(crate) fn send(engine: &mut Engine, from: &str, to: &str, stamp: u64, ip_len: u16) {
    let (from, to) = (host(engine, from), host(engine, to));
    let address = |node| engine.topology().node(node).ipv4;
    let frame = frame(address(from), address(to), ip_len, 64, false);
    engine.arrive(from, Time::from_ns(stamp), &frame).unwrap();
}

/// Answers every cause but its own answers with a 56-byte packet to the source, and fragments
/// without mercy: every piece is a packet of its own with a plain header.
pub(crate) struct Plain;

/// The protocol of its answers. Were they answered, two routers would do so for ever once a bit
/// error has made one the source of a packet to the other.
const ANSWER: u8 = 1;

impl Responder for Plain {
    fn respond(
        &mut self,
        router: &Node,
        _: PuntReason,
        cause: &[u8],
        out: &mut [u8],
    ) -> Option<usize> {
        if cause[23] == ANSWER {
            return None;
        }
        let source: [u8; 4] = cause[26..30].try_into().unwrap();
        let mut reply = frame(router.ipv4, source.into(), 56, 64, true);
        reply[23] = ANSWER;
        seal(&mut reply[14..34]);
        out[..reply.len()].copy_from_slice(&reply);
        Some(reply.len())
    }

    fn fragment(&mut self, whole: &[u8], mtu: u32, index: u32, out: &mut [u8]) -> Option<usize> {
        let payload = whole.len() - 34;
        let step = (mtu as usize - 20) / 8 * 8;
        let start = index as usize * step;
        if start >= payload {
            return None;
        }
        let part = step.min(payload - start);
        let len = 20 + part;
        out[..34].copy_from_slice(&whole[..34]);
        // All of it: what the slot held before would pass for ports.
        out[34..34 + part].copy_from_slice(&whole[34 + start..34 + start + part]);
        out[16..18].copy_from_slice(&(len as u16).to_be_bytes());
        seal(&mut out[14..34]);
        Some(14 + len)
    }
}

/// Sends packets over one pipe with such parameters, and reports the shortest time from entry to exit.
pub(crate) fn fastest(params: &PipeParams, seed: u64, report: impl FnOnce(longhaul_core::Span)) {
    let topology = topology(&["h1", "h2"], &[("h1", "h2", params.clone())]);
    let config = longhaul_core::EngineConfig {
        seed,
        slots: 4096,
        ..longhaul_core::EngineConfig::default()
    };
    let mut engine = Engine::new(topology, config, Box::new(longhaul_core::router::Silent));
    for n in 0..50 {
        send(&mut engine, "h1", "h2", n * 700, 100);
        engine.advance(Time::from_ns(n * 700));
    }
    engine.advance(Time::MAX);
    let mut fastest = None;
    while let Some(egress) = engine.poll_egress() {
        let took = egress.due.since(egress.entered);
        fastest = Some(fastest.map_or(took, |known: longhaul_core::Span| known.min(took)));
        engine.release(egress);
    }
    fastest.map(report);
}
