//! A FIFO of packets.

use std::collections::VecDeque;

use super::Item;

/// Packets in order of entry.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    items: VecDeque<Item>,
    bytes: u64,
}

impl Fifo {
    #[inline]
    pub(super) fn push(&mut self, item: Item) {
        self.bytes += u64::from(item.bytes);
        self.items.push_back(item);
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Item> {
        let item = self.items.pop_front()?;
        self.bytes -= u64::from(item.bytes);
        Some(item)
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Counted bytes of all packets.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Lets `describe` change each packet.
    pub(super) fn describe(&mut self, describe: &mut impl FnMut(&mut Item)) {
        self.items.iter_mut().for_each(describe);
        self.bytes = self.items.iter().map(|item| u64::from(item.bytes)).sum();
    }

    /// Takes out all.
    pub(super) fn drain(&mut self, each: &mut impl FnMut(Item)) {
        self.items.drain(..).for_each(each);
        self.bytes = 0;
    }
}
