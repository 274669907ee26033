//! What hosts and routers do with packets: deliver, forward, fragment, answer, drop.
//!
//! A router examines a packet in this order: is it addressed to me; may it go further (hop limit); where to
//! (route); does it fit (MTU). A packet that fails a test is punted to the
//! [`Responder`](crate::router), which sees it as it came in. A reply or fragment leaves at once, at its
//! packet's place in the order of events. The router that made it never punts it again, so nothing here
//! repeats without end.

use super::hash::Origination;
use super::lan::GROUP;
use super::record::Site;
use super::{CREATED, Engine};
use crate::packet::{self, Headers};
use crate::parallel::LocalPipe;
use crate::pipe::delay::Moment;
use crate::pool::{MAY_FRAGMENT, NIL, Origin};
use crate::route::{NextHop, SetId};
use crate::router::{PuntReason, Responder};
use crate::time::{Span, Time};
use crate::topology::{NodeId, NodeKind, Topology};
use crate::witness::PacketEvent;

/// The rate limit of a router's replies: 1000 a second, 50 at once.
const REPLY_INTERVAL: Span = Span::from_ms(1);
const REPLY_BURST: u64 = 50;

/// More fragments than the largest packet has at the smallest MTU (68 bytes).
const MAX_FRAGMENTS: u32 = 2048;

/// A token bucket, kept as the time at which it will be full again.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReplyLimit {
    full_at: Time,
}

impl ReplyLimit {
    fn allows(&self, now: Time) -> bool {
        let missing = self.full_at.since(now);
        missing.as_ns() <= (REPLY_BURST - 1) * REPLY_INTERVAL.as_ns()
    }

    fn take(&mut self, now: Time) {
        self.full_at = self.full_at.max(now) + REPLY_INTERVAL;
    }
}

impl Engine {
    /// The slow path: a packet comes out of pipe `from` at a node that must examine it.
    #[inline]
    pub(super) fn receive_at_node(&mut self, from: LocalPipe, index: u32, at: Moment) {
        let node = NodeId(self.pipes[from.index()].to);
        let to = self.pool[index].destination;
        match self.nodes[node.index()].kind {
            NodeKind::Host if to == node.0 => self.deliver(index),
            NodeKind::Host if to == GROUP => {
                self.pool[index].destination = node.0;
                self.deliver(index);
            }
            NodeKind::Host => self.drop_at(node, index, at.time, PacketEvent::Misdelivered),
            NodeKind::Router if to == node.0 => self.answer(node, PuntReason::Local, index, at),
            // A router receives its segment's broadcasts, and forwards none.
            NodeKind::Router if to == GROUP => {
                self.drop_at(node, index, at.time, PacketEvent::Absorbed);
            }
            NodeKind::Router => self.forward(node, index, at),
            NodeKind::Lan => self.switch(from, node, index, at),
        }
    }

    /// Forwards a packet at a router, fragments it, or punts it.
    #[inline]
    fn forward(&mut self, router: NodeId, index: u32, at: Moment) {
        if self.pool[index].hop_limit <= 1 {
            return self.answer(router, PuntReason::HopLimit, index, at);
        }
        let Some(pipe) = self.next_pipe(router, index) else {
            return self.answer(router, PuntReason::NoRoute, index, at);
        };
        let mtu = self.pipes[pipe.index()].mtu();
        let packet = &mut self.pool[index];
        if packet.ip_len() > mtu && !packet.is(MAY_FRAGMENT) {
            return self.answer(router, PuntReason::TooBig { mtu }, index, at);
        }
        packet.hop_limit -= 1;
        if packet.ip_len() > mtu {
            self.fragment(pipe, index, at, Time::ZERO);
        } else {
            self.enter(pipe, index, at, Time::ZERO);
        }
    }

