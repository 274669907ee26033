//! The one loop: takes arrivals, advances the engine, sends what is due, waits.
//!
//! Purpose: join the engine, which has no clock, to a clock and to packets. Theory: arrivals
//! are taken in bounded batches, and the engine is advanced to the clock, or only to the last
//! stamp taken while more wait, so that nothing inside overtakes what stands at the door.
//! Everything due is then sent at once. Lateness happens here and nowhere else, so here it is
//! measured, after each send call. What the file has scheduled happens in its place in the order
//! of events, however late the loop comes to it.
//!
//! Overload: frames older than the tolerance are shed at the door, so that a flood cannot
//! delay what is inside. A stall of the machine is no flood, and TCP is held back: for these the
//! loop may catch up for a while (see `patience.rs`).
//!
//! The loop allocates nothing, locks nothing and copies each frame once (ring to pool). Once a
//! second it hands a [`Report`] to the run.

mod admission;
mod ahead;
mod changes;
mod door;
mod modelled;
mod offload;
mod patience;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};

use longhaul_core::engine::{Egress, Engine, Parcel};
use longhaul_core::observe::{Counters, PipeCounters};
use longhaul_core::segment::MOST_SEGMENTS;
use longhaul_core::topology::PipeId;
use longhaul_core::{NodeId, Span, Time};
use longhaul_linux::core_thread::CoreThread;
use longhaul_linux::cpu;
use longhaul_linux::packet_io::{Departure, PacketIo, VnetHeader};
use longhaul_linux::wait::{Bell, Waiter};
use longhaul_proto::traffic::Traffic;

use crate::clock::RealClock;
use crate::fidelity::{Delays, Measured, Second, second_of};
use crate::schedule::Timeline;
use admission::Admission;
use ahead::Ahead;
pub(crate) use changes::apply_steps;
pub use changes::{Command, Look};
use door::{ARRIVALS, Reached};
pub use modelled::ModelledHosts;
use patience::{Overrun, Patience};

/// Most frames in one send call: the last of a batch leaves when the receivers of all others
/// have run, so a batch is kept short.
const DEPARTURES: usize = 16;
/// A send call with so many bytes takes no further frame, for the same reason.
const DEPARTING_BYTES: u32 = 64 << 10;
/// Neighbours of a super-packet leave as one where each is due at most so long after the one
/// before: below 1.2 Gbit/s at the usual MTU, packets keep their spacing.
const NEIGHBOURS: Span = Span::from_us(10);
/// What the loop saw in a second, and all counters at its end.
#[derive(Debug, Clone)]
pub struct Report {
    /// The second's fidelity.
    pub second: Second,
    /// The engine's totals.
    pub counters: Counters,
    /// Every pipe's counters, by number.
    pub pipes: Vec<PipeCounters>,
    /// Packets inside the network.
    pub inside: u64,
    /// Multicast frames that carried more than a kernel's own group membership messages.
    pub multicast_data: u64,
    /// True for the last report of a run.
    pub last: bool,
}

/// What the loop publishes all the time, for whoever steers the hosts.
#[derive(Debug)]
pub struct Load {
    /// Nanoseconds that the loop has spent working.
    busy_ns: AtomicU64,
    /// Arrivals that were a backlog when they were read.
    stale: AtomicU64,
    /// All arrivals that were read.
    read: AtomicU64,
    /// Packets and bytes that have arrived from each host.
    arrived: Vec<[AtomicU64; 2]>,
    /// Nanoseconds that those packets have waited for others in their first pipe.
    waited_ns: Vec<AtomicU64>,
    /// Bytes of super-packets from and to each host.
    bulk: Vec<AtomicU64>,
}

impl Load {
    /// Of a loop with so many hosts.
    pub fn new(hosts: usize) -> Self {
        Self {
            busy_ns: AtomicU64::new(0),
            stale: AtomicU64::new(0),
            read: AtomicU64::new(0),
            arrived: (0..hosts).map(|_| Default::default()).collect(),
            waited_ns: (0..hosts).map(|_| Default::default()).collect(),
            bulk: (0..hosts).map(|_| Default::default()).collect(),
        }
    }

    /// Time that the loop has spent working since t = 0.
    pub fn busy(&self) -> Span {
        Span::from_ns(self.busy_ns.load(Ordering::Relaxed))
    }

    /// Arrivals since t = 0 that were older when they were read than their first pipe (up to
    /// [`BACKLOG`]) and half of the tolerance allow for.
    pub fn stale(&self) -> u64 {
        self.stale.load(Ordering::Relaxed)
    }

