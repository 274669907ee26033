//! A series brought down to columns of one width: least, mean and most of each figure of each thing.
//!
//! A [`Spec`] says which columns of a series name a thing (a pipe, a flow) and how each figure is taken
//! ([`Take`]). Rows are of bins of any width; one that reaches over several columns counts in each by its
//! share, so sums and means stay exact. What has no row did nothing: least values are then zero.
//!
//! **Bounds.** Memory and size follow from columns in which something happened, times figures; the caller
//! chooses how many columns there are. Of more things than a spec allows, those that did most are kept,
//! and the others counted.

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::document::{Grid, Lines, Track, Tracks};
use crate::measure::columns::{Declared, Role, Take};
use crate::measure::read::{Batch, Columns, Pool};

impl Take {
    /// Numbers that are kept of it.
    const fn slots(self) -> usize {
        match self {
            Self::Rate(_) | Self::Level => 3,
            Self::Sample => 4,
            Self::Weighted(_) => 2,
            Self::Sum | Self::Most | Self::Last => 1,
        }
    }

    /// Whether the number `slot` is a least value.
    const fn is_least(self, slot: usize) -> bool {
        matches!(self, Self::Rate(_) | Self::Level | Self::Sample) && slot == 1
    }
}

/// A figure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Metric {
    /// What the page calls it.
    pub(super) name: &'static str,
    /// The column of the series.
    pub(super) column: &'static str,
    pub(super) take: Take,
}

/// When a row is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Times {
    /// From the first column on, for as long as the second says; in nanoseconds.
    Bins(&'static str, &'static str),
    /// The second of this number.
    Seconds(&'static str),
    /// An instant in nanoseconds.
    Instants(&'static str),
}

impl Times {
    fn columns(self) -> Vec<&'static str> {
        match self {
            Self::Bins(start, width) => vec![start, width],
            Self::Seconds(column) | Self::Instants(column) => vec![column],
        }
    }

    /// How many columns these are.
    const fn count(self) -> usize {
        match self {
            Self::Bins(..) => 2,
            Self::Seconds(_) | Self::Instants(_) => 1,
        }
    }

    /// Start and width of a row.
    fn of(self, batch: &Batch, row: usize) -> (f64, f64) {
        let first = batch.numbers[0][row];
        match self {
            Self::Bins(..) => (first, batch.numbers[1][row]),
            Self::Seconds(_) => (first * 1e9, 1e9),
            Self::Instants(_) => (first, 0.0),
        }
    }
}

/// A series and what is taken of it.
#[derive(Debug)]
pub(super) struct Spec {
    /// What the page calls it.
    pub(super) name: &'static str,
    /// Its file or folder below `series/`.
    pub(super) file: &'static str,
    pub(super) times: Times,
    /// The columns that name a thing.
    pub(super) keys: Vec<&'static str>,
    pub(super) metrics: Vec<Metric>,
    /// The most things that are kept.
    pub(super) most: usize,
    /// The column whose sum says which things did most.
    pub(super) rank: &'static str,
}

impl Spec {
    /// The columns that name a thing.
    pub(super) fn keys_of(columns: Declared) -> Vec<&'static str> {
        let keys = columns.iter().filter(|column| column.role == Role::Key);
        keys.map(|column| column.name).collect()
    }

    /// The figures among columns.
    pub(super) fn metrics_of(columns: Declared) -> Vec<Metric> {
        let metrics = columns.iter().filter_map(|column| match column.role {
            Role::Figure(name, take) => Some(Metric {
                name,
                column: column.name,
                take,
            }),
            Role::Key | Role::Detail => None,
        });
        metrics.collect()
    }

    /// Numbers of a column.
    pub(super) fn stride(&self) -> usize {
        1 + self
            .metrics
            .iter()
            .map(|metric| metric.take.slots())
            .sum::<usize>()
    }

    /// The columns that are read: times, those of metrics, weights, and the rank.
    pub(super) fn numbers(&self) -> Vec<&'static str> {
        let mut columns = self.times.columns();
        columns.extend(self.metrics.iter().map(|metric| metric.column));
        columns.extend(self.metrics.iter().filter_map(|metric| match metric.take {
            Take::Weighted(by) => Some(by),
            _ => None,
        }));
        columns.push(self.rank);
        columns
    }

    pub(super) fn columns<'a>(&'a self, numbers: &'a [&'static str]) -> Columns<'a> {
        Columns {
            numbers,
            texts: &self.keys,
        }
    }

    /// The place of the first metric's column among the numbers; those of weights follow behind the last.
    pub(super) const fn first_metric(&self) -> usize {
        self.times.count()
    }

    pub(super) fn times_of(&self, batch: &Batch, row: usize) -> (f64, f64) {
        self.times.of(batch, row)
    }
}

