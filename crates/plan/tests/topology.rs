//! Topologies by name within experiment files.

use longhaul_plan::file;
use longhaul_plan::plan::Plan;
use longhaul_plan::plan::of_plan;
use longhaul_plan::topology::generate::FAMILIES;
use longhaul_plan::topology::import::{self, ImportOptions};
use longhaul_plan::topology::{draw, spell};

fn plan(text: &str, overrides: &[(&str, &str)]) -> Result<Plan, String> {
    let own = |(path, value): &(&str, &str)| ((*path).to_owned(), (*value).to_owned());
    let overrides: Vec<_> = overrides.iter().map(own).collect();
    Plan::from_text_with(text, "f.yaml", &overrides).map_err(|errors| errors.to_string())
}

fn right(text: &str, overrides: &[(&str, &str)]) -> Plan {
    plan(text, overrides).unwrap_or_else(|e| panic!("{e}"))
}

fn wrong(text: &str, overrides: &[(&str, &str)]) -> String {
    plan(text, overrides).expect_err("the file is wrong")
}

/// Hosts, routers, links.
fn counts(plan: &Plan) -> (usize, usize, usize) {
    let (nodes, pipes) = (plan.topology.nodes().len(), plan.topology.pipes().len());
    (plan.hosts.len(), nodes - plan.hosts.len(), pipes / 2)
}

const MIXED: &str = "\
topology:
  generate: { kind: ring, routers: 5 }
  nodes: { probe: {} }
  links:
    - { ends: [probe, r2], rate: 10 Mbit/s, delay: 1 ms }
programs:
  ping: { on: probe, run: ping -c 1 h0 }
";

#[test]
fn what_a_file_adds_joins_what_is_generated() {
    let plan = right(MIXED, &[]);
    assert_eq!(counts(&plan), (6, 5, 11));
    let pipe = plan.topology.find_pipes("probe>r2")[0];
    assert_eq!(
        plan.topology.pipe(pipe).params.rate,
        "10 Mbit/s".parse().ok()
    );
    assert_eq!(plan.positions.len(), 5, "routers of a ring have places");
    let only = right("topology: { generate: { kind: mesh } }", &[]);
    assert_eq!(counts(&only), (4, 4, 10));
}

#[test]
fn overrides_reach_the_generator_first_and_its_links_then() {
    let sets = [
        ("links.r0-r1.delay", "70 ms"),
        ("generate.routers", "8"),
        ("nodes.h7.address", "10.9.9.9"),
    ];
    let plan = right(MIXED, &sets);
    assert_eq!(counts(&plan), (9, 8, 17));
    let pipe = plan.topology.find_pipes("r0>r1")[0];
    assert_eq!(
        plan.topology.pipe(pipe).params.delay,
        "70 ms".parse().unwrap()
    );
    let of = |text: &str, set: &[(&str, &str)]| {
        let pipes = right(text, set).topology.pipes().to_vec();
        pipes.into_iter().map(|pipe| pipe.name).collect::<Vec<_>>()
    };
    let grown = "topology: { generate: { kind: barabasi_albert } }";
    assert_ne!(of(grown, &[]), of(grown, &[("seed", "2")]));
    assert_eq!(of(grown, &[]), of(grown, &[("seed", "1")]));
    let seeded = "topology: { generate: { kind: barabasi_albert, seed: 2 } }";
    assert_eq!(of(grown, &[("seed", "2")]), of(seeded, &[("seed", "9")]));
}

#[test]
fn notes_are_warnings() {
    let plan = right("topology: { generate: { kind: waxman, beta: 0.01 } }", &[]);
    assert!(plan.warnings[0].contains("pieces"), "{:?}", plan.warnings);
}

#[test]
fn problems_have_their_place() {
    let cases = [
        (
            "generate: { kind: rin }",
            "f.yaml:2:21: error: `rin` is not a kind",
        ),
        (
            "generate: { routers: 3 }",
            "f.yaml:2:13: error: `kind` is missing",
        ),
        ("generate: ring", "f.yaml:2:13: error: `kind` is missing"),
        (
            "generate: { kind: ring, routers: 2 }",
            "f.yaml:2:36: error: `routers` is 2, but must be 3 to",
        ),
        (
            "generate: { kind: ring, hots: 2 }",
            "f.yaml:2:27: error: unknown parameter `hots`",
        ),
        (
            "generate: { kind: ring, routers: [3] }",
            "f.yaml:2:36: error: `routers` takes one value",
        ),
        (
            "generate: { kind: fat_tree, k: 3 }",
            "f.yaml:2:34: error: `k` must be even",
        ),
        (
            "generate: { kind: mesh, routers: 2000 }",
            "at most 200000 are supported",
        ),
        (
            "{ generate: { kind: ring }, nodes: { r0: {} } }",
            "two nodes are called `r0`",
        ),
        ("nodes: { a: { position: [1] } }", "[x, y]"),
        (
            "nodes: { a: { position: [1, here] } }",
            "`here` is not a number",
        ),
        (
            "nodes: { a: { count: 2, position: [1, 2] } }",
            "cannot have one position",
        ),
    ];
    for (entry, part) in cases {
        let error = wrong(&format!("topology:\n  {entry}\n"), &[]);
        assert!(error.contains(part), "no `{part}` in:\n{error}");
        assert_eq!(error.matches("error:").count(), 1, "{error}");
        assert!(error.contains("hint: "), "{error}");
    }
    let error = wrong(MIXED, &[("generate.routers", "none")]);
    assert!(
        error.contains("--set:1:18: error: `none` is not a whole number"),
        "{error}"
    );
}

