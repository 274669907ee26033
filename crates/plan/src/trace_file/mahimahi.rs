//! Traces of mahimahi (`mm-link`): one delivery opportunity per line, in whole milliseconds.
//!
//! What mahimahi refuses is refused here, too: empty files and lines, times that run backwards,
//! traces that last no time. A trace that starts over does so at its last time, as there.

use std::io::BufRead;

use longhaul_core::time::Span;
use longhaul_core::trace::{Series, Trace};

use super::lines::{Lines, column};
use super::{TraceFault, TraceOptions};
use crate::text::error::shown;

/// The bytes of IP that one opportunity carries: mahimahi's 1504 count 4 of its own device.
const BYTES: u32 = 1500;

/// The most opportunities, 8 bytes of memory each.
const MOST: usize = 50_000_000;

/// The longest trace: 31 years.
const LAST_MS: u64 = 1_000_000_000_000;

const HINT: &str = "write the time of one delivery in whole milliseconds on each line, like `12`";

pub(super) fn parse(input: impl BufRead, options: &TraceOptions) -> Result<Trace, TraceFault> {
    if options.interpolate {
        return Err(TraceFault::new(
            "delivery opportunities cannot be interpolated",
            "remove `interpolate`",
        ));
    }
    let at = times(input, MOST)?;
    let last = at[at.len() - 1];
    Ok(Trace {
        series: Series::Opportunities {
            at,
            bytes: options.framing.counted(BYTES),
        },
        offset: options.offset,
        period: options.repeat.then_some(last),
    })
}

/// The times of a file, at least one.
pub(super) fn times(input: impl BufRead, most: usize) -> Result<Vec<Span>, TraceFault> {
    let mut lines = Lines::new(input);
    let mut at: Vec<Span> = Vec::new();
    let mut last = 0;
    let mut blank = None;
    while let Some(line) = lines.next_line()? {
        let text = line.trim_ascii();
        if text.is_empty() {
            blank = blank.or(Some(lines.number));
            continue;
        }
        if let Some(number) = blank {
            return Err(TraceFault::new("this line is empty", HINT).in_line(number));
        }
        let Some(ms) = whole(text) else {
            let place = column(line, line.len() - line.trim_ascii_start().len());
            let message = format!("`{}` is not a time", shown(&String::from_utf8_lossy(text)));
            return Err(lines.fault(message, HINT).in_column(place));
        };
        if ms < last {
            return Err(lines.fault(
                format!("time goes backwards: {ms} ms after {last} ms"),
                "sort the lines by number: sort -n FILE",
            ));
        }
        if at.len() == most {
            return Err(lines.fault(
                format!("the file has more than {most} lines"),
                "shorten it: the trace starts over at its end",
            ));
        }
        last = ms;
        at.push(Span::from_ms(ms));
    }
    if at.is_empty() {
        return Err(TraceFault::new("the file is empty", HINT));
    }
    if last == 0 {
        return Err(lines.fault(
            "the trace has no duration: all its deliveries are at 0",
            "end it with a later delivery, at which it starts over",
        ));
    }
    at.shrink_to_fit();
    Ok(at)
}

/// A whole number of milliseconds that is not beyond all measure.
fn whole(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let ms: u64 = digits.then(|| text.parse().ok())??;
    (ms <= LAST_MS).then_some(ms)
}
