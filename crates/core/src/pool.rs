//! The packet pool: fixed-size descriptors, each with a slot for its frame's bytes.
//!
//! All memory is reserved at the start and touched only when used. The descriptor that was freed last is
//! reused first, as it is still in the cache; an untouched one is taken only when none is free. The
//! slots are one zeroed slab, which the system maps page by page at first touch. Descriptors
//! are linked by index: a pipe's packets, the free list and the egress list are chains through
//! `next`. A frame is copied into its slot once; header edits wait in the descriptor.
//!
//! A segment of a super-packet ([`crate::segment`]) is a descriptor whose bytes lie in a buffer
//! that it shares with its neighbours ([`buffers`]). Its own slot stays untouched until it leaves,
//! when its headers are written there, or until somebody needs the packet's own bytes
//! ([`Pool::materialise`]).
//!
//! A modelled packet ([`crate::engine::Modelled`]) has only its headers in its slot; what follows
//! them are zeros that nobody stores. `stored` bytes are there, and that is all that is ever
//! read, edited or copied.

mod buffers;
mod descriptor;

use std::ops::{Index, IndexMut};

use crate::packet::{self, ETHERNET_LEN, Headers};
use crate::segment::{self, Offload, Super};
use buffers::Buffers;

pub(crate) use descriptor::{BufferId, Descriptor, LOST, MARKED, MAY_FRAGMENT, Origin};

/// The payload of modelled packets.
static ZEROS: [u8; MAX_FRAME_LEN] = [0; MAX_FRAME_LEN];
/// The longest IP packet, in bytes: no link takes longer ones, though IPv6, which does not count its
/// header in 16 bits of length, could have them.
pub(crate) const MAX_PACKET_LEN: u32 = u16::MAX as u32;
pub(crate) const MAX_FRAME_LEN: usize = ETHERNET_LEN + MAX_PACKET_LEN as usize;

/// The end of a chain.
pub(crate) const NIL: u32 = u32::MAX;

/// All packets of an engine.
#[derive(Debug)]
pub(crate) struct Pool {
    descriptors: Vec<Descriptor>,
    free: u32,
    in_use: u32,
    slots: u32,
    slot_size: usize,
    slab: Vec<u8>,
    pub(crate) buffers: Buffers,
}

/// Bytes of the slab that are touched before the first packet.
const WARM_BYTES: usize = 64 << 20;
const PAGE_BYTES: usize = 4096;

impl Pool {
    /// A pool with this many slots and buffers for super-packets.
    pub(crate) fn new(slots: u32, slot_size: usize, buffers: u32) -> Self {
        assert!(slots < NIL, "a pool has fewer than 2^32 - 1 slots");
        let slot_size = slot_size.min(MAX_FRAME_LEN);
        Self {
            descriptors: Vec::with_capacity(slots as usize),
            free: NIL,
            in_use: 0,
            slots,
            slot_size,
            slab: vec![0; slots as usize * slot_size],
            buffers: Buffers::new(buffers),
        }
        .warmed()
    }

    /// Touches the memory that is used first, page by page: the first packets of a run must not
    /// wait for it. The rest is mapped when it is needed.
    fn warmed(mut self) -> Self {
        let warm = self.slab.len().min(WARM_BYTES);
        // Not zero: storing what is already there could be left out.
        self.slab[..warm]
            .iter_mut()
            .step_by(PAGE_BYTES)
            .for_each(|byte| *byte = 1);
        let descriptors = self.slots.min((warm / self.slot_size) as u32) as usize;
        let fresh = || Descriptor::new(Origin::default());
        self.descriptors.resize_with(descriptors, fresh);
        self.descriptors.clear();
        self
    }

    /// Takes a descriptor; `None` when all are in use. [`Pool::describe`] it next.
    pub(crate) fn take(&mut self, origin: Origin) -> Option<u32> {
        let index = if self.free != NIL {
            let index = self.free;
            self.free = self[index].next;
            self[index] = Descriptor::new(origin);
            index
        } else if (self.descriptors.len() as u32) < self.slots {
            self.descriptors.push(Descriptor::new(origin));
            self.descriptors.len() as u32 - 1
        } else {
            return None;
        };
        self.in_use += 1;
        Some(index)
    }

