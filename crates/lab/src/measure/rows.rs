//! The series and their columns (docs/series.md), and samples as their rows.
//!
//! The page of a run names a thing by its keys in the order that they have here.

use std::net::IpAddr;
use std::sync::Arc;

use longhaul_core::witness::PacketEvent;
use longhaul_core::{NodeId, PipeId, Span, Time, Topology};

use super::columns::{BITS, Column, Declared, EACH, Kind, SHARE, Take, column};
use super::encode::{Cell, Table};
use super::flows::{Counts, FlowRow};
use super::sample::{CoreBin, CoreRow, PipeRow};
use super::timeline::Passage;
use crate::connections::Connection;

use Kind::{MaybeReal, MaybeWhole, Real, Text, Whole};

/// Where a bin begins, how long it is, and the time of a sample.
pub(crate) const START: Column = column("start_ns", Whole);
pub(crate) const WIDTH: Column = column("width_ns", Whole);
pub(crate) const INSTANT: Column = column("time_ns", Whole);

pub(crate) const PIPES: Declared = &[
    START,
    WIDTH,
    column("pipe", Text).key(),
    column("packets", Whole).shown("packets", EACH),
    column("bytes", Whole).shown("rate", BITS),
    column("drops_queue", Whole).shown("drops_queue", Take::Sum),
    column("drops_early", Whole),
    column("drops_loss", Whole).shown("drops_loss", Take::Sum),
    column("drops_down", Whole).shown("drops_down", Take::Sum),
    column("marked", Whole).shown("marked", Take::Sum),
    column("duplicated", Whole),
    column("corrupted", Whole),
    column("reordered", Whole),
    column("busy_ns", Whole).shown("busy", SHARE),
    column("queue_mean", Real).shown("queue", Take::Level),
    column("queue_max", Whole).shown("queue_max", Take::Most),
    column("queue_end", Whole),
    column("queue_end_bytes", Whole),
    column("served", Whole),
    column("delay_mean_ns", MaybeReal).shown("delay", Take::Weighted("served")),
    column("delay_max_ns", Whole).shown("delay_max", Take::Most),
];

pub(crate) const FLOWS: Declared = &[
    START,
    WIDTH,
    column("from", Text).key(),
    column("to", Text).key(),
    column("protocol", Text).key(),
    column("from_port", Whole).key(),
    column("to_port", Whole).key(),
    column("from_address", Text),
    column("to_address", Text),
    column("sent", Whole),
    column("sent_bytes", Whole).shown("sent", BITS),
    column("received", Whole),
    column("received_bytes", Whole).shown("rate", BITS),
    column("dropped", Whole).shown("dropped", Take::Sum),
    column("delay_mean_ns", MaybeReal).shown("delay", Take::Weighted("received")),
    column("delay_max_ns", Whole).shown("delay_max", Take::Most),
];

pub(crate) const CORE: Declared = &[
    START,
    WIDTH,
    column("entered", Whole).shown("entered", EACH),
    column("created", Whole),
    column("delivered", Whole).shown("delivered", EACH),
    column("dropped", Whole).shown("dropped", Take::Sum),
    column("hops", Whole).shown("hops", EACH),
    column("inside", Whole).shown("inside", Take::Last),
    column("busy_ns", MaybeWhole).shown("busy", SHARE),
    column("left", MaybeWhole).shown("left", Take::Sum),
    column("late", MaybeWhole).shown("late", Take::Sum),
    column("lateness_mean_ns", MaybeReal).shown("lateness", Take::Weighted("left")),
    column("lateness_max_ns", MaybeWhole).shown("lateness_max", Take::Most),
    column("drops_shed", MaybeWhole).shown("drops_shed", Take::Sum),
    column("drops_pool", MaybeWhole).shown("drops_pool", Take::Sum),
    column("drops_send", MaybeWhole).shown("drops_send", Take::Sum),
];

