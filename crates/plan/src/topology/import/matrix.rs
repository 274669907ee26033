//! A square of times between all pairs of hosts, in milliseconds unless the option `unit` says
//! otherwise: row i, column j is the time from host i to host j. Numbers are between white
//! space, commas or semicolons.
//!
//! Each row becomes a host, and each pair of hosts is joined by a link of its own. With a router
//! at each row instead, routes over a third one would be shorter wherever the times break the
//! triangle inequality, as measured ones do for most hosts; hosts carry nothing for others, so
//! that each pair keeps the time that was measured. The price is that a host's links do not
//! share a rate.
//!
//! A round-trip time becomes half of it each way. Where only one of a pair's times is known (the
//! other is 0, negative or no number), it stands for both; where none is, the delay is
//! `default_delay`. Both are noted.

use longhaul_core::Span;

use super::options::{Hosts, HostsOn, ImportOptions, Times};
use super::text::{Flaw, Piece, Tally, lines, span};
use crate::limits::MAX_LINKS;
use crate::text::error::shown;
use crate::topology::{Names, Sketch, SketchLink, SketchPipe};

/// The most hosts whose links are no more than a topology may have.
const MAX_ROWS: usize = {
    let mut rows = 2;
    while (rows + 1) * rows / 2 <= MAX_LINKS {
        rows += 1;
    }
    rows
};

/// Separates the numbers of a row.
pub(super) fn separates(c: char) -> bool {
    c.is_whitespace() || c == ',' || c == ';'
}

/// Reads a matrix.
pub(super) fn read(text: &str, options: &ImportOptions) -> Result<Sketch, Flaw> {
    if options.hosts != Hosts::default() || options.hosts_on != HostsOn::default() {
        return Err(Flaw::whole(
            "the rows of a matrix are the hosts, and no others are added",
            "remove `hosts` and `hosts_on`",
        ));
    }
    let times = times(text, options)?;
    let mut sketch = Sketch {
        title: format!("{} hosts, all pairs", times.len()),
        ..Sketch::default()
    };
    let mut names = Names::default();
    let mut next = 0;
    for _ in 0..times.len() {
        sketch.add_host(names.numbered("h", &mut next));
    }
    link(&times, options, &mut sketch);
    Ok(sketch)
}

/// The known times; [`None`] is a missing one.
fn times(text: &str, options: &ImportOptions) -> Result<Vec<Vec<Option<Span>>>, Flaw> {
    let unit = options.unit.unwrap_or(Span::from_ms(1));
    let wanted = options.rows.map(|rows| rows.0);
    let mut rows: Vec<Vec<Option<Span>>> = Vec::new();
    let mut width = None;
    for line in lines(text) {
        let width = *width.get_or_insert_with(|| line.split(separates).count());
        let taken = wanted.unwrap_or(width);
        if taken > width || taken > MAX_ROWS || width < 2 {
            return Err(wrong_size(line, taken, width));
        }
        if rows.len() == taken {
            if wanted.is_some() {
                break;
            }
            return Err(line.flaw(
                format!("this row is one too many: the first row has {width} numbers"),
                "a matrix has as many rows as columns; `format` says if this is something else",
            ));
        }
        let (mut row, mut columns) = (Vec::with_capacity(taken), 0);
        for field in line.split(separates) {
            if columns < taken {
                row.push(time(field, unit)?);
            }
            columns += 1;
        }
        if columns != width {
            let message = format!("this row has {columns} numbers instead of {width}");
            let hint =
                "all rows must have the same length; the file may be cut off: fetch it again";
            return Err(line.flaw(message, hint));
        }
        rows.push(row);
    }
    let taken = wanted.or(width).unwrap_or(0);
    if rows.len() < taken || rows.is_empty() {
        let message = format!("the matrix ends after {} of {taken} rows", rows.len());
        let hint = "the file may be cut off: fetch it again, or set `rows`";
        return Err(Flaw::at(text.trim_end().len(), message, hint));
    }
    Ok(rows)
}

fn wrong_size(line: Piece<'_>, taken: usize, width: usize) -> Flaw {
    if taken > width {
        let message = format!("the matrix has only {width} columns");
        line.flaw(message, format!("write at most `rows: {width}`"))
    } else if width < 2 {
        let hint = "a matrix has a number for every pair; `format` says if this is something else";
        line.flaw("a row of one number", hint)
    } else {
        let message = format!("{taken} hosts have more than {MAX_LINKS} pairs");
        line.flaw(message, format!("write `rows: {MAX_ROWS}` or less"))
    }
}

fn time(field: Piece<'_>, unit: Span) -> Result<Option<Span>, Flaw> {
    let missing = ["-", "na", "nan", "null", "inf"];
    if missing
        .iter()
        .any(|word| field.text.eq_ignore_ascii_case(word))
    {
        return Ok(None);
    }
    let number = field.number("a time")?;
    if number <= 0.0 {
        return Ok(None);
    }
    let time = span(number, unit).ok_or_else(|| {
        let message = format!("`{}` is more than an hour", shown(field.text));
        field.flaw(message, "`unit` says what 1 means: `1 us`, for example")
    })?;
    Ok(Some(time))
}

fn link(times: &[Vec<Option<Span>>], options: &ImportOptions, sketch: &mut Sketch) {
    let (mut half, mut unknown) = (Tally::default(), Tally::default());
    for (a, row) in times.iter().enumerate() {
        for (b, there) in row.iter().enumerate().skip(a + 1) {
            let back = times[b][a];
            let known = there
                .or(back)
                .map(|time| [there.unwrap_or(time), back.unwrap_or(time)]);
            if known.is_none() {
                unknown.add(|| format!("h{a} – h{b}"));
            } else if there.is_none() || back.is_none() {
                half.add(|| format!("h{a} – h{b}"));
            }
            let delays = match (known, options.times) {
                (None, _) => [options.default_delay; 2],
                (Some(times), Times::OneWay) => times,
                (Some(times), Times::RoundTrip) => times.map(|t| Span::from_ns(t.as_ns() / 2)),
            };
            let [forward, back] = delays.map(|delay| SketchPipe {
                rate: options.rate,
                delay,
                ..SketchPipe::default()
            });
            sketch.links.push(SketchLink {
                ends: [a, b],
                forward,
                back: (back != forward).then_some(back),
                ..SketchLink::default()
            });
        }
    }
    let what = (
        "pair has a time only one way",
        "pairs have a time only one way",
    );
    sketch.notes.extend(half.note(what, "used for both"));
    let what = ("pair has no time", "pairs have no time");
    let rest = format!("the delay is {} (`default_delay`)", options.default_delay);
    sketch.notes.extend(unknown.note(what, rest));
}
