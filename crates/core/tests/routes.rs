//! Routes against a search of the plainest kind, and by hand where paths tie.

mod common;

use common::{node, topology};
use longhaul_core::rng::Stream;
use longhaul_core::route::Routes;
use longhaul_core::topology::{Link, Node, NodeKind, PipeParams};
use longhaul_core::{NodeId, Span, Topology};

fn delay(us: u64) -> PipeParams {
    PipeParams {
        delay: Span::from_us(us),
        ..PipeParams::default()
    }
}

/// The names of the pipes of a path.
fn path(topology: &Topology, from: &str, to: &str) -> Option<Vec<String>> {
    let ends = (topology.find(from).unwrap(), topology.find(to).unwrap());
    let path = Routes::new(topology).path(topology, ends.0, ends.1)?;
    Some(
        path.into_iter()
            .map(|pipe| topology.pipe(pipe).name.clone())
            .collect(),
    )
}

#[test]
fn delay_then_hops_then_names() {
    let names = ["h1", "h2", "ra", "rb", "rc", "rd", "re"];
    let links = [
        ("h1", "ra", delay(1)),
        ("ra", "rb", delay(2)),
        ("rb", "h2", delay(2)),
        ("ra", "rc", delay(1)),
        ("rc", "rd", delay(1)),
        ("rd", "h2", delay(2)),
        ("ra", "re", delay(2)),
        ("re", "h2", delay(2)),
    ];
    let topology = topology(&names, &links);
    // Two ways of 5 us and 3 hops, one of 5 us and 4 hops.
    assert_eq!(
        path(&topology, "h1", "h2").unwrap(),
        ["h1>ra", "ra>rb", "rb>h2"]
    );
    assert_eq!(
        path(&topology, "rd", "h1").unwrap(),
        ["rd>rc", "rc>ra", "ra>h1"]
    );
    assert_eq!(path(&topology, "h1", "h1").unwrap(), Vec::<String>::new());
}

#[test]
fn hosts_are_never_in_between() {
    let links = [
        ("h1", "r1", delay(1)),
        ("r1", "h2", delay(1)),
        ("h2", "r2", delay(1)),
    ];
    let topology = topology(&["h1", "h2", "r1", "r2"], &links);
    assert_eq!(path(&topology, "h1", "r2"), None);
    assert_eq!(path(&topology, "h2", "r2").unwrap(), ["h2>r2"]);
}

/// Random networks with many ties: every path is as short as repeated relaxation finds it.
#[test]
fn paths_are_shortest() {
    for seed in 0..40 {
        let mut stream = Stream::new(seed, "network");
        let mut pick = |n: u64| stream.draw() % n;
        let nodes: Vec<Node> = (0..20)
            .map(|n| node(&format!("{}{n:02}", if n % 5 == 0 { "h" } else { "r" }), n))
            .collect();
        let mut links = Vec::new();
        for number in 0..30 {
            let (x, y) = (pick(20) as usize, pick(20) as usize);
            if x != y {
                let params = delay(pick(3));
                let mut link = Link::new(&nodes[x].name, &nodes[y].name, params);
                link.name = format!("l{number:02}");
                link.pipe_names = [format!("l{number:02}>"), format!("l{number:02}<")];
                links.push(link);
            }
        }
        let topology = Topology::new(nodes, links).unwrap();
        (0..20).map(NodeId).for_each(|to| compare(&topology, to));
    }
}

fn compare(topology: &Topology, to: NodeId) {
    let mut best = [(u64::MAX, usize::MAX); 20];
    best[to.index()] = (0, 0);
    for _ in 0..20 {
        for pipe in topology.pipes() {
            let (delay, hops) = best[pipe.to.index()];
            let transits = pipe.to == to || topology.node(pipe.to).kind == NodeKind::Router;
            if transits && hops != usize::MAX {
                let longer = (delay + pipe.params.delay.as_ns(), hops + 1);
                best[pipe.from.index()] = best[pipe.from.index()].min(longer);
            }
        }
    }
    let mut routes = Routes::new(topology);
    for from in (0..20).map(NodeId) {
        let path = routes.path(topology, from, to);
        let found = path.map(|path| {
            let delays = path
                .iter()
                .map(|&pipe| topology.pipe(pipe).params.delay.as_ns());
            (delays.sum(), path.len())
        });
        assert_eq!(found.unwrap_or((u64::MAX, usize::MAX)), best[from.index()]);
    }
}
