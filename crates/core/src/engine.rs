//! The packet engine: carries packets over a topology, each event at its own time.
//!
//! Purpose: the one state machine behind every clock. It reads no clock and does no input or output:
//! frames enter by [`Engine::arrive`], [`Engine::advance`] handles all events that are due, and
//! [`Engine::poll_egress`] returns the packets that have come out at hosts.
//!
//! **Catch up, don't trust wake-ups.** `advance(t)` handles every event that is due at or before `t`, in
//! order, each at its own due time. One long step and many short ones give the same result, so a late
//! wake-up delays the egress and nothing else.
//!
//! **Order of events.** Total, and independent of threads: (time, microstep, receiving node, sending pipe,
//! the pipe's own sequence). An arrival has microstep 0. A packet that crosses a pipe in no time comes out
//! one microstep after it went in, any other at microstep 0; and no packet comes out before its
//! predecessor. A pipe's rank is its place among all pipes sorted by (receiving node, pipe), both numbered
//! by name; its sequence is the order of its chain. Departures of shaped pipes precede all packets that
//! come out at the same time; they touch nothing outside their pipe. What a router does about a packet
//! (forward, fragment, answer) happens at that packet's place in the order, replies and fragments
//! included. Look-ahead windows ([`window`]) handle many events at once where the result is the same.
//!
//! **Arrivals.** A frame enters its host's first pipe at its kernel stamp, even if the engine is already
//! past it: only that host feeds the pipe, so the pipe can still serve it then. It cannot come out in the
//! past, though; the time by which it comes out too late is its shift. Stamps may also lie ahead. Hand
//! over arrivals before `advance` reaches their stamps, those of one host in the order of their stamps,
//! and changes ([`Engine::set`]) before arrivals stamped after them.
//!
//! The packet path allocates nothing, locks nothing and reads no clock, with two exceptions: the first
//! packet to a destination builds its route table ([`Engine::prepare_routes`] does it beforehand), and a
//! balanced route may remember a new flow ([`crate::route::balance`]).
//!
//! Packets of modelled hosts have headers and no stored payload ([`Modelled`]).
//!
//! An engine carries a whole network, or a share of its nodes ([`crate::parallel`]).
//!
//! Left out: threads, multicast beyond one segment.

pub(crate) mod crossing;
mod disposition;
mod egress;
mod events;
mod forward;
pub(crate) mod hash;
mod lan;
mod modelled;
mod parcel;
pub(crate) mod record;
mod window;

use std::any::Any;
use std::sync::Arc;

use crate::observe::{Counters, PipeCounters, QueueUse};
use crate::packet::{self, Destination, FrameError, Headers, Mac};
use crate::parallel::{CoreId, LocalPipe, Share, Split};
use crate::pending;
use crate::pending::heap::Heap;
use crate::pending::wheel::Wheel;
use crate::pipe::Pipe;
use crate::pipe::delay::Moment;
use crate::pool::{NIL, Origin, Pool};
use crate::route::Routes;
use crate::route::balance::Balancer;
use crate::router::Responder;
use crate::time::Time;
use crate::topology::{self, NodeId, NodeKind, PipeId, PipeParams, Topology};
use crate::witness::{Witness, WitnessId};
use egress::Outgoing;
use hash::TraceHash;
use modelled::Scratch;
use record::Record;
use window::Window;

pub use egress::Egress;
pub use modelled::{MODELLED_SLOT, Modelled};
pub use parcel::Parcel;
#[doc(hidden)]
pub use window::Windows;

/// The source address of every Ethernet frame that is delivered.
pub const GATEWAY_MAC: Mac = [0x02, 0x4c, 0x47, 0x00, 0x00, 0x01];

/// The Ethernet address of a host's interface: `02:4c:48` and the low 24 bits of its number.
pub const fn host_mac(host: NodeId) -> Mac {
    let [_, a, b, c] = host.0.to_be_bytes();
    [0x02, 0x4c, 0x48, a, b, c]
}

/// Memory of a packet inside the engine, in bytes. Add its slot ([`EngineConfig::slot_size`]) and, with
/// the trace hash, 8 bytes for its identity.
pub const PACKET_BYTES: usize = size_of::<crate::pool::Descriptor>();

