//! Flows that were recorded: a CSV file of starts, hosts and bytes.

use std::sync::Arc;

use longhaul_core::units::Rate;
use longhaul_core::{NodeId, Time};

use super::Context;
use crate::file::traffic::{ModelSpec, TrafficSpec};
use crate::file::wrap::At;
use crate::flow_groups::{Pairs, Recorded};
use crate::limits::MAX_FLOWS;
use crate::select::Budget;
use crate::text::error::{Faults, Pos};
use crate::trace_file::{FlowRow, read_flows};

/// The flows of a file.
pub(super) fn ends(
    file: &At<String>,
    spec: &TrafficSpec,
    context: &Context<'_>,
    faults: &mut Faults,
) -> Option<(Pairs, Option<u16>)> {
    let before = faults.count();
    let list = |list: &crate::file::wrap::OneOrMany| list.items.first().map(|item| item.at);
    let said: [(&str, Option<Pos>); 8] = [
        ("from", list(&spec.from)),
        ("to", list(&spec.to)),
        ("pattern", spec.pattern.as_ref().map(|f| f.at)),
        ("flows", spec.flows.as_ref().map(|f| f.at)),
        ("start", spec.start.as_ref().map(super::work::at_of)),
        ("every", spec.every.as_ref().map(super::work::at_of)),
        ("bytes", spec.bytes.as_ref().map(super::work::at_of)),
        ("request", spec.request.as_ref().map(super::work::at_of)),
    ];
    for (field, at) in said {
        if let Some(at) = at {
            let message =
                format!("`{field}` conflicts with `replay`, since the file of flows gives it");
            faults.add(at, message, "remove one of the two");
        }
    }
    let is_udp = spec
        .model
        .as_ref()
        .is_some_and(|m| m.value == ModelSpec::Udp);
    let budget = Budget::default();
    let found = read_flows(&context.folder.join(&file.value), MAX_FLOWS, |row| {
        flow(&row, is_udp, (context, &budget))
    });
    match found {
        Ok(_) if faults.count() > before => None,
        Ok(list) => Some((Pairs::Recorded(Arc::from(list)), None)),
        Err(fault) => {
            crate::plan::pipe::refuse(file, &fault, faults);
            None
        }
    }
}

/// A row with its hosts; else what is wrong with it, and what to write.
fn flow(
    row: &FlowRow<'_>,
    is_udp: bool,
    (context, budget): (&Context<'_>, &Budget),
) -> Result<Recorded, (String, String)> {
    let host = |name: &str| -> Result<NodeId, (String, String)> {
        let host = context.network.host(name, budget);
        host.map_err(|error| (error.problem, error.remedy))
    };
    let (from, to) = (host(row.from)?, host(row.to)?);
    if from == to {
        let message = format!("a flow from `{}` to itself would cross no link", row.from);
        return Err((message, "remove the row, or name another host".to_owned()));
    }
    if row.bytes == 0 {
        let message = "a flow of 0 bytes carries nothing".to_owned();
        return Err((message, "remove the row, or write at least 1".to_owned()));
    }
    if is_udp && row.rate_bps.is_some() {
        let message = "the column of rates applies to TCP only".to_owned();
        return Err((
            message,
            "remove the column, or write `model: tcp`".to_owned(),
        ));
    }
    let rate = match row.rate_bps {
        None => None,
        Some(bps) => Some(Rate::from_bits_per_s(bps).ok_or_else(|| {
            let message = "a rate of zero would never send anything".to_owned();
            (
                message,
                "write at least 1, or leave the cell empty".to_owned(),
            )
        })?),
    };
    Ok(Recorded {
        start: Time::from_ns(row.start_ns),
        from,
        to,
        bytes: row.bytes,
        rate,
    })
}
