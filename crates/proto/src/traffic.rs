//! Modelled traffic: hosts and flows without programs, clock, input or output.
//!
//! Purpose: all modelled hosts and flows of a run in one state machine. [`Traffic::handle_packet`]
//! takes what comes out of the network at a modelled host, [`Traffic::handle_timeout`] lets time
//! pass, [`Traffic::poll_transmit`] gives what the hosts send, [`Traffic::poll_timeout`] when to
//! come back. TCP endpoints are those of [`crate::tcp`]; packets have real headers
//! ([`longhaul_core::engine::Modelled`]).
//!
//! **Order.** What happens at one time happens in this order: packets in the order in which they
//! are handed over, flows that begin, timers. A packet first lets everything happen that is due
//! before it, and everything that leaves is stamped with the time of its cause. So the driver may
//! advance the network in steps of any width within which no packet can be an answer to another
//! one, and the results are those of single steps.
//!
//! **Cost.** A flow that is not under way takes 64 bytes, its result included; endpoints are made
//! when it starts and freed when its connection is over. A packet finds its endpoint by one look
//! into a hash table; timers that move later cost nothing.
//!
//! `docs/traffic-model.md` says what applications do. Left out: payload, reassembly, DNS.

mod connection;
mod datagrams;
mod outbox;
mod report;
mod source;
mod spec;
mod strays;
mod timers;
mod wire;
mod world;

use std::sync::Arc;

use longhaul_core::packet::ETHERNET_LEN;
use longhaul_core::rng::Stream;
use longhaul_core::time::Time;
use longhaul_core::topology::NodeId;
use rustc_hash::FxHashMap;

pub use outbox::Transmit;
pub use report::{
    DatagramFigures, FlowResult, Outcome, RequestFigures, RttFigures, Strays, WindowPoint,
};
pub use source::Source;
pub use spec::{
    Amount, Application, Error, FIRST_PORT, FlowSpec, Host, IpVersion, LEAST_PAYLOAD, Name, Peer,
    Transport,
};

use crate::router::RouterReplies;
use connection::{Connection, Plan, Successor};
use datagrams::Datagrams;
use strays::Directory;
use timers::Owner;
use wire::Envelope;
use world::World;

/// So many packets are looked at by [`Traffic::look_ahead`] at once.
pub const LOOK_AHEAD: usize = 32;

/// Where a packet belongs: the host, its port and the other side's, the other side's address,
/// the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    remote: [u64; 2],
    ports: u64,
}

impl Key {
    fn new(host: NodeId, remote: u128, port: u16, remote_port: u16, is_tcp: bool) -> Self {
        let ports = u64::from(port) << 16 | u64::from(remote_port);
        // Node numbers have 32 bits, of which a topology uses fewer.
        let host = u64::from(host.0) << 33 | u64::from(is_tcp) << 32;
        Self {
            remote: [(remote >> 64) as u64, remote as u64],
            ports: host | ports,
        }
    }
}

#[derive(Debug)]
enum Active {
    Connection(Box<Connection>),
    Datagrams(Box<Datagrams>),
}

/// A place for a flow that is under way.
#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    /// Which of the flow's connections.
    connection: u32,
    active: Option<Active>,
}

/// All modelled hosts and flows of a run.
#[derive(Debug)]
pub struct Traffic {
    world: World,
    seed: u64,
    /// Flows by their starts.
    order: Vec<u32>,
    /// How many of them have begun.
    begun: usize,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Slot, times 2, and the side.
    keys: FxHashMap<Key, u32>,
    replies: RouterReplies,
    directory: Directory,
    strays: Strays,
}

impl Traffic {
    /// The traffic of `flows` among `hosts`, drawing from `seed`.
    ///
    /// # Errors
    /// Where a flow cannot be; see [`Error`].
    pub fn new(
        hosts: Vec<Host>,
        flows: impl IntoIterator<Item = FlowSpec>,
        seed: u64,
    ) -> Result<Self, Error> {
        let world = World::new(hosts, flows)?;
        let mut order: Vec<u32> = (0..world.flows.len() as u32).collect();
        order.sort_by_key(|&flow| world.flows[flow as usize].start);
        Ok(Self {
            directory: Directory::new(&world.hosts),
            world,
            seed,
            order,
            begun: 0,
            slots: Vec::new(),
            free: Vec::new(),
            keys: FxHashMap::default(),
            replies: RouterReplies::new(),
            strays: Strays::default(),
        })
    }

