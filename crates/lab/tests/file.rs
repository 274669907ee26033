//! The experiment file, from text to plan: what is right, what is wrong, and what is hostile.

use std::fs;
use std::path::{Path, PathBuf};

use longhaul_core::params::LossModel;
use longhaul_core::topology::NodeKind;
use longhaul_core::units::{Framing, Probability, QueueLimit, Rate};
use longhaul_core::{NodeId, PipeId, Span};
use longhaul_lab::file::{self, MAX_FILE_BYTES};
use longhaul_lab::plan::{Plan, Ready};
use proptest::prelude::*;

const EXAMPLE: &str = include_str!("two-clusters.yaml");

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name)
}

fn example() -> Plan {
    Plan::from_text(EXAMPLE, "two-clusters.yaml").unwrap_or_else(|e| panic!("{e}"))
}

fn wrong(text: &str) -> String {
    Plan::from_text(text, "f.yaml")
        .expect_err("the file is wrong")
        .to_string()
}

#[test]
fn the_example_has_the_expected_network() {
    let plan = example();
    assert_eq!(
        (plan.name.as_str(), plan.seed, plan.mtu),
        ("two-clusters", 42, 1500)
    );
    assert_eq!(
        (plan.duration, plan.tolerance),
        (Some(Span::from_s(30)), Span::from_us(200))
    );
    let nodes: Vec<String> = plan
        .topology
        .nodes()
        .iter()
        .map(|node| {
            let kind = if node.kind == NodeKind::Host {
                "host"
            } else {
                "router"
            };
            format!("{} {kind} {} {}", node.name, node.ipv4, node.ipv6)
        })
        .collect();
    assert_eq!(
        nodes,
        [
            "a0 host 10.0.0.1 fd6c:6f6e:6768::1",
            "a1 host 10.0.0.2 fd6c:6f6e:6768::2",
            "a2 host 10.0.0.3 fd6c:6f6e:6768::3",
            "a3 host 10.0.0.4 fd6c:6f6e:6768::4",
            "b0 host 10.0.0.5 fd6c:6f6e:6768::5",
            "b1 host 10.0.0.6 fd6c:6f6e:6768::6",
            "b2 host 10.0.0.7 fd6c:6f6e:6768::7",
            "b3 host 10.0.0.8 fd6c:6f6e:6768::8",
            "ga router 10.128.0.1 fd6c:6f6e:6768:1::1",
            "gb router 10.128.0.2 fd6c:6f6e:6768:1::2",
        ]
    );
    let pipes: Vec<&str> = plan
        .topology
        .pipes()
        .iter()
        .map(|pipe| pipe.name.as_str())
        .collect();
    let expected = "a0>ga a1>ga a2>ga a3>ga b0>gb b1>gb b2>gb b3>gb ga>a0 ga>a1 ga>a2 ga>a3 ga>gb \
                    gb>b0 gb>b1 gb>b2 gb>b3 gb>ga";
    assert_eq!(pipes.join(" "), expected);
    let pipe = |name: &str| {
        let id = plan.topology.find_pipes(name)[0];
        (id, plan.topology.pipe(id).params.clone())
    };
    let gigabit = Rate::from_bits_per_s(1_000_000_000);
    let (id, middle) = pipe("ga>gb");
    assert_eq!((middle.rate, middle.delay), (gigabit, Span::from_ms(5)));
    assert_eq!(
        middle.loss,
        LossModel::Independent(Probability::from_ratio(1, 10_000).unwrap())
    );
    assert_eq!(
        (middle.queue, middle.framing),
        (QueueLimit::Packets(250), Framing::Ethernet)
    );
    assert_eq!(
        plan.topology.pipe(plan.topology.pipe(id).back).name,
        "gb>ga"
    );
    assert_eq!(plan.topology.pipe(id).link, "ga-gb");
    let (_, back) = pipe("b2>gb");
    assert_eq!(
        back.rate,
        Rate::from_bits_per_s(100_000_000),
        "`back` goes from b to gb"
    );
    let (_, forward) = pipe("gb>b2");
    assert_eq!(
        (forward.rate, forward.delay, back.delay),
        (gigabit, Span::from_us(50), forward.delay)
    );
}

