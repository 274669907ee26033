//! Events: what the file says will happen, checked and lowered to a [`Schedule`].
//!
//! What an event does must be possible on every link that it names, and one turn of an event that
//! repeats must be over before the next one begins.

use std::collections::HashSet;
use std::sync::Arc;

use longhaul_core::topology::PipeId;
use longhaul_core::units::Framing;
use longhaul_core::{Span, Time, Topology};

use super::network::Network;
use super::pipe::{self, Context};
use crate::described;
use crate::fields::{FIELDS, Field};
use crate::file::link::{ChangeSpec, EventSpec};
use crate::file::spec::Experiment;
use crate::file::wrap::{At, OneOrMany, Quantity};
use crate::patch::Patch;
use crate::schedule::{Action, Event, Ramp, Schedule};
use crate::select::Budget;
use crate::text::error::{Faults, Pos};

/// The shortest period: each turn takes the drive loop's time.
const PERIOD_MIN: Span = Span::from_us(100);
/// How often a ramp changes the value where the file does not say.
const STEP: Span = Span::from_ms(10);
/// From a failure until routes follow it where the file does not say.
const CONVERGENCE: Span = Span::from_s(1);

/// The most pipes that all events together name: each takes memory for every event.
const TARGETS_MAX: usize = 4_000_000;

/// An event with the places that later checks point at.
struct Draft {
    event: Event,
    /// The position of its action.
    at: Pos,
}

/// Lowers the events of a file.
pub(crate) fn lower(
    spec: &Experiment,
    network: &Network<'_>,
    context: &Context<'_>,
    duration: Option<Span>,
    warnings: &mut Vec<String>,
    faults: &mut Faults,
) -> Schedule {
    let mut drafts: Vec<Draft> = Vec::new();
    let mut targets = 0;
    let budget = Budget::default();
    for event in &spec.events {
        let Some(At { at, value }) = &event.0 else {
            continue;
        };
        let Some(draft) = draft(*at, value, (network, &budget), context, faults) else {
            continue;
        };
        if let Some(duration) = duration
            && draft.event.at.since(Time::ZERO) >= duration
        {
            warnings.push(format!(
                "the event at {} never happens: the run ends at {duration} at the latest",
                draft.event.at.since(Time::ZERO)
            ));
        }
        targets += draft.event.action.pipes().len();
        drafts.push(draft);
        if targets > TARGETS_MAX {
            let message = format!("events that change more than {TARGETS_MAX} pipes in all");
            let hint = "name fewer links, or write one event with `every`";
            faults.add(*at, message, hint);
            break;
        }
    }
    check_ramps(&drafts, network.topology, faults);
    check_bursts(&drafts, network.topology, faults);
    let convergence = spec.routing.as_ref().and_then(|r| r.convergence.as_ref());
    Schedule {
        events: drafts.into_iter().map(|draft| draft.event).collect(),
        convergence: convergence
            .and_then(|convergence| convergence.get(faults))
            .unwrap_or(CONVERGENCE),
    }
}

