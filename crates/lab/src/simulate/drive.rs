//! The drive loop of the virtual clock: time jumps to whatever comes next.
//!
//! Purpose: join the engine to modelled hosts without any clock. Theory: a packet that a host
//! sends at T enters the host's first pipe, which no other host feeds, and comes out no sooner
//! than that pipe's delay later. So the engine may do a whole **window** of its events, as long
//! as the smallest such delay, before the hosts are asked what they make of them: whatever they
//! send within the window cannot come out within it. Packets then enter at the times at which
//! they were sent, for which the engine accepts arrivals in its past. Windows only save work:
//! results do not depend on them, which a test holds to windows of nothing.
//!
//! That delay is [`Engine::lead`]. Where a first pipe is not plain (its start of service is an event
//! of the engine's) or has no delay, it is zero, there are no windows, and the engine and the hosts take turns event by event.
//!
//! All spans of time here are half open: what happens at their end belongs to the next one. What
//! the file has scheduled comes before packets of the same time. A run is over at the end of the
//! [`GRID`] cell in which its traffic is done, so that this too depends on no window.
//!
//! Left out: the clock that people wait by, and everything that is written down.

use std::collections::VecDeque;

use longhaul_core::engine::{Egress, Engine, Modelled, Refused};
use longhaul_core::packet::ETHERNET_LEN;
use longhaul_core::{NodeId, Span, Time};
use longhaul_proto::traffic::{LOOK_AHEAD, Traffic};

use crate::drive::apply_steps;
use crate::run::EVENTS_MAX;
use crate::schedule::Timeline;

/// How finely the end of a run is told.
pub(super) const GRID: Span = Span::from_ms(10);
/// So many rounds and packets at one point in time are a circle: hosts answer each other without
/// any delay.
const AT_ONCE_MAX: u64 = 2_000_000;

/// Why a drive loop came to an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// All traffic that ends by itself has ended.
    Done,
    /// The run's bound has been reached.
    Duration,
    /// Nothing will ever happen again.
    Idle,
    /// Time does not pass any more.
    Stuck,
}

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// There is more to do before the horizon.
    More,
    /// Everything before the horizon is done.
    Reached,
    /// The run is over.
    Over(Stop),
}

/// Everything that the loop works with.
pub(super) struct Drive {
    pub(super) engine: Engine,
    pub(super) traffic: Traffic,
    timeline: Timeline,
    /// The run's bound.
    end: Option<Time>,
    /// How many flows end by themselves; the run ends with them.
    bounded: u64,
    /// Those with modelled endpoints.
    hosts: Vec<NodeId>,
    /// Whether there may be windows.
    windows: bool,
    window: Span,
    /// The end of the grid cell that time is in.
    cell_end: Time,
    /// Frames that have come out at hosts and are to be handled next.
    coming: VecDeque<Egress>,
    /// Rounds and packets since time has passed last.
    at_once: u64,
    /// Frames that came out at hosts.
    pub(super) received: u64,
    /// The first events that began, by number.
    pub(super) begun: Vec<(Time, usize)>,
    /// How many began in all.
    pub(super) begun_in_all: u64,
}

impl Drive {
    /// A loop at t = 0. `hosts` are those with modelled endpoints; without `windows`, everything
    /// goes event by event.
    pub(super) fn new(
        engine: Engine,
        traffic: Traffic,
        timeline: Timeline,
        (end, bounded): (Option<Span>, u64),
        hosts: &[NodeId],
        windows: bool,
    ) -> Self {
        let mut drive = Self {
            hosts: hosts.to_vec(),
            windows,
            window: Span::ZERO,
            cell_end: Time::ZERO + GRID,
            coming: VecDeque::with_capacity(LOOK_AHEAD),
            at_once: 0,
            received: 0,
            begun: Vec::new(),
            begun_in_all: 0,
            end: end.map(|end| Time::ZERO + end),
            bounded,
            engine,
            traffic,
            timeline,
        };
        drive.measure_window();
        drive
    }

    /// How long the engine may go on alone.
    fn measure_window(&mut self) {
        let leads = self.hosts.iter().map(|host| self.engine.lead(*host));
        self.window = match self.windows {
            true => leads.min().unwrap_or(GRID).min(GRID),
            false => Span::ZERO,
        };
    }

    /// When something happens next, if ever.
    pub(super) fn next_at(&self) -> Option<Time> {
        let next = [
            self.engine.next_due(),
            self.traffic.poll_timeout(),
            self.timeline.next_at(),
        ];
        next.into_iter().flatten().min()
    }

