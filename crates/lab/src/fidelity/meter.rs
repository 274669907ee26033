//! What the loop measures of each packet, as it goes.

use longhaul_core::{NodeId, Span, Time};

use super::causes::{ByCause, Cause, Stalls, Watch};
use super::delays::{Delays, Quantiles};
use super::drops::PhysicalDrops;
use super::rule;
use super::shares::{Pairs, Shares};

/// A packet that has left for its host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Left {
    /// The node that it came from, as its source address says.
    pub(crate) from: Option<NodeId>,
    /// The node that it went to, and that host's number.
    pub(crate) to: NodeId,
    pub(crate) host: usize,
    /// When it should have left.
    pub(crate) due: Time,
    /// Lateness plus shift, or a bound of it.
    pub(crate) error: Span,
    /// The delays of its path.
    pub(crate) path_delay: Span,
    /// Whether it counts as late whatever its error: the kernel did not answer.
    pub(crate) is_unknown: bool,
}

/// What is known of one second of the run.
#[derive(Debug, Clone, Default)]
pub struct Second {
    /// Its number, from 0.
    pub number: u64,
    /// Packets that left in it, and late ones.
    pub shares: Shares,
    /// The same of the whole run up to its end.
    pub run: Shares,
    /// Its late packets by cause.
    pub by_cause: ByCause,
    /// How often the machine stood still.
    pub stalls: Stalls,
    /// Lateness of this second's packets.
    pub lateness: Quantiles,
    /// Lost by the machine.
    pub drops: PhysicalDrops,
    /// How often the clock was stepped.
    pub clock_steps: u64,
    /// Hosts with traffic under way that were starved, with the time that their tasks waited.
    pub starved: Vec<(usize, Span)>,
    /// The part of their links' rates that the machine left to hosts that wanted all of it, where
    /// there were any.
    pub left: Option<f64>,
    /// The share of the second that the core's thread was on its CPU.
    pub core_busy: f64,
    /// How long the core's thread waited for its CPU.
    pub core_wait: Span,
    /// CPU time that the hypervisor took from all CPUs of this machine.
    pub stolen: Span,
    /// The share of the second that the core worked; it spins and sleeps in the rest.
    pub core_load: f64,
}

impl Second {
    /// The share of the second that the core did not need, 0 to 1.
    pub fn headroom(&self) -> f64 {
        (1.0 - self.core_load).clamp(0.0, 1.0)
    }
}

/// What is measured of all packets of a run.
#[derive(Debug)]
pub struct Measured {
    /// How far from due the kernel put packets on their cables, or a bound of it.
    pub lateness: Delays,
    /// How far from due the send calls that carried them ended.
    pub after_call: Delays,
    /// Age of every arrival when it was read.
    pub staleness: Delays,
    /// Shares of each receiving host, by number.
    pub hosts: Vec<Shares>,
    /// Shares of each pair of hosts.
    pub pairs: Pairs,
    /// Packets of each host that the core lost: those that it sent, and those for it.
    pub lost: Vec<[u64; 2]>,
}

impl Measured {
    /// Of a run with so many nodes and hosts among them.
    pub fn new(nodes: usize, hosts: usize) -> Self {
        Self {
            lateness: Delays::default(),
            after_call: Delays::default(),
            staleness: Delays::default(),
            hosts: vec![Shares::default(); hosts],
            pairs: Pairs::new(nodes),
            lost: vec![[0; 2]; hosts],
        }
    }
}

/// Measures packets, second by second.
#[derive(Debug)]
pub(crate) struct Meter {
    tolerance: Span,
    pub(crate) watch: Watch,
    pub(crate) second: Second,
    pub(crate) measured: Measured,
    run: Shares,
    /// Lateness in this second.
    lateness: Delays,
}

impl Meter {
    pub(crate) fn new(tolerance: Span, measured: Measured) -> Self {
        Self {
            tolerance,
            watch: Watch::default(),
            second: Second::default(),
            measured,
            run: Shares::default(),
            lateness: Delays::default(),
        }
    }

    /// Counts a packet that left.
    #[inline]
    pub(crate) fn left(&mut self, left: &Left) {
        let allowance = rule::allowance(self.tolerance, left.path_delay);
        let pair = self.measured.pairs.find(left.from, left.to);
        let host = self.measured.hosts.get_mut(left.host);
        let all = [
            Some(&mut self.run),
            Some(&mut self.second.shares),
            host,
            pair,
        ];
        let is_late = left.is_unknown || left.error > allowance;
        for shares in all.into_iter().flatten() {
            shares.count(left.path_delay);
            if is_late {
                shares.is_late(left.due, left.error);
            }
        }
        if is_late {
            let by_cause = &mut self.second.by_cause;
            match self.watch.cause(left.due) {
                Cause::Stall => by_cause.stall += 1,
                Cause::Overload => by_cause.overload += 1,
                Cause::Other => by_cause.other += 1,
            }
        }
    }

    /// Counts how far from due a packet was put on its cable, or a bound of it.
    #[inline]
    pub(crate) fn lateness(&mut self, lateness: Span) {
        self.lateness.record(lateness);
    }

    /// Counts packets from a host that were shed.
    pub(crate) fn shed(&mut self, host: usize, packets: u64) {
        self.watch.shed();
        self.second.drops.shed += packets;
        if let Some([from, _]) = self.measured.lost.get_mut(host) {
            *from += packets;
        }
    }

    /// Counts packets for a host that the kernel refused.
    pub(crate) fn refused(&mut self, host: usize, packets: u64) {
        self.second.drops.send += packets;
        if let Some([_, to]) = self.measured.lost.get_mut(host) {
            *to += packets;
        }
    }

    /// Takes back a second that nobody has heard of: the current one counts what was in it.
    pub(crate) fn reopen(&mut self, unheard: Second) {
        let second = &mut self.second;
        let later = std::mem::replace(&mut second.shares, unheard.shares);
        second.shares.absorb(&later);
        second.by_cause.absorb(&unheard.by_cause);
        second.drops.add(&unheard.drops);
        second.clock_steps += unheard.clock_steps;
        second.core_wait += unheard.core_wait;
        self.watch.stalls.absorb(&unheard.stalls);
    }

    /// Ends the current second and begins another.
    pub(crate) fn close(&mut self, next: u64) -> Second {
        let mut second = std::mem::take(&mut self.second);
        self.second.number = next;
        second.lateness = self.lateness.quantiles();
        self.measured.lateness.absorb(&mut self.lateness);
        second.stalls = std::mem::take(&mut self.watch.stalls);
        second.run = self.run;
        second
    }
}
