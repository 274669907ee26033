//! Hostile files: nesting, size, random damage.

use std::fs;
use std::path::Path;

use longhaul_plan::file::MAX_FILE_BYTES;
use longhaul_plan::plan::Plan;
use proptest::prelude::*;

use crate::{EXAMPLE, wrong};

#[test]
fn deep_nesting_is_refused() {
    for (open, close) in [("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", "")] {
        for text in [
            open.repeat(10_000),
            format!("{}x{}", open.repeat(10_000), close.repeat(10_000)),
        ] {
            let message = wrong(&text);
            assert!(
                message.contains("more than 32 levels deep"),
                "{open}: {message}"
            );
        }
    }
    assert!(
        wrong(&format!("topology: {}x{}", "[".repeat(20), "]".repeat(20))).contains("should be")
    );
}

#[test]
fn a_large_file_is_refused_unread() {
    let path = std::env::temp_dir().join(format!("longhaul-large-{}.yaml", std::process::id()));
    fs::File::create(&path).unwrap().set_len(100 << 20).unwrap();
    let error = Plan::from_file(&path).unwrap_err().to_string();
    fs::remove_file(&path).unwrap();
    assert!(
        error.contains(":1:1: error: the file is larger than 16 MiB"),
        "{error}"
    );
    let text = "#".repeat(MAX_FILE_BYTES as usize + 1);
    assert!(wrong(&text).contains("the file is larger than 16 MiB"));
    let endless = Plan::from_file(Path::new("/dev/zero"))
        .unwrap_err()
        .to_string();
    assert!(endless.contains("larger than 16 MiB"), "{endless}");
}

/// Names and patterns that take long to look for: bounded for the file as a whole, reported once.
#[test]
fn what_sets_cost_is_bounded() {
    const SPENT: &str = "stand for, or are compared with, more than 50000000 names";
    let hosts = "topology: { nodes: { a: { count: 20000 }, r: { kind: router } }, links: [{ ends: [a, r] }] }\n";
    // A name that is nearly like the pattern all the way.
    let pattern = format!("\"{}b\"", "a*".repeat(100));
    let names = |name: &str, times: usize| vec![name; times].join(", ");
    let program =
        |names: String| format!("{hosts}programs: {{ p: {{ on: [{names}], run: x }} }}\n");
    for text in [
        program(names("\"*\"", 1_000_000)),
        format!(
            "{hosts}traffic: {{ t: {{ from: [{}], to: a0, bytes: 1 kB }} }}\n",
            names("all", 3_000)
        ),
        format!(
            "{hosts}events: [{{ at: 1 s, link: [{}], down: 1 s }}]\n",
            names("\"a*\"", 3_000)
        ),
        format!(
            "topology: {{ nodes: {{ a: {{ count: 20000 }}, r: {{ kind: router }} }}, links: [{{ ends: [[{}], r] }}] }}\n",
            names("a", 3_000)
        ),
    ] {
        let message = wrong(&text);
        assert_eq!(message.matches(SPENT).count(), 1, "{message:.500}");
    }
    // What stands for nothing costs as much, and is reported on its own while the budget lasts.
    for name in [&*pattern, "zz"] {
        let errors = Plan::from_text(&program(names(name, 5_000)), "f.yaml").unwrap_err();
        assert!(
            (2_499..2_502).contains(&errors.count()),
            "{name}: {}",
            errors.count()
        );
    }
    // Each program within bounds, and all of them not.
    let programs: String = (0..10_000)
        .map(|i| format!("  p{i}: {{ on: all, run: x }}\n"))
        .collect();
    let message = wrong(&format!("{hosts}programs:\n{programs}"));
    assert!(
        message.contains("at least 20000 programs"),
        "{message:.500}"
    );
}

