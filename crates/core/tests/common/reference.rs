//! The reference model: slow, obvious, and built the other way round.
//!
//! Service start and service end are events, the queue is a list, the loss is drawn when service
//! ends, time inside a pipe is a fraction over its rate, and the next event is found by looking
//! at everything. It shares the engine's routes and streams and nothing else.

use std::collections::VecDeque;

use longhaul_core::params::LossModel;
use longhaul_core::rng::Stream;
use longhaul_core::route::Routes;
use longhaul_core::topology::{NodeKind, PipeParams};
use longhaul_core::units::{Probability, QueueLimit};
use longhaul_core::{NodeId, PipeId, Topology};

use super::Delivery;

#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) id: u32,
    pub(crate) to: Option<NodeId>,
    pub(crate) ip_len: u32,
    pub(crate) ttl: u8,
    path_delay: u64,
    // What the pipe that it is in does to it.
    entry: (u64, u32),
    lost: bool,
    due: (u64, u32),
}

/// What is being sent: done `work` / rate ns after `base`, work in bits · 10⁹.
struct Service {
    packet: Packet,
    base: u64,
    work: u128,
}

struct Pipe {
    params: PipeParams,
    mtu: u32,
    to: NodeId,
    stream: Stream,
    waiting: VecDeque<Packet>,
    service: Option<Service>,
    flying: VecDeque<Packet>,
    last_due: (u64, u32),
    is_up: bool,
}

impl Pipe {
    fn rate(&self) -> u128 {
        self.params
            .rate
            .map_or(0, |rate| u128::from(rate.bits_per_s()))
    }

    fn loss(&self) -> Probability {
        match self.params.loss {
            LossModel::Independent(probability) => probability,
            _ => unreachable!("not plain"),
        }
    }

    fn counted(&self, packet: &Packet) -> u32 {
        self.params.framing.counted(packet.ip_len)
    }

    fn service_end(&self) -> Option<u64> {
        let service = self.service.as_ref()?;
        let ns = if self.rate() == 0 {
            0
        } else {
            service.work.div_ceil(self.rate())
        };
        Some(service.base + ns as u64)
    }

    /// Ends and starts all services up to `now`.
    fn serve_until(&mut self, now: u64) {
        while let Some(end) = self.service_end()
            && end <= now
        {
            let service = self.service.take().unwrap();
            let mut packet = service.packet;
            let loss = self.loss();
            packet.lost = !loss.is_never() && loss.hits(self.stream.draw());
            let delay = self.params.delay.as_ns();
            packet.path_delay += delay;
            let time = end + delay;
            let microstep = if time == packet.entry.0 {
                packet.entry.1 + 1
            } else {
                0
            };
            packet.due = self.last_due.max((time, microstep));
            self.last_due = packet.due;
            self.flying.push_back(packet);
            // The next one starts where this one ends, remainder and all.
            self.start_next(service.base, service.work);
        }
    }

    /// The next packet starts `done` / rate ns after `base`.
    fn start_next(&mut self, base: u64, done: u128) {
        if let Some(packet) = self.waiting.pop_front() {
            let work = done + self.work(&packet);
            self.service = Some(Service { packet, base, work });
        }
    }

    /// Gives (lost on the way before that, lost by the link going down).
    fn set_up(&mut self, up: bool, keep_queue: bool, now: u64) -> (u64, u64) {
        self.serve_until(now);
        if up && !self.is_up {
            self.is_up = true;
            self.start_next(now, 0);
            self.serve_until(now);
        }
        let mut down = 0;
        let mut lost = 0;
        if !up && self.is_up {
            self.is_up = false;
            self.last_due = (0, 0);
            let flying = self.flying.len() as u64;
            lost = self.flying.drain(..).filter(|packet| packet.lost).count() as u64;
            down = flying - lost;
            if let Some(service) = self.service.take() {
                self.waiting.push_front(service.packet);
            }
        }
        if !up && !keep_queue {
            down += self.waiting.drain(..).count() as u64;
        }
        (lost, down)
    }

    fn work(&self, packet: &Packet) -> u128 {
        if self.rate() == 0 {
            0
        } else {
            u128::from(self.counted(packet)) * 8_000_000_000
        }
    }

    /// False when there is no room.
    fn enter(&mut self, mut packet: Packet, entry: (u64, u32)) -> bool {
        self.serve_until(entry.0);
        packet.entry = entry;
        if self.service.is_none() {
            let work = self.work(&packet);
            self.service = Some(Service {
                packet,
                base: entry.0,
                work,
            });
            self.serve_until(entry.0);
            return true;
        }
        let bytes: u64 = self
            .waiting
            .iter()
            .map(|other| u64::from(self.counted(other)))
            .sum();
        let fits = match self.params.queue {
            QueueLimit::Packets(limit) => self.waiting.len() < limit as usize,
            QueueLimit::Bytes(limit) => bytes + u64::from(self.counted(&packet)) <= limit,
            QueueLimit::Time(_) => unreachable!("not plain"),
        };
        if fits {
            self.waiting.push_back(packet);
        }
        fits
    }

