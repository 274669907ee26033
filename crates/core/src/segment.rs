//! Super-packets: what a kernel with segmentation offload sends in place of many packets.
//!
//! A super-packet is one frame with one set of headers and the payload of many segments, all but the last of
//! the same size. Splitting never copies the payload: a segment is a number and a reference to its
//! super-packet. Its headers are written when it leaves, for one segment or for a run of consecutive ones
//! that leave together as a smaller super-packet.
//!
//! Theory: the kernel's own segmentation, so that each segment is the packet that a host without offload
//! would have sent (`tcp_gso_segment` in `net/ipv4/tcp_offload.c`, `__udp_gso_segment` in
//! `net/ipv4/udp_offload.c`, `inet_gso_segment` in `net/ipv4/af_inet.c`). Sequence numbers advance by the
//! segment's size, IPv4 identifications by one; FIN and PSH are on the last segment only, CWR (RFC 3168
//! §6.1.2) on the first only; lengths and checksums are each segment's own. Timestamps and other options are
//! repeated. A partial checksum (`CHECKSUM_PARTIAL` in `include/linux/skbuff.h`) is the sum of the pseudo
//! header alone; whoever completes it adds everything from `start` on. The pseudo header contains the
//! length, so a changed length is corrected by difference (RFC 1624).
//!
//! Left out: tunnels (their inner headers would have to change, too, so nothing but extension headers that
//! stay the same may lie between the IP header and `start`), SCTP, UDP fragmentation offload, IPv6
//! jumbograms. Other super-packets are refused at the ingress.

use std::ops::Range;

use crate::packet::{
    self, ETHERNET_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_LEN, IPV6_LEN, fold, sum16,
};

/// More segments than a kernel puts into one super-packet here: hosts are made to stay below
/// (`gso_max_segs`), and UDP has the same limit (`UDP_MAX_SEGMENTS`).
pub const MAX_SEGMENTS: usize = 128;
/// The longest super-packet with its Ethernet header.
pub const MAX_SUPER_LEN: usize = ETHERNET_LEN + 65_535;
/// Memory that a super-packet takes inside, however short it is.
pub const SUPER_BYTES: usize = MAX_SUPER_LEN.next_multiple_of(4096);
/// More bytes of headers than a super-packet has: Ethernet, IPv6 with extensions, TCP.
const MAX_HEADERS: usize = 192;

const TCP: u8 = 6;
const UDP: u8 = 17;
const TCP_LEN: usize = 20;
const UDP_LEN: usize = 8;
const TCP_CHECKSUM: u16 = 16;
const UDP_CHECKSUM: u16 = 6;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// How a frame is to be segmented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// It is one packet.
    #[default]
    Whole,
    /// TCP over IPv4 or IPv6.
    Tcp,
    /// UDP datagrams of one flow (`UDP_SEGMENT`).
    Udp,
}

/// A partial checksum: it holds the sum of the pseudo header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Partial {
    /// Where its range starts, in bytes from the frame's first; it ends with the packet.
    pub start: u16,
    /// Where it is stored, from `start`.
    pub offset: u16,
}

/// The offload work that is left to do to a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offload {
    /// Whether and how it is to be segmented.
    pub kind: Kind,
    /// Payload bytes of each segment but the last.
    pub size: u16,
    /// Length of the headers; of a frame that comes in, of no meaning.
    pub headers: u16,
    /// The checksum to be completed; a super-packet always has one.
    pub checksum: Option<Partial>,
    /// Whether the first of several TCP segments says that the window was reduced; of a frame
    /// that comes in, of no meaning.
    pub cwr: bool,
}

/// The dimensions of a super-packet, checked against the length of its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Super {
    kind: Kind,
    is_ipv6: bool,
    /// Offset of the transport header.
    transport: u16,
    /// Offset of the payload.
    headers: u16,
    /// Payload bytes of each segment but the last.
    size: u16,
    payload: u16,
    count: u16,
}

