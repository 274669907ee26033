//! How long the loop may fall behind before it sheds what is stale.
//!
//! A flood makes frames stale little by little. Senders of TCP are being held back meanwhile
//! (`nic.rs`), so the loop may catch up with them for a tenth of each second; of other frames the
//! excess goes almost at once, so that 99 of 100 packets inside keep their time. A stall of the
//! machine makes the first stale frame old at once, and the loop may catch up for as long again.

use longhaul_core::{Span, Time};

/// A stall of the machine makes the first stale frame older than this at once; in a flood frames
/// become stale little by little.
const STALL: Span = Span::from_ms(1);
/// How much of each second the loop may spend catching up before it sheds TCP.
pub(super) const HELD_BACK: Span = Span::from_ms(100);
/// The same for all else.
pub(super) const FREE: Span = Span::from_ms(5);
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

/// A core that has a load of 0.85 needs nearly seven times the length of a stall to make it good.
const MADE_GOOD_IN: u64 = 8;

/// Tells a loop that cannot keep up from one that makes a stall good: only of the former hosts
/// are to be held back (`governor.rs`, `trim.rs`).
#[derive(Debug, Default)]
pub(super) struct Overrun {
    is_behind: bool,
    excused_until: Time,
}

impl Overrun {
    /// Nothing stale is left.
    pub(super) fn caught_up(&mut self) {
        self.is_behind = false;
    }

    /// Whether a frame that has waited too long, and so long, speaks of one.
    pub(super) fn is_shown_by(&mut self, waited: Span, now: Time) -> bool {
        if !std::mem::replace(&mut self.is_behind, true) && waited > STALL {
            self.excused_until = now + Span::from_ns(waited.as_ns().saturating_mul(MADE_GOOD_IN));
        }
        now > self.excused_until
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

    #[test]
    fn a_stall_is_no_overrun_unless_it_is_never_made_good() {
        let mut overrun = Overrun::default();
        let start = Time::from_ns(1_000_000_000);
        assert!(overrun.is_shown_by(STALE, start), "little by little");
        overrun.caught_up();
        let stall = Span::from_ms(5);
        assert!(!overrun.is_shown_by(stall, start));
        assert!(!overrun.is_shown_by(STALE, start + Span::from_ms(40)));
        assert!(overrun.is_shown_by(STALE, start + Span::from_ms(41)));
        // Still behind, however old frames are now.
        assert!(overrun.is_shown_by(stall, start + Span::from_ms(42)));
        overrun.caught_up();
        assert!(!overrun.is_shown_by(stall, start + Span::from_ms(50)));
    }
}
