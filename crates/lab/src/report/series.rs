//! The time series of a run, read back from its folder and thinned for charts.
//!
//! Seconds are gathered into at most [`COLUMNS`] columns of equal length: counts add up, of
//! lateness the worst is kept. The last column ends where the run ends; a rest too short to
//! make a rate of belongs to the column before it. Files are read line by line, within bounds;
//! what cannot be read is noted for the reader and left out.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use super::text::of;
use crate::summary::Summary;

/// Most columns of a chart.
pub(super) const COLUMNS: u64 = 240;
/// Most pipes in a chart: as many as can be told apart.
const PIPES: usize = 6;
/// Most bytes read of one file: reading them takes well under a second.
const FILE_MAX: u64 = 256 << 20;
/// The longest line that is one of ours.
const LINE_MAX: u64 = 4096;
/// The shortest column in seconds.
const SHORTEST_S: f64 = 0.1;

/// How seconds become columns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Grid {
    /// Seconds in a column.
    pub(super) width: u64,
    /// How many columns there are, at least one.
    pub(super) columns: usize,
    /// Seconds of the whole run.
    pub(super) total_s: f64,
}

impl Grid {
    /// The grid of a run of so many seconds.
    pub(super) fn new(total_s: f64) -> Self {
        // The bound, a thousand years, keeps nonsense from overflowing below.
        let total_s = if total_s.is_finite() {
            total_s.clamp(0.001, 3e10)
        } else {
            1.0
        };
        let width = (total_s.ceil() as u64).div_ceil(COLUMNS);
        let mut columns = (total_s / width as f64).ceil().max(1.0) as usize;
        if columns > 1 && total_s - ((columns - 1) as u64 * width) as f64 <= SHORTEST_S {
            columns -= 1;
        }
        Self {
            width,
            columns,
            total_s,
        }
    }

    /// Where column `index` begins and ends, in seconds.
    pub(super) fn span(&self, index: usize) -> (f64, f64) {
        let at = |index: usize| (index as u64 * self.width) as f64;
        let end = if index + 1 >= self.columns {
            self.total_s
        } else {
            at(index + 1)
        };
        (at(index), end)
    }

    fn column(&self, second: u64) -> usize {
        usize::try_from(second / self.width)
            .unwrap_or(usize::MAX)
            .min(self.columns - 1)
    }

    /// An amount in column `index` per second.
    pub(super) fn rate(&self, index: usize, amount: f64) -> f64 {
        let (start, end) = self.span(index);
        amount / (end - start)
    }
}

/// The seconds of one column together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Column {
    pub(super) packets: u64,
    pub(super) late: u64,
    pub(super) p50: u64,
    pub(super) p99: u64,
    pub(super) max: u64,
    pub(super) physical_drops: u64,
    pub(super) inside: u64,
    /// Seconds on the CPU.
    pub(super) busy_s: f64,
    pub(super) wait_ns: u64,
}

impl Column {
    fn add(&mut self, second: &Self) {
        self.packets = self.packets.saturating_add(second.packets);
        self.late = self.late.saturating_add(second.late);
        self.p50 = self.p50.max(second.p50);
        self.p99 = self.p99.max(second.p99);
        self.max = self.max.max(second.max);
        self.physical_drops = self.physical_drops.saturating_add(second.physical_drops);
        self.inside = second.inside;
        self.busy_s += second.busy_s;
        self.wait_ns = self.wait_ns.saturating_add(second.wait_ns);
    }
}

/// One pipe's bytes by column.
#[derive(Debug, Clone)]
pub(super) struct PipeSeries {
    pub(super) name: String,
    pub(super) bytes: Vec<u64>,
}

/// All that charts are drawn from.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) grid: Grid,
    /// `None` where no second was reported.
    pub(super) seconds: Vec<Option<Column>>,
    /// The busiest pipes, busiest first; empty without their file.
    pub(super) pipes: Vec<PipeSeries>,
    /// What is missing, for the reader.
    pub(super) notes: Vec<String>,
}

impl Series {
    /// Reads what is there.
    pub(super) fn read(folder: &Path, summary: &Summary) -> Self {
        let grid = Grid::new(summary.simulated_s);
        let mut series = Self {
            grid,
            seconds: vec![None; grid.columns],
            pipes: Vec::new(),
            notes: Vec::new(),
        };
        let seconds = &mut series.seconds;
        let read = rows(folder, "series/seconds.csv", SECOND_FIELDS, |fields| {
            let Some((number, second)) = parse_second(fields) else {
                return false;
            };
            seconds[grid.column(number)]
                .get_or_insert_default()
                .add(&second);
            true
        });
        series.notes.extend(read.err());
        series.read_pipes(folder, summary);
        series
    }

