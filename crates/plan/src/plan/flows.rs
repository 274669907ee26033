//! Modelled traffic: from the entries of the file to groups of flows.
//!
//! Each file below knows one part: [`draw`] what may be random, [`ends`] and [`random`] who sends to
//! whom, [`work`] what flows do, [`tcp`] the settings of their endpoints, [`replay`] flows that were
//! recorded. Here they are put together, and it is decided whether the run can end.

mod draw;
mod ends;
mod random;
mod replay;
mod tcp;
mod work;

use longhaul_core::{Span, Time, Topology};

use super::HostPlan;
use super::network::Network;
use super::nodes::Nodes;
use crate::file::traffic::TrafficSpec;
use crate::file::wrap::{At, Checked, Named};
use crate::flow_groups::{Draw, Each, FlowGroup, Pairs, TrafficPlan, at};
use crate::limits::Limits;
use crate::names::{NAME_HINT, check_name, natural};
use crate::text::error::{Faults, Pos, shown};

/// The most flows whose state is recorded over time.
const MAX_SERIES: u64 = 1000;

/// What traffic is lowered with.
pub(crate) struct Context<'a> {
    pub(crate) limits: Limits,
    pub(crate) network: Network<'a>,
    pub(crate) topology: &'a Topology,
    pub(crate) nodes: &'a Nodes,
    pub(crate) hosts: &'a [HostPlan],
    /// Where files lie.
    pub(crate) folder: &'a std::path::Path,
    /// What random draws follow from.
    pub(crate) seed: u64,
    /// The bound of the run.
    pub(crate) duration: Option<Span>,
    /// The largest packet that crosses every link.
    pub(crate) mtu: u32,
}

/// Lowers the traffic of a file.
pub(crate) fn lower(
    spec: &Named<Checked<At<TrafficSpec>>>,
    context: &Context<'_>,
    warnings: &mut Vec<String>,
    faults: &mut Faults,
) -> TrafficPlan {
    let mut entries: Vec<_> = spec
        .0
        .iter()
        .filter_map(|(name, entry)| Some((name, entry.0.as_ref()?)))
        .collect();
    entries.sort_by(|(a, _), (b, _)| natural(&a.value, &b.value));
    let mut plan = TrafficPlan::default();
    let mut series = 0;
    for (name, entry) in entries {
        let Some(group) = group(name, entry, context, faults) else {
            continue;
        };
        let room = context.limits.flows - plan.flows;
        let flows = count(&group, plan.groups.len(), context, room + 1);
        if flows > room {
            too_many(name.at, context, faults);
            break;
        }
        if flows == 0 {
            warnings.push(format!("the traffic `{}` has no flows", name.value));
        }
        series += if group.series { flows } else { 0 };
        if series > MAX_SERIES {
            let message = format!("series of more than {MAX_SERIES} flows");
            let hint = "write `series: true` only for traffic of few flows";
            faults.add(name.at, message, hint);
            break;
        }
        never_starts(&group, context, warnings);
        plan.flows += flows;
        plan.bounded += if group.is_bounded() { flows } else { 0 };
        plan.groups.push(group);
    }
    plan
}

/// Refuses more flows than there may be.
fn too_many(at: Pos, context: &Context<'_>, faults: &mut Faults) {
    let most = context.limits.flows;
    let message = format!("the experiment has more than {most} modelled flows");
    faults.add(at, message, context.limits.hint(most, "flows"));
}