#[test]
fn the_example_has_the_expected_hosts_and_programs() {
    let plan = example();
    let host = &plan.hosts[4];
    assert_eq!(
        (host.node, host.name.as_str(), host.mtu),
        (NodeId(4), "b0", 1500)
    );
    assert_eq!(host.nic, [PipeId(4)]);
    assert_eq!(
        (host.tcp.congestion.as_str(), host.tcp.ecn),
        ("cubic", false)
    );
    // 10.2 ms of round trip at 1 Gbit/s are 1.275 MB; four times that, in whole pages.
    assert_eq!(plan.hosts[0].tcp.rmem_max, 5_103_616);
    assert_eq!(plan.hosts[0].tcp.wmem_max, 5_103_616);
    let names: Vec<&str> = plan
        .programs
        .iter()
        .map(|program| program.name.as_str())
        .collect();
    assert_eq!(names, ["client", "ping@a1", "ping@a2", "server", "web"]);
    let [client, ping, _, server, web] = &plan.programs[..] else {
        panic!()
    };
    assert_eq!(client.argv, ["iperf3", "-c", "b0", "-t", "10", "-J"]);
    assert_eq!((client.host, client.after.as_slice()), (0, &[3][..]));
    assert_eq!(
        (ping.host, ping.after.as_slice(), ping.as_root),
        (1, &[0, 4][..], true)
    );
    assert_eq!(ping.argv, ["sh", "-c", "ping -c 3 b0 | tail -1"]);
    assert_eq!(
        ping.env,
        [
            ("LANG".to_owned(), "C".to_owned()),
            ("N".to_owned(), "1.10".to_owned())
        ]
    );
    assert_eq!(
        (ping.timeout, ping.cwd.as_deref()),
        (Some(Span::from_s(20)), Some(Path::new("/tmp")))
    );
    assert_eq!(
        (server.host, server.ready.clone()),
        (4, Some(Ready::Tcp(5201)))
    );
    assert!(web.service && !server.service);
    let Some(Ready::Log(log)) = &web.ready else {
        panic!("{:?}", web.ready)
    };
    assert!(log.is_match(b"Serving HTTP on 0.0.0.0") && !log.is_match(b"serving"));
    assert_eq!(plan.warnings, Vec::<String>::new());
    assert!(plan.memory_bytes() <= 1 << 30 && plan.packet_slots() > 18_000);
}

#[test]
fn the_order_of_a_file_changes_nothing() {
    let turned = "
programs:
  z: { on: b, run: x }
  y: { on: a, run: x, after: z }
topology:
  links: [{ ends: [r, a] }, { ends: [r, b] }]
  nodes: { r: { kind: router }, b: { count: 11 }, a: {} }
";
    let straight = "
topology:
  nodes: { a: {}, b: { count: 11 }, r: { kind: router } }
  links: [{ ends: [r, b] }, { ends: [r, a] }]
programs:
  y: { on: a, run: x, after: z }
  z: { on: b, run: x }
";
    let plans = [turned, straight].map(|text| Plan::from_text(text, "f.yaml").unwrap());
    let [first, second] = plans.map(|plan| {
        format!(
            "{:?}",
            (
                plan.topology.nodes(),
                plan.topology.pipes(),
                &plan.hosts,
                &plan.programs,
                plan.name.clone()
            )
        )
    });
    assert_eq!(first, second);
    let plan = Plan::from_text(turned, "f.yaml").unwrap();
    let ipv4 = |name| {
        plan.topology
            .node(plan.topology.find(name).unwrap())
            .ipv4
            .to_string()
    };
    assert_eq!(
        (ipv4("b2"), ipv4("b10")),
        ("10.0.0.4".into(), "10.0.0.12".into())
    );
    let last = plan.programs.last().unwrap();
    assert_eq!(
        (last.name.as_str(), plan.programs[0].after.len()),
        ("z@b10", 11)
    );
}

