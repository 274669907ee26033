//! The pending set: the head of each pipe that is not empty, and the next departure of each shaped pipe.
//!
//! Only heads are in it, so it grows with the pipes and not with the packets. A key holds the whole order
//! of events (time, microstep, rank), so one comparison decides, and no two keys are equal. The rank
//! stands for (receiving node, sending pipe); see [`crate::engine`]. A shaped pipe, whose departures are
//! events, has a second key for its next departure; departures precede all packets that come out at the
//! same time.
//!
//! Two structures hold the set. The [`heap`] serves any key at any time, in O(log n). The [`wheel`] holds
//! heads of plain pipes, unsorted, by the slot of time that they are due in, in O(1); look-ahead windows
//! (`engine/window.rs`) take whole slots out of it.

pub(crate) mod heap;
pub(crate) mod wheel;

use crate::pipe::delay::Moment;
use crate::time::Time;

/// (time, microstep, rank) in one number.
pub(crate) type Key = u128;

/// Set in the low half of the key of a packet that comes out: sorts it behind all departures of the same
/// moment. Ranks are below it.
const OUT: u32 = 1 << 31;

/// The key of a packet that comes out.
#[inline]
pub(crate) fn key(due: Moment, rank: u32) -> Key {
    Key::from(due.time.as_ns()) << 64 | Key::from(due.microstep) << 32 | Key::from(rank | OUT)
}

/// The key of a departure: the end of a packet's serialisation in a shaped pipe.
#[inline]
pub(crate) fn departure_key(at: Time, rank: u32) -> Key {
    Key::from(at.as_ns()) << 64 | Key::from(rank)
}

/// Whether it is the key of a packet that comes out, not of a departure.
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
