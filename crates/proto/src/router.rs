//! A router's answers to packets that it does not forward (RFC 1812, RFC 4443).
//!
//! It answers echo requests, resets TCP connections, refuses other protocols, and reports packets
//! that it cannot forward. It stays silent where the standards require it: about ICMP errors,
//! about later fragments (IPv4), about packets whose source is not a single node or whose
//! destination is a group, and about messages with a broken checksum.
//!
//! Left out: reassembly (fragments addressed to a router get no answer), rate limits (the
//! caller has the clock), IPv4 options (replies carry none).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use longhaul_core::packet::{ETHERNET_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_LEN, IPV6_LEN};
use longhaul_core::router::{PuntReason, Responder};
use longhaul_core::topology::Node;

use crate::icmp::{self, IcmpError};
use crate::ip::{
    HeaderV4, HeaderV6, NO_NEXT_HEADER, PROTOCOL_ICMP, PROTOCOL_ICMPV6, PROTOCOL_TCP, PROTOCOL_UDP,
    Part, V4, V6, checksum,
};
use crate::tcp::reset::{self, TCP_LEN};
use crate::{fragment, udp};

/// Internetwork control: the precedence of IPv4 errors (RFC 1812 §4.3.2.5).
const PRECEDENCE: u8 = 0xc0;
/// The part of a TOS or traffic class that a reply takes over: all but ECN.
const DSCP: u8 = 0xfc;
/// The part of a TOS below the precedence.
const SERVICE: u8 = 0x1c;

/// Writes the replies of all routers, and the fragments they make.
///
/// Replies have the router's address as source, a TTL of 64, and the MAC addresses of their
/// reason swapped. A reply that does not fit in the buffer is not written.
#[derive(Debug, Default, Clone)]
pub struct RouterReplies {
    /// Next IPv4 identification. Each router counts for itself, so that what one sends does not
    /// depend on how routers share threads.
    identification: BTreeMap<Ipv4Addr, u16>,
}

impl RouterReplies {
    /// Replies of routers that have sent nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn respond_v4(
        &mut self,
        router: &Node,
        reason: PuntReason,
        packet: &V4,
        out: &mut [u8],
    ) -> Option<usize> {
        if !packet.is_between_nodes() {
            return None;
        }
        let identification = self.identification.entry(router.ipv4).or_default();
        let header = HeaderV4 {
            tos: packet.tos() & DSCP,
            identification: *identification,
            protocol: PROTOCOL_ICMP,
            source: router.ipv4,
            destination: packet.source(),
        };
        let written = match reason {
            PuntReason::Local => local_v4(header, packet, out),
            PuntReason::HopLimit => error_v4(header, IcmpError::V4_TIME_EXCEEDED, packet, out),
            PuntReason::TooBig { mtu } => error_v4(header, IcmpError::v4_too_big(mtu), packet, out),
            PuntReason::NoRoute => error_v4(header, IcmpError::V4_NET_UNREACHABLE, packet, out),
        }?;
        *identification = identification.wrapping_add(1);
        Some(written)
    }
}

impl Responder for RouterReplies {
    fn respond(
        &mut self,
        router: &Node,
        reason: PuntReason,
        frame: &[u8],
        reply: &mut [u8],
    ) -> Option<usize> {
        let (ethernet, ip) = frame.split_first_chunk::<ETHERNET_LEN>()?;
        let (reply_ethernet, out) = reply.split_first_chunk_mut::<ETHERNET_LEN>()?;
        let between_stations = (ethernet[0] | ethernet[6]) & 1 == 0; // and not groups of them
        if !between_stations {
            return None;
        }
        let written = match u16::from_be_bytes([ethernet[12], ethernet[13]]) {
            ETHERTYPE_IPV4 => self.respond_v4(router, reason, &V4::read(ip)?, out),
            ETHERTYPE_IPV6 => respond_v6(router, reason, &V6::read(ip)?, out),
            _ => None,
        }?;
        reply_ethernet[..6].copy_from_slice(&ethernet[6..12]);
        reply_ethernet[6..12].copy_from_slice(&ethernet[..6]);
        reply_ethernet[12..].copy_from_slice(&ethernet[12..]);
        Some(ETHERNET_LEN + written)
    }

