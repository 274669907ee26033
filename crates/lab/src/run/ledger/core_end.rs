//! What an emulation core has come to, and several of them together.
//!
//! A core owns pipes and works on every packet that crosses one of them. A packet begins at one
//! core (it enters from its host, or is made there), and each other core that it is handed to works
//! on it again. **Efficiency** is the share of that work which begins a packet: 1 where none is
//! handed over, and the less the more often packets change cores.

use std::time::Duration;

use crate::summary::CoreSummary;

use super::Network;

/// What a core has come to.
#[derive(Debug, Clone, Default)]
pub(crate) struct CoreEnd {
    /// CPU time of its loop.
    pub(crate) cpu: Duration,
    /// How long the run took: by the machine's clock, in virtual time by the experiment's.
    pub(crate) had: Duration,
    /// How many pipes it owns.
    pub(crate) pipes: usize,
    /// Its part of the network.
    pub(crate) network: Network,
}

impl CoreEnd {
    /// Packets that began at it.
    fn begun(&self) -> u64 {
        self.network.counters.entered + self.network.counters.created
    }

    /// Packets that it worked on.
    fn packets(&self) -> u64 {
        self.begun() + self.network.counters.imported
    }

    /// The core in `summary.json`.
    pub(super) fn summary(&self) -> CoreSummary {
        CoreSummary {
            pipes: self.pipes,
            packets: self.packets(),
            cross_core: self.network.counters.imported + self.network.counters.exported,
            busy: self.cpu.as_secs_f64() / self.had.as_secs_f64().max(1e-9),
        }
    }
}

/// Edge packets over all packets that several cores worked on.
pub(super) fn efficiency(cores: &[CoreEnd]) -> Option<f64> {
    let sum = |of: fn(&CoreEnd) -> u64| cores.iter().map(of).sum::<u64>();
    let (edge, all) = (sum(CoreEnd::begun), sum(CoreEnd::packets));
    (cores.len() > 1 && all > 0).then(|| edge as f64 / all as f64)
}

/// The whole network that cores have carried together.
pub(super) fn whole(cores: impl IntoIterator<Item = CoreEnd>) -> Network {
    let parts = cores.into_iter().map(|core| core.network);
    let sum = parts.reduce(|mut whole, part| {
        whole.merge(&part);
        whole
    });
    sum.unwrap_or_default()
}
