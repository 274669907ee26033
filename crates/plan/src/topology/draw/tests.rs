//! Images: well-formed, complete, finite, and safe whatever the names are.

use proptest::prelude::*;

use super::*;
use crate::topology::generate::{self, FAMILIES};
use crate::topology::{SketchNode, SketchPipe};

fn made(kind: &str, params: &[(&str, &str)]) -> Sketch {
    let params: Vec<_> = params
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    generate::sketch(kind, &params, 1).unwrap_or_else(|e| panic!("{e}"))
}

/// Checks an image and gives the tooltips of its nodes.
fn check(image: &str) -> Vec<String> {
    let tree = roxmltree::Document::parse(image).unwrap_or_else(|e| panic!("{e}"));
    let root = tree.root_element();
    assert_eq!(
        root.tag_name().namespace(),
        Some("http://www.w3.org/2000/svg")
    );
    let size = |name: &str| root.attribute(name).unwrap().parse::<f64>().unwrap();
    let (width, height) = (size("width"), size("height"));
    let mut titles = Vec::new();
    for node in tree.descendants().filter(|node| node.is_element()) {
        assert!(
            !["script", "image", "use", "a", "foreignObject"].contains(&node.tag_name().name())
        );
        for attribute in node.attributes() {
            let (name, value) = (attribute.name(), attribute.value());
            assert!(!name.starts_with("on") && name != "href", "{name}");
            assert!(
                !value.contains("NaN") && !value.contains("inf"),
                "{name}={value}"
            );
            let in_group = node
                .parent()
                .is_some_and(|p| p.attribute("transform").is_some());
            let limit = match name {
                "x" | "cx" => width,
                "y" | "cy" => height,
                _ => continue,
            };
            let value: f64 = value.parse().unwrap();
            assert!(
                in_group || (0.0..=limit).contains(&value),
                "{name}={value} of {limit}"
            );
        }
        let drawn = node
            .attribute("class")
            .is_some_and(|class| class.starts_with("n "));
        let legend = node
            .parent()
            .is_some_and(|p| p.attribute("transform").is_some());
        if drawn && !legend {
            let title = node.first_element_child().and_then(|title| title.text());
            titles.push(title.unwrap_or_default().to_owned());
        }
    }
    titles
}

#[test]
fn every_family_is_drawn_whole() {
    for family in FAMILIES {
        let sketch = made(family.name, &[]);
        let image = svg(&sketch);
        let titles = check(&image);
        assert_eq!(titles.len(), sketch.nodes.len(), "{}", family.name);
        for (title, node) in titles.iter().zip(&sketch.nodes) {
            assert!(title.starts_with(&format!("{}: ", node.name)), "{title}");
        }
        let lines = image.matches("<path d=\"M").count();
        assert_eq!(lines, sketch.links.len(), "{}", family.name);
        assert_eq!(image, svg(&sketch), "{}: the same again", family.name);
    }
}

#[test]
fn tooltips_say_what_links_do() {
    let mut sketch = made("dumbbell", &[("queue", "64 KiB")]);
    sketch.links[0].back = Some(SketchPipe {
        rate: "3 Mbit/s".parse().ok(),
        ..SketchPipe::default()
    });
    let image = svg(&sketch);
    let wanted = "r0-r1: 100 Mbit/s, 10 ms, queue 64 KiB; back: 3 Mbit/s, 0 s";
    assert!(image.contains(wanted), "{image}");
}

/// 490 routers with 119,805 links: one shape, a note, all nodes.
#[test]
fn a_full_mesh_is_drawn_thinly() {
    let image = svg(&made("mesh", &[("routers", "490")]));
    assert_eq!(check(&image).len(), 2 * 490);
    assert!(image.contains("Too many links to draw apart"));
    assert!(image.contains("120,295 links, 1 Gbit/s"));
    assert!(image.len() < 4 << 20, "{} bytes", image.len());
}

/// Names that are shown cover neither one another nor nodes.
#[test]
fn names_have_room() {
    let sketch = made("barabasi_albert", &[("routers", "150"), ("hosts", "2")]);
    let image = svg(&sketch);
    let tree = roxmltree::Document::parse(&image).unwrap();
    let number = |node: &roxmltree::Node<'_, '_>, name: &str| {
        node.attribute(name)
            .map_or(0.0, |value| value.parse::<f64>().unwrap())
    };
    let shown = tree.descendants().filter(|node| {
        let root = node.parent().is_some_and(|p| p.tag_name().name() == "svg");
        node.has_tag_name(("http://www.w3.org/2000/svg", "text"))
            && root
            && node.attribute("class").is_none()
    });
    let rects: Vec<(f64, f64, f64, f64)> = shown
        .map(|node| {
            let (x, y) = (number(&node, "x"), number(&node, "y"));
            (
                x,
                y - 0.8 * FONT,
                x + width(node.text().unwrap(), 0.6 * FONT),
                y + 0.2 * FONT,
            )
        })
        .collect();
    assert!(rects.len() > 50, "{} names", rects.len());
    for (n, a) in rects.iter().enumerate() {
        for b in &rects[..n] {
            // To the rounding of coordinates.
            let apart = a.2 < b.0 + 0.2 || b.2 < a.0 + 0.2 || a.3 < b.1 + 0.2 || b.3 < a.1 + 0.2;
            assert!(apart, "{a:?} {b:?}");
        }
    }
}

