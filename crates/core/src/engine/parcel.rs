//! Super-packets at the door, and parcels at the egress.
//!
//! Purpose: hosts with segmentation offload hand over many segments at once, and take them so.
//! In between, each segment is a packet like all others: it is queued, delayed, dropped and
//! counted by itself, and nothing inside knows of its neighbours. All enter at the super-packet's
//! stamp, in order.
//!
//! A **parcel** is what leaves for a host in one piece: one packet, or neighbours of one
//! super-packet that came out one directly behind the other. It never waits for anybody: only
//! what has come out already is looked at. Where two neighbours are due further apart than the
//! caller's bound, the parcel ends between them, so that a receiver sees the spacing of any
//! link that is slow enough for it to matter.
//!
//! Left out: joining packets of different super-packets.

use super::{Egress, Engine, Refused};
use crate::packet::{self, Destination, ETHERNET_LEN, Headers, Refusal};
use crate::pool::BufferId;
use crate::segment::{self, Kind, MOST_SEGMENTS, Offload, Partial, Super};
use crate::time::{Span, Time};
use crate::topology::NodeId;

/// Packets that leave in one piece. Its bytes are there until its first packet is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parcel {
    /// Where it goes.
    pub host: NodeId,
    /// How many packets it is.
    pub packets: u16,
    /// Length of its frame in bytes.
    pub len: u32,
    /// What the receiving kernel still has to do, or may leave undone.
    pub offload: Offload,
    index: u32,
}

impl Engine {
    /// A frame arrives from a host, stamped `stamp`, to which `offload` is still to be done. As
    /// [`Engine::arrive`], for each of its segments; the payload is copied once. Where slots run
    /// out half-way, the first segments have entered.
    ///
    /// # Errors
    /// Also where the frame contradicts `offload` ([`Refusal::Malformed`]).
    pub fn arrive_super(
        &mut self,
        host: NodeId,
        stamp: Time,
        frame: &[u8],
        offload: &Offload,
    ) -> Result<(), Refused> {
        match (offload.kind, offload.checksum) {
            (Kind::Whole, None) => self.arrive(host, stamp, frame),
            (Kind::Whole, Some(checksum)) => self.arrive_partial(host, stamp, frame, checksum),
            _ => self.arrive_segments(host, stamp, frame, offload),
        }
    }

    /// One packet whose checksum is partial.
    fn arrive_partial(
        &mut self,
        host: NodeId,
        stamp: Time,
        frame: &[u8],
        checksum: Partial,
    ) -> Result<(), Refused> {
        let headers = self.admit(host, frame)?;
        let frame = &frame[..ETHERNET_LEN + headers.ip_len as usize];
        if !segment::is_sound(frame, checksum) {
            return Err(self.refuse(Refusal::Malformed));
        }
        if frame.len() > self.pool.slot_size() {
            return Err(self.too_long());
        }
        let index = self.take(stamp)?;
        let to = self.find(headers.destination);
        self.pool.describe(index, &headers, to);
        self.pool.write(index, frame);
        self.pool[index].set_partial(Some(checksum));
        self.set_out(host, index, stamp);
        Ok(())
    }

    fn arrive_segments(
        &mut self,
        host: NodeId,
        stamp: Time,
        frame: &[u8],
        offload: &Offload,
    ) -> Result<(), Refused> {
        let headers = match self.admit(host, frame) {
            Ok(headers) => headers,
            Err(refused) => return Err(self.refuse_rest(refused, frame, offload)),
        };
        let frame = &frame[..ETHERNET_LEN + headers.ip_len as usize];
        let Some(dimensions) = Super::parse(frame, offload) else {
            let refused = self.refuse(Refusal::Malformed);
            return Err(self.refuse_rest(refused, frame, offload));
        };
        if ETHERNET_LEN + dimensions.ip_len(0) > self.pool.slot_size() {
            let refused = self.too_long();
            return Err(self.refuse_rest(refused, frame, offload));
        }
        let buffer = self.pool.buffers.take(frame, dimensions);
        let entered = self.enter_segments(host, stamp, frame, &headers, dimensions, buffer);
        if let Some(buffer) = buffer {
            self.pool.buffers.leave(buffer);
        }
        entered
    }

