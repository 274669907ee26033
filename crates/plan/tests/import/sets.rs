//! Sets of hosts and links in networks that nobody has named: `all`, patterns, and labels that
//! come from the file.

use std::path::Path;

use longhaul_plan::plan::Plan;
use longhaul_plan::topology::import::{self, ImportOptions};
use longhaul_plan::topology::{Kind, Sketch, spell};

use crate::common::{parse, sample};
use crate::published::data;

fn labels(sketch: &Sketch, name: &str) -> String {
    let node = sketch.nodes.iter().find(|node| node.name == name).unwrap();
    let labels = node.labels.iter().flat_map(|labels| labels.iter());
    let labels = labels.map(|(key, value)| format!("{key}={value}"));
    labels.collect::<Vec<_>>().join(" ")
}

#[test]
fn attributes_become_labels_of_nodes_hosts_and_links() {
    let text = r#"graph [
        node [ id 0 label "A" Country "United States" type "Green Node" Internal 1 Longitude 1 Tier "!" ]
        node [ id 1 label "B" asn 3356 role "edge" Notes "none" ]
        node [ id 2 label "C" ]
        edge [ source 0 target 1 LinkType "OC-3" region "é" ]
        edge [ source 1 target 2 LinkLabel "10 Gbps" ]
    ]"#;
    let sketch = parse(text, &[("hosts", "2 per node")]).unwrap_or_else(|e| panic!("{e}"));
    let of_a = "country=United-States internal=1 type=Green-Node";
    assert_eq!(labels(&sketch, "A"), of_a);
    assert_eq!(labels(&sketch, "A-h1"), of_a);
    assert_eq!(labels(&sketch, "B"), "asn=3356 role=edge");
    assert_eq!(labels(&sketch, "C-h0"), "");
    let links: Vec<_> = sketch
        .links
        .iter()
        .map(|link| link.labels.as_deref())
        .collect();
    assert_eq!(links[0].unwrap()["type"], "OC-3");
    assert_eq!(links[0].unwrap()["region"], "e");
    assert!(links[1..].iter().all(Option::is_none), "{links:?}");
}

/// The plan of `topology` with traffic and events that name sets, and what these came to.
fn plan(topology: &str, folder: &Path, more: &str) -> (Plan, Vec<String>) {
    let text = format!("clock: virtual\nduration: 10 s\n{topology}\n{more}");
    let file = folder.join("f.yaml").display().to_string();
    let plan = Plan::from_text(&text, &file).unwrap_or_else(|e| panic!("{e}"));
    let node = |id| plan.topology.node(id).name.as_str();
    let traffic = plan.traffic.groups.iter().map(|group| {
        let pairs = group.pairs.iter();
        let pairs = pairs.map(|(a, b)| format!("{}>{}", node(a), node(b)));
        format!("{}: {}", group.name, pairs.collect::<Vec<_>>().join(" "))
    });
    let events = plan.schedule.events.iter().map(|event| {
        let pipes = event.action.pipes().iter();
        let names: Vec<&str> = pipes.map(|pipe| &*plan.topology.pipe(*pipe).name).collect();
        names.join(" ")
    });
    let said = traffic.chain(events).collect();
    (plan, said)
}

#[test]
fn an_imported_network_has_its_hosts_at_hand() {
    let folder = sample("zoo.gml").parent().unwrap().to_owned();
    let more = "
traffic:
  all: { from: all, pattern: all-to-all, bytes: 1 kB }
  inside: { from: internal=1, to: Zurich-h0, pattern: incast, bytes: 1 kB }
  york: { from: \"New-York*-h0\", to: Zurich-h0, bytes: 1 kB }
events:
  - { at: 1 s, router: internal=0, down: 1 s }
  - { at: 1 s, link: \"type=OC*\", down: 1 s }
";
    let topology = "topology: { import: { file: zoo.gml } }";
    let (plan, said) = self::plan(topology, &folder, more);
    assert_eq!(plan.hosts.len(), 4);
    assert_eq!(said[0].split(' ').count(), 1 + 12);
    let expected = [
        "inside: New-York-h0>Zurich-h0 None-h0>Zurich-h0",
        "york: New-York-2-h0>Zurich-h0 New-York-h0>Zurich-h0",
        "New-York-2-h0>New-York-2 New-York-2>New-York New-York-2>New-York-2-h0 New-York>New-York-2",
        "New-York>Zurich#2 Zurich>New-York#2",
    ];
    assert_eq!(said[1..], expected);
}

/// A network of 394 hosts: what its sets stand for, the same where it is spelled out.
#[test]
fn sets_of_a_published_network_survive_spelling() {
    let Some(data) = data() else { return };
    let folder = data.join("topology-zoo");
    let more = "
traffic:
  mesh: { from: all, pattern: { random: 4 }, bytes: 1 kB }
  first: { from: \"*-h0\", to: \"*-h1\", bytes: 1 kB }
  some: { from: [country=Spain, \"country=It*\"], pattern: permutation, bytes: 1 kB }
events:
  - { at: 1 s, router: country=Spain, down: 1 s }
  - { at: 1 s, link: \"Madrid*-*\", down: 1 s }
";
    let import = "topology: { import: { file: Cogentco.graphml, hosts: 2 per node } }";
    let (plan, said) = self::plan(import, &folder, more);
    assert_eq!(plan.hosts.len(), 394);
    let count = |entry: usize| said[entry].split(' ').count() - 1;
    // In the natural order of their names.
    assert_eq!((count(0), count(1)), (197, 394 * 4));
    assert!(count(2) > 10, "{}", said[2]);
    let hosts = |country: &str| {
        plan.labels
            .nodes
            .iter()
            .find(|label| label.1 == country)
            .unwrap()
            .2
            .len()
    };
    assert_eq!(count(2) * 3 / 2, hosts("Spain") + hosts("Italy"));
    let mut options = ImportOptions::default();
    options.set("hosts", "2 per node").unwrap();
    let sketch = import::read(&folder.join("Cogentco.graphml"), &options).unwrap();
    assert_eq!(
        sketch
            .nodes
            .iter()
            .filter(|node| node.kind == Kind::Host)
            .count(),
        394
    );
    let (spelled, again) = self::plan(&spell::text(&sketch), &folder, more);
    assert_eq!(said, again);
    let all = |plan: &Plan| -> Vec<(String, String, usize)> {
        let labels = plan.labels.nodes.iter();
        labels
            .map(|(k, v, all)| (k.to_owned(), v.to_owned(), all.len()))
            .collect()
    };
    assert_eq!(all(&plan), all(&spelled));
}
