//! Experiment time: points ([`Time`]) and lengths ([`Span`]), both whole nanoseconds.
//!
//! Unsigned and 64 bits wide: 584 years. Arithmetic saturates, so that a hostile duration
//! ends at the end of time instead of at the beginning.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A point in experiment time, in nanoseconds since t = 0 (all hosts up).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

/// A length of experiment time, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

impl Time {
    /// t = 0.
    pub const ZERO: Self = Self(0);
    /// The end of time: later than everything that can happen.
    pub const MAX: Self = Self(u64::MAX);

    /// The point `ns` nanoseconds after t = 0.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since t = 0.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Seconds since t = 0, for people and files; never for the engine.
    pub fn as_s(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// How far apart the two are, whichever is first.
    pub const fn distance(self, other: Self) -> Span {
        Span(self.0.abs_diff(other.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest span.
    pub const MAX: Self = Self(u64::MAX);

    /// `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// `us` microseconds.
    pub const fn from_us(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// `s` seconds.
    pub const fn from_s(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Seconds, for people and files; never for the engine.
    pub fn as_s(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// A count within this span as a rate per second, for people and files; 0 for an empty span.
    pub fn per_second(self, count: u64) -> f64 {
        match self {
            Self::ZERO => 0.0,
            span => count as f64 / span.as_s(),
        }
    }

    /// The difference, or zero where `other` is longer.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub<Span> for Time {
    type Output = Time;
    fn sub(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        *self = *self + other;
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t+{}", Span(self.0))
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The largest unit that shows the value exactly: `1500 us`, `2 s`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
        for (ns, unit) in units {
            if self.0 != 0 && self.0.is_multiple_of(ns) {
                return write!(f, "{} {unit}", self.0 / ns);
            }
        }
        match self.0 {
            0 => f.write_str("0 s"),
            ns => write!(f, "{ns} ns"),
        }
    }
}
