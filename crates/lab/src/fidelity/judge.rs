//! Collects the seconds of a run, and judges them.

#[cfg(test)]
mod tests;
mod words;

use std::time::Duration;

use longhaul_core::{NodeId, Span};

use super::causes::{ByCause, Stalls};
use super::delays::Delays;
use super::drops::PhysicalDrops;
use super::meter::{Measured, Second};
use super::rule::{self, Evidence, State};
use super::shares::{Shares, share};
use super::verdict::{Spurious, Verdict, WorstPair};
use crate::noise::{Alone, Noise};

/// A group of packets that is judged by itself.
struct Part {
    shares: Shares,
    /// The share of them that the machine lost, at most.
    lost_share: f64,
    /// Their allowance.
    t: Span,
    from: Option<String>,
    to: String,
}

impl Part {
    /// By how much percentiles of their delays may be off.
    fn shift(&self) -> f64 {
        self.shares.late_share() + self.lost_share
    }

    fn named(&self) -> String {
        match &self.from {
            Some(from) => format!("{from} > {}", self.to),
            None => self.to.clone(),
        }
    }

    fn worst_pair(&self) -> WorstPair {
        WorstPair {
            from: self.from.clone(),
            to: self.to.clone(),
            packets: self.shares.packets,
            late: self.shares.late,
            late_share: self.shares.late_share(),
            lost_share: self.lost_share,
            episodes: self.shares.episodes,
            allowance_ns: self.t.as_ns(),
        }
    }
}

/// Collects seconds and judges them.
#[derive(Debug)]
pub struct Judge {
    tolerance: Span,
    /// The hosts' nodes, by number, and every node's name.
    hosts: Vec<NodeId>,
    names: Vec<String>,
    run: Shares,
    by_cause: ByCause,
    /// How long they took on the machine.
    took: Duration,
    seconds: u64,
    late_seconds: u64,
    drops: PhysicalDrops,
    /// Those of them that would not have been lost without stalls.
    lost_in_stalls: u64,
    /// Packets of each host that cables lost: on the way to the core, and from it.
    cables: Vec<[u64; 2]>,
    clock_steps: u64,
    /// The longest wait for a CPU within a second, of each host that was starved.
    starved: Vec<Option<Duration>>,
    /// What hosts were given beyond what the machine has, in words.
    excess: Vec<String>,
    /// Sum and number of what the machine left of links' rates in each second.
    rate_left: (f64, u64),
    stalls: Stalls,
    /// The machine without the run, where it is known.
    noise: Option<Noise>,
    stolen: Duration,
    core_wait: Duration,
    core_load: f64,
}

impl Judge {
    /// A judge of a run with these hosts, by number, among nodes with these names.
    pub fn new(tolerance: Span, hosts: Vec<NodeId>, names: Vec<String>) -> Self {
        Self {
            tolerance,
            cables: vec![[0; 2]; hosts.len()],
            starved: vec![None; hosts.len()],
            excess: Vec::new(),
            hosts,
            names,
            run: Shares::default(),
            by_cause: ByCause::default(),
            seconds: 0,
            late_seconds: 0,
            drops: PhysicalDrops::default(),
            lost_in_stalls: 0,
            clock_steps: 0,
            rate_left: (0.0, 0),
            took: Duration::ZERO,
            stalls: Stalls::default(),
            noise: None,
            stolen: Duration::ZERO,
            core_wait: Duration::ZERO,
            core_load: 0.0,
        }
    }

    /// Counts packets that the cable of `host` lost: on the way to the core, and from it.
    pub fn cables_lost(&mut self, host: usize, to_core: u64, from_core: u64) {
        if let Some([to, from]) = self.cables.get_mut(host) {
            *to += to_core;
            *from += from_core;
        }
    }

    /// Notes that hosts have been given more than this machine has, a line each.
    pub fn oversubscribed(&mut self, excess: &[String]) {
        self.excess.extend_from_slice(excess);
    }

    /// Notes the noise of the idle machine, which the run's stalls are compared with.
    pub fn alone(&mut self, noise: Option<Noise>) {
        self.noise = noise;
    }

    /// The run's stalls compared with those of the idle machine.
    fn compared(&self) -> Option<Alone> {
        self.noise.as_ref()?.compare(&self.stalls, self.took)
    }

