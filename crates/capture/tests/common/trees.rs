//! Filters as trees of a test's own: how they are written, and what they mean for a sketch.

use std::net::IpAddr;

use longhaul_core::witness::PacketEvent;
use proptest::prelude::*;
use proptest::sample::select;

use super::frames::{Network, Sketch, ipv4, ipv6, port};

#[derive(Debug, Clone)]
pub(crate) enum Tree {
    Leaf(Leaf),
    /// With the sign or the word.
    Not(bool, Box<Tree>),
    And(bool, Box<[Tree; 2]>),
    Or(bool, Box<[Tree; 2]>),
}

#[derive(Debug, Clone)]
pub(crate) enum Leaf {
    Protocol(&'static str),
    /// End, address, whether the kind of IP is named.
    Host(&'static str, IpAddr, bool),
    Net(&'static str, IpAddr, u32, bool),
    /// Protocol, end, first and last port.
    Port(&'static str, &'static str, [u16; 2]),
    Less(usize),
    Greater(usize),
    Dropped(Option<(&'static str, PacketEvent)>),
}

/// What a tree is asked about.
pub(crate) struct Seen<'a> {
    pub(crate) sketch: &'a Sketch,
    pub(crate) len: usize,
    pub(crate) fate: PacketEvent,
}

impl Tree {
    /// As a person writes it: groups only where they change the meaning.
    pub(crate) fn text(&self) -> String {
        let grouped = |tree: &Self| match tree {
            Self::And(..) | Self::Or(..) => format!("({})", tree.text()),
            _ => tree.text(),
        };
        match self {
            Self::Leaf(leaf) => leaf.text(),
            Self::Not(true, tree) => format!("!{}", grouped(tree)),
            Self::Not(false, tree) => format!("not {}", grouped(tree)),
            Self::And(sign, ends) => {
                let join = if *sign { "&&" } else { "and" };
                format!("{} {join} {}", ends[0].text(), grouped(&ends[1]))
            }
            Self::Or(sign, ends) => {
                let join = if *sign { "||" } else { "or" };
                format!("{} {join} {}", ends[0].text(), grouped(&ends[1]))
            }
        }
    }

    pub(crate) fn matches(&self, seen: &Seen<'_>) -> bool {
        match self {
            Self::Leaf(leaf) => leaf.matches(seen),
            Self::Not(_, tree) => !tree.matches(seen),
            Self::And(_, ends) => ends.iter().all(|tree| tree.matches(seen)),
            Self::Or(_, ends) => ends.iter().any(|tree| tree.matches(seen)),
        }
    }
}

fn ip(address: IpAddr, named: bool) -> &'static str {
    match address {
        _ if !named => "",
        IpAddr::V4(_) => "ip ",
        IpAddr::V6(_) => "ip6 ",
    }
}

/// The bits of an address as a text of zeros and ones.
fn bits(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => format!("{:032b}", address.to_bits()),
        IpAddr::V6(address) => format!("{:0128b}", address.to_bits()),
    }
}

/// The first bits of an address, and zeros.
fn cut(address: IpAddr, len: u32) -> IpAddr {
    let bits = bits(address);
    let all = bits.len();
    let bits = format!("{:0<all$}", &bits[..len as usize]);
    match address {
        IpAddr::V4(_) => IpAddr::from(u32::from_str_radix(&bits, 2).unwrap().to_be_bytes()),
        IpAddr::V6(_) => IpAddr::from(u128::from_str_radix(&bits, 2).unwrap().to_be_bytes()),
    }
}

impl Leaf {
    fn text(&self) -> String {
        match self {
            Self::Protocol(name) => (*name).to_owned(),
            Self::Host(end, address, named) => {
                format!("{}{end}host {address}", ip(*address, *named))
            }
            Self::Net(end, address, len, named) => {
                let net = cut(*address, *len);
                format!("{}{end}net {net}/{len}", ip(*address, *named))
            }
            Self::Port(protocol, end, [first, last]) if first == last => {
                format!("{protocol}{end}port {first}")
            }
            Self::Port(protocol, end, [first, last]) => {
                format!("{protocol}{end}portrange {first}-{last}")
            }
            Self::Less(len) => format!("less {len}"),
            Self::Greater(len) => format!("greater {len}"),
            Self::Dropped(None) => "dropped".to_owned(),
            Self::Dropped(Some((name, _))) => format!("dropped {name}"),
        }
    }

    fn matches(&self, seen: &Seen<'_>) -> bool {
        let sketch = seen.sketch;
        let v4 = matches!(sketch.network, Network::Ipv4 { .. });
        let v6 = matches!(sketch.network, Network::Ipv6 { .. });
        let is = |name: &str| match name.trim() {
            "ip" => v4,
            "ip6" => v6,
            "arp" => matches!(sketch.network, Network::Arp { .. }),
            "tcp" => (v4 || v6) && sketch.protocol == 6,
            "udp" => (v4 || v6) && sketch.protocol == 17,
            "icmp" => v4 && sketch.protocol == 1,
            "icmp6" => v6 && sketch.protocol == 58,
            _ => true,
        };
        match self {
            Self::Protocol(name) => is(name),
            Self::Host(end, address, named) => {
                let ends = sketch.addresses();
                is(ip(*address, *named))
                    && ends.is_some_and(|ends| has_end(end, ends, |a| a == *address))
            }
            Self::Net(end, address, len, named) => {
                let net = bits(*address);
                let within = |a: IpAddr| {
                    let a = bits(a);
                    a.len() == net.len() && a[..*len as usize] == net[..*len as usize]
                };
                let ends = sketch.addresses();
                is(ip(*address, *named)) && ends.is_some_and(|ends| has_end(end, ends, within))
            }
            Self::Port(protocol, end, [first, last]) => {
                let has = (v4 || v6)
                    && [6, 17, 132].contains(&sketch.protocol)
                    && !sketch.is_later_fragment();
                let within = |port| *first <= port && port <= *last;
                has && is(protocol) && has_end(end, sketch.ports, within)
            }
            Self::Less(len) => seen.len <= *len,
            Self::Greater(len) => seen.len >= *len,
            Self::Dropped(Some((_, fate))) => seen.fate == *fate,
            Self::Dropped(None) => DROPS.iter().any(|(_, fate)| seen.fate == *fate),
        }
    }
}

fn has_end<T>(end: &str, [source, destination]: [T; 2], is: impl Fn(T) -> bool) -> bool {
    match end {
        "src " => is(source),
        "dst " => is(destination),
        _ => is(source) || is(destination),
    }
}

pub(crate) const DROPS: [(&str, PacketEvent); 8] = [
    ("queue", PacketEvent::Queue),
    ("loss", PacketEvent::Loss),
    ("link_down", PacketEvent::LinkDown),
    ("hop_limit", PacketEvent::HopLimit),
    ("no_route", PacketEvent::NoRoute),
    ("too_big", PacketEvent::TooBig),
    ("misdelivered", PacketEvent::Misdelivered),
    ("absorbed", PacketEvent::Absorbed),
];

pub(crate) fn fate() -> impl Strategy<Value = PacketEvent> {
    let others = [
        PacketEvent::In,
        PacketEvent::Out,
        PacketEvent::Delivered,
        PacketEvent::Marked,
    ];
    let all = DROPS.iter().map(|(_, fate)| *fate).chain(others);
    select(all.collect::<Vec<_>>())
}

/// Any filter; with `shared`, one that pcap-filter knows too.
pub(crate) fn tree(shared: bool) -> impl Strategy<Value = Tree> {
    leaf(shared)
        .prop_map(Tree::Leaf)
        .prop_recursive(5, 24, 2, |inner| {
            let two = [inner.clone(), inner.clone()].prop_map(Box::new);
            prop_oneof![
                1 => (any::<bool>(), inner).prop_map(|(sign, tree)| Tree::Not(sign, tree.into())),
                2 => (any::<bool>(), two.clone()).prop_map(|(sign, two)| Tree::And(sign, two)),
                2 => (any::<bool>(), two).prop_map(|(sign, two)| Tree::Or(sign, two)),
            ]
        })
}

fn leaf(shared: bool) -> impl Strategy<Value = Leaf> {
    let end = || select(vec!["", "src ", "dst "]);
    let address = || prop_oneof![ipv4().prop_map(IpAddr::from), ipv6().prop_map(IpAddr::from)];
    let net = (address(), 0..129u32).prop_map(|(address, len)| match address {
        IpAddr::V4(_) => (address, len % 33),
        IpAddr::V6(_) => (address, len),
    });
    let protocols = vec!["ip", "ip6", "arp", "tcp", "udp", "icmp", "icmp6"];
    let ports = [port(), port()].prop_map(|[a, b]| [a.min(b), a.max(b)]);
    let one = port().prop_map(|port| [port, port]);
    let cause = prop::option::of(select(DROPS.to_vec()));
    prop_oneof![
        3 => select(protocols).prop_map(Leaf::Protocol),
        3 => (end(), address(), any::<bool>()).prop_map(|(end, a, named)| Leaf::Host(end, a, named)),
        2 => (end(), net, any::<bool>())
            .prop_map(|(end, (address, len), named)| Leaf::Net(end, address, len, named)),
        3 => (select(vec!["", "tcp ", "udp "]), end(), prop_oneof![one, ports])
            .prop_map(|(protocol, end, ports)| Leaf::Port(protocol, end, ports)),
        1 => (40..200usize).prop_map(Leaf::Less),
        1 => (40..200usize).prop_map(Leaf::Greater),
        if shared { 0 } else { 2 } => cause.prop_map(Leaf::Dropped),
    ]
}