/// One entry; `None` where it has a problem.
fn group(
    name: &At<String>,
    entry: &At<TrafficSpec>,
    context: &Context<'_>,
    faults: &mut Faults,
) -> Option<FlowGroup> {
    let before = faults.count();
    let At {
        at: place,
        value: spec,
    } = entry;
    if let Err(problem) = check_name(&name.value) {
        let message = format!(
            "`{}` cannot be the name of traffic: {problem}",
            shown(&name.value)
        );
        faults.add(name.at, message, NAME_HINT);
    }
    let ipv6 = ip_version(spec, faults);
    let stop = stop(spec, faults);
    let start = match &spec.start {
        Some(start) => draw::varying(start, faults),
        None => Some(Draw::Constant(0)),
    };
    if let (Some(Draw::Constant(start)), Some(stop)) = (&start, stop)
        && Time::from_ns(*start) >= stop
    {
        let at = spec.stop.as_ref().map_or(*place, |stop| stop.at());
        let message = "it stops before it starts";
        faults.add(
            at,
            message,
            "write a `stop` after its `start`: both count from t = 0",
        );
    }
    let ends = match &spec.replay {
        Some(file) => replay::ends(file, spec, context, faults),
        None => ends::read(name, *place, spec, context, faults),
    };
    let each = each(*place, spec, stop, context, faults);
    let work = work::read(*place, spec, ipv6, context, faults);
    let (pairs, port) = ends?;
    let (each, work, start) = (each?, work?, start?);
    if faults.count() > before {
        return None;
    }
    Some(FlowGroup {
        name: name.value.clone(),
        pairs,
        each,
        start,
        stop,
        ipv6,
        port,
        work,
        series: spec.series,
    })
}

fn ip_version(spec: &TrafficSpec, faults: &mut Faults) -> bool {
    match &spec.ip {
        Some(At { value: 4, .. }) | None => false,
        Some(At { value: 6, .. }) => true,
        Some(At { at, value }) => {
            let message = format!("`ip: {value}` is not supported");
            faults.add(*at, message, "write `ip: 4` or `ip: 6`");
            false
        }
    }
}

fn stop(spec: &TrafficSpec, faults: &mut Faults) -> Option<Time> {
    let stop = super::positive(
        spec.stop.as_ref(),
        "a `stop` of 0 s leaves traffic no time",
        faults,
    )?;
    Some(at(stop))
}

/// The flows of each pair.
fn each(
    place: Pos,
    spec: &TrafficSpec,
    stop: Option<Time>,
    context: &Context<'_>,
    faults: &mut Faults,
) -> Option<Each> {
    if let Some(At { at, value: 0 }) = &spec.flows {
        faults.add(*at, "0 flows for each pair", "write at least `flows: 1`");
        return None;
    }
    let count = spec.flows.as_ref().map(|flows| flows.value);
    let Some(every) = &spec.every else {
        return Some(Each::Together(count.unwrap_or(1)));
    };
    let gap = draw::positive(every, "every", faults)?;
    let end = stop.into_iter().chain(context.duration.map(at)).min();
    if end.is_none() && count.is_none() {
        let message = "`every` needs a bound: nothing limits the number of flows";
        let hint = "write `flows: 100`, a `stop`, or a `duration` of the experiment";
        faults.add(place, message, hint);
        return None;
    }
    Some(Each::Spaced {
        gap,
        count,
        end: end.unwrap_or(Time::from_ns(u64::MAX)),
    })
}

/// How many flows a group has, at most `most`.
fn count(group: &FlowGroup, number: usize, context: &Context<'_>, most: u64) -> u64 {
    let pairs = || pairs_up_to(&group.pairs, most);
    match &group.each {
        _ if matches!(group.pairs, Pairs::Recorded(_)) => pairs(),
        Each::Together(count) => pairs().saturating_mul(*count).min(most),
        Each::Spaced { .. } => {
            let flows = group.flows(number, context.topology, context.seed);
            flows.take(most as usize).count() as u64
        }
    }
}

/// How many pairs there are, at most `most`, without going through more of them than that.
fn pairs_up_to(pairs: &Pairs, most: u64) -> u64 {
    pairs.iter().take(most as usize).count() as u64
}

/// Warns of traffic that begins when the run is over.
fn never_starts(group: &FlowGroup, context: &Context<'_>, warnings: &mut Vec<String>) {
    if let (Draw::Constant(start), Some(duration)) = (&group.start, context.duration)
        && *start >= duration.as_ns()
    {
        warnings.push(format!(
            "the traffic `{}` never starts: the run ends at {duration} at the latest",
            group.name
        ));
    }
}
