//! Keeping a CPU awake for those who will need it soon.
//!
//! Theory: an idle CPU sleeps, and takes its time to wake: some 10 µs, more from the deeper states of a
//! real CPU. A virtual one gives its real CPU away and has to wait for another, now and then for
//! milliseconds. A CPU with something to do does not sleep, so a *keeper* does nothing there, all the
//! time, as a thread of the policy `SCHED_IDLE`, which everybody else interrupts (sched(7)). While
//! the CPU is not idle, the kernel does not bring other threads to it either.
//!
//! That takes a whole CPU, so it is done only while there is much work. For a little of it a waiter's
//! margin ([`wait`](crate::wait)) does as much with less.
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

/// So many packets in and out a second are much work: 5,000 that pass through, less what the edges
/// of a look cut off.
const MUCH_PER_S: u64 = 9_900;
/// The keeper looks so often at how much there is, and begins when it was much so often in a row: what
/// has waited for a stall of the machine comes at once and is over soon.
const LOOK: Duration = Duration::from_millis(100);
const IN_A_ROW: u32 = 3;
/// Without much work for so long, its owner can bear a CPU that sleeps.
const QUIET_NS: u64 = 1_000_000_000;
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
                seen.keep_awake();
            }
        });
        let keeper = Some(keeper.ok()?);
        told.recv().ok()?.then_some(Self { shared, keeper })
    }

    /// Tells how many packets came in and went out.
    pub fn worked(&self, packets: usize) {
        // Nobody else adds.
        let work = self.shared.work.load(Ordering::Relaxed);
        let work = work.wrapping_add(packets as u64);
        self.shared.work.store(work, Ordering::Relaxed);
    }
}

impl Shared {
    fn keep_awake(&self) {
        let mut demand = Demand::new(monotonic_ns());
        while !self.done.load(Ordering::Acquire) {
            if !demand.is_much(monotonic_ns(), self.work.load(Ordering::Relaxed)) {
                park_timeout(LOOK);
                continue;
            }
            for _ in 0..ROUNDS {
                spin_loop();
            }
        }
    }
}

/// Whether there is much work, as it was lately.
struct Demand {
    /// The last look, and all work up to then.
    looked_ns: u64,
    work: u64,
    in_a_row: u32,
    until_ns: u64,
}

impl Demand {
    fn new(now_ns: u64) -> Self {
        Self {
            looked_ns: now_ns,
            work: 0,
            in_a_row: 0,
            until_ns: now_ns,
        }
    }

    /// Whether it is much, at `now_ns` and with so much `work` done in all.
    fn is_much(&mut self, now_ns: u64, work: u64) -> bool {
        let span_ns = u128::from(now_ns.saturating_sub(self.looked_ns));
        if span_ns >= LOOK.as_nanos() {
            let done = u128::from(work.wrapping_sub(self.work));
            let was_much = done * 1_000_000_000 >= span_ns * u128::from(MUCH_PER_S);
            self.in_a_row = if was_much { self.in_a_row + 1 } else { 0 };
            if self.in_a_row >= IN_A_ROW || (was_much && now_ns < self.until_ns) {
                self.until_ns = now_ns + QUIET_NS;
            }
            (self.looked_ns, self.work) = (now_ns, work);
        }
        now_ns < self.until_ns
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
        awake.worked(1);
        let shared = Arc::downgrade(&awake.shared);
        drop(awake);
        assert!(shared.upgrade().is_none(), "the keeper still has it");
    }

    /// Looks every 100 ms at what passed, in packets per second; how often it was much.
    fn looks_with_much(rates: impl IntoIterator<Item = u64>) -> usize {
        let (mut now, mut work, mut demand) = (0, 0, Demand::new(0));
        let looks = rates.into_iter().filter(|rate| {
            now += LOOK.as_nanos() as u64;
            work += 2 * rate / 10;
            demand.is_much(now, work)
        });
        looks.count()
    }

    #[test]
    fn half_of_a_cpu_is_left_below_5000_packets_a_second() {
        assert_eq!(looks_with_much([4_900; 50]), 0);
        // What has waited for a stall.
        assert_eq!(looks_with_much([4_900, 9_000, 0, 9_000, 9_000, 4_900]), 0);
    }

    #[test]
    fn much_work_keeps_the_cpu_awake_until_a_second_after() {
        assert_eq!(looks_with_much([5_000; 50]), 50 - 2);
        let work_and_quiet = [5_000; 5].into_iter().chain([0; 50]);
        assert_eq!(looks_with_much(work_and_quiet), 3 + 9);
        // Now and then is enough to go on.
        let now_and_then = [5_000; 3].into_iter().chain([0, 0, 0, 0, 5_000]);
        assert_eq!(looks_with_much(now_and_then.chain([0; 50])), 1 + 5 + 9);
    }

    #[test]
    fn a_keeper_dozes_while_there_is_no_work() {
        let quiet = Shared::default();
        let ran_ns = thread::scope(|scope| {
            let keeper = scope.spawn(|| {
                quiet.keep_awake();
                cpu::own_cpu_ns()
            });
            thread::sleep(5 * LOOK);
            quiet.done.store(true, Ordering::Release);
            keeper.join().expect("it has not panicked")
        });
        assert!(
            u128::from(ran_ns) < LOOK.as_nanos(),
            "it ran for {ran_ns} ns"
        );
    }
}