    /// A packet of `ip_len` bytes has come out at `host` at `now`; `headers` are the first bytes
    /// of its frame, and the rest are zeros or do not matter. First everything happens that is
    /// due before `now`.
    pub fn handle_packet(&mut self, now: Time, host: NodeId, headers: &[u8], ip_len: u32) {
        if let Some(before) = now.as_ns().checked_sub(1) {
            self.handle_timeout(Time::from_ns(before));
        }
        let Some(envelope) = Envelope::read(headers, ip_len) else {
            return self.answer(now, host, headers, ip_len);
        };
        if !envelope.is_sound(headers) {
            self.strays.damaged += 1;
            return;
        }
        let Some(&place) = self.keys.get(&key_of(host, &envelope)) else {
            return self.refuse(now, host, headers, ip_len, &envelope);
        };
        let (slot, side) = (place / 2, place as usize % 2);
        match &mut self.slots[slot as usize].active {
            Some(Active::Connection(connection)) => {
                connection.handle(&mut self.world, side, now, &envelope, headers);
                let is_over = connection.is_over() || connection.successor.is_some();
                if is_over {
                    self.clean(slot, now);
                }
            }
            Some(Active::Datagrams(datagrams)) => {
                if let Some(numbers) = envelope.numbers(headers)
                    && side == 1
                {
                    datagrams.handle(&mut self.world, now, numbers);
                    if datagrams.is_over() {
                        self.clean(slot, now);
                    }
                }
            }
            None => {}
        }
    }

    /// Looks up what the next packets are for, all at once: of each its host, its headers and the
    /// length of its IP packet. Changes nothing. With many flows under way, each step to an endpoint
    /// (its key, its slot, the connection, its end) waits for the machine's memory; the processor
    /// makes the same step for many packets in the time of one, and finds all of it near when they
    /// are handled.
    pub fn look_ahead<'a>(&self, coming: impl Iterator<Item = (NodeId, &'a [u8], u32)>) {
        let mut places = [u32::MAX; LOOK_AHEAD];
        for (place, (host, headers, ip_len)) in places.iter_mut().zip(coming) {
            let key = Envelope::read(headers, ip_len).map(|envelope| key_of(host, &envelope));
            let found = key.and_then(|key| self.keys.get(&key));
            *place = found.copied().unwrap_or(u32::MAX);
        }
        let connections = places.map(|place| {
            let slot = self.slots.get((place / 2) as usize);
            match slot.and_then(|slot| slot.active.as_ref()) {
                Some(Active::Connection(connection)) => Some(&**connection),
                _ => None,
            }
        });
        let ends = connections.map(|connection| connection.map_or(&[][..], Connection::ends));
        let ends = ends.iter().zip(places);
        let ends = ends.filter_map(|(ends, place)| ends.get(place as usize % 2));
        std::hint::black_box(ends.fold(0, |seen, end| seen ^ end.look()));
    }

    /// Everything happens that is due at or before `now`, each at its own time.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some(next) = self.poll_timeout()
            && next <= now
        {
            if let Some(flow) = self.next_start().filter(|&(at, _)| at == next) {
                self.begun += 1;
                self.start(flow.1, next);
            } else if let Some((at, owner)) = self.world.timers.pop(now) {
                self.ring(owner, at);
            }
        }
    }

    /// When [`Traffic::handle_timeout`] is to be called next. It may turn out that nothing is
    /// due then.
    pub fn poll_timeout(&self) -> Option<Time> {
        let start = self.next_start().map(|(at, _)| at);
        let timer = self.world.timers.next();
        match (start, timer) {
            (Some(start), Some(timer)) => Some(start.min(timer)),
            (start, timer) => start.or(timer),
        }
    }

    /// The next packet that leaves.
    pub fn poll_transmit(&mut self) -> Option<Transmit<'_>> {
        self.world.outbox.pop()
    }

    /// Whether a packet that has come out at a host which also has a kernel is for a modelled
    /// endpoint: TCP and UDP to ports from [`FIRST_PORT`] on, and ICMP errors about what comes from
    /// there.
    pub fn owns(&self, host: NodeId, headers: &[u8]) -> bool {
        let ip_len = headers.len().saturating_sub(ETHERNET_LEN) as u32;
        let port = match Envelope::read(headers, ip_len) {
            Some(envelope) => Some(envelope.port),
            None => strays::quoted_port(headers),
        };
        self.world.places.contains_key(&host) && port.is_some_and(|port| port >= FIRST_PORT)
    }

    /// Whether all flows are over that end by themselves.
    pub fn is_done(&self) -> bool {
        self.world.awaited == 0
    }

    /// How many flows are over, and how many there are.
    pub fn progress(&self) -> (usize, usize) {
        let all = self.world.flows.len();
        (all - self.world.unfinished, all)
    }

    /// Packets that no flow awaited.
    pub const fn strays(&self) -> Strays {
        self.strays
    }

    /// What flows have done so far, in the order in which they were given.
    pub fn flows(&self) -> impl Iterator<Item = FlowResult<'_>> {
        let mut active: FxHashMap<u32, Vec<&Active>> = FxHashMap::default();
        for slot in self.slots.iter().filter_map(|slot| slot.active.as_ref()) {
            active.entry(slot.flow()).or_default().push(slot);
        }
        (0..self.world.flows.len() as u32).map(move |flow| {
            let active = active.get(&flow).map_or(&[][..], Vec::as_slice);
            self.result(flow, active)
        })
    }

    fn result<'a>(&'a self, number: u32, active: &[&'a Active]) -> FlowResult<'a> {
        let world = &self.world;
        let flow = &world.flows[number as usize];
        let outcome = flow.outcome();
        let mut result = FlowResult {
            name: world.name(number),
            from: world.hosts[flow.from as usize].node,
            to: world.hosts[flow.to as usize].node,
            outcome,
            start: flow.start,
            finish: Some(flow.finish).filter(|_| flow.finish < Time::MAX),
            bytes: if outcome == Outcome::Waiting {
                0
            } else {
                flow.bytes
            },
            retransmissions: flow.retransmissions.into(),
            rtt: RttFigures::unpack(flow.trips),
            datagrams: world.datagrams.get(&number),
            requests: world.requests.get(&number),
            series: world.series.get(&number).map_or(&[], Vec::as_slice),
        };
        for active in active {
            match active {
                Active::Connection(connection) => {
                    let (bytes, resent) = connection.totals();
                    result.bytes += bytes;
                    result.retransmissions += resent;
                    if let Some(trips) = connection.trips() {
                        result.rtt = RttFigures::unpack(trips);
                    }
                }
                Active::Datagrams(datagrams) => {
                    result.bytes += datagrams.bytes();
                    result.datagrams = Some(&datagrams.figures);
                }
            }
        }
        result
    }
}

