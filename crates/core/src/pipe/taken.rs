//! What a look-ahead window takes out of a plain pipe at once, counted while it goes along.

use crate::pool::Descriptor;

/// The first packets of a plain pipe, in sum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    /// The first of them.
    pub(crate) first: u32,
    pub(crate) packets: u32,
    /// Their bytes of IP.
    pub(crate) bytes: u64,
}

impl Taken {
    /// None yet, from packet `first` on.
    pub(crate) const fn from(first: u32) -> Self {
        Self {
            first,
            packets: 0,
            bytes: 0,
        }
    }

    /// One more.
    #[inline]
    pub(crate) fn add(&mut self, packet: &Descriptor) {
        self.packets += 1;
        self.bytes += u64::from(packet.ip_len());
    }
}