    /// Sends a host's own packet at its stamp: on its route, or, where the host has none, on its
    /// lowest-numbered pipe, as hosts use a default route; a packet for a group on its segment.
    pub(super) fn depart(&mut self, host: NodeId, index: u32, stamp: Time) {
        let pipe = if self.pool[index].destination == GROUP {
            self.segment(host)
        } else {
            match self.nodes[host.index()].only {
                NIL => {
                    let first = |engine: &Self| engine.first_pipes(host).next();
                    self.next_pipe(host, index).or_else(|| first(self))
                }
                only => Some(LocalPipe(only)), // whatever routes say
            }
        };
        let Some(pipe) = pipe else {
            return self.drop_at(host, index, stamp, PacketEvent::NoRoute);
        };
        let at = Moment {
            time: stamp,
            microstep: 0,
        };
        let mtu = self.pipes[pipe.index()].mtu();
        let packet = &self.pool[index];
        if packet.ip_len() <= mtu {
            self.enter(pipe, index, at, self.now);
        } else if packet.is(MAY_FRAGMENT) {
            self.fragment(pipe, index, at, self.now);
        } else {
            // The far end answers in place of the link, and the host hears it at once. A lan, being a
            // switch, answers nothing.
            self.end_at(host, index, stamp, PacketEvent::TooBig);
            let speaker = NodeId(self.pipes[pipe.index()].to);
            let is_mute = self.nodes[speaker.index()].kind == NodeKind::Lan;
            let reply = if is_mute {
                None
            } else {
                self.reply(speaker, host, PuntReason::TooBig { mtu }, index, at)
            };
            self.pool.release(index);
            if let Some(reply) = reply {
                self.pool[reply].set_due(Moment {
                    time: stamp.max(self.now),
                    microstep: 0,
                });
                self.deliver_or_drop(host, reply);
            }
        }
    }

    /// How far the engine may be ahead of a host's arrivals without affecting any of them: a packet that
    /// enters at its stamp cannot come out before it has crossed a first pipe, which only this host feeds.
    /// Zero where a first pipe is shaped, because that pipe decides at each start of service.
    pub fn lead(&self, host: NodeId) -> Span {
        let pipes = self.first_pipes(host);
        let lead = |pipe: LocalPipe| self.pipes[pipe.index()].lead();
        pipes.map(lead).min().unwrap_or(Span::ZERO)
    }

