//! Which packets to record: the part of the pcap-filter language that an IP network needs, and
//! what became of the packet.
//!
//! Theory: pcap-filter(7). `not` binds most tightly; `and` and `or` bind equally and from left to
//! right, so a filter is a tree of chains, and evaluating one is a walk along them. Where the
//! language reads further than pcap-filter's, docs/captures.md says so.
//!
//! Bounds. A filter has at most [`ELEMENTS_MAX`] tests, negations and groups, nested at most
//! [`DEPTH_MAX`] deep. It reads at most the first [`READ_MAX`] bytes of a frame, allocates nothing,
//! and a test of a field that is absent does not match.
//!
//! Left out: arithmetic on packet bytes, link-layer addresses, VLAN numbers, names of services.

mod error;
mod headers;
mod parse;
mod token;

use std::fmt;
use std::net::IpAddr;

use longhaul_core::witness::PacketEvent;

use crate::drops::drop_name;
use crate::packet::Packet;
pub use error::FilterError;
use headers::{Headers, Network};

/// Tests, negations and groups in a filter.
pub const ELEMENTS_MAX: usize = 512;
/// Groups and negations within one another.
pub const DEPTH_MAX: usize = 32;
/// Bytes of a filter's text; more than any filter takes that [`fmt::Display`] writes.
pub const TEXT_MAX: usize = 32 * 1024;
/// Bytes of a frame that filters read: Ethernet, two VLAN tags, 190 bytes of IPv6 extension
/// headers, ports.
pub const READ_MAX: usize = 256;

/// A filter; the empty one matches every packet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    chain: Chain,
}

/// Terms from left to right, each joined to all before it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Chain(Vec<(Join, Term)>);

/// The first term of a chain is joined by `And`: nothing is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Join {
    And,
    Or,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Term {
    Not(Box<Term>),
    Group(Chain),
    Test(Test),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Test {
    Protocol(Protocol),
    Address(End, Net),
    Port(End, [u16; 2]),
    /// At most this many bytes.
    Less(u32),
    /// At least this many bytes.
    Greater(u32),
    Dropped(Option<PacketEvent>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Ip,
    Ip6,
    Arp,
    Tcp,
    Udp,
    Icmp,
    Icmp6,
}

const PROTOCOLS: [(&str, Protocol); 7] = [
    ("ip", Protocol::Ip),
    ("ip6", Protocol::Ip6),
    ("arp", Protocol::Arp),
    ("tcp", Protocol::Tcp),
    ("udp", Protocol::Udp),
    ("icmp", Protocol::Icmp),
    ("icmp6", Protocol::Icmp6),
];

/// Which end of a conversation is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Source,
    Destination,
    Either,
}

/// The addresses that share their first bits with one; of a host, all bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Net {
    address: IpAddr,
    len: u32,
}

impl Filter {
    /// Reads a filter. `resolve` gives the addresses of a host by its name, or says what else
    /// may have been meant.
    ///
    /// # Errors
    /// What is wrong, where, and what to write instead.
    pub fn parse(
        text: &str,
        resolve: &dyn Fn(&str) -> Result<Vec<IpAddr>, String>,
    ) -> Result<Self, FilterError> {
        parse::parse(text, resolve).map(|chain| Self { chain })
    }

    /// Whether a packet is to be recorded.
    pub fn matches(&self, packet: &Packet<'_>) -> bool {
        let frame = &packet.frame[..packet.frame.len().min(READ_MAX)];
        self.chain.matches(&Headers::read(frame), packet)
    }
}

impl Chain {
    fn matches(&self, headers: &Headers, packet: &Packet<'_>) -> bool {
        let mut so_far = true;
        for (join, term) in &self.0 {
            so_far = match join {
                Join::And => so_far && term.matches(headers, packet),
                Join::Or => so_far || term.matches(headers, packet),
            };
        }
        so_far
    }
}

impl Term {
    fn matches(&self, headers: &Headers, packet: &Packet<'_>) -> bool {
        match self {
            Self::Not(term) => !term.matches(headers, packet),
            Self::Group(chain) => chain.matches(headers, packet),
            Self::Test(test) => test.matches(headers, packet),
        }
    }
}

