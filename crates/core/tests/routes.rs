//! Routes against enumeration of all paths, and by hand where paths tie.

use std::sync::Arc;

mod common;
#[path = "routes/oracle.rs"]
mod oracle;

use common::{node, topology};
use longhaul_core::rng::Stream;
use longhaul_core::route::{NextHop, Routes};
use longhaul_core::topology::{Balance, Link, Node, NodeKind, PipeParams, TopologyError};
use longhaul_core::{NodeId, PipeId, Span, Topology};
use proptest::prelude::*;

fn delay(us: u64) -> PipeParams {
    PipeParams {
        delay: Span::from_us(us),
        ..PipeParams::default()
    }
}

fn names(topology: &Topology, pipes: &[PipeId]) -> Vec<String> {
    let name = |pipe: &PipeId| topology.pipe(*pipe).name.clone();
    pipes.iter().map(name).collect()
}

/// The names of the pipes of a path.
fn path(topology: &Topology, from: &str, to: &str) -> Option<Vec<String>> {
    let ends = (topology.find(from).unwrap(), topology.find(to).unwrap());
    let path = Routes::new(topology).path(topology, ends.0, ends.1)?;
    Some(names(topology, &path))
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
                links.push(link(number, &nodes[x].name, &nodes[y].name, pick(3)));
            }
        }
        let topology = Topology::new(nodes, links).unwrap();
        (0..20).map(NodeId).for_each(|to| compare(&topology, to));
    }
}

