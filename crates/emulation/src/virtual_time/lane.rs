//! One core's share of a virtual run: its emulation, and the windows in which it goes on.
//!
//! Theory: a packet that a host sends at T enters the host's first pipe, which no other host
//! feeds, and comes out no sooner than that pipe's delay later. So the engine may do a whole
//! **window** of its events, as long as the smallest such delay, before the hosts process
//! them: whatever they send within the window cannot come out within it. Packets then
//! enter at the times at which they were sent, since the engine accepts arrivals in its past. Windows
//! only save work; a test demands the same results without them.
//!
//! That delay is [`Engine::lead`](longhaul_core::engine::Engine::lead). Where a first pipe is not
//! plain (its start of service is an event of the engine's) or has no delay, it is zero, there are
//! no windows, and the engine and the hosts take turns event by event.

use std::time::Duration;

use longhaul_core::parallel::CoreId;
use longhaul_core::{NodeId, Span, Time};

use super::control::GRID;
use crate::Emulation;

/// The most rounds and packets at one point in time. More are taken for a loop: hosts that answer each
/// other without any delay.
const MAX_AT_ONCE: u64 = 2_000_000;

/// One core of a virtual run.
pub(super) struct Lane {
    pub(super) core: CoreId,
    pub(super) emulation: Emulation,
    /// CPU time that its work has taken.
    pub(super) worked: Duration,
    /// Those with modelled endpoints.
    hosts: Vec<NodeId>,
    /// Whether there may be windows.
    windows: bool,
    window: Span,
    /// Rounds and packets since time has passed last.
    at_once: u64,
}

impl Lane {
    pub(super) fn new(core: CoreId, emulation: Emulation, windows: bool) -> Self {
        let mut lane = Self {
            core,
            hosts: emulation.modelled_hosts().to_vec(),
            windows,
            window: Span::ZERO,
            at_once: 0,
            worked: Duration::ZERO,
            emulation,
        };
        lane.measure_window();
        lane
    }

    /// Measures how far the engine may run ahead of the hosts.
    fn measure_window(&mut self) {
        let engine = &self.emulation.engine;
        let leads = self.hosts.iter().map(|host| engine.lead(*host));
        self.window = if self.windows {
            leads.min().unwrap_or(GRID).min(GRID)
        } else {
            Span::ZERO
        };
    }

    /// When a packet comes out or a timer is due next on this core.
    pub(super) fn next(&self) -> Option<Time> {
        let next = self.emulation.next_packet_or_timer();
        next.filter(|next| *next < Time::MAX)
    }

    /// Does what the file has scheduled at `at`, after everything before.
    pub(super) fn take_steps(&mut self, at: Time) {
        self.emulation.take_steps(at);
        self.measure_window();
    }

    /// A window from `next` on, at most to `bound`; without windows, all that happens at `next`.
    pub(super) fn round(&mut self, next: Time, bound: Time) {
        let before = self.emulation.now();
        let until = match self.window {
            Span::ZERO => {
                self.emulation.advance(next);
                // What hosts do at this time belongs to it.
                next + Span::from_ns(1)
            }
            window => {
                let until = (next + window).min(bound);
                self.emulation.advance_before(until);
                until
            }
        };
        let served = self.emulation.serve(until);
        self.at_once = if self.emulation.now() > before {
            0
        } else {
            self.at_once + 1 + served
        };
    }

    /// Does everything before `until`, or up to where time does not pass any more.
    pub(super) fn advance_before(&mut self, until: Time) {
        while let Some(next) = self.next().filter(|next| *next < until) {
            if self.is_stuck() {
                return;
            }
            self.round(next, until);
        }
        self.emulation.advance_before(until);
    }

    /// Whether time no longer advances.
    pub(super) fn is_stuck(&self) -> bool {
        self.at_once > MAX_AT_ONCE
    }

    /// Whether a packet has found no memory.
    pub(super) fn is_full(&self) -> bool {
        self.emulation.engine.counters().pool_exhausted > 0
    }
}
