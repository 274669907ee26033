//! The fields of links: every form of every value, in the file and for a link that runs.

use longhaul_core::Span;
use longhaul_core::params::{Discipline, PipeParams};
use longhaul_core::units::{Bytes, Probability, QueueLimit, Rate};
use longhaul_plan::elements::Elements;
use longhaul_plan::plan::Plan;
use longhaul_plan::{assign, described};
use proptest::prelude::*;

use crate::folder;
use crate::table::table;

/// The pipes `a>b` and `b>a` of a link with these fields.
pub(crate) fn link(fields: &str) -> Result<[PipeParams; 2], String> {
    let text = format!(
        "topology:\n  nodes: {{ a: {{}}, b: {{}} }}\n  links:\n    - {{ ends: [a, b], {fields} }}\n"
    );
    let name = folder("bad/link.yaml");
    let plan = Plan::from_text(&text, name.to_str().unwrap()).map_err(|e| e.to_string())?;
    let pipe = |name: &str| {
        let id = plan.topology.find_pipes(name)[0];
        plan.topology.pipe(id).params.as_ref().clone()
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
