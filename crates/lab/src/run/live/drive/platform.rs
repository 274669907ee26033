//! The loop's interface to the machine: a clock, packets, and waiting for either.
//!
//! [`Platform`] is the whole interface, so that a test can drive the loop with its own clock and
//! packets in memory (`drive/tests.rs`); [`LinuxPlatform`] is the machine itself.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use longhaul_core::Time;
use longhaul_linux::clock::MachineTime;
use longhaul_linux::core_thread::CoreThread;
use longhaul_linux::cpu;
use longhaul_linux::packet_io::{Ask, Departed, Departure, Rings, SEND_BATCH, VnetHeader};
use longhaul_linux::wait::{Bell, Waiter};

use crate::pace::{Dilation, Now, Pace};
use crate::run::live::clock::RealClock;
#[cfg(debug_assertions)]
use crate::run::live::faults;

/// A frame that a host has sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival<'a> {
    /// The host's number.
    pub host: usize,
    /// When it arrived, by the kernel's stamp.
    pub stamp: Time,
    /// Offload state.
    pub vnet: VnetHeader,
    /// The frame without FCS; cut where it was longer than there was room for.
    pub frame: &'a [u8],
    /// Its length on the cable.
    pub full_len: usize,
    /// Whether the kernel has taken an 802.1Q tag off.
    pub tagged: bool,
}

/// What became of a frame in a send call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The kernel put it on its cable at this time.
    At(Time),
    /// No stamp was asked for: no later than the next one of the call, or than the call's end.
    Unasked,
    /// The kernel was asked, and did not answer.
    Unanswered,
    /// The kernel refused it.
    Refused,
}

/// What has happened since [`Platform::take_counters`] was called last.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PlatformCounters {
    /// Arrivals lost because the receive rings were full.
    pub lost: u64,
    /// How often the clock was stepped.
    pub clock_steps: u64,
    /// CPU time of the loop's thread.
    pub cpu: Duration,
    /// How long it waited for its CPU.
    pub run_wait: Duration,
}

/// The machine as the loop knows it.
pub(crate) trait Platform {
    /// This moment.
    fn now(&mut self) -> Now;

    /// The oldest arrival, left in place.
    fn peek(&mut self) -> Option<Arrival<'_>>;

    /// Returns the slot of the oldest arrival to the kernel.
    fn release(&mut self);

    /// Sends frames in order, and says what became of each.
    fn send(&mut self, batch: &[Departure<'_>], ask: Ask, outcomes: &mut [Outcome]);

    /// Waits for an arrival, a command, or the time `until`.
    fn wait(&mut self, until: Time) -> io::Result<()>;

    /// A turn that began at `now` is over.
    fn turned(&mut self, now: MachineTime);

    /// What has happened since this was called last.
    fn take_counters(&mut self) -> PlatformCounters;

    /// How experiment time passes on this machine.
    fn pace(&self) -> Pace;
}

/// This machine: the kernel's clocks, rings and scheduler.
pub(crate) struct LinuxPlatform {
    clock: RealClock,
    rings: Rings,
    waiter: Waiter,
    bell: Arc<Bell>,
    thread: CoreThread,
    steps_seen: u64,
    cpu_seen_ns: u64,
    wait_seen_ns: u64,
    /// Frames that were to be sent, for a planted fault.
    #[cfg(debug_assertions)]
    departures: u64,
}

impl LinuxPlatform {
    /// The machine of the calling thread, which `bell` wakes; t = 0 is now, and frames from before
    /// belong to no experiment.
    pub(crate) fn start(
        mut rings: Rings,
        bell: Arc<Bell>,
        thread: CoreThread,
        dilation: Dilation,
    ) -> Self {
        let clock = RealClock::start(dilation);
        while rings
            .peek()
            .is_some_and(|arrival| clock.of_stamp(arrival.stamp_ns).is_none())
        {
            rings.release();
        }
        rings.take_drops();
        Self {
            clock,
            rings,
            waiter: Waiter::default(),
            bell,
            thread,
            steps_seen: 0,
            cpu_seen_ns: cpu::own_cpu_ns(),
            wait_seen_ns: cpu::own_run_wait_ns(),
            #[cfg(debug_assertions)]
            departures: 0,
        }
    }

    /// Stalls where a planted fault says so.
    #[cfg(debug_assertions)]
    fn stall(&self) {
        faults::stall(self.clock.pace().passed(MachineTime::now()));
    }
}

impl Platform for LinuxPlatform {
    #[inline]
    fn now(&mut self) -> Now {
        self.clock.now()
    }

    #[inline]
    fn peek(&mut self) -> Option<Arrival<'_>> {
        let arrival = self.rings.peek()?;
        Some(Arrival {
            host: arrival.host,
            stamp: self.clock.of_stamp(arrival.stamp_ns).unwrap_or(Time::ZERO),
            vnet: arrival.vnet,
            frame: arrival.frame,
            full_len: arrival.full_len,
            tagged: arrival.tagged,
        })
    }

    #[inline]
    fn release(&mut self) {
        self.rings.release();
    }

    fn send(&mut self, batch: &[Departure<'_>], ask: Ask, outcomes: &mut [Outcome]) {
        #[cfg(debug_assertions)]
        let batch = &*faults::without_swallowed(batch, &mut self.departures);
        let mut departed = [Departed::Unasked; SEND_BATCH];
        self.rings.send(batch, ask, &mut departed);
        for (outcome, departed) in outcomes.iter_mut().zip(departed) {
            *outcome = match departed {
                // A stamp from before t = 0 is not of a frame of this run.
                Departed::At(ns) => match self.clock.of_stamp(ns) {
                    Some(on_cable) => Outcome::At(on_cable),
                    None => Outcome::Unanswered,
                },
                Departed::Unasked => Outcome::Unasked,
                Departed::Unanswered => Outcome::Unanswered,
                Departed::Refused => Outcome::Refused,
            };
        }
    }

    fn wait(&mut self, until: Time) -> io::Result<()> {
        let pace = self.clock.pace();
        let until = pace.moment_of(until);
        #[cfg(debug_assertions)]
        let until = pace.begin().at + faults::wait_until(pace.passed(until));
        self.waiter.wait(until, &mut self.rings, &self.bell)?;
        #[cfg(debug_assertions)]
        self.stall();
        Ok(())
    }

    fn turned(&mut self, now: MachineTime) {
        #[cfg(debug_assertions)]
        self.stall();
        self.clock.refresh(now);
        self.thread.leave_room(now, self.waiter.slept_ns());
    }

    fn pace(&self) -> Pace {
        self.clock.pace()
    }

    fn take_counters(&mut self) -> PlatformCounters {
        let (cpu_ns, wait_ns) = (cpu::own_cpu_ns(), cpu::own_run_wait_ns());
        let steps = self.clock.steps();
        let counters = PlatformCounters {
            lost: self.rings.take_drops(),
            clock_steps: steps - self.steps_seen,
            cpu: Duration::from_nanos(cpu_ns - self.cpu_seen_ns),
            run_wait: Duration::from_nanos(wait_ns.saturating_sub(self.wait_seen_ns)),
        };
        (self.steps_seen, self.cpu_seen_ns, self.wait_seen_ns) = (steps, cpu_ns, wait_ns);
        counters
    }
}
