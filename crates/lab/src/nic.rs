//! The backpressure of a host's network card.
//!
//! Where a host's first link is slower than the machine, the host's own kernel must queue, as
//! it would behind a real card: programs that send UDP then block, and TCP's small queues work.
//! A token bucket on the host's interface does that, a little faster than the link, so that
//! exact spacing stays with the engine.

use longhaul_core::topology::PipeParams;
use longhaul_core::units::Framing;
use longhaul_linux::sandbox::Shaper;

/// From this rate on the machine itself is the bottleneck.
const FAST_BITS_PER_S: u64 = 10_000_000_000;
/// The bucket is faster than the link by this part: 1 in 1000.
const FASTER_PART: u64 = 1000;
/// The bucket holds so much time at its rate: more than a timer of the kernel is ever late.
const BURST_NS: u64 = 250_000;
/// Linux's `txqueuelen`.
const QUEUE_PACKETS: u64 = 1000;

/// The shaper of a host whose outgoing pipes are `nic`; `None` where none is needed.
pub(crate) fn shaper(nic: &[PipeParams], mtu: u32) -> Option<Shaper> {
    let rates: Option<Vec<u64>> =
        nic.iter().map(|pipe| pipe.rate.map(|rate| rate.bits_per_s())).collect();
    let bits_per_s = rates?.iter().fold(0u64, |sum, rate| sum.saturating_add(*rate));
    if bits_per_s == 0 || bits_per_s >= FAST_BITS_PER_S {
        return None;
    }
    let bytes_per_s = (bits_per_s / 8 + bits_per_s / 8 / FASTER_PART).max(1);
    let framing = nic.first().map_or(Framing::Ethernet, |pipe| pipe.framing);
    // The kernel counts the Ethernet header and no frame check sequence.
    let overhead = framing.counted(0) as i32 - longhaul_core::packet::ETHERNET_LEN as i32;
    let frame = u64::from(framing.counted(mtu));
    let burst = (bytes_per_s * BURST_NS / 1_000_000_000).max(2 * frame);
    Some(Shaper {
        bytes_per_s,
        overhead,
        burst_bytes: u32::try_from(burst).unwrap_or(u32::MAX),
        limit_bytes: u32::try_from(QUEUE_PACKETS * frame).unwrap_or(u32::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::units::Rate;

    fn pipe(rate: u64, framing: Framing) -> PipeParams {
        PipeParams { rate: Rate::from_bits_per_s(rate), framing, ..PipeParams::default() }
    }

    #[test]
    fn a_slow_link_gets_a_slightly_faster_bucket() {
        let shaper = shaper(&[pipe(100_000_000, Framing::Ethernet)], 1500).unwrap();
        assert_eq!(shaper.bytes_per_s, 12_512_500);
        assert_eq!(shaper.overhead, 4);
        assert!(shaper.burst_bytes >= 2 * 1518 && shaper.limit_bytes == 1000 * 1518);
    }

    #[test]
    fn unlimited_and_fast_links_need_none() {
        assert_eq!(shaper(&[PipeParams::default()], 1500), None);
        assert_eq!(shaper(&[pipe(10_000_000_000, Framing::Ip)], 1500), None);
        assert_eq!(shaper(&[pipe(1_000_000, Framing::Ip)], 1500).unwrap().overhead, -14);
    }
}
