//! A 4-ary heap of keys, the earliest first.
//!
//! The four children of a node are contiguous, one or two cache lines, and a 4-ary heap has half as many
//! levels as a binary one: about half the cache misses. It grows with the pipes, not with the packets: a thousand busy pipes take 16 KB.

use super::{Key, rank};

const ARITY: usize = 4;

/// A priority queue of keys.
#[derive(Debug)]
pub(crate) struct Heap {
    heap: Vec<Key>,
}

impl Heap {
    /// An empty heap with room for the heads of `pipes` pipes.
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
        self.sift_up(self.heap.len() - 1, key);
    }

    /// Replaces the first key by `key`, or removes it. One sift instead of two, which is the usual case:
    /// a pipe's head comes out, and the packet behind it becomes the head.
    #[inline]
    pub(crate) fn replace_first(&mut self, key: Option<Key>) {
        match key.or_else(|| self.heap.pop()) {
            Some(key) if !self.heap.is_empty() => self.sift_down(0, key),
            _ => {}
        }
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Removes all keys of the pipe with a rank. A linear search: only changes of a pipe need it.
    pub(crate) fn remove(&mut self, of: u32) {
        while let Some(at) = self.heap.iter().position(|&key| rank(key) == of) {
            let Some(last) = self.heap.pop() else { return };
            if at == self.heap.len() {
                continue;
            }
            if last < self.heap[at] {
                self.sift_up(at, last);
            } else {
                self.sift_down(at, last);
            }
        }
    }

    #[inline]
    fn sift_up(&mut self, mut at: usize, key: Key) {
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
    fn sift_down(&mut self, mut at: usize, key: Key) {
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
    use crate::pending::{key, moment};
    use crate::pipe::delay::Moment;
    use crate::time::Time;

    #[test]
    fn keys_come_out_in_order() {
        let mut heap = Heap::new(64);
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
                    microstep: (pick % 3) as u16,
                },
                step,
            );
            match pick % 5 {
                0 | 1 if sorted.len() < 200 => {
                    heap.insert(fresh);
                    sorted.push(fresh);
                }
                2 if !sorted.is_empty() => {
                    heap.replace_first(Some(fresh));
                    sorted[0] = fresh;
                }
                3 if !sorted.is_empty() => {
                    let at = pick as usize % sorted.len();
                    heap.remove(rank(sorted[at]));
                    sorted[at] = key(moment(fresh), rank(sorted[at]));
                    heap.insert(sorted[at]);
                }
                4 if !sorted.is_empty() && step % 7 == 0 => {
                    let gone = rank(sorted[pick as usize % sorted.len()]);
                    sorted.retain(|&key| rank(key) != gone);
                    heap.remove(gone);
                }
                _ if !sorted.is_empty() => {
                    heap.replace_first(None);
                    sorted.remove(0);
                }
                _ => {}
            }
            sorted.sort_unstable();
            assert_eq!(heap.first(), sorted.first().copied());
        }
    }
}
