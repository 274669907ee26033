//! Packets of modelled endpoints as bytes: headers are written from a template and read back.
//!
//! Theory: a payload of zeros adds nothing to a checksum (RFC 1071), so that the checksums of the
//! whole packet are computed over its headers alone. IPv4 packets may not be fragmented, as
//! Linux sends TCP and UDP, and so need no identification (RFC 6864). Options are where Linux
//! puts them.
//!
//! Left out: flow labels, options that the model does not know (skipped when read).

use std::net::IpAddr;

use longhaul_core::engine::{GATEWAY_MAC, host_mac};
use longhaul_core::packet::{
    ETHERNET_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_LEN, IPV6_LEN, fold, set_macs, sum16,
};
use longhaul_core::topology::NodeId;

use crate::ip::{PROTOCOL_TCP, PROTOCOL_UDP};
use crate::tcp::wire::{from_wire, to_wire};
use crate::tcp::{Ecn, Flags, Range, Segment, SynOptions, Timestamps};

const HOP_LIMIT: u8 = 64;
const DONT_FRAGMENT: u8 = 0x40;
/// Ethernet, IPv6, ports.
const MAX_TEMPLATE: usize = ETHERNET_LEN + IPV6_LEN + 4;
pub(super) const UDP_LEN: usize = 8;
const TCP_LEN: usize = 20;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// What all packets of one end have in common.
#[derive(Debug, Clone)]
pub(super) struct Template {
    bytes: [u8; MAX_TEMPLATE],
    len: u8,
    /// The sum of the pseudo-header without the length, and of the ports.
    sum: u32,
}

/// An address and a port.
#[derive(Debug, Clone, Copy)]
pub(super) struct Socket {
    pub(super) node: NodeId,
    pub(super) address: IpAddr,
    pub(super) port: u16,
}

fn sum_of(address: IpAddr) -> u32 {
    u32::from(match address {
        IpAddr::V4(address) => sum16(&address.octets()),
        IpAddr::V6(address) => sum16(&address.octets()),
    })
}

