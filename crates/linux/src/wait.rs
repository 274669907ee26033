//! Waiting to the microsecond without burning a CPU.
//!
//! A sleeping thread wakes tens of microseconds late, more on an idle virtual CPU than on a
//! busy one, so the waiter sleeps until a margin before the deadline and spins through the
//! rest. The margin is learnt from every wake-up: it follows a high quantile of how late the
//! kernel was. CPU time is paid for from a budget that fills with time and with packets, so a
//! quiet run stays cheap and a busy one may spin all the time. This is NemC's on-demand
//! scheduling (an arrival and an idle spinner both run the scheduler) with a bounded spinner.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::clock::monotonic_ns;
use crate::cpu::own_cpu_ns;
use crate::packet_io::PacketIo;
use crate::sys::{self, check, timespec};

/// The margin starts here and stays within these bounds.
const MARGIN_START_NS: u64 = 80_000;
const MARGIN_MIN_NS: u64 = 30_000;
const MARGIN_MAX_NS: u64 = 400_000;
/// A wake-up later than the margin moves it up by a part of the excess, one earlier moves it
/// down by a fixed step: their ratio makes it settle near the 99th percentile.
const MARGIN_UP_DIVISOR: u64 = 4;
const MARGIN_DOWN_NS: u64 = 250;
/// What has been saved up makes the margin longer, so that a wake-up as late as only few are is still
/// in time: it is at least this part of the budget.
const BUDGET_PER_MARGIN: i64 = 40;
/// CPU time earned per microsecond, and per packet in or out: together less than half of a CPU below
/// 5,000 packets/s that pass through, and all of it from 18,000 on.
const BUDGET_PER_1000_NS: u64 = 270;
const BUDGET_PER_PACKET_NS: i64 = 20_000;
/// The budget that can be saved up, and how much work can overdraw it.
const BUDGET_MAX_NS: i64 = 10_000_000;
const BUDGET_MIN_NS: i64 = -1_000_000;
/// The budget is made up so often: the thread's CPU time costs a system call.
const SETTLE_NS: u64 = 100_000;
/// With a budget above this the waiter spins a little after activity: more is often near.
const LINGER_BUDGET_NS: i64 = 6_000_000;
const LINGER_NS: u64 = 50_000;
/// On the way into a sleep and out of it so much still counts as the thread's own time.
const TO_SLEEP_NS: u64 = 20_000;

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// The deadline has come.
    Deadline,
    /// A packet has arrived.
    Arrival,
    /// Another thread rang the bell.
    Bell,
}

/// A bell that another thread rings to end a wait.
#[derive(Debug)]
pub struct Bell {
    fd: OwnedFd,
}

