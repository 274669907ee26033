//! A token bucket: a rate in the mean, and bursts at once.
//!
//! Theory: tokens flow in at the rate up to the bucket's depth; a packet goes, in no time, as
//! soon as there are as many as its bytes, and takes them along. That is the virtual scheduling
//! form of the generic cell rate algorithm (ITU-T I.371, annex A): instead of a level, the
//! bucket keeps the time at which it will be full, in units of 1/rate ns, and every step is
//! exact. A unit of time is then a unit of work, a bit · 10⁻⁹, whatever the rate. A packet that
//! is larger than the bucket waits until the bucket is full and leaves it in debt, so that the
//! mean rate still holds.
//!
//! Left out: a second bucket for the peak rate.

use std::num::NonZeroU64;

use super::rate::MAX_RATE;
use super::trace::WORK_OF_BYTE;
use crate::units::{Bytes, Rate};

/// A token bucket in front of packets that go one by one.
#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    /// Units in a nanosecond; `None` is unlimited.
    rate: Option<NonZeroU64>,
    /// Work.
    depth: u128,
    /// When the bucket is full, in units: with the packet accepted last, and without it.
    full_at: u128,
    full_before: u128,
    /// When the packet accepted last goes, in units; without a rate, in nanoseconds.
    free: u128,
    /// The work of the packet accepted last.
    work: u128,
}

impl Bucket {
    /// A full bucket.
    pub(crate) fn new(rate: Option<Rate>, depth: Bytes) -> Self {
        Self {
            rate: rate.and_then(|rate| NonZeroU64::new(rate.bits_per_s().min(MAX_RATE))),
            depth: work_of(depth),
            full_at: 0,
            full_before: 0,
            free: 0,
            work: 0,
        }
    }

    /// Units in a nanosecond.
    fn pace(&self) -> u128 {
        self.rate.map_or(1, |rate| u128::from(rate.get()))
    }