#[test]
fn links_have_the_documented_names() {
    let plan = Plan::from_text(
        "topology:
  nodes: { a: { count: 2 }, b: { count: 2 }, x: {}, y: { kind: router } }
  links:
    - { ends: [x, y] }
    - { ends: [y, x] }
    - { ends: [x, y], name: backup }
    - { ends: [a, b] }
    - { ends: [a, y], name: up }
    - { ends: [y, b] }
",
        "f.yaml",
    );
    let plan = plan.unwrap_or_else(|e| panic!("{e}"));
    let mut names: Vec<String> = plan
        .topology
        .pipes()
        .iter()
        .map(|pipe| format!("{}={}", pipe.link, pipe.name))
        .collect();
    names.sort();
    let expected = "a0-b0=a0>b0 a0-b0=b0>a0 a1-b1=a1>b1 a1-b1=b1>a1 \
                    backup=backup:x>y backup=backup:y>x up0=up0:a0>y up0=up0:y>a0 \
                    up1=up1:a1>y up1=up1:y>a1 x-y=x>y x-y=y>x y-b0=b0>y y-b0=y>b0 y-b1=b1>y \
                    y-b1=y>b1 y-x#2=x>y#2 y-x#2=y>x#2";
    assert_eq!(names.join(" "), expected);
}

#[test]
fn given_addresses_win_and_are_avoided() {
    let plan = Plan::from_text(
        "topology:
  nodes:
    a: {}
    b: { address: [10.0.0.1, fd6c:6f6e:6768::1] }
    c: { count: 300 }
    r: { kind: router, address: 192.0.2.1 }
  links: [{ ends: [a, r] }, { ends: [b, r] }, { ends: [c, r] }]
",
        "f.yaml",
    );
    let plan = plan.unwrap_or_else(|e| panic!("{e}"));
    let node = |name| plan.topology.node(plan.topology.find(name).unwrap());
    let ipv4 = |name| node(name).ipv4.to_string();
    assert_eq!(
        (ipv4("a"), ipv4("b"), ipv4("r")),
        ("10.0.0.2".into(), "10.0.0.1".into(), "192.0.2.1".into())
    );
    assert_eq!(node("a").ipv6.to_string(), "fd6c:6f6e:6768::2");
    assert_eq!(node("r").ipv6.to_string(), "fd6c:6f6e:6768:1::1");
    // a is .2, so c251 is .254; .255 and .0 are skipped.
    assert_eq!(
        (ipv4("c251"), ipv4("c252")),
        ("10.0.0.254".into(), "10.0.1.1".into())
    );
}

#[test]
fn defaults_and_own_settings_combine() {
    let plan = Plan::from_text(
        "mtu: 9000
framing: wire
tcp: { congestion: reno, rmem: 8 MiB }
topology:
  nodes: { a: { tcp: { ecn: true, rmem: 16 MiB } }, b: {}, c: {} }
  links:
    - { ends: [a, b], mtu: 1280 B, framing: ip, queue: 64 KiB }
    - { ends: [a, c] }
    - { ends: [b, c] }
",
        "dir/my file.yaml",
    );
    let plan = plan.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        (plan.name.as_str(), plan.seed, plan.duration),
        ("my-file", 1, None)
    );
    let [a, b, c] = &plan.hosts[..] else { panic!() };
    assert_eq!((a.mtu, b.mtu, c.mtu, a.nic.len()), (1280, 1280, 9000, 2));
    assert_eq!(
        (a.tcp.congestion.as_str(), a.tcp.ecn, a.tcp.rmem_max),
        ("reno", true, 16 << 20)
    );
    assert_eq!(
        (b.tcp.ecn, b.tcp.rmem_max, b.tcp.wmem_max),
        (false, 8 << 20, 4 << 20)
    );
    let pipe = |name: &str| {
        plan.topology
            .pipe(plan.topology.find_pipes(name)[0])
            .params
            .clone()
    };
    assert_eq!(
        (pipe("a>b").framing, pipe("a>c").framing),
        (Framing::Ip, Framing::Wire)
    );
    assert_eq!(
        (pipe("b>a").queue, pipe("c>a").rate),
        (QueueLimit::Bytes(65_536), None)
    );
    assert_eq!(plan.slot_bytes(), 9216);
}

