//! Every family against its formula, its paper, and itself.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::names::check_host_name;
use crate::plan::Plan;
use crate::topology::{Kind, spell};

fn made(kind: &str, params: &[(&str, &str)], seed: u64) -> Sketch {
    try_made(kind, params, seed).unwrap_or_else(|e| panic!("{e}"))
}

fn try_made(kind: &str, params: &[(&str, &str)], seed: u64) -> Result<Sketch, String> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let params: Vec<_> = params.iter().map(own).collect();
    sketch(kind, &params, seed).map_err(|errors| errors.to_string())
}

/// Routers, hosts and links.
fn counts(sketch: &Sketch) -> (usize, usize, usize) {
    let of = |kind| sketch.nodes.iter().filter(|node| node.kind == kind).count();
    (of(Kind::Router), of(Kind::Host), sketch.links.len())
}

/// What holds for every topology: names, connectedness, simple links, one link for each host.
fn check_sound(sketch: &Sketch) {
    let names: HashSet<_> = sketch
        .nodes
        .iter()
        .map(|node| node.name.to_lowercase())
        .collect();
    assert_eq!(names.len(), sketch.nodes.len());
    for node in &sketch.nodes {
        assert_eq!(check_host_name(&node.name), Ok(()), "{}", node.name);
        assert!(
            node.position
                .is_none_or(|(x, y)| x.is_finite() && y.is_finite())
        );
    }
    assert_eq!(sketch.components().1, 1, "{}", sketch.title);
    let pair = |[a, b]: [usize; 2]| [a.min(b), a.max(b)];
    let pairs: HashSet<_> = sketch.links.iter().map(|link| pair(link.ends)).collect();
    assert_eq!(pairs.len(), sketch.links.len(), "parallel links");
    assert!(pairs.iter().all(|[a, b]| a != b));
    for (node, degree) in sketch.nodes.iter().zip(sketch.degrees()) {
        assert!(node.kind == Kind::Router || degree == 1, "{}", node.name);
    }
}

/// The degrees of the routers among themselves, in order.
fn inner_degrees(sketch: &Sketch) -> Vec<usize> {
    let mut degrees = vec![0; sketch.nodes.len()];
    for link in &sketch.links {
        if link
            .ends
            .iter()
            .all(|end| sketch.nodes[*end].kind == Kind::Router)
        {
            link.ends.iter().for_each(|end| degrees[*end] += 1);
        }
    }
    let routers = (0..degrees.len()).filter(|n| sketch.nodes[*n].kind == Kind::Router);
    let mut degrees: Vec<usize> = routers.map(|node| degrees[node]).collect();
    degrees.sort_unstable();
    degrees
}

/// Hops between all pairs of hosts of a small topology, by breadth-first search.
fn diameter(sketch: &Sketch) -> usize {
    let mut joined = vec![Vec::new(); sketch.nodes.len()];
    for link in &sketch.links {
        let [a, b] = link.ends;
        joined[a].push(b);
        joined[b].push(a);
    }
    let far = |from: usize| {
        let mut hops = vec![usize::MAX; joined.len()];
        hops[from] = 0;
        let mut queue = std::collections::VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            for &other in &joined[node] {
                if hops[other] == usize::MAX {
                    hops[other] = hops[node] + 1;
                    queue.push_back(other);
                }
            }
        }
        hops.into_iter().max().unwrap_or(0)
    };
    (0..joined.len()).map(far).max().unwrap_or(0)
}

