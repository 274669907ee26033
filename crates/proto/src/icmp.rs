//! ICMP (RFC 792, RFC 1191, RFC 1812 §4.3) and ICMPv6 (RFC 4443): echo replies and errors.
//!
//! An error quotes the packet that caused it: as much as fits in 576 bytes (IPv4) or in the
//! minimum MTU of 1280 bytes (IPv6).
//!
//! Left out: timestamp, router discovery and redirect messages; RFC 4884 extensions.

use longhaul_core::packet::{IPV4_LEN, IPV6_LEN};

use crate::ip::{
    HeaderV4, HeaderV6, PROTOCOL_ICMP, PROTOCOL_ICMPV6, Part, V4, V6, checksum, checksum_holds,
};

const ICMP_LEN: usize = 8;
const QUOTE_V4: usize = 576 - IPV4_LEN - ICMP_LEN;
const QUOTE_V6: usize = 1280 - IPV6_LEN - ICMP_LEN;

const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST: u8 = 8;
const V6_ECHO_REQUEST: u8 = 128;
const V6_ECHO_REPLY: u8 = 129;
const V6_REDIRECT: u8 = 137;

/// Type, code and second word of an ICMP error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IcmpError {
    kind: u8,
    code: u8,
    /// The header's second word: an MTU, a pointer, or unused.
    word: u32,
}

impl IcmpError {
    pub(crate) const V4_NET_UNREACHABLE: Self = Self::new(3, 0, 0);
    pub(crate) const V4_PROTOCOL_UNREACHABLE: Self = Self::new(3, 2, 0);
    pub(crate) const V4_PORT_UNREACHABLE: Self = Self::new(3, 3, 0);
    pub(crate) const V4_TIME_EXCEEDED: Self = Self::new(11, 0, 0);
    pub(crate) const V6_NO_ROUTE: Self = Self::new(1, 0, 0);
    pub(crate) const V6_PORT_UNREACHABLE: Self = Self::new(1, 4, 0);
    pub(crate) const V6_TIME_EXCEEDED: Self = Self::new(3, 0, 0);

    const fn new(kind: u8, code: u8, word: u32) -> Self {
        Self { kind, code, word }
    }

    /// Fragmentation Needed; the field has 16 bits.
    pub(crate) fn v4_too_big(mtu: u32) -> Self {
        Self::new(3, 4, mtu.min(u32::from(u16::MAX)))
    }

    /// Packet Too Big.
    pub(crate) const fn v6_too_big(mtu: u32) -> Self {
        Self::new(2, 0, mtu)
    }

    /// Parameter Problem: a header field that the router cannot take.
    pub(crate) const fn v6_bad_field(at: usize) -> Self {
        Self::new(4, 0, at as u32)
    }

    /// Parameter Problem: a next header that the router does not support.
    pub(crate) const fn v6_bad_next_header(at: usize) -> Self {
        Self::new(4, 1, at as u32)
    }

    /// Writes the message but for its checksum, quoting the head of `packet`.
    fn write(self, message: &mut [u8], packet: &[u8]) {
        let quoted = message.len() - ICMP_LEN;
        message[0] = self.kind;
        message[1] = self.code;
        message[2..4].fill(0);
        message[4..8].copy_from_slice(&self.word.to_be_bytes());
        message[8..].copy_from_slice(&packet[..quoted]);
    }
}

/// True if the standards allow an error about `packet` (RFC 1812 §4.3.2.7).
pub(crate) fn may_send_error_v4(packet: &V4) -> bool {
    // Of ICMP, only queries and their answers may be reported; a type that cannot be read or
    // is unknown could be an error.
    let is_query = |kind: &u8| matches!(kind, 0 | 8..=10 | 13..=18 | 42 | 43);
    packet.is_between_nodes()
        && !packet.is_later_fragment()
        && (packet.protocol() != PROTOCOL_ICMP || packet.payload().first().is_some_and(is_query))
}

/// True if the standards allow an error about `packet` (RFC 4443 §2.4 e). Unlike in IPv4, later
/// fragments are reported.
pub(crate) fn may_send_error_v6(packet: &V6) -> bool {
    let is_informational = |kind: &u8| *kind >= 128 && *kind != V6_REDIRECT;
    packet.is_between_nodes()
        && packet.upper().is_some_and(|upper| {
            upper.part == Part::Later
                || upper.protocol != PROTOCOL_ICMPV6
                || upper.payload.first().is_some_and(is_informational)
        })
}

