//! Labels as `check` shows them, with their members.

use std::collections::BTreeMap;

use longhaul_core::topology::NodeKind;
use longhaul_plan::plan::Plan;
use serde_json::{Value, json};

use crate::style;

/// Labels that are shown; `--json` shows all.
const ROWS: usize = 40;

/// Hosts, routers and lans, and links with a label.
type Counts = [usize; 3];

/// The labels of a plan, by key and value.
fn count(plan: &Plan) -> BTreeMap<(&str, &str), Counts> {
    let mut counts: BTreeMap<(&str, &str), Counts> = BTreeMap::new();
    for (key, value, nodes) in plan.labels.nodes.iter() {
        let is_host = |node| plan.topology.node(node).kind == NodeKind::Host;
        let hosts = nodes.iter().filter(|node| is_host(**node)).count();
        let [of_hosts, of_routers, _] = counts.entry((key, value)).or_default();
        (*of_hosts, *of_routers) = (hosts, nodes.len() - hosts);
    }
    for (key, value, links) in plan.labels.links.iter() {
        counts.entry((key, value)).or_default()[2] = links.len();
    }
    counts
}

/// The section of `check`.
pub(crate) fn section(plan: &Plan) -> String {
    let counts = count(plan);
    let row = |((key, value), counts): (&(&str, &str), &Counts)| {
        let all = counts.iter().zip(["host", "router", "link"]);
        let there = all.filter(|(count, _)| **count > 0);
        let numbers: Vec<String> = there.map(|(n, what)| style::number(*n, what)).collect();
        vec![format!("{key}={value}"), numbers.join(", ")]
    };
    let rows: Vec<Vec<String>> = counts.iter().take(ROWS).map(row).collect();
    let table = style::table(&rows);
    match counts.len().saturating_sub(ROWS) {
        0 => table,
        more => format!("{table}  … and {more} more (all with --json)\n"),
    }
}

/// The same as JSON.
pub(crate) fn as_json(plan: &Plan) -> Vec<Value> {
    let label = |((key, value), [hosts, routers, links]): ((&str, &str), Counts)| {
        json!({
            "label": format!("{key}={value}"),
            "hosts": hosts, "routers": routers, "links": links,
        })
    };
    count(plan).into_iter().map(label).collect()
}
