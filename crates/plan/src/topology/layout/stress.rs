//! Distances on paper that follow distances in links: stress, lowered pair by pair as in Zheng,
//! Pawar and Goodman, "Graph Drawing by Stochastic Gradient Descent" (IEEE TVCG 25(9), 2019).
//! Each step moves two nodes towards the distance d that they should have, by a part that starts
//! at all of it and falls to little, far pairs (weight d⁻²) earlier than near ones.
//!
//! Small networks take all pairs; large ones all links and the pairs with a few pivots, in the
//! manner of Ortmann, Klimenta and Brandes, "A Sparse Stress Model" (2017). A network in which
//! most pairs are linked has no shape, and is a circle.

use std::f64::consts::TAU;

use longhaul_core::rng::Stream;

use super::Graph;

/// Up to this many nodes all pairs count.
const ALL_PAIRS: usize = 1_000;
const PIVOTS: usize = 40;
const ROUNDS: usize = 30;

/// Two nodes and the distance that they should have.
struct Pair {
    ends: [usize; 2],
    distance: f64,
}

/// The places of `nodes`, which the links among them connect.
pub(super) fn place(graph: &Graph, nodes: &[usize]) -> Vec<(f64, f64)> {
    let count = nodes.len();
    let mut index = vec![usize::MAX; graph.len()];
    nodes
        .iter()
        .enumerate()
        .for_each(|(n, node)| index[*node] = n);
    let inner = |node: &usize| {
        let among = graph[*node].iter().map(|other| index[*other]);
        among
            .filter(|other| *other != usize::MAX)
            .collect::<Vec<_>>()
    };
    let graph: Graph = nodes.iter().map(inner).collect();
    let links = graph.iter().map(Vec::len).sum::<usize>() / 2;
    if count < 3 || 3 * links > count * (count - 1) {
        return circle(count);
    }
    let mut pairs = pairs(&graph);
    let longest = pairs.iter().map(|pair| pair.distance).fold(1.0, f64::max);
    // A fixed seed: the same network is always drawn the same way.
    let mut stream = Stream::new(1, "layout");
    let side = longest / 9_007_199_254_740_992.0;
    let mut unit = || (stream.draw() >> 11) as f64 * side;
    let mut places: Vec<(f64, f64)> = (0..count).map(|_| (unit(), unit())).collect();
    // From steps that move the farthest pair all the way to such that hardly move the nearest.
    let (first, last) = (longest * longest, 0.05);
    for round in 0..ROUNDS {
        let part = round as f64 / (ROUNDS - 1) as f64;
        let rate = first * libm::pow(last / first, part);
        for n in (1..pairs.len()).rev() {
            let other = (u128::from(stream.draw()) * (n as u128 + 1)) >> 64;
            pairs.swap(n, other as usize);
        }
        for pair in &pairs {
            step(&mut places, pair, rate);
        }
    }
    places
}

fn step(places: &mut [(f64, f64)], pair: &Pair, rate: f64) {
    let [a, b] = pair.ends;
    let part = (rate / (pair.distance * pair.distance)).min(1.0);
    let (dx, dy) = (places[a].0 - places[b].0, places[a].1 - places[b].1);
    let length = (dx * dx + dy * dy).sqrt();
    // Two nodes at one place part to the right and left.
    let (dx, dy, length) = if length > 1e-9 {
        (dx, dy, length)
    } else {
        (1e-9, 0.0, 1e-9)
    };
    let pull = part * (length - pair.distance) / 2.0 / length;
    places[a] = (places[a].0 - pull * dx, places[a].1 - pull * dy);
    places[b] = (places[b].0 + pull * dx, places[b].1 + pull * dy);
}

fn circle(count: usize) -> Vec<(f64, f64)> {
    let radius = (count as f64 / TAU).max(0.7);
    let place = |n: usize| {
        let angle = TAU * (0.25 - n as f64 / count as f64);
        (radius * libm::cos(angle), radius * libm::sin(angle))
    };
    (0..count).map(place).collect()
}

/// All pairs, or the links and the pairs with pivots that lie far from one another.
fn pairs(graph: &Graph) -> Vec<Pair> {
    let count = graph.len();
    let all = count <= ALL_PAIRS;
    let mut pairs = Vec::new();
    if !all {
        for (a, neighbours) in graph.iter().enumerate() {
            let later = neighbours.iter().filter(|b| **b > a);
            pairs.extend(later.map(|b| Pair {
                ends: [a, *b],
                distance: 1.0,
            }));
        }
    }
    let mut nearest = vec![u32::MAX; count];
    let mut pivot = 0;
    for round in 0..if all { count } else { PIVOTS } {
        let from = if all { round } else { pivot };
        let distances = distances(graph, from);
        for (node, &far) in distances.iter().enumerate() {
            let wanted = if all { node > from } else { far > 1 };
            if wanted && far != u32::MAX {
                pairs.push(Pair {
                    ends: [from, node],
                    distance: f64::from(far),
                });
            }
            nearest[node] = nearest[node].min(far);
        }
        // The next pivot is the node that is farthest from all so far.
        pivot = (0..count)
            .max_by_key(|node| (nearest[*node], std::cmp::Reverse(*node)))
            .unwrap_or(0);
    }
    pairs
}

/// How many links each node is away.
fn distances(graph: &Graph, from: usize) -> Vec<u32> {
    let mut distances = vec![u32::MAX; graph.len()];
    distances[from] = 0;
    let (mut queue, mut next) = (vec![from], 0);
    while let Some(&node) = queue.get(next) {
        next += 1;
        for &other in &graph[node] {
            if distances[other] == u32::MAX {
                distances[other] = distances[node] + 1;
                queue.push(other);
            }
        }
    }
    distances
}
