//! The section on modelled flows: each entry of the file, then the first flows.

use super::tables::{Cell, ROWS_MAX, table};
use super::text::{count, of, seconds, si};
use crate::flows::{FlowSummary, GroupSummary};
use crate::summary::Summary;

/// The section; nothing where there are no flows.
pub(super) fn section(summary: &Summary) -> String {
    if summary.flows_seen == 0 {
        return String::new();
    }
    format!(
        "<section>\n<h2>Flows</h2>\n{}{}<p>Completion is the time from a flow's start until all of \
         its payload has arrived. Jain's index is 1 where the goodputs of all flows are equal.</p>\n\
         </section>\n",
        groups(&summary.flow_groups),
        flows(summary),
    )
}

fn groups(groups: &[GroupSummary]) -> String {
    let time = |value: Option<f64>| Cell::number(value.map_or("—".to_owned(), precise));
    let rows = groups.iter().take(ROWS_MAX).map(|group| {
        let at = group.completion_s;
        vec![
            Cell::text(&group.name),
            Cell::number(count(group.flows)),
            Cell::number(count(group.finished)),
            Cell::number(count(group.failed)),
            Cell::number(si(group.bytes as f64, "B")),
            time(at.map(|at| at.mean)),
            time(at.map(|at| at.p50)),
            time(at.map(|at| at.p90)),
            time(at.map(|at| at.p99)),
            time(at.map(|at| at.max)),
            Cell::number(si(group.goodput_bps, "bit/s")),
            Cell::number(
                group
                    .jain
                    .map_or("—".to_owned(), |jain| format!("{jain:.3}")),
            ),
        ]
    });
    let head = [
        "traffic",
        "flows",
        "finished",
        "gave up",
        "payload",
        "completion, mean",
        "p50",
        "p90",
        "p99",
        "max",
        "mean goodput",
        "Jain's index",
    ];
    let note = match groups.len() {
        all if all > ROWS_MAX => format!(
            "<p>{ROWS_MAX} of {} of traffic; the rest is in summary.json.</p>\n",
            of(all as u64, "entry")
        ),
        _ => String::new(),
    };
    note + &table(&head, rows)
}

fn flows(summary: &Summary) -> String {
    let rows = summary.flows.iter().take(ROWS_MAX).map(row);
    let head = [
        "flow",
        "from",
        "to",
        "payload",
        "start",
        "end",
        "completion",
        "goodput",
        "sent again",
        "mean round trip",
        "",
    ];
    let note = match summary.flows_seen {
        all if all > ROWS_MAX as u64 => format!(
            "<p>The first {ROWS_MAX} of {}; all are in <a href=\"flows.csv\">flows.csv</a>.</p>\n",
            of(all, "flow")
        ),
        _ => String::new(),
    };
    format!("<h3>Each flow</h3>\n{note}{}", table(&head, rows))
}

fn row(flow: &FlowSummary) -> Vec<Cell> {
    let round_trip = flow.rtt_ns.map(|rtt| rtt.mean as f64 / 1e9);
    let time = |value: Option<f64>| Cell::number(value.map_or("—".to_owned(), precise));
    let mut remarks = Vec::new();
    if flow.failed {
        remarks.push("gave up".to_owned());
    }
    if let Some(requests) = &flow.requests {
        let mean = requests.mean_s.map_or("—".to_owned(), precise);
        remarks.push(format!(
            "{}, mean {mean}",
            of(requests.completed, "request")
        ));
    }
    if let Some(datagrams) = flow.datagrams.filter(|datagrams| datagrams.lost > 0) {
        remarks.push(format!("{} lost", of(datagrams.lost, "datagram")));
    }
    vec![
        Cell::text(&flow.name),
        Cell::text(&flow.from),
        Cell::text(&flow.to),
        Cell::number(si(flow.bytes as f64, "B")),
        Cell::number(seconds(flow.start_s)),
        Cell::number(flow.finish_s.map_or("—".to_owned(), seconds)),
        time(flow.completion_s),
        Cell::number(si(flow.goodput_bps, "bit/s")),
        Cell::number(count(flow.retransmissions)),
        time(round_trip),
        Cell::text(remarks.join("; ")),
    ]
}

/// A time of any length.
fn precise(s: f64) -> String {
    super::text::nanoseconds((s * 1e9) as u64)
}