    /// Fills in a taken descriptor for a packet with `headers` to node `to`.
    pub(crate) fn describe(&mut self, index: u32, headers: &Headers, to: u32) {
        let packet = &mut self[index];
        packet.destination = to;
        packet.describe(headers);
    }

    /// Gives a descriptor back.
    pub(crate) fn release(&mut self, index: u32) {
        debug_assert!(self.in_use > 0);
        self.in_use -= 1;
        if let Some(buffer) = self[index].leave() {
            self.buffers.leave(buffer);
        }
        self[index].next = self.free;
        self.free = index;
    }

    /// Descriptors that are not free.
    pub(crate) const fn in_use(&self) -> u32 {
        self.in_use
    }

    /// All packets by index, for callers that access several in a row.
    #[inline]
    pub(crate) fn all_mut(&mut self) -> &mut [Descriptor] {
        &mut self.descriptors
    }

    /// A packet; `None` for [`NIL`].
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&Descriptor> {
        self.descriptors.get(index as usize)
    }

    pub(crate) const fn slot_size(&self) -> usize {
        self.slot_size
    }

    /// Loads a packet's descriptor and slot into the cache.
    #[inline]
    pub(crate) fn prefetch(&self, index: u32) -> u32 {
        let bytes = self.slab.get(index as usize * self.slot_size);
        self[index].next ^ bytes.map_or(0, |&byte| u32::from(byte))
    }

    /// Copies the first bytes of a modelled packet's frame into a slot.
    pub(crate) fn write_head(&mut self, index: u32, head: &[u8]) {
        self.write(index, head);
        let is_all = head.len() == self.frame_len(index);
        self[index].segment = if is_all { 0 } else { head.len() as u16 };
    }

    /// Whether the end of a packet's frame is not stored.
    pub(crate) fn is_modelled(&self, index: u32) -> bool {
        let packet = &self[index];
        packet.buffer().is_none() && packet.segment != 0
    }

    /// How many bytes of its frame a packet's own slot holds.
    fn stored(&self, index: u32) -> usize {
        debug_assert!(
            self[index].buffer().is_none(),
            "a segment's bytes are shared"
        );
        match self[index].segment {
            0 => self.frame_len(index),
            stored => usize::from(stored),
        }
    }

    /// Copies a frame into a slot.
    pub(crate) fn write(&mut self, index: u32, frame: &[u8]) {
        let at = index as usize * self.slot_size;
        self.slab[at..at + frame.len()].copy_from_slice(frame);
    }

    /// Writes a segment of a super-packet that shares no bytes into a slot.
    pub(crate) fn write_segment(&mut self, index: u32, frame: &[u8], of: &Super, number: u16) {
        let at = index as usize * self.slot_size;
        let written = of.write_segment(frame, number, &mut self.slab[at..at + self.slot_size]);
        debug_assert_eq!(written, Some(self.frame_len(index)));
    }

    /// The length of a packet's frame.
    pub(crate) fn frame_len(&self, index: u32) -> usize {
        ETHERNET_LEN + self[index].ip_len() as usize
    }

    /// Bytes that begin with a packet's headers, without the pending edits; for a
    /// segment, its whole super-packet, whose lengths and numbers are not the segment's.
    pub(crate) fn headers(&self, index: u32) -> &[u8] {
        match self[index].buffer() {
            None => self.frame(index),
            Some(buffer) => self.buffers.frame(buffer),
        }
    }

    /// The frame of a packet that has bytes of its own, as far as it is stored, without the
    /// pending edits.
    pub(crate) fn frame(&self, index: u32) -> &[u8] {
        debug_assert!(
            self[index].buffer().is_none(),
            "a segment's bytes are shared"
        );
        let at = index as usize * self.slot_size;
        &self.slab[at..at + self.stored(index)]
    }

    /// See [`Pool::frame`].
    pub(crate) fn frame_mut(&mut self, index: u32) -> &mut [u8] {
        debug_assert!(
            self[index].buffer().is_none(),
            "a segment's bytes are shared"
        );
        let (at, len) = (index as usize * self.slot_size, self.stored(index));
        &mut self.slab[at..at + len]
    }

