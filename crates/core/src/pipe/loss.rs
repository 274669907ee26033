//! Loss: each packet alike, one in n, in bursts, or by a list.
//!
//! The draw belongs to the end of serialisation: a lost packet has used the rate. Since a plain
//! pipe sends in the order of entry, drawing at entry takes the same numbers for the same
//! packets, and so the engine does. A pipe that never loses draws nothing.
//!
//! Bursts are a chain of two states, each with a loss of its own (E. O. Elliott, "Estimates of
//! error rates for codes on burst-noise channels", Bell System Technical Journal 42, 1963). It
//! starts good and moves once after each packet; so the time in a state is counted in packets,
//! and geometric.
//!
//! Left out: chains of more states; bursts that last for a time instead of a number of packets
//! (a trace does that).

use std::sync::Arc;

use super::choice::Block;
use crate::params::LossModel;
use crate::rng::Stream;
use crate::units::Probability;

/// Loses packets.
#[derive(Debug, Clone)]
pub(crate) struct Loss {
    /// Of independent loss; with every other model, anything but never.
    probability: Probability,
    stream: Stream,
    /// Any other model. Boxed, since most pipes have none.
    model: Option<Box<Model>>,
}

/// A model with a memory.
#[derive(Debug, Clone)]
enum Model {
    OneIn(Block),
    GilbertElliott(GilbertElliott),
    Pattern { list: Arc<[bool]>, next: usize },
}

/// In arrays of the good state's value and the bad state's.
#[derive(Debug, Clone)]
struct GilbertElliott {
    bad: bool,
    leave: [Probability; 2],
    loss: [Probability; 2],
}

impl Loss {
    pub(crate) fn new(model: &LossModel, stream: Stream) -> Self {
        let (probability, model) = parts(model);
        Self {
            probability,
            stream,
            model,
        }
    }

    /// Changes the loss. The stream goes on where it was; a block or a list starts anew where it
    /// is another; a chain with new probabilities stays in the state it is in, so that a ramp of
    /// many small steps changes one chain gradually.
    pub(crate) fn set(&mut self, model: &LossModel) {
        let (probability, new) = parts(model);
        self.probability = probability;
        self.model = match (self.model.take(), new) {
            (Some(mut old), Some(new)) => {
                old.renew(*new);
                Some(old)
            }
            (_, new) => new,
        };
    }

    /// Takes back the last `draws` packets of independent loss, as if they had not come.
    pub(crate) fn take_back(&mut self, draws: u64) {
        if !self.probability.is_never() && self.model.is_none() {
            self.stream.rewind(draws);
        }
    }

    /// Whether the next packet is lost.
    #[inline]
    pub(crate) fn hits(&mut self) -> bool {
        if self.probability.is_never() {
            return false;
        }
        match &mut self.model {
            None => self.probability.hits(self.stream.draw()),
            Some(model) => model.hits(&mut self.stream),
        }
    }
}

fn parts(model: &LossModel) -> (Probability, Option<Box<Model>>) {
    let model = match model {
        LossModel::Independent(probability) => return (*probability, None),
        LossModel::OneIn(n) => Model::OneIn(Block::new(*n)),
        LossModel::GilbertElliott {
            to_bad,
            to_good,
            in_good,
            in_bad,
        } => Model::GilbertElliott(GilbertElliott {
            bad: false,
            leave: [*to_bad, *to_good],
            loss: [*in_good, *in_bad],
        }),
        LossModel::Pattern(list) => Model::Pattern {
            list: list.clone(),
            next: 0,
        },
    };
    (Probability::ALWAYS, Some(Box::new(model)))
}

impl Model {
    /// Turns into the fresh model `new`, keeping what still holds.
    fn renew(&mut self, new: Self) {
        match (&mut *self, new) {
            (Self::OneIn(old), Self::OneIn(new)) if old.len() == new.len() => {}
            (Self::Pattern { list: old, .. }, Self::Pattern { list: new, .. }) if *old == new => {}
            (Self::GilbertElliott(old), Self::GilbertElliott(new)) => {
                *old = GilbertElliott {
                    bad: old.bad,
                    ..new
                };
            }
            (_, new) => *self = new,
        }
    }

