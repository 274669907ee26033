//! Loss: a probability, or a model.

use longhaul_core::params::{LossModel, ParamError};
use longhaul_core::units::Probability;

use super::{Context, one_in, only_one};
use crate::file::link::{GilbertElliottSpec, LossSpec};
use crate::file::wrap::{At, Either, Quantity};
use crate::text::error::{Faults, shown};

/// Which model is asked for.
enum Asked<'a> {
    OneIn(&'a At<u32>),
    Rate(&'a Quantity<Probability>),
    GilbertElliott(&'a At<GilbertElliottSpec>),
    Pattern(&'a At<String>),
}

pub(crate) fn read(
    spec: &Either<Quantity<Probability>, At<LossSpec>>,
    context: &Context<'_>,
    faults: &mut Faults,
) -> Option<LossModel> {
    let At { at, value: spec } = match spec {
        Either::Short(loss) => return loss.get(faults).map(LossModel::Independent),
        Either::Long(spec) => spec.as_ref(),
    };
    let elliott = spec.gilbert_elliott.as_ref();
    let asked = only_one(
        *at,
        vec![
            ("one_in", spec.one_in.as_ref().map(Asked::OneIn)),
            ("rate", spec.rate.as_ref().map(Asked::Rate)),
            ("gilbert_elliott", elliott.map(Asked::GilbertElliott)),
            ("pattern", spec.pattern.as_ref().map(Asked::Pattern)),
        ],
        "model of loss",
        faults,
    )?;
    if let (Some(burst), false) = (&spec.burst, matches!(asked, Asked::Rate(_))) {
        let message = "`burst` needs `rate` beside it";
        faults.add(burst.at, message, "write it like `{ rate: 1 %, burst: 5 }`");
        return None;
    }
    match asked {
        Asked::OneIn(number) => one_in(number, faults).map(LossModel::OneIn),
        Asked::Rate(rate) => bursts(rate, spec.burst.as_ref(), faults),
        Asked::GilbertElliott(spec) => two_states(&spec.value, faults),
        Asked::Pattern(name) => {
            let pattern = context.recordings.pattern(name, faults)?;
            Some(LossModel::Pattern(pattern))
        }
    }
}

/// Loss at a rate, in bursts of a mean length.
fn bursts(
    rate: &Quantity<Probability>,
    burst: Option<&At<String>>,
    faults: &mut Faults,
) -> Option<LossModel> {
    let at = rate.at();
    let rate = rate.get(faults)?;
    let Some(burst) = burst else {
        return Some(LossModel::Independent(rate));
    };
    let number: Option<f64> = burst.value.trim().parse().ok();
    let Some(length) = number.filter(|length| length.is_finite()) else {
        let message = format!("`{}` is not a number of packets", shown(&burst.value));
        faults.add(burst.at, message, "write the mean length like `burst: 5`");
        return None;
    };
    match LossModel::from_rate_and_burst(rate, length) {
        Ok(model) => Some(model),
        Err(ParamError { problem, remedy }) => {
            faults.add(at, problem, remedy);
            None
        }
    }
}

fn two_states(spec: &GilbertElliottSpec, faults: &mut Faults) -> Option<LossModel> {
    let (to_bad, to_good) = (spec.to_bad.get(faults), spec.to_good.get(faults));
    let or = |quantity: &Option<Quantity<Probability>>, default, faults: &mut Faults| {
        let given = quantity.as_ref().map(|quantity| quantity.get(faults));
        given.unwrap_or(Some(default))
    };
    let in_good = or(&spec.in_good, Probability::NEVER, faults);
    let in_bad = or(&spec.in_bad, Probability::ALWAYS, faults);
    Some(LossModel::GilbertElliott {
        to_bad: to_bad?,
        to_good: to_good?,
        in_good: in_good?,
        in_bad: in_bad?,
    })
}