#[test]
fn the_virtual_clock_takes_larger_ones() {
    let file = |clock: &str, rest: &str| {
        format!("clock: {clock}\nduration: 1 s\ntopology: {{ generate: {rest} }}\n")
    };
    let large = "{ kind: star, leaves: 10, hosts: 2500 }";
    let error = wrong(&file("real", large), &[]);
    let parts = [
        "25000 hosts: at most 20000",
        "`clock: virtual` may have more",
    ];
    for part in parts {
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(error.matches("error:").count(), 1, "{error}");
    let expected = (25_000, 11, 25_010);
    assert_eq!(counts(&right(&file("virtual", large), &[])), expected);
    // An override of the clock counts before the topology is made, and in both directions.
    let turned = right(&file("real", large), &[("clock", "virtual")]);
    assert_eq!(counts(&turned), expected);
    wrong(&file("virtual", large), &[("clock", "real")]);

    for (beyond, part) in [
        ("{ kind: star, leaves: 10, hosts: 100001 }", "1000010 hosts"),
        (
            "{ kind: star, leaves: 1000000 }",
            "`leaves` is 1000000, but must be 1 to 999999",
        ),
        ("{ kind: mesh, routers: 2001, hosts: 0 }", "2001000 links"),
        (
            "{ kind: tree, degree: 1000000, height: 100 }",
            "at most 1000000 are supported",
        ),
        (
            "{ kind: waxman, routers: 2100, alpha: 100, beta: 1 }",
            "more than 2000000 links",
        ),
    ] {
        let error = wrong(&file("virtual", beyond), &[]);
        assert!(error.contains(part), "no `{part}` in:\n{error}");
        assert!(!error.contains("clock: virtual"), "{error}");
    }
}

#[test]
fn the_schema_knows_every_kind_and_parameter() {
    let schema = file::schema();
    let entry = &schema["$defs"]["TopologySpec"]["properties"]["generate"];
    let kinds = entry["anyOf"][0]["oneOf"].as_array().unwrap();
    assert_eq!(kinds.len(), FAMILIES.len());
    for (kind, family) in kinds.iter().zip(FAMILIES) {
        assert_eq!(kind["properties"]["kind"]["const"], family.name);
        assert_eq!(kind["additionalProperties"], false);
        for param in family.params() {
            assert!(
                kind["properties"][param.name].is_object(),
                "{} {}",
                family.name,
                param.name
            );
        }
    }
    assert!(schema["$defs"]["TopologySpec"].get("required").is_none());
}

/// The examples of the page are right, and it has every kind, parameter and default.
#[test]
fn the_page_is_right() {
    let page = include_str!("../../../docs/topologies.md");
    let blocks = page.split("```yaml\n").skip(1);
    let mut examples = 0;
    for block in blocks.map(|block| block.split("```").next().unwrap()) {
        if block.contains("import:") {
            continue;
        }
        let text = if block.starts_with("topology:") {
            block.to_owned()
        } else {
            block.lines().fold("topology:\n".to_owned(), |text, line| {
                text + "  " + line + "\n"
            })
        };
        right(&text, &[]);
        examples += 1;
    }
    assert!(examples > FAMILIES.len());
    let sections: Vec<&str> = page.split("\n### `").collect();
    for family in FAMILIES {
        let section = sections
            .iter()
            .find(|section| section.starts_with(&format!("{}`", family.name)));
        let section = section.unwrap_or_else(|| panic!("no section `{}`", family.name));
        for param in family.params() {
            let row = |part: &str| {
                part.lines()
                    .find(|line| line.starts_with(&format!("| `{}` |", param.name)))
                    .map(str::to_owned)
            };
            // What all kinds have stands in the common table.
            let row = row(section).or_else(|| row(sections[0]));
            let row = row.unwrap_or_else(|| panic!("{}: no `{}`", family.name, param.name));
            let own = section.contains(&row);
            assert!(
                !own || row.contains(&format!("| {} |", param.default)),
                "{}: {row}",
                family.name
            );
        }
    }
}

const ZOO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/import/samples/zoo.gml");

/// An imported file is spelled out, planned and drawn like a generated one.
#[test]
fn what_is_imported_is_the_same_plan_spelled_out() {
    let sketch = import::read(ZOO.as_ref(), &ImportOptions::default()).unwrap();
    let spelled = right(&spell::text(&sketch), &[]);
    let plan = right(&format!("topology: {{ import: {{ file: {ZOO} }} }}"), &[]);
    assert_eq!(plan.topology.nodes(), spelled.topology.nodes());
    assert_eq!(plan.topology.pipes(), spelled.topology.pipes());
    assert_eq!(plan.positions, spelled.positions);
    assert!(!plan.positions.is_empty());
    assert_eq!(draw::svg(&of_plan(&plan)), draw::svg(&of_plan(&spelled)));
    let error = wrong("topology: { import: { file: nowhere.gml } }", &[]);
    assert!(
        error.contains("f.yaml:1:29: error: nowhere.gml: cannot read"),
        "{error}"
    );
    let error = wrong("topology: { import: { file: x.gml, hots: 1 } }", &[]);
    assert!(
        error.contains("f.yaml:1:36: error:") && error.contains("hint:"),
        "{error}"
    );
}

#[test]
fn a_plan_is_drawn_with_the_names_of_its_links() {
    let sketch = of_plan(&right(MIXED, &[]));
    assert_eq!((sketch.nodes.len(), sketch.links.len()), (11, 11));
    let image = draw::svg(&sketch);
    assert!(image.contains("<title>probe-r2: 10 Mbit/s, 1 ms, queue 1000 packets</title>"));
    assert!(image.contains("<title>r2: router, 4 links</title>"));
}
