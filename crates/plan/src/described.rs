//! The parameters of a pipe in words, for `check`, `get` and the list of events.
//!
//! Fields have the names that they have in the file. Values read as there where that is exact;
//! distributions show their mean and their other parameters.

use std::fmt::Display;

use longhaul_core::params::{Discipline, Distribution, PipeParams, Which};
use longhaul_core::trace::Series;
use longhaul_core::units::{Probability, QueueLimit};

use crate::fields::FIELDS;
use crate::patch::Patch;

/// Every field with its value, in the order of the reference.
pub fn fields(params: &PipeParams) -> Vec<(&'static str, String)> {
    let shown = FIELDS
        .iter()
        .map(|field| (field.name, (field.show)(params)));
    shown.collect()
}

/// The fields that are not as they are by default.
pub fn unusual(params: &PipeParams) -> Vec<(&'static str, String)> {
    let usual = fields(&PipeParams::default());
    let all = fields(params).into_iter().zip(usual);
    all.filter(|(field, usual)| field != usual)
        .map(|(field, _)| field)
        .collect()
}

/// What a patch changes: `delay 50 ms, loss 1 %`.
pub fn patch(patch: &Patch) -> String {
    let params = patch.apply(&PipeParams::default());
    let changed = FIELDS.iter().filter(|field| (field.changes)(patch));
    let shown: Vec<String> = changed
        .map(|field| format!("{} {}", field.name, (field.show)(&params)))
        .collect();
    shown.join(", ")
}

pub(crate) fn or(value: Option<impl Display>, absent: &str) -> String {
    value.map_or(absent.to_owned(), |value| value.to_string())
}

/// A time in nanoseconds, to about four digits.
fn time(ns: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us")];
    let unit = units.into_iter().find(|(size, _)| ns >= *size);
    let (size, unit) = unit.unwrap_or((1.0, "ns"));
    let rounded = (ns / size * 1000.0).round() / 1000.0;
    format!("{rounded} {unit}")
}

pub(crate) fn delay(params: &PipeParams) -> String {
    let Some(jitter) = &params.jitter else {
        return params.delay.to_string();
    };
    let mean = jitter.distribution.mean();
    let moved = |base: f64| {
        if base > 0.0 {
            format!(" from {} on", time(base))
        } else {
            String::new()
        }
    };
    let spread = match &jitter.distribution {
        Distribution::Uniform { low, high } => {
            format!("uniform from {} to {}", time(*low), time(*high))
        }
        Distribution::Normal { mean, deviation } => {
            format!(
                "normal, mean {}, deviation {}",
                time(*mean),
                time(*deviation)
            )
        }
        Distribution::Pareto { base, shape, .. } => {
            format!(
                "Pareto{}, mean {}, shape {shape:.3}",
                moved(*base),
                time(mean)
            )
        }
        Distribution::LogNormal { base, sigma, .. } => {
            format!(
                "log-normal{}, mean {}, sigma {sigma:.3}",
                moved(*base),
                time(mean)
            )
        }
        Distribution::Gamma { base, shape, .. } => {
            format!(
                "gamma{}, mean {}, shape {shape:.3}",
                moved(*base),
                time(mean)
            )
        }
        Distribution::Empirical { quantiles } => {
            format!("a table of {}, mean {}", quantiles.len(), time(mean))
        }
    };
    let correlation = if jitter.correlation > 0.0 {
        format!(
            ", correlation {} %",
            (jitter.correlation * 1e4).round() / 100.0
        )
    } else {
        String::new()
    };
    let order = if jitter.reorder { ", reordering" } else { "" };
    format!("{spread}{correlation}{order}")
}

pub(crate) fn queue(limit: QueueLimit, discipline: &Discipline) -> String {
    let ecn = |ecn: bool| if ecn { ", ECN" } else { "" };
    let unit = |length: u64| match limit {
        QueueLimit::Packets(_) => format!("{length} packets"),
        QueueLimit::Bytes(_) => QueueLimit::Bytes(length).to_string(),
        QueueLimit::Time(_) => time(length as f64),
    };
    match discipline {
        Discipline::DropTail => limit.to_string(),
        Discipline::Red(red) => format!(
            "{limit}, RED from {} to {}, {}{}",
            unit(red.min),
            unit(red.max),
            red.probability,
            ecn(red.ecn)
        ),
        Discipline::CoDel(codel) => format!(
            "{limit}, CoDel, target {}, interval {}{}",
            codel.target,
            codel.interval,
            ecn(codel.ecn)
        ),
        Discipline::Pie(pie) => format!("{limit}, PIE, target {}{}", pie.target, ecn(pie.ecn)),
        Discipline::FqCodel(fq) => format!(
            "{limit}, FQ-CoDel, {} flows, target {}{}",
            fq.flows,
            fq.codel.target,
            ecn(fq.codel.ecn)
        ),
    }
}

pub(crate) fn errors(probability: Probability) -> String {
    // Stored probabilities are multiples of 2^-64; six digits restore the value that was written.
    let rounded = format!("{:.5e}", probability.as_f64());
    match rounded.parse::<f64>() {
        Ok(0.0) => "0".to_owned(),
        Ok(value) => format!("{value:e}"),
        Err(_) => rounded,
    }
}

pub(crate) fn reorder(params: &PipeParams) -> String {
    match params.reorder {
        None => "none".to_owned(),
        Some(reorder) => match reorder.which {
            Which::Random(probability) => format!("{probability} by {}", reorder.hold),
            Which::OneIn(n) => format!("one in {n} by {}", reorder.hold),
        },
    }
}

pub(crate) fn trace(params: &PipeParams) -> String {
    let Some(trace) = &params.trace else {
        return "none".to_owned();
    };
    let what = match &trace.series {
        Series::Samples { samples, .. } => format!("{} samples", samples.len()),
        Series::Opportunities { at, .. } => format!("{} opportunities", at.len()),
    };
    let again = match trace.period {
        Some(period) => format!(", over and over each {period}"),
        None => String::new(),
    };
    format!("{what}{again}")
}