/// A thing: what it did in columns in which it did anything.
#[derive(Debug, Default)]
struct Thing {
    columns: Vec<u32>,
    cells: Vec<f64>,
    rank: f64,
}

/// Rows as they are gathered.
pub(super) struct Rollup<'s> {
    spec: &'s Spec,
    grid: Grid,
    things: FxHashMap<Vec<u32>, Thing>,
    /// The narrowest and the widest row, in nanoseconds.
    pub(super) widths: (f64, f64),
    key: Vec<u32>,
}

impl<'s> Rollup<'s> {
    pub(super) fn new(spec: &'s Spec, grid: Grid) -> Self {
        Self {
            spec,
            grid,
            things: FxHashMap::default(),
            widths: (f64::INFINITY, 0.0),
            key: Vec::new(),
        }
    }

    /// Adds rows.
    pub(super) fn add(&mut self, batch: &Batch) {
        for row in 0..batch.rows {
            let (start, width) = self.spec.times.of(batch, row);
            if !(start >= 0.0 && width >= 0.0 && start < self.grid.end_ns as f64 + 1.0) {
                continue;
            }
            if !matches!(self.spec.times, Times::Instants(_)) {
                self.widths = (self.widths.0.min(width), self.widths.1.max(width));
            }
            // The last row may reach beyond the end of the run, where nothing was.
            let width = width.min((self.grid.end_ns as f64 - start).max(0.0));
            self.row(batch, row, (start, width));
        }
    }

    fn row(&mut self, batch: &Batch, row: usize, (start, width): (f64, f64)) {
        let spec = self.spec;
        self.key.clear();
        self.key
            .extend(batch.texts.iter().map(|column| column[row]));
        if !self.things.contains_key(&self.key) {
            self.things.insert(self.key.clone(), Thing::default());
        }
        let Some(thing) = self.things.get_mut(&self.key) else {
            return;
        };
        let rank = batch.numbers.last().map_or(0.0, |column| column[row]);
        thing.rank += if rank.is_nan() { 0.0 } else { rank };
        let step = self.grid.width_ns as f64;
        let last_column = self.grid.columns.saturating_sub(1);
        let column = |at: f64| ((at / step) as u32).min(last_column);
        let (first, last) = (column(start), column((start + width - 1.0).max(start)));
        for at in first..=last {
            let from = f64::from(at) * step;
            let to = if at == last_column {
                f64::INFINITY
            } else {
                from + step
            };
            let inside = (start + width).min(to) - start.max(from);
            let share = if width > 0.0 {
                (inside / width).clamp(0.0, 1.0)
            } else {
                1.0
            };
            let cell = thing.cell(at, spec);
            cell[0] += width * share;
            let mut slot = 1;
            let first = spec.first_metric();
            let mut weights = first + spec.metrics.len();
            for (number, metric) in spec.metrics.iter().enumerate() {
                let value = batch.numbers[first + number][row];
                let weight = match metric.take {
                    Take::Weighted(_) => {
                        weights += 1;
                        batch.numbers[weights - 1][row]
                    }
                    _ => 1.0,
                };
                let slots = metric.take.slots();
                if !value.is_nan() && !weight.is_nan() {
                    let cell = &mut cell[slot..slot + slots];
                    take(metric.take, cell, value, (weight, width, share));
                }
                slot += slots;
            }
        }
    }

    /// The result: the things that did most, by name; and the others' number.
    pub(super) fn finish(self, pool: &Pool) -> Tracks {
        let (spec, grid) = (self.spec, self.grid);
        let mut things: Vec<(Vec<u32>, Thing)> = self.things.into_iter().collect();
        let seen = things.len();
        things.sort_by(|(a, x), (b, y)| y.rank.total_cmp(&x.rank).then_with(|| a.cmp(b)));
        things.truncate(spec.most);
        let named = |(key, thing): (Vec<u32>, Thing)| {
            let names: Vec<String> = key.iter().map(|&text| pool.text(text).to_owned()).collect();
            thing.track(names, spec, &grid)
        };
        let (least, most) = self.widths;
        let width = |ns: f64| if ns.is_finite() { ns as u64 } else { 0 };
        Tracks {
            keys: spec.keys.iter().map(|key| (*key).to_owned()).collect(),
            grid,
            row_ns: [width(least), width(most)],
            seen,
            shown: things.into_iter().map(named).collect(),
            windows: Vec::new(),
            until_ns: None,
        }
    }
}

