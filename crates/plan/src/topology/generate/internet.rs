//! An Internet-like graph: routers whose degrees follow a power law, as those of autonomous
//! systems do; some of the smallest are stubs, to which clients are joined.
//!
//! The degree of the router of rank r (from 1) is ⌊(n/r)^0.8⌋: the rank exponent that Faloutsos,
//! Faloutsos and Faloutsos measured ("On Power-Law Relationships of the Internet Topology",
//! SIGCOMM 1999, −0.74 to −0.82), with which a share of d^−1.25 of the routers has a degree of at
//! least d, and a mean of about 3.8 at 4000 routers. Degrees become a graph as in Inet (Jin, Chen
//! and Jamin, 2000): a spanning tree of the routers of degree 2 or more, grown from the largest;
//! then those of degree 1; then the links that are still missing. Each end is chosen in
//! proportion to its degree among the routers that lack links.
//!
//! Links are core links between two transit routers, plain ones at stubs, access links at
//! clients. The graph that Yocum et al. (MASCOTS 2003) emulate is `routers: 4000, stubs: 200,
//! clients: 400`. Left out: Inet's own parameters, fitted to the Internet of a given month.

use super::draw::Draws;
use super::{Args, Family, LinkDefaults, Pipes, Refusal, Size, Sketch, routers};
use crate::limits::MOST_HOSTS;
use crate::topology::Tier;
use crate::topology::args::Param;

pub(super) const FAMILY: Family = Family {
    name: "internet",
    about: "a power-law core of transit routers, stubs at its edge, clients at the stubs",
    own: &[
        Param {
            form: super::Form::Whole(3, 50_000),
            ..routers("routers, stubs included", "100", 3)
        },
        Param::whole(
            "stubs",
            "routers that clients are joined to",
            "20",
            (1, 50_000),
        ),
        Param::whole(
            "clients",
            "hosts, spread evenly over the stubs",
            "40",
            (0, MOST_HOSTS as u64),
        ),
    ],
    links: LinkDefaults {
        router: ("100 Mbit/s", "5 ms"),
        core: Some(("1 Gbit/s", "10 ms")),
        access: ("10 Mbit/s", "1 ms"),
    },
    random: true,
    size,
    build,
};

/// The rank exponent.
const EXPONENT: f64 = 0.8;

fn size(args: &Args) -> Size {
    let whole = |name| args.whole(name) as u64;
    Size {
        routers: whole("routers"),
        hosts: whole("clients"),
        // Degrees sum to less than n·∫(n/r)^0.8/n dr = 5n.
        links: whole("routers") * 5 / 2 + whole("clients"),
    }
}

/// The degree that the router of `rank` (from 0) is to have among `count`.
pub(super) fn degree(rank: usize, count: usize) -> usize {
    let degree = libm::pow(count as f64 / (rank + 1) as f64, EXPONENT);
    (degree as usize).clamp(1, count - 1)
}

fn build(args: &Args, seed: u64, sketch: &mut Sketch) -> Result<(), Refusal> {
    let (count, stubs) = (args.whole("routers"), args.whole("stubs"));
    if stubs >= count {
        let message = format!("there cannot be {stubs} stubs among {count} routers");
        return Err(Refusal::new(
            "stubs",
            message,
            "make `stubs` smaller than `routers`",
        ));
    }
    let pipes = Pipes::of(args);
    let mut draws = Draws::new(seed, "internet");
    let (edges, left_out) = graph(count, &mut draws);
    let mut degrees = vec![0; count];
    for (a, b) in &edges {
        degrees[*a] += 1;
        degrees[*b] += 1;
    }
    // The smallest are stubs; chance decides between equals.
    let mut order: Vec<usize> = (0..count).collect();
    draws.shuffle(&mut order);
    order.sort_by_key(|node| degrees[*node]);
    let mut is_stub = vec![false; count];
    order[..stubs].iter().for_each(|node| is_stub[*node] = true);
    let mut number = [0, 0];
    let mut at_stub = Vec::with_capacity(stubs);
    for (node, &stub) in is_stub.iter().enumerate() {
        let (letter, tier) = if stub {
            ("s", Tier::Edge)
        } else {
            ("r", Tier::Core)
        };
        let n = number[usize::from(stub)];
        number[usize::from(stub)] += 1;
        sketch.add_router(format!("{letter}{n}"), tier, None);
        if stub {
            at_stub.push(node);
        }
    }
    for (a, b) in edges {
        let edge = is_stub[a] || is_stub[b];
        sketch.add_link(a, b, if edge { pipes.router } else { pipes.core });
    }
    if left_out > 0 {
        sketch.notes.push(format!(
            "{left_out} links of the degree sequence would have been parallel and are left out"
        ));
    }
    super::spread_named(sketch, "c", args.whole("clients"), &at_stub, pipes.access);
    Ok(())
}

