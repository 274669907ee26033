//! Planted faults: what the live tests must catch.
//!
//! Purpose: a test that passes says something only if it fails where the emulator is wrong. With
//! `LONGHAUL_FAULT` set, a live run has one fault that an emulator might really have, and
//! `tests/faults.sh` demands that the tests about it fail.
//!
//! Faults exist in builds with debug assertions alone, which the live tests run; a release binary
//! has neither the variable nor the code. A virtual run has no faults.

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use longhaul_core::observe::Counters;
use longhaul_core::params::PipeParams;
use longhaul_core::topology::Topology;
use longhaul_core::units::{QueueLimit, Rate};
use longhaul_core::{PipeId, Span};
use longhaul_linux::packet_io::Departure;

/// The variable that names the fault.
const VARIABLE: &str = "LONGHAUL_FAULT";
/// One departure in this many is swallowed.
const SWALLOWED_ONE_IN: u64 = 500;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The loop's timers have whole milliseconds, like `epoll_wait` and old kernels.
    MillisecondTimers,
    /// Packets are under way for twice the delay.
    DoubledDelay,
    /// Links send at half their rate.
    HalfRate,
    /// Queues hold twice their limit.
    DoubledQueue,
    /// Links do not follow their traces.
    IgnoredTrace,
    /// The counters lose a packet.
    LostCounter,
    /// One packet in 500 is not sent, and nobody counts it.
    UncountedDrop,
    /// The loop stalls for `length` at the end of each `period`, by the machine's clock.
    Stall { length: Duration, period: Duration },
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let stall = |text: &str| {
            let (length, period) = text.split_once('/')?;
            let span = |text: &str| {
                let span: Span = text.parse().ok()?;
                Some(Duration::from_nanos(span.as_ns()))
            };
            let (length, period) = (span(length)?, span(period)?);
            (!length.is_zero() && length < period).then_some(Self::Stall { length, period })
        };
        let found = match text {
            "millisecond-timers" => Some(Self::MillisecondTimers),
            "doubled-delay" => Some(Self::DoubledDelay),
            "half-rate" => Some(Self::HalfRate),
            "doubled-queue" => Some(Self::DoubledQueue),
            "ignored-trace" => Some(Self::IgnoredTrace),
            "lost-counter" => Some(Self::LostCounter),
            "uncounted-drop" => Some(Self::UncountedDrop),
            _ => text.strip_prefix("stall:").and_then(stall),
        };
        found.ok_or_else(|| {
            format!(
                "{VARIABLE}={text} is none of millisecond-timers, doubled-delay, half-rate, \
                 doubled-queue, ignored-trace, lost-counter, uncounted-drop, stall:5ms/100ms"
            )
        })
    }
}

/// The fault of this process, read once.
///
/// # Panics
///
/// The variable names no fault: a misspelt one would make a test look blind to it.
fn planted() -> Option<Fault> {
    static PLANTED: OnceLock<Option<Fault>> = OnceLock::new();
    *PLANTED.get_or_init(|| {
        let text = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
        text.map(|text| text.parse().unwrap_or_else(|problem| panic!("{problem}")))
    })
}

/// The pipes that have the fault from the start, with what is wrong in their parameters. What
/// events set later is right.
pub(crate) fn in_pipes(topology: &Topology) -> impl Iterator<Item = (PipeId, PipeParams)> {
    let fault = planted();
    let pipes = topology.pipes().iter().zip(0..);
    pipes.filter_map(move |(pipe, number)| {
        let wrong = with(fault?, PipeParams::clone(&pipe.params));
        (wrong != *pipe.params).then_some((PipeId(number), wrong))
    })
}

fn with(fault: Fault, mut params: PipeParams) -> PipeParams {
    match fault {
        Fault::DoubledDelay => params.delay += params.delay,
        Fault::HalfRate => {
            let half = |rate: Rate| Rate::from_bits_per_s(rate.bits_per_s() / 2);
            params.rate = params.rate.map(|rate| half(rate).unwrap_or(rate));
        }
        Fault::DoubledQueue => {
            params.queue = match params.queue {
                QueueLimit::Packets(limit) => QueueLimit::Packets(limit.saturating_mul(2)),
                QueueLimit::Bytes(limit) => QueueLimit::Bytes(limit.saturating_mul(2)),
                QueueLimit::Time(limit) => QueueLimit::Time(limit + limit),
            };
        }
        Fault::IgnoredTrace => params.trace = None,
        Fault::MillisecondTimers
        | Fault::LostCounter
        | Fault::UncountedDrop
        | Fault::Stall { .. } => {}
    }
    params
}

/// When a wait for `deadline` ends; both are machine time since t = 0.
pub(crate) fn wait_until(deadline: Duration) -> Duration {
    match planted() {
        Some(Fault::MillisecondTimers) => whole_ms(deadline),
        _ => deadline,
    }
}

