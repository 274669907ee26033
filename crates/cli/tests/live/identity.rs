//! What programs see of the resources that their host has.

use crate::lab::Lab;
use crate::skip::skip;

const HOSTS: &str = "
topology:
  nodes: { a: { cpu: 30 %, memory: 64 MiB }, b: {}, r: { kind: router } }
  links: [ { ends: [a, r] }, { ends: [b, r] } ]
programs:
";

/// Whether this machine keeps hosts of such a lab to resources.
fn keeps(lab: &Lab) -> bool {
    let file = lab.write(
        "asked.yaml",
        &format!("{HOSTS}  p: {{ on: a, run: 'true' }}\n"),
    );
    let (code, _, said) = lab.ask(&["check", file.to_str().unwrap()]);
    if code != 0 {
        skip(&format!(
            "this machine cannot keep hosts to resources: {said}"
        ));
    }
    code == 0
}

fn check_resources(lab: &Lab) {
    if !keeps(lab) {
        return;
    }
    let outcome = lab.succeed(&format!(
        "{HOSTS}  seen: {{ on: [a, b], run: python3 $DIR/seen.py }}\n"
    ));
    let [own, machine] = ["seen@a", "seen@b"].map(|program| outcome.report(program));
    let one = serde_json::json!(1);
    for field in ["affinity", "online", "cpuinfo"] {
        assert_eq!(
            own[field].as_array().map(Vec::len),
            Some(1),
            "{field}: {own}"
        );
        assert_eq!(own[field], own["affinity"], "{field}: {own}");
    }
    // glibc asks for one or the other, by its version; both say the same here.
    assert_eq!((&own["cpu_count"], &own["nproc"]), (&one, &one), "{own}");
    let mib =
        |report: &serde_json::Value, field: &str| report["meminfo"][field].as_u64().unwrap() / 1024;
    assert_eq!(mib(&own, "MemTotal"), 64, "{own}");
    // It waits until its 16 MiB show.
    let free = mib(&own, "MemAvailable");
    assert!(free <= 48 && free == mib(&own, "MemFree"), "{own}");
    assert!(mib(&machine, "MemTotal") > 64, "{machine}");
    assert_eq!(own["info"]["memory_bytes"], 64 << 20);
    assert_eq!(own["info"]["cpu"]["cpus"], 0.3);
}

#[test]
fn programs_see_the_resources_of_their_host() {
    check_resources(&Lab::new());
}

#[test]
fn an_ordinary_users_programs_see_them_too() {
    check_resources(&Lab::unprivileged());
}
