//! Patterns of loss, and tables of measured delays.

use std::io::BufRead;
use std::sync::Arc;

use super::lines::{Lines, column};
use super::number::Decimal;
use super::{TraceFault, unreadable};
use crate::text::error::shown;

/// The most entries of a list.
const MOST: usize = 50_000_000;

/// The number of equal steps between the quantiles of a table.
const STEPS: usize = 4096;

/// A pattern of `0` and `1`. Not by lines: it may be one long one.
pub(super) fn pattern(mut input: impl BufRead) -> Result<Arc<[bool]>, TraceFault> {
    const HINT: &str = "write `0` for a packet that passes and `1` for one that is lost";
    let mut list = Vec::new();
    let (mut line, mut column) = (1, 0);
    loop {
        let part = input
            .fill_buf()
            .map_err(|error| unreadable(error).in_line(line))?;
        if part.is_empty() {
            break;
        }
        for &byte in part {
            column += 1;
            let fault = |message| {
                let fault = TraceFault::new(message, HINT);
                Err(fault.in_line(line).in_column(column))
            };
            match byte {
                b'0' | b'1' if list.len() == MOST => {
                    return fault(format!("the pattern has more than {MOST} characters"));
                }
                b'0' | b'1' => list.push(byte == b'1'),
                b'\n' => (line, column) = (line + 1, 0),
                b' ' | b'\t' | b'\r' => {}
                b'!'..=b'~' => {
                    return fault(format!("`{}` is neither 0 nor 1", char::from(byte)));
                }
                _ => return fault(format!("byte 0x{byte:02x} is neither 0 nor 1")),
            }
        }
        let used = part.len();
        input.consume(used);
    }
    if list.is_empty() {
        return Err(TraceFault::new("the pattern is empty", HINT));
    }
    Ok(list.into())
}

/// Quantiles of a table of delays, in nanoseconds.
pub(super) fn delays(input: impl BufRead) -> Result<Arc<[f64]>, TraceFault> {
    const HINT: &str = "write one delay in microseconds on each line, like `1234.5`";
    let mut lines = Lines::new(input);
    let mut list: Vec<u64> = Vec::new();
    let mut headed = false;
    while let Some(line) = lines.next_line()? {
        let text = line.trim_ascii();
        if text.is_empty() || text[0] == b'#' {
            continue;
        }
        if list.is_empty() && !headed && text == b"delay_us" {
            headed = true;
            continue;
        }
        let place = column(line, line.len() - line.trim_ascii_start().len());
        let why = match Decimal::parse(text).map(|number| number.shifted(3)) {
            Ok(Some(ns)) if list.len() < MOST => {
                list.push(ns);
                continue;
            }
            Ok(Some(_)) => {
                let message = format!("the table has more than {MOST} delays");
                return Err(lines.fault(message, "keep a random sample of them"));
            }
            Ok(None) => "is too large for a delay",
            Err(why) => why,
        };
        let message = format!("`{}` {why}", shown(&String::from_utf8_lossy(text)));
        return Err(lines.fault(message, HINT).in_column(place));
    }
    if list.is_empty() {
        return Err(TraceFault::new("the table is empty", HINT));
    }
    list.sort_unstable();
    Ok(quantiles(&list))
}

/// All values where they are few; otherwise the values at equal steps of rank, linear between
/// two neighbours.
fn quantiles(sorted: &[u64]) -> Arc<[f64]> {
    if sorted.len() <= STEPS + 1 {
        return sorted.iter().map(|&ns| ns as f64).collect();
    }
    let at = |step: usize| {
        let rank = step as u64 * (sorted.len() as u64 - 1);
        let (index, rest) = ((rank / STEPS as u64) as usize, rank % STEPS as u64);
        let low = sorted[index];
        let high = sorted.get(index + 1).copied().unwrap_or(low);
        low as f64 + (high - low) as f64 * (rest as f64 / STEPS as f64)
    };
    (0..=STEPS).map(at).collect()
}
