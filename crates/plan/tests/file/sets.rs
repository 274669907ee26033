//! Sets of hosts, nodes and links: what they stand for, wherever a file names some.

use std::fs;

use longhaul_plan::flow_groups::Pairs;
use longhaul_plan::plan::Plan;

use crate::wrong;

const NETWORK: &str = "
duration: 60 s
topology:
  nodes:
    edge: { count: 12, labels: { tier: edge, site: paris } }
    web: { labels: { tier: edge, site: rome } }
    db-1: { labels: { tier: data, site: rome } }
    core: { kind: router, count: 2, labels: { tier: core, site: paris } }
    hub: { kind: router, labels: { tier: core } }
  links:
    - { ends: [edge, core0], delay: 1 ms, labels: { kind: access } }
    - { ends: [[web, db-1], core1], delay: 1 ms, labels: { kind: access, site: rome } }
    - { ends: [\"core?\", hub], rate: 1 Gbit/s, delay: 5 ms, labels: { kind: backbone } }
    - { ends: [core0, core1], name: backup, delay: 20 ms, labels: { kind: backbone } }
";

fn plan(more: &str) -> Plan {
    let text = format!("{NETWORK}{more}");
    Plan::from_text(&text, "f.yaml").unwrap_or_else(|e| panic!("{e}"))
}

fn error(more: &str) -> String {
    wrong(&format!("{NETWORK}{more}"))
}

/// The hosts that a program runs on.
fn on(set: &str) -> String {
    let plan = plan(&format!("programs: {{ p: {{ on: {set}, run: x }} }}\n"));
    let hosts = plan.programs.iter().map(|program| {
        let host = plan.hosts[program.host].name.as_str();
        assert_eq!(program.name, format!("p@{host}"));
        host
    });
    hosts.collect::<Vec<_>>().join(" ")
}

/// The pairs of an entry of `traffic`.
fn pairs(plan: &Plan) -> String {
    let name = |id| plan.topology.node(id).name.as_str();
    let pairs = plan.traffic.groups[0].pairs.iter();
    let pairs = pairs.map(|(from, to)| format!("{}>{}", name(from), name(to)));
    pairs.collect::<Vec<_>>().join(" ")
}

fn flows(entry: &str) -> String {
    pairs(&plan(&format!(
        "traffic: {{ t: {{ {entry}, bytes: 1 kB }} }}\n"
    )))
}

/// The pipes of an event.
fn event(target: &str) -> String {
    let plan = plan(&format!("events: [{{ at: 1 s, {target}, down: 1 s }}]\n"));
    let pipes = plan.schedule.events[0].action.pipes().iter();
    let names = pipes.map(|pipe| plan.topology.pipe(*pipe).name.as_str());
    names.collect::<Vec<_>>().join(" ")
}

#[test]
fn sets_stand_for_hosts_in_the_natural_order_of_their_names() {
    let edges = "edge0 edge1 edge2 edge3 edge4 edge5 edge6 edge7 edge8 edge9 edge10 edge11";
    // Programs are numbered by host, which sorts names as texts: both are said by name here.
    let sorted = |names: &str| {
        let mut names: Vec<&str> = names.split(' ').collect();
        names.sort_unstable();
        names.join(" ")
    };
    for (set, hosts) in [
        ("all", &*format!("db-1 {edges} web")),
        ("\"*\"", &format!("db-1 {edges} web")),
        ("edge", edges),
        ("\"edge*\"", edges),
        ("tier=edge", &format!("{edges} web")),
        ("site=rome", "db-1 web"),
        ("\"tier=[de]*\"", &format!("db-1 {edges} web")),
        (
            "\"edge?\"",
            "edge0 edge1 edge2 edge3 edge4 edge5 edge6 edge7 edge8 edge9",
        ),
        ("\"edge[!0-8]*\"", "edge9"),
        ("\"[a-dw]*\"", "db-1 web"),
        ("[web, \"*-1\"]", "db-1 web"),
        ("[web, all, edge, edge3]", &format!("db-1 {edges} web")),
    ] {
        assert_eq!(sorted(&on(set)), sorted(hosts), "{set}");
        let expected: Vec<String> = hosts.split(' ').map(|host| format!("{host}>x")).collect();
        // A list keeps the order of its items.
        if !set.starts_with('[') {
            let text = format!(
                "{NETWORK}    - {{ ends: [hub, x] }}\ntraffic: {{ t: {{ from: {set}, to: x, pattern: incast }} }}\n"
            );
            let text = text.replace("    hub:", "    x: {}\n    hub:");
            let plan = Plan::from_text(&text, "f.yaml").unwrap_or_else(|e| panic!("{e}"));
            let all = pairs(&plan);
            assert_eq!(all, expected.join(" "), "{set}");
        }
    }
}

#[test]
fn a_list_keeps_its_order_and_takes_each_once() {
    assert_eq!(
        flows("from: [web, \"edge[01]\", edge1, web, edge0], to: db-1"),
        "web>db-1 edge0>db-1 edge1>db-1"
    );
    assert_eq!(
        flows("from: [edge10, \"edge[12]\"], to: [db-1, site=rome, edge5, edge5]"),
        "edge10>db-1 edge1>web edge2>edge5"
    );
    assert_eq!(
        flows("from: site=rome, pattern: all-to-all"),
        "db-1>web web>db-1"
    );
}

#[test]
fn sets_may_be_the_ends_of_links() {
    let plan = plan("programs: { p: { on: web, run: x } }\n");
    let links: Vec<&str> = plan
        .topology
        .pipes()
        .iter()
        .filter(|pipe| !pipe.name.starts_with("edge") && !pipe.name.contains(">edge"))
        .map(|pipe| pipe.name.as_str())
        .collect();
    assert_eq!(
        links,
        [
            "backup:core0>core1",
            "backup:core1>core0",
            "core0>hub",
            "core1>db-1",
            "core1>hub",
            "core1>web",
            "db-1>core1",
            "hub>core0",
            "hub>core1",
            "web>core1",
        ]
    );
    // `all` are all hosts; sets are joined in pairs, and named as groups are.
    let text = "
topology:
  nodes: { a: { count: 2 }, b: { labels: { x: y } }, c: { labels: { x: y } }, r: { kind: router } }
  links: [{ ends: [all, r], name: up }, { ends: [\"a*\", x=y] }]
";
    let plan = Plan::from_text(text, "f.yaml").unwrap_or_else(|e| panic!("{e}"));
    let links: Vec<&str> = plan
        .topology
        .pipes()
        .iter()
        .map(|pipe| &*pipe.link)
        .collect();
    assert_eq!(links[..4], ["a0-b", "a1-c", "a0-b", "a1-c"]);
    assert_eq!(
        links[4..],
        ["up0", "up0", "up1", "up1", "up2", "up2", "up3", "up3"]
    );
}

#[test]
fn sets_stand_for_links_and_pipes() {
    let core = "core0>hub core1>hub hub>core0 hub>core1";
    let backbone = format!("backup:core0>core1 backup:core1>core0 {core}");
    for (target, pipes) in [
        ("link: \"core?-hub\"", core),
        ("link: \"core?>hub\"", "core0>hub core1>hub"),
        ("link: \"*>hub\"", "core0>hub core1>hub"),
        ("link: kind=backbone", &backbone),
        (
            "link: site=rome",
            "core1>db-1 core1>web db-1>core1 web>core1",
        ),
        ("link: \"backup:*>core0\"", "backup:core1>core0"),
        (
            "link: [\"b*\", backup, \"backup:*>*\"]",
            "backup:core0>core1 backup:core1>core0",
        ),
        (
            "link: [\"hub>*\", core0-hub]",
            "core0>hub hub>core0 hub>core1",
        ),
        (
            "link: \"edge1[01]-*\"",
            "core0>edge10 core0>edge11 edge10>core0 edge11>core0",
        ),
        ("router: hub", core),
        ("router: \"h*\"", core),
        ("router: [hub, \"hu?\"]", core),
    ] {
        assert_eq!(event(target), pipes, "{target}");
    }
    let all = event("link: all");
    assert_eq!(all, event("link: \"*\""));
    assert_eq!(all, event("link: \"*>*\""));
    assert_eq!(all.split(' ').count(), 34);
    // Every link leads to a router.
    for routers in ["all", "\"*\"", "tier=core", "[hub, \"core*\"]"] {
        assert_eq!(event(&format!("router: {routers}")), all, "{routers}");
    }
}

/// Names have no characters of sets, but for `all` and names that others begin with.
#[test]
fn a_name_means_what_has_it() {
    let text = "
duration: 60 s
topology:
  nodes:
    all: { labels: { x: y } }
    h: {}
    h0: {}
    h1: {}
    s0: {}
    s1: {}
    r: { kind: router }
  links:
    - { ends: [all, r], name: all }
    - { ends: [\"[hs]*\", r] }
programs:
  on-all: { on: all, run: x }
  on-h: { on: h, run: x }
  on-s: { on: s, run: x }
  one: { on: \"al*\", run: x }
events:
  - { at: 1 s, link: all, down: 1 s }
";
    let plan = Plan::from_text(text, "f.yaml").unwrap_or_else(|e| panic!("{e}"));
    let names: Vec<&str> = plan.programs.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["on-all", "on-h", "on-s@s0", "on-s@s1", "one@all"]);
    assert_eq!(plan.schedule.events[0].action.pipes().len(), 2);
    assert_eq!(plan.find_pipes("all").unwrap().len(), 2);
    // A group of the name has its entry's links.
    let text = "
topology:
  nodes: { all: { count: 2 }, b: {}, r: { kind: router } }
  links: [{ ends: [all, r] }, { ends: [b, r] }]
events: [{ at: 1 s, link: all-r, down: 1 s }]
";
    let plan = Plan::from_text(text, "f.yaml").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(plan.schedule.events[0].action.pipes().len(), 4);
    // A group, and names that it begins, before everything.
    let text = "
topology:
  nodes: { all: { count: 2 }, b: {}, r: { kind: router } }
  links: [{ ends: [\"*[!r]\", r] }]
programs: { p: { on: all, run: x } }
";
    let plan = Plan::from_text(text, "f.yaml").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(plan.programs.len(), 2);
    let plan = Plan::from_text(
        &text.replace("all: { count: 2 }", "all0: {}, all1: {}"),
        "f.yaml",
    );
    assert_eq!(plan.unwrap_or_else(|e| panic!("{e}")).programs.len(), 2);
}

#[test]
fn one_is_chosen_where_one_is_needed() {
    let plan = plan("programs: { p: { on: web, run: x } }\n");
    let host = |name: &str| {
        plan.find_host(name)
            .map(|host| plan.hosts[host].name.as_str())
    };
    assert_eq!(host("web"), Ok("web"));
    assert_eq!(host("w*"), Ok("web"));
    assert_eq!(host("tier=data"), Ok("db-1"));
    let error = |name: &str| host(name).unwrap_err().to_string();
    assert_eq!(
        error("edge*"),
        "`edge*` stands for 12 hosts, but exactly one host is needed; write one of edge0, edge1, edge10, \
         edge11, edge2, edge3, edge4, edge5 and 4 more"
    );
    assert!(error("all").starts_with("`all` stands for 14 hosts, but exactly one host is needed"));
    assert!(error("edge").starts_with("`edge` stands for 12 hosts"));
    assert!(error("hub").starts_with("`hub` is a router, not a host; the 14 hosts are db-1"));
    assert!(
        error("x*")
            .starts_with("no host has a name that matches `x*`; the 14 hosts are db-1, edge0")
    );
    assert!(error("wbe").starts_with("there is no host called `wbe`; did you mean `web`?"));
    assert_eq!(plan.find_pipes("kind=backbone").unwrap().len(), 6);
    assert_eq!(plan.pipes_of_routers("tier=core").unwrap().len(), 34);
    assert!(
        plan.pipes_of_routers("web")
            .unwrap_err()
            .problem
            .contains("is a host")
    );
}

#[test]
fn recorded_flows_have_one_host_at_each_end() {
    let path = std::env::temp_dir().join(format!("longhaul-sets-{}.csv", std::process::id()));
    let with = |rows: &str| {
        fs::write(&path, format!("start_s, from, to, bytes\n{rows}\n")).unwrap();
        let text = format!(
            "{NETWORK}traffic: {{ t: {{ replay: {} }} }}\n",
            path.display()
        );
        Plan::from_text(&text, "f.yaml").map_err(|e| e.to_string())
    };
    let one = with("0, w*, tier=data, 1000");
    let many = with("0, web, edge1, 1000\n1, web, edge1*, 1000");
    fs::remove_file(&path).unwrap();
    assert_eq!(pairs(&one.unwrap()), "web>db-1");
    let many = many.unwrap_err();
    assert!(
        many.contains("csv:3: `edge1*` stands for 3 hosts, but exactly one host is needed"),
        "{many}"
    );
    assert!(
        many.contains("write one of edge1, edge10, edge11"),
        "{many}"
    );
}

#[test]
fn labels_of_a_plan_are_known() {
    let plan = plan("programs: { p: { on: web, run: x } }\n");
    let nodes = plan.labels.nodes.iter();
    let nodes: Vec<String> = nodes
        .map(|(k, v, all)| format!("{k}={v}:{}", all.len()))
        .collect();
    assert_eq!(
        nodes,
        [
            "site=paris:14",
            "site=rome:2",
            "tier=core:3",
            "tier=data:1",
            "tier=edge:13"
        ]
    );
    let links = plan.labels.links.iter();
    let links: Vec<String> = links
        .map(|(k, v, all)| format!("{k}={v}:{}", all.len()))
        .collect();
    assert_eq!(links, ["kind=access:14", "kind=backbone:3", "site=rome:2"]);
}

#[test]
fn overrides_reach_all_entries_like_a_pattern() {
    let with = |path: &str, value: &str| {
        let overrides = [(path.to_owned(), value.to_owned())];
        Plan::from_text_with(
            &format!("{NETWORK}programs: {{ p: {{ on: web, run: x }} }}\n"),
            "f.yaml",
            &overrides,
        )
        .map_err(|e| e.to_string())
    };
    let delays = |path: &str| -> Vec<u64> {
        let plan = with(path, "7 ms").unwrap_or_else(|e| panic!("{e}"));
        let delay = |name: &str| {
            let pipe = plan.topology.find_pipes(name)[0];
            plan.topology.pipe(pipe).params.delay.as_ns() / 1_000_000
        };
        vec![delay("edge0>core0"), delay("core0>hub"), delay("backup")]
    };
    assert_eq!(delays("links.*.delay"), [7, 7, 7]);
    assert_eq!(delays("links.all.delay"), [7, 7, 7]);
    // Of the four, `all` is that too whose ends are a list.
    let plan = with("links.all.labels.x", "y").unwrap();
    let all = plan.labels.links.iter().find(|(key, ..)| *key == "x");
    assert_eq!(all.map(|(.., links)| links.len()), Some(17));
    assert_eq!(delays("links.e*-core?.delay"), [7, 5, 20]);
    assert_eq!(delays("links.[a-c]*.delay"), [1, 7, 7]);
    assert_eq!(delays("links.back*.delay"), [1, 5, 7]);
    let plan = with("nodes.*e[bd]*.labels.tier", "new").unwrap();
    let new = plan
        .labels
        .nodes
        .iter()
        .find(|(_, value, _)| *value == "new");
    assert_eq!(new.map(|(.., members)| members.len()), Some(13));
    let plan = with("programs.p.on", "[tier=data, \"edge[0-2]\"]").unwrap();
    assert_eq!(plan.programs.len(), 4);
    for (path, start) in [
        (
            "links.x*.delay",
            "--set:1:7: error: no link has a name that matches `x*`\n",
        ),
        (
            "nodes.x*.tcp.ecn",
            "--set:1:7: error: no node has a name that matches `x*`\n",
        ),
        (
            "nodes.[.tcp.ecn",
            "--set:1:7: error: the pattern `[` has an unclosed class",
        ),
        (
            "links.*.delay.x",
            "--set:1:15: error: `topology.links.*.delay` is a value",
        ),
        (
            "programs.*.run",
            "--set:1:10: error: there is no program called `*`\n",
        ),
        (
            "programs.p.on.*.x",
            "--set:1:15: error: `programs.p.on` is a value",
        ),
    ] {
        let error = with(path, "5 ms").expect_err(path);
        assert!(error.starts_with(start), "{path}: {error}");
    }
    // A value for each of many links takes memory.
    let big = format!("[{}]", "x, ".repeat(1_100_000));
    let error = with("links.all.x", &big).unwrap_err();
    assert!(
        error.contains("this sets more than 4000000 values"),
        "{error}"
    );
}

#[test]
fn wrong_names_are_reported_with_what_there_is() {
    let hint = |set: &str| {
        let error = error(&format!("programs: {{ p: {{ on: {set}, run: x }} }}\n"));
        error.split("hint: ").nth(1).unwrap_or_default().to_owned()
    };
    assert_eq!(
        hint("wep"),
        "did you mean `web`? the 14 hosts are db-1, edge0, edge1, edge2, edge3, edge4, edge5, edge6 and 6 more"
    );
    assert_eq!(
        hint("egde"),
        "did you mean `edge`? the 14 hosts are db-1, edge0, edge1, edge2, edge3, edge4, edge5, edge6 and 6 more"
    );
    assert_eq!(
        hint("tier=eage"),
        "did you mean `tier=edge`? values of `tier` here: data, edge"
    );
    assert_eq!(
        hint("tire=edge"),
        "did you mean `tier=edge`? labels of hosts here: site, tier"
    );
    let none = "topology: { nodes: { a: {} } }\nprograms: { p: { on: x=y, run: x } }\n";
    assert!(
        wrong(none).contains("no hosts have labels: give them some"),
        "{}",
        wrong(none)
    );
    let routers = error("programs: { p: { on: tier=core, run: x } }\n");
    assert!(
        routers.contains("no host has the label `tier=core`, but 3 nodes of other kinds have it"),
        "{routers}"
    );
    let none =
        "topology: { nodes: { r: { kind: router } } }\nprograms: { p: { on: all, run: x } }\n";
    assert!(
        wrong(none).contains("there is no host called `all`"),
        "{}",
        wrong(none)
    );
    assert!(
        wrong(none).contains("there are no hosts"),
        "{}",
        wrong(none)
    );
}

/// Flows of the pattern: each sender with as many others, none twice, none with itself.
#[test]
fn a_random_pattern_draws_others() {
    let text = |more: &str, seed: u64| {
        format!(
            "clock: virtual\nseed: {seed}\nduration: 1 s\ntopology:\n  nodes: {{ h: {{ count: 40 }}, {more} r: {{ kind: router }} }}\n  \
             links: [{{ ends: [all, r] }}]\ntraffic:\n  t: {{ from: h, to: h, pattern: {{ random: 4 }}, bytes: 1 kB }}\n  \
             u: {{ from: all, to: \"h[0-4]\", pattern: {{ random: 4 }}, bytes: 1 kB }}\n"
        )
    };
    let lists = |text: &str| -> Vec<Vec<String>> {
        let plan = Plan::from_text(text, "f.yaml").unwrap_or_else(|e| panic!("{e}"));
        let name = |id| plan.topology.node(id).name.clone();
        let groups = plan.traffic.groups.iter();
        groups
            .map(|group| {
                let Pairs::List(list) = &group.pairs else {
                    panic!()
                };
                list.iter()
                    .map(|(a, b)| format!("{} {}", name(*a), name(*b)))
                    .collect()
            })
            .collect()
    };
    let once = lists(&text("", 1));
    for list in &once {
        assert_eq!(list.len(), 160);
        let mut sorted = list.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 160, "no pair twice");
        for (number, flows) in list.chunks(4).enumerate() {
            for flow in flows {
                let (from, to) = flow.split_once(' ').unwrap();
                assert_eq!(from, format!("h{number}"));
                assert_ne!(from, to);
            }
        }
    }
    // Of five, one of them may only choose all others.
    assert_eq!(once[1][..4], ["h0 h1", "h0 h2", "h0 h3", "h0 h4"]);
    assert_eq!(once, lists(&text("", 1)), "the same seed");
    assert_ne!(once[0], lists(&text("", 2))[0], "another seed");
    // Further senders change nothing about the others, nor do other entries.
    let more = lists(&text("z: {},", 1));
    assert_eq!((&more[0], &more[1][..160]), (&once[0], &once[1][..]));
    // Entries draw on their own.
    let other = lists(&text("", 1).replace("  t:", "  v:"));
    assert_ne!(other[1], once[0]);
}

#[test]
fn a_random_pattern_is_for_all_by_default_and_up_to_all_others() {
    let all = flows("from: [web, db-1, edge3], pattern: { random: 2 }");
    assert_eq!(
        all,
        "web>db-1 web>edge3 db-1>web db-1>edge3 edge3>web edge3>db-1"
    );
    assert_eq!(
        flows("from: web, to: [db-1, web], pattern: { random: 1 }"),
        "web>db-1"
    );
}
