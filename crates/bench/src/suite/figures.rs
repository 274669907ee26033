//! Figures: where to find one in what a setup printed, what it is compared with, what it should be.

use serde::Serialize;
use serde_json::Value;

/// What one run of a setup came to.
pub(crate) struct Outcome {
    /// Everything that it printed, as one JSON object.
    pub(crate) data: Value,
    /// The emulator's verdict; a cable has none.
    pub(crate) health: Option<Health>,
}

impl Outcome {
    /// Whether the emulator calls the run broken: its figures then say nothing about the network.
    pub(crate) fn is_broken(&self) -> bool {
        self.health
            .as_ref()
            .is_some_and(|health| health.verdict == "broken")
    }
}

/// The emulator's verdict on a run, and whether its packet counts add up.
#[derive(Clone, Serialize)]
pub(crate) struct Health {
    /// faithful, degraded or broken.
    pub(crate) verdict: String,
    /// The emulator's reasons.
    pub(crate) reasons: Vec<String>,
    /// Lateness of packets, in microseconds.
    pub(crate) lateness_us: [f64; 3],
    /// Packets that the machine lost.
    pub(crate) physical_drops: u64,
    /// Sums that do not add up, and whatever else makes the run unfit for comparing.
    pub(crate) problems: Vec<String>,
}

/// A number in an outcome: `scale × (the number at a JSON pointer) + offset`.
#[derive(Clone, Copy)]
pub(crate) struct At {
    pointer: &'static str,
    scale: f64,
    offset: f64,
}

/// The number at `pointer`.
pub(crate) const fn at(pointer: &'static str) -> At {
    At {
        pointer,
        scale: 1.0,
        offset: 0.0,
    }
}

impl At {
    /// The number times `scale`.
    pub(crate) const fn times(self, scale: f64) -> Self {
        Self { scale, ..self }
    }

    /// The number plus `offset`, in the scaled unit.
    pub(crate) const fn plus(self, offset: f64) -> Self {
        Self { offset, ..self }
    }

    fn of(&self, data: &Value) -> Option<f64> {
        let value = data.pointer(self.pointer)?;
        let number = match value {
            Value::Bool(yes) => f64::from(u8::from(*yes)),
            value => value.as_f64()?,
        };
        Some(number * self.scale + self.offset)
    }
}

/// How a figure depends on the setup that its group has for a reference.
#[derive(Clone, Copy)]
pub(crate) enum Against {
    /// Shown beside it, with the ratio.
    Ratio,
    /// The same, to the reference's number plus this.
    RatioAbove(f64),
    /// Subtracted from it: the median of this number is the part that every path has.
    Minus(At),
}

/// What a figure should be: always in relation to something of the same run, since absolute speeds are
/// the machine's. The first three are for figures that are relations themselves.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    /// The median at most this.
    AtMost(f64),
    /// The median at least this.
    AtLeast(f64),
    /// The median within this part of 1.
    NearOne(f64),
    /// The median ratio to the reference at most this.
    RatioAtMost(f64),
    /// The median ratio to the reference at least this.
    RatioAtLeast(f64),
    /// The median ratio to the reference within this part of 1.
    RatioNearOne(f64),
    /// Zero in every run.
    Zero,
}

/// One thing to read from a setup.
#[derive(Clone)]
pub(crate) struct Figure {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its unit; empty for a plain number.
    pub(crate) unit: &'static str,
    at: At,
    /// The setup of the same group, and what it does here.
    reference: Option<(usize, Against)>,
    pub(crate) target: Option<Target>,
    /// Its row on the first screen: what it is, and what it is compared with.
    pub(crate) headline: Option<Headline>,
}

/// A row on the first screen.
#[derive(Clone, Serialize)]
pub(crate) struct Headline {
    pub(crate) what: String,
    pub(crate) reference: &'static str,
}