fn whole_ms(deadline: Duration) -> Duration {
    const MS: u64 = 1_000_000;
    let ns = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(ns.div_ceil(MS).saturating_mul(MS))
}

/// The counters as they are reported.
pub(crate) fn counters(counters: &mut Counters) {
    if planted() == Some(Fault::LostCounter) {
        lose_one(counters);
    }
}

/// Loses one packet of those dropped or delivered, of which there are most.
fn lose_one(counters: &mut Counters) {
    let ends = [
        &mut counters.delivered,
        &mut counters.dropped.queue,
        &mut counters.dropped.loss,
    ];
    if let Some(most) = ends.into_iter().max_by_key(|count| **count) {
        *most = most.saturating_sub(1);
    }
}

/// The frames of a send call that do not vanish; `n` counts the departures of the run.
pub(crate) fn without_swallowed<'a, 'b>(
    batch: &'a [Departure<'b>],
    n: &mut u64,
) -> Cow<'a, [Departure<'b>]> {
    if planted() != Some(Fault::UncountedDrop) {
        return Cow::Borrowed(batch);
    }
    let stays = |_: &&Departure<'b>| {
        *n += 1;
        !n.is_multiple_of(SWALLOWED_ONE_IN)
    };
    batch.iter().filter(stays).copied().collect()
}

/// Stalls where the fault says so; `passed` is the machine time since t = 0.
#[expect(clippy::disallowed_methods, reason = "sleeping is the fault")]
pub(crate) fn stall(passed: Duration) {
    if let Some(length) = stall_at(passed) {
        std::thread::sleep(length);
    }
}

/// How long the loop stalls then: to the end of the period, once its last `length` has begun. The
/// next period begins after that, so the loop never stalls twice in one.
fn stall_at(passed: Duration) -> Option<Duration> {
    match planted() {
        Some(Fault::Stall { length, period }) => rest_of_stall(passed, length, period),
        _ => None,
    }
}

fn rest_of_stall(passed: Duration, length: Duration, period: Duration) -> Option<Duration> {
    let since = Duration::from_nanos((passed.as_nanos() % period.as_nanos()) as u64);
    let left = period - since;
    (left <= length).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_a_closed_list() {
        assert_eq!("half-rate".parse(), Ok(Fault::HalfRate));
        let (length, period) = (Duration::from_millis(5), Duration::from_millis(100));
        assert_eq!(
            "stall:5ms/100ms".parse(),
            Ok(Fault::Stall { length, period })
        );
        for wrong in ["", "halfrate", "stall", "stall:5/100", "stall:2 s/1 s"] {
            let said = wrong.parse::<Fault>().unwrap_err();
            assert!(said.contains("uncounted-drop"), "{said}");
        }
    }

    #[test]
    fn a_fault_changes_its_own_field_alone() {
        let rate = Rate::from_bits_per_s;
        let params = PipeParams {
            rate: rate(1_000_001),
            queue: QueueLimit::Packets(7),
            delay: Span::from_us(3),
            ..PipeParams::default()
        };
        let expected = [
            (Fault::HalfRate, rate(500_000), 7, 3),
            (Fault::DoubledQueue, params.rate, 14, 3),
            (Fault::DoubledDelay, params.rate, 7, 6),
            (Fault::LostCounter, params.rate, 7, 3),
        ];
        for (fault, rate, packets, us) in expected {
            let expected = PipeParams {
                rate,
                queue: QueueLimit::Packets(packets),
                delay: Span::from_us(us),
                ..PipeParams::default()
            };
            assert_eq!(with(fault, params.clone()), expected, "{fault:?}");
        }
    }

    #[test]
    fn deadlines_go_up_to_the_next_millisecond() {
        for (deadline, expected) in [(0, 0), (1, 1_000_000), (1_000_000, 1_000_000)] {
            let rounded = whole_ms(Duration::from_nanos(deadline));
            assert_eq!(rounded, Duration::from_nanos(expected));
        }
    }

    #[test]
    fn a_lost_packet_breaks_the_balance() {
        let mut counters = Counters {
            delivered: 3,
            ..Counters::default()
        };
        lose_one(&mut counters);
        assert_eq!(counters.delivered, 2);
    }

    #[test]
    fn a_stall_ends_with_its_period() {
        let at = |ms: u64| {
            rest_of_stall(
                Duration::from_millis(ms),
                Duration::from_millis(5),
                Duration::from_millis(100),
            )
        };
        assert_eq!([0, 94, 100, 200].map(at), [None; 4]);
        assert_eq!(at(95), Some(Duration::from_millis(5)));
        assert_eq!(at(199), Some(Duration::from_millis(1)));
    }
}
