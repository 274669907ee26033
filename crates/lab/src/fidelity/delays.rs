//! Histograms of delays and their quantiles.

use hdrhistogram::Histogram;
use longhaul_core::Span;
use serde::{Deserialize, Serialize};

/// A histogram of nanoseconds, within 1 % of each value.
#[derive(Debug, Clone)]
pub struct Delays(Histogram<u64>);

impl Default for Delays {
    fn default() -> Self {
        // The bounds: a minute is far beyond any delay that leaves a run useful.
        Self(Histogram::new_with_bounds(1, 60_000_000_000, 2).expect("constant bounds are valid"))
    }
}

impl Delays {
    /// Counts one value; what lies beyond the bounds counts as the bound.
    #[inline]
    pub fn record(&mut self, span: Span) {
        self.0.saturating_record(span.as_ns());
    }

    /// Takes over all of `other` and empties it.
    pub fn absorb(&mut self, other: &mut Self) {
        self.0.add(&other.0).expect("histograms of the same bounds");
        other.0.reset();
    }

    /// The figures of `summary.json`.
    pub fn quantiles(&self) -> Quantiles {
        let at = |quantile: f64| {
            if self.0.is_empty() {
                0
            } else {
                self.0.value_at_quantile(quantile)
            }
        };
        Quantiles {
            p50: at(0.50),
            p90: at(0.90),
            p99: at(0.99),
            p999: at(0.999),
            max: self.0.max(),
        }
    }
}

/// Quantiles in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Quantiles {
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}
