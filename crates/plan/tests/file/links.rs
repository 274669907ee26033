//! Links: names, addresses, inherited settings, warnings.

use longhaul_core::units::{Framing, QueueLimit};
use longhaul_plan::plan::Plan;

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
fn super_packets_need_memory_of_their_own() {
    let plan = |offload: bool| {
        let text = format!(
            "offload: {offload}\ntopology:\n  nodes: {{ a: {{}}, b: {{}} }}\n  links: [ {{ ends: [a, b] }} ]\n"
        );
        Plan::from_text(&text, "x.yaml").expect("a sound file")
    };
    let packets = |plan: &Plan| (plan.packet_slots() * plan.slot_bytes()) as u64;
    let (with, without) = (plan(true), plan(false));
    assert_eq!(without.memory_bytes(), packets(&without));
    let supers = with.super_buffers() as u64 * (68 << 10);
    assert_eq!(with.memory_bytes(), packets(&with) + supers);
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
        "`web` passes `|` to its program",
        "all programs are services",
    ];
    assert_eq!(warnings.len(), starts.len(), "{warnings:#?}");
    for (warning, start) in warnings.iter().zip(starts) {
        assert!(warning.starts_with(start), "{warning}");
    }
}
