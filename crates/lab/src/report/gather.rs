//! Gathers the data of a page from a run's folder: the summary, the network, logs, series.
//!
//! A folder without a summary (of a run that was killed or is under way) still makes a page. Data that is
//! missing, of another version or too large becomes a note, never an error.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::iter;
use std::path::Path;

use longhaul_plan::topology::draw;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::document::{Counts, Ending, Grid, Node, Pipe, Program, Run, Timeline, Tracks};
use super::rollup::{Rollup, Spec};
use super::windows::{self, Interest};
use super::{Extent, logs, specs};
use crate::folder;
use crate::measure::read::{self, Columns, Pool};
use crate::network::{NetworkFile, PipeEntry, ProgramEntry};
use crate::saved;

/// Nodes of a network that is drawn.
const NODES_MAX: usize = 5_000;
/// Programs on a page.
const PROGRAMS_MAX: usize = 2_000;
/// The most entries of a list of the summary.
const LIST_MAX: usize = 2_000;
/// Characters of a text of the summary.
const TEXT_MAX: usize = 2_000;
/// The largest description of a network that is read: 100,000 pipes take about 20 MB.
const NETWORK_MAX: u64 = 256 << 20;
/// Packets of a pipe that are shown one by one.
const PACKETS_MAX: usize = 5_000;
/// Columns of a series whose number of things is unknown.
const COLUMNS: u32 = 600;
const COLUMNS_MAX: u32 = 1_200;

/// `summary.json`, its pipes apart.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SummaryFile {
    pipes: Vec<NamedCounts>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NamedCounts {
    name: String,
    #[serde(flatten)]
    counts: Counts,
}

/// Everything of the run in a folder; `summary` is the text of its summary where it is at hand.
pub(super) fn run(path: &Path, summary: Option<&str>, extent: &Extent) -> Run {
    let mut notes = Vec::new();
    let mut file = summary_of(path, summary, &mut notes);
    let network = network_of(path, &mut notes);
    let ending = match &file {
        Some(_) => Ending::Whole,
        None if folder::is_under_way(path) => Ending::UnderWay,
        None => Ending::CutOff,
    };
    match ending {
        Ending::Whole => {}
        Ending::UnderWay => notes.push(
            "the run is under way: there is no summary and no verdict yet, and the last 10 s of series may \
             be missing"
                .to_owned(),
        ),
        Ending::CutOff => notes.push(
            "the run was cut off: there is no summary.json, so no verdict and no totals, and the last 10 s \
             of series may be missing"
                .to_owned(),
        ),
    }
    let summary = file.as_mut().map(|file| std::mem::take(&mut file.rest));
    let counts = file.map(|file| file.pipes).unwrap_or_default();
    other_version(summary.as_ref(), &mut notes);
    let reported_s = summary
        .as_ref()
        .and_then(|rest| rest.get("simulated_s")?.as_f64());
    let end_s = reported_s
        .filter(|s| s.is_finite())
        .unwrap_or_else(|| last_row_s(path));
    let end_ns = (end_s.clamp(0.0, 1e9) * 1e9) as u64; // thirty years
    let text = |key: &str| Some(summary.as_ref()?.get(key)?.as_str()?.to_owned());
    let name = text("experiment").unwrap_or_else(|| network.experiment.clone());
    let events_ns = events_ns(summary.as_ref());
    let (pipes, pipes_seen) = pipes_of(counts, &network, summary.as_ref(), &mut notes);
    let series = Series {
        path,
        end_ns,
        extent,
        events_ns: &events_ns,
        pipes: pipes.len(),
    };
    Run {
        folder: path
            .file_name()
            .map_or(String::new(), |name| name.to_string_lossy().into_owned()),
        ending,
        end_s: end_ns as f64 / 1e9,
        nodes: nodes_of(&network, &mut notes),
        nodes_seen: network.nodes_seen,
        pipes,
        pipes_seen,
        programs: programs_of(path, &network, summary.as_ref(), &mut notes),
        series: series.all(&mut notes),
        timelines: timelines(path, extent, &mut notes),
        files: files(path),
        summary: summary.map(bounded),
        name,
        notes,
    }
}

