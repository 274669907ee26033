//! Delays: a time, or a distribution by its mean and deviation.

use std::sync::Arc;

use longhaul_core::Span;
use longhaul_core::params::{Distribution, Jitter, ParamError};

use super::{Context, only_one};
use crate::file::link::{DelaySpec, Spread};
use crate::file::wrap::{At, Either, Quantity};
use crate::text::error::{Faults, Pos};

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

pub(crate) fn read(
    spec: &Either<Quantity<Span>, At<DelaySpec>>,
    context: &Context<'_>,
    faults: &mut Faults,
) -> Option<Delay> {
    let At { at, value: spec } = match spec {
        Either::Short(delay) => return delay.get(faults).map(|delay| (delay, None)),
        Either::Long(spec) => spec.as_ref(),
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
        let message = "`base` applies to `pareto`, `log_normal` and `gamma` only";
        faults.add(at, message, "remove it: this distribution needs no offset");
        return None;
    }
    let base = match base {
        Some((_, base)) => base?,
        None => Span::ZERO,
    };
    let (place, distribution) = lower(&asked, base, context, faults)?;
    let jitter = distribution.map(|distribution| Jitter {
        distribution,
        correlation: 0.0,
        reorder: spec.reorder.unwrap_or(false),
    });
    let jitter = jitter.and_then(|jitter| jitter.validate().map(|()| jitter));
    let mut jitter = match jitter {
        Ok(jitter) => jitter,
        Err(ParamError { problem, remedy }) => {
            faults.add(place, problem, remedy);
            return None;
        }
    };
    if let Some(correlation) = correlation {
        jitter.correlation = correlation?.as_f64();
        if let Err(ParamError { problem, remedy }) = jitter.validate() {
            let place = spec.correlation.as_ref().map_or(*at, Quantity::at);
            faults.add(place, problem, remedy);
            return None;
        }
    }
    let mean = Span::from_ns(jitter.distribution.mean().max(0.0).round() as u64);
    Some((mean, Some(Arc::new(jitter))))
}

/// The distribution, `base` included, and its place; `None` where it cannot even be read.
fn lower(
    asked: &Asked<'_>,
    base: Span,
    context: &Context<'_>,
    faults: &mut Faults,
) -> Option<(Pos, Result<Distribution, ParamError>)> {
    let (at, spread) = match asked {
        Asked::Uniform(bounds) => {
            let [low, high] = bounds.value.as_slice() else {
                let message = format!("two times are needed, not {}", bounds.value.len());
                faults.add(
                    bounds.at,
                    message,
                    "write them like `uniform: [4 ms, 6 ms]`",
                );
                return None;
            };
            let (low, high) = (low.get(faults), high.get(faults));
            return Some((bounds.at, Distribution::uniform(low?, high?)));
        }
        Asked::Table(name) => {
            let quantiles = context.recordings.table(name, faults)?;
            return Some((name.at, Ok(Distribution::Empirical { quantiles })));
        }
        Asked::Normal(s) | Asked::Pareto(s) | Asked::LogNormal(s) | Asked::Gamma(s) => {
            (s.at, both(s, faults))
        }
    };
    let (mean, deviation) = spread?;
    let distribution = match asked {
        Asked::Pareto(_) => Distribution::pareto(base, mean, deviation),
        Asked::LogNormal(_) => Distribution::log_normal(base, mean, deviation),
        Asked::Gamma(_) => Distribution::gamma(base, mean, deviation),
        _ => Distribution::normal(mean, deviation),
    };
    Some((at, distribution))
}

/// Mean and deviation.
fn both(spread: &At<Spread>, faults: &mut Faults) -> Option<(Span, Span)> {
    let (mean, deviation) = (
        spread.value.mean.get(faults),
        spread.value.deviation.get(faults),
    );
    Some((mean?, deviation?))
}
