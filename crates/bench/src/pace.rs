//! Pacing without drift: event i is due at start + i × period, whatever happened before.
//!
//! A late event does not move the ones after it; they catch up. How late each one was is the
//! caller's to record. Sleeping alone wakes up some tens of microseconds late; a precise pacer
//! sleeps until shortly before and spins over the rest. It also catches up at no more than twice
//! its rate, so that a late wake-up does not put a burst on the path that is measured.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// How long before the due time a precise pacer stops sleeping: more than a usual wake-up.
const SPIN: Duration = Duration::from_micros(80);

/// The due times of a regular series of events.
pub(crate) struct Pacer {
    start: Instant,
    /// The period is `ns / events` nanoseconds, a fraction so that rounding errors do not add up.
    ns: u64,
    events: u64,
    precise: bool,
    /// When the last event took place, counted from the start.
    last: Duration,
}

impl Pacer {
    /// `per_second` events a second from now on; zero counts as one.
    pub(crate) fn rate(per_second: u64, precise: bool) -> Self {
        Self::new(1_000_000_000, per_second.max(1), precise)
    }

    /// One event every `us` microseconds from now on.
    pub(crate) fn interval_us(us: u64, precise: bool) -> Self {
        Self::new(us.saturating_mul(1_000), 1, precise)
    }

    fn new(ns: u64, events: u64, precise: bool) -> Self {
        lower_timer_slack();
        Self {
            start: Instant::now(),
            ns,
            events,
            precise,
            last: Duration::ZERO,
        }
    }

    /// When event `index` is due, counted from the start.
    fn due(&self, index: u64) -> Duration {
        let ns = u128::from(index) * u128::from(self.ns) / u128::from(self.events);
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// The earliest time for an event that is due at `due`.
    fn not_before(&self, due: Duration) -> Duration {
        if self.precise {
            due.max(self.last + self.due(1) / 2)
        } else {
            due
        }
    }

    /// Waits until event `index` is due; says how late that became, in nanoseconds.
    pub(crate) fn wait(&mut self, index: u64) -> i64 {
        let due = self.due(index);
        let begin = self.not_before(due);
        let margin = if self.precise { SPIN } else { Duration::ZERO };
        loop {
            let now = self.start.elapsed();
            if now >= begin {
                self.last = now;
                let late = now - due;
                return i64::try_from(late.as_nanos()).unwrap_or(i64::MAX);
            }
            match (begin - now).checked_sub(margin) {
                Some(nap) if !nap.is_zero() => thread::sleep(nap),
                _ => std::hint::spin_loop(),
            }
        }
    }
}

/// Asks for wake-ups on time instead of up to 50 µs later. Best effort: where `/proc` is
/// missing, the recorded lateness shows it.
fn lower_timer_slack() {
    let _ = fs::write("/proc/self/timerslack_ns", "1");
}

/// Parses a positive number of seconds for the command line.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|span| !span.is_zero() && span.as_secs() < 1_000_000)
        .ok_or_else(|| "give a positive number of seconds, like 2.5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_times_do_not_drift() {
        let pacer = Pacer::rate(3, false);
        assert_eq!(pacer.due(1), Duration::from_nanos(333_333_333));
        assert_eq!(pacer.due(3), Duration::from_secs(1));
        assert_eq!(pacer.due(3_000_000), Duration::from_secs(1_000_000));
        assert_eq!(
            Pacer::interval_us(5, true).due(2),
            Duration::from_micros(10)
        );
    }

    #[test]
    fn a_precise_pacer_catches_up_at_twice_its_rate() {
        let (us, late) = (Duration::from_micros, Duration::from_millis(1));
        for (precise, next) in [(true, us(1_010)), (false, us(20))] {
            let mut pacer = Pacer::rate(50_000, precise);
            pacer.last = late;
            assert_eq!(pacer.not_before(pacer.due(1)), next);
            // One that is not late waits for its time.
            assert_eq!(pacer.not_before(pacer.due(100)), us(2_000));
        }
    }

    #[test]
    fn waiting_never_ends_early() {
        for precise in [false, true] {
            let mut pacer = Pacer::rate(2_000, precise);
            assert!(pacer.wait(4) >= 0);
            assert!(pacer.start.elapsed() >= Duration::from_millis(2));
        }
    }

    #[test]
    fn seconds_must_be_positive_numbers() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0", "-1", "nan", "1e300", "2s", ""] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
