//! The one loop: takes arrivals, advances the engine, sends what is due, waits.
//!
//! Purpose: join the engine, which has no clock, to a clock and to packets. Theory: each turn reads a bounded
//! batch of arrivals, advances the engine to the clock however many more wait in the receive rings, and sends
//! every due packet before it reads again. So a packet inside waits for one batch at most. Nothing is sent
//! before it is due, so lateness arises at the send call alone, where the kernel's stamps measure it. A
//! scheduled change takes its place in the order of events, however late the loop reaches it.
//!
//! Arrivals beyond the loop's capacity are shed (`overload.rs`).
//!
//! Packets have experiment time; how long the loop itself works and waits is machine time
//! ([`crate::pace`]).
//!
//! On the packet path the loop allocates nothing, takes no lock and copies each frame once (ring to pool).
//! Once a second it hands a [`Report`] to the run.

mod changes;
mod ingress;
mod offload;
mod overload;
mod overrun;
mod platform;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::time::Duration;

use longhaul_core::engine::{Egress, Parcel};
use longhaul_core::segment::MAX_SEGMENTS;
use longhaul_core::topology::PipeId;
use longhaul_core::{NodeId, Span, Time};
use longhaul_emulation::{Applied, Emulation, Out};
use longhaul_linux::clock::MachineTime;
use longhaul_linux::packet_io::{Ask, Departure, VnetHeader};
use longhaul_proto::modelled::Traffic;

use crate::fidelity::meter::{Meter, Packet};
use crate::fidelity::{Measured, second_of};
use crate::measure::Sampler;
use crate::pace::{Now, Pace};
use crate::run::ledger::{Network, Report};
pub(super) use changes::Command;
use ingress::Ingress;
use overload::Overload;
pub(super) use platform::{LinuxPlatform, Outcome, Platform};

/// The most frames in one send call. The call runs each receiver's stack in turn, so the last frame
/// waits for all others' receivers: a batch is kept short.
const DEPARTURES: usize = 16;
/// A send call with this many bytes takes no further frame, for the same reason.
const DEPARTING_BYTES: u32 = 64 << 10;
/// Segments of a super-packet leave as one frame where each is due at most this long after the one
/// before: the machine could hardly send anything in between. Below 1.2 Gbit/s of machine time, at
/// the usual MTU, packets keep their spacing.
const NEIGHBOURS: Duration = Duration::from_micros(10);
/// Up to this many frames a second, the kernel is asked when it put each of them on its cable, which
/// takes 2 % of a CPU; beyond, only when it put the last one of each send call there. The burst is
/// the second figure.
const ASKED_PER_S: u64 = 50_000;
const ASKED_AT_ONCE: u64 = 500;
/// How often the budgets of `overload.rs` are renewed.
const MACHINE_SECOND: Duration = Duration::from_secs(1);

/// Running counters that the loop publishes and the supervisor governs hosts by.
#[derive(Debug)]
pub(super) struct Load {
    /// Nanoseconds of the machine that the loop has spent working.
    busy_ns: AtomicU64,
    /// Arrivals that show a backlog: see [`Load::stale`].
    stale: AtomicU64,
    /// All arrivals that were read.
    read: AtomicU64,
    /// Packets and bytes that have arrived from each host.
    arrived: Vec<[AtomicU64; 2]>,
    /// Experiment nanoseconds that those packets have queued behind others in their first pipe.
    waited_ns: Vec<AtomicU64>,
    /// Packets that have left for each host.
    left: Vec<AtomicU64>,
    /// Bytes of super-packets from and to each host.
    bulk: Vec<AtomicU64>,
}

impl Load {
    /// For a loop with this many hosts.
    pub(super) fn new(hosts: usize) -> Self {
        Self {
            busy_ns: AtomicU64::new(0),
            stale: AtomicU64::new(0),
            read: AtomicU64::new(0),
            arrived: (0..hosts).map(|_| Default::default()).collect(),
            waited_ns: (0..hosts).map(|_| Default::default()).collect(),
            left: (0..hosts).map(|_| Default::default()).collect(),
            bulk: (0..hosts).map(|_| Default::default()).collect(),
        }
    }

