//! Modelled traffic of a plan: groups of flows, and the flows that they stand for.
//!
//! A group is an entry of the file. It stands for flows that are made one after the other when
//! they are asked for ([`TrafficPlan::flows`]), so that ten million of them take no memory here.
//! What is random about a flow (when it starts, how much it carries) is drawn from a stream of
//! its pair of hosts: other entries and other pairs change nothing about it.
//!
//! Left out: what endpoints do (`longhaul_proto::modelled`).

mod draw;
mod read;

use std::collections::HashSet;
use std::sync::Arc;

use longhaul_core::rng::Stream;
use longhaul_core::units::Rate;
use longhaul_core::{NodeId, Span, Time, Topology};

pub use draw::Draw;

/// What the section `traffic` of a file comes to.
#[derive(Debug, Clone, Default)]
pub struct TrafficPlan {
    /// In the natural order of their names.
    pub groups: Vec<FlowGroup>,
    /// All flows of all groups.
    pub flows: u64,
    /// Those of them that end by themselves.
    pub bounded: u64,
}

/// Flows of one entry of the file.
#[derive(Debug, Clone)]
pub struct FlowGroup {
    /// The entry's name.
    pub name: String,
    /// Who sends to whom.
    pub pairs: Pairs,
    /// The flows of each pair.
    pub each: Each,
    /// When they start, or begin to.
    pub start: Draw,
    /// When they end at the latest.
    pub stop: Option<Time>,
    /// The IP version: 6, else 4.
    pub ipv6: bool,
    /// The port of a program at the other end.
    pub port: Option<u16>,
    /// What the flows do.
    pub work: Work,
    /// Whether their state is recorded over time.
    pub series: bool,
}

/// Pairs of hosts.
#[derive(Debug, Clone)]
pub enum Pairs {
    /// One by one.
    List(Vec<(NodeId, NodeId)>),
    /// Each of the first with each of the second, save itself.
    All(Vec<NodeId>, Vec<NodeId>),
    /// As recorded: each flow has its own.
    Recorded(Arc<[Recorded]>),
}

/// A flow that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    /// When it starts.
    pub start: Time,
    /// Who opens it.
    pub from: NodeId,
    /// The other end.
    pub to: NodeId,
    /// What it carries.
    pub bytes: u64,
    /// Payload per second, else that of the group.
    pub rate: Option<Rate>,
}

/// The flows of a pair.
#[derive(Debug, Clone)]
pub enum Each {
    /// A fixed number, each with a start of its own.
    Together(u64),
    /// One after the other.
    Spaced {
        /// From one start to the next.
        gap: Draw,
        /// How many; else as many as start before the end.
        count: Option<u64>,
        /// Nothing starts then or later.
        end: Time,
    },
}

/// What the flows of a group do.
#[derive(Debug, Clone)]
pub enum Work {
    /// TCP: the first host sends, and closes the connection.
    Bulk {
        /// Settings of both ends.
        tcp: TcpChoice,
        /// How much; without end if absent.
        bytes: Option<Draw>,
    },
    /// TCP: the first host asks, the second one answers.
    Requests {
        /// Settings of both ends.
        tcp: TcpChoice,
        /// Sizes of requests.
        request: Draw,
        /// Sizes of responses.
        response: Draw,
        /// From a response to the next request.
        think: Draw,
        /// How many; without end if absent.
        count: Option<u64>,
        /// Whether all use one connection.
        reuses_connection: bool,
    },
    /// Packets at a rate; of TCP full segments.
    Paced {
        /// Payload of a datagram in bytes, or settings of TCP.
        by: Carrier,
        /// Payload per second.
        rate: Rate,
        /// When packets are sent.
        gaps: Gaps,
        /// How much; without end if absent.
        bytes: Option<Draw>,
    },
}

/// What carries packets at a rate.
#[derive(Debug, Clone)]
pub enum Carrier {
    /// Settings of both ends.
    Tcp(TcpChoice),
    /// Payload of each datagram in bytes.
    Udp(u32),
}

/// Times between packets.
#[derive(Debug, Clone)]
pub enum Gaps {
    /// Even.
    Even,
    /// Random and independent (Poisson).
    Poisson,
    /// Even while it sends; how long it sends and how long it is silent, in turn.
    OnOff(Draw, Draw),
}

pub use choice::{TcpChoice, algorithm};

mod choice;

/// One flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Its group, by number.
    pub group: usize,
    /// Its number among the flows of its pair, from 0.
    pub number: u64,
    /// Who opens it.
    pub from: NodeId,
    /// The other end.
    pub to: NodeId,
    /// When it starts.
    pub start: Time,
    /// What it carries; `None` where its work has no end or is not measured in bytes.
    pub bytes: Option<u64>,
    /// Payload per second, where it has a rate of its own.
    pub rate: Option<Rate>,
}

impl TrafficPlan {
    /// All flows, group by group and pair by pair: always the same.
    pub fn flows<'a>(
        &'a self,
        topology: &'a Topology,
        seed: u64,
    ) -> impl Iterator<Item = Flow> + 'a {
        let groups = self.groups.iter().enumerate();
        groups.flat_map(move |(number, group)| group.flows(number, topology, seed))
    }

    /// What a flow is called: the name of its entry; with the hosts where that has several pairs,
    /// and with a number from 1 where a pair has several flows.
    pub fn name(&self, flow: &Flow, topology: &Topology) -> String {
        let group = &self.groups[flow.group];
        let mut name = group.name.clone();
        if let Pairs::Recorded(_) = group.pairs {
            return format!("{name}#{}", flow.number + 1);
        }
        if group.pairs.iter().nth(1).is_some() {
            let node = |id| topology.node(id).name.as_str();
            name = format!("{name}@{}>{}", node(flow.from), node(flow.to));
        }
        match group.each {
            Each::Together(1) => name,
            _ => format!("{name}#{}", flow.number + 1),
        }
    }
}

