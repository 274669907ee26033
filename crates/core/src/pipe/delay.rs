//! Constant propagation delay that keeps packets in order.
//!
//! When the delay falls during a run, packets behind do not overtake those in front: they
//! come out no earlier than their predecessor.
//!
//! Left out: delay distributions, and reordering by choice.

use crate::time::{Span, Time};

/// A place in the order of events of one element: time, then microstep. The microstep rises
/// where a packet crosses a pipe in no time at all, so that effects come after their causes. Fewer
/// hops than it counts fit into one instant: each packet's hop limit is a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Moment {
    pub(crate) time: Time,
    pub(crate) microstep: u16,
}

/// Delays packets.
#[derive(Debug, Clone)]
pub(crate) struct Delay {
    pub(crate) span: Span,
    /// When the packet that entered last comes out.
    pub(crate) last: Moment,
}

impl Delay {
    pub(crate) fn new(span: Span) -> Self {
        Self {
            span,
            last: Moment::default(),
        }
    }

    /// When a packet comes out that entered at `entry` and departs at `departure`.
    #[inline]
    pub(crate) fn carry(&mut self, entry: Moment, departure: Time, delay: Span) -> Moment {
        let time = departure + delay;
        let microstep = if time == entry.time {
            entry.microstep.saturating_add(1)
        } else {
            0
        };
        // As the order of moments, with the usual case first.
        let last = self.last;
        if time > last.time || time == last.time && microstep > last.microstep {
            self.last = Moment { time, microstep };
        }
        self.last
    }
}