impl Active {
    fn flow(&self) -> u32 {
        match self {
            Self::Connection(connection) => connection.flow,
            Self::Datagrams(datagrams) => datagrams.flow,
        }
    }
}

fn key_of(host: NodeId, envelope: &Envelope) -> Key {
    Key::new(
        host,
        envelope.source,
        envelope.port,
        envelope.source_port,
        envelope.is_tcp,
    )
}

/// Flows begin and end.
impl Traffic {
    fn next_start(&self) -> Option<(Time, u32)> {
        let flow = *self.order.get(self.begun)?;
        Some((self.world.flows[flow as usize].start, flow))
    }

    fn start(&mut self, flow: u32, now: Time) {
        let entry = &mut self.world.flows[flow as usize];
        entry.set_outcome(Outcome::Running);
        let bytes = std::mem::take(&mut entry.bytes);
        let name = self.world.name(flow).to_string();
        let stream = Stream::new(self.seed, &name);
        match self.world.kind(flow).transport {
            Transport::Tcp(..) => self.connect(flow, bytes, stream, None, now),
            Transport::Udp { ip, .. } => self.send(flow, bytes, ip, stream, now),
        }
    }

    fn take_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        })
    }

    fn ends(&self, flow: u32) -> [Host; 2] {
        let flow = &self.world.flows[flow as usize];
        [flow.from, flow.to].map(|place| self.world.hosts[place as usize])
    }

    /// A flow, or the next connection of one, begins.
    fn connect(
        &mut self,
        flow: u32,
        bytes: u64,
        stream: Stream,
        successor: Option<connection::Requests>,
        now: Time,
    ) {
        let kind = Arc::clone(self.world.kind(flow));
        let Transport::Tcp(config, ip) = kind.transport.clone() else {
            return;
        };
        let number = successor
            .as_ref()
            .map_or(0, connection::Requests::connections);
        let ports = self.world.ports(flow, number);
        let slot = self.take_slot();
        let plan = Plan {
            flow,
            slot,
            generation: self.slots[slot as usize].generation,
            hosts: self.ends(flow),
            ports,
            kind,
            config,
            ip,
            bytes,
            stream,
            successor,
        };
        let mut connection = Box::new(Connection::new(plan, now));
        connection.begin(&mut self.world, now);
        self.slots[slot as usize].connection = number;
        let ends = connection.ends().len();
        self.slots[slot as usize].active = Some(Active::Connection(connection));
        self.bind(slot, flow, ip, true, ends);
        self.clean(slot, now);
    }

    fn send(&mut self, flow: u32, bytes: u64, ip: IpVersion, stream: Stream, now: Time) {
        let kind = Arc::clone(self.world.kind(flow));
        let slot = self.take_slot();
        let generation = self.slots[slot as usize].generation;
        let datagrams = Datagrams::new(
            (flow, slot, generation),
            self.ends(flow),
            self.world.ports(flow, 0),
            (&kind, ip),
            bytes,
            stream,
            now,
        );
        let Some(mut datagrams) = datagrams else {
            return;
        };
        datagrams.act(&mut self.world, now);
        self.slots[slot as usize].connection = 0;
        self.slots[slot as usize].active = Some(Active::Datagrams(Box::new(datagrams)));
        self.bind(slot, flow, ip, false, 2);
        self.clean(slot, now);
    }

    /// The keys of a slot's two sides.
    fn keys_of(&self, slot: u32, flow: u32, ip: IpVersion, is_tcp: bool) -> [Key; 2] {
        let hosts = self.ends(flow);
        let ports = self.world.ports(flow, self.slots[slot as usize].connection);
        [0, 1].map(|side| {
            let remote = match ip {
                IpVersion::V4 => u128::from(hosts[1 - side].ipv4.to_bits()),
                IpVersion::V6 => hosts[1 - side].ipv6.to_bits(),
            };
            Key::new(
                hosts[side].node,
                remote,
                ports[side],
                ports[1 - side],
                is_tcp,
            )
        })
    }

    fn bind(&mut self, slot: u32, flow: u32, ip: IpVersion, is_tcp: bool, ends: usize) {
        let keys = self.keys_of(slot, flow, ip, is_tcp);
        for (key, side) in keys.into_iter().zip(0..).take(ends) {
            // Where a port's turn has come again, what is left of its last user ends.
            self.keys.insert(key, slot * 2 + side);
        }
    }

    fn ring(&mut self, owner: Owner, at: Time) {
        let slot = &mut self.slots[owner.slot as usize];
        if slot.generation != owner.generation {
            return;
        }
        match &mut slot.active {
            Some(Active::Connection(connection)) => {
                connection.handle_timer(&mut self.world, owner.which.into(), at);
            }
            Some(Active::Datagrams(datagrams)) => datagrams.handle_timer(&mut self.world, at),
            None => {}
        }
        self.clean(owner.slot, at);
    }

    /// Frees a slot whose flow is over, and lets a successor begin.
    fn clean(&mut self, slot: u32, now: Time) {
        let (flow, is_over, successor) = match &mut self.slots[slot as usize].active {
            Some(Active::Connection(connection)) => {
                let successor = connection.successor.take();
                (connection.flow, connection.is_over(), successor)
            }
            Some(Active::Datagrams(datagrams)) => (datagrams.flow, datagrams.is_over(), None),
            None => return,
        };
        if is_over {
            self.release(slot, flow);
        }
        if let Some(Successor { requests, stream }) = successor {
            self.connect(flow, 0, stream, Some(requests), now);
        }
    }

    fn release(&mut self, slot: u32, flow: u32) {
        let (is_tcp, ip) = match self.world.kind(flow).transport {
            Transport::Tcp(_, ip) => (true, ip),
            Transport::Udp { ip, .. } => (false, ip),
        };
        for (key, side) in self.keys_of(slot, flow, ip, is_tcp).into_iter().zip(0..) {
            if self.keys.get(&key) == Some(&(slot * 2 + side)) {
                self.keys.remove(&key);
            }
        }
        let entry = &mut self.world.flows[flow as usize];
        match self.slots[slot as usize].active.take() {
            Some(Active::Connection(connection)) => {
                let (bytes, resent) = connection.totals();
                entry.bytes += bytes;
                let resent = u32::try_from(resent).unwrap_or(u32::MAX);
                entry.retransmissions = entry.retransmissions.saturating_add(resent);
                if let Some(trips) = connection.trips() {
                    entry.trips = trips;
                }
            }
            Some(Active::Datagrams(datagrams)) => {
                entry.bytes += datagrams.bytes();
                self.world.datagrams.insert(flow, datagrams.figures);
            }
            None => {}
        }
        let slot_entry = &mut self.slots[slot as usize];
        slot_entry.generation = slot_entry.generation.wrapping_add(1);
        self.free.push(slot);
    }
}
