//! A V-cycle: a partition is coarsened along itself and refined on the way back.
//!
//! Theory: refinement moves single vertices, and what is well joined moves only together. Matching
//! vertices of one part, by heavy edges in a random order, makes such groups; a refinement of the
//! coarse graph moves them whole. The cut of the partition is the same at every level, so
//! nothing is lost on the way down.

use super::super::refine::{Limits, refine};
use super::super::{Draws, any_order};
use crate::graph::{Graph, Groups};

/// A partition of `graph` that is refined at every level; `part` is where it begins.
pub(super) fn v_cycle(
    graph: &Graph,
    part: &[u16],
    cores: u16,
    limits: Limits,
    draws: &mut Draws,
) -> Vec<u16> {
    let coarsest = 8 * usize::from(cores).max(4);
    let mut levels: Vec<(Graph, Groups)> = Vec::new();
    let mut parts = part.to_vec();
    loop {
        let finest = levels.last().map_or(graph, |(graph, _)| graph);
        if finest.len() <= coarsest {
            break;
        }
        let groups = matching(finest, &parts, draws);
        if groups.count * 20 > finest.len() * 19 {
            break;
        }
        let mut coarse = vec![0; groups.count];
        for (part, group) in parts.iter().zip(&groups.of) {
            coarse[*group as usize] = *part;
        }
        parts = coarse;
        levels.push((finest.contract(&groups), groups));
    }
    while let Some((coarse, groups)) = levels.pop() {
        refine(&coarse, &mut parts, cores, limits);
        parts = groups.spread(&parts);
    }
    refine(graph, &mut parts, cores, limits);
    parts
}

/// Pairs of neighbours in one part, each vertex with the free one that it is joined to most.
fn matching(graph: &Graph, parts: &[u16], draws: &mut Draws) -> Groups {
    const FREE: u32 = u32::MAX;
    let mut with = vec![FREE; graph.len()];
    for vertex in any_order(graph, draws) {
        if with[vertex as usize] != FREE {
            continue;
        }
        let partners = graph.arcs(vertex).iter().filter(|arc| {
            with[arc.peer as usize] == FREE && parts[arc.peer as usize] == parts[vertex as usize]
        });
        let partner = partners.max_by_key(|arc| (arc.weight, std::cmp::Reverse(arc.peer)));
        let partner = partner.map_or(vertex, |arc| arc.peer);
        with[vertex as usize] = partner;
        with[partner as usize] = vertex;
    }
    let pairs = with
        .iter()
        .zip(0..)
        .map(|(&partner, vertex)| [vertex, partner]);
    Groups::join(graph.len(), pairs)
}
