//! The fat tree of Al-Fares, Loukissas and Vahdat, "A Scalable, Commodity Data Center Network
//! Architecture" (SIGCOMM 2008): k pods of k/2 edge and k/2 aggregation switches, (k/2)² core
//! switches, k³/4 hosts; every switch has k ports. The i-th aggregation switch of each pod is
//! joined to the core switches i·k/2 … (i+1)·k/2 − 1, which gives (k/2)² equal paths between
//! hosts of different pods.

use super::{Args, Family, LinkDefaults, Pipes, Refusal, Size, Sketch};
use crate::limits::MOST_HOSTS;
use crate::topology::Tier;
use crate::topology::args::Param;

pub(super) const FAMILY: Family = Family {
    name: "fat_tree",
    about: "a data centre of switches with k ports (Al-Fares et al. 2008)",
    own: &[
        Param::whole("k", "ports of a switch, an even number", "4", (2, 128)),
        Param::whole(
            "hosts",
            "hosts at each edge switch; absent: k/2",
            "",
            (0, MOST_HOSTS as u64),
        ),
    ],
    links: LinkDefaults {
        router: ("1 Gbit/s", "10 us"),
        core: Some(("", "")),
        access: ("", "10 us"),
    },
    random: false,
    size,
    build,
};

fn size(args: &Args) -> Size {
    let half = args.whole("k") as u64 / 2;
    let hosts = 2 * half * half * args.maybe_whole("hosts").unwrap_or(half);
    Size {
        routers: 5 * half * half,
        hosts,
        links: 4 * half * half * half + hosts,
    }
}

fn build(args: &Args, _: u64, sketch: &mut Sketch) -> Result<(), Refusal> {
    let (k, pipes) = (args.whole("k"), Pipes::of(args));
    if k % 2 != 0 {
        let hint = format!("write `k: {}` or `k: {}`", k - 1, k + 1);
        return Err(Refusal::new(
            "k",
            format!("`k` must be even, and {k} is odd"),
            hint,
        ));
    }
    let half = k / 2;
    // Pods lie side by side, hosts below their edge switches.
    let width = (k * half) as f64;
    for n in 0..half * half {
        let x = (n as f64 + 0.5) * width / (half * half) as f64;
        sketch.add_router(format!("core{n}"), Tier::Core, Some((x, 4.0)));
    }
    let mut edges = Vec::with_capacity(k * half);
    for pod in 0..k {
        let place = |n: usize, y: f64| Some(((pod * half + n) as f64 + 0.5, y));
        let mut aggregation = Vec::with_capacity(half);
        for n in 0..half {
            let switch = sketch.add_router(format!("p{pod}a{n}"), Tier::Edge, place(n, 2.0));
            for core in n * half..(n + 1) * half {
                sketch.add_link(core, switch, pipes.core);
            }
            aggregation.push(switch);
        }
        for n in 0..half {
            let switch = sketch.add_router(format!("p{pod}e{n}"), Tier::Access, place(n, 0.0));
            for upper in &aggregation {
                sketch.add_link(*upper, switch, pipes.router);
            }
            edges.push(switch);
        }
    }
    let hosts = args
        .maybe_whole("hosts")
        .map_or(half, |hosts| hosts as usize);
    sketch.add_hosts(hosts, &edges, pipes.access);
    Ok(())
}