/// Parses a file of at most `most` bytes.
fn read_json<T: DeserializeOwned>(file: &Path, most: u64) -> io::Result<T> {
    Ok(serde_json::from_slice(&saved::bounded(file, most)?)?)
}

fn summary_of(path: &Path, text: Option<&str>, notes: &mut Vec<String>) -> Option<SummaryFile> {
    if let Some(text) = text {
        return serde_json::from_str(text).ok();
    }
    match read_json(&path.join(saved::SUMMARY), saved::SUMMARY_MAX) {
        Ok(file) => Some(file),
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                notes.push(format!("summary.json cannot be read: {error}"));
            }
            None
        }
    }
}

fn network_of(path: &Path, notes: &mut Vec<String>) -> NetworkFile {
    let read = read_json(&path.join("network.json"), NETWORK_MAX);
    let network = read.unwrap_or_else(|error| {
        notes.push(format!(
            "network.json cannot be read, so there is no drawing: {error}"
        ));
        NetworkFile::default()
    });
    if network.version > crate::network::VERSION {
        notes.push(format!(
            "network.json has version {}, and this Longhaul reads version {}",
            network.version,
            crate::network::VERSION
        ));
    }
    network
}

/// A note on a run that another version has made.
fn other_version(summary: Option<&Map<String, Value>>, notes: &mut Vec<String>) {
    let version = summary.and_then(|summary| summary.get("version")?.as_str());
    let own = env!("CARGO_PKG_VERSION");
    if let Some(version) = version.filter(|version| *version != own) {
        notes.push(format!(
            "Longhaul {version} made this run, and Longhaul {own} made this page: figures that only one of \
             them has are missing"
        ));
    }
}

/// The end of the last row of any series, in seconds.
fn last_row_s(path: &Path) -> f64 {
    let all = iter::once(&*specs::PIPES).chain(&*specs::OTHERS);
    let ends = all.map(|spec| {
        let numbers = spec.numbers();
        let columns = Columns {
            numbers: &numbers[..spec.first_metric()],
            texts: &[],
        };
        let mut end = 0.0_f64;
        let mut pool = Pool::default();
        read::read(
            path,
            spec.file,
            &columns,
            &mut pool,
            u64::MAX,
            |batch, _| {
                for row in 0..batch.rows {
                    let (start, width) = spec.times_of(batch, row);
                    end = end.max(start + width); // NaN is not a number, and smaller
                }
                true
            },
        );
        end
    });
    ends.fold(0.0, f64::max) / 1e9
}

fn events_ns(summary: Option<&Map<String, Value>>) -> Vec<u64> {
    let events = summary.and_then(|summary| summary.get("events")?.as_array());
    let at = |event: &Value| Some((event.get("at_s")?.as_f64()?.max(0.0) * 1e9) as u64);
    events.into_iter().flatten().filter_map(at).collect()
}

