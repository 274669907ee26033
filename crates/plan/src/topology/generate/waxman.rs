//! Random routers on a square, joined the likelier the nearer they are: B. M. Waxman, "Routing
//! of Multipoint Connections" (IEEE JSAC 6(9), 1988). Two routers at distance d are joined with
//! probability β·exp(−d/(α·L)), L being the square's diagonal, the largest distance there can be
//! (some generators swap the names α and β). Distances are delays: `side` is that of the square.
//!
//! Pieces that stay apart are joined by the shortest links that do it: the minimum spanning tree
//! over the pieces (Prim's algorithm, with what is joined already at no cost).

use longhaul_core::Span;

use super::draw::Draws;
use super::{Args, Family, LinkDefaults, Pipes, Refusal, Size, Sketch, hosts};
use crate::topology::args::{Form, Param};
use crate::topology::{SketchPipe, Tier};

pub(super) const FAMILY: Family = Family {
    name: "waxman",
    about: "routers at random places, where nearer ones are more likely to be joined (Waxman 1988)",
    own: &[
        // Every pair is drawn.
        Param::whole("routers", "routers", "50", (1, 10_000)),
        Param::new(
            "alpha",
            "how far links reach, as a fraction of the diagonal",
            Form::Number(0.0, 100.0),
            "0.15",
        ),
        Param::new(
            "beta",
            "probability of a link at distance zero",
            Form::Number(0.0, 1.0),
            "0.4",
        ),
        Param::new(
            "side",
            "delay of a link as long as the side of the square",
            Form::Time,
            "10 ms",
        ),
        hosts("hosts at each router", "1"),
    ],
    links: LinkDefaults {
        router: ("1 Gbit/s", ""),
        ..LinkDefaults::PLAIN
    },
    random: true,
    size,
    build,
};

/// The square's side in the units of a drawing.
const SIDE: f64 = 10.0;
const DIAGONAL: f64 = std::f64::consts::SQRT_2;

fn size(args: &Args) -> Size {
    let routers = args.whole("routers") as u64;
    let hosts = routers * args.whole("hosts") as u64;
    Size {
        routers,
        hosts,
        // The least there will be; the construction counts on.
        links: (routers - 1) + hosts,
    }
}

/// The probability of a link over `distance`, in sides of the square.
pub(super) fn probability(distance: f64, alpha: f64, beta: f64) -> f64 {
    beta * libm::exp(-distance / (alpha * DIAGONAL))
}

fn distance(a: (f64, f64), b: (f64, f64)) -> f64 {
    let (x, y) = (a.0 - b.0, a.1 - b.1);
    (x * x + y * y).sqrt()
}

fn build(args: &Args, seed: u64, sketch: &mut Sketch) -> Result<(), Refusal> {
    let (count, hosts, pipes) = (args.whole("routers"), args.whole("hosts"), Pipes::of(args));
    let (alpha, beta) = (args.number("alpha"), args.number("beta"));
    let mut draws = Draws::new(seed, "waxman");
    let places: Vec<(f64, f64)> = (0..count).map(|_| (draws.unit(), draws.unit())).collect();
    for (n, place) in places.iter().enumerate() {
        let position = Some((place.0 * SIDE, place.1 * SIDE));
        sketch.add_router(format!("r{n}"), Tier::Edge, position);
    }
    let side = args.time("side").unwrap_or_default().as_ns() as f64;
    let pipe = |a: usize, b: usize| SketchPipe {
        delay: args.time("delay").unwrap_or_else(|| {
            // Whole microseconds: nanoseconds would only look exact.
            Span::from_us((distance(places[a], places[b]) * side / 1e3 + 0.5) as u64)
        }),
        ..pipes.router
    };
    let room = args.most_links.saturating_sub(count * hosts);
    for a in 0..count {
        for b in a + 1..count {
            if draws.unit() < probability(distance(places[a], places[b]), alpha, beta) {
                sketch.add_link(a, b, pipe(a, b));
            }
        }
        if sketch.links.len() > room {
            let message = format!("this would be more than {} links", args.most_links);
            return Err(Refusal::new(
                "",
                message,
                "make `routers`, `alpha` or `beta` smaller",
            ));
        }
    }
    let missing = bridges(sketch, &places);
    for (a, b) in &missing {
        sketch.add_link(*a, *b, pipe(*a, *b));
    }
    if !missing.is_empty() {
        let pieces = missing.len() + 1;
        sketch.notes.push(format!(
            "the random graph came out in {pieces} pieces; {} more links join them where they are \
             nearest",
            missing.len()
        ));
    }
    let all: Vec<usize> = (0..count).collect();
    sketch.add_hosts(hosts, &all, pipes.access);
    Ok(())
}

/// The shortest links that make the sketch connected.
fn bridges(sketch: &Sketch, places: &[(f64, f64)]) -> Vec<(usize, usize)> {
    let mut joined: Vec<Vec<usize>> = vec![Vec::new(); places.len()];
    for link in &sketch.links {
        let [a, b] = link.ends;
        joined[a].push(b);
        joined[b].push(a);
    }
    let mut found = Vec::new();
    let mut inside = vec![false; places.len()];
    // The shortest way from inside to each node outside; what is joined is at no distance.
    let mut best: Vec<(f64, usize)> = vec![(f64::INFINITY, 0); places.len()];
    let mut next = Some(0).filter(|_| !places.is_empty());
    while let Some(node) = next {
        inside[node] = true;
        if best[node].0 > 0.0 && best[node].0.is_finite() {
            found.push((best[node].1, node));
        }
        for &neighbour in &joined[node] {
            best[neighbour] = (0.0, node);
        }
        next = None;
        for other in 0..places.len() {
            if inside[other] {
                continue;
            }
            // Two routers at one place are still not joined.
            let length = distance(places[node], places[other]).max(f64::MIN_POSITIVE);
            if length < best[other].0 {
                best[other] = (length, node);
            }
            if next.is_none_or(|next: usize| best[other].0 < best[next].0) {
                next = Some(other);
            }
        }
    }
    found
}
