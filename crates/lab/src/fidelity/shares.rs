//! How many packets were late, in how many episodes: of a run, a second, a host, a pair of hosts.
//!
//! A packet is late when its error is beyond its allowance ([`rule::allowance`](super::rule)).
//! Late packets come in bursts, since a stall of the machine delays all that is due
//! meanwhile. So the unit of judgement is the **episode**: late packets due within [`EPISODE`] of
//! the one before. Shares are a census: each packet is counted, so there is nothing to estimate.

use longhaul_core::{NodeId, Span, Time};

/// Late packets due at most this long after one another belong to one episode.
pub(crate) const EPISODE: Span = Span::from_ms(10);
/// The most pairs of hosts that have shares of their own; the packets of more pairs count for
/// their hosts alone.
const PAIRS_MAX: usize = 8192;
/// A source that is not a node of the topology.
const UNKNOWN: u32 = u32::MAX;

/// The share of late packets of something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shares {
    /// Packets that were due and left.
    pub packets: u64,
    /// Late ones among them.
    pub late: u64,
    /// Packets that were due and that the kernel refused.
    pub lost: u64,
    /// Episodes of late packets.
    pub episodes: u64,
    /// The longest of them, from its first due time to its last.
    pub longest: Span,
    /// The largest error of a late packet.
    pub worst: Span,
    /// The longest delay of a path that a packet took.
    pub path_delay: Span,
    /// The first and the last due time of the last episode.
    episode: Option<[Time; 2]>,
}

impl Shares {
    /// Counts a packet whose path has this delay.
    #[inline]
    pub fn count(&mut self, path_delay: Span) {
        self.packets += 1;
        self.path_delay = self.path_delay.max(path_delay);
    }

    /// Counts the packet that has just been counted as late too, with its error.
    #[inline]
    pub fn count_late(&mut self, due: Time, error: Span) {
        self.late += 1;
        self.worst = self.worst.max(error);
        let [first, last] = match self.episode {
            Some([first, last]) if due.since(last) <= EPISODE => [first, last.max(due)],
            _ => {
                self.episodes += 1;
                [due, due]
            }
        };
        self.longest = self.longest.max(last.since(first));
        self.episode = Some([first, last]);
    }

    /// Late packets over all packets.
    pub fn late_share(&self) -> f64 {
        share(self.late, self.packets)
    }

    /// Adds what was counted elsewhere, later.
    pub fn absorb(&mut self, later: &Self) {
        self.packets += later.packets;
        self.late += later.late;
        self.lost += later.lost;
        self.episodes += later.episodes;
        self.longest = self.longest.max(later.longest);
        self.worst = self.worst.max(later.worst);
        self.path_delay = self.path_delay.max(later.path_delay);
        self.episode = later.episode.or(self.episode);
    }
}

/// `part` of `whole` as a fraction; 0 where the whole is 0.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// The shares of pairs of hosts: a hash table of fixed size with linear probing, so that the
/// packet path allocates nothing.
#[derive(Debug)]
pub struct Pairs {
    slots: Box<[Option<Pair>]>,
    used: usize,
    /// Packets of pairs for which there was no room.
    pub beyond: u64,
}

/// A pair of hosts, in one direction, and its shares.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    from: u32,
    to: u32,
    /// Its shares.
    pub shares: Shares,
}

impl Pair {
    /// Where its packets came from; `None` for addresses of no node.
    pub fn from(&self) -> Option<NodeId> {
        (self.from != UNKNOWN).then_some(NodeId(self.from))
    }

    /// Where they went.
    pub fn to(&self) -> NodeId {
        NodeId(self.to)
    }
}

impl Pairs {
    /// For a topology with this many nodes.
    pub fn new(nodes: usize) -> Self {
        let pairs = nodes.saturating_mul(nodes).clamp(1, PAIRS_MAX);
        // Half of the slots stay free, so that a look-up takes a step or two.
        let slots = (2 * pairs).next_power_of_two();
        Self {
            slots: vec![None; slots].into_boxed_slice(),
            used: 0,
            beyond: 0,
        }
    }

    /// The shares of the packets that go from one node to another, if there is room for them.
    #[inline]
    pub fn find(&mut self, from: Option<NodeId>, to: NodeId) -> Option<&mut Shares> {
        let (from, to) = (from.map_or(UNKNOWN, |node| node.0), to.0);
        let mask = self.slots.len() - 1;
        let key = u64::from(from) << 32 | u64::from(to);
        // Fibonacci hashing: the upper bits of the product are the mixed ones.
        let mut place = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        loop {
            match self.slots[place] {
                Some(pair) if (pair.from, pair.to) == (from, to) => break,
                Some(_) => place = (place + 1) & mask,
                None if 2 * self.used >= self.slots.len() => {
                    self.beyond += 1;
                    return None;
                }
                None => {
                    let shares = Shares::default();
                    self.slots[place] = Some(Pair { from, to, shares });
                    self.used += 1;
                    break;
                }
            }
        }
        self.slots[place].as_mut().map(|pair| &mut pair.shares)
    }

    /// All pairs that packets went between.
    pub fn iter(&self) -> impl Iterator<Item = &Pair> {
        self.slots.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn at_ms(ms: u64) -> Time {
        Time::ZERO + Span::from_ms(ms)
    }

    #[test]
    fn late_packets_near_one_another_are_one_episode() {
        let mut shares = Shares::default();
        for ms in [5, 6, 14, 24, 35, 36, 100] {
            shares.count(Span::ZERO);
            shares.count_late(at_ms(ms), Span::from_ms(1));
        }
        // 5 to 24, 35 to 36, and 100.
        assert_eq!((shares.late, shares.episodes), (7, 3));
        assert_eq!(shares.longest, Span::from_ms(19));
        // One that was due earlier belongs to the last.
        shares.count_late(at_ms(95), Span::from_ms(2));
        assert_eq!((shares.episodes, shares.worst), (3, Span::from_ms(2)));
    }

    #[test]
    fn pairs_are_counted_each_for_itself_as_far_as_there_is_room() {
        for nodes in [3, 400] {
            let mut pairs = Pairs::new(nodes);
            let mut expected = HashMap::new();
            let mut number = 1u64;
            for _ in 0..100_000 {
                number = number
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let (from, to) = (
                    (number >> 33) as usize % nodes,
                    (number >> 48) as usize % nodes,
                );
                let (from, to) = (NodeId(from as u32), NodeId(to as u32));
                if let Some(shares) = pairs.find(Some(from), to) {
                    shares.count(Span::ZERO);
                    *expected.entry((from, to)).or_insert(0) += 1;
                }
            }
            let counted: HashMap<_, u64> = pairs
                .iter()
                .map(|pair| ((pair.from().unwrap(), pair.to()), pair.shares.packets))
                .collect();
            assert_eq!(counted, expected);
            assert_eq!(pairs.beyond > 0, nodes > 100, "{nodes} nodes");
            let all: u64 = expected.values().sum();
            assert_eq!(all + pairs.beyond, 100_000);
        }
    }
}
