//! Small networks for tests.

#![allow(dead_code)] // each test file uses a part

pub(crate) mod walk;

use std::net::{Ipv4Addr, Ipv6Addr};

use longhaul_core::topology::{Balance, Link, Node, NodeKind, PipeParams};
use longhaul_core::units::Rate;
use longhaul_core::{NodeId, Span, Topology};
use proptest::prelude::*;

/// A link before there is a network.
#[derive(Debug, Clone)]
pub(crate) struct Wire {
    pub(crate) ends: [String; 2],
    pub(crate) delay_us: [u64; 2],
    /// In Mbit/s; 0 is unlimited.
    pub(crate) rate: [u64; 2],
    pub(crate) balance: Balance,
}

pub(crate) fn wire(a: &str, b: &str, delay_us: u64) -> Wire {
    Wire {
        ends: [a.to_owned(), b.to_owned()],
        delay_us: [delay_us; 2],
        rate: [100; 2],
        balance: Balance::First,
    }
}

/// Names that start with `h` are hosts, with `l` lans, others routers.
pub(crate) fn network(names: &[String], wires: &[Wire]) -> Topology {
    let node = |(name, n): (&String, u32)| Node {
        name: name.clone(),
        kind: match name.as_bytes()[0] {
            b'h' => NodeKind::Host,
            b'l' => NodeKind::Lan,
            _ => NodeKind::Router,
        },
        ipv4: Ipv4Addr::from(0x0a00_0001 + n),
        ipv6: Ipv6Addr::from(0xfd00 << 112 | u128::from(n)),
    };
    let link = |(wire, n): (&Wire, usize)| {
        let [a, b] = &wire.ends;
        let params = |way: usize| PipeParams {
            delay: Span::from_us(wire.delay_us[way]),
            rate: Rate::from_bits_per_s(wire.rate[way] * 1_000_000),
            ..PipeParams::default()
        };
        Link {
            name: format!("{a}-{b}#{n}"),
            ends: wire.ends.clone(),
            pipe_names: [format!("{a}>{b}#{n}"), format!("{b}>{a}#{n}")],
            mtu: 1500,
            balance: wire.balance,
            params: [params(0).into(), params(1).into()],
        }
    };
    let nodes = names.iter().zip(0..).map(node).collect();
    let links = wires.iter().zip(0..).map(link).collect();
    Topology::new(nodes, links).expect("a network")
}

/// A network by its links: all nodes that they name.
pub(crate) fn wired(wires: &[Wire]) -> Topology {
    let mut names: Vec<String> = wires.iter().flat_map(|wire| wire.ends.clone()).collect();
    names.sort();
    names.dedup();
    network(&names, wires)
}

pub(crate) fn hosts(topology: &Topology) -> Vec<NodeId> {
    topology.hosts().map(|(id, _)| id).collect()
}

/// The same where no routes share packets.
pub(crate) fn any_network_of_trees() -> impl Strategy<Value = Topology> {
    any_wires().prop_map(|mut wires| {
        for wire in &mut wires {
            wire.balance = Balance::First;
        }
        wired(&wires)
    })
}

pub(crate) fn any_network() -> impl Strategy<Value = Topology> {
    any_wires().prop_map(|wires| wired(&wires))
}

/// Routers in a connected random graph, hosts at them by one link or two, and pairs of hosts that
/// are joined directly. Few different delays, so that many paths are equally long.
fn any_wires() -> impl Strategy<Value = Vec<Wire>> {
    let link = (0..1000usize, 0..1000usize, 0..4u64, 0..3u64, 0..3u8);
    let parts = (
        1..7usize,
        prop::collection::vec(link.clone(), 0..8),
        prop::collection::vec(link, 2..9),
        prop::collection::vec(any::<bool>(), 9),
    );
    parts.prop_map(|(routers, more, access, twice)| {
        let mut wires = Vec::new();
        let mut join = |a: String, b: String, delay: u64, rate: u64, balance: u8| {
            wires.push(Wire {
                ends: [a, b],
                delay_us: [delay, (delay + u64::from(balance == 2)) % 4],
                rate: [rate * 10, rate * 5],
                balance: match balance {
                    0 => Balance::First,
                    _ => Balance::Flow,
                },
            });
        };
        for router in 1..routers {
            let (a, _, delay, rate, balance) = *more.get(router).unwrap_or(&(7, 0, 1, 1, 1));
            join(
                format!("r{}", a % router),
                format!("r{router}"),
                delay,
                rate,
                balance,
            );
        }
        for &(a, b, delay, rate, balance) in &more {
            let (a, b) = (a % routers, b % routers);
            if a != b {
                join(format!("r{a}"), format!("r{b}"), delay, rate, balance);
            }
        }
        for (n, &(a, b, delay, rate, balance)) in access.iter().enumerate() {
            join(
                format!("h{n}"),
                format!("r{}", a % routers),
                delay,
                rate,
                balance,
            );
            if twice[n] && a % routers != b % routers {
                join(
                    format!("h{n}"),
                    format!("r{}", b % routers),
                    delay,
                    rate,
                    balance,
                );
            }
        }
        wires
    })
}
