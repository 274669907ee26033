//! Replay of a recorded series: what a link's delay, loss and rate are at a time, and when a
//! packet is out that is served under them.
//!
//! Theory: a trace cuts time into stretches. Delay and loss are looked up at the time at which
//! a packet leaves the sender. The rate is not looked up but integrated ([`rates`]): a packet
//! that is in service while the rate changes is out when the rates it met add up to its bits.
//! Opportunities ([`opportunities`]) are counted, not integrated.
//!
//! The caller serves packets one by one in the order in which they leave, and gives for each
//! the time at which it entered the pipe: what came while another packet was served starts at
//! the exact end of that one, remainders of a nanosecond included, and so nothing adds up over
//! a busy period. A departure is the first whole nanosecond at which the last bit is out;
//! [`Time::MAX`] means never.
//!
//! Left out: which packet is next (disciplines), and what delay and loss do to it.

mod opportunities;
mod rates;
mod timeline;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::time::{Span, Time};
use crate::trace::{Capacity, Series, Trace};
use crate::units::{Probability, Rate};
use opportunities::Opportunities;
use rates::Rates;
use timeline::Timeline;

/// Bits · 10⁹ of one byte: the unit of work, in which one nanosecond at a rate of one bit per
/// second is 1.
pub(crate) const WORK_OF_BYTE: u128 = 8_000_000_000;

/// A trace under way in one pipe. A clone costs a few words, and may be used to look ahead.
#[derive(Debug, Clone)]
pub(crate) struct Replay {
    trace: Arc<Trace>,
    /// The stretch last looked up.
    hint: timeline::Stretch,
    /// Whether the trace says when packets leave.
    paces: bool,
    server: Server,
    /// When everything accepted so far has been sent.
    free: Time,
}

/// What says when packets leave.
#[derive(Debug, Clone)]
enum Server {
    Rates(Rates),
    Opportunities(Opportunities),
}

impl Replay {
    /// Starts `trace`; where it records no rate, `fallback` holds (`None` is unlimited). Takes
    /// time in proportion to the trace where that records no rate at all.
    pub(crate) fn new(trace: Arc<Trace>, fallback: Option<Rate>) -> Self {
        let (paces, server) = match &trace.series {
            Series::Samples { samples, .. } => (
                samples.iter().any(|sample| sample.rate.is_some()),
                Server::Rates(Rates::new(&trace, fallback)),
            ),
            Series::Opportunities { .. } => {
                (true, Server::Opportunities(Opportunities::new(&trace)))
            }
        };
        Self {
            hint: Timeline::of(&trace).first(),
            trace,
            paces,
            server,
            free: Time::ZERO,
        }
    }

    /// Whether the trace says when packets leave; otherwise it records delay or loss alone, and
    /// a server of the pipe's own gives the same departures.
    pub(crate) const fn paces(&self) -> bool {
        self.paces
    }

    /// The trace that is replayed.
    pub(crate) const fn trace(&self) -> &Arc<Trace> {
        &self.trace
    }

    /// The one-way delay at `t`; `None` where the pipe's own holds.
    pub(crate) fn delay_at(&mut self, t: Time) -> Option<Span> {
        let (timeline, stretch) = self.find(t);
        timeline.delay(&stretch, t.as_ns())
    }

    /// The probability of loss at `t`; `None` where the pipe's own holds.
    pub(crate) fn loss_at(&mut self, t: Time) -> Option<Probability> {
        let (timeline, stretch) = self.find(t);
        timeline.loss(&stretch, t.as_ns())
    }

    /// The rate at `t`, whole bits per second; `None` where the pipe's own holds, and for
    /// opportunities.
    pub(crate) fn rate_at(&mut self, t: Time) -> Option<Capacity> {
        let (timeline, stretch) = self.find(t);
        timeline.rate(&stretch, t.as_ns())
    }

    /// Finds the stretch of `t`: at once where it is the one looked up last or the next,
    /// otherwise by division and bisection.
    fn find(&mut self, t: Time) -> (Timeline<'_>, timeline::Stretch) {
        let timeline = Timeline::of(&self.trace);
        self.hint = timeline.find(t.as_ns(), Some(&self.hint));
        (timeline, self.hint)
    }

    /// Accepts the packet that leaves next: `bytes` counted bytes that entered the pipe at
    /// `entered`. Gives the start of its service and its departure, [`Time::MAX`] for never.
    ///
    /// An opportunity serves what entered before it, in the way of mahimahi: what the trace
    /// does at an instant comes before the packets that enter at that instant.
    pub(crate) fn serve(&mut self, entered: Time, bytes: u32) -> (Time, Time) {
        let start = self.free.max(entered);
        let idle = entered >= self.free;
        let departure = match &mut self.server {
            Server::Rates(rates) => {
                if idle {
                    rates.start(&self.trace, entered.as_ns());
                }
                rates.send(&self.trace, u128::from(bytes) * WORK_OF_BYTE)
            }
            Server::Opportunities(server) => {
                server.send(&self.trace, entered.as_ns(), u64::from(bytes))
            }
        };
        self.free = Time::from_ns(departure).max(start);
        (start, self.free)
    }

    /// When everything accepted so far has been sent.
    #[cfg(test)]
    pub(crate) const fn free(&self) -> Time {
        self.free
    }

    /// Bits · 10⁹ that are left at `now` of the packet accepted last, whose service has begun.
    /// What an opportunity at `now` itself delivers is still left.
    pub(crate) fn work_left(&mut self, now: Time) -> u128 {
        match &mut self.server {
            Server::Rates(rates) => rates.left(&self.trace, now.as_ns()),
            Server::Opportunities(server) => {
                u128::from(server.left(&self.trace, now.as_ns())) * WORK_OF_BYTE
            }
        }
    }

    /// Starts over at `now`, with another fallback and `work` bits · 10⁹ in service; gives their
    /// departure. Opportunities at `now` serve what is in service and what entered before.
    pub(crate) fn restart(&mut self, now: Time, fallback: Option<Rate>, work: u128) -> Time {
        let departure = match &mut self.server {
            Server::Rates(rates) => {
                *rates = Rates::new(&self.trace, fallback);
                rates.start(&self.trace, now.as_ns());
                rates.send(&self.trace, work)
            }
            Server::Opportunities(server) => {
                server.restart(&self.trace, now.as_ns());
                let bytes = u64::try_from(work.div_ceil(WORK_OF_BYTE)).unwrap_or(u64::MAX);
                server.send_waiting(&self.trace, bytes)
            }
        };
        self.free = Time::from_ns(departure).max(now);
        self.free
    }
}
