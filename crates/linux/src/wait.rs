//! Waiting to the microsecond without burning a CPU.
//!
//! A sleeping thread wakes tens of microseconds late, more on an idle virtual CPU than on a
//! busy one, so the waiter sleeps until a margin before the deadline and spins through the
//! rest. The margin is learnt from every wake-up: it follows a high quantile of how late the
//! kernel was. Spinning is paid for from a budget that fills with time and with packets, so a
//! quiet run stays cheap and a busy one may spin all the time. This is NemC's on-demand
//! scheduling (an arrival and an idle spinner both run the scheduler) with a bounded spinner.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::clock::monotonic_ns;
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
/// Spinning earned per microsecond of time: at most this part of a CPU while packets are few.
const BUDGET_PER_1000_NS: u64 = 350;
/// Spinning earned per packet: a busy core may spin all the time.
const BUDGET_PER_PACKET_NS: i64 = 5_000;
/// The budget that can be saved up.
const BUDGET_MAX_NS: i64 = 10_000_000;
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
    last_ns: u64,
    slept_ns: u64,
}

impl Default for Waiter {
    fn default() -> Self {
        let now = monotonic_ns();
        Self {
            margin_ns: MARGIN_START_NS,
            budget_ns: BUDGET_MAX_NS,
            last_ns: now,
            slept_ns: 0,
        }
    }
}

impl Waiter {
    /// Tells that packets were handled: they pay for spinning.
    pub fn earned(&mut self, packets: usize) {
        let earned = BUDGET_PER_PACKET_NS.saturating_mul(packets as i64);
        self.budget_ns = (self.budget_ns + earned).min(BUDGET_MAX_NS);
    }

    /// How long the thread has slept so far, as the kernel sees it.
    pub fn slept_ns(&self) -> u64 {
        self.slept_ns
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
        let earned = (start.saturating_sub(self.last_ns) / 1000 * BUDGET_PER_1000_NS) as i64;
        self.budget_ns = self.budget_ns.saturating_add(earned).min(BUDGET_MAX_NS);
        self.last_ns = start;
        let deadline = deadline_ns.unwrap_or(u64::MAX);
        if self.budget_ns > LINGER_BUDGET_NS
            && let Some(woken) = self.spin(deadline, start + LINGER_NS, io)
        {
            return Ok(woken);
        }
        loop {
            let now = monotonic_ns();
            // Without budget the margin is given up: late, and seen to be late.
            let margin = if self.budget_ns > 0 {
                self.margin_ns
            } else {
                0
            };
            if deadline <= now.saturating_add(margin) {
                return Ok(self.spin(deadline, u64::MAX, io).unwrap_or(Woken::Deadline));
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
            self.learn(monotonic_ns().saturating_sub(wake_at));
        }
    }

    /// Spins until `deadline` or an arrival, at most until `limit`.
    fn spin(&mut self, deadline: u64, limit: u64, io: &mut impl PacketIo) -> Option<Woken> {
        let start = monotonic_ns();
        loop {
            let now = monotonic_ns();
            let woken = if now >= deadline {
                Some(Woken::Deadline)
            } else if io.peek().is_some() {
                Some(Woken::Arrival)
            } else {
                None
            };
            if woken.is_some() || now >= limit {
                self.budget_ns -= (now - start) as i64;
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