impl Super {
    /// Reads a super-packet of `frame` (exactly as long as its IP header says, and passed
    /// [`packet::parse_any`]). `None` if it cannot be segmented.
    pub fn parse(frame: &[u8], offload: &Offload) -> Option<Self> {
        let Partial { start, offset } = offload.checksum?;
        let transport = usize::from(start);
        let ip = frame.get(ETHERNET_LEN..)?;
        let (is_ipv6, protocol) = match u16::from_be_bytes([frame[12], frame[13]]) {
            ETHERTYPE_IPV4 => {
                let fixed = ip.first_chunk::<IPV4_LEN>()?;
                if u16::from_be_bytes([fixed[6], fixed[7]]) & 0x3fff != 0 {
                    return None; // a fragment
                }
                let end = ETHERNET_LEN + usize::from(fixed[0] & 0x0f) * 4;
                (false, (transport == end).then_some(fixed[9])?)
            }
            ETHERTYPE_IPV6 => (true, ipv6_protocol(frame, transport)?),
            _ => return None,
        };
        let (number, header_len) = match (offload.kind, offset) {
            (Kind::Tcp, TCP_CHECKSUM) => {
                let fixed = frame.get(transport..)?.first_chunk::<TCP_LEN>()?;
                (TCP, usize::from(fixed[12] >> 4) * 4)
            }
            (Kind::Udp, UDP_CHECKSUM) => (UDP, UDP_LEN),
            _ => return None,
        };
        let least = if number == TCP { TCP_LEN } else { UDP_LEN };
        let headers = transport + header_len;
        let payload = frame.len().checked_sub(headers)?;
        let count = payload.div_ceil(usize::from(offload.size).max(1));
        let is_sound = protocol == number
            && header_len >= least
            && headers <= MAX_HEADERS
            && offload.size > 0
            && (1..=MAX_SEGMENTS).contains(&count);
        is_sound.then_some(Self {
            kind: offload.kind,
            is_ipv6,
            transport: start,
            headers: headers as u16,
            size: offload.size,
            payload: u16::try_from(payload).ok()?,
            count: count as u16,
        })
    }

    /// How many segments it has, at least one.
    pub const fn count(&self) -> u16 {
        self.count
    }

    /// Length of the headers.
    pub fn headers(&self) -> usize {
        self.headers.into()
    }

    /// Where the payload of `count` segments from number `first` on lies in the frame.
    pub fn payload(&self, first: u16, count: u16) -> Range<usize> {
        let at = |number: u16| {
            let offset = usize::from(number) * usize::from(self.size);
            self.headers() + offset.min(self.payload.into())
        };
        at(first)..at(first.saturating_add(count))
    }

    /// Length of segment `number` as an IP packet.
    pub fn ip_len(&self, number: u16) -> usize {
        self.headers() - ETHERNET_LEN + self.payload(number, 1).len()
    }

    /// The offload work left for `count` segments from number `first` on under one header.
    pub fn offload(&self, frame: &[u8], first: u16, count: u16) -> Offload {
        let several = count > 1;
        let flags = frame.get(usize::from(self.transport) + 13);
        let is_reduced = flags.is_some_and(|flags| flags & CWR != 0);
        Offload {
            kind: if several { self.kind } else { Kind::Whole },
            size: if several { self.size } else { 0 },
            headers: self.headers,
            checksum: Some(Partial {
                start: self.transport,
                offset: match self.kind {
                    Kind::Udp => UDP_CHECKSUM,
                    _ => TCP_CHECKSUM,
                },
            }),
            cwr: several && first == 0 && self.kind == Kind::Tcp && is_reduced,
        }
    }

