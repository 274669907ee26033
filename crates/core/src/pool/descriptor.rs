//! A packet's descriptor: everything known about it except its bytes, in one cache line.
//!
//! It holds what a hop needs and what the ends of a path need, so a packet costs 64 bytes besides its own.
//! Values that follow from others are not stored: how far the hop limit in the frame must still be lowered
//! is its difference from `hop_limit`, and the remainder of a nanosecond of a departure follows from the
//! departures of the packets behind it.

use std::num::NonZeroU32;

use crate::packet::Headers;
use crate::pipe::delay::Moment;
use crate::pipe::rate::Exact;
use crate::pool::{MAX_PACKET_LEN, NIL};
use crate::segment::Partial;
use crate::time::{Span, Time};

/// A shared buffer's number, from 1.
pub(crate) type BufferId = NonZeroU32;

/// Flag: a router may fragment the packet.
pub(crate) const MAY_FRAGMENT: u8 = 1;
/// Flag: the pipe that it is in has lost it; it keeps its place there until it would come out.
pub(crate) const LOST: u8 = 2;
/// Flag: the CE mark is still to be written into the frame.
pub(crate) const MARKED: u8 = 4;
/// Flag: the checksum in its own slot is partial.
const PARTIAL: u8 = 8;
/// Flag: it departs within the nanosecond that begins at `departure`, not at its beginning.
const WITHIN: u8 = 16;

/// The gap is unknown, longer than 4 s, or before a packet that comes out at a microstep above 0.
const UNKNOWN: u32 = u32::MAX;

/// A packet without its bytes.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(crate) struct Descriptor {
    due: Time,
    /// When its last bit leaves its pipe's sender, in whole ns.
    departure: u64,
    /// The sum of the delays of all pipes so far.
    pub(crate) path_delay: Span,
    /// When it entered the network.
    pub(crate) entered: Time,
    /// The packet behind it.
    pub(crate) next: u32,
    /// The time from when it comes out of a plain pipe until the packet behind it does, in ns, or
    /// [`UNKNOWN`]. Spares whoever takes it out a cache miss on that packet.
    gap: u32,
    pub(crate) id: u32,
    /// The node that it goes to; `NIL` for none that exists.
    pub(crate) destination: u32,
    /// How much later it comes out than its stamp would have allowed, in ns, because the engine was past
    /// that time.
    pub(crate) shift: u32,
    /// The buffer that holds its bytes; 0 if its own slot does. With [`PARTIAL`], the place of the checksum.
    place: u32,
    /// With a buffer: its number among the segments. Without: how many bytes its slot holds if the rest of
    /// its frame is zeros, or 0 if the slot holds all.
    pub(crate) segment: u16,
    ip_len: u16,
    microstep: u16,
    /// TTL or hop limit, all edits included.
    pub(crate) hop_limit: u8,
    flags: u8,
}

const _: () = assert!(size_of::<Descriptor>() == 64);

/// What the ends of a path need to know of a packet.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Origin {
    pub(crate) id: u32,
    /// When it entered the network.
    pub(crate) entered: Time,
    /// How much later it comes out than its stamp would have allowed, in ns, because the engine was past
    /// that time.
    pub(crate) shift: u32,
}

impl Descriptor {
    /// A packet of which nothing else is known yet.
    pub(super) const fn new(origin: Origin) -> Self {
        Self {
            due: Time::ZERO,
            departure: 0,
            path_delay: Span::ZERO,
            entered: origin.entered,
            id: origin.id,
            next: NIL,
            gap: UNKNOWN,
            destination: NIL,
            shift: origin.shift,
            place: 0,
            segment: 0,
            ip_len: 0,
            microstep: 0,
            hop_limit: 0,
            flags: 0,
        }
    }

    /// It has such headers.
    pub(super) fn describe(&mut self, headers: &Headers) {
        debug_assert!(headers.ip_len <= MAX_PACKET_LEN);
        self.ip_len = headers.ip_len as u16;
        self.hop_limit = headers.hop_limit;
        self.put(MAY_FRAGMENT, headers.may_fragment);
    }

    pub(super) const fn origin(&self) -> Origin {
        Origin {
            id: self.id,
            entered: self.entered,
            shift: self.shift,
        }
    }

    /// Takes over, from a packet of another engine, what outlasts a pipe. The bytes are not included.
    pub(crate) fn continue_as(&mut self, from: &Self) {
        *self = Self {
            departure: 0,
            next: NIL,
            gap: UNKNOWN,
            ..from.clone()
        };
        self.flags &= MAY_FRAGMENT | MARKED;
    }

    #[inline]
    pub(crate) const fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    pub(crate) const fn put(&mut self, flag: u8, is: bool) {
        self.flags = self.flags & !flag | if is { flag } else { 0 };
    }

