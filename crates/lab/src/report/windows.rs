//! Rows of full resolution: where packets were dropped or late, around events, and where the user asks.
//!
//! The coarse columns of a page show where something happened; a second pass over the series reads
//! the rows there. Windows share a budget of rows: those that the user names first, then the worst
//! columns, then events.

use std::collections::BTreeMap;
use std::path::Path;

use rustc_hash::FxHashMap;

use super::document::{Track, Tracks, Window};
use super::rollup::{Number, Spec};
use super::specs::alarms;
use crate::measure::columns::Take;
use crate::measure::read::{self, Pool};

/// Of how many things rows around events are kept.
const AT_EVENTS: usize = 8;

/// Where rows are wanted.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wanted {
    /// Which thing, by its place.
    pub(super) track: usize,
    pub(super) why: &'static str,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

/// What makes a window worth its rows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Interest<'a> {
    /// Windows that the user names, in nanoseconds.
    pub(super) named: &'a [(u64, u64)],
    /// When events happened.
    pub(super) events_ns: &'a [u64],
    /// Rows that windows may have, about.
    pub(super) rows: u64,
}

/// The windows that are worth their rows, of a series in columns.
pub(super) fn choose(series: &str, tracks: &Tracks, interest: &Interest<'_>) -> Vec<Wanted> {
    let row_ns = tracks.row_ns[0].max(1);
    let width_ns = tracks.grid.width_ns;
    if width_ns <= row_ns || tracks.row_ns[0] == 0 {
        return Vec::new(); // columns are rows already
    }
    let mut wanted = Vec::new();
    let mut rows_left = interest.rows;
    let mut add = |track, why, (from_ns, to_ns): (u64, u64)| {
        let rows = (to_ns - from_ns) / row_ns + 1;
        let fits = rows <= rows_left;
        if fits {
            rows_left -= rows;
            wanted.push(Wanted {
                track,
                why,
                from_ns,
                to_ns,
            });
        }
        fits
    };
    let end_ns = tracks.grid.end_ns;
    for &(from_ns, to_ns) in interest.named {
        // Whole columns: rows take their place.
        let from_ns = (from_ns / width_ns * width_ns).min(end_ns);
        let to_ns = (to_ns.div_ceil(width_ns).saturating_mul(width_ns)).clamp(from_ns, end_ns);
        for track in 0..tracks.shown.len() {
            add(track, "asked", (from_ns, to_ns));
        }
    }
    let around = |column: u64| {
        let from = column.saturating_sub(1) * width_ns;
        (
            from,
            ((column + 2) * width_ns).min(tracks.grid.end_ns).max(from),
        )
    };
    let mut worst: Vec<(f64, usize, u32)> = Vec::new();
    for (number, track) in tracks.shown.iter().enumerate() {
        worst.extend(sizes(track, alarms(series)).map(|(column, size)| (size, number, column)));
    }
    worst.sort_by(|a, b| {
        b.0.total_cmp(&a.0)
            .then_with(|| (a.1, a.2).cmp(&(b.1, b.2)))
    });
    let why = if series == "core" { "late" } else { "drops" };
    for (_, track, column) in worst {
        if !add(track, why, around(column.into())) {
            break;
        }
    }
    for &event in interest.events_ns {
        for track in 0..tracks.shown.len().min(AT_EVENTS) {
            add(track, "event", around(event / width_ns));
        }
    }
    merged(wanted)
}

/// Columns of a thing in which any of these figures is not zero, and how large they are.
fn sizes<'a>(track: &'a Track, names: &'a [&str]) -> impl Iterator<Item = (u32, f64)> + 'a {
    let lines: Vec<_> = names
        .iter()
        .filter_map(|name| track.lines.get(name))
        .collect();
    let columns = lines.first().map_or(0, |line| line.mean.len());
    (0..columns).filter_map(move |at| {
        let size = lines
            .iter()
            .map(|line| line.mean[at].0.max(0.0))
            .sum::<f64>();
        let column = track
            .columns
            .as_ref()
            .map_or(at as u32, |columns| columns[at]);
        (size > 0.0).then_some((column, size))
    })
}

