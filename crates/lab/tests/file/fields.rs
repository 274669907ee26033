//! The fields of links: every form of every value, in the file and for a link that runs.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use longhaul_core::element::{Element, Fate};
use longhaul_core::params::{
    CoDel, Discipline, Distribution, FqCodel, Jitter, LossModel, Pie, PipeParams, Red, Reorder,
    Which,
};
use longhaul_core::rng::Stream;
use longhaul_core::topology::Balance;
use longhaul_core::trace::Series;
use longhaul_core::units::{Bytes, Framing, Probability, QueueLimit, Rate};
use longhaul_core::{Span, Time};
use longhaul_lab::elements::Elements;
use longhaul_lab::plan::Plan;
use longhaul_lab::{assign, described};
use proptest::prelude::*;

use crate::folder;

/// Every field with a value, and what it comes to.
fn table() -> Vec<(&'static str, &'static str, PipeParams)> {
    let plain = PipeParams::default;
    let percent = |text: &str| text.parse::<Probability>().unwrap();
    let ms = Span::from_ms;
    let spread = |distribution: Result<Distribution, _>, correlation, reorder| {
        let distribution: Distribution = distribution.unwrap();
        PipeParams {
            delay: Span::from_ns(distribution.mean().round() as u64),
            jitter: Some(Arc::new(Jitter {
                distribution,
                correlation,
                reorder,
            })),
            ..PipeParams::default()
        }
    };
    let loss = |loss| PipeParams {
        loss,
        ..PipeParams::default()
    };
    let queue = |queue, discipline| PipeParams {
        queue,
        discipline,
        ..PipeParams::default()
    };
    let one_in = |n| NonZeroU32::new(n).unwrap();
    vec![
        (
            "rate",
            "8 kbit/s",
            PipeParams {
                rate: Rate::from_bits_per_s(8000),
                ..plain()
            },
        ),
        (
            "rate",
            "100 Gbit/s",
            PipeParams {
                rate: Rate::from_bits_per_s(100_000_000_000),
                ..plain()
            },
        ),
        ("rate", "unlimited", plain()),
        (
            "framing",
            "wire",
            PipeParams {
                framing: Framing::Wire,
                ..plain()
            },
        ),
        (
            "delay",
            "5 ms",
            PipeParams {
                delay: ms(5),
                ..plain()
            },
        ),
        (
            "delay",
            "{ uniform: [4 ms, 6 ms] }",
            spread(Distribution::uniform(ms(4), ms(6)), 0.0, false),
        ),
        (
            "delay",
            "{ normal: { mean: 5 ms, deviation: 1 ms }, correlation: 25 %, reorder: true }",
            spread(Distribution::normal(ms(5), ms(1)), 0.25, true),
        ),
        (
            "delay",
            "{ pareto: { mean: 5 ms, deviation: 1 ms }, base: 3 ms }",
            spread(Distribution::pareto(ms(3), ms(5), ms(1)), 0.0, false),
        ),
        (
            "delay",
            "{ log_normal: { mean: 5 ms, deviation: 1 ms } }",
            spread(Distribution::log_normal(ms(0), ms(5), ms(1)), 0.0, false),
        ),
        (
            "delay",
            "{ gamma: { mean: 5 ms, deviation: 1 ms } }",
            spread(Distribution::gamma(ms(0), ms(5), ms(1)), 0.0, false),
        ),
        (
            "overtake",
            "true",
            PipeParams {
                overtake: true,
                ..plain()
            },
        ),
        ("loss", "1 %", loss(LossModel::Independent(percent("1 %")))),
        (
            "loss",
            "{ one_in: 100 }",
            loss(LossModel::OneIn(one_in(100))),
        ),
        (
            "loss",
            "{ rate: 0.1 %, burst: 5 }",
            loss(LossModel::from_rate_and_burst(percent("0.1 %"), 5.0).unwrap()),
        ),
        (
            "loss",
            "{ rate: 0.1 % }",
            loss(LossModel::Independent(percent("0.1 %"))),
        ),
        (
            "loss",
            "{ gilbert_elliott: { to_bad: 1 %, to_good: 20 %, in_good: 2 % } }",
            loss(LossModel::GilbertElliott {
                to_bad: percent("1 %"),
                to_good: percent("20 %"),
                in_good: percent("2 %"),
                in_bad: Probability::ALWAYS,
            }),
        ),
        (
            "bit_errors",
            "1e-9",
            PipeParams {
                bit_errors: Probability::from_ratio(1, 1_000_000_000).unwrap(),
                ..plain()
            },
        ),
        (
            "bit_errors",
            "2.5E-3",
            PipeParams {
                bit_errors: percent("0.25 %"),
                ..plain()
            },
        ),
        (
            "bit_errors",
            "0.5",
            PipeParams {
                bit_errors: percent("50 %"),
                ..plain()
            },
        ),
        (
            "bit_errors",
            "0.001 %",
            PipeParams {
                bit_errors: Probability::from_ratio(1, 100_000).unwrap(),
                ..plain()
            },
        ),
        ("bit_errors", "0", plain()),
        (
            "duplicate",
            "1 %",
            PipeParams {
                duplicate: percent("1 %"),
                ..plain()
            },
        ),
        (
            "corrupt",
            "0.1 %",
            PipeParams {
                corrupt: percent("0.1 %"),
                ..plain()
            },
        ),
        (
            "reorder",
            "{ probability: 1 %, delay: 2 ms }",
            PipeParams {
                reorder: Some(Reorder {
                    which: Which::Random(percent("1 %")),
                    hold: ms(2),
                }),
                ..plain()
            },
        ),
        (
            "reorder",
            "{ one_in: 100, delay: 2 ms }",
            PipeParams {
                reorder: Some(Reorder {
                    which: Which::OneIn(one_in(100)),
                    hold: ms(2),
                }),
                ..plain()
            },
        ),
        ("reorder", "none", plain()),
        (
            "queue",
            "250 packets",
            queue(QueueLimit::Packets(250), Discipline::DropTail),
        ),
        (
            "queue",
            "64 KiB",
            queue(QueueLimit::Bytes(65_536), Discipline::DropTail),
        ),
        (
            "queue",
            "20 ms",
            queue(QueueLimit::Time(ms(20)), Discipline::DropTail),
        ),
        ("queue", "drop_tail", plain()),
        (
            "queue",
            "{ drop_tail: { limit: 7 packets } }",
            queue(QueueLimit::Packets(7), Discipline::DropTail),
        ),
        (
            "queue",
            "red",
            queue(
                QueueLimit::default(),
                Discipline::Red(Red::for_limit(QueueLimit::default())),
            ),
        ),
        (
            "queue",
            "{ red: { limit: 64 KiB, min: 10 KiB, max: 30 KiB, probability: 2 %, weight: 8, ecn: true } }",
            queue(
                QueueLimit::Bytes(65_536),
                Discipline::Red(Red {
                    min: 10_240,
                    max: 30_720,
                    probability: percent("2 %"),
                    weight_log2: 8,
                    ecn: true,
                }),
            ),
        ),
        (
            "queue",
            "codel",
            queue(QueueLimit::default(), Discipline::CoDel(CoDel::default())),
        ),
        (
            "queue",
            "{ codel: { limit: 100 packets, target: 2 ms, interval: 40 ms, ecn: true } }",
            queue(
                QueueLimit::Packets(100),
                Discipline::CoDel(CoDel {
                    target: ms(2),
                    interval: ms(40),
                    ecn: true,
                }),
            ),
        ),
        (
            "queue",
            "{ codel: }",
            queue(QueueLimit::default(), Discipline::CoDel(CoDel::default())),
        ),
        (
            "queue",
            "{ pie: { target: 20 ms, update: 10 ms, max_burst: 0 s } }",
            queue(
                QueueLimit::default(),
                Discipline::Pie(Pie {
                    target: ms(20),
                    update: ms(10),
                    max_burst: ms(0),
                    ecn: false,
                }),
            ),
        ),
        (
            "queue",
            "fq_codel",
            queue(
                QueueLimit::Packets(10_240),
                Discipline::FqCodel(FqCodel::default()),
            ),
        ),
        (
            "queue",
            "{ fq_codel: { flows: 16, quantum: 300 B, ecn: false, target: 1 ms, limit: 10 ms } }",
            queue(
                QueueLimit::Time(ms(10)),
                Discipline::FqCodel(FqCodel {
                    flows: one_in(16),
                    quantum: 300,
                    codel: CoDel {
                        target: ms(1),
                        ..CoDel::default()
                    },
                }),
            ),
        ),
        ("burst", "none", plain()),
        ("trace", "none", plain()),
        ("element", "none", plain()),
    ]
}

