//! Collects the seconds of a run and puts the verdict into words.

use std::time::Duration;

use longhaul_core::{NodeId, Span, Time};
use serde::Serialize;

use super::causes::{ByCause, Stalls};
use super::delays::{Delays, Quantiles};
use super::drops::PhysicalDrops;
use super::meter::{Measured, Second};
use super::rule::{self, Evidence, State};
use super::shares::{Shares, share};
use super::{readable, readable_duration};

/// The most hosts that a reason names.
const NAMES_MAX: usize = 5;

/// The pair of hosts that suffered most. The claim is for it, and so for all others that are judged
/// by themselves; those of fewer packets are judged together.
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

/// What hosts' kernels took for sent again, or timed out, in vain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Spurious {
    /// TCP segments sent again.
    pub retransmissions: u64,
    /// Those that a receiver reported to have had already (DSACK), as it does of tail loss probes too.
    pub spurious_retransmissions: u64,
    /// Retransmission time-outs.
    pub timeouts: u64,
    /// Those of them that turned out to be needless (F-RTO).
    pub spurious_timeouts: u64,
}

/// The verdict as `summary.json` holds it. `null` stands for what a virtual run does not have.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    /// The word.
    pub state: State,
    /// What it would be if the machine had neither stood still nor been slow now and then: with those
    /// late packets alone of which there were too many.
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
    /// The part of what they should be that rates have kept at least.
    pub rate_share: f64,
    /// The worst pair of hosts; `null` where no packet was late or lost.
    pub worst_pair: Option<WorstPair>,
    /// Episodes of late packets.
    pub episodes: u64,
    /// Late packets by cause.
    pub by_cause: ByCause,
    /// How often the machine stood still.
    pub stalls: Stalls,
    /// Seconds judged.
    pub seconds: u64,
    /// Those of them in which packets were late in two episodes or more, and more than 1 %.
    pub late_seconds: u64,
    /// How far from due the kernel put packets on their hosts' cables.
    pub lateness_ns: Option<Quantiles>,
    /// How far from due the send calls ended that carried them, receiving stacks included.
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
    /// Whether the same run may come out better at another time: what spoke against it was the
    /// machine's standing still, and not that there was more to do than it can.
    pub fn blames_noise(&self) -> bool {
        self.state_without_noise < self.state
    }
}

