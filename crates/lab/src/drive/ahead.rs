//! How long before packets are due their send call begins.
//!
//! From the clock reading at the start of a turn until the first frame is on its cable takes a few
//! microseconds, always. The loop learns how many from the kernel's stamps of sent frames, and
//! begins so much earlier. It may: for as long as the shortest first pipe nothing that arrives now
//! can change what comes out ([`Engine::lead`](longhaul_core::engine::Engine::lead)).
//!
//! What it learns is the least of many samples, so that hardly a packet leaves early and none by
//! much. What calls take longer than that is lateness, and measured as before.

use longhaul_core::Span;

/// The least is that of the last so many samples up to twice as many; fewer teach nothing, since
/// the first frames go through cold caches.
const SAMPLES: u32 = 64;
/// What takes longer than this in all of them is no constant part of anything.
const MOST: Span = Span::from_us(20);
/// Taken off, since a call of which the kernel is asked takes a little longer than others, and two
/// clocks are read.
const MARGIN: Span = Span::from_ns(500);
/// Leads are used by halves: the rest is for what has arrived and not been read.
const LEAD_PART: u64 = 2;

/// What has been learnt of the way out.
#[derive(Debug)]
pub(super) struct Ahead {
    least: Span,
    samples: u32,
    /// Of the last full number of samples; nothing at first.
    least_before: Span,
}

impl Default for Ahead {
    fn default() -> Self {
        Self {
            least: Span::MAX,
            samples: 0,
            least_before: Span::ZERO,
        }
    }
}

impl Ahead {
    /// A first frame was on its cable so long after the clock reading of its turn.
    pub(super) fn learn(&mut self, took: Span) {
        self.least = self.least.min(took);
        self.samples += 1;
        if self.samples == SAMPLES {
            (self.least_before, self.least) = (self.least, Span::MAX);
            self.samples = 0;
        }
    }

    /// How far the engine may be ahead of the clock, where its shortest lead is `lead`.
    pub(super) fn of(&self, lead: Span) -> Span {
        let least = self.least.min(self.least_before);
        let certain = least.min(MOST).saturating_sub(MARGIN);
        certain.min(Span::from_ns(lead.as_ns() / LEAD_PART))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Span = Span::from_ms(1);

    fn but_for_the_margin(us: u64) -> Span {
        Span::from_us(us).saturating_sub(MARGIN)
    }

    fn learn_all(ahead: &mut Ahead, us: u64) {
        for _ in 0..SAMPLES {
            ahead.learn(Span::from_us(us));
        }
    }

    #[test]
    fn it_is_the_least_of_the_last_samples() {
        let mut ahead = Ahead::default();
        for _ in 1..SAMPLES {
            ahead.learn(Span::from_us(9));
            assert_eq!(ahead.of(LONG), Span::ZERO);
        }
        ahead.learn(Span::from_us(7));
        assert_eq!(ahead.of(LONG), but_for_the_margin(7));
        ahead.learn(Span::from_us(4));
        ahead.learn(Span::from_ms(30));
        assert_eq!(ahead.of(LONG), but_for_the_margin(4));
        // As the machine slows down it is forgotten, after one time of samples to two.
        learn_all(&mut ahead, 6);
        assert_eq!(ahead.of(LONG), but_for_the_margin(4));
        learn_all(&mut ahead, 6);
        assert_eq!(ahead.of(LONG), but_for_the_margin(6));
    }

    #[test]
    fn stalls_and_short_pipes_bound_it() {
        let mut ahead = Ahead::default();
        learn_all(&mut ahead, 30_000);
        assert_eq!(ahead.of(LONG), but_for_the_margin(20));
        assert_eq!(ahead.of(Span::from_us(10)), Span::from_us(5));
        assert_eq!(ahead.of(Span::ZERO), Span::ZERO);
    }
}
