//! What became of flows.

use std::ops::AddAssign;

use longhaul_core::time::{Span, Time};
use longhaul_core::topology::NodeId;

use super::side::Side;
use super::spec::Name;
use super::table::FlowTable;
use crate::tcp::RoundTrips;

/// How far a flow has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Outcome {
    /// Its time has not come.
    #[default]
    Waiting,
    /// Under way.
    Running,
    /// All that it was to carry has arrived, or for UDP, no more is awaited.
    Finished,
    /// Its connection was reset or refused, or a dialogue's was closed before that was over.
    Reset,
    /// The other side no longer answered.
    TimedOut,
    /// A router reported that its connection could not be opened.
    Unreachable,
}

impl Outcome {
    /// Whether nothing more will come of it.
    pub(super) const fn is_over(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}

/// What one end of a flow has done so far, by its own counters.
#[derive(Debug, Clone, PartialEq)]
pub struct Part<'a> {
    /// The flow, by its place among all.
    pub flow: u32,
    /// Which end.
    pub side: Side,
    /// How far the flow has come. An opener of a transfer has finished when its last byte is
    /// acknowledged; an acceptor of a dialogue never has.
    pub outcome: Outcome,
    /// Since when it is over.
    pub finish: Option<Time>,
    /// Payload bytes received, or acknowledged by a program.
    pub bytes: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// An opener's round trips.
    pub rtt: Option<RttFigures>,
    /// Datagrams: the sender counts those it has sent and errors, the receiver all else.
    pub datagrams: Option<DatagramFigures>,
    /// An opener's requests.
    pub requests: Option<&'a RequestFigures>,
    /// An opener's congestion window.
    pub series: &'a [WindowPoint],
}

/// What a flow has done so far.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowResult<'a> {
    /// Its name.
    pub name: Name,
    /// Where it began.
    pub from: NodeId,
    /// Where it led.
    pub to: NodeId,
    /// How far it has come.
    pub outcome: Outcome,
    /// When it began, or is to begin.
    pub start: Time,
    /// When the last byte had arrived, or it failed.
    pub finish: Option<Time>,
    /// Payload bytes that have arrived: of TCP in order, of requests both ways.
    pub bytes: u64,
    /// Segments sent again, by both ends.
    pub retransmissions: u64,
    /// Round trips that the opener measured (TCP).
    pub rtt: Option<RttFigures>,
    /// What the ends of datagrams have counted.
    pub datagrams: Option<DatagramFigures>,
    /// What the opener of requests has seen.
    pub requests: Option<&'a RequestFigures>,
    /// The congestion window of the opener, at each change, if the flow records it.
    pub series: &'a [WindowPoint],
}

impl<'a> FlowResult<'a> {
    /// What a flow has done, by its two ends' parts, wherever they were held. Where the other end is
    /// a program, there is none.
    ///
    /// The outcome that is reported first is final: of a dialogue by its opener, of any other flow that
    /// it has finished by the end that receives, or that it has failed by either end.
    pub fn join(table: &FlowTable, opener: Part<'a>, acceptor: Option<Part<'a>>) -> Self {
        let flow = opener.flow;
        let (outcome, finish) = outcome_of(table.kind(flow).finishes(), &opener, acceptor.as_ref());
        let mut result = Self {
            name: table.name(flow),
            from: table.node(flow, Side::Opener),
            to: table.node(flow, Side::Acceptor),
            outcome,
            start: table.flow(flow).start,
            finish,
            bytes: opener.bytes,
            retransmissions: opener.retransmissions,
            rtt: opener.rtt,
            datagrams: opener.datagrams,
            requests: opener.requests,
            series: opener.series,
        };
        if let Some(acceptor) = acceptor {
            result.bytes += acceptor.bytes;
            result.retransmissions += acceptor.retransmissions;
            result.datagrams = DatagramFigures::join(result.datagrams, acceptor.datagrams);
        }
        result
    }

    /// Payload bits per second from start to finish; `None` while under way or where it took no
    /// time.
    pub fn goodput(&self) -> Option<f64> {
        let took = self.finish?.since(self.start);
        (took > Span::ZERO).then(|| self.bytes as f64 * 8.0 / took.as_s())
    }
}

