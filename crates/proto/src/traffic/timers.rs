//! When somebody wants to be called: lazy timers.
//!
//! Theory: a timer that is moved later, as a retransmission time-out is with each
//! acknowledgement, keeps its old place, and is put where it belongs when that comes. One that is
//! moved earlier gets a second place, and the first one then means nothing. So all that is paid
//! for a move is a comparison, and the heap holds about one place for each timer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use longhaul_core::time::Time;

use super::side::EndId;

/// Whose timer it is. As there is one end of an id, slots never decide about the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) end: EndId,
    /// Where it is, or was.
    pub(super) slot: u32,
}

/// A timer's place; equal times are in the order of ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    at: Time,
    owner: Owner,
}

const _: () = assert!(size_of::<Place>() <= 24);

/// All timers.
#[derive(Debug, Default)]
pub(super) struct Timers(BinaryHeap<Reverse<Place>>);

impl Timers {
    /// The next place; what it stands for may have moved later.
    pub(super) fn next(&self) -> Option<Time> {
        self.0.peek().map(|Reverse(place)| place.at)
    }

    /// Takes the first place if it is not later than `end`.
    pub(super) fn pop(&mut self, end: Time) -> Option<(Time, Owner)> {
        if self.next()? > end {
            return None;
        }
        self.0.pop().map(|Reverse(place)| (place.at, place.owner))
    }

    /// Gives a timer a place at `at` if it has none that is as early. `armed` is its earliest
    /// place, [`Time::MAX`] for none.
    #[inline]
    pub(super) fn set(&mut self, owner: Owner, armed: &mut Time, at: Time) {
        if at < *armed {
            *armed = at;
            self.0.push(Reverse(Place { at, owner }));
        }
    }

    /// How many places there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
