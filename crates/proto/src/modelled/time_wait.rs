//! TIME-WAIT without state: how a host answers segments of a connection that is over.
//!
//! Theory: an end that closed first must answer the other end's FIN once more where its last
//! acknowledgement was lost, which RFC 9293 §3.6 keeps it in TIME-WAIT for. All that such an answer
//! says follows from the segment itself: whoever has closed in order has received everything up to
//! that FIN, so that whatever comes again is acknowledged to its end, with the number that it
//! acknowledges. So no end waits for a minute, and millions of short flows leave nothing behind. An
//! answer takes no sequence number and is not answered, so that two hosts do not answer each
//! other for ever.
//!
//! Left out: TIME-WAIT's guard of the pair of ports against old segments. Ports of flows are their
//! own; those of requests come again after 1024 connections.

use longhaul_core::packet::ETHERTYPE_IPV6;
use longhaul_core::time::Time;
use longhaul_core::topology::NodeId;

use super::Traffic;
use super::directory::Address;
use super::outbox::Ends;
use super::wire::{Count, Envelope, Socket, Template};
use crate::ip::PROTOCOL_TCP;
use crate::tcp::{Flags, Segment, Timestamps};

/// The window that the answer advertises: the largest without scaling, so that nobody probes it.
const WINDOW: u64 = 0xffff;

impl Traffic {
    /// Answers a segment of a connection that is over at `host`; returns whether it does.
    #[cold]
    pub(super) fn acknowledge_late(
        &mut self,
        now: Time,
        host: NodeId,
        headers: &[u8],
        envelope: &Envelope,
    ) -> bool {
        let Some([seq, ack]) = envelope.tcp_numbers(headers) else {
            return false;
        };
        // As if its first byte had the count 1, and so had the next of ours.
        let mut count = Count {
            ours: ack.wrapping_sub(1),
            theirs: seq.wrapping_sub(1),
            ..Count::default()
        };
        let ticks = now.as_ns() / 1_000_000 + 1;
        let Some(late) = envelope.segment(headers, &mut count, (1, 1), ticks) else {
            return false;
        };
        if !late.flags.has(Flags::ACK) || late.flags.has(Flags::RST) || late.span() == 0 {
            return false;
        }
        let Some([own, remote]) = self.sockets_of(host, headers, envelope) else {
            return false;
        };
        let answer = Segment {
            seq: 1,
            ack: late.end(),
            flags: Flags::ACK,
            window: WINDOW,
            timestamps: late.timestamps.map(|stamps| Timestamps {
                value: ticks,
                echo: stamps.value,
            }),
            ..Segment::default()
        };
        let ends = Ends {
            host,
            to: remote.node,
        };
        let template = Template::new(PROTOCOL_TCP, own, remote);
        let write = |out: &mut Vec<u8>| template.write_tcp(&answer, &count, out);
        self.context.outbox.push(ends, now, write);
        true
    }

    /// The sockets that a packet has come to and from.
    fn sockets_of(&self, host: NodeId, headers: &[u8], envelope: &Envelope) -> Option<[Socket; 2]> {
        let own = self.context.table.host(host)?;
        let is_v6 = headers.get(12..14)? == ETHERTYPE_IPV6.to_be_bytes();
        let source = if is_v6 {
            Address::V6(envelope.source)
        } else {
            Address::V4(envelope.source as u32)
        };
        let socket = |node, address, port| Socket {
            node,
            address,
            port,
        };
        let own_address = if is_v6 {
            own.ipv6.into()
        } else {
            own.ipv4.into()
        };
        Some([
            socket(host, own_address, envelope.port),
            socket(
                self.context.table.find(source)?,
                source.ip(),
                envelope.source_port,
            ),
        ])
    }
}
