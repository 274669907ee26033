//! Lan segments: frames for one node and for groups, with every counter worked out by hand, and
//! laws over random networks.

mod common;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use common::{Plain, assert_balanced, frame, host, node, seal};
use longhaul_core::packet::{self, FrameError};
use longhaul_core::topology::{Link, Node, NodeKind, PipeParams};
use longhaul_core::units::{Probability, QueueLimit, Rate};
use longhaul_core::{Engine, EngineConfig, NodeId, PipeId, Refused, Span, Time, Topology};
use proptest::prelude::*;

const ALL: Ipv4Addr = Ipv4Addr::BROADCAST;

/// Nodes by name: `h…` are hosts, `s…` lans, all others routers.
fn nodes(names: &[&str]) -> Vec<Node> {
    let node = |(name, n): (&&str, u32)| {
        let mut node = node(name, n);
        if name.starts_with('s') {
            (node.kind, node.ipv4) = (NodeKind::Lan, Ipv4Addr::UNSPECIFIED);
        }
        node
    };
    names.iter().zip(0..).map(node).collect()
}

fn delay(us: u64) -> PipeParams {
    PipeParams {
        delay: Span::from_us(us),
        ..PipeParams::default()
    }
}

fn engine_of(names: &[&str], links: Vec<Link>) -> Engine {
    let topology = Topology::new(nodes(names), links).unwrap();
    Engine::new(topology, EngineConfig::default(), Box::new(Plain))
}

/// Links of 10 us each.
fn engine(names: &[&str], links: &[(&str, &str)]) -> Engine {
    let link = |&(x, y): &(&str, &str)| Link::new(x, y, delay(10));
    engine_of(names, links.iter().map(link).collect())
}

fn address(engine: &Engine, name: &str) -> Ipv4Addr {
    engine.topology().node(host(engine, name)).ipv4
}

/// What a frame is like where it comes out: host, due in us, Ethernet destination, TTL.
type Heard = (String, u64, [u8; 6], u8);

fn drain(engine: &mut Engine) -> Vec<Heard> {
    let mut heard = Vec::new();
    while let Some(egress) = engine.poll_egress() {
        let frame = engine.frame(&egress);
        assert!(packet::parse_any(frame).is_ok(), "what comes out is sound");
        let name = engine.topology().node(egress.host).name.clone();
        let (mac, ttl) = (frame[..6].try_into().unwrap(), frame[22]);
        heard.push((name, egress.due.as_ns() / 1000, mac, ttl));
        engine.release(egress);
    }
    heard
}

/// Sends to an address and lets all come out.
fn send(engine: &mut Engine, from: &str, to: Ipv4Addr, ip_len: u16, ttl: u8) -> Vec<Heard> {
    let frame = frame(address(engine, from), to, ip_len, ttl, true);
    let from = host(engine, from);
    engine.arrive(from, engine.now(), &frame).unwrap();
    let begun = engine.now().as_ns() / 1000;
    engine.advance(engine.now() + Span::from_ms(10));
    assert_balanced(engine);
    assert_eq!(engine.inside(), 0);
    let heard = drain(engine).into_iter();
    let heard = heard
        .map(|(name, due, mac, ttl)| (name, due - begun, mac, ttl))
        .collect();
    assert_eq!(engine.slots_in_use(), 0);
    heard
}

fn heard(name: &str, due: u64, mac: [u8; 6], ttl: u8) -> Heard {
    (name.to_owned(), due, mac, ttl)
}

const OFFICE: ([&str; 6], [(&str, &str); 5]) = (
    ["h1", "h2", "h3", "hx", "r1", "s1"],
    [
        ("h1", "s1"),
        ("h2", "s1"),
        ("h3", "s1"),
        ("r1", "s1"),
        ("r1", "hx"),
    ],
);

fn office() -> Engine {
    engine(&OFFICE.0, &OFFICE.1)
}

