//! What a virtual run does next: decided from when anything happens next anywhere, so that all cores
//! come to the same decision by themselves.
//!
//! All spans of time here are half open: what happens at their end belongs to the next one. What
//! the file has scheduled comes before packets of the same time. A run is over at the end of the
//! [`GRID`] cell in which its traffic is done, so that this too depends on no window and no core.

use longhaul_core::{Span, Time};

/// The resolution of the end of a run.
pub const GRID: Span = Span::from_ms(10);

/// Why a virtual run came to an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// All traffic that ends by itself has ended.
    Done,
    /// The run's bound has been reached.
    Duration,
    /// No event, packet or timer is left.
    Idle,
    /// Time no longer advances: hosts answer each other without any delay.
    Stuck,
    /// A pipe between two cores has lost its delay, so that neither core may advance before the other.
    NoLookAhead,
    /// No memory was left for a packet. How many packets fit depends on the number of cores, and so
    /// would all results from then on.
    Full,
}

/// The next step of a virtual run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Process everything before the time, at most a look-ahead at once.
    Advance(Time),
    /// Everything before the time is done, and what the file has scheduled for it comes next.
    Steps(Time),
    /// Nothing is left before the time that the caller gave.
    Reached(Time),
    /// The run ends at the time.
    Over(Stop, Option<Time>),
}

/// The joint state of the cores of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    /// When a packet comes out or a timer is due next.
    pub(super) next: Option<Time>,
    /// When the file has something scheduled next.
    pub(super) step: Option<Time>,
    /// Whether all traffic that ends by itself has ended.
    pub(super) is_done: bool,
    pub(super) is_stuck: bool,
    pub(super) is_full: bool,
}

/// How far a run may go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Control {
    /// The run's bound.
    pub(super) end: Option<Time>,
    /// Whether the run ends with its traffic.
    pub(super) ends_with_traffic: bool,
    /// The end of the grid cell that time is in.
    cell_end: Time,
}

impl Control {
    pub(super) fn new(end: Option<Time>, ends_with_traffic: bool) -> Self {
        Self {
            end,
            ends_with_traffic,
            cell_end: Time::ZERO + GRID,
        }
    }

    /// What comes next on the way to `horizon`.
    pub(super) fn decide(&mut self, progress: &Progress, horizon: Time) -> Next {
        if progress.is_stuck {
            return Next::Over(Stop::Stuck, None);
        }
        if progress.is_full {
            return Next::Over(Stop::Full, None);
        }
        let limit = self.end.map_or(horizon, |end| end.min(horizon));
        let next = progress.next.filter(|next| *next < limit);
        let step = progress.step.filter(|step| *step < limit);
        let coming = next.into_iter().chain(step).min();
        if let Some(done_at) = self.enter_cell(coming.unwrap_or(limit), progress.is_done) {
            return Next::Over(Stop::Done, Some(done_at));
        }
        match (next, step) {
            (None, None) => self.rest(progress, limit, horizon),
            (next, Some(step)) if next.is_none_or(|next| step <= next) => Next::Steps(step),
            (_, step) => {
                let bounds = [Some(limit), step, Some(self.cell_end)];
                Next::Advance(bounds.into_iter().flatten().min().unwrap_or(limit))
            }
        }
    }

    /// Moves on to the grid cell of `time`; gives the end of the cell before, where a run ends whose
    /// traffic is done.
    fn enter_cell(&mut self, time: Time, is_done: bool) -> Option<Time> {
        if time < self.cell_end {
            return None;
        }
        if self.ends_with_traffic && is_done {
            return Some(self.cell_end);
        }
        let cells = time.as_ns() / GRID.as_ns() + 1;
        self.cell_end = Time::from_ns(cells.saturating_mul(GRID.as_ns()));
        None
    }

    /// Nothing happens before `limit`.
    fn rest(&self, progress: &Progress, limit: Time, horizon: Time) -> Next {
        let nothing_comes = progress.next.is_none() && progress.step.is_none();
        match self.end {
            None if nothing_comes => Next::Over(Stop::Idle, None),
            Some(end) if end <= horizon => Next::Over(Stop::Duration, Some(limit)),
            _ => Next::Reached(limit),
        }
    }
}
