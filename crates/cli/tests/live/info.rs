//! The information service: which hosts there are and what they do, asked inside and outside.

use crate::lab::Lab;

const ASKED: &str = "
name: asked
topology:
  nodes: { a: {}, b: {}, idle: {}, r: { kind: router } }
  links: [ { ends: [a, r] }, { ends: [b, r] }, { ends: [idle, r] } ]
programs:
  spin: { on: b, run: python3 $DIR/info.py spin, ready: log up, service: true }
";

pub(crate) fn check_inside(lab: &Lab) {
    let ask = "  ask: { on: a, run: python3 $DIR/info.py ask, after: spin }\n";
    let outcome = lab.succeed(&format!("{ASKED}{ask}"));
    assert_eq!(outcome.log("ask.out"), "done\n", "{outcome}");
}

#[test]
fn programs_learn_which_hosts_there_are() {
    check_inside(&Lab::new());
}

#[test]
fn hostile_clients_get_nothing_and_cost_others_nothing() {
    let lab = Lab::new();
    let hostile = "  hostile: { on: [a, b], run: python3 $DIR/info.py hostile }\n";
    let ask = "  ask: { on: a, run: python3 $DIR/info.py ask, after: [spin, hostile] }\n";
    let outcome = lab.succeed(&format!("{ASKED}{hostile}{ask}"));
    for log in ["hostile@a.out", "hostile@b.out", "ask.out"] {
        assert_eq!(outcome.log(log), "done\n", "{outcome}");
    }
}

#[test]
fn the_command_shows_the_same_outside() {
    let lab = Lab::new();
    let hold = "  hold:
    on: a
    run: sh -c 'until [ -e done ]; do sleep 0.02; done'
    after: spin
";
    let mut run = lab.start(&(ASKED.to_owned() + hold));
    run.wait_for("spin.out", "up");
    let folder = run.out().to_str().unwrap().to_owned();
    let (code, json, stderr) = lab.ask(&["hosts", "--json", "--run", &folder]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let answer: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(answer["experiment"], "asked");
    let hosts = answer["hosts"].as_array().expect("hosts");
    let names: Vec<_> = hosts
        .iter()
        .map(|host| host["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["a", "b", "idle"]);
    assert_eq!(hosts[1]["load"]["programs"], serde_json::json!(["spin"]));
    assert_eq!(
        (&hosts[1]["ipv6"], &hosts[2]["load"]["busy"]),
        (&"fd6c:6f6e:6768::2".into(), &false.into())
    );
    let (code, table, _) = lab.ask(&["hosts", "--run", &folder]);
    assert_eq!(code, 0);
    let line = |name: &str| {
        table
            .lines()
            .find(|line| line.trim_start().starts_with(name))
            .unwrap()
            .to_owned()
    };
    assert!(
        line("b ").contains("10.0.0.2") && line("b ").ends_with("spin"),
        "{table}"
    );
    assert!(line("idle ").ends_with("free"), "{table}");
    std::fs::write(run.out().join("hosts/a/done"), "").unwrap();
    run.wait().succeeded();
    let (code, _, stderr) = lab.ask(&["hosts", "--run", "asked"]);
    assert_eq!(code, 2, "{stderr}");
}
