//! Who sends to whom: hosts, groups, sets and lists, joined by a pattern.

use std::collections::HashSet;

use longhaul_core::NodeId;
use longhaul_core::rng::Stream;
use longhaul_core::topology::NodeKind;

use super::Context;
use super::random;
use crate::file::traffic::{PatternSpec, TrafficSpec};
use crate::file::wrap::{At, OneOrMany};
use crate::flow_groups::Pairs;
use crate::limits::MAX_FLOWS;
use crate::plan::RunClock;
use crate::plan::nodes::Among;
use crate::text::error::{Faults, Pos, shown};

/// The pairs of an entry, and the port of a program at their other end.
pub(super) fn read(
    name: &At<String>,
    place: Pos,
    spec: &TrafficSpec,
    context: &Context<'_>,
    faults: &mut Faults,
) -> Option<(Pairs, Option<u16>)> {
    let pattern = spec.pattern.as_ref().map(|pattern| pattern.value);
    let meshes = matches!(
        pattern,
        Some(PatternSpec::AllToAll | PatternSpec::Permutation | PatternSpec::Random(_))
    );
    if spec.from.items.is_empty() {
        faults.add(
            place,
            "`from` is missing",
            "name a host or a group: `from: a`",
        );
        return None;
    }
    if spec.to.items.is_empty() && !meshes {
        faults.add(place, "`to` is missing", "name a host or a group: `to: b`");
        return None;
    }
    let (from, _) = hosts(&spec.from, false, context, faults)?;
    let (to, port) = if spec.to.items.is_empty() {
        (from.clone(), None)
    } else {
        hosts(&spec.to, true, context, faults)?
    };
    if let Some((at, _)) = port
        && context.limits.clock == RunClock::Virtual
    {
        let message = "a virtual run has no programs, so nothing listens on a port";
        let hint = "remove the port: the other end is then modelled too; or write `clock: real`";
        faults.add(at, message, hint);
        return None;
    }
    let at = |list: &OneOrMany| list.items.first().map_or(place, |item| item.at);
    let pairs = match pattern.unwrap_or(PatternSpec::Pairwise) {
        PatternSpec::Pairwise => pairwise(&from, &to, at(&spec.to), context, faults),
        PatternSpec::AllToAll => all_to_all(from, to, at(&spec.from), faults),
        PatternSpec::Permutation => {
            let stream = format!("traffic {}", name.value);
            let mut stream = Stream::new(context.seed, &stream);
            permutation(&from, &to, at(&spec.from), &mut stream, faults)
        }
        PatternSpec::Incast => incast(&from, &to, [at(&spec.from), at(&spec.to)], faults),
        PatternSpec::Random(count) => {
            let at = spec.pattern.as_ref().map_or(place, |pattern| pattern.at);
            random::pairs(&name.value, [&from, &to], (at, count), context, faults)
        }
    };
    Some((pairs?, port.map(|(_, port)| port)))
}

/// A port and its position.
type Port = (Pos, u16);

/// The hosts of a list; with `ported`, the port behind them and its position.
fn hosts(
    list: &OneOrMany,
    ported: bool,
    context: &Context<'_>,
    faults: &mut Faults,
) -> Option<(Vec<NodeId>, Option<Port>)> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    let mut ports: Vec<Option<Port>> = Vec::new();
    for item in &list.items {
        let (item, port) = if ported {
            split_port(item, faults)?
        } else {
            (item.clone(), None)
        };
        ports.push(port.map(|port| (item.at, port)));
        // A host that several items name counts once.
        let named = context.nodes.resolve(&item, Among::Hosts, faults)?;
        for &index in named.members().iter().filter(|index| seen.insert(**index)) {
            found.push(host(index, item.at, context, faults)?);
        }
    }
    let port = ports.first().copied().flatten();
    if ports
        .iter()
        .any(|other| other.map(|p| p.1) != port.map(|p| p.1))
    {
        let at = list.items.first().map(|item| item.at).unwrap_or_default();
        let message = "the hosts of one list have different ports";
        faults.add(
            at,
            message,
            "give all the same one, or write an entry for each",
        );
        return None;
    }
    Some((found, port))
}

/// `HOST:PORT`, or a host alone.
fn split_port(item: &At<String>, faults: &mut Faults) -> Option<(At<String>, Option<u16>)> {
    let Some((host, port)) = item.value.split_once(':') else {
        return Some((item.clone(), None));
    };
    let Ok(port @ 1..) = port.parse::<u16>() else {
        let message = format!("`{}` is not a port", shown(port));
        faults.add(
            item.at,
            message,
            "write a number from 1 to 65535, like `to: b:5201`",
        );
        return None;
    };
    let host = At {
        at: item.at,
        value: host.to_owned(),
    };
    Some((host, Some(port)))
}

/// A node of the file's, which must be a host.
fn host(index: usize, at: Pos, context: &Context<'_>, faults: &mut Faults) -> Option<NodeId> {
    let node = &context.nodes.list[index];
    if node.kind != NodeKind::Host {
        let kind = match node.kind {
            NodeKind::Lan => "lan",
            _ => "router",
        };
        let message = format!(
            "`{}` is a {kind}, and flows go from host to host",
            node.name
        );
        faults.add(at, message, "name a host, or make it `kind: host`");
        return None;
    }
    context.topology.find(&node.name)
}

