//! Bundles, and what spread delays and queues mean for a plan.

use longhaul_core::Span;
use longhaul_core::topology::Balance;
use longhaul_plan::plan::Plan;

#[test]
fn bundles_are_parallel_links_that_share_flows() {
    let plan = Plan::from_text(
        "topology:
  nodes: { a: {}, b: {}, r: { kind: router }, s: { kind: router } }
  links:
    - { ends: [a, r] }
    - { ends: [r, s], bundle: 3 }
    - { ends: [s, r] }
    - { ends: [r, s], name: trunk, bundle: 2, balance: round_robin }
    - { ends: [s, b], bundle: 1 }
",
        "f.yaml",
    );
    let plan = plan.unwrap_or_else(|e| panic!("{e}"));
    let mut links: Vec<String> = plan
        .topology
        .pipes()
        .iter()
        .map(|pipe| format!("{}={}={:?}", pipe.link, pipe.name, pipe.balance))
        .filter(|text| !text.contains('a') || text.contains("trunk"))
        .filter(|text| !text.contains("=b>") && !text.contains(">b="))
        .collect();
    links.sort();
    assert_eq!(
        links,
        [
            "r-s#2=r>s#2=Flow",
            "r-s#2=s>r#2=Flow",
            "r-s#3=r>s#3=Flow",
            "r-s#3=s>r#3=Flow",
            "r-s=r>s=Flow",
            "r-s=s>r=Flow",
            "s-r#4=r>s#4=First",
            "s-r#4=s>r#4=First",
            "trunk#2=trunk#2:r>s=RoundRobin",
            "trunk#2=trunk#2:s>r=RoundRobin",
            "trunk=trunk:r>s=RoundRobin",
            "trunk=trunk:s>r=RoundRobin",
        ]
    );
    assert_eq!(Balance::default(), Balance::First);
    // An override names the entry by the name of its first link.
    let text = "topology:\n  nodes: { r: {}, s: {} }\n  links:\n    \
                - { ends: [r, s], bundle: 3 }\n    - { ends: [s, r] }\n";
    let set = [("links.s-r#4.delay".to_owned(), "5 ms".to_owned())];
    let plan = Plan::from_text_with(text, "f.yaml", &set).unwrap_or_else(|e| panic!("{e}"));
    let fourth = plan.topology.find_pipes("s-r#4")[0];
    assert_eq!(plan.topology.pipe(fourth).params.delay, Span::from_ms(5));
}

#[test]
fn spread_delays_count_by_their_mean_and_fill_the_pool_by_their_longest() {
    let slots = |delay: &str| {
        let text = format!(
            "topology: {{ nodes: {{ a: {{}}, b: {{}} }}, links: [{{ ends: [a, b], rate: 1 Gbit/s, \
             queue: 100 packets, delay: {delay} }}] }}"
        );
        let plan = Plan::from_text(&text, "f.yaml").unwrap_or_else(|e| panic!("{e}"));
        (plan.packet_slots(), plan.hosts[0].tcp.rmem_max)
    };
    let (constant, buffer) = slots("20 ms");
    let (spread, same) = slots("{ uniform: [0 ms, 40 ms] }");
    // 1 Gbit/s of the smallest frames are 1,953,125 a second, 39,062 in 20 ms, both ways, and
    // each direction's queue and packet in service, and 5 ms of packets of 1000 bytes released early.
    assert_eq!(constant, 2 * (39_062 + 101 + 625));
    // Of a uniform distribution 0.9999 lie below 39.996 ms.
    assert_eq!(spread, 2 * (78_117 + 101 + 625));
    assert_eq!(buffer, same);
}

#[test]
fn queues_are_neither_far_too_short_nor_far_too_long() {
    let warnings = |queue: &str| {
        let text = format!(
            "topology: {{ nodes: {{ a: {{}}, b: {{}} }}, links: [{{ ends: [a, b], rate: 10 Mbit/s, \
             delay: 20 ms, queue: {queue} }}] }}\nprograms: {{ p: {{ on: a, run: x }} }}\n"
        );
        Plan::from_text(&text, "f.yaml")
            .unwrap_or_else(|e| panic!("{e}"))
            .warnings
    };
    // 40 ms at 10 Mbit/s are 50,000 bytes: 33 packets.
    for right in [
        "5 packets",
        "330 packets",
        "5 kB",
        "500 kB",
        "4 ms",
        "400 ms",
        "codel",
        "{ pie: { limit: 9000 packets } }",
    ] {
        assert_eq!(warnings(right), Vec::<String>::new(), "{right}");
    }
    for (long, waits) in [
        ("340 packets", "408 ms"),
        ("501 kB", "400 ms"),
        ("401 ms", "401 ms"),
        ("10000 packets", "12000 ms"),
        ("{ red: { limit: 1000 packets } }", "1200 ms"),
    ] {
        let found = warnings(long);
        assert!(
            matches!(&found[..], [one] if one.contains("far above") && one.contains(waits) && one.contains("bufferbloat")),
            "{long}: {found:#?}"
        );
    }
    for short in [
        "3 packets",
        "4999 B",
        "3 ms",
        "{ codel: { limit: 2 packets } }",
    ] {
        let found = warnings(short);
        assert!(
            matches!(&found[..], [one] if one.contains("far below")),
            "{short}: {found:#?}"
        );
    }
}