#[test]
fn warnings_say_what_is_probably_not_meant() {
    let plan = Plan::from_text(
        "topology:
  nodes: { a: { count: 3 }, r: { kind: router }, s: { kind: router }, b: {} }
  links:
    - { ends: [a, r], rate: 10 Gbit/s, queue: 10 packets }
    - { ends: [r, s], rate: 1 Gbit/s, delay: 50 ms, queue: 20 packets }
    - { ends: [s, b], rate: 1 Gbit/s, queue: 2 MB }
programs:
  web: { on: a0, run: 'cat x | wc', service: true }
",
        "f.yaml",
    );
    let warnings = plan.unwrap().warnings;
    let starts = [
        "the queue of `a0>r` (10 packets) is far below the bandwidth-delay product of the longest \
         path through it (83333 packets): TCP may not fill the link; so are those of 5 more pipes",
        "the queue of `r>s` (20 packets)",
        "all programs are services",
        "`web` passes `|` to its program",
    ];
    assert_eq!(warnings.len(), starts.len(), "{warnings:#?}");
    for (warning, start) in warnings.iter().zip(starts) {
        assert!(warning.starts_with(start), "{warning}");
    }
}

/// Every file of `tests/bad` fails with the text that lies beside it. With `BLESS=1` in the
/// environment the texts are written instead.
#[test]
fn bad_files_say_what_is_wrong() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut paths: Vec<PathBuf> = fs::read_dir(folder("bad"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "yaml"));
    paths.sort();
    assert!(paths.len() > 30);
    let mut different = Vec::new();
    for path in paths {
        let errors = Plan::from_file(&path).expect_err(&format!("{} is wrong", path.display()));
        let folder = format!("{}/", folder("bad").display());
        let message = errors.to_string().replace(&folder, "") + "\n";
        let expected = path.with_extension("txt");
        if bless {
            fs::write(&expected, &message).unwrap();
        } else if fs::read_to_string(&expected).unwrap_or_default() != message {
            different.push(message);
        }
    }
    assert!(
        different.is_empty(),
        "other messages than expected:\n\n{}",
        different.join("\n")
    );
}

#[test]
fn deep_nesting_is_refused() {
    for (open, close) in [("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", "")] {
        for text in [
            open.repeat(10_000),
            format!("{}x{}", open.repeat(10_000), close.repeat(10_000)),
        ] {
            let message = wrong(&text);
            assert!(
                message.contains("more than 32 levels deep"),
                "{open}: {message}"
            );
        }
    }
    assert!(
        wrong(&format!("topology: {}x{}", "[".repeat(20), "]".repeat(20))).contains("should be")
    );
}

#[test]
fn a_large_file_is_refused_unread() {
    let path = std::env::temp_dir().join(format!("longhaul-large-{}.yaml", std::process::id()));
    fs::File::create(&path).unwrap().set_len(100 << 20).unwrap();
    let error = Plan::from_file(&path).unwrap_err().to_string();
    fs::remove_file(&path).unwrap();
    assert!(
        error.contains(":1:1: error: the file has more than 16 MiB"),
        "{error}"
    );
    let text = "#".repeat(MAX_FILE_BYTES as usize + 1);
    assert!(wrong(&text).contains("the file has more than 16 MiB"));
    let endless = Plan::from_file(Path::new("/dev/zero"))
        .unwrap_err()
        .to_string();
    assert!(endless.contains("more than 16 MiB"), "{endless}");
}

