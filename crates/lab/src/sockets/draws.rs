//! Sizes and times that may be random, drawn as modelled traffic draws them.
//!
//! Theory: a number is the quantile of its distribution at a uniform draw of a stream, whose name
//! is that of the flow's entry and of its two hosts; so a modelled and a real flow of the same
//! name, hosts and seed carry the same. What a flow draws on its way (gaps, think times, sizes of
//! requests) comes from a stream of its own number.
//!
//! Datagrams keep the time in which the sender is on: their gaps go on over its silences.
//!
//! Left out: correlation.

use longhaul_core::Span;
use longhaul_core::params::Distribution;
use longhaul_core::rng::Stream;
use longhaul_core::units::{Bytes, Rate};
use serde::Deserialize;

use super::datagrams::Departure;
use super::stream::{Exchange, HEADER};

/// A number (nanoseconds or bytes), or how it is drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum Draw {
    /// Always this.
    Constant(u64),
    /// By a distribution, whose unit is the number's.
    Random(Distribution),
}

impl Draw {
    /// Exponential with this mean: the gamma distribution of shape 1.
    pub fn exponential(mean: f64) -> Self {
        Self::Random(Distribution::Gamma {
            base: 0.0,
            shape: 1.0,
            scale: mean,
        })
    }

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