/// The pipes `a>b` and `b>a` of a link with these fields.
fn link(fields: &str) -> Result<[PipeParams; 2], String> {
    let text = format!(
        "topology:\n  nodes: {{ a: {{}}, b: {{}} }}\n  links:\n    - {{ ends: [a, b], {fields} }}\n"
    );
    let name = folder("bad/link.yaml");
    let plan = Plan::from_text(&text, name.to_str().unwrap()).map_err(|e| e.to_string())?;
    let pipe = |name: &str| {
        let id = plan.topology.find_pipes(name)[0];
        plan.topology.pipe(id).params.clone()
    };
    Ok(["a>b", "b>a"].map(pipe))
}

/// What the command `set` makes of `before`.
fn set(field: &str, value: &str, before: &PipeParams) -> Result<PipeParams, String> {
    let values = [(field.to_owned(), value.to_owned())];
    let elements = Elements::new();
    let patch = assign::patch(&values, before.framing, &folder("bad"), &elements);
    patch
        .map(|patch| patch.apply(before))
        .map_err(|e| e.to_string())
}

#[test]
fn every_field_is_read_in_every_form() {
    for (field, value, expected) in table() {
        let [forward, back] = link(&format!("{field}: {value}")).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(
            (&forward, &back),
            (&expected, &expected),
            "{field}: {value}"
        );
        if field != "framing" {
            let fields = format!("back: {{ {field}: {value} }}");
            let [forward, back] = link(&fields).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(
                (forward, back),
                (PipeParams::default(), expected),
                "{fields}"
            );
        }
    }
}

