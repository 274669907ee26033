//! Real-time scheduling on one CPU, without taking all of its time.
//!
//! Purpose: the core runs before every ordinary program of its CPU, and the kernel's own work there
//! is done all the same. Theory: a kernel takes the CPU away from real-time threads for the rest of
//! a second when they have had it for 95 % of it: 50 ms in one piece, idle or not, with
//! `CONFIG_RT_GROUP_SCHED` or before 6.12 (`sched_rt_runtime_us`, kernel/sched/rt.c), elsewhere as
//! far as others want it (the fair server, kernel/sched/deadline.c). So a thread that does not
//! sleep *steps back* now and then: for [`WINDOW_NS`] it is an ordinary thread with a short slice.
//! Where nobody else wants the CPU, it simply goes on running. Where somebody does, it might not
//! get the CPU back for a whole tick, so another thread with a higher priority, asleep until a
//! timer fires, makes it a real-time thread again.
//!
//! Sleeping for a moment would leave time as well, but costs more than its length: an idle CPU
//! needs some 20 µs to wake, and before it goes idle the kernel pulls threads over from other CPUs,
//! which may then stay inside the kernel for milliseconds.
//!
//! What it buys: with an endless loop of another program on the core's CPU, the p99 of the delay error at 50,000
//! packets/s was 0.07 to 0.3 ms, and 4.7 to 12 ms without (four runs each, in turn).
//!
//! Left out: `SCHED_DEADLINE`, whose threads cannot be bound to one CPU (sched(7)).

use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_gettime,
    timerfd_settime,
};

use crate::clock::monotonic_ns;
use crate::cpu::Scheduling;
use crate::sys::timespec;

/// How long a thread steps back at a time.
const WINDOW_NS: u64 = 40_000;
/// The part of the time that is left to others, per 100: more than the 5 that the kernel asks for.
const LEFT_PER_100: u64 = 8;

/// Guard: the calling thread's real-time scheduling, until it is dropped.
#[derive(Debug)]
pub struct RealTime {
    timer: Arc<File>,
    done: Arc<AtomicBool>,
    recall: Option<JoinHandle<()>>,
    /// Up to when time has been accounted for, and how much of it was slept.
    seen_ns: u64,
    slept_ns: u64,
    /// Time still to be left to others.
    owed_ns: u64,
}

impl RealTime {
    /// Schedules the calling thread in real time; `None` where it may not be.
    pub fn enter() -> Option<Self> {
        // Without the right to the higher priority, nothing could call the thread back.
        let may = Scheduling::Recall.apply() && Scheduling::RealTime.apply();
        let entered = may.then(Self::with_recall).flatten();
        if entered.is_none() {
            Scheduling::ShortSlice.apply();
        }
        entered
    }

    fn with_recall() -> Option<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC).ok()?;
        let stepped_back = rustix::thread::gettid().as_raw_pid();
        let timer = Arc::new(File::from(timer));
        let done = Arc::new(AtomicBool::new(false));
        let (fires, ended) = (Arc::clone(&timer), Arc::clone(&done));
        let recall = Builder::new().name("longhaul-recall".to_owned());
        let recall = recall.spawn(move || {
            // Above the thread that has started it, and bound to the same CPU.
            Scheduling::Recall.apply();
            while (&*fires).read_exact(&mut [0; 8]).is_ok() {
                if ended.load(Ordering::Acquire) {
                    break;
                }
                Scheduling::RealTime.apply_to(stepped_back);
            }
        });
        Some(Self {
            timer,
            done,
            recall: Some(recall.ok()?),
            seen_ns: monotonic_ns(),
            slept_ns: 0,
            owed_ns: 0,
        })
    }

    /// Steps back where it is time to. `slept_ns` is how long the thread has slept altogether.
    pub fn leave_room(&mut self, now_ns: u64, slept_ns: u64) {
        let owed = now_ns.saturating_sub(self.seen_ns) * LEFT_PER_100 / 100;
        let slept = slept_ns.saturating_sub(self.slept_ns);
        (self.seen_ns, self.slept_ns) = (now_ns, slept_ns);
        self.owed_ns = (self.owed_ns + owed).saturating_sub(slept);
        if self.owed_ns >= WINDOW_NS && self.arm(WINDOW_NS) {
            self.owed_ns = 0;
            Scheduling::ShortSlice.apply();
            // In a stall the timer may have fired before the thread stepped back: then nothing else
            // would make it a real-time thread again.
            if self.has_fired() {
                Scheduling::RealTime.apply();
            }
        }
    }

    fn has_fired(&self) -> bool {
        timerfd_gettime(&self.timer).is_ok_and(|left| left.it_value == timespec(Duration::ZERO))
    }

    /// Makes the timer fire once, in `ns` nanoseconds; false where no thread waits for it.
    fn arm(&self, ns: u64) -> bool {
        let once = Itimerspec {
            it_interval: timespec(Duration::ZERO),
            it_value: timespec(Duration::from_nanos(ns)),
        };
        let armed = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once).is_ok();
        let listens = self.recall.as_ref().is_some_and(|it| !it.is_finished());
        armed && listens
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Release);
        self.arm(1);
        if let Some(recall) = self.recall.take() {
            let _ = recall.join();
        }
        Scheduling::ShortSlice.apply();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// How the kernel schedules the calling thread.
    fn policy() -> i32 {
        // SAFETY: no pointers.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn a_thread_steps_back_and_is_called_back() {
        let allowed = thread::spawn(|| Scheduling::Recall.apply()).join();
        let body = || {
            let mut real_time = RealTime::enter()?;
            assert_eq!(policy(), libc::SCHED_FIFO);
            let now = monotonic_ns();
            // So much sleep leaves nothing to owe.
            real_time.leave_room(now + 1_000_000, 1_000_000);
            assert_eq!(policy(), libc::SCHED_FIFO);
            // It is called back so soon that it may be before it has looked, but not every time.
            let stepped_back = (2..100).any(|ms| {
                while policy() != libc::SCHED_FIFO {
                    thread::yield_now();
                }
                real_time.leave_room(now + ms * 1_000_000, 1_000_000);
                policy() == libc::SCHED_OTHER
            });
            assert!(stepped_back);
            while policy() != libc::SCHED_FIFO {
                thread::yield_now();
            }
            drop(real_time);
            Some(policy())
        };
        let after = thread::spawn(body).join().expect("it has not panicked");
        let expected = allowed
            .is_ok_and(|allowed| allowed)
            .then_some(libc::SCHED_OTHER);
        assert_eq!(after, expected);
    }
}
