//! What each format means, on small files written by hand.

use longhaul_core::Span;
use longhaul_plan::topology::{Kind, Sketch, SketchLink};

use crate::common::{has_note, mbit, names, parse, read, trunks, us, wrong};

#[test]
fn the_zoo_is_cleaned_and_says_so() {
    let sketch = read(
        "zoo.gml",
        &[("rate", "1 Gbit/s"), ("access_rate", "100 Mbit/s")],
    );
    assert_eq!((sketch.title.as_str(), sketch.geographic), ("Tiny", true));
    let routers = ["Zurich", "New-York", "New-York-2", "None"];
    assert_eq!(names(&sketch, Kind::Router), routers);
    let hosts = ["Zurich-h0", "New-York-h0", "New-York-2-h0", "None-h0"];
    assert_eq!(names(&sketch, Kind::Host), hosts);
    let rates: Vec<_> = trunks(&sketch)
        .into_iter()
        .map(|(ends, .., rate)| (ends, rate))
        .collect();
    let expected = [
        ("Zurich New-York", 10_000.0),
        ("Zurich New-York", 9_953.28),
        ("New-York New-York-2", 1_000.0),
        ("None Zurich", 155.0),
        ("New-York None", 1_000.0),
    ];
    assert_eq!(
        rates,
        expected.map(|(ends, rate)| (ends.to_owned(), Some(rate)))
    );
    // Zürich – New York: 6,324 km by the spherical law of cosines, at 2/3 c.
    let (zurich, york) = ((8.55f64, 47.36667f64), (-74.00597f64, 40.71427f64));
    let (a, b) = (zurich.1.to_radians(), york.1.to_radians());
    let angle = a.sin() * b.sin() + a.cos() * b.cos() * (zurich.0 - york.0).to_radians().cos();
    let expected = angle.acos() * 6_371_008.8 / (2.0 / 3.0 * 299.792_458);
    let delays: Vec<f64> = trunks(&sketch)
        .into_iter()
        .map(|(_, delay, ..)| delay)
        .collect();
    assert!((delays[0] - expected).abs() < 1.0, "{delays:?} {expected}");
    assert_eq!(delays[2], 10.0, "one city");
    assert!(
        (delays[3] + delays[4] - delays[0]).abs() <= 2.0,
        "None lies between: {delays:?}"
    );
    has_note(&sketch, &["1 edge leads from a node to itself", "New York"]);
    has_note(
        &sketch,
        &[
            "labels are not host names",
            "`Zürich` is Zurich",
            "New-York",
        ],
    );
    has_note(&sketch, &["1 label occurs again", "New-York-2"]);
    has_note(&sketch, &["1 node has no coordinates", "None", "middle"]);
    has_note(&sketch, &["1 link is very short", "10 us"]);
    has_note(&sketch, &["2 links have no rate", "1 Gbit/s"]);
    has_note(&sketch, &["1 node is outside of the network"]);
    let access = sketch.links.last().unwrap();
    assert_eq!(sketch.nodes[access.ends[0]].name, "None-h0");
    assert_eq!(
        (mbit(access.forward.rate), access.back),
        (Some(100.0), None)
    );
}

#[test]
fn graphml_says_what_gml_says() {
    assert_eq!(read("zoo.gml", &[]), read("zoo.graphml", &[]));
}

#[test]
fn shadow_has_units_directions_and_access_rates() {
    let sketch = read("shadow.gml", &[]);
    let expected = [(
        "node-at-1.2.3.4 node-at-2.3.4.5".to_owned(),
        10_000.0,
        20_000.0,
        None,
    )];
    assert_eq!(trunks(&sketch), expected);
    let [trunk, first, second] = &sketch.links[..] else {
        panic!("{:?}", sketch.links)
    };
    let loss = "1 %".parse().unwrap();
    assert_eq!(
        (trunk.forward.loss, trunk.back.unwrap().loss),
        (Some(loss), None)
    );
    let rates = (mbit(first.forward.rate), mbit(first.back.unwrap().rate));
    assert_eq!(rates, (Some(1.0), Some(10.0)));
    assert_eq!(
        (mbit(second.forward.rate), second.back),
        (Some(0.1024), None)
    );
    has_note(&sketch, &["1 edges have jitter"]);
}

#[test]
fn rocketfuel_has_latencies_weights_and_maps() {
    let sketch = read("latencies.intra", &[]);
    let expected = [
        (
            "New-York-NY4 Washington-DC1".to_owned(),
            2_500.0,
            3_000.0,
            None,
        ),
        (
            "Washington-DC1 Atlanta-GA2".to_owned(),
            5_250.0,
            5_250.0,
            None,
        ),
    ];
    assert_eq!(trunks(&sketch), expected);
    let delays = |sketch: &Sketch| {
        trunks(sketch)
            .iter()
            .map(|trunk| trunk.1)
            .collect::<Vec<_>>()
    };
    let weights = read("weights.intra", &[("default_delay", "7 ms")]);
    assert_eq!(delays(&weights), [7_000.0, 7_000.0]);
    assert_eq!(weights.links[0].label.as_deref(), Some("weight 25"));
    has_note(&weights, &["weights for routing, not delays"]);
    assert_eq!(
        delays(&read("weights.intra", &[("unit", "100 us")])),
        [2_500.0, 5_200.0]
    );
    let map = read("map.cch", &[]);
    assert_eq!(
        names(&map, Kind::Router),
        ["New-York-NY-1", "Chicago-IL-2", "New-York-NY-3"]
    );
    assert_eq!(delays(&map), [5_000.0, 5_000.0]);
    has_note(&map, &["1 router is of another network", "-7"]);
    has_note(
        &map,
        &["1 link leads to a router that is not in the file", "99"],
    );
}

