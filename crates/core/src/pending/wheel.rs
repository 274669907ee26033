//! A timing wheel: slots of time, each with an unsorted list of the pipes whose head is due in it.
//!
//! Theory (Varghese and Lauck, SOSP 1987): insertion costs the same however many pipes there are, and
//! nothing is sorted; a look-ahead window takes whole slots and sorts what comes out of them. A slot is a
//! power of two of nanoseconds wide, so the slot of a time is a shift.
//!
//! A slot's list is a chain of chunks, each two cache lines long. A chain of single entries would cost a
//! cache miss for each pipe; a chunk costs one for [`CHUNK`] of them. Each entry also names the head, so
//! that the packet can be prefetched without loading the pipe first. Chunks are reserved at the start:
//! enough for all pipes, and one partly filled chunk for each slot.
//!
//! The wheel holds times from its beginning, which only moves forward, to one turn after it. Later times,
//! and those of pipes without windows, belong in the heap.
//!
//! Left out: a second level for times beyond one turn; such heads are rare.

const NIL: u32 = u32::MAX;

/// Times from here on, in ns, are never in it (292 years).
const END: u64 = 1 << 63;

/// The most slots of a wheel.
const MAX_SLOTS: u64 = 1 << 14;

/// Entries of a chunk: as many as fill two cache lines.
const CHUNK: usize = 15;

/// A pipe and the first packet inside it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) pipe: u32,
    pub(crate) head: u32,
}

/// A part of a slot's list.
#[derive(Debug, Clone)]
#[repr(align(128))]
struct Chunk {
    entries: [Entry; CHUNK],
    /// How many entries are in use; all chunks of a slot but the first are full.
    len: u32,
    /// The slot's next chunk, or the next free one.
    next: u32,
}

/// Pipes by the slot in which their head is due.
#[derive(Debug)]
pub(crate) struct Wheel {
    /// A slot is 2^shift ns wide.
    shift: u32,
    /// The first slot that may hold anything, counted from t = 0.
    begin: u64,
    slots: Box<[Slot]>,
    /// A bit for each slot that is not empty.
    occupied: Box<[u64]>,
    chunks: Vec<Chunk>,
    /// The first free chunk.
    free: u32,
    len: usize,
    least: u64,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    /// Its first chunk.
    first: u32,
    /// The least due of its pipes, in ns.
    least: u64,
}

const EMPTY: Slot = Slot {
    first: NIL,
    least: u64::MAX,
};

impl Wheel {
    /// A wheel for `pipes` pipes with slots of 2^shift ns. It reaches at least `span` ns ahead, or as far
    /// as [`MAX_SLOTS`] allow.
    pub(crate) fn new(pipes: usize, shift: u32, span: u64) -> Self {
        let slots = (span >> shift).saturating_add(2).min(MAX_SLOTS);
        let slots = slots.next_power_of_two().max(64) as usize;
        Self {
            shift,
            begin: 0,
            slots: vec![EMPTY; slots].into(),
            occupied: vec![0; slots / 64].into(),
            chunks: Vec::with_capacity(pipes.div_ceil(CHUNK) + slots.min(pipes)),
            free: NIL,
            len: 0,
            least: u64::MAX,
        }
    }

    /// The number of the slot of a time in ns.
    #[inline]
    pub(crate) const fn slot_of(&self, ns: u64) -> u64 {
        ns >> self.shift
    }

    /// When a slot begins, in ns.
    #[inline]
    pub(crate) const fn start_of(&self, slot: u64) -> u64 {
        slot << self.shift
    }

    /// How many pipes are in it.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The earliest time at which a head is due, in ns; `u64::MAX` if the wheel is empty.
    #[inline]
    pub(crate) const fn least(&self) -> u64 {
        self.least
    }

    /// Inserts a pipe whose head is due at `due` ns; false if that is outside the wheel's turn.
    #[inline(always)]
    pub(crate) fn insert(&mut self, entry: Entry, due: u64) -> bool {
        let slot = self.slot_of(due);
        // Wraps to a large number for slots before the beginning.
        if slot.wrapping_sub(self.begin) >= self.slots.len() as u64 || due >= END {
            return false;
        }
        let at = self.place(slot);
        let slot = &mut self.slots[at];
        slot.least = slot.least.min(due);
        let first = slot.first;
        match self.chunks.get_mut(first as usize) {
            Some(chunk) if (chunk.len as usize) < CHUNK => {
                chunk.entries[chunk.len as usize] = entry;
                chunk.len += 1;
            }
            _ => self.begin_chunk(at, entry),
        }
        self.least = self.least.min(due);
        self.len += 1;
        true
    }

    /// Puts a chunk with one entry in front of the list of the slot at place `at`.
    #[inline(never)] // rare: keeps it out of the hot loop
    fn begin_chunk(&mut self, at: usize, entry: Entry) {
        self.occupied[at / 64] |= 1 << (at % 64);
        let number = self.free;
        let next = std::mem::replace(&mut self.slots[at].first, number);
        if let Some(chunk) = self.chunks.get_mut(number as usize) {
            self.free = chunk.next;
            chunk.entries[0] = entry;
            chunk.len = 1;
            chunk.next = next;
            return;
        }
        self.slots[at].first = self.chunks.len() as u32;
        let mut entries = [Entry::default(); CHUNK];
        entries[0] = entry;
        self.chunks.push(Chunk {
            entries,
            len: 1,
            next,
        });
    }