    /// Time that the loop has spent working since t = 0.
    pub(super) fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy_ns.load(Ordering::Relaxed))
    }

    /// Arrivals since t = 0 that waited in the receive ring for longer than their first pipe would
    /// have delayed them anyway (up to `BACKLOG` of `ingress.rs`) plus half of the tolerance, while the
    /// loop was not catching up with a stall (`overrun.rs`).
    pub(super) fn stale(&self) -> u64 {
        self.stale.load(Ordering::Relaxed)
    }

    /// Arrivals since t = 0.
    pub(super) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Packets and bytes that have arrived from a host since t = 0.
    pub(super) fn arrived(&self, host: usize) -> (u64, u64) {
        let [packets, bytes] = &self.arrived[host];
        (
            packets.load(Ordering::Relaxed),
            bytes.load(Ordering::Relaxed),
        )
    }

    /// How long all packets that have arrived from a host since t = 0 queued behind others in its
    /// link, in sum and as known when each arrived.
    pub(super) fn waited(&self, host: usize) -> Span {
        Span::from_ns(self.waited_ns[host].load(Ordering::Relaxed))
    }

    /// Packets from and to a host since t = 0.
    pub(super) fn packets(&self, host: usize) -> u64 {
        self.arrived(host).0 + self.left[host].load(Ordering::Relaxed)
    }

    /// Bytes of super-packets that have come from a host or gone there since t = 0.
    pub(super) fn bulk(&self, host: usize) -> u64 {
        self.bulk[host].load(Ordering::Relaxed)
    }

    fn add_busy(&self, since: MachineTime, until: MachineTime) {
        let ns = until.as_ns().saturating_sub(since.as_ns());
        add(&self.busy_ns, ns);
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

    fn count_left(&self, host: usize, packets: u64) {
        if let Some(left) = self.left.get(host) {
            add(left, packets);
        }
    }

    fn count_bulk(&self, host: usize, len: usize) {
        if let Some(bytes) = self.bulk.get(host) {
            add(bytes, len as u64);
        }
    }
}

/// Only the loop writes, so a plain load and store will do: cheaper than an atomic addition.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

/// What is left of a loop that has ended.
pub(super) struct Totals {
    /// What is measured of all packets.
    pub measured: Measured,
    /// CPU time of the loop's thread.
    pub cpu: Duration,
    /// What has become of modelled flows.
    pub traffic: Option<Traffic>,
    /// Changes that have not been reported.
    pub applied: Option<Applied>,
}

impl Totals {
    /// Empty totals, for a loop that left none.
    pub(super) fn none() -> Self {
        Self {
            measured: Measured::new(0, 0),
            cpu: Duration::ZERO,
            traffic: None,
            applied: None,
        }
    }
}

/// Everything that the loop works with.
pub(super) struct Drive<P> {
    emulation: Emulation,
    platform: P,
    pace: Pace,
    commands: Receiver<Command>,
    applied: SyncSender<Applied>,
    done: Arc<AtomicBool>,
    reports: SyncSender<Report>,
    /// The nodes of the hosts, by host number.
    nodes: Vec<NodeId>,
    /// The host numbers, by node.
    hosts: Vec<usize>,
    /// How long a frame of each host may wait in the receive ring without leaving its first pipe
    /// later for it ([`lead`](longhaul_core::engine::Engine::lead)).
    leads: Vec<Span>,
    ingress: Ingress,
    /// `NEIGHBOURS` in experiment time.
    neighbours: Span,
    meter: Meter,
    /// The token bucket of stamp requests, by virtual scheduling: when those made so far will have
    /// been earned at their rate.
    asked_until: MachineTime,
    second_began: MachineTime,
    /// When the machine's next second begins, counted from t = 0.
    renews_at: MachineTime,
    overload: Overload,
    pool_seen: u64,
    worked_seen: Duration,
    cpu: Duration,
    multicast_data: u64,
    load: Arc<Load>,
    /// The packets of the send call that is being made.
    leaving: Vec<Egress>,
    sampler: Sampler,
    /// At the end of the last bin: how long the loop had worked, and how often the pool was full.
    bin_seen: (Duration, u64),
}

