//! Single packets of chosen pipes: when each came, was served and left.
//!
//! Packets that arrive at a pipe within a given period are followed. A passage ends when the packet
//! comes out or is dropped; passages still open when the run ends are not recorded.
//!
//! A core that hands a packet over to another knows of its end ahead of time, and of a loss only
//! when the packet would have come out. So a passage is delivered at the time at which a single
//! core would know of it: samples do not depend on how the network is partitioned.

use std::sync::Arc;

use longhaul_core::packet::{ETHERNET_LEN, FlowKey};
use longhaul_core::witness::{PacketEvent, PacketEvents, Place, Sighting, Witness};
use longhaul_core::{PipeId, Time};
use longhaul_plan::measure::Timeline;
use rustc_hash::FxHashMap;

/// The most passages between two edges of a bin: 100 MB.
const PASSAGES: usize = 1_000_000;

/// A packet on its way through a pipe.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passage {
    pub(super) pipe: PipeId,
    pub(super) flow: FlowKey,
    /// Of its IP packet.
    pub(super) bytes: u64,
    pub(super) arrival: Time,
    /// When it left the queue; `None` where it never did.
    pub(super) service: Option<Time>,
    /// When it came out or was dropped, and which.
    pub(super) end: Time,
    pub(super) fate: PacketEvent,
    /// From when on one core would know of its end.
    known: Time,
}

/// Follows packets.
#[derive(Debug)]
pub(super) struct Follower {
    windows: Arc<[Timeline]>,
    /// By pipe and slot.
    inside: FxHashMap<(PipeId, u32), Passage>,
    ended: Vec<Passage>,
    missed: u64,
}

impl Follower {
    pub(super) fn new(windows: Arc<[Timeline]>) -> Self {
        Self {
            windows,
            inside: FxHashMap::default(),
            ended: Vec::new(),
            missed: 0,
        }
    }

    /// Gives all passages that have ended since and before `until`, and how many more there were.
    pub(super) fn take(&mut self, until: Time, passages: &mut Vec<Passage>, missed: &mut u64) {
        let ended = self.ended.extract_if(.., |passage| passage.known < until);
        passages.extend(ended);
        *missed += std::mem::take(&mut self.missed);
    }

    fn follows(&self, pipe: PipeId, time: Time) -> bool {
        let mut windows = self.windows.iter();
        windows.any(|window| {
            (window.from..window.until).contains(&time) && window.pipes.binary_search(&pipe).is_ok()
        })
    }
}

impl Witness for Follower {
    fn events(&self) -> PacketEvents {
        [
            PacketEvent::In,
            PacketEvent::Served,
            PacketEvent::Out,
            PacketEvent::Over,
            PacketEvent::Loss,
            PacketEvent::Queue,
            PacketEvent::LinkDown,
        ]
        .into_iter()
        .fold(PacketEvents::NONE, PacketEvents::with)
    }

    fn see(&mut self, sighting: &Sighting<'_>) {
        let Place::Pipe(pipe) = sighting.place else {
            return;
        };
        let (key, time) = ((pipe, sighting.slot()), sighting.time);
        match sighting.event {
            PacketEvent::In => {
                if !self.follows(pipe, time) {
                    return;
                }
                if self.inside.len() + self.ended.len() >= PASSAGES {
                    self.missed += 1;
                    return;
                }
                let passage = Passage {
                    pipe,
                    flow: FlowKey::of(sighting.headers()),
                    bytes: sighting.frame_len().saturating_sub(ETHERNET_LEN) as u64,
                    arrival: time,
                    service: None,
                    end: time,
                    fate: PacketEvent::In,
                    known: time,
                };
                self.inside.insert(key, passage);
            }
            PacketEvent::Served => {
                if let Some(passage) = self.inside.get_mut(&key) {
                    passage.service = Some(time);
                }
            }
            fate => {
                if let Some(mut passage) = self.inside.remove(&key) {
                    (passage.end, passage.fate) = (time, fate);
                    passage.known = match fate {
                        PacketEvent::Loss => sighting.due().max(time),
                        _ => time,
                    };
                    // A plain pipe reports the planned start of service; the packet may be lost before.
                    passage.service = passage.service.filter(|service| *service <= time);
                    self.ended.push(passage);
                }
            }
        }
    }
}
