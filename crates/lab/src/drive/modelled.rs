//! Modelled hosts on the real clock: packets for them stay inside, and their timers count in the
//! wait.
//!
//! Endpoints live in experiment time. They handle a packet at the time at which it was due and a
//! timer at the time for which it was set, however late the loop comes to it, and what they send
//! enters the network at that time, for which the engine accepts arrivals in its past. So they do
//! what they do in virtual time as long as their first pipes can still make good how late the loop
//! is; what cannot be made good is the shift, which is judged with the lateness as that of every
//! packet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use longhaul_core::Time;
use longhaul_core::engine::{Engine, Modelled, Parcel};
use longhaul_core::packet::ETHERNET_LEN;
use longhaul_proto::traffic::Traffic;

use super::{Drive, Platform};
use crate::fidelity::meter::Packet;

/// Modelled hosts, and what others know of them.
pub struct ModelledHosts {
    traffic: Traffic,
    done: Arc<AtomicBool>,
}

impl ModelledHosts {
    /// Those of `traffic`; `done` learns when all flows have ended that end by themselves.
    pub fn new(traffic: Traffic, done: Arc<AtomicBool>) -> Self {
        Self { traffic, done }
    }

    /// What has become of the flows.
    pub fn into_traffic(self) -> Traffic {
        self.traffic
    }

    /// When a timer is due next.
    pub(super) fn next_timer(&self) -> Option<Time> {
        self.traffic.poll_timeout()
    }

    /// Handles the timers before `until`. Returns how many.
    fn handle_timers(&mut self, engine: &mut Engine, until: Time) -> usize {
        let mut handled = 0;
        while let Some(timer) = self.traffic.poll_timeout().filter(|timer| *timer < until) {
            self.traffic.handle_timeout(timer);
            self.transmit(engine);
            handled += 1;
        }
        handled
    }

    /// Takes what the hosts send.
    fn transmit(&mut self, engine: &mut Engine) {
        while let Some(packet) = self.traffic.poll_transmit() {
            let modelled = Modelled {
                to: packet.to,
                headers: packet.headers,
                ip_len: packet.ip_len,
            };
            // A full pool is a physical drop, which the engine counts.
            let _ = engine.arrive_modelled(packet.host, packet.at, &modelled);
        }
    }
}

impl<P: Platform> Drive<P> {
    /// Gives a parcel to the modelled host that it is for; false where it is for a kernel. Such
    /// parcels are one packet each: runs with modelled hosts take no super-packets.
    pub(super) fn deliver_to_modelled(&mut self, parcel: &Parcel) -> bool {
        let Some(hosts) = &mut self.modelled else {
            return false;
        };
        let headers = self.engine.parts(parcel)[0];
        if !hosts.traffic.owns(parcel.host, headers) {
            return false;
        }
        let Some(egress) = self.leaving.pop() else {
            return false;
        };
        hosts.handle_timers(&mut self.engine, egress.due);
        let headers = self.engine.parts(parcel)[0];
        let ip_len = egress.len - ETHERNET_LEN as u32;
        let host = parcel.host;
        hosts
            .traffic
            .handle_packet(egress.due, host, headers, ip_len);
        hosts.transmit(&mut self.engine);
        // It handles the packet when that was due, whenever that is: only the shift is an error.
        self.meter.count(&Packet {
            from: self.engine.source(parcel),
            to: host,
            host: self.hosts[host.index()],
            due: egress.due,
            error: egress.staleness,
            path_delay: egress.path_delay,
            is_unknown: false,
        });
        self.engine.release(egress);
        true
    }

    /// Handles the timers of modelled hosts up to the engine's time. Returns how many.
    pub(super) fn serve_modelled(&mut self) -> usize {
        let Some(hosts) = &mut self.modelled else {
            return 0;
        };
        let until = self.engine.now() + longhaul_core::Span::from_ns(1);
        let handled = hosts.handle_timers(&mut self.engine, until);
        if hosts.traffic.is_done() {
            hosts.done.store(true, Ordering::Relaxed);
        }
        handled
    }
}
