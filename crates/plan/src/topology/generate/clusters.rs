//! A grid of clusters: sites with a gateway and hosts, joined by a wide area network, as the
//! emulated grids of eWAN and Grid'5000 are.

use super::shape::circle;
use super::{Args, Family, LinkDefaults, Pipes, Refusal, Size, Sketch, hosts};
use crate::topology::Tier;
use crate::topology::args::{Form, Param};

pub(super) const FAMILY: Family = Family {
    name: "clusters",
    about: "sites of hosts behind gateways, joined by a wide-area network whose links have `rate` and `delay`",
    own: &[
        Param::whole("sites", "sites", "4", (1, 10_000)),
        hosts("hosts of each site", "4"),
        Param::new(
            "wan",
            "how the gateways are joined (star: by a router `wan`)",
            Form::Choice(&["mesh", "star", "ring"]),
            "mesh",
        ),
    ],
    links: LinkDefaults {
        router: ("1 Gbit/s", "10 ms"),
        core: None,
        access: ("1 Gbit/s", "50 us"),
    },
    random: false,
    size,
    build,
};

fn size(args: &Args) -> Size {
    let (sites, wan) = (args.whole("sites") as u64, args.choice("wan"));
    let hosts = sites * args.whole("hosts") as u64;
    let between = match wan {
        Some("star") => sites,
        // Two sites have one link, not two in a circle.
        Some("ring") if sites > 2 => sites,
        Some("ring") => sites - 1,
        _ => sites * (sites - 1) / 2,
    };
    Size {
        routers: sites + u64::from(wan == Some("star")),
        hosts,
        links: between + hosts,
    }
}

fn build(args: &Args, _: u64, sketch: &mut Sketch) -> Result<(), Refusal> {
    let (sites, pipes) = (args.whole("sites"), Pipes::of(args));
    for site in 0..sites {
        sketch.add_router(format!("gw{site}"), Tier::Edge, Some(circle(site, sites)));
    }
    match args.choice("wan") {
        Some("star") => {
            let hub = sketch.add_router("wan", Tier::Core, Some((0.0, 0.0)));
            for site in 0..sites {
                sketch.add_link(site, hub, pipes.router);
            }
        }
        Some("ring") => {
            for site in 1..sites {
                sketch.add_link(site - 1, site, pipes.router);
            }
            if sites > 2 {
                sketch.add_link(sites - 1, 0, pipes.router);
            }
        }
        _ => {
            for a in 0..sites {
                for b in a + 1..sites {
                    sketch.add_link(a, b, pipes.router);
                }
            }
        }
    }
    for site in 0..sites {
        for n in 0..args.whole("hosts") {
            let host = sketch.add_host(format!("s{site}h{n}"));
            sketch.add_link(host, site, pipes.access);
        }
    }
    Ok(())
}