    /// Arrivals since t = 0.
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Packets and bytes that have arrived from a host since t = 0.
    pub fn arrived(&self, host: usize) -> (u64, u64) {
        let [packets, bytes] = &self.arrived[host];
        (
            packets.load(Ordering::Relaxed),
            bytes.load(Ordering::Relaxed),
        )
    }

    /// How long all packets that have arrived from a host since t = 0 had to wait for others in
    /// its link, as far as that is known.
    pub fn waited(&self, host: usize) -> Span {
        Span::from_ns(self.waited_ns[host].load(Ordering::Relaxed))
    }

    /// Bytes of super-packets that have come from a host or gone there since t = 0.
    pub fn bulk(&self, host: usize) -> u64 {
        self.bulk[host].load(Ordering::Relaxed)
    }

    fn count(&self, host: usize, len: usize, waits: Span) {
        if let (Some([packets, bytes]), Some(waited)) =
            (self.arrived.get(host), self.waited_ns.get(host))
        {
            add(packets, 1);
            add(bytes, len as u64);
            add(waited, waits.as_ns());
        }
    }

    fn count_bulk(&self, host: usize, len: usize) {
        if let Some(bytes) = self.bulk.get(host) {
            add(bytes, len as u64);
        }
    }
}

/// Only the loop writes, so a plain load and store will do.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

/// Histograms over the whole run.
#[derive(Default)]
pub struct Totals {
    /// What is measured of all packets.
    pub measured: Measured,
    /// CPU time of the loop's thread.
    pub cpu: Span,
    /// How much earlier than due send calls began at the end.
    pub ahead: Span,
    /// What has become of modelled flows.
    pub traffic: Option<Traffic>,
}

/// Everything that the loop works with.
pub struct Drive<I> {
    engine: Engine,
    io: I,
    clock: RealClock,
    waiter: Waiter,
    bell: Arc<Bell>,
    commands: Receiver<Command>,
    /// What the file has scheduled.
    timeline: Timeline,
    modelled: Option<ModelledHosts>,
    reports: SyncSender<Report>,
    /// The nodes of the hosts, by host number.
    nodes: Vec<NodeId>,
    /// The host numbers, by node.
    hosts: Vec<usize>,
    tolerance: Span,
    /// How old a frame of each host may be without being late ([`Engine::lead`]), and the least.
    leads: Vec<Span>,
    lead: Span,
    ahead: Ahead,
    second: Second,
    second_began: Time,
    lateness: Delays,
    totals: Totals,
    /// Most arrivals taken in a turn, as turns have taken lately.
    arrivals: usize,
    /// With frames of TCP, and with others.
    patience: [Patience; 2],
    admission: Admission,
    overrun: Overrun,
    steps_seen: u64,
    pool_seen: u64,
    cpu_seen_ns: u64,
    wait_seen_ns: u64,
    worked_seen: Span,
    multicast_data: u64,
    load: Arc<Load>,
    thread: CoreThread,
    /// The packets of the send call that is being made.
    leaving: Vec<Egress>,
}

/// More packets than one send call has.
const LEAVING_MAX: usize = DEPARTURES * MOST_SEGMENTS;

/// What a drive loop is made of.
pub struct Parts<I> {
    /// The engine, at t = 0.
    pub engine: Engine,
    /// The way of packets in and out.
    pub io: I,
    /// The nodes of the hosts, by host number.
    pub nodes: Vec<NodeId>,
    /// The tolerance of the verdict.
    pub tolerance: Span,
    /// Rung for commands and for the end.
    pub bell: Arc<Bell>,
    /// Changes asked for; the loop ends when the other side is dropped.
    pub commands: Receiver<Command>,
    /// What the file has scheduled.
    pub timeline: Timeline,
    /// Hosts that are modelled, also beside a kernel.
    pub modelled: Option<ModelledHosts>,
    /// Where reports go.
    pub reports: SyncSender<Report>,
    /// What the loop publishes all the time.
    pub load: Arc<Load>,
    /// The thread that runs the loop.
    pub thread: CoreThread,
}