/// Settings of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineConfig {
    /// Seed of all randomness.
    pub seed: u64,
    /// The longest frame, in bytes with its Ethernet header; capped at 65,549.
    pub slot_size: usize,
    /// The most packets at once, those at the egress included. A packet beyond is a physical drop.
    pub slots: u32,
    /// The most super-packets whose segments share one buffer at once. Segments of further ones are copied
    /// into slots of their own, which costs time and changes nothing else.
    pub buffers: u32,
    /// Whether to hash all events ([`Engine::trace_hash`]).
    pub trace_hash: bool,
    /// Makes every pipe shaped, for tests: the results are the same.
    #[doc(hidden)]
    pub always_shaped: bool,
    /// When to use look-ahead windows, for tests: the results are the same.
    #[doc(hidden)]
    pub windows: Windows,
}

impl Default for EngineConfig {
    /// Seed 0 and 65536 frames of up to 2048 bytes; the memory is mapped when first used.
    fn default() -> Self {
        Self {
            seed: 0,
            slot_size: 2048,
            slots: 65_536,
            buffers: 0,
            trace_hash: false,
            always_shaped: false,
            windows: Windows::default(),
        }
    }
}

/// Why a frame did not enter the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The network does not carry such frames.
    Frame(FrameError),
    /// The frame is longer than a slot of the pool.
    TooLong,
    /// All slots are in use: a physical drop.
    PoolExhausted,
}

/// Set in the id of a packet that a router made; the rest of an id is a number modulo 2^31.
pub const CREATED: u32 = 1 << 31;

/// The state of a node.
#[derive(Debug, Clone, Copy)]
struct NodeState {
    kind: NodeKind,
    /// The only pipe that leaves it; `NIL` if several or none do.
    only: u32,
    replies: forward::ReplyLimit,
}

impl NodeState {
    /// The states of all nodes; those of other shares are left empty.
    fn of(topology: &Topology, share: &Share) -> Vec<Self> {
        let nodes = topology.nodes().iter().zip((0..).map(NodeId));
        let of = |(node, id): (&topology::Node, NodeId)| Self {
            kind: node.kind,
            only: match topology.outgoing(id) {
                [only] => share.own(*only).map_or(NIL, |LocalPipe(only)| only),
                _ => NIL,
            },
            replies: forward::ReplyLimit::default(),
        };
        nodes.map(of).collect()
    }
}

impl Share {
    /// The engine's pipe numbers sorted by (receiving node, pipe): the index of each is its rank.
    fn by_rank(&self) -> Vec<u32> {
        let mut by_rank: Vec<u32> = (0..self.len() as u32).collect();
        let topology = self.split.topology();
        by_rank.sort_by_key(|&local| {
            let pipe = self.global(LocalPipe(local));
            (topology.pipe(pipe).to, pipe)
        });
        by_rank
    }

    /// Empty pipes: those of the share, and the far ends of pipes that lead to it.
    fn pipes(&self, by_rank: &[u32], config: &EngineConfig) -> Vec<Pipe> {
        let mut ranks = vec![0; by_rank.len()];
        for (&local, rank) in by_rank.iter().zip(0..) {
            ranks[local as usize] = rank;
        }
        let topology = self.split.topology();
        let pipes = (0..self.len() as u32).map(LocalPipe).zip(ranks);
        let make = |(local, rank)| {
            let pipe = topology.pipe(self.global(local));
            let kind = topology.node(pipe.to).kind;
            match (self.is_own(local), self.exit(local)) {
                (false, _) => Pipe::far_end(pipe, kind, rank),
                (true, exit) => {
                    let mut own = Pipe::new(pipe, kind, rank, config.seed, config.always_shaped);
                    own.leads_out(exit.is_some());
                    own
                }
            }
        };
        pipes.map(make).collect()
    }
}