/// The pipes, in the order of the network: all, or those that carried or dropped most.
fn pipes_of(
    counts: Vec<NamedCounts>,
    network: &NetworkFile,
    summary: Option<&Map<String, Value>>,
    notes: &mut Vec<String>,
) -> (Vec<Pipe>, usize) {
    let mut by_name: FxHashMap<String, Counts> = counts
        .into_iter()
        .map(|pipe| (pipe.name, pipe.counts))
        .collect();
    let known = |entry: &PipeEntry| Pipe {
        name: entry.name.clone(),
        params: Some(entry.clone()),
        counts: by_name.remove(&entry.name),
    };
    let mut pipes: Vec<Pipe> = network.pipes.iter().map(known).collect();
    let mut others: Vec<Pipe> = by_name
        .into_iter()
        .map(|(name, counts)| Pipe {
            name,
            params: None,
            counts: Some(counts),
        })
        .collect();
    others.sort_by(|a, b| a.name.cmp(&b.name));
    pipes.extend(others);
    let reported = summary.and_then(|summary| summary.get("pipes_seen")?.as_u64());
    let seen = reported
        .map_or(network.pipes_seen, |seen| seen as usize)
        .max(pipes.len());
    if pipes.len() > specs::PIPES_MAX {
        let did = |pipe: &Pipe| {
            let counts = pipe.counts.as_ref();
            std::cmp::Reverse(counts.map_or((0, 0), |counts| (counts.drops, counts.bytes)))
        };
        // Half for drops, half for bytes.
        pipes.sort_by_key(did);
        let half = specs::PIPES_MAX / 2;
        pipes[half..]
            .sort_by_key(|pipe| std::cmp::Reverse(pipe.counts.as_ref().map_or(0, |c| c.bytes)));
        pipes.truncate(specs::PIPES_MAX);
        pipes.sort_by(|a, b| a.name.cmp(&b.name));
    }
    if pipes.len() < seen {
        notes.push(format!(
            "{} of {seen} pipes are shown: those that dropped most or carried most",
            pipes.len()
        ));
    }
    (pipes, seen)
}

fn nodes_of(network: &NetworkFile, notes: &mut Vec<String>) -> Vec<Node> {
    if network.nodes_seen > NODES_MAX {
        notes.push(format!(
            "the network has {} nodes, too many to draw here: use `longhaul topology draw experiment.yaml`",
            network.nodes_seen
        ));
        return Vec::new();
    }
    let Some(sketch) = network.sketch() else {
        notes.push(
            "network.json is inconsistent: it has pipes between nodes that it lacks".to_owned(),
        );
        return Vec::new();
    };
    let places = draw::places(&sketch);
    let node = |(node, (x, y)): (&crate::network::NodeEntry, (f64, f64))| Node {
        name: node.name.clone(),
        kind: node.kind.clone(),
        // A tenth of a pixel.
        x: (x * 10.0).round() / 10.0,
        y: (y * 10.0).round() / 10.0,
    };
    network.nodes.iter().zip(places).map(node).collect()
}

/// The programs; where there are too many, those that failed first.
fn programs_of(
    path: &Path,
    network: &NetworkFile,
    summary: Option<&Map<String, Value>>,
    notes: &mut Vec<String>,
) -> Vec<Program> {
    let ended = summary.and_then(|summary| summary.get("programs")?.as_array());
    let text = |value: &Value, key: &str| Some(value.get(key)?.as_str()?.to_owned());
    let entry_of = |value: &Value| ProgramEntry {
        name: text(value, "name").unwrap_or_default(),
        host: text(value, "host").unwrap_or_default(),
        service: value
            .get("service")
            .and_then(Value::as_bool)
            .unwrap_or(false),
    };
    let mut programs: Vec<(ProgramEntry, Option<Value>)> = match ended {
        Some(ended) => ended
            .iter()
            .map(|value| (entry_of(value), Some(value.clone())))
            .collect(),
        None => network
            .programs
            .iter()
            .map(|entry| (entry.clone(), None))
            .collect(),
    };
    if programs.len() > PROGRAMS_MAX {
        notes.push(format!(
            "{PROGRAMS_MAX} of {} programs are shown, failed ones first",
            programs.len()
        ));
        let has_failed = |ended: &Option<Value>| {
            let failure = ended.as_ref().and_then(|ended| ended.get("failure"));
            failure.is_some_and(|failure| !failure.is_null())
        };
        programs.sort_by_key(|(_, ended)| !has_failed(ended));
        programs.truncate(PROGRAMS_MAX);
    }
    let program = |(entry, ended): (ProgramEntry, Option<Value>)| Program {
        out: logs::end(path, &entry.name, "out"),
        err: logs::end(path, &entry.name, "err"),
        ended: ended.map(short),
        entry,
    };
    programs.into_iter().map(program).collect()
}

/// The summary with long lists and texts cut off; what is elsewhere in the document left out.
fn bounded(summary: Map<String, Value>) -> Map<String, Value> {
    let elsewhere = ["programs"];
    let kept = summary
        .into_iter()
        .filter(|(key, _)| !elsewhere.contains(&key.as_str()));
    kept.map(|(key, value)| (key, short(value))).collect()
}