impl FlowGroup {
    /// Whether each of its flows ends by itself.
    pub fn is_bounded(&self) -> bool {
        self.stop.is_some()
            || matches!(self.pairs, Pairs::Recorded(_))
            || match &self.work {
                Work::Bulk { bytes, .. } | Work::Paced { bytes, .. } => bytes.is_some(),
                Work::Requests { count, .. } => count.is_some(),
            }
    }

    /// Its flows, in the order of their pairs.
    pub fn flows<'a>(
        &'a self,
        group: usize,
        topology: &'a Topology,
        seed: u64,
    ) -> Box<dyn Iterator<Item = Flow> + 'a> {
        if let Pairs::Recorded(list) = &self.pairs {
            let flow = move |(recorded, number): (&Recorded, u64)| Flow {
                group,
                number,
                from: recorded.from,
                to: recorded.to,
                start: recorded.start,
                bytes: Some(recorded.bytes),
                rate: recorded.rate,
            };
            return Box::new(list.iter().zip(0..).map(flow));
        }
        let pairs = self.pairs.iter();
        Box::new(pairs.flat_map(move |pair| PairFlows::new(self, group, pair, topology, seed)))
    }
}

impl Pairs {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::All(from, to) => {
                // No host is twice in either list.
                let from_set: HashSet<&NodeId> = from.iter().collect();
                let own = to.iter().filter(|to| from_set.contains(to)).count();
                from.len() * to.len() - own
            }
            Self::Recorded(list) => list.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// All of them.
    pub fn iter(&self) -> Box<dyn Iterator<Item = (NodeId, NodeId)> + '_> {
        match self {
            Self::List(list) => Box::new(list.iter().copied()),
            Self::All(from, to) => {
                let others = move |a: &NodeId| {
                    let a = *a;
                    to.iter().filter(move |b| **b != a).map(move |b| (a, *b))
                };
                Box::new(from.iter().flat_map(others))
            }
            Self::Recorded(list) => Box::new(list.iter().map(|flow| (flow.from, flow.to))),
        }
    }
}

/// The flows of a pair, made one after the other.
struct PairFlows<'a> {
    of: &'a FlowGroup,
    group: usize,
    pair: (NodeId, NodeId),
    stream: Stream,
    number: u64,
    /// The start of the flow before, of those that are spaced.
    last: Option<u64>,
}

impl<'a> PairFlows<'a> {
    fn new(
        of: &'a FlowGroup,
        group: usize,
        pair: (NodeId, NodeId),
        topology: &Topology,
        seed: u64,
    ) -> Self {
        let node = |id| topology.node(id).name.as_str();
        let name = format!("traffic {} {}>{}", of.name, node(pair.0), node(pair.1));
        Self {
            of,
            group,
            pair,
            stream: Stream::new(seed, &name),
            number: 0,
            last: None,
        }
    }

    /// When the next flow starts, if there is one.
    fn next_start(&mut self) -> Option<Time> {
        match &self.of.each {
            Each::Together(count) => {
                let more = self.number < *count;
                more.then(|| Time::from_ns(self.of.start.next(&mut self.stream)))
            }
            Each::Spaced { gap, count, end } => {
                if count.is_some_and(|count| self.number >= count) {
                    return None;
                }
                let start = match self.last {
                    None => self.of.start.next(&mut self.stream),
                    Some(last) => last.saturating_add(gap.next(&mut self.stream)),
                };
                self.last = Some(start);
                Some(Time::from_ns(start)).filter(|start| start < end)
            }
        }
    }
}

impl Iterator for PairFlows<'_> {
    type Item = Flow;

    fn next(&mut self) -> Option<Flow> {
        let start = self.next_start()?;
        let number = self.number;
        self.number += 1;
        let bytes = match &self.of.work {
            Work::Bulk { bytes, .. } | Work::Paced { bytes, .. } => bytes.as_ref(),
            Work::Requests { .. } => None,
        };
        // A distribution may yield 0; a flow carries at least one byte.
        let bytes = bytes.map(|bytes| bytes.next(&mut self.stream).max(1));
        Some(Flow {
            group: self.group,
            number,
            from: self.pair.0,
            to: self.pair.1,
            start,
            bytes,
            rate: None,
        })
    }
}

/// A span of experiment time from t = 0 as a point of it.
pub(crate) fn at(span: Span) -> Time {
    Time::ZERO + span
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_counted_as_they_are_listed() {
        let hosts = |range: std::ops::Range<u32>| range.map(NodeId).collect::<Vec<_>>();
        for (from, to) in [
            (0..1, 0..1),
            (0..5, 0..5),
            (0..5, 3..9),
            (0..3, 3..4),
            (2..3, 0..4),
        ] {
            let pairs = Pairs::All(hosts(from), hosts(to));
            let count = pairs.iter().count();
            assert_eq!(pairs.len(), count, "{pairs:?}");
            assert_eq!(pairs.is_empty(), count == 0, "{pairs:?}");
        }
    }
}