#[test]
fn long_patterns_and_lists_of_them_are_read_or_refused() {
    let hosts = "topology: { nodes: { a: { count: 2 }, r: { kind: router } }, links: [{ ends: [a, r] }] }\n";
    let on = |set: &str| format!("{hosts}programs: {{ p: {{ on: {set}, run: x }} }}\n");
    for (pattern, part) in [
        ("?".repeat(1_000_000), "more than 127 characters"),
        ("[a]".repeat(1_000_000), "more than 127 characters"),
        ("[".repeat(1_000_000), "an unclosed class"),
        (format!("[{}", "a-".repeat(1_000_000)), "an unclosed class"),
        ("a*".repeat(1_000_000), "more than 127 characters"),
        (format!("{}=x", "k".repeat(1_000_000)), "labels"),
        (
            format!("k={}", "*x".repeat(1_000_000)),
            "more than 127 characters",
        ),
        ("=".repeat(1_000_000), "is not a label"),
    ] {
        let message = wrong(&on(&format!("\"{pattern}\"")));
        assert!(message.contains(part), "{part}: {message:.500}");
        assert!(message.chars().count() < 2_000, "{}", message.len());
    }
    let plan = |set: &str| Plan::from_text(&on(set), "f.yaml").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        plan(&format!("\"{}\"", "*".repeat(1_000_000)))
            .programs
            .len(),
        2
    );
    assert_eq!(
        plan(&format!("\"[{}]?\"", "a-b".repeat(1_000_000)))
            .programs
            .len(),
        2
    );
    assert_eq!(
        plan(&format!("[{}]", "\"a*\", ".repeat(1_000_000)))
            .programs
            .len(),
        2
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    /// Random text, and the example with random damage, never panic.
    #[test]
    fn hostile_text_never_panics(text in "\\PC{0,200}", at in 0..EXAMPLE.len(), len in 0..40usize) {
        let _ = Plan::from_text(&text, "f.yaml").map_err(|e| e.to_string());
        let mut bytes = EXAMPLE.as_bytes().to_vec();
        let end = (at + len).min(bytes.len());
        bytes.splice(at..end, text.bytes().take(20));
        let damaged = String::from_utf8_lossy(&bytes);
        let _ = Plan::from_text(&damaged, "f.yaml").map_err(|e| e.to_string());
        let overrides = [(text.clone(), text.clone()), ("links.ga-gb.delay".to_owned(), text)];
        let _ = Plan::from_text_with(EXAMPLE, "f.yaml", &overrides[..1]).map_err(|e| e.to_string());
        let _ = Plan::from_text_with(EXAMPLE, "f.yaml", &overrides[1..]).map_err(|e| e.to_string());
    }

    /// Pieces of the format in any order never panic either.
    #[test]
    fn shuffled_pieces_never_panic(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40)) {
        let text = pieces.concat();
        let _ = Plan::from_text(&text, "f.yaml").map_err(|e| e.to_string());
    }
}

const PIECES: &[&str] = &[
    "topology:\n",
    "  nodes:\n",
    "  links:\n",
    "    a: {}\n",
    "    b: { count: 3 }\n",
    "a: ",
    "b: ",
    "    r: { kind: router }\n",
    "    - { ends: [a, b] }\n",
    "    - { ends: [b, r] }\n",
    "- ",
    "? ",
    "{",
    "}",
    "[",
    "]",
    ", ",
    "&x ",
    "*x",
    "<<: *x\n",
    "programs:\n",
    "  p: { on: b, run: x }\n",
    "  q: { on: [a, b], run: x, after: [p, q] }\n",
    "  s: { on: [all, \"[a-b]*\", tier=edge], run: x }\n",
    "    c: { count: 2, labels: { tier: edge } }\n",
    "    - { ends: [\"c*\", [a, all]], labels: { kind: x } }\n",
    "  - { at: 1 s, link: [all, \"*>a\", kind=x], down: 2 s }\n",
    "traffic:\n",
    "  t: { from: all, to: \"c?\", pattern: { random: 2 }, bytes: 1 kB }\n",
    "events:\n",
    "  - { at: 1 s, link: a-b, down: 2 s, every: 3 s }\n",
    "  - { at: 1 s, link: b-r, ramp: { delay: 5 ms }, over: 1 s }\n",
    "  - { at: 1 s, router: r, set: { queue: codel } }\n",
    "    - { ends: [a, b], delay: { gamma: { mean: 5 ms, deviation: 1 ms } }, bundle: 2 }\n",
    "    - { ends: [b, r], loss: { rate: 1 %, burst: 5 }, queue: { red: { limit: 9 kB } } }\n",
    "measure:\n",
    "  every: 10 ms\n",
    "  of: [pipes, flows]\n",
    "  links: [all, kind=x]\n",
    "  capture: [a-b, { link: b-r, filter: \"tcp port 80 and host a\", snaplen: 64 B }]\n",
    "  packets: [{ link: \"a>b\", from: 1 s, for: 2 s }]\n",
    "  disk: 2 MB\n",
    "\n",
    "\t",
    "'",
    "\"",
    "|\n",
    ">\n",
    "!!binary ",
    "5 ms",
    "-1",
    "~",
    "null",
    "# c\n",
    "---\n",
    "...\n",
    "%YAML 1.2\n",
    "\u{feff}",
    "é",
    "\r",
];
