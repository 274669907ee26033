//! What of a summary is shown. Every figure may be missing, as in files of other versions.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::fidelity::{Quantiles, State, Verdict};
use crate::flows::{FlowSummary, GroupSummary};
use crate::summary::{
    AttemptSummary, CaptureSummary, Drops, Packets, PartitionSummary, PipeSummary, ProgramSummary,
    SeriesSummary, Summary,
};

/// A summary; the names are those of docs/summary.md. `None` and what is not in a map are unknown.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[allow(missing_docs)]
pub struct Saved {
    pub experiment: Option<String>,
    pub clock: Option<String>,
    pub seed: Option<u64>,
    pub version: Option<String>,
    pub run: Option<String>,
    /// Without a verdict, a file is no summary.
    pub verdict: SavedVerdict,
    #[serde(default)]
    pub packets: SavedPackets,
    pub trace_hash: Option<String>,
    pub simulated_s: Option<f64>,
    pub wall_s: Option<f64>,
    pub setup_s: Option<f64>,
    pub hops_per_s: Option<f64>,
    pub error: Option<String>,
    #[serde(default)]
    pub warnings: Vec<String>,
    pub programs: Option<Vec<SavedProgram>>,
    #[serde(default)]
    pub flows: Vec<SavedFlow>,
    pub flows_seen: Option<u64>,
    #[serde(default)]
    pub flow_groups: Vec<SavedGroup>,
    pub pipes: Option<Vec<SavedPipe>>,
    pub pipes_seen: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    pub cores: usize,
    pub partition: Option<PartitionSummary>,
    #[serde(default)]
    pub series: Vec<SavedSeries>,
    #[serde(default)]
    pub captures: Vec<SavedCapture>,
    #[serde(default)]
    pub attempts: Vec<SavedAttempt>,
}

/// How many there are in a list.
fn count<'de, D: serde::Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    Vec::<serde::de::IgnoredAny>::deserialize(from).map(|list| list.len())
}

/// See [`Verdict`].
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[allow(missing_docs)]
pub struct SavedVerdict {
    pub state: State,
    pub state_without_noise: Option<State>,
    pub holds: Option<String>,
    #[serde(default)]
    pub reasons: Vec<String>,
    pub tolerance_ns: Option<u64>,
    pub lateness_ns: Option<Quantiles>,
    #[serde(default)]
    pub by_cause: BTreeMap<String, u64>,
    #[serde(default)]
    pub physical_drops_by_place: BTreeMap<String, u64>,
}

impl SavedVerdict {
    /// See [`Verdict::blames_noise`].
    pub fn blames_noise(&self) -> bool {
        self.state_without_noise
            .is_some_and(|state| state < self.state)
    }

    /// Whether there was more to do than the machine can.
    pub fn blames_overload(&self) -> bool {
        let is_there = |map: &BTreeMap<String, u64>, key| map.get(key).is_some_and(|n| *n > 0);
        is_there(&self.by_cause, "overload") || is_there(&self.physical_drops_by_place, "shed")
    }
}

/// See [`Packets`].
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct SavedPackets {
    pub entered: Option<u64>,
    pub delivered: Option<u64>,
    pub inside: Option<u64>,
    /// By cause, in whatever words.
    pub dropped: Option<BTreeMap<String, u64>>,
}

/// See [`ProgramSummary`].
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct SavedProgram {
    pub name: String,
    pub host: Option<String>,
    pub exit: Option<i64>,
    pub log: Option<String>,
    pub start_s: Option<f64>,
    pub finish_s: Option<f64>,
    pub service: bool,
    pub failure: Option<String>,
}

/// See [`FlowSummary`].
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct SavedFlow {
    pub name: String,
    pub from: Option<String>,
    pub to: Option<String>,
    pub bytes: Option<u64>,
    pub completion_s: Option<f64>,
    pub goodput_bps: Option<f64>,
    pub failed: bool,
}

/// See [`GroupSummary`].
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct SavedGroup {
    pub name: String,
    pub flows: Option<u64>,
    pub finished: Option<u64>,
    pub bytes: Option<u64>,
    /// `p50`, `p99`, `max` and others.
    pub completion_s: Option<BTreeMap<String, f64>>,
    pub goodput_bps: Option<f64>,
    pub jain: Option<f64>,
}

/// See [`PipeSummary`].
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct SavedPipe {
    pub name: String,
    pub packets: Option<u64>,
    pub bytes: Option<u64>,
    pub drops: Option<u64>,
    pub utilisation: Option<f64>,
}

/// See [`SeriesSummary`].
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct SavedSeries {
    pub name: String,
    pub rows: Option<u64>,
    pub bytes: Option<u64>,
}

/// See [`CaptureSummary`].
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct SavedCapture {
    pub file: String,
    pub packets: Option<u64>,
    pub missed: Option<u64>,
}

/// See [`AttemptSummary`].
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[allow(missing_docs)]
pub struct SavedAttempt {
    pub state: State,
}

