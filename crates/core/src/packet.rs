//! Just enough of a frame's headers to carry it: where it goes, how far, how large.
//!
//! Frames are Ethernet frames as a host's interface emits them, without FCS. Everything here
//! takes hostile bytes: a frame is parsed once, at the ingress, and what does not parse is refused
//! with its reason and never enters.
//!
//! Theory: RFC 791 and RFC 8200 for the headers, RFC 1071 and RFC 1624 for the checksum,
//! RFC 1812 §5.2.2 and §5.3.7 for what a router must refuse.
//!
//! Left out: VLAN tags and everything that is not IP (refused), IPv6 jumbograms (refused),
//! what IPv4 options and IPv6 extension headers mean (carried unread).

mod flow;

use std::net::{Ipv4Addr, Ipv6Addr};

pub use flow::{FlowKey, flow_hash};

/// Length of an Ethernet header.
pub const ETHERNET_LEN: usize = 14;
/// EtherType of IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
/// Length of an IPv4 header without options.
pub const IPV4_LEN: usize = 20;
/// Length of an IPv6 header without extensions.
pub const IPV6_LEN: usize = 40;

const IPV4_DF: u16 = 0x4000;
const IPV4_MORE: u16 = 0x2000;
const IPV4_OFFSET: u16 = 0x1fff;
const IPV6_HOP_BY_HOP: u8 = 0;

/// An Ethernet address.
pub type Mac = [u8; 6];
/// The Ethernet address of all stations.
pub const BROADCAST_MAC: Mac = [0xff; 6];

/// The destination of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// IPv4.
    V4(Ipv4Addr),
    /// IPv6.
    V6(Ipv6Addr),
    /// A multicast group, or all (the limited broadcast).
    Group,
}

/// What forwarding needs to know of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers {
    /// Where it goes; of [`parse`] never a group.
    pub destination: Destination,
    /// TTL or hop limit as in the frame.
    pub hop_limit: u8,
    /// Length of the IP packet; the frame is cut to `ETHERNET_LEN + ip_len` (padding dropped).
    pub ip_len: u32,
    /// True where a router may split the packet (IPv4 without DF).
    pub may_fragment: bool,
}

/// Why a frame does not enter the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// Truncated, wrong version, lengths that contradict one another, a broken header checksum,
    /// no hops left, a source or destination that no packet on a network may have.
    Malformed,
    /// Neither IPv4 nor IPv6 (ARP and the like).
    NotIp,
    /// Sent to a multicast or broadcast address, at either layer, where none is carried.
    Multicast,
}

/// Reads the headers of a frame for one node.
#[inline]
pub fn parse(frame: &[u8]) -> Result<Headers, FrameError> {
    let headers = parse_any(frame)?;
    match headers.destination {
        Destination::Group => Err(FrameError::Multicast),
        _ => Ok(headers),
    }
}

/// Reads the headers of a frame for one node or for a group. A frame for a group may have no
/// source yet (0.0.0.0 or ::, as of DHCP and MLD); a group of stations that is to hear a packet
/// for one node is refused ([`FrameError::Multicast`]; RFC 1122 §3.3.6).
#[inline]
pub fn parse_any(frame: &[u8]) -> Result<Headers, FrameError> {
    let Some((ethernet, ip)) = frame.split_first_chunk::<ETHERNET_LEN>() else {
        return Err(FrameError::Malformed);
    };
    let to_group = ethernet[0] & 1 == 1;
    if ethernet[6] & 1 == 1 {
        return Err(FrameError::Malformed); // no station is a group
    }
    match u16::from_be_bytes([ethernet[12], ethernet[13]]) {
        ETHERTYPE_IPV4 => parse_ipv4(ip, to_group),
        ETHERTYPE_IPV6 => parse_ipv6(ip, to_group),
        _ => Err(FrameError::NotIp),
    }
}

/// The source address of a frame whose headers have been parsed before; `None` where it is too
/// short for one.
pub fn source(frame: &[u8]) -> Option<Destination> {
    let (ethernet, ip) = frame.split_first_chunk::<ETHERNET_LEN>()?;
    match u16::from_be_bytes([ethernet[12], ethernet[13]]) {
        ETHERTYPE_IPV4 => {
            let octets: [u8; 4] = ip.get(12..16)?.try_into().ok()?;
            Some(Destination::V4(octets.into()))
        }
        ETHERTYPE_IPV6 => {
            let octets: [u8; 16] = ip.get(8..24)?.try_into().ok()?;
            Some(Destination::V6(octets.into()))
        }
        _ => None,
    }
}