impl<I: PacketIo> Drive<I> {
    /// A loop ready to [`run`](Self::run); t = 0 is now.
    pub fn new(parts: Parts<I>) -> Self {
        let mut hosts = vec![usize::MAX; parts.engine.topology().nodes().len()];
        for (host, node) in parts.nodes.iter().enumerate() {
            hosts[node.index()] = host;
        }
        let leads: Vec<Span> = parts.nodes.iter().map(|&n| parts.engine.lead(n)).collect();
        Self {
            engine: parts.engine,
            io: parts.io,
            clock: RealClock::start(),
            waiter: Waiter::default(),
            bell: parts.bell,
            commands: parts.commands,
            timeline: parts.timeline,
            modelled: parts.modelled,
            reports: parts.reports,
            nodes: parts.nodes,
            hosts,
            tolerance: parts.tolerance,
            lead: leads.iter().min().copied().unwrap_or_default(),
            leads,
            ahead: Ahead::default(),
            second: Second::default(),
            second_began: Time::ZERO,
            lateness: Delays::default(),
            totals: Totals::default(),
            arrivals: ARRIVALS,
            patience: [patience::HELD_BACK, patience::FREE].map(Patience::new),
            admission: Admission::new(parts.tolerance),
            overrun: Overrun::default(),
            steps_seen: 0,
            pool_seen: 0,
            cpu_seen_ns: 0,
            wait_seen_ns: 0,
            worked_seen: Span::ZERO,
            multicast_data: 0,
            load: parts.load,
            thread: parts.thread,
            leaving: Vec::with_capacity(LEAVING_MAX),
        }
    }

    /// The monotonic time of t = 0.
    pub fn start_ns(&self) -> u64 {
        self.clock.to_monotonic(Time::ZERO)
    }

    /// Runs until the command channel is closed. Returns the whole run's histograms.
    pub fn run(mut self) -> io::Result<Totals> {
        self.discard_early();
        self.cpu_seen_ns = cpu::own_cpu_ns();
        self.wait_seen_ns = cpu::own_run_wait_ns();
        let (mut before, mut taken) = (self.clock.now(), 0);
        loop {
            let now = self.clock.now();
            let turn = now.since(before);
            add(&self.load.busy_ns, turn.as_ns());
            self.adapt(turn, taken);
            self.admission.learn(now, self.load.busy());
            self.second.stall = self.second.stall.max(turn);
            before = now;
            self.clock.refresh(now);
            if second_of(now) != self.second.number {
                self.close_second(now, false);
            }
            let planned = self.timeline.next_at();
            let step = planned.filter(|at| *at <= now);
            let horizon = self.horizon(now, planned);
            let reached;
            (taken, reached) = self.take_arrivals(now, step);
            match (step, reached) {
                (Some(at), Reached::All) => self.take_steps(at),
                (Some(at), Reached::Stamp(stamp)) if stamp >= at => self.engine.advance_before(at),
                (_, Reached::Stamp(stamp)) => self.engine.advance(stamp.min(horizon)),
                (None, Reached::All) => self.engine.advance(horizon),
            }
            let sent = self.send_due(now) + self.serve_modelled();
            if !self.obey() {
                break;
            }
            self.waiter.earned(taken + sent);
            self.thread.worked(taken + sent);
            let now_ns = self.clock.to_monotonic(now);
            self.thread.leave_room(now_ns, self.waiter.slept_ns());
            if taken + sent == 0 && step.is_none() {
                self.wait(now)?;
                before = self.clock.now();
            }
        }
        let now = self.clock.now();
        self.close_second(now, true);
        self.totals.cpu = Span::from_ns(cpu::own_cpu_ns());
        self.totals.ahead = self.ahead.of(self.lead);
        self.totals.traffic = self.modelled.map(ModelledHosts::into_traffic);
        Ok(self.totals)
    }

    /// Frames from before t = 0 belong to no experiment.
    fn discard_early(&mut self) {
        while self
            .io
            .peek()
            .is_some_and(|a| self.clock.of_stamp(a.stamp_ns).is_none())
        {
            self.io.release();
        }
        self.io.take_drops();
    }

    /// What is due up to here is sent in a turn that began at `now`: ahead of the clock by the way
    /// out, but not past what the schedule has `planned`.
    fn horizon(&self, now: Time, planned: Option<Time>) -> Time {
        let horizon = now + self.ahead.of(self.lead);
        match planned {
            Some(at) if at > now => horizon.min(Time::from_ns(at.as_ns() - 1)),
            _ => horizon,
        }
    }

