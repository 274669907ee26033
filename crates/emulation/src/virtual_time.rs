//! The loop of the virtual clock: time jumps to whatever comes next.
//!
//! Theory: a packet that a host sends at T enters the host's first pipe, which no other host
//! feeds, and comes out no sooner than that pipe's delay later. So the engine may do a whole
//! **window** of its events, as long as the smallest such delay, before the hosts are asked what
//! they make of them: whatever they send within the window cannot come out within it. Packets then
//! enter at the times at which they were sent, for which the engine accepts arrivals in its past.
//! Windows only save work: results do not depend on them, which a test holds to windows of nothing.
//!
//! That delay is [`Engine::lead`](longhaul_core::engine::Engine::lead). Where a first pipe is not
//! plain (its start of service is an event of the engine's) or has no delay, it is zero, there are
//! no windows, and the engine and the hosts take turns event by event.
//!
//! All spans of time here are half open: what happens at their end belongs to the next one. What
//! the file has scheduled comes before packets of the same time. A run is over at the end of the
//! [`GRID`] cell in which its traffic is done, so that this too depends on no window.
//!
//! Left out: the clock that people wait by, and everything that is written down.

use longhaul_core::{NodeId, Span, Time};
use longhaul_plan::plan::Plan;

use crate::Emulation;

/// How finely the end of a run is told.
pub const GRID: Span = Span::from_ms(10);
/// So many rounds and packets at one point in time are a circle: hosts answer each other without
/// any delay.
const AT_ONCE_MAX: u64 = 2_000_000;

/// Why a drive loop came to an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
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
pub enum Outcome {
    /// There is more to do before the horizon.
    More,
    /// Everything before the horizon is done.
    Reached,
    /// The run is over.
    Over(Stop),
}

/// How a virtual run goes, and when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VirtualConfig {
    /// The run's bound, if it has one.
    pub duration: Option<Span>,
    /// How many flows end by themselves; where there are any, the run ends with them.
    pub bounded: u64,
    /// Whether the engine may go on alone for a window. Without, everything goes event by event,
    /// and the results are the same.
    pub windows: bool,
}

impl VirtualConfig {
    /// That of a plan, with windows.
    pub fn of(plan: &Plan) -> Self {
        Self {
            duration: plan.duration,
            bounded: plan.traffic.bounded,
            windows: true,
        }
    }
}

/// An emulation on the virtual clock.
pub struct VirtualRun {
    emulation: Emulation,
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
    /// Rounds and packets since time has passed last.
    at_once: u64,
}

impl VirtualRun {
    /// A run at t = 0.
    pub fn new(emulation: Emulation, config: VirtualConfig) -> Self {
        let mut run = Self {
            hosts: emulation.modelled_hosts().to_vec(),
            windows: config.windows,
            window: Span::ZERO,
            cell_end: Time::ZERO + GRID,
            at_once: 0,
            end: config.duration.map(|duration| Time::ZERO + duration),
            bounded: config.bounded,
            emulation,
        };
        run.measure_window();
        run
    }

    /// What is being run.
    pub fn emulation(&mut self) -> &mut Emulation {
        &mut self.emulation
    }

    /// How long the engine may go on alone.
    fn measure_window(&mut self) {
        let leads = self
            .hosts
            .iter()
            .map(|host| self.emulation.engine.lead(*host));
        self.window = match self.windows {
            true => leads.min().unwrap_or(GRID).min(GRID),
            false => Span::ZERO,
        };
    }

    /// Goes on until everything before `horizon` is done, for at most `rounds` rounds.
    pub fn run(&mut self, horizon: Time, rounds: u32) -> Outcome {
        for _ in 0..rounds {
            let next = self.emulation.next_packet_or_timer();
            let limit = self.end.map_or(horizon, |end| end.min(horizon));
            let next = next.filter(|next| *next < limit);
            let step = self.emulation.next_step().filter(|step| *step < limit);
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
        self.emulation.take_steps(at);
        self.measure_window();
    }

    /// Moves on to the grid cell of `time`; a run whose traffic was done in a cell before it ends
    /// with that cell.
    fn enter_cell(&mut self, time: Time) -> Option<Stop> {
        if time < self.cell_end {
            return None;
        }
        if self.bounded > 0 && self.emulation.traffic_is_done() {
            self.emulation.advance_before(self.cell_end);
            return Some(Stop::Done);
        }
        let cells = time.as_ns() / GRID.as_ns() + 1;
        self.cell_end = Time::from_ns(cells.saturating_mul(GRID.as_ns()));
        None
    }

    /// Nothing happens before `limit`.
    fn rest(&mut self, limit: Time, horizon: Time) -> Outcome {
        if self.emulation.next_at().is_none() && self.end.is_none() {
            return Outcome::Over(Stop::Idle);
        }
        self.emulation.advance_before(limit);
        match self.end {
            Some(end) if end <= horizon => Outcome::Over(Stop::Duration),
            _ => Outcome::Reached,
        }
    }

    /// A window from `next` on, at most to `bound`; without windows, all that happens at `next`.
    fn round(&mut self, next: Time, bound: Time) {
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
        if self.emulation.now() > before {
            self.at_once = 0;
        }
        self.at_once += 1 + self.emulation.serve(until);
    }
}
