//! Two runs side by side: what their summaries say of flows, pipes and packets, and by how much
//! it differs.
//!
//! Runs **agree** where the same flows have carried the same and took as long, within a tolerance,
//! and where flows have sent again and pipes have dropped as many packets, within what chance makes
//! of counts. On the real clock every packet may be late by a little, and a flow waits for a packet
//! once in each of its round trips: a difference of no more than the median lateness times its
//! round trips, and of no more than 5 %, is **explained** by that. The median, because a single
//! stall makes the largest lateness as large as one likes, and one stall is not in every round
//! trip. Flows that have not finished are held to their goodput, and differ where the runs did not
//! take as long: there is nothing to hold them to.
//!
//! Left out: flows beyond those of `summary.json` (the figures of whole entries are compared), and
//! time series.

pub mod several;

use std::collections::HashMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::fidelity::{Quantiles, State};
use crate::flows::{FlowSummary, GroupSummary};
use crate::saved::{self, SavedError, SummaryFile};

/// Lateness explains no larger share of a completion time than this.
const EXPLAINED_MAX: f64 = 0.05;
/// Counts may differ by this many standard deviations of the difference of two Poisson counts: 0.3 %
/// of links that are equal differ by more.
const DEVIATIONS: f64 = 3.0;

/// What of a summary is compared. Fields that later or earlier versions lack have defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The experiment's name.
    pub experiment: String,
    /// The clock.
    pub clock: String,
    /// The seed.
    pub seed: u64,
    /// The run folder.
    pub run: String,
    /// The verdict.
    pub verdict: VerdictFigures,
    /// The hash over all events.
    #[serde(default)]
    pub trace_hash: Option<String>,
    /// Experiment time.
    pub simulated_s: f64,
    /// Packets.
    pub packets: PacketFigures,
    /// Flows.
    #[serde(default, skip_serializing)]
    flows: Vec<FlowSummary>,
    /// Flows in all.
    #[serde(default)]
    pub flows_seen: u64,
    #[serde(default, skip_serializing)]
    flow_groups: Vec<GroupSummary>,
    #[serde(default, skip_serializing)]
    pipes: Vec<PipeFigures>,
    #[serde(default, skip_serializing)]
    programs: Vec<ProgramFigures>,
}

/// What of a program is compared between several runs.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct ProgramFigures {
    name: String,
    start_s: Option<f64>,
    finish_s: Option<f64>,
    #[serde(default)]
    service: bool,
    #[serde(default)]
    cpu_s: Option<f64>,
}

/// What of a verdict is compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerdictFigures {
    /// The word.
    pub state: State,
    /// Lateness; `null` in a virtual run.
    pub lateness_ns: Option<Quantiles>,
}

/// What of the packets is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PacketFigures {
    pub entered: u64,
    pub delivered: u64,
    pub hops: u64,
}

/// What of a pipe is compared.
#[derive(Debug, Clone, PartialEq, Deserialize)]
struct PipeFigures {
    name: String,
    packets: u64,
    bytes: u64,
    drops: u64,
    utilisation: Option<f64>,
}

/// A figure of both runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Pair {
    /// Of the first run.
    pub first: f64,
    /// Of the second run.
    pub second: f64,
    /// (second − first) / first; `null` where the first is zero and the second is not.
    pub difference: Option<f64>,
}

impl Pair {
    fn new(first: f64, second: f64) -> Self {
        let difference = if first == second {
            Some(0.0)
        } else {
            Some((second - first) / first).filter(|d| d.is_finite())
        };
        Self {
            first,
            second,
            difference,
        }
    }

    /// The difference as a share of the first, infinite where that is zero.
    fn share(&self) -> f64 {
        self.difference.map_or(f64::INFINITY, f64::abs)
    }

    /// Whether counts of packets differ by no more than the share `tolerance` of the larger one, or
    /// by chance.
    fn counts_agree(&self, tolerance: f64) -> bool {
        let chance = DEVIATIONS * (self.first + self.second).sqrt();
        let bound = chance.max(tolerance * self.first.max(self.second));
        (self.first - self.second).abs() <= bound
    }
}

/// A flow of both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowPair {
    /// Its name.
    pub name: String,
    /// Payload that arrived.
    pub bytes: Pair,
    /// Completion times, where it finished in both.
    pub completion_s: Option<Pair>,
    /// Goodputs.
    pub goodput_bps: Pair,
    /// Data segments sent again.
    pub retransmissions: Pair,
    /// Whether it agrees.
    pub agrees: bool,
    /// Whether that is so because lateness explains the difference.
    pub explained: bool,
}

