//! How long before packets are due their send call begins.
//!
//! From the clock reading at the start of a turn until the first frame is on its cable takes a few
//! microseconds, always. The loop learns how many from the kernel's stamps of sent frames, and
//! begins so much earlier. It may: for as long as the shortest first pipe nothing that arrives now
//! can change what comes out ([`Engine::lead`](longhaul_core::engine::Engine::lead)).
//!
//! What it learns is what seven of eight calls take at least, so that few packets leave early and
//! none by much. What calls take longer than that is lateness, and measured as before.

use longhaul_core::Span;

/// A call that took longer than has been learnt moves it up by the first step, a quicker one down by
/// the second: their ratio makes it settle where one of eight is quicker.
const UP: Span = Span::from_ns(25);
const DOWN: Span = Span::from_ns(7 * 25);
/// It is never more than this.
const MOST: Span = Span::from_us(20);
/// Taken off, since a call of which the kernel is asked takes a little longer than others, and two
/// clocks are read.
const MARGIN: Span = Span::from_ns(500);
/// Leads are used by halves: the rest is for what has arrived and not been read.
const LEAD_PART: u64 = 2;

/// What has been learnt of the way out.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    way: Span,
}

impl Ahead {
    /// A first frame was on its cable so long after the clock reading of its turn.
    pub(super) fn learn(&mut self, took: Span) {
        self.way = if took > self.way {
            (self.way + UP).min(MOST)
        } else {
            self.way.saturating_sub(DOWN)
        };
    }

    /// How far the engine may be ahead of the clock, where its shortest lead is `lead`.
    pub(super) fn of(&self, lead: Span) -> Span {
        let certain = self.way.saturating_sub(MARGIN);
        certain.min(Span::from_ns(lead.as_ns() / LEAD_PART))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Span = Span::from_ms(1);

    /// After `calls` whose length in nanoseconds is a function of their number.
    fn learnt(calls: u64, length_ns: impl Fn(u64) -> u64) -> Ahead {
        let mut ahead = Ahead::default();
        for call in 0..calls {
            ahead.learn(Span::from_ns(length_ns(call)));
        }
        ahead
    }

    #[test]
    fn it_settles_where_one_of_eight_calls_is_quicker() {
        // Lengths of 0 to 8 us, evenly, in an order that mixes them.
        let ahead = learnt(4_000, |call| call * 4_999 % 8_000);
        let way = ahead.of(LONG) + MARGIN;
        assert!((500..=1_500).contains(&way.as_ns()), "{way:?}");
        let steady = learnt(1_000, |_| 4_000).of(LONG) + MARGIN;
        assert!(steady.as_ns().abs_diff(4_000) <= DOWN.as_ns(), "{steady:?}");
    }

    #[test]
    fn stalls_hardly_move_it() {
        let calm = learnt(1_000, |_| 4_000);
        let stalls = learnt(
            1_000,
            |call| if call % 10 == 0 { 30_000_000 } else { 4_000 },
        );
        assert!(calm.of(LONG).as_ns().abs_diff(stalls.of(LONG).as_ns()) <= DOWN.as_ns());
        assert_eq!(
            learnt(10_000, |_| 30_000_000).of(LONG),
            MOST.saturating_sub(MARGIN)
        );
    }

    #[test]
    fn it_follows_a_machine_that_becomes_faster() {
        let mut ahead = learnt(1_000, |_| 9_000);
        for _ in 0..40 {
            ahead.learn(Span::from_us(3));
        }
        assert!(ahead.of(LONG) < Span::from_us(3));
    }

    #[test]
    fn short_pipes_bound_it() {
        let long = learnt(10_000, |_| 30_000);
        assert_eq!(long.of(Span::from_us(10)), Span::from_us(5));
        assert_eq!(long.of(Span::ZERO), Span::ZERO);
    }
}
