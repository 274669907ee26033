//! Modelled hosts: packets that come out for them are handled inside the emulation.
//!
//! Endpoints live in experiment time. They handle a packet at the time at which it was due, and a timer at
//! the time for which it was set, however late the driving loop is. What they send enters the network at
//! that time, since the engine accepts arrivals in its past. So on a real clock they behave as in virtual
//! time, as long as their first pipes can make up for the loop's lateness; what remains is the shift.
//!
//! At one time packets come first, in the order of events, then timers.

use std::collections::VecDeque;

use longhaul_core::engine::{Egress, Engine, Modelled, Parcel, Refused};
use longhaul_core::packet::ETHERNET_LEN;
use longhaul_core::{NodeId, Span, Time};
use longhaul_proto::modelled::{PREFETCH_BATCH, Traffic};

use crate::Emulation;

/// Modelled hosts.
pub(crate) struct ModelledHosts {
    pub(crate) traffic: Traffic,
    /// Those with endpoints.
    pub(crate) nodes: Vec<NodeId>,
    /// Packets received.
    pub(crate) received: u64,
    /// Packets that have come out at hosts and are to be handled next.
    coming: VecDeque<Egress>,
}

/// A packet that a modelled host has handled.
#[derive(Debug, Clone, Copy)]
pub struct Delivered {
    /// The node that sent it, by its source address.
    pub from: Option<NodeId>,
    /// The host.
    pub to: NodeId,
    /// When it came.
    pub due: Time,
    /// How much later it came out than its stamp would have allowed.
    pub shift: Span,
    /// The delays of its path.
    pub path_delay: Span,
}

/// What has come out at a host.
#[derive(Debug)]
pub enum Out {
    /// A parcel for a host's kernel; its packets are in the caller's list.
    Parcel(Parcel),
    /// A packet for a modelled host, which has handled it.
    Delivered(Delivered),
}

impl ModelledHosts {
    pub(crate) fn new(traffic: Traffic, nodes: Vec<NodeId>) -> Self {
        Self {
            traffic,
            nodes,
            received: 0,
            coming: VecDeque::with_capacity(PREFETCH_BATCH),
        }
    }

    /// When a timer is due next.
    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.traffic.poll_timeout()
    }

    /// Handles the timers before `until`. Returns how many.
    fn handle_timers(&mut self, engine: &mut Engine, until: Time) -> usize {
        let mut handled = 0;
        while let Some(timer) = self.next_timer().filter(|timer| *timer < until) {
            self.traffic.handle_timeout(timer);
            self.transmit(engine);
            handled += 1;
        }
        handled
    }

    /// Sends what the hosts have to send.
    fn transmit(&mut self, engine: &mut Engine) {
        while let Some(packet) = self.traffic.poll_transmit() {
            let modelled = Modelled {
                to: packet.to,
                headers: packet.headers,
                ip_len: packet.ip_len,
            };
            let refused = engine.arrive_modelled(packet.host, packet.at, &modelled);
            // The engine counts a full pool as a physical drop.
            debug_assert!(matches!(refused, Ok(()) | Err(Refused::PoolExhausted)));
        }
    }

    /// Handles what has come out, and the timers before `until`, in order of time.
    fn serve(&mut self, engine: &mut Engine, until: Time) {
        loop {
            if self.coming.is_empty() {
                self.prefetch(engine);
            }
            let timer = self.next_timer().filter(|timer| *timer < until);
            let is_next = |packet: &Egress| timer.is_none_or(|timer| packet.due <= timer);
            let packet = if self.coming.front().is_some_and(is_next) {
                self.coming.pop_front()
            } else {
                None
            };
            match (packet, timer) {
                (Some(packet), _) => {
                    debug_assert_eq!(packet.shift, Span::ZERO, "a window was too long");
                    self.hand_over(engine, packet);
                }
                (None, Some(timer)) => self.traffic.handle_timeout(timer),
                (None, None) => return,
            }
            self.transmit(engine);
        }
    }

    /// Takes several packets that have come out, and looks up their endpoints together, so that the CPU
    /// overlaps the cache misses.
    fn prefetch(&mut self, engine: &mut Engine) {
        let polled = std::iter::from_fn(|| engine.poll_egress());
        self.coming.extend(polled.take(PREFETCH_BATCH));
        if self.coming.len() > 1 {
            let coming = self.coming.iter();
            let coming = coming.map(|egress| (egress.host, engine.frame(egress), ip_len(egress)));
            self.traffic.prefetch(coming);
        }
    }

    /// Gives a packet, whose headers have been written, to its host.
    fn hand_over(&mut self, engine: &mut Engine, egress: Egress) {
        self.received += 1;
        let headers = engine.frame(&egress);
        self.traffic
            .handle_packet(egress.due, egress.host, headers, ip_len(&egress));
        engine.release(egress);
    }
}

/// The length of its IP packet.
const fn ip_len(egress: &Egress) -> u32 {
    egress.len - ETHERNET_LEN as u32
}

impl Emulation {
    /// Lets modelled hosts handle all that has come out, and their timers before `until`: all hosts
    /// are modelled. Returns how many packets there were.
    pub fn serve(&mut self, until: Time) -> u64 {
        let Some(hosts) = &mut self.hosts else {
            return 0;
        };
        let before = hosts.received;
        hosts.serve(&mut self.engine, until);
        hosts.received - before
    }

    /// The timers of modelled hosts up to the engine's time. Returns how many.
    pub fn serve_timers(&mut self) -> usize {
        let until = self.engine.now() + Span::from_ns(1);
        let hosts = self.hosts.as_mut();
        hosts.map_or(0, |hosts| hosts.handle_timers(&mut self.engine, until))
    }

    /// What has come out next: a parcel for a kernel, with its packets added to `packets`
    /// ([`Engine::poll_parcel`]), or a packet that a modelled host has handled. Parcels are one
    /// packet each where there are modelled hosts.
    pub fn poll_out(&mut self, gap: Span, packets: &mut Vec<Egress>) -> Option<Out> {
        let parcel = self.engine.poll_parcel(gap, packets)?;
        let Some(hosts) = &mut self.hosts else {
            return Some(Out::Parcel(parcel));
        };
        if !hosts
            .traffic
            .owns(parcel.host, self.engine.parts(&parcel)[0])
        {
            return Some(Out::Parcel(parcel));
        }
        let Some(egress) = packets.pop() else {
            return Some(Out::Parcel(parcel));
        };
        hosts.handle_timers(&mut self.engine, egress.due);
        let delivered = Delivered {
            from: self.engine.source(&parcel),
            to: parcel.host,
            due: egress.due,
            shift: egress.shift,
            path_delay: egress.path_delay,
        };
        hosts.hand_over(&mut self.engine, egress);
        hosts.transmit(&mut self.engine);
        Some(Out::Delivered(delivered))
    }
}
