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

use longhaul_core::engine::{Egress, Engine, Modelled, Parcel};
use longhaul_core::packet::ETHERNET_LEN;
use longhaul_core::Time;
use longhaul_linux::packet_io::PacketIo;
use longhaul_proto::traffic::Traffic;

use super::Drive;

/// Modelled hosts, and what others know of them.
#[derive(Debug)]
pub struct ModelledHosts {
    traffic: Box<Traffic>,
    done: Arc<AtomicBool>,
}

impl ModelledHosts {
    /// Those of `traffic`; `done` learns when all of it that ends by itself has ended.
    pub fn new(traffic: Traffic, done: Arc<AtomicBool>) -> Self {
        Self {
            traffic: Box::new(traffic),
            done,
        }
    }

    /// What has become of the flows.
    pub fn into_traffic(self) -> Traffic {
        *self.traffic
    }

    /// When a timer is due next.
    pub(super) fn next_timer(&self) -> Option<Time> {
        self.traffic.poll_timeout()
    }

    fn handle_packet(&mut self, engine: &mut Engine, egress: &Egress, headers: &[u8]) {
        let ip_len = egress.len - ETHERNET_LEN as u32;
        self.traffic
            .handle_packet(egress.due, egress.host, headers, ip_len);
        let _ = engine;
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
