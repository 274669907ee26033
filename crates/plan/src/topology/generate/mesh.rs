//! Routers that are all joined to one another, each with hosts.

use super::shape::circle;
use super::{Args, Family, LinkDefaults, Pipes, Refusal, Size, Sketch, hosts, routers};
use crate::topology::Tier;

pub(super) const FAMILY: Family = Family {
    name: "mesh",
    about: "a full mesh of routers, each with hosts",
    own: &[
        routers("routers", "4", 1),
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
        links: routers * (routers - 1) / 2 + hosts,
    }
}

fn build(args: &Args, _: u64, sketch: &mut Sketch) -> Result<(), Refusal> {
    let (count, pipes) = (args.whole("routers"), Pipes::of(args));
    for n in 0..count {
        sketch.add_router(format!("r{n}"), Tier::Edge, Some(circle(n, count)));
    }
    for a in 0..count {
        for b in a + 1..count {
            sketch.add_link(a, b, pipes.router);
        }
    }
    let all: Vec<usize> = (0..count).collect();
    sketch.add_hosts(args.whole("hosts"), &all, pipes.access);
    Ok(())
}
