//! Sizes and times that may be random, drawn as modelled traffic draws them.
//!
//! Theory: a number is the quantile of its distribution at a uniform draw of a stream, whose name
//! is that of the flow's entry and of its two hosts, as in the model: what a flow carries is drawn
//! for all flows of the pair in turn, what it draws on its way (gaps, think times, sizes of
//! requests) from a stream of its own, by the model's own code. So a modelled and a real flow of
//! the same name, hosts and seed carry the same.
//!
//! Left out: correlation.

use longhaul_core::rng::Stream;
use longhaul_core::units::Rate;
use longhaul_core::{Span, Time};
use longhaul_proto::modelled::{Application, Source as Clocked};

use super::datagrams::Departure;
use super::stream::{Exchange, HEADER};
pub use longhaul_plan::flow_groups::Draw;

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
        let Self { name, from, to, .. } = self;
        let mut stream = Stream::new(self.seed, &format!("traffic {name} {from}>{to}"));
        // A distribution may yield zero; a flow carries something.
        (0..flows).map(|_| draw.next(&mut stream).max(1)).collect()
    }

    /// What flow `number` (from 0) draws on its way.
    pub fn of_flow(&self, number: u64) -> Stream {
        let Self { name, from, to, .. } = self;
        Stream::new(self.seed, &format!("{name}@{from}>{to}/{number}"))
    }
}

/// Times between packets.
#[derive(Debug, Clone)]
pub enum Gaps {
    /// Evenly spaced, at this many bits of payload per second.
    Even(Rate),
    /// Random and independent, at this many bits of payload per second.
    Poisson(Rate),
    /// Even at this rate for the first draw, then silent for the second, in turn.
    OnOff(Rate, Draw, Draw),
}

/// The departures of a flow of datagrams of `packet` bytes: `bytes` in all, the last datagram
/// smaller where they do not come out even.
pub fn departures(
    gaps: &Gaps,
    packet: u32,
    bytes: Option<u64>,
    mut stream: Stream,
) -> impl Iterator<Item = Departure> + use<> {
    let application = match gaps {
        Gaps::Even(rate) => Application::Constant { rate: *rate, bytes },
        Gaps::Poisson(rate) => Application::Poisson { rate: *rate, bytes },
        Gaps::OnOff(rate, on, off) => Application::OnOff {
            rate: *rate,
            bytes,
            on: on.amount(),
            off: off.amount(),
        },
    };
    let packet = packet.max(1);
    let mut source = Clocked::new(&application, packet, Time::ZERO, &mut stream);
    let mut left = bytes.unwrap_or(u64::MAX);
    std::iter::from_fn(move || {
        let source = source.as_mut().filter(|_| left > 0)?;
        let due = source.next().since(Time::ZERO);
        source.advance(&mut stream);
        let size = left.min(u64::from(packet)) as u32;
        left -= u64::from(size);
        Some((due, size))
    })
}

/// The exchanges of a flow of requests. Requests smaller than their header grow to it, empty
/// responses to one byte.
pub fn exchanges(
    [request, response, think]: [Draw; 3],
    count: Option<u64>,
    fresh: bool,
    mut stream: Stream,
) -> impl Iterator<Item = Exchange> {
    /// What a modelled connection draws when it opens: two first numbers, two seeds.
    const OF_A_CONNECTION: u32 = 4;
    let [request, response, think] = [request, response, think].map(|draw| draw.amount());
    (0..count.unwrap_or(u64::MAX)).map(move |number| {
        if number == 0 || fresh {
            (0..OF_A_CONNECTION).for_each(|_| {
                stream.draw();
            });
        }
        Exchange {
            request: request.draw(&mut stream).max(HEADER as u64),
            response: response.draw(&mut stream).max(1),
            think: Span::from_ns(think.draw(&mut stream)),
        }
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
            Ok(Draw::Exponential(1_000_000))
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
            ("{ exponential: 0 B }", "mean above zero"),
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
        let all: Vec<Departure> =
            departures(&Gaps::Even(rate), 1000, Some(10_500), source().of_flow(0)).collect();
        let times: Vec<u64> = all.iter().map(|(at, _)| at.as_ns()).collect();
        // 8/3 us, rounded down each.
        assert_eq!(times[..4], [0, 2_666, 5_333, 8_000]);
        assert_eq!((all.len(), all[10].1), (11, 500));
    }

    #[test]
    fn poisson_datagrams_have_their_rate_and_their_spread() {
        let rate = Rate::from_bits_per_s(8_000_000).unwrap();
        let flow = departures(&Gaps::Poisson(rate), 1000, None, source().of_flow(0));
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
        let [on, off] = [2_500_000, 10_000_000].map(Draw::Constant);
        let gaps = Gaps::OnOff(rate, on, off);
        let flow = departures(&gaps, 1000, None, source().of_flow(0));
        let times: Vec<u64> = flow.take(7).map(|(at, _)| at.as_ns() / 1000).collect();
        // On from 0 to 2.5 ms, and again 10 ms later.
        assert_eq!(times, [0, 1000, 2000, 12_500, 13_500, 14_500, 25_000]);
    }

    #[test]
    fn the_same_name_draws_the_same() {
        let draw = Draw::Exponential(100_000);
        let sizes = source().sizes(&draw, 5);
        assert_eq!(source().sizes(&draw, 3), sizes[..3]);
        let other = Source {
            to: "c".to_owned(),
            ..source()
        };
        assert_ne!(other.sizes(&draw, 5), sizes);
        let take = |number, fresh| {
            let draws = [draw.clone(), draw.clone(), Draw::Constant(7)];
            exchanges(draws, Some(4), fresh, source().of_flow(number)).collect::<Vec<_>>()
        };
        assert_eq!(take(0, false), take(0, false));
        assert_ne!(take(0, false), take(1, false));
        // A new connection draws anew; the first one has nothing before it.
        assert_eq!(take(0, false)[0], take(0, true)[0]);
        assert_ne!(take(0, false)[1], take(0, true)[1]);
        assert!(
            take(2, true)
                .iter()
                .all(|one| one.request >= 20 && one.response >= 1)
        );
    }
}
