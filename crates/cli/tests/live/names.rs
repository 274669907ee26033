//! Names: every program on every host resolves every node, whatever library it has.

use std::path::Path;

use crate::lab::Lab;
use crate::skip::skip;

const SITES: &str = "
topology:
  nodes: { a: {}, b.west: {}, r: { kind: router } }
  links: [ { ends: [a, r], delay: 1 ms }, { ends: [b.west, r], delay: 1 ms } ]
programs:
";

pub(crate) fn check_names(lab: &Lab) {
    let outcome = lab.succeed(&format!(
        "{SITES}  few: {{ on: a, run: python3 $DIR/names.py few }}\n"
    ));
    assert_eq!(outcome.log("few.out"), "done\n", "{outcome}");
    // A question for a name is no traffic of the emulated network.
    assert_eq!(outcome.summary["packets"]["entered"], 0, "{outcome}");
}

#[test]
fn names_lead_to_addresses_and_back() {
    check_names(&Lab::new());
}

#[test]
fn experiments_may_have_name_servers_of_their_own() {
    let lab = Lab::new();
    let outcome = lab.succeed(&format!(
        "{SITES}  port: {{ on: a, run: python3 $DIR/names.py port }}\n"
    ));
    assert_eq!(outcome.log("port.out"), "done\n", "{outcome}");
}

/// What a program says of a name, where it is installed.
fn resolve(lab: &Lab, program: &str, package: &str, commands: &[&str]) -> Option<Vec<String>> {
    let folders = [
        "/usr/bin",
        "/bin",
        "/usr/sbin",
        "/sbin",
        "/usr/local/bin",
        "/usr/local/go/bin",
    ];
    let there = |folder: &&&str| Path::new(folder).join(program).is_file();
    let Some(folder) = folders.iter().find(there) else {
        skip(&format!("no {program}: install the package {package}"));
        return None;
    };
    let programs = commands.iter().zip(0..).map(|(command, number)| {
        format!("  p{number}: {{ on: a, run: {folder}/{program} {command} }}\n")
    });
    let outcome = lab.succeed(&(SITES.to_owned() + &programs.collect::<String>()));
    let logs = (0..commands.len()).map(|number| outcome.log(&format!("p{number}.out")));
    Some(logs.collect())
}

/// A static program, whose resolver is its own.
#[test]
fn a_static_program_resolves_names() {
    let lab = Lab::new();
    let commands = [
        "nslookup b.west",
        "nslookup 10.0.0.2",
        "ping -c 1 -W 5 b.west.longhaul.internal",
    ];
    let Some(said) = resolve(&lab, "busybox", "busybox-static", &commands) else {
        return;
    };
    assert!(said[0].contains("10.0.0.2"), "{said:?}");
    assert!(said[1].contains("b.west.longhaul.internal"), "{said:?}");
    assert!(said[2].contains("1 packets received"), "{said:?}");
}

#[test]
fn the_usual_tools_resolve_names() {
    let lab = Lab::new();
    if let Some(said) = resolve(
        &lab,
        "getent",
        "libc-bin",
        &["hosts b.west", "ahostsv4 b.west"],
    ) {
        assert!(said[0].contains("fd6c:6f6e:6768::2"), "{said:?}");
        assert!(said[1].starts_with("10.0.0.2 "), "{said:?}");
    }
    let commands = [
        "+short +search b.west",
        "+short -x 10.0.0.2",
        "+noall +comments nobody.example",
    ];
    if let Some(said) = resolve(&lab, "dig", "bind9-dnsutils", &commands) {
        assert_eq!(said[0], "10.0.0.2\n", "{said:?}");
        assert_eq!(said[1], "b.west.longhaul.internal.\n", "{said:?}");
        assert!(said[2].contains("status: NXDOMAIN"), "{said:?}");
    }
}

#[test]
fn a_thousand_hosts_have_names() {
    let lab = Lab::new();
    let outcome = lab.succeed(
        "
topology:
  nodes: { h: { count: 1000 }, r: { kind: router } }
  links: [ { ends: [h, r], delay: 1 ms } ]
programs:
  all: { on: [h0, h999], run: python3 $DIR/names.py all }
",
    );
    for host in ["h0", "h999"] {
        assert_eq!(
            outcome.log(&format!("all@{host}.out")),
            "done\n",
            "{outcome}"
        );
    }
}

/// What the machine has only once, each host has of its own, and again in the next run.
#[test]
fn hosts_have_machine_ids_of_their_own() {
    let lab = Lab::new();
    let Ok(machine) = std::fs::read_to_string("/etc/machine-id") else {
        return skip("this machine has no /etc/machine-id");
    };
    let run = |seed: u64| {
        let program = "  id: { on: [a, b.west], run: cat /etc/machine-id }\n";
        let outcome = lab.succeed(&format!("seed: {seed}\n{SITES}{program}"));
        ["a", "b.west"].map(|host| outcome.log(&format!("id@{host}.out")))
    };
    let [first, again, other] = [1, 1, 2].map(run);
    assert_eq!(first, again);
    assert!(
        first[0] != first[1] && first[0] != other[0],
        "{first:?} {other:?}"
    );
    assert!(
        first
            .iter()
            .chain(&other)
            .all(|id| *id != machine && id.len() == 33)
    );
}