    /// Gives a packet bytes of its own, its checksum complete.
    #[inline]
    pub(crate) fn materialise(&mut self, index: u32) {
        let packet = &self[index];
        if packet.partial().is_some() || packet.buffer().is_some() {
            self.fill_in(index);
        }
    }

    #[cold]
    fn fill_in(&mut self, index: u32) {
        if let Some(partial) = self[index].partial() {
            self[index].set_partial(None);
            segment::complete(self.frame_mut(index), partial);
        }
        let packet = &mut self.descriptors[index as usize];
        if let Some(buffer) = packet.leave() {
            let at = index as usize * self.slot_size;
            let slot = &mut self.slab[at..at + self.slot_size];
            let (frame, dimensions) = (self.buffers.frame(buffer), self.buffers.super_of(buffer));
            let number = std::mem::take(&mut packet.segment);
            let written = dimensions.write_segment(frame, number, slot);
            debug_assert_eq!(written, Some(ETHERNET_LEN + packet.ip_len() as usize));
            self.buffers.leave(buffer);
        }
    }

    /// Gives a packet bytes of its own, and writes the pending edits into them.
    pub(crate) fn apply_edits(&mut self, index: u32) {
        self.materialise(index);
        let len = self.stored(index);
        self.edit(index, len);
    }

    /// Writes the pending edits into the `len` bytes at the front of a packet's own slot.
    fn edit(&mut self, index: u32, len: usize) {
        let at = index as usize * self.slot_size;
        let frame = &mut self.slab[at..at + len];
        let packet = &mut self.descriptors[index as usize];
        edit_frame(frame, packet.hop_limit, packet.take(MARKED));
    }

    /// Appends the first `most` bytes of a packet's frame as it would leave now: bytes of its own, its
    /// checksum complete, the waiting edits applied, zeros where they are not stored.
    pub(crate) fn append_frame(&self, index: u32, most: usize, to: &mut Vec<u8>) {
        let (start, packet) = (to.len(), &self[index]);
        let len = self.frame_len(index);
        if let Some(buffer) = packet.buffer() {
            to.resize(start + len, 0);
            let (frame, dimensions) = (self.buffers.frame(buffer), self.buffers.super_of(buffer));
            let written = dimensions.write_segment(frame, packet.segment, &mut to[start..]);
            debug_assert_eq!(written, Some(len));
        } else {
            to.extend_from_slice(self.frame(index));
            if let Some(partial) = packet.partial() {
                segment::complete(&mut to[start..], partial);
            }
        }
        edit_frame(&mut to[start..], packet.hop_limit, packet.is(MARKED));
        to.resize(start + len.min(most), 0);
    }

    /// Whether packet `next` can go on where `packet` ends, under one header.
    pub(crate) fn follows(&self, packet: u32, next: u32) -> bool {
        let (packet, next) = (&self[packet], &self[next]);
        packet.buffer().is_some()
            && packet.buffer() == next.buffer()
            && packet.segment.checked_add(1) == Some(next.segment)
            && packet.destination == next.destination
            && (packet.hop_limit, packet.is(MARKED)) == (next.hop_limit, next.is(MARKED))
    }

    /// Writes to its own slot one header for a packet and the `count - 1` segments behind it, edits applied;
    /// returns the offload work that is left, and the length of the whole frame.
    pub(crate) fn write_headers(&mut self, index: u32, count: u16) -> (Offload, usize) {
        let at = index as usize * self.slot_size;
        let packet = &self.descriptors[index as usize];
        let Some(buffer) = packet.buffer() else {
            let checksum = packet.partial();
            let stored = self.stored(index);
            self.edit(index, stored);
            let offload = Offload {
                checksum,
                ..Offload::default()
            };
            return (offload, self.frame_len(index));
        };
        let (frame, dimensions) = (self.buffers.frame(buffer), self.buffers.super_of(buffer));
        let (first, slot) = (packet.segment, &mut self.slab[at..at + self.slot_size]);
        let len = dimensions.write_headers(frame, first, count, slot);
        let offload = dimensions.offload(frame, first, count);
        let whole = len + dimensions.payload(first, count).len();
        self.edit(index, len);
        (offload, whole)
    }

