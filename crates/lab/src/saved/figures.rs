//! The figures of a summary that are shown. Each may be missing, as in files of other versions.
//!
//! The types of [`crate::summary`] only serialise: deserialised, a missing figure would be an error there, or zero.
//! The end of a run parses the JSON of its own [`Summary`](crate::summary::Summary) with these types too, so that
//! it shows the same as `longhaul report`. A test checks these names against those of a summary.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::fidelity::{Quantiles, State};
use crate::summary::PartitionSummary;

/// A summary; the names are those of docs/summary.md. `None` and what is not in a map are unknown.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[allow(missing_docs)]
pub struct Saved {
    pub experiment: Option<String>,
    pub clock: Option<String>,
    pub seed: Option<u64>,
    pub version: Option<String>,
    pub run: Option<String>,
    /// Without a verdict, a file is not a summary.
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

impl Saved {
    /// Reads the text of a summary.
    ///
    /// # Errors
    /// It is no JSON, or has another form than a summary.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }
}

/// How many there are in a list.
fn count<'de, D: serde::Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    Vec::<serde::de::IgnoredAny>::deserialize(from).map(|list| list.len())
}

/// See [`Verdict`](crate::fidelity::Verdict).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
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
    /// See [`Verdict::blames_noise`](crate::fidelity::Verdict::blames_noise).
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

/// See [`Packets`](crate::summary::Packets).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default)]
#[allow(missing_docs)]
pub struct SavedPackets {
    pub entered: Option<u64>,
    pub delivered: Option<u64>,
    pub inside: Option<u64>,
    /// By cause, in whatever words.
    pub dropped: Option<BTreeMap<String, u64>>,
}

/// See [`ProgramSummary`](crate::summary::ProgramSummary).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
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

/// See [`FlowSummary`](crate::flows::FlowSummary).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
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

/// See [`GroupSummary`](crate::flows::GroupSummary).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
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

/// See [`PipeSummary`](crate::summary::PipeSummary).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default)]
#[allow(missing_docs)]
pub struct SavedPipe {
    pub name: String,
    pub packets: Option<u64>,
    pub bytes: Option<u64>,
    pub drops: Option<u64>,
    pub utilisation: Option<f64>,
}

/// See [`SeriesSummary`](crate::summary::SeriesSummary).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default)]
#[allow(missing_docs)]
pub struct SavedSeries {
    pub name: String,
    pub rows: Option<u64>,
    pub bytes: Option<u64>,
}

/// See [`CaptureSummary`](crate::summary::CaptureSummary).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[serde(default)]
#[allow(missing_docs)]
pub struct SavedCapture {
    pub file: String,
    pub packets: Option<u64>,
    pub missed: Option<u64>,
}

/// See [`AttemptSummary`](crate::summary::AttemptSummary).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
#[allow(missing_docs)]
pub struct SavedAttempt {
    pub state: State,
}
