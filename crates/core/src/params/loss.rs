//! Loss models: what they come to in the long run, and how to make one from what is measured.
//!
//! Left out: the draws (`pipe/loss.rs`).

use std::fmt;

use crate::params::{LossModel, ParamError};
use crate::units::Probability;

/// The longest mean burst in packets: far below what the thresholds of probabilities resolve.
const MAX_MEAN_BURST: f64 = 1e9;

impl LossModel {
    /// The simple Gilbert model (E. N. Gilbert, "Capacity of a burst-noise channel", Bell System
    /// Technical Journal 39, 1960, with everything lost in the bad state) that loses a share
    /// `rate` of all packets, `burst` of them in a row on average.
    ///
    /// A burst ends after each packet with probability `to_good`, so its mean is 1/`to_good`; the
    /// chain is bad a share `to_bad`/(`to_bad` + `to_good`) of the time. So `to_good` = 1/`burst`
    /// and `to_bad` = `rate`·`to_good`/(1 - `rate`).
    ///
    /// # Errors
    /// Where `burst` is below 1, `rate` is 1, or the gaps between such bursts would have to be
    /// shorter than one packet: `rate` above `burst`/(`burst` + 1).
    pub fn from_rate_and_burst(rate: Probability, burst: f64) -> Result<Self, ParamError> {
        if !(1.0..=MAX_MEAN_BURST).contains(&burst) {
            return Err(ParamError {
                problem: format!("a mean burst of {burst} packets is impossible"),
                remedy: "write 1 to 1e9, such as `burst: 5`".to_owned(),
            });
        }
        let share = rate.as_f64();
        let to_good = 1.0 / burst;
        let to_bad = share * to_good / (1.0 - share);
        let chances = (
            Probability::from_f64(to_bad),
            Probability::from_f64(to_good),
        );
        let (Some(to_bad), Some(to_good)) = chances else {
            // Rounded down, so that what it says is possible.
            let most = (burst / (burst + 1.0) * 1e5).floor() / 1e3;
            return Err(ParamError {
                problem: format!("bursts of {burst} packets cannot make up a loss of {rate}"),
                remedy: format!("write a rate of at most {most} %, or a longer burst"),
            });
        };
        Ok(Self::GilbertElliott {
            to_bad,
            to_good,
            in_good: Probability::NEVER,
            in_bad: Probability::ALWAYS,
        })
    }

    /// Whether nothing is ever lost.
    pub fn is_never(&self) -> bool {
        *self == Self::default()
    }

    /// The share of packets that are lost in the long run.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Independent(probability) => probability.as_f64(),
            Self::OneIn(n) => 1.0 / f64::from(n.get()),
            Self::GilbertElliott {
                to_bad,
                to_good,
                in_good,
                in_bad,
            } => {
                let (to_bad, to_good) = (to_bad.as_f64(), to_good.as_f64());
                // A chain that never changes stays good, where it starts.
                let bad = if to_bad > 0.0 {
                    to_bad / (to_bad + to_good)
                } else {
                    0.0
                };
                bad * in_bad.as_f64() + (1.0 - bad) * in_good.as_f64()
            }
            Self::Pattern(list) => {
                let lost = list.iter().filter(|&&lost| lost).count();
                lost as f64 / list.len().max(1) as f64
            }
        }
    }
}

impl fmt::Display for LossModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Independent(probability) => probability.fmt(f),
            Self::OneIn(n) => write!(f, "one in {n}"),
            Self::GilbertElliott { .. } => {
                write!(f, "{} % in bursts (Gilbert–Elliott)", self.mean() * 100.0)
            }
            Self::Pattern(list) => {
                write!(
                    f,
                    "{} % by a pattern of {}",
                    self.mean() * 100.0,
                    list.len()
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percent(text: &str) -> Probability {
        text.parse().unwrap()
    }

    #[test]
    fn a_rate_and_a_burst_make_a_chain() {
        let model = LossModel::from_rate_and_burst(percent("1 %"), 5.0).unwrap();
        assert!((model.mean() - 0.01).abs() < 1e-15, "{}", model.mean());
        let LossModel::GilbertElliott {
            to_bad,
            to_good,
            in_good,
            in_bad,
        } = model
        else {
            panic!("a chain");
        };
        assert!((to_good.as_f64() - 0.2).abs() < 1e-15);
        // Mean gap: 99 good packets for each lost one, five of those in each burst.
        assert!((1.0 / to_bad.as_f64() - 495.0).abs() < 1e-9);
        assert_eq!((in_good, in_bad), (Probability::NEVER, Probability::ALWAYS));
        let never = LossModel::from_rate_and_burst(Probability::NEVER, 5.0).unwrap();
        assert_eq!(never.mean(), 0.0);
        // Every other packet: the most that single losses can make up.
        assert!(LossModel::from_rate_and_burst(percent("50 %"), 1.0).is_ok());
    }

    #[test]
    fn impossible_bursts_are_refused_with_the_most_that_is_possible() {
        for (rate, burst, part) in [
            ("1 %", 0.9, "such as `burst: 5`"),
            ("1 %", f64::NAN, "such as `burst: 5`"),
            ("1 %", f64::INFINITY, "such as `burst: 5`"),
            ("60 %", 1.0, "at most 50 %"),
            ("84 %", 5.0, "at most 83.333 %"),
            ("100 %", 5.0, "at most 83.333 %"),
        ] {
            let error = LossModel::from_rate_and_burst(percent(rate), burst).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
        assert!(LossModel::from_rate_and_burst(percent("83.333 %"), 5.0).is_ok());
    }
}
