//! Keeping a CPU awake for those who will need it soon.
//!
//! Theory: an idle CPU sleeps, and takes its time to wake: some 10 µs, more from the deeper states of a
//! real CPU. A virtual one gives its real CPU away and has to wait for another, now and then for
//! milliseconds. A CPU with something to do does not sleep, so a *keeper* does nothing there, all the
//! time, as a thread of the policy `SCHED_IDLE`, which everybody else interrupts (sched(7)). While
//! the CPU is not idle, the kernel does not bring other threads to it either.
//!
//! Left out: `/dev/cpu_dma_latency`, with which root can keep all CPUs of the machine awake. It did
//! as much for the core, but where both CPUs of a virtual machine never slept, the core was held up for
//! some milliseconds of every hundred in some runs, as by a host that rations.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::{Builder, JoinHandle, park_timeout};
use std::time::Duration;

use crate::clock::monotonic_ns;
use crate::cpu::{self, Scheduling};

/// Without work for so long, its owner can bear a CPU that sleeps.
const QUIET_NS: u64 = 1_000_000_000;
/// In a quiet time the keeper looks so often whether it is over.
const DOZE: Duration = Duration::from_millis(50);
/// Rounds between two looks at the clock, some microseconds.
const ROUNDS: u32 = 256;

/// The calling thread's CPU being kept awake, until this value is dropped.
#[derive(Debug)]
pub struct Awake {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    done: AtomicBool,
    work: AtomicU64,
}

impl Awake {
    /// Keeps the CPU awake to which the calling thread is bound. The thread must be an ordinary one
    /// still: the keeper begins as what it is. `None` where CPU time is rationed, so that a keeper
    /// would cost others theirs, and where it may not stand behind them.
    pub fn keep() -> Option<Self> {
        if cpu::are_rationed() {
            return None;
        }
        let shared = Arc::new(Shared::default());
        let seen = Arc::clone(&shared);
        let (tell, told) = sync_channel(1);
        let keeper = Builder::new().name("longhaul-awake".to_owned());
        let keeper = keeper.spawn(move || {
            let stands_behind = Scheduling::Idle.apply();
            // Its owner waits for it.
            let _ = tell.send(stands_behind);
            if stands_behind {
                seen.keep_awake(QUIET_NS);
            }
        });
        let keeper = Some(keeper.ok()?);
        told.recv().ok()?.then_some(Self { shared, keeper })
    }

    /// Tells that there was work: the CPU is to stay awake for a while.
    pub fn worked(&self) {
        // Nobody else adds.
        let work = self.shared.work.load(Ordering::Relaxed);
        self.shared.work.store(work + 1, Ordering::Relaxed);
    }
}

impl Shared {
    fn keep_awake(&self, quiet_ns: u64) {
        let (mut work, mut since_ns) = (0, monotonic_ns());
        while !self.done.load(Ordering::Acquire) {
            let now = monotonic_ns();
            let seen = self.work.load(Ordering::Relaxed);
            if seen != work {
                (work, since_ns) = (seen, now);
            }
            if now.saturating_sub(since_ns) > quiet_ns {
                park_timeout(DOZE);
                continue;
            }
            for _ in 0..ROUNDS {
                spin_loop();
            }
        }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.shared.done.store(true, Ordering::Release);
        if let Some(keeper) = self.keeper.take() {
            keeper.thread().unpark();
            let _ = keeper.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_keeper_ends_with_its_owner() {
        let Some(awake) = Awake::keep() else {
            assert!(cpu::are_rationed());
            return;
        };
        awake.worked();
        let shared = Arc::downgrade(&awake.shared);
        drop(awake);
        assert!(shared.upgrade().is_none(), "the keeper still has it");
    }

    #[test]
    fn a_keeper_dozes_until_there_is_work() {
        let quiet = Shared::default();
        let (quiet_ns, all) = (20_000_000, Duration::from_millis(500));
        let ran_ns = thread::scope(|scope| {
            let keeper = scope.spawn(|| {
                quiet.keep_awake(quiet_ns);
                cpu::own_cpu_ns()
            });
            thread::sleep(all);
            quiet.done.store(true, Ordering::Release);
            keeper.join().expect("it has not panicked")
        });
        assert!(ran_ns < all.as_nanos() as u64 / 2, "it ran for {ran_ns} ns");
    }
}
