//! FQ-CoDel: flow queueing with CoDel, RFC 8290.
//!
//! Theory: packets are spread over flow queues by a hash (§4.1.1). Queues take turns by deficit
//! round robin in bytes; one that has just become active is in a list of its own that goes
//! first, once (§4.2), so that sparse flows hardly wait. Each queue is under a CoDel of its own
//! (see `codel.rs`). When there is no room the queue with the most bytes loses the packet at its
//! head (§4.1.3), one by one until the new packet has room; of several such queues it is the one
//! that was used first.
//!
//! Where the text leaves a choice: a queue has used up its turn when its deficit is 0 or less;
//! a queue's MAXPACKET is the largest packet that has come so far. As in Linux there are at most
//! 65536 flow queues and a quantum is at least 256 bytes, so that neither memory nor the work at
//! a turn is without bound.
//!
//! A queue takes memory when its first packet comes.

use super::codel::Control;
use super::{Ahead, Drain, Dropped, Enqueued, Item};
use crate::params;
use crate::time::Time;
use crate::units::QueueLimit;

const NIL: u32 = u32::MAX;
const MAX_FLOWS: u32 = 65_536;
const MIN_QUANTUM: u32 = 256;

/// Many flow queues, each under CoDel.
#[derive(Debug)]
pub(super) struct FqCodel {
    params: params::FqCodel,
    /// The flow queue of each value of the hash, or `NIL`; empty before the first packet.
    table: Vec<u32>,
    flows: Vec<Flow>,
    new: List,
    old: List,
    store: Store,
    largest: u32,
}

/// A flow queue.
#[derive(Debug)]
struct Flow {
    chain: Chain,
    deficit: i64,
    /// Whether it is in one of the lists.
    active: bool,
    /// The flow behind it in its list.
    next: u32,
    control: Control,
}

/// The packets of one flow: a linked list in the store.
#[derive(Debug)]
struct Chain {
    head: u32,
    tail: u32,
    bytes: u64,
}

/// A list of flows.
#[derive(Debug)]
struct List {
    head: u32,
    tail: u32,
}

/// The packets of all flows.
#[derive(Debug)]
struct Store {
    entries: Vec<Entry>,
    /// The first unused entry.
    free: u32,
    len: usize,
    bytes: u64,
}

#[derive(Debug)]
struct Entry {
    item: Item,
    next: u32,
}

impl List {
    const EMPTY: Self = Self {
        head: NIL,
        tail: NIL,
    };

    fn push(&mut self, id: u32, flows: &mut [Flow]) {
        flows[id as usize].next = NIL;
        match self.tail {
            NIL => self.head = id,
            tail => flows[tail as usize].next = id,
        }
        self.tail = id;
    }

    fn pop(&mut self, flows: &[Flow]) {
        self.head = flows[self.head as usize].next;
        if self.head == NIL {
            self.tail = NIL;
        }
    }
}

impl Store {
    const EMPTY: Self = Self {
        entries: Vec::new(),
        free: NIL,
        len: 0,
        bytes: 0,
    };

    fn push(&mut self, chain: &mut Chain, item: Item) {
        let entry = Entry { item, next: NIL };
        let at = match self.free {
            NIL => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
            at => {
                self.free = self.entries[at as usize].next;
                self.entries[at as usize] = entry;
                at
            }
        };
        match chain.tail {
            NIL => chain.head = at,
            tail => self.entries[tail as usize].next = at,
        }
        chain.tail = at;
        chain.bytes += u64::from(item.bytes);
        self.bytes += u64::from(item.bytes);
        self.len += 1;
    }

    fn pop(&mut self, chain: &mut Chain) -> Option<Item> {
        if chain.head == NIL {
            return None;
        }
        let at = chain.head;
        let entry = &mut self.entries[at as usize];
        let item = entry.item;
        chain.head = std::mem::replace(&mut entry.next, self.free);
        self.free = at;
        if chain.head == NIL {
            chain.tail = NIL;
        }
        chain.bytes -= u64::from(item.bytes);
        self.bytes -= u64::from(item.bytes);
        self.len -= 1;
        Some(item)
    }
}

impl FqCodel {
    pub(super) fn new(params: params::FqCodel) -> Self {
        Self {
            params,
            table: Vec::new(),
            flows: Vec::new(),
            new: List::EMPTY,
            old: List::EMPTY,
            store: Store::EMPTY,
            largest: 0,
        }
    }

    /// Takes new parameters and keeps its state; false where the number of flow queues differs
    /// and so all packets must be spread anew.
    pub(super) fn set(&mut self, params: params::FqCodel) -> bool {
        let stays = params.flows == self.params.flows;
        if stays {
            self.params = params;
        }
        stays
    }

    pub(super) const fn marks(&self) -> bool {
        self.params.codel.ecn
    }

