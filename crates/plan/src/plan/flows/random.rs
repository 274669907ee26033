//! The pattern `random: n`: each sender with n others, chosen at random.
//!
//! Each sender draws from a stream of its own, so that further senders change nothing about the
//! others. Floyd's algorithm draws a set of n out of m with n draws and no memory of the rest
//! (Bentley, "Programming Pearls", CACM 30(9), 1987); all sets are equally likely.

use std::collections::{BTreeSet, HashMap};

use longhaul_core::NodeId;
use longhaul_core::rng::Stream;

use super::Context;
use super::ends::below;
use crate::flow_groups::Pairs;
use crate::text::error::{Faults, Pos};

/// The pairs of the traffic `name`: each of `from` with `count` others of `to`.
pub(super) fn pairs(
    name: &str,
    [from, to]: [&[NodeId]; 2],
    (at, count): (Pos, u32),
    context: &Context<'_>,
    faults: &mut Faults,
) -> Option<Pairs> {
    if count == 0 {
        let message = "`random: 0` sends nothing";
        faults.add(at, message, "write at least `random: 1`");
        return None;
    }
    let places: HashMap<NodeId, usize> = to.iter().copied().zip(0..).collect();
    let others = |sender: &NodeId| to.len() - usize::from(places.contains_key(sender));
    let wanted = count as usize;
    if let Some(sender) = from.iter().find(|sender| others(sender) < wanted) {
        let (name, others) = (&context.topology.node(*sender).name, others(sender));
        let message =
            format!("`random: {count}` is too many: `{name}` has only {others} others to send to");
        let hint = match others {
            0 => "name more hosts".to_owned(),
            most => format!("write at most `random: {most}`, or name more hosts"),
        };
        faults.add(at, message, hint);
        return None;
    }
    if from.len() as u64 * u64::from(count) > context.limits.flows {
        super::too_many(at, context, faults);
        return None;
    }
    let mut list = Vec::with_capacity(from.len() * wanted);
    for sender in from {
        let host = &context.topology.node(*sender).name;
        let mut stream = Stream::new(context.seed, &format!("traffic {name} {host}"));
        let own = places.get(sender).copied().unwrap_or(to.len());
        let chosen = subset(wanted, others(sender), &mut stream);
        // The sender itself is skipped.
        let receivers = chosen
            .iter()
            .map(|place| to[place + usize::from(*place >= own)]);
        list.extend(receivers.map(|receiver| (*sender, receiver)));
    }
    Some(Pairs::List(list))
}

/// `count` different numbers below `bound`, which is at least `count`.
fn subset(count: usize, bound: usize, stream: &mut Stream) -> BTreeSet<usize> {
    let mut chosen = BTreeSet::new();
    for last in bound - count..bound {
        let drawn = below(last as u64 + 1, stream);
        if !chosen.insert(drawn) {
            chosen.insert(last);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn subsets_are_of_the_size_and_below_the_bound(count in 0usize..50, more in 0usize..50, seed: u64) {
            let mut stream = Stream::new(seed, "x");
            let chosen = subset(count, count + more, &mut stream);
            prop_assert_eq!(chosen.len(), count);
            prop_assert!(chosen.iter().all(|number| *number < count + more));
        }
    }

    /// Each of the ten sets of two of five is drawn about as often as the others: 1000 times, with
    /// a deviation of 30.
    #[test]
    fn all_subsets_are_equally_likely() {
        let mut stream = Stream::new(3, "x");
        let mut seen: HashMap<BTreeSet<usize>, u32> = HashMap::new();
        for _ in 0..10_000 {
            *seen.entry(subset(2, 5, &mut stream)).or_default() += 1;
        }
        assert_eq!(seen.len(), 10);
        assert!(
            seen.values().all(|count| (850..1150).contains(count)),
            "{seen:?}"
        );
    }
}