#[test]
fn between_members_there_is_no_hop() {
    let mut engine = office();
    let to = address(&engine, "h2");
    let mac = longhaul_core::host_mac(host(&engine, "h2"));
    assert_eq!(
        send(&mut engine, "h1", to, 100, 1),
        [heard("h2", 20, mac, 1)]
    );
    let to = address(&engine, "hx");
    let mac = longhaul_core::host_mac(host(&engine, "hx"));
    assert_eq!(
        send(&mut engine, "h1", to, 100, 64),
        [heard("hx", 30, mac, 63)]
    );
    let counters = engine.counters();
    assert_eq!(
        (counters.entered, counters.created, counters.delivered),
        (2, 0, 2)
    );
    assert_eq!((counters.hops, counters.dropped.total()), (5, 0));
}

#[test]
fn a_broadcast_reaches_every_member_and_nobody_else() {
    let mut engine = office();
    let mac = [0xff; 6];
    assert_eq!(
        send(&mut engine, "h1", ALL, 100, 1),
        [heard("h2", 20, mac, 1), heard("h3", 20, mac, 1)]
    );
    // In, and three copies out, of which the frame itself is one; the router takes the third.
    let counters = *engine.counters();
    assert_eq!(
        (counters.entered, counters.created, counters.delivered),
        (1, 2, 2)
    );
    assert_eq!(
        (counters.dropped.absorbed, counters.dropped.total()),
        (1, 1)
    );
    assert_eq!(counters.hops, 4);
    assert_eq!(counters.replies_suppressed, 0);
}

#[test]
fn groups_have_their_own_ethernet_addresses() {
    let mut engine = office();
    let group = Ipv4Addr::new(239, 129, 2, 3);
    let mac = [0x01, 0x00, 0x5e, 0x01, 0x02, 0x03];
    let to_all: Vec<_> = ["h2", "h3"].map(|name| heard(name, 20, mac, 9)).into();
    assert_eq!(send(&mut engine, "h1", group, 100, 9), to_all);
    // IPv6, with the hop limit where IPv4 has another byte; from an interface without address.
    let mut frame = vec![
        2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 1,
    ];
    frame.extend([0; 16]);
    frame.extend([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xa, 0xb, 0xc, 0xd]);
    frame.extend([0; 8]);
    let h1 = host(&engine, "h1");
    engine.arrive(h1, engine.now(), &frame).unwrap();
    engine.advance(engine.now() + Span::from_ms(1));
    let macs: Vec<_> = drain(&mut engine)
        .into_iter()
        .map(|heard| heard.2)
        .collect();
    assert_eq!(macs, [[0x33, 0x33, 0xa, 0xb, 0xc, 0xd]; 2]);
    // DHCP: a broadcast from nobody.
    let none = Ipv4Addr::UNSPECIFIED;
    let frame = common::frame(none, ALL, 300, 64, false);
    engine.arrive(h1, engine.now(), &frame).unwrap();
    engine.advance(engine.now() + Span::from_ms(1));
    assert_eq!(drain(&mut engine).len(), 2);
    assert_balanced(&engine);
}

#[test]
fn where_there_is_no_lan_groups_are_refused() {
    let mut engine = office();
    let refused = Err(Refused::Frame(FrameError::Multicast));
    let hx = host(&engine, "hx");
    for group in [ALL, Ipv4Addr::new(224, 0, 0, 251)] {
        let frame = frame(address(&engine, "hx"), group, 100, 1, true);
        assert_eq!(engine.arrive(hx, Time::ZERO, &frame), refused);
    }
    // All stations are to hear what is for one node: nowhere.
    let h1 = host(&engine, "h1");
    let mut frame = frame(address(&engine, "h1"), address(&engine, "h2"), 100, 1, true);
    frame[..6].fill(0xff);
    assert_eq!(engine.arrive(h1, Time::ZERO, &frame), refused);
    assert_eq!(engine.counters().refused.multicast, 3);
    assert_eq!((engine.counters().entered, engine.slots_in_use()), (0, 0));
}

