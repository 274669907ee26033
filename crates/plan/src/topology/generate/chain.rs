//! Routers in a row, with hosts at both ends: the path of n + 1 hops of many TCP studies.

use super::shape::row;
use super::{Args, Family, LinkDefaults, Pipes, Refusal, Size, Sketch, hosts, routers};
use crate::topology::Tier;

pub(super) const FAMILY: Family = Family {
    name: "chain",
    about: "routers in a row, hosts at both ends",
    own: &[
        routers("routers in the row", "3", 1),
        hosts("hosts at each end", "1"),
    ],
    links: LinkDefaults::PLAIN,
    random: false,
    size,
    build,
};

fn size(args: &Args) -> Size {
    let (routers, hosts) = (args.whole("routers") as u64, 2 * args.whole("hosts") as u64);
    Size {
        routers,
        hosts,
        links: routers - 1 + hosts,
    }
}

fn build(args: &Args, _: u64, sketch: &mut Sketch) -> Result<(), Refusal> {
    let (count, pipes) = (args.whole("routers"), Pipes::of(args));
    for n in 0..count {
        sketch.add_router(format!("r{n}"), Tier::Edge, Some(row(n, count)));
    }
    for n in 1..count {
        sketch.add_link(n - 1, n, pipes.router);
    }
    sketch.add_hosts(args.whole("hosts"), &[0, count - 1], pipes.access);
    Ok(())
}