/// The most packets of one send call.
const LEAVING_MAX: usize = DEPARTURES * MAX_SEGMENTS;

/// What a drive loop is made of.
pub(super) struct Parts<P> {
    /// The emulation, at t = 0.
    pub emulation: Emulation,
    /// The machine.
    pub platform: P,
    /// The nodes of the hosts, by host number.
    pub nodes: Vec<NodeId>,
    /// The tolerance of the verdict.
    pub tolerance: Span,
    /// Changes asked for; the loop ends when the other side is dropped.
    pub commands: Receiver<Command>,
    /// Receives changes of the network once they are made.
    pub applied: SyncSender<Applied>,
    /// Set once all modelled flows that end by themselves have ended.
    pub done: Arc<AtomicBool>,
    /// Where reports go.
    pub reports: SyncSender<Report>,
    /// What the loop publishes all the time.
    pub load: Arc<Load>,
    /// Takes what is measured, installed in the emulation.
    pub sampler: Sampler,
}

impl<P: Platform> Drive<P> {
    /// A loop ready to [`run`](Self::run).
    pub(super) fn new(parts: Parts<P>) -> Self {
        let nodes = parts.emulation.engine().topology().nodes().len();
        let mut hosts = vec![usize::MAX; nodes];
        for (host, node) in parts.nodes.iter().enumerate() {
            hosts[node.index()] = host;
        }
        let leads: Vec<Span> = parts
            .nodes
            .iter()
            .map(|&n| parts.emulation.engine().lead(n))
            .collect();
        let measured = Measured::new(nodes, parts.nodes.len());
        let pace = parts.platform.pace();
        let began = pace.begin().at;
        Self {
            emulation: parts.emulation,
            platform: parts.platform,
            pace,
            commands: parts.commands,
            applied: parts.applied,
            done: parts.done,
            reports: parts.reports,
            nodes: parts.nodes,
            hosts,
            leads,
            ingress: Ingress::new(parts.tolerance, pace),
            neighbours: pace.span(NEIGHBOURS),
            meter: Meter::new(parts.tolerance, pace, measured),
            asked_until: began,
            second_began: began,
            renews_at: began + MACHINE_SECOND,
            overload: Overload::new(pace.duration(parts.tolerance), began),
            pool_seen: 0,
            worked_seen: Duration::ZERO,
            cpu: Duration::ZERO,
            multicast_data: 0,
            load: parts.load,
            leaving: Vec::with_capacity(LEAVING_MAX),
            sampler: parts.sampler,
            bin_seen: (Duration::ZERO, 0),
        }
    }

    /// Runs until the command channel is closed.
    pub(super) fn run(mut self) -> io::Result<Totals> {
        let first = self.platform.now();
        self.meter.detector.woken(first, first.at);
        let mut before = first.at;
        loop {
            let now = self.read_clock();
            self.load.add_busy(before, now.at);
            self.overload.turned(now.at);
            before = now.at;
            if second_of(now.time) != self.meter.second.number {
                self.close_second(now, false);
            }
            if now.at >= self.renews_at {
                self.renew(now.at);
            }
            // The end of a bin or a scheduled step, if the clock has passed it. Only arrivals before
            // it are read in this turn: they happen before it, the others after it.
            let step = self.emulation.next_step();
            let halt = self.sampler.edge().min(step.unwrap_or(Time::MAX));
            let halt = Some(halt).filter(|at| *at <= now.time);
            let taken = self.take_arrivals(now, halt);
            // The extra reading of the clock separates reading from sending; it is spared without overload.
            if self.overload.is_learning() {
                self.overload.has_read(self.platform.now().at);
            }
            match halt {
                Some(at) => self.halt(at, now.time),
                None => self.emulation.advance(now.time),
            }
            let sent = self.send_due() + self.emulation.serve_timers();
            if self.emulation.traffic().is_some() && self.emulation.traffic_is_done() {
                self.done.store(true, Ordering::Relaxed);
            }
            if !self.carry_out_commands() {
                break;
            }
            self.platform.turned(now.at);
            if taken + sent == 0 && halt.is_none() {
                before = self.wait(now.time)?.at;
                self.overload.has_waited(before);
            }
        }
        let now = self.platform.now();
        self.report_changes();
        self.close_second(now, true);
        self.complete_bin();
        let end = self.emulation.now();
        self.sampler
            .finish(std::iter::once(&mut self.emulation), end);
        Ok(Totals {
            measured: self.meter.measured,
            cpu: self.cpu,
            applied: self.emulation.take_applied(),
            traffic: self.emulation.into_traffic(),
        })
    }

