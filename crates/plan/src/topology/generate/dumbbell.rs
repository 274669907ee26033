//! Two groups of hosts with a bottleneck between them, of one link or several in a row.

use super::shape::row;
use super::{Args, Family, LinkDefaults, Pipes, Refusal, Size, Sketch};
use crate::limits::{MOST_HOSTS, MOST_ROUTERS};
use crate::topology::Tier;
use crate::topology::args::Param;

pub(super) const FAMILY: Family = Family {
    name: "dumbbell",
    about: "hosts on both sides of a bottleneck, whose links have `rate` and `delay`",
    own: &[
        Param::whole("left", "hosts on the left", "2", (0, MOST_HOSTS as u64)),
        Param::whole("right", "hosts on the right", "2", (0, MOST_HOSTS as u64)),
        Param::whole(
            "hops",
            "bottleneck links in a row",
            "1",
            (1, MOST_ROUTERS as u64 - 1),
        ),
    ],
    links: LinkDefaults {
        router: ("100 Mbit/s", "10 ms"),
        core: None,
        access: ("1 Gbit/s", "100 us"),
    },
    random: false,
    size,
    build,
};

fn size(args: &Args) -> Size {
    let (hops, hosts) = (args.whole("hops"), args.whole("left") + args.whole("right"));
    Size {
        routers: hops as u64 + 1,
        hosts: hosts as u64,
        links: (hops + hosts) as u64,
    }
}

fn build(args: &Args, _: u64, sketch: &mut Sketch) -> Result<(), Refusal> {
    let (hops, pipes) = (args.whole("hops"), Pipes::of(args));
    for n in 0..=hops {
        sketch.add_router(format!("r{n}"), Tier::Edge, Some(row(n, hops + 1)));
    }
    for n in 0..hops {
        sketch.add_link(n, n + 1, pipes.router);
    }
    for (side, router) in [("left", 0), ("right", hops)] {
        for n in 0..args.whole(side) {
            let host = sketch.add_host(format!("{side}{n}"));
            sketch.add_link(host, router, pipes.access);
        }
    }
    Ok(())
}