#[test]
fn pieces_and_strange_sketches_are_drawn() {
    let mut sketch = Sketch::default();
    assert_eq!(check(&svg(&sketch)).len(), 0);
    sketch.add_host("alone");
    assert_eq!(check(&svg(&sketch)).len(), 1);
    for n in 0..7 {
        sketch.add_router(format!("r{n}"), Tier::Edge, None);
    }
    for (a, b) in [(1, 2), (2, 3), (3, 1), (4, 5), (4, 5), (5, 4)] {
        sketch.add_link(a, b, SketchPipe::default());
    }
    assert_eq!(check(&svg(&sketch)).len(), 8);
    // Some with positions, all in one place, or beyond all bounds.
    for place in [
        (3.0, 3.0),
        (0.0, 0.0),
        (f64::NAN, 1.0),
        (1e300, -1e300),
        (f64::INFINITY, 0.0),
    ] {
        for node in &mut sketch.nodes[..5] {
            node.position = Some(place);
        }
        assert_eq!(check(&svg(&sketch)).len(), 8, "{place:?}");
    }
    for (n, node) in sketch.nodes.iter_mut().enumerate() {
        node.position = Some((n as f64 * 40.0 - 180.0, 89.0));
    }
    sketch.geographic = true;
    assert_eq!(check(&svg(&sketch)).len(), 8);
}

#[test]
fn large_networks_are_drawn() {
    let image = svg(&made(
        "internet",
        &[("routers", "2000"), ("stubs", "100"), ("clients", "200")],
    ));
    assert_eq!(check(&image).len(), 2200);
    let image = svg(&made("tree", &[("degree", "4"), ("height", "5")]));
    assert_eq!(check(&image).len(), 341 + 1024);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn hostile_names_stay_text(
        names in prop::collection::vec(".*|[<>&\"'\\]\\[!-]{0,20}|<script>|]]>|\\PC{0,10}", 1..6),
        title in ".*", note in ".*",
    ) {
        let mut sketch = Sketch { title, notes: vec![note], ..Sketch::default() };
        for name in names {
            let node = sketch.add_node(SketchNode { name, kind: Kind::Lan, ..SketchNode::default() });
            if node > 0 {
                sketch.add_link(0, node, SketchPipe::default());
                sketch.links[node - 1].label = Some(sketch.title.clone());
            }
        }
        prop_assert_eq!(check(&svg(&sketch)).len(), sketch.nodes.len());
    }

    #[test]
    fn any_graph_is_drawn(
        count in 1..40usize,
        links in prop::collection::vec((0..40usize, 0..40usize), 0..80),
    ) {
        let mut sketch = Sketch::default();
        for n in 0..count {
            sketch.add_router(format!("r{n}"), Tier::Core, None);
        }
        for (a, b) in links {
            if a % count != b % count {
                sketch.add_link(a % count, b % count, SketchPipe::default());
            }
        }
        prop_assert_eq!(check(&svg(&sketch)).len(), count);
    }
}

/// Hosts at the place of their router are beside it, and rates have three digits.
#[test]
fn a_map_is_readable() {
    let mut sketch = Sketch::default();
    let town = Some((13.4, 52.5));
    let router = sketch.add_router("Berlin", Tier::Edge, town);
    let far = sketch.add_router("Paris", Tier::Edge, Some((2.3, 48.9)));
    let rate = |bits| longhaul_core::units::Rate::from_bits_per_s(bits);
    let pipe = SketchPipe {
        rate: rate(9_953_280_000),
        delay: longhaul_core::Span::from_us(4_321),
        ..SketchPipe::default()
    };
    sketch.add_link(router, far, pipe);
    sketch.add_hosts(3, &[router], SketchPipe::default());
    sketch.nodes[2..]
        .iter_mut()
        .for_each(|host| host.position = town);
    sketch.geographic = true;
    let paper = Paper::new(&sketch);
    for (n, a) in paper.places.iter().enumerate() {
        for b in &paper.places[..n] {
            let apart = ((a.0 - b.0) * (a.0 - b.0) + (a.1 - b.1) * (a.1 - b.1)).sqrt();
            assert!(apart > paper.radius, "{a:?} {b:?}");
        }
    }
    let image = svg(&sketch);
    // All digits in the tooltip, three of them in the legend.
    assert!(image.contains("9953280 kbit/s, 4321 us") && image.contains(", 9.95 Gbit/s<"));
    assert_eq!(about_span(pipe.delay), "4.32 ms");
    let three = [
        (1_000, "1 kbit/s"),
        (999_600, "1 Mbit/s"),
        (123_456, "123 kbit/s"),
        (10, "10 bit/s"),
    ];
    for (bits, text) in three {
        assert_eq!(about_rate(rate(bits).unwrap()), text);
    }
}

#[test]
fn a_partition_colours_nodes_and_marks_the_links_that_it_cuts() {
    let mut sketch = made("ring", &[("routers", "6"), ("hosts", "0")]);
    sketch.owners = vec![0, 0, 0, 1, 1, 13];
    let image = svg(&sketch);
    let titles = check(&image);
    assert_eq!(
        titles
            .iter()
            .filter(|title| title.ends_with(", core 0"))
            .count(),
        3
    );
    assert!(titles.iter().any(|title| title.ends_with(", core 13")));
    // Core 13 has the colour of core 1.
    assert_eq!(image.matches("class=\"n k1\"").count(), 3 + 2);
    assert_eq!(image.matches("<path class=\"cut\"").count(), 3);
    assert!(image.contains("core 0: 3 nodes") && image.contains("3 links between cores"));

    let plain = svg(&made("ring", &[("routers", "6"), ("hosts", "0")]));
    check(&plain);
    assert!(!plain.contains("core 0") && !plain.contains("k0") && !plain.contains("cut"));
}

#[test]
fn many_links_and_cores_are_drawn_too() {
    let mut sketch = made("mesh", &[("routers", "90"), ("hosts", "0")]);
    sketch.owners = (0..90).collect();
    let image = svg(&sketch);
    check(&image);
    assert!(image.contains("l many cut") && image.contains("and 66 other cores; colours repeat"));
}
