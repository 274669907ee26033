//! When an application that sends by the clock sends its packets, and how amounts are drawn.

use longhaul_core::rng::Stream;
use longhaul_core::time::{Span, Time};
use longhaul_core::units::Rate;

use super::spec::{Amount, Application};

/// A draw as a number strictly between 0 and 1: the middle of one of 2^52 equal parts.
fn unit(stream: &mut Stream) -> f64 {
    ((stream.draw() >> 12) as f64 + 0.5) * f64::EPSILON
}

impl Amount {
    /// An amount, rounded to a whole number.
    pub fn draw(&self, stream: &mut Stream) -> u64 {
        let drawn = match self {
            Self::Fixed(amount) => return *amount,
            Self::Exponential(mean) => -mean * libm::log(unit(stream)),
            Self::Drawn(distribution) => distribution.quantile(unit(stream)),
        };
        // The cast cuts off below zero and above the largest number.
        (drawn + 0.5) as u64
    }
}

/// Packets of one size at times of its own.
#[derive(Debug)]
pub struct Source {
    kind: Kind,
    gap: Gap,
    /// The next place in the row of equal distances that is under way.
    regular: Time,
    /// When the next one goes.
    next: Time,
}

#[derive(Debug)]
enum Kind {
    Constant,
    Poisson { mean: f64 },
    OnOff { on: Amount, off: Amount, end: Time },
}

/// The distance of packets at a rate: whole nanoseconds, and a rest that is carried, so that the
/// n-th packet of a row goes at n distances, rounded down once.
#[derive(Debug)]
struct Gap {
    ns: u64,
    /// What remains of a packet's bits times 10^9, over the rate.
    rest: u64,
    carried: u64,
    rate: u64,
}

impl Gap {
    fn new(bits: u64, rate: Rate) -> Self {
        let rate = rate.bits_per_s();
        let (whole, part) = (u128::from(bits) * 1_000_000_000, u128::from(rate));
        Self {
            ns: u64::try_from(whole / part).unwrap_or(u64::MAX),
            rest: (whole % part) as u64,
            carried: 0,
            rate,
        }
    }

    /// A new row begins.
    fn restart(&mut self) {
        self.carried = 0;
    }

    /// To the next packet of the row.
    fn step(&mut self) -> Span {
        let lacking = self.rate - self.rest;
        let is_full = self.carried >= lacking;
        if is_full {
            self.carried -= lacking
        } else {
            self.carried += self.rest
        }
        Span::from_ns(self.ns.saturating_add(is_full.into()))
    }
}

impl Source {
    /// The source of packets of `bytes` that begins at `start`; `None` for an application that
    /// does not send by the clock.
    pub fn new(
        application: &Application,
        bytes: u32,
        start: Time,
        stream: &mut Stream,
    ) -> Option<Self> {
        let bits = u64::from(bytes) * 8;
        let (kind, rate, next) = match application {
            Application::Constant { rate, .. } => (Kind::Constant, *rate, start),
            Application::Poisson { rate, .. } => {
                let mean = bits as f64 * 1e9 / rate.bits_per_s() as f64;
                let first = Amount::Exponential(mean).draw(stream);
                (Kind::Poisson { mean }, *rate, start + Span::from_ns(first))
            }
            Application::OnOff { rate, on, off, .. } => {
                let (on, off) = (on.clone(), off.clone());
                let end = start + Span::from_ns(on.draw(stream));
                (Kind::OnOff { on, off, end }, *rate, start)
            }
            Application::Bulk { .. } | Application::Requests { .. } => return None,
        };
        let mut gap = Gap::new(bits, rate);
        let regular = start + gap.step();
        Some(Self {
            kind,
            gap,
            regular,
            next,
        })
    }

    /// When the next packet goes.
    pub fn next(&self) -> Time {
        self.next
    }

    /// A packet has gone. Time goes on by 1 ns at least, so that no source stops it.
    pub fn advance(&mut self, stream: &mut Stream) {
        let least = self.next + Span::from_ns(1);
        let next = match &mut self.kind {
            Kind::Poisson { mean } => {
                self.next + Span::from_ns(Amount::Exponential(*mean).draw(stream))
            }
            Kind::OnOff { on, off, end } if self.regular >= *end => {
                let begin = (*end + Span::from_ns(off.draw(stream))).max(self.regular);
                *end = begin + Span::from_ns(on.draw(stream));
                self.gap.restart();
                self.regular = begin;
                begin
            }
            Kind::Constant | Kind::OnOff { .. } => self.regular,
        };
        self.regular += self.gap.step();
        self.next = next.max(least);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The n-th packet goes when n of them have taken their time at the rate, 1 ns after the one
        /// before it at the earliest.
        #[test]
        fn rests_of_nanoseconds_are_carried(
            bytes in 1..65_000_u32,
            rate in prop_oneof![1..1_000_000_u64, 1..200_000_000_000_u64, Just(u64::MAX)],
        ) {
            let application = Application::Constant {
                rate: Rate::from_bits_per_s(rate).unwrap(),
                bytes: None,
            };
            let (start, mut stream) = (Time::from_ns(77), Stream::new(1, "x"));
            let mut source = Source::new(&application, bytes, start, &mut stream).unwrap();
            let mut least = 0;
            for number in 0..2000_u128 {
                let ns = number * u128::from(bytes) * 8_000_000_000 / u128::from(rate);
                let expected = ns.max(least);
                prop_assert_eq!(u128::from(source.next().since(start).as_ns()), expected);
                source.advance(&mut stream);
                least = expected + 1;
            }
        }
    }
}
