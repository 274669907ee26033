//! Super-packets at the ingress, and parcels at the egress.
//!
//! Purpose: hosts with segmentation offload send and receive many segments in one frame. Inside the engine
//! each segment is a packet like all others: it is queued, delayed, dropped and counted by itself, without
//! regard to its neighbours. All segments enter at the super-packet's stamp, in order.
//!
//! A **parcel** is what leaves for a host in one frame: one packet, or consecutive segments of one
//! super-packet that came out directly behind one another. A parcel never waits: only packets that have
//! come out already are joined. If two segments are due further apart than the caller's bound, the parcel
//! ends between them, so a receiver sees the spacing of every link slow enough for it to matter.
//!
//! Left out: joining packets of different super-packets.

use super::{Egress, Engine, Refused};
use crate::packet::{self, Destination, ETHERNET_LEN, FrameError, Headers};
use crate::pool::BufferId;
use crate::segment::{self, Kind, MAX_SEGMENTS, Offload, Partial, Super};
use crate::time::{Span, Time};
use crate::topology::NodeId;

/// Packets that leave in one frame. Its bytes are valid until its first packet is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parcel {
    /// Where it goes.
    pub host: NodeId,
    /// How many packets it holds.
    pub packets: u16,
    /// Length of its frame in bytes.
    pub len: u32,
    /// The segmentation and checksum work that is left to the receiving kernel.
    pub offload: Offload,
    index: u32,
}

impl Engine {
    /// Takes a frame that a host sent at `stamp` and that still needs `offload`. As [`Engine::arrive`] for
    /// each of its segments; the payload is copied once. If slots run out half-way, the first segments
    /// have entered.
    ///
    /// # Errors
    /// Also if the frame contradicts `offload` ([`FrameError::Malformed`]).
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

    /// Takes one packet whose checksum is partial.
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
            return Err(self.refuse(FrameError::Malformed));
        }
        if frame.len() > self.pool.slot_size() {
            return Err(self.too_long());
        }
        let index = self.take_slot(stamp)?;
        let to = self.find(headers.destination);
        self.pool.describe(index, &headers, to);
        self.pool.write(index, frame);
        self.pool[index].set_partial(Some(checksum));
        self.inject(host, index, stamp);
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
            let refused = self.refuse(FrameError::Malformed);
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

    /// Counts the rest of a refused super-packet, one packet of which has been counted.
    fn refuse_rest(&mut self, refused: Refused, frame: &[u8], offload: &Offload) -> Refused {
        let rest = segment::packets_in(frame, offload) - 1;
        let counters = &mut self.record.counters.refused;
        match refused {
            Refused::Frame(FrameError::Malformed) => counters.malformed += rest,
            Refused::Frame(FrameError::NotIp) => counters.not_ip += rest,
            Refused::Frame(FrameError::Multicast) => counters.multicast += rest,
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
            let index = match self.take_slot(stamp) {
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
            self.inject(host, index, stamp);
        }
        Ok(())
    }

    /// The next parcel: packets that have come out at one host, are consecutive segments, and are each due
    /// at most `gap` after the one before. They are appended to `packets` in order, to be released after
    /// the parcel has been sent.
    pub fn poll_parcel(&mut self, gap: Span, packets: &mut Vec<Egress>) -> Option<Parcel> {
        let first = self.next_egress()?;
        packets.push(self.describe_egress(first));
        let (mut last, mut count) = (first, 1);
        while let Some(next) = self.outgoing.first() {
            let joins = usize::from(count) < MAX_SEGMENTS
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

    /// The frame of a polled parcel as its host receives it, in two parts, the second of which may be
    /// empty.
    pub fn parts(&self, parcel: &Parcel) -> [&[u8]; 2] {
        self.pool.parts(parcel.index, parcel.packets)
    }

    /// The node with the source address of a polled parcel; `None` if no node has it.
    pub fn source(&self, parcel: &Parcel) -> Option<NodeId> {
        match packet::source(self.parts(parcel)[0])? {
            Destination::V4(address) => self.topology.by_ipv4(address),
            Destination::V6(address) => self.topology.by_ipv6(address),
            Destination::Group => None,
        }
    }

    /// Super-packets whose buffer is in use.
    pub fn buffers_in_use(&self) -> u32 {
        self.pool.buffers.in_use()
    }
}
