//! The packets that a look-ahead window takes out of a plain pipe at once, summed during the scan.

use crate::pool::Descriptor;

/// The first packets of a plain pipe, as sums.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Batch {
    pub(crate) packets: u32,
    /// The sum of their IP lengths.
    pub(crate) bytes: u64,
}

impl Batch {
    /// Adds a packet.
    #[inline]
    pub(crate) fn add(&mut self, packet: &Descriptor) {
        self.packets += 1;
        self.bytes += u64::from(packet.ip_len());
    }
}
