//! Reading and writing IP headers (RFC 791, RFC 8200) and the checksum of what they carry.
//!
//! Left out: what IPv4 options and the options within IPv6 extension headers mean. A router
//! here neither records a route nor follows a source route.

use std::net::{Ipv4Addr, Ipv6Addr};

use longhaul_core::packet::{IPV4_LEN, IPV6_LEN, fold, ipv4_is_one_node, ipv6_is_one_node, sum16};

pub(crate) const PROTOCOL_ICMP: u8 = 1;
pub(crate) const PROTOCOL_TCP: u8 = 6;
pub(crate) const PROTOCOL_UDP: u8 = 17;
pub(crate) const PROTOCOL_ICMPV6: u8 = 58;
pub(crate) const NO_NEXT_HEADER: u8 = 59;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;

/// TTL and hop limit of packets that routers originate.
const HOP_LIMIT: u8 = 64;

/// An IPv4 packet whose header is sound.
pub(crate) struct V4<'a> {
    /// Header and payload, without what pads the frame.
    pub(crate) packet: &'a [u8],
    /// Length of the header, options included.
    pub(crate) header_len: usize,
}

impl<'a> V4<'a> {
    /// Reads the packet at the start of `ip`; `None` if it is truncated or its header checksum
    /// is wrong. A TTL of 0 is accepted: that is what Time Exceeded is about.
    pub(crate) fn read(ip: &'a [u8]) -> Option<Self> {
        let fixed = ip.first_chunk::<IPV4_LEN>()?;
        let header_len = usize::from(fixed[0] & 0x0f) * 4;
        let packet = ip.get(..usize::from(u16::from_be_bytes([fixed[2], fixed[3]])))?;
        let sound = fixed[0] >> 4 == 4
            && header_len >= IPV4_LEN
            && sum16(packet.get(..header_len)?) == 0xffff;
        sound.then_some(Self { packet, header_len })
    }

    pub(crate) fn source(&self) -> Ipv4Addr {
        self.address(12)
    }

    pub(crate) fn destination(&self) -> Ipv4Addr {
        self.address(16)
    }

    fn address(&self, at: usize) -> Ipv4Addr {
        let p = self.packet;
        Ipv4Addr::new(p[at], p[at + 1], p[at + 2], p[at + 3])
    }

    pub(crate) fn tos(&self) -> u8 {
        self.packet[1]
    }

    pub(crate) fn protocol(&self) -> u8 {
        self.packet[9]
    }

    /// Flags and fragment offset as in the header.
    pub(crate) fn fragment_field(&self) -> u16 {
        u16::from_be_bytes([self.packet[6], self.packet[7]])
    }

    /// True for any fragment but the first.
    pub(crate) fn is_later_fragment(&self) -> bool {
        self.fragment_field() & 0x1fff != 0
    }

    /// True for any fragment.
    pub(crate) fn is_fragment(&self) -> bool {
        self.fragment_field() & 0x3fff != 0
    }

    pub(crate) fn payload(&self) -> &'a [u8] {
        &self.packet[self.header_len..]
    }

    /// True if both ends are single nodes. Class E counts as no node (RFC 1122 §3.2.2).
    pub(crate) fn is_between_nodes(&self) -> bool {
        ipv4_is_one_node(self.source())
            && self.source().octets()[0] < 240
            && ipv4_is_one_node(self.destination())
    }

    /// The pseudo-header's sum for an upper-layer message of `len` bytes in this packet.
    pub(crate) fn pseudo_header(&self, len: usize) -> u64 {
        pseudo_header_v4(self.source(), self.destination(), self.protocol(), len)
    }
}

/// An IPv6 packet whose lengths are sound.
pub(crate) struct V6<'a> {
    /// Header and payload, without what pads the frame.
    pub(crate) packet: &'a [u8],
}

/// Which part of the original packet an IPv6 packet holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it (an atomic fragment is whole too, RFC 6946).
    Whole,
    /// A fragment that starts with the upper-layer header.
    First,
    /// A fragment without it.
    Later,
}

/// The upper layer behind an IPv6 packet's extension headers.
pub(crate) struct Upper<'a> {
    /// The protocol of `payload`.
    pub(crate) protocol: u8,
    /// Offset in the packet of the byte that names the protocol.
    pub(crate) named_at: usize,
    /// Offset in the packet of the type of a routing header that still has segments to visit.
    pub(crate) routing_type_at: Option<usize>,
    pub(crate) part: Part,
    pub(crate) payload: &'a [u8],
}

impl<'a> V6<'a> {
    /// Reads the packet at the start of `ip`; `None` if it is truncated.
    pub(crate) fn read(ip: &'a [u8]) -> Option<Self> {
        let fixed = ip.first_chunk::<IPV6_LEN>()?;
        let len = IPV6_LEN + usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
        let packet = ip.get(..len)?;
        (fixed[0] >> 4 == 6).then_some(Self { packet })
    }

    pub(crate) fn source(&self) -> Ipv6Addr {
        self.address(8)
    }

    pub(crate) fn destination(&self) -> Ipv6Addr {
        self.address(24)
    }

    fn address(&self, at: usize) -> Ipv6Addr {
        let mut octets = [0; 16];
        octets.copy_from_slice(&self.packet[at..at + 16]);
        Ipv6Addr::from(octets)
    }

    pub(crate) fn traffic_class(&self) -> u8 {
        self.packet[0] << 4 | self.packet[1] >> 4
    }

    /// True if both ends are single nodes.
    pub(crate) fn is_between_nodes(&self) -> bool {
        ipv6_is_one_node(self.source()) && ipv6_is_one_node(self.destination())
    }

