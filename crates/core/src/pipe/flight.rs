//! Packets in flight: sent by a pipe, not yet out at its end.
//!
//! While they keep their order they are a chain through their descriptors. The first one that would come
//! out before its predecessor turns the chain into a heap by (due, sequence), which lasts until all are
//! out. Packets of the same moment come out in the order in which they were sent.
//!
//! The owner keeps the flight's head in a pending set. Of a chain only the head is in the set. Of a heap,
//! every packet that has ever been head is: one that was overtaken becomes head again, and so no entry ever
//! has to be searched for and removed.
//!
//! Left out: what makes packets overtake each other ([`super::wire`]).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::delay::Moment;
use crate::pool::{NIL, Pool};

/// The packets in flight.
#[derive(Debug)]
pub(crate) struct Flight {
    /// The chain; `NIL` while there is a heap.
    head: u32,
    tail: u32,
    /// Whether the chain's head is in the pending set.
    is_known: bool,
    heap: BinaryHeap<Reverse<Entry>>,
    /// The number of the next packet that joins the heap.
    sequence: u64,
    /// One more than the highest number that has come out of the heap.
    passed: u64,
}

/// A packet of a heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    due: Moment,
    sequence: u64,
    index: u32,
    is_known: bool,
}

impl Flight {
    pub(crate) const fn new() -> Self {
        Self {
            head: NIL,
            tail: NIL,
            is_known: false,
            heap: BinaryHeap::new(),
            sequence: 0,
            passed: 0,
        }
    }

    /// Adds a packet that comes out at its `due`.
    pub(crate) fn push(&mut self, index: u32, pool: &mut Pool) {
        let due = pool[index].due();
        pool[index].next = NIL;
        if self.heap.is_empty() {
            if self.tail == NIL {
                self.head = index;
            } else if pool[self.tail].due() <= due {
                pool[self.tail].next = index;
            } else {
                self.turn_into_heap(pool);
                return self.join(index, due);
            }
            self.tail = index;
        } else {
            self.join(index, due);
        }
    }

    fn join(&mut self, index: u32, due: Moment) {
        self.heap.push(Reverse(Entry {
            due,
            sequence: self.sequence,
            index,
            is_known: false,
        }));
        self.sequence += 1;
    }

    /// Turns the chain into a heap.
    #[cold]
    fn turn_into_heap(&mut self, pool: &Pool) {
        let head_is_known = std::mem::take(&mut self.is_known);
        (self.sequence, self.passed) = (0, 0);
        for index in pool.list(self.head) {
            let is_known = head_is_known && index == self.head;
            self.heap.push(Reverse(Entry {
                due: pool[index].due(),
                sequence: self.sequence,
                index,
                is_known,
            }));
            self.sequence += 1;
        }
        (self.head, self.tail) = (NIL, NIL);
    }

    /// When the head comes out, if the pending set does not have it yet. The caller puts it in.
    pub(crate) fn announce(&mut self, pool: &Pool) -> Option<Moment> {
        if self.head != NIL {
            let is_known = std::mem::replace(&mut self.is_known, true);
            return (!is_known).then(|| pool[self.head].due());
        }
        let head = self.heap.peek()?.0;
        if head.is_known {
            return None;
        }
        if let Some(mut head) = self.heap.peek_mut() {
            head.0.is_known = true;
        }
        Some(head.due)
    }

    /// Notes that the pending set has dropped all packets of this flight.
    pub(crate) fn forget(&mut self) {
        self.is_known = false;
        let entries = std::mem::take(&mut self.heap).into_vec();
        let unknown = |Reverse(entry)| {
            Reverse(Entry {
                is_known: false,
                ..entry
            })
        };
        self.heap = entries.into_iter().map(unknown).collect();
    }

    /// Takes out the head; true if it comes out after one that was sent later (reordered, RFC 4737).
    pub(crate) fn pop(&mut self, pool: &Pool) -> Option<(u32, bool)> {
        if self.head != NIL {
            let index = self.head;
            self.head = pool[index].next;
            self.is_known = false;
            if self.head == NIL {
                self.tail = NIL;
            }
            return Some((index, false));
        }
        let Reverse(entry) = self.heap.pop()?;
        let is_late = entry.sequence < self.passed;
        self.passed = self.passed.max(entry.sequence + 1);
        Some((entry.index, is_late))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.head == NIL && self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Origin;
    use crate::time::Time;

    /// Against a sorted list: what comes out, and that the head is always announced, once.
    #[test]
    fn packets_come_out_by_due_and_sequence() {
        let mut seed = 7u32;
        let mut random = move |n: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % n
        };
        let origin = Origin {
            id: 0,
            entered: Time::ZERO,
            shift: 0,
        };
        let mut pool = Pool::new(1000, 128, 0);
        let mut flight = Flight::new();
        let mut model: Vec<(Moment, u32)> = Vec::new();
        let mut announced: Vec<Moment> = Vec::new();
        let (mut sent, mut late, mut latest) = (0u32, 0, None);
        let mut number = std::collections::HashMap::new();
        for step in 0..20_000u32 {
            if random(8) < 4 && model.len() < 900 {
                let spread = if step % 4000 < 2000 { 1 } else { 50 };
                let due = Moment {
                    time: Time::from_ns(u64::from(step / 10 + random(spread))),
                    microstep: 0,
                };
                let index = pool.take(origin).unwrap();
                pool[index].set_due(due);
                flight.push(index, &mut pool);
                model.push((due, sent));
                number.insert(index, sent);
                sent += 1;
            } else if let Some(&least) = model.iter().min() {
                model.retain(|&entry| entry != least);
                let (index, is_late) = flight.pop(&pool).unwrap();
                assert_eq!(number[&index], least.1);
                assert_eq!(is_late, latest.is_some_and(|latest| latest > least.1));
                late += u32::from(is_late);
                latest = latest.max(Some(least.1));
                let at = announced.iter().position(|&due| due == least.0);
                announced.remove(at.expect("the head was announced"));
                pool.release(index);
            }
            assert_eq!(flight.is_empty(), model.is_empty());
            announced.extend(flight.announce(&pool));
            assert!(flight.announce(&pool).is_none());
        }
        assert!(late > 100, "{late} packets were late");
    }
}
