//! Serialisation at a constant rate, even to the byte.
//!
//! A packet of b counted bytes takes 8·10⁹·b / rate nanoseconds. Its departure is kept exactly:
//! whole nanoseconds and a remainder in units of 1/rate ns, so that rounding never adds up
//! over a busy period. When the pipe falls idle the remainder ends with the busy period.
//! Outside the pipe a departure is the first whole nanosecond at which the last bit is out, so
//! a packet is never anywhere before it has been sent.
//!
//! Left out: rates from traces.

use std::num::NonZeroU64;

use crate::units::Rate;

/// The highest rate: above it a remainder could overflow. 4.6 Ebit/s is unlimited for every purpose.
pub(crate) const MAX_RATE: u64 = 1 << 62;

/// A point in time, exact in units of `1/rate` ns of the pipe that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Exact {
    /// Whole nanoseconds.
    pub(crate) ns: u64,
    /// The rest, in units of 1/rate ns, below the rate.
    rem: u64,
}

impl Exact {
    /// A whole nanosecond.
    pub(crate) const fn at(ns: u64) -> Self {
        Self { ns, rem: 0 }
    }

    /// The first whole nanosecond that is not before this point.
    #[inline]
    pub(crate) const fn ceil(self) -> u64 {
        self.ns.saturating_add((self.rem > 0) as u64)
    }

    /// Whether it is a whole nanosecond.
    #[inline]
    pub(crate) const fn is_whole(self) -> bool {
        self.rem == 0
    }

    /// The later of this point and the whole nanosecond `ns`.
    #[inline]
    pub(crate) const fn or_at(self, ns: u64) -> Self {
        if ns > self.ns { Self::at(ns) } else { self }
    }

    #[inline]
    fn plus(self, other: Self, rate: NonZeroU64) -> Self {
        let (ns, rem) = (self.ns.saturating_add(other.ns), self.rem + other.rem);
        if rem < rate.get() {
            Self { ns, rem }
        } else {
            Self {
                ns: ns.saturating_add(1),
                rem: rem - rate.get(),
            }
        }
    }
}

/// The sender of a pipe: one packet at a time.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    /// Bits per second; `None` is unlimited.
    rate: Option<NonZeroU64>,
    /// When everything accepted so far has been sent.
    busy_until: Exact,
    /// A cache of the last division: a size and its time, because most packets have the size of the one
    /// before. Times beyond 4 s do not fit and are divided each time.
    last_bytes: u32,
    last_ns: u32,
    last_rem: u64,
}

impl Server {
    pub(crate) fn new(rate: Option<Rate>) -> Self {
        let rate = rate.and_then(|rate| NonZeroU64::new(rate.bits_per_s().min(MAX_RATE)));
        Self {
            rate,
            busy_until: Exact::default(),
            last_bytes: 0,
            last_ns: 0,
            last_rem: 0,
        }
    }

    /// Whether a packet that enters at `ns` has to wait for others.
    #[inline]
    pub(crate) const fn is_busy(&self, ns: u64) -> bool {
        self.wait(ns) > 0
    }

    /// How long a packet that enters at `ns` has to wait for others, in ns.
    pub(crate) const fn wait(&self, ns: u64) -> u64 {
        match self.rate {
            Some(_) => self.busy_until.ceil().saturating_sub(ns),
            None => 0,
        }
    }

    /// When everything accepted so far has been sent.
    pub(crate) const fn busy_until(&self) -> Exact {
        self.busy_until
    }

    /// Forgets all that was accepted after the packet that departs at `departure`.
    pub(crate) const fn rewind(&mut self, departure: Exact) {
        self.busy_until = departure;
    }

    /// Accepts a packet of `bytes` that enters at `ns`; returns its start and departure.
    #[inline]
    pub(crate) fn serve(&mut self, ns: u64, bytes: u32) -> (Exact, Exact) {
        let start = self.busy_until.or_at(ns);
        self.busy_until = match self.rate {
            None => start,
            Some(rate) => start.plus(self.time_of(bytes, rate), rate),
        };
        (start, self.busy_until)
    }

    /// How long it takes to send `bytes`.
    #[inline]
    fn time_of(&mut self, bytes: u32, rate: NonZeroU64) -> Exact {
        if bytes == self.last_bytes {
            return Exact {
                ns: u64::from(self.last_ns),
                rem: self.last_rem,
            };
        }
        let work = u64::from(bytes) * 8_000_000_000;
        let (ns, rem) = (work / rate, work % rate);
        if let Ok(short) = u32::try_from(ns) {
            (self.last_bytes, self.last_ns, self.last_rem) = (bytes, short, rem);
        }
        Exact { ns, rem }
    }

    /// When the service of a packet of `bytes` that departs at `departure` starts.
    pub(crate) fn start_of(&self, departure: Exact, bytes: u32) -> Exact {
        let Some(rate) = self.rate else {
            return departure;
        };
        let work = u64::from(bytes) * 8_000_000_000;
        let borrowed = u64::from(departure.rem < work % rate);
        Exact {
            ns: departure.ns.saturating_sub(work / rate + borrowed),
            rem: departure.rem + borrowed * rate.get() - work % rate,
        }
    }

    /// What is left to send at `now` of a packet that departs at `departure`, in bits · 10⁹.
    pub(crate) fn work_left(&self, departure: Exact, now: u64) -> u128 {
        let rate = self.rate.map_or(0, NonZeroU64::get);
        let whole = u128::from(departure.ns - now) * u128::from(rate);
        whole + u128::from(departure.rem)
    }

    /// Starts over at `now` with `work` bits · 10⁹ in service; gives their departure.
    pub(crate) fn restart(&mut self, now: u64, work: u128) -> Exact {
        self.busy_until = Exact::at(now);
        if let Some(rate) = self.rate {
            let rate = u128::from(rate.get());
            let ns = u64::try_from(work / rate).unwrap_or(u64::MAX);
            let rem = (work % rate) as u64; // below a 64-bit rate
            self.busy_until = Exact {
                ns: now.saturating_add(ns),
                rem,
            };
        }
        self.busy_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(bits_per_s: u64) -> Server {
        Server::new(Rate::from_bits_per_s(bits_per_s))
    }

    #[test]
    fn remainders_never_add_up() {
        // 7 bit/ns: 1000 bytes take 1142 6/7 ns; seven of them exactly 8000 ns.
        let mut server = server(7_000_000_000);
        let ends: Vec<u64> = (0..7).map(|_| server.serve(0, 1000).1.ceil()).collect();
        assert_eq!(ends, [1143, 2286, 3429, 4572, 5715, 6858, 8000]);
    }

    #[test]
    fn a_remainder_ends_with_its_busy_period() {
        let mut server = server(7_000_000_000);
        assert_eq!(server.serve(0, 1000).1.ceil(), 1143);
        assert!(server.is_busy(1142) && !server.is_busy(1143));
        assert_eq!(server.serve(1143, 1000).0, Exact::at(1143));
    }

    #[test]
    fn unlimited_takes_no_time_and_extremes_do_not_overflow() {
        assert_eq!(Server::new(None).serve(5, 1500).1, Exact::at(5));
        assert_eq!(server(u64::MAX).serve(5, 65_573).1.ceil(), 6);
        assert_eq!(server(1).serve(u64::MAX, 65_573).1.ceil(), u64::MAX);
        let departure = Exact {
            ns: u64::MAX,
            rem: 0,
        };
        assert!(server(MAX_RATE).work_left(departure, 0) > 0);
    }
}
