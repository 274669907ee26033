//! A run's stalls against those of the machine alone.
//!
//! Theory: where stalls come at random at the same rate with and without the run, each of the *n + m*
//! long stalls seen in both fell into the run with the probability *q = T / (T + S)*, *T* and *S* being
//! the times watched. So *n* is binomial, and the chance of so many or more in the run is exact, whatever
//! the rate. Below [`CHANCE`] the run had more than the machine has by itself. Where that cannot be said
//! and the machine alone had no long stall, it was watched too briefly for either word.
//!
//! Left out: that stalls come in bursts, which makes large counts vary more than chance does; and short
//! stalls, of which a core that works does not notice all.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Noise;
use crate::fidelity::Stalls;

/// How seldom chance may call a machine noisier than it is by itself.
const CHANCE: f64 = 0.01;

/// A run beside its machine without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Comparison {
    /// The machine stalls as often by itself, as far as can be told.
    Alike,
    /// It stalled more often during the run.
    Exceeds,
    /// It was not watched for long enough to tell.
    Unknown,
}

/// The machine alone, as a verdict holds it against a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Alone {
    /// How the run's long stalls compare.
    pub comparison: Comparison,
    /// Long stalls a minute of the run.
    pub run_per_minute: f64,
    /// Those of the machine alone, on its worse CPU.
    pub machine_per_minute: f64,
    /// The longest stall of the machine alone.
    pub machine_longest_ns: u64,
    /// For how long the machine was watched.
    pub watched_s: f64,
    /// The probability of so many long stalls or more in the run if both had the same rate.
    pub chance: f64,
}

impl Noise {
    /// Compares the stalls of a run that took `took`; `None` where it had no long one.
    pub fn compare(&self, run: &Stalls, took: Duration) -> Option<Alone> {
        let (run_s, alone) = (took.as_secs_f64(), self.worst().long);
        let usable = run.long > 0 && run_s > 0.0 && self.seconds > 0.0;
        if !usable {
            return None;
        }
        let chance = chance(run.long, alone, run_s / (run_s + self.seconds));
        let comparison = if chance <= CHANCE {
            Comparison::Exceeds
        } else if alone == 0 {
            Comparison::Unknown
        } else {
            Comparison::Alike
        };
        Some(Alone {
            comparison,
            run_per_minute: run.long as f64 * 60.0 / run_s,
            machine_per_minute: self.per_minute(alone),
            machine_longest_ns: self.longest_ns(),
            watched_s: self.seconds,
            chance,
        })
    }
}

/// The probability that at least `n` of `n + m` events fall where each does with probability `q`.
fn chance(n: u64, m: u64, q: f64) -> f64 {
    let all = n + m;
    if n == 0 || q >= 1.0 {
        return 1.0;
    }
    // The first term by logarithms, since it may be too small for a number; each next one from it.
    let choices: f64 = (1..=m).map(|k| ((n + k) as f64 / k as f64).ln()).sum();
    let mut term = (choices + n as f64 * q.ln() + m as f64 * (-q).ln_1p()).exp();
    let mut sum = term;
    for k in n..all {
        term *= (all - k) as f64 / (k + 1) as f64 * q / (1.0 - q);
        sum += term;
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::super::CpuNoise;
    use super::*;
    use proptest::prelude::*;

    /// The same by adding up all outcomes of `events` that are drawn one after the other.
    fn by_draws(n: usize, events: usize, q: f64) -> f64 {
        let mut outcomes = vec![1.0];
        for _ in 0..events {
            let mut next = vec![0.0; outcomes.len() + 1];
            for (k, p) in outcomes.iter().enumerate() {
                next[k] += p * (1.0 - q);
                next[k + 1] += p * q;
            }
            outcomes = next;
        }
        outcomes[n..].iter().sum()
    }

    proptest! {
        #[test]
        fn the_chance_is_that_of_independent_draws(n in 0u64..60, m in 0u64..60, q in 0.01f64..0.99) {
            let expected = by_draws(n as usize, (n + m) as usize, q);
            prop_assert!((chance(n, m, q) - expected).abs() < 1e-9, "{} {expected}", chance(n, m, q));
        }

        /// However often the machine stalls, chance seldom calls it noisier than itself.
        #[test]
        fn chance_seldom_accuses(events in 1u64..200, q in 0.01f64..0.99) {
            let accused = (0..=events).find(|&n| chance(n, events - n, q) <= CHANCE);
            let wrongly = accused.map_or(0.0, |n| by_draws(n as usize, events as usize, q));
            prop_assert!(wrongly <= CHANCE + 1e-9, "{wrongly}");
        }

        /// More stalls never speak for a run, and more of the machine alone never against it.
        #[test]
        fn more_stalls_are_never_less_noise(n in 1u64..200, m in 0u64..200, q in 0.01f64..0.99) {
            prop_assert!(chance(n + 1, m, q) <= chance(n, m, q) + 1e-12);
            prop_assert!(chance(n, m + 1, q) + 1e-12 >= chance(n, m, q));
        }
    }

    fn alone(long: u64, seconds: f64) -> Noise {
        let stalls = Stalls {
            count: long + 5,
            long,
            total_ns: long * 5_000_000 + 5 * 300_000,
            longest_ns: 5_000_000,
        };
        Noise {
            seconds,
            threshold_ns: super::super::THRESHOLD_NS,
            long_ns: crate::fidelity::LONG_NS,
            cpus: vec![CpuNoise { cpu: 1, stalls }],
            stolen_ns: 0,
        }
    }

    #[test]
    fn a_run_is_held_against_its_machine() {
        let compare = |run: u64, machine: u64| {
            let stalls = Stalls {
                count: run + 100,
                long: run,
                ..Stalls::default()
            };
            let found = alone(machine, 10.0).compare(&stalls, Duration::from_secs(60));
            found.map(|found| found.comparison)
        };
        assert_eq!(compare(0, 3), None, "short stalls alone are not compared");
        assert_eq!(compare(10, 2), Some(Comparison::Alike));
        assert_eq!(compare(30, 6), Some(Comparison::Alike));
        assert_eq!(compare(60, 2), Some(Comparison::Exceeds));
        // At the machine's rate a minute has six times as many as ten seconds.
        assert_eq!(compare(29, 0), Some(Comparison::Unknown));
        assert_eq!(compare(30, 0), Some(Comparison::Exceeds));
        assert_eq!(compare(1, 0), Some(Comparison::Unknown));
    }

    #[test]
    fn thousands_of_stalls_can_be_compared() {
        assert!(chance(300_000, 50_000, 6.0 / 7.0) > 0.4);
        assert!(chance(400_000, 50_000, 6.0 / 7.0) < 1e-9);
        assert!(chance(1, 500_000, 6.0 / 7.0) > 0.999);
    }

    #[test]
    fn rates_are_per_minute() {
        let stalls = Stalls {
            long: 15,
            ..Stalls::default()
        };
        let found = alone(2, 10.0)
            .compare(&stalls, Duration::from_secs(90))
            .unwrap();
        assert!((found.run_per_minute - 10.0).abs() < 1e-9);
        assert!((found.machine_per_minute - 12.0).abs() < 1e-9);
        assert_eq!(
            (found.machine_longest_ns, found.watched_s),
            (5_000_000, 10.0)
        );
    }
}