fn short(value: Value) -> Value {
    match value {
        Value::String(text) if text.chars().count() > TEXT_MAX => {
            let mut text: String = text.chars().take(TEXT_MAX).collect();
            text.push('…');
            Value::String(text)
        }
        Value::Array(list) => list.into_iter().take(LIST_MAX).map(short).collect(),
        Value::Object(map) => Value::Object(
            map.into_iter()
                .map(|(key, value)| (key, short(value)))
                .collect(),
        ),
        other => other,
    }
}

/// What series are read with.
struct Series<'a> {
    path: &'a Path,
    end_ns: u64,
    extent: &'a Extent,
    events_ns: &'a [u64],
    pipes: usize,
}

impl Series<'_> {
    /// All series that there are.
    fn all(&self, notes: &mut Vec<String>) -> BTreeMap<&'static str, Tracks> {
        let mut all = BTreeMap::new();
        for spec in iter::once(&*specs::PIPES).chain(&*specs::OTHERS) {
            let things = match spec.name {
                "pipes" => self.pipes.max(1),
                _ => spec.most,
            };
            all.extend(
                self.one(spec, things, notes)
                    .map(|tracks| (spec.name, tracks)),
            );
        }
        if let Some(mut seconds) = self.one(&specs::PIPE_SECONDS, self.pipes.max(1), notes) {
            // Pipes that are measured in bins need no seconds.
            let measured = all
                .get("pipes")
                .map_or(&[][..], |tracks: &Tracks| &tracks.shown);
            let measured: std::collections::BTreeSet<_> =
                measured.iter().map(|track| &track.key).collect();
            seconds.shown.retain(|track| !measured.contains(&track.key));
            if !seconds.shown.is_empty() {
                all.insert(specs::PIPE_SECONDS.name, seconds);
            }
        }
        all
    }

    fn one(&self, spec: &Spec, things: usize, notes: &mut Vec<String>) -> Option<Tracks> {
        if read::files(self.path, spec.file).is_empty() {
            if spec.file.ends_with(".csv") {
                notes.push(format!("series/{} is missing", spec.file));
            }
            return None;
        }
        let affordable = self.extent.numbers / (spec.stride() * things.max(1)) as u64;
        let columns = match spec.name {
            "flows" | "connections" | "hosts" => affordable.min(COLUMNS.into()),
            _ => affordable,
        };
        let columns = columns.clamp(12, COLUMNS_MAX.into()) as u32;
        let least_ns = self.first_width_ns(spec);
        let mut rollup = Rollup::new(spec, Grid::new(self.end_ns, columns, least_ns));
        let mut pool = Pool::default();
        let numbers = spec.numbers();
        let names = spec.columns(&numbers);
        let rows_max = self.extent.rows;
        let mut until = 0.0_f64;
        let outcome = read::read(
            self.path,
            spec.file,
            &names,
            &mut pool,
            rows_max,
            |batch, _| {
                until = batch.numbers[0].iter().copied().fold(until, f64::max);
                rollup.add(batch);
                true
            },
        );
        notes.extend(outcome.notes);
        let mut tracks = rollup.finish(&pool);
        if outcome.cut {
            tracks.until_ns = Some(until as u64);
            notes.push(format!(
                "series/{} is shown up to {:.3} s only, to save time at the end of the run: `longhaul report \
                 --html FILE RUN` shows all of it",
                spec.file,
                until / 1e9
            ));
        }
        if tracks.seen > tracks.shown.len() {
            notes.push(format!(
                "{} of {} {} are shown: the most active ones",
                tracks.shown.len(),
                tracks.seen,
                spec.name
            ));
        }
        let interest = Interest {
            named: &self.extent.windows,
            events_ns: self.events_ns,
            rows: self.extent.window_rows,
        };
        let wanted = windows::choose(spec.name, &tracks, &interest);
        let keys: Vec<&[String]> = tracks.shown.iter().map(|track| &*track.key).collect();
        let rows_max = 2 * self.extent.window_rows as usize;
        tracks.windows = windows::collect(self.path, spec, &keys, &wanted, rows_max);
        (!tracks.shown.is_empty()).then_some(tracks)
    }

    /// The narrowest of the first rows.
    fn first_width_ns(&self, spec: &Spec) -> u64 {
        let numbers = spec.numbers();
        let columns = Columns {
            numbers: &numbers[..spec.first_metric()],
            texts: &[],
        };
        let mut width = f64::INFINITY;
        read::read(
            self.path,
            spec.file,
            &columns,
            &mut Pool::default(),
            1,
            |batch, _| {
                let widths = (0..batch.rows).map(|row| spec.times_of(batch, row).1);
                width = widths.filter(|width| *width > 0.0).fold(width, f64::min);
                false
            },
        );
        // The first bin may have been cut short.
        if width.is_finite() { width as u64 } else { 0 }
    }
}

