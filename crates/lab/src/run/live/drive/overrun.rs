//! Distinguishes a loop that cannot keep up from one that is catching up with a stall of the machine: only
//! the former makes `backpressure.rs` slow hosts down, since a stall says nothing of the core's
//! speed.

use std::time::Duration;

use longhaul_linux::clock::MachineTime;

use super::overload::STALL;

/// A core with a load of 0.85 needs nearly seven times the length of a stall to catch up with it.
const MADE_GOOD_IN: u32 = 8;

/// Detects a loop that cannot keep up.
#[derive(Debug)]
pub(super) struct Overrun {
    is_behind: bool,
    excused_until: MachineTime,
}

impl Overrun {
    /// For a loop that begins now.
    pub(super) const fn new(now: MachineTime) -> Self {
        Self {
            is_behind: false,
            excused_until: now,
        }
    }

    /// No stale frame is left.
    pub(super) fn caught_up(&mut self) {
        self.is_behind = false;
    }

    /// Whether a frame that has waited too long, for `waited`, shows a loop that cannot keep up.
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
