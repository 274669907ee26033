//! What is to come: the head of each pipe that is not empty, and when shaped pipes depart.
//!
//! Theory: each entry is a key that holds the whole order of events (time, microstep, rank), so
//! one comparison decides and no key is ever equal to another. Rank stands for (receiving node,
//! sending pipe); see [`crate::engine`]. A pipe whose departures are events has a second place,
//! for its next departure: those come before all that comes out of pipes at the same time.
//!
//! Two structures keep them. The [`heap`] serves any key at any time. The [`wheel`] keeps heads
//! of plain pipes by the time at which they are due, unsorted; look-ahead windows
//! (`engine/window.rs`) take a stretch of time out of it at once.

pub(crate) mod heap;
pub(crate) mod wheel;

use crate::pipe::delay::Moment;
use crate::time::Time;

/// (time, microstep, rank) in one number.
pub(crate) type Key = u128;

/// Set in the low half of the key of a packet that comes out; ranks are below it.
const OUT: u32 = 1 << 31;

/// A packet comes out.
#[inline]
pub(crate) fn key(due: Moment, rank: u32) -> Key {
    Key::from(due.time.as_ns()) << 64 | Key::from(due.microstep) << 32 | Key::from(rank | OUT)
}

/// A packet departs inside its pipe.
#[inline]
pub(crate) fn departure_key(at: Time, rank: u32) -> Key {
    Key::from(at.as_ns()) << 64 | Key::from(rank)
}

/// Whether a packet comes out, and not only departs.
#[inline]
pub(crate) const fn is_out(key: Key) -> bool {
    key as u32 & OUT != 0
}

#[inline]
pub(crate) const fn time(key: Key) -> Time {
    Time::from_ns((key >> 64) as u64)
}

#[inline]
pub(crate) const fn moment(key: Key) -> Moment {
    Moment {
        time: time(key),
        microstep: (key >> 32) as u16,
    }
}

#[inline]
pub(crate) const fn rank(key: Key) -> u32 {
    key as u32 & !OUT
}
