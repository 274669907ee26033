//! Where the nodes of a drawing go.
//!
//! Positions that a sketch has are kept. Without any, a tree is drawn in layers, or in circles
//! around its middle where it is broad; any other network so that distances on paper follow
//! distances in links ([`stress`]), its pieces side by side. Hosts and other nodes with a single
//! link are left out of that and fan out around their neighbours, away from the rest.
//!
//! Everything is deterministic. Left out: edges that bend around nodes.

mod stress;
mod tree;

use std::f64::consts::{PI, TAU};

use super::Sketch;

/// Places by node; always finite.
pub(super) struct Layout {
    /// x to the right, y upwards.
    pub(super) places: Vec<(f64, f64)>,
    /// Half the distance that neighbouring nodes usually have: what a symbol may take.
    pub(super) room: f64,
}

/// The neighbours of each node, each once, in order.
pub(super) type Graph = Vec<Vec<usize>>;

fn graph(sketch: &Sketch) -> Graph {
    let mut graph: Graph = vec![Vec::new(); sketch.nodes.len()];
    for link in &sketch.links {
        let [a, b] = link.ends;
        if a != b {
            graph[a].push(b);
            graph[b].push(a);
        }
    }
    for neighbours in &mut graph {
        neighbours.sort_unstable();
        neighbours.dedup();
    }
    graph
}

/// Gives every node a place.
pub(super) fn place(sketch: &Sketch) -> Layout {
    let graph = graph(sketch);
    let stretch = sketch.stretch();
    let given = sketch.nodes.iter().map(|node| {
        // Beyond this, differences of floating-point numbers are lost.
        let sane = |(x, y): &(f64, f64)| x.abs() < 1e9 && y.abs() < 1e9;
        node.position.filter(sane).map(|(x, y)| (x * stretch, y))
    });
    let mut places: Vec<Option<(f64, f64)>> = given.collect();
    beside_their_routers(sketch, &graph, &mut places);
    if places.iter().all(Option::is_none) {
        places = automatic(&graph);
    }
    let room = spacing(&places, &graph);
    fill(&mut places, &graph, room);
    let places: Vec<(f64, f64)> = places.into_iter().map(Option::unwrap_or_default).collect();
    Layout { places, room }
}

/// Takes the place from hosts that are on top of a neighbour, as those of a town do: they fan
/// out around it instead.
fn beside_their_routers(sketch: &Sketch, graph: &Graph, places: &mut [Option<(f64, f64)>]) {
    for (node, neighbours) in graph.iter().enumerate() {
        let host = sketch.nodes[node].kind == super::Kind::Host;
        let there = |other: &usize| places[node].is_some() && places[*other] == places[node];
        if host && neighbours.iter().any(there) {
            places[node] = None;
        }
    }
}

/// Some nodes with their places.
type Piece = (Vec<usize>, Vec<(f64, f64)>);

/// Places for all nodes but, in a network that is not a tree, those with a single link.
fn automatic(graph: &Graph) -> Vec<Option<(f64, f64)>> {
    let mut places = vec![None; graph.len()];
    // The pieces are placed in rows; each row is as high as its highest piece.
    let pieces = pieces(graph);
    let drawn: Vec<Piece> = pieces
        .into_iter()
        .map(|piece| {
            let links: usize = piece.iter().map(|node| graph[*node].len()).sum();
            if links == 2 * (piece.len() - 1) {
                let places = tree::place(graph, &piece);
                return (piece, places);
            }
            let inner: Vec<usize> = piece
                .into_iter()
                .filter(|node| graph[*node].len() > 1)
                .collect();
            let places = stress::place(graph, &inner);
            (inner, places)
        })
        .collect();
    let area: f64 = drawn
        .iter()
        .map(|(_, p)| (extent(p).0 + 2.0) * (extent(p).1 + 2.0))
        .sum();
    let width = area.sqrt() * 1.3;
    let (mut x, mut y, mut height) = (0.0, 0.0, 0.0f64);
    for (nodes, at) in &drawn {
        let size = extent(at);
        if x > 0.0 && x + size.0 > width {
            (x, y, height) = (0.0, y - height - 2.0, 0.0);
        }
        let left = at.iter().map(|p| p.0).fold(f64::INFINITY, f64::min);
        let top = at.iter().map(|p| p.1).fold(f64::NEG_INFINITY, f64::max);
        for (node, place) in nodes.iter().zip(at) {
            places[*node] = Some((place.0 - left + x, place.1 - top + y));
        }
        x += size.0 + 2.0;
        height = height.max(size.1);
    }
    places
}

/// The connected pieces, the largest first, each in the order of its nodes.
fn pieces(graph: &Graph) -> Vec<Vec<usize>> {
    let mut seen = vec![false; graph.len()];
    let mut pieces = Vec::new();
    for start in 0..graph.len() {
        if seen[start] {
            continue;
        }
        seen[start] = true;
        let mut piece = vec![start];
        let mut next = 0;
        while let Some(&node) = piece.get(next) {
            next += 1;
            for &neighbour in &graph[node] {
                if !std::mem::replace(&mut seen[neighbour], true) {
                    piece.push(neighbour);
                }
            }
        }
        piece.sort_unstable();
        pieces.push(piece);
    }
    pieces.sort_by_key(|piece| std::cmp::Reverse(piece.len()));
    pieces
}