/// An entry of the file in both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupPair {
    /// Its name.
    pub name: String,
    /// Flows that finished.
    pub finished: Pair,
    /// Payload of all.
    pub bytes: Pair,
    /// Means of the completion times.
    pub completion_mean_s: Option<Pair>,
    /// Medians of the completion times.
    pub completion_p50_s: Option<Pair>,
    /// 99 % of the completion times are below.
    pub completion_p99_s: Option<Pair>,
    /// Means of the goodputs.
    pub goodput_bps: Pair,
    /// Jain's indices.
    pub jain: Option<Pair>,
}

/// A pipe of both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct PipePair {
    pub name: String,
    pub packets: Pair,
    pub bytes: Pair,
    pub drops: Pair,
    pub utilisation: Option<Pair>,
    /// Whether it has dropped as many.
    pub agrees: bool,
}

/// Two runs side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The two runs.
    pub runs: [Figures; 2],
    /// Whether flows agree, and nothing else speaks against it.
    pub agree: bool,
    /// What speaks against it.
    pub reasons: Vec<String>,
    /// The share by which figures may differ.
    pub tolerance: f64,
    /// Whether the trace hashes are the same; `null` where a run has none.
    pub same_trace: Option<bool>,
    /// The largest difference between two completion times, and of which flow.
    pub worst: Option<(String, f64)>,
    /// Flows that both summaries have.
    pub flows: Vec<FlowPair>,
    /// Entries of the file.
    pub flow_groups: Vec<GroupPair>,
    /// Pipes that both summaries have.
    pub pipes: Vec<PipePair>,
}

/// The figures of a run that is named as in [`saved::find`].
pub fn read(run: &Path) -> Result<Figures, SavedError> {
    SummaryFile::read(&saved::find(Some(run))?)?.parse()
}

/// Compares two runs; figures may differ by the share `tolerance`.
pub fn compare(first: Figures, second: Figures, tolerance: f64) -> Comparison {
    let lateness = [&first, &second].map(|run| run.verdict.lateness_ns.map_or(0, |l| l.p50));
    let lateness_s = lateness[0].saturating_add(lateness[1]) as f64 / 1e9;
    let others: HashMap<&str, &FlowSummary> = by_name(&second.flows, |flow| &flow.name);
    let both = first.flows.iter();
    let both = both.filter_map(|a| Some((a, *others.get(a.name.as_str())?)));
    let terms = Terms {
        tolerance,
        lateness_s,
        as_long: Pair::new(first.simulated_s, second.simulated_s).share() <= tolerance,
    };
    let flows: Vec<FlowPair> = both.map(|(a, b)| flow_pair(a, b, &terms)).collect();
    let pipes = pipes(&first, &second, tolerance);
    let reasons = reasons(&first, &second, &flows, &pipes, &terms);
    let completions = flows
        .iter()
        .filter_map(|flow| Some((flow.name.clone(), flow.completion_s?.difference?)));
    let worst = completions.max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()));
    let hashes = first.trace_hash.as_ref().zip(second.trace_hash.as_ref());
    Comparison {
        agree: reasons.is_empty(),
        reasons,
        tolerance,
        same_trace: hashes.map(|(a, b)| a == b),
        worst,
        flow_groups: groups(&first, &second),
        pipes,
        flows,
        runs: [first, second],
    }
}

fn by_name<T>(list: &[T], name: fn(&T) -> &String) -> HashMap<&str, &T> {
    list.iter()
        .map(|item| (name(item).as_str(), item))
        .collect()
}

/// What agreement means.
struct Terms {
    tolerance: f64,
    /// The median lateness of both runs together.
    lateness_s: f64,
    /// Whether both runs took as long.
    as_long: bool,
}

fn flow_pair(a: &FlowSummary, b: &FlowSummary, terms: &Terms) -> FlowPair {
    let times = a.completion_s.zip(b.completion_s);
    let completion = times.map(|(a, b)| Pair::new(a, b));
    let goodput = Pair::new(a.goodput_bps, b.goodput_bps);
    let same_end = a.completion_s.is_some() == b.completion_s.is_some();
    let close = same_end
        && match &completion {
            Some(completion) => completion.share() <= terms.tolerance,
            None => terms.as_long && goodput.share() <= terms.tolerance,
        };
    let rtt_s = [a, b].map(|flow| {
        flow.rtt_ns
            .map_or(f64::INFINITY, |rtt| rtt.min as f64 / 1e9)
    });
    let explained = completion.is_some_and(|pair| {
        // One for the handshake, one for each round trip.
        let trips = 1.0 + pair.first.max(pair.second) / rtt_s[0].min(rtt_s[1]).max(1e-9);
        let small = pair.share() <= EXPLAINED_MAX;
        !close && small && (pair.second - pair.first).abs() <= terms.lateness_s * trips
    });
    let retransmissions = Pair::new(a.retransmissions as f64, b.retransmissions as f64);
    FlowPair {
        name: a.name.clone(),
        bytes: Pair::new(a.bytes as f64, b.bytes as f64),
        completion_s: completion,
        goodput_bps: goodput,
        agrees: (close || explained) && retransmissions.counts_agree(terms.tolerance),
        retransmissions,
        explained,
    }
}

