//! Ramps: a parameter that goes from one value to another in a straight line.

use std::sync::Arc;

use longhaul_core::Span;
use longhaul_core::params::{LossModel, PipeParams};
use longhaul_core::units::{Probability, Rate};

use crate::patch::Patch;

/// Values that pipes approach in a straight line.
#[derive(Debug, Clone, PartialEq)]
pub struct Ramp {
    /// The values at the end: a rate, a constant delay, an independent loss and other
    /// probabilities. Other fields take effect at the end.
    pub to: Arc<Patch>,
    /// How long it takes; above zero.
    pub over: Span,
    /// How often the values change; above zero.
    pub step: Span,
}

impl Ramp {
    /// The values at `passed` after the ramp's beginning, of a pipe that began as `from`.
    pub fn at(&self, passed: Span, from: &PipeParams) -> Arc<Patch> {
        if passed >= self.over {
            return Arc::clone(&self.to);
        }
        let line = Line {
            passed: passed.as_ns(),
            over: self.over.as_ns(),
        };
        Arc::new(self.to.between(line, from))
    }
}

/// How far a line has come.
#[derive(Clone, Copy)]
pub(crate) struct Line {
    passed: u64,
    over: u64,
}

impl Line {
    /// The value between two others, rounded towards the first.
    fn between(self, from: u64, to: u64) -> u64 {
        let part = |difference: u64| {
            let part = u128::from(difference) * u128::from(self.passed) / u128::from(self.over);
            part as u64
        };
        if to >= from {
            from + part(to - from)
        } else {
            from - part(from - to)
        }
    }

    /// The same for times.
    pub(crate) fn span(self, from: Span, to: Span) -> Span {
        Span::from_ns(self.between(from.as_ns(), to.as_ns()))
    }

    /// The same for rates; from an unlimited rate, the final one at once.
    pub(crate) fn rate(self, from: Option<Rate>, to: Option<Rate>) -> Option<Rate> {
        match (from, to) {
            (Some(from), Some(to)) => {
                Rate::from_bits_per_s(self.between(from.bits_per_s(), to.bits_per_s()))
            }
            (_, to) => to,
        }
    }

    /// The same for probabilities.
    pub(crate) fn probability(self, from: Probability, to: Probability) -> Probability {
        let share = self.passed as f64 / self.over as f64;
        let value = from.as_f64() + (to.as_f64() - from.as_f64()) * share;
        Probability::from_f64(value.clamp(0.0, 1.0)).unwrap_or(to)
    }

    /// The same for losses that are numbers; from any other model, the final one at once.
    pub(crate) fn loss(self, from: &LossModel, to: &LossModel) -> LossModel {
        match (from, to) {
            (LossModel::Independent(from), LossModel::Independent(to)) => {
                LossModel::Independent(self.probability(*from, *to))
            }
            (_, to) => to.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ramp_is_a_straight_line_between_its_ends() {
        let ramp = Ramp {
            to: Arc::new(Patch {
                rate: Some(Rate::from_bits_per_s(1_000_000)),
                delay: Some((Span::from_ms(30), None)),
                loss: Some(LossModel::Independent("50 %".parse().unwrap())),
                ..Patch::default()
            }),
            over: Span::from_s(4),
            step: Span::from_ms(10),
        };
        let from = PipeParams {
            rate: Rate::from_bits_per_s(9_000_000),
            delay: Span::from_ms(10),
            ..PipeParams::default()
        };
        let at = |ms| ramp.at(Span::from_ms(ms), &from).apply(&from);
        assert_eq!(at(0), from);
        assert_eq!(at(1000).rate, Rate::from_bits_per_s(7_000_000));
        assert_eq!(at(1000).delay, Span::from_ms(15));
        assert_eq!(at(1000).loss.mean(), 0.125);
        assert_eq!(at(4000), ramp.to.apply(&from));
        assert_eq!(at(9000), ramp.to.apply(&from));
    }

    #[test]
    fn what_has_no_value_takes_the_last_one_at_once() {
        let ramp = Ramp {
            to: Arc::new(Patch {
                rate: Some(Rate::from_bits_per_s(1_000_000)),
                ..Patch::default()
            }),
            over: Span::from_s(4),
            step: Span::from_ms(10),
        };
        let halfway = ramp.at(Span::from_s(2), &PipeParams::default());
        assert_eq!(halfway.rate, Some(Rate::from_bits_per_s(1_000_000)));
    }
}
