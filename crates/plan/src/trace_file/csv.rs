//! Traces in columns: `time_us` and any of `delay_us`, `rate_bps`, `loss`.
//!
//! Times count from the first row. An empty cell says that nothing was recorded at that time:
//! the last value holds, or, where the trace is interpolated, the line runs on to the next one
//! that was recorded. Before the first recorded value of a column the link's own holds.
//!
//! A trace that starts over does so one step after its last row, that step being the one
//! before it; so evenly spaced rows stay evenly spaced.

use std::io::BufRead;

use longhaul_core::time::Span;
use longhaul_core::trace::{Capacity, Sample, Series, Trace};
use longhaul_core::units::{Probability, Rate, between};

use super::lines::{Lines, column};
use super::number::Decimal;
use super::{TraceFault, TraceOptions};
use crate::text::error::{near_miss, shown};

/// The most rows, 56 bytes of memory each.
const MOST: usize = 20_000_000;

const NAMES: [&str; 4] = ["time_us", "delay_us", "rate_bps", "loss"];
const HEADER: &str =
    "begin with a line that names the columns: `time_us` and any of `delay_us`, `rate_bps`, `loss`";

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Time,
    Delay,
    Rate,
    Loss,
}

const COLUMNS: [Column; 4] = [Column::Time, Column::Delay, Column::Rate, Column::Loss];

/// A row as it is written.
#[derive(Debug, Clone, Copy)]
struct Row {
    time: Option<u64>,
    values: Sample,
}

/// A cell that cannot be read: what is wrong, and what to write.
type Wrong = (String, &'static str);

pub(super) fn parse(input: impl BufRead, options: &TraceOptions) -> Result<Trace, TraceFault> {
    let samples = rows(input, options.interpolate, MOST)?;
    // One row has no step: it holds for ever.
    let period = match samples.as_slice() {
        [.., before, last] if options.repeat => Some(last.at + last.at.saturating_sub(before.at)),
        _ => None,
    };
    Ok(Trace {
        series: Series::Samples {
            samples,
            interpolate: options.interpolate,
        },
        offset: options.offset,
        period,
    })
}

/// The rows of a file, at least one.
fn rows(input: impl BufRead, interpolate: bool, most: usize) -> Result<Vec<Sample>, TraceFault> {
    let mut lines = Lines::new(input);
    let columns = header(&mut lines)?;
    let mut filler = Filler::new(interpolate);
    let mut first = None;
    while let Some(line) = lines.next_line()? {
        if is_silent(line) {
            continue;
        }
        let row = match row(line, &columns) {
            Ok(row) => row,
            Err((place, (message, hint))) => {
                let place = place.map_or(0, |byte| column(line, byte));
                return Err(lines.fault(message, hint).in_column(place));
            }
        };
        let Some(time) = row.time else {
            return Err(lines.fault("this row has no time", "every row needs a `time_us`"));
        };
        let zero = *first.get_or_insert(time);
        let before = filler.samples.last().map(|sample| sample.at.as_ns() + zero);
        if before.is_some_and(|before| time <= before) {
            return Err(lines.fault(
                "the time in this row is not later than in the row before",
                "sort the rows by `time_us`, and keep one of those with the same time",
            ));
        }
        if filler.samples.len() == most {
            return Err(lines.fault(
                format!("the file has more than {most} rows"),
                "shorten it, or record at longer intervals",
            ));
        }
        filler.push(Sample {
            at: Span::from_ns(time - zero),
            ..row.values
        });
    }
    if filler.samples.is_empty() {
        return Err(lines.fault(
            "there are no rows below the header",
            "write one row of values on each line",
        ));
    }
    Ok(filler.finish())
}

/// Whether a line is blank or a comment.
pub(super) fn is_silent(line: &[u8]) -> bool {
    matches!(line.trim_ascii_start().first(), None | Some(b'#'))
}

/// The columns by the first line that is not silent.
fn header<R: BufRead>(lines: &mut Lines<R>) -> Result<Vec<Column>, TraceFault> {
    let line = loop {
        match lines.next_line()? {
            None => return Err(TraceFault::new("the file is empty", HEADER)),
            Some(line) if is_silent(line) => {}
            Some(line) => break line.to_vec(),
        }
    };
    let mut columns = Vec::new();
    for (place, cell) in cells(&line) {
        let fault = |message: String, hint: String| {
            Err(lines.fault(message, hint).in_column(column(&line, place)))
        };
        let name = String::from_utf8_lossy(cell);
        let Some(index) = NAMES.iter().position(|known| *known == name) else {
            let hint = match near_miss(&name, NAMES) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None if name.contains([';', '\t']) => "separate the columns by commas".to_owned(),
                None => HEADER.to_owned(),
            };
            return fault(
                format!("`{}` is not a column of a trace", shown(&name)),
                hint,
            );
        };
        if columns.contains(&COLUMNS[index]) {
            return fault(format!("a second column `{name}`"), "remove one".to_owned());
        }
        columns.push(COLUMNS[index]);
    }
    if !columns.contains(&Column::Time) {
        return Err(lines.fault("there is no column `time_us`", HEADER));
    }
    if columns.len() == 1 {
        return Err(lines.fault("there is no column besides the time", HEADER));
    }
    Ok(columns)
}

