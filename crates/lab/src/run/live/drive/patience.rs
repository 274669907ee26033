//! How long the loop may fall behind before it sheds what is stale.
//!
//! A flood makes frames stale little by little. Senders of TCP are being held back meanwhile
//! (`nic.rs`), so the loop may catch up with them for a tenth of each second; of other frames the
//! excess goes almost at once, so that 99 of 100 packets inside keep their time. A stall of the
//! machine makes the first stale frame old at once, and the loop may catch up for as long again.
//!
//! All of it is the machine's time, and its seconds: in it the rings fill, and hosts are held back.

use std::time::Duration;

use longhaul_linux::clock::MachineTime;

/// A stall of the machine makes the first stale frame older than this at once; in a flood frames
/// become stale little by little.
const STALL: Duration = Duration::from_millis(1);
/// How much of each second the loop may spend catching up before it sheds TCP.
pub(super) const HELD_BACK: Duration = Duration::from_millis(100);
/// The same for all else.
pub(super) const FREE: Duration = Duration::from_millis(5);
/// The most time for catching up with stalls.
const CATCH_UP_MAX: Duration = Duration::from_millis(200);

/// How long the loop may go on taking stale frames before it sheds them.
#[derive(Debug)]
pub(super) struct Patience {
    a_second: Duration,
    allowance: Duration,
    behind_since: Option<MachineTime>,
}

impl Patience {
    /// Of a loop that has not fallen behind, and may for so much of each second.
    pub(super) fn new(a_second: Duration) -> Self {
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
        self.behind_since.is_some() && self.allowance.is_zero()
    }

    /// Whether a stale frame of this age is to be shed.
    pub(super) fn is_over(&mut self, age: Duration, now: MachineTime) -> bool {
        let since = *self.behind_since.get_or_insert_with(|| {
            if age > STALL {
                self.allowance = (self.allowance + age + age).min(CATCH_UP_MAX);
            }
            now
        });
        let over = now.since(since) > self.allowance;
        if over {
            self.allowance = Duration::ZERO;
        }
        over
    }
}

/// A core that has a load of 0.85 needs nearly seven times the length of a stall to make it good.
const MADE_GOOD_IN: u32 = 8;

/// Tells a loop that cannot keep up from one that makes a stall good: only of the former hosts
/// are to be held back (`governor.rs`, `trim.rs`).
#[derive(Debug)]
pub(super) struct Overrun {
    is_behind: bool,
    excused_until: MachineTime,
}

impl Overrun {
    /// Of a loop that begins now.
    pub(super) const fn new(now: MachineTime) -> Self {
        Self {
            is_behind: false,
            excused_until: now,
        }
    }

    /// Nothing stale is left.
    pub(super) fn caught_up(&mut self) {
        self.is_behind = false;
    }

    /// Whether a frame that has waited too long, and so long, speaks of one.
    pub(super) fn is_shown_by(&mut self, waited: Duration, now: MachineTime) -> bool {
        if !std::mem::replace(&mut self.is_behind, true) && waited > STALL {
            self.excused_until = now + waited.saturating_mul(MADE_GOOD_IN);
        }
        now > self.excused_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALE: Duration = Duration::from_micros(300);

    #[test]
    fn a_flood_is_shed_after_the_allowance() {
        let mut patience = Patience::new(HELD_BACK);
        let start = MachineTime::from_ns(1_000_000_000);
        assert!(!patience.is_over(STALE, start));
        assert!(!patience.is_over(STALE, start + HELD_BACK));
        assert!(patience.is_over(STALE, start + HELD_BACK + Duration::from_micros(1)));
        assert!(patience.is_spent());
        patience.caught_up();
        assert!(!patience.is_spent());
        assert!(
            !patience.is_over(STALE, start + Duration::from_millis(110)),
            "a new moment of grace"
        );
        assert!(
            patience.is_over(STALE, start + Duration::from_millis(111)),
            "but no more allowance"
        );
    }

    #[test]
    fn a_stall_may_be_made_good() {
        let mut patience = Patience::new(HELD_BACK);
        let start = MachineTime::from_ns(1_000_000_000);
        let stall = Duration::from_millis(40);
        assert!(!patience.is_over(stall, start));
        assert!(!patience.is_over(STALE, start + Duration::from_millis(180)));
        assert!(patience.is_over(STALE, start + Duration::from_millis(181)));
    }

    #[test]
    fn a_stall_is_no_overrun_unless_it_is_never_made_good() {
        let mut overrun = Overrun::new(MachineTime::from_ns(0));
        let start = MachineTime::from_ns(1_000_000_000);
        assert!(overrun.is_shown_by(STALE, start), "little by little");
        overrun.caught_up();
        let stall = Duration::from_millis(5);
        assert!(!overrun.is_shown_by(stall, start));
        assert!(!overrun.is_shown_by(STALE, start + Duration::from_millis(40)));
        assert!(overrun.is_shown_by(STALE, start + Duration::from_millis(41)));
        // Still behind, however old frames are now.
        assert!(overrun.is_shown_by(stall, start + Duration::from_millis(42)));
        overrun.caught_up();
        assert!(!overrun.is_shown_by(stall, start + Duration::from_millis(50)));
    }
}
