//! The flow groups of an experiment as `check` shows them.

use longhaul_plan::flow_groups::{Carrier, Each, FlowGroup, Gaps, Work};
use longhaul_plan::plan::Plan;
use serde_json::{Value, json};

use crate::style;

/// Entries that are shown; `--json` shows all.
const ROWS: usize = 40;

/// The section of `check`.
pub(crate) fn section(plan: &Plan) -> String {
    let groups = &plan.traffic.groups;
    let rows: Vec<Vec<String>> = groups.iter().take(ROWS).map(row).collect();
    let table = style::table(&rows);
    match groups.len().saturating_sub(ROWS) {
        0 => table,
        more => format!("{table}  … and {more} more (all with --json)\n"),
    }
}

fn row(group: &FlowGroup) -> Vec<String> {
    let each = match &group.each {
        Each::Together(1) => String::new(),
        Each::Together(count) => format!("{count} flows each"),
        Each::Spaced { count: Some(n), .. } => format!("{n} flows each, at intervals"),
        Each::Spaced { count: None, .. } => "new flows at intervals".to_owned(),
    };
    vec![
        group.name.clone(),
        style::number(group.pairs.len(), "pair"),
        work(&group.work),
        each,
        if group.is_bounded() {
            String::new()
        } else {
            "until the end of the run".to_owned()
        },
    ]
}

fn work(work: &Work) -> String {
    match work {
        Work::Bulk { .. } => "TCP transfer".to_owned(),
        Work::Requests { .. } => "TCP requests and responses".to_owned(),
        Work::Paced { by, rate, gaps, .. } => {
            let rate = style::rate(Some(*rate));
            let by = match by {
                Carrier::Tcp(_) => "TCP".to_owned(),
                Carrier::Udp(packet) => format!("UDP packets of {packet} B"),
            };
            let gaps = match gaps {
                Gaps::Even => "",
                Gaps::Poisson => ", Poisson",
                Gaps::OnOff(..) => ", on-off",
            };
            format!("{by}, payload at {rate}{gaps}")
        }
    }
}

/// The same as JSON.
pub(crate) fn as_json(plan: &Plan) -> Vec<Value> {
    let group = |group: &FlowGroup| {
        json!({
            "name": group.name, "pairs": group.pairs.len(), "work": work(&group.work),
            "bounded": group.is_bounded(), "series": group.series,
        })
    };
    plan.traffic.groups.iter().map(group).collect()
}