impl Test {
    fn matches(&self, headers: &Headers, packet: &Packet<'_>) -> bool {
        match *self {
            Self::Protocol(protocol) => protocol.matches(headers),
            Self::Address(end, net) => end.has(headers.addresses, |address| net.has(address)),
            Self::Port(end, [first, last]) => {
                end.has(headers.ports, |port| (first..=last).contains(&port))
            }
            Self::Less(len) => packet.len <= len as usize,
            Self::Greater(len) => packet.len >= len as usize,
            Self::Dropped(None) => drop_name(packet.fate).is_some(),
            Self::Dropped(Some(fate)) => packet.fate == fate,
        }
    }
}

impl Protocol {
    fn matches(self, headers: &Headers) -> bool {
        let carries = |protocol| headers.protocol == Some(protocol);
        match self {
            Self::Ip => headers.network == Network::Ipv4,
            Self::Ip6 => headers.network == Network::Ipv6,
            Self::Arp => headers.network == Network::Arp,
            Self::Tcp => carries(headers::TCP),
            Self::Udp => carries(headers::UDP),
            Self::Icmp => headers.network == Network::Ipv4 && carries(headers::ICMP),
            Self::Icmp6 => headers.network == Network::Ipv6 && carries(headers::ICMP6),
        }
    }

    fn of(word: &str) -> Option<Self> {
        let named = PROTOCOLS.iter().find(|(name, _)| *name == word);
        named.map(|(_, protocol)| *protocol)
    }

    fn name(self) -> &'static str {
        let named = PROTOCOLS.iter().find(|(_, protocol)| *protocol == self);
        named.map_or("", |(name, _)| name)
    }
}

impl End {
    /// Whether the end in question, of source and destination, is wanted.
    fn has<T>(self, ends: Option<[T; 2]>, wanted: impl Fn(T) -> bool) -> bool {
        let Some([source, destination]) = ends else {
            return false;
        };
        match self {
            Self::Source => wanted(source),
            Self::Destination => wanted(destination),
            Self::Either => wanted(source) || wanted(destination),
        }
    }
}

impl Net {
    fn host(address: IpAddr) -> Self {
        let len = Self::bits(address);
        Self { address, len }
    }

    fn bits(address: IpAddr) -> u32 {
        if address.is_ipv4() { 32 } else { 128 }
    }

    /// The net of the first `len` bits of an address.
    fn around(address: IpAddr, len: u32) -> Self {
        let address = match address {
            IpAddr::V4(address) => {
                // Length 0 would shift by the full width: its mask is empty, and holds all.
                let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
                IpAddr::V4((address.to_bits() & mask).into())
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - len).unwrap_or(0);
                IpAddr::V6((address.to_bits() & mask).into())
            }
        };
        Self { address, len }
    }

    fn has(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && Self::around(address, self.len) == self
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.chain.fmt(f)
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (join, term)) in self.0.iter().enumerate() {
            match (index, join) {
                (0, _) => {}
                (_, Join::And) => f.write_str(" and ")?,
                (_, Join::Or) => f.write_str(" or ")?,
            }
            term.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Not(term) => write!(f, "not {term}"),
            Self::Group(chain) => write!(f, "({chain})"),
            Self::Test(test) => test.fmt(f),
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Protocol(protocol) => f.write_str(protocol.name()),
            Self::Address(end, Net { address, len }) if len == Net::bits(address) => {
                write!(f, "{end}host {address}")
            }
            Self::Address(end, Net { address, len }) => write!(f, "{end}net {address}/{len}"),
            Self::Port(end, [first, last]) if first == last => write!(f, "{end}port {first}"),
            Self::Port(end, [first, last]) => write!(f, "{end}portrange {first}-{last}"),
            Self::Less(len) => write!(f, "less {len}"),
            Self::Greater(len) => write!(f, "greater {len}"),
            Self::Dropped(None) => f.write_str("dropped"),
            Self::Dropped(Some(fate)) => {
                write!(f, "dropped {}", drop_name(fate).unwrap_or_default())
            }
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Source => "src ",
            Self::Destination => "dst ",
            Self::Either => "",
        })
    }
}
