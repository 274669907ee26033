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

use siphasher::sip::SipHasher13;

use super::{
    ETHERNET_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_LEN, IPV4_MORE, IPV4_OFFSET, IPV6_LEN,
};

/// More extension headers than a packet in good faith has.
const MOST_EXTENSIONS: usize = 8;

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
    let mut key = Key {
        bytes: [0; 37],
        len: 0,
    };
    key.read(frame);
    SipHasher13::new_with_keys(seed, 0).hash(&key.bytes[..key.len])
}

/// What tells flows apart: both addresses, then the ports, then the protocol. The length tells
/// the versions apart.
struct Key {
    bytes: [u8; 37],
    len: usize,
}

impl Key {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
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
    for _ in 0..MOST_EXTENSIONS {
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

/// The ports of a protocol, or what stands for them; zeros where there are none.
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
