//! What a look-ahead window takes out of a plain pipe at once, counted while it goes along.

use crate::pool::Descriptor;

/// The first packets of a plain pipe, in sum.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Taken {
    pub(crate) packets: u32,
    /// Their bytes of IP.
    pub(crate) bytes: u64,
}

impl Taken {
    /// One more.
    #[inline]
    pub(crate) fn add(&mut self, packet: &Descriptor) {
        self.packets += 1;
        self.bytes += u64::from(packet.ip_len());
    }
}
