//! Lazy timers in one heap.
//!
//! Theory: a timer that is moved later, as a retransmission time-out is with each acknowledgement, keeps
//! its old entry, and is reinserted when that entry comes. One that is moved earlier gets a second entry,
//! and the old one is ignored when it comes. So moving a timer later costs one comparison, and the heap
//! holds about one entry for each timer.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use longhaul_core::time::Time;

use super::side::EndId;

/// Which of an end's timers; of two at one time, the endpoint's is the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// That of its TCP endpoint.
    Endpoint,
    /// That of its application.
    Application,
    /// The timer of silence: nothing heard from the other end for too long.
    Silence,
}

/// Whose timer it is. As there is one end of an id, slots never decide about the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) end: EndId,
    /// The slot where the end is, or was, times 4, and which timer.
    place: u32,
}

impl Owner {
    pub(super) const fn new(end: EndId, slot: u32, timer: Timer) -> Self {
        Self {
            end,
            place: slot << 2 | timer as u32,
        }
    }

    pub(super) const fn slot(self) -> u32 {
        self.place >> 2
    }

    pub(super) const fn timer(self) -> Timer {
        match self.place % 4 {
            0 => Timer::Endpoint,
            1 => Timer::Application,
            _ => Timer::Silence,
        }
    }
}

/// An entry of the heap; equal times are in the order of ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    at: Time,
    owner: Owner,
}

// Not derived: times are rarely equal, so comparing them alone first decides nearly always.
impl Ord for Place {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        #[cold]
        fn of_owners(a: &Owner, b: &Owner) -> Ordering {
            a.cmp(b)
        }
        match self.at.cmp(&other.at) {
            Ordering::Equal => of_owners(&self.owner, &other.owner),
            order => order,
        }
    }
}

impl PartialOrd for Place {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
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