pub(crate) const PACKETS: Declared = &[
    column("pipe", Text),
    column("arrival_ns", Whole),
    column("service_ns", Whole),
    column("departure_ns", Whole),
    column("bytes", Whole),
    column("fate", Text),
    column("from", Text),
    column("to", Text),
    column("protocol", Text),
    column("from_port", Whole),
    column("to_port", Whole),
];

pub(crate) const HOSTS: Declared = &[
    START,
    WIDTH,
    column("host", Text).key(),
    column("cpu_ns", Whole).shown("cpu", SHARE),
    column("wait_ns", Whole).shown("wait", SHARE),
    column("memory_bytes", Whole).shown("memory", Take::Last),
    column("processes", Whole),
    column("tasks", Whole).shown("tasks", Take::Last),
];

pub(crate) const CONNECTIONS: Declared = &[
    INSTANT,
    column("host", Text).key(),
    column("port", Whole).key(),
    column("peer", Text).key(),
    column("peer_port", Whole).key(),
    column("address", Text),
    column("peer_address", Text),
    column("flow", Text).key(),
    column("id", Whole).key(),
    column("state", Text),
    column("congestion", Text).key(),
    column("mss", Whole),
    column("cwnd_bytes", Whole).shown("cwnd", Take::Sample),
    column("ssthresh_bytes", MaybeWhole).shown("ssthresh", Take::Last),
    column("srtt_ns", MaybeWhole).shown("srtt", Take::Sample),
    column("rttvar_ns", MaybeWhole),
    column("min_rtt_ns", MaybeWhole).shown("min_rtt", Take::Last),
    column("pacing_bps", MaybeWhole),
    column("delivery_bps", MaybeWhole).shown("delivery", Take::Sample),
    column("acked_bytes", MaybeWhole),
    column("received_bytes", MaybeWhole),
    column("in_flight_packets", Whole).shown("in_flight", Take::Sample),
    column("unacked_packets", Whole),
    column("lost_packets", Whole).shown("lost", Take::Most),
    column("retransmitted_packets", Whole).shown("retransmitted", Take::Last),
];

/// Names of what samples have numbers of.
#[derive(Debug)]
pub(super) struct Names {
    topology: Arc<Topology>,
    pipes: Vec<Arc<str>>,
    nodes: Vec<Arc<str>>,
    nothing: Arc<str>,
    others: Arc<str>,
}

impl Names {
    pub(super) fn new(topology: Arc<Topology>) -> Self {
        let pipes = topology.pipes().iter().map(|pipe| Arc::from(&*pipe.name));
        let nodes = topology.nodes().iter().map(|node| Arc::from(&*node.name));
        Self {
            pipes: pipes.collect(),
            nodes: nodes.collect(),
            topology,
            nothing: Arc::from(""),
            others: Arc::from("others"),
        }
    }

    pub(super) fn pipe(&self, pipe: PipeId) -> &Arc<str> {
        &self.pipes[pipe.index()]
    }

    /// The node with an address; empty where there is none.
    fn node(&self, address: IpAddr) -> &Arc<str> {
        let node = match address {
            IpAddr::V4(address) => self.topology.by_ipv4(address),
            IpAddr::V6(address) => self.topology.by_ipv6(address),
        };
        node.map_or(&self.nothing, |node| &self.nodes[node.index()])
    }
}

/// A bin's first two cells.
fn bin(start: Time, end: Time) -> [Cell; 2] {
    [start.as_ns().into(), end.since(start).as_ns().into()]
}

/// The mean of some; of none, there is none.
fn mean(sum: u64, count: u64) -> Cell {
    (count > 0).then(|| sum as f64 / count as f64).into()
}

