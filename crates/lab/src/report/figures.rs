//! The charts of the report.

use super::chart::{Axis, Chart, Line};
use super::series::{Column, Series};
use super::text::{count, escape, nanoseconds, percent, si};
use crate::summary::Summary;

/// All charts that there is something to draw for, and notes on what is missing.
pub(super) fn charts(summary: &Summary, series: &Series) -> String {
    let mut html = "<section>\n<h2>Over time</h2>\n".to_owned();
    let grid = &series.grid;
    if series.seconds.iter().any(Option::is_some) {
        if summary.verdict.lateness_ns.is_some() {
            html += &lateness(summary, series).render(grid);
        }
        html += &packets(series).render(grid);
    }
    if !series.pipes.is_empty() {
        html += &throughput(series).render(grid);
    }
    let has_clock = summary.verdict.lateness_ns.is_some();
    if has_clock && series.seconds.iter().any(Option::is_some) {
        html += &busy(series).render(grid);
    }
    if grid.width > 1 {
        let width = grid.width;
        html += &format!(
            "<p>Each point stands for {width} s: for lateness the worst second of them, else \
             their mean.</p>\n"
        );
    }
    for note in &series.notes {
        html += &format!("<p>{}</p>\n", escape(note));
    }
    html + "</section>\n"
}

fn line(series: &Series, name: &str, value: impl Fn(usize, &Column) -> f64) -> Line {
    let values = series.seconds.iter().enumerate();
    let values = values.map(|(index, column)| column.as_ref().map(|column| value(index, column)));
    Line {
        name: name.to_owned(),
        values: values.collect(),
    }
}

/// A tooltip per column: its time, and what `tell` says.
fn tips(series: &Series, tell: impl Fn(usize, &Column) -> String) -> Vec<String> {
    let tip = |(index, column): (usize, &Option<Column>)| {
        let told = column
            .as_ref()
            .map_or("not reported".to_owned(), |column| tell(index, column));
        format!("{}\n{told}", time(series, index))
    };
    series.seconds.iter().enumerate().map(tip).collect()
}

fn time(series: &Series, index: usize) -> String {
    let (start, end) = series.grid.span(index);
    format!("{start:.0} s to {} s", (end * 10.0).round() / 10.0)
}

fn lateness<'a>(summary: &Summary, series: &Series) -> Chart<'a> {
    let tolerance = summary.verdict.tolerance_ns;
    Chart {
        title: "Lateness",
        axis: Axis::Log,
        label: decade,
        lines: vec![
            line(series, "p50", |_, column| column.p50 as f64),
            line(series, "p99", |_, column| column.p99 as f64),
            line(series, "max", |_, column| column.max as f64),
        ],
        mark: Some((
            tolerance as f64,
            format!("tolerance {}", nanoseconds(tolerance)),
        )),
        tips: tips(series, |_, column| {
            let Column {
                p50,
                p99,
                max,
                late,
                packets,
                physical_drops,
                ..
            } = *column;
            format!(
                "p50 {}\np99 {}\nmax {}\nlate: {} of {}\nlost by the machine: {}",
                nanoseconds(p50),
                nanoseconds(p99),
                nanoseconds(max),
                count(late),
                count(packets),
                count(physical_drops),
            )
        }),
    }
}

/// A power of ten of nanoseconds.
fn decade(ns: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us")];
    let (factor, unit) = units
        .into_iter()
        .find(|(f, _)| ns >= *f)
        .unwrap_or((1.0, "ns"));
    format!("{} {unit}", ns / factor)
}

fn packets<'a>(series: &Series) -> Chart<'a> {
    let rate = |index: usize, column: &Column| series.grid.rate(index, column.packets as f64);
    Chart {
        title: "Packets to hosts per second",
        axis: Axis::Linear(None),
        label: |value| si(value, ""),
        lines: vec![line(series, "packets", rate)],
        mark: None,
        tips: tips(series, |index, column| {
            let (rate, inside) = (si(rate(index, column), ""), count(column.inside));
            format!("{rate} packets per second\ninside at the end: {inside}")
        }),
    }
}

fn throughput<'a>(series: &Series) -> Chart<'a> {
    let bits = |index: usize, bytes: u64| series.grid.rate(index, bytes as f64 * 8.0);
    let lines = series.pipes.iter().map(|pipe| {
        let values = pipe
            .bytes
            .iter()
            .enumerate()
            .map(|(index, &bytes)| Some(bits(index, bytes)));
        Line {
            name: pipe.name.clone(),
            values: values.collect(),
        }
    });
    let tip = |index: usize| {
        let pipe = |pipe: &super::series::PipeSeries| {
            format!(
                "\n{} {}",
                pipe.name,
                si(bits(index, pipe.bytes[index]), "bit/s")
            )
        };
        let pipes: String = series.pipes.iter().map(pipe).collect();
        time(series, index) + &pipes
    };
    Chart {
        title: "Throughput of the busiest pipes",
        axis: Axis::Linear(None),
        label: |value| si(value, "bit/s"),
        lines: lines.collect(),
        mark: None,
        tips: (0..series.grid.columns).map(tip).collect(),
    }
}

fn busy<'a>(series: &Series) -> Chart<'a> {
    let busy = |index: usize, column: &Column| series.grid.rate(index, column.busy_s).min(1.0);
    Chart {
        title: "Core busy",
        axis: Axis::Linear(Some(1.0)),
        label: |value| format!("{:.0} %", value * 100.0),
        lines: vec![line(series, "busy", busy)],
        mark: None,
        tips: tips(series, |index, column| {
            let wait = nanoseconds(column.wait_ns);
            format!(
                "busy {}\nwaited {wait} for its CPU",
                percent(busy(index, column))
            )
        }),
    }
}