    /// Sends everything that has come out in the turn that began at `now`. Returns how many
    /// packets.
    fn send_due(&mut self, now: Time) -> usize {
        let mut sent = 0;
        loop {
            let mut batch: [Option<Parcel>; DEPARTURES] = [const { None }; DEPARTURES];
            let (mut len, mut bytes) = (0, 0);
            while len < DEPARTURES
                && bytes < DEPARTING_BYTES
                && let Some(parcel) = self.next_parcel()
            {
                bytes += parcel.len;
                batch[len] = Some(parcel);
                len += 1;
            }
            if len == 0 {
                return sent;
            }
            let empty = Departure {
                host: 0,
                vnet: VnetHeader::default(),
                parts: [&[], &[]],
                packets: 0,
            };
            let mut departures = [empty; DEPARTURES];
            for (departure, parcel) in departures.iter_mut().zip(batch.iter().flatten()) {
                departure.host = self.hosts[parcel.host.index()];
                departure.packets = parcel.packets.into();
                departure.parts = self.engine.parts(parcel);
                departure.vnet = offload::to_kernel(&parcel.offload, departure.parts[0]);
                if departure.vnet.is_super() {
                    self.load.count_bulk(departure.host, parcel.len as usize);
                }
            }
            let call = self.io.send(&departures[..len]);
            let clock = self.clock.now();
            self.second.drops.send += call.refused as u64;
            let left = call.left_ns.and_then(|ns| self.clock.of_stamp(ns));
            if let (Some(left), Some(first)) = (left, self.leaving.first()) {
                let on_cable = left.distance(first.due);
                self.totals.measured.on_cable.record(on_cable);
                if sent == 0 {
                    self.ahead.learn(left.since(now));
                }
            }
            sent += self.leaving.len();
            for egress in self.leaving.drain(..) {
                let lateness = clock.distance(egress.due);
                self.lateness.record(lateness);
                self.admission.left(lateness, egress.path_delay);
                let host = self.hosts[egress.host.index()];
                self.second.packet(
                    lateness,
                    egress.staleness,
                    egress.path_delay,
                    self.tolerance,
                    host,
                );
                self.engine.release(egress);
            }
        }
    }

    /// The next frame that leaves. Without offload it is one complete packet.
    fn next_parcel(&mut self) -> Option<Parcel> {
        loop {
            let parcel = self.engine.poll_parcel(NEIGHBOURS, &mut self.leaving)?;
            if !self.keep(&parcel) {
                return Some(parcel);
            }
        }
    }

    /// Waits for the next due packet, the schedule, an arrival, the bell or the end of the second.
    fn wait(&mut self, now: Time) -> io::Result<()> {
        let end_of_second = Time::from_ns((second_of(now) + 1) * 1_000_000_000);
        let timer = self.modelled.as_ref().and_then(ModelledHosts::next_timer);
        let ahead = self.ahead.of(self.lead);
        let due = self.engine.next_due().map(|due| due - ahead);
        let planned = [due, self.timeline.next_at(), timer];
        let next = planned.into_iter().flatten().fold(end_of_second, Time::min);
        let deadline = self.clock.to_monotonic(next);
        self.waiter.wait(Some(deadline), &mut self.io, &self.bell)?;
        Ok(())
    }

    /// Ends the current second: reports it and begins the one of `now`.
    fn close_second(&mut self, now: Time, last: bool) {
        let mut second = std::mem::take(&mut self.second);
        second.lateness = self.lateness.quantiles();
        second.stall = second.stall.max(Span::from_ns(self.waiter.take_stall_ns()));
        self.totals.measured.lateness.absorb(&mut self.lateness);
        second.drops.ring = self.io.take_drops();
        let counters = *self.engine.counters();
        second.drops.pool = counters.pool_exhausted - self.pool_seen;
        self.pool_seen = counters.pool_exhausted;
        second.clock_steps = self.clock.steps() - self.steps_seen;
        self.steps_seen = self.clock.steps();
        let (cpu_ns, wait_ns) = (cpu::own_cpu_ns(), cpu::own_run_wait_ns());
        let length = now.since(self.second_began).as_s().max(1e-9);
        second.core_busy = Span::from_ns(cpu_ns - self.cpu_seen_ns).as_s() / length;
        second.core_wait = Span::from_ns(wait_ns.saturating_sub(self.wait_seen_ns));
        let worked = self.load.busy();
        second.core_load = worked.saturating_sub(self.worked_seen).as_s() / length;
        (self.cpu_seen_ns, self.wait_seen_ns) = (cpu_ns, wait_ns);
        self.worked_seen = worked;
        let pipes = (0..self.engine.topology().pipes().len() as u32).map(PipeId);
        let report = Report {
            second,
            counters,
            pipes: pipes.map(|pipe| self.engine.pipe_counters(pipe)).collect(),
            inside: self.engine.inside(),
            multicast_data: self.multicast_data,
            last,
        };
        // The run takes reports all the time; if it hangs, the engine does not wait for it.
        let _ = self.reports.try_send(report);
        self.patience.iter_mut().for_each(Patience::renew);
        self.admission.renew();
        self.second_began = now;
        self.second.number = second_of(now);
    }
}