    /// Moves the beginning to `ns`: the caller inserts nothing due earlier, and nothing earlier is inside.
    pub(crate) fn begin_at(&mut self, ns: u64) {
        debug_assert!(self.least >= ns);
        self.begin = self.begin.max(self.slot_of(ns));
    }

    /// Takes out all pipes of the slots before slot `end`, which is the new beginning.
    pub(crate) fn take(&mut self, end: u64, entries: &mut Vec<Entry>) {
        while self.least < self.start_of(end) {
            let at = self.place(self.slot_of(self.least));
            let mut number = std::mem::replace(&mut self.slots[at], EMPTY).first;
            self.occupied[at / 64] &= !(1 << (at % 64));
            while number != NIL {
                let chunk = &mut self.chunks[number as usize];
                // Copies the whole chunk: a fixed length is faster than the used part alone.
                let len = entries.len() + chunk.len as usize;
                entries.extend_from_slice(&chunk.entries);
                entries.truncate(len);
                self.len -= chunk.len as usize;
                let next = std::mem::replace(&mut chunk.next, self.free);
                self.free = std::mem::replace(&mut number, next);
            }
            self.begin = self.slot_of(self.least) + 1;
            self.least = self.find_least();
        }
        self.begin = self.begin.max(end);
    }

    /// Removes a pipe that was inserted with `due`; returns whether it was there. `due_of` gives the times
    /// of other pipes, which the slot's earliest time is computed from. Searches the slot's list: only
    /// changes of a pipe need it.
    pub(crate) fn remove(&mut self, pipe: u32, due: u64, due_of: impl Fn(u32) -> u64) -> bool {
        let at = self.place(self.slot_of(due));
        let first = self.slots[at].first;
        let (mut least, mut found) = (u64::MAX, None);
        let mut number = first;
        while number != NIL {
            let chunk = &self.chunks[number as usize];
            for (place, entry) in chunk.entries[..chunk.len as usize].iter().enumerate() {
                if entry.pipe == pipe {
                    found = Some((number, place));
                } else {
                    least = least.min(due_of(entry.pipe));
                }
            }
            number = chunk.next;
        }
        let Some((number, place)) = found else {
            return false;
        };
        // The last entry of the first chunk fills the hole, so the other chunks stay full.
        let chunk = &mut self.chunks[first as usize];
        chunk.len -= 1;
        let (last, is_empty, next) = (
            chunk.entries[chunk.len as usize],
            chunk.len == 0,
            chunk.next,
        );
        self.chunks[number as usize].entries[place] = last;
        if is_empty {
            self.chunks[first as usize].next = self.free;
            self.free = first;
            self.slots[at].first = next;
        }
        self.slots[at].least = least;
        self.len -= 1;
        if self.slots[at].first == NIL {
            self.occupied[at / 64] &= !(1 << (at % 64));
        }
        self.least = self.find_least();
        true
    }

    fn place(&self, slot: u64) -> usize {
        slot as usize & (self.slots.len() - 1)
    }

    fn find_least(&self) -> u64 {
        if self.len == 0 {
            return u64::MAX;
        }
        let begin = self.place(self.begin);
        let words = self.occupied.len();
        // A turn starts inside a word, so that word is read twice: first from the beginning's bit on, at
        // last up to it.
        for turn in 0..=words {
            let word = (begin / 64 + turn) % words;
            let mut bits = self.occupied[word];
            if turn == 0 {
                bits &= u64::MAX << (begin % 64);
            }
            if bits != 0 {
                return self.slots[word * 64 + bits.trailing_zeros() as usize].least;
            }
        }
        u64::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a plain list of (due, pipe).
    #[test]
    fn pipes_come_out_with_their_slots() {
        let mut seed = 5u32;
        let mut random = move |n: u64| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            u64::from(seed >> 12) % n
        };
        let mut wheel = Wheel::new(100, 3, 700);
        let mut due = [u64::MAX; 100];
        let (mut now, mut taken) = (0, Vec::new());
        for _ in 0..50_000 {
            let pipe = random(100) as usize;
            match random(8) {
                0..5 if due[pipe] == u64::MAX => {
                    let at = (now + random(1100)).saturating_sub(20);
                    let fits = at / 8 >= now / 8 && at / 8 - now / 8 < 128;
                    let entry = Entry {
                        pipe: pipe as u32,
                        head: !(pipe as u32),
                    };
                    assert_eq!(wheel.insert(entry, at), fits);
                    if fits {
                        due[pipe] = at;
                    }
                }
                5 => {
                    let end = now / 8 + random(20);
                    taken.clear();
                    wheel.take(end, &mut taken);
                    let mut expected: Vec<Entry> = Vec::new();
                    for pipe in 0..100u32 {
                        if due[pipe as usize] / 8 < end {
                            due[pipe as usize] = u64::MAX;
                            expected.push(Entry { pipe, head: !pipe });
                        }
                    }
                    taken.sort_unstable();
                    assert_eq!(taken, expected);
                    now = end * 8;
                }
                6 => {
                    now = (now + random(900)).min(wheel.least());
                    wheel.begin_at(now);
                }
                _ if due[pipe] != u64::MAX => {
                    let at = std::mem::replace(&mut due[pipe], u64::MAX);
                    assert!(wheel.remove(pipe as u32, at, |other| due[other as usize]));
                }
                _ => assert!(!wheel.remove(pipe as u32, now, |other| due[other as usize])),
            }
            assert_eq!(wheel.least(), due.iter().copied().min().unwrap());
            assert_eq!(wheel.len(), due.iter().filter(|&&at| at < u64::MAX).count());
        }
    }
}