    /// The nanoseconds that `work` takes at the mean rate.
    pub(crate) fn mean_ns(&self, work: u128) -> u64 {
        let ns = self.rate.map_or(0, |_| work / self.pace());
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Accepts `work` that comes at `ns` and goes behind what was accepted before; gives the
    /// first whole nanosecond at which it is gone.
    pub(crate) fn serve(&mut self, ns: u64, work: u128) -> u64 {
        let pace = self.pace();
        self.free = self.free.max(u128::from(ns) * pace);
        if self.rate.is_some() {
            let missing_before = self.full_at.saturating_add(work);
            let enough_at = missing_before.saturating_sub(self.depth.max(work));
            self.free = self.free.max(enough_at);
            self.full_before = self.full_at;
            self.full_at = self.full_at.max(self.free).saturating_add(work);
        }
        self.work = work;
        u64::try_from(self.free.div_ceil(pace)).unwrap_or(u64::MAX)
    }

    /// The work of the packet accepted last, which has not gone: all of it.
    pub(crate) const fn work_left(&self) -> u128 {
        self.work
    }

    /// The packet accepted last does not go; the next one goes no earlier than `ns`.
    pub(crate) fn take_back(&mut self, ns: u64) {
        self.full_at = self.full_before;
        self.free = u128::from(ns) * self.pace();
    }

    /// Changes rate and depth at `ns`, when nothing is accepted that has not gone. The tokens
    /// stay, as far as the new bucket holds them.
    pub(crate) fn set(&mut self, rate: Option<Rate>, depth: Bytes, ns: u64) {
        let old = std::mem::replace(self, Self::new(rate, depth));
        let now = u128::from(ns);
        self.free = now * self.pace();
        if old.rate.is_some() {
            let missing = old.full_at.saturating_sub(now * old.pace());
            let missing = missing.saturating_add(self.depth);
            self.full_at = self.free + missing.saturating_sub(old.depth);
        }
        self.full_before = self.full_at;
    }
}

fn work_of(bytes: Bytes) -> u128 {
    u128::from(bytes.0) * WORK_OF_BYTE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition: a level of tokens that rises with time, looked at in units of 1/rate ns,
    /// and a search for the first unit at which it is high enough.
    struct Slow {
        rate: u128,
        depth: u128,
        level: i128,
        /// When `level` was right, in units.
        at: u128,
    }

    impl Slow {
        fn level(&self, at: u128, depth: u128) -> i128 {
            (self.level + (at - self.at) as i128).min(depth as i128)
        }

        fn serve(&mut self, ns: u64, bytes: u64) -> u64 {
            let work = u128::from(bytes) * WORK_OF_BYTE;
            let earliest = self.at.max(u128::from(ns) * self.rate);
            // The level is capped before a large packet's debt begins.
            let level = |slow: &Self, at| slow.level(at, slow.depth);
            let enough = |slow: &Self, at| level(slow, at) >= work.min(slow.depth) as i128;
            let (mut low, mut high) = (earliest, earliest + (1 << 90));
            while low < high {
                let middle = low + (high - low) / 2;
                if enough(self, middle) {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
            self.level = level(self, low) - work as i128;
            self.at = low;
            u64::try_from(low.div_ceil(self.rate)).unwrap()
        }
    }

    #[test]
    fn the_bucket_equals_the_definition() {
        let mut seed = 1u64;
        let mut random = move |n: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % n
        };
        for round in 0..200 {
            let rate = 1 + random(30_000_000_000);
            let depth = [0, 1000, 1514, 20_000, 1_000_000][round % 5];
            let mut bucket = Bucket::new(Rate::from_bits_per_s(rate), Bytes(depth));
            let work = u128::from(depth) * WORK_OF_BYTE;
            let mut slow = Slow {
                rate: u128::from(rate),
                depth: work,
                level: work as i128,
                at: 0,
            };
            let mut now = 0;
            for packet in 0..300 {
                let gap = 1 + 8_000_000_000 * 3000 / rate;
                now += if packet % 50 == 0 {
                    gap * 100
                } else {
                    random(gap)
                };
                let bytes = 64 + random(1500);
                let gone = bucket.serve(now, u128::from(bytes) * WORK_OF_BYTE);
                assert_eq!(gone, slow.serve(now, bytes), "rate {rate}, depth {depth}");
            }
        }
    }

    /// 8 bit/ns: 1000 bytes a microsecond. Of 3000 in the bucket, 2500 go at once; the 1500
    /// behind them find 500 and wait for 1000.
    #[test]
    fn a_burst_goes_at_once_and_the_rest_by_the_rate() {
        let rate = Rate::from_bits_per_s(8_000_000_000);
        let mut bucket = Bucket::new(rate, Bytes(3000));
        let work = |bytes: u64| work_of(Bytes(bytes));
        let times = [1000, 1500, 1500, 1500].map(|bytes| bucket.serve(5000, work(bytes)));
        assert_eq!(times, [5000, 5000, 6000, 7500]);
        // The last has not gone at 6500, when half of its tokens... are there: 500.
        bucket.take_back(6500);
        bucket.set(Rate::from_bits_per_s(4_000_000_000), Bytes(3000), 6500);
        assert_eq!(bucket.serve(6500, work(1500)), 8500);
        bucket.set(None, Bytes(3000), 9000);
        assert_eq!(bucket.serve(9000, work(1_000_000)), 9000);
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut bucket = Bucket::new(Rate::from_bits_per_s(u64::MAX), Bytes(u64::MAX));
        assert_eq!(bucket.serve(u64::MAX, work_of(Bytes(65_573))), u64::MAX);
        let mut bucket = Bucket::new(Rate::from_bits_per_s(1), Bytes(0));
        assert_eq!(bucket.serve(0, 10), 0);
        assert_eq!(bucket.serve(0, work_of(Bytes(u64::MAX))), 10);
        assert_eq!(bucket.serve(0, 1), u64::MAX);
        bucket.set(Rate::from_bits_per_s(u64::MAX), Bytes(u64::MAX), u64::MAX);
        assert_eq!(bucket.serve(u64::MAX, 1), u64::MAX);
    }
}