#[test]
fn what_is_no_file_is_refused() {
    let folder = Plan::from_file(&folder("bad")).unwrap_err().to_string();
    assert!(folder.contains("this is a directory"), "{folder}");
    let missing = Plan::from_file(Path::new("/no/such/file.yaml"))
        .unwrap_err()
        .to_string();
    assert!(
        missing.starts_with("/no/such/file.yaml: error: cannot read the file: "),
        "{missing}"
    );
}

#[test]
fn a_flood_of_errors_is_cut() {
    let links = "    - { ends: [a, a] }\n".repeat(5_000);
    let text = format!("topology:\n  nodes: {{ a: {{}} }}\n  links:\n{links}");
    let errors = Plan::from_text(&text, "f.yaml").unwrap_err();
    assert_eq!((errors.list().len(), errors.count()), (50, 5_000));
    assert!(errors.to_string().ends_with("… and 4950 more errors"));
    let first = &errors.list()[0];
    assert_eq!((first.line(), first.column()), (4, 19));
}

fn with(overrides: &[(&str, &str)]) -> Result<Plan, String> {
    let overrides: Vec<(String, String)> = overrides
        .iter()
        .map(|(path, value)| ((*path).to_owned(), (*value).to_owned()))
        .collect();
    Plan::from_text_with(EXAMPLE, "two-clusters.yaml", &overrides).map_err(|e| e.to_string())
}

#[test]
fn overrides_change_the_file_before_it_is_checked() {
    let plan = with(&[
        ("seed", "7"),
        ("links.ga-gb.delay", "20 ms"),
        ("topology.links.2.back.rate", "50 Mbit/s"),
        ("links.2.back.loss", "1 %"),
        ("nodes.a.count", "5"),
        ("programs.client.run", "sh -c 'echo a: b'"),
        ("programs.ping.on", "[a1, a4]"),
        ("programs.client.env.X", "1"),
        ("tcp.congestion", "reno"),
    ]);
    let plan = plan.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((plan.seed, plan.hosts.len()), (7, 9));
    let pipe = |name: &str| {
        plan.topology
            .pipe(plan.topology.find_pipes(name)[0])
            .params
            .clone()
    };
    assert_eq!(
        (pipe("ga>gb").delay, pipe("gb>ga").delay),
        (Span::from_ms(20), Span::from_ms(20))
    );
    assert_eq!(pipe("b3>gb").rate, Rate::from_bits_per_s(50_000_000));
    assert_eq!(
        pipe("b3>gb").loss,
        LossModel::Independent("1 %".parse().unwrap())
    );
    assert_eq!(plan.programs[0].argv, ["sh", "-c", "echo a: b"]);
    assert_eq!(plan.programs[0].env, [("X".to_owned(), "1".to_owned())]);
    assert_eq!(plan.programs[2].name, "ping@a4");
    assert_eq!(plan.hosts[0].tcp.congestion, "reno");
}

#[test]
fn wrong_overrides_are_named() {
    let cases = [
        (
            "seed",
            "x",
            "--set:1:6: error: this should be a whole number (0, 1, 2, …), but it is `x`\n1 | seed=x\n  |      ^",
        ),
        (
            "links.ga-gb.delay",
            "5",
            "--set:1:19: error: `5` has no unit\n1 | links.ga-gb.delay=5\n",
        ),
        (
            "links.ga-gb.dealy",
            "5 ms",
            "--set:1:13: error: unknown field `dealy`\n",
        ),
        (
            "links.ga-gc.delay",
            "5 ms",
            "--set:1:7: error: there is no link called `ga-gc`\n",
        ),
        (
            "links.9.delay",
            "5 ms",
            "--set:1:7: error: there is no entry 9: the list has 3",
        ),
        (
            "programs.clinet.run",
            "x",
            "--set:1:10: error: there is no program called `clinet`\n",
        ),
        (
            "programs.ping.on",
            "[a1, zz]",
            "--set:1:23: error: there is no node called `zz`\n",
        ),
        ("programs.ping.on", "[a1", "--set:1:"),
        (
            "seed.x",
            "1",
            "--set:1:6: error: `seed` is a value and has no field `x`\n",
        ),
        ("", "1", "--set:1:1: error: a name is missing"),
        ("links..x", "1", "--set:1:7: error: a name is missing"),
        ("nope", "1", "--set:1:1: error: unknown field `nope`\n"),
    ];
    for (path, value, start) in cases {
        let error = with(&[(path, value)]).expect_err(path);
        assert!(error.starts_with(start), "{path}={value}:\n{error}");
    }
    let hint = with(&[("programs.clinet.run", "x")]).unwrap_err();
    assert!(hint.ends_with("hint: did you mean `client`?"), "{hint}");
}

