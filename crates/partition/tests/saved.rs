//! Partitions in files.

mod common;

use common::{Wire, wire, wired};
use longhaul_core::Topology;
use longhaul_partition::Partition;
use longhaul_partition::lookahead::least_delays;
use longhaul_partition::saved::{Saved, SavedError, fingerprint};
use proptest::prelude::*;

fn wires() -> Vec<Wire> {
    vec![
        wire("h0", "r0", 10),
        wire("r0", "r1", 0),
        wire("r1", "h1", 10),
    ]
}

fn topology() -> Topology {
    wired(&wires())
}

fn partition() -> Partition {
    // h0, h1, r0, r1
    let owner = vec![0, 1, 1, 1];
    Partition { cores: 2, owner }
}

fn text() -> String {
    Saved::new(&topology(), &partition(), "best", 7).to_json()
}

fn read(text: &str, topology: &Topology) -> Result<Partition, SavedError> {
    Saved::from_json(text)?.partition(topology, &least_delays(topology))
}

#[test]
fn what_is_saved_is_read_again() {
    let saved = Saved::from_json(&text()).unwrap();
    assert_eq!(
        (saved.cores, saved.method.as_str(), saved.seed),
        (2, "best", 7)
    );
    assert_eq!(read(&text(), &topology()), Ok(partition()));
}

#[test]
fn rates_and_delays_may_differ_and_names_may_not() {
    let mut other = wires();
    other[0].rate = [1, 2];
    other[0].delay_us = [7, 7];
    assert_eq!(read(&text(), &wired(&other)), Ok(partition()));

    let refused = |wires: &[Wire], part: &str| {
        let error = read(&text(), &wired(wires))
            .expect_err("refused")
            .to_string();
        assert!(
            error.contains(part) && error.contains("another topology"),
            "{error}"
        );
    };
    let mut renamed = wires();
    renamed[2].ends[1] = "h2".to_owned();
    refused(&renamed, "it has a node `h1`");
    let mut more = wires();
    more.push(wire("r1", "h9", 1));
    refused(&more, "it has no node `h9`");
    let mut moved = wires();
    moved[2].ends[0] = "r0".to_owned();
    refused(&moved, "the links are not");
}

#[test]
fn a_cut_without_delay_is_refused() {
    let mut instant = wires();
    instant[0].delay_us = [10, 0];
    let error = read(&text(), &wired(&instant)).expect_err("refused");
    assert_eq!(
        error.to_string(),
        "`r0>h0#0` leads from core 1 to core 0 and may have no delay; give it one, or make a new partition"
    );
}

#[test]
fn wrong_files_are_refused_with_what_to_do() {
    let refused = |from: &str, to: &str, part: &str| {
        let changed = text().replace(from, to);
        assert_ne!(changed, text());
        let error = read(&changed, &topology())
            .expect_err("refused")
            .to_string();
        assert!(error.contains(part), "no `{part}` in: {error}");
    };
    refused("{", "", "not a saved partition");
    refused(
        "longhaul-partition-1",
        "longhaul-partition-9",
        "save it again",
    );
    refused("\"cores\": 2", "\"cores\": 0", "1 to 1024 cores");
    refused("\"cores\": 2", "\"cores\": 1025", "1 to 1024 cores");
    refused("\"cores\": 2", "\"cores\": 1", "`h1` is on core 1");
    refused("\"h0\": 0", "\"h0\": 70000", "not a saved partition");
    refused("\"h0\": 0", "\"h0\": -1", "not a saved partition");
    refused("\"h0\": 0,", "", "it has no node `h0`");
    refused("\"seed\"", "\"seeds\"", "not a saved partition");
}

#[test]
fn fingerprints_distinguish_names_from_their_parts() {
    let pair = |a: &str, b: &str| fingerprint(&wired(&[wire(a, b, 1)]));
    assert_ne!(pair("ha", "hb"), pair("ha", "rb"));
    assert_ne!(pair("hab", "hc"), pair("ha", "hbc"));
    assert_eq!(fingerprint(&topology()), fingerprint(&topology()));
    assert_eq!(fingerprint(&topology()).len(), 32);
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,200}", cut in 0..400usize) {
        let _ = read(&text, &topology());
        let whole = self::text();
        let mut cut = cut.min(whole.len());
        while !whole.is_char_boundary(cut) {
            cut -= 1;
        }
        let _ = read(&whole[..cut], &topology());
    }
}