pub(super) fn pipes(
    table: &mut Table,
    rows: &mut [PipeRow],
    (start, end): (Time, Time),
    names: &Names,
) {
    let width = end.since(start).as_ns();
    rows.sort_unstable_by_key(|row| row.pipe); // each core has added its own
    for row in rows {
        let (c, q) = (&row.counters, &row.queue);
        let cells = [
            names.pipe(row.pipe).into(),
            c.packets.into(),
            c.bytes.into(),
            c.drops_queue.into(),
            c.drops_early.into(),
            c.drops_loss.into(),
            c.drops_down.into(),
            c.marked.into(),
            c.duplicated.into(),
            c.corrupted.into(),
            c.reordered.into(),
            c.busy_ns.into(),
            Cell::Real(q.packet_ns as f64 / width.max(1) as f64),
            u64::from(q.most).into(),
            u64::from(row.waiting.0).into(),
            row.waiting.1.into(),
            q.served.into(),
            mean(q.wait_ns, q.served),
            q.longest_ns.into(),
        ];
        table.push(bin(start, end).into_iter().chain(cells));
    }
}

/// The flows of all cores: those of one key are one row, and rows have the order of their keys.
pub(super) fn flows(
    table: &mut Table,
    (rows, others): (&mut Vec<FlowRow>, &Counts),
    (start, end): (Time, Time),
    names: &Names,
) {
    rows.sort_unstable_by_key(|(key, _)| *key);
    rows.dedup_by(|(key, counts), (before, sum)| {
        let same = key == before;
        if same {
            sum.merge(counts);
        }
        same
    });
    for (key, counts) in rows.iter() {
        let (from_port, to_port) = key.ports();
        let (from, to) = match key.addresses() {
            Some((from, to)) => (
                [names.node(from).clone(), from.to_string().into()],
                [names.node(to).clone(), to.to_string().into()],
            ),
            None => Default::default(),
        };
        let protocol = protocol(key.protocol());
        let who = [&from[0], &to[0], &protocol].map(Cell::from);
        let ports = [from_port, to_port].map(|port| Cell::from(u64::from(port)));
        let addresses = [&from[1], &to[1]].map(Cell::from);
        let cells = who.into_iter().chain(ports).chain(addresses);
        table.push(
            bin(start, end)
                .into_iter()
                .chain(cells)
                .chain(counted(counts)),
        );
    }
    if *others != Counts::default() {
        let who = [&names.others, &names.others, &names.nothing].map(Cell::from);
        let ports = [Cell::Whole(0), Cell::Whole(0)];
        let addresses = [&names.nothing, &names.nothing].map(Cell::from);
        let cells = who.into_iter().chain(ports).chain(addresses);
        table.push(
            bin(start, end)
                .into_iter()
                .chain(cells)
                .chain(counted(others)),
        );
    }
}

fn counted(counts: &Counts) -> [Cell; 7] {
    [
        counts.sent.into(),
        counts.sent_bytes.into(),
        counts.received.into(),
        counts.received_bytes.into(),
        counts.dropped.into(),
        mean(counts.delay.as_ns(), counts.received),
        counts.longest.as_ns().into(),
    ]
}

/// A protocol by the name that RFCs use, or by its number.
fn protocol(number: u8) -> Arc<str> {
    match number {
        1 => "icmp".into(),
        6 => "tcp".into(),
        17 => "udp".into(),
        58 => "icmp6".into(),
        132 => "sctp".into(),
        other => other.to_string().into(),
    }
}

pub(super) fn core(table: &mut Table, row: &CoreRow, (start, end): (Time, Time)) {
    let own = |of: fn(&CoreBin) -> u64| Cell::from(row.bin.as_ref().map(of));
    let lateness = row.bin.as_ref();
    let cells = [
        row.entered.into(),
        row.created.into(),
        row.delivered.into(),
        row.dropped.into(),
        row.hops.into(),
        row.inside.into(),
        own(|bin| bin.busy_ns),
        own(|bin| bin.left),
        own(|bin| bin.late),
        lateness.map_or(Cell::Missing, |bin| mean(bin.lateness_ns, bin.left)),
        own(|bin| bin.lateness_max_ns),
        own(|bin| bin.shed),
        own(|bin| bin.pool),
        own(|bin| bin.send),
    ];
    table.push(bin(start, end).into_iter().chain(cells));
}

