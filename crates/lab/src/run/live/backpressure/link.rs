//! The shaper of a host that its link limits and that hands over super-packets.
//!
//! The shaper counts a link's framing once per super-packet, the link counts it once per packet. At the
//! link's own rate the shaper therefore lets through a little too much, and the excess queues in the
//! link; or, where the link counts IP packets without Ethernet headers, too little. So the shaper's rate
//! follows the queue that the host's packets find in the link: it falls where the queue is longer than
//! half of the bucket's depth, and rises where it is shorter. A queue of that length keeps the link busy
//! for as long as the machine is likely to stall.
//!
//! The queue integrates the shaper's error, so a proportional controller suffices. It starts from the
//! rate at which frames of the present mean length, if they are of whole segments, come as fast as the
//! link sends them.

use std::time::Duration;

use longhaul_core::packet::ETHERNET_LEN;
use longhaul_linux::sandbox::Shaper;

use super::Seen;

/// The controller's time constant: several samples.
const SETTLE: Duration = Duration::from_millis(50);
/// The controller makes a shaper no slower than the first part of the link's rate, and no faster than
/// the link by more than the second. (The machine's allowance may be lower.)
const SLOWEST: f64 = 0.9;
const FASTER: f64 = 0.01;

#[derive(Debug)]
pub(super) struct LinkShaper {
    /// At the link's own rate.
    shaper: Shaper,
    /// The length of a whole packet's frame.
    whole: f64,
}

impl LinkShaper {
    /// For packets of at most `mtu` bytes.
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

    /// The shaper after `passed` has passed through it, not faster than `most` bytes per second.
    pub(super) fn adjusted(&self, passed: &Seen, most: f64) -> Shaper {
        let packets = passed.packets as f64;
        let even = self.even(passed.bytes as f64 / packets);
        let difference = self.middle() - passed.waited.as_secs_f64() / packets;
        let part = even + difference / SETTLE.as_secs_f64();
        let part = part.clamp(SLOWEST, even.max(1.0) + FASTER);
        Shaper {
            bytes_per_s: (part * self.rate()).min(most) as u64,
            ..self.shaper
        }
    }

    /// The part of the link's rate at which frames of `len` bytes come as fast as the link sends them:
    /// it counts the overhead for each segment, the shaper once.
    fn even(&self, len: f64) -> f64 {
        let (segments, overhead) = ((len / self.whole).max(1.0), f64::from(self.shaper.overhead));
        (self.whole + overhead / segments) / (self.whole + overhead)
    }

    /// The set point: the seconds in which the link sends half of its bucket's depth.
    fn middle(&self) -> f64 {
        f64::from(self.shaper.burst_bytes) / self.rate() / 2.0
    }
}
