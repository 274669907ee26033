//! What a core's thread asks of its CPU and of the kernel.

use std::io;

use crate::awake::Awake;
use crate::cpu::{self, Scheduling};
use crate::real_time::RealTime;

/// The calling thread's being fit to keep time, until this value is dropped.
#[derive(Debug)]
pub struct CoreThread {
    real_time: Option<RealTime>,
    awake: Option<Awake>,
}

impl CoreThread {
    /// Makes the calling thread the core of `cpu`, which no program has; `None` where core and
    /// programs share what there is.
    ///
    /// # Errors
    /// The thread may not be bound to that CPU.
    pub fn enter(cpu: Option<usize>) -> io::Result<Self> {
        if let Some(cpu) = cpu {
            cpu::pin(&[cpu])?;
        }
        cpu::without_timer_slack();
        // Both on a CPU of its own only: programs want their CPU to be free when they sleep, and
        // real time on it shared with programs would starve them.
        let awake = cpu.and_then(|_| Awake::keep());
        let real_time = cpu.and_then(|_| RealTime::enter());
        if real_time.is_none() {
            Scheduling::ShortSlice.apply();
        }
        Ok(Self { real_time, awake })
    }

    /// How the kernel schedules it.
    pub fn scheduling(&self) -> Scheduling {
        match self.real_time {
            Some(_) => Scheduling::RealTime,
            None => Scheduling::ShortSlice,
        }
    }

    /// Whether its CPU is kept awake while there is much work.
    pub fn is_kept_awake(&self) -> bool {
        self.awake.is_some()
    }

    /// Tells how many packets came in and went out.
    pub fn worked(&self, packets: usize) {
        if let Some(awake) = &self.awake {
            awake.worked(packets);
        }
    }

    /// Leaves room to others where that is needed; see [`RealTime::leave_room`].
    pub fn leave_room(&mut self, now_ns: u64, slept_ns: u64) {
        if let Some(real_time) = &mut self.real_time {
            real_time.leave_room(now_ns, slept_ns);
        }
    }
}
