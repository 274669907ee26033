//! The table of link fields: every row is in the schema, in the reference, in what is set and in what
//! is shown.

use std::path::Path;

use longhaul_core::Span;
use longhaul_core::params::PipeParams;
use longhaul_core::units::Framing;
use longhaul_plan::elements::Elements;
use longhaul_plan::fields::{FIELDS, Field};
use longhaul_plan::plan::Plan;
use longhaul_plan::{assign, described, file};

use crate::fields::link;
use crate::recorded::Nothing;
use crate::table::table;
use crate::{folder, wrong};

/// What lies in the reference between the marks, which are lines of their own.
const MARKS: [&str; 2] = [
    "<!-- link-fields:begin -->\n\n",
    "\n<!-- link-fields:end -->\n",
];

/// Belongs to the link as a whole, and has the experiment's as its default.
const OF_THE_LINK: &str = "framing";

fn of_directions() -> impl Iterator<Item = &'static Field> {
    FIELDS.iter().filter(|field| field.name != OF_THE_LINK)
}

/// The rows as the reference has them.
fn markdown() -> String {
    let mut text =
        "| field | type | default | ramp | meaning |\n|---|---|---|---|---|\n".to_owned();
    for Field {
        name,
        form,
        default,
        meaning,
        ramp,
        ..
    } in FIELDS
    {
        let ramp = if ramp.is_some() { " yes " } else { " " };
        text += &format!("| `{name}` | {form} | {default} |{ramp}| {meaning} |\n");
    }
    text
}

/// The reference has the table. With `BLESS=1` in the environment it is written there instead.
#[test]
fn the_reference_has_every_field() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(MARKS[0]).expect("a mark");
    let (found, after) = rest.split_once(MARKS[1]).expect("a mark");
    let table = markdown();
    if std::env::var_os("BLESS").is_some() {
        let page = format!("{before}{}{table}{}{after}", MARKS[0], MARKS[1]);
        std::fs::write(&path, page).unwrap();
    } else {
        assert_eq!(found, table, "BLESS=1 writes it");
    }
}

#[test]
fn the_schema_has_every_field_and_says_what_it_means() {
    let schema = file::schema();
    let places = [
        ("LinkSpec", "Default: "),
        ("Back", "Default: as forward."),
        ("ChangeSpec", "Default: as it is."),
    ];
    for (place, default) in places {
        let properties = &schema["$defs"][place]["properties"];
        for field in of_directions() {
            let description = properties[field.name]["description"].as_str();
            let words = description.map(|text| text.replace('\n', " "));
            let mut expected = format!("{} {default}", field.meaning);
            if place == "LinkSpec" {
                expected += &format!("{}.", field.default);
            }
            assert_eq!(words, Some(expected), "{place}: {}", field.name);
        }
        let takes = properties.get(OF_THE_LINK).is_some();
        assert_eq!(takes, place != "Back", "{place}");
    }
}

/// What is read of nothing is what is read of the default.
#[test]
fn defaults_are_what_they_are_called() {
    let shown = described::fields(&PipeParams::default());
    assert_eq!(shown.len(), FIELDS.len());
    for (field, (name, value)) in FIELDS.iter().zip(&shown) {
        assert_eq!(field.name, *name);
        if field.name != OF_THE_LINK {
            assert_eq!(field.default, value, "{name}");
            let [written, _] = link(&format!("{name}: {value}")).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(written, PipeParams::default(), "{name}");
        }
    }
}

/// Nothing that the engine can do to packets is out of reach: a parameter is called as its row is,
/// or goes with one.
#[test]
fn every_parameter_has_a_row() {
    let with_others = ["discipline", "jitter"];
    let shown = format!("{:#?}", PipeParams::default());
    let lines = shown.lines().filter_map(|line| line.strip_prefix("    "));
    let members = lines.filter(|line| line.starts_with(char::is_alphabetic));
    let names = members.filter_map(|line| Some(line.split_once(':')?.0));
    let mut names: Vec<&str> = names.filter(|name| !with_others.contains(name)).collect();
    let mut rows: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
    names.sort_unstable();
    rows.sort_unstable();
    assert_eq!(names, rows);
}

/// A value of a field that is not its default.
fn other_value(field: &Field) -> &'static str {
    match field.name {
        "burst" => "16 kB",
        "trace" => "{ mahimahi: data/good.mahi }",
        "element" => "idle",
        name => {
            let usual = PipeParams::default();
            let mut forms = table().into_iter();
            let form = forms.find(|(field, _, params)| *field == name && *params != usual);
            form.unwrap_or_else(|| panic!("`table` has no other value of `{name}`"))
                .1
        }
    }
}

#[test]
fn every_field_is_set_and_described_alone() {
    let elements = Elements::new().with("idle", || Box::new(Nothing));
    for field in FIELDS {
        let values = [(field.name.to_owned(), other_value(field).to_owned())];
        let patch = assign::patch(&values, Framing::default(), &folder("bad"), &elements);
        let patch = patch.unwrap_or_else(|e| panic!("{e}"));
        let set = patch.apply(&PipeParams::default());
        let unusual = described::unusual(&set);
        let [(name, value)] = unusual.as_slice() else {
            panic!("{}: {unusual:?}", field.name)
        };
        assert_eq!(*name, field.name);
        assert_eq!(described::patch(&patch), format!("{name} {value}"));
    }
}

#[test]
fn ramps_take_the_fields_that_say_so_and_no_others() {
    for field in FIELDS {
        let value = match field.name {
            "trace" | "element" => "none",
            _ => other_value(field),
        };
        let text = format!(
            "topology:\n  nodes: {{ a: {{}}, b: {{}} }}\n  links: [{{ ends: [a, b], rate: 1 Mbit/s }}]\n\
             events: [{{ at: 1 s, link: a-b, ramp: {{ {}: {value} }}, over: 1 s }}]\n",
            field.name
        );
        if field.ramp.is_some() {
            let plan = Plan::from_text(&text, "f.yaml").unwrap_or_else(|e| panic!("{e}"));
            let text = &plan.schedule.events[0].text;
            let expected = format!("{} ", field.name);
            assert!(
                text.contains(&expected) && text.ends_with(&Span::from_s(1).to_string()),
                "{text}"
            );
        } else {
            let expected = format!("a ramp cannot lead to `{}`", field.name);
            assert!(wrong(&text).contains(&expected), "{}", wrong(&text));
        }
    }
}