impl Template {
    /// The packets of `from` for `to`, whose addresses have the same version.
    pub(super) fn new(protocol: u8, from: Socket, to: Socket) -> Self {
        let mut bytes = [0; MAX_TEMPLATE];
        set_macs(&mut bytes, host_mac(from.node), GATEWAY_MAC);
        let ip_len = match (from.address, to.address) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                bytes[12..14].copy_from_slice(&ETHERTYPE_IPV4.to_be_bytes());
                let ip = &mut bytes[ETHERNET_LEN..];
                ip[0] = 0x45;
                ip[6] = DONT_FRAGMENT;
                (ip[8], ip[9]) = (HOP_LIMIT, protocol);
                ip[12..16].copy_from_slice(&source.octets());
                ip[16..20].copy_from_slice(&destination.octets());
                // The sum of what is constant, until a packet has its checksum there.
                let sum = sum16(&ip[..IPV4_LEN]);
                ip[10..12].copy_from_slice(&sum.to_be_bytes());
                IPV4_LEN
            }
            (source, destination) => {
                let octets = |address: IpAddr| match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                    IpAddr::V6(address) => address.octets(),
                };
                bytes[12..14].copy_from_slice(&ETHERTYPE_IPV6.to_be_bytes());
                let ip = &mut bytes[ETHERNET_LEN..];
                ip[0] = 0x60;
                (ip[6], ip[7]) = (protocol, HOP_LIMIT);
                ip[8..24].copy_from_slice(&octets(source));
                ip[24..40].copy_from_slice(&octets(destination));
                IPV6_LEN
            }
        };
        let len = ETHERNET_LEN + ip_len + 4;
        bytes[len - 4..len - 2].copy_from_slice(&from.port.to_be_bytes());
        bytes[len - 2..len].copy_from_slice(&to.port.to_be_bytes());
        let sum = sum_of(from.address)
            + sum_of(to.address)
            + u32::from(protocol)
            + u32::from(from.port)
            + u32::from(to.port);
        Self {
            bytes,
            len: len as u8,
            sum,
        }
    }

    /// Appends the template, its IP header completed for `len` bytes behind it; returns the
    /// length of the IP packet.
    #[inline]
    fn write_ip(&self, len: u32, ecn: Ecn, out: &mut Vec<u8>) -> u32 {
        let at = out.len();
        let template = usize::from(self.len);
        out.extend_from_slice(&self.bytes[..template]);
        let ip = &mut out[at + ETHERNET_LEN..];
        let ecn = match ecn {
            Ecn::NotEct => 0,
            Ecn::Ect1 => 1,
            Ecn::Ect0 => 2,
            Ecn::Ce => 3,
        };
        if template == ETHERNET_LEN + IPV4_LEN + 4 {
            let total = IPV4_LEN as u32 + len;
            ip[1] = ecn;
            ip[2..4].copy_from_slice(&(total as u16).to_be_bytes());
            let constant = u16::from_be_bytes([ip[10], ip[11]]);
            let sum = u64::from(constant) + u64::from(ecn) + u64::from(total);
            ip[10..12].copy_from_slice(&(!fold(sum)).to_be_bytes());
            total
        } else {
            ip[1] = ecn << 4;
            ip[4..6].copy_from_slice(&(len as u16).to_be_bytes());
            IPV6_LEN as u32 + len
        }
    }

    /// Appends a datagram of `payload` bytes that begins with two numbers; returns the length of
    /// the IP packet.
    pub(super) fn write_udp(&self, numbers: [u64; 2], payload: u32, out: &mut Vec<u8>) -> u32 {
        let len = UDP_LEN as u32 + payload;
        let ip_len = self.write_ip(len, Ecn::NotEct, out);
        let at = out.len();
        out.extend_from_slice(&(len as u16).to_be_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&numbers[0].to_be_bytes());
        out.extend_from_slice(&numbers[1].to_be_bytes());
        // The length counts twice: in the pseudo-header and in the header.
        let sum = u64::from(self.sum) + u64::from(len) + u64::from(sum16(&out[at..]));
        let checksum = match !fold(sum) {
            0 => 0xffff, // zero means none (RFC 768)
            checksum => checksum,
        };
        out[at + 2..at + 4].copy_from_slice(&checksum.to_be_bytes());
        ip_len
    }

    /// Appends a segment; returns the length of the IP packet.
    #[inline]
    pub(super) fn write_tcp(&self, segment: &Segment, count: &Count, out: &mut Vec<u8>) -> u32 {
        let header_len = segment.header_len();
        let len = header_len + segment.len;
        let ip_len = self.write_ip(len, segment.ecn, out);
        let at = out.len();
        let is_ack = segment.flags.has(Flags::ACK);
        let ack = if is_ack {
            to_wire(segment.ack, count.theirs)
        } else {
            0
        };
        let shift = match segment.syn {
            Some(_) => 0,
            None => count.shifts().0,
        };
        let window = (segment.window >> shift).min(0xffff) as u16;
        let mut fixed = [0; TCP_LEN - 4];
        fixed[0..4].copy_from_slice(&to_wire(segment.seq, count.ours).to_be_bytes());
        fixed[4..8].copy_from_slice(&ack.to_be_bytes());
        fixed[8] = (header_len as u8 / 4) << 4;
        fixed[9] = segment.flags.0;
        fixed[10..12].copy_from_slice(&window.to_be_bytes());
        out.extend_from_slice(&fixed);
        write_options(segment, count, out);
        debug_assert_eq!(out.len() - at + 4, header_len as usize);
        let sum = u64::from(self.sum) + u64::from(len) + u64::from(sum16(&out[at..]));
        out[at + 12..at + 14].copy_from_slice(&(!fold(sum)).to_be_bytes());
        ip_len
    }
}

#[inline]
fn write_options(segment: &Segment, count: &Count, out: &mut Vec<u8>) {
    if let Some(syn) = segment.syn {
        let [high, low] = (syn.mss.min(0xffff) as u16).to_be_bytes();
        out.extend_from_slice(&[MSS, 4, high, low]);
        match (syn.sack_permitted, segment.timestamps.is_some()) {
            (true, true) => out.extend_from_slice(&[SACK_PERMITTED, 2]),
            (false, true) => out.extend_from_slice(&[NOP, NOP]),
            (true, false) => out.extend_from_slice(&[NOP, NOP, SACK_PERMITTED, 2]),
            (false, false) => {}
        }
    } else if segment.timestamps.is_some() {
        out.extend_from_slice(&[NOP, NOP]);
    }
    if let Some(stamps) = segment.timestamps {
        let mut option = [0; 10];
        (option[0], option[1]) = (TIMESTAMPS, 10);
        option[2..6].copy_from_slice(&(stamps.value as u32).to_be_bytes());
        option[6..10].copy_from_slice(&(stamps.echo as u32).to_be_bytes());
        out.extend_from_slice(&option);
    }
    if let Some(shift) = segment.syn.and_then(|syn| syn.window_scale) {
        out.extend_from_slice(&[NOP, WINDOW_SCALE, 3, shift]);
    }
    let blocks = segment.sacks.blocks();
    if !blocks.is_empty() {
        out.extend_from_slice(&[NOP, NOP, SACK, 2 + 8 * blocks.len() as u8]);
        for block in blocks {
            out.extend_from_slice(&to_wire(block.start, count.theirs).to_be_bytes());
            out.extend_from_slice(&to_wire(block.end, count.theirs).to_be_bytes());
        }
    }
}

