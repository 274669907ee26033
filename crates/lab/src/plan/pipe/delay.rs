//! Delays: a time, or a distribution by its mean and deviation.

use std::sync::Arc;

use longhaul_core::Span;
use longhaul_core::params::{Distribution, Jitter};

use super::{Context, only_one};
use crate::file::error::Faults;
use crate::file::link::{DelaySpec, Spread};
use crate::file::wrap::{At, Either, Quantity};

/// The mean delay and how it is spread.
type Delay = (Span, Option<Arc<Jitter>>);

/// Which distribution is asked for.
enum Asked<'a> {
    Uniform(&'a At<Vec<Quantity<Span>>>),
    Normal(&'a At<Spread>),
    Pareto(&'a At<Spread>),
    LogNormal(&'a At<Spread>),
    Gamma(&'a At<Spread>),
    Table(&'a At<String>),
}

pub(super) fn read(
    spec: &Either<Quantity<Span>, At<DelaySpec>>,
    context: &Context<'_>,
    faults: &mut Faults,
) -> Option<Delay> {
    let At { at, value: spec } = match spec {
        Either::Short(delay) => return delay.get(faults).map(|delay| (delay, None)),
        Either::Long(spec) => spec,
    };
    let asked = only_one(
        *at,
        vec![
            ("uniform", spec.uniform.as_ref().map(Asked::Uniform)),
            ("normal", spec.normal.as_ref().map(Asked::Normal)),
            ("pareto", spec.pareto.as_ref().map(Asked::Pareto)),
            ("log_normal", spec.log_normal.as_ref().map(Asked::LogNormal)),
            ("gamma", spec.gamma.as_ref().map(Asked::Gamma)),
            ("table", spec.table.as_ref().map(Asked::Table)),
        ],
        "distribution",
        faults,
    );
    let base = spec.base.as_ref().map(|base| (base.at(), base.get(faults)));
    let correlation = spec.correlation.as_ref().map(|c| c.get(faults));
    let asked = asked?;
    let moved = matches!(
        asked,
        Asked::Pareto(_) | Asked::LogNormal(_) | Asked::Gamma(_)
    );
    if let (Some((at, _)), false) = (base, moved) {
        let message = "`base` goes with `pareto`, `log_normal` and `gamma` only";
        faults.add(at, message, "remove it: the distribution says where it lies");
        return None;
    }
    let base = match base {
        Some((_, base)) => base?.as_ns() as f64,
        None => 0.0,
    };
    let (mean, distribution) = lower(&asked, base, context, faults)?;
    let jitter = Jitter {
        distribution,
        correlation: match correlation {
            Some(correlation) => correlation?.as_f64(),
            None => 0.0,
        },
        reorder: spec.reorder.unwrap_or(false),
    };
    Some((mean, Some(Arc::new(jitter))))
}

/// The mean and the distribution, `base` included.
fn lower(
    asked: &Asked<'_>,
    base: f64,
    context: &Context<'_>,
    faults: &mut Faults,
) -> Option<(Span, Distribution)> {
    let (at, distribution) = match asked {
        Asked::Uniform(bounds) => (bounds.at, Ok(uniform(bounds, faults)?)),
        Asked::Table(name) => {
            let quantiles = context.recordings.table(name, faults)?;
            (name.at, Ok(Distribution::Empirical { quantiles }))
        }
        Asked::Normal(s) => {
            let (mean, deviation) = both(s, faults)?;
            (s.at, Distribution::normal(mean, deviation))
        }
        Asked::Pareto(s) => {
            let (mean, deviation) = both(s, faults)?;
            (s.at, Distribution::pareto(base, mean, deviation))
        }
        Asked::LogNormal(s) => {
            let (mean, deviation) = both(s, faults)?;
            (s.at, Distribution::log_normal(base, mean, deviation))
        }
        Asked::Gamma(s) => {
            let (mean, deviation) = both(s, faults)?;
            (s.at, Distribution::gamma(base, mean, deviation))
        }
    };
    match distribution.and_then(|d| d.validate().map(|()| d)) {
        Ok(distribution) => {
            let mean = Span::from_ns(distribution.mean().max(0.0).round() as u64);
            Some((mean, distribution))
        }
        Err(error) => {
            faults.add(
                at,
                format!("no such distribution is possible: {error}"),
                "write it like `{ mean: 5 ms, deviation: 1 ms }`",
            );
            None
        }
    }
}

fn uniform(bounds: &At<Vec<Quantity<Span>>>, faults: &mut Faults) -> Option<Distribution> {
    const HINT: &str = "write it like `uniform: [4 ms, 6 ms]`";
    let [low, high] = bounds.value.as_slice() else {
        let message = format!("two times are needed, and here are {}", bounds.value.len());
        faults.add(bounds.at, message, HINT);
        return None;
    };
    let (low, high) = (low.get(faults), high.get(faults));
    let (low, high) = (low?, high?);
    if low > high {
        let message = format!("from {low} to {high} is backwards");
        faults.add(bounds.at, message, HINT);
        return None;
    }
    Some(Distribution::Uniform {
        low: low.as_ns() as f64,
        high: high.as_ns() as f64,
    })
}

/// Mean and deviation in nanoseconds.
fn both(spread: &At<Spread>, faults: &mut Faults) -> Option<(f64, f64)> {
    let (mean, deviation) = (
        spread.value.mean.get(faults),
        spread.value.deviation.get(faults),
    );
    Some((mean?.as_ns() as f64, deviation?.as_ns() as f64))
}
