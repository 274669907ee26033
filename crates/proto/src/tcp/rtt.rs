//! Round-trip time and time-out: RFC 6298 as Linux computes it (`tcp_rtt_estimator`).
//!
//! Theory: SRTT and mean deviation are averaged with weights of 1/8 and 1/4. Linux differs from
//! the RFC in two ways: the deviation rises four times slower when the round trip gets shorter,
//! and the allowance in the time-out is the largest deviation of the last round trip, which is
//! never below `rto_min` and falls by a quarter of the difference each round trip. So
//! RTO = SRTT + max(4·deviation, `rto_min`).

use longhaul_core::time::{Span, Time};

use super::config::Config;
use super::windowed::Windowed;

/// How long the least round-trip time is remembered (`tcp_min_rtt_wlen`).
const MIN_RTT_WINDOW: Span = Span::from_s(300);

/// The estimator; all values in ns.
#[derive(Debug)]
pub(super) struct Rtt {
    /// Smoothed round trip, times 8; 0 before the first sample.
    srtt8: u64,
    /// Mean deviation, times 4.
    deviation4: u64,
    /// Its largest value in this round trip.
    largest: u64,
    /// The allowance in the time-out.
    allowance: u64,
    /// The round trip ends when this number is acknowledged.
    round_end: u64,
    least: Windowed<u64>,
    /// All of them; made with the first.
    taken: Option<Box<RoundTrips>>,
}

/// Round trips measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RoundTrips {
    /// How many.
    pub count: u64,
    /// The shortest.
    pub least: Span,
    /// The longest.
    pub most: Span,
    /// The sum of all.
    pub total: Span,
}

impl RoundTrips {
    fn take(&mut self, ns: u64) {
        let rtt = Span::from_ns(ns);
        if self.count == 0 || rtt < self.least {
            self.least = rtt;
        }
        self.most = self.most.max(rtt);
        self.total += rtt;
        self.count += 1;
    }

    /// The mean; `None` without a measurement.
    pub fn mean(&self) -> Option<Span> {
        let mean = self.total.as_ns().checked_div(self.count)?;
        Some(Span::from_ns(mean))
    }

    /// Both together.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        if self.count == 0 || other.count == 0 {
            return if self.count == 0 { other } else { self };
        }
        Self {
            count: self.count + other.count,
            least: self.least.min(other.least),
            most: self.most.max(other.most),
            total: self.total + other.total,
        }
    }
}

impl Rtt {
    pub(super) fn new() -> Self {
        Self {
            srtt8: 0,
            deviation4: 0,
            largest: 0,
            allowance: 0,
            round_end: 0,
            least: Windowed::new(0, u64::MAX),
            taken: None,
        }
    }

    /// Takes a sample, which ends a back-off (RFC 6298 §5.7); `una` and `nxt` are the sender's.
    pub(super) fn sample(&mut self, rtt: Span, una: u64, nxt: u64, config: &Config) {
        let sample = rtt.as_ns().clamp(1, Span::from_s(3600).as_ns());
        let floor = config.rto_min.as_ns();
        self.taken.get_or_insert_default().take(sample);
        if self.srtt8 == 0 {
            self.srtt8 = sample * 8;
            self.deviation4 = sample * 2;
            self.allowance = self.deviation4.max(floor);
            self.largest = self.allowance;
            self.round_end = nxt;
            return;
        }
        let error = sample as i64 - (self.srtt8 / 8) as i64;
        self.srtt8 = self.srtt8.saturating_add_signed(error).max(8);
        let mut change = error.abs() - (self.deviation4 / 4) as i64;
        if error < 0 && change > 0 {
            change /= 8;
        }
        self.deviation4 = self.deviation4.saturating_add_signed(change);
        self.largest = self.largest.max(self.deviation4);
        self.allowance = self.allowance.max(self.largest);
        if una > self.round_end {
            self.allowance -= self.allowance.saturating_sub(self.largest) / 4;
            self.round_end = nxt;
            self.largest = floor;
        }
    }

    /// Takes a sample into the least round trip.
    pub(super) fn sample_least(&mut self, now: Time, rtt: Span) {
        let window = MIN_RTT_WINDOW.as_ns();
        self.least
            .update(now.as_ns(), rtt.as_ns().max(1), window, |a, b| a <= b);
    }

