//! The JSON Schema, and the examples of the reference.

use longhaul_core::Span;
use longhaul_plan::file;
use longhaul_plan::plan::Plan;

use crate::EXAMPLE;
use crate::measure::{NETWORK, WHOLE};
use crate::table::table;

#[test]
fn the_schema_knows_the_fields_and_no_others() {
    let schema = file::schema();
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["required"], serde_json::json!(["topology"]));
    assert!(
        schema["properties"]["seed"]["description"]
            .as_str()
            .unwrap()
            .contains("Default: 1")
    );
    let tree: serde_json::Value = serde_saphyr::from_str(EXAMPLE).unwrap();
    assert_eq!(check(&schema, &schema, &tree, "$"), Vec::<String>::new());
    let mut other = tree.clone();
    other["topology"]["links"][0]["dealy"] = "5 ms".into();
    other["topology"]["links"][1]["delay"] = 5.into();
    other["programs"]["web"]["as"] = "nobody".into();
    other["seed"] = serde_json::Value::Null;
    assert_eq!(check(&schema, &schema, &other, "$").len(), 4);
}

#[test]
fn the_schema_takes_every_form_of_every_field() {
    let schema = file::schema();
    let problems = |link: &str| {
        let text = format!(
            "topology: {{ nodes: {{ a: {{}}, b: {{}} }}, links: [{{ ends: [a, b], {link} }}] }}\n\
             events: [{{ at: 5 s, link: a-b, down: 2 s, every: 3 s, times: 2 }}, \
             {{ at: 5 s, router: [r], down: true, keep_queue: true }}, \
             {{ at: 5 s, link: a>b, ramp: {{ rate: 1 Mbit/s }}, over: 1 s, step: 5 ms }}]\n\
             routing: {{ convergence: 2 s }}\n"
        );
        let tree: serde_json::Value = serde_saphyr::from_str(&text).expect(&text);
        check(&schema, &schema, &tree, "$")
    };
    // A discipline without a field is empty there, which JSON calls null.
    let forms = table()
        .into_iter()
        .filter(|(_, value, _)| *value != "{ codel: }");
    for (field, value, _) in forms {
        let link = format!("{field}: {value}");
        assert_eq!(problems(&link), Vec::<String>::new(), "{link}");
    }
    for wrong in [
        "delay: 5",
        "delay: { normal: 5 ms }",
        "loss: { one_in: many }",
        "queue: tail",
        "queue: { coddle: {} }",
        "trace: { loop: maybe }",
        "back: { mtu: 9000 }",
        "balance: best",
    ] {
        assert_ne!(problems(wrong), Vec::<String>::new(), "{wrong}");
    }
}