/// Why the runs differ.
fn reasons(
    first: &Figures,
    second: &Figures,
    flows: &[FlowPair],
    pipes: &[PipePair],
    terms: &Terms,
) -> Vec<String> {
    let mut reasons = Vec::new();
    if first.flows_seen != second.flows_seen {
        reasons.push(format!(
            "the first run has {} flows, the second {}",
            first.flows_seen, second.flows_seen
        ));
    }
    let alone = first.flows.len().max(second.flows.len()) - flows.len();
    if alone > 0 {
        reasons.push(format!("{alone} flows exist in one run only"));
    }
    let apart = flows.iter().filter(|pair| !pair.agrees).count();
    if apart > 0 {
        reasons.push(format!("{apart} of {} flows differ", flows.len()));
    }
    let endless = flows.iter().any(|pair| pair.completion_s.is_none());
    if endless && !terms.as_long {
        reasons.push(format!(
            "unfinished flows cannot be compared, since the runs lasted {:.3} s and {:.3} s",
            first.simulated_s, second.simulated_s
        ));
    }
    let again = |pair: &&FlowPair| !pair.retransmissions.counts_agree(terms.tolerance);
    let again = flows.iter().filter(again).count();
    if again > 0 {
        reasons.push(format!(
            "the retransmissions of {again} of {} flows differ",
            flows.len()
        ));
    }
    let dropped = pipes.iter().filter(|pair| !pair.agrees).count();
    if dropped > 0 {
        reasons.push(format!(
            "the drops of {dropped} of {} pipes differ",
            pipes.len()
        ));
    }
    let carried = |pair: &&FlowPair| pair.completion_s.is_some() && pair.bytes.share() > 0.0;
    let unequal = flows.iter().filter(carried).count();
    if unequal > 0 {
        reasons.push(format!(
            "{unequal} finished flows carried different payloads"
        ));
    }
    if first.flows.is_empty() && second.flows.is_empty() {
        let (a, b) = (first.packets, second.packets);
        if a != b {
            reasons.push("there are no flows to compare, and the packet counts differ".to_owned());
        }
    }
    reasons
}

fn groups(first: &Figures, second: &Figures) -> Vec<GroupPair> {
    let others = by_name(&second.flow_groups, |group| &group.name);
    let both = first.flow_groups.iter();
    let both = both.filter_map(|a| Some((a, *others.get(a.name.as_str())?)));
    both.map(|(a, b)| {
        let times = a.completion_s.zip(b.completion_s);
        GroupPair {
            name: a.name.clone(),
            finished: Pair::new(a.finished as f64, b.finished as f64),
            bytes: Pair::new(a.bytes as f64, b.bytes as f64),
            completion_mean_s: times.map(|(a, b)| Pair::new(a.mean, b.mean)),
            completion_p50_s: times.map(|(a, b)| Pair::new(a.p50, b.p50)),
            completion_p99_s: times.map(|(a, b)| Pair::new(a.p99, b.p99)),
            goodput_bps: Pair::new(a.goodput_bps, b.goodput_bps),
            jain: a.jain.zip(b.jain).map(|(a, b)| Pair::new(a, b)),
        }
    })
    .collect()
}

