//! What became of a numbered flow: lost, reordered, duplicated.
//!
//! Reordering is RFC 4737's: a datagram whose number is below one that has already arrived. A
//! window over the newest numbers distinguishes duplicates from latecomers, so that memory does not
//! grow with the flow; what is older than the window counts as reordered.

/// How many of the newest numbers are remembered one by one.
const WINDOW: u64 = 1 << 20;

/// The numbers of one flow that have arrived.
pub(crate) struct Sequence {
    /// One above the highest number that has arrived.
    next: u64,
    /// One bit for each number in the window, at its remainder.
    seen: Vec<u64>,
    /// Different datagrams that have arrived.
    pub(crate) unique: u64,
    /// Those of them that came after a higher number.
    pub(crate) reordered: u64,
    /// Further copies.
    pub(crate) duplicates: u64,
}

impl Sequence {
    /// A flow that starts at number 0.
    pub(crate) fn new() -> Self {
        Self {
            next: 0,
            seen: vec![0; (WINDOW / 64) as usize],
            unique: 0,
            reordered: 0,
            duplicates: 0,
        }
    }

    /// Takes note of an arrival.
    pub(crate) fn note(&mut self, number: u64) {
        if number >= self.next {
            self.forget(self.next, number);
            self.next = number.saturating_add(1);
        } else if self.next - number > WINDOW {
            self.reordered += 1;
            self.unique += 1;
            return;
        } else if *self.word(number) & bit(number) != 0 {
            self.duplicates += 1;
            return;
        } else {
            self.reordered += 1;
        }
        self.unique += 1;
        *self.word(number) |= bit(number);
    }

    /// Numbers below the highest one that have not arrived.
    pub(crate) fn missing(&self) -> u64 {
        self.next.saturating_sub(self.unique)
    }

    /// Clears the bits that numbers `from..=to` are about to use.
    fn forget(&mut self, from: u64, to: u64) {
        if to - from >= WINDOW {
            self.seen.fill(0);
        } else {
            for number in from..=to {
                *self.word(number) &= !bit(number);
            }
        }
    }

    fn word(&mut self, number: u64) -> &mut u64 {
        &mut self.seen[(number % WINDOW / 64) as usize]
    }
}

fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(numbers: &[u64]) -> Sequence {
        let mut sequence = Sequence::new();
        numbers.iter().for_each(|&number| sequence.note(number));
        sequence
    }

    fn figures(s: &Sequence) -> (u64, u64, u64, u64) {
        (s.unique, s.missing(), s.reordered, s.duplicates)
    }

    #[test]
    fn tells_loss_reordering_and_duplication_apart() {
        assert_eq!(figures(&noted(&[0, 1, 2])), (3, 0, 0, 0));
        assert_eq!(figures(&noted(&[0, 3])), (2, 2, 0, 0));
        assert_eq!(figures(&noted(&[2, 0, 1])), (3, 0, 2, 0));
        assert_eq!(figures(&noted(&[0, 1, 1, 0])), (2, 0, 0, 2));
    }

    #[test]
    fn the_window_slides() {
        // The second number shares its bit with number 0.
        assert_eq!(figures(&noted(&[0, WINDOW, WINDOW])), (2, WINDOW - 1, 0, 1));
        // Too old to tell: taken for a latecomer.
        assert_eq!(
            figures(&noted(&[0, 3 * WINDOW, 0])),
            (3, 3 * WINDOW - 2, 1, 0)
        );
    }

    #[test]
    fn the_highest_number_does_no_harm() {
        let sequence = noted(&[u64::MAX, u64::MAX, 5]);
        assert_eq!(sequence.unique, 3);
    }
}