/// A link that has its own name, so that many may join the same nodes.
fn link(number: usize, x: &str, y: &str, us: u64) -> Link {
    let mut link = Link::new(x, y, delay(us));
    link.name = format!("l{number:02}");
    link.pipe_names = [format!("l{number:02}>"), format!("l{number:02}<")];
    link
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

/// The size of the networks whose paths are all enumerated.
const SMALL: usize = 8;

/// A network of two hosts, four routers and two lans with parallel links, many ties and all
/// kinds of balance.
fn any_network() -> impl Strategy<Value = Topology> {
    let link = (0..SMALL, 0..SMALL, 0u64..3, 0..3usize);
    prop::collection::vec(link, 4..16).prop_map(|list| {
        let kind = |n| ["h", "h", "r", "r", "r", "r", "s", "s"][n];
        let nodes: Vec<Node> = (0..SMALL)
            .map(|n| {
                let mut node = node(&format!("{}{n}", kind(n)), n as u32);
                if kind(n) == "s" {
                    node.kind = NodeKind::Lan;
                }
                node
            })
            .collect();
        let mut links = Vec::new();
        for (number, (x, y, us, balance)) in list.into_iter().enumerate() {
            if x != y {
                let mut link = link_of(number, &nodes[x], &nodes[y], us);
                link.balance = [Balance::First, Balance::Flow, Balance::RoundRobin][balance];
                links.push(link);
            }
        }
        Topology::new(nodes, links).unwrap()
    })
}

fn link_of(number: usize, x: &Node, y: &Node, us: u64) -> Link {
    link(number, &x.name, &y.name, us)
}

/// Every path without a circle from `from` to `to` over pipes that are usable, found by trying.
fn all_paths(topology: &Topology, usable: &[bool], from: NodeId, to: NodeId) -> Vec<Vec<PipeId>> {
    let mut found = Vec::new();
    let mut open = vec![vec![]];
    while let Some(path) = open.pop() {
        let end = |path: &[PipeId]| path.last().map_or(from, |&pipe| topology.pipe(pipe).to);
        let node = end(&path);
        if node == to {
            found.push(path);
            continue;
        }
        if node != from && topology.node(node).kind == NodeKind::Host {
            continue;
        }
        for &pipe in topology.outgoing(node) {
            let next = topology.pipe(pipe).to;
            let visited = next == from || path.iter().any(|&p| topology.pipe(p).to == next);
            if !visited && usable[pipe.index()] {
                let mut path = path.clone();
                path.push(pipe);
                open.push(path);
            }
        }
    }
    found
}

/// The first pipes of the shortest of all paths.
fn best_first_pipes(topology: &Topology, usable: &[bool], from: NodeId, to: NodeId) -> Vec<PipeId> {
    let paths = all_paths(topology, usable, from, to);
    let length = |path: &Vec<PipeId>| {
        let delays = path.iter().map(|&p| topology.pipe(p).params.delay.as_ns());
        (delays.sum::<u64>(), path.len())
    };
    let shortest = paths.iter().map(length).min();
    let best = paths.iter().filter(|path| Some(length(path)) == shortest);
    let mut first: Vec<PipeId> = best.filter_map(|path| path.first().copied()).collect();
    first.sort_unstable();
    first.dedup();
    first
}

/// All pairs of nodes.
fn pairs() -> impl Iterator<Item = (NodeId, NodeId)> {
    let nodes = 0..SMALL as u32;
    nodes
        .clone()
        .flat_map(move |x| nodes.clone().map(move |y| (NodeId(x), NodeId(y))))
}

/// The routes of a network are those of enumeration over the usable pipes.
fn check_sets(topology: &Topology, routes: &mut Routes, usable: &[bool]) {
    for (from, to) in pairs() {
        let expected = best_first_pipes(topology, usable, from, to);
        assert_eq!(routes.equal_cost(from, to), expected);
        assert_eq!(routes.next(topology, from, to), expected.first().copied());
        let first = expected.first().map(|&pipe| topology.pipe(pipe).balance);
        match routes.next_hop(topology, from, to) {
            None => assert!(expected.is_empty()),
            Some(NextHop::One(pipe)) => {
                assert_eq!(pipe, expected[0]);
                assert!(expected.len() == 1 || first == Some(Balance::First));
            }
            Some(NextHop::OneOf(set)) => {
                assert_eq!(routes.set(set), expected);
                assert!(expected.len() > 1 && first != Some(Balance::First));
            }
        }
    }
}

proptest! {
    #[test]
    fn equal_next_pipes_are_those_of_all_shortest_paths(topology in any_network()) {
        let usable = vec![true; topology.pipes().len()];
        check_sets(&topology, &mut Routes::new(&topology), &usable);
    }

    #[test]
    fn a_reroute_knows_the_pipes_that_are_usable(
        topology in any_network(), first: u64, second: u64,
    ) {
        let mut routes = Routes::new(&topology);
        let mut in_force = vec![true; topology.pipes().len()];
        for mask in [first, second, u64::MAX] {
            let usable: Vec<bool> = (0..in_force.len()).map(|n| mask >> n & 1 == 1).collect();
            for (pipe, &usable) in (0..).map(PipeId).zip(&usable) {
                routes.set_usable(pipe, usable);
            }
            check_sets(&topology, &mut routes, &in_force); // not yet
            routes.reroute();
            check_sets(&topology, &mut routes, &usable);
            in_force = usable;
        }
    }

    /// The same as a network that never had the links: in numbers of pipes other than its own,
    /// so by name.
    #[test]
    fn a_reroute_equals_a_network_without_the_links(topology in any_network(), mask: u16) {
        let is_up = |name: &str| mask >> (name[1..3].parse::<u16>().unwrap()) & 1 == 1;
        let links = topology.pipes().iter().filter(|pipe| pipe.name.ends_with('>'));
        let left = links.filter(|pipe| is_up(&pipe.link)).map(|pipe| Link {
            name: pipe.link.clone(),
            ends: [pipe.from, pipe.to].map(|end| topology.node(end).name.clone()),
            pipe_names: [format!("{}>", pipe.link), format!("{}<", pipe.link)],
            mtu: pipe.mtu,
            balance: pipe.balance,
            params: [Arc::clone(&pipe.params), Arc::clone(&pipe.params)],
        });
        let smaller = Topology::new(topology.nodes().to_vec(), left.collect()).unwrap();
        let (mut routes, mut fresh) = (Routes::new(&topology), Routes::new(&smaller));
        for (pipe, id) in topology.pipes().iter().zip(0..) {
            routes.set_usable(PipeId(id), is_up(&pipe.link));
        }
        routes.reroute();
        for (from, to) in pairs() {
            let ours = routes.path(&topology, from, to).map(|path| names(&topology, &path));
            let theirs = fresh.path(&smaller, from, to).map(|path| names(&smaller, &path));
            prop_assert_eq!(ours, theirs);
            let ours = routes.equal_cost(from, to);
            let theirs = fresh.equal_cost(from, to);
            prop_assert_eq!(names(&topology, &ours), names(&smaller, &theirs));
        }
        for lan in [6, 7].map(NodeId) {
            let ours = routes.members(&topology, lan).to_vec();
            let theirs = fresh.members(&smaller, lan).to_vec();
            prop_assert_eq!(names(&topology, &ours), names(&smaller, &theirs));
        }
    }
}

/// A network of single- and multi-homed hosts, routers and lans: many hosts with one link, some
/// of them to another host, and all that [`any_network`] has.
fn any_large_network() -> impl Strategy<Value = Topology> {
    let sizes = (1..8usize, 0..3usize, 1..14usize);
    let backbone = prop::collection::vec((any::<[u16; 2]>(), 0u64..4, 0..3usize), 0..24);
    let homes = prop::collection::vec((any::<u16>(), 0u64..4), 14);
    let second = prop::collection::vec((any::<[u16; 2]>(), 0u64..4, 0..3usize), 0..4);
    (sizes, backbone, homes, second).prop_map(
        |((routers, lans, hosts), backbone, homes, second)| {
            // Numbered by name: the kinds are mixed.
            let name = |kind: &str, n: usize| format!("{}{kind}", (n * 7) % 10 + 10 * n);
            let mut nodes = Vec::new();
            for (kind, count) in [
                (NodeKind::Router, routers),
                (NodeKind::Lan, lans),
                (NodeKind::Host, hosts),
            ] {
                for n in 0..count {
                    let name = name(["h", "r", "s"][kind as usize], n);
                    nodes.push(Node {
                        kind,
                        ..node(&name, nodes.len() as u32)
                    });
                }
            }
            let mut links: Vec<Link> = Vec::new();
            let mut add = |x: usize, y: usize, us, balance: usize| {
                let is_lan = |n: usize| nodes[n].kind == NodeKind::Lan;
                if x == y || is_lan(x) && is_lan(y) {
                    return;
                }
                let mut link = link_of(links.len(), &nodes[x], &nodes[y], us);
                link.balance = [Balance::First, Balance::Flow, Balance::RoundRobin][balance];
                links.push(link);
            };
            let forwarding = routers + lans;
            for ([x, y], us, balance) in backbone {
                add(
                    usize::from(x) % forwarding,
                    usize::from(y) % forwarding,
                    us,
                    balance,
                );
            }
            for (host, (to, us)) in (forwarding..nodes.len()).zip(homes) {
                add(host, usize::from(to) % forwarding, us, 0);
            }
            for ([host, to], us, balance) in second {
                let (host, to) = (
                    forwarding + usize::from(host) % hosts,
                    usize::from(to) % nodes.len(),
                );
                add(host, to, us, balance);
            }
            Topology::new(nodes.clone(), links).unwrap()
        },
    )
}

/// The routes of a network are those of the oracle over the pipes in force.
fn check_all(topology: &Topology, routes: &mut Routes, in_force: &[bool]) {
    let nodes = || (0..topology.nodes().len() as u32).map(NodeId);
    for to in nodes() {
        let expected = oracle::next_pipes(topology, in_force, to);
        for (from, expected) in nodes().zip(&expected) {
            assert_eq!(&routes.equal_cost(from, to), expected);
            assert_eq!(routes.next(topology, from, to), expected.first().copied());
            let first = expected.first().map(|&pipe| topology.pipe(pipe).balance);
            match routes.next_hop(topology, from, to) {
                None => assert!(expected.is_empty()),
                Some(NextHop::One(pipe)) => {
                    assert_eq!(pipe, expected[0]);
                    assert!(expected.len() == 1 || first == Some(Balance::First));
                }
                Some(NextHop::OneOf(set)) => {
                    assert_eq!(routes.set(set), expected);
                    assert!(expected.len() > 1 && first != Some(Balance::First));
                }
            }
        }
    }
}

proptest! {
    /// Whatever has no table of its own goes as if it had one; one way of a link may fail, and
    /// routes lag behind failures.
    #[test]
    fn routes_are_those_of_every_host_by_itself(
        topology in any_large_network(),
        failures in prop::collection::vec(prop::collection::vec((any::<u16>(), any::<bool>()), 0..6), 0..4),
        most_entries in 0..60usize,
    ) {
        let pipes = topology.pipes().len();
        let mut usable = vec![true; pipes];
        let mut in_force = usable.clone();
        let (mut routes, mut cramped) =
            (Routes::new(&topology), Routes::with_bound(&topology, most_entries));
        check_all(&topology, &mut routes, &in_force);
        for changes in failures {
            for (pipe, is_usable) in changes.into_iter().filter(|_| pipes > 0) {
                let pipe = PipeId(u32::from(pipe) % pipes as u32);
                usable[pipe.index()] = is_usable;
                routes.set_usable(pipe, is_usable);
                cramped.set_usable(pipe, is_usable);
            }
            check_all(&topology, &mut routes, &in_force); // not yet
            in_force.clone_from(&usable);
            routes.reroute();
            cramped.reroute();
            check_all(&topology, &mut routes, &in_force);
            check_all(&topology, &mut cramped, &in_force);
        }
    }
}

/// Hosts with one link share the table of what they hang on, and have no place in tables.
#[test]
fn tables_cost_what_routers_cost() {
    let mut nodes: Vec<Node> = (0..4).map(|n| node(&format!("r{n}"), n)).collect();
    nodes.extend((4..104).map(|n| node(&format!("h{n}"), n)));
    nodes.push(node("h-two", 104));
    let mut links: Vec<Link> = (0..3)
        .map(|n| link_of(n, &nodes[n], &nodes[n + 1], 1))
        .collect();
    links.extend((4..104).map(|n| Link::new(&nodes[n].name, &nodes[n % 4].name, delay(1))));
    links.extend([0, 3].map(|n| Link::new("h-two", &nodes[n].name, delay(1))));
    let topology = Topology::new(nodes, links).unwrap();
    let (all, mut routes) = ((0..105).map(NodeId), Routes::new(&topology));
    all.for_each(|to| routes.prepare(&topology, to));
    // Four routers and the host with two links, to each of them.
    assert_eq!(routes.table_bytes(), 5 * 5 * 4);
    let mut bounded = Routes::with_bound(&topology, 12);
    (0..105).for_each(|to| bounded.prepare(&topology, NodeId(to)));
    assert_eq!(bounded.table_bytes(), 2 * 5 * 4);
}

#[test]
fn rings_of_lans_are_refused_and_parallel_links_are_not() {
    let lan = |n: u32| Node {
        kind: NodeKind::Lan,
        ..node(&format!("s{n}"), 0) // a lan has no address that could clash
    };
    let build = |links: &[(usize, &str, &str)]| {
        let links = links.iter().map(|&(n, x, y)| link(n, x, y, 1)).collect();
        Topology::new((0..4).map(lan).chain([node("r0", 9)]).collect(), links).map(|_| ())
    };
    let tree = [(0, "s0", "s1"), (1, "s1", "s2"), (2, "s2", "s3")];
    assert_eq!(build(&tree), Ok(()));
    assert_eq!(build(&[tree[0], tree[1], (2, "s1", "s0")]), Ok(()));
    // Routers break a ring: they let nothing through.
    assert_eq!(
        build(&[tree[0], tree[1], (2, "s2", "r0"), (3, "r0", "s0")]),
        Ok(())
    );
    let ring = [tree[0], tree[1], tree[2], (3, "s3", "s0")];
    assert!(matches!(build(&ring), Err(TopologyError::LanRing(_))));
    assert_eq!(
        build(&[tree[0], tree[1], (2, "s2", "s0")]),
        Err(TopologyError::LanRing("l02".to_owned()))
    );
}