#[test]
fn sizes_are_bounded() {
    let text = "topology:
  nodes: { a: { count: 10001 }, r: { kind: router } }
  links: [{ ends: [a, r] }]
programs: { p: { on: a, run: x } }
";
    assert!(wrong(text).contains("10001 programs"), "{}", wrong(text));
    let text = "topology:
  nodes: { a: { count: 20000 }, r: { kind: router } }
  links: [{ ends: [a, r] }, { ends: [a, r] }, { ends: [a, r] }, { ends: [a, r] }, { ends: [a, r] },
          { ends: [a, r] }, { ends: [a, r] }, { ends: [a, r] }, { ends: [a, r] }, { ends: [a, r] },
          { ends: [a, r] }]
";
    assert!(
        wrong(text).contains("more than 200000 links"),
        "{}",
        wrong(text)
    );
}

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

/// The examples of the reference are right.
#[test]
fn the_reference_is_right() {
    let reference = include_str!("../../../docs/format.md");
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    /// Random text, and the example with random damage, never panic.
    #[test]
    fn hostile_text_never_panics(text in "\\PC{0,200}", at in 0..EXAMPLE.len(), len in 0..40usize) {
        let _ = Plan::from_text(&text, "f.yaml").map_err(|e| e.to_string());
        let mut bytes = EXAMPLE.as_bytes().to_vec();
        let end = (at + len).min(bytes.len());
        bytes.splice(at..end, text.bytes().take(20));
        let damaged = String::from_utf8_lossy(&bytes);
        let _ = Plan::from_text(&damaged, "f.yaml").map_err(|e| e.to_string());
        let overrides = [(text.clone(), text.clone()), ("links.ga-gb.delay".to_owned(), text)];
        let _ = Plan::from_text_with(EXAMPLE, "f.yaml", &overrides[..1]).map_err(|e| e.to_string());
        let _ = Plan::from_text_with(EXAMPLE, "f.yaml", &overrides[1..]).map_err(|e| e.to_string());
    }

    /// Pieces of the format in any order never panic either.
    #[test]
    fn shuffled_pieces_never_panic(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40)) {
        let text = pieces.concat();
        let _ = Plan::from_text(&text, "f.yaml").map_err(|e| e.to_string());
    }
}

const PIECES: &[&str] = &[
    "topology:\n",
    "  nodes:\n",
    "  links:\n",
    "    a: {}\n",
    "    b: { count: 3 }\n",
    "a: ",
    "b: ",
    "    r: { kind: router }\n",
    "    - { ends: [a, b] }\n",
    "    - { ends: [b, r] }\n",
    "- ",
    "? ",
    "{",
    "}",
    "[",
    "]",
    ", ",
    "&x ",
    "*x",
    "<<: *x\n",
    "programs:\n",
    "  p: { on: b, run: x }\n",
    "  q: { on: [a, b], run: x, after: [p, q] }\n",
    "\n",
    "\t",
    "'",
    "\"",
    "|\n",
    ">\n",
    "!!binary ",
    "5 ms",
    "-1",
    "~",
    "null",
    "# c\n",
    "---\n",
    "...\n",
    "%YAML 1.2\n",
    "\u{feff}",
    "é",
    "\r",
];
