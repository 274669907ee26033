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
        error.contains(":1:1: error: the file has more than 16 MiB"),
        "{error}"
    );
    let text = "#".repeat(MAX_FILE_BYTES as usize + 1);
    assert!(wrong(&text).contains("the file has more than 16 MiB"));
    let endless = Plan::from_file(Path::new("/dev/zero"))
        .unwrap_err()
        .to_string();
    assert!(endless.contains("more than 16 MiB"), "{endless}");
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
    "events:\n",
    "  - { at: 1 s, link: a-b, down: 2 s, every: 3 s }\n",
    "  - { at: 1 s, link: b-r, ramp: { delay: 5 ms }, over: 1 s }\n",
    "  - { at: 1 s, router: r, set: { queue: codel } }\n",
    "    - { ends: [a, b], delay: { gamma: { mean: 5 ms, deviation: 1 ms } }, bundle: 2 }\n",
    "    - { ends: [b, r], loss: { rate: 1 %, burst: 5 }, queue: { red: { limit: 9 kB } } }\n",
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