#[test]
fn the_schema_takes_sets_and_labels() {
    let schema = file::schema();
    let problems = |text: &str| {
        let tree: serde_json::Value = serde_saphyr::from_str(text).expect(text);
        check(&schema, &schema, &tree, "$")
    };
    let right = "
topology:
  nodes: { a: { count: 3, labels: { tier: edge, rack: 7 } }, r: { kind: router, labels: {} } }
  links: [{ ends: [\"a*\", r], labels: { kind: x } }, { ends: [[a, tier=edge], [r]] }]
programs: { p: { on: [all, tier=edge], run: x } }
traffic: { t: { from: all, to: \"a?\", pattern: { random: 2 } }, u: { from: a, pattern: permutation } }
events: [{ at: 1 s, link: [kind=x, \"*>r\"], down: 1 s }, { at: 1 s, router: all, down: 1 s }]
";
    assert_eq!(problems(right), Vec::<String>::new());
    for (part, wrong) in [
        ("labels: {}", "labels: [tier]"),
        ("rack: 7", "rack: { 7: 8 }"),
        ("random: 2", "random: few"),
        ("random: 2", "several: 2"),
        ("[[a, tier=edge], [r]]", "[{ tier: edge }, r]"),
    ] {
        let text = right.replace(part, wrong);
        assert_ne!(problems(&text), Vec::<String>::new(), "{wrong}");
    }
}

#[test]
fn the_schema_takes_what_is_measured() {
    let schema = file::schema();
    let problems = |text: &str| {
        let tree: serde_json::Value = serde_saphyr::from_str(text).expect(text);
        check(&schema, &schema, &tree, "$")
    };
    let right = format!("{NETWORK}{WHOLE}");
    assert_eq!(problems(&right), Vec::<String>::new());
    for (part, wrong) in [
        ("every: 10 ms", "every: 10"),
        ("every: 10 ms", "evry: 10 ms"),
        ("of: [pipes, core]", "of: { pipes: true }"),
        ("format: csv", "format: feather"),
        ("disk: 300 MB", "disk: 300"),
        ("    - trunk\n", "    - [trunk]\n"),
        ("at: entry", "at: middle"),
        ("snaplen: 96 B", "snapln: 96 B"),
        ("    - { link: trunk }", "    - trunk"),
        ("for: 20 ms", "until: 20 ms"),
    ] {
        assert!(right.contains(part), "{part}");
        let text = right.replacen(part, wrong, 1);
        assert_ne!(problems(&text), Vec::<String>::new(), "{wrong}");
    }
}

#[test]
fn the_schema_takes_resources() {
    let schema = file::schema();
    let problems = |text: &str| {
        let tree: serde_json::Value = serde_saphyr::from_str(text).expect(text);
        check(&schema, &schema, &tree, "$")
    };
    let right = "
topology:
  nodes:
    a: { cpu: 50 %, memory: 512 MiB, disk: { read: 20 MB/s, write: 1 MiB/s, iops: 200 } }
    b: { cpu: { count: 2, speed: 0.8 ref } }
    c: { cpu: 0.5 CPUs }
";
    assert_eq!(problems(right), Vec::<String>::new());
    for (part, wrong) in [
        ("50 %", "50"),
        ("512 MiB", "512"),
        ("20 MB/s", "20 Mbit/s"),
        ("iops: 200", "iops: many"),
        ("speed: 0.8 ref", "speed: 2 GHz"),
        ("count: 2", "cores: 2"),
        ("0.5 CPUs", "0.5 cores"),
    ] {
        assert!(right.contains(part), "{part}");
        assert_ne!(
            problems(&right.replacen(part, wrong, 1)),
            Vec::<String>::new(),
            "{wrong}"
        );
    }
}

/// The examples of the reference are right.
#[test]
fn the_reference_is_right() {
    let reference = include_str!("../../../../docs/format.md");
    let blocks: Vec<&str> = reference.split("```yaml\n").skip(1).collect();
    let blocks = blocks
        .iter()
        .map(|block| block.split("```").next().unwrap());
    let whole = blocks.filter(|block| block.contains("topology:") && !block.contains("[ … ]"));
    for text in whole {
        Plan::from_text(text, "format.md").unwrap_or_else(|e| panic!("{e}"));
    }
    let merged = Plan::from_text(
        "topology:
  nodes: { a: {}, b: {}, r: { kind: router } }
  links:
    - &access { ends: [a, r], rate: 100 Mbit/s, delay: 1 ms }
    - { <<: *access, ends: [b, r] }
",
        "f.yaml",
    );
    let topology = merged.unwrap_or_else(|e| panic!("{e}")).topology;
    assert_eq!(
        topology.pipe(topology.find_pipes("r>b")[0]).params.delay,
        Span::from_ms(1)
    );
    for field in [
        "delay",
        "back",
        "tolerance",
        "service",
        "rmem",
        "address",
        "dilated",
        "snaplen",
    ] {
        assert!(
            file::schema()
                .to_string()
                .contains(&format!("\"{field}\":")),
            "{field}"
        );
    }
}

/// As much of JSON Schema as the experiment file's needs.
fn check(
    root: &serde_json::Value,
    schema: &serde_json::Value,
    value: &serde_json::Value,
    at: &str,
) -> Vec<String> {
    use serde_json::Value;
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root
            .pointer(reference.trim_start_matches('#'))
            .expect(reference);
        return check(root, target, value, at);
    }
    for (key, all) in [("anyOf", false), ("oneOf", false), ("allOf", true)] {
        if let Some(options) = schema[key].as_array() {
            let results: Vec<_> = options.iter().map(|o| check(root, o, value, at)).collect();
            let fine = |result: &Vec<String>| result.is_empty();
            let ok = if all {
                results.iter().all(fine)
            } else {
                results.iter().any(fine)
            };
            return if ok {
                vec![]
            } else {
                vec![format!("{at}: none of {key}")]
            };
        }
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let allowed = |name: &Value| name == kind || (name == "number" && kind == "integer");
    let mut problems = Vec::new();
    match &schema["type"] {
        Value::Array(kinds) if !kinds.iter().any(allowed) => problems.push(format!("{at}: {kind}")),
        name @ Value::String(_) if !allowed(name) => problems.push(format!("{at}: {kind}")),
        _ => {}
    }
    if schema
        .get("const")
        .is_some_and(|constant| constant != value)
    {
        problems.push(format!("{at}: const"));
    }
    if schema["enum"]
        .as_array()
        .is_some_and(|list| !list.contains(value))
    {
        problems.push(format!("{at}: enum"));
    }
    if let (Some(pattern), Some(text)) = (schema["pattern"].as_str(), value.as_str())
        && !regex::Regex::new(pattern).unwrap().is_match(text)
    {
        problems.push(format!("{at}: pattern"));
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        problems.extend(check(
            root,
            &schema["items"],
            item,
            &format!("{at}[{index}]"),
        ));
    }
    for (key, item) in value.as_object().into_iter().flatten() {
        let at = format!("{at}.{key}");
        match (
            schema["properties"].get(key),
            schema.get("additionalProperties"),
        ) {
            (Some(property), _) => problems.extend(check(root, property, item, &at)),
            (None, Some(Value::Bool(false))) => problems.push(format!("{at}: unknown")),
            (None, Some(other)) => problems.extend(check(root, other, item, &at)),
            (None, None) => {}
        }
    }
    problems
}
