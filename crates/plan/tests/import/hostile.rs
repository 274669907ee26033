//! Files that are wrong, cut off, huge or made to do harm.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use longhaul_core::Span;
use longhaul_plan::topology::Kind;
use longhaul_plan::topology::import::{self, ImportOptions, MAX_IMPORT_BYTES};
use proptest::prelude::*;

use crate::common::{SAMPLES, has_note, names, options, parse, sample, wrong};

#[test]
fn what_is_wrong_is_reported_with_its_place_and_what_to_do() {
    let graph = |inside: &str| format!("graph [\n{inside}\n]");
    let xml = |inside: &str| format!("<graphml><graph>\n{inside}\n</graph></graphml>");
    let cases = [
        (String::new(), (0, 0), "empty"),
        (" \n\t".into(), (0, 0), "empty"),
        (
            "hello world\n".into(),
            (1, 1),
            "the format of this file is unknown",
        ),
        (graph("node [ id 0"), (1, 7), "is not closed"),
        (graph("node [ id 0 label \"Par"), (2, 19), "is not closed"),
        (graph("node [ label \"x\" ]"), (2, 1), "no id"),
        (graph("node [ id ]"), (2, 11), "has no value"),
        (graph("node [ id 0 id 1 ]"), (2, 16), "a second `id`"),
        (
            graph("node [ id 0 ]\nnode [ id 0 ]"),
            (3, 1),
            "second node with the id `0`",
        ),
        (
            graph("node [ id 0 ]\nedge [ source 0 target 9 ]"),
            (3, 1),
            "no node with the id `9`",
        ),
        (
            graph("node [ id 0 ]\nedge [ source 0 ]"),
            (3, 1),
            "lacks its source or target",
        ),
        (graph("node [ id 0 } ]"), (2, 13), "is not allowed here"),
        (
            graph("edge [ source 0 target 0 latency \"soon\" ]"),
            (2, 34),
            "not a latency",
        ),
        (
            graph("edge [ source 0 target 0 packet_loss 2 ]"),
            (2, 38),
            "not a fraction",
        ),
        (graph(""), (0, 0), "no nodes"),
        (
            xml("<node id=\"0\"/>") + "<graph/>",
            (3, 19),
            "second graph",
        ),
        (xml("<node id=\"0\">"), (3, 1), "not XML"),
        (xml("<node/>"), (2, 1), "has no `id`"),
        (
            xml("<node id=\"0\"><node id=\"1\"/></node>"),
            (2, 14),
            "within another",
        ),
        (
            xml("<node id=\"0\"><data key=\"label\">&lol;</data></node>"),
            (2, 32),
            "entity",
        ),
        (
            "<graphml><node id=\"0\"/></graphml>".into(),
            (1, 10),
            "outside of a graph",
        ),
        ("<graphml><graph>".into(), (1, 17), "is not closed"),
        ("<svg></svg>".into(), (0, 0), "no graph"),
        ("a b 1\na b\n".into(), (2, 1), "2 fields instead of 3"),
        ("a b 1\na b -\n".into(), (2, 5), "not a weight"),
        ("1 @x -> <2\n".into(), (1, 9), "is not closed"),
        (
            "Topology: ( 2\nNodes: ( 2 )\n0 1 2\n".into(),
            (3, 6),
            "1 nodes instead of the 2",
        ),
        (
            "Topology:\nNodes:\n0 NaN 2\n".into(),
            (3, 3),
            "not a coordinate",
        ),
        (
            "2 1\n0 1 2\n1 2 3\n".into(),
            (3, 6),
            "0 links instead of the 1",
        ),
        (
            "2 1\n0 1 2\n1 2 3\n0 5 1\n".into(),
            (4, 3),
            "no node with the id `5`",
        ),
        ("1|2|-1\n1|2|7\n".into(), (2, 5), "not a relationship"),
        (
            "1|2|0\n1|x|0\n".into(),
            (2, 3),
            "not the number of an autonomous system",
        ),
        ("0 1 2\n1 0\n".into(), (2, 1), "2 numbers instead of 3"),
        ("0 1\n1 0\n0 1\n".into(), (3, 1), "this row is one too many"),
        ("0 1 2\n1 0 2\n".into(), (2, 6), "2 of 3 rows"),
        ("0 1\n1e99 0\n".into(), (2, 1), "more than an hour"),
        ("graph \0 [".into(), (1, 7), "NUL"),
    ];
    for (text, place, part) in cases {
        let error = wrong(&text);
        assert!(error.message.contains(part), "{text:?}: {error}");
        assert_eq!((error.line(), error.column()), place, "{text:?}: {error}");
        assert!(error.hint.is_some_and(|hint| !hint.is_empty()), "{text:?}");
    }
    let packed = wrong(b"\x1f\x8b\x08rest");
    assert!(packed.hint.unwrap().contains("gunzip"));
    let options = ImportOptions::default();
    let absent = import::read(Path::new("/nonexistent.gml"), &options).unwrap_err();
    assert!(absent.message.contains("cannot read"), "{absent}");
    let folder = import::read(Path::new("/"), &options).unwrap_err();
    assert!(folder.message.contains("directory"), "{folder}");
}

