//! The data of a page: one JSON document with a version, read by `ui/src/data.ts` (docs/report.md).
//!
//! Everything in it is bounded by those who make it; texts are as they came, and the page makes them
//! harmless. A test holds the names here to those of `ui/src/data.ts`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::rollup::Number;
use crate::compare::several::Several;
use crate::network::{PipeEntry, ProgramEntry};

/// What the document says that it is.
pub(super) const FORMAT: &str = "longhaul-report";
/// Its version: another where a reader of this one would be misled.
pub(super) const VERSION: u32 = 1;

/// A page: of one run, or of several side by side.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Document {
    pub(super) format: &'static str,
    pub(super) version: u32,
    /// The version of Longhaul that made the page.
    pub(super) made_by: &'static str,
    /// The runs; the first is the one that the page is about where there is one alone.
    pub(super) runs: Vec<Run>,
    /// What differs between several.
    pub(super) comparison: Option<Several>,
    /// Whether the page comes from a server, which has every row.
    pub(super) served: bool,
}

/// Whether a run came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ending {
    /// It has a summary.
    Whole,
    /// It has none, and the run is no longer under way.
    CutOff,
    /// The run is under way.
    UnderWay,
}

/// A run.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Run {
    /// The experiment's name.
    pub(super) name: String,
    /// The run folder's name.
    pub(super) folder: String,
    pub(super) ending: Ending,
    /// What is missing or left out, for people.
    pub(super) notes: Vec<String>,
    /// The end of its time axis, in seconds.
    pub(super) end_s: f64,
    /// `summary.json`, its lists bounded, without pipes; `null` where there is none.
    pub(super) summary: Option<Map<String, Value>>,
    /// The nodes of its network; empty where they are too many to draw.
    pub(super) nodes: Vec<Node>,
    /// How many there are.
    pub(super) nodes_seen: usize,
    /// Its pipes, or those of them that did most.
    pub(super) pipes: Vec<Pipe>,
    /// How many there are.
    pub(super) pipes_seen: usize,
    pub(super) programs: Vec<Program>,
    /// By name; see docs/report.md.
    pub(super) series: BTreeMap<&'static str, Tracks>,
    /// Single packets, by pipe.
    pub(super) timelines: Vec<Timeline>,
    /// Files of the run folder that the page may lead to.
    pub(super) files: Vec<String>,
}

/// A node with its place in the drawing.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) x: f64,
    pub(super) y: f64,
}

/// A pipe: what it was meant to do, and what it did.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Pipe {
    pub(super) name: String,
    /// `null` where the run folder has no network.
    pub(super) params: Option<PipeEntry>,
    /// `null` without a summary.
    pub(super) counts: Option<Counts>,
}

/// The counters of a pipe over the whole run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, serde::Deserialize)]
#[serde(default)]
pub(super) struct Counts {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) drops: u64,
    pub(super) drops_queue: u64,
    pub(super) drops_early: u64,
    pub(super) drops_loss: u64,
    pub(super) drops_down: u64,
    pub(super) marked: u64,
    pub(super) duplicated: u64,
    pub(super) corrupted: u64,
    pub(super) reordered: u64,
    pub(super) utilisation: Option<f64>,
}

/// A program, with the end of what it said.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Program {
    #[serde(flatten)]
    pub(super) entry: ProgramEntry,
    /// As `summary.json` has it; `null` without a summary.
    pub(super) ended: Option<Value>,
    pub(super) out: LogEnd,
    pub(super) err: LogEnd,
}

/// The end of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct LogEnd {
    /// The file, below the run folder; `null` where there is none.
    pub(super) file: Option<String>,
    /// How long it is.
    pub(super) bytes: u64,
    /// Its last lines.
    pub(super) lines: Vec<String>,
    /// Whether there are more lines.
    pub(super) cut: bool,
}

/// Columns of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Grid {
    /// The width of a column.
    pub(super) width_ns: u64,
    pub(super) columns: u32,
    /// Where the last column ends.
    pub(super) end_ns: u64,
}

