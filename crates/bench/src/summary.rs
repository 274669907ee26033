//! Quantiles of a series of nanoseconds: exact while there are few, a histogram beyond.
//!
//! A quantile is the nearest rank: the smallest value that at least that share of the values
//! does not exceed. Beyond [`EXACT`] values the quantiles come from a histogram with four
//! significant digits, in which negative values count as zero and values over an hour as one
//! hour; count, minimum, maximum and mean stay exact.

use hdrhistogram::Histogram;
use serde::Serialize;

/// How many values are kept one by one.
const EXACT: usize = 4_000_000;
/// One hour: the top of the histogram.
const TOP_NS: u64 = 3_600_000_000_000;

/// A growing series of values.
#[derive(Default)]
pub(crate) struct Samples {
    values: Vec<i64>,
    /// Whatever came after the first [`EXACT`] values.
    rest: Option<Histogram<u32>>,
    count: u64,
    sum: i128,
    range: Option<(i64, i64)>,
}

/// The figures of a series of nanoseconds.
#[derive(Serialize)]
pub(crate) struct Summary {
    count: u64,
    /// Whether the quantiles are exact, or a histogram's.
    exact: bool,
    min: i64,
    p1: i64,
    p50: i64,
    p90: i64,
    p99: i64,
    p999: i64,
    max: i64,
    mean: f64,
}

impl Samples {
    /// Adds one value.
    pub(crate) fn push(&mut self, value: i64) {
        self.count += 1;
        self.sum += i128::from(value);
        let (low, high) = self.range.unwrap_or((value, value));
        self.range = Some((low.min(value), high.max(value)));
        if self.values.len() < EXACT {
            self.values.push(value);
        } else {
            self.rest
                .get_or_insert_with(histogram)
                .saturating_record(bucket_value(value));
        }
    }

    /// The figures, or `None` for an empty series.
    pub(crate) fn summary(mut self) -> Option<Summary> {
        let (min, max) = self.range?;
        let exact = self.rest.is_none();
        self.values.sort_unstable();
        if let Some(rest) = &mut self.rest {
            for &value in &self.values {
                rest.saturating_record(bucket_value(value));
            }
        }
        let quantile = |share: f64| match &self.rest {
            None => nearest_rank(&self.values, share),
            Some(rest) => {
                let value = rest.value_at_quantile(share);
                i64::try_from(value).unwrap_or(i64::MAX).clamp(min, max)
            }
        };
        Some(Summary {
            count: self.count,
            exact,
            min,
            p1: quantile(0.01),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max,
            mean: self.sum as f64 / self.count as f64,
        })
    }
}

fn histogram() -> Histogram<u32> {
    Histogram::new_with_bounds(1, TOP_NS, 4).expect("constant bounds are valid")
}

fn bucket_value(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// The value of rank ⌈share × n⌉ of a sorted, non-empty series.
fn nearest_rank(sorted: &[i64], share: f64) -> i64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_series_has_no_figures() {
        assert!(Samples::default().summary().is_none());
    }

    #[test]
    fn few_values_are_exact() {
        let mut samples = Samples::default();
        (1..=1000).rev().for_each(|value| samples.push(value));
        let s = samples.summary().unwrap();
        assert_eq!((s.count, s.exact, s.min, s.max), (1000, true, 1, 1000));
        assert_eq!(
            (s.p1, s.p50, s.p90, s.p99, s.p999),
            (10, 500, 900, 990, 999)
        );
        assert!((s.mean - 500.5).abs() < 1e-9);
    }

    #[test]
    fn a_single_negative_value_is_every_quantile() {
        let mut samples = Samples::default();
        samples.push(-5);
        let s = samples.summary().unwrap();
        assert_eq!((s.min, s.p1, s.p50, s.p999, s.max), (-5, -5, -5, -5, -5));
    }

    #[test]
    fn many_values_stay_close() {
        let mut samples = Samples::default();
        let n = EXACT as i64 + 1000;
        (0..n).for_each(|value| samples.push(value * 10));
        let s = samples.summary().unwrap();
        assert_eq!((s.count, s.exact), (n as u64, false));
        let ideal = n as f64 * 5.0;
        assert!((s.p50 as f64 / ideal - 1.0).abs() < 2e-4);
        assert_eq!((s.min, s.max), (0, (n - 1) * 10));
    }
}