fn extent(places: &[(f64, f64)]) -> (f64, f64) {
    let span = |part: fn(&(f64, f64)) -> f64| {
        let low = places.iter().map(part).fold(f64::INFINITY, f64::min);
        let high = places.iter().map(part).fold(f64::NEG_INFINITY, f64::max);
        if low <= high { high - low } else { 0.0 }
    };
    (span(|p| p.0), span(|p| p.1))
}

/// Half a usual distance: the median over the placed nodes of the way to the nearest other one,
/// looked for among those next to it in the order of x, and among its neighbours.
fn spacing(places: &[Option<(f64, f64)>], graph: &Graph) -> f64 {
    let mut order: Vec<usize> = (0..places.len()).filter(|n| places[*n].is_some()).collect();
    let at = |node: usize| places[node].unwrap_or_default();
    order.sort_by(|a, b| at(*a).0.total_cmp(&at(*b).0));
    let distance = |a: usize, b: usize| {
        let (x, y) = (at(a).0 - at(b).0, at(a).1 - at(b).1);
        (x * x + y * y).sqrt()
    };
    let mut nearest = Vec::with_capacity(order.len());
    for (index, &node) in order.iter().enumerate() {
        let near = order[index.saturating_sub(40)..order.len().min(index + 41)].iter();
        let joined = graph[node].iter().filter(|other| places[**other].is_some());
        let ways = near.chain(joined).filter(|other| **other != node);
        let ways = ways
            .map(|other| distance(node, *other))
            .filter(|way| *way > 0.0);
        nearest.extend(ways.min_by(f64::total_cmp));
    }
    nearest.sort_by(f64::total_cmp);
    match nearest.get(nearest.len() / 2) {
        Some(way) => way / 2.0,
        None => 1.0,
    }
}

/// Places the nodes that have no place around the neighbours that have one.
fn fill(places: &mut [Option<(f64, f64)>], graph: &Graph, room: f64) {
    let mut from: Vec<usize> = (0..places.len()).filter(|n| places[*n].is_some()).collect();
    if from.is_empty() && !places.is_empty() {
        places[0] = Some((0.0, 0.0));
        from.push(0);
    }
    let mut next = 0;
    let mut alone = 0;
    loop {
        while let Some(&node) = from.get(next) {
            next += 1;
            let around: Vec<usize> = graph[node]
                .iter()
                .copied()
                .filter(|n| places[*n].is_none())
                .collect();
            fan(places, graph, node, &around, room);
            from.extend(around);
        }
        // A piece without any place: below all others, each further right.
        let Some(node) = places.iter().position(Option::is_none) else {
            return;
        };
        let lowest = from.iter().filter_map(|n| places[*n]).map(|p| p.1);
        let lowest = lowest.fold(f64::INFINITY, f64::min);
        let y = if alone == 0 {
            lowest - 4.0 * room
        } else {
            lowest
        };
        places[node] = Some((f64::from(alone) * 4.0 * room, y));
        alone += 1;
        from.push(node);
    }
}

/// Places `around` in an arc around `node` that faces away from its placed neighbours; where they
/// are many, in several arcs.
fn fan(places: &mut [Option<(f64, f64)>], graph: &Graph, node: usize, around: &[usize], room: f64) {
    let (x, y) = places[node].unwrap_or_default();
    let (mut away, mut neighbours) = ((0.0, 0.0), 0);
    for (px, py) in graph[node].iter().filter_map(|other| places[*other]) {
        let length = ((px - x) * (px - x) + (py - y) * (py - y)).sqrt();
        if length > 0.0 {
            away = (away.0 - (px - x) / length, away.1 - (py - y) / length);
            neighbours += 1;
        }
    }
    // The sum of unit vectors away from the placed neighbours points to the emptier side; it
    // vanishes where they surround the node.
    let strength = (away.0 * away.0 + away.1 * away.1).sqrt();
    // Between neighbours on all sides there is no way out: downwards is as good as any.
    let middle = if strength > 1e-6 {
        libm::atan2(away.1, away.0)
    } else {
        -PI / 2.0
    };
    let widest = match neighbours {
        0 => TAU,
        1 => 1.2 * PI,
        _ => 0.8 * PI,
    };
    let mut rest = around;
    let mut radius = room;
    while !rest.is_empty() {
        // Symbols half a room apart.
        let fits = ((widest * radius / (0.5 * room)) as usize).max(1);
        let (now, later) = rest.split_at(rest.len().min(fits));
        let step = (widest / now.len() as f64).min(PI / 4.0);
        for (index, other) in now.iter().enumerate() {
            let angle = middle + step * (index as f64 - (now.len() - 1) as f64 / 2.0);
            let place = (x + radius * libm::cos(angle), y + radius * libm::sin(angle));
            places[*other] = Some(place);
        }
        rest = later;
        radius += 0.5 * room;
    }
}