    fn set(&mut self, params: PipeParams, now: u64) {
        self.serve_until(now);
        let old_rate = self.rate();
        if let Some(service) = &mut self.service {
            service.work -= u128::from(now - service.base) * old_rate;
            service.base = now;
        }
        self.params = params;
        self.serve_until(now);
    }
}

pub(crate) struct Reference {
    topology: Topology,
    routes: Routes,
    pipes: Vec<Pipe>,
    pub(crate) deliveries: Vec<Delivery>,
    /// queue, loss, hop limit, no route, too big, misdelivered, absorbed, link down
    pub(crate) drops: [u64; 8],
    next_id: u32,
}

impl Reference {
    pub(crate) fn new(topology: Topology, seed: u64) -> Self {
        let pipe = |pipe: &longhaul_core::topology::Pipe| Pipe {
            params: PipeParams::clone(&pipe.params),
            mtu: pipe.mtu,
            to: pipe.to,
            stream: Stream::new(seed, &pipe.name),
            waiting: VecDeque::new(),
            service: None,
            flying: VecDeque::new(),
            last_due: (0, 0),
            is_up: true,
        };
        Self {
            routes: Routes::new(&topology),
            pipes: topology.pipes().iter().map(pipe).collect(),
            topology,
            deliveries: Vec::new(),
            drops: [0; 8],
            next_id: 0,
        }
    }

    /// Arrivals come in the order of their stamps.
    pub(crate) fn arrive(
        &mut self,
        host: NodeId,
        stamp: u64,
        to: Option<NodeId>,
        ip_len: u32,
        ttl: u8,
    ) {
        let packet = Packet {
            id: self.next_id,
            to,
            ip_len,
            ttl,
            path_delay: 0,
            entry: (0, 0),
            lost: false,
            due: (0, 0),
        };
        self.next_id += 1;
        self.advance_before(stamp);
        self.leave(host, packet, (stamp, 0));
    }

    pub(crate) fn set(&mut self, pipe: PipeId, params: PipeParams, now: u64) {
        self.pipes[pipe.index()].set(params, now);
    }

    pub(crate) fn set_up(&mut self, pipe: PipeId, up: bool, keep_queue: bool, now: u64) {
        let (lost, down) = self.pipes[pipe.index()].set_up(up, keep_queue, now);
        self.drops[1] += lost;
        self.drops[7] += down;
    }

    /// Packets in pipes.
    pub(crate) fn inside(&self) -> usize {
        let inside = |p: &Pipe| p.waiting.len() + p.flying.len() + usize::from(p.service.is_some());
        self.pipes.iter().map(inside).sum()
    }

    /// Does everything before `to`, one thing at a time.
    pub(crate) fn advance_before(&mut self, to: u64) {
        loop {
            let service = self
                .pipes
                .iter()
                .filter_map(Pipe::service_end)
                .min()
                .unwrap_or(u64::MAX);
            let flying = self.pipes.iter().zip(0u32..).filter_map(|(pipe, id)| {
                pipe.flying.front().map(|packet| (packet.due, pipe.to, id))
            });
            let flight = flying.min();
            let flight_time = flight.map_or(u64::MAX, |((time, _), ..)| time);
            let first = service.min(flight_time);
            if first >= to {
                return;
            }
            if service == first {
                self.pipes
                    .iter_mut()
                    .for_each(|pipe| pipe.serve_until(first));
            } else {
                let (due, node, pipe) = flight.unwrap();
                let packet = self.pipes[pipe as usize].flying.pop_front().unwrap();
                self.reach(node, packet, due);
            }
        }
    }

    fn leave(&mut self, host: NodeId, packet: Packet, entry: (u64, u32)) {
        let next = packet
            .to
            .and_then(|to| self.routes.next(&self.topology, host, to));
        match next.or(self.topology.outgoing(host).first().copied()) {
            None => self.drops[3] += 1,
            Some(pipe) => self.enter(pipe, packet, entry),
        }
    }

    fn enter(&mut self, pipe: PipeId, packet: Packet, entry: (u64, u32)) {
        let pipe = &mut self.pipes[pipe.index()];
        if packet.ip_len > pipe.mtu {
            self.drops[4] += 1;
        } else if !pipe.is_up {
            self.drops[7] += 1;
        } else if !pipe.enter(packet, entry) {
            self.drops[0] += 1;
        }
    }

    fn reach(&mut self, node: NodeId, mut packet: Packet, due: (u64, u32)) {
        let is_host = self.topology.node(node).kind == NodeKind::Host;
        if packet.lost {
            self.drops[1] += 1;
        } else if packet.to == Some(node) && is_host {
            let len = packet.ip_len + 14;
            self.deliveries
                .push((packet.id, node.0, due.0, packet.path_delay, 0, len));
        } else if packet.to == Some(node) {
            self.drops[6] += 1;
        } else if is_host {
            self.drops[5] += 1;
        } else if packet.ttl <= 1 {
            self.drops[2] += 1;
        } else {
            packet.ttl -= 1;
            match packet
                .to
                .and_then(|to| self.routes.next(&self.topology, node, to))
            {
                None => self.drops[3] += 1,
                Some(pipe) => self.enter(pipe, packet, due),
            }
        }
    }
}
