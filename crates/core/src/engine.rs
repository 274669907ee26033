//! The packet engine: carries packets over a topology, each event at its own time.
//!
//! Purpose: the one state machine behind every clock. It reads no clock and does no input or
//! output: frames enter with [`Engine::arrive`], [`Engine::advance`] does all that is due, and
//! [`Engine::poll_egress`] gives what has come out at hosts.
//!
//! **Catch up, don't trust wake-ups.** `advance(t)` handles all that is due at or before `t`, in
//! order, each at its own due time. One long step and many short ones give the same result: a
//! late wake-up makes the egress late and nothing else.
//!
//! **Order of events.** Total, and independent of threads: (time, microstep, receiving node,
//! sending pipe, the pipe's own sequence). The microstep of an arrival is 0; a packet that
//! crosses a pipe in no time at all comes out one microstep after it went in, any other at
//! microstep 0; and no packet comes out before its predecessor. Each pipe has a rank, its place
//! among all pipes sorted by (receiving node, pipe), both numbered by name; the sequence is
//! the pipe's chain. At equal times, pipes whose departures are events do those first; they
//! touch nothing outside their pipe. What a router does about a packet (forward, fragment, answer) happens in
//! that packet's place in the order, replies and fragments included.
//!
//! **Arrivals.** A frame enters its host's first pipe at its kernel stamp, even when the
//! engine is already past it: only that host feeds the pipe. It cannot come out in the past,
//! though; what it comes out too late by is its staleness. Stamps may also lie ahead. Hand
//! over arrivals before `advance` reaches their stamps, in the order of their stamps for each
//! host, and changes ([`Engine::set`]) before arrivals that are stamped after them.
//!
//! The packet path allocates nothing, locks nothing and reads no clock; the exceptions are the
//! first packet to a destination, which makes its route table ([`Engine::prepare_routes`]), and
//! a flow that a balanced route remembers ([`crate::route::balance`]).
//!
//! Left out: several cores, traffic models, multicast beyond one segment.

mod forward;
mod lan;
mod modelled;
mod parcel;

use crate::observe::{Counters, PipeCounters};
use crate::packet::{self, Destination, Headers, Mac, Refusal};
use crate::pending::{self, Key, Pending};
use crate::pipe::delay::Moment;
use crate::pipe::{Context, Pipe};
use crate::pool::{NIL, Origin, Pool};
use crate::route::Routes;
use crate::route::balance::Balancer;
use crate::router::Responder;
use crate::segment::Partial;
use crate::time::{Span, Time};
use crate::topology::{NodeId, NodeKind, PipeId, PipeParams, Topology};
use modelled::Scratch;

pub use modelled::{MODELLED_SLOT, Modelled};
pub use parcel::Parcel;

/// The Ethernet address that everything delivered comes from.
pub const GATEWAY_MAC: Mac = [0x02, 0x4c, 0x47, 0x00, 0x00, 0x01];

/// The Ethernet address of a host's interface: `02:4c:48` and the low 24 bits of its number.
pub const fn host_mac(host: NodeId) -> Mac {
    let [_, a, b, c] = host.0.to_be_bytes();
    [0x02, 0x4c, 0x48, a, b, c]
}

/// What an engine is built with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineConfig {
    /// Seed of all randomness.
    pub seed: u64,
    /// The longest frame, in bytes with its Ethernet header.
    pub slot_size: usize,
    /// How many packets there may be at once, those at the egress included.
    pub slots: u32,
    /// How many super-packets may share their bytes among their segments at once; segments of
    /// more have bytes of their own.
    pub buffers: u32,
    /// Take the fast path of no pipe, for tests: the results are the same.
    #[doc(hidden)]
    pub always_shaped: bool,
}

impl Default for EngineConfig {
    /// Seed 0 and 65536 frames of up to 2048 bytes; the memory is mapped when first used.
    fn default() -> Self {
        Self {
            seed: 0,
            slot_size: 2048,
            slots: 65_536,
            buffers: 0,
            always_shaped: false,
        }
    }
}