/// The packet engine. See the module's first lines.
pub struct Engine {
    topology: Arc<Topology>,
    share: Arc<Share>,
    responder: Box<dyn Responder>,
    routes: Routes,
    balancer: Balancer,
    nodes: Vec<NodeState>,
    pipes: Vec<Pipe>,
    /// The pipe of each rank.
    by_rank: Vec<u32>,
    /// The pending set, without the open window.
    heap: Heap,
    /// By core: the heads of cut pipes that lead to it.
    exits: Box<[Heap]>,
    wheel: Wheel,
    window: Window,
    pool: Pool,
    now: Time,
    record: Record,
    /// Numbers for ids of packets that routers made.
    created: u64,
    scratch: Scratch,
    outgoing: Outgoing,
}

impl Engine {
    /// An engine at t = 0 with nothing inside.
    ///
    /// # Panics
    /// Where a slot is shorter than 128 bytes or there are 2^32 − 1 of them.
    pub fn new(
        topology: impl Into<Arc<Topology>>,
        config: EngineConfig,
        responder: Box<dyn Responder>,
    ) -> Self {
        let split = Arc::new(Split::whole(topology));
        Self::of_share(split, CoreId(0), config, responder)
    }

    /// The engine of one core's share, at t = 0 with nothing inside.
    ///
    /// # Panics
    /// As [`Engine::new`].
    pub fn of_share(
        split: Arc<Split>,
        core: CoreId,
        config: EngineConfig,
        responder: Box<dyn Responder>,
    ) -> Self {
        assert!(
            config.slot_size >= 128,
            "a slot holds at least an error message"
        );
        let topology = Arc::clone(split.topology());
        let share = Arc::new(Share::new(split, core));
        let by_rank = share.by_rank();
        let pipes = share.pipes(&by_rank, &config);
        let (window, wheel) = Window::new(&pipes, config.windows);
        let exits = (0..share.split.cores()).map(|_| Heap::new(0)).collect();
        Self {
            routes: Routes::of_share(Arc::clone(&share)),
            balancer: Balancer::new(config.seed),
            nodes: NodeState::of(&topology, &share),
            pipes,
            heap: Heap::new(by_rank.len()),
            exits,
            wheel,
            window,
            by_rank,
            pool: Pool::new(config.slots, config.slot_size, config.buffers),
            now: Time::ZERO,
            record: Record::new(&share, config.trace_hash),
            created: 0,
            scratch: Scratch::default(),
            outgoing: Outgoing::new(config.slots),
            topology,
            share,
            responder,
        }
    }

    /// Whether a node is this engine's.
    pub fn owns(&self, node: NodeId) -> bool {
        self.share.owns(node)
    }

    /// Whether a pipe is this engine's.
    pub fn owns_pipe(&self, pipe: PipeId) -> bool {
        self.share.own(pipe).is_some()
    }

    /// Takes a frame that a host sent at `stamp`. The bytes are copied once. A frame for a group enters the
    /// host's first link to a lan.
    pub fn arrive(&mut self, host: NodeId, stamp: Time, frame: &[u8]) -> Result<(), Refused> {
        let headers = self.admit(host, frame)?;
        let len = packet::ETHERNET_LEN + headers.ip_len as usize;
        if len > self.pool.slot_size() {
            return Err(self.too_long());
        }
        let index = self.take_slot(stamp)?;
        let to = self.find(headers.destination);
        self.pool.describe(index, &headers, to);
        self.pool.write(index, &frame[..len]);
        self.inject(host, index, stamp);
        Ok(())
    }

    /// Parses a frame, and decides whether it may enter.
    #[inline]
    fn admit(&mut self, host: NodeId, frame: &[u8]) -> Result<Headers, Refused> {
        debug_assert!(self.nodes[host.index()].kind == NodeKind::Host);
        let headers = packet::parse_any(frame).map_err(|refusal| self.refuse(refusal))?;
        if headers.destination == Destination::Group && self.segment(host).is_none() {
            return Err(self.refuse(FrameError::Multicast));
        }
        Ok(headers)
    }

    /// A slot for a packet that arrives with `stamp`.
    #[inline]
    fn take_slot(&mut self, stamp: Time) -> Result<u32, Refused> {
        let origin = Origin {
            id: self.record.counters.entered as u32 & !CREATED,
            entered: stamp,
            shift: 0,
        };
        self.pool.take(origin).ok_or_else(|| {
            self.record.counters.pool_exhausted += 1;
            Refused::PoolExhausted
        })
    }

