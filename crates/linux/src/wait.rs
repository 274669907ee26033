//! Waiting to the microsecond without burning a CPU.
//!
//! A sleeping thread wakes tens of microseconds late, more on an idle virtual CPU than on a
//! busy one, so the waiter sleeps until a margin before the deadline and spins through the
//! rest. The margin is learnt from every wake-up: it follows a high quantile of how late the
//! kernel was. This is NemC's on-demand scheduling (an arrival and an idle spinner both run the
//! scheduler) with a bounded spinner.
//!
//! Left out: spinning all the time. It is no more punctual: where a hypervisor rations CPU time, it takes
//! back later, in one piece, what was spun away (docs/fidelity.md has the figures).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;

use crate::clock::{MachineTime, monotonic_ns};
use crate::packet_io::Rings;
use crate::sys::{self, timespec};

/// The margin at the start, and its bounds, of the order of wake-up latencies: 25 to 40 us on a CPU that
/// was just busy, some 80 us on an idle virtual one. A longer latency than the upper bound is a stall.
const MARGIN_START_NS: u64 = 80_000;
const MARGIN_MIN_NS: u64 = 30_000;
const MARGIN_MAX_NS: u64 = 400_000;
/// A wake-up later than the margin moves it up by a part of the excess, one earlier moves it
/// down by a fixed step: their ratio makes it settle near the 99th percentile.
const MARGIN_UP_DIVISOR: u64 = 4;
const MARGIN_DOWN_NS: u64 = 250;
/// This much of a sleep still counts as the thread's own time: about what going to sleep and waking up
/// take, two system calls and the switch.
const TO_SLEEP_NS: u64 = 20_000;

/// A bell that another thread rings to end a wait.
#[derive(Debug)]
pub struct Bell {
    fd: OwnedFd,
}

impl Bell {
    /// A silent bell.
    pub fn new() -> io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { fd })
    }

    /// Ends the current wait, or the next one.
    pub fn ring(&self) {
        // It can only fail when the bell is ringing already.
        rustix::io::write(&self.fd, &1u64.to_ne_bytes()).ok();
    }

    /// Silences the bell; whether it was ringing.
    pub fn take(&self) -> bool {
        rustix::io::read(&self.fd, &mut [0; 8]) == Ok(8)
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A waiter of one thread.
#[derive(Debug)]
pub struct Waiter {
    margin_ns: u64,
    slept_ns: u64,
}

impl Default for Waiter {
    fn default() -> Self {
        Self {
            margin_ns: MARGIN_START_NS,
            slept_ns: 0,
        }
    }
}

impl Waiter {
    /// How long the thread has slept so far, as the kernel sees it.
    pub fn slept_ns(&self) -> u64 {
        self.slept_ns
    }

    /// Waits for the deadline, an arrival or the bell.
    pub fn wait(
        &mut self,
        deadline: MachineTime,
        rings: &mut Rings,
        bell: &Bell,
    ) -> io::Result<()> {
        let deadline_ns = deadline.as_ns();
        loop {
            let now = monotonic_ns();
            if deadline_ns <= now.saturating_add(self.margin_ns) {
                spin(deadline_ns, rings);
                return Ok(());
            }
            let wake_at = deadline_ns - self.margin_ns;
            let fds = [rings.readiness(), bell.as_fd()];
            let [arrived, rung] = sleep_until(wake_at - now, fds)?;
            let woken = monotonic_ns();
            self.slept_ns += woken.saturating_sub(now + TO_SLEEP_NS);
            if rung {
                bell.take();
            }
            if arrived || rung {
                return Ok(());
            }
            self.learn(woken.saturating_sub(wake_at));
        }
    }

    fn learn(&mut self, late_ns: u64) {
        self.margin_ns = if late_ns > self.margin_ns {
            self.margin_ns + (late_ns - self.margin_ns) / MARGIN_UP_DIVISOR
        } else {
            self.margin_ns - MARGIN_DOWN_NS
        }
        .clamp(MARGIN_MIN_NS, MARGIN_MAX_NS);
    }
}

/// Spins until the deadline or an arrival, no longer than a margin.
fn spin(deadline_ns: u64, rings: &mut Rings) {
    while monotonic_ns() < deadline_ns && rings.peek().is_none() {
        std::hint::spin_loop();
    }
}

/// Sleeps until one of `fds` is readable, at most `timeout_ns`; says which are.
fn sleep_until(timeout_ns: u64, fds: [BorrowedFd<'_>; 2]) -> io::Result<[bool; 2]> {
    let mut polls = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let timeout = timespec(Duration::from_nanos(timeout_ns));
    match poll(&mut polls, Some(&timeout)) {
        Err(Errno::INTR) => Ok([false; 2]),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(polls.map(|poll| !poll.revents().is_empty())),
    }
}

/// Blocks the signals that end a run and returns a descriptor that delivers them instead. Left out is SIGHUP
/// where it is ignored, as under nohup(1): a descriptor delivers what is blocked, ignored or not.
pub fn termination_signals() -> io::Result<OwnedFd> {
    if sys::is_ignored(libc::SIGHUP) {
        sys::signalfd(&[libc::SIGINT, libc::SIGTERM])
    } else {
        sys::signalfd(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])
    }
}

/// The signal that has arrived at a descriptor of [`termination_signals`], if any.
pub fn take_signal(fd: BorrowedFd<'_>) -> Option<i32> {
    sys::drain(fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The margin after wake-ups that were late by a function of their number.
    fn learnt(wake_ups: u64, late_ns: impl Fn(u64) -> u64) -> u64 {
        let mut waiter = Waiter::default();
        (0..wake_ups).for_each(|number| waiter.learn(late_ns(number)));
        waiter.margin_ns
    }

    #[test]
    fn the_margin_covers_all_wake_ups_but_few() {
        // Evenly up to 100 us, in an order that mixes them.
        let margin_ns = learnt(50_000, |number| number * 7919 % 100_000);
        assert!((80_000..=95_000).contains(&margin_ns), "{margin_ns}");
        assert_eq!(learnt(1_000, |_| 1_000), MARGIN_MIN_NS);
        assert_eq!(learnt(1_000, |_| 50_000_000), MARGIN_MAX_NS);
    }
}