/// Packets that are judged by themselves.
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

    fn told(&self) -> WorstPair {
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
    until: Time,
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
    /// Sum and number of what the machine left of links' rates in each second.
    rate_left: (f64, u64),
    stalls: Stalls,
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
            until: Time::ZERO,
            stalls: Stalls::default(),
            stolen: Duration::ZERO,
            core_wait: Duration::ZERO,
            core_load: 0.0,
        }
    }

    /// Cables of `host` lost packets: on the way to the core, and from it.
    pub fn cables_lost(&mut self, host: usize, to_core: u64, from_core: u64) {
        if let Some([to, from]) = self.cables.get_mut(host) {
            *to += to_core;
            *from += from_core;
        }
    }

    /// Takes one second into account, with all drops in it.
    pub fn second(&mut self, second: &Second) {
        (self.seconds, self.until) = (second.number + 1, second.until);
        self.late_seconds += u64::from(rule::is_late(&second.shares));
        self.run = second.run;
        self.by_cause.absorb(&second.by_cause);
        self.drops.add(&second.drops);
        self.lost_in_stalls += second.shed_in_stalls;
        if second.stalls.count > 0 && second.by_cause.overload == 0 {
            // In a stall the ring fills, and then the cables.
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

    /// The state if the run ended now, as far as seconds tell.
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
            rates: self.rate_share(),
        }
    }

    /// The grade of the same run on a machine that neither stands still nor is slow now and then, as far as
    /// causes are known: those of single pairs are not.
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

    /// What hosts that wanted all had of their links' rates, in the mean of the seconds in which
    /// there were any.
    fn rate_left(&self) -> f64 {
        match self.rate_left {
            (_, 0) => 1.0,
            (sum, seconds) => sum / seconds as f64,
        }
    }

    /// The share of the run for which the machine stood still.
    fn stood_still_share(&self) -> f64 {
        share(self.stalls.total_ns, self.until.as_ns()).min(1.0)
    }

    /// The part of what they should be that mean rates have kept at least.
    fn rate_share(&self) -> f64 {
        self.rate_left() * (1.0 - self.stood_still_share())
    }

    /// The final word.
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
            worst_pair: worst.filter(|worst| worst.shift() > 0.0).map(Part::told),
            episodes: self.run.episodes,
            by_cause: self.by_cause,
            stalls: self.stalls,
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

    /// The final word on a run that no clock has driven: nothing in it could be late.
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

    /// What is judged by itself: each pair of hosts of enough packets, the others together, and the
    /// receiving hosts where there were too many pairs to count. Of a run of too few packets for
    /// that, all of them.
    fn parts(&self, measured: &Measured) -> Vec<Part> {
        // Those that may have been anybody's.
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
                // A router's packets are made inside.
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

    /// What of the run's figures still holds.
    fn holds(&self, worst: &Part) -> String {
        let allowance = readable(worst.t);
        let whose = match worst.to.as_str() {
            "all hosts" => "delay percentiles".to_owned(),
            _ => format!("delay percentiles of {}", worst.named()),
        };
        let percentiles = match worst.shift() {
            0.0 => format!("{whose} are off by at most {allowance}"),
            shift => format!(
                "{whose} are off by at most {} points and {allowance}",
                at_most(100.0 * shift.min(1.0))
            ),
        };
        let rates = match 1.0 - self.rate_share() {
            0.0 => String::new(),
            rates => format!(", mean rates by at most {} %", at_most(100.0 * rates)),
        };
        let stalls = match self.stalls.count {
            0 => String::new(),
            _ => format!(" (this {})", self.stood_still()),
        };
        format!("{percentiles}{rates}{stalls}")
    }

    fn stood_still(&self) -> String {
        let longest = readable(Span::from_ns(self.stalls.longest_ns));
        match self.stalls.count {
            1 => format!("machine stood still once, for {longest}"),
            n => format!("machine stood still {n} times, {longest} at most"),
        }
    }

    fn starved_hosts(&self) -> impl Iterator<Item = (&str, Duration)> {
        let hosts = self.hosts.iter().zip(&self.starved);
        hosts.filter_map(|(node, waited)| {
            let name = self.names.get(node.index()).map_or("?", String::as_str);
            Some((name, (*waited)?))
        })
    }

    /// One line each cause, of a run that is not faithful.
    fn reasons(&self, state: State, late: Option<&Part>) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.run.packets + self.drops.total() == 0 {
            reasons.push("no packet was due, so there was nothing to judge".to_owned());
        }
        if state != State::Faithful {
            self.add_late_packets(&mut reasons);
            self.add_where_late(late, &mut reasons);
            self.add_losses(&mut reasons);
            self.add_everything_else(&mut reasons);
        }
        reasons
    }

    /// What is worth knowing of a run whose packets were in time, and its hosts were not.
    fn add_slow_stacks(&self, lateness: &Quantiles, after: &Quantiles, reasons: &mut Vec<String>) {
        let tolerance = self.tolerance.as_ns();
        if lateness.p99 <= tolerance && after.p99 > tolerance {
            reasons.push(format!(
                "hosts were slow to take packets: 1 in 100 was through the receiving stack {} \
                 after it was due or later, though in time on its cable",
                readable(Span::from_ns(after.p99))
            ));
        }
    }

    /// Where, and when, more packets were late than in the run as a whole.
    fn add_where_late(&self, late: Option<&Part>, reasons: &mut Vec<String>) {
        let is_worse = |part: &&Part| part.shares.late_share() > self.run.late_share();
        if let Some(part) = late.filter(is_worse) {
            reasons.push(format!(
                "{} % of packets late of {}, the worst pair",
                at_most(100.0 * part.shares.late_share()),
                part.named(),
            ));
        }
        if self.late_seconds > 0 {
            reasons.push(format!(
                "more than 1 % of packets late in {} of {} seconds",
                self.late_seconds, self.seconds
            ));
        }
        if rule::is_too_large(self.run.worst) {
            reasons.push(format!(
                "a packet was late by {}: no figure bears that",
                readable(self.run.worst)
            ));
        }
    }

    fn add_late_packets(&self, reasons: &mut Vec<String>) {
        let late = |packets: u64| {
            let share = 100.0 * share(packets, self.run.packets);
            format!("{} % of packets late", at_most(share))
        };
        let ByCause {
            stall,
            overload,
            other,
        } = self.by_cause;
        if stall > 0 {
            let mut why = format!("the {}", self.stood_still());
            if self.stolen > Duration::ZERO {
                let stolen = readable_duration(self.stolen);
                why.push_str(&format!("; its hypervisor took {stolen} of CPU time"));
            }
            if self.core_wait > Duration::from_millis(1) {
                let waited = readable_duration(self.core_wait);
                why.push_str(&format!("; the core waited {waited} for its CPU"));
            }
            reasons.push(format!("{}: {why}", late(stall)));
        }
        if overload > 0 {
            reasons.push(format!(
                "{}: there was more to do than this machine can (the core was busy for up to \
                 {:.0} % of a second)",
                late(overload),
                100.0 * self.core_load
            ));
        }
        if other > 0 {
            reasons.push(format!(
                "{}: wake-ups or send calls took longer than the tolerance, {} late at most",
                late(other),
                readable(self.run.worst)
            ));
        }
    }

    fn add_losses(&self, reasons: &mut Vec<String>) {
        let drops = self.drops.total();
        if let Some(one_in) = (self.run.packets + drops).checked_div(drops) {
            let packets = if drops == 1 { "packet" } else { "packets" };
            reasons.push(format!(
                "the machine, not the network, lost {drops} {packets}, 1 in {one_in}: {}",
                self.drops.places()
            ));
        }
    }

    fn add_everything_else(&self, reasons: &mut Vec<String>) {
        match self.clock_steps {
            0 => {}
            1 => reasons.push("the machine's clock was stepped".to_owned()),
            n => reasons.push(format!("the machine's clock was stepped {n} times")),
        }
        let left = self.rate_left();
        if left < 1.0 {
            reasons.push(format!(
                "the machine did not keep up: hosts that wanted all of their links' rates had \
                 {:.1} % of them",
                100.0 * left
            ));
        }
        if self.by_cause.stall == 0 && rule::are_slow(1.0 - self.stood_still_share()) {
            reasons.push(format!(
                "the {}, for {} % of the run",
                self.stood_still(),
                at_most(100.0 * self.stood_still_share())
            ));
        }
        let starved: Vec<_> = self.starved_hosts().collect();
        if let Some(longest) = starved.iter().map(|(_, waited)| *waited).max() {
            let mut names: Vec<_> = starved.iter().map(|(name, _)| *name).collect();
            let more = names.len().saturating_sub(NAMES_MAX);
            names.truncate(NAMES_MAX);
            let more = match more {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            reasons.push(format!(
                "programs on {}{more} waited for a CPU, up to {} within a second",
                names.join(", "),
                readable_duration(longest)
            ));
        }
    }
}

/// A positive number with two significant digits, but no more than two decimals, rounded up.
fn at_most(number: f64) -> String {
    if number <= 0.0 {
        return "0".to_owned();
    }
    let digits = (1 - number.log10().floor() as i32).clamp(0, 2);
    let scale = 10f64.powi(digits);
    // What was rounded up already stays.
    let rounded = (number * scale - 1e-9).ceil() / scale;
    format!("{rounded:.*}", digits as usize)
}

#[cfg(test)]
mod tests;