    /// Without a measurement the time-out is `rto` at least, as the first one was too short.
    pub(super) fn fall_back(&mut self, rto: Span, config: &Config) {
        if self.srtt8 == 0 {
            self.allowance = rto.max(config.rto_initial).as_ns();
        }
    }

    /// Smoothed round trip; zero before the first sample.
    pub(super) fn srtt(&self) -> Span {
        Span::from_ns(self.srtt8 / 8)
    }

    /// Its mean deviation; zero before the first sample.
    pub(super) fn deviation(&self) -> Span {
        Span::from_ns(self.deviation4 / 4)
    }

    /// Least round trip of the window.
    pub(super) fn least(&self) -> Option<Span> {
        Some(self.least.best())
            .filter(|&ns| ns != u64::MAX)
            .map(Span::from_ns)
    }

    /// The time-out without back-off (`__tcp_set_rto`).
    pub(super) fn base(&self, config: &Config) -> Span {
        let rto = match self.srtt8 {
            0 => config.rto_initial.max(Span::from_ns(self.allowance)),
            srtt8 => Span::from_ns(srtt8 / 8 + self.allowance),
        };
        rto.min(config.rto_max)
    }

    /// The time-out, doubled `backoff` times (RFC 6298 §5.5), at most `rto_max`.
    pub(super) fn rto(&self, backoff: u8, config: &Config) -> Span {
        let base = self.base(config).as_ns();
        let doubled = base.saturating_mul(1 << backoff.min(40));
        Span::from_ns(doubled).min(config.rto_max)
    }

    /// All that was measured.
    pub(super) fn taken(&self) -> RoundTrips {
        self.taken.as_deref().copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(rto_min_ms: u64) -> Config {
        Config {
            rto_min: Span::from_ms(rto_min_ms),
            ..Config::default()
        }
    }

    /// RFC 6298 §2.2: RTO = R + 4·R/2; then, R unchanged, the deviation shrinks by 3/4 a sample
    /// (§2.3). Without a floor and with each sample its own round trip Linux's allowance follows
    /// it by a quarter of the difference.
    #[test]
    fn the_first_samples_follow_the_rfc() {
        let config = config(0);
        let mut rtt = Rtt::new();
        assert_eq!(rtt.rto(0, &config), Span::from_s(1));
        rtt.sample(Span::from_ms(800), 1, 2, &config);
        assert_eq!(rtt.rto(0, &config), Span::from_ms(2400));
        // The deviation is now 1200 ms (times 4); the largest of this round is still 1600.
        rtt.sample(Span::from_ms(800), 3, 4, &config);
        assert_eq!(rtt.rto(0, &config), Span::from_ms(2400));
        // 900 ms; the allowance falls from 1600 by (1600 - 900) / 4.
        rtt.sample(Span::from_ms(800), 5, 6, &config);
        assert_eq!(rtt.rto(0, &config), Span::from_ms(800 + 1425));
        assert_eq!(rtt.srtt(), Span::from_ms(800));
    }

    #[test]
    fn a_longer_sample_counts_four_times_its_error_and_a_shorter_one_an_eighth_of_it() {
        let config = config(1);
        let steady = || {
            let mut rtt = Rtt::new();
            (0..200).for_each(|i| rtt.sample(Span::from_ms(100), 2 * i + 1, 2 * i + 2, &config));
            rtt
        };
        // 100 ms steady, deviation 0: error 80 ms → srtt 110, deviation·4 = 80.
        let mut longer = steady();
        longer.sample(Span::from_ms(180), 402, 403, &config);
        // The averages have settled to a few ns.
        assert_eq!(longer.rto(0, &config).as_ns() / 1000, 190_000);
        // Error −80 ms → srtt 90, deviation·4 = 10.
        let mut shorter = steady();
        shorter.sample(Span::from_ms(20), 402, 403, &config);
        let rto = shorter.rto(0, &config).as_ns() as f64;
        assert!((rto / 1e6 - 100.0).abs() < 0.1, "{rto}");
    }

    #[test]
    fn the_time_out_doubles_up_to_its_bound() {
        let config = config(200);
        let mut rtt = Rtt::new();
        rtt.sample(Span::from_ms(50), 1, 2, &config);
        let mut seen = Vec::new();
        for doublings in 0..11 {
            seen.push(rtt.rto(doublings, &config).as_ns() / 1_000_000);
        }
        let doubled = [
            250, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 120_000, 120_000,
        ];
        assert_eq!(seen, doubled);
    }
}