    fn fragment(&mut self, frame: &[u8], mtu: u32, index: u32, out: &mut [u8]) -> Option<usize> {
        let (ethernet, ip) = frame.split_first_chunk::<ETHERNET_LEN>()?;
        let (out_ethernet, out) = out.split_first_chunk_mut::<ETHERNET_LEN>()?;
        if ethernet[12..] != ETHERTYPE_IPV4.to_be_bytes() {
            return None;
        }
        let written = fragment::write(&V4::read(ip)?, mtu, index, out)?;
        *out_ethernet = *ethernet;
        Some(ETHERNET_LEN + written)
    }
}

/// Answers a packet that is for the router itself.
fn local_v4(mut header: HeaderV4, packet: &V4, out: &mut [u8]) -> Option<usize> {
    if packet.is_fragment() {
        return None;
    }
    let payload = packet.payload();
    match packet.protocol() {
        PROTOCOL_ICMP => icmp::write_echo_v4(&header, packet, out),
        PROTOCOL_TCP => {
            let mut reset = reset::reset(payload, packet.pseudo_header(payload.len()))?;
            header.protocol = PROTOCOL_TCP;
            let sum = checksum(header.pseudo_header(TCP_LEN), &reset);
            reset[16..18].copy_from_slice(&sum.to_be_bytes());
            header.write(out, TCP_LEN)?.copy_from_slice(&reset);
            Some(IPV4_LEN + TCP_LEN)
        }
        PROTOCOL_UDP => {
            let sound = udp::is_sound(payload, true, |len| packet.pseudo_header(len));
            sound.then(|| error_v4(header, IcmpError::V4_PORT_UNREACHABLE, packet, out))?
        }
        _ => error_v4(header, IcmpError::V4_PROTOCOL_UNREACHABLE, packet, out),
    }
}

fn error_v4(mut header: HeaderV4, error: IcmpError, packet: &V4, out: &mut [u8]) -> Option<usize> {
    header.tos = PRECEDENCE | header.tos & SERVICE;
    if !icmp::may_send_error_v4(packet) {
        return None;
    }
    icmp::write_error_v4(&header, error, packet, out)
}

fn respond_v6(router: &Node, reason: PuntReason, packet: &V6, out: &mut [u8]) -> Option<usize> {
    if !packet.is_between_nodes() {
        return None;
    }
    let header = HeaderV6 {
        traffic_class: packet.traffic_class() & DSCP,
        protocol: PROTOCOL_ICMPV6,
        source: router.ipv6,
        destination: packet.source(),
    };
    match reason {
        PuntReason::Local => local_v6(header, packet, out),
        PuntReason::HopLimit => error_v6(header, IcmpError::V6_TIME_EXCEEDED, packet, out),
        PuntReason::TooBig { mtu } => error_v6(header, IcmpError::v6_too_big(mtu), packet, out),
        PuntReason::NoRoute => error_v6(header, IcmpError::V6_NO_ROUTE, packet, out),
    }
}

/// Answers a packet that is for the router itself.
fn local_v6(mut header: HeaderV6, packet: &V6, out: &mut [u8]) -> Option<usize> {
    let upper = packet.upper()?;
    if upper.part != Part::Whole {
        return None;
    }
    if let Some(at) = upper.routing_type_at {
        // No type of routing header is known here (RFC 8200 §4.4).
        return error_v6(header, IcmpError::v6_bad_field(at), packet, out);
    }
    let payload = upper.payload;
    let pseudo_header = |len| packet.pseudo_header(upper.protocol, len);
    match upper.protocol {
        PROTOCOL_ICMPV6 => icmp::write_echo_v6(&header, packet, payload, out),
        PROTOCOL_TCP => {
            let mut reset = reset::reset(payload, pseudo_header(payload.len()))?;
            header.protocol = PROTOCOL_TCP;
            let sum = checksum(header.pseudo_header(TCP_LEN), &reset);
            reset[16..18].copy_from_slice(&sum.to_be_bytes());
            header.write(out, TCP_LEN)?.copy_from_slice(&reset);
            Some(IPV6_LEN + TCP_LEN)
        }
        PROTOCOL_UDP => {
            let sound = udp::is_sound(payload, false, pseudo_header);
            sound.then(|| error_v6(header, IcmpError::V6_PORT_UNREACHABLE, packet, out))?
        }
        NO_NEXT_HEADER => None,
        _ => error_v6(
            header,
            IcmpError::v6_bad_next_header(upper.named_at),
            packet,
            out,
        ),
    }
}

fn error_v6(mut header: HeaderV6, error: IcmpError, packet: &V6, out: &mut [u8]) -> Option<usize> {
    header.traffic_class = 0;
    if !icmp::may_send_error_v6(packet) {
        return None;
    }
    icmp::write_error_v6(&header, error, packet, out)
}
