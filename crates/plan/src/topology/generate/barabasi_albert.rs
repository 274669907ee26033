//! Growth with preferential attachment: A.-L. Barabási and R. Albert, "Emergence of Scaling in
//! Random Networks" (Science 286, 1999). From a full mesh of m + 1 routers, each new router is
//! joined to m different ones, each chosen with a probability in proportion to its degree. The
//! number of routers of degree k falls as k⁻³.

use super::draw::Draws;
use super::{Args, Family, LinkDefaults, Pipes, Refusal, Size, Sketch, hosts, routers};
use crate::topology::Tier;
use crate::topology::args::Param;

pub(super) const FAMILY: Family = Family {
    name: "barabasi_albert",
    about: "a network grown by preferential attachment: few hubs, many small routers (Barabási and Albert 1999)",
    own: &[
        routers("routers", "50", 2),
        Param::whole("m", "links of each new router", "2", (1, 1000)),
        hosts("hosts at each router", "1"),
    ],
    links: LinkDefaults::PLAIN,
    random: true,
    size,
    build,
};

fn size(args: &Args) -> Size {
    let (routers, m) = (args.whole("routers") as u64, args.whole("m") as u64);
    let hosts = routers * args.whole("hosts") as u64;
    Size {
        routers,
        hosts,
        links: m * (m + 1) / 2 + routers.saturating_sub(m + 1) * m + hosts,
    }
}

fn build(args: &Args, seed: u64, sketch: &mut Sketch) -> Result<(), Refusal> {
    let (count, m, pipes) = (args.whole("routers"), args.whole("m"), Pipes::of(args));
    if count < m + 1 {
        let message = format!(
            "growth with `m: {m}` starts from {} routers, but there are only {count}",
            m + 1
        );
        return Err(Refusal::new(
            "m",
            message,
            "make `m` smaller than `routers`",
        ));
    }
    let mut draws = Draws::new(seed, "barabasi_albert");
    // Every router once for each of its links: a uniform choice is one by degree.
    let mut ends: Vec<usize> = Vec::new();
    for new in 0..count {
        sketch.add_router(format!("r{new}"), Tier::Edge, None);
        let mut chosen: Vec<usize> = Vec::with_capacity(m);
        if new <= m {
            chosen.extend(0..new);
        } else {
            while chosen.len() < m {
                let old = ends[draws.below(ends.len())];
                if !chosen.contains(&old) {
                    chosen.push(old);
                }
            }
        }
        for old in chosen {
            sketch.add_link(old, new, pipes.router);
            ends.extend([old, new]);
        }
    }
    let all: Vec<usize> = (0..count).collect();
    sketch.add_hosts(args.whole("hosts"), &all, pipes.access);
    Ok(())
}
