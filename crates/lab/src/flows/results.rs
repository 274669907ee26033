//! What has become of modelled flows, by their names.

use std::io;

use longhaul_core::Time;
use longhaul_plan::flow_groups::{Carrier, Work};
use longhaul_plan::plan::Plan;
use longhaul_proto::modelled::{self, FlowResult, Outcome, Traffic};

use super::{DatagramSummary, FlowRecord, FlowWriter, Flows, RequestSummary};
use crate::folder::RunFolder;

/// Writes down what has become, by the `end` of a run, of all flows that have started; `shares` are
/// what the cores hold of their ends.
pub(crate) fn write_down(
    plan: &Plan,
    shares: &[&Traffic],
    folder: &RunFolder,
    end: Time,
) -> io::Result<Flows> {
    let mut writer = FlowWriter::create(folder, end)?;
    let flows = plan.traffic.flows(&plan.topology, plan.seed);
    for (flow, result) in flows.zip(modelled::results(shares.iter().copied())) {
        if result.outcome == Outcome::Waiting {
            continue;
        }
        let node = |id| plan.topology.node(id).name.clone();
        let group = &plan.traffic.groups[flow.group];
        let model = match group.work {
            Work::Paced {
                by: Carrier::Udp(_),
                ..
            } => "udp",
            _ => "tcp",
        };
        let name = plan.traffic.name(&flow, &plan.topology);
        writer.add_series(&name, result.series)?;
        let names = [name, node(flow.from), node(flow.to)];
        writer.add(&group.name, names, model, &record(&result))?;
    }
    writer.finish()
}

fn record(result: &FlowResult<'_>) -> FlowRecord {
    let failed = matches!(
        result.outcome,
        Outcome::Reset | Outcome::TimedOut | Outcome::Unreachable
    );
    FlowRecord {
        bytes: result.bytes,
        start: result.start,
        finish: result
            .finish
            .filter(|_| result.outcome == Outcome::Finished),
        retransmissions: result.retransmissions,
        round_trip: result.rtt.map(|rtt| [rtt.least, rtt.mean, rtt.most]),
        failed,
        requests: result.requests.map(|requests| RequestSummary {
            completed: requests.completed,
            min_s: requests.least.map(|span| span.as_s()),
            mean_s: requests.mean().map(|span| span.as_s()),
            max_s: requests.least.map(|_| requests.most.as_s()),
        }),
        datagrams: result.datagrams.as_ref().map(|datagrams| DatagramSummary {
            sent: datagrams.sent,
            received: datagrams.received,
            lost: datagrams.lost(),
            duplicates: datagrams.duplicates,
            reordered: datagrams.reordered,
            delay_min_s: datagrams.least_delay.map(|span| span.as_s()),
            delay_mean_s: datagrams.mean_delay().map(|span| span.as_s()),
            delay_max_s: datagrams.least_delay.map(|_| datagrams.most_delay.as_s()),
            jitter_s: datagrams.jitter / 1e9,
            errors: datagrams.errors,
        }),
    }
}
