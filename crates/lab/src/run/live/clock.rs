//! The machine's clock and the kernel's stamps, as experiment time.

use std::time::Duration;

use longhaul_core::Time;
use longhaul_linux::clock::{MachineTime, StampOffset};

use crate::pace::{Dilation, Now, Pace};

/// How often the offset of kernel stamps is measured again.
const REFRESH: Duration = Duration::from_millis(1);

/// Experiment time and the machine's clocks, turned into one another.
#[derive(Debug)]
pub(super) struct RealClock {
    pace: Pace,
    offset: StampOffset,
    refreshed: MachineTime,
}

impl RealClock {
    /// A clock whose t = 0 is now.
    pub(super) fn start(dilation: Dilation) -> Self {
        let start = MachineTime::now();
        Self {
            pace: Pace::new(start, dilation),
            offset: StampOffset::measure(),
            refreshed: start,
        }
    }

    pub(super) fn pace(&self) -> Pace {
        self.pace
    }

    /// This moment.
    #[inline]
    pub(super) fn now(&self) -> Now {
        self.pace.read(MachineTime::now())
    }

    /// Measures the offset of kernel stamps again when that is due.
    #[inline]
    pub(super) fn refresh(&mut self, now: MachineTime) {
        if now >= self.refreshed + REFRESH {
            self.offset.refresh();
            self.refreshed = now;
        }
    }

    /// The experiment time of a kernel stamp; `None` for one from before t = 0.
    #[inline]
    pub(super) fn of_stamp(&self, stamp_ns: u64) -> Option<Time> {
        self.pace.time_at(self.offset.to_machine_time(stamp_ns))
    }

    /// How often the machine's clock has been stepped since t = 0.
    pub(super) fn steps(&self) -> u64 {
        self.offset.steps()
    }
}