fn pipes(first: &Figures, second: &Figures, tolerance: f64) -> Vec<PipePair> {
    let others = by_name(&second.pipes, |pipe| &pipe.name);
    let both = first.pipes.iter();
    let both = both.filter_map(|a| Some((a, *others.get(a.name.as_str())?)));
    let pair = |a: u64, b: u64| Pair::new(a as f64, b as f64);
    both.map(|(a, b)| PipePair {
        name: a.name.clone(),
        packets: pair(a.packets, b.packets),
        bytes: pair(a.bytes, b.bytes),
        drops: pair(a.drops, b.drops),
        agrees: pair(a.drops, b.drops).counts_agree(tolerance),
        utilisation: a
            .utilisation
            .zip(b.utilisation)
            .map(|(a, b)| Pair::new(a, b)),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flows::RoundTrips;

    fn run(completions: &[Option<f64>], lateness: Option<u64>) -> Figures {
        let flow = |(number, completion): (usize, &Option<f64>)| FlowSummary {
            name: format!("f{number}"),
            from: "a".into(),
            to: "b".into(),
            model: "tcp".into(),
            bytes: 1000,
            start_s: 0.0,
            finish_s: *completion,
            completion_s: *completion,
            goodput_bps: 8000.0 / completion.unwrap_or(10.0),
            retransmissions: 0,
            rtt_ns: Some(RoundTrips {
                min: 10_000_000,
                mean: 10_000_000,
                max: 10_000_000,
            }),
            failed: false,
            requests: None,
            datagrams: None,
        };
        Figures {
            experiment: "x".into(),
            clock: "virtual".into(),
            seed: 1,
            run: "/r".into(),
            verdict: VerdictFigures {
                state: State::Faithful,
                // One stall, which explains nothing.
                lateness_ns: lateness.map(|p50| Quantiles {
                    p50,
                    max: 1_000_000_000,
                    ..Quantiles::default()
                }),
            },
            trace_hash: lateness.is_none().then(|| "1".to_owned()),
            simulated_s: 1.0,
            packets: PacketFigures {
                entered: 1,
                delivered: 1,
                hops: 1,
            },
            flows: completions.iter().enumerate().map(flow).collect(),
            flows_seen: completions.len() as u64,
            flow_groups: Vec::new(),
            pipes: Vec::new(),
            programs: Vec::new(),
        }
    }

    #[test]
    fn equal_runs_agree() {
        let both = || run(&[Some(1.0), None], None);
        let found = compare(both(), both(), 0.0);
        assert!(found.agree, "{:?}", found.reasons);
        assert_eq!((found.same_trace, found.flows.len()), (Some(true), 2));
    }

    #[test]
    fn differences_beyond_the_tolerance_are_reported() {
        let (a, b) = (run(&[Some(1.0)], None), run(&[Some(1.02)], None));
        assert!(compare(a.clone(), b.clone(), 0.021).agree);
        let found = compare(a, b, 0.01);
        assert_eq!(found.reasons, ["1 of 1 flows differ"]);
        let (name, worst) = found.worst.unwrap();
        assert!(name == "f0" && (worst - 0.02).abs() < 1e-9);
    }

    #[test]
    fn lateness_explains_so_much_for_each_round_trip() {
        // 101 round trips of 10 ms, 0.2 ms each: 20.2 ms.
        let a = run(&[Some(1.0)], None);
        let late = |completion| run(&[Some(completion)], Some(200_000));
        let found = compare(a.clone(), late(1.02), 0.01);
        assert!(found.agree && found.flows[0].explained);
        assert!(!compare(a.clone(), late(1.03), 0.01).agree);
        // However late packets were: no more than 5 %.
        let very_late = |completion| run(&[Some(completion)], Some(5_000_000));
        assert!(compare(a.clone(), very_late(1.04), 0.01).agree);
        assert!(!compare(a, very_late(1.06), 0.01).agree);
    }

    #[test]
    fn flows_without_end_need_runs_as_long() {
        let both = || run(&[None], None);
        assert!(compare(both(), both(), 0.01).agree);
        let longer = Figures {
            simulated_s: 1.5,
            ..both()
        };
        let found = compare(both(), longer, 0.01);
        let reason =
            "unfinished flows cannot be compared, since the runs lasted 1.000 s and 1.500 s";
        assert_eq!(found.reasons, ["1 of 1 flows differ", reason]);
        let mut slower = both();
        slower.flows[0].goodput_bps *= 0.9;
        assert!(!compare(both(), slower, 0.01).agree);
    }

    #[test]
    fn drops_and_retransmissions_are_held_to_chance_and_tolerance() {
        let with = |retransmissions, drops| {
            let mut run = run(&[Some(1.0)], None);
            run.flows[0].retransmissions = retransmissions;
            run.pipes = vec![PipeFigures {
                name: "a>b".into(),
                packets: 1000,
                bytes: 1000,
                drops,
                utilisation: None,
            }];
            run
        };
        let reasons = |a, b| compare(a, b, 0.01).reasons;
        // 3 √(100 + 140) is 46, 1 % of a million 10,000.
        assert!(reasons(with(100, 0), with(140, 0)).is_empty());
        assert!(reasons(with(0, 1_000_000), with(0, 1_009_000)).is_empty());
        assert!(reasons(with(0, 0), with(0, 9)).is_empty());
        let again = "the retransmissions of 1 of 1 flows differ";
        let found = reasons(with(100, 0), with(150, 0));
        assert_eq!(found, ["1 of 1 flows differ", again]);
        let dropped = ["the drops of 1 of 1 pipes differ"];
        assert_eq!(reasons(with(0, 0), with(0, 10)), dropped);
        assert_eq!(reasons(with(0, 1_000_000), with(0, 1_011_000)), dropped);
    }

    #[test]
    fn flows_of_one_run_only_are_reported() {
        let found = compare(run(&[Some(1.0)], None), run(&[Some(1.0), None], None), 1.0);
        assert_eq!(found.reasons.len(), 2, "{:?}", found.reasons);
        let found = compare(run(&[Some(1.0)], None), run(&[None], None), 1.0);
        assert!(!found.agree);
    }
}
