//! Modelled traffic over the engine in virtual time, as tests and the example drive it.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use longhaul_core::engine::{MODELLED_SLOT, Modelled};
use longhaul_core::topology::{Link, Node, NodeKind, PipeParams};
use longhaul_core::units::{QueueLimit, Rate};
use longhaul_core::{Engine, EngineConfig, NodeId, Span, Time, Topology};
use longhaul_proto::RouterReplies;
use longhaul_proto::modelled::{Application, FlowSpec, Host, IpVersion, Peer, Traffic, Transport};
use longhaul_proto::tcp::Config;

/// The network, and the traffic on it.
pub(crate) struct Net {
    pub(crate) engine: Engine,
    pub(crate) traffic: Traffic,
    /// How far each step goes: less than the delay of every host's first pipe.
    pub(crate) width: Span,
}

impl Net {
    pub(crate) fn new(topology: Topology, flows: Vec<FlowSpec>, seed: u64) -> Self {
        let hosts = hosts(&topology);
        let config = EngineConfig {
            seed,
            slot_size: MODELLED_SLOT,
            slots: 1 << 17,
            ..EngineConfig::default()
        };
        Self {
            traffic: Traffic::new(hosts, flows, seed).expect("sound flows"),
            engine: Engine::new(topology, config, Box::new(RouterReplies::new())),
            width: Span::ZERO,
        }
    }

    /// Lets everything happen up to `end`, or until nothing is left to do.
    pub(crate) fn run(&mut self, end: Time) {
        loop {
            let due = [self.engine.next_due(), self.traffic.poll_timeout()];
            let Some(next) = due.into_iter().flatten().min().filter(|&at| at <= end) else {
                return self.engine.advance(end);
            };
            self.step((next + self.width).min(end));
        }
    }

    fn step(&mut self, to: Time) {
        self.engine.advance(to);
        while let Some(egress) = self.engine.poll_egress() {
            let (headers, ip_len) = (self.engine.frame(&egress), egress.len - 14);
            self.traffic
                .handle_packet(egress.due, egress.host, headers, ip_len);
            self.engine.release(egress);
        }
        self.traffic.handle_timeout(to);
        while let Some(packet) = self.traffic.poll_transmit() {
            let modelled = Modelled {
                to: packet.to,
                headers: packet.headers,
                ip_len: packet.ip_len,
            };
            self.engine
                .arrive_modelled(packet.host, packet.at, &modelled)
                .expect("a sound packet");
        }
    }
}

/// All hosts of a topology.
pub(crate) fn hosts(topology: &Topology) -> Vec<Host> {
    let host = |(node, it): (NodeId, &Node)| Host {
        node,
        ipv4: it.ipv4,
        ipv6: it.ipv6,
    };
    topology.hosts().map(host).collect()
}

/// A link of `mbit` million bits per second with `delay`, and room for `queue` bytes.
pub(crate) fn pipe(mbit: u64, delay: Span, queue: u64) -> PipeParams {
    PipeParams {
        rate: Rate::from_bits_per_s(mbit * 1_000_000),
        delay,
        queue: QueueLimit::Bytes(queue),
        ..PipeParams::default()
    }
}

/// `pairs` hosts called a000.. and as many called b000.., each on a link `access` to the first or
/// the last of the routers, which `links` join in a row.
pub(crate) fn dumbbell(pairs: usize, access: &PipeParams, links: &[PipeParams]) -> Topology {
    let mut nodes = Vec::new();
    let mut add = |name: String, kind| {
        let number = nodes.len() as u32 + 1;
        nodes.push(Node {
            name,
            kind,
            ipv4: Ipv4Addr::from_bits(0x0a00_0000 + number),
            ipv6: Ipv6Addr::from_bits((0xfd00 << 112) + u128::from(number)),
        });
    };
    let mut joints = Vec::new();
    for router in 0..=links.len() {
        add(format!("r{router:02}"), NodeKind::Router);
    }
    for (router, link) in links.iter().enumerate() {
        let ends = [format!("r{router:02}"), format!("r{:02}", router + 1)];
        joints.push(Link::new(&ends[0], &ends[1], link.clone()));
    }
    for pair in 0..pairs {
        for (side, router) in [("a", 0), ("b", links.len())] {
            let host = format!("{side}{pair:03}");
            joints.push(Link::new(&host, &format!("r{router:02}"), access.clone()));
            add(host, NodeKind::Host);
        }
    }
    Topology::new(nodes, joints).expect("a sound network")
}

/// The node called `name`.
pub(crate) fn node(topology: &Topology, name: &str) -> NodeId {
    topology.find(name).expect("a node of the network")
}

/// A flow from `from` to `to` that starts at t = 0.
pub(crate) fn flow(
    topology: &Topology,
    name: &str,
    [from, to]: [&str; 2],
    transport: Transport,
    application: Application,
) -> FlowSpec {
    FlowSpec {
        name: name.into(),
        from: node(topology, from),
        to: Peer::Model(node(topology, to)),
        transport,
        application,
        start: Time::ZERO,
        stop: None,
        series: false,
    }
}

/// TCP over IPv4 with `config`.
pub(crate) fn tcp(config: Config) -> Transport {
    Transport::Tcp(Arc::new(config), IpVersion::V4)
}
