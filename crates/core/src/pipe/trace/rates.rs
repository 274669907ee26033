//! Serialisation under a rate that changes: the integral of the rate, exactly.
//!
//! Theory: where the end of a packet lies is kept as the stretch and the work done in it since
//! the stretch began, a whole number of bits · 10⁹, and never as a time. The work of a stretch
//! by its n-th nanosecond is W(n) = r·n under a constant rate. On a line from r to s over a
//! length of L nanoseconds it is W(n) = ⌊r·n + (s − r)·n² / 2L⌋, which is the integral but for
//! less than one unit, 10⁻⁹ bit. Departures are the least n with W(n) ≥ work, found exactly in
//! integers: under constant rates a departure is the first whole nanosecond at which the last
//! bit is out; on lines it is the first at which that and another 10⁻⁹ bit for each stretch
//! since the busy period began would be out, never earlier. Floating point only guesses where
//! to look first.
//!
//! A packet that takes many rounds of a looped trace jumps over them by division.

use crate::pipe::rate::MAX_RATE;
use crate::trace::Trace;
use crate::units::Rate;

use super::timeline::{NEVER, Stretch, Timeline};

/// The sender of a pipe under a recorded rate.
#[derive(Debug, Clone)]
pub(super) struct Rates {
    fallback: Option<Rate>,
    /// The end of what was accepted last, and its beginning.
    end: Point,
    begin: Point,
    /// The work of what was accepted last.
    work: u128,
    /// The work of a whole round, once it was needed.
    round: Option<u128>,
}

/// An exact point in time.
#[derive(Debug, Clone, Copy)]
struct Point {
    stretch: Stretch,
    /// The work of the stretch so far; in a stretch without limit, nanoseconds.
    done: u128,
}

/// How far sending has got.
struct Sent {
    end: Point,
    /// Work that is left because time was up.
    left: u128,
    /// The first whole nanosecond at which all is out; [`NEVER`] without one.
    departure: u64,
}

impl Rates {
    pub(super) fn new(trace: &Trace, fallback: Option<Rate>) -> Self {
        let start = Point {
            stretch: Timeline::of(trace).first(),
            done: 0,
        };
        Self {
            fallback,
            end: start,
            begin: start,
            work: 0,
            round: None,
        }
    }

    /// Bits per second at both ends of a stretch.
    fn line(&self, timeline: &Timeline<'_>, stretch: &Stretch) -> Option<(u64, u64)> {
        let (from, to) = timeline.line(stretch, self.fallback)?;
        Some((from.min(MAX_RATE), to.min(MAX_RATE)))
    }

    /// The next packet starts at `t`, when nothing is being sent.
    pub(super) fn start(&mut self, trace: &Trace, t: u64) {
        let timeline = Timeline::of(trace);
        let stretch = timeline.find(t, Some(&self.end.stretch));
        let within = t.clamp(stretch.start, stretch.end) - stretch.start;
        let done = match self.line(&timeline, &stretch) {
            None => u128::from(within),
            // Not before `t`, by however little.
            Some(line) => work_started(line, stretch.len(), within),
        };
        self.end = Point { stretch, done };
    }

    /// Sends `work` behind what was sent last; gives the departure.
    pub(super) fn send(&mut self, trace: &Trace, work: u128) -> u64 {
        (self.begin, self.work) = (self.end, work);
        let sent = self.walk(trace, NEVER);
        self.end = sent.end;
        sent.departure
    }

    /// What is left at `now` of what was sent last.
    pub(super) fn left(&mut self, trace: &Trace, now: u64) -> u128 {
        self.walk(trace, now).left
    }

    /// Goes from stretch to stretch until the work last accepted is done, or it is `until`.
    fn walk(&mut self, trace: &Trace, until: u64) -> Sent {
        let timeline = Timeline::of(trace);
        let (mut point, mut left) = (self.begin, self.work);
        let first = point.stretch.cycle;
        loop {
            let stretch = point.stretch;
            let Some(line) = self.line(&timeline, &stretch) else {
                let departure = stretch.start.saturating_add(point.done as u64); // was 64 bits
                let left = if departure <= until { 0 } else { left };
                return Sent {
                    end: point,
                    left,
                    departure,
                };
            };
            let target = point.done.saturating_add(left);
            let total = work_by(line, stretch.len(), stretch.len());
            if until < stretch.end {
                let now = until.saturating_sub(stretch.start);
                let done = work_by(line, stretch.len(), now).max(point.done);
                left = target.saturating_sub(done);
            }
            if target <= total {
                let n = first_with(line, stretch.len(), target);
                if stretch.start + n <= until {
                    left = 0;
                }
                let end = Point {
                    stretch,
                    done: target,
                };
                return Sent {
                    end,
                    left,
                    departure: stretch.start + n,
                };
            }
            if until < stretch.end {
                return Sent {
                    end: point,
                    left,
                    departure: NEVER,
                };
            }
            left = target - total;
            let next = timeline
                .next(&stretch)
                .and_then(|next| self.skip_rounds(&timeline, next, first, &mut left, until));
            let Some(stretch) = next else {
                return Sent {
                    end: point,
                    left,
                    departure: NEVER,
                };
            };
            point = Point { stretch, done: 0 };
        }
    }

