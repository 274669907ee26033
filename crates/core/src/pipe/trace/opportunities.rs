//! Delivery by opportunities, as in mahimahi: at each one a fixed number of bytes of the queue go
//! out.
//!
//! Theory: opportunities are numbered through all rounds of the trace, so any number of them
//! is passed by arithmetic. A packet is out at the opportunity that takes its last byte. What
//! that one has left serves the packets behind, if they entered before it; what finds nobody
//! is lost. That is what mahimahi's link queue does, to the byte, but for its whole
//! milliseconds and its limit of one opportunity's bytes to a packet.
//!
//! Left out: rates (`rates`).

use crate::time::Span;
use crate::trace::{Series, Trace};

use super::timeline::NEVER;

/// The sender of a pipe under recorded opportunities.
#[derive(Debug, Clone)]
pub(super) struct Opportunities {
    /// Those that belong to a round.
    count: u64,
    /// The one in use, numbered through all rounds, and the bytes that it has left.
    current: u64,
    rest: u64,
    /// The same before the packet accepted last, and that packet's bytes.
    before: (u64, u64),
    bytes: u64,
}

impl Opportunities {
    pub(super) fn new(trace: &Trace) -> Self {
        let at = times(trace);
        let count = period(trace).map_or(at.len(), |period| {
            at.partition_point(|span| span.as_ns() <= period)
        });
        let rest = each(trace);
        Self {
            count: count as u64,
            current: 0,
            rest,
            before: (0, rest),
            bytes: 0,
        }
    }

    /// When an opportunity is; [`NEVER`] past the last.
    fn time(&self, trace: &Trace, number: u64) -> u64 {
        let Some(index) = number.checked_rem(self.count) else {
            return NEVER;
        };
        let round = number / self.count;
        let passed = match period(trace) {
            Some(period) => u128::from(round) * u128::from(period),
            None if round > 0 => return NEVER,
            None => 0,
        };
        let within = u128::from(times(trace)[index as usize].as_ns());
        let time = passed + within + u128::from(trace.offset.as_ns());
        u64::try_from(time).unwrap_or(NEVER)
    }

    /// The number of the first opportunity after `t`.
    fn first_after(&self, trace: &Trace, t: u64) -> u64 {
        let Some(since) = t.checked_sub(trace.offset.as_ns()) else {
            return 0;
        };
        let (round, within) = match period(trace) {
            Some(period) => (since / period, since % period),
            None => (0, since),
        };
        let list = &times(trace)[..self.count as usize];
        let passed = list.partition_point(|span| span.as_ns() <= within) as u64;
        round.saturating_mul(self.count).saturating_add(passed)
    }

    /// Sends `bytes` that entered at `entered` behind what was sent last; gives the departure.
    pub(super) fn send(&mut self, trace: &Trace, entered: u64, bytes: u64) -> u64 {
        if self.time(trace, self.current) <= entered {
            let near = self.current.saturating_add(1);
            self.current = if self.time(trace, near) > entered {
                near
            } else {
                self.first_after(trace, entered)
            };
            self.rest = each(trace);
        }
        self.send_waiting(trace, bytes)
    }

    /// Sends `bytes` that entered before the current opportunity; gives the departure.
    pub(super) fn send_waiting(&mut self, trace: &Trace, bytes: u64) -> u64 {
        (self.before, self.bytes) = ((self.current, self.rest), bytes);
        if bytes > self.rest {
            let more = bytes - self.rest;
            let each = each(trace);
            let Some(full) = more.checked_div(each) else {
                return NEVER;
            };
            let part = more % each;
            let used = full + u64::from(part > 0);
            self.current = self.current.saturating_add(used);
            self.rest = if part > 0 { each - part } else { 0 };
        } else {
            self.rest -= bytes;
        }
        self.time(trace, self.current)
    }

    /// Bytes left at `now` of what was sent last, those of opportunities at `now` included.
    pub(super) fn left(&self, trace: &Trace, now: u64) -> u64 {
        let passed = match now.checked_sub(1) {
            Some(before) => self.first_after(trace, before),
            None => 0,
        };
        let (number, rest) = self.before;
        let Some(further) = passed.checked_sub(number).and_then(|n| n.checked_sub(1)) else {
            return self.bytes;
        };
        let taken = rest.saturating_add(further.saturating_mul(each(trace)));
        self.bytes.saturating_sub(taken)
    }

    /// Starts over: opportunities from `now` on are open.
    pub(super) fn restart(&mut self, trace: &Trace, now: u64) {
        self.current = match now.checked_sub(1) {
            Some(before) => self.first_after(trace, before),
            None => 0,
        };
        self.rest = each(trace);
    }
}

/// The times of one round.
fn times(trace: &Trace) -> &[Span] {
    match &trace.series {
        Series::Opportunities { at, .. } => at,
        Series::Samples { .. } => &[],
    }
}

/// The bytes of one opportunity.
fn each(trace: &Trace) -> u64 {
    match &trace.series {
        Series::Opportunities { bytes, .. } => u64::from(*bytes),
        Series::Samples { .. } => 0,
    }
}

/// The length of a round.
fn period(trace: &Trace) -> Option<u64> {
    trace.period.map(Span::as_ns).filter(|&period| period > 0)
}
