//! What is measured: every form of `measure:`, and what it comes to.

use longhaul_core::{Span, Time};
use longhaul_plan::measure::{Bins, CAPTURE_BYTES, Capture, Format, Measure, Point, SNAPLEN};
use longhaul_plan::plan::Plan;

use crate::wrong;

pub(crate) const NETWORK: &str = "
topology:
  nodes:
    a: { count: 2 }
    b: { labels: { tier: data } }
    r: { kind: router }
  links:
    - { ends: [a, r], labels: { kind: access } }
    - { ends: [r, b], name: trunk }
";

/// Every field with a value that is not its default.
pub(crate) const WHOLE: &str = "
measure:
  every: 10 ms
  of: [pipes, core]
  links: [kind=access, \"trunk:r>*\"]
  connections: 100 ms
  hosts: 1 s
  format: csv
  disk: 300 MB
  capture:
    - trunk
    - { link: [a0-r, trunk], at: entry, filter: tcp port 80 and host b, snaplen: 96 B, size: 20 MB }
  packets:
    - { link: \"a*>r\", from: 1 s, for: 20 ms }
    - { link: trunk }
";

fn plan(more: &str) -> Plan {
    let text = format!("{NETWORK}{more}");
    Plan::from_text(&text, "f.yaml").unwrap_or_else(|e| panic!("{e}"))
}

fn measure(fields: &str) -> (Measure, Plan) {
    let plan = plan(&format!("measure: {{ {fields} }}\n"));
    (plan.measure.clone(), plan)
}

fn names(plan: &Plan, pipes: &[longhaul_core::PipeId]) -> String {
    assert!(
        pipes.is_sorted_by(|a, b| a < b),
        "sorted, each once: {pipes:?}"
    );
    let names = pipes.iter().map(|pipe| &*plan.topology.pipe(*pipe).name);
    let mut names: Vec<_> = names.collect();
    names.sort_unstable();
    names.join(" ")
}

fn bins(fields: &str) -> Option<(Bins, String)> {
    let (measure, plan) = measure(fields);
    let bins = measure.bins?;
    let pipes = names(&plan, &bins.pipes);
    Some((bins, pipes))
}

const ALL: &str = "a0>r a1>r r>a0 r>a1 trunk:b>r trunk:r>b";

#[test]
fn nothing_is_measured_by_default() {
    for text in ["", "measure: {}\n", "measure: { format: csv }\n"] {
        let measure = plan(text).measure;
        assert_eq!(
            (
                measure.bins,
                measure.captures,
                measure.timelines,
                measure.disk_bytes
            ),
            (None, vec![], vec![], 2_000_000_000),
            "{text}"
        );
    }
    assert_eq!(plan("").measure, Measure::default());
    assert_eq!(plan("").measure.format, Format::Parquet);
}

#[test]
fn a_width_a_series_or_a_link_gives_bins() {
    for (fields, every, pipes, flows, core) in [
        ("every: 10 ms", 10, ALL, true, true),
        ("every: 1 ms", 1, ALL, true, true),
        ("every: 1 h", 3_600_000, ALL, true, true),
        ("of: pipes", 1000, ALL, false, false),
        ("of: [flows]", 1000, "", true, false),
        ("of: [core, flows, core]", 1000, "", true, true),
        ("every: 2 s, of: core", 2000, "", false, true),
        ("links: trunk", 1000, "trunk:b>r trunk:r>b", true, true),
        (
            "of: pipes, links: [\"a?>r\", a0-r]",
            1000,
            "a0>r a1>r r>a0",
            false,
            false,
        ),
        (
            "links: kind=access",
            1000,
            "a0>r a1>r r>a0 r>a1",
            true,
            true,
        ),
        ("links: all", 1000, ALL, true, true),
        ("links: a-r", 1000, "a0>r a1>r r>a0 r>a1", true, true),
    ] {
        let (bins, found) = bins(fields).expect(fields);
        assert_eq!(
            (bins.every, &*found, bins.flows, bins.core),
            (Span::from_ms(every), pipes, flows, core),
            "{fields}"
        );
    }
    for fields in ["connections: 1 s", "hosts: 1 s", "capture: [trunk]"] {
        assert_eq!(bins(fields), None, "{fields}");
    }
}

#[test]
fn a_capture_is_a_name_or_more() {
    let capture = |entry: &str| {
        let (measure, plan) = measure(&format!("capture: [{entry}]"));
        let [capture]: [Capture; 1] = measure.captures.try_into().expect("one");
        let pipes = names(&plan, &capture.pipes);
        (capture, pipes)
    };
    let both = "trunk:b>r trunk:r>b";
    for entry in ["trunk", "{ link: trunk }", "{ link: [trunk], at: exit }"] {
        let (found, pipes) = capture(entry);
        assert_eq!(
            (&*found.name, &*pipes, found.point, &found.filter),
            ("trunk", both, Point::Exit, &None),
            "{entry}"
        );
        assert_eq!((found.snaplen, found.size), (SNAPLEN, CAPTURE_BYTES));
    }
    let (found, pipes) = capture(
        "{ link: [\"a*>r\", trunk], at: entry, filter: host a0 and tcp, snaplen: 96 B, size: 1 MB }",
    );
    assert_eq!(
        (&*found.name, pipes),
        ("a*>r+trunk", format!("a0>r a1>r {both}"))
    );
    assert_eq!(
        (found.point, found.snaplen, found.size),
        (Point::Entry, 96, 1_000_000)
    );
    assert_eq!(found.filter.expect("a filter").text, "host a0 and tcp");
    let (found, _) = capture("{ link: trunk, snaplen: 262144 B }");
    assert_eq!(found.snaplen, SNAPLEN);
}

#[test]
fn packets_are_followed_for_a_while() {
    let window = |fields: &str| {
        let (measure, plan) = measure(&format!("packets: [{{ {fields} }}]"));
        let timeline = measure.timelines.into_iter().next().expect("one");
        (names(&plan, &timeline.pipes), timeline.from, timeline.until)
    };
    let at = |ms| Time::ZERO + Span::from_ms(ms);
    let forward = || "trunk:r>b".to_owned();
    assert_eq!(window("link: \"trunk:r>b\""), (forward(), at(0), Time::MAX));
    assert_eq!(
        window("link: \"trunk:r>b\", from: 1 s, for: 20 ms"),
        (forward(), at(1000), at(1020))
    );
    // Longer than time is.
    assert_eq!(
        window("link: \"trunk:r>b\", from: 1 s, for: 18446744073 s").2,
        Time::MAX
    );
}

#[test]
fn all_of_it_together() {
    let plan = plan(WHOLE);
    let measure = &plan.measure;
    let bins = measure.bins.as_ref().expect("bins");
    assert_eq!(names(&plan, &bins.pipes), "a0>r a1>r r>a0 r>a1 trunk:r>b");
    assert_eq!((bins.flows, bins.core), (false, true));
    assert_eq!(
        (measure.connections, measure.hosts),
        (Some(Span::from_ms(100)), Some(Span::from_s(1)))
    );
    assert_eq!(
        (measure.format, measure.disk_bytes),
        (Format::Csv, 300_000_000)
    );
    assert_eq!((measure.captures.len(), measure.timelines.len()), (2, 2));
}

#[test]
fn set_reaches_what_is_measured() {
    let set = |path: &str, value: &str| {
        let text = format!("{NETWORK}{WHOLE}");
        let overrides = [(path.to_owned(), value.to_owned())];
        Plan::from_text_with(&text, "f.yaml", &overrides).map(|plan| plan.measure)
    };
    let every = set("measure.every", "5 ms").unwrap().bins.unwrap().every;
    assert_eq!(every, Span::from_ms(5));
    let captures = set("measure.capture.1.snaplen", "64 B").unwrap().captures;
    assert_eq!(captures[1].snaplen, 64);
    let error = set("measure.capture.1.filter", "prot 80").unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("--set:1:26: error: filter, column 1: "),
        "{error}"
    );
}

/// So many pipes, and not one more; a pipe counts for each entry that names it.
#[test]
fn watched_pipes_are_bounded() {
    let text = |hosts: u32| {
        format!(
            "topology: {{ nodes: {{ a: {{ count: {hosts} }}, r: {{ kind: router }} }}, links: [{{ ends: [a, r] }}] }}
measure: {{ capture: [a-r], packets: [{{ link: a-r }}] }}
"
        )
    };
    let plan = Plan::from_text(&text(2500), "f.yaml").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(plan.measure.captures[0].pipes.len(), 5000);
    let error = wrong(&text(2501));
    assert!(error.contains("10004 pipes"), "{error}");
}

#[test]
fn hosts_have_no_programs_to_be_looked_at_in_virtual_time() {
    let warned = |more: &str| {
        let plan = plan(&format!("measure: {{ hosts: 1 s }}\n{more}"));
        let mut warnings = plan.warnings.into_iter();
        warnings.any(|warning| warning.contains("`measure.hosts` has no effect"))
    };
    assert!(warned("clock: virtual\nduration: 1 s\n"));
    assert!(!warned("duration: 1 s\n"));
}
