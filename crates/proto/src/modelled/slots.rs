//! The slots of ends under way, and the table from a packet to its slot.

use longhaul_core::topology::NodeId;
use rustc_hash::FxHashMap;

use super::datagrams::{Receiver, Sender};
use super::end::End;
use super::parts::Totals;
use super::side::EndId;

/// Where a packet belongs: the host, its port and the other side's, the other side's address,
/// the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    remote: [u64; 2],
    ports: u64,
}

impl Key {
    pub(super) fn new(
        host: NodeId,
        remote: u128,
        port: u16,
        remote_port: u16,
        is_tcp: bool,
    ) -> Self {
        let ports = u64::from(port) << 16 | u64::from(remote_port);
        // Node numbers have 32 bits, of which a topology uses fewer.
        let host = u64::from(host.0) << 33 | u64::from(is_tcp) << 32;
        Self {
            remote: [(remote >> 64) as u64, remote as u64],
            ports: host | ports,
        }
    }
}

/// What is in a slot.
#[derive(Debug)]
pub(super) enum Active {
    /// A port that waits for the one connection that may come.
    Listening,
    /// An end of a connection.
    Tcp(Box<End>),
    /// The sender of datagrams.
    Sender(Box<Sender>),
    /// Their receiver.
    Receiver(Box<Receiver>),
    /// A connection that this end has given up: whatever still comes of it is reset.
    Failed,
    /// Nothing.
    Free,
}

impl Active {
    /// What an end under way has done so far.
    pub(super) fn totals(&self) -> Option<Totals> {
        match self {
            Self::Tcp(end) => Some(end.totals()),
            Self::Sender(sender) => Some(sender.totals()),
            Self::Receiver(receiver) => Some(receiver.totals()),
            Self::Listening | Self::Failed | Self::Free => None,
        }
    }
}

/// A place for an end.
#[derive(Debug)]
struct Slot {
    end: EndId,
    active: Active,
}

const _: () = assert!(size_of::<Slot>() <= 32);

/// See the module's first line. Which slot an end has depends on who else is there, so nothing
/// that happens may depend on it.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    keys: FxHashMap<Key, u32>,
}

impl Slots {
    /// The slot of a key.
    #[inline]
    pub(super) fn find(&self, key: &Key) -> Option<u32> {
        self.keys.get(key).copied()
    }

    /// What is in a slot.
    #[inline]
    pub(super) fn get(&self, slot: u32) -> &Active {
        &self.slots[slot as usize].active
    }

    /// What is in a slot, to be changed.
    #[inline]
    pub(super) fn get_mut(&mut self, slot: u32) -> &mut Active {
        &mut self.slots[slot as usize].active
    }

    /// Whose slot it is, or was last.
    pub(super) fn end(&self, slot: u32) -> EndId {
        self.slots[slot as usize].end
    }

    /// A slot for an end, which waits there; `key` must be free.
    pub(super) fn add(&mut self, key: Key, end: EndId) -> u32 {
        let new = Slot {
            end,
            active: Active::Listening,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = new;
                slot
            }
            None => {
                self.slots.push(new);
                self.slots.len() as u32 - 1
            }
        };
        let before = self.keys.insert(key, slot);
        debug_assert_eq!(before, None, "two ends of one key");
        slot
    }

    /// Frees a slot and its key.
    pub(super) fn remove(&mut self, key: &Key, slot: u32) {
        let freed = self.keys.remove(key);
        debug_assert_eq!(freed, Some(slot), "another end's key");
        *self.get_mut(slot) = Active::Free;
        self.free.push(slot);
    }

    /// The ends of connections under way.
    pub(super) fn connections(&self) -> impl Iterator<Item = (EndId, &End)> {
        self.slots.iter().filter_map(|slot| match &slot.active {
            Active::Tcp(end) => Some((slot.end, &**end)),
            _ => None,
        })
    }

    /// How many slots there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// How many keys there are.
    #[cfg(test)]
    pub(super) fn keys(&self) -> usize {
        self.keys.len()
    }

    /// The ends under way, and their slots.
    pub(super) fn under_way(&self) -> impl Iterator<Item = (EndId, u32)> {
        let slots = self.slots.iter().zip(0..);
        let is_end = |active: &Active| {
            matches!(
                active,
                Active::Tcp(_) | Active::Sender(_) | Active::Receiver(_)
            )
        };
        slots
            .filter(move |(slot, _)| is_end(&slot.active))
            .map(|(slot, number)| (slot.end, number))
    }
}
