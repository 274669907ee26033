//! The binary as its users meet it, without a run: help, codes, messages, `check`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Output};

const SMALL: &str = "\
name: small
duration: 30 s
topology:
  nodes: { a: { count: 2 }, r: { kind: router }, b: {} }
  links:
    - { ends: [a, r], rate: 1 Gbit/s, delay: 100 us }
    - { ends: [r, b], rate: 100 Mbit/s, delay: 5 ms, loss: 0.5 %, queue: 50 packets }
programs:
  server: { on: b, run: sleep 9, ready: tcp 80, service: true }
  client: { on: a0, run: 'true', after: server }
";

/// A file of its own for each test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, text: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("longhaul-cli-{}-{name}.yaml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn longhaul(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .args(args)
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn assert_refused(args: &[&str], part: &str) {
    let output = longhaul(args);
    assert_eq!(
        output.status.code(),
        Some(2),
        "{args:?}: {}",
        stderr(&output)
    );
    assert!(
        stderr(&output).contains(part),
        "{args:?}: {}",
        stderr(&output)
    );
    assert_eq!(stdout(&output), "", "{args:?}");
}

#[test]
fn every_command_has_help() {
    let all = stdout(&longhaul(&["--help"]));
    assert!(all.contains("Examples:") && all.contains("Exit codes"));
    // Names are indented by two columns, what is said of them by more.
    let lines = all.lines().skip_while(|line| *line != "Commands:");
    let lines = lines.skip(1).take_while(|line| !line.is_empty());
    let named = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let named: Vec<&str> = named.filter(|name| !name.is_empty()).collect();
    let (last, commands) = named.split_last().unwrap();
    assert_eq!(*last, "help");
    let page = include_str!("../../../docs/cli.md");
    let table = page.split("```").nth(1).unwrap().lines();
    let described = table.filter_map(|line| line.strip_prefix("longhaul ")?.split(' ').next());
    let described: BTreeSet<&str> = described.collect();
    assert_eq!(described, commands.iter().copied().collect(), "docs/cli.md");
    for command in commands {
        let help = longhaul(&[command, "--help"]);
        assert_eq!(help.status.code(), Some(0));
        assert!(stdout(&help).contains("Usage: longhaul"));
        let is_long = |line: &&str| line.chars().count() > 100;
        assert_eq!(stdout(&help).lines().find(is_long), None, "{command}");
    }
    assert!(
        !all.contains("\n  load "),
        "what calibration runs on hosts is hidden"
    );
    assert!(stdout(&longhaul(&["--version"])).starts_with("longhaul "));
}

#[test]
fn a_wrong_command_line_exits_with_2() {
    let small = Scratch::new("wrong", SMALL);
    assert_refused(&[], "Usage");
    assert_refused(&["fly"], "unrecognized subcommand");
    assert_refused(&["check"], "<FILE>");
    assert_refused(&["check", small.path(), "--seed", "x"], "--seed");
    assert_refused(&["check", small.path(), "--set", "novalue"], "--set");
    assert_refused(
        &["run", small.path(), "--clock", "sundial"],
        "clock=sundial",
    );
    assert_refused(&["run", small.path(), "--attempts", "0"], "1..=1000");
    assert_refused(&["run", small.path(), "--accept", "broken"], "faithful");
    assert_refused(&["exec", "a0"], "<CMD>");
    assert_refused(&["traffic", "bulk", "b"], "--bytes <SIZES>");
    assert_refused(&["traffic", "bulk", "b", "--bytes", "5"], "`5` has no unit");
    assert_refused(&["set", "a-b", "delay"], "delay=5 ms");
    assert_refused(
        &["exec", "a", "--run", "no run is called so", "--", "true"],
        "run",
    );
}

#[test]
fn a_wrong_file_exits_with_2_and_says_where() {
    let wrong = Scratch::new("file", &SMALL.replace("delay: 5 ms", "delay: 5"));
    for command in ["check", "run"] {
        assert_refused(&[command, wrong.path()], ":7:48: error");
        assert_refused(&[command, wrong.path()], "hint: write it like `5 ms`");
        assert_refused(&[command, "/nonexistent.yaml"], "cannot read the file");
        assert_refused(&[command, "/"], "directory");
    }
    let small = Scratch::new("set", SMALL);
    assert_refused(
        &["check", small.path(), "--set", "links.r-b.dealy=1 ms"],
        "did you mean",
    );
}