/// Why a frame did not enter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The frame is none that the network carries.
    Frame(Refusal),
    /// The frame is longer than a slot of the pool.
    TooLong,
    /// All slots are in use: a physical drop.
    PoolExhausted,
}

/// A packet that has come out at its host. Give it back with [`Engine::release`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "an egress holds its slot until it is released"]
pub struct Egress {
    /// Where it came out.
    pub host: NodeId,
    /// When it should leave.
    pub due: Time,
    /// By how much it entered too late to be served at its stamp.
    pub staleness: Span,
    /// The sum of the propagation delays of the pipes that it crossed, as drawn.
    pub path_delay: Span,
    /// The stamp that it entered with; of a reply, the time of its cause.
    pub entered: Time,
    /// Length of the frame in bytes.
    pub len: u32,
    /// The number of its arrival (from 0), or [`CREATED`] and the number of its creation.
    pub id: u64,
    index: u32,
}

/// Set in the id of a packet that a router made.
pub const CREATED: u64 = 1 << 63;

/// What the engine keeps of a node.
#[derive(Debug, Clone, Copy)]
struct NodeState {
    kind: NodeKind,
    replies: forward::ReplyLimit,
}

/// The packet engine. See the module's first lines.
pub struct Engine {
    topology: Topology,
    responder: Box<dyn Responder>,
    routes: Routes,
    balancer: Balancer,
    nodes: Vec<NodeState>,
    pipes: Vec<Pipe>,
    /// The pipe of each rank.
    by_rank: Vec<u32>,
    pending: Pending,
    pool: Pool,
    now: Time,
    counters: Counters,
    /// Packets in pipes.
    inside: u64,
    /// Numbers for ids of packets that routers made.
    created: u64,
    scratch: Scratch,
    /// The chain of packets that have come out.
    egress_head: u32,
    egress_tail: u32,
}

impl Engine {
    /// An engine at t = 0 with nothing inside.
    ///
    /// # Panics
    /// Where a slot is shorter than 128 bytes or there are 2^32 − 1 of them.
    pub fn new(topology: Topology, config: EngineConfig, responder: Box<dyn Responder>) -> Self {
        assert!(
            config.slot_size >= 128,
            "a slot holds at least an error message"
        );
        let mut by_rank: Vec<u32> = (0..topology.pipes().len() as u32).collect();
        by_rank.sort_by_key(|&pipe| (topology.pipe(PipeId(pipe)).to, pipe));
        let mut ranks = vec![0; by_rank.len()];
        for (rank, &pipe) in by_rank.iter().enumerate() {
            ranks[pipe as usize] = rank as u32;
        }
        let pipes = topology.pipes().iter().zip(ranks);
        let replies = forward::ReplyLimit::default();
        Self {
            routes: Routes::new(&topology),
            balancer: Balancer::new(config.seed),
            nodes: topology
                .nodes()
                .iter()
                .map(|n| NodeState {
                    kind: n.kind,
                    replies,
                })
                .collect(),
            pipes: pipes
                .map(|(pipe, rank)| Pipe::new(pipe, rank, config.seed, config.always_shaped))
                .collect(),
            pending: Pending::new(by_rank.len()),
            by_rank,
            pool: Pool::new(config.slots, config.slot_size, config.buffers),
            now: Time::ZERO,
            counters: Counters::default(),
            inside: 0,
            created: 0,
            scratch: Scratch::default(),
            egress_head: NIL,
            egress_tail: NIL,
            topology,
            responder,
        }
    }

    /// A frame arrives from a host, stamped `stamp`. The bytes are copied once. A frame for a
    /// group enters where the host has a link to a lan.
    pub fn arrive(&mut self, host: NodeId, stamp: Time, frame: &[u8]) -> Result<(), Refused> {
        let headers = self.admit(host, frame)?;
        let len = packet::ETHERNET_LEN + headers.ip_len as usize;
        if len > self.pool.slot_size() {
            return Err(self.too_long());
        }
        let index = self.take(stamp, Partial::default())?;
        let to = self.find(headers.destination);
        self.pool.describe(index, &headers, to);
        self.pool.write(index, &frame[..len]);
        self.set_out(host, index, stamp);
        Ok(())
    }