    /// Counts the other packets of a super-packet of which one has been counted as refused.
    fn refuse_rest(&mut self, refused: Refused, frame: &[u8], offload: &Offload) -> Refused {
        let rest = segment::packets_in(frame, offload) - 1;
        let counters = &mut self.record.counters.refused;
        match refused {
            Refused::Frame(Refusal::Malformed) => counters.malformed += rest,
            Refused::Frame(Refusal::NotIp) => counters.not_ip += rest,
            Refused::Frame(Refusal::Multicast) => counters.multicast += rest,
            Refused::TooLong => counters.too_long += rest,
            Refused::PoolExhausted => {}
        }
        refused
    }

    fn enter_segments(
        &mut self,
        host: NodeId,
        stamp: Time,
        frame: &[u8],
        headers: &Headers,
        dimensions: Super,
        buffer: Option<BufferId>,
    ) -> Result<(), Refused> {
        let to = self.find(headers.destination);
        for number in 0..dimensions.count() {
            let index = match self.take(stamp) {
                Ok(index) => index,
                Err(error) => {
                    // The rest is lost with this one.
                    let rest = dimensions.count() - number - 1;
                    self.record.counters.pool_exhausted += u64::from(rest);
                    return Err(error);
                }
            };
            let headers = Headers {
                ip_len: dimensions.ip_len(number) as u32,
                ..*headers
            };
            self.pool.describe(index, &headers, to);
            if let Some(buffer) = buffer {
                self.pool.buffers.join(buffer);
                self.pool[index].share(buffer, number);
                if headers.destination == Destination::Group {
                    self.pool.materialise(index);
                }
            } else {
                self.pool.write_segment(index, frame, &dimensions, number);
            }
            self.set_out(host, index, stamp);
        }
        Ok(())
    }

    /// The next packets that have come out at a host and may leave for it in one piece, because
    /// they are neighbours and each is due at most `gap` after the one before. Each of them is
    /// added to `packets`, in order, to be released after the parcel has been sent.
    pub fn poll_parcel(&mut self, gap: Span, packets: &mut Vec<Egress>) -> Option<Parcel> {
        let first = self.next_egress()?;
        packets.push(self.describe_egress(first));
        let (mut last, mut count) = (first, 1);
        while let Some(next) = self.outgoing.first() {
            let joins = usize::from(count) < MOST_SEGMENTS
                && self.pool.follows(last, next)
                && self.pool[next].due().time.since(self.pool[last].due().time) <= gap;
            if !joins {
                break;
            }
            self.next_egress();
            packets.push(self.describe_egress(next));
            (last, count) = (next, count + 1);
        }
        let host = NodeId(self.pool[first].destination);
        let (offload, len) = self.pool.write_headers(first, count);
        self.address(first, host);
        Some(Parcel {
            host,
            packets: count,
            len: len as u32,
            offload,
            index: first,
        })
    }

    /// The bytes of a polled parcel, as its host is to receive them, in two parts of which the
    /// second may be empty.
    pub fn parts(&self, parcel: &Parcel) -> [&[u8]; 2] {
        self.pool.parts(parcel.index, parcel.packets)
    }

    /// The node that a polled parcel says it comes from; `None` where its source address is no node's.
    pub fn source(&self, parcel: &Parcel) -> Option<NodeId> {
        match packet::source(self.parts(parcel)[0])? {
            Destination::V4(address) => self.topology.by_ipv4(address),
            Destination::V6(address) => self.topology.by_ipv6(address),
            Destination::Group => None,
        }
    }

    /// Super-packets whose bytes are still needed.
    pub fn buffers_in_use(&self) -> u32 {
        self.pool.buffers.in_use()
    }
}
