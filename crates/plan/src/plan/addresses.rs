//! Addresses: one IPv4 and one IPv6 address for every host and router; lans have none.
//!
//! Hosts are numbered from 10.0.0.1 and fd6c:6f6e:6768::1, routers from 10.128.0.1 and
//! fd6c:6f6e:6768:1::1, in the natural order of their names; last bytes 0 and 255 are skipped,
//! since some programs take them for networks and broadcasts. An `address:` of the file takes
//! precedence, and automatic addresses skip it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use longhaul_core::topology::{Node, NodeKind};

use super::nodes::Nodes;
use crate::file::spec::{NodeSpec, TopologySpec};
use crate::file::wrap::At;
use crate::text::error::{Faults, Pos, shown};

/// The first automatic IPv4 addresses: of hosts (10.0.0.0/9) and of routers (10.128.0.0/9).
const IPV4: [u32; 2] = [0x0a00_0000, 0x0a80_0000];
/// The automatic IPv6 networks, /64 each, within a unique local prefix (RFC 4193).
const IPV6: [u128; 2] = [0xfd6c_6f6e_6768_0000 << 64, 0xfd6c_6f6e_6768_0001 << 64];

/// The addresses that the file gives: by its entries, and by address the node that has it.
#[derive(Default)]
struct Given {
    of_entry: HashMap<usize, (Option<Ipv4Addr>, Option<Ipv6Addr>)>,
    taken: HashMap<IpAddr, String>,
}

/// Gives every node its addresses. Problems go to `faults`; every node gets an address even then.
pub(crate) fn assign(spec: &TopologySpec, nodes: &Nodes, faults: &mut Faults) -> Vec<Node> {
    let mut given = Given::default();
    for (entry, (name, node)) in spec.nodes.0.iter().enumerate() {
        if let Some(node) = &node.0 {
            given.read(entry, &name.value, node, faults);
        }
    }
    let mut next = [Next::default(), Next::default()];
    let nodes = nodes.list.iter().map(|node| {
        if node.kind == NodeKind::Lan {
            return Node {
                name: node.name.clone(),
                kind: node.kind,
                ipv4: Ipv4Addr::UNSPECIFIED,
                ipv6: Ipv6Addr::UNSPECIFIED,
            };
        }
        let side = usize::from(node.kind == NodeKind::Router);
        let (ipv4, ipv6) = given.of_entry.get(&node.entry).copied().unwrap_or_default();
        Node {
            name: node.name.clone(),
            kind: node.kind,
            ipv4: ipv4.unwrap_or_else(|| next[side].ipv4(side, &given.taken)),
            ipv6: ipv6.unwrap_or_else(|| next[side].ipv6(side, &given.taken)),
        }
    });
    nodes.collect()
}

/// The last automatic numbers given.
#[derive(Default)]
struct Next {
    ipv4: u32,
    ipv6: u128,
}

impl Next {
    /// Always finds one: each side has 2^23 addresses, and nodes are at most 2,000,000 in all.
    fn ipv4(&mut self, side: usize, taken: &HashMap<IpAddr, String>) -> Ipv4Addr {
        loop {
            self.ipv4 += 1;
            let address = Ipv4Addr::from_bits(IPV4[side] + self.ipv4);
            let last = self.ipv4 & 0xff;
            if last != 0 && last != 255 && !taken.contains_key(&IpAddr::V4(address)) {
                return address;
            }
        }
    }

    fn ipv6(&mut self, side: usize, taken: &HashMap<IpAddr, String>) -> Ipv6Addr {
        loop {
            self.ipv6 += 1;
            let address = Ipv6Addr::from_bits(IPV6[side] + self.ipv6);
            if !taken.contains_key(&IpAddr::V6(address)) {
                return address;
            }
        }
    }
}

impl Given {
    fn read(&mut self, entry: usize, name: &str, node: &NodeSpec, faults: &mut Faults) {
        let Some(first) = node.address.items.first() else {
            return;
        };
        if let Some(count) = &node.count {
            let message = format!("`{}` is a group of {} nodes", shown(name), count.value);
            let hint = "remove `address`: members get theirs automatically; or write single nodes";
            return faults.add(first.at, message, hint);
        }
        let mut own = (None, None);
        for text in &node.address.items {
            let Some(address) = parse(text, faults) else {
                continue;
            };
            if let Some(other) = self.taken.insert(address, name.to_owned()) {
                let message = format!("{address} is already the address of `{}`", shown(&other));
                faults.add(text.at, message, "give every node an address of its own");
            }
            let second = match address {
                IpAddr::V4(address) => own.0.replace(address).is_some(),
                IpAddr::V6(address) => own.1.replace(address).is_some(),
            };
            if second {
                let version = if address.is_ipv4() { "IPv4" } else { "IPv6" };
                let message = format!("`{}` has two {version} addresses", shown(name));
                faults.add(text.at, message, "a node has one of each; remove one");
            }
        }
        self.of_entry.insert(entry, own);
    }
}

fn parse(text: &At<String>, faults: &mut Faults) -> Option<IpAddr> {
    let At { at, value } = text;
    let refuse = |at: Pos, message: String, faults: &mut Faults| {
        faults.add(
            at,
            message,
            "write it like `10.1.2.3` or `fd00::3`, or leave it out",
        );
        None
    };
    let Ok(address) = value.parse::<IpAddr>() else {
        let prefix = value
            .split_once('/')
            .is_some_and(|(front, _)| front.parse::<IpAddr>().is_ok());
        let why = if prefix {
            " (without the prefix length it would be)"
        } else {
            ""
        };
        return refuse(
            *at,
            format!("`{}` is not an address{why}", shown(value)),
            faults,
        );
    };
    match reserved(address) {
        None => Some(address),
        Some(purpose) => refuse(*at, format!("{address} is reserved: {purpose}"), faults),
    }
}

/// Why no node can have an address; `None` where one can.
fn reserved(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => match address.octets() {
            [0, ..] => Some("it means this network"),
            [127, ..] => Some("it is a loopback address"),
            [169, 254, ..] => Some("it is a link-local address"),
            [224..=239, ..] => Some("it is a multicast address"),
            [240..=255, ..] => Some("it is reserved for future use or broadcast"),
            _ => None,
        },
        IpAddr::V6(address) => match address.segments() {
            [0, 0, 0, 0, 0, 0, 0, 0] => Some("it is the unspecified address"),
            [0, 0, 0, 0, 0, 0, 0, 1] => Some("it is the loopback address"),
            [0, 0, 0, 0, 0, 0xffff, ..] => Some("it is an IPv4 address within IPv6"),
            [0xfe80..=0xfebf, ..] => Some("it is a link-local address"),
            [0xff00..=0xffff, ..] => Some("it is a multicast address"),
            _ => None,
        },
    }
}
