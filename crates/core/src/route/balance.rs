//! Which of several equal next pipes a packet takes.
//!
//! Theory: packets of one flow stay on one pipe, or TCP takes their different delays for loss
//! (RFC 2991). [`Balance::Flow`] needs no memory: the flow's number
//! ([`flow_hash`](crate::packet::flow_hash)) falls into one of equal regions of the number space
//! (hash-threshold, RFC 2992). Its key is made of the run's seed and the node: with the same key
//! everywhere, all flows that a first router sends one way would look alike to the next
//! router, which would use one of its own pipes only (polarisation). [`Balance::RoundRobin`] gives every new flow
//! the next member of the set in turn and remembers it, so that few large flows spread evenly.
//!
//! Bounds: a node remembers [`MAX_FLOWS`] flows. Past that a new one takes the place of an old
//! one by second chance: a hand goes around the places in the order in which they were filled,
//! passes over (once) what was used since it last came by, and takes the first that was not. A
//! forgotten flow that goes on is a new one. The order of packets decides all, no clock does.
//! Memory is allocated as flows appear.
//!
//! Left out: unequal shares, flows that move when they pause (flowlets), ageing by time.

use rustc_hash::FxHashMap;

use super::SetId;
use crate::packet::flow_hash;
use crate::topology::{Balance, NodeId, PipeId};

/// How many flows a node remembers for [`Balance::RoundRobin`].
pub const MAX_FLOWS: usize = 65_536;

/// The memory and the randomness of balanced routes.
#[derive(Debug, Clone, Default)]
pub struct Balancer {
    seed: u64,
    /// By set: whose turn it is.
    turns: Vec<u32>,
    /// By node: its flows.
    flows: FxHashMap<NodeId, Flows>,
}

impl Balancer {
    /// Without any flow; `seed` is the run's.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }

    /// The member of a set that a frame takes at `node`. A flow that is remembered with a pipe
    /// outside of the set, which a reroute leaves behind, counts as new.
    ///
    /// # Panics
    /// Where `members` is empty.
    pub fn choose(
        &mut self,
        node: NodeId,
        set: SetId,
        members: &[PipeId],
        balance: Balance,
        frame: &[u8],
    ) -> PipeId {
        match balance {
            Balance::First => members[0],
            Balance::Flow => {
                let hash = flow_hash(frame, self.key(node));
                // Below the number of members, since the hash is below 2^64.
                members[((u128::from(hash) * members.len() as u128) >> 64) as usize]
            }
            Balance::RoundRobin => {
                let flow = flow_hash(frame, self.key(node));
                let flows = self.flows.entry(node).or_default();
                if let Some(pipe) = flows.find(flow)
                    && members.binary_search(&pipe).is_ok()
                {
                    return pipe;
                }
                if self.turns.len() <= set.index() {
                    self.turns.resize(set.index() + 1, 0);
                }
                let turn = &mut self.turns[set.index()];
                let pipe = members[*turn as usize % members.len()];
                *turn = (*turn + 1) % members.len() as u32;
                flows.remember(flow, pipe);
                pipe
            }
        }
    }

    /// Sets begin anew after a reroute, with their first members; flows stay remembered.
    pub fn reroute(&mut self) {
        self.turns.clear();
    }

    /// The node's own key: neighbouring numbers are far apart (2^64 over the golden ratio).
    const fn key(&self, node: NodeId) -> u64 {
        let salt = (node.0 as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.seed ^ salt
    }
}

/// The flows that a node remembers.
#[derive(Debug, Clone, Default)]
struct Flows {
    /// By flow: its place.
    places: FxHashMap<u64, u32>,
    list: Vec<Remembered>,
    /// The place that is looked at next when one is needed.
    hand: usize,
}

#[derive(Debug, Clone, Copy)]
struct Remembered {
    flow: u64,
    pipe: PipeId,
    /// Used since the hand last came by.
    used: bool,
}

impl Flows {
    /// The pipe of a flow, which counts as used.
    fn find(&mut self, flow: u64) -> Option<PipeId> {
        let place = *self.places.get(&flow)?;
        let known = &mut self.list[place as usize];
        known.used = true;
        Some(known.pipe)
    }

    fn remember(&mut self, flow: u64, pipe: PipeId) {
        if let Some(&place) = self.places.get(&flow) {
            self.list[place as usize].pipe = pipe;
            return;
        }
        let fresh = Remembered {
            flow,
            pipe,
            used: false,
        };
        let place = if self.list.len() < MAX_FLOWS {
            self.list.push(fresh);
            self.list.len() - 1
        } else {
            let place = self.make_room();
            self.places.remove(&self.list[place].flow);
            self.list[place] = fresh;
            place
        };
        self.places.insert(flow, place as u32);
    }

    /// The place to fill again; ends within one turn of the hand, which clears what it passes.
    fn make_room(&mut self) -> usize {
        loop {
            let place = self.hand;
            self.hand = (self.hand + 1) % self.list.len();
            if !std::mem::take(&mut self.list[place].used) {
                return place;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_flows_give_way_unless_they_are_used() {
        let mut flows = Flows::default();
        for flow in 0..MAX_FLOWS as u64 {
            flows.remember(flow, PipeId(1));
        }
        assert_eq!(flows.find(0), Some(PipeId(1)));
        // The hand passes over 0 once and takes 1 and 2; then 0 has had its chance.
        flows.remember(u64::MAX, PipeId(2));
        flows.remember(u64::MAX - 1, PipeId(3));
        let places = [0, 1, 2, 3, u64::MAX, u64::MAX - 1].map(|flow| flows.places.get(&flow));
        assert_eq!(places, [Some(&0), None, None, Some(&3), Some(&1), Some(&2)]);
        for flow in 1 << 32..(1 << 32) + MAX_FLOWS as u64 - 2 {
            flows.remember(flow, PipeId(4));
        }
        assert_eq!(flows.find(0), None);
        assert_eq!(flows.list.len(), MAX_FLOWS);
        assert_eq!(flows.places.len(), MAX_FLOWS);
    }
}