    /// Reads the clock, and checks for a stall of the machine since the last reading.
    #[inline]
    fn read_clock(&mut self) -> Now {
        let now = self.platform.now();
        self.meter.detector.observe(now);
        now
    }

    /// Sends every packet that has left the network. Returns how many there were.
    fn send_due(&mut self) -> usize {
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
            let ask = self.question(len as u64);
            let empty = Departure {
                host: 0,
                vnet: VnetHeader::default(),
                parts: [&[], &[]],
            };
            let mut departures = [empty; DEPARTURES];
            for (departure, parcel) in departures.iter_mut().zip(batch.iter().flatten()) {
                departure.host = self.hosts[parcel.host.index()];
                departure.parts = self.emulation.parts(parcel);
                departure.vnet = offload::to_kernel(&parcel.offload, departure.parts[0]);
                if departure.vnet.is_super() {
                    self.load.count_bulk(departure.host, parcel.len as usize);
                }
            }
            let mut outcomes = [Outcome::Unasked; DEPARTURES];
            self.platform
                .send(&departures[..len], ask, &mut outcomes[..len]);
            sent += self.leaving.len();
            self.measure(batch.iter().flatten(), &outcomes[..len]);
        }
    }

    /// Which of a call's frames the kernel is asked about: a token bucket of stamp requests.
    fn question(&mut self, frames: u64) -> Ask {
        let price = |questions: u64| Duration::from_nanos(questions * 1_000_000_000 / ASKED_PER_S);
        let now = self.meter.detector.last().at;
        let paid_until = self.asked_until.max(now) + price(frames);
        if paid_until > now + price(ASKED_AT_ONCE) {
            return Ask::Last;
        }
        self.asked_until = paid_until;
        Ask::Each
    }

    /// Measures the parcels of a send call that has ended, and gives their packets back.
    fn measure<'a>(&mut self, parcels: impl Iterator<Item = &'a Parcel>, outcomes: &[Outcome]) {
        let began = self.meter.detector.last().time;
        let Now {
            at: ended_at,
            time: ended,
        } = self.read_clock();
        // Frames leave in order, so the next stamp bounds a frame without a stamp of its own.
        let mut bounds = [ended; DEPARTURES];
        let mut bound = ended;
        for (place, outcome) in bounds.iter_mut().zip(outcomes).rev() {
            bound = match outcome {
                // A stamp outside the call comes from a clock that was stepped.
                Outcome::At(on_cable) => (*on_cable).clamp(began, ended),
                Outcome::Unasked => bound,
                Outcome::Unanswered | Outcome::Refused => ended,
            };
            *place = bound;
        }
        let mut leaving = std::mem::take(&mut self.leaving);
        if let Some(first) = leaving.first() {
            let lateness = self.pace.duration(ended.since(first.due));
            self.overload.sent(leaving.len() as u32, lateness, ended_at);
        }
        let mut packets = leaving.drain(..);
        for (parcel, (outcome, on_cable)) in parcels.zip(outcomes.iter().zip(bounds)) {
            let host = self.hosts[parcel.host.index()];
            let from = self.emulation.engine().source(parcel);
            let count = u64::from(parcel.packets);
            if *outcome == Outcome::Refused {
                self.meter.refused(from, parcel.host, count);
            } else {
                self.load.count_left(host, count);
            }
            for egress in packets.by_ref().take(parcel.packets.into()) {
                let after_call = ended.since(egress.due);
                if *outcome != Outcome::Refused {
                    let lateness = on_cable.since(egress.due);
                    self.meter.lateness(lateness);
                    self.meter.measured.after_call.record(after_call);
                    self.meter.count(&Packet {
                        from,
                        to: egress.host,
                        host,
                        due: egress.due,
                        error: lateness + egress.shift,
                        path_delay: egress.path_delay,
                        is_unknown: *outcome == Outcome::Unanswered,
                    });
                }
                self.emulation.release(egress);
            }
        }
        drop(packets);
        self.leaving = leaving;
    }

    /// The next frame that leaves. Without offload it is one complete packet.
    fn next_parcel(&mut self) -> Option<Parcel> {
        loop {
            let out = self
                .emulation
                .poll_out(self.neighbours, &mut self.leaving)?;
            let delivered = match out {
                Out::Parcel(parcel) => return Some(parcel),
                Out::Delivered(delivered) => delivered,
            };
            // A modelled host handles a packet at its due time, however late the loop is: only the
            // shift is an error.
            self.meter.count(&Packet {
                from: delivered.from,
                to: delivered.to,
                host: self.hosts[delivered.to.index()],
                due: delivered.due,
                error: delivered.shift,
                path_delay: delivered.path_delay,
                is_unknown: false,
            });
        }
    }

    /// Waits for the next due packet, the schedule, an arrival, the bell or the end of the second.
    /// Returns when it is over.
    fn wait(&mut self, now: Time) -> io::Result<Now> {
        let end_of_second = Time::from_ns((second_of(now) + 1) * 1_000_000_000);
        let next = [self.emulation.next_at(), self.sampler.drains_at()];
        let next = next.into_iter().flatten().min();
        let next = next.map_or(end_of_second, |next| next.min(end_of_second));
        self.platform.wait(next)?;
        let woken = self.platform.now();
        // An arrival from before the wait would have been read by now: an older stamp comes from a
        // clock that was stepped.
        let arrived = self.platform.peek().map(|arrival| arrival.stamp.max(now));
        let wanted = arrived.map_or(next, |at| at.min(next));
        self.meter
            .detector
            .woken(woken, self.pace.moment_of(wanted));
        Ok(woken)
    }

    /// Ends the current second: reports it and begins the one of `now`.
    fn close_second(&mut self, now: Now, last: bool) {
        let platform = self.platform.take_counters();
        let mut second = self.meter.close(now);
        #[cfg_attr(not(debug_assertions), expect(unused_mut))]
        let mut counters = *self.emulation.engine().counters();
        #[cfg(debug_assertions)]
        crate::run::live::faults::counters(&mut counters);
        second.drops.ring += platform.lost;
        second.drops.pool += counters.pool_exhausted - self.pool_seen;
        self.pool_seen = counters.pool_exhausted;
        second.clock_steps += platform.clock_steps;
        let took = now.at.since(self.second_began).as_secs_f64().max(1e-9);
        second.core_busy = platform.cpu.as_secs_f64() / took;
        second.core_wait += platform.run_wait;
        self.cpu += platform.cpu;
        let worked = self.load.busy();
        second.core_load = worked.saturating_sub(self.worked_seen).as_secs_f64() / took;
        self.worked_seen = worked;
        let engine = self.emulation.engine();
        let pipes = (0..engine.topology().pipes().len() as u32).map(PipeId);
        let report = Report {
            second,
            network: Network {
                counters,
                pipes: pipes.map(|pipe| engine.pipe_counters(pipe)).collect(),
                inside: engine.inside(),
                multicast_data: self.multicast_data,
            },
        };
        // The loop never waits for a supervisor that hangs: the next report then covers this second
        // too. Only the last report may block, since nothing is left to do.
        if last {
            let _ = self.reports.send(report);
        } else if let Err(TrySendError::Full(report)) = self.reports.try_send(report) {
            self.meter.reopen(report.second);
        }
        self.report_changes();
        self.second_began = now.at;
        let now = self.platform.now();
        self.meter.detector.resume(now);
    }

    /// A second of the machine has begun.
    fn renew(&mut self, now: MachineTime) {
        self.overload.renew();
        let passed = self.pace.passed(now).as_secs();
        self.renews_at = self.pace.begin().at + Duration::from_secs(passed + 1);
    }
}