#[test]
fn every_family_is_sound_as_it_is() {
    for family in FAMILIES {
        let sketch = made(family.name, &[], 1);
        check_sound(&sketch);
        assert!(
            counts(&sketch).1 > 1,
            "{}: hosts to run programs on",
            family.name
        );
        for param in family.params() {
            let fits = param.default.is_empty() || param.fits(param.default);
            assert!(fits, "{} {}", family.name, param.name);
            assert!(
                param.fits(&param.example()),
                "{} {}",
                family.name,
                param.name
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn sizes_are_those_of_the_formulae(
        (n, hosts) in (3..20usize, 0..4usize),
        (a, b, c) in (1..5usize, 1..5usize, 1..4usize),
        wan in prop::sample::select(&["mesh", "star", "ring"][..]),
    ) {
        let (text, many) = (n.to_string(), hosts.to_string());
        let (a_, b_, c_) = (a.to_string(), b.to_string(), c.to_string());
        let counted = |kind: &str, params: &[(&str, &str)]| {
            let sketch = made(kind, params, 1);
            check_sound(&sketch);
            counts(&sketch)
        };
        let h = hosts;
        let routers = [("routers", &*text), ("hosts", &*many)];
        prop_assert_eq!(counted("chain", &routers), (n, 2 * h, n - 1 + 2 * h));
        prop_assert_eq!(counted("ring", &routers), (n, n * h, n + n * h));
        prop_assert_eq!(counted("mesh", &routers), (n, n * h, n * (n - 1) / 2 + n * h));
        let star = [("leaves", &*text), ("hosts", &*many)];
        prop_assert_eq!(counted("star", &star), (n + 1, n * h, n + n * h));
        let dumbbell = [("left", &*text), ("right", &*many), ("hops", &*a_)];
        prop_assert_eq!(counted("dumbbell", &dumbbell), (a + 1, n + h, a + n + h));
        let bone = [("spine", &*text), ("ribs", &*a_), ("rib_length", &*b_), ("hosts", &*many)];
        let bones = n + n * a * b;
        prop_assert_eq!(counted("fishbone", &bone), (bones, n * a * h, bones - 1 + n * a * h));
        let tree = [("trees", &*a_), ("degree", &*b_), ("height", &*c_)];
        let inner: usize = (0..c as u32).map(|depth| b.pow(depth)).sum();
        let (inner, leaves) = (a * inner, a * b.pow(c as u32));
        let links = inner - a + leaves + a * (a - 1) / 2;
        prop_assert_eq!(counted("tree", &tree), (inner, leaves, links));
        let (k, half) = (2 * a, a);
        let k_ = k.to_string();
        prop_assert_eq!(counted("fat-tree", &[("k", &k_)]), (5 * half * half, k * k * k / 4, 3 * k * k * k / 4));
        let clusters = [("sites", &*text), ("hosts", &*many), ("wan", wan)];
        let (hub, between) = match wan {
            "mesh" => (0, n * (n - 1) / 2),
            "star" => (1, n),
            _ => (0, n),
        };
        prop_assert_eq!(counted("clusters", &clusters), (n + hub, n * h, between + n * h));
    }

    #[test]
    fn random_families_are_sound_for_every_seed(
        seed: u64, routers in 3..60usize, m in 1..4usize, hosts in 0..3usize,
        alpha in 0.01..1.0f64, beta in 0.01..=1.0f64,
    ) {
        let (n, m_, h) = (routers.to_string(), m.min(routers - 1), hosts.to_string());
        let (alpha, beta) = (format!("{alpha:.3}"), format!("{beta:.3}"));
        let waxman = made("waxman", &[("routers", &n), ("alpha", &alpha), ("beta", &beta), ("hosts", &h)], seed);
        check_sound(&waxman);
        prop_assert_eq!((counts(&waxman).0, counts(&waxman).1), (routers, routers * hosts));
        let grown = made("barabasi_albert", &[("routers", &n), ("m", &m_.to_string()), ("hosts", &h)], seed);
        check_sound(&grown);
        let links = m_ * (m_ + 1) / 2 + (routers - m_ - 1) * m_ + routers * hosts;
        prop_assert_eq!(counts(&grown), (routers, routers * hosts, links));
        prop_assert!(inner_degrees(&grown)[0] >= m_);
        let stubs = (routers / 3).max(1);
        let internet = made("internet", &[("routers", &n), ("stubs", &stubs.to_string()), ("clients", "17")], seed);
        check_sound(&internet);
        prop_assert_eq!((counts(&internet).0, counts(&internet).1), (routers, 17));
    }

    /// The text means the same as the entry, for every family and seed.
    #[test]
    fn spelled_out_is_the_same_plan(seed in 0..1000u64, index in 0..FAMILIES.len()) {
        let family = &FAMILIES[index];
        let text = spell::text(&made(family.name, &[("rate", "30 Mbit/s")], seed));
        let entry = format!(
            "seed: {seed}\ntopology: {{ generate: {{ kind: {}, rate: 30 Mbit/s }} }}\n", family.name
        );
        let plan = |text: &str| Plan::from_text(text, "f.yaml").unwrap_or_else(|e| panic!("{e}\n{text}"));
        let (spelled, generated) = (plan(&text), plan(&entry));
        prop_assert_eq!(spelled.topology.nodes(), generated.topology.nodes());
        prop_assert_eq!(spelled.topology.pipes(), generated.topology.pipes());
        prop_assert_eq!(spelled.positions, generated.positions);
        prop_assert_eq!(spelled.hosts, generated.hosts);
    }
}

#[test]
fn the_same_seed_gives_the_same_topology_and_another_one_another() {
    for family in FAMILIES {
        let (one, again) = (made(family.name, &[], 7), made(family.name, &[], 7));
        assert_eq!(one, again, "{}", family.name);
        let other = made(family.name, &[], 8);
        assert_eq!(one.links != other.links, family.random, "{}", family.name);
        if family.random {
            assert_eq!(
                made(family.name, &[("seed", "7")], 8),
                one,
                "{}",
                family.name
            );
        }
    }
}

/// A committed fingerprint (FNV-1a of the spelled-out text): a change here changes every seeded
/// topology there is.
#[test]
fn random_topologies_never_change() {
    let print = |kind: &str| {
        let text = spell::text(&made(kind, &[], 42));
        text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        })
    };
    let prints = ["waxman", "barabasi_albert", "internet"].map(print);
    assert_eq!(prints, PRINTS, "{prints:?}");
}

const PRINTS: [u64; 3] = [
    11_491_355_168_182_063_056,
    17_161_911_840_375_692_871,
    15_318_962_333_810_971_300,
];

/// Yocum et al. 2003, §6: four trees on a mesh, hosts of different trees 2·height + 1 links apart,
/// 400 clients.
#[test]
fn the_trees_of_the_partitioning_paper() {
    let h2 = made(
        "tree",
        &[("trees", "4"), ("degree", "10"), ("height", "2")],
        1,
    );
    // 4·(1 + 10) routers, 400 hosts.
    assert_eq!(counts(&h2), (44, 400, 40 + 400 + 6));
    assert_eq!(diameter(&h2), 5);
    let params = [
        ("trees", "4"),
        ("degree", "2"),
        ("height", "5"),
        ("clients", "400"),
    ];
    let h5 = made("tree", &params, 1);
    assert_eq!(counts(&h5), (4 * 31, 400, 4 * 30 + 400 + 6));
    assert_eq!(diameter(&h5), 11);
    let last: Vec<usize> = (0..h5.nodes.len())
        .filter(|node| {
            h5.links
                .iter()
                .any(|l| l.ends[1] == *node && h5.nodes[l.ends[0]].kind == Kind::Host)
        })
        .collect();
    assert_eq!(last.len(), 64, "every last router has hosts");
}

/// Al-Fares et al. 2008: k³/4 hosts, k ports at each switch, (k/2)² equal shortest paths between
/// hosts of different pods.
#[test]
fn fat_trees_have_all_their_paths() {
    for k in [2usize, 4, 6, 8] {
        let sketch = made("fat_tree", &[("k", &k.to_string())], 1);
        assert_eq!(counts(&sketch).1, k * k * k / 4);
        let degrees = sketch.degrees();
        let ports = sketch
            .nodes
            .iter()
            .zip(&degrees)
            .filter(|(node, _)| node.kind == Kind::Router);
        assert!(ports.clone().all(|(_, degree)| *degree == k), "k = {k}");
        let mut joined = vec![Vec::new(); sketch.nodes.len()];
        for link in &sketch.links {
            let [a, b] = link.ends;
            joined[a].push(b);
            joined[b].push(a);
        }
        let hosts: Vec<_> = (0..sketch.nodes.len())
            .filter(|n| sketch.nodes[*n].kind == Kind::Host)
            .collect();
        // Walks of shortest length, counted level by level.
        let (from, to) = (hosts[0], hosts[hosts.len() - 1]);
        let mut level = std::collections::BTreeMap::from([(from, 1usize)]);
        let mut seen = HashSet::from([from]);
        let mut hops = 0;
        while !level.contains_key(&to) {
            let mut next = std::collections::BTreeMap::new();
            for (node, paths) in &level {
                for other in joined[*node].iter().filter(|other| !seen.contains(other)) {
                    *next.entry(*other).or_default() += paths;
                }
            }
            seen.extend(next.keys());
            (level, hops) = (next, hops + 1);
        }
        assert_eq!((level[&to], hops), (k * k / 4, 6), "k = {k}");
    }
}

/// Barabási and Albert: P(k) = 2m(m+1) / (k(k+1)(k+2)) in the limit (Dorogovtsev, Mendes and
/// Samukhin 2000), exponent 3. The maximum-likelihood exponent of the tail k ≥ 10 has a standard
/// error of 2/√tail; 4000 routers have about 4000·6/(10·11)·… ≈ 218 there, so 3 ± 4·0.14.
#[test]
fn preferential_attachment_gives_its_power_law() {
    let sketch = made(
        "barabasi_albert",
        &[("routers", "4000"), ("m", "2"), ("hosts", "0")],
        1,
    );
    let degrees = inner_degrees(&sketch);
    let share = |k: usize| degrees.iter().filter(|d| **d == k).count() as f64 / 4000.0;
    for k in 2..6 {
        let expected = 12.0 / (k * (k + 1) * (k + 2)) as f64;
        // Five standard deviations of a count of 4000.
        let margin = 5.0 * (expected * (1.0 - expected) / 4000.0).sqrt();
        assert!(
            (share(k) - expected).abs() < margin,
            "P({k}) = {} not {expected}",
            share(k)
        );
    }
    let tail: Vec<f64> = degrees
        .iter()
        .filter(|d| **d >= 10)
        .map(|d| *d as f64)
        .collect();
    let sum: f64 = tail.iter().map(|d| libm::log(d / 9.5)).sum();
    let exponent = 1.0 + tail.len() as f64 / sum;
    let error = 2.0 / (tail.len() as f64).sqrt();
    assert!((exponent - 3.0).abs() < 4.0 * error, "{exponent} ± {error}");
}

/// The links of many Waxman graphs against the formula, by distance.
#[test]
fn waxman_links_are_as_likely_as_the_formula_says() {
    let (alpha, beta) = (0.2, 0.6);
    let params = [
        ("routers", "100"),
        ("alpha", "0.2"),
        ("beta", "0.6"),
        ("hosts", "0"),
    ];
    let mut bins = [(0u32, 0.0, 0.0); 5];
    for seed in 0..20 {
        let sketch = made("waxman", &params, seed);
        assert!(
            sketch.notes.is_empty(),
            "seed {seed} was joined, which the formula does not know"
        );
        let at = |n: usize| sketch.nodes[n].position.unwrap();
        let joined: HashSet<[usize; 2]> = sketch.links.iter().map(|link| link.ends).collect();
        for a in 0..100 {
            for b in a + 1..100 {
                let (dx, dy) = (at(a).0 - at(b).0, at(a).1 - at(b).1);
                let d = (dx * dx + dy * dy).sqrt() / 10.0;
                let p = beta * f64::exp(-d / (alpha * 2f64.sqrt()));
                let bin = &mut bins[((d * 4.0) as usize).min(4)];
                *bin = (
                    bin.0 + u32::from(joined.contains(&[a, b])),
                    bin.1 + p,
                    bin.2 + p * (1.0 - p),
                );
            }
        }
    }
    for (found, expected, variance) in bins {
        let off = (f64::from(found) - expected).abs();
        assert!(
            off < 5.0 * f64::sqrt(variance),
            "{found} links, {expected} expected"
        );
    }
}

#[test]
fn waxman_pieces_are_joined_and_delays_follow_distance() {
    let params = [
        ("routers", "60"),
        ("beta", "0.02"),
        ("alpha", "0.1"),
        ("side", "20 ms"),
    ];
    let sketch = made("waxman", &params, 3);
    check_sound(&sketch);
    assert!(sketch.notes[0].contains("pieces"), "{:?}", sketch.notes);
    for link in sketch.links.iter().filter(|link| {
        link.ends
            .iter()
            .all(|end| sketch.nodes[*end].kind == Kind::Router)
    }) {
        let [a, b] = link.ends.map(|end| sketch.nodes[end].position.unwrap());
        let d = ((a.0 - b.0) * (a.0 - b.0) + (a.1 - b.1) * (a.1 - b.1)).sqrt() / 10.0;
        let expected = d * 20_000.0;
        let us = link.forward.delay.as_ns() as f64 / 1000.0;
        assert!(
            (us - expected).abs() <= 0.5 + 1e-6,
            "{us} us for {expected}"
        );
    }
}

/// The graph of the partitioning paper: degrees fall as the rank to the power −0.8, links are
/// about 1.9 for each router, clients are two at each stub.
#[test]
fn the_internet_like_graph_follows_its_power_law() {
    let params = [("routers", "4000"), ("stubs", "200"), ("clients", "400")];
    let sketch = made("internet", &params, 1);
    check_sound(&sketch);
    let (routers, hosts, links) = counts(&sketch);
    assert_eq!((routers, hosts), (4000, 400));
    let mut degrees = inner_degrees(&sketch);
    degrees.reverse();
    let wanted: usize = (0..4000).map(|rank| internet::degree(rank, 4000)).sum();
    let real = degrees.iter().sum::<usize>();
    assert_eq!(links - hosts, real / 2);
    assert!(
        wanted.abs_diff(real) * 50 < wanted,
        "{real} of {wanted} link ends"
    );
    // Least squares of log degree over log rank, where degrees are 4 and more.
    let points: Vec<(f64, f64)> = degrees
        .iter()
        .zip(1..)
        .take_while(|(degree, _)| **degree >= 4)
        .map(|(degree, rank)| (f64::from(rank).ln(), (*degree as f64).ln()))
        .collect();
    let n = points.len() as f64;
    let (mx, my) = (
        points.iter().map(|p| p.0).sum::<f64>() / n,
        points.iter().map(|p| p.1).sum::<f64>() / n,
    );
    let slope = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum::<f64>()
        / points.iter().map(|p| (p.0 - mx) * (p.0 - mx)).sum::<f64>();
    assert!((-0.87..-0.73).contains(&slope), "{slope}");
    let stub = |node: &crate::topology::SketchNode| node.name.starts_with('s');
    assert_eq!(sketch.nodes.iter().filter(|node| stub(node)).count(), 200);
    for (node, degree) in sketch
        .nodes
        .iter()
        .zip(sketch.degrees())
        .filter(|(n, _)| stub(n))
    {
        assert_eq!(degree, 3, "{}: one transit link, two clients", node.name);
    }
}

#[test]
fn links_take_the_rates_of_their_tiers() {
    let params = [
        ("routers", "30"),
        ("stubs", "10"),
        ("clients", "20"),
        ("core_rate", "10 Gbit/s"),
        ("rate", "1 Gbit/s"),
        ("access_rate", "3 Mbit/s"),
        ("queue", "50 packets"),
    ];
    let sketch = made("internet", &params, 1);
    for link in &sketch.links {
        let letters = link
            .ends
            .map(|end| sketch.nodes[end].name.chars().next().unwrap());
        let rate = match letters {
            ['c', 's'] => "3 Mbit/s",
            ['r', 'r'] => "10 Gbit/s",
            _ => "1 Gbit/s",
        };
        assert_eq!(link.forward.rate, rate.parse().ok());
        assert_eq!(link.forward.queue, "50 packets".parse().ok());
    }
    // What a tier does not say it takes from the links between routers.
    let fat = made("fat_tree", &[("rate", "40 Gbit/s")], 1);
    assert!(
        fat.links
            .iter()
            .all(|link| link.forward.rate == "40 Gbit/s".parse().ok())
    );
}

#[test]
fn what_is_wrong_is_said_with_what_to_write() {
    let wrong = |kind: &str, params: &[(&str, &str)], parts: &[&str]| {
        let error = try_made(kind, params, 1).expect_err("wrong");
        assert!(error.contains("hint: "), "{error}");
        for part in parts {
            assert!(error.contains(part), "no `{part}` in:\n{error}");
        }
    };
    wrong(
        "rin",
        &[],
        &["not a kind of topology", "did you mean `ring`?"],
    );
    wrong(
        "ring",
        &[("router", "3")],
        &["unknown parameter `router`", "did you mean `routers`?"],
    );
    wrong(
        "ring",
        &[("routers", "2")],
        &[
            "`routers` is 2, but must be 3 to 100000",
            "write it like `routers: 4`",
        ],
    );
    wrong(
        "ring",
        &[("routers", "three")],
        &["not a whole number", "routers: 4"],
    );
    wrong(
        "ring",
        &[("rate", "10")],
        &["has no unit", "rate: 1 Gbit/s"],
    );
    wrong(
        "ring",
        &[("core_rate", "1 Gbit/s")],
        &["unknown parameter `core_rate`"],
    );
    wrong(
        "ring",
        &[("routers", "3"), ("routers", "4")],
        &["given twice"],
    );
    wrong(
        "fat_tree",
        &[("k", "5")],
        &["even", "`k: 4` or `k: 6`", "k=5"],
    );
    wrong(
        "clusters",
        &[("wan", "bus")],
        &["not one of mesh, star, ring"],
    );
    wrong("waxman", &[("beta", "1.5")], &["at most 1"]);
    wrong("waxman", &[("beta", "inf")], &["not a number"]);
    wrong("waxman", &[("alpha", "0")], &["above 0"]);
    wrong(
        "waxman",
        &[("routers", "10000"), ("beta", "1")],
        &["more than 200000 links"],
    );
    wrong(
        "barabasi_albert",
        &[("routers", "3"), ("m", "5")],
        &["starts from 6 routers"],
    );
    wrong(
        "internet",
        &[("routers", "10"), ("stubs", "10")],
        &["`stubs` smaller"],
    );
    wrong(
        "mesh",
        &[("routers", "1000")],
        &["500500 links", "at most 200000"],
    );
    wrong(
        "tree",
        &[("degree", "100000"), ("height", "100")],
        &["at most 100000 are supported"],
    );
    wrong(
        "fishbone",
        &[
            ("spine", "100000"),
            ("ribs", "100000"),
            ("rib_length", "100000"),
        ],
        &["routers"],
    );
    wrong("chain", &[("hosts", "20000")], &["40000 hosts"]);
}

#[test]
fn the_largest_mesh_of_the_benchmarks_is_made() {
    let mesh = made("mesh", &[("routers", "490"), ("hosts", "0")], 1);
    assert_eq!(counts(&mesh), (490, 0, 119_805));
}