    /// Takes one second into account, with all drops in it.
    pub fn second(&mut self, second: &Second) {
        self.seconds = second.number + 1;
        self.took += second.took;
        self.late_seconds += u64::from(rule::is_late(&second.shares));
        self.run = second.run;
        self.by_cause.absorb(&second.by_cause);
        self.drops.add(&second.drops);
        self.lost_in_stalls += second.shed_in_stalls;
        if second.stalls.count > 0 && second.by_cause.overload == 0 {
            // In a stall the receive ring fills up, and then the cables' queues.
            self.lost_in_stalls += second.drops.ring + second.drops.to_core;
        }
        self.clock_steps += second.clock_steps;
        for &(host, waited) in &second.starved {
            if let Some(longest) = self.starved.get_mut(host) {
                *longest = (*longest).max(Some(waited));
            }
        }
        if let Some(left) = second.rate_left {
            let (sum, seconds) = self.rate_left;
            self.rate_left = (sum + left, seconds + 1);
        }
        self.stalls.absorb(&second.stalls);
        self.stolen += second.stolen;
        self.core_wait += second.core_wait;
        self.core_load = self.core_load.max(second.core_load);
    }

    /// The state if the run ended now, as far as its seconds show.
    pub fn state(&self) -> State {
        self.grade(&[])
    }

    /// What speaks against the run so far.
    pub fn reasons_so_far(&self) -> Vec<String> {
        self.reasons(self.state(), None)
    }

    fn grade(&self, parts: &[Shares]) -> State {
        rule::grade(&self.evidence(parts))
    }

    fn evidence<'a>(&'a self, parts: &'a [Shares]) -> Evidence<'a> {
        Evidence {
            run: &self.run,
            parts,
            lost: self.drops.total(),
            seconds: self.seconds,
            late_seconds: self.late_seconds,
            clock_steps: self.clock_steps,
            is_starved: self.starved.iter().any(Option::is_some),
            is_oversubscribed: !self.excess.is_empty(),
            rates: self.rate_share(),
        }
    }

    /// The grade of the same run without the machine's noise (stalls and slow moments), as far as
    /// causes are known: they are counted for the run, not for single pairs.
    fn grade_without_noise(&self) -> State {
        let mut run = self.run;
        run.late = self.by_cause.overload;
        if run.late < self.run.late {
            // The largest error is most likely a stall's.
            run.worst = Span::ZERO;
        }
        rule::grade(&Evidence {
            run: &run,
            parts: &[],
            lost: self.drops.total() - self.lost_in_stalls,
            late_seconds: 0,
            rates: self.rate_left(),
            ..self.evidence(&[])
        })
    }

    /// The part of their links' rates that the machine left to hosts that wanted all of it: the
    /// mean of the seconds with such hosts, 1 without.
    fn rate_left(&self) -> f64 {
        match self.rate_left {
            (_, 0) => 1.0,
            (sum, seconds) => sum / seconds as f64,
        }
    }

    /// The share of the run for which the machine stalled.
    fn stalled_share(&self) -> f64 {
        share(self.stalls.total_ns, self.took.as_nanos() as u64).min(1.0)
    }

    /// The least part of their true values that mean rates have kept.
    fn rate_share(&self) -> f64 {
        self.rate_left() * (1.0 - self.stalled_share())
    }