impl Figure {
    /// A figure that stands for itself.
    pub(crate) fn new(name: &'static str, unit: &'static str, at: At) -> Self {
        Self {
            name,
            unit,
            at,
            reference: None,
            target: None,
            headline: None,
        }
    }

    /// Shows it on the first screen.
    pub(crate) fn headline(self, what: impl Into<String>, reference: &'static str) -> Self {
        let what = what.into();
        Self {
            headline: Some(Headline { what, reference }),
            ..self
        }
    }

    /// Compares it with setup number `setup` of its group.
    pub(crate) fn against(self, setup: usize, how: Against) -> Self {
        Self {
            reference: Some((setup, how)),
            ..self
        }
    }

    /// Says what it should be.
    pub(crate) fn target(self, target: Target) -> Self {
        Self {
            target: Some(target),
            ..self
        }
    }
}

/// Median and range of a figure.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Of all values; `None` without any.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            (sorted[middle - 1] + sorted[middle]) / 2.0
        };
        Some(Self { median, min, max })
    }
}

/// A figure as measured.
#[derive(Serialize)]
pub(crate) struct Row {
    pub(crate) figure: &'static str,
    pub(crate) unit: &'static str,
    /// One value a run.
    pub(crate) values: Vec<f64>,
    pub(crate) spread: Option<Spread>,
    /// The reference's name and median.
    pub(crate) reference: Option<(String, f64)>,
    /// Round by round, to the reference of the same round.
    pub(crate) ratio: Option<Spread>,
    /// In words.
    pub(crate) target: Option<String>,
    pub(crate) headline: Option<Headline>,
    /// Whether the target was missed; `null` where there is none or nothing to judge.
    pub(crate) missed: Option<bool>,
}

/// Reads a figure from all rounds of its setup. `rounds` and `reference` hold one entry a
/// round; `None` for a run that failed.
pub(crate) fn measure(
    figure: &Figure,
    rounds: &[Option<&Outcome>],
    reference: Option<(&str, &[Option<&Outcome>])>,
) -> Row {
    let of = |at: At, outcome: &Option<&Outcome>| outcome.and_then(|one| at.of(&one.data));
    let how = figure.reference.map(|(_, how)| how);
    let theirs_at = match how {
        Some(Against::Minus(at)) => at,
        _ => figure.at,
    };
    let mut values = Vec::new();
    let mut ratios = Vec::new();
    let mut theirs = Vec::new();
    for (round, outcome) in rounds.iter().enumerate() {
        let other = reference
            .and_then(|(_, rounds)| rounds.get(round))
            .and_then(|other| of(theirs_at, other));
        let other = match how {
            Some(Against::RatioAbove(set)) => other.map(|other| other + set),
            _ => other,
        };
        theirs.extend(other);
        let Some(own) = of(figure.at, outcome) else {
            continue;
        };
        match (how, other) {
            (Some(Against::Minus(_)), Some(other)) => values.push(own - other),
            (Some(_), Some(other)) if other != 0.0 => {
                ratios.push(own / other);
                values.push(own);
            }
            _ => values.push(own),
        }
    }
    let incomparable = figure.reference.is_some() && theirs.is_empty();
    let (spread, ratio) = (Spread::of(&values), Spread::of(&ratios));
    let reference = reference
        .zip(Spread::of(&theirs))
        .map(|((name, _), spread)| (name.to_owned(), spread.median));
    let met = figure.target.and_then(|target| target.met(spread, ratio));
    Row {
        figure: figure.name,
        unit: figure.unit,
        values,
        spread,
        reference,
        ratio,
        target: figure.target.map(Target::words),
        headline: figure.headline.clone(),
        missed: met.map(|met| !met).filter(|_| !incomparable),
    }
}

/// The number of the setup that a figure is compared with.
pub(crate) fn reference_of(figure: &Figure) -> Option<usize> {
    figure.reference.map(|(setup, _)| setup)
}