#[inline]
fn parse_ipv4(ip: &[u8], to_group: bool) -> Result<Headers, FrameError> {
    let Some(fixed) = ip.first_chunk::<IPV4_LEN>() else {
        return Err(FrameError::Malformed);
    };
    let header_len = usize::from(fixed[0] & 0x0f) * 4;
    let ip_len = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    if fixed[0] >> 4 != 4 || header_len < IPV4_LEN || ip_len < header_len || ip_len > ip.len() {
        return Err(FrameError::Malformed);
    }
    let sound = if header_len == IPV4_LEN {
        sum16(fixed) == 0xffff // of known length: the common case is a handful of additions
    } else {
        sum16(&ip[..header_len]) == 0xffff && options_are_sound(&ip[IPV4_LEN..header_len])
    };
    let fragment = u16::from_be_bytes([fixed[6], fixed[7]]);
    let end = usize::from(fragment & IPV4_OFFSET) * 8 + ip_len - header_len;
    if !sound || end + IPV4_LEN > usize::from(u16::MAX) {
        return Err(FrameError::Malformed);
    }
    let source = Ipv4Addr::new(fixed[12], fixed[13], fixed[14], fixed[15]);
    let destination = Ipv4Addr::new(fixed[16], fixed[17], fixed[18], fixed[19]);
    let hop_limit = fixed[8];
    let destination = if destination.is_multicast() || destination.is_broadcast() {
        if hop_limit == 0 || !(ipv4_is_one_node(source) || source.is_unspecified()) {
            return Err(FrameError::Malformed);
        }
        Destination::Group
    } else if to_group {
        return Err(FrameError::Multicast);
    } else if hop_limit == 0 || !ipv4_is_one_node(source) || !ipv4_is_one_node(destination) {
        return Err(FrameError::Malformed);
    } else {
        Destination::V4(destination)
    };
    Ok(Headers {
        destination,
        hop_limit,
        ip_len: ip_len as u32,
        may_fragment: fragment & IPV4_DF == 0,
    })
}

#[inline]
fn parse_ipv6(ip: &[u8], to_group: bool) -> Result<Headers, FrameError> {
    let Some(fixed) = ip.first_chunk::<IPV6_LEN>() else {
        return Err(FrameError::Malformed);
    };
    let payload_len = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    let ip_len = IPV6_LEN + payload_len;
    // A payload length of 0 before a hop-by-hop header announces a jumbogram (RFC 2675).
    let jumbogram = payload_len == 0 && fixed[6] == IPV6_HOP_BY_HOP;
    if fixed[0] >> 4 != 6 || ip_len > ip.len() || jumbogram {
        return Err(FrameError::Malformed);
    }
    let source = ipv6_address(fixed, 8);
    let destination = ipv6_address(fixed, 24);
    let hop_limit = fixed[7];
    let destination = if destination.is_multicast() {
        if hop_limit == 0 || !(ipv6_is_one_node(source) || source.is_unspecified()) {
            return Err(FrameError::Malformed);
        }
        Destination::Group
    } else if to_group {
        return Err(FrameError::Multicast);
    } else if hop_limit == 0 || !ipv6_is_one_node(source) || !ipv6_is_one_node(destination) {
        return Err(FrameError::Malformed);
    } else {
        Destination::V6(destination)
    };
    Ok(Headers {
        destination,
        hop_limit,
        ip_len: ip_len as u32,
        may_fragment: false,
    })
}

#[inline]
fn ipv6_address(header: &[u8; IPV6_LEN], at: usize) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&header[at..at + 16]);
    Ipv6Addr::from(octets)
}

/// True for an address that one node on a network can have: neither "this network" (0/8), nor
/// loopback, nor multicast, nor the limited broadcast (RFC 1122 §3.2.1.3).
#[inline]
pub fn ipv4_is_one_node(address: Ipv4Addr) -> bool {
    let first = address.octets()[0];
    first != 0 && first != 127 && !address.is_multicast() && !address.is_broadcast()
}

/// True for an address that one node on a network can have: neither unspecified, nor loopback,
/// nor multicast (RFC 4291 §2.5.2, §2.5.3, §2.7).
#[inline]
pub fn ipv6_is_one_node(address: Ipv6Addr) -> bool {
    !address.is_multicast() && !address.is_unspecified() && !address.is_loopback()
}

/// Walks IPv4 options: each must lie within the header.
fn options_are_sound(mut options: &[u8]) -> bool {
    while let [kind, rest @ ..] = options {
        options = match (kind, rest) {
            (0, _) => return true,
            (1, rest) => rest,
            (_, [len, ..]) if *len >= 2 => match options.get(usize::from(*len)..) {
                Some(rest) => rest,
                None => return false,
            },
            _ => return false,
        };
    }
    true
}

/// The ones' complement sum of 16-bit words (RFC 1071), folded, not complemented. An odd last
/// byte counts as if a zero followed. Data that holds its own checksum sums to `0xffff`.
#[inline]
pub fn sum16(bytes: &[u8]) -> u16 {
    // 32 bits at a time: 2^16 ≡ 1, so a 32-bit word counts like the sum of its halves.
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum: u64 = words
        .iter()
        .map(|word| u64::from(u32::from_be_bytes(*word)))
        .sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum += u64::from(u32::from_be_bytes(last));
    fold(sum)
}

