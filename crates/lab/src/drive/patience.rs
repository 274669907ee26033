//! How long the loop may fall behind before it sheds what is stale.
//!
//! A flood makes frames stale little by little. Senders of TCP are being held back meanwhile
//! (`nic.rs`), so the loop may catch up with them for a tenth of each second; of other frames the
//! excess goes almost at once, so that 99 of 100 packets inside keep their time. A stall of the
//! machine makes the first stale frame old at once, and the loop may catch up for as long again;
//! but not in the middle of a flood, where there is nothing to catch up with.

use longhaul_core::{Span, Time};

/// How much of each second the loop may spend catching up before it sheds TCP.
pub(super) const HELD_BACK: Span = Span::from_ms(100);
/// The same for all else.
pub(super) const FREE: Span = Span::from_ms(5);
/// When the first stale frame is older than this, the loop has stood still: in a flood frames
/// become stale little by little.
const STALL: Span = Span::from_ms(1);
/// The most time for catching up with stalls.
const CATCH_UP_MAX: Span = Span::from_ms(200);

/// Whoever has shed something so short a time ago is in a flood.
const FLOOD: Span = Span::from_ms(100);

/// How long the loop may go on taking stale frames before it sheds them.
#[derive(Debug)]
pub(super) struct Patience {
    a_second: Span,
    allowance: Span,
    behind_since: Option<Time>,
    shed_at: Option<Time>,
}

impl Patience {
    /// Of a loop that has not fallen behind, and may for so much of each second.
    pub(super) fn new(a_second: Span) -> Self {
        Self {
            a_second,
            allowance: a_second,
            behind_since: None,
            shed_at: None,
        }
    }

    /// A new second has begun.
    pub(super) fn renew(&mut self, now: Time) {
        if !self.is_flooded(now) {
            self.allowance = self.a_second;
        }
    }

    /// Nothing stale is left.
    pub(super) fn caught_up(&mut self) {
        self.behind_since = None;
    }

    /// Whether it is at its end, and the loop still behind or in a flood: stale frames are being
    /// shed.
    pub(super) fn is_spent(&self, now: Time) -> bool {
        let is_behind = self.behind_since.is_some() || self.is_flooded(now);
        self.allowance == Span::ZERO && is_behind
    }

    fn is_flooded(&self, now: Time) -> bool {
        self.shed_at.is_some_and(|at| now.since(at) < FLOOD)
    }

    /// Whether a stale frame of this age is to be shed.
    pub(super) fn is_over(&mut self, age: Span, now: Time) -> bool {
        let is_flooded = self.is_flooded(now);
        let since = *self.behind_since.get_or_insert_with(|| {
            if age > STALL && !is_flooded {
                self.allowance = (self.allowance + age + age).min(CATCH_UP_MAX);
            }
            now
        });
        let over = is_flooded || now.since(since) > self.allowance;
        if over {
            self.allowance = Span::ZERO;
            self.shed_at = Some(now);
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALE: Span = Span::from_us(300);

    #[test]
    fn a_flood_is_shed_after_the_allowance() {
        let mut patience = Patience::new(HELD_BACK);
        let start = Time::from_ns(1_000_000_000);
        assert!(!patience.is_over(STALE, start));
        assert!(!patience.is_over(STALE, start + HELD_BACK));
        let end = start + HELD_BACK + Span::from_us(1);
        assert!(patience.is_over(STALE, end));
        assert!(patience.is_spent(end));
        patience.caught_up();
        let later = end + Span::from_ms(99);
        assert!(patience.is_spent(later), "it may go on any time");
        patience.renew(later);
        assert!(
            patience.is_over(STALE, later),
            "a new second changes nothing"
        );
        let stalled = later + Span::from_ms(50);
        assert!(
            patience.is_over(Span::from_ms(50), stalled),
            "and what came during a stall is too much as well"
        );
        patience.caught_up();
        let over = stalled + FLOOD;
        assert!(!patience.is_spent(over));
        assert!(!patience.is_over(STALE, over), "a new moment of grace");
        assert!(
            patience.is_over(STALE, over + Span::from_ms(1)),
            "but no more allowance"
        );
        patience.caught_up();
        let next = over + Span::from_ms(1) + FLOOD;
        patience.renew(next);
        assert!(!patience.is_over(STALE, next));
        assert!(
            !patience.is_over(STALE, next + HELD_BACK),
            "before another second"
        );
    }

    #[test]
    fn a_stall_may_be_made_good() {
        let mut patience = Patience::new(HELD_BACK);
        let start = Time::from_ns(1_000_000_000);
        let stall = Span::from_ms(40);
        assert!(!patience.is_over(stall, start));
        assert!(!patience.is_over(STALE, start + Span::from_ms(180)));
        assert!(patience.is_over(STALE, start + Span::from_ms(181)));
    }
}