    /// Reads the busiest pipes.
    fn read_pipes(&mut self, folder: &Path, summary: &Summary) {
        let grid = self.grid;
        let mut busiest: Vec<_> = summary.pipes.iter().filter(|pipe| pipe.counts.bytes > 0).collect();
        busiest.sort_by_key(|pipe| Reverse(pipe.counts.bytes));
        busiest.truncate(PIPES);
        let mut pipes: Vec<_> = busiest
            .iter()
            .map(|pipe| PipeSeries {
                name: pipe.name.clone(),
                bytes: vec![0; grid.columns],
            })
            .collect();
        let by_name: HashMap<&str, usize> = busiest
            .iter()
            .zip(0..)
            .map(|(pipe, index)| (pipe.name.as_str(), index))
            .collect();
        let read = rows(
            folder,
            "series/pipes.csv",
            ["second", "pipe", "bytes"],
            |fields| {
                let [second, pipe, bytes] = fields;
                let Some(&index) = by_name.get(pipe) else {
                    return true;
                };
                let (Ok(second), Ok(bytes)) = (second.parse(), bytes.parse()) else {
                    return false;
                };
                let sum: &mut u64 = &mut pipes[index].bytes[grid.column(second)];
                *sum = sum.saturating_add(bytes);
                true
            },
        );
        if pipes
            .iter()
            .any(|pipe| pipe.bytes.iter().any(|&bytes| bytes > 0))
        {
            self.pipes = pipes;
        }
        self.notes.extend(read.err());
    }
}

const SECOND_FIELDS: [&str; 10] = [
    "second",
    "packets",
    "late",
    "lateness_p50_ns",
    "lateness_p99_ns",
    "lateness_max_ns",
    "physical_drops",
    "inside",
    "core_wait_ns",
    "core_busy",
];

/// One row of `seconds.csv`.
fn parse_second(fields: [&str; 10]) -> Option<(u64, Column)> {
    let [whole @ .., busy] = fields;
    let mut numbers = [0; 9];
    for (number, field) in numbers.iter_mut().zip(whole) {
        *number = field.parse().ok()?;
    }
    let busy_s: f64 = busy.parse().ok()?;
    let [
        number,
        packets,
        late,
        p50,
        p99,
        max,
        physical_drops,
        inside,
        wait_ns,
    ] = numbers;
    let second = Column {
        packets,
        late,
        p50,
        p99,
        max,
        physical_drops,
        inside,
        busy_s,
        wait_ns,
    };
    (busy_s.is_finite() && busy_s >= 0.0).then_some((number, second))
}

/// Calls `each` with the named fields of every row of a CSV file without quotes; it says
/// whether it could make sense of them. An error is a note about what is missing.
fn rows<const N: usize>(
    folder: &Path,
    name: &str,
    fields: [&str; N],
    mut each: impl FnMut([&str; N]) -> bool,
) -> Result<(), String> {
    let unreadable = |reason: String| format!("{name} cannot be read: {reason}");
    let mut reader = open(&folder.join(name)).map_err(|e| unreadable(e.to_string()))?;
    let mut line = String::new();
    let mut next = |line: &mut String| -> Result<bool, String> {
        line.clear();
        let read = (&mut reader).take(LINE_MAX).read_line(line);
        Ok(read.map_err(|error| unreadable(error.to_string()))? > 0)
    };
    next(&mut line)?;
    let roles: Vec<Option<usize>> = line
        .trim_end()
        .split(',')
        .map(|column| fields.iter().position(|field| *field == column))
        .collect();
    if roles.iter().flatten().count() != N {
        return Err(unreadable("its first line is not as expected".to_owned()));
    }
    let (mut bytes, mut bad) = (line.len() as u64, 0);
    while next(&mut line)? {
        bytes += line.len() as u64;
        let (mut picked, mut columns) = ([""; N], 0);
        for (value, role) in line.trim_end().split(',').zip(&roles) {
            columns += 1;
            if let Some(role) = *role {
                picked[role] = value;
            }
        }
        bad += u64::from(columns != roles.len() || !line.ends_with('\n') || !each(picked));
        if bytes > FILE_MAX {
            let read = FILE_MAX >> 20;
            return Err(format!(
                "charts show only what the first {read} MiB of {name} hold"
            ));
        }
    }
    if bad > 0 {
        return Err(format!(
            "charts leave out {} of {name} that make no sense",
            of(bad, "line")
        ));
    }
    Ok(())
}

/// Opens a plain file: opening anything else, such as a FIFO, could block.
fn open(path: &Path) -> io::Result<BufReader<File>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    Ok(BufReader::with_capacity(256 << 10, File::open(path)?))
}
