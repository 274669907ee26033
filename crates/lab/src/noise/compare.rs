//! A run's stalls compared with those of the idle machine.
//!
//! Theory: where stalls come at random at the same rate with and without the run, each of the *n + m*
//! long stalls counted in both fell into the run with the probability *q = T / (T + S)*, *T* and *S* being
//! the times measured. So *n* is binomial, and the probability of *n* or more in the run is exact, whatever
//! the rate. At [`SIGNIFICANCE`] or below the run had more than the idle machine. Where it is above and the
//! idle machine had no long stall, it was measured too briefly to say either.
//!
//! Of short stalls a core notices only those in its waits, and some of them are late wake-ups, which a
//! thread that never sleeps does not have. So without long stalls the only result is `alike` or none.
//!
//! Left out: that stalls come in bursts, which makes large counts vary more than this test assumes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Noise;
use crate::fidelity::Stalls;

/// The probability at which a run counts as noisier than the idle machine.
const SIGNIFICANCE: f64 = 0.01;

/// How a run's stalls compare with those of the idle machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Comparison {
    /// The idle machine stalls as often, as far as the measurement shows.
    Alike,
    /// The machine stalled more often during the run.
    Exceeds,
    /// The idle machine was measured too briefly.
    Unknown,
}

/// A run's stalls and those of the idle machine, as a verdict reports them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Alone {
    /// How the run's stalls compare.
    pub comparison: Comparison,
    /// Stalls of this length and more are compared.
    pub stalls_from_ns: u64,
    /// How many a minute the run had.
    pub run_per_minute: f64,
    /// How many a minute the idle machine had, on the CPU that had most.
    pub machine_per_minute: f64,
    /// The longest stall of the idle machine.
    pub machine_longest_ns: u64,
    /// For how long the idle machine was measured.
    pub measured_s: f64,
    /// The probability of as many stalls or more in the run if both had the same rate.
    pub chance: f64,
}

impl Noise {
    /// Compares the stalls of a run that took `took`: its long stalls, or all if it had no long one.
    /// `None` if it had no stall, and where short stalls are not `alike`.
    pub fn compare(&self, run: &Stalls, took: Duration) -> Option<Alone> {
        let run_s = took.as_secs_f64();
        if run.count == 0 || run_s <= 0.0 || self.seconds <= 0.0 {
            return None;
        }
        let are_long = run.long > 0;
        let stalls_from_ns = if are_long {
            self.long_ns
        } else {
            self.threshold_ns
        };
        let of = |stalls: &Stalls| if are_long { stalls.long } else { stalls.count };
        let alone = self.cpus.iter().map(|cpu| of(&cpu.stalls)).max();
        let (during, alone) = (of(run), alone.unwrap_or(0));
        let chance = chance(during, alone, run_s / (run_s + self.seconds));
        let comparison = if chance <= SIGNIFICANCE {
            Comparison::Exceeds
        } else if alone == 0 {
            Comparison::Unknown
        } else {
            Comparison::Alike
        };
        let found = Alone {
            comparison,
            stalls_from_ns,
            run_per_minute: during as f64 * 60.0 / run_s,
            machine_per_minute: self.per_minute(alone),
            machine_longest_ns: self.longest_ns(),
            measured_s: self.seconds,
            chance,
        };
        (are_long || comparison == Comparison::Alike).then_some(found)
    }
}

/// The probability that at least `n` of `n + m` events fall where each does with probability `q`.
fn chance(n: u64, m: u64, q: f64) -> f64 {
    const LARGE: f64 = 1e200;
    let all = n + m;
    if n == 0 || q >= 1.0 {
        return 1.0;
    }
    // The first term by its logarithm, since it may be too small for a number; the others as multiples
    // of it, which may be too large for one.
    let choices: f64 = (1..=m).map(|k| ((n + k) as f64 / k as f64).ln()).sum();
    let mut log = choices + n as f64 * q.ln() + m as f64 * (-q).ln_1p();
    let (mut term, mut sum) = (1.0, 1.0);
    for k in n..all {
        term *= (all - k) as f64 / (k + 1) as f64 * q / (1.0 - q);
        sum += term;
        if sum > LARGE {
            (term, sum) = (term / LARGE, sum / LARGE);
            log += LARGE.ln();
        }
    }
    (log + sum.ln()).exp().min(1.0)
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

        /// At equal rates, `Exceeds` is as rare as the significance says.
        #[test]
        fn equal_rates_seldom_exceed(events in 1u64..200, q in 0.01f64..0.99) {
            let exceeding = (0..=events).find(|&n| chance(n, events - n, q) <= SIGNIFICANCE);
            let wrongly = exceeding.map_or(0.0, |n| by_draws(n as usize, events as usize, q));
            prop_assert!(wrongly <= SIGNIFICANCE + 1e-9, "{wrongly}");
        }

        /// More stalls of a run lower the probability, and more of the idle machine raise it.
        #[test]
        fn more_stalls_are_never_less_noise(n in 1u64..200, m in 0u64..200, q in 0.01f64..0.99) {
            prop_assert!(chance(n + 1, m, q) <= chance(n, m, q) + 1e-9);
            prop_assert!(chance(n, m + 1, q) + 1e-9 >= chance(n, m, q));
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
    fn a_run_is_compared_with_the_idle_machine() {
        let compare = |run: u64, machine: u64| {
            let stalls = Stalls {
                count: run + 100,
                long: run,
                ..Stalls::default()
            };
            let found = alone(machine, 10.0).compare(&stalls, Duration::from_secs(60));
            found.map(|found| found.comparison)
        };
        // A hundred short stalls in a minute: as 17 in 10 s are, and far more than 5 in 10 s.
        assert_eq!(compare(0, 12), Some(Comparison::Alike));
        assert_eq!(compare(0, 0), None, "short stalls alone never exceed");
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
            count: 15,
            long: 15,
            ..Stalls::default()
        };
        let found = alone(2, 10.0)
            .compare(&stalls, Duration::from_secs(90))
            .unwrap();
        assert!((found.run_per_minute - 10.0).abs() < 1e-9);
        assert!((found.machine_per_minute - 12.0).abs() < 1e-9);
        assert_eq!(
            (found.machine_longest_ns, found.measured_s),
            (5_000_000, 10.0)
        );
        assert_eq!(found.stalls_from_ns, 2_000_000);
    }
}
