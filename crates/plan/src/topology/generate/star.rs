//! Sites around a hub. A single router with hosts is `tree` with `height: 1`.

use super::shape::circle;
use super::{Args, Family, LinkDefaults, Pipes, Refusal, Size, Sketch, hosts};
use crate::limits::MOST_ROUTERS;
use crate::topology::Tier;
use crate::topology::args::Param;

pub(super) const FAMILY: Family = Family {
    name: "star",
    about: "a hub and routers around it, each with hosts",
    own: &[
        Param::whole(
            "leaves",
            "routers around the hub",
            "4",
            (1, MOST_ROUTERS as u64 - 1),
        ),
        hosts("hosts at each leaf", "1"),
    ],
    links: LinkDefaults::PLAIN,
    random: false,
    size,
    build,
};

fn size(args: &Args) -> Size {
    let leaves = args.whole("leaves") as u64;
    let hosts = leaves * args.whole("hosts") as u64;
    Size {
        routers: leaves + 1,
        hosts,
        links: leaves + hosts,
    }
}

fn build(args: &Args, _: u64, sketch: &mut Sketch) -> Result<(), Refusal> {
    let (leaves, pipes) = (args.whole("leaves"), Pipes::of(args));
    let hub = sketch.add_router("hub", Tier::Core, Some((0.0, 0.0)));
    for n in 0..leaves {
        let leaf = sketch.add_router(format!("r{n}"), Tier::Edge, Some(circle(n, leaves)));
        sketch.add_link(hub, leaf, pipes.router);
    }
    let edge: Vec<usize> = (1..=leaves).collect();
    sketch.add_hosts(args.whole("hosts"), &edge, pipes.access);
    Ok(())
}