    pub(super) const fn len(&self) -> usize {
        self.store.len
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.store.bytes
    }

    pub(super) fn enqueue(
        &mut self,
        limit: QueueLimit,
        item: Item,
        drain: Drain,
        on_drop: &mut impl FnMut(Dropped),
    ) -> Enqueued {
        self.push(item);
        loop {
            let ahead = Ahead {
                limit,
                packets: self.store.len - 1,
                bytes: self.store.bytes - u64::from(item.bytes),
                drain,
            };
            if ahead.has_room(item.bytes) {
                return Enqueued::Queued;
            }
            let Some(dropped) = self.drop_from_fattest() else {
                return Enqueued::Queued;
            };
            on_drop(Dropped {
                item: dropped,
                early: false,
            });
            if dropped.index == item.index {
                return Enqueued::Dropped;
            }
        }
    }

    /// Appends a packet to its flow's queue.
    pub(super) fn push(&mut self, item: Item) {
        self.largest = self.largest.max(item.bytes);
        let (id, quantum) = (self.flow_of(item.flow), self.quantum());
        let flow = &mut self.flows[id as usize];
        self.store.push(&mut flow.chain, item);
        if !flow.active {
            flow.active = true;
            flow.deficit = quantum;
            self.new.push(id, &mut self.flows);
        }
    }

    pub(super) fn dequeue(
        &mut self,
        now: Time,
        on_drop: &mut impl FnMut(Dropped),
    ) -> Option<(Item, bool)> {
        let quantum = self.quantum();
        loop {
            let is_new = self.new.head != NIL;
            let list = if is_new { &mut self.new } else { &mut self.old };
            let id = list.head;
            if id == NIL {
                return None;
            }
            let flow = &mut self.flows[id as usize];
            if flow.deficit <= 0 {
                flow.deficit += quantum;
                list.pop(&self.flows);
                self.old.push(id, &mut self.flows);
                continue;
            }
            let (store, chain) = (&mut self.store, &mut flow.chain);
            let mut pop = || store.pop(chain).map(|item| (item, chain.bytes));
            let (params, largest) = (&self.params.codel, self.largest);
            let next = flow
                .control
                .dequeue(params, now, largest, &mut pop, on_drop);
            if let Some((item, marked)) = next {
                flow.deficit -= i64::from(item.bytes);
                return Some((item, marked));
            }
            // An empty new queue has to go through the old list once, so that it cannot come back
            // as a new one before the others had their turn.
            flow.active = is_new;
            list.pop(&self.flows);
            if is_new {
                self.old.push(id, &mut self.flows);
            }
        }
    }

    pub(super) fn describe(&mut self, describe: &mut impl FnMut(&mut Item)) {
        self.store.bytes = 0;
        for flow in &mut self.flows {
            flow.chain.bytes = 0;
            let mut at = flow.chain.head;
            while at != NIL {
                let entry = &mut self.store.entries[at as usize];
                describe(&mut entry.item);
                flow.chain.bytes += u64::from(entry.item.bytes);
                at = entry.next;
            }
            self.store.bytes += flow.chain.bytes;
        }
    }

    /// All packets, those that came at one instant in no particular order.
    pub(super) fn drain(&mut self, each: &mut impl FnMut(Item)) {
        let mut items = Vec::with_capacity(self.len());
        for flow in &mut self.flows {
            while let Some(item) = self.store.pop(&mut flow.chain) {
                items.push(item);
            }
        }
        items.sort_by_key(|item| item.entered);
        items.into_iter().for_each(each);
    }

    fn quantum(&self) -> i64 {
        i64::from(self.params.quantum.max(MIN_QUANTUM))
    }

    /// The flow queue of a hash, made where there is none.
    fn flow_of(&mut self, hash: u64) -> u32 {
        let buckets = self.params.flows.get().min(MAX_FLOWS);
        if self.table.is_empty() {
            self.table.resize(buckets as usize, NIL);
        }
        let bucket = (hash % u64::from(buckets)) as usize;
        if self.table[bucket] == NIL {
            self.table[bucket] = self.flows.len() as u32;
            self.flows.push(Flow {
                chain: Chain {
                    head: NIL,
                    tail: NIL,
                    bytes: 0,
                },
                deficit: 0,
                active: false,
                next: NIL,
                control: Control::default(),
            });
        }
        self.table[bucket]
    }

    /// Takes the packet at the head of the queue with the most bytes.
    fn drop_from_fattest(&mut self) -> Option<Item> {
        let waiting = self.flows.iter_mut().filter(|flow| flow.chain.head != NIL);
        let fattest = waiting.reduce(|most, flow| {
            if flow.chain.bytes > most.chain.bytes {
                flow
            } else {
                most
            }
        })?;
        self.store.pop(&mut fattest.chain)
    }
}