/// The n-th with the n-th, or one with each.
fn pairwise(
    from: &[NodeId],
    to: &[NodeId],
    at: Pos,
    context: &Context<'_>,
    faults: &mut Faults,
) -> Option<Pairs> {
    let list: Vec<(NodeId, NodeId)> = match (from, to) {
        (&[one], many) => many.iter().map(|other| (one, *other)).collect(),
        (many, &[one]) => many.iter().map(|other| (*other, one)).collect(),
        (a, b) if a.len() == b.len() => a.iter().copied().zip(b.iter().copied()).collect(),
        (a, b) => {
            let message = format!("{} hosts cannot be paired with {}", a.len(), b.len());
            let hint = "make the counts equal, or write `pattern: all-to-all`";
            faults.add(at, message, hint);
            return None;
        }
    };
    if let Some((own, _)) = list.iter().find(|(a, b)| a == b) {
        let name = &context.topology.node(*own).name;
        let message = format!("a flow from `{name}` to itself would cross no link");
        let hint = match list.len() {
            1 => "name another host",
            _ if to.len() == 1 => {
                "name other hosts, or write `pattern: incast`, which leaves the receiver out"
            }
            _ => {
                "name other hosts, or write `pattern: all-to-all` or `pattern: permutation`, \
                  which pair no host with itself"
            }
        };
        faults.add(at, message, hint);
        return None;
    }
    Some(Pairs::List(list))
}

fn all_to_all(from: Vec<NodeId>, to: Vec<NodeId>, at: Pos, faults: &mut Faults) -> Option<Pairs> {
    let pairs = Pairs::All(from, to);
    if pairs.is_empty() {
        let message = "this pattern has a single host, and no other to send to";
        faults.add(at, message, "name a group of two hosts or more");
        return None;
    }
    Some(pairs)
}

/// Each with one other, chosen at random, so that each is chosen once.
fn permutation(
    from: &[NodeId],
    to: &[NodeId],
    at: Pos,
    stream: &mut Stream,
    faults: &mut Faults,
) -> Option<Pairs> {
    if from.len() != to.len() {
        let message = format!(
            "a permutation needs as many senders as receivers, not {} and {}",
            from.len(),
            to.len()
        );
        faults.add(at, message, "leave `to` out, or make the counts equal");
        return None;
    }
    let mut to = to.to_vec();
    for index in (1..to.len()).rev() {
        to.swap(index, below(index as u64 + 1, stream));
    }
    // A host that has drawn itself swaps with another one that may take it.
    for index in 0..to.len() {
        if to[index] == from[index] {
            let fits = |other: &usize| from[*other] != to[index] && to[*other] != from[index];
            let start = below(to.len() as u64, stream);
            let mut others = (start..to.len()).chain(0..start).filter(|o| *o != index);
            let Some(other) = others.find(fits) else {
                let message = "there is no permutation in which no host sends to itself";
                faults.add(at, message, "name a group of two hosts or more");
                return None;
            };
            to.swap(index, other);
        }
    }
    Some(Pairs::List(from.iter().copied().zip(to).collect()))
}

/// A uniform draw below `bound`, which is at most 2^32.
pub(super) fn below(bound: u64, stream: &mut Stream) -> usize {
    // The bias is below 2^-32.
    ((u128::from(stream.draw()) * u128::from(bound)) >> 64) as usize
}

/// All with one; itself left out.
fn incast(from: &[NodeId], to: &[NodeId], at: [Pos; 2], faults: &mut Faults) -> Option<Pairs> {
    let &[one] = to else {
        let message = format!("an incast has one receiver, not {}", to.len());
        faults.add(
            at[1],
            message,
            "name one host, or write `pattern: all-to-all`",
        );
        return None;
    };
    let others = from.iter().filter(|host| **host != one);
    let list: Vec<(NodeId, NodeId)> = others.map(|host| (*host, one)).collect();
    if list.is_empty() {
        faults.add(
            at[0],
            "this incast has no senders",
            "name other hosts, or a group",
        );
        return None;
    }
    debug_assert!(list.len() as u64 <= MAX_FLOWS);
    Some(Pairs::List(list))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_reach_everybody_once_and_nobody_itself() {
        let mut stream = Stream::new(3, "x");
        for size in [2u32, 3, 4, 5, 17, 100] {
            for shift in [0, size / 2, size] {
                let from: Vec<NodeId> = (0..size).map(NodeId).collect();
                let to: Vec<NodeId> = (shift..size + shift).map(NodeId).collect();
                let mut faults = Faults::default();
                let pairs = permutation(&from, &to, Pos::default(), &mut stream, &mut faults);
                let Some(Pairs::List(list)) = pairs else {
                    panic!("{size} {shift}: no permutation")
                };
                assert!(list.iter().all(|(a, b)| a != b), "{list:?}");
                let reached: HashSet<NodeId> = list.iter().map(|(_, b)| *b).collect();
                assert_eq!(reached, to.into_iter().collect(), "{list:?}");
            }
        }
    }

    #[test]
    fn all_permutations_are_drawn() {
        let from: Vec<NodeId> = (0..4).map(NodeId).collect();
        let mut seen = HashSet::new();
        let mut stream = Stream::new(3, "x");
        for _ in 0..1000 {
            let mut faults = Faults::default();
            let pairs = permutation(&from, &from, Pos::default(), &mut stream, &mut faults);
            let Some(Pairs::List(list)) = pairs else {
                panic!("no permutation")
            };
            seen.insert(list);
        }
        // The derangements of four.
        assert_eq!(seen.len(), 9);
    }
}