#[test]
fn coordinates_that_are_none_are_missing() {
    for bad in ["NAN", "\"nan\"", "91.0", "1e999", "-INF"] {
        let text = format!(
            "graph [ node [ id 0 Longitude 1 Latitude {bad} ] node [ id 1 Longitude 1 Latitude 2 ] \
             edge [ source 0 target 1 ] ]"
        );
        let sketch = parse(&text, &[]).unwrap_or_else(|e| panic!("{bad}: {e}"));
        has_note(&sketch, &["1 node has coordinates that are not on Earth"]);
        has_note(
            &sketch,
            &["1 link has neither a delay nor a distance", "5 ms"],
        );
        assert_eq!(sketch.links[0].forward.delay, Span::from_ms(5));
        assert_eq!(sketch.nodes[0].position, None);
    }
}

#[test]
fn older_encodings_are_read_and_noted() {
    let sketch = parse(b"graph [ node [ id 0 label \"K\xf6ln\" ] ]", &[]).unwrap();
    assert_eq!(names(&sketch, Kind::Router), ["Koln"]);
    has_note(&sketch, &["not UTF-8"]);
}

#[test]
fn depth_size_and_repetition_do_no_harm() {
    let deep = format!(
        "graph [ node [ id 0 x {} {} ] ]",
        "[ y ".repeat(100_000),
        "]".repeat(100_000)
    );
    assert_eq!(parse(&deep, &[]).unwrap().nodes.len(), 2);
    assert!(wrong(&deep[..300_000]).message.contains("is not closed"));
    let deep = format!(
        "<graphml><graph><node id=\"0\">{}{}</node></graph></graphml>",
        "<x>".repeat(100_000),
        "</x>".repeat(100_000)
    );
    assert_eq!(parse(&deep, &[]).unwrap().nodes.len(), 2);
    let attributes = format!(
        "<graphml><graph><node {} id=\"0\"/></graph></graphml>",
        "a=\"\" ".repeat(100_000)
    );
    assert_eq!(parse(&attributes, &[]).unwrap().nodes.len(), 2);
    let huge = vec![b' '; MAX_IMPORT_BYTES as usize + 1];
    assert!(wrong(&huge).message.contains("64 MiB"));
    // A hundred thousand equal names, and one too many.
    let many = |count: usize| -> String {
        let node = |n: usize| format!("node [ id {n} label \"None\" ]\n");
        let edge = |n: usize| format!("edge [ source 0 target {n} ]\n");
        let inside: String = (0..count).map(node).chain((1..count).map(edge)).collect();
        format!("graph [ {inside} ]")
    };
    let sketch = parse(many(100_000), &[("hosts", "10 in all")]).unwrap();
    assert_eq!(sketch.nodes.len(), 100_010);
    assert_eq!(sketch.nodes[99_999].name, "None-100000");
    assert!(
        wrong(many(100_001))
            .message
            .contains("more than 100000 nodes")
    );
    let error = wrong(many(100_000));
    assert!(error.hint.unwrap().contains("in all"), "{}", error.message);
    let wide = format!("{}\n", "1 ".repeat(700));
    assert!(wrong(&wide).hint.unwrap().contains("rows: 632"));
}

const FORMATS: [&str; 8] = [
    "gml",
    "graphml",
    "rocketfuel",
    "cch",
    "brite",
    "inet",
    "caida",
    "matrix",
];

/// Whatever comes out is sound: an error with words, or nodes, links and places that fit.
fn sound(bytes: &[u8], options: &ImportOptions) -> Result<(), TestCaseError> {
    match import::read_bytes(bytes, "latencies", options) {
        Ok(sketch) => {
            let mut seen = HashSet::new();
            for node in &sketch.nodes {
                prop_assert!(seen.insert(node.name.to_lowercase()), "{} twice", node.name);
                let (x, y) = node.position.unwrap_or_default();
                prop_assert!(x.is_finite() && y.is_finite());
            }
            for link in &sketch.links {
                let [a, b] = link.ends;
                prop_assert!(a != b && a.max(b) < sketch.nodes.len());
            }
            prop_assert!(sketch.nodes.len() <= 1 || sketch.components().1 == 1);
        }
        Err(error) => prop_assert!(!error.to_string().is_empty()),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_give_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..300), format in 0..9usize) {
        let mut options = ImportOptions::default();
        if let Some(format) = FORMATS.get(format) {
            options.set("format", format).unwrap();
        }
        sound(&bytes, &options)?;
    }

    #[test]
    fn files_that_went_wrong_give_an_answer(
        sample_number in 0..SAMPLES.len(),
        cut in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        swaps in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..3),
        whole in any::<bool>(),
        largest in any::<bool>(),
    ) {
        let mut bytes = fs::read(sample(SAMPLES[sample_number])).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
        for (a, b) in swaps {
            let (a, b) = (a.index(lines.len()), b.index(lines.len()));
            lines.swap(a, b);
        }
        let mut bytes = lines.join(&b'\n');
        if !whole {
            bytes.truncate(cut.index(bytes.len()));
        }
        let component = if largest { "largest" } else { "all" };
        sound(&bytes, &options(&[("component", component)]))?;
    }
}