    /// Writes the headers of `count` segments from number `first` on to the front of `out`, the
    /// checksum partial; returns their length. `out` has room for [`Self::headers`].
    pub fn write_headers(&self, frame: &[u8], first: u16, count: u16, out: &mut [u8]) -> usize {
        let len = self.headers();
        let out = &mut out[..len];
        out.copy_from_slice(&frame[..len]);
        let payload = self.payload(first, count).len();
        let (ethernet_and_ip, transport) = out.split_at_mut(self.transport.into());
        let ip = &mut ethernet_and_ip[ETHERNET_LEN..];
        if self.is_ipv6 {
            let ip_payload = len - ETHERNET_LEN - IPV6_LEN + payload;
            ip[4..6].copy_from_slice(&(ip_payload as u16).to_be_bytes());
        } else {
            let ip_len = (len - ETHERNET_LEN + payload) as u16;
            let id = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(first);
            ip[2..4].copy_from_slice(&ip_len.to_be_bytes());
            ip[4..6].copy_from_slice(&id.to_be_bytes());
            ip[10..12].fill(0);
            let checksum = !sum16(ip);
            ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        // The partial checksum sums the pseudo header, length included: replace the super-packet's length.
        let old = (usize::from(self.payload) + transport.len()) as u16;
        let new = (payload + transport.len()) as u16;
        let at = match self.kind {
            Kind::Udp => {
                transport[4..6].copy_from_slice(&new.to_be_bytes());
                usize::from(UDP_CHECKSUM)
            }
            _ => {
                self.number_tcp(transport, first, count);
                usize::from(TCP_CHECKSUM)
            }
        };
        let sum = u16::from_be_bytes([transport[at], transport[at + 1]]);
        let sum = fold(u64::from(sum) + u64::from(!old) + u64::from(new));
        transport[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        len
    }

    /// Sets the sequence number, and the flags that only the first or last segment has.
    fn number_tcp(&self, header: &mut [u8], first: u16, count: u16) {
        let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        let sequence = sequence.wrapping_add(u32::from(first) * u32::from(self.size));
        header[4..8].copy_from_slice(&sequence.to_be_bytes());
        if first.saturating_add(count) < self.count {
            header[13] &= !(FIN | PSH);
        }
        if first > 0 {
            header[13] &= !CWR;
        }
    }

    /// Writes segment `number` as a packet of its own, checksum complete, to the front of `out`;
    /// returns its length. `None` where there is no room.
    pub fn write_segment(&self, frame: &[u8], number: u16, out: &mut [u8]) -> Option<usize> {
        let payload = frame.get(self.payload(number, 1))?;
        let out = out.get_mut(..self.headers() + payload.len())?;
        let len = self.write_headers(frame, number, 1, out);
        out[len..].copy_from_slice(payload);
        if let Some(partial) = self.offload(frame, number, 1).checksum {
            complete(out, partial);
        }
        Some(out.len())
    }
}

/// How many packets an unsound super-packet counts as: the segments of its payload, as far as they can
/// be read; at least one.
pub fn packets_in(frame: &[u8], offload: &Offload) -> u64 {
    let Some(Partial { start, .. }) = offload.checksum else {
        return 1;
    };
    let transport = usize::from(start);
    let header_len = match offload.kind {
        Kind::Whole => return 1,
        Kind::Tcp => frame.get(transport + 12).map_or(0, |word| word >> 4) as usize * 4,
        Kind::Udp => UDP_LEN,
    };
    let payload = frame.len().saturating_sub(transport + header_len);
    payload.div_ceil(usize::from(offload.size).max(1)).max(1) as u64
}

/// The protocol of what starts at `end` of an IPv6 frame, if only extension headers that every segment
/// repeats lie before it: hop-by-hop options, routing and destination options
/// (RFC 8200 §4).
fn ipv6_protocol(frame: &[u8], end: usize) -> Option<u8> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const DESTINATION: u8 = 60;
    if end > MAX_HEADERS {
        return None;
    }
    let mut protocol = *frame.get(ETHERNET_LEN + 6)?;
    let mut at = ETHERNET_LEN + IPV6_LEN;
    while at < end && matches!(protocol, HOP_BY_HOP | ROUTING | DESTINATION) {
        let &[next, len] = frame.get(at..at + 2)? else {
            return None;
        };
        (protocol, at) = (next, at + 8 * (1 + usize::from(len)));
    }
    (at == end).then_some(protocol)
}

/// Whether a partial checksum lies within a frame, behind its IP header.
pub fn is_sound(frame: &[u8], partial: Partial) -> bool {
    let (start, offset) = (usize::from(partial.start), usize::from(partial.offset));
    let Some(&[high, low, version]) = frame.get(12..=ETHERNET_LEN) else {
        return false;
    };
    let ip_len = match u16::from_be_bytes([high, low]) {
        ETHERTYPE_IPV4 => (usize::from(version & 0x0f) * 4).max(IPV4_LEN),
        ETHERTYPE_IPV6 => IPV6_LEN,
        _ => return false,
    };
    start >= ETHERNET_LEN + ip_len && start + offset + 2 <= frame.len()
}

/// Completes the checksum of a frame that ends with its packet. Does nothing where it does not
/// lie in the frame. A checksum that comes out as zero is sent as all ones, because UDP has zero
/// for none (RFC 768), and to TCP they are the same.
pub fn complete(frame: &mut [u8], partial: Partial) {
    if !is_sound(frame, partial) {
        return;
    }
    let covered = &mut frame[partial.start.into()..];
    let checksum = match !packet::sum16(covered) {
        0 => 0xffff,
        sum => sum,
    };
    let at = usize::from(partial.offset);
    covered[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}
