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
    /// Bits of a packet times 10^9, over the rate: its time in ns.
    bits: u64,
    rate: u64,
    /// Since when packets go in equal distances.
    since: Time,
    /// How many have gone since then.
    count: u64,
    /// When the next one goes.
    next: Time,
}

#[derive(Debug)]
enum Kind {
    Constant,
    Poisson { mean: f64 },
    OnOff { on: Amount, off: Amount, end: Time },
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
        let gap = |rate: &Rate| bits as f64 * 1e9 / rate.bits_per_s() as f64;
        let (kind, rate, next) = match application {
            Application::Constant { rate, .. } => (Kind::Constant, rate, start),
            Application::Poisson { rate, .. } => {
                let mean = gap(rate);
                let first = Amount::Exponential(mean).draw(stream);
                (Kind::Poisson { mean }, rate, start + Span::from_ns(first))
            }
            Application::OnOff { rate, on, off, .. } => {
                let (on, off) = (on.clone(), off.clone());
                let end = start + Span::from_ns(on.draw(stream));
                (Kind::OnOff { on, off, end }, rate, start)
            }
            Application::Bulk { .. } | Application::Requests { .. } => return None,
        };
        Some(Self {
            kind,
            bits,
            rate: rate.bits_per_s(),
            since: start,
            count: 0,
            next,
        })
    }

    /// When the next packet goes.
    pub fn next(&self) -> Time {
        self.next
    }

    /// The time of `count` packets at the rate.
    fn spacing(&self, count: u64) -> Span {
        let ns = u128::from(count) * u128::from(self.bits) * 1_000_000_000 / u128::from(self.rate);
        Span::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// A packet has gone. Time goes on by 1 ns at least, so that no source stops it.
    pub fn advance(&mut self, stream: &mut Stream) {
        self.count += 1;
        let regular = self.since + self.spacing(self.count);
        let last = self.next;
        self.next = match &mut self.kind {
            Kind::Constant => regular,
            Kind::Poisson { mean } => last + Span::from_ns(Amount::Exponential(*mean).draw(stream)),
            Kind::OnOff { end, .. } if regular < *end => regular,
            Kind::OnOff { on, off, end } => {
                let begin = (*end + Span::from_ns(off.draw(stream))).max(regular);
                *end = begin + Span::from_ns(on.draw(stream));
                (self.since, self.count) = (begin, 0);
                begin
            }
        }
        .max(last + Span::from_ns(1));
    }
}
