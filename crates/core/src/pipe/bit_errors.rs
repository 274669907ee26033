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
mod tests;
