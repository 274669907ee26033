//! Packets that the machine lost, not the emulated network.

use serde::{Deserialize, Serialize};

/// Packets lost by the machine, by the place where it lost them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhysicalDrops {
    /// The receive ring of the core was full.
    pub ring: u64,
    /// The core shed them at ingress, because it could not serve them in time.
    pub shed: u64,
    /// No free slot in the packet pool.
    pub pool: u64,
    /// The kernel refused to send them.
    pub send: u64,
    /// A cable lost them on the way to the core.
    pub to_core: u64,
    /// A cable lost them on the way to the host.
    pub from_core: u64,
}

impl PhysicalDrops {
    /// All of them.
    pub const fn total(&self) -> u64 {
        self.ring + self.shed + self.pool + self.send + self.to_core + self.from_core
    }

    /// Adds `other` to each.
    pub fn add(&mut self, other: &Self) {
        self.ring += other.ring;
        self.shed += other.shed;
        self.pool += other.pool;
        self.send += other.send;
        self.to_core += other.to_core;
        self.from_core += other.from_core;
    }

    /// The places that lost something, in words.
    pub(super) fn places(&self) -> String {
        let places = [
            (self.ring, "in the core's receive ring"),
            (self.shed, "at ingress, read too late"),
            (self.pool, "for lack of a free packet slot"),
            (self.send, "refused by the kernel on sending"),
            (self.to_core, "on cables to the core"),
            (self.from_core, "on cables to hosts"),
        ];
        let lost = places
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, place)| format!("{n} {place}"));
        lost.collect::<Vec<_>>().join(", ")
    }
}
