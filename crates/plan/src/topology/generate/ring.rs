//! Routers in a circle, each with hosts.

use super::shape::circle;
use super::{Args, Family, LinkDefaults, Pipes, Refusal, Size, Sketch, hosts, routers};
use crate::topology::Tier;

pub(super) const FAMILY: Family = Family {
    name: "ring",
    about: "routers in a ring, each with hosts",
    own: &[
        routers("routers in the ring", "4", 3),
        hosts("hosts at each router", "1"),
    ],
    links: LinkDefaults::PLAIN,
    random: false,
    size,
    build,
};

fn size(args: &Args) -> Size {
    let routers = args.whole("routers") as u64;
    let hosts = routers * args.whole("hosts") as u64;
    Size {
        routers,
        hosts,
        links: routers + hosts,
    }
}

fn build(args: &Args, _: u64, sketch: &mut Sketch) -> Result<(), Refusal> {
    let (count, pipes) = (args.whole("routers"), Pipes::of(args));
    for n in 0..count {
        sketch.add_router(format!("r{n}"), Tier::Edge, Some(circle(n, count)));
    }
    for n in 0..count {
        sketch.add_link(n, (n + 1) % count, pipes.router);
    }
    let all: Vec<usize> = (0..count).collect();
    sketch.add_hosts(args.whole("hosts"), &all, pipes.access);
    Ok(())
}
