//! What has become of flows, end by end.
//!
//! Of each flow, the end at its opener keeps 24 bytes here and the other one 8, where they are held,
//! so that with the 32 of the table a flow that is not under way takes 64. What most ends have in
//! common is not kept: one that is over and has received just what it was to receive has no entry in
//! [`Parts::unexpected`].

use longhaul_core::time::Time;
use longhaul_core::topology::NodeId;
use rustc_hash::FxHashMap;

use super::report::{DatagramFigures, Outcome, Part, RequestFigures, RttFigures, WindowPoint};
use super::side::{EndId, Side};
use super::table::{Flow, FlowTable};

const OUTCOMES: [Outcome; 6] = [
    Outcome::Waiting,
    Outcome::Running,
    Outcome::Finished,
    Outcome::Reset,
    Outcome::TimedOut,
    Outcome::Unreachable,
];

/// An outcome and the time since when it holds, in 64 bits; times are capped at 73 years.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OutcomeAt(u64);

impl OutcomeAt {
    const WAITING: Self = Self(Outcome::Waiting as u64);

    fn new(outcome: Outcome, since: Time) -> Self {
        Self(since.as_ns().min(u64::MAX >> 3) << 3 | outcome as u64)
    }

    fn outcome(self) -> Outcome {
        OUTCOMES[(self.0 % 8) as usize % OUTCOMES.len()]
    }

    /// Since when it is over.
    fn finish(self) -> Option<Time> {
        self.outcome()
            .is_over()
            .then_some(Time::from_ns(self.0 >> 3))
    }
}

/// What is kept of an opener.
#[derive(Debug, Clone, Copy)]
struct OpenerPart {
    outcome_at: OutcomeAt,
    retransmissions: u32,
    trips: [u32; 3],
}

/// What is kept of an acceptor.
#[derive(Debug, Clone, Copy)]
struct AcceptorPart(OutcomeAt);

const _: () =
    assert!(size_of::<Flow>() + size_of::<OpenerPart>() + size_of::<AcceptorPart>() <= 64);

/// Of an end whose bytes are not those that its outcome implies, or that has sent segments again.
#[derive(Debug, Clone, Copy, Default)]
struct Unexpected {
    bytes: u64,
    /// Of an acceptor.
    retransmissions: u64,
}

/// What an end has done.
#[derive(Debug, Clone, Default)]
pub(super) struct Totals {
    /// Payload received, or acknowledged by a program.
    pub(super) bytes: u64,
    pub(super) retransmissions: u64,
    /// Round trips, where they are the flow's.
    pub(super) trips: Option<[u32; 3]>,
    /// What has been counted of datagrams on this side.
    pub(super) datagrams: Option<DatagramFigures>,
}

impl Totals {
    pub(super) fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.retransmissions += other.retransmissions;
        self.trips = other.trips.or(self.trips);
        self.datagrams = other.datagrams.or_else(|| self.datagrams.take());
    }
}

/// Of which flows the ends on one side are held here.
#[derive(Debug)]
enum Held {
    All,
    /// Of these, in order.
    Some(Vec<u32>),
}

impl Held {
    fn new(table: &FlowTable, side: Side, holds: &impl Fn(NodeId) -> bool) -> Self {
        let flows = 0..table.len() as u32;
        let mut held = flows.filter(|&flow| holds(table.node(flow, side)));
        let mut list: Vec<u32> = held.by_ref().collect();
        if list.len() == table.len() {
            return Self::All;
        }
        list.shrink_to_fit();
        Self::Some(list)
    }

    fn len(&self, table: &FlowTable) -> usize {
        match self {
            Self::All => table.len(),
            Self::Some(list) => list.len(),
        }
    }

    fn place(&self, flow: u32) -> Option<usize> {
        match self {
            Self::All => Some(flow as usize),
            Self::Some(list) => list.binary_search(&flow).ok(),
        }
    }
}

/// See the module's first lines.
#[derive(Debug)]
pub(super) struct Parts {
    held: [Held; 2],
    openers: Vec<OpenerPart>,
    acceptors: Vec<AcceptorPart>,
    unexpected: FxHashMap<(u32, Side), Unexpected>,
    /// Datagrams sent, and errors about them.
    sent: FxHashMap<u32, [u64; 2]>,
    /// What receivers of datagrams have counted.
    received: FxHashMap<u32, DatagramFigures>,
    pub(super) requests: FxHashMap<u32, RequestFigures>,
    pub(super) series: FxHashMap<u32, Vec<WindowPoint>>,
    /// Flows whose end is decided here, those of them that are not over, and of these, those that
    /// end by themselves.
    pub(super) decided: usize,
    pub(super) unfinished: usize,
    pub(super) awaited: usize,
}

impl Parts {
    /// Those of the ends at hosts that are held here.
    pub(super) fn new(table: &FlowTable, holds: &impl Fn(NodeId) -> bool) -> Self {
        let held = Side::BOTH.map(|side| Held::new(table, side, holds));
        let [openers, acceptors] = &held;
        let waiting = OpenerPart {
            outcome_at: OutcomeAt::WAITING,
            retransmissions: 0,
            trips: [0; 3],
        };
        let mut parts = Self {
            openers: vec![waiting; openers.len(table)],
            acceptors: vec![AcceptorPart(OutcomeAt::WAITING); acceptors.len(table)],
            held,
            unexpected: FxHashMap::default(),
            sent: FxHashMap::default(),
            received: FxHashMap::default(),
            requests: FxHashMap::default(),
            series: FxHashMap::default(),
            decided: 0,
            unfinished: 0,
            awaited: 0,
        };
        for flow in 0..table.len() as u32 {
            let kind = table.kind(flow);
            if parts.holds(flow, kind.decides()) {
                parts.decided += 1;
                parts.awaited += usize::from(kind.is_bounded());
            }
        }
        parts.unfinished = parts.decided;
        parts
    }