#[test]
fn joined_lans_are_one_domain() {
    let names = ["h1", "h2", "h3", "r1", "s1", "s2", "s3"];
    let mut links: Vec<Link> = [
        ("h1", "s1"),
        ("s1", "s2"),
        ("s2", "s3"),
        ("h2", "s2"),
        ("h3", "s3"),
        ("s3", "r1"),
    ]
    .iter()
    .map(|(x, y)| Link::new(x, y, delay(10)))
    .collect();
    // Parallel links, between lans and to a host: one frame each all the same.
    for (x, y) in [("s1", "s2"), ("h3", "s3")] {
        let mut link = Link::new(x, y, delay(10));
        link.name += "#2";
        link.pipe_names
            .iter_mut()
            .for_each(|name| name.push_str("#2"));
        links.push(link);
    }
    let mut engine = engine_of(&names, links);
    let mac = [0xff; 6];
    assert_eq!(
        send(&mut engine, "h1", ALL, 100, 64),
        [heard("h2", 30, mac, 64), heard("h3", 40, mac, 64)]
    );
    let counters = *engine.counters();
    assert_eq!((counters.entered, counters.created), (1, 2));
    assert_eq!((counters.delivered, counters.dropped.absorbed), (2, 1));
    assert_eq!(counters.hops, 6);
    assert_eq!(
        send(&mut engine, "h3", ALL, 100, 64),
        [heard("h2", 30, mac, 64), heard("h1", 40, mac, 64)]
    );
}

#[test]
fn a_host_with_several_links_speaks_to_groups_on_its_first_lan() {
    let names = ["h1", "h2", "h3", "ra", "s1", "s2"];
    let links = [
        ("h1", "ra"),
        ("h1", "s1"),
        ("h1", "s2"),
        ("h2", "s1"),
        ("h3", "s2"),
    ];
    let mut engine = engine(&names, &links);
    assert_eq!(
        send(&mut engine, "h1", ALL, 100, 64),
        [heard("h2", 20, [0xff; 6], 64)]
    );
}

#[test]
fn what_has_nowhere_to_go_has_no_route() {
    let mut engine = engine(&["h1", "s1"], &[("h1", "s1")]);
    assert_eq!(send(&mut engine, "h1", ALL, 100, 64), []);
    let nobody = Ipv4Addr::new(10, 9, 9, 9);
    assert_eq!(send(&mut engine, "h1", nobody, 100, 64), []);
    // A lan answers nothing.
    let counters = engine.counters();
    assert_eq!((counters.entered, counters.created), (2, 0));
    assert_eq!(
        (counters.dropped.no_route, counters.dropped.total()),
        (2, 2)
    );
}

#[test]
fn a_lan_drops_what_is_too_big_and_says_nothing() {
    let mut links: Vec<Link> = OFFICE
        .1
        .iter()
        .map(|(x, y)| Link::new(x, y, delay(10)))
        .collect();
    links[1].mtu = 500; // h2
    let mut engine = engine_of(&OFFICE.0, links);
    let h2 = address(&engine, "h2");
    assert_eq!(send(&mut engine, "h1", h2, 501, 64), []);
    assert_eq!(engine.counters().dropped.too_big, 1);
    let mac = [0xff; 6];
    assert_eq!(
        send(&mut engine, "h1", ALL, 501, 64),
        [heard("h3", 20, mac, 64)]
    );
    assert_eq!(engine.counters().dropped.too_big, 2);
    // From there it does not even get in, and nobody answers.
    assert_eq!(send(&mut engine, "h2", ALL, 501, 64), []);
    let counters = *engine.counters();
    assert_eq!((counters.dropped.too_big, counters.created), (3, 2));
    assert_eq!(counters.replies_suppressed, 0);
}

#[test]
fn a_broadcast_is_fragmented_by_its_host_alone() {
    let mut links: Vec<Link> = OFFICE
        .1
        .iter()
        .map(|(x, y)| Link::new(x, y, delay(10)))
        .collect();
    links[0].mtu = 500;
    let mut engine = engine_of(&OFFICE.0, links);
    let mut frame = frame(address(&engine, "h1"), ALL, 900, 64, false);
    frame[..6].fill(2); // what the sender writes there does not matter
    let h1 = host(&engine, "h1");
    engine.arrive(h1, Time::ZERO, &frame).unwrap();
    engine.advance(Time::from_ns(1_000_000));
    let heard = drain(&mut engine);
    assert_eq!(heard.len(), 4, "two pieces to two hosts: {heard:?}");
    assert!(heard.iter().all(|(_, _, mac, _)| *mac == [0xff; 6]));
    // One more by fragmentation, two more of each by copying.
    assert_eq!(engine.counters().created, 1 + 2 * 2);
    assert_balanced(&engine);
}

