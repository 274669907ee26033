//! Trees: leaves side by side, every other node above the middle of its children; where there
//! are too many leaves for a row, the same bent into a circle around the root.

use std::f64::consts::TAU;

use super::Graph;

/// The most leaves in a row.
const ROW: usize = 40;

/// The places of a piece that is a tree.
pub(super) fn place(graph: &Graph, piece: &[usize]) -> Vec<(f64, f64)> {
    let Some(root) = middle(graph, piece) else {
        return Vec::new();
    };
    let mut index = vec![usize::MAX; graph.len()];
    piece
        .iter()
        .enumerate()
        .for_each(|(n, node)| index[*node] = n);
    // Nodes in the order of a walk, parents before children; children in the order of numbers.
    let mut order: Vec<(usize, usize, usize)> = Vec::with_capacity(piece.len());
    let mut stack = vec![(root, root, 0)];
    while let Some((node, parent, depth)) = stack.pop() {
        order.push((node, parent, depth));
        let children = graph[node].iter().rev().filter(|child| **child != parent);
        stack.extend(children.map(|child| (*child, node, depth + 1)));
    }
    let mut sum = vec![(0.0, 0.0); piece.len()];
    let mut leaves = 0;
    // A walk meets leaves from left to right.
    for (node, parent, _) in &order {
        if graph[*node].iter().all(|other| other == parent) {
            sum[index[*node]] = (leaves as f64, 1.0);
            leaves += 1;
        }
    }
    for (node, parent, _) in order.iter().rev() {
        let (total, count) = sum[index[*node]];
        if node != parent {
            let above = &mut sum[index[*parent]];
            *above = (above.0 + total / count, above.1 + 1.0);
        }
    }
    let mut places = vec![(0.0, 0.0); piece.len()];
    let rings = leaves > ROW;
    // The outermost circle has room for all leaves, one apart.
    let deepest = order
        .iter()
        .map(|(_, _, depth)| *depth)
        .max()
        .unwrap_or(0)
        .max(1);
    let ring = (leaves as f64 / TAU / deepest as f64).max(1.5);
    for (node, _, depth) in &order {
        let n = index[*node];
        let (x, y) = (sum[n].0 / sum[n].1.max(1.0), *depth as f64);
        places[n] = if rings {
            let angle = TAU * (0.25 - x / leaves as f64);
            (ring * y * libm::cos(angle), ring * y * libm::sin(angle))
        } else {
            (x, -1.5 * y)
        };
    }
    places
}

/// The middle of a longest path of a tree. Two breadth-first searches find the path: the node
/// farthest from any node is one of its ends.
fn middle(graph: &Graph, piece: &[usize]) -> Option<usize> {
    let farthest = |start: usize| {
        let mut parent = vec![usize::MAX; graph.len()];
        parent[start] = start;
        let (mut queue, mut next) = (vec![start], 0);
        while let Some(&node) = queue.get(next) {
            next += 1;
            for &other in &graph[node] {
                if parent[other] == usize::MAX {
                    parent[other] = node;
                    queue.push(other);
                }
            }
        }
        (queue[queue.len() - 1], parent)
    };
    let (end, _) = farthest(*piece.first()?);
    let (other, parent) = farthest(end);
    let mut path = vec![other];
    while path[path.len() - 1] != end {
        path.push(parent[path[path.len() - 1]]);
    }
    // Of two middles the one with more links: a router rather than a host.
    let (a, b) = (path[path.len() / 2], path[(path.len() - 1) / 2]);
    Some(if graph[a].len() > graph[b].len() {
        a
    } else {
        b
    })
}