    /// At the beginning of a round, once a whole one was passed: jumps over those that cannot
    /// finish what is `left`. `None` where no round ever will.
    fn skip_rounds(
        &mut self,
        timeline: &Timeline<'_>,
        next: Stretch,
        first: u64,
        left: &mut u128,
        until: u64,
    ) -> Option<Stretch> {
        let Some(period) = timeline.period.filter(|_| next.index == Some(0)) else {
            return Some(next);
        };
        if next.cycle < first.saturating_add(2) {
            return Some(next);
        }
        let round = self.round(timeline);
        if round == 0 && until == NEVER {
            return None;
        }
        let rounds = (*left - 1).checked_div(round).unwrap_or(u128::MAX);
        let in_time = u128::from(until.saturating_sub(next.start) / period);
        let rounds = rounds.min(in_time);
        *left -= rounds * round;
        let cycle = u64::try_from(u128::from(next.cycle) + rounds).ok()?;
        timeline.stretch(cycle, 0)
    }

    /// The work of a whole round, which has no stretch without limit.
    fn round(&mut self, timeline: &Timeline<'_>) -> u128 {
        if let Some(round) = self.round {
            return round;
        }
        let work = |index| {
            let stretch = timeline.stretch(0, index)?;
            let line = self.line(timeline, &stretch)?;
            Some(work_by(line, stretch.len(), stretch.len()))
        };
        let stretches = 0..timeline.stretches();
        let round = stretches.filter_map(work).fold(0, u128::saturating_add);
        self.round = Some(round);
        round
    }
}

/// The work done by the `n`-th nanosecond of a stretch of `len`, `n` at most `len`, on a line
/// between two rates of at most 2⁶²: no step overflows.
fn work_by((from, to): (u64, u64), len: u64, n: u64) -> u128 {
    let constant = u128::from(from) * u128::from(n);
    if from == to || len == 0 {
        return constant;
    }
    let (square, twice) = (u128::from(n) * u128::from(n), 2 * u128::from(len));
    let slope = u128::from(from.abs_diff(to));
    let whole = slope * (square / twice);
    let part = slope * (square % twice);
    if to > from {
        constant + whole + part / twice
    } else {
        constant - whole - part.div_ceil(twice)
    }
}

/// The same rounded up, so that what starts at the `n`-th nanosecond gets nothing of what was
/// before.
fn work_started((from, to): (u64, u64), len: u64, n: u64) -> u128 {
    let up = work_by((from, to), len, n);
    let (n, len) = (u128::from(n), u128::from(len));
    // n · n · slope / (2 · len) is whole where the remainder of each factor says so.
    let slope = u128::from(from.abs_diff(to));
    let rest = (n * n).checked_rem(2 * len).unwrap_or(0) * slope;
    let whole = rest.checked_rem(2 * len).unwrap_or(0) == 0;
    up + u128::from(!whole)
}

/// The first nanosecond of a stretch by which `target` is done, which is done by its end.
fn first_with(line: (u64, u64), len: u64, target: u128) -> u64 {
    let (from, to) = line;
    if from == to {
        let ns = target.checked_div(u128::from(from)).unwrap_or(0);
        let more = ns * u128::from(from) < target;
        return ns as u64 + u64::from(more); // at most the 64-bit length
    }
    let done = |n: u64| work_by(line, len, n) >= target;
    // Bracket the answer around a guess, then bisect: `low` is too early unless it is 0.
    let guess = guess(line, len, target).min(len);
    let (mut low, mut high, mut step) = (guess, guess, 1u64);
    while !done(high) && high < len {
        low = high;
        high = high.saturating_add(step).min(len);
        step = step.saturating_mul(2);
    }
    while low > 0 && done(low) {
        high = low;
        low = low.saturating_sub(step);
        step = step.saturating_mul(2);
    }
    if low == 0 && done(0) {
        return 0;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if done(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

/// About where the integral of a line reaches `target`: the root of a quadratic, in the form
/// that loses no digits.
fn guess((from, to): (u64, u64), len: u64, target: u128) -> u64 {
    let (from, to, len, target) = (from as f64, to as f64, len as f64, target as f64);
    let slope = (to - from) / len;
    let root = (from * from + 2.0 * slope * target).max(0.0).sqrt();
    (2.0 * target / (from + root)) as u64 // saturates; nothing hangs on it
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Work is the integral rounded down, and up for what starts; the end is the first
        /// nanosecond that has it.
        #[test]
        fn lines_are_rounded_against_the_packet(
            (from, to) in (0..1_000u64, 0..1_000u64), len in 1..40u64, (part, share) in any::<(u64, u64)>(),
        ) {
            let (line, n) = ((from, to), part % (len + 1));
            let twice = 2 * i128::from(len);
            let exact = twice * i128::from(from) * i128::from(n)
                + (i128::from(to) - i128::from(from)) * i128::from(n * n);
            prop_assert_eq!(work_by(line, len, n) as i128, exact.div_euclid(twice));
            prop_assert_eq!(work_started(line, len, n) as i128, -(-exact).div_euclid(twice));
            let target = u128::from(share) % (work_by(line, len, len) + 1);
            let first = (0..=len).find(|&n| work_by(line, len, n) >= target);
            prop_assert_eq!(Some(first_with(line, len, target)), first);
        }
    }
}
