//! Bit errors: a packet is lost when any of its bits is wrong, so long packets suffer more.
//!
//! Each bit is wrong with probability p, independently; a packet of b bits then with
//! 1 - (1-p)^b, computed as -expm1(b·log1p(-p)), which is accurate down to the smallest p.
//!
//! Left out: packets that arrive with wrong bits (a link's frame check sequence drops them;
//! corruption is a mechanism of its own), and errors in bursts (see Gilbert–Elliott).

use crate::rng::Stream;
use crate::units::Probability;

/// Lengths to remember: traffic has few. A power of two.
const REMEMBERED: usize = 16;

/// Loses packets by their length.
#[derive(Debug, Clone)]
pub(crate) struct BitErrors {
    /// Of one bit.
    probability: Probability,
    stream: Stream,
    /// Lengths in bytes and their probabilities, each at the length's place modulo the size.
    /// Zero is the length of none, and right: no bits, no error.
    known: [(u32, Probability); REMEMBERED],
}

impl BitErrors {
    pub(crate) const fn new(probability: Probability, stream: Stream) -> Self {
        Self {
            probability,
            stream,
            known: [(0, Probability::NEVER); REMEMBERED],
        }
    }

    /// Changes the probability of one bit; the stream goes on where it was.
    pub(crate) fn set(&mut self, probability: Probability) {
        if self.probability != probability {
            self.probability = probability;
            self.known = [(0, Probability::NEVER); REMEMBERED];
        }
    }

    /// Whether the next packet, of `bytes` that count, has a wrong bit. Without bit errors
    /// nothing is drawn.
    #[inline]
    pub(crate) fn hits(&mut self, bytes: u32) -> bool {
        !self.probability.is_never() && self.of_packet(bytes).hits(self.stream.draw())
    }

    fn of_packet(&mut self, bytes: u32) -> Probability {
        let slot = &mut self.known[bytes as usize % REMEMBERED];
        if slot.0 != bytes {
            *slot = (bytes, any_wrong(self.probability, bytes));
        }
        slot.1
    }
}

/// The probability that any bit of `bytes` is wrong.
fn any_wrong(one: Probability, bytes: u32) -> Probability {
    if one == Probability::ALWAYS && bytes > 0 {
        return Probability::ALWAYS; // the logarithm of zero
    }
    let bits = 8.0 * f64::from(bytes);
    let wrong = -libm::expm1(bits * libm::log1p(-one.as_f64()));
    Probability::from_f64(wrong).unwrap_or(Probability::NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: u64 = 20_260_702;

    /// (1-p)^bits by repeated squaring.
    fn all_right(p: f64, bits: u32) -> f64 {
        let (mut power, mut result) = (1.0 - p, 1.0);
        let mut left = bits;
        while left > 0 {
            if left & 1 == 1 {
                result *= power;
            }
            power *= power;
            left >>= 1;
        }
        result
    }

    #[test]
    fn a_packet_is_wrong_as_its_bits_are() {
        for (numerator, denominator) in [(1, 2), (1, 1_000), (1, 1_000_000), (3, 100_000_000)] {
            let one = Probability::from_ratio(numerator, denominator).unwrap();
            let p = one.as_f64();
            for bytes in [1, 20, 64, 1518, 65_535] {
                let expected = 1.0 - all_right(p, 8 * bytes);
                let got = any_wrong(one, bytes).as_f64();
                assert!(
                    (got - expected).abs() < 1e-10,
                    "{p}, {bytes}: {got}, {expected}"
                );
            }
        }
        // So rare that a packet's probability is the sum of its bits', to the eight digits
        // that its threshold holds.
        let one = Probability::from_ratio(1, 1_000_000_000_000_000).unwrap();
        let ratio = any_wrong(one, 1500).as_f64() / (12_000.0 * one.as_f64());
        assert!((ratio - 1.0).abs() < 1e-8, "{ratio}");
        assert_eq!(any_wrong(Probability::ALWAYS, 1), Probability::ALWAYS);
        assert_eq!(any_wrong(Probability::ALWAYS, 0), Probability::NEVER);
        assert_eq!(any_wrong(one, u32::MAX), any_wrong(one, u32::MAX));
    }

    /// Lengths that share a place in the memory take turns, so each forgets the other.
    #[test]
    fn each_length_has_its_loss_though_they_share_a_place() {
        let one = Probability::from_ratio(1, 100_000).unwrap();
        let mut errors = BitErrors::new(one, Stream::new(SEED, "bits"));
        let lengths = [64, 1504];
        assert_eq!(
            lengths[0] as usize % REMEMBERED,
            lengths[1] as usize % REMEMBERED
        );
        let n = 500_000;
        let mut hits = [0_u32; 2];
        for _ in 0..n {
            for (bytes, hits) in lengths.into_iter().zip(&mut hits) {
                *hits += u32::from(errors.hits(bytes));
            }
        }
        for (bytes, hits) in lengths.into_iter().zip(hits) {
            let p = 1.0 - all_right(1e-5, 8 * bytes);
            let (mean, deviation) = (p * f64::from(n), (p * (1.0 - p) * f64::from(n)).sqrt());
            let error = f64::from(hits) - mean;
            assert!(
                error.abs() < 4.0 * deviation,
                "seed {SEED}, {bytes} B: {hits} for {mean}"
            );
        }
    }

    #[test]
    fn a_change_holds_for_lengths_already_seen() {
        let one = Probability::from_ratio(1, 1_000_000).unwrap();
        let mut errors = BitErrors::new(one, Stream::new(SEED, "set"));
        errors.hits(1500);
        errors.set(Probability::ALWAYS);
        assert!(errors.hits(1500));
        errors.set(Probability::NEVER);
        assert!((0..1000).all(|_| !errors.hits(1500)));
    }
}