#[test]
fn a_copy_without_a_slot_never_existed() {
    let topology = Topology::new(
        nodes(&OFFICE.0),
        OFFICE
            .1
            .iter()
            .map(|(x, y)| Link::new(x, y, delay(10)))
            .collect(),
    );
    let config = EngineConfig {
        slots: 2,
        ..EngineConfig::default()
    };
    let mut engine = Engine::new(topology.unwrap(), config, Box::new(Plain));
    let heard = send(&mut engine, "h1", ALL, 100, 64);
    // Of h2, h3 and r1 the first gets the one copy and the last the frame itself.
    assert_eq!(
        heard.iter().map(|h| h.0.as_str()).collect::<Vec<_>>(),
        ["h2"]
    );
    let counters = engine.counters();
    assert_eq!((counters.created, counters.pool_exhausted), (1, 1));
    assert_eq!(counters.dropped.absorbed, 1);
}

/// What a random network is made of: links as (end, end, kind of parameters), a way to send.
type Wish = (Vec<(usize, usize, u8)>, Vec<(usize, usize, u8, u16)>);

const NAMES: [&str; 11] = [
    "h0", "h1", "h2", "h3", "h4", "r0", "r1", "r2", "s0", "s1", "s2",
];

fn any_wish() -> impl Strategy<Value = Wish> {
    let link = (0..NAMES.len(), 0..NAMES.len(), any::<u8>());
    // From a host to a node, or (beyond the last one) to a group.
    let packet = (0..5usize, 0..NAMES.len() + 6, 1u8..5, 20u16..1600);
    (
        prop::collection::vec(link, 4..20),
        prop::collection::vec(packet, 1..40),
    )
}

/// As many of the wished links as form no ring of lans, of parameters that `params` gives.
fn build(wish: &[(usize, usize, u8)], params: impl Fn(u8) -> PipeParams) -> Topology {
    let mut links = Vec::new();
    for (number, &(x, y, kind)) in wish.iter().enumerate() {
        if x != y {
            let mut link = Link::new(NAMES[x], NAMES[y], params(kind));
            link.name = format!("l{number:02}");
            link.pipe_names = [format!("l{number:02}>"), format!("l{number:02}<")];
            link.mtu = if kind % 5 == 0 { 700 } else { 1500 };
            links.push(link);
            if Topology::new(nodes(&NAMES), links.clone()).is_err() {
                links.pop();
            }
        }
    }
    Topology::new(nodes(&NAMES), links).unwrap()
}

/// Who hears a host's broadcast, sorted: every host once for each lan that it is joined to, of
/// those that are joined to the sender's first lan over lans alone; the sender not where it speaks.
fn domain(topology: &Topology, sender: NodeId) -> Vec<NodeId> {
    let is = |node: NodeId, kind: NodeKind| topology.node(node).kind == kind;
    let neighbours = |node: NodeId| -> Vec<NodeId> {
        let pipes = topology.outgoing(node).iter();
        pipes.map(|&pipe| topology.pipe(pipe).to).collect()
    };
    let first = neighbours(sender)
        .into_iter()
        .find(|&n| is(n, NodeKind::Lan));
    let mut seen = BTreeSet::new();
    let mut open: Vec<NodeId> = first.into_iter().collect();
    while let Some(lan) = open.pop() {
        if seen.insert(lan) {
            open.extend(
                neighbours(lan)
                    .into_iter()
                    .filter(|&n| is(n, NodeKind::Lan)),
            );
        }
    }
    let mut heard = Vec::new();
    for lan in seen {
        let hosts = neighbours(lan)
            .into_iter()
            .filter(|&n| is(n, NodeKind::Host));
        let hosts: BTreeSet<NodeId> = hosts.collect();
        heard.extend(
            hosts
                .into_iter()
                .filter(|&h| h != sender || Some(lan) != first),
        );
    }
    heard.sort_unstable();
    heard
}

