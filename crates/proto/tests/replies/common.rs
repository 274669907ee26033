//! What the tests of router replies share. Packets come from `etherparse`, an implementation
//! of the same standards by others, so that a misreading here does not confirm itself.

use std::net::{Ipv4Addr, Ipv6Addr};

use etherparse::{IpHeaders, Ipv4Header, Ipv6Header, PacketBuilder, PacketBuilderStep};
use longhaul_core::router::{PuntReason, Responder};
use longhaul_core::topology::{Node, NodeKind};
use longhaul_proto::RouterReplies;

pub(crate) const HOST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(crate) const ROUTER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
pub(crate) const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(crate) const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);
pub(crate) const FAR: Ipv4Addr = Ipv4Addr::new(10, 0, 9, 9);
pub(crate) const HOST6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
pub(crate) const ROUTER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0xfe);
pub(crate) const FAR6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 9, 9);

pub(crate) fn router() -> Node {
    Node {
        name: "r".into(),
        kind: NodeKind::Router,
        ipv4: ROUTER,
        ipv6: ROUTER6,
    }
}

pub(crate) fn respond_with(
    replies: &mut RouterReplies,
    reason: PuntReason,
    frame: &[u8],
) -> Option<Vec<u8>> {
    let mut reply = vec![0xaa; 70_000];
    let len = replies.respond(&router(), reason, frame, &mut reply)?;
    reply.truncate(len);
    Some(reply)
}

/// The first reply of a new router.
pub(crate) fn respond(reason: PuntReason, frame: &[u8]) -> Option<Vec<u8>> {
    respond_with(&mut RouterReplies::new(), reason, frame)
}

/// The IPv4 header of a packet, TTL 64, identification 0, lengths and protocol left open.
pub(crate) fn v4(source: Ipv4Addr, destination: Ipv4Addr) -> Ipv4Header {
    Ipv4Header {
        source: source.octets(),
        destination: destination.octets(),
        time_to_live: 64,
        dont_fragment: false,
        ..Default::default()
    }
}

/// The IPv6 header of a packet, hop limit 64, lengths and next header left open.
pub(crate) fn v6(source: Ipv6Addr, destination: Ipv6Addr) -> Ipv6Header {
    Ipv6Header {
        source: source.octets(),
        destination: destination.octets(),
        hop_limit: 64,
        ..Default::default()
    }
}

/// Starts a frame from the host to the router.
pub(crate) fn from_host(ip: impl Into<Headers>) -> PacketBuilderStep<IpHeaders> {
    PacketBuilder::ethernet2(HOST_MAC, ROUTER_MAC).ip(ip.into().0)
}

/// Starts a frame from the router to the host.
pub(crate) fn to_host(ip: impl Into<Headers>) -> PacketBuilderStep<IpHeaders> {
    PacketBuilder::ethernet2(ROUTER_MAC, HOST_MAC).ip(ip.into().0)
}

/// Either header.
pub(crate) struct Headers(IpHeaders);

impl From<Ipv4Header> for Headers {
    fn from(header: Ipv4Header) -> Self {
        Self(IpHeaders::Ipv4(header, Default::default()))
    }
}

impl From<Ipv6Header> for Headers {
    fn from(header: Ipv6Header) -> Self {
        Self(IpHeaders::Ipv6(header, Default::default()))
    }
}

/// Finishes a frame: `frame!(builder, payload)`.
macro_rules! frame {
    ($builder:expr, $payload:expr) => {{
        let mut frame = Vec::new();
        $builder
            .write(&mut frame, $payload)
            .expect("a packet that fits");
        frame
    }};
}

/// A frame with an IP header (its lengths set here) and a payload given as bytes.
pub(crate) fn raw_v4(mut header: Ipv4Header, protocol: u8, payload: &[u8]) -> Vec<u8> {
    header.protocol = etherparse::IpNumber(protocol);
    header
        .set_payload_len(payload.len())
        .expect("a packet that fits");
    header.header_checksum = header.calc_header_checksum();
    let mut frame = [&ROUTER_MAC[..], &HOST_MAC, &[0x08, 0x00]].concat();
    frame.extend(header.to_bytes());
    frame.extend(payload);
    frame
}

/// A frame with an IPv6 header (its length set here) and a payload given as bytes.
pub(crate) fn raw_v6(mut header: Ipv6Header, next_header: u8, payload: &[u8]) -> Vec<u8> {
    header.next_header = etherparse::IpNumber(next_header);
    header.payload_length = payload.len() as u16;
    let mut frame = [&ROUTER_MAC[..], &HOST_MAC, &[0x86, 0xdd]].concat();
    frame.extend(header.to_bytes());
    frame.extend(payload);
    frame
}

pub(crate) use frame;
