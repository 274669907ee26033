//! Measures each packet as the loop sends it, and closes a second's figures once a second.

use std::time::Duration;

use longhaul_core::{NodeId, Span, Time};
use longhaul_linux::clock::MachineTime;

use super::causes::{ByCause, Cause, StallDetector, Stalls};
use super::delays::{Delays, Quantiles};
use super::drops::PhysicalDrops;
use super::shares::{Pairs, Shares};
use super::{rule, second_of};
use crate::measure::CoreBin;
use crate::pace::{Now, Pace};

/// A packet that has left for its host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet {
    /// The node that it came from, as its source address says.
    pub(crate) from: Option<NodeId>,
    /// The node that it went to, and that host's number.
    pub(crate) to: NodeId,
    pub(crate) host: usize,
    /// When it should have left.
    pub(crate) due: Time,
    /// Lateness plus shift, or a bound on it.
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
    /// How long it took on the machine; the last one ends with the run.
    pub took: Duration,
    /// Packets that left in it, and late ones.
    pub shares: Shares,
    /// The same of the whole run up to its end.
    pub run: Shares,
    /// Its late packets by cause.
    pub by_cause: ByCause,
    /// How often the machine stalled.
    pub stalls: Stalls,
    /// Lateness of this second's packets.
    pub lateness: Quantiles,
    /// Lost by the machine.
    pub drops: PhysicalDrops,
    /// Those of them that were shed because of a stall.
    pub shed_in_stalls: u64,
    /// How often the clock was stepped.
    pub clock_steps: u64,
    /// Hosts with traffic under way that were starved, with the time that their tasks waited.
    pub starved: Vec<(usize, Duration)>,
    /// The part of their links' rates that the machine left to hosts that wanted all of it, where
    /// there were any.
    pub rate_left: Option<f64>,
    /// The share of the second that the core's thread was on its CPU.
    pub core_busy: f64,
    /// How long the core's thread waited for its CPU.
    pub core_wait: Duration,
    /// CPU time that the hypervisor took from all CPUs of this machine.
    pub stolen: Duration,
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
    /// How much later than due the kernel put packets on their cables, or a bound on it.
    pub lateness: Delays,
    /// How much later than due the send calls that carried them ended.
    pub after_call: Delays,
    /// Age of every arrival when it was read.
    pub staleness: Delays,
    /// Shares of each receiving host, by number.
    pub hosts: Vec<Shares>,
    /// Shares of each pair of hosts.
    pub pairs: Pairs,
    /// Packets that each host sent and the core shed.
    pub shed: Vec<u64>,
}

impl Measured {
    /// For a run with this many nodes, and hosts among them.
    pub fn new(nodes: usize, hosts: usize) -> Self {
        Self {
            lateness: Delays::default(),
            after_call: Delays::default(),
            staleness: Delays::default(),
            hosts: vec![Shares::default(); hosts],
            pairs: Pairs::new(nodes),
            shed: vec![0; hosts],
        }
    }
}

/// Measures packets, second by second.
#[derive(Debug)]
pub(crate) struct Meter {
    tolerance: Span,
    pace: Pace,
    /// When the second began.
    began: MachineTime,
    pub(crate) detector: StallDetector,
    pub(crate) second: Second,
    pub(crate) measured: Measured,
    run: Shares,
    /// Lateness in this second.
    lateness: Delays,
    /// The figures since [`take_bin`](Self::take_bin) was called last, for series.
    bin: CoreBin,
}

impl Meter {
    pub(crate) fn new(tolerance: Span, pace: Pace, measured: Measured) -> Self {
        let begin = pace.begin();
        Self {
            tolerance,
            pace,
            began: begin.at,
            detector: StallDetector::new(begin),
            second: Second::default(),
            measured,
            run: Shares::default(),
            lateness: Delays::default(),
            bin: CoreBin::default(),
        }
    }

    /// What has been counted since this was called last.
    pub(crate) fn take_bin(&mut self) -> CoreBin {
        std::mem::take(&mut self.bin)
    }

    /// Counts a packet that left.
    #[inline]
    pub(crate) fn count(&mut self, packet: &Packet) {
        let allowance = rule::allowance(self.tolerance, packet.path_delay);
        let pair = self.measured.pairs.find(packet.from, packet.to);
        let host = self.measured.hosts.get_mut(packet.host);
        let run = Some(&mut self.run);
        let all = [run, Some(&mut self.second.shares), host, pair];
        let is_late = packet.is_unknown || packet.error > allowance;
        self.bin.left += 1;
        self.bin.late += u64::from(is_late);
        for shares in all.into_iter().flatten() {
            shares.count(packet.path_delay);
            if is_late {
                shares.count_late(packet.due, packet.error);
            }
        }
        if is_late {
            let by_cause = &mut self.second.by_cause;
            match self.detector.cause(self.pace.moment_of(packet.due)) {
                Cause::Stall => by_cause.stall += 1,
                Cause::Overload => by_cause.overload += 1,
                Cause::Other => by_cause.other += 1,
            }
        }
    }

    /// Counts how much later than due a packet was put on its cable, or a bound on it.
    #[inline]
    pub(crate) fn lateness(&mut self, lateness: Span) {
        self.lateness.record(lateness);
        self.bin.lateness(lateness);
    }

    /// Counts packets from a host that were shed.
    pub(crate) fn shed(&mut self, host: usize, packets: u64) {
        if self.detector.is_excused() {
            self.second.shed_in_stalls += packets;
        } else {
            self.detector.shed();
        }
        self.second.drops.shed += packets;
        self.bin.shed += packets;
        if let Some(shed) = self.measured.shed.get_mut(host) {
            *shed += packets;
        }
    }

    /// Counts packets that the kernel refused.
    pub(crate) fn refused(&mut self, from: Option<NodeId>, to: NodeId, packets: u64) {
        self.second.drops.send += packets;
        self.bin.send += packets;
        if let Some(shares) = self.measured.pairs.find(from, to) {
            shares.lost += packets;
        }
    }

    /// Takes back a second whose report could not be delivered: the current one then includes it.
    pub(crate) fn reopen(&mut self, unheard: Second) {
        let second = &mut self.second;
        let later = std::mem::replace(&mut second.shares, unheard.shares);
        second.shares.absorb(&later);
        second.by_cause.absorb(&unheard.by_cause);
        second.drops.add(&unheard.drops);
        second.shed_in_stalls += unheard.shed_in_stalls;
        second.clock_steps += unheard.clock_steps;
        second.took += unheard.took;
        second.core_wait += unheard.core_wait;
        self.detector.stalls.absorb(&unheard.stalls);
    }

    /// Ends the current second and begins the one of `now`.
    pub(crate) fn close(&mut self, now: Now) -> Second {
        let mut second = std::mem::take(&mut self.second);
        self.second.number = second_of(now.time);
        second.took += now.at.since(std::mem::replace(&mut self.began, now.at));
        second.lateness = self.lateness.quantiles();
        self.measured.lateness.absorb(&mut self.lateness);
        second.stalls = std::mem::take(&mut self.detector.stalls);
        second.run = self.run;
        second
    }
}
