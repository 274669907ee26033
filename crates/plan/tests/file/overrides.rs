//! Overrides: `--set path=value`.

use longhaul_core::Span;
use longhaul_core::params::LossModel;
use longhaul_core::units::Rate;
use longhaul_plan::plan::Plan;

use crate::EXAMPLE;

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
            "--set:1:23: error: there is no host called `zz`\n",
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
    let meant = "hint: did you mean `client`? the 4 programs are server, client, web, ping";
    assert!(hint.ends_with(meant), "{hint}");
}
