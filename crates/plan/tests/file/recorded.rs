//! What links refer to: files beside the experiment, and elements of one's own.

use std::sync::Arc;

use longhaul_core::element::{Action, Element};
use longhaul_core::rng::Stream;
use longhaul_core::trace::Series;
use longhaul_core::units::Framing;
use longhaul_core::{Span, Time};
use longhaul_plan::assign;
use longhaul_plan::elements::Elements;
use longhaul_plan::plan::Plan;

use crate::fields::link;
use crate::folder;

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
pub(crate) struct Nothing;

impl Element for Nothing {
    fn pass(&mut self, _: Time, _: &mut [u8], _: &mut Stream) -> Action {
        Action::Pass
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
    assert!(wrong("x", &elements).contains("the elements of this longhaul are every-third"));
    assert!(wrong("x", &Elements::new()).contains("docs/elements.md"));
}