    /// Whether an end is held here.
    pub(super) fn holds(&self, flow: u32, side: Side) -> bool {
        self.held[side as usize].place(flow).is_some()
    }

    fn outcome_at(&self, flow: u32, side: Side) -> Option<OutcomeAt> {
        let place = self.held[side as usize].place(flow)?;
        Some(match side {
            Side::Opener => self.openers[place].outcome_at,
            Side::Acceptor => self.acceptors[place].0,
        })
    }

    fn set_outcome_at(&mut self, flow: u32, side: Side, outcome_at: OutcomeAt) {
        match (side, self.held[side as usize].place(flow)) {
            (Side::Opener, Some(place)) => self.openers[place].outcome_at = outcome_at,
            (Side::Acceptor, Some(place)) => self.acceptors[place].0 = outcome_at,
            (_, None) => {}
        }
    }

    /// An end begins.
    pub(super) fn begin(&mut self, flow: u32, side: Side, at: Time) {
        self.set_outcome_at(flow, side, OutcomeAt::new(Outcome::Running, at));
    }

    /// A flow is over for an end, unless it was before.
    pub(super) fn end(&mut self, table: &FlowTable, end: EndId, outcome: Outcome, at: Time) {
        let (flow, side) = (end.flow(), end.side());
        let before = self.outcome_at(flow, side).map(OutcomeAt::outcome);
        if before != Some(Outcome::Running) {
            return;
        }
        self.set_outcome_at(flow, side, OutcomeAt::new(outcome, at));
        let kind = table.kind(flow);
        if kind.decides() == side {
            self.unfinished -= 1;
            self.awaited -= usize::from(kind.is_bounded());
        }
    }

    /// Takes what an end has done that is gone from now on.
    pub(super) fn take(&mut self, table: &FlowTable, end: EndId, mut totals: Totals) {
        let (flow, side) = (end.flow(), end.side());
        let Some(place) = self.held[side as usize].place(flow) else {
            return;
        };
        if side == Side::Opener {
            let part = &mut self.openers[place];
            let resent = std::mem::take(&mut totals.retransmissions);
            let resent = u32::try_from(resent).unwrap_or(u32::MAX);
            part.retransmissions = part.retransmissions.saturating_add(resent);
            part.trips = totals.trips.unwrap_or(part.trips);
        }
        match (side, totals.datagrams) {
            (Side::Opener, Some(of)) => {
                self.sent.insert(flow, [of.sent, of.errors]);
            }
            (Side::Acceptor, Some(of)) => {
                self.received.insert(flow, of);
            }
            (_, None) => {}
        }
        let is_as_expected = totals.bytes == self.bytes_expected(table, flow, side);
        let is_known = self.unexpected.contains_key(&(flow, side));
        if is_known || !is_as_expected || totals.retransmissions > 0 {
            let unexpected = self.unexpected.entry((flow, side)).or_default();
            unexpected.bytes += totals.bytes;
            unexpected.retransmissions += totals.retransmissions;
        }
    }

    /// What an end has received of which nothing else is known.
    fn bytes_expected(&self, table: &FlowTable, flow: u32, side: Side) -> u64 {
        let outcome = self.outcome_at(flow, side).map(OutcomeAt::outcome);
        match outcome {
            Some(Outcome::Finished) if table.kind(flow).receives() == side => {
                table.flow(flow).bytes
            }
            _ => 0,
        }
    }

    /// What has become of an end so far, if it is held here; `under_way` is what is not over of it.
    pub(super) fn part(
        &self,
        table: &FlowTable,
        (flow, side): (u32, Side),
        under_way: Option<Totals>,
    ) -> Option<Part<'_>> {
        let place = self.held[side as usize].place(flow)?;
        let outcome_at = self.outcome_at(flow, side)?;
        let unexpected = self.unexpected.get(&(flow, side));
        let mut totals = Totals {
            bytes: match (unexpected, &under_way) {
                (Some(unexpected), _) => unexpected.bytes,
                (None, Some(_)) => 0,
                (None, None) => self.bytes_expected(table, flow, side),
            },
            retransmissions: unexpected.map_or(0, |unexpected| unexpected.retransmissions),
            ..Totals::default()
        };
        let (mut requests, mut series) = (None, &[][..]);
        if side == Side::Opener {
            let part = &self.openers[place];
            totals.retransmissions = part.retransmissions.into();
            totals.trips = Some(part.trips);
            let sent = |&[sent, errors]: &[u64; 2]| DatagramFigures {
                sent,
                errors,
                ..DatagramFigures::default()
            };
            totals.datagrams = self.sent.get(&flow).map(sent);
            requests = self.requests.get(&flow);
            series = self.series.get(&flow).map_or(&[], Vec::as_slice);
        } else {
            totals.datagrams = self.received.get(&flow).cloned();
        }
        totals.add(under_way.unwrap_or_default());
        Some(Part {
            flow,
            side,
            outcome: outcome_at.outcome(),
            finish: outcome_at.finish(),
            bytes: totals.bytes,
            retransmissions: totals.retransmissions,
            rtt: totals.trips.and_then(RttFigures::unpack),
            datagrams: totals.datagrams,
            requests,
            series,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_and_times_are_kept() {
        for outcome in OUTCOMES {
            let at = Time::from_ns(123_456_789_012);
            let outcome_at = OutcomeAt::new(outcome, at);
            assert_eq!(outcome_at.outcome(), outcome);
            assert_eq!(outcome_at.finish(), outcome.is_over().then_some(at));
            let late = OutcomeAt::new(outcome, Time::MAX);
            assert_eq!(late.outcome(), outcome);
        }
    }
}