    /// Goes on until everything before `horizon` is done, for at most `rounds` rounds.
    pub(super) fn run(&mut self, horizon: Time, rounds: u32) -> Outcome {
        for _ in 0..rounds {
            let next = [self.engine.next_due(), self.traffic.poll_timeout()];
            let next = next.into_iter().flatten().min();
            let limit = self.end.map_or(horizon, |end| end.min(horizon));
            let next = next.filter(|next| *next < limit);
            let step = self.timeline.next_at().filter(|step| *step < limit);
            let coming = next.into_iter().chain(step).min();
            if let Some(stop) = self.enter_cell(coming.unwrap_or(limit)) {
                return Outcome::Over(stop);
            }
            match (next, step) {
                (None, None) => return self.rest(limit, horizon),
                (next, Some(step)) if next.is_none_or(|next| step <= next) => {
                    self.take_steps(step);
                }
                (Some(next), step) => {
                    let bound = [Some(limit), step, Some(self.cell_end)];
                    let bound = bound.into_iter().flatten().min().unwrap_or(limit);
                    self.round(next, bound);
                }
                (None, Some(_)) => unreachable!("a step alone is taken above"),
            }
            if self.at_once > AT_ONCE_MAX {
                return Outcome::Over(Stop::Stuck);
            }
        }
        Outcome::More
    }

    /// Does what the file has scheduled at `at`.
    fn take_steps(&mut self, at: Time) {
        let (begun, in_all) = (&mut self.begun, &mut self.begun_in_all);
        apply_steps(&mut self.engine, &mut self.timeline, at, |number| {
            if begun.len() < EVENTS_MAX {
                begun.push((at, number));
            }
            *in_all += 1;
        });
        self.measure_window();
    }

    /// Moves on to the grid cell of `time`; a run whose traffic was done in a cell before it ends
    /// with that cell.
    fn enter_cell(&mut self, time: Time) -> Option<Stop> {
        if time < self.cell_end {
            return None;
        }
        if self.bounded > 0 && self.traffic.is_done() {
            self.engine.advance_before(self.cell_end);
            return Some(Stop::Done);
        }
        let cells = time.as_ns() / GRID.as_ns() + 1;
        self.cell_end = Time::from_ns(cells.saturating_mul(GRID.as_ns()));
        None
    }

    /// Nothing happens before `limit`.
    fn rest(&mut self, limit: Time, horizon: Time) -> Outcome {
        if self.next_at().is_none() && self.end.is_none() {
            return Outcome::Over(Stop::Idle);
        }
        self.engine.advance_before(limit);
        match self.end {
            Some(end) if end <= horizon => Outcome::Over(Stop::Duration),
            _ => Outcome::Reached,
        }
    }

    /// A window from `next` on, at most to `bound`; without windows, all that happens at `next`.
    fn round(&mut self, next: Time, bound: Time) {
        let before = self.engine.now();
        let until = match self.window {
            Span::ZERO => {
                self.engine.advance(next);
                // What hosts do at this time belongs to it.
                next + Span::from_ns(1)
            }
            window => {
                let until = (next + window).min(bound);
                self.engine.advance_before(until);
                until
            }
        };
        if self.engine.now() > before {
            self.at_once = 0;
        }
        let received = self.received;
        self.serve(until);
        self.at_once += 1 + self.received - received;
    }

    /// Lets the hosts handle what has come out, and their timers before `until`, in order of time;
    /// at one time packets come first.
    fn serve(&mut self, until: Time) {
        loop {
            if self.coming.is_empty() {
                self.look_ahead();
            }
            let timer = self.traffic.poll_timeout().filter(|timer| *timer < until);
            let is_next = |packet: &Egress| timer.is_none_or(|timer| packet.due <= timer);
            let packet = match self.coming.front().is_some_and(is_next) {
                true => self.coming.pop_front(),
                false => None,
            };
            match (packet, timer) {
                (Some(packet), _) => self.hand_over(packet),
                (None, Some(timer)) => self.traffic.handle_timeout(timer),
                (None, None) => return,
            }
            self.transmit();
        }
    }

    /// Takes some of what has come out; whom it is for is looked up at once.
    fn look_ahead(&mut self) {
        let polled = std::iter::from_fn(|| self.engine.poll_egress());
        self.coming.extend(polled.take(LOOK_AHEAD));
        if self.coming.len() > 1 {
            let coming = self.coming.iter();
            let engine = &self.engine;
            let coming = coming.map(|egress| (egress.host, engine.frame(egress), ip_len(egress)));
            self.traffic.look_ahead(coming);
        }
    }

    /// Gives a packet to its host.
    fn hand_over(&mut self, egress: Egress) {
        debug_assert_eq!(egress.staleness, Span::ZERO, "a window was too long");
        self.received += 1;
        let headers = self.engine.frame(&egress);
        self.traffic
            .handle_packet(egress.due, egress.host, headers, ip_len(&egress));
        self.engine.release(egress);
    }

    /// Takes what the hosts send.
    fn transmit(&mut self) {
        while let Some(packet) = self.traffic.poll_transmit() {
            let modelled = Modelled {
                to: packet.to,
                headers: packet.headers,
                ip_len: packet.ip_len,
            };
            let refused = self
                .engine
                .arrive_modelled(packet.host, packet.at, &modelled);
            // A full pool is counted by the engine, and judged.
            debug_assert!(matches!(refused, Ok(()) | Err(Refused::PoolExhausted)));
        }
    }
}

/// The length of its IP packet.
const fn ip_len(egress: &Egress) -> u32 {
    egress.len - ETHERNET_LEN as u32
}