    fn hits(&mut self, stream: &mut Stream) -> bool {
        match self {
            Self::OneIn(block) => block.hits(stream),
            Self::GilbertElliott(chain) => chain.hits(stream),
            Self::Pattern { list, next } => {
                let lost = list.get(*next).copied().unwrap_or(false);
                *next = if *next + 1 < list.len() { *next + 1 } else { 0 };
                lost
            }
        }
    }
}

impl GilbertElliott {
    /// Two draws for each packet, whatever the probabilities.
    fn hits(&mut self, stream: &mut Stream) -> bool {
        let state = usize::from(self.bad);
        let lost = self.loss[state].hits(stream.draw());
        self.bad ^= self.leave[state].hits(stream.draw());
        lost
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    const SEED: u64 = 20_260_704;
    const N: u32 = 1_000_000;

    fn per_mille(parts: u64) -> Probability {
        Probability::from_ratio(parts, 1000).unwrap()
    }

    fn chain(to_bad: u64, to_good: u64, in_good: u64, in_bad: u64) -> LossModel {
        LossModel::GilbertElliott {
            to_bad: per_mille(to_bad),
            to_good: per_mille(to_good),
            in_good: per_mille(in_good),
            in_bad: per_mille(in_bad),
        }
    }

    fn run(model: &LossModel, name: &str) -> Vec<bool> {
        let mut loss = Loss::new(model, Stream::new(SEED, name));
        (0..N).map(|_| loss.hits()).collect()
    }

    /// Lengths of the runs of `value`, without the last, which may be cut.
    fn runs(series: &[bool], value: bool) -> Vec<usize> {
        let groups = series.chunk_by(|a, b| a == b);
        let mut lengths: Vec<usize> = groups
            .filter(|g| g[0] == value)
            .map(<[bool]>::len)
            .collect();
        lengths.pop();
        lengths
    }

    fn mean(lengths: &[usize]) -> f64 {
        lengths.iter().sum::<usize>() as f64 / lengths.len() as f64
    }

    /// The chain's laws in closed form: its stationary loss, and bursts that end as often as a
    /// lost packet is followed by one that is not, which over the states is Σ π_s h_s T_st (1-h_t).
    #[test]
    fn bursts_and_gaps_follow_from_the_four_probabilities() {
        for [to_bad, to_good, in_good, in_bad] in [
            [20, 200, 10, 700],
            [10, 50, 0, 1000],
            [300, 600, 50, 250],
            [900, 800, 100, 900],
            [5, 10, 400, 0],
        ] {
            let model = chain(to_bad, to_good, in_good, in_bad);
            let series = run(&model, "chain");
            let [b, g, h0, h1] = [to_bad, to_good, in_good, in_bad].map(|p| p as f64 / 1000.0);
            let bad = b / (b + g);
            let loss = bad * h1 + (1.0 - bad) * h0;
            assert!((model.mean() - loss).abs() < 1e-12);
            // The states of packets k apart are correlated by (1-b-g)^k, so the variance of a
            // mean over n packets is (loss·(1-loss) + 2·π_g·π_b·(h1-h0)²·r/(1-r)) / n.
            let r = 1.0 - b - g;
            let shared = 2.0 * bad * (1.0 - bad) * (h1 - h0) * (h1 - h0) * r / (1.0 - r);
            let deviation = ((loss * (1.0 - loss) + shared) / f64::from(N)).sqrt();
            let lost = series.iter().filter(|&&lost| lost).count() as f64 / f64::from(N);
            let shown = format!("seed {SEED}, {model:?}");
            assert!(
                (lost - loss).abs() < 4.0 * deviation,
                "{shown}: {lost}, not {loss}"
            );

            let ends = (1.0 - bad) * h0 * ((1.0 - b) * (1.0 - h0) + b * (1.0 - h1))
                + bad * h1 * (g * (1.0 - h0) + (1.0 - g) * (1.0 - h1));
            for (value, expected) in [(true, loss / ends), (false, (1.0 - loss) / ends)] {
                let lengths = runs(&series, value);
                // Mixtures of geometric lengths here have deviations below twice their means.
                let tolerance = 4.0 * 2.0 / (lengths.len() as f64).sqrt();
                let ratio = mean(&lengths) / expected;
                assert!(
                    (ratio - 1.0).abs() < tolerance,
                    "{shown}: {value} {ratio} of {expected}"
                );
            }
        }
    }

    /// From a rate and a mean burst to bursts of geometric length: with 15 degrees of freedom
    /// chi-squared exceeds 37.70 once in a thousand seeds.
    #[test]
    fn simple_bursts_are_geometric() {
        let model = LossModel::from_rate_and_burst(per_mille(50), 4.0).unwrap();
        let bursts = runs(&run(&model, "burst"), true);
        let mut counts = [0_u32; 16];
        for &length in &bursts {
            counts[length.min(16) - 1] += 1;
        }
        let (mut chi_squared, mut left) = (0.0, bursts.len() as f64);
        for (i, &count) in counts.iter().enumerate() {
            // Of those that last so long, a quarter end; the last class holds all the rest.
            let expected = if i < 15 { left * 0.25 } else { left };
            let error = f64::from(count) - expected;
            chi_squared += error * error / expected;
            left -= expected;
        }
        assert!(
            chi_squared < 37.70,
            "seed {SEED}: {chi_squared}, {counts:?}"
        );
    }

    #[test]
    fn independent_loss_has_its_rate_and_its_draws() {
        let probability = per_mille(10);
        let series = run(&LossModel::Independent(probability), "independent");
        let mut stream = Stream::new(SEED, "independent");
        assert!(
            series
                .iter()
                .all(|&lost| lost == probability.hits(stream.draw()))
        );
        let lost = series.iter().filter(|&&lost| lost).count() as f64;
        assert!(
            (lost - 1e4).abs() < 4.0 * (1e4_f64 * 0.99).sqrt(),
            "seed {SEED}: {lost}"
        );
    }

    #[test]
    fn a_pattern_is_followed_to_the_letter() {
        let list: Arc<[bool]> = Arc::from([false, true, true, false, false]);
        let mut loss = Loss::new(&LossModel::Pattern(list.clone()), Stream::new(SEED, "list"));
        for i in 0..1000 {
            if i % 3 == 0 {
                loss.set(&LossModel::Pattern(Arc::from(&*list))); // equal, and so goes on
            }
            assert_eq!(loss.hits(), list[i % 5], "packet {i}");
        }
        loss.set(&LossModel::Pattern(Arc::from([true, false])));
        assert_eq!([loss.hits(), loss.hits(), loss.hits()], [true, false, true]);
        let mut empty = Loss::new(
            &LossModel::Pattern(Arc::from([])),
            Stream::new(SEED, "empty"),
        );
        assert!((0..10).all(|_| !empty.hits()));
    }

    #[test]
    fn one_in_n_goes_on_unless_n_changes() {
        let one_in = |n| LossModel::OneIn(NonZeroU32::new(n).unwrap());
        let mut loss = Loss::new(&one_in(8), Stream::new(SEED, "one in"));
        for block in 0..500 {
            let lost = (0..8).filter(|_| {
                loss.set(&one_in(8));
                loss.hits()
            });
            assert_eq!(lost.count(), 1, "seed {SEED}, block {block}");
        }
        for _ in 0..5 {
            loss.hits();
        }
        loss.set(&one_in(3));
        for block in 0..500 {
            assert_eq!(
                (0..3).filter(|_| loss.hits()).count(),
                1,
                "seed {SEED}, block {block}"
            );
        }
    }

    #[test]
    fn a_chain_stays_in_its_state_and_the_stream_goes_on() {
        let mut loss = Loss::new(&chain(1000, 0, 0, 1000), Stream::new(SEED, "set"));
        assert_eq!([loss.hits(), loss.hits()], [false, true]);
        loss.set(&chain(0, 0, 0, 1000));
        assert!((0..10).all(|_| loss.hits()), "it is bad and stays so");
        loss.set(&LossModel::default());
        assert!((0..10).all(|_| !loss.hits()));
        loss.set(&chain(0, 0, 0, 1000));
        assert!((0..10).all(|_| !loss.hits()), "a chain starts good");
        // Twelve and ten packets drew twice each, and those without loss not at all.
        let mut stream = Stream::new(SEED, "set");
        for _ in 0..44 {
            stream.draw();
        }
        loss.set(&LossModel::Independent(per_mille(500)));
        assert!((0..100).all(|_| loss.hits() == per_mille(500).hits(stream.draw())));
    }
}
