//! Packets that no flow expects: echo requests, packets to closed ports, and ICMP errors about flows.
//!
//! An ICMP error quotes the packet that it is about, and so finds its flow (RFC 1122 §4.1.3.3 and
//! §4.2.3.9, RFC 4443 §2.4 d). A flow of datagrams counts it. A TCP connection that is not open yet
//! is given up, as Linux does and most others (RFC 5461 §4.1), if the error quotes its SYN (RFC 5927
//! §4); one that is open lets its timers find out, since the error may be soft.
//!
//! Left out: path MTU discovery. See `docs/traffic-model.md`.

use longhaul_core::packet::{ETHERNET_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_LEN, IPV6_LEN};
use longhaul_core::router::{PuntReason, Responder};
use longhaul_core::time::Time;
use longhaul_core::topology::{Node, NodeId, NodeKind};

use super::Traffic;
use super::directory::Address;
use super::outbox::Ends;
use super::slots::{Active, Key};
use super::spec::{FIRST_PORT, Host};
use super::wire::Envelope;
use crate::icmp;
use crate::ip::{PROTOCOL_ICMP, PROTOCOL_ICMPV6, PROTOCOL_TCP, PROTOCOL_UDP};
use crate::tcp::Flags;

/// The packet that an ICMP error is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Quoted {
    from: Address,
    to: Address,
    port: u16,
    remote_port: u16,
    is_tcp: bool,
    /// TCP's sequence number.
    seq: u32,
}

impl Quoted {
    /// Reads it from a whole frame; `None` if that is not a valid error about TCP or UDP.
    fn read(frame: &[u8]) -> Option<Self> {
        let (ethernet, ip) = frame.split_first_chunk::<ETHERNET_LEN>()?;
        let is_v6 = match u16::from_be_bytes([ethernet[12], ethernet[13]]) {
            ETHERTYPE_IPV4 => false,
            ETHERTYPE_IPV6 => true,
            _ => return None,
        };
        let quote = if is_v6 {
            icmp::quote_v6(ip)?
        } else {
            icmp::quote_v4(ip)?
        };
        let (protocol, from, to, len) = match is_v6 {
            false if quote.first()? >> 4 == 4 => {
                let len = usize::from(quote[0] & 0x0f) * 4;
                (*quote.get(9)?, 12, 16, len.max(IPV4_LEN))
            }
            true if quote.first()? >> 4 == 6 => (*quote.get(6)?, 8, 24, IPV6_LEN),
            _ => return None,
        };
        if protocol != PROTOCOL_TCP && protocol != PROTOCOL_UDP {
            return None;
        }
        // All that an error must quote of what is in the packet (RFC 792).
        let head = quote.get(len..)?.first_chunk::<8>()?;
        Some(Self {
            from: Address::read(quote, is_v6, from)?,
            to: Address::read(quote, is_v6, to)?,
            port: u16::from_be_bytes([head[0], head[1]]),
            remote_port: u16::from_be_bytes([head[2], head[3]]),
            is_tcp: protocol == PROTOCOL_TCP,
            seq: u32::from_be_bytes([head[4], head[5], head[6], head[7]]),
        })
    }
}

/// The port from which the packet came that an ICMP error quotes, if `headers` begin one, sound or
/// not.
#[cold]
pub(super) fn quoted_port(headers: &[u8]) -> Option<u16> {
    let (ethernet, ip) = headers.split_first_chunk::<ETHERNET_LEN>()?;
    let len_v4 = |ip: &[u8]| Some(usize::from(ip.first()? & 0x0f) * 4);
    let (quote, protocol, len) = match u16::from_be_bytes([ethernet[12], ethernet[13]]) {
        ETHERTYPE_IPV4 => {
            let message = ip.get(len_v4(ip)?..)?;
            if *ip.get(9)? != PROTOCOL_ICMP || !icmp::is_error_v4(*message.first()?) {
                return None;
            }
            let quote = message.get(8..)?;
            (quote, *quote.get(9)?, len_v4(quote)?)
        }
        ETHERTYPE_IPV6 => {
            let message = ip.get(IPV6_LEN..)?;
            if *ip.get(6)? != PROTOCOL_ICMPV6 || !icmp::is_error_v6(*message.first()?) {
                return None;
            }
            let quote = message.get(8..)?;
            (quote, *quote.get(6)?, IPV6_LEN)
        }
        _ => return None,
    };
    let is_ours = protocol == PROTOCOL_TCP || protocol == PROTOCOL_UDP;
    let port = quote.get(len..)?.first_chunk::<2>()?;
    is_ours.then_some(u16::from_be_bytes(*port))
}

