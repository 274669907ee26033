//! When somebody wants to be called: lazy timers.
//!
//! Theory: a timer that is moved later, as a retransmission time-out is with each
//! acknowledgement, keeps its old place, and is put where it belongs when that comes. One that is
//! moved earlier gets a second place, and the first one then means nothing. So all that is paid
//! for a move is a comparison, and the heap holds about one place for each timer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use longhaul_core::time::Time;

/// Whose timer it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    /// The slot.
    pub(super) slot: u32,
    /// Which one of the slot's timers.
    pub(super) which: u8,
    /// The slot's user among those that it has had.
    pub(super) generation: u32,
}

/// All timers; equal times are in the order of owners.
#[derive(Debug, Default)]
pub(super) struct Timers(BinaryHeap<Reverse<(Time, Owner)>>);

impl Timers {
    /// The next place; what it stands for may have moved later.
    pub(super) fn next(&self) -> Option<Time> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the first place if it is not later than `end`.
    pub(super) fn pop(&mut self, end: Time) -> Option<(Time, Owner)> {
        if self.next()? > end {
            return None;
        }
        self.0.pop().map(|Reverse(place)| place)
    }

    /// Gives a timer a place at `at` if it has none that is as early. `armed` is its earliest
    /// place, [`Time::MAX`] for none.
    #[inline]
    pub(super) fn set(&mut self, owner: Owner, armed: &mut Time, at: Time) {
        if at < *armed {
            *armed = at;
            self.0.push(Reverse((at, owner)));
        }
    }
}