/// A connected simple graph of the degree sequence, and how many links found no place.
fn graph(count: usize, draws: &mut Draws) -> (Vec<(usize, usize)>, usize) {
    let wanted: Vec<usize> = (0..count).map(|rank| degree(rank, count)).collect();
    let mut lacking = wanted.clone();
    let mut joined: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut edges = Vec::new();
    // Ranks are in the order of degrees: the spanning tree and the leaves in one pass.
    let mut weights = Weights::new(count);
    weights.set(0, wanted[0]);
    for new in 1..count {
        let old = match weights.total() {
            // No router lacks a link any more: the largest takes the rest, and the graph stays
            // connected.
            0 => 0,
            total => weights.find(draws.below(total)),
        };
        edges.push((old, new));
        joined[old].push(new);
        joined[new].push(old);
        for node in [old, new] {
            lacking[node] = lacking[node].saturating_sub(1);
            weights.set(node, if lacking[node] > 0 { wanted[node] } else { 0 });
        }
    }
    // Each router in turn takes the links that it still lacks. Routers that it is joined to already
    // have no weight meanwhile, since a second link between them would not be simple.
    let mut left_out = 0;
    for node in 0..count {
        weights.set(node, 0);
        let mut set_aside = Vec::new();
        while lacking[node] > 0 && weights.total() > 0 {
            let other = weights.find(draws.below(weights.total()));
            if joined[node].contains(&other) {
                weights.set(other, 0);
                set_aside.push(other);
                continue;
            }
            edges.push((node, other));
            joined[node].push(other);
            joined[other].push(node);
            lacking[node] -= 1;
            lacking[other] -= 1;
            if lacking[other] == 0 {
                weights.set(other, 0);
            }
        }
        left_out += lacking[node];
        set_aside
            .into_iter()
            .for_each(|other| weights.set(other, wanted[other]));
    }
    (edges, left_out)
}

/// Weights to choose by, in a binary indexed tree (Fenwick 1994): O(log n) for each step.
struct Weights {
    values: Vec<usize>,
    sums: Vec<usize>,
}

impl Weights {
    fn new(count: usize) -> Self {
        Self {
            values: vec![0; count],
            sums: vec![0; count.next_power_of_two() + 1],
        }
    }

    fn total(&self) -> usize {
        self.sums[self.sums.len() - 1]
    }

    fn set(&mut self, index: usize, weight: usize) {
        let old = std::mem::replace(&mut self.values[index], weight);
        let mut at = index + 1;
        while at < self.sums.len() {
            self.sums[at] = self.sums[at] - old + weight;
            at += at & at.wrapping_neg();
        }
    }

    /// The index at which the running sum passes `target`, which is below the total.
    fn find(&self, mut target: usize) -> usize {
        let (mut at, mut step) = (0, self.sums.len() - 1);
        while step > 0 {
            if at + step < self.sums.len() && self.sums[at + step] <= target {
                at += step;
                target -= self.sums[at];
            }
            step /= 2;
        }
        at.min(self.values.len() - 1)
    }
}