/// What one end needs to translate numbers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Count {
    /// Number of our SYN.
    pub(super) ours: u32,
    /// Number of the other side's.
    pub(super) theirs: u32,
    /// The shift that we have offered.
    pub(super) our_shift: Option<u8>,
    /// The other side's.
    pub(super) their_shift: Option<u8>,
    /// The newest time of the other side's clock.
    pub(super) their_time: u64,
}

impl Count {
    /// The shifts of our windows and of theirs.
    #[inline]
    fn shifts(&self) -> (u8, u8) {
        match (self.our_shift, self.their_shift) {
            (Some(ours), Some(theirs)) => (ours, theirs.min(14)),
            _ => (0, 0),
        }
    }
}

/// A packet's ports and what they belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Envelope {
    /// The sender's address; one of IPv4 as its number.
    pub(super) source: u128,
    pub(super) source_port: u16,
    pub(super) port: u16,
    pub(super) is_tcp: bool,
    /// Where the transport header begins.
    pub(super) at: usize,
    /// Length of the transport header and payload.
    pub(super) len: u32,
    pub(super) ecn: Ecn,
    sum: u32,
}

impl Envelope {
    /// Reads the headers of a packet of `ip_len` bytes; `None` for what is neither TCP nor UDP, or
    /// a fragment.
    #[inline]
    pub(super) fn read(headers: &[u8], ip_len: u32) -> Option<Self> {
        let (ethernet, ip) = headers.split_first_chunk::<ETHERNET_LEN>()?;
        let (source, sum, protocol, header_len, ecn);
        match u16::from_be_bytes([ethernet[12], ethernet[13]]) {
            ETHERTYPE_IPV4 => {
                let fixed = ip.first_chunk::<IPV4_LEN>()?;
                header_len = usize::from(fixed[0] & 0x0f) * 4;
                if u16::from_be_bytes([fixed[6], fixed[7]]) & 0x3fff != 0 {
                    return None;
                }
                (protocol, ecn) = (fixed[9], fixed[1]);
                sum = sum16(&fixed[12..]);
                source = u128::from(u32::from_be_bytes(*fixed[12..].first_chunk()?));
            }
            ETHERTYPE_IPV6 => {
                let fixed = ip.first_chunk::<IPV6_LEN>()?;
                header_len = IPV6_LEN;
                (protocol, ecn) = (fixed[6], fixed[1] >> 4);
                sum = sum16(&fixed[8..]);
                source = u128::from_be_bytes(*fixed[8..].first_chunk()?);
            }
            _ => return None,
        }
        let ports = ip.get(header_len..)?.first_chunk::<4>()?;
        let len = ip_len.checked_sub(header_len as u32)?;
        if protocol != PROTOCOL_TCP && protocol != PROTOCOL_UDP {
            return None;
        }
        Some(Self {
            source,
            source_port: u16::from_be_bytes([ports[0], ports[1]]),
            port: u16::from_be_bytes([ports[2], ports[3]]),
            is_tcp: protocol == PROTOCOL_TCP,
            at: ETHERNET_LEN + header_len,
            len,
            ecn: match ecn & 3 {
                0 => Ecn::NotEct,
                1 => Ecn::Ect1,
                2 => Ecn::Ect0,
                _ => Ecn::Ce,
            },
            sum: u32::from(sum) + u32::from(protocol) + len,
        })
    }

    /// Whether the checksum of the packet holds, all of whose bytes that are not zero are in
    /// `headers`.
    #[inline]
    pub(super) fn is_sound(&self, headers: &[u8]) -> bool {
        let Some(stored) = headers.get(self.at..) else {
            return false;
        };
        stored.len() <= self.len as usize
            && fold(u64::from(self.sum) + u64::from(sum16(stored))) == 0xffff
    }