#[test]
fn set_reads_as_the_file_does_and_touches_nothing_else() {
    let marked =
        link("rate: 3 Mbit/s, delay: 9 ms, loss: 7 %, queue: 33 packets").unwrap()[0].clone();
    for (field, value, expected) in table() {
        let changed = set(field, value, &PipeParams::default());
        assert_eq!(changed.as_ref(), Ok(&expected), "{field}={value}");
        let twice = set(field, value, &marked).unwrap();
        let fields = |params: &PipeParams| described::fields(params);
        let other = |(name, _): &&(&str, String)| *name != field;
        let (before, after) = (fields(&marked), fields(&twice));
        let same: Vec<_> = before.iter().filter(other).collect();
        assert_eq!(
            after.iter().filter(other).collect::<Vec<_>>(),
            same,
            "{field}={value}"
        );
        assert_eq!(
            fields(&expected).iter().find(|f| f.0 == field),
            after.iter().find(|f| f.0 == field)
        );
    }
}

#[test]
fn what_set_refuses_is_what_the_file_refuses() {
    let wrong = [
        ("delay", "5"),
        ("delay", "{ normal: { mean: 0 s, deviation: 1 ms } }"),
        ("loss", "200 %"),
        ("loss", "{ one_in: 0 }"),
        ("queue", "{ codel: { interval: 0 s } }"),
        ("queue", "{ codel: { taget: 1 ms } }"),
        ("bit_errors", "7"),
        ("trace", "nowhere.csv"),
        ("element", "nobody"),
        ("rate", "1 Gbps"),
        ("delay", "{"),
    ];
    for (field, value) in wrong {
        let [file, command] = [
            link(&format!("{field}: {value}")).map(|_| ()).unwrap_err(),
            set(field, value, &PipeParams::default())
                .map(|_| ())
                .unwrap_err(),
        ];
        assert!(command.starts_with("set:1:"), "{command}");
        if value == "{" {
            continue;
        }
        // The words are the same; only the place differs.
        let words = |text: &str| {
            let (_, message) = text.split_once("error: ").unwrap();
            let hint = text.lines().last().unwrap().to_owned();
            (message.lines().next().unwrap().to_owned(), hint)
        };
        assert_eq!(words(&file), words(&command), "{field}: {value}");
    }
    let unknown = set("colour", "red", &PipeParams::default()).unwrap_err();
    assert!(
        unknown.contains("unknown field `colour`") && unknown.contains("rate"),
        "{unknown}"
    );
    let ends = set("ends", "[a, b]", &PipeParams::default()).unwrap_err();
    assert!(ends.contains("unknown field `ends`"), "{ends}");
}

#[test]
fn json_is_as_good_as_yaml() {
    let json = r#"{"normal":{"mean":"5 ms","deviation":"1 ms"},"reorder":true}"#;
    let yaml = "{ normal: { mean: 5 ms, deviation: 1 ms }, reorder: true }";
    let now = PipeParams::default();
    assert_eq!(
        set("delay", json, &now).unwrap(),
        set("delay", yaml, &now).unwrap()
    );
}

#[test]
fn the_way_back_inherits_what_it_does_not_say() {
    let [forward, back] = link(
        "rate: 10 Mbit/s, burst: 16 kB, delay: { uniform: [1 ms, 3 ms] }, queue: codel, \
         duplicate: 1 %, back: { rate: 1 Mbit/s, queue: 5 packets, delay: 1 ms }",
    )
    .unwrap();
    assert_eq!(forward.burst, Some(Bytes(16_000)));
    assert_eq!(
        back,
        PipeParams {
            rate: Rate::from_bits_per_s(1_000_000),
            queue: QueueLimit::Packets(5),
            discipline: Discipline::DropTail,
            delay: Span::from_ms(1),
            jitter: None,
            ..forward
        }
    );
}