/// One event; `None` where it has a problem.
fn draft(
    at: Pos,
    spec: &EventSpec,
    (network, budget): (&Network<'_>, &Budget),
    context: &Context<'_>,
    faults: &mut Faults,
) -> Option<Draft> {
    let pipes = targets(at, spec, (network, budget), faults);
    let start = spec.at.get(faults);
    let (place, name, lasts) = only_action(at, spec, faults)?;
    check_companions(spec, name, faults);
    if !spec.router.items.is_empty() && matches!(name, "set" | "ramp") {
        let message = format!("`{name}` applies to links only");
        faults.add(place, message, "name its links with `link: [x-y, …]`");
        return None;
    }
    let to = pipes.clone().unwrap_or_default();
    let first = to.first().map(|pipe| &network.topology.pipe(*pipe).params);
    let framing = first.map_or(Framing::default(), |params| params.framing);
    let change = |spec: Option<&At<ChangeSpec>>, faults: &mut Faults| {
        spec.and_then(|spec| change(spec, framing, context, faults))
    };
    let action = match name {
        "set" => change(spec.set.as_ref(), faults).map(|patch| Action::Set {
            pipes: to,
            patch: Arc::new(patch),
        }),
        "ramp" => {
            let target = change(spec.ramp.as_ref(), faults);
            ramp(spec, place, target, faults).map(|ramp| Action::Ramp { pipes: to, ramp })
        }
        "down" => lasts.map(|lasts| Action::Down {
            pipes: to,
            lasts,
            keep_queue: spec.keep_queue.as_ref().is_some_and(|keep| keep.value),
        }),
        _ => Some(Action::Up { pipes: to }),
    };
    let (every, times) = repetition(spec, faults)?;
    let (_, start, action) = (pipes?, start?, action?);
    check_length(spec, &action, every.filter(|_| times != Some(1)), faults)?;
    let names = spec.link.items.iter().chain(&spec.router.items);
    let names: Vec<&str> = names.map(|name| name.value.as_str()).collect();
    Some(Draft {
        event: Event {
            at: Time::ZERO + start,
            every,
            times,
            text: format!("{}: {}", names.join(", "), describe(&action)),
            action,
        },
        at: place,
    })
}

/// The action in words.
fn describe(action: &Action) -> String {
    match action {
        Action::Set { patch, .. } => described::patch(patch),
        Action::Ramp { ramp, .. } => format!("{} over {}", described::patch(&ramp.to), ramp.over),
        Action::Down {
            lasts: Some(lasts), ..
        } => format!("down for {lasts}"),
        Action::Down { .. } => "down".to_owned(),
        Action::Up { .. } => "up".to_owned(),
    }
}

/// The one thing that the event does: its place, its name, and of a failure its length.
fn only_action(
    at: Pos,
    spec: &EventSpec,
    faults: &mut Faults,
) -> Option<(Pos, &'static str, Option<Option<Span>>)> {
    const HINT: &str = "write one of `set`, `ramp`, `down` and `up`, and an event for each";
    let given: Vec<(Pos, &'static str)> = [
        spec.set.as_ref().map(|set| (set.at, "set")),
        spec.ramp.as_ref().map(|ramp| (ramp.at, "ramp")),
        spec.down.as_ref().map(|down| (down.at(), "down")),
        spec.up.as_ref().map(|up| (up.at, "up")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let (place, name) = match given.as_slice() {
        [one] => *one,
        [] => {
            faults.add(at, "this event does nothing", HINT);
            return None;
        }
        [first, second, ..] => {
            let message = format!("`{}` and `{}` in one event", first.1, second.1);
            faults.add(second.0, message, HINT);
            return None;
        }
    };
    if let Some(up) = spec.up.as_ref().filter(|up| !up.value) {
        faults.add(up.at, "`up: false` has no meaning", "write `down: true`");
        return None;
    }
    match &spec.down {
        None => Some((place, name, None)),
        Some(down) => down.get(faults).map(|outage| (place, name, Some(outage.0))),
    }
}

/// Fields that go with one action only.
fn check_companions(spec: &EventSpec, name: &str, faults: &mut Faults) {
    let fields = [
        ("over", "ramp", spec.over.as_ref().map(Quantity::at)),
        ("step", "ramp", spec.step.as_ref().map(Quantity::at)),
        ("keep_queue", "down", spec.keep_queue.as_ref().map(|k| k.at)),
    ];
    for (field, action, at) in fields {
        if let Some(at) = at.filter(|_| name != action) {
            let message = format!("`{field}` applies to `{action}` only");
            faults.add(at, message, format!("remove it, or write `{action}`"));
        }
    }
}

/// How often it happens; `None` where that is wrong.
fn repetition(spec: &EventSpec, faults: &mut Faults) -> Option<(Option<Span>, Option<u64>)> {
    let every = match &spec.every {
        None => None,
        Some(every) => Some(at_least_the_period(every, "every", "10 s", faults)?),
    };
    match &spec.times {
        Some(times) if every.is_none() => {
            let message = "`times` without `every`";
            faults.add(times.at, message, "add the period: `every: 10 s`");
            None
        }
        Some(times) if times.value == 0 => {
            let message = "an event that happens 0 times";
            faults.add(
                times.at,
                message,
                "write a number from 1, or remove the event",
            );
            None
        }
        times => Some((every, times.as_ref().map(|times| times.value))),
    }
}

fn at_least_the_period(
    span: &Quantity<Span>,
    name: &str,
    example: &str,
    faults: &mut Faults,
) -> Option<Span> {
    let value = span.get(faults)?;
    if value < PERIOD_MIN {
        let message = format!("`{name}` is {value}, below the minimum of {PERIOD_MIN}");
        faults.add(
            span.at(),
            message,
            format!("write it like `{name}: {example}`"),
        );
        return None;
    }
    Some(value)
}

/// One turn of an event must be over when the next one begins.
fn check_length(
    spec: &EventSpec,
    action: &Action,
    every: Option<Span>,
    faults: &mut Faults,
) -> Option<()> {
    let Some(every) = every else { return Some(()) };
    let (length, fits) = match action {
        Action::Down {
            lasts: Some(lasts), ..
        } => (*lasts, *lasts < every),
        Action::Ramp { ramp, .. } => (ramp.over, ramp.over <= every),
        _ => return Some(()),
    };
    if fits {
        return Some(());
    }
    let at = spec.every.as_ref().map(Quantity::at).unwrap_or_default();
    let message = format!("it lasts {length} but is repeated every {every}");
    faults.add(at, message, format!("write more than {length} for `every`"));
    None
}

/// The patch for pipes of such a framing; an empty one is a problem.
pub(crate) fn change(
    spec: &At<ChangeSpec>,
    framing: Framing,
    context: &Context<'_>,
    faults: &mut Faults,
) -> Option<Patch> {
    let wishes = spec.value.wishes();
    if wishes.is_empty() {
        faults.add(
            spec.at,
            "nothing changes",
            "write it like `{ delay: 50 ms }`",
        );
        return None;
    }
    let patch = pipe::patch(&wishes, framing, context, faults);
    (!patch.is_empty()).then_some(patch)
}

fn ramp(spec: &EventSpec, place: Pos, to: Option<Patch>, faults: &mut Faults) -> Option<Ramp> {
    let over = match &spec.over {
        Some(over) => pipe::positive(over, "over", faults),
        None => {
            let message = "a ramp without `over`";
            faults.add(place, message, "add how long it takes: `over: 5 s`");
            None
        }
    };
    let step = match &spec.step {
        Some(step) => at_least_the_period(step, "step", "10 ms", faults),
        None => Some(STEP),
    };
    let to = to?;
    if let Some(what) = FIELDS.iter().find_map(|field| (field.refuses)(&to)) {
        let message = format!("a ramp cannot lead to `{what}`");
        let takes: Vec<&str> = FIELDS.iter().filter_map(|field| field.ramp).collect();
        let (last, others) = takes.split_last().expect("fields that ramps change");
        let takes = others.join(", ");
        let hint = format!("a ramp takes {takes} and {last}; use `set` for other fields");
        faults.add(place, message, hint);
        return None;
    }
    Some(Ramp {
        to: Arc::new(to),
        over: over?,
        step: step?,
    })
}

/// The pipes that an event is about.
fn targets(
    at: Pos,
    spec: &EventSpec,
    (network, budget): (&Network<'_>, &Budget),
    faults: &mut Faults,
) -> Option<Vec<PipeId>> {
    let by_link = !spec.link.items.is_empty();
    let names: &OneOrMany = match (by_link, spec.router.items.is_empty()) {
        (true, true) => &spec.link,
        (false, false) => &spec.router,
        (both, _) => {
            let message = if both {
                "this event names a link and a router"
            } else {
                "this event names neither a link nor a router"
            };
            faults.add(at, message, "write one of `link: x-y` and `router: x`");
            return None;
        }
    };
    let (mut pipes, mut seen, mut whole) = (Vec::new(), HashSet::new(), true);
    for name in &names.items {
        let find = if by_link {
            Network::pipes
        } else {
            Network::pipes_of_routers
        };
        match find(network, &name.value, budget, faults.is_full()) {
            Ok(found) => pipes.extend(found.into_iter().filter(|pipe| seen.insert(*pipe))),
            Err(error) => {
                budget.refuse(name.at, error, faults);
                whole = false;
            }
        }
    }
    pipes.sort_unstable();
    whole.then_some(pipes)
}

/// A ramp needs a value to begin with, from the file or from an event.
fn check_ramps(drafts: &[Draft], topology: &Topology, faults: &mut Faults) {
    let ramps = || {
        drafts.iter().filter_map(|draft| match &draft.event.action {
            Action::Ramp { pipes, ramp } => Some((draft.at, pipes, &ramp.to)),
            _ => None,
        })
    };
    // Of each field that ramps change, the pipes that events give a value.
    let ramped = |field: &&Field| ramps().any(|(.., to)| (field.changes)(to));
    let fields = FIELDS.iter().filter(ramped);
    let mut fields: Vec<(&Field, HashSet<PipeId>)> =
        fields.map(|field| (field, HashSet::new())).collect();
    for draft in drafts {
        if let Action::Set { pipes, patch } = &draft.event.action {
            let given = fields
                .iter_mut()
                .filter(|(field, _)| (field.changes)(patch));
            given.for_each(|(_, known)| known.extend(pipes));
        }
    }
    for (at, pipes, to) in ramps() {
        let missing = |pipe: PipeId| {
            let params = &topology.pipe(pipe).params;
            let changed = fields
                .iter()
                .filter(|(field, known)| (field.changes)(to) && !known.contains(&pipe));
            let mut lacks = changed.filter_map(|(field, _)| (field.lacks)(params));
            lacks.next()
        };
        let mut first = pipes.iter().map(|pipe| (*pipe, missing(*pipe)));
        if let Some((pipe, Some(what))) = first.find(|(_, what)| what.is_some()) {
            let name = &topology.pipe(pipe).name;
            let message = format!("`{name}` has no {what} from which a ramp could start");
            let hint = "give the link one, or use `set`";
            faults.add(at, message, hint);
        }
    }
}

/// A token bucket needs a rate that fills it, from the file or from an event.
fn check_bursts(drafts: &[Draft], topology: &Topology, faults: &mut Faults) {
    let paces =
        |patch: &Patch| matches!(patch.rate, Some(Some(_))) || matches!(patch.trace, Some(Some(_)));
    let mut paced: HashSet<PipeId> = HashSet::new();
    for draft in drafts {
        match &draft.event.action {
            Action::Set { pipes, patch } if paces(patch) => paced.extend(pipes),
            _ => {}
        }
    }
    for draft in drafts {
        let Action::Set { pipes, patch } = &draft.event.action else {
            continue;
        };
        if !matches!(patch.burst, Some(Some(_))) {
            continue;
        }
        let changed = pipes
            .iter()
            .filter(|pipe| !paced.contains(pipe))
            .map(|pipe| patch.apply(&topology.pipe(*pipe).params));
        if let Some(error) = changed.filter_map(|params| params.validate().err()).next() {
            faults.add(draft.at, error.problem, error.remedy);
        }
    }
}