impl Bell {
    /// A silent bell.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the result is checked and owned at once.
        let fd = unsafe {
            let fd = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
            OwnedFd::from_raw_fd(check(fd)?)
        };
        Ok(Self { fd })
    }

    /// Ends the current wait, or the next one.
    pub fn ring(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight valid bytes. It can only fail when the bell is ringing already.
        unsafe { libc::write(self.fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Silences the bell; whether it was ringing.
    pub fn take(&self) -> bool {
        let mut count = [0u8; 8];
        // SAFETY: room for eight bytes; the descriptor does not block.
        let read =
            unsafe { libc::read(self.fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        read == 8
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
    budget_ns: i64,
    slept_ns: u64,
    /// The longest stall since it was last asked for.
    stall_ns: u64,
    /// When the budget was last made up, and the CPU time that the thread had used by then.
    settled_ns: u64,
    cpu_ns: u64,
}

impl Default for Waiter {
    fn default() -> Self {
        let now = monotonic_ns();
        Self {
            margin_ns: MARGIN_START_NS,
            budget_ns: BUDGET_MAX_NS,
            slept_ns: 0,
            stall_ns: 0,
            settled_ns: now,
            cpu_ns: own_cpu_ns(),
        }
    }
}

impl Waiter {
    /// Tells that packets were handled: they pay for CPU time.
    pub fn earned(&mut self, packets: usize) {
        let earned = BUDGET_PER_PACKET_NS.saturating_mul(packets as i64);
        self.budget_ns = (self.budget_ns + earned).min(BUDGET_MAX_NS);
    }

    /// How long the thread has slept so far, as the kernel sees it.
    pub fn slept_ns(&self) -> u64 {
        self.slept_ns
    }

    /// For how long the thread stood still at most while it wanted to run, since this was last asked:
    /// between two looks at the clock, or after the time at which it was to wake.
    pub fn take_stall_ns(&mut self) -> u64 {
        std::mem::take(&mut self.stall_ns)
    }

    /// The margin that the waiter has learnt.
    pub fn margin(&self) -> Duration {
        Duration::from_nanos(self.margin_ns)
    }

    /// Waits for `deadline_ns` of the monotonic clock (or for ever), an arrival or the bell.
    pub fn wait(
        &mut self,
        deadline_ns: Option<u64>,
        io: &mut impl PacketIo,
        bell: &Bell,
    ) -> io::Result<Woken> {
        let start = monotonic_ns();
        if start.saturating_sub(self.settled_ns) >= SETTLE_NS {
            self.settle(start, own_cpu_ns());
        }
        let deadline = deadline_ns.unwrap_or(u64::MAX);
        if self.budget_ns > LINGER_BUDGET_NS
            && let Some(woken) = self.spin(start, deadline, start + LINGER_NS, io)
        {
            return Ok(woken);
        }
        loop {
            let now = monotonic_ns();
            let margin = match self.budget_ns {
                // The margin is given up: late, and seen to be late.
                ..=0 => 0,
                saved => self.margin_ns.max((saved / BUDGET_PER_MARGIN) as u64),
            };
            if deadline <= now.saturating_add(margin) {
                let woken = self.spin(now, deadline, u64::MAX, io);
                return Ok(woken.unwrap_or(Woken::Deadline));
            }
            let wake_at = deadline - margin;
            let fds = [io.readiness().as_raw_fd(), bell.fd.as_raw_fd()];
            let ready = sleep_until((deadline != u64::MAX).then_some(wake_at - now), fds)?;
            let slept = monotonic_ns().saturating_sub(now);
            self.slept_ns += slept.saturating_sub(TO_SLEEP_NS);
            if ready[1] {
                bell.take();
                return Ok(Woken::Bell);
            }
            if ready[0] {
                return Ok(Woken::Arrival);
            }
            let late_ns = monotonic_ns().saturating_sub(wake_at);
            self.stall_ns = self.stall_ns.max(late_ns);
            self.learn(late_ns);
        }
    }

    /// Adds what time has earned to the budget, and takes away what the thread has used.
    fn settle(&mut self, now: u64, cpu_ns: u64) {
        let passed_ns = now.saturating_sub(self.settled_ns);
        let used_ns = cpu_ns.saturating_sub(self.cpu_ns);
        let change_ns = (passed_ns / 1000 * BUDGET_PER_1000_NS) as i64 - used_ns as i64;
        let budget_ns = self.budget_ns.saturating_add(change_ns);
        self.budget_ns = budget_ns.clamp(BUDGET_MIN_NS, BUDGET_MAX_NS);
        (self.settled_ns, self.cpu_ns) = (now, cpu_ns);
    }

    /// Spins from `before` until `deadline` or an arrival, at most until `limit`.
    fn spin(
        &mut self,
        mut before: u64,
        deadline: u64,
        limit: u64,
        io: &mut impl PacketIo,
    ) -> Option<Woken> {
        loop {
            let now = monotonic_ns();
            self.stall_ns = self.stall_ns.max(now - before);
            before = now;
            let woken = if now >= deadline {
                Some(Woken::Deadline)
            } else if io.peek().is_some() {
                Some(Woken::Arrival)
            } else {
                None
            };
            if woken.is_some() || now >= limit {
                return woken;
            }
            std::hint::spin_loop();
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

/// Sleeps until one of `fds` is readable, at most `timeout_ns`; says which are.
fn sleep_until(timeout_ns: Option<u64>, fds: [i32; 2]) -> io::Result<[bool; 2]> {
    let mut polls = fds.map(|fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    let timeout = timeout_ns.map(|ns| timespec(Duration::from_nanos(ns)));
    let timeout = timeout
        .as_ref()
        .map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: both pointers are valid for the call.
    let result = unsafe { libc::ppoll(polls.as_mut_ptr(), 2, timeout, std::ptr::null()) };
    match check(result) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        Err(_) => Ok([false; 2]),
        Ok(_) => Ok(polls.map(|poll| poll.revents != 0)),
    }
}

/// Blocks the signals that end a run and returns a descriptor that delivers them instead.
pub fn termination_signals() -> io::Result<OwnedFd> {
    sys::signalfd(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])
}

/// The signal that has arrived at a descriptor of [`termination_signals`], if any.
pub fn take_signal(fd: BorrowedFd<'_>) -> Option<i32> {
    sys::drain(fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The budget after ten seconds of packets that pass through, if the core used so many
    /// thousandths of its CPU.
    fn budget_ns(packets_per_s: u64, used: u64) -> i64 {
        let mut waiter = Waiter::default();
        let (now, cpu) = (waiter.settled_ns, waiter.cpu_ns);
        for ms in 1..10_000 {
            let sofar = |n: u64| n * ms / 1000 - n * (ms - 1) / 1000;
            waiter.earned(2 * sofar(packets_per_s) as usize);
            waiter.settle(now + ms * 1_000_000, cpu + ms * 1_000 * used);
        }
        waiter.budget_ns
    }

    #[test]
    fn few_packets_pay_for_less_than_half_of_a_cpu() {
        for few in [0, 1_000, 5_000] {
            assert_eq!(budget_ns(few, 500), BUDGET_MIN_NS, "{few} packets/s");
        }
        assert!(budget_ns(1_000, 300) > LINGER_BUDGET_NS);
        assert!(budget_ns(20_000, 1_000) > LINGER_BUDGET_NS);
    }
}