    /// The verdict.
    pub fn verdict(&self, measured: &Measured, tcp: Spurious) -> Verdict {
        let parts = self.parts(measured);
        let shares: Vec<Shares> = parts.iter().map(|part| part.shares).collect();
        let state = self.grade(&shares);
        let order = |a: &&Part, b: &&Part| a.shift().total_cmp(&b.shift()).then(a.t.cmp(&b.t));
        let worst = parts.iter().max_by(order);
        let [lateness, after_call, staleness] = [
            &measured.lateness,
            &measured.after_call,
            &measured.staleness,
        ]
        .map(Delays::quantiles);
        let late_pairs = parts.iter().filter(|part| rule::is_late(&part.shares));
        let mut reasons = self.reasons(state, late_pairs.max_by(order));
        self.add_slow_stacks(&lateness, &after_call, &mut reasons);
        let starved = self.starved_hosts().map(|(name, _)| name.to_owned());
        Verdict {
            state,
            state_without_noise: self.grade_without_noise().min(state),
            holds: worst.map(|worst| self.holds(worst)),
            reasons,
            tolerance_ns: self.tolerance.as_ns(),
            late_share: self.run.late_share(),
            lost_share: rule::lost_share(self.drops.total(), self.run.packets),
            percentile_shift: worst.map_or(0.0, Part::shift).min(1.0),
            rate_share: self.rate_share(),
            worst_pair: worst
                .filter(|worst| worst.shift() > 0.0)
                .map(Part::worst_pair),
            episodes: self.run.episodes,
            by_cause: self.by_cause,
            stalls: self.stalls,
            alone: self.compared(),
            seconds: self.seconds,
            late_seconds: self.late_seconds,
            lateness_ns: Some(lateness),
            after_call_ns: Some(after_call),
            staleness_ns: Some(staleness),
            physical_drops: self.drops.total(),
            physical_drops_by_place: self.drops,
            clock_steps: self.clock_steps,
            starved_hosts: starved.collect(),
            stolen_ns: Some(self.stolen.as_nanos() as u64),
            tcp: Some(tcp),
        }
    }

    /// The verdict on a virtual run, in which nothing can be late.
    pub fn virtual_verdict(&self) -> Verdict {
        Verdict {
            holds: None,
            lateness_ns: None,
            after_call_ns: None,
            staleness_ns: None,
            stolen_ns: None,
            tcp: None,
            ..self.verdict(&Measured::new(0, 0), Spurious::default())
        }
    }

    /// The groups that are judged by themselves: each pair of hosts with enough packets, the other
    /// pairs together, and each receiving host where there were too many pairs to count. A run with
    /// too few packets for any of these is one group.
    fn parts(&self, measured: &Measured) -> Vec<Part> {
        // Whose packets these were is unknown, so they count against every group: a bound from
        // above.
        let unattributed = self.drops.ring + self.drops.pool;
        let sent: Vec<u64> = measured
            .shed
            .iter()
            .zip(&self.cables)
            .map(|(shed, [to_core, _])| shed + to_core)
            .collect();
        let sent_by_all: u64 = sent.iter().sum();
        let number = |node: NodeId| self.hosts.iter().position(|&host| host == node);
        let mut others = (Shares::default(), 0);
        let mut parts = Vec::new();
        for pair in measured.pairs.iter() {
            let sent = match pair.from() {
                // A router's packets are made inside the emulation: no ring or cable can lose them.
                Some(node) => number(node).map_or(0, |host| sent[host]),
                None => sent_by_all,
            };
            let received = number(pair.to()).map_or(0, |host| self.cables[host][1]);
            let lost = unattributed + sent + received + pair.shares.lost;
            if pair.shares.packets + pair.shares.lost < rule::JUDGED_FROM {
                others.0.absorb(&pair.shares);
                others.1 += lost;
                continue;
            }
            let from = pair
                .from()
                .map_or("unknown senders", |node| self.name(node));
            let to = self.name(pair.to()).to_owned();
            parts.push(self.part(pair.shares, Some(from.to_owned()), to, lost));
        }
        let (others, lost) = others;
        if others.packets + others.lost >= rule::JUDGED_FROM {
            parts.push(self.part(others, None, "all other pairs".to_owned(), lost));
        }
        if measured.pairs.beyond > 0 {
            for (shares, host) in measured.hosts.iter().zip(0..) {
                let lost = unattributed + sent_by_all + self.cables[host][1] + self.drops.send;
                let to = format!("{}, from all", self.name(self.hosts[host]));
                parts.push(self.part(*shares, None, to, lost));
            }
        }
        let lost = self.drops.total();
        if parts.is_empty() && self.run.packets + lost > 0 {
            parts.push(self.part(self.run, None, "all hosts".to_owned(), lost));
        }
        parts
    }

    fn name(&self, node: NodeId) -> &str {
        self.names.get(node.index()).map_or("?", String::as_str)
    }

    fn part(&self, shares: Shares, from: Option<String>, to: String, lost: u64) -> Part {
        Part {
            lost_share: rule::lost_share(lost, shares.packets),
            t: rule::allowance(self.tolerance, shares.path_delay),
            shares,
            from,
            to,
        }
    }
}