/// Folds a ones' complement sum into 16 bits.
#[inline]
pub const fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// TTL or hop limit of a frame that has passed [`parse`].
#[inline]
pub(crate) fn hop_limit(frame: &[u8]) -> u8 {
    let at = match frame.get(12..14) {
        Some(kind) if kind == ETHERTYPE_IPV6.to_be_bytes() => 7,
        _ => 8,
    };
    frame.get(ETHERNET_LEN + at).copied().unwrap_or(0)
}

/// Lowers TTL or hop limit by `by`, keeping the IPv4 header checksum true (RFC 1624). The frame
/// must have passed [`parse`], and `by` must not exceed its hop limit (the result stops at 0).
#[inline]
pub fn lower_hop_limit(frame: &mut [u8], by: u8) {
    let Some((ethernet, ip)) = frame.split_first_chunk_mut::<ETHERNET_LEN>() else {
        return;
    };
    match u16::from_be_bytes([ethernet[12], ethernet[13]]) {
        ETHERTYPE_IPV4 => {
            let Some(header) = ip.first_chunk_mut::<IPV4_LEN>() else {
                return;
            };
            let old = u16::from_be_bytes([header[8], header[9]]);
            header[8] = header[8].saturating_sub(by);
            let new = u16::from_be_bytes([header[8], header[9]]);
            mend_checksum(header, old, new);
        }
        ETHERTYPE_IPV6 => {
            if let Some(hop_limit) = ip.get_mut(7) {
                *hop_limit = hop_limit.saturating_sub(by);
            }
        }
        _ => {}
    }
}

/// The Ethernet address of the group that a frame goes to, whose headers have passed
/// [`parse_any`] as [`Destination::Group`]: all stations, or the low bits of the IP address
/// (RFC 1112 §6.4, RFC 2464 §7).
pub fn group_mac(frame: &[u8]) -> Mac {
    let ip = frame.get(ETHERNET_LEN..).unwrap_or_default();
    if frame.get(12..14) == Some(&ETHERTYPE_IPV6.to_be_bytes()) {
        return match ip.get(36..IPV6_LEN) {
            Some(&[a, b, c, d]) => [0x33, 0x33, a, b, c, d],
            _ => BROADCAST_MAC,
        };
    }
    match ip.get(16..IPV4_LEN) {
        Some(&[a, b, c, d]) if a < 0xf0 => [0x01, 0x00, 0x5e, b & 0x7f, c, d],
        _ => BROADCAST_MAC,
    }
}

/// Writes source and destination of the Ethernet header.
pub fn set_macs(frame: &mut [u8], source: Mac, destination: Mac) {
    frame[..6].copy_from_slice(&destination);
    frame[6..12].copy_from_slice(&source);
}

/// Brings an IPv4 header's checksum up to date after a word of it has changed by less than 0xffff.
fn mend_checksum(header: &mut [u8; IPV4_LEN], old: u16, new: u16) {
    // Equation 3 of RFC 1624. Its sum is never +0 here, since old and new differ by less than
    // 0xffff, so the result equals a fresh computation to the bit: 0x0000 stays 0x0000 and a
    // sender's 0xffff becomes the normal form.
    let checksum = u16::from_be_bytes([header[10], header[11]]);
    let sum = u64::from(!checksum) + u64::from(!old) + u64::from(new);
    header[10..12].copy_from_slice(&(!fold(sum)).to_be_bytes());
}

/// Where a frame that has passed [`parse`] has its ECN field (RFC 3168 §5): the place of the
/// byte, and the field's lowest bit in it.
fn ecn_field(frame: &[u8]) -> Option<(usize, u8)> {
    let shift = match u16::from_be_bytes([*frame.get(12)?, *frame.get(13)?]) {
        ETHERTYPE_IPV4 => 0,
        ETHERTYPE_IPV6 => 4,
        _ => return None,
    };
    Some((ETHERNET_LEN + 1, shift))
}

/// Whether a frame's sender understands ECN marks: ECT(0), ECT(1) or CE.
pub fn is_ecn_capable(frame: &[u8]) -> bool {
    let byte = |(at, shift)| Some(frame.get(at)? >> shift);
    ecn_field(frame)
        .and_then(byte)
        .is_some_and(|byte: u8| byte & 0b11 != 0)
}

/// Marks a frame as having met congestion (CE), where its sender understands that, keeping the
/// IPv4 header checksum true. The frame must have passed [`parse`].
pub fn set_ce(frame: &mut [u8]) {
    if !is_ecn_capable(frame) {
        return;
    }
    let Some((at, shift)) = ecn_field(frame) else {
        return;
    };
    let ip = &mut frame[ETHERNET_LEN..];
    let old = [ip[0], ip[1]];
    ip[at - ETHERNET_LEN] |= 0b11 << shift;
    let new = [ip[0], ip[1]];
    if shift == 0
        && let Some(header) = ip.first_chunk_mut::<IPV4_LEN>()
    {
        mend_checksum(header, u16::from_be_bytes(old), u16::from_be_bytes(new));
    }
}
