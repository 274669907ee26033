//! How many segments the kernel hands to segmentation offload at once (`bbr_tso_segs_goal`).
//!
//! Theory: what the pacing rate carries in 1/1,024 s, so that bursts are short, but at least two segments, so
//! that they share the cost of a send.

/// The pacing rate is shifted by this (`sk_pacing_shift`).
const PACING_SHIFT: u32 = 10;
/// Bytes per second below which one segment is enough (`bbr_min_tso_rate`, in bits per second there).
const SLOW: f64 = 1_200_000.0 / 8.0;
/// Payload bytes of the largest super-packet: `GSO_LEGACY_MAX_SIZE - 1 - MAX_TCP_HEADER`, the latter as in kernels
/// with wireless LAN for cache lines of 64 bytes.
const MOST_BYTES: u64 = 65_536 - 1 - 320;
/// The kernel's count has seven bits.
const MOST_SEGMENTS: u64 = 127;

/// Segments of one super-packet at `rate` segments of `mss` bytes per second.
pub(super) fn segments(rate: f64, mss: u32) -> u32 {
    let bytes_per_s = rate * f64::from(mss);
    let least = if bytes_per_s < SLOW { 1 } else { 2 };
    let bytes = (bytes_per_s as u64 >> PACING_SHIFT).min(MOST_BYTES);
    (bytes / u64::from(mss.max(1))).clamp(least, MOST_SEGMENTS) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand from `bbr_tso_segs_goal`: at 12.5 MB/s 12,207 bytes are 8 segments of 1,448; from 67 MB/s on
    /// there are 45, all that 65,215 bytes hold.
    #[test]
    fn a_super_packet_lasts_a_thousandth_of_a_second_within_its_bounds() {
        let at = |bytes_per_s: f64, mss: u32| segments(bytes_per_s / f64::from(mss), mss);
        assert_eq!(at(149_000.0, 1448), 1);
        assert_eq!(at(151_000.0, 1448), 2);
        assert_eq!(at(2e6, 1448), 2);
        assert_eq!(at(12.5e6, 1448), 8);
        assert_eq!(at(67e6, 1448), 45);
        assert_eq!(at(1e9, 1448), 45);
        assert_eq!(at(1e9, 100), 127);
        assert_eq!(at(1e9, 8948), 7);
        assert_eq!(at(1e6, 8948), 2);
    }
}
