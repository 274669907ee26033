//! Times and sizes of traffic that may be distributions: from what a person wrote to a [`Draw`].

use std::str::FromStr;

use longhaul_core::Span;
use longhaul_core::params::Distribution;
use longhaul_core::units::{Bytes, UnitError};

use crate::file::traffic::{DrawSpec, SpreadSpec, Varying};
use crate::file::wrap::{At, Either, Quantity};
use crate::flow_groups::Draw;
use crate::plan::pipe::only_one;
use crate::text::error::{Faults, Pos, shown};

/// The heaviest and the lightest tail: at an exponent of 1 there is no mean.
const SHAPES: std::ops::RangeInclusive<f64> = 1.001..=1000.0;

/// A quantity that is a whole number of nanoseconds or bytes.
pub(super) trait Whole: FromStr<Err = UnitError> {
    /// A value of it, and two, as examples.
    const EXAMPLES: [&str; 2];

    fn number(self) -> u64;
}

impl Whole for Span {
    const EXAMPLES: [&str; 2] = ["10 ms", "[5 ms, 50 ms]"];

    fn number(self) -> u64 {
        self.as_ns()
    }
}

impl Whole for Bytes {
    const EXAMPLES: [&str; 2] = ["10 kB", "[1 kB, 1 MB]"];

    fn number(self) -> u64 {
        self.0
    }
}

/// A distribution as it was asked for, its numbers read.
enum Asked<'a> {
    Uniform(Vec<Option<u64>>),
    Exponential(Option<u64>),
    Normal([Option<u64>; 2]),
    LogNormal([Option<u64>; 2]),
    Pareto(Option<u64>, &'a At<String>),
}

/// A quantity that may be zero.
pub(super) fn varying<T: Whole>(field: &Varying<T>, faults: &mut Faults) -> Option<Draw> {
    match field {
        Either::Short(quantity) => number(quantity, faults).map(Draw::Constant),
        Either::Long(spec) => spread(spec, faults),
    }
}

/// A quantity above zero; `name` is the field's.
pub(super) fn positive<T: Whole>(
    field: &Varying<T>,
    name: &str,
    faults: &mut Faults,
) -> Option<Draw> {
    let quantity = match field {
        Either::Short(quantity) => quantity,
        Either::Long(spec) => return spread(spec, faults),
    };
    let number = number(quantity, faults)?;
    if number == 0 {
        let message = format!("`{name}` cannot be zero");
        let hint = format!("write it like `{name}: {}`", T::EXAMPLES[0]);
        faults.add(quantity.at(), message, hint);
        return None;
    }
    Some(Draw::Constant(number))
}

/// A distribution.
pub(super) fn spread<T: Whole>(spec: &At<DrawSpec<T>>, faults: &mut Faults) -> Option<Draw> {
    let At { at, value: spec } = spec;
    let mut both = |spread: &At<SpreadSpec<T>>| {
        let SpreadSpec { mean, deviation } = &spread.value;
        [number(mean, faults), number(deviation, faults)]
    };
    let normal = spec.normal.as_ref().map(|s| (s.at, Asked::Normal(both(s))));
    let log_normal = spec.log_normal.as_ref();
    let log_normal = log_normal.map(|s| (s.at, Asked::LogNormal(both(s))));
    let uniform = spec.uniform.as_ref().map(|list| {
        let numbers = list.value.iter().map(|bound| number(bound, faults));
        (list.at, Asked::Uniform(numbers.collect()))
    });
    let exponential = spec.exponential.as_ref();
    let exponential = exponential.map(|mean| (mean.at(), Asked::Exponential(number(mean, faults))));
    let pareto = spec.pareto.as_ref().map(|At { at, value }| {
        (
            *at,
            Asked::Pareto(number(&value.mean, faults), &value.shape),
        )
    });
    let choices = vec![
        ("uniform", uniform),
        ("exponential", exponential),
        ("normal", normal),
        ("log_normal", log_normal),
        ("pareto", pareto),
    ];
    let (at, asked) = only_one(*at, choices, "distribution", faults)?;
    lower(at, asked, T::EXAMPLES, faults)
}

fn number<T: Whole>(quantity: &Quantity<T>, faults: &mut Faults) -> Option<u64> {
    quantity.get(faults).map(Whole::number)
}

/// The distribution that was asked for.
fn lower(at: Pos, asked: Asked<'_>, [one, two]: [&str; 2], faults: &mut Faults) -> Option<Draw> {
    let mut mean_of = |mean: Option<u64>| {
        let mean = mean?;
        if mean == 0 {
            let message = "a distribution needs a mean above zero";
            faults.add(at, message, format!("write a mean such as `{one}`"));
            return None;
        }
        Some(Span::from_ns(mean))
    };
    // The unit of a distribution is that of its parameters: here nanoseconds or bytes.
    let found = match asked {
        Asked::Uniform(bounds) => return uniform(at, &bounds, two, faults),
        Asked::Exponential(mean) => {
            return mean_of(mean).map(|mean| Draw::Exponential(mean.as_ns()));
        }
        Asked::Normal([mean, deviation]) => {
            Distribution::normal(mean_of(mean)?, Span::from_ns(deviation?))
        }
        Asked::LogNormal([mean, deviation]) => {
            Distribution::log_normal(Span::ZERO, mean_of(mean)?, Span::from_ns(deviation?))
        }
        Asked::Pareto(mean, shape) => {
            let mean = mean_of(mean)?.as_ns() as f64;
            let number: Option<f64> = shape.value.trim().parse().ok();
            let Some(exponent) = number.filter(|shape| SHAPES.contains(shape)) else {
                let message = format!(
                    "`{}` is not a valid `shape`: it must be a number above 1",
                    shown(&shape.value)
                );
                faults.add(shape.at, message, "write it like `shape: 1.2`");
                return None;
            };
            Ok(Distribution::Pareto {
                base: 0.0,
                // The mean of type I is scale·shape/(shape - 1).
                scale: mean * (exponent - 1.0) / exponent,
                shape: exponent,
            })
        }
    };
    let draw = found.map(Draw::Random).ok();
    if draw.is_none() {
        let message = "the deviation is too large for this mean";
        faults.add(at, message, "write a deviation of at most about the mean");
    }
    draw
}

fn uniform(at: Pos, bounds: &[Option<u64>], example: &str, faults: &mut Faults) -> Option<Draw> {
    let hint = format!("write them like `uniform: {example}`");
    let &[low, high] = bounds else {
        let message = format!("two bounds are needed, not {}", bounds.len());
        faults.add(at, message, hint);
        return None;
    };
    let (low, high) = (low?, high?);
    if low > high || high == 0 {
        faults.add(at, "the second bound must be above the first", hint);
        return None;
    }
    let (low, high) = (low as f64, high as f64);
    Some(Draw::Random(Distribution::Uniform { low, high }))
}