    /// Sends a packet, complete in its slot, into the network.
    #[inline]
    fn inject(&mut self, host: NodeId, index: u32, stamp: Time) {
        if self.pool[index].destination == lan::GROUP {
            self.address_group(index);
        }
        self.record.entered(host, index, stamp, &self.pool);
        self.depart(host, index, stamp);
    }

    fn too_long(&mut self) -> Refused {
        self.record.counters.refused.too_long += 1;
        Refused::TooLong
    }

    /// Handles all events due at or before `to`, in order. The engine's time is then `to`.
    pub fn advance(&mut self, to: Time) {
        let end = Moment {
            time: to,
            microstep: u16::MAX,
        };
        self.run(pending::key(end, u32::MAX));
        self.set_now(to);
    }

    /// Handles all events due before `to`, in order. The engine's time is then `to`. For changes, which
    /// come before packets of the same time.
    pub fn advance_before(&mut self, to: Time) {
        self.run(pending::departure_key(to, 0));
        self.set_now(to);
    }

    fn set_now(&mut self, to: Time) {
        self.now = self.now.max(to);
        self.wheel.begin_at(self.now.as_ns());
    }

    /// When the next event is due, never before [`Engine::now`]. May be too early, never too late: a shaped
    /// pipe may turn out to have nothing to do then.
    pub fn next_due(&self) -> Option<Time> {
        self.first_due().map(|due| due.max(self.now))
    }

    /// How far the engine has been advanced.
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Changes a pipe at the engine's current time: rate, burst, framing and trace for all that
    /// has not been sent yet (pro rata for the packet in service), queue and discipline for
    /// packets that enter later, all else for packets that are sent later. Ignores a pipe of another
    /// engine.
    pub fn set(&mut self, pipe: PipeId, params: PipeParams) {
        let Some(local) = self.share.own(pipe) else {
            return;
        };
        let (now, topology) = (self.now, Arc::clone(&self.topology));
        let name = &topology.pipe(pipe).name;
        self.change(local, |pipe, context| pipe.set(params, name, now, context));
    }

    /// Takes a pipe down, or up again, at the engine's current time. While it is down every packet that
    /// reaches it is lost. The packets inside are lost, too; with `keep_queue` those that wait are kept,
    /// and the one in service is sent again from its start. A second call may drop a kept queue. Routes
    /// follow at the next [`Engine::reroute`]. In a split network, call both on every engine.
    pub fn set_up(&mut self, pipe: PipeId, up: bool, keep_queue: bool) {
        self.routes.set_usable(pipe, up);
        let Some(local) = self.share.own(pipe) else {
            return;
        };
        let (now, topology) = (self.now, Arc::clone(&self.topology));
        let name = &topology.pipe(pipe).name;
        self.change(local, |pipe, context| {
            pipe.set_up((up, keep_queue), name, now, context);
        });
    }

    /// Whether a pipe of this engine's is up.
    pub fn is_up(&self, pipe: PipeId) -> bool {
        let own = self.share.own(pipe);
        own.is_none_or(|pipe| self.pipes[pipe.index()].is_up())
    }

    /// The parameters of a pipe; for a pipe of another engine, those at the start.
    pub fn params(&self, pipe: PipeId) -> &PipeParams {
        match self.share.own(pipe) {
            Some(pipe) => self.pipes[pipe.index()].params(),
            None => &self.topology.pipe(pipe).params,
        }
    }

    /// Builds the route table to a destination now instead of at its first packet.
    pub fn prepare_routes(&mut self, to: NodeId) {
        self.routes.prepare(&self.topology, to);
    }

    /// The path from one node to another, of a whole network; `None` if there is none.
    pub fn path(&mut self, from: NodeId, to: NodeId) -> Option<Vec<PipeId>> {
        self.routes.path(&self.topology, from, to)
    }

