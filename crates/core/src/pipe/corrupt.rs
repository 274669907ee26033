//! Corruption: one bit of a packet's payload is flipped on the way.
//!
//! The payload is all that stands behind the IP header (IPv6: behind the fixed header), so the
//! packet still finds its way, and the checksum of its transport protocol can find the error.
//!
//! Left out: which packets are hit (`choice.rs`), and more than one bit.

use super::choice::below;
use crate::packet::{IPV4_LEN, IPV6_LEN};

/// A bit of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bit {
    /// The byte that holds it, from the payload's start.
    pub(crate) byte: u32,
    /// The bit within the byte.
    pub(crate) mask: u8,
}

impl Bit {
    /// The bit that a uniform `draw` chooses of a payload of `len` bytes, each equally likely;
    /// `None` where there is none.
    pub(crate) const fn choose(draw: u64, len: u32) -> Option<Self> {
        if len == 0 {
            return None;
        }
        // The low bits choose within the byte; they do not matter for a byte below 2^32.
        Some(Self {
            byte: below(draw, len),
            mask: 1 << (draw & 7),
        })
    }
}

/// Flips a bit, chosen by a uniform `draw`, of the payload of the IP packet `packet`; false where
/// it has none or is no IP packet.
pub(crate) fn flip(packet: &mut [u8], draw: u64) -> bool {
    let header = match packet.first() {
        Some(first) if first >> 4 == 4 => (usize::from(first & 0x0f) * 4).max(IPV4_LEN),
        Some(first) if first >> 4 == 6 => IPV6_LEN,
        _ => return false,
    };
    let Some(payload) = packet.get_mut(header..) else {
        return false;
    };
    let len = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let Some(bit) = Bit::choose(draw, len) else {
        return false;
    };
    payload[bit.byte as usize] ^= bit.mask;
    true
}

#[cfg(test)]
mod tests;