/// The outcome of a flow, and since when it is over; `finishes` is the end that decides when all
/// has arrived. What the other end does later never changes it.
fn outcome_of(finishes: Side, opener: &Part, acceptor: Option<&Part>) -> (Outcome, Option<Time>) {
    let ends = [Some(opener), acceptor].into_iter().flatten();
    // Only the opener of a dialogue can decide whether a connection was its last one.
    let may_fail = |end: &Part| end.side == finishes || finishes == Side::Acceptor;
    let decisive = ends.filter(|end| match end.outcome {
        Outcome::Finished => end.side == finishes,
        outcome => outcome.is_over() && may_fail(end),
    });
    // At one time, that it has finished goes first.
    match decisive.min_by_key(|end| (end.finish, end.outcome != Outcome::Finished)) {
        Some(end) => (end.outcome, end.finish),
        None if opener.outcome == Outcome::Waiting => (Outcome::Waiting, None),
        None => (Outcome::Running, None),
    }
}

/// Round trips of a TCP sender, in whole microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RttFigures {
    /// The shortest.
    pub least: Span,
    /// The mean of all measurements.
    pub mean: Span,
    /// The longest.
    pub most: Span,
}

impl RttFigures {
    /// The figures in microseconds, as flows keep them; zeros where nothing was measured.
    pub(super) fn pack(trips: RoundTrips) -> [u32; 3] {
        let us = |span: Span| u32::try_from(span.as_ns().div_ceil(1000)).unwrap_or(u32::MAX);
        [trips.least, trips.mean().unwrap_or_default(), trips.most].map(us)
    }

    pub(super) fn unpack([least, mean, most]: [u32; 3]) -> Option<Self> {
        let span = |us: u32| Span::from_us(us.into());
        (most > 0).then(|| Self {
            least: span(least),
            mean: span(mean),
            most: span(most),
        })
    }
}

/// What is measured of datagrams.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DatagramFigures {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams received, each counted once; but a copy that comes more than 1024 numbers late counts
    /// again.
    pub received: u64,
    /// Copies of datagrams that had been received.
    pub duplicates: u64,
    /// Datagrams that came after one sent later.
    pub reordered: u64,
    /// The shortest way.
    pub least_delay: Option<Span>,
    /// The longest way.
    pub most_delay: Span,
    /// The sum of all delays, in ns.
    pub total_delay: u128,
    /// Interarrival jitter of RFC 3550 §6.4.1, in ns.
    pub jitter: f64,
    /// ICMP errors about datagrams.
    pub errors: u64,
}

impl DatagramFigures {
    /// What the sender and the receiver have counted together.
    fn join(sender: Option<Self>, receiver: Option<Self>) -> Option<Self> {
        match (sender, receiver) {
            (Some(sender), Some(receiver)) => Some(Self {
                sent: sender.sent,
                errors: sender.errors,
                ..receiver
            }),
            (sender, receiver) => sender.or(receiver),
        }
    }

    /// Datagrams sent that have not arrived (yet).
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }

    /// The mean delay.
    pub fn mean_delay(&self) -> Option<Span> {
        let mean = self.total_delay.checked_div(u128::from(self.received))?;
        Some(Span::from_ns(mean as u64))
    }
}

/// What the opener of requests measures.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestFigures {
    /// Requests begun.
    pub begun: u64,
    /// Responses received to their last byte.
    pub completed: u64,
    /// The shortest time from a request (its connection's opening, where it has one of its own)
    /// to the end of its response.
    pub least: Option<Span>,
    /// The longest.
    pub most: Span,
    /// The sum of all, in ns.
    pub total: u128,
}

impl RequestFigures {
    pub(super) fn take(&mut self, took: Span) {
        self.completed += 1;
        self.least = Some(self.least.map_or(took, |least| least.min(took)));
        self.most = self.most.max(took);
        self.total += u128::from(took.as_ns());
    }

    /// The mean time.
    pub fn mean(&self) -> Option<Span> {
        let mean = self.total.checked_div(u128::from(self.completed))?;
        Some(Span::from_ns(mean as u64))
    }
}

/// A change of a congestion window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowPoint {
    /// When.
    pub at: Time,
    /// The window, in segments.
    pub cwnd: u32,
    /// The slow start threshold, in segments.
    pub ssthresh: u32,
}

/// Packets that no flow awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Strays {
    /// Packets whose checksum was wrong.
    pub damaged: u64,
    /// Segments and datagrams for no flow that is under way, and other messages.
    pub unknown: u64,
    /// Of them, those that were answered: echo requests, and resets for segments.
    pub answered: u64,
    /// ICMP errors about flows under way, which they have heard of.
    pub errors: u64,
}

impl AddAssign for Strays {
    fn add_assign(&mut self, other: Self) {
        self.damaged += other.damaged;
        self.unknown += other.unknown;
        self.answered += other.answered;
        self.errors += other.errors;
    }
}