    /// Walks the extension headers; `None` if they do not fit in the packet. A header that is
    /// not an extension header, or is where it may not be, counts as the upper layer.
    pub(crate) fn upper(&self) -> Option<Upper<'a>> {
        let (mut named_at, mut at) = (6, IPV6_LEN);
        let (mut part, mut routing_type_at) = (Part::Whole, None);
        loop {
            let protocol = self.packet[named_at];
            let payload = &self.packet[at..];
            let is_extension = match protocol {
                HOP_BY_HOP => at == IPV6_LEN,
                ROUTING | FRAGMENT | DESTINATION_OPTIONS => part != Part::Later,
                _ => false,
            };
            if !is_extension {
                return Some(Upper {
                    protocol,
                    named_at,
                    routing_type_at,
                    part,
                    payload,
                });
            }
            let header = payload.first_chunk::<8>()?;
            let mut len = (usize::from(header[1]) + 1) * 8;
            if protocol == FRAGMENT {
                len = 8;
                let field = u16::from_be_bytes([header[2], header[3]]);
                part = match (field >> 3, field & 1) {
                    (0, 0) => part,
                    (0, _) => Part::First,
                    _ => Part::Later,
                };
            } else if protocol == ROUTING && header[3] != 0 {
                routing_type_at = routing_type_at.or(Some(at + 2));
            }
            (named_at, at) = (at, at + len);
            if at > self.packet.len() {
                return None;
            }
        }
    }

    /// The pseudo-header's sum for an upper-layer message of `len` bytes in this packet.
    pub(crate) fn pseudo_header(&self, protocol: u8, len: usize) -> u64 {
        pseudo_header_v6(self.source(), self.destination(), protocol, len)
    }
}

/// The header of an IPv4 packet that a router originates.
pub(crate) struct HeaderV4 {
    pub(crate) tos: u8,
    pub(crate) identification: u16,
    pub(crate) protocol: u8,
    pub(crate) source: Ipv4Addr,
    pub(crate) destination: Ipv4Addr,
}

impl HeaderV4 {
    /// Writes the header into `out` and returns the room for `len` bytes of payload behind it;
    /// `None` if `out` is too small.
    pub(crate) fn write<'o>(&self, out: &'o mut [u8], len: usize) -> Option<&'o mut [u8]> {
        let total = u16::try_from(IPV4_LEN + len).ok()?;
        let (header, rest) = out.split_first_chunk_mut::<IPV4_LEN>()?;
        *header = [0; IPV4_LEN];
        header[0] = 0x45;
        header[1] = self.tos;
        header[2..4].copy_from_slice(&total.to_be_bytes());
        header[4..6].copy_from_slice(&self.identification.to_be_bytes());
        header[8] = HOP_LIMIT;
        header[9] = self.protocol;
        header[12..16].copy_from_slice(&self.source.octets());
        header[16..20].copy_from_slice(&self.destination.octets());
        let checksum = !sum16(header);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        rest.get_mut(..len)
    }

    /// The pseudo-header's sum for an upper-layer message of `len` bytes.
    pub(crate) fn pseudo_header(&self, len: usize) -> u64 {
        pseudo_header_v4(self.source, self.destination, self.protocol, len)
    }
}

/// The header of an IPv6 packet that a router originates.
pub(crate) struct HeaderV6 {
    pub(crate) traffic_class: u8,
    pub(crate) protocol: u8,
    pub(crate) source: Ipv6Addr,
    pub(crate) destination: Ipv6Addr,
}

impl HeaderV6 {
    /// Writes the header into `out` and returns the room for `len` bytes of payload behind it;
    /// `None` if `out` is too small.
    pub(crate) fn write<'o>(&self, out: &'o mut [u8], len: usize) -> Option<&'o mut [u8]> {
        let payload_len = u16::try_from(len).ok()?;
        let (header, rest) = out.split_first_chunk_mut::<IPV6_LEN>()?;
        *header = [0; IPV6_LEN];
        header[0] = 0x60 | self.traffic_class >> 4;
        header[1] = self.traffic_class << 4;
        header[4..6].copy_from_slice(&payload_len.to_be_bytes());
        header[6] = self.protocol;
        header[7] = HOP_LIMIT;
        header[8..24].copy_from_slice(&self.source.octets());
        header[24..40].copy_from_slice(&self.destination.octets());
        rest.get_mut(..len)
    }

    /// The pseudo-header's sum for an upper-layer message of `len` bytes.
    pub(crate) fn pseudo_header(&self, len: usize) -> u64 {
        pseudo_header_v6(self.source, self.destination, self.protocol, len)
    }
}

fn pseudo_header_v4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, len: usize) -> u64 {
    u64::from(source.to_bits())
        + u64::from(destination.to_bits())
        + u64::from(protocol)
        + len as u64
}

fn pseudo_header_v6(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, len: usize) -> u64 {
    let addresses = u64::from(sum16(&source.octets())) + u64::from(sum16(&destination.octets()));
    addresses + u64::from(protocol) + len as u64
}

/// The checksum field of a message whose field holds 0 (`pseudo_header` is 0 where there is
/// none).
pub(crate) fn checksum(pseudo_header: u64, message: &[u8]) -> u16 {
    !fold(pseudo_header + u64::from(sum16(message)))
}

/// True if the checksum within a message fits.
pub(crate) fn checksum_holds(pseudo_header: u64, message: &[u8]) -> bool {
    checksum(pseudo_header, message) == 0
}
