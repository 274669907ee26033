//! The trace hash: one number for all that has happened.
//!
//! Theory: two runs are the same where each element (pipe or node) has seen the same packets, at
//! the same times, with the same fates. Each event is hashed from the packet's identity, the time
//! and the fate, and added to its element's sum; the sums are hashed with the elements' names and
//! added up. Sums do not depend on an order, so the number is the same in whatever order elements
//! take turns: for any steps of [`Engine::advance`](super::Engine::advance), windows, threads, numbering and build profile. An
//! element that has seen nothing counts for nothing.
//!
//! A packet's identity is the name of the host that sent it and how many that host had sent
//! before, and not the number of its arrival, which depends on how arrivals of different hosts are
//! handed over. What the network makes of a packet (reply, fragment, copy) has an identity that
//! follows from it and from the place.
//!
//! It finds differences, and is no protection against forgery: two different runs have the same
//! number with a chance of about 2^-64.
//!
//! Left out: bytes beyond the headers; the order of packets that come out of a pipe within one
//! nanosecond.

use siphasher::sip::SipHasher13;

use crate::packet::ETHERNET_LEN;
use crate::pool::Pool;
use crate::time::Time;
use crate::topology::{NodeId, PipeId, Topology};

/// So many bytes of a packet, from its IP header on, are part of the trace.
const HEADER_BYTES: usize = 60;

/// What becomes of a packet at an element. The numbers are part of the hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It came out of a pipe.
    Out = 1,
    /// A pipe lost it; the time is when its last bit had been sent.
    Loss = 2,
    /// A queue had no room for it, or its discipline dropped it.
    Queue = 3,
    /// The link was down or went down.
    LinkDown = 4,
    /// A discipline marked it.
    Marked = 5,
    /// A pipe changed a bit of it.
    Corrupted = 6,
    /// A host sent it.
    Entered = 16,
    /// It has reached its host.
    Delivered = 17,
    /// It came to a host that it was not for.
    Misdelivered = 18,
    /// It was for a router.
    Absorbed = 19,
    /// Its hop limit ran out.
    HopLimit = 20,
    /// There is no way on.
    NoRoute = 21,
    /// It is larger than the next pipe takes.
    TooBig = 22,
}

/// How a packet came from another one. The numbers are part of the hash.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origination {
    /// A node answers it.
    Reply(NodeId),
    /// A piece of it, by its number.
    Fragment(u32),
    /// A lan's copy for this pipe.
    Copy(PipeId),
    /// A pipe duplicated it.
    Duplicate(PipeId),
}

/// The trace hash, if it is wanted.
#[derive(Debug)]
pub(crate) struct TraceHash(Option<Box<State>>);

#[derive(Debug)]
struct State {
    pipes: Box<[Element]>,
    nodes: Box<[Element]>,
    /// By host: how many packets it has sent.
    sent: Box<[u64]>,
    /// By slot of the pool: who its packet is.
    identities: Vec<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Element {
    /// The hash of its name.
    name: u64,
    sum: u64,
}

impl Element {
    fn of(kind: u64, name: &str) -> Self {
        Self {
            name: SipHasher13::new_with_keys(kind, 0).hash(name.as_bytes()),
            sum: 0,
        }
    }

    #[inline]
    const fn add(&mut self, identity: u64, time: Time, fate: Fate) {
        let event = mix(mix(identity, time.as_ns()), fate as u64);
        self.sum = self.sum.wrapping_add(event);
    }

    const fn value(&self) -> u64 {
        if self.sum == 0 {
            0
        } else {
            mix(self.name, self.sum)
        }
    }
}

/// Two numbers in one, each bit of which depends on all of theirs.
#[inline]
const fn mix(a: u64, b: u64) -> u64 {
    // The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), once for each number.
    finish(finish(a).wrapping_add(b))
}

#[inline]
const fn finish(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl TraceHash {
    /// For a topology, if `wanted`.
    pub(super) fn new(topology: &Topology, wanted: bool) -> Self {
        let state = wanted.then(|| {
            let (nodes, pipes) = (topology.nodes().iter(), topology.pipes().iter());
            Box::new(State {
                sent: vec![0; nodes.len()].into(),
                pipes: pipes.map(|pipe| Element::of(1, &pipe.name)).collect(),
                nodes: nodes.map(|node| Element::of(2, &node.name)).collect(),
                identities: Vec::new(),
            })
        });
        Self(state)
    }

    /// The hash of all so far; 0 where it is not wanted, and where nothing has happened.
    pub(super) fn value(&self) -> u64 {
        let Some(state) = &self.0 else { return 0 };
        let elements = state.pipes.iter().chain(&state.nodes);
        elements
            .map(Element::value)
            .fold(0, |sum, value| sum.wrapping_add(value))
    }

    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Something happens to packet `index` in a pipe.
    #[inline]
    pub(crate) fn pipe(&mut self, pipe: PipeId, index: u32, time: Time, fate: Fate) {
        if let Some(state) = &mut self.0 {
            let identity = state.identities[index as usize];
            state.pipes[pipe.index()].add(identity, time, fate);
        }
    }

    /// Something happens to packet `index` at a node.
    #[inline]
    pub(crate) fn node(&mut self, node: NodeId, index: u32, time: Time, fate: Fate) {
        if let Some(state) = &mut self.0 {
            let identity = state.identities[index as usize];
            state.nodes[node.index()].add(identity, time, fate);
        }
    }

    /// A host sends packet `index`.
    #[inline]
    pub(super) fn enter(&mut self, host: NodeId, index: u32, stamp: Time, pool: &Pool) {
        if let Some(state) = &mut self.0 {
            state.enter(host, index, stamp, pool);
        }
    }

    /// Packet `new` comes from packet `index`.
    #[inline]
    pub(crate) fn originate(&mut self, new: u32, index: u32, how: Origination) {
        if let Some(state) = &mut self.0 {
            state.originate(new, index, how);
        }
    }
}

impl State {
    #[cold]
    fn enter(&mut self, host: NodeId, index: u32, stamp: Time, pool: &Pool) {
        let sent = &mut self.sent[host.index()];
        let identity = mix(self.nodes[host.index()].name, *sent);
        *sent += 1;
        self.identify(index, identity);
        let packet = &pool[index];
        let headers = pool.headers(index);
        let end = headers.len().min(ETHERNET_LEN + HEADER_BYTES);
        let bytes = headers.get(ETHERNET_LEN..end).unwrap_or_default();
        let content = SipHasher13::new_with_keys(3, 0).hash(bytes);
        let content = mix(content, u64::from(packet.ip_len()));
        // A segment's headers are those of its super-packet.
        let content = mix(content, u64::from(packet.segment));
        let node = &mut self.nodes[host.index()];
        node.add(mix(identity, content), stamp, Fate::Entered);
    }

    #[cold]
    fn originate(&mut self, new: u32, index: u32, how: Origination) {
        let (kind, place) = match how {
            Origination::Reply(node) => (1, self.nodes[node.index()].name),
            Origination::Fragment(number) => (2, u64::from(number)),
            Origination::Copy(pipe) => (3, self.pipes[pipe.index()].name),
            Origination::Duplicate(pipe) => (4, self.pipes[pipe.index()].name),
        };
        let identity = mix(mix(self.identities[index as usize], kind), place);
        self.identify(new, identity);
    }

    fn identify(&mut self, index: u32, identity: u64) {
        let index = index as usize;
        if self.identities.len() <= index {
            self.identities.resize(index + 1, 0);
        }
        self.identities[index] = identity;
    }
}
