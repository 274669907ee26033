//! Sizes and times that may be random, as a command line has them: the text of a field of the
//! section `traffic`.

use longhaul_core::Span;
use longhaul_core::params::Distribution;
use longhaul_core::units::Bytes;
use longhaul_proto::modelled::Amount;
use serde::Deserialize;

use super::Draw;

impl Draw {
    /// Reads a size: `10 kB`, `{ exponential: 10 kB }`, `{ pareto: { mean: 10 kB, shape: 1.2 } }`
    /// and so on, as in the section `traffic` of an experiment.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn size(text: &str) -> Result<Self, String> {
        let size = |text: &str| text.parse().map(|Bytes(bytes)| bytes);
        read(text, |text| size(text).map_err(|error| error.to_string()))
    }

    /// Reads a time, likewise.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn time(text: &str) -> Result<Self, String> {
        let time = |text: &str| text.parse().map(Span::as_ns);
        read(text, |text| time(text).map_err(|error| error.to_string()))
    }

    /// As a flow draws it on its way.
    pub fn amount(&self) -> Amount {
        match self {
            Self::Constant(number) => Amount::Fixed(*number),
            Self::Exponential(mean) => Amount::Exponential(*mean as f64),
            Self::Random(distribution) => Amount::Drawn(distribution.clone()),
        }
    }
}

/// A distribution as a person writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum Spec {
    Uniform([String; 2]),
    Exponential(String),
    Normal(Spread),
    LogNormal(Spread),
    Pareto(Tail),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spread {
    mean: String,
    deviation: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tail {
    mean: String,
    shape: f64,
}

fn read(text: &str, number: impl Fn(&str) -> Result<u64, String>) -> Result<Draw, String> {
    if !text.trim_start().starts_with('{') {
        return number(text).map(Draw::Constant);
    }
    let spec: Spec = serde_saphyr::from_str(text).map_err(|error| {
        let first = error.to_string();
        let first = first.lines().next().unwrap_or_default().to_owned();
        format!("{first}; write a distribution like `{{ exponential: … }}`, uniform, normal, log_normal or pareto")
    })?;
    let mean = |text: &str| match number(text)? {
        0 => Err("a distribution needs a mean above zero".to_owned()),
        mean => Ok(Span::from_ns(mean)),
    };
    let wide = |_| "the deviation is too large for this mean".to_owned();
    let distribution = match &spec {
        Spec::Uniform([low, high]) => {
            let (low, high) = (number(low)?, number(high)?);
            if low > high || high == 0 {
                return Err("the second bound must be above the first".to_owned());
            }
            let (low, high) = (low as f64, high as f64);
            Distribution::Uniform { low, high }
        }
        Spec::Exponential(text) => return Ok(Draw::Exponential(mean(text)?.as_ns())),
        Spec::Normal(spread) => {
            let deviation = Span::from_ns(number(&spread.deviation)?);
            Distribution::normal(mean(&spread.mean)?, deviation).map_err(wide)?
        }
        Spec::LogNormal(spread) => {
            let deviation = Span::from_ns(number(&spread.deviation)?);
            Distribution::log_normal(Span::ZERO, mean(&spread.mean)?, deviation).map_err(wide)?
        }
        Spec::Pareto(tail) => {
            let (mean, shape) = (mean(&tail.mean)?.as_ns() as f64, tail.shape);
            if !(1.001..=1000.0).contains(&shape) {
                return Err("a tail with a mean has a shape above 1, like `shape: 1.2`".to_owned());
            }
            // The mean of type I is scale·shape/(shape - 1).
            let scale = mean * (shape - 1.0) / shape;
            let base = 0.0;
            Distribution::Pareto { base, scale, shape }
        }
    };
    Ok(Draw::Random(distribution))
}