/// The cells of a line with their places, without the white space and quotes around them.
pub(super) fn cells(line: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut place = 0;
    line.split(|&byte| byte == b',').map(move |cell| {
        let start = place + (cell.len() - cell.trim_ascii_start().len());
        place += cell.len() + 1;
        let cell = cell.trim_ascii();
        let inner = cell.strip_prefix(b"\"").and_then(|c| c.strip_suffix(b"\""));
        (start, inner.unwrap_or(cell))
    })
}

/// Reads a row; what is wrong comes with the place of its cell.
fn row(line: &[u8], columns: &[Column]) -> Result<Row, (Option<usize>, Wrong)> {
    let mut row = Row {
        time: None,
        values: Sample {
            at: Span::ZERO,
            delay: None,
            rate: None,
            loss: None,
        },
    };
    let mut count = 0;
    for (place, cell) in cells(line) {
        let column = columns.get(count);
        count += 1;
        if let (Some(column), false) = (column, cell.is_empty()) {
            enter(&mut row, *column, cell).map_err(|wrong| (Some(place), wrong))?;
        }
    }
    if count != columns.len() {
        let message = format!("{count} cells where the header names {}", columns.len());
        let hint = "give every row as many cells as the header; decimals are written with a point, not a comma";
        return Err((None, (message, hint)));
    }
    Ok(row)
}

/// Reads one cell.
fn enter(row: &mut Row, column: Column, cell: &[u8]) -> Result<(), Wrong> {
    let wrong = |why: &str, hint| {
        let text = shown(&String::from_utf8_lossy(cell));
        (format!("`{text}` {why}"), hint)
    };
    let number = |cell: &[u8], hint| Decimal::parse(cell).map_err(|why| wrong(why, hint));
    match column {
        Column::Time | Column::Delay => {
            const HINT: &str = "write microseconds from 0 on, like `1234.5`";
            let ns = number(cell, HINT)?.shifted(3);
            let ns = ns.ok_or_else(|| wrong("is too large for a time", HINT))?;
            if column == Column::Time {
                row.time = Some(ns);
            } else {
                row.values.delay = Some(Span::from_ns(ns));
            }
        }
        Column::Rate => {
            const HINT: &str =
                "write bits per second, like `12500000`; `0` is an outage; or `unlimited`";
            if cell == b"unlimited" {
                row.values.rate = Some(Capacity::Unlimited);
                return Ok(());
            }
            let figure = number(cell, HINT)?;
            let bits = figure.shifted(0);
            let bits = bits.ok_or_else(|| wrong("is too large for a rate", HINT))?;
            if bits == 0 && !figure.is_zero() {
                return Err(wrong("is less than one bit per second", HINT));
            }
            row.values.rate = Some(capacity(bits));
        }
        Column::Loss => {
            const HINT: &str = "write a fraction from 0 to 1, like `0.01`, or per cent, like `1 %`";
            let (figure, places) = match cell.strip_suffix(b"%") {
                Some(figure) => (figure.trim_ascii_end(), 16),
                None => (cell, 18),
            };
            let parts = number(figure, HINT)?.shifted(places);
            let whole = 10u64.pow(18);
            let loss = parts.and_then(|parts| Probability::from_ratio(parts, whole));
            let loss = loss.ok_or_else(|| wrong("is more than 100 %", HINT))?;
            row.values.loss = Some(loss);
        }
    }
    Ok(())
}

