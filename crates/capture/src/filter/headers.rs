//! What filters know of a frame.
//!
//! Theory: like the programs that libpcap compiles filters to, this reads the fields that a test
//! asks for and does not validate the packet: no checksum, no length of IP. Unlike them it parses
//! past VLAN tags (IEEE 802.1Q) and IPv6 extension headers (RFC 8200 §4, RFC 7045). Each extension
//! header takes at least eight of the [`READ_MAX`](super::READ_MAX) bytes that filters read, which
//! bounds their number.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use longhaul_core::packet::{ETHERNET_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_LEN, IPV6_LEN};

pub(super) const ICMP: u8 = 1;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const ICMP6: u8 = 58;
const SCTP: u8 = 132;

const ETHERTYPE_ARP: u16 = 0x0806;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_SERVICE_VLAN: u16 = 0x88a8;
const VLAN_TAG_LEN: usize = 4;
const VLAN_TAGS_MAX: usize = 2;

/// Where ARP for Ethernet and IPv4 has its addresses (RFC 826).
const ARP_SENDER: usize = 14;
const ARP_TARGET: usize = 24;

const IPV4_OFFSET: u16 = 0x1fff;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;
const MOBILITY: u8 = 135;
const HIP: u8 = 139;
const SHIM6: u8 = 140;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    Ipv4,
    Ipv6,
    Arp,
    Other,
}

/// The fields that filters test; one that is absent or cut off is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Headers {
    pub(super) network: Network,
    /// Source and destination.
    pub(super) addresses: Option<[IpAddr; 2]>,
    /// What IP carries.
    pub(super) protocol: Option<u8>,
    /// Of source and destination.
    pub(super) ports: Option<[u16; 2]>,
}

impl Headers {
    pub(super) fn read(frame: &[u8]) -> Self {
        let mut at = ETHERNET_LEN - 2;
        let mut ethertype = u16_at(frame, at);
        for _ in 0..VLAN_TAGS_MAX {
            if !matches!(ethertype, Some(ETHERTYPE_VLAN | ETHERTYPE_SERVICE_VLAN)) {
                break;
            }
            at += VLAN_TAG_LEN;
            ethertype = u16_at(frame, at);
        }
        let packet = frame.get(at + 2..).unwrap_or_default();
        match ethertype {
            Some(ETHERTYPE_IPV4) => Self::ipv4(packet),
            Some(ETHERTYPE_IPV6) => Self::ipv6(packet),
            Some(ETHERTYPE_ARP) => Self {
                addresses: addresses::<4, Ipv4Addr>(packet, [ARP_SENDER, ARP_TARGET]),
                ..Self::only(Network::Arp)
            },
            _ => Self::only(Network::Other),
        }
    }

    const fn only(network: Network) -> Self {
        Self {
            network,
            addresses: None,
            protocol: None,
            ports: None,
        }
    }

    fn ipv4(packet: &[u8]) -> Self {
        let Some(fixed) = packet.first_chunk::<IPV4_LEN>() else {
            return Self::only(Network::Ipv4);
        };
        let header_len = usize::from(fixed[0] & 0x0f) * 4;
        let offset = u16::from_be_bytes([fixed[6], fixed[7]]) & IPV4_OFFSET;
        // A later fragment begins in the middle of the payload, so it has no ports to read.
        let ports = match offset {
            0 if header_len >= IPV4_LEN => ports(fixed[9], packet, header_len),
            _ => None,
        };
        Self {
            network: Network::Ipv4,
            addresses: addresses::<4, Ipv4Addr>(packet, [12, 16]),
            protocol: Some(fixed[9]),
            ports,
        }
    }

    fn ipv6(packet: &[u8]) -> Self {
        let Some(fixed) = packet.first_chunk::<IPV6_LEN>() else {
            return Self::only(Network::Ipv6);
        };
        let mut headers = Self {
            addresses: addresses::<16, Ipv6Addr>(packet, [8, 24]),
            ..Self::only(Network::Ipv6)
        };
        let (mut protocol, mut at) = (fixed[6], IPV6_LEN);
        while is_extension(protocol) {
            let Some([next, words, high, low]) = bytes_at(packet, at) else {
                return headers;
            };
            // In a fragment header these two bytes hold the offset, in their 13 high bits.
            let is_later_fragment = u16::from_be_bytes([high, low]) >> 3 != 0;
            if protocol == FRAGMENT && is_later_fragment {
                headers.protocol = Some(next);
                return headers;
            }
            // Lengths count what follows the first 8 bytes: AH in words of 4 bytes (RFC 4302 §2.2),
            // the others in words of 8; a fragment header has no length.
            at += match protocol {
                FRAGMENT => 8,
                AUTHENTICATION => 8 + usize::from(words) * 4,
                _ => 8 + usize::from(words) * 8,
            };
            protocol = next;
        }
        headers.protocol = Some(protocol);
        headers.ports = ports(protocol, packet, at);
        headers
    }
}

const fn is_extension(protocol: u8) -> bool {
    matches!(
        protocol,
        HOP_BY_HOP
            | ROUTING
            | FRAGMENT
            | AUTHENTICATION
            | DESTINATION_OPTIONS
            | MOBILITY
            | HIP
            | SHIM6
    )
}

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes_at(bytes, at).map(u16::from_be_bytes)
}

fn addresses<const N: usize, A>(
    packet: &[u8],
    [source, destination]: [usize; 2],
) -> Option<[IpAddr; 2]>
where
    A: From<[u8; N]> + Into<IpAddr>,
{
    let address = |at| bytes_at(packet, at).map(|octets| A::from(octets).into());
    Some([address(source)?, address(destination)?])
}

fn ports(protocol: u8, packet: &[u8], at: usize) -> Option<[u16; 2]> {
    match protocol {
        TCP | UDP | SCTP => Some([u16_at(packet, at)?, u16_at(packet, at + 2)?]),
        _ => None,
    }
}
