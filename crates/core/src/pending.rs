//! The pending set: the head of each pipe that is not empty, the earliest first.
//!
//! A 4-ary heap of 128-bit keys that hold the whole order of events (time, microstep, rank): one
//! comparison decides, no key is ever equal to another, and since the set grows with the pipes
//! and not with the packets, a thousand busy pipes are 16 KB. Rank stands for (receiving node,
//! sending pipe); see [`crate::engine`].
//!
//! A pipe whose departures are events has a second place in the set, for its next departure:
//! those come before all that comes out of pipes at the same time.

use crate::pipe::delay::Moment;
use crate::time::Time;

const ARITY: usize = 4;

/// (time, microstep, rank) in one number.
pub(crate) type Key = u128;

/// Set in the low half of the key of a packet that comes out; ranks are below it.
const OUT: u32 = 1 << 31;

/// A packet comes out.
#[inline]
pub(crate) fn key(due: Moment, rank: u32) -> Key {
    Key::from(due.time.as_ns()) << 64 | Key::from(due.microstep) << 32 | Key::from(rank | OUT)
}

/// A packet departs inside its pipe.
#[inline]
pub(crate) fn departure_key(at: Time, rank: u32) -> Key {
    Key::from(at.as_ns()) << 64 | Key::from(rank)
}

/// Whether a packet comes out, and not only departs.
#[inline]
pub(crate) const fn is_out(key: Key) -> bool {
    key as u32 & OUT != 0
}

#[inline]
pub(crate) const fn moment(key: Key) -> Moment {
    Moment {
        time: Time::from_ns((key >> 64) as u64),
        microstep: (key >> 32) as u32,
    }
}

#[inline]
pub(crate) const fn rank(key: Key) -> u32 {
    key as u32 & !OUT
}

/// The heads of all pipes.
#[derive(Debug)]
pub(crate) struct Pending {
    heap: Vec<Key>,
}

impl Pending {
    /// An empty set with room for `pipes` heads.
    pub(crate) fn new(pipes: usize) -> Self {
        Self {
            heap: Vec::with_capacity(pipes),
        }
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<Key> {
        self.heap.first().copied()
    }

    #[inline]
    pub(crate) fn insert(&mut self, key: Key) {
        self.heap.push(key);
        self.rise(self.heap.len() - 1, key);
    }

    /// Puts `key` in the place of the first, or takes the first away.
    #[inline]
    pub(crate) fn replace_first(&mut self, key: Option<Key>) {
        match key.or_else(|| self.heap.pop()) {
            Some(key) if !self.heap.is_empty() => self.sink(0, key),
            _ => {}
        }
    }

    /// Changes the key of a pipe that is in the set. Rare, and therefore a search.
    pub(crate) fn change(&mut self, new: Key) {
        if let Some(at) = self.heap.iter().position(|&key| rank(key) == rank(new)) {
            if new < self.heap[at] {
                self.rise(at, new)
            } else {
                self.sink(at, new)
            }
        }
    }

    /// Takes out all keys of the pipe of a rank. Rare, and therefore a search.
    pub(crate) fn remove(&mut self, of: u32) {
        self.heap.retain(|&key| rank(key) != of);
        self.heap.sort_unstable(); // what is sorted is a heap
    }

    #[inline]
    fn rise(&mut self, mut at: usize, key: Key) {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.heap[parent] < key {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = key;
    }

    #[inline]
    fn sink(&mut self, mut at: usize, key: Key) {
        let heap = self.heap.as_mut_slice();
        loop {
            let child = at * ARITY + 1;
            let least = match heap.get(child..child + ARITY) {
                Some(&[a, b, c, d]) => {
                    let (ab, low) = if b < a { (child + 1, b) } else { (child, a) };
                    let (cd, high) = if d < c {
                        (child + 3, d)
                    } else {
                        (child + 2, c)
                    };
                    if high < low { (cd, high) } else { (ab, low) }
                }
                _ => match (child..heap.len()).min_by_key(|&index| heap[index]) {
                    Some(index) => (index, heap[index]),
                    None => break,
                },
            };
            if key < least.1 {
                break;
            }
            heap[at] = least.1;
            at = least.0;
        }
        heap[at] = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_out_in_order() {
        let mut pending = Pending::new(64);
        let mut seed = 1u32;
        let mut random = || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed >> 20
        };
        let mut sorted: Vec<Key> = Vec::new();
        for step in 0..20_000u32 {
            let pick = random();
            let time = Time::from_ns(u64::from(random()));
            let fresh = key(
                Moment {
                    time,
                    microstep: pick % 3,
                },
                step,
            );
            match pick % 5 {
                0 | 1 if sorted.len() < 200 => {
                    pending.insert(fresh);
                    sorted.push(fresh);
                }
                2 if !sorted.is_empty() => {
                    pending.replace_first(Some(fresh));
                    sorted[0] = fresh;
                }
                3 if !sorted.is_empty() => {
                    let at = pick as usize % sorted.len();
                    sorted[at] = key(moment(fresh), rank(sorted[at]));
                    pending.change(sorted[at]);
                }
                4 if !sorted.is_empty() && step % 7 == 0 => {
                    let gone = rank(sorted[pick as usize % sorted.len()]);
                    sorted.retain(|&key| rank(key) != gone);
                    pending.remove(gone);
                }
                _ if !sorted.is_empty() => {
                    pending.replace_first(None);
                    sorted.remove(0);
                }
                _ => {}
            }
            sorted.sort_unstable();
            assert_eq!(pending.first(), sorted.first().copied());
        }
    }
}