    /// Recomputes all routes over the pipes that are up. Packets follow them from their next hop on. Until
    /// this is called they follow the old routes, even into pipes that are down.
    pub fn reroute(&mut self) {
        self.close_window();
        self.routes.reroute();
        self.balancer.reroute();
    }

    /// The network that the engine emulates, as it was at the start.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The counters of all packets.
    pub const fn counters(&self) -> &Counters {
        &self.record.counters
    }

    /// A hash of all events so far, if [`EngineConfig::trace_hash`] is set; otherwise 0. Two runs with the
    /// same hash have done the same to every packet. It does not depend on
    /// how the engine is driven, on how its work is arranged, on the build, or on parts of the
    /// topology in which nothing happens.
    pub fn trace_hash(&self) -> u64 {
        self.record.hash().map_or(0, TraceHash::value)
    }

    /// [`Engine::trace_hash`] of a network that is split among several engines.
    pub fn joint_trace_hash<'a>(engines: impl IntoIterator<Item = &'a Self>) -> u64 {
        let hashed = |engine: &'a Self| Some((engine.record.hash()?, &*engine.share));
        TraceHash::joint(engines.into_iter().filter_map(hashed))
    }

    /// The counters of one of this engine's pipes; sending time counts up to the engine's time.
    pub fn pipe_counters(&self, pipe: PipeId) -> PipeCounters {
        let own = self.share.own(pipe);
        own.map_or_else(PipeCounters::default, |pipe| {
            self.pipes[pipe.index()].counters(self.now)
        })
    }

    /// Packets and counted bytes that wait in a pipe's queue, the one in service not counted.
    pub fn waiting(&self, pipe: PipeId) -> (u32, u64) {
        let own = self.share.own(pipe);
        own.map_or((0, 0), |pipe| {
            self.pipes[pipe.index()].waiting(self.now, &self.pool)
        })
    }

    /// Measures a pipe's queue from now on. Ignores a pipe of another core.
    pub fn measure_queue(&mut self, pipe: PipeId) {
        if let Some(own) = self.share.own(pipe) {
            self.pipes[own.index()].measure(self.now, &self.pool);
        }
    }

    /// The use of a measured queue since the last call, up to the engine's time.
    pub fn take_queue_use(&mut self, pipe: PipeId) -> QueueUse {
        let own = self.share.own(pipe);
        own.map_or_else(QueueUse::default, |own| {
            self.pipes[own.index()].take_queue_use(self.now)
        })
    }

    /// Adds a witness, which sees packet events from now on.
    pub fn watch(&mut self, witness: Box<dyn Witness>) -> WitnessId {
        self.record.watch(witness, &self.share)
    }

    /// A witness by its id.
    pub fn witness<W: Witness>(&mut self, id: WitnessId) -> Option<&mut W> {
        let witness: &mut dyn Any = self.record.witness(id)?;
        witness.downcast_mut()
    }

    /// Removes a witness and returns it.
    pub fn unwatch<W: Witness>(&mut self, id: WitnessId) -> Option<Box<W>> {
        let witness: Box<dyn Any> = self.record.unwatch(id)?;
        witness.downcast().ok()
    }

    /// Packets in pipes.
    pub const fn inside(&self) -> u64 {
        self.record.inside
    }

    /// Slots of the pool in use: packets inside, and those at the egress that are not yet released.
    pub const fn slots_in_use(&self) -> u32 {
        self.pool.in_use()
    }

    fn refuse(&mut self, refusal: FrameError) -> Refused {
        let refused = &mut self.record.counters.refused;
        match refusal {
            FrameError::Malformed => refused.malformed += 1,
            FrameError::NotIp => refused.not_ip += 1,
            FrameError::Multicast => refused.multicast += 1,
        }
        Refused::Frame(refusal)
    }

    /// The number of the node with an address; [`lan::GROUP`] for a group, `NIL` if there is none.
    fn find(&self, destination: Destination) -> u32 {
        let node = match destination {
            Destination::V4(address) => self.topology.by_ipv4(address),
            Destination::V6(address) => self.topology.by_ipv6(address),
            Destination::Group => return lan::GROUP,
        };
        node.map_or(NIL, |node| node.0)
    }
}
