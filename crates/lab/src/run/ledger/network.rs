//! The network at a moment, as a run's loops tell of it.

use longhaul_core::observe::{Counters, PipeCounters};

use crate::fidelity::Second;

/// What has become of the network's packets so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Network {
    /// The engine's totals.
    pub(crate) counters: Counters,
    /// Every pipe's counters, by number; none where there are too many to tell each second.
    pub(crate) pipes: Vec<PipeCounters>,
    /// Packets inside the network.
    pub(crate) inside: u64,
    /// Multicast frames that carried more than a kernel's own group membership messages.
    pub(crate) multicast_data: u64,
}

/// What a loop tells of a second: its fidelity, and the network at its end.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    /// The second's fidelity.
    pub(crate) second: Second,
    /// The network.
    pub(crate) network: Network,
}
