//! The set-up of a core's thread: its CPU, its scheduling, its timers.

use std::io;

use crate::clock::MachineTime;
use crate::cpu::{self, Scheduling};
use crate::real_time::RealTime;

/// Guard: the core thread's real-time scheduling, until it is dropped.
#[derive(Debug)]
pub struct CoreThread {
    real_time: Option<RealTime>,
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
        // On a CPU of its own only: shared with programs it would starve them.
        let real_time = cpu.and_then(|_| RealTime::enter());
        if real_time.is_none() {
            Scheduling::ShortSlice.apply();
        }
        Ok(Self { real_time })
    }

    /// How the kernel schedules it.
    pub fn scheduling(&self) -> Scheduling {
        match self.real_time {
            Some(_) => Scheduling::RealTime,
            None => Scheduling::ShortSlice,
        }
    }

    /// Leaves CPU time to others where that is due; see [`RealTime::leave_room`].
    pub fn leave_room(&mut self, now: MachineTime, slept_ns: u64) {
        if let Some(real_time) = &mut self.real_time {
            real_time.leave_room(now.as_ns(), slept_ns);
        }
    }
}
