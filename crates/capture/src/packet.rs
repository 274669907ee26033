//! A packet as captures see it.

use longhaul_core::Time;
use longhaul_core::witness::{PacketEvent, Sighting};

use crate::filter::READ_MAX;

/// Something that happens to a packet, with the beginning of its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// When, in experiment time.
    pub time: Time,
    /// What.
    pub fate: PacketEvent,
    /// The frame from its Ethernet header on, without FCS; perhaps not all of it.
    pub frame: &'a [u8],
    /// Length of the whole frame in bytes.
    pub len: usize,
}

impl<'a> Packet<'a> {
    /// The packet of a witness's sighting. `buffer` is overwritten with the first `snaplen` bytes
    /// of the frame, and with no fewer than a filter reads.
    pub fn seen(sighting: &Sighting<'_>, snaplen: usize, buffer: &'a mut Vec<u8>) -> Self {
        buffer.clear();
        sighting.append_frame(snaplen.max(READ_MAX), buffer);
        Self {
            time: sighting.time,
            fate: sighting.event,
            frame: buffer,
            len: sighting.frame_len(),
        }
    }
}
