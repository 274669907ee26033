//! A spine of routers with ribs: chains of routers that end in hosts. Long flows along the spine
//! meet short ones that cross a part of it (a parking lot).

use super::{Args, Family, LinkDefaults, Pipes, Refusal, Size, Sketch, hosts};
use crate::limits::MOST_ROUTERS;
use crate::topology::Tier;
use crate::topology::args::Param;

const ROUTERS_MAX: u64 = MOST_ROUTERS as u64;

pub(super) const FAMILY: Family = Family {
    name: "fishbone",
    about: "a spine of routers with ribs on both sides, hosts at their ends",
    own: &[
        Param::whole("spine", "routers of the spine", "4", (1, ROUTERS_MAX)),
        Param::whole(
            "ribs",
            "ribs at each router of the spine",
            "2",
            (0, ROUTERS_MAX),
        ),
        Param::whole("rib_length", "routers of each rib", "1", (1, ROUTERS_MAX)),
        hosts("hosts at the end of each rib", "1"),
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
    let ribs = whole("spine").saturating_mul(whole("ribs"));
    let (bones, hosts) = (
        ribs.saturating_mul(whole("rib_length")),
        ribs.saturating_mul(whole("hosts")),
    );
    let routers = bones.saturating_add(whole("spine"));
    Size {
        routers,
        hosts,
        links: (routers - 1).saturating_add(hosts),
    }
}

fn build(args: &Args, _: u64, sketch: &mut Sketch) -> Result<(), Refusal> {
    let (spine, ribs, pipes) = (args.whole("spine"), args.whole("ribs"), Pipes::of(args));
    // Ribs alternate between the sides of the spine; those of one side are one apart, and spine
    // routers one and a half times their width.
    let width = ribs.div_ceil(2).max(1) as f64;
    let middle = |n: usize| n as f64 * width * 1.5;
    for n in 0..spine {
        sketch.add_router(format!("s{n}"), Tier::Core, Some((middle(n), 0.0)));
    }
    for n in 1..spine {
        sketch.add_link(n - 1, n, pipes.core);
    }
    let mut ends = Vec::new();
    for n in 0..spine {
        for rib in 0..ribs {
            let side = if rib % 2 == 0 { 1.0 } else { -1.0 };
            let x = middle(n) + (rib / 2) as f64 - (width - 1.0) / 2.0;
            let mut last = n;
            for bone in 0..args.whole("rib_length") {
                let position = Some((x, side * (bone + 1) as f64));
                let router = sketch.add_router(format!("s{n}r{rib}b{bone}"), Tier::Edge, position);
                sketch.add_link(last, router, pipes.router);
                last = router;
            }
            ends.push(last);
        }
    }
    sketch.add_hosts(args.whole("hosts"), &ends, pipes.access);
    Ok(())
}