    /// Reads a frame at the door.
    #[inline]
    fn admit(&mut self, host: NodeId, frame: &[u8]) -> Result<Headers, Refused> {
        debug_assert!(self.nodes[host.index()].kind == NodeKind::Host);
        let headers = packet::parse_any(frame).map_err(|refusal| self.refuse(refusal))?;
        if headers.destination == Destination::Group && self.segment(host).is_none() {
            return Err(self.refuse(Refusal::Multicast));
        }
        Ok(headers)
    }

    /// A slot for a packet that arrives with `stamp`.
    #[inline]
    fn take(&mut self, stamp: Time, checksum: Partial) -> Result<u32, Refused> {
        let origin = Origin {
            id: self.counters.entered,
            entered: stamp,
            staleness: 0,
            checksum,
        };
        self.pool.take(origin).ok_or_else(|| {
            self.counters.pool_exhausted += 1;
            Refused::PoolExhausted
        })
    }

    /// A packet that is complete in its slot enters the network.
    #[inline]
    fn set_out(&mut self, host: NodeId, index: u32, stamp: Time) {
        if self.pool[index].destination == lan::GROUP {
            self.address_group(index);
        }
        self.counters.entered += 1;
        self.depart(host, index, stamp);
    }

    fn too_long(&mut self) -> Refused {
        self.counters.refused.too_long += 1;
        Refused::TooLong
    }

    /// Handles all that is due at or before `to`, in order; the engine's time is then `to`.
    pub fn advance(&mut self, to: Time) {
        let end = Moment {
            time: to,
            microstep: u32::MAX,
        };
        self.run(pending::key(end, u32::MAX));
        self.now = self.now.max(to);
    }

    /// Handles all that is due before `to`, in order; the engine's time is then `to`. For changes
    /// that come before packets of the same time.
    pub fn advance_before(&mut self, to: Time) {
        self.run(pending::departure_key(to, 0));
        self.now = self.now.max(to);
    }

    /// When something is due next; never before [`Engine::now`]. Where a pipe is not plain, it
    /// may turn out that nothing is.
    pub fn next_due(&self) -> Option<Time> {
        let first = self.pending.first();
        first.map(|key| pending::moment(key).time.max(self.now))
    }

    /// How far the engine has been advanced.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// The next packet that has come out at a host, in the order of events.
    pub fn poll_egress(&mut self) -> Option<Egress> {
        let index = self.next_egress()?;
        let egress = self.describe_egress(index);
        self.pool.apply_edits(index);
        self.address(index, egress.host);
        Some(egress)
    }

    /// Takes the first packet off the chain of those that have come out.
    #[inline]
    fn next_egress(&mut self) -> Option<u32> {
        let index = self.egress_head;
        if index == NIL {
            return None;
        }
        self.egress_head = self.pool[index].next;
        if self.egress_head == NIL {
            self.egress_tail = NIL;
        }
        Some(index)
    }

    #[inline]
    fn describe_egress(&self, index: u32) -> Egress {
        let packet = &self.pool[index];
        let origin = self.pool.origin(index);
        Egress {
            host: NodeId(packet.destination),
            due: packet.due.time,
            staleness: Span::from_ns(u64::from(origin.staleness)),
            path_delay: packet.path_delay,
            entered: origin.entered,
            len: self.pool.frame_len(index) as u32,
            id: origin.id,
            index,
        }
    }

    /// Writes the Ethernet addresses of a packet that is to leave for `host`.
    #[inline]
    fn address(&mut self, index: u32, host: NodeId) {
        let frame = self.pool.head_mut(index);
        let station = lan::group_address(frame).unwrap_or(host_mac(host));
        packet::set_macs(frame, GATEWAY_MAC, station);
    }

    /// The bytes of a polled packet, as its host is to receive them; of a modelled packet, its
    /// headers, which [`Engine::zeros`] follow.
    pub fn frame(&self, egress: &Egress) -> &[u8] {
        self.pool.frame(egress.index)
    }

