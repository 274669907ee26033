//! How long the loop may fall behind before it sheds what is stale.
//!
//! A flood makes frames stale little by little. Senders of TCP are being held back meanwhile
//! (`nic.rs`), so the loop may catch up with them for a tenth of each second; of other frames the
//! excess goes almost at once, so that 99 of 100 packets inside keep their time. A stall of the
//! machine makes the first stale frame old at once, and the loop may catch up for as long again.

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

/// How long the loop may go on taking stale frames before it sheds them.
#[derive(Debug)]
pub(super) struct Patience {
    a_second: Span,
    allowance: Span,
    behind_since: Option<Time>,
}

impl Patience {
    /// Of a loop that has not fallen behind, and may for so much of each second.
    pub(super) fn new(a_second: Span) -> Self {
        Self {
            a_second,
            allowance: a_second,
            behind_since: None,
        }
    }

    /// A new second has begun.
    pub(super) fn renew(&mut self) {
        self.allowance = self.a_second;
    }

    /// Nothing stale is left.
    pub(super) fn caught_up(&mut self) {
        self.behind_since = None;
    }

    /// Whether it is at its end and the loop still behind: stale frames are being shed.
    pub(super) fn is_spent(&self) -> bool {
        self.behind_since.is_some() && self.allowance == Span::ZERO
    }

    /// Whether a stale frame of this age is to be shed.
    pub(super) fn is_over(&mut self, age: Span, now: Time) -> bool {
        let since = *self.behind_since.get_or_insert_with(|| {
            if age > STALL {
                self.allowance = (self.allowance + age + age).min(CATCH_UP_MAX);
            }
            now
        });
        let over = now.since(since) > self.allowance;
        if over {
            self.allowance = Span::ZERO;
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
        assert!(patience.is_over(STALE, start + HELD_BACK + Span::from_us(1)));
        assert!(patience.is_spent());
        patience.caught_up();
        assert!(!patience.is_spent());
        assert!(
            !patience.is_over(STALE, start + Span::from_ms(110)),
            "a new moment of grace"
        );
        assert!(
            patience.is_over(STALE, start + Span::from_ms(111)),
            "but no more allowance"
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
