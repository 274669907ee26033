//! The trace hash: one number for everything that has happened.
//!
//! Theory: two runs are equal if each element (pipe or node) has seen the same packet events at the same
//! times. Each event is hashed from the packet's identity, the time and the kind, and added to the sum of
//! its element; the sums are hashed with the elements' names and added up. A sum does not depend on order,
//! so the number is the same for any steps of [`Engine::advance`](super::Engine::advance), any windows,
//! threads, numbering and build profile. An element that has seen nothing contributes nothing.
//!
//! A packet's identity is the name of the host that sent it and how many packets that host had sent before,
//! not the number of its arrival, which depends on how arrivals of different hosts interleave. A packet
//! that the network makes (reply, fragment, copy) has an identity derived from the original's and from the
//! place.
//!
//! The hash finds differences; it does not protect against forgery. Two different runs collide with a
//! chance of about 2^-64.
//!
//! Left out: bytes beyond the headers; the order of packets that come out of a pipe within one nanosecond.

use siphasher::sip::SipHasher13;

use super::record::Site;
use crate::packet::ETHERNET_LEN;
use crate::parallel::{LocalPipe, Share};
use crate::pool::Pool;
use crate::time::Time;
use crate::topology::NodeId;
use crate::witness::PacketEvent;

/// How many bytes of a packet, from its IP header on, are hashed.
const HEADER_BYTES: usize = 60;

/// How a packet was made from another. The numbers are part of the hash.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origination {
    /// A node's reply to it.
    Reply(NodeId),
    /// A fragment of it, by number.
    Fragment(u32),
    /// A lan's copy for this pipe.
    Copy(LocalPipe),
    /// A pipe duplicated it.
    Duplicate(LocalPipe),
}

/// The trace hash of a run.
#[derive(Debug)]
pub(crate) struct TraceHash {
    pipes: Box<[Element]>,
    nodes: Box<[Element]>,
    /// By host: packets sent so far.
    sent: Box<[u64]>,
    /// By slot of the pool: the identity of its packet.
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
    const fn add(&mut self, identity: u64, time: Time, event: PacketEvent) {
        let hashed = mix(mix(identity, time.as_ns()), event as u64);
        self.sum = self.sum.wrapping_add(hashed);
    }

    /// Adds another engine's sum of the same element.
    const fn join(&mut self, other: &Self) {
        self.name = other.name;
        self.sum = self.sum.wrapping_add(other.sum);
    }

    const fn value(&self) -> u64 {
        if self.sum == 0 {
            0
        } else {
            mix(self.name, self.sum)
        }
    }
}

fn sum_up<'a>(elements: impl Iterator<Item = &'a Element>) -> u64 {
    elements
        .map(Element::value)
        .fold(0, |sum, value| sum.wrapping_add(value))
}

/// Mixes two numbers into one, each bit of which depends on all of theirs.
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
    /// The hash of a share of a network.
    pub(super) fn new(share: &Share) -> Self {
        let topology = share.split.topology();
        let pipes = (0..share.len() as u32).map(LocalPipe);
        let name = |pipe| topology.pipe(share.global(pipe)).name.as_str();
        let nodes = topology.nodes().iter();
        Self {
            sent: vec![0; nodes.len()].into(),
            pipes: pipes.map(|pipe| Element::of(1, name(pipe))).collect(),
            nodes: nodes.map(|node| Element::of(2, &node.name)).collect(),
            identities: Vec::new(),
        }
    }

    /// Adds an event of packet `index`.
    #[inline(always)]
    pub(super) fn see(&mut self, site: Site, what: (u32, Time, PacketEvent), pool: &Pool) {
        let (index, time, event) = what;
        let element = match (event, site) {
            (PacketEvent::In | PacketEvent::Served | PacketEvent::Over, _) => return,
            (PacketEvent::Entered, Site::Node(host)) => return self.enter(host, index, time, pool),
            (_, Site::Pipe(pipe)) => &mut self.pipes[pipe.index()],
            (_, Site::Node(node)) => &mut self.nodes[node.index()],
        };
        element.add(self.identities[index as usize], time, event);
    }

    /// The hash of all so far in a whole network; 0 where nothing has happened.
    pub(super) fn value(&self) -> u64 {
        sum_up(self.pipes.iter().chain(&self.nodes))
    }

    /// The hash of all so far in a network of several shares. What happens in a cut pipe is seen on
    /// both sides of the cut, so the sums of each element are added up before they are hashed.
    pub(super) fn joint<'a>(all: impl Iterator<Item = (&'a Self, &'a Share)>) -> u64 {
        let (mut pipes, mut nodes) = (Vec::new(), Vec::new());
        for (hash, share) in all {
            let topology = share.split.topology();
            pipes.resize(topology.pipes().len(), Element { name: 0, sum: 0 });
            nodes.resize(topology.nodes().len(), Element { name: 0, sum: 0 });
            for (element, local) in hash.pipes.iter().zip(0..) {
                pipes[share.global(LocalPipe(local)).index()].join(element);
            }
            for (whole, element) in nodes.iter_mut().zip(&hash.nodes) {
                whole.join(element);
            }
        }
        sum_up(pipes.iter().chain(&nodes))
    }

    /// The identity of a packet.
    pub(super) fn identity(&self, index: u32) -> u64 {
        self.identities[index as usize]
    }

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
        node.add(mix(identity, content), stamp, PacketEvent::Entered);
    }

    /// Gives packet `new`, made from packet `index`, its identity.
    pub(super) fn originate(&mut self, new: u32, index: u32, how: Origination) {
        let (kind, place) = match how {
            Origination::Reply(node) => (1, self.nodes[node.index()].name),
            Origination::Fragment(number) => (2, u64::from(number)),
            Origination::Copy(pipe) => (3, self.pipes[pipe.index()].name),
            Origination::Duplicate(pipe) => (4, self.pipes[pipe.index()].name),
        };
        let identity = mix(mix(self.identities[index as usize], kind), place);
        self.identify(new, identity);
    }

    /// Sets the identity of packet `index`.
    pub(super) fn identify(&mut self, index: u32, identity: u64) {
        let index = index as usize;
        if self.identities.len() <= index {
            self.identities.resize(index + 1, 0);
        }
        self.identities[index] = identity;
    }
}