impl Target {
    fn met(self, own: Option<Spread>, ratio: Option<Spread>) -> Option<bool> {
        Some(match self {
            Self::AtMost(limit) => own?.median <= limit,
            Self::AtLeast(limit) => own?.median >= limit,
            Self::RatioAtMost(limit) => ratio?.median <= limit,
            Self::RatioAtLeast(limit) => ratio?.median >= limit,
            Self::RatioNearOne(part) => (ratio?.median - 1.0).abs() <= part,
            Self::NearOne(part) => (own?.median - 1.0).abs() <= part,
            Self::Zero => own?.max == 0.0,
        })
    }

    fn words(self) -> String {
        match self {
            Self::AtMost(limit) => format!("≤ {limit}"),
            Self::AtLeast(limit) => format!("≥ {limit}"),
            Self::RatioAtMost(limit) => format!("≤ {limit} ×"),
            Self::RatioAtLeast(limit) => format!("≥ {limit} ×"),
            Self::RatioNearOne(part) => format!("1 ± {part} ×"),
            Self::NearOne(part) => format!("1 ± {part}"),
            Self::Zero => "0".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn outcomes(values: &[f64]) -> Vec<Outcome> {
        let outcome = |value: &f64| Outcome {
            data: json!({ "x": value }),
            health: None,
        };
        values.iter().map(outcome).collect()
    }

    fn row(figure: &Figure, own: &[f64], reference: &[f64]) -> Row {
        let (own, reference) = (outcomes(own), outcomes(reference));
        let own: Vec<_> = own.iter().map(Some).collect();
        let reference: Vec<_> = reference.iter().map(Some).collect();
        measure(figure, &own, Some(("cable", &reference)))
    }

    #[test]
    fn spreads_are_medians_and_ranges() {
        let spread = Spread::of(&[3.0, 1.0, 2.0]).unwrap();
        assert_eq!((spread.median, spread.min, spread.max), (2.0, 1.0, 3.0));
        assert_eq!(Spread::of(&[4.0, 1.0]).unwrap().median, 2.5);
        assert!(Spread::of(&[]).is_none());
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let figure = Figure::new("rate", "pps", at("/x"))
            .against(0, Against::Ratio)
            .target(Target::RatioAtLeast(0.9));
        let row = row(&figure, &[90.0, 50.0, 80.0], &[100.0, 100.0, 80.0]);
        assert_eq!(row.ratio.unwrap().median, 0.9);
        assert_eq!(row.spread.unwrap().median, 80.0);
        assert_eq!(row.missed, Some(false));
        assert_eq!(row.reference, Some(("cable".to_owned(), 100.0)));
    }

    #[test]
    fn a_common_part_is_subtracted() {
        let figure =
            Figure::new("error", "µs", at("/x").plus(-100.0)).against(0, Against::Minus(at("/x")));
        assert_eq!(row(&figure, &[108.0], &[2.0]).values, [6.0]);
    }

    #[test]
    fn a_reference_can_have_a_set_part() {
        let figure = Figure::new("delay", "µs", at("/x"))
            .against(0, Against::RatioAbove(100.0))
            .target(Target::RatioNearOne(0.05));
        let near = row(&figure, &[104.04], &[2.0]);
        assert_eq!(near.ratio.unwrap().median, 1.02);
        assert_eq!(
            (near.values, near.reference.unwrap().1),
            (vec![104.04], 102.0)
        );
        assert_eq!(row(&figure, &[110.0], &[2.0]).missed, Some(true));
        assert_eq!(row(&figure, &[110.0], &[]).missed, None);
    }

    #[test]
    fn zero_means_zero_in_every_run() {
        let figure = Figure::new("lost", "", at("/x")).target(Target::Zero);
        assert_eq!(row(&figure, &[0.0, 0.0, 1.0], &[]).missed, Some(true));
        assert_eq!(row(&figure, &[0.0], &[]).missed, Some(false));
    }
}