    /// The pipes that leave a node of this engine's, by number.
    pub(super) fn first_pipes(&self, node: NodeId) -> impl Iterator<Item = LocalPipe> + '_ {
        let pipes = self.topology.outgoing(node).iter();
        pipes.filter_map(|&pipe| self.share.own(pipe))
    }

    /// How long a packet that a host sends at `stamp`, behind all its arrivals so far, waits in its first
    /// pipe. A lower bound: zero where it is not known.
    pub fn backlog(&self, host: NodeId, stamp: Time) -> Span {
        let pipes = self.first_pipes(host);
        let backlog = |pipe: LocalPipe| self.pipes[pipe.index()].backlog(stamp, self.now);
        pipes.map(backlog).min().unwrap_or(Span::ZERO)
    }

    /// The pipe that a packet takes from `node`; `None` where there is none, and for a group.
    #[inline]
    pub(super) fn next_pipe(&mut self, node: NodeId, index: u32) -> Option<LocalPipe> {
        let to = self.pool[index].destination;
        if to >= GROUP {
            return None; // `GROUP` or `NIL`
        }
        match self.routes.next_hop(&self.topology, node, NodeId(to))? {
            NextHop::One(pipe) => Some(LocalPipe(pipe.0)),
            NextHop::OneOf(set) => Some(self.choose(node, set, index)),
        }
    }

    /// Chooses the member of a set of equal pipes that a packet takes.
    #[inline(never)] // rare: keeps it out of the hot loop
    fn choose(&mut self, node: NodeId, set: SetId, index: u32) -> LocalPipe {
        let members = self.routes.set(set);
        let first = self.share.global(LocalPipe(members[0].0));
        let balance = self.topology.pipe(first).balance;
        let frame = self.pool.headers(index);
        let chosen = self.balancer.choose(node, set, members, balance, frame);
        LocalPipe(chosen.0)
    }

    /// Records that a packet ends at a node. The caller keeps its slot.
    pub(super) fn end_at(&mut self, node: NodeId, index: u32, time: Time, event: PacketEvent) {
        self.record
            .ended(Site::Node(node), index, time, event, &self.pool);
    }

    /// Ends a packet at `router`, which answers it.
    #[cold]
    fn answer(&mut self, router: NodeId, reason: PuntReason, index: u32, at: Moment) {
        let event = match reason {
            PuntReason::Local => PacketEvent::Absorbed,
            PuntReason::HopLimit => PacketEvent::HopLimit,
            PuntReason::NoRoute => PacketEvent::NoRoute,
            PuntReason::TooBig { .. } => PacketEvent::TooBig,
        };
        self.end_at(router, index, at.time, event);
        let reply = self.reply(router, router, reason, index, at);
        self.pool.release(index);
        if let Some(reply) = reply {
            self.originate(router, reply, at);
        }
    }

    /// Has `speaker` write a reply to a packet, if the rate limit of `node` allows one.
    fn reply(
        &mut self,
        speaker: NodeId,
        node: NodeId,
        reason: PuntReason,
        index: u32,
        at: Moment,
    ) -> Option<u32> {
        if !self.nodes[node.index()].replies.allows(at.time) {
            self.record.counters.replies_suppressed += 1;
            return None;
        }
        self.pool.apply_edits(index);
        let how = Origination::Reply(speaker);
        let reply = self.make_packet(index, at.time, how, |responder, topology, frame, slot| {
            responder.respond(topology.node(speaker), reason, frame, slot)
        })?;
        self.nodes[node.index()].replies.take(at.time);
        self.record.counters.created += 1;
        Some(reply)
    }

    /// Sends a packet that a router has made.
    fn originate(&mut self, router: NodeId, index: u32, at: Moment) {
        if self.pool[index].destination == router.0 {
            return self.drop_at(router, index, at.time, PacketEvent::Absorbed);
        }
        let Some(pipe) = self.next_pipe(router, index) else {
            return self.drop_at(router, index, at.time, PacketEvent::NoRoute);
        };
        let packet = &self.pool[index];
        if packet.ip_len() <= self.pipes[pipe.index()].mtu() {
            self.enter(pipe, index, at, Time::ZERO);
        } else if packet.is(MAY_FRAGMENT) {
            self.fragment(pipe, index, at, Time::ZERO);
        } else {
            self.drop_at(router, index, at.time, PacketEvent::TooBig);
        }
    }

    /// Delivers a reply that a host hears from the far end of its own link.
    fn deliver_or_drop(&mut self, host: NodeId, index: u32) {
        if self.pool[index].destination == host.0 {
            self.deliver(index);
        } else {
            let due = self.pool[index].due().time;
            self.drop_at(host, index, due, PacketEvent::NoRoute);
        }
    }

    /// Sends a packet into `pipe` in fragments; they count as created, less the packet itself.
    #[cold]
    fn fragment(&mut self, pipe: LocalPipe, index: u32, at: Moment, floor: Time) {
        self.pool.apply_edits(index);
        let mtu = self.pipes[pipe.index()].mtu();
        let (path_delay, entered) = (self.pool[index].path_delay, self.pool[index].entered);
        let mut made = 0;
        for number in 0..MAX_FRAGMENTS {
            let how = Origination::Fragment(number);
            let fragment = self.make_packet(index, entered, how, |responder, _, frame, slot| {
                responder.fragment(frame, mtu, number, slot)
            });
            let Some(fragment) = fragment else { break };
            made += 1;
            let packet = &mut self.pool[fragment];
            packet.path_delay = path_delay;
            if packet.ip_len() <= mtu {
                self.enter(pipe, fragment, at, floor);
            } else {
                debug_assert!(false, "a fragment exceeds the MTU that it was made for");
                let node = self.topology.pipe(self.share.global(pipe)).from;
                self.drop_at(node, fragment, at.time, PacketEvent::TooBig);
            }
        }
        if made == 0 {
            let node = self.topology.pipe(self.share.global(pipe)).from;
            self.drop_at(node, index, at.time, PacketEvent::TooBig);
        } else {
            self.pool.release(index);
            self.record.counters.created += made - 1;
        }
    }

    /// Has the responder write a packet in answer to packet `index`; `None` if it stays silent or there is
    /// no slot.
    fn make_packet(
        &mut self,
        index: u32,
        entered: Time,
        how: Origination,
        write: impl FnOnce(&mut dyn Responder, &Topology, &[u8], &mut [u8]) -> Option<usize>,
    ) -> Option<u32> {
        let shift = self.pool[index].shift;
        let origin = Origin {
            id: CREATED | self.created as u32,
            entered,
            shift,
        };
        let Some(new) = self.pool.take(origin) else {
            self.record.counters.pool_exhausted += 1;
            return None;
        };
        if self.pool.is_modelled(index) {
            let new = self.make_modelled(index, new, write)?;
            self.record.originated(new, index, how);
            return Some(new);
        }
        let (frame, slot) = self.pool.frame_and_slot(index, new);
        let written = write(self.responder.as_mut(), &self.topology, frame, slot);
        let headers = written.and_then(|len| packet::parse_any(slot.get(..len)?).ok());
        let Some(headers) = headers else {
            self.pool.release(new);
            return None;
        };
        self.record.originated(new, index, how);
        self.describe_made(new, &headers);
        if self.pool[new].destination == GROUP {
            self.address_group(new);
        }
        Some(new)
    }

    /// Fills in the descriptor of a packet that a router has made.
    pub(super) fn describe_made(&mut self, new: u32, headers: &Headers) {
        self.created += 1;
        let to = self.find(headers.destination);
        self.pool.describe(new, headers, to);
    }
}