    /// Gives back the slot of a polled packet.
    pub fn release(&mut self, egress: Egress) {
        self.pool.release(egress.index);
    }

    /// Changes a pipe at the engine's current time: rate, burst, framing and trace for all that
    /// has not been sent yet (pro rata for the packet in service), queue and discipline for
    /// packets that enter later, all else for packets that are sent later.
    pub fn set(&mut self, pipe: PipeId, params: PipeParams) {
        let now = self.now;
        self.change(pipe, |pipe, context| pipe.set(params, now, context));
    }

    /// Takes a pipe down at the engine's current time, or up again. While it is down nothing
    /// enters it; what is in it is lost, save, with `keep_queue`, what waits and what is being
    /// sent, which is sent anew. A pipe that is down already may lose its queue too. Routes learn
    /// of it at the next [`Engine::reroute`].
    pub fn set_up(&mut self, pipe: PipeId, up: bool, keep_queue: bool) {
        let now = self.now;
        self.routes.set_usable(pipe, up);
        self.change(pipe, |pipe, context| {
            pipe.set_up(up, keep_queue, now, context);
        });
    }

    /// Whether a pipe is up.
    pub fn is_up(&self, pipe: PipeId) -> bool {
        self.pipes[pipe.index()].is_up()
    }

    /// Changes a pipe, and its places in the pending set.
    fn change(&mut self, pipe: PipeId, change: impl FnOnce(&mut Pipe, &mut Context<'_>)) {
        let pipe = &mut self.pipes[pipe.index()];
        let mut context = Context {
            pool: &mut self.pool,
            counters: &mut self.counters,
            inside: &mut self.inside,
            floor: self.now,
        };
        let was_shaped = pipe.is_shaped();
        change(pipe, &mut context);
        if was_shaped || pipe.is_shaped() {
            self.pending.remove(pipe.rank);
            pipe.forget();
            for key in pipe.announce(&self.pool).into_iter().flatten() {
                self.pending.insert(key);
            }
        } else if let Some(due) = pipe.next_due(&self.pool) {
            self.pending.change(pending::key(due, pipe.rank));
        }
        debug_assert!(self.is_balanced());
    }

    /// What a pipe does at present.
    pub fn params(&self, pipe: PipeId) -> &PipeParams {
        self.pipes[pipe.index()].params()
    }

    /// Makes the route table to a destination now instead of at its first packet.
    pub fn prepare_routes(&mut self, to: NodeId) {
        self.routes.prepare(&self.topology, to);
    }

    /// The pipes from one node to another; `None` where no path leads there.
    pub fn path(&mut self, from: NodeId, to: NodeId) -> Option<Vec<PipeId>> {
        self.routes.path(&self.topology, from, to)
    }

    /// Computes all routes anew over the pipes that are up. Packets follow them from their next
    /// hop on; until then they follow the old ones, into pipes that are down too.
    pub fn reroute(&mut self) {
        self.routes.reroute();
        self.balancer.reroute();
    }

    /// The network that the engine emulates, as it was at the start.
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// What became of all packets.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What became of one pipe's packets; sending time counts up to the engine's time.
    pub fn pipe_counters(&self, pipe: PipeId) -> PipeCounters {
        self.pipes[pipe.index()].counters(self.now)
    }

    /// Packets and counted bytes that wait in a pipe's queue, the one in service not counted.
    pub fn waiting(&self, pipe: PipeId) -> (u32, u64) {
        self.pipes[pipe.index()].waiting(self.now, &self.pool)
    }

    /// Packets in pipes.
    pub const fn inside(&self) -> u64 {
        self.inside
    }

    /// Slots of the pool in use: packets inside, and those that came out and are not released.
    pub const fn slots_in_use(&self) -> u32 {
        self.pool.in_use()
    }

    /// Does everything with a key below `end`, in order.
    fn run(&mut self, end: Key) {
        while let Some(key) = self.pending.first()
            && key < end
        {
            let from = PipeId(self.by_rank[pending::rank(key) as usize]);
            let pipe = &mut self.pipes[from.index()];
            let to = NodeId(pipe.to);
            let (index, next) = if pipe.is_shaped() {
                self.step_shaped(from, key)
            } else {
                let index = pipe.pop(&self.pool);
                let next = pipe.next_due(&self.pool);
                (index, next.map(|due| pending::key(due, pipe.rank)))
            };
            self.pending.replace_first(next);
            if index == NIL {
                continue;
            }
            self.inside -= 1;
            if self.pool[index].lost {
                self.counters.dropped.loss += 1;
                self.pool.release(index);
            } else {
                self.counters.hops += 1;
                self.reach(from, to, index, pending::moment(key));
            }
        }
        debug_assert!(self.is_balanced());
    }

    /// What stands first in the pending set happens, in a shaped pipe; gives the packet that
    /// comes out, `NIL` where none does, and what takes the first place's place.
    #[inline(never)]
    fn step_shaped(&mut self, from: PipeId, key: Key) -> (u32, Option<Key>) {
        let pipe = &mut self.pipes[from.index()];
        let mut context = Context {
            pool: &mut self.pool,
            counters: &mut self.counters,
            inside: &mut self.inside,
            floor: self.now,
        };
        let out = pipe.step_shaped(key, &mut context);
        let [departure, head] = pipe.announce(&self.pool);
        if let (Some(_), Some(head)) = (departure, head) {
            debug_assert!(head > key, "nothing new comes before what is first");
            self.pending.insert(head);
        }
        (out.unwrap_or(NIL), departure.or(head))
    }

    /// Puts a packet into a shaped pipe.
    #[inline(never)]
    fn enter_shaped(&mut self, pipe: PipeId, index: u32, entry: Moment) {
        let pipe = &mut self.pipes[pipe.index()];
        let mut context = Context {
            pool: &mut self.pool,
            counters: &mut self.counters,
            inside: &mut self.inside,
            floor: self.now,
        };
        pipe.enter_shaped(index, entry, &mut context);
        for key in pipe.announce(&self.pool).into_iter().flatten() {
            self.pending.insert(key);
        }
    }

    /// Puts a packet into a pipe, or drops it where there is no room.
    #[inline]
    fn enter(&mut self, to: PipeId, index: u32, entry: Moment, floor: Time) {
        let pipe = &mut self.pipes[to.index()];
        if pipe.is_shaped() {
            return self.enter_shaped(to, index, entry);
        }
        let was_empty = pipe.next_due(&self.pool).is_none();
        if !pipe.enter(index, entry, floor, &mut self.pool) {
            self.counters.dropped.queue += 1;
            self.pool.release(index);
            return;
        }
        self.inside += 1;
        if was_empty {
            self.pending
                .insert(pending::key(self.pool[index].due, pipe.rank));
        }
    }

    /// A packet has come out at its host.
    #[inline]
    fn deliver(&mut self, index: u32) {
        self.counters.delivered += 1;
        self.pool[index].next = NIL;
        match self.egress_tail {
            NIL => self.egress_head = index,
            tail => self.pool[tail].next = index,
        }
        self.egress_tail = index;
    }

    fn refuse(&mut self, refusal: Refusal) -> Refused {
        let refused = &mut self.counters.refused;
        match refusal {
            Refusal::Malformed => refused.malformed += 1,
            Refusal::NotIp => refused.not_ip += 1,
            Refusal::Multicast => refused.multicast += 1,
        }
        Refused::Frame(refusal)
    }

    /// The node with an address, [`lan::GROUP`] for a group, `NIL` for none.
    fn find(&self, destination: Destination) -> u32 {
        let node = match destination {
            Destination::V4(address) => self.topology.by_ipv4(address),
            Destination::V6(address) => self.topology.by_ipv6(address),
            Destination::Group => return lan::GROUP,
        };
        node.map_or(NIL, |node| node.0)
    }

    /// Whether every packet is accounted for.
    fn is_balanced(&self) -> bool {
        let Counters {
            entered,
            created,
            delivered,
            dropped,
            ..
        } = self.counters;
        entered + created == delivered + dropped.total() + self.inside
    }
}