impl From<&Summary> for Saved {
    fn from(summary: &Summary) -> Self {
        Self {
            experiment: Some(summary.experiment.clone()),
            clock: Some(summary.clock.clone()),
            seed: Some(summary.seed),
            version: Some(summary.version.clone()),
            run: Some(summary.run.clone()),
            verdict: SavedVerdict::from(&summary.verdict),
            packets: SavedPackets::from(&summary.packets),
            trace_hash: summary.trace_hash.clone(),
            simulated_s: Some(summary.simulated_s),
            wall_s: Some(summary.wall_s),
            setup_s: Some(summary.setup_s),
            hops_per_s: Some(summary.hops_per_s),
            error: summary.error.clone(),
            warnings: summary.warnings.clone(),
            programs: Some(all(&summary.programs)),
            flows: all(&summary.flows),
            flows_seen: Some(summary.flows_seen),
            flow_groups: all(&summary.flow_groups),
            pipes: Some(all(&summary.pipes)),
            pipes_seen: Some(summary.pipes_seen as u64),
            cores: summary.cores.len(),
            partition: summary.partition.clone(),
            series: all(&summary.series),
            captures: all(&summary.captures),
            attempts: all(&summary.attempts),
        }
    }
}

fn all<'a, A, B: From<&'a A>>(list: &'a [A]) -> Vec<B> {
    list.iter().map(B::from).collect()
}

impl From<&Verdict> for SavedVerdict {
    fn from(verdict: &Verdict) -> Self {
        let causes = &verdict.by_cause;
        let drops = &verdict.physical_drops_by_place;
        let map = |pairs: &[(&str, u64)]| {
            let pairs = pairs.iter().map(|(name, n)| ((*name).to_owned(), *n));
            pairs.collect::<BTreeMap<_, _>>()
        };
        Self {
            state: verdict.state,
            state_without_noise: Some(verdict.state_without_noise),
            holds: verdict.holds.clone(),
            reasons: verdict.reasons.clone(),
            tolerance_ns: Some(verdict.tolerance_ns),
            lateness_ns: verdict.lateness_ns,
            by_cause: map(&[
                ("stall", causes.stall),
                ("overload", causes.overload),
                ("other", causes.other),
            ]),
            physical_drops_by_place: map(&[
                ("ring", drops.ring),
                ("shed", drops.shed),
                ("pool", drops.pool),
                ("send", drops.send),
                ("to_core", drops.to_core),
                ("from_core", drops.from_core),
            ]),
        }
    }
}

impl From<&Packets> for SavedPackets {
    fn from(packets: &Packets) -> Self {
        let Drops {
            queue,
            loss,
            link_down,
            hop_limit,
            no_route,
            too_big,
            misdelivered,
            absorbed,
        } = packets.dropped;
        let causes = [
            ("queue", queue),
            ("loss", loss),
            ("link_down", link_down),
            ("hop_limit", hop_limit),
            ("no_route", no_route),
            ("too_big", too_big),
            ("misdelivered", misdelivered),
            ("absorbed", absorbed),
        ];
        Self {
            entered: Some(packets.entered),
            delivered: Some(packets.delivered),
            inside: Some(packets.inside),
            dropped: Some(causes.map(|(name, n)| (name.to_owned(), n)).into()),
        }
    }
}

impl From<&ProgramSummary> for SavedProgram {
    fn from(program: &ProgramSummary) -> Self {
        Self {
            name: program.name.clone(),
            host: Some(program.host.clone()),
            exit: program.exit.map(i64::from),
            log: Some(program.log.clone()),
            start_s: program.start_s,
            finish_s: program.finish_s,
            service: program.service,
            failure: program.failure.clone(),
        }
    }
}

impl From<&FlowSummary> for SavedFlow {
    fn from(flow: &FlowSummary) -> Self {
        Self {
            name: flow.name.clone(),
            from: Some(flow.from.clone()),
            to: Some(flow.to.clone()),
            bytes: Some(flow.bytes),
            completion_s: flow.completion_s,
            goodput_bps: Some(flow.goodput_bps),
            failed: flow.failed,
        }
    }
}

impl From<&GroupSummary> for SavedGroup {
    fn from(group: &GroupSummary) -> Self {
        let times = group.completion_s.as_ref().map(|times| {
            let all = [
                ("min", times.min),
                ("mean", times.mean),
                ("p50", times.p50),
                ("p90", times.p90),
                ("p99", times.p99),
                ("p999", times.p999),
                ("max", times.max),
            ];
            all.map(|(name, s)| (name.to_owned(), s)).into()
        });
        Self {
            name: group.name.clone(),
            flows: Some(group.flows),
            finished: Some(group.finished),
            bytes: Some(group.bytes),
            completion_s: times,
            goodput_bps: Some(group.goodput_bps),
            jain: group.jain,
        }
    }
}

impl From<&PipeSummary> for SavedPipe {
    fn from(pipe: &PipeSummary) -> Self {
        Self {
            name: pipe.name.clone(),
            packets: Some(pipe.counts.packets),
            bytes: Some(pipe.counts.bytes),
            drops: Some(pipe.counts.drops),
            utilisation: pipe.utilisation,
        }
    }
}

impl From<&SeriesSummary> for SavedSeries {
    fn from(series: &SeriesSummary) -> Self {
        Self {
            name: series.name.clone(),
            rows: Some(series.rows),
            bytes: Some(series.bytes),
        }
    }
}

impl From<&CaptureSummary> for SavedCapture {
    fn from(capture: &CaptureSummary) -> Self {
        Self {
            file: capture.file.clone(),
            packets: Some(capture.packets),
            missed: Some(capture.missed),
        }
    }
}

impl From<&AttemptSummary> for SavedAttempt {
    fn from(attempt: &AttemptSummary) -> Self {
        Self {
            state: attempt.state,
        }
    }
}
