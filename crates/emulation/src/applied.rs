//! The changes that an emulation has applied, and the state of the network that follows from them.
//!
//! Changes come from the file's schedule and from callers, in the middle of a loop that must not wait. The
//! emulation collects them as [`Applied`] until the supervisor takes them. That is bounded by the network: of a
//! pipe that has changed several times, only the last state is kept. [`Known`] is the plan with all changes
//! taken so far, so that the schedule is not evaluated a second time.
//!
//! Left out: what changes do to packets.

use std::collections::{HashMap, HashSet};

use longhaul_core::params::PipeParams;
use longhaul_core::topology::PipeId;
use longhaul_core::{Time, Topology};

/// The most event beginnings that are kept; further ones are only counted.
const MAX_BEGUN: usize = 10_000;

/// The changes applied since they were last taken.
#[derive(Debug, Clone, Default)]
pub struct Applied {
    /// Events of the file that began, by number, and when.
    pub begun: Vec<(Time, usize)>,
    /// How many further events began, beyond the bound.
    pub begun_more: u64,
    /// Pipes whose parameters have changed, and the new ones. This and the following fields are filled only
    /// on request ([`Emulation::report_network_changes`](crate::Emulation::report_network_changes)).
    pub params: HashMap<PipeId, PipeParams>,
    /// Pipes that have failed (false) or come back (true), by their last state.
    pub up: HashMap<PipeId, bool>,
    /// When routes followed failures and repairs last, if they did.
    pub rerouted: Option<Time>,
}

impl Applied {
    pub(crate) fn is_empty(&self) -> bool {
        let Self {
            begun,
            begun_more,
            params,
            up,
            rerouted,
        } = self;
        begun.is_empty()
            && *begun_more == 0
            && params.is_empty()
            && up.is_empty()
            && rerouted.is_none()
    }

    /// An event of the file began.
    pub(crate) fn begin(&mut self, at: Time, event: usize) {
        if self.begun.len() < MAX_BEGUN {
            self.begun.push((at, event));
        } else {
            self.begun_more += 1;
        }
    }
}

/// The network with all reported changes applied.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// Pipes that are not as the plan has them any more.
    params: HashMap<PipeId, PipeParams>,
    down: HashSet<PipeId>,
    rerouted: Option<Time>,
}

impl Known {
    /// Takes note of changes.
    pub fn take(&mut self, applied: Applied) {
        self.params.extend(applied.params);
        for (pipe, up) in applied.up {
            if up {
                self.down.remove(&pipe)
            } else {
                self.down.insert(pipe)
            };
        }
        self.rerouted = applied.rerouted.or(self.rerouted);
    }

    /// The changed parameters of a pipe; `None` while they are the plan's.
    pub fn changed(&self, pipe: PipeId) -> Option<&PipeParams> {
        self.params.get(&pipe)
    }

    /// The parameters of a pipe of this topology.
    pub fn params<'a>(&'a self, topology: &'a Topology, pipe: PipeId) -> &'a PipeParams {
        let planned = &topology.pipe(pipe).params;
        self.params.get(&pipe).unwrap_or(planned)
    }

    /// Whether a pipe is up.
    pub fn is_up(&self, pipe: PipeId) -> bool {
        !self.down.contains(&pipe)
    }

    /// When routes followed failures and repairs last.
    pub fn rerouted(&self) -> Option<Time> {
        self.rerouted
    }
}
