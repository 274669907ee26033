//! Lan segments: what their links must have in common.
//!
//! A segment is one broadcast domain. All its links carry the same packets, so they have one MTU;
//! and segments that are joined to one another form a tree, because what is flooded into a ring
//! would go round in it for ever.

use std::collections::{HashMap, HashSet};

use longhaul_core::topology::NodeKind;

use super::links::Links;
use super::nodes::Nodes;
use crate::file::spec::TopologySpec;
use crate::text::error::{Faults, Pos};

/// Checks the links of all segments.
pub(crate) fn check(spec: &TopologySpec, nodes: &Nodes, links: &Links, faults: &mut Faults) {
    let at = |name: &String| -> Option<Pos> {
        let entry = spec.links.get(*links.origin.get(name)?)?;
        entry.0.as_ref().map(|link| link.at)
    };
    let lan = |name: &String| {
        let index = nodes.find(name)?;
        (nodes.list[index].kind == NodeKind::Lan).then_some(index)
    };
    let mut first: HashMap<usize, (&String, u32)> = HashMap::new();
    // Segments that are joined, each pointing to another one of its domain.
    let mut domain: Vec<usize> = (0..nodes.list.len()).collect();
    let mut joined = HashSet::new();
    for link in &links.list {
        let ends = [lan(&link.ends[0]), lan(&link.ends[1])];
        for end in ends.into_iter().flatten() {
            let (other, mtu) = *first.entry(end).or_insert((&link.name, link.mtu));
            if mtu != link.mtu
                && let Some(at) = at(&link.name)
            {
                let segment = &nodes.list[end].name;
                let message = format!(
                    "the links of the lan `{segment}` have different MTUs: {} here, {mtu} on `{other}`",
                    link.mtu
                );
                faults.add(at, message, "give all links of a lan the same `mtu`");
            }
        }
        let [Some(x), Some(y)] = ends else { continue };
        // Parallel links are not a ring: one of them carries what is flooded.
        if !joined.insert((x.min(y), x.max(y))) {
            continue;
        }
        let roots = [root(&domain, x), root(&domain, y)];
        if roots[0] == roots[1]
            && let Some(at) = at(&link.name)
        {
            let message = format!("`{}` closes a loop of LAN segments", link.name);
            faults.add(
                at,
                message,
                "remove the link, or make one of the lans a router",
            );
        }
        domain[roots[0]] = roots[1];
    }
}

fn root(domain: &[usize], mut node: usize) -> usize {
    while domain[node] != node {
        node = domain[node];
    }
    node
}