/// Windows of the same thing that touch become one.
fn merged(mut wanted: Vec<Wanted>) -> Vec<Wanted> {
    wanted.sort_by_key(|window| (window.track, window.from_ns));
    let mut merged: Vec<Wanted> = Vec::with_capacity(wanted.len());
    for window in wanted {
        match merged.last_mut() {
            Some(last) if last.track == window.track && window.from_ns <= last.to_ns => {
                last.to_ns = last.to_ns.max(window.to_ns);
            }
            _ => merged.push(window),
        }
    }
    merged
}

/// Reads the rows of windows, which are in the order of their tracks and do not overlap; each ends with the
/// row that there is no room for any more.
pub(super) fn collect(
    run: &Path,
    spec: &Spec,
    keys: &[&[String]],
    wanted: &[Wanted],
    rows_max: usize,
) -> Vec<Window> {
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut pool = Pool::default();
    let mut by_key: FxHashMap<Vec<u32>, std::ops::Range<usize>> = FxHashMap::default();
    for (number, key) in keys.iter().enumerate() {
        let first = wanted.partition_point(|window| window.track < number);
        let end = wanted.partition_point(|window| window.track <= number);
        if first < end {
            let key = key.iter().map(|text| pool.number(text)).collect();
            by_key.insert(key, first..end);
        }
    }
    let mut windows: Vec<Window> = wanted.iter().map(|wanted| window(wanted, spec)).collect();
    let numbers = spec.numbers();
    let columns = spec.columns(&numbers);
    let last_ns = wanted.iter().map(|window| window.to_ns).max().unwrap_or(0) as f64;
    let (mut rows_left, mut key) = (rows_max, Vec::new());
    read::read(run, spec.file, &columns, &mut pool, u64::MAX, |batch, _| {
        let mut least = f64::INFINITY;
        for row in 0..batch.rows {
            let (start, width) = spec.times_of(batch, row);
            least = least.min(start);
            key.clear();
            key.extend(batch.texts.iter().map(|column| column[row]));
            let Some(range) = by_key.get(&key) else {
                continue;
            };
            let inside = |window: &&mut Window| {
                start < window.to_ns as f64 && start + width > window.from_ns as f64
            };
            for window in windows[range.clone()].iter_mut().filter(inside) {
                if rows_left == 0 {
                    return false;
                }
                rows_left -= 1;
                add(window, spec, (start, width), |column| {
                    batch.numbers[column][row]
                });
            }
        }
        // Parts are in the order of time.
        least <= last_ns
    });
    windows.retain(|window| !window.rows["start_ns"].is_empty());
    windows
}

fn window(wanted: &Wanted, spec: &Spec) -> Window {
    let names = spec.metrics.iter().map(|metric| metric.name);
    let names = ["start_ns", "width_ns"].into_iter().chain(names);
    Window {
        track: wanted.track,
        why: wanted.why,
        from_ns: wanted.from_ns,
        to_ns: wanted.to_ns,
        rows: names
            .map(|name| (name, Vec::new()))
            .collect::<BTreeMap<_, _>>(),
    }
}

fn add(window: &mut Window, spec: &Spec, (start, width): (f64, f64), value: impl Fn(usize) -> f64) {
    let first = spec.first_metric();
    let mut put = |name: &str, value: f64| {
        if let Some(column) = window.rows.get_mut(name) {
            column.push(Number(value));
        }
    };
    put("start_ns", start);
    put("width_ns", width);
    for (number, metric) in spec.metrics.iter().enumerate() {
        let value = value(first + number);
        put(
            metric.name,
            match metric.take {
                Take::Rate(factor) if width > 0.0 => value * factor * 1e9 / width,
                _ => value,
            },
        );
    }
}
