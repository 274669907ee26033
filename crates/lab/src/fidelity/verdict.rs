//! The verdict as `summary.json` holds it.

use serde::Serialize;

use super::causes::{ByCause, Stalls};
use super::delays::Quantiles;
use super::drops::PhysicalDrops;
use super::rule::State;
use crate::noise::Alone;

/// The pair of hosts that suffered most from late and lost packets. The claim holds for it, and so
/// for all others that are judged by themselves; pairs with fewer packets are judged together.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorstPair {
    /// Where its packets came from; `null` where they are not of one host.
    pub from: Option<String>,
    /// Where they went.
    pub to: String,
    /// Packets that left.
    pub packets: u64,
    /// Late ones among them.
    pub late: u64,
    /// The same as a share.
    pub late_share: f64,
    /// The share that the machine lost, at most.
    pub lost_share: f64,
    /// Episodes of late packets.
    pub episodes: u64,
    /// How much later than due its packets may be without being late.
    pub allowance_ns: u64,
}

/// Retransmissions and time-outs that hosts' kernels counted, and those they found needless.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Spurious {
    /// TCP segments sent again.
    pub retransmissions: u64,
    /// Those that a receiver reported to have had already (DSACK), as it does of tail loss probes
    /// too.
    pub spurious_retransmissions: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Those of them that turned out to be needless (F-RTO).
    pub spurious_timeouts: u64,
}

/// The verdict as `summary.json` holds it. `null` stands for what a virtual run does not have.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    /// The grade.
    pub state: State,
    /// The grade without the machine's noise (stalls and slow moments): only packets that were late
    /// because of an overload count.
    pub state_without_noise: State,
    /// What holds of the run's figures, in words; `null` where nothing can be late.
    pub holds: Option<String>,
    /// What spoke against the run, a line each cause; of a faithful one what is worth knowing.
    pub reasons: Vec<String>,
    /// The tolerance in nanoseconds.
    pub tolerance_ns: u64,
    /// Late packets as a share of those that left.
    pub late_share: f64,
    /// Packets that the machine lost, as a share of those that were due.
    pub lost_share: f64,
    /// By how much percentiles of delays may be off, as a share: those of the worst pair.
    pub percentile_shift: f64,
    /// The least part of their true values that rates have kept.
    pub rate_share: f64,
    /// The worst pair of hosts; `null` where no packet was late or lost.
    pub worst_pair: Option<WorstPair>,
    /// Episodes of late packets.
    pub episodes: u64,
    /// Late packets by cause.
    pub by_cause: ByCause,
    /// How often the machine stalled.
    pub stalls: Stalls,
    /// Its noise without the run, as it was calibrated, where the run had stalls to compare; `null`
    /// otherwise.
    pub alone: Option<Alone>,
    /// Seconds judged.
    pub seconds: u64,
    /// Those of them in which packets were late in two episodes or more, and more than 1 %.
    pub late_seconds: u64,
    /// How much later than due the kernel put packets on their hosts' cables.
    pub lateness_ns: Option<Quantiles>,
    /// How much later than due the send calls that carried them ended, receiving stacks included.
    pub after_call_ns: Option<Quantiles>,
    /// How old arrivals were when they were read.
    pub staleness_ns: Option<Quantiles>,
    /// All packets lost by the machine.
    pub physical_drops: u64,
    /// The same by place.
    pub physical_drops_by_place: PhysicalDrops,
    /// How often the clock was stepped.
    pub clock_steps: u64,
    /// Hosts whose programs were starved of CPU time while they had traffic.
    pub starved_hosts: Vec<String>,
    /// CPU time that the hypervisor took from all CPUs of this machine.
    pub stolen_ns: Option<u64>,
    /// What hosts' kernels say of their own retransmissions.
    pub tcp: Option<Spurious>,
}

impl Verdict {
    /// Whether the same run may come out better at another time: stalls of the machine spoke
    /// against it, not an overload.
    pub fn blames_noise(&self) -> bool {
        self.state_without_noise < self.state
    }
}