impl Traffic {
    /// Handles a segment or datagram to a closed port. Between modelled ports it is late, as its connection
    /// is over, unless it opens one.
    #[cold]
    pub(super) fn refuse(
        &mut self,
        now: Time,
        host: NodeId,
        headers: &[u8],
        ip_len: u32,
        envelope: &Envelope,
    ) {
        let is_late = envelope.source_port >= FIRST_PORT && envelope.port >= FIRST_PORT;
        if is_late && !Flags(envelope.flags(headers)).has(Flags::SYN) {
            self.strays.unknown += 1;
            let is_answered =
                envelope.is_tcp && self.acknowledge_late(now, host, headers, envelope);
            self.strays.answered += u64::from(is_answered);
            return;
        }
        self.answer(now, host, headers, ip_len);
    }

    /// Answers as a host without listeners does: replies to echo requests, and refuses the rest.
    #[cold]
    pub(super) fn answer(&mut self, now: Time, host: NodeId, headers: &[u8], ip_len: u32) {
        let mut frame = headers.to_vec();
        frame.resize(ETHERNET_LEN + ip_len as usize, 0);
        if let Some(quoted) = Quoted::read(&frame)
            && self.pass_error(now, host, quoted)
        {
            self.strays.errors += 1;
            return;
        }
        self.strays.unknown += 1;
        let Some(Host { node, ipv4, ipv6 }) = self.context.table.host(host) else {
            return;
        };
        let mut reply = vec![0; frame.len().max(2048)];
        let host = Node {
            name: String::new(),
            kind: NodeKind::Host,
            ipv4,
            ipv6,
        };
        let written = self
            .replies
            .respond(&host, PuntReason::Local, &frame, &mut reply);
        let Some(reply) = written.and_then(|len| reply.get(..len)) else {
            return;
        };
        let Some(to) = self.destination(reply) else {
            return;
        };
        self.strays.answered += 1;
        let ip_len = (reply.len() - ETHERNET_LEN) as u32;
        let behind = reply.iter().rposition(|&byte| byte != 0).unwrap_or(0) + 1;
        let stored = &reply[..behind.max(ETHERNET_LEN + 60).min(reply.len())];
        let ends = Ends { host: node, to };
        self.context.outbox.push(ends, now, |out| {
            out.extend_from_slice(stored);
            ip_len
        });
    }

    /// Passes an error to the flow under way that sent the quoted packet from `host`, if there is one.
    fn pass_error(&mut self, now: Time, host: NodeId, quoted: Quoted) -> bool {
        let sender = self.context.table.find(quoted.from);
        if sender != Some(host) {
            return false; // it never sent that
        }
        let key = Key::new(
            host,
            quoted.to.number(),
            quoted.port,
            quoted.remote_port,
            quoted.is_tcp,
        );
        let Some(slot) = self.slots.find(&key) else {
            return false;
        };
        match self.slots.get_mut(slot) {
            Active::Tcp(end) => end.handle_error(&mut self.context, quoted.seq, now),
            Active::Sender(sender) => sender.handle_error(),
            _ => return false,
        }
        self.clean(slot, now);
        true
    }

    /// The host that a frame goes to.
    fn destination(&self, frame: &[u8]) -> Option<NodeId> {
        let ip = frame.get(ETHERNET_LEN..)?;
        let is_v6 = frame[12..14] == ETHERTYPE_IPV6.to_be_bytes();
        let to = Address::read(ip, is_v6, if is_v6 { 24 } else { 16 })?;
        self.context.table.find(to)
    }
}
