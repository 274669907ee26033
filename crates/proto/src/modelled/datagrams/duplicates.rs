//! Duplicate detection: remembers which of the last 1024 numbers have arrived. Of older ones it is unknown
//! whether they are duplicates.

const WORDS: usize = 16;
const REMEMBERED: u64 = 64 * WORDS as u64;

/// Which of the last numbers have come.
#[derive(Debug, Default)]
pub(super) struct Duplicates {
    /// The number behind the highest one that has come.
    next: u64,
    /// A bit for each number, at its remainder.
    bits: [u64; WORDS],
}

/// What a number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Higher than all before.
    New,
    /// Lower than another one, and come for the first time.
    Late,
    /// Below the window of numbers that are remembered.
    Forgotten,
    /// A copy.
    Again,
}

impl Duplicates {
    pub(super) fn take(&mut self, number: u64) -> Arrival {
        let bit = |number: u64| {
            let place = (number % REMEMBERED) as usize;
            (place / 64, 1 << (place % 64))
        };
        let (word, mask) = bit(number);
        if number >= self.next {
            if number - self.next >= REMEMBERED {
                self.bits = [0; WORDS];
            } else {
                for skipped in self.next..number {
                    let (word, mask) = bit(skipped);
                    self.bits[word] &= !mask;
                }
            }
            self.bits[word] |= mask;
            self.next = number.saturating_add(1);
            return Arrival::New;
        }
        if self.next - number > REMEMBERED {
            return Arrival::Forgotten;
        }
        let was_seen = self.bits[word] & mask != 0;
        self.bits[word] |= mask;
        if was_seen {
            Arrival::Again
        } else {
            Arrival::Late
        }
    }
}
