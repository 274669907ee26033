//! Collects the seconds of a run and puts the verdict into words.

use longhaul_core::{NodeId, Span};
use serde::Serialize;

use super::causes::{ByCause, Stalls};
use super::delays::Quantiles;
use super::drops::PhysicalDrops;
use super::meter::{Measured, Second};
use super::readable;
use super::rule::{self, Evidence, State};
use super::shares::{Shares, share};

/// The most hosts that a reason names.
const NAMES_MAX: usize = 5;

/// The pair of hosts that suffered most; the claim is for it, and so for all others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorstPair {
    /// Where its packets came from; `null` for all hosts.
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
    /// Those of them that a receiver reported to have had already (DSACK).
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
    pub fn blames_stalls(&self) -> bool {
        let ByCause {
            stall,
            overload,
            other,
        } = self.by_cause;
        let drops = &self.physical_drops_by_place;
        self.state != State::Faithful
            && self.stalls.count > 0
            && overload <= stall + other
            && 2 * drops.by_overload() <= drops.total()
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
    seconds: u64,
    late_seconds: u64,
    drops: PhysicalDrops,
    /// Packets of each host that cables lost: on the way to the core, and from it.
    cables: Vec<[u64; 2]>,
    clock_steps: u64,
    /// The longest wait for a CPU within a second, of each host that was starved.
    starved: Vec<Option<Span>>,
    /// Sum and number of what the machine left of links' rates in each second.
    left: (f64, u64),
    stalls: Stalls,
    stolen: Span,
    core_wait: Span,
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
            clock_steps: 0,
            left: (0.0, 0),
            stalls: Stalls::default(),
            stolen: Span::ZERO,
            core_wait: Span::ZERO,
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
        self.seconds = second.number + 1;
        self.late_seconds += u64::from(rule::is_late(&second.shares));
        self.run = second.run;
        self.by_cause.absorb(&second.by_cause);
        self.drops.add(&second.drops);
        self.clock_steps += second.clock_steps;
        for &(host, waited) in &second.starved {
            if let Some(longest) = self.starved.get_mut(host) {
                *longest = (*longest).max(Some(waited));
            }
        }
        if let Some(left) = second.left {
            self.left = (self.left.0 + left, self.left.1 + 1);
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
        let unknown = Quantiles::default();
        self.reasons(self.state(), &unknown, &unknown)
    }

    fn grade(&self, parts: &[Shares]) -> State {
        rule::grade(&Evidence {
            run: &self.run,
            parts,
            lost: self.drops.total(),
            seconds: self.seconds,
            late_seconds: self.late_seconds,
            clock_steps: self.clock_steps,
            is_starved: self.starved.iter().any(Option::is_some),
            rates: self.rate_share(),
        })
    }

    /// What hosts that wanted all had of their links' rates, on average.
    fn left(&self) -> f64 {
        match self.left {
            (_, 0) => 1.0,
            (sum, seconds) => sum / seconds as f64,
        }
    }

    /// The part of what they should be that rates have kept at least.
    fn rate_share(&self) -> f64 {
        let stood_still = share(self.stalls.total_ns, self.seconds * 1_000_000_000);
        self.left() * (1.0 - stood_still.min(1.0))
    }

    /// The final word.
    pub fn verdict(&self, measured: &Measured, tcp: Spurious) -> Verdict {
        let mut parts: Vec<_> = self.parts(measured).collect();
        let of_parts: Vec<Shares> = parts.iter().map(|(shares, _)| *shares).collect();
        let state = self.grade(&of_parts);
        if parts.is_empty() {
            let lost_share = rule::lost_share(self.drops.total(), self.run.packets);
            let all = self.name_part(&self.run, None, None, lost_share);
            parts.push((self.run, all));
        }
        let shift = |pair: &WorstPair| pair.late_share + pair.lost_share;
        let worst = parts
            .into_iter()
            .map(|(_, pair)| pair)
            .max_by(|a, b| shift(a).total_cmp(&shift(b)))
            .filter(|_| self.run.packets > 0);
        let (lateness, after_call) = (
            measured.lateness.quantiles(),
            measured.after_call.quantiles(),
        );
        let holds = worst.as_ref().map(|worst| self.holds(worst));
        Verdict {
            state,
            holds,
            reasons: self.reasons(state, &lateness, &after_call),
            tolerance_ns: self.tolerance.as_ns(),
            late_share: self.run.late_share(),
            lost_share: rule::lost_share(self.drops.total(), self.run.packets),
            percentile_shift: worst.as_ref().map_or(0.0, shift).min(1.0),
            rate_share: self.rate_share(),
            worst_pair: worst.filter(|worst| shift(worst) > 0.0),
            episodes: self.run.episodes,
            by_cause: self.by_cause,
            stalls: self.stalls,
            seconds: self.seconds,
            late_seconds: self.late_seconds,
            lateness_ns: Some(lateness),
            after_call_ns: Some(after_call),
            staleness_ns: Some(measured.staleness.quantiles()),
            physical_drops: self.drops.total(),
            physical_drops_by_place: self.drops,
            clock_steps: self.clock_steps,
            starved_hosts: self
                .starved_hosts()
                .map(|(name, _)| name.to_owned())
                .collect(),
            stolen_ns: Some(self.stolen.as_ns()),
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

    /// The pairs of hosts that are judged by themselves; where there were too many pairs to
    /// count, the receiving hosts too.
    fn parts<'a>(
        &'a self,
        measured: &'a Measured,
    ) -> impl Iterator<Item = (Shares, WorstPair)> + 'a {
        // Those that may have been anybody's.
        let anybodys = self.drops.ring + self.drops.pool;
        let lost = move |host: Option<usize>, way: usize| match host {
            Some(host) => {
                let core = measured.lost.get(host).map_or(0, |lost| lost[way]);
                core + self.cables.get(host).map_or(0, |lost| lost[way])
            }
            // A router's packets are made inside; an unknown sender's may be any host's.
            None => 0,
        };
        let number = |node: NodeId| self.hosts.iter().position(|&host| host == node);
        let all_sent: u64 = (0..self.hosts.len()).map(|host| lost(Some(host), 0)).sum();
        let pairs = measured.pairs.iter().map(move |pair| {
            let sent = match pair.from() {
                Some(node) => lost(number(node), 0),
                None => all_sent,
            };
            let most = anybodys + sent + lost(number(pair.to()), 1);
            (pair.shares, pair.from(), pair.to(), most)
        });
        let hosts = measured.hosts.iter().zip(0..).map(move |(shares, host)| {
            let most = anybodys + all_sent + lost(Some(host), 1);
            (*shares, None, self.hosts[host], most)
        });
        let hosts = hosts.filter(|_| measured.pairs.beyond > 0);
        let is_judged = |shares: &Shares| shares.packets >= rule::JUDGED_FROM;
        pairs
            .chain(hosts)
            .filter(move |(shares, ..)| is_judged(shares))
            .map(|(shares, from, to, most)| {
                let lost_share = rule::lost_share(most, shares.packets);
                (shares, self.name_part(&shares, from, Some(to), lost_share))
            })
    }

    fn name_part(
        &self,
        shares: &Shares,
        from: Option<NodeId>,
        to: Option<NodeId>,
        lost_share: f64,
    ) -> WorstPair {
        let name = |node: NodeId| self.names.get(node.index()).cloned();
        WorstPair {
            from: from.and_then(name),
            to: to.and_then(name).unwrap_or_else(|| "all hosts".to_owned()),
            packets: shares.packets,
            late: shares.late,
            late_share: shares.late_share(),
            lost_share,
            episodes: shares.episodes,
            allowance_ns: rule::allowance(self.tolerance, shares.path_delay).as_ns(),
        }
    }

    /// What of the run's figures still holds.
    fn holds(&self, worst: &WorstPair) -> String {
        let shift = worst.late_share + worst.lost_share;
        let allowance = readable(Span::from_ns(worst.allowance_ns));
        let whose = match &worst.from {
            Some(from) => format!("delay percentiles of {from} > {}", worst.to),
            None if worst.to == "all hosts" => "delay percentiles".to_owned(),
            None => format!("delay percentiles of all > {}", worst.to),
        };
        let percentiles = match shift {
            0.0 => format!("{whose} are off by at most {allowance}"),
            shift => format!(
                "{whose} are off by at most {} points and {allowance}",
                at_most(100.0 * shift)
            ),
        };
        let rates = 1.0 - self.rate_share();
        let rates = match rates {
            0.0 => String::new(),
            rates => format!(", rates by at most {} %", at_most(100.0 * rates)),
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

    fn starved_hosts(&self) -> impl Iterator<Item = (&str, Span)> {
        let hosts = self.hosts.iter().zip(&self.starved);
        hosts.filter_map(|(node, waited)| {
            let name = self.names.get(node.index()).map_or("?", String::as_str);
            Some((name, (*waited)?))
        })
    }

    /// One line each cause; of a faithful run only what is worth knowing.
    fn reasons(&self, state: State, lateness: &Quantiles, after: &Quantiles) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.run.packets + self.drops.total() == 0 {
            reasons.push("no packet was due, so there was nothing to judge".to_owned());
        }
        if state != State::Faithful {
            self.add_late_packets(&mut reasons);
            self.add_everything_else(&mut reasons);
        }
        let tolerance = self.tolerance.as_ns();
        if lateness.p99 <= tolerance && after.p99 > tolerance {
            reasons.push(format!(
                "hosts were slow to take packets: 1 in 100 was through the receiving stack {} \
                 after it was due or later, though in time on its cable",
                readable(Span::from_ns(after.p99))
            ));
        }
        reasons
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
            if self.stolen > Span::ZERO {
                let stolen = readable(self.stolen);
                why.push_str(&format!("; its hypervisor took {stolen} of CPU time"));
            }
            if self.core_wait > Span::from_ms(1) {
                let waited = readable(self.core_wait);
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

    fn add_everything_else(&self, reasons: &mut Vec<String>) {
        let drops = self.drops.total();
        if let Some(one_in) = (self.run.packets + drops).checked_div(drops) {
            let packets = if drops == 1 { "packet" } else { "packets" };
            reasons.push(format!(
                "the machine, not the network, lost {drops} {packets}, 1 in {one_in}: {}",
                self.drops.places()
            ));
        }
        match self.clock_steps {
            0 => {}
            1 => reasons.push("the machine's clock was stepped".to_owned()),
            n => reasons.push(format!("the machine's clock was stepped {n} times")),
        }
        let left = self.left();
        if left < 1.0 {
            reasons.push(format!(
                "the machine did not keep up: hosts that wanted all of their links' rates had \
                 {:.1} % of them",
                100.0 * left
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
                readable(longest)
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