/// Adds a value to the numbers of a figure.
fn take(take: Take, cell: &mut [f64], value: f64, (weight, width, share): (f64, f64, f64)) {
    let mut bounds = |value: f64| {
        cell[1] = cell[1].min(value);
        cell[2] = cell[2].max(value);
    };
    match take {
        Take::Rate(factor) => {
            if width > 0.0 {
                bounds(value * factor * 1e9 / width);
            }
            cell[0] += value * factor * share;
        }
        Take::Level => {
            bounds(value);
            cell[0] += value * width * share;
        }
        Take::Sample => {
            bounds(value);
            cell[0] += value;
            cell[3] += 1.0;
        }
        Take::Weighted(_) => {
            cell[0] += value * weight * share;
            cell[1] += weight * share;
        }
        Take::Sum => cell[0] += value * share,
        Take::Most => cell[0] = cell[0].max(value),
        Take::Last => cell[0] = value,
    }
}

impl Thing {
    /// The numbers of a column.
    fn cell(&mut self, column: u32, spec: &Spec) -> &mut [f64] {
        let stride = spec.stride();
        let at = match self.columns.last() {
            Some(&last) if last == column => self.columns.len() - 1,
            Some(&last) if last > column => match self.columns.binary_search(&column) {
                Ok(at) => at,
                Err(at) => self.insert(at, column, spec),
            },
            _ => self.insert(self.columns.len(), column, spec),
        };
        &mut self.cells[at * stride..(at + 1) * stride]
    }

    fn insert(&mut self, at: usize, column: u32, spec: &Spec) -> usize {
        let mut cell = vec![0.0];
        for metric in &spec.metrics {
            let slots = 0..metric.take.slots();
            cell.extend(slots.map(|slot| {
                if metric.take.is_least(slot) {
                    f64::INFINITY
                } else {
                    0.0
                }
            }));
        }
        self.columns.insert(at, column);
        let from = at * spec.stride();
        self.cells.splice(from..from, cell);
        at
    }

    fn track(self, key: Vec<String>, spec: &Spec, grid: &Grid) -> Track {
        let stride = spec.stride();
        let rows = || self.columns.iter().zip(self.cells.chunks_exact(stride));
        let mut slot = 1;
        let mut lines = std::collections::BTreeMap::new();
        for metric in &spec.metrics {
            let line = rows().map(|(&column, cell)| {
                let span_ns = grid.span_ns(column);
                let is_covered = cell[0] >= 0.999 * span_ns;
                figures(metric.take, &cell[slot..], span_ns, is_covered)
            });
            if let Some(line) = Lines::of(line) {
                lines.insert(metric.name, line);
            }
            slot += metric.take.slots();
        }
        let is_dense = self.columns.len() as u32 == grid.columns;
        Track {
            key,
            columns: (!is_dense).then_some(self.columns),
            lines,
        }
    }
}

/// Least, mean and most of a figure; or the one that there is as its mean.
fn figures(take: Take, cell: &[f64], span_ns: f64, is_covered: bool) -> [Option<f64>; 3] {
    let least = |least: f64| {
        if is_covered {
            Some(least).filter(|least| least.is_finite())
        } else {
            Some(0.0)
        }
    };
    match take {
        Take::Rate(_) => {
            let mean = cell[0] * 1e9 / span_ns;
            // Of a single row both are the mean but for rounding.
            [
                least(cell[1].min(mean)),
                Some(mean),
                Some(cell[2].max(mean)),
            ]
        }
        Take::Level => {
            let mean = cell[0] / span_ns;
            [
                least(cell[1].min(mean)),
                Some(mean),
                Some(cell[2].max(mean)),
            ]
        }
        Take::Sample if cell[3] > 0.0 => [Some(cell[1]), Some(cell[0] / cell[3]), Some(cell[2])],
        Take::Weighted(_) if cell[1] > 0.0 => [None, Some(cell[0] / cell[1]), None],
        Take::Sample | Take::Weighted(_) => [None; 3],
        Take::Sum | Take::Most | Take::Last => [None, Some(cell[0]), None],
    }
}

/// A number in JSON, with as many digits as a chart needs and no more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Number(pub(super) f64);

impl Serialize for Number {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = self.0;
        if !value.is_finite() {
            return serializer.serialize_none();
        }
        // Five significant digits: charts show three.
        let digits = match value.abs() {
            0.0 => return serializer.serialize_u64(0),
            size => 4 - size.log10().floor() as i32,
        };
        let rounded = match digits {
            ..=0 => {
                let step = 10f64.powi(-digits);
                (value / step).round() * step
            }
            digits => {
                let step = 10f64.powi(digits.min(300));
                (value * step).round() / step
            }
        };
        if rounded.fract() == 0.0 && rounded.abs() < 9e15 {
            serializer.serialize_i64(rounded as i64)
        } else {
            serializer.serialize_f64(rounded)
        }
    }
}
