//! Trees of routers with hosts as leaves; several trees hang on a full mesh of their roots.
//!
//! `height` is the number of links between the root and a host, so that hosts of different trees are
//! 2·height + 1 links apart. With four trees and 400 hosts these are the target topologies of
//! Yocum et al., "Toward Scaling Network Emulation using Topology Partitioning" (MASCOTS 2003):
//! h2 is `trees: 4, degree: 10, height: 2`; h5 has `height: 5, degree: 2, clients: 400` (the paper
//! does not state the degree of its inner nodes, and 100 is not a fifth power).

use super::{Args, Family, LinkDefaults, Pipes, Refusal, Size, Sketch};
use crate::limits::{MOST_HOSTS, MOST_ROUTERS};
use crate::topology::Tier;
use crate::topology::args::Param;

pub(super) const FAMILY: Family = Family {
    name: "tree",
    about: "trees of routers with hosts as leaves; the roots of several trees form a full mesh of core links",
    own: &[
        Param::whole(
            "degree",
            "children of each router",
            "2",
            (1, MOST_ROUTERS as u64),
        ),
        Param::whole("height", "links between the root and a host", "3", (1, 100)),
        Param::whole(
            "trees",
            "number of trees, joined at their roots",
            "1",
            (1, 1000),
        ),
        Param::whole(
            "clients",
            "total number of hosts, spread evenly; absent: `degree` at each leaf router",
            "",
            (0, MOST_HOSTS as u64),
        ),
    ],
    links: LinkDefaults {
        core: Some(("", "")),
        ..LinkDefaults::PLAIN
    },
    random: false,
    size,
    build,
};

fn size(args: &Args) -> Size {
    let whole = |name| args.whole(name) as u64;
    let (degree, height, trees) = (whole("degree"), whole("height"), whole("trees"));
    let level = |depth: u64| degree.saturating_pow(depth as u32);
    let one = (0..height).map(level).fold(0, u64::saturating_add);
    let routers = one.saturating_mul(trees);
    let leaves = level(height).saturating_mul(trees);
    let hosts = args.maybe_whole("clients").unwrap_or(leaves);
    let inner = routers - trees;
    Size {
        routers,
        hosts,
        links: inner
            .saturating_add(hosts)
            .saturating_add(trees * (trees - 1) / 2),
    }
}

fn build(args: &Args, _: u64, sketch: &mut Sketch) -> Result<(), Refusal> {
    let (degree, height, trees) = (
        args.whole("degree"),
        args.whole("height"),
        args.whole("trees"),
    );
    let pipes = Pipes::of(args);
    let mut level: Vec<usize> = Vec::with_capacity(trees);
    for tree in 0..trees {
        let name = match trees {
            1 => "r0".to_owned(),
            _ => format!("t{tree}r0"),
        };
        let root = sketch.add_router(name, Tier::Core, None);
        for other in &level {
            sketch.add_link(*other, root, pipes.core);
        }
        level.push(root);
    }
    let mut count = vec![1; trees];
    for _ in 1..height {
        let mut next = Vec::with_capacity(level.len() * degree);
        let per_tree = level.len() / trees;
        for (index, parent) in level.iter().enumerate() {
            let tree = index / per_tree;
            for _ in 0..degree {
                let name = match trees {
                    1 => format!("r{}", count[tree]),
                    _ => format!("t{tree}r{}", count[tree]),
                };
                count[tree] += 1;
                let child = sketch.add_router(name, Tier::Edge, None);
                sketch.add_link(*parent, child, pipes.router);
                next.push(child);
            }
        }
        level = next;
    }
    match args.maybe_whole("clients") {
        None => sketch.add_hosts(degree, &level, pipes.access),
        Some(clients) => super::spread(sketch, clients as usize, &level, pipes.access),
    }
    Ok(())
}
