//! The traffic matrix: who is expected to send how many packets per second to whom.
//!
//! Theory: where hosts are known and their traffic is not, the gravity model: each host sends as
//! much as its links carry, to every other host in proportion to what that one's links carry. It
//! is the worst case of all hosts at once, and the matrix of largest entropy for such sums (Zhang,
//! Roughan, Duffield and Greenberg, SIGMETRICS 2003). It has a product form, so a million hosts
//! need a million numbers. What narrow pipes inside the network hold back is for
//! [`crate::flows`].
//!
//! Packets are of 1500 bytes where nothing says otherwise. A pipe without a rate counts as
//! 1 Gbit/s.
//!
//! Left out: how traffic changes over time, and what an experiment file says
//! (`longhaul-lab` makes matrices of plans).

use longhaul_core::topology::PipeParams;
use longhaul_core::{NodeId, Topology};

/// The bytes of a packet, from the IP header on.
pub const PACKET_BYTES: u32 = 1500;
/// What a pipe without a rate counts as, in bits per second.
const NOMINAL_BITS_PER_S: u64 = 1_000_000_000;

/// Expected traffic.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TrafficMatrix {
    /// Traffic between sets of hosts.
    pub blocks: Vec<Block>,
    /// Traffic between single hosts.
    pub pairs: Vec<Pair>,
}

/// Traffic in product form: from `s` to `d` go (weight of `s`) · (weight of `d`) packets per
/// second, to itself none.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Senders with their weights, each host once.
    pub from: Vec<(NodeId, f64)>,
    /// Receivers with their weights, each host once.
    pub to: Vec<(NodeId, f64)>,
    /// Packets that come back for each, such as acknowledgements.
    pub replies: f64,
}

/// Traffic from one host to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// Who sends.
    pub from: NodeId,
    /// Who receives.
    pub to: NodeId,
    /// Packets per second.
    pub packets: f64,
    /// Packets that come back for each.
    pub replies: f64,
}

impl TrafficMatrix {
    /// The matrix for unknown traffic: each of `hosts` sends to all others, by gravity.
    pub fn all_pairs(topology: &Topology, hosts: &[NodeId]) -> Self {
        Self {
            blocks: vec![Block::gravity(topology, hosts, hosts)],
            pairs: Vec::new(),
        }
    }

    /// Lowers what hosts send or receive in all to what their links carry.
    pub fn limit_to_links(&mut self, topology: &Topology) {
        let nodes = topology.nodes().len();
        let (mut sent, mut received) = (vec![0.0; nodes], vec![0.0; nodes]);
        let sum = |list: &[(NodeId, f64)]| list.iter().map(|(_, weight)| weight).sum::<f64>();
        for block in &self.blocks {
            let (from, to) = (sum(&block.from), sum(&block.to));
            for (host, weight) in &block.from {
                sent[host.index()] += weight * to;
            }
            for (host, weight) in &block.to {
                received[host.index()] += weight * from;
            }
        }
        for pair in &self.pairs {
            sent[pair.from.index()] += pair.packets;
            received[pair.to.index()] += pair.packets;
        }
        for block in &mut self.blocks {
            for (host, weight) in &mut block.from {
                *weight *= part(sends(topology, *host), sent[host.index()]);
            }
            for (host, weight) in &mut block.to {
                *weight *= part(receives(topology, *host), received[host.index()]);
            }
        }
        for pair in &mut self.pairs {
            let out = part(sends(topology, pair.from), sent[pair.from.index()]);
            pair.packets *= out.min(part(receives(topology, pair.to), received[pair.to.index()]));
        }
    }

    /// Whether nothing is sent.
    pub fn is_empty(&self) -> bool {
        let positive = |list: &[(NodeId, f64)]| list.iter().any(|(_, weight)| *weight > 0.0);
        let mut blocks = self.blocks.iter();
        !blocks.any(|block| positive(&block.from) && positive(&block.to))
            && !self.pairs.iter().any(|pair| pair.packets > 0.0)
    }
}

impl Block {
    /// Each of `from` sends to each of `to` by gravity, as much as the links of all senders or
    /// of all receivers carry, whichever is less. Hosts listed twice count once.
    pub fn gravity(topology: &Topology, from: &[NodeId], to: &[NodeId]) -> Self {
        let weighted = |hosts: &[NodeId], mass: fn(&Topology, NodeId) -> f64| {
            let mut hosts = hosts.to_vec();
            hosts.sort_unstable();
            hosts.dedup();
            let masses = hosts.into_iter().map(|host| (host, mass(topology, host)));
            masses.collect::<Vec<_>>()
        };
        let (from, mut to) = (weighted(from, sends), weighted(to, receives));
        let sum = |list: &[(NodeId, f64)]| list.iter().map(|(_, mass)| mass).sum::<f64>();
        let (sent, received) = (sum(&from), sum(&to));
        // What would go to the host itself goes to the others.
        let own: f64 = from
            .iter()
            .filter_map(|(host, mass)| {
                let place = to.binary_search_by_key(host, |(host, _)| *host).ok()?;
                Some(mass * to[place].1)
            })
            .sum();
        let all = sent * received;
        let others = if all > own { all / (all - own) } else { 1.0 };
        let largest = sent.max(received);
        for (_, weight) in &mut to {
            *weight *= if largest > 0.0 { others / largest } else { 0.0 };
        }
        Self {
            from,
            to,
            replies: 0.0,
        }
    }
}

/// The share of the demand that fits.
fn part(capacity: f64, asked: f64) -> f64 {
    if asked > capacity {
        capacity / asked
    } else {
        1.0
    }
}

/// The packets per second that a pipe carries.
pub fn capacity(params: &PipeParams) -> Option<f64> {
    let bits = f64::from(params.framing.counted(PACKET_BYTES)) * 8.0;
    params.rate.map(|rate| rate.bits_per_s() as f64 / bits)
}

/// The same, where one without a rate counts as 1 Gbit/s.
pub fn nominal_capacity(params: &PipeParams) -> f64 {
    let bits = f64::from(params.framing.counted(PACKET_BYTES)) * 8.0;
    capacity(params).unwrap_or(NOMINAL_BITS_PER_S as f64 / bits)
}

/// What the links of a host carry away from it.
pub fn sends(topology: &Topology, host: NodeId) -> f64 {
    let pipes = topology.outgoing(host).iter();
    pipes
        .map(|&pipe| nominal_capacity(&topology.pipe(pipe).params))
        .sum()
}

/// What the links of a host carry to it.
pub fn receives(topology: &Topology, host: NodeId) -> f64 {
    let pipes = topology.outgoing(host).iter();
    pipes
        .map(|&pipe| nominal_capacity(&topology.pipe(topology.pipe(pipe).back).params))
        .sum()
}