/// A rate in bits per second; 0 is an outage.
fn capacity(bits: u64) -> Capacity {
    Rate::from_bits_per_s(bits).map_or(Capacity::Outage, Capacity::Limited)
}

/// Fills what was not recorded.
struct Filler {
    samples: Vec<Sample>,
    interpolate: bool,
    /// The last rows that recorded a delay, a rate, a loss.
    delay: Option<usize>,
    rate: Option<usize>,
    loss: Option<usize>,
}

impl Filler {
    fn new(interpolate: bool) -> Self {
        Self {
            samples: Vec::new(),
            interpolate,
            delay: None,
            rate: None,
            loss: None,
        }
    }

    /// Adds a row. What it does not record holds for now; what it does gives the rows since the
    /// last record their places on the line.
    fn push(&mut self, mut sample: Sample) {
        let here = self.samples.len();
        let recorded = (sample.delay, sample.rate, sample.loss);
        if let Some(before) = self.samples.last() {
            sample.delay = sample.delay.or(before.delay);
            sample.rate = sample.rate.or(before.rate);
            sample.loss = sample.loss.or(before.loss);
        }
        self.samples.push(sample);
        if recorded.0.is_some() {
            let last = self.delay.replace(here);
            self.line(last, |sample, from, to, part, whole| {
                if let (Some(from), Some(to)) = (from.delay, to.delay) {
                    let ns = between(from.as_ns(), to.as_ns(), part, whole);
                    sample.delay = Some(Span::from_ns(ns));
                }
            });
        }
        if recorded.1.is_some() {
            let last = self.rate.replace(here);
            self.line(last, |sample, from, to, part, whole| {
                let bits = (from.rate.and_then(bits_per_s), to.rate.and_then(bits_per_s));
                if let (Some(from), Some(to)) = bits {
                    sample.rate = Some(capacity(between(from, to, part, whole)));
                }
            });
        }
        if recorded.2.is_some() {
            let last = self.loss.replace(here);
            self.line(last, |sample, from, to, part, whole| {
                if let (Some(from), Some(to)) = (from.loss, to.loss) {
                    sample.loss = Some(from.towards(to, part, whole));
                }
            });
        }
    }

    /// Puts the rows between `last` and the newest on the line between these two.
    fn line(&mut self, last: Option<usize>, put: impl Fn(&mut Sample, Sample, Sample, u64, u64)) {
        let (Some(last), true) = (last, self.interpolate) else {
            return;
        };
        let newest = self.samples.len() - 1;
        let (from, to) = (self.samples[last], self.samples[newest]);
        let whole = to.at.saturating_sub(from.at).as_ns();
        for sample in &mut self.samples[last + 1..newest] {
            let part = sample.at.saturating_sub(from.at).as_ns();
            put(sample, from, to, part, whole);
        }
    }

    fn finish(mut self) -> Vec<Sample> {
        self.samples.shrink_to_fit();
        self.samples
    }
}

/// Bits per second; `None` is unlimited.
fn bits_per_s(capacity: Capacity) -> Option<u64> {
    match capacity {
        Capacity::Outage => Some(0),
        Capacity::Limited(rate) => Some(rate.bits_per_s()),
        Capacity::Unlimited => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_a_bound() {
        let text = "time_us,loss\n1,0\n2,0\n3,0\n";
        assert_eq!(rows(text.as_bytes(), false, 3).unwrap().len(), 3);
        let fault = rows(text.as_bytes(), false, 2).unwrap_err();
        assert_eq!(
            (fault.line, fault.message.as_str()),
            (4, "the file has more than 2 rows")
        );
    }
}