proptest! {
    /// On pipes that lose nothing each member of the domain hears a broadcast once.
    #[test]
    fn a_broadcast_is_heard_once_by_each((links, packets) in any_wish()) {
        let topology = build(&links, |_| delay(1));
        let config = EngineConfig { slots: 256, ..EngineConfig::default() };
        let mut engine = Engine::new(topology, config, Box::new(Plain));
        for (from, ..) in packets {
            let sender = host(&engine, NAMES[from]);
            let expected = domain(engine.topology(), sender);
            let frame = frame(address(&engine, NAMES[from]), ALL, 60, 1, true);
            let arrived = engine.arrive(sender, engine.now(), &frame);
            let on_lan = engine.topology().outgoing(sender).iter().any(|&pipe| {
                let to = engine.topology().pipe(pipe).to;
                engine.topology().node(to).kind == NodeKind::Lan
            });
            prop_assert_eq!(arrived.is_ok(), on_lan);
            engine.advance(engine.now() + Span::from_ms(1));
            let mut heard: Vec<NodeId> = drain(&mut engine).iter().map(|h| host(&engine, &h.0)).collect();
            heard.sort_unstable();
            prop_assert_eq!(heard, expected);
            assert_balanced(&engine);
            prop_assert_eq!((engine.inside(), engine.slots_in_use()), (0, 0));
        }
    }

    /// Whatever the network, the packets and the failures: the sums are exact at every step, it
    /// ends, and nothing is left.
    #[test]
    fn sums_are_exact_and_all_ends((links, packets) in any_wish(), slots in 1u32..60, seed: u64) {
        let params = |kind: u8| PipeParams {
            rate: (!kind.is_multiple_of(3)).then(|| Rate::from_bits_per_s(1_000_000 << (kind % 8)).unwrap()),
            loss: longhaul_core::params::LossModel::Independent(Probability::from_ratio(u64::from(kind % 4), 8).unwrap()),
            queue: QueueLimit::Packets(u32::from(kind % 5)),
            duplicate: Probability::from_ratio(u64::from(kind % 2), 4).unwrap(),
            corrupt: Probability::from_ratio(u64::from(kind % 3), 8).unwrap(),
            ..delay(u64::from(kind % 7))
        };
        let topology = build(&links, params);
        let config = EngineConfig { slots, seed, ..EngineConfig::default() };
        let mut engine = Engine::new(topology, config, Box::new(Plain));
        let mut offered = 0;
        for (number, (from, to, ttl, ip_len)) in packets.into_iter().enumerate() {
            let to = match NAMES.get(to) {
                Some(name) if !name.starts_with('s') => address(&engine, name),
                _ => [ALL, Ipv4Addr::new(224, 0, 0, 1)][to % 2],
            };
            let mut frame = frame(address(&engine, NAMES[from]), to, ip_len, ttl, number % 3 == 0);
            seal(&mut frame[14..34]);
            let sender = host(&engine, NAMES[from]);
            let stamp = Time::from_ns(number as u64 * 1000);
            offered += 1;
            let _ = engine.arrive(sender, stamp, &frame);
            engine.advance(stamp);
            assert_balanced(&engine);
            if number % 4 == 0 {
                drain(&mut engine);
            }
            let pipes = engine.topology().pipes().len();
            if number % 3 == 0 && pipes > 0 {
                let pipe = PipeId((number * 7 % pipes) as u32);
                let is_up = engine.is_up(pipe);
                engine.set_up(pipe, !is_up, number % 2 == 0);
                assert_balanced(&engine);
            }
            if number % 5 == 0 {
                engine.reroute();
            }
        }
        // The longest way takes every pipe once, at 1 Mbit/s, behind full queues.
        let mut steps = 0;
        while let Some(due) = engine.next_due() {
            engine.advance(due);
            steps += 1;
            assert_balanced(&engine);
            prop_assert!(steps < 100_000, "it does not end");
        }
        // What waits in a pipe that is down ends with the pipe's queue.
        for pipe in (0..engine.topology().pipes().len() as u32).map(PipeId) {
            engine.set_up(pipe, false, false);
        }
        drain(&mut engine);
        let counters = engine.counters();
        let refused = counters.refused;
        prop_assert_eq!((engine.inside(), engine.slots_in_use()), (0, 0));
        prop_assert!(counters.entered + refused.multicast + refused.malformed + refused.too_long + counters.pool_exhausted >= offered);
    }
}