    /// The bytes in a packet's own slot: its frame, or the headers that were written there.
    pub(crate) fn head_mut(&mut self, index: u32) -> &mut [u8] {
        let len = match self[index].buffer() {
            None => self.stored(index),
            Some(buffer) => self.buffers.super_of(buffer).headers(),
        };
        let at = index as usize * self.slot_size;
        &mut self.slab[at..at + len]
    }

    /// The bytes of a packet whose headers have been written for `count`, in two parts.
    pub(crate) fn parts(&self, index: u32, count: u16) -> [&[u8]; 2] {
        let packet = &self[index];
        let Some(buffer) = packet.buffer() else {
            let zeros = self.frame_len(index) - self.stored(index);
            return [self.frame(index), &ZEROS[..zeros]];
        };
        let dimensions = self.buffers.super_of(buffer);
        let at = index as usize * self.slot_size;
        let payload = dimensions.payload(packet.segment, count);
        [
            &self.slab[at..at + dimensions.headers()],
            &self.buffers.frame(buffer)[payload],
        ]
    }

    /// One packet's frame to read and another packet's whole slot to write.
    pub(crate) fn frame_and_slot(&mut self, read: u32, write: u32) -> (&[u8], &mut [u8]) {
        debug_assert_ne!(read, write);
        debug_assert!(
            self[read].buffer().is_none(),
            "a segment's bytes are shared"
        );
        let len = self.stored(read);
        let size = self.slot_size;
        let (low, high) = (
            read.min(write) as usize * size,
            read.max(write) as usize * size,
        );
        let (front, back) = self.slab.split_at_mut(high);
        let (low, high) = (&mut front[low..low + size], &mut back[..size]);
        if read < write {
            (&low[..len], high)
        } else {
            (&high[..len], low)
        }
    }

    /// A second packet like packet `index`, bytes and all; `None` where there is no slot.
    pub(crate) fn duplicate(&mut self, index: u32) -> Option<u32> {
        let copy = self.take(self[index].origin())?;
        self[copy] = self[index].clone();
        self[copy].next = NIL;
        if let Some(buffer) = self[copy].buffer() {
            self.buffers.join(buffer);
        } else {
            let (frame, slot) = self.frame_and_slot(index, copy);
            slot[..frame.len()].copy_from_slice(frame);
        }
        Some(copy)
    }

    /// The chain that begins at `first`.
    pub(crate) fn list(&self, first: u32) -> impl Iterator<Item = u32> {
        let some = |index: u32| (index != NIL).then_some(index);
        std::iter::successors(some(first), move |&index| some(self[index].next))
    }
}

/// Writes a packet's hop limit and CE mark into its bytes.
#[inline]
fn edit_frame(frame: &mut [u8], hop_limit: u8, is_marked: bool) {
    let by = packet::hop_limit(frame).saturating_sub(hop_limit);
    if by > 0 {
        packet::lower_hop_limit(frame, by);
    }
    if is_marked {
        packet::set_ce(frame);
    }
}

impl Index<u32> for Pool {
    type Output = Descriptor;
    #[inline]
    fn index(&self, index: u32) -> &Descriptor {
        &self.descriptors[index as usize]
    }
}

impl IndexMut<u32> for Pool {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Descriptor {
        &mut self.descriptors[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a packet costs: a descriptor, its bytes, and nothing else.
    #[test]
    fn a_packet_without_its_bytes_takes_64() {
        let packets = 10_000;
        let mut pool = Pool::new(packets, 192, 0);
        while pool.take(Origin::default()).is_some() {}
        assert_eq!(pool.in_use(), packets);
        let Pool {
            descriptors,
            free: _,
            in_use: _,
            slots: _,
            slot_size: _,
            slab,
            buffers: _, // shared, and bounded by itself
        } = pool;
        assert_eq!(slab.capacity(), packets as usize * 192);
        let bytes = descriptors.capacity() * size_of::<Descriptor>();
        assert!(bytes <= packets as usize * 64, "{bytes} bytes");
    }
}