/// Packets one by one: of each pipe the first.
fn timelines(path: &Path, extent: &Extent, notes: &mut Vec<String>) -> Vec<Timeline> {
    let columns = Columns {
        numbers: &["arrival_ns", "service_ns", "departure_ns", "bytes"],
        texts: &[
            "pipe",
            "fate",
            "from",
            "to",
            "protocol",
            "from_port",
            "to_port",
        ],
    };
    let mut timelines: Vec<Timeline> = Vec::new();
    let mut flows: Vec<FxHashMap<String, u32>> = Vec::new();
    let mut places: FxHashMap<u32, usize> = FxHashMap::default();
    let mut pool = Pool::default();
    let outcome = read::read(
        path,
        "packets",
        &columns,
        &mut pool,
        extent.rows,
        |batch, pool| {
            for row in 0..batch.rows {
                let text = |column: usize| pool.text(batch.texts[column][row]);
                let place = *places.entry(batch.texts[0][row]).or_insert_with(|| {
                    timelines.push(Timeline {
                        pipe: text(0).to_owned(),
                        ..Timeline::default()
                    });
                    flows.push(FxHashMap::default());
                    timelines.len() - 1
                });
                let timeline = &mut timelines[place];
                timeline.seen += 1;
                if timeline.arrival_ns.len() >= PACKETS_MAX.min(extent.window_rows as usize) {
                    continue;
                }
                let number = |column: usize| batch.numbers[column][row].max(0.0) as u64;
                timeline.arrival_ns.push(number(0));
                timeline.service_ns.push(number(1));
                timeline.departure_ns.push(number(2));
                timeline
                    .bytes
                    .push(u32::try_from(number(3)).unwrap_or(u32::MAX));
                timeline.fate.push(text(1).to_owned());
                let flow = match (text(5), text(6)) {
                    ("0", "0") => format!("{} > {} {}", text(2), text(3), text(4)),
                    (from, to) => format!("{}:{from} > {}:{to} {}", text(2), text(3), text(4)),
                };
                let next = timeline.flows.len() as u32;
                let number = *flows[place].entry(flow).or_insert_with_key(|flow| {
                    timeline.flows.push(flow.clone());
                    next
                });
                timeline.flow.push(number);
            }
            true
        },
    );
    notes.extend(outcome.notes);
    timelines.truncate(64);
    timelines
}

/// Files that pages lead to.
fn files(path: &Path) -> Vec<String> {
    let mut files: Vec<String> = [
        "experiment.yaml",
        "network.json",
        "hosts.txt",
        "summary.json",
        "flows.csv",
    ]
    .map(str::to_owned)
    .to_vec();
    for folder in ["series", "captures"] {
        let entries = fs::read_dir(path.join(folder))
            .into_iter()
            .flatten()
            .flatten();
        let named = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = named
            .take(100)
            .map(|name| format!("{folder}/{name}"))
            .collect();
        names.sort();
        files.extend(names);
    }
    files.retain(|file| path.join(file).is_file() || path.join(file).is_dir());
    files
}