    /// The next number, rounded to the nearest whole one. A constant takes no draw.
    pub fn next(&self, stream: &mut Stream) -> u64 {
        match self {
            Self::Constant(number) => *number,
            Self::Random(distribution) => {
                // The middles of 2^53 equal parts of 0 to 1.
                let part = ((stream.draw() >> 11) as f64 + 0.5) / 9_007_199_254_740_992.0;
                // The cast saturates; samples below zero count as zero.
                libm::round(distribution.quantile(part)) as u64
            }
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
        0 => Err("a distribution with a mean of zero has nothing to draw".to_owned()),
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
        Spec::Exponential(text) => return Ok(Draw::exponential(mean(text)?.as_ns() as f64)),
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

/// Where the draws of a command's flows come from.
#[derive(Debug, Clone)]
pub struct Source {
    /// The seed of the run.
    pub seed: u64,
    /// The name of the flows' entry.
    pub name: String,
    /// The sending host.
    pub from: String,
    /// The receiving host.
    pub to: String,
}

impl Source {
    /// What each of `flows` flows carries.
    pub fn sizes(&self, draw: &Draw, flows: u64) -> Vec<u64> {
        let mut stream = Stream::new(self.seed, &self.pair());
        // A distribution may come to nothing; a flow carries something.
        (0..flows).map(|_| draw.next(&mut stream).max(1)).collect()
    }

    /// What flow `number` (from 0) draws on its way.
    pub fn of_flow(&self, number: u64) -> Stream {
        Stream::new(self.seed, &format!("{}#{number}", self.pair()))
    }

    fn pair(&self) -> String {
        format!("traffic {} {}>{}", self.name, self.from, self.to)
    }
}

/// Times between packets.
#[derive(Debug, Clone)]
pub enum Gaps {
    /// Even, at so many bits of payload per second.
    Even(Rate),
    /// Random and independent, at so many bits of payload per second.
    Poisson(Rate),
}

/// The departures of a flow of datagrams of `packet` bytes: with `on_off`, in turn for so long
/// and not for so long; `bytes` in all, the last datagram smaller where they do not come out even.
pub fn departures(
    gaps: Gaps,
    packet: u32,
    on_off: Option<(Draw, Draw)>,
    bytes: Option<u64>,
    mut stream: Stream,
) -> impl Iterator<Item = Departure> {
    let packet = packet.max(1);
    let mut left = bytes.unwrap_or(u64::MAX);
    // Nanoseconds in which the sender was on, and, of them, those of all periods so far.
    let (mut active, mut switch) = (0u64, 0u64);
    let mut silent = 0u64;
    let mut number = 0u64;
    let mut begun = false;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        active = match &gaps {
            Gaps::Even(rate) => even(number, packet, *rate),
            Gaps::Poisson(rate) => {
                let mean = f64::from(packet) * 8e9 / rate.bits_per_s() as f64;
                active.saturating_add(Draw::exponential(mean).next(&mut stream))
            }
        };
        if let Some((on, off)) = &on_off {
            while switch <= active {
                if begun {
                    silent = silent.saturating_add(off.next(&mut stream));
                }
                begun = true;
                switch = switch.saturating_add(on.next(&mut stream).max(1));
            }
        }
        number += 1;
        let size = left.min(u64::from(packet)) as u32;
        left -= u64::from(size);
        Some((Span::from_ns(active.saturating_add(silent)), size))
    })
}

/// When packet `number` of `size` bytes leaves, at `rate`, the first at 0.
fn even(number: u64, size: u32, rate: Rate) -> u64 {
    let bits = u128::from(number) * u128::from(size) * 8;
    u64::try_from(bits * 1_000_000_000 / u128::from(rate.bits_per_s())).unwrap_or(u64::MAX)
}

/// The exchanges of a flow of requests. Requests smaller than their header grow to it, empty
/// responses to one byte.
pub fn exchanges(
    request: Draw,
    response: Draw,
    think: Draw,
    count: Option<u64>,
    mut stream: Stream,
) -> impl Iterator<Item = Exchange> {
    (0..count.unwrap_or(u64::MAX)).map(move |_| Exchange {
        request: request.next(&mut stream).max(HEADER as u64),
        response: response.next(&mut stream).max(1),
        think: Span::from_ns(think.next(&mut stream)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> Source {
        Source {
            seed: 42,
            name: "web".to_owned(),
            from: "a".to_owned(),
            to: "b".to_owned(),
        }
    }

    #[test]
    fn numbers_and_distributions_are_read() {
        assert_eq!(Draw::size("10 kB"), Ok(Draw::Constant(10_000)));
        assert_eq!(
            Draw::time("{ exponential: 1 ms }"),
            Ok(Draw::exponential(1e6))
        );
        for (text, mean) in [
            ("{ uniform: [1 kB, 3 kB] }", 2_000.0),
            ("{ normal: { mean: 2 kB, deviation: 100 B } }", 2_000.0),
            ("{ log_normal: { mean: 2 kB, deviation: 1 kB } }", 2_000.0),
            ("{ pareto: { mean: 2 kB, shape: 1.5 } }", 2_000.0),
        ] {
            let Ok(Draw::Random(distribution)) = Draw::size(text) else {
                panic!("{text}");
            };
            assert!((distribution.mean() - mean).abs() < 1e-6, "{text}");
        }
        for (text, part) in [
            ("10", "no unit"),
            ("{ exponential: 10 }", "no unit"),
            ("{ exponential: 0 B }", "mean of zero"),
            ("{ pareto: { mean: 1 kB, shape: 1 } }", "shape"),
            ("{ uniform: [3 kB, 1 kB] }", "second bound"),
            ("{ zipf: 3 }", "write a distribution"),
            ("{", "write a distribution"),
        ] {
            let error = Draw::size(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn even_datagrams_keep_their_rate_to_the_nanosecond() {
        let rate = Rate::from_bits_per_s(3_000_000_000).unwrap();
        let all: Vec<Departure> = departures(
            Gaps::Even(rate),
            1000,
            None,
            Some(10_500),
            source().of_flow(0),
        )
        .collect();
        let times: Vec<u64> = all.iter().map(|(at, _)| at.as_ns()).collect();
        // 8/3 us, rounded down each.
        assert_eq!(times[..4], [0, 2_666, 5_333, 8_000]);
        assert_eq!((all.len(), all[10].1), (11, 500));
    }

    #[test]
    fn poisson_datagrams_have_their_rate_and_their_spread() {
        let rate = Rate::from_bits_per_s(8_000_000).unwrap();
        let flow = departures(Gaps::Poisson(rate), 1000, None, None, source().of_flow(0));
        let times: Vec<f64> = flow.take(20_001).map(|(at, _)| at.as_s()).collect();
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps
            .iter()
            .map(|gap| (gap - mean) * (gap - mean))
            .sum::<f64>()
            / gaps.len() as f64;
        // The deviation of the mean of so many is 0.7 %, of the variance 2 %.
        assert!((mean / 1e-3 - 1.0).abs() < 0.03, "{mean}");
        assert!((variance / 1e-6 - 1.0).abs() < 0.1, "{variance}");
    }

    #[test]
    fn a_sender_is_silent_while_it_is_off() {
        let rate = Rate::from_bits_per_s(8_000_000).unwrap();
        let on_off = (Draw::Constant(2_500_000), Draw::Constant(10_000_000));
        let flow = departures(
            Gaps::Even(rate),
            1000,
            Some(on_off),
            None,
            source().of_flow(0),
        );
        let times: Vec<u64> = flow.take(6).map(|(at, _)| at.as_ns() / 1000).collect();
        // On from 0 to 2.5 ms and from 12.5 to 15 ms; a gap that is cut goes on afterwards.
        assert_eq!(times, [0, 1000, 2000, 13_000, 14_000, 25_000]);
    }

    #[test]
    fn the_same_name_draws_the_same() {
        let draw = Draw::exponential(1e5);
        let sizes = source().sizes(&draw, 5);
        assert_eq!(source().sizes(&draw, 3), sizes[..3]);
        let other = Source {
            to: "c".to_owned(),
            ..source()
        };
        assert_ne!(other.sizes(&draw, 5), sizes);
        let take = |number| {
            let flow = exchanges(
                draw.clone(),
                draw.clone(),
                draw.clone(),
                Some(4),
                source().of_flow(number),
            );
            flow.collect::<Vec<_>>()
        };
        assert_eq!(take(0), take(0));
        assert_ne!(take(0), take(1));
        assert!(
            take(2)
                .iter()
                .all(|one| one.request >= 20 && one.response >= 1)
        );
    }
}
