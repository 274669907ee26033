//! The example of the reference: its network, hosts and programs.

use std::path::Path;

use longhaul_core::params::LossModel;
use longhaul_core::topology::NodeKind;
use longhaul_core::units::{Framing, Probability, QueueLimit, Rate};
use longhaul_core::{NodeId, PipeId, Span};
use longhaul_plan::plan::{Plan, Ready};

use crate::example;

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