#[test]
fn a_folder_that_is_no_run_is_refused() {
    let small = Scratch::new("folder", SMALL);
    let other = std::env::temp_dir();
    assert_refused(
        &["run", small.path(), "--out", other.to_str().unwrap()],
        "not from a run",
    );
}

#[test]
fn check_prints_what_a_file_means() {
    let small = Scratch::new("text", SMALL);
    let output = longhaul(&["check", small.path(), "--routes"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    let parts = [
        "small: 3 hosts, 1 router, 3 links, 2 programs; seed 1; at most 30 s",
        "10.0.0.1",
        "100 Mbit/s  5 ms",
        "loss 0.5 %",
        "queue 50 packets",
        "a0 to b   5.1 ms  100 Mbit/s  a0>r  r>b",
        "packet pool",
        "ready: tcp 80; service",
        "after server",
    ];
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains('\x1b'), "no colours into a pipe");
}

#[test]
fn check_shows_labels_and_the_members_of_sets() {
    let text = "
name: sets
clock: virtual
duration: 1 s
topology:
  nodes: { a: { count: 3, labels: { tier: edge } }, r: { kind: router, labels: { tier: edge } } }
  links: [{ ends: [all, r], labels: { kind: access } }]
traffic: { t: { from: tier=edge, pattern: all-to-all, bytes: 1 kB } }
events: [{ at: 0.5 s, link: \"a[01]>*\", down: 1 ms }]
";
    let file = Scratch::new("labels", text);
    let output = longhaul(&["check", file.path()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let said = stdout(&output);
    for part in [
        "\nlabels\n  kind=access  3 links\n  tier=edge    3 hosts, 1 router\n",
        "t  6 pairs  TCP transfer",
        "a[01]>*: down for 1 ms",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let output = longhaul(&[
        "check",
        file.path(),
        "--json",
        "--set",
        "links.all*.labels.kind=x",
    ]);
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = serde_json::json!([
        { "label": "kind=x", "hosts": 0, "routers": 0, "links": 3 },
        { "label": "tier=edge", "hosts": 3, "routers": 1, "links": 0 },
    ]);
    assert_eq!(plan["labels"], expected);
}

#[test]
fn check_as_json_follows_overrides() {
    let small = Scratch::new("json", SMALL);
    let args = [
        "check",
        small.path(),
        "--json",
        "--seed",
        "7",
        "--set",
        "links.r-b.delay=20 ms",
    ];
    let output = longhaul(&args);
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan["seed"], 7);
    assert_eq!(plan["hosts"][2]["name"], "b");
    assert_eq!(plan["path_delay_ns"]["max"], 20_100_000);
    assert_eq!(plan["paths"].as_array().unwrap().len(), 6);
    assert_eq!(plan["pipes"].as_array().unwrap().len(), 6);
    assert!(plan["memory"]["packet_pool_bytes"].as_u64().unwrap() > 0);
}

/// A calibration of this machine by which a packet costs so much, whatever the machine can do.
fn calibration(entry_ns: u64, hop_ns: u64, kernel: &str) -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |path: &str, name: &str| {
        let text = read(path);
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.split_once(':'));
        value.map_or(String::new(), |(_, value)| value.trim().to_owned())
    };
    let mask = field("/proc/self/status", "Cpus_allowed:");
    let cpus: u32 = mask
        .chars()
        .filter_map(|c| c.to_digit(16))
        .map(u32::count_ones)
        .sum();
    let quantiles = serde_json::json!({
        "p50": 3_000, "p90": 5_000, "p99": 20_000, "p999": 60_000, "max": 90_000,
    });
    let calibration = serde_json::json!({
        "format": 1, "version": env!("CARGO_PKG_VERSION"), "made_unix_s": 1_800_000_000,
        "quick": false, "machine_id": "",
        "machine": {
            "cpus": cpus, "kernel": format!("{}{kernel}", read("/proc/sys/kernel/osrelease").trim()),
            "processor": field("/proc/cpuinfo", "model name"), "memory_bytes": 1,
            "virtual_machine": true, "hyper_threads": null, "frequency_governor": null,
            "clock_source": "tsc", "load_before": 0.0, "core_cpu": null,
            "core_scheduling": "short-slice", "program_cpus": [],
        },
        "timer": {
            "nap_ns": 1_000_000, "wakeups": 0, "late_ns": quantiles, "cpu": null, "scheduling": "",
        },
        "lateness": [], "throughput": [], "tcp": [], "hosts": [],
        "memory": { "host_bytes": null, "packet_bytes": 1536, "jumbo_packet_bytes": 9216 },
        "region": {
            "tolerance_ns": 200_000,
            "cost": { "entry_ns": entry_ns, "hop_ns": hop_ns, "byte_ns": 0 },
            "points": [], "floor_ns": quantiles,
        },
    });
    calibration.to_string()
}

/// What `check` says beside a calibration; an empty name is none.
fn check_with(calibration: &str, file: &Scratch, more: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .args(["check", file.path()])
        .args(more)
        .env("LONGHAUL_CALIBRATION", calibration)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

#[test]
fn partitions_are_weighed_by_the_machine_where_it_is_calibrated() {
    let file = Scratch::new("costs", SMALL);
    let with_costs = |hop_ns: f64| {
        let mut value: serde_json::Value =
            serde_json::from_str(&calibration(1_000, 100, "")).unwrap();
        value["costs"] = serde_json::json!({
            "hop_ns": hop_ns, "end_ns": 400.0, "between": { "crossing_ns": 50.0, "window_ns": 900.0 },
        });
        Scratch::new(&format!("calibration-{hop_ns:e}"), &value.to_string())
    };
    let partition = |calibration: &str, more: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .args([
                "partition",
                file.path(),
                "--cores",
                "1",
                "--method",
                "metis",
                "--json",
            ])
            .args(more)
            .env("LONGHAUL_CALIBRATION", calibration)
            .output()
            .unwrap();
        let found = serde_json::from_slice(&output.stdout).unwrap_or(serde_json::Value::Null);
        (output.status.code(), found, stderr(&output))
    };
    let [cheap, dear, absurd] = [100.0, 1_000_100.0, 1e300].map(with_costs);
    let [cheap, dear, absurd] = [&cheap, &dear, &absurd].map(Scratch::path);
    let (_, found, said) = partition(cheap, &[]);
    assert_eq!(
        (found["costs"].as_str(), said.as_str()),
        (Some("machine"), "")
    );
    let load = |found: &serde_json::Value| found["load"]["max"].as_f64().unwrap();
    let measured = load(&found);
    let (_, built_in, said) = partition("", &[]);
    assert_eq!(built_in["costs"], "threads");
    assert!(said.contains("run `longhaul calibrate`"), "{said}");
    // One core and the same hops and ends: the same load.
    assert_eq!(load(&built_in), measured);
    assert!(load(&partition(cheap, &["--costs", "paper"]).1) > measured);
    assert_eq!(
        partition(cheap, &["--costs", "threads"]).1["costs"],
        "threads"
    );
    for hostile in [dear, absurd] {
        assert_eq!(partition(hostile, &[]).1["costs"], "threads");
        let (code, _, said) = partition(hostile, &["--costs", "machine"]);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("run `longhaul calibrate`"), "{said}");
    }
}

#[test]
fn check_compares_demands_with_the_machine() {
    let small = Scratch::new("demands", SMALL);
    // Programs on a0 and b; 100 Mbit/s each way: 2 × 10^8 / (8 × 1518) = 16469 packets/s.
    let asked = "up to 16.5 k packets/s over 2 hops";
    let none = check_with("", &small, &[]);
    let hint = format!("{asked}; machine: not calibrated: run `longhaul calibrate`");
    assert!(none.contains(&hint) && !none.contains("may need"), "{none}");

    // 20 us a packet: 50,000 packets/s.
    let fast = Scratch::new("fast", &calibration(10_000, 5_000, ""));
    let text = check_with(fast.path(), &small, &[]);
    let line = format!("{asked}; machine: faithful up to 50 k packets/s of this kind");
    assert!(text.contains(&line) && !text.contains("may need"), "{text}");

    // 100 us: 10,000.
    let slow = Scratch::new("slow", &calibration(80_000, 10_000, ""));
    let text = check_with(slow.path(), &small, &[]);
    let warning = "may need 16.5 k packets/s over 2 hops, and this machine carries 10 k faithfully";
    assert!(text.contains(warning), "{text}");
    let half = ["--set", "links.r-b.rate=50 Mbit/s"];
    let text = check_with(slow.path(), &small, &half);
    assert!(!text.contains("may need"), "{text}");

    let json = check_with(slow.path(), &small, &["--json"]);
    let plan: serde_json::Value = serde_json::from_str(&json).unwrap();
    let demands = |field: &str| plan["demands"][field].as_f64().unwrap();
    assert!((demands("packets_per_s") - 2e8 / 8.0 / 1518.0).abs() < 1e-6);
    assert!((demands("carried_packets_per_s") - 10_000.0).abs() < 1e-6);
    assert_eq!(demands("shortest_delay_ns"), 5_100_000.0);
    assert!(plan["warnings"][0].as_str().unwrap().contains("may need"));
}

#[test]
fn check_knows_what_a_machine_cannot_delay() {
    let short = "
name: short
tolerance: 50 us
topology:
  nodes: { a: {}, b: {} }
  links:
    - { ends: [a, b], rate: 10 Mbit/s, delay: 10 us }
programs:
  p: { on: a, run: 'true' }
  q: { on: b, run: 'true' }
";
    let file = Scratch::new("short", short);
    let machine = Scratch::new("floor", &calibration(1_000, 100, ""));
    let text = check_with(machine.path(), &file, &[]);
    assert!(
        text.contains("shortest path has a delay of 10 us"),
        "{text}"
    );
    assert!(text.contains("the tolerance, 50 us, is below"), "{text}");
    let enough = ["--set", "tolerance=100 us", "--set", "links.a-b.delay=1 ms"];
    let text = check_with(machine.path(), &file, &enough);
    assert!(
        !text.contains("shortest") && !text.contains("is below"),
        "{text}"
    );
}

#[test]
fn a_calibration_that_does_not_fit_is_not_used() {
    let small = Scratch::new("stale", SMALL);
    let other = Scratch::new("kernel", &calibration(80_000, 10_000, "-other"));
    let text = check_with(other.path(), &small, &[]);
    assert!(
        text.contains("cannot be used") && text.contains("kernel"),
        "{text}"
    );
    assert!(!text.contains("may need"), "{text}");
    let broken = Scratch::new("broken", "{ \"format\": 1 }");
    let text = check_with(broken.path(), &small, &[]);
    assert!(text.contains("cannot be used"), "{text}");
    // Where a network has no rates nothing is known, and nothing is said.
    let free = SMALL
        .replace("rate: 1 Gbit/s, ", "")
        .replace("rate: 100 Mbit/s, ", "");
    let free = Scratch::new("free", &free);
    let text = check_with("", &free, &[]);
    assert!(
        !text.contains("demands") && !text.contains("calibrat"),
        "{text}"
    );
}

#[test]
fn a_large_network_is_checked_by_a_sample() {
    let large = SMALL.replace("count: 2", "count: 2000");
    let large = Scratch::new("large", &large);
    let text = stdout(&longhaul(&["check", large.path()]));
    assert!(
        text.contains("median") && text.contains("a sample of 200 hosts"),
        "{text}"
    );
    assert!(text.contains("more (all with --json)"));
}

#[test]
fn topologies_are_generated_checked_and_drawn() {
    let output = longhaul(&["topology", "generate", "fat-tree", "k=4", "rate=10 Gbit/s"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let fat = Scratch::new("fat", &stdout(&output));
    let text = stdout(&longhaul(&["check", fat.path()]));
    assert!(text.contains(": 16 hosts, 20 routers, 48 links"), "{text}");
    let image = longhaul(&["topology", "draw", fat.path()]);
    assert!(stdout(&image).starts_with("<svg "), "{}", stderr(&image));
    let named = Scratch::new("image", "");
    let args = ["topology", "draw", fat.path(), "-o", named.path()];
    assert_eq!(longhaul(&args).status.code(), Some(0));
    assert_eq!(
        std::fs::read_to_string(named.path()).unwrap(),
        stdout(&image)
    );
    let seeded = |seed| {
        stdout(&longhaul(&[
            "topology", "generate", "waxman", "--seed", seed,
        ]))
    };
    assert!(seeded("1") == seeded("1") && seeded("1") != seeded("2"));
    let help = stdout(&longhaul(&["topology", "generate", "--help"]));
    assert!(help.contains("rib_length") && help.contains("[default: 1 Gbit/s]"));
    let zoo = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../plan/tests/import/samples/zoo.gml"
    );
    let output = longhaul(&["topology", "import", zoo, "rate=1 Gbit/s"]);
    assert!(stderr(&output).contains("note: ") && output.status.code() == Some(0));
    let zoo_spelled = Scratch::new("zoo", &stdout(&output));
    assert_eq!(
        longhaul(&["check", zoo_spelled.path()]).status.code(),
        Some(0)
    );
    assert!(stdout(&longhaul(&["topology", "draw", zoo])).starts_with("<svg "));
    assert_refused(
        &["topology", "import", zoo, "rat=1 Gbit/s"],
        "rat=1 Gbit/s: error: ",
    );
    assert_refused(&["topology", "generate", "rng"], "'ring'");
    assert_refused(&["topology", "generate", "ring", "routers"], "routers=5");
    assert_refused(
        &["topology", "generate", "ring", "router=5"],
        "did you mean `routers`?",
    );
    assert_refused(
        &["topology", "draw", "/nonexistent.yaml"],
        "cannot read the file",
    );
}

#[test]
fn the_schema_is_json() {
    let output = longhaul(&["check", "--schema"]);
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(schema["properties"]["topology"].is_object());
}

#[test]
fn there_are_completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = longhaul(&["completions", shell]);
        assert!(stdout(&output).contains("doctor"), "{shell}");
    }
}

#[test]
fn the_doctor_speaks_json() {
    let examine = |noise: &str| -> serde_json::Value {
        let output = longhaul(&["doctor", "--json", "--noise", noise]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let failed = report["state"] == "failed";
        assert_eq!(output.status.code(), Some(i32::from(failed)));
        assert!(report["findings"].as_array().unwrap().len() >= 5);
        report
    };
    let named = |report: &serde_json::Value| {
        let findings = report["findings"].as_array().unwrap();
        findings.iter().any(|finding| finding["name"] == "noise")
    };
    let measured = examine("200 ms");
    assert!(named(&measured));
    assert_eq!(measured["noise"]["seconds"], 0.2);
    let cpus = measured["noise"]["cpus"].as_array().unwrap();
    assert!((1..=2).contains(&cpus.len()), "{measured:#}");
    assert!(cpus.iter().all(|cpu| cpu["stalls"]["count"].is_u64()));
    let not = examine("0 s");
    assert!(!named(&not) && not["noise"].is_null());
    for beyond in ["1 ms", "2 h"] {
        let refused = longhaul(&["doctor", "--noise", beyond]);
        assert_eq!(refused.status.code(), Some(2));
        let said = stderr(&refused);
        assert!(said.contains("from `100 ms` to `1 min`"), "{said}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    use std::process::Stdio;
    let mut child = Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .args(["check", "--schema"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stderr(&output), "");
}

/// What the documents show must work unchanged.
#[test]
fn the_readmes_experiment_is_valid() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let text = std::fs::read_to_string(readme).unwrap();
    let blocks = text.split("```yaml\n").skip(1);
    let examples: Vec<&str> = blocks
        .filter_map(|block| block.split("```").next())
        .collect();
    assert!(!examples.is_empty());
    for example in examples {
        let file = Scratch::new("readme", example);
        let output = Command::new(env!("CARGO_BIN_EXE_longhaul"))
            .args(["check", file.path()])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{example}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

/// A result that nobody gets is no success.
#[test]
fn a_lost_result_is_a_failure() {
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else {
        return;
    };
    let status = Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .args(["check", "--schema"])
        .stdout(full)
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(1));
}