/// Writes an error about `packet` and returns the IP packet's length.
pub(crate) fn write_error_v4(
    header: &HeaderV4,
    error: IcmpError,
    packet: &V4,
    out: &mut [u8],
) -> Option<usize> {
    let len = ICMP_LEN + packet.packet.len().min(QUOTE_V4);
    let message = header.write(out, len)?;
    error.write(message, packet.packet);
    let sum = checksum(0, message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    Some(IPV4_LEN + len)
}

/// Writes an error about `packet` and returns the IP packet's length.
pub(crate) fn write_error_v6(
    header: &HeaderV6,
    error: IcmpError,
    packet: &V6,
    out: &mut [u8],
) -> Option<usize> {
    let len = ICMP_LEN + packet.packet.len().min(QUOTE_V6);
    let message = header.write(out, len)?;
    error.write(message, packet.packet);
    let sum = checksum(header.pseudo_header(len), message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    Some(IPV6_LEN + len)
}

/// Whether messages of this type say that a packet has not arrived.
pub(crate) const fn is_error_v4(kind: u8) -> bool {
    matches!(kind, 3 | 11 | 12)
}

/// Whether messages of this type say that a packet has not arrived.
pub(crate) const fn is_error_v6(kind: u8) -> bool {
    matches!(kind, 1..=4)
}

/// What the error in the IPv4 packet `ip` quotes, if it is one (RFC 792).
pub(crate) fn quote_v4(ip: &[u8]) -> Option<&[u8]> {
    let packet = V4::read(ip)?;
    let message = packet.payload();
    let is_error = packet.protocol() == PROTOCOL_ICMP
        && !packet.is_fragment()
        && is_error_v4(*message.first()?);
    (is_error && checksum_holds(0, message)).then(|| message.get(ICMP_LEN..))?
}

/// What the error in the IPv6 packet `ip` quotes, if it is one (RFC 4443 §2.1).
pub(crate) fn quote_v6(ip: &[u8]) -> Option<&[u8]> {
    let packet = V6::read(ip)?;
    let upper = packet.upper()?;
    let message = upper.payload;
    let is_error = upper.protocol == PROTOCOL_ICMPV6
        && upper.part == Part::Whole
        && is_error_v6(*message.first()?);
    let sum = packet.pseudo_header(PROTOCOL_ICMPV6, message.len());
    (is_error && checksum_holds(sum, message)).then(|| message.get(ICMP_LEN..))?
}

/// Answers the echo request in `packet`, if it is one, and returns the IP packet's length.
pub(crate) fn write_echo_v4(header: &HeaderV4, packet: &V4, out: &mut [u8]) -> Option<usize> {
    let request = packet.payload();
    let sound = request.len() >= ICMP_LEN && checksum_holds(0, request);
    if !sound || request[..2] != [ECHO_REQUEST, 0] {
        return None;
    }
    let message = header.write(out, request.len())?;
    write_echo(message, request, ECHO_REPLY, 0);
    Some(IPV4_LEN + request.len())
}

/// Answers `request`, if it is an echo request, and returns the IP packet's length.
pub(crate) fn write_echo_v6(
    header: &HeaderV6,
    packet: &V6,
    request: &[u8],
    out: &mut [u8],
) -> Option<usize> {
    let len = request.len();
    let sound =
        len >= ICMP_LEN && checksum_holds(packet.pseudo_header(PROTOCOL_ICMPV6, len), request);
    if !sound || request[..2] != [V6_ECHO_REQUEST, 0] {
        return None;
    }
    let message = header.write(out, len)?;
    write_echo(message, request, V6_ECHO_REPLY, header.pseudo_header(len));
    Some(IPV6_LEN + len)
}

fn write_echo(message: &mut [u8], request: &[u8], kind: u8, pseudo_header: u64) {
    message.copy_from_slice(request);
    message[0] = kind;
    message[2..4].fill(0);
    let sum = checksum(pseudo_header, message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
}
