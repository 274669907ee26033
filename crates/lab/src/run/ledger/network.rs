//! The state of the network at a moment, as a run's loops report it.
//!
//! Of several cores each reports its part: the counters of pipes that it does not own are zero, and
//! the whole is the sum.

use longhaul_core::observe::{Counters, PipeCounters};

use crate::fidelity::Second;

/// The counters of the network's packets so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Network {
    /// The engine's totals.
    pub(crate) counters: Counters,
    /// Every pipe's counters, by number; empty where there are too many to report each second.
    pub(crate) pipes: Vec<PipeCounters>,
    /// Packets inside the network.
    pub(crate) inside: u64,
    /// Multicast frames that carried more than a kernel's own group membership messages.
    pub(crate) multicast_data: u64,
}

impl Network {
    /// Adds another core's part.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.counters.merge(&other.counters);
        if self.pipes.len() < other.pipes.len() {
            self.pipes
                .resize(other.pipes.len(), PipeCounters::default());
        }
        for (pipe, other) in self.pipes.iter_mut().zip(&other.pipes) {
            pipe.merge(other);
        }
        self.inside += other.inside;
        self.multicast_data += other.multicast_data;
    }
}

/// A loop's report on a second: its fidelity, and the network at its end.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    /// The second's fidelity.
    pub(crate) second: Second,
    /// The network.
    pub(crate) network: Network,
}