impl Grid {
    /// At most `columns_max` columns of a round width, none narrower than `least_ns`.
    pub(super) fn new(end_ns: u64, columns_max: u32, least_ns: u64) -> Self {
        let end_ns = end_ns.max(1);
        let wanted = end_ns
            .div_ceil(columns_max.max(1).into())
            .max(least_ns)
            .max(1);
        let mut width_ns = 1_u64;
        'wide: loop {
            for step in [1, 2, 5] {
                let width = width_ns.saturating_mul(step);
                if width >= wanted {
                    width_ns = width;
                    break 'wide;
                }
            }
            width_ns = width_ns.saturating_mul(10);
        }
        // Bins that are not round stay as they are where they fit.
        if least_ns >= end_ns.div_ceil(columns_max.max(1).into()) && least_ns > 0 {
            width_ns = least_ns;
        }
        Self {
            width_ns,
            columns: u32::try_from(end_ns.div_ceil(width_ns)).unwrap_or(u32::MAX),
            end_ns,
        }
    }

    /// How long a column is.
    pub(super) fn span_ns(&self, column: u32) -> f64 {
        let from = u64::from(column) * self.width_ns;
        let to = (from + self.width_ns).min(self.end_ns);
        to.saturating_sub(from).max(1) as f64
    }
}

/// A series in columns.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Tracks {
    /// What the parts of keys are.
    pub(super) keys: Vec<String>,
    pub(super) grid: Grid,
    /// The widths of rows that columns are made of: the least and the most.
    pub(super) row_ns: [u64; 2],
    /// How many things there are.
    pub(super) seen: usize,
    /// Those that did most.
    pub(super) shown: Vec<Track>,
    /// Rows of full resolution.
    pub(super) windows: Vec<Window>,
    /// Where reading ended because there was too much, if it did.
    pub(super) until_ns: Option<u64>,
}

/// A thing in columns.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Track {
    pub(super) key: Vec<String>,
    /// The columns in which something happened; `null` for all.
    pub(super) columns: Option<Vec<u32>>,
    /// Figures by name, one for each of these columns.
    pub(super) lines: BTreeMap<&'static str, Lines>,
}

/// A figure over time.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Lines {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) min: Vec<Number>,
    pub(super) mean: Vec<Number>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) max: Vec<Number>,
}

impl Lines {
    /// Nothing where there is nothing but zeros, which go without saying.
    pub(super) fn of(values: impl Iterator<Item = [Option<f64>; 3]>) -> Option<Self> {
        let mut lines = [const { Vec::new() }; 3];
        let (mut any, mut bounds) = (false, false);
        for row in values {
            any |= row.iter().flatten().any(|&value| value != 0.0);
            bounds |= row[0] != row[1] && row[0].is_some() || row[2] != row[1] && row[2].is_some();
            for (line, value) in lines.iter_mut().zip(row) {
                line.push(Number(value.unwrap_or(f64::NAN)));
            }
        }
        let [min, mean, max] = lines;
        any.then(|| {
            if bounds {
                Self { min, mean, max }
            } else {
                Self {
                    min: Vec::new(),
                    mean,
                    max: Vec::new(),
                }
            }
        })
    }
}

/// Rows of full resolution of one thing.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Window {
    /// Its place in `shown`.
    pub(super) track: usize,
    /// Why it is there.
    pub(super) why: &'static str,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    /// Columns by name, as the series has them; `start_ns` and `width_ns` among them.
    pub(super) rows: BTreeMap<&'static str, Vec<Number>>,
}

/// Packets one by one.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Timeline {
    pub(super) pipe: String,
    /// How many the series has.
    pub(super) seen: u64,
    /// Whole nanoseconds.
    pub(super) arrival_ns: Vec<u64>,
    pub(super) service_ns: Vec<u64>,
    pub(super) departure_ns: Vec<u64>,
    pub(super) bytes: Vec<u32>,
    pub(super) fate: Vec<String>,
    /// Which flow, by its place in `flows`.
    pub(super) flow: Vec<u32>,
    pub(super) flows: Vec<String>,
}