    /// The two numbers that a datagram begins with.
    pub(super) fn numbers(&self, headers: &[u8]) -> Option<[u64; 2]> {
        let payload = headers.get(self.at + UDP_LEN..)?;
        let (first, rest) = payload.split_first_chunk()?;
        let second = rest.first_chunk()?;
        Some([u64::from_be_bytes(*first), u64::from_be_bytes(*second)])
    }

    /// The flags of a segment; none of what is no segment.
    pub(super) fn flags(&self, headers: &[u8]) -> u8 {
        let flags = headers.get(self.at + 13).filter(|_| self.is_tcp);
        flags.copied().unwrap_or(0)
    }

    /// The sequence and acknowledgement numbers of a segment, as they are on the wire.
    pub(super) fn tcp_numbers(&self, headers: &[u8]) -> Option<[u32; 2]> {
        let numbers = headers.get(self.at + 4..)?.first_chunk::<8>()?;
        let [seq, ack] = numbers.as_chunks::<4>().0 else {
            return None;
        };
        Some([seq, ack].map(|number| u32::from_be_bytes(*number)))
    }

    /// The segment, for an end whose next numbers are `next` (its own, and the one that it
    /// awaits), at `ticks` of its clock. `None` where it is not sound.
    #[inline(always)] // into the path of every segment; the other caller is cold
    pub(super) fn segment(
        &self,
        headers: &[u8],
        count: &mut Count,
        next: (u64, u64),
        ticks: u64,
    ) -> Option<Segment> {
        let stored = headers.get(self.at..)?;
        let header = stored.first_chunk::<TCP_LEN>()?;
        let word = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let header_len = usize::from(header[12] >> 4) * 4;
        let options = stored.get(TCP_LEN..header_len)?;
        let len = self.len.checked_sub(header_len as u32)?;
        let flags = Flags(header[13]);
        let is_syn = flags.has(Flags::SYN);
        if is_syn && next.1 == 0 {
            count.theirs = word(4);
        }
        let mut segment = Segment {
            seq: from_wire(word(4), count.theirs, next.1),
            ack: if flags.has(Flags::ACK) {
                from_wire(word(8), count.ours, next.0)
            } else {
                0
            },
            len,
            flags,
            ecn: self.ecn,
            syn: is_syn.then(SynOptions::default),
            ..Segment::default()
        };
        if let Some(syn) = &mut segment.syn {
            syn.mss = 536; // where none is announced (RFC 9293 §3.7.1)
        }
        read_options(options, &mut segment, count, next.0, ticks);
        if let Some(syn) = segment.syn {
            count.their_shift = syn.window_scale;
        }
        let shift = if is_syn { 0 } else { count.shifts().1 };
        segment.window = u64::from(u16::from_be_bytes([header[14], header[15]])) << shift;
        Some(segment)
    }
}

#[inline]
fn read_options(
    mut options: &[u8],
    segment: &mut Segment,
    count: &mut Count,
    nxt: u64,
    ticks: u64,
) {
    while let [kind, rest @ ..] = options {
        match *kind {
            END => return,
            NOP => {
                options = rest;
                continue;
            }
            _ => {}
        }
        let Some(len) = rest
            .first()
            .map(|&len| usize::from(len))
            .filter(|len| *len >= 2)
        else {
            return;
        };
        let Some((option, behind)) = options.split_at_checked(len) else {
            return;
        };
        let body = &option[2..];
        let syn = &mut segment.syn;
        match (*kind, body, syn) {
            (MSS, &[high, low], Some(syn)) => syn.mss = u16::from_be_bytes([high, low]).into(),
            (WINDOW_SCALE, &[shift], Some(syn)) => syn.window_scale = Some(shift.min(14)),
            (SACK_PERMITTED, [], Some(syn)) => syn.sack_permitted = true,
            (TIMESTAMPS, body, _) if body.len() == 8 => {
                let word = |at: usize| {
                    u32::from_be_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]])
                };
                let value = match count.their_time {
                    0 => u64::from(word(0)),
                    near => from_wire(word(0), 0, near),
                };
                count.their_time = count.their_time.max(value);
                let echo = match word(4) {
                    0 => 0,
                    echo => from_wire(echo, 0, ticks),
                };
                segment.timestamps = Some(Timestamps { value, echo });
            }
            (SACK, body, _) => {
                for block in body.as_chunks::<8>().0 {
                    let word = |at: usize| {
                        u32::from_be_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
                    };
                    segment.sacks.push(Range {
                        start: from_wire(word(0), count.ours, nxt),
                        end: from_wire(word(4), count.ours, nxt),
                    });
                }
            }
            _ => {}
        }
        options = behind;
    }
}