/// What a packet's end in a pipe is called.
pub(super) const fn fate(fate: PacketEvent) -> &'static str {
    match fate {
        PacketEvent::Queue => "queue",
        PacketEvent::Loss => "loss",
        PacketEvent::LinkDown => "link_down",
        _ => "out",
    }
}

pub(super) fn packets(table: &mut Table, passages: &mut [Passage], names: &Names) {
    // Each core has reported its own pipes, in its own order.
    passages.sort_by_key(|passage| (passage.end, passage.pipe, passage.arrival, passage.service));
    for passage in passages {
        let (from, to) = match passage.flow.addresses() {
            Some((from, to)) => (names.node(from), names.node(to)),
            None => (&names.nothing, &names.nothing),
        };
        let (from_port, to_port) = passage.flow.ports();
        // One that was never served has waited until its end.
        let service = passage.service.unwrap_or(passage.end);
        table.push([
            names.pipe(passage.pipe).into(),
            passage.arrival.as_ns().into(),
            service.as_ns().into(),
            passage.end.as_ns().into(),
            passage.bytes.into(),
            (&Arc::<str>::from(fate(passage.fate))).into(),
            from.into(),
            to.into(),
            (&protocol(passage.flow.protocol())).into(),
            u64::from(from_port).into(),
            u64::from(to_port).into(),
        ]);
    }
}

/// What a host has used between two samples.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostRow {
    pub(crate) host: NodeId,
    pub(crate) start: Time,
    pub(crate) end: Time,
    pub(crate) cpu_ns: u64,
    pub(crate) wait_ns: u64,
    /// At the end of it, as are processes and tasks.
    pub(crate) resident_bytes: u64,
    pub(crate) processes: u32,
    pub(crate) tasks: u32,
}

pub(super) fn hosts(table: &mut Table, rows: &[HostRow], names: &Names) {
    for row in rows {
        let cells = [
            (&names.nodes[row.host.index()]).into(),
            row.cpu_ns.into(),
            row.wait_ns.into(),
            row.resident_bytes.into(),
            u64::from(row.processes).into(),
            u64::from(row.tasks).into(),
        ];
        table.push(bin(row.start, row.end).into_iter().chain(cells));
    }
}

/// Connections at a sample, each by both ends where both are sampled.
pub(super) fn connections(table: &mut Table, rows: &[(Time, Connection)], names: &Names) {
    for (time, of) in rows {
        let text = |text: &str| Cell::Text(text.into());
        let flow = of.flow.as_ref().map_or(String::new(), ToString::to_string);
        let [srtt, rttvar] = of.rtt.map_or([None; 2], |rtt| rtt.map(Some));
        let ns = |span: Option<Span>| Cell::from(span.map(Span::as_ns));
        let bits = |bytes: Option<u64>| Cell::from(bytes.map(|bytes| bytes.saturating_mul(8)));
        let segments = |count: u32| u64::from(count) * u64::from(of.mss);
        table.push([
            time.as_ns().into(),
            (&names.nodes[of.host.index()]).into(),
            u64::from(of.local.port()).into(),
            names.node(of.remote.ip()).into(),
            u64::from(of.remote.port()).into(),
            text(&of.local.ip().to_string()),
            text(&of.remote.ip().to_string()),
            text(&flow),
            of.id.into(),
            text(of.state),
            text(&of.congestion),
            u64::from(of.mss).into(),
            of.cwnd_bytes().into(),
            of.ssthresh.map(segments).into(),
            ns(srtt),
            ns(rttvar),
            ns(of.min_rtt),
            bits(of.pacing_rate),
            bits(of.delivery_rate),
            of.acked.into(),
            of.received.into(),
            u64::from(of.in_flight).into(),
            u64::from(of.unacked).into(),
            u64::from(of.lost).into(),
            of.retransmissions.into(),
        ]);
    }
}

/// The widths of bins as budgets grow: `every`, doubled this many times.
pub(super) fn widened(every: Span, doublings: u32) -> Span {
    let times = 1_u64 << doublings.min(40);
    Span::from_ns(every.as_ns().saturating_mul(times))
}