#[test]
fn generators_have_positions_delays_and_rates() {
    let brite = read("small.brite", &[]);
    let expected = [
        ("n0 n1".to_owned(), 2_845.802, 2_845.802, Some(10.0)),
        ("n1 n2".to_owned(), 3_187.883, 3_187.883, Some(1_024.0)),
        ("n2 n3".to_owned(), 3_740.056, 3_740.056, None),
        ("n3 n0".to_owned(), 3_422.701, 3_422.701, Some(10.0)),
    ];
    assert_eq!(trunks(&brite), expected);
    assert_eq!(
        (brite.nodes[1].position, brite.geographic),
        (Some((94.0, 172.0)), false)
    );
    let inet = read("small.inet", &[("unit", "1 us")]);
    let delays: Vec<f64> = trunks(&inet).iter().map(|trunk| trunk.1).collect();
    assert_eq!(delays, [4_300.0, 5_033.0, 9_011.0, 4_234.0]);
    let stubs = read("small.inet", &[("hosts_on", "stubs"), ("hosts", "2")]);
    assert_eq!(names(&stubs, Kind::Host), ["n3-h0", "n3-h1"]);
    has_note(&read("small.inet", &[]), &["without a unit"]);
}

#[test]
fn autonomous_systems_know_who_is_a_stub() {
    let sketch = read(
        "as-rel.txt",
        &[("hosts_on", "stubs"), ("hosts", "3 in all")],
    );
    assert_eq!(
        names(&sketch, Kind::Router),
        ["AS174", "AS3356", "AS64496", "AS64497"]
    );
    assert_eq!(
        names(&sketch, Kind::Host),
        ["AS64496-h0", "AS64496-h1", "AS64497-h0"]
    );
    assert_eq!(sketch.links.len(), 4 + 3);
    assert_eq!(sketch.links[0].label.as_deref(), Some("peers"));
    has_note(&sketch, &["shortest paths"]);
}

#[test]
fn a_matrix_is_hosts_and_a_link_for_each_pair() {
    let delays = |set: &[(&str, &str)]| -> Vec<(f64, f64)> {
        let sketch = read("matrix.tsv", set);
        assert!(sketch.nodes.iter().all(|node| node.kind == Kind::Host));
        let both = |l: &SketchLink| (us(l.forward.delay), us(l.back.unwrap_or(l.forward).delay));
        sketch.links.iter().map(both).collect()
    };
    let halves = [(5_000.0, 5_000.0), (10_250.0, 15_250.0), (5_000.0, 5_000.0)];
    assert_eq!(delays(&[]), halves);
    let whole = [
        (10_000.0, 10_000.0),
        (20_500.0, 30_500.0),
        (1_000.0, 1_000.0),
    ];
    assert_eq!(
        delays(&[("times", "one_way"), ("default_delay", "1 ms")]),
        whole
    );
    assert_eq!(delays(&[("unit", "1 us"), ("rows", "2")]), [(5.0, 5.0)]);
    has_note(
        &read("matrix.tsv", &[]),
        &["1 pair has no time", "h1 – h2", "5 ms"],
    );
    let half = parse("0 4\n-1 0\n", &[]).unwrap();
    has_note(&half, &["1 pair has a time only one way"]);
    assert_eq!(
        (half.links[0].forward.delay, half.links[0].back),
        (Span::from_ms(2), None)
    );
    assert!(
        parse("0 4\n4 0\n", &[("hosts", "2")])
            .unwrap_err()
            .message
            .contains("rows")
    );
}

#[test]
fn a_network_in_parts_is_refused_or_cut() {
    let text = "graph [ node [ id 5 ] node [ id 6 ] node [ id 7 label \"x\" ] \n\
                node [ id 8 ] edge [ source 6 target 8 ] edge [ source 7 target 8 ] ]";
    let error = wrong(text);
    assert!(
        error.message.contains("2 parts") && error.message.contains("`5`"),
        "{error}"
    );
    assert!(
        error.hint.as_ref().unwrap().contains("component: largest"),
        "{error}"
    );
    assert_eq!((error.line(), error.column()), (1, 9));
    let sketch = parse(text, &[("component", "largest"), ("hosts", "0")]).unwrap();
    assert_eq!(names(&sketch, Kind::Router), ["n6", "x", "n8"]);
    let ends: Vec<_> = sketch.links.iter().map(|link| link.ends).collect();
    assert_eq!(ends, [[0, 2], [1, 2]]);
    has_note(
        &sketch,
        &["1 node is not in the largest connected part (5)"],
    );
}

#[test]
fn names_that_collide_after_cleaning_stay_apart() {
    let text = "graph [ node [ id 0 label \"a b\" ] node [ id 1 label \"a-b\" ] \
                node [ id 2 label \"A  B\" ] node [ id 3 label \"a b-h0\" ] \
                edge [ source 0 target 1 ] edge [ source 2 target 1 ] edge [ source 3 target 1 ] ]";
    let sketch = parse(text, &[]).unwrap();
    assert_eq!(
        names(&sketch, Kind::Router),
        ["a-b", "a-b-2", "A-B-3", "a-b-h0"]
    );
    assert_eq!(
        names(&sketch, Kind::Host),
        ["a-b-h0-2", "a-b-2-h0", "A-B-3-h0", "a-b-h0-h0"]
    );
}