#[test]
fn files_are_sought_beside_the_experiment() {
    let [forward, _] =
        link("trace: { mahimahi: data/good.mahi, loop: true }, framing: ip").unwrap();
    let trace = forward.trace.expect("a trace");
    let Series::Opportunities { at, bytes } = &trace.series else {
        panic!("{trace:?}")
    };
    // 1500 bytes of IP are 1500 bytes where the framing is that of IP.
    assert_eq!(
        (at.len(), *bytes, trace.period),
        (3, 1500, Some(Span::from_ms(3)))
    );
    let elsewhere = Plan::from_text(
        "topology: { nodes: { a: {}, b: {} }, links: [{ ends: [a, b], trace: data/good.mahi }] }",
        "/no/such/folder/f.yaml",
    );
    assert!(
        elsewhere
            .unwrap_err()
            .to_string()
            .contains("data/good.mahi")
    );
    let found = assign::patch(
        &[("trace".to_owned(), "{ mahimahi: good.mahi }".to_owned())],
        Framing::Ethernet,
        &folder("bad").join("data"),
        &Elements::new(),
    );
    let found = found.unwrap_or_else(|e| panic!("{e}")).trace.flatten();
    assert!(matches!(
        &found.unwrap().series,
        Series::Opportunities { bytes: 1518, .. }
    ));
}

/// Links that name one file share what was read from it.
#[test]
fn a_file_is_read_once() {
    let text = "topology:\n  nodes: { a: { count: 2 }, b: { kind: router } }\n  links:\n    \
                - { ends: [a, b], trace: { mahimahi: good.mahi } }\n    \
                - { ends: [a, b], trace: { mahimahi: good.mahi } }\n";
    let file = folder("bad").join("data/f.yaml");
    let plan = Plan::from_text(text, file.to_str().unwrap()).unwrap_or_else(|e| panic!("{e}"));
    let mut traces = plan
        .topology
        .pipes()
        .iter()
        .map(|p| p.params.trace.clone().unwrap());
    let first = traces.next().unwrap();
    assert!(traces.len() == 7 && traces.all(|other| Arc::ptr_eq(&first, &other)));
}

#[derive(Debug)]
struct Nothing;

impl Element for Nothing {
    fn pass(&mut self, _: Time, _: &mut [u8], _: &mut Stream) -> Fate {
        Fate::Pass
    }
}

#[test]
fn elements_are_known_by_their_names() {
    let elements = Elements::new().with("every-third", || Box::new(Nothing));
    let text = |name: &str| {
        format!(
            "topology: {{ nodes: {{ a: {{}}, b: {{}} }}, links: [{{ ends: [a, b], element: {name} }}] }}"
        )
    };
    let plan = Plan::load(&text("every-third"), "f.yaml", &[], &elements).unwrap();
    let element = plan.topology.pipes()[0].params.element.clone().unwrap();
    assert_eq!(&*element.name, "every-third");
    let wrong = |name: &str, elements: &Elements| {
        let plan = Plan::load(&text(name), "f.yaml", &[], elements);
        plan.unwrap_err().to_string()
    };
    assert!(wrong("every-thrid", &elements).contains("did you mean `every-third`?"));
    assert!(wrong("x", &elements).contains("the elements of this program are every-third"));
    assert!(wrong("x", &Elements::new()).contains("docs/elements.md"));
}

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
    // each direction's queue and packet in service.
    assert_eq!(constant, 2 * (39_062 + 101));
    // Of a uniform distribution 0.9999 lie below 39.996 ms.
    assert_eq!(spread, 2 * (78_117 + 101));
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    /// Whatever is set, it never panics; what is accepted is in range.
    #[test]
    fn hostile_values_never_panic(field in "[a-z_]{0,12}", value in "\\PC{0,60}") {
        let known = ["delay", "loss", "queue", "bit_errors", "burst", "reorder", "rate"];
        for field in known.into_iter().chain([field.as_str()]) {
            if let Ok(params) = set(field, &value, &PipeParams::default()) {
                // A burst wants a rate beside it, which the run checks.
                let rate = Rate::from_bits_per_s(1000);
                let params = PipeParams { rate, ..params };
                prop_assert!(params.validate().is_ok(), "{field}={value}");
            }
        }
    }

    /// A bit error rate is read exactly.
    #[test]
    fn bit_error_rates_are_read_exactly(digits in 1u64..1000, exponent in 3u32..15) {
        let expected = Probability::from_ratio(digits, 10u64.pow(exponent));
        for text in [format!("{digits}e-{exponent}"), format!("{digits}.0E-{exponent}"), format!("0.{digits:0>width$}", width = exponent as usize)] {
            let read = set("bit_errors", &text, &PipeParams::default()).map(|p| p.bit_errors);
            prop_assert_eq!(read.ok(), expected, "{}", text);
        }
    }
}

#[test]
fn folders_are_those_of_the_tests() {
    assert!(Path::new(&folder("bad/data/good.mahi")).is_file());
}