    /// Clears a flag; returns whether it was set.
    pub(super) const fn take(&mut self, flag: u8) -> bool {
        let is = self.is(flag);
        self.put(flag, false);
        is
    }

    /// Length of the IP packet.
    #[inline]
    pub(crate) const fn ip_len(&self) -> u32 {
        self.ip_len as u32
    }

    /// When it comes out of its pipe; before it has departed in a shaped pipe, when it entered.
    #[inline]
    pub(crate) const fn due(&self) -> Moment {
        Moment {
            time: self.due,
            microstep: self.microstep,
        }
    }

    #[inline]
    pub(crate) fn set_due(&mut self, due: Moment) {
        self.due = due.time;
        self.microstep = due.microstep;
    }

    /// The packet behind it comes out at `due`.
    #[inline]
    pub(crate) fn set_due_behind(&mut self, due: Moment) {
        let gap = due.time.since(self.due).as_ns();
        self.gap = match u32::try_from(gap) {
            Ok(gap) if due.microstep == 0 => gap, // that of `UNKNOWN` is unknown, too
            _ => UNKNOWN,
        };
    }

    /// When the packet behind it comes out, as far as that is known here.
    #[inline]
    pub(crate) fn due_behind(&self) -> Option<Moment> {
        (self.gap != UNKNOWN).then(|| Moment {
            time: self.due + Span::from_ns(u64::from(self.gap)),
            microstep: 0,
        })
    }

    /// Forgets the gap: the packet behind it comes out at another time now.
    pub(crate) const fn forget_behind(&mut self) {
        self.gap = UNKNOWN;
    }

    /// When its last bit has been sent by the plain pipe that it is in.
    #[inline]
    pub(crate) const fn sent(&self) -> Time {
        Time::from_ns(self.departure.saturating_add(self.is(WITHIN) as u64))
    }

    /// The nanosecond in which that is.
    pub(crate) const fn sent_in(&self) -> u64 {
        self.departure
    }

    /// Notes its entry into a plain pipe, as the last packet there.
    #[inline]
    pub(crate) fn enter(&mut self, due: Moment, departure: Exact, lost: bool) {
        (self.next, self.gap) = (NIL, UNKNOWN);
        self.set_due(due);
        self.departure = departure.ns;
        let within = if departure.is_whole() { 0 } else { WITHIN };
        let lost = if lost { LOST } else { 0 };
        self.flags = self.flags & !(WITHIN | LOST) | within | lost;
    }

    #[inline]
    pub(crate) const fn set_departure(&mut self, departure: Exact) {
        self.departure = departure.ns;
        self.put(WITHIN, !departure.is_whole());
    }

    /// The buffer that holds its bytes; `None` for its own slot.
    #[inline]
    pub(crate) const fn buffer(&self) -> Option<BufferId> {
        if self.is(PARTIAL) {
            None
        } else {
            BufferId::new(self.place)
        }
    }

    /// Its bytes are a segment of a buffer.
    pub(crate) const fn share(&mut self, buffer: BufferId, segment: u16) {
        self.place = buffer.get();
        self.segment = segment;
    }

    /// Takes away its buffer.
    pub(super) const fn leave(&mut self) -> Option<BufferId> {
        let buffer = self.buffer();
        if buffer.is_some() {
            self.place = 0;
        }
        buffer
    }

    /// Where the partial checksum in its own slot is, if it has one.
    #[inline]
    pub(crate) const fn partial(&self) -> Option<Partial> {
        if !self.is(PARTIAL) {
            return None;
        }
        Some(Partial {
            start: (self.place >> 16) as u16,
            offset: self.place as u16,
        })
    }

    /// The checksum in its own slot is partial, or no longer.
    pub(crate) const fn set_partial(&mut self, partial: Option<Partial>) {
        self.put(PARTIAL, partial.is_some());
        self.place = match partial {
            Some(Partial { start, offset }) => (start as u32) << 16 | offset as u32,
            None => 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is behind is known exactly or not at all.
    #[test]
    fn only_what_fits_is_known_of_the_packet_behind() {
        let at = |ns, microstep| Moment {
            time: Time::from_ns(ns),
            microstep,
        };
        let mut packet = Descriptor::new(Origin::default());
        packet.enter(at(1000, 0), Exact::at(0), false);
        assert_eq!(packet.due_behind(), None);
        let longest = u64::from(UNKNOWN - 1);
        for due in [at(1000, 0), at(1001, 0), at(1000 + longest, 0)] {
            packet.set_due_behind(due);
            assert_eq!(packet.due_behind(), Some(due));
        }
        for due in [at(1000, 1), at(1001 + longest, 0), at(u64::MAX >> 1, 0)] {
            packet.set_due_behind(due);
            assert_eq!(packet.due_behind(), None);
        }
        packet.set_due_behind(at(1001, 0));
        packet.forget_behind();
        assert_eq!(packet.due_behind(), None);
    }
}
