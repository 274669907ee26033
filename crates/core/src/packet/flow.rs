//! Which flow a frame belongs to, as one number.
//!
//! Theory: a flow is what shares addresses, protocol and ports (RFC 6437 §1); the number is
//! SipHash-1-3 of them under a secret of the run, so that no sender can aim at a bucket. Where
//! the ports lie follows the kernel (`proto_ports_offset` in `include/linux/in.h`): TCP, UDP,
//! DCCP, SCTP and UDP-Lite have them first, ESP and AH a security parameters index instead.
//! Fragments have no ports but the first one's, so none counts its ports: all fragments of a
//! packet share one number, which is not that of the flow's whole packets. IPv6 extension
//! headers are walked (RFC 8200 §4, RFC 7045), a bounded number of them.
//!
//! Left out: flow labels, what is inside tunnels.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use siphasher::sip::SipHasher13;

use super::{
    ETHERNET_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_LEN, IPV4_MORE, IPV4_OFFSET, IPV6_LEN,
};

/// More extension headers than a packet in good faith has.
const MAX_EXTENSIONS: usize = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;
const MOBILITY: u8 = 135;
const HIP: u8 = 139;
const SHIM6: u8 = 140;

/// A number for the flow that a frame belongs to, uniform over all 64 bits.
///
/// It depends on the addresses, the protocol, the ports where there are any, and `seed`; the two
/// directions of a conversation are two flows. TTL, ECN and payload do not matter. What does not
/// parse counts by the part that does; a frame without any IP header belongs to the one flow of
/// such frames. Frames with a group as destination count like all others.
pub fn flow_hash(frame: &[u8], seed: u64) -> u64 {
    let key = FlowKey::of(frame);
    SipHasher13::new_with_keys(seed, 0).hash(&key.bytes[..usize::from(key.len)])
}

/// What distinguishes flows: both addresses, then the ports, then the protocol. The length distinguishes
/// the versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    bytes: [u8; 37],
    len: u8,
}

impl FlowKey {
    /// The flow of a frame; see [`flow_hash`].
    pub fn of(frame: &[u8]) -> Self {
        let mut key = Self {
            bytes: [0; 37],
            len: 0,
        };
        key.read(frame);
        key
    }

    /// Where it comes from and where it goes; `None` of frames without an IP header.
    pub fn addresses(&self) -> Option<(IpAddr, IpAddr)> {
        fn pair<const N: usize, A: From<[u8; N]> + Into<IpAddr>>(
            bytes: &[u8],
        ) -> Option<(IpAddr, IpAddr)> {
            let (from, rest) = bytes.split_first_chunk::<N>()?;
            let to = rest.first_chunk::<N>()?;
            Some((A::from(*from).into(), A::from(*to).into()))
        }
        match self.len {
            13 => pair::<4, Ipv4Addr>(&self.bytes),
            37 => pair::<16, Ipv6Addr>(&self.bytes),
            _ => None,
        }
    }

    /// The number of the protocol above IP.
    pub fn protocol(&self) -> u8 {
        let at = usize::from(self.len).saturating_sub(1);
        self.bytes.get(at).copied().unwrap_or_default()
    }

    /// Both ports, zero where there are none.
    pub fn ports(&self) -> (u16, u16) {
        let at = usize::from(self.len).saturating_sub(5);
        match self.bytes[at..] {
            [a, b, c, d, ..] if self.len > 0 => {
                (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
            }
            _ => (0, 0),
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        let at = usize::from(self.len);
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len() as u8;
    }

    fn read(&mut self, frame: &[u8]) {
        let Some((ethernet, ip)) = frame.split_first_chunk::<ETHERNET_LEN>() else {
            return;
        };
        let (protocol, rest) = match u16::from_be_bytes([ethernet[12], ethernet[13]]) {
            ETHERTYPE_IPV4 => {
                let Some(fixed) = ip.first_chunk::<IPV4_LEN>() else {
                    return;
                };
                self.push(&fixed[12..20]);
                (fixed[9], after_ipv4(fixed, ip))
            }
            ETHERTYPE_IPV6 => {
                let Some((fixed, rest)) = ip.split_first_chunk::<IPV6_LEN>() else {
                    return;
                };
                self.push(&fixed[8..40]);
                after_ipv6(fixed[6], rest)
            }
            _ => return,
        };
        self.push(&ports(protocol, rest));
        self.push(&[protocol]);
    }
}

/// What follows an IPv4 header; nothing in a fragment.
fn after_ipv4<'a>(fixed: &[u8; IPV4_LEN], ip: &'a [u8]) -> &'a [u8] {
    let is_fragment = u16::from_be_bytes([fixed[6], fixed[7]]) & (IPV4_MORE | IPV4_OFFSET) != 0;
    let header_len = usize::from(fixed[0] & 0x0f) * 4;
    if is_fragment || header_len < IPV4_LEN {
        return &[];
    }
    ip.get(header_len..).unwrap_or_default()
}

/// The protocol that an IPv6 packet carries, and what follows its headers; nothing in a
/// fragment, whose protocol is the first one of what was split.
fn after_ipv6(mut protocol: u8, mut rest: &[u8]) -> (u8, &[u8]) {
    for _ in 0..MAX_EXTENSIONS {
        let Some(&[next, words, high, low]) = rest.first_chunk::<4>() else {
            return (protocol, &[]);
        };
        let len = match protocol {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS | MOBILITY | HIP | SHIM6 => {
                8 + usize::from(words) * 8
            }
            FRAGMENT => {
                // Offset and the flag of more; an atomic fragment is whole (RFC 6946).
                if u16::from_be_bytes([high, low]) & 0xfff9 != 0 {
                    return (next, &[]);
                }
                8
            }
            _ => return (protocol, rest),
        };
        (protocol, rest) = (next, rest.get(len..).unwrap_or_default());
    }
    (protocol, &[])
}

/// The ports of a protocol, or the field that takes their place (ESP's and AH's index); zeros without.
fn ports(protocol: u8, rest: &[u8]) -> [u8; 4] {
    const ESP: u8 = 50;
    let at = match protocol {
        6 | 17 | 33 | ESP | 132 | 136 => 0,
        AUTHENTICATION => 4,
        _ => return [0; 4],
    };
    let ports = rest.get(at..).and_then(|rest| rest.first_chunk::<4>());
    ports.copied().unwrap_or_default()
}
