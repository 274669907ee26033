//! What an experiment may demand compared with what this machine carries, in words.

use longhaul_lab::calibrate::demands::{Comparison, Demands};
use longhaul_lab::calibrate::{self, Calibration, Known};
use longhaul_plan::plan::{Plan, RunClock};
use serde_json::{Value, json};

use crate::style;

/// An experiment and this machine.
pub(crate) struct Outlook {
    demands: Option<Demands>,
    known: Known,
}

impl Outlook {
    /// Estimates both.
    pub(crate) fn of(plan: &Plan) -> Self {
        // A virtual run demands nothing of the machine but time.
        let demands = Demands::of(plan).filter(|_| plan.clock == RunClock::Real);
        // Without demands there is nothing to compare, so the calibration is not read.
        let known = match &demands {
            Some(_) => calibrate::known(),
            None => Known::Nothing,
        };
        Self { demands, known }
    }

    /// The warnings of `run`; on a machine that is not calibrated nothing is computed for them.
    pub(crate) fn warnings_of(plan: &Plan) -> Vec<String> {
        let known = calibrate::known();
        if plan.clock == RunClock::Virtual {
            return Vec::new();
        }
        if !matches!(known, Known::Calibrated(_)) {
            return Vec::new();
        }
        let demands = Demands::of(plan);
        Self { demands, known }.warnings()
    }

    fn both(&self) -> Option<(&Demands, &Calibration)> {
        match (&self.demands, &self.known) {
            (Some(demands), Known::Calibrated(calibration)) => Some((demands, calibration)),
            _ => None,
        }
    }

    fn comparison(&self) -> Option<Comparison> {
        let (demands, calibration) = self.both()?;
        demands.compare(&calibration.region)
    }

    /// The line of `check`; none where nothing is known of the demands.
    pub(crate) fn line(&self) -> Option<String> {
        let demands = self.demands.as_ref()?;
        let machine = match (&self.known, self.comparison()) {
            (Known::Nothing, _) => "not calibrated: run `longhaul calibrate`".to_owned(),
            (Known::Stale(why), _) => {
                let why = style::clean(why);
                format!("its calibration cannot be used ({why}): run `longhaul calibrate`")
            }
            (_, None) => "no rate was faithful when it was calibrated".to_owned(),
            (_, Some(found)) => {
                let carried = style::short(found.carried_packets_per_s as u64);
                format!("faithful up to {carried} packets/s of this kind")
            }
        };
        let asked = style::short(demands.packets_per_s() as u64);
        let hops = hops(demands.hops());
        Some(format!(
            "up to {asked} packets/s over {hops}; machine: {machine}"
        ))
    }

    /// What the machine will not do; empty where it is not calibrated.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let Some((demands, calibration)) = self.both() else {
            return Vec::new();
        };
        let too_much = self.comparison().filter(|found| found.load > 1.0);
        let too_much = too_much.map(|found| {
            format!(
                "this experiment may need {} packets/s over {}, and this machine carries {} \
                 faithfully: lower the rates, use fewer hops or a faster machine, or run it and \
                 rely on the verdict",
                style::short(found.packets_per_s as u64),
                hops(found.hops),
                style::short(found.carried_packets_per_s as u64),
            )
        });
        let floor = calibration.region.floor_ns;
        let too_short = demands.shortest.zip(floor).and_then(|(delay, floor)| {
            (delay.as_ns() < floor.p99).then(|| {
                format!(
                    "the shortest path has a delay of {}, and this machine is up to {} late (p99): \
                     delays this short will not be accurate",
                    style::span(delay),
                    style::measured(floor.p99),
                )
            })
        });
        let too_strict = floor.and_then(|floor| {
            (demands.tolerance.as_ns() < floor.p999).then(|| {
                format!(
                    "the tolerance, {}, is below the lateness that this machine reaches at best, \
                     {} (p99.9): raise it, or use a faster machine",
                    style::span(demands.tolerance),
                    style::measured(floor.p999),
                )
            })
        });
        [too_much, too_short, too_strict]
            .into_iter()
            .flatten()
            .collect()
    }

    /// The same for programs.
    pub(crate) fn json(&self) -> Value {
        let Some(demands) = &self.demands else {
            return Value::Null;
        };
        let comparison = self.comparison();
        json!({
            "packets_per_s": demands.packets_per_s(),
            "hops": demands.hops(),
            "shortest_delay_ns": demands.shortest.map(longhaul_core::Span::as_ns),
            "carried_packets_per_s": comparison.map(|found| found.carried_packets_per_s),
            "load": comparison.map(|found| found.load),
        })
    }
}

fn hops(mean: f64) -> String {
    match (mean * 10.0).round() / 10.0 {
        1.0 => "1 hop".to_owned(),
        n => format!("{n} hops"),
    }
}
