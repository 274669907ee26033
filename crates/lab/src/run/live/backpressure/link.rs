//! The bucket of a host whose link limits it, and which hands over super-packets.
//!
//! The bucket counts a link's framing once for each super-packet, and the link counts it for each packet:
//! at the link's own rate the bucket lets through a little too much, and what comes too early waits in the
//! link; or, where only IP packets count and not their Ethernet headers, too little. So the bucket
//! follows what the packets of a host find there: slower where that is more than half of the bucket's
//! depth, faster where it is less. In the middle the link has something to send for as long as
//! the machine is likely to stand still.
//!
//! The link itself adds up what the bucket has too much, so a step in proportion to the difference
//! is enough. It starts from the rate at which frames of the present mean length come as fast as
//! the link sends them, if they are of whole segments.

use std::time::Duration;

use longhaul_core::packet::ETHERNET_LEN;
use longhaul_linux::sandbox::Shaper;

use super::Seen;

/// A difference is to be gone after about so long: several looks.
const SETTLE: Duration = Duration::from_millis(50);
/// For its link's sake a bucket is never slower than this part of the link's rate, nor faster than
/// the link by more than that part of it.
const SLOWEST: f64 = 0.9;
const FASTER: f64 = 0.01;

#[derive(Debug)]
pub(super) struct LinkBucket {
    /// At the link's own rate.
    shaper: Shaper,
    /// The length of a whole packet's frame.
    whole: f64,
}

impl LinkBucket {
    /// Of packets that have at most `mtu` bytes.
    pub(super) fn new(shaper: Shaper, mtu: u32) -> Self {
        Self {
            shaper,
            whole: f64::from(mtu) + ETHERNET_LEN as f64,
        }
    }

    /// The link's rate, in bytes per second.
    pub(super) const fn rate(&self) -> f64 {
        self.shaper.bytes_per_s as f64
    }

    /// The bucket after so much has come through it, not faster than `most` bytes per second.
    pub(super) fn shaper(&self, came: &Seen, most: f64) -> Shaper {
        let packets = came.packets as f64;
        let even = self.even(came.bytes as f64 / packets);
        let difference = self.middle() - came.waited.as_secs_f64() / packets;
        let part = even + difference / SETTLE.as_secs_f64();
        let part = part.clamp(SLOWEST, even.max(1.0) + FASTER);
        Shaper {
            bytes_per_s: (part * self.rate()).min(most) as u64,
            ..self.shaper
        }
    }

    /// The part of its rate at which frames of `len` bytes come as fast as the link sends them,
    /// which counts the overhead for each segment.
    fn even(&self, len: f64) -> f64 {
        let (segments, overhead) = ((len / self.whole).max(1.0), f64::from(self.shaper.overhead));
        (self.whole + overhead / segments) / (self.whole + overhead)
    }

    /// The time in which the link sends half of what its bucket holds, in seconds.
    fn middle(&self) -> f64 {
        f64::from(self.shaper.burst_bytes) / self.rate() / 2.0
    }
}
