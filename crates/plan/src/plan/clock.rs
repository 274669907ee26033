//! The clock of an experiment: what it allows, how large it may be, and how it comes to its end.
//!
//! A virtual run has modelled traffic alone, and may be much larger than one whose hosts are made
//! of namespaces.

use longhaul_core::Span;

use super::ProgramPlan;
use crate::file::spec::{Clock, Experiment};
use crate::flow_groups::TrafficPlan;
use crate::limits::RunClock;
use crate::text::error::{Faults, Pos, shown};

/// The longest virtual run: far from the end of 64-bit time, which is 584 years.
const LONGEST: Span = Span::from_s(100 * 365 * 86_400);

/// The clock that a file asks for.
pub(super) fn read(spec: &Experiment, faults: &mut Faults) -> RunClock {
    match &spec.clock {
        None => RunClock::Real,
        Some(clock) => match clock.value {
            Clock::Real => RunClock::Real,
            Clock::Virtual => RunClock::Virtual,
            Clock::Dilated(_) => {
                let message = "this version runs the real and the virtual clock, not a dilated one";
                faults.add(clock.at, message, "write `clock: real` or `clock: virtual`");
                RunClock::Real
            }
        },
    }
}

/// Refuses what only another clock allows.
pub(super) fn check(
    spec: &Experiment,
    clock: RunClock,
    duration: Option<Span>,
    faults: &mut Faults,
) {
    if clock == RunClock::Real {
        return;
    }
    if let Some((first, _)) = spec.programs.0.first() {
        let more = match spec.programs.0.len() - 1 {
            0 => String::new(),
            more => format!(" (nor {more} more)"),
        };
        let message = format!(
            "a virtual run cannot run the program `{}`{more}, because programs follow the machine's clock",
            shown(&first.value)
        );
        let hint = "model what it sends in `traffic:`, or write `clock: real`";
        faults.add(first.at, message, hint);
    }
    if let (Some(field), Some(duration)) = (&spec.duration, duration)
        && duration > LONGEST
    {
        let message = format!("a virtual run lasts at most 100 years, and {duration} is longer");
        faults.add(field.at(), message, "write at most `876000 h`");
    }
}

/// Refuses an experiment that cannot end; warns of one that ends only by hand, or at once.
pub(super) fn check_end(
    spec: &Experiment,
    clock: RunClock,
    (traffic, programs): (&TrafficPlan, &[ProgramPlan]),
    duration: Option<Span>,
    warnings: &mut Vec<String>,
    faults: &mut Faults,
) {
    let services = programs.iter().all(|program| program.service);
    let goes_on = traffic.flows > 0 && traffic.bounded == 0 && services;
    if goes_on && duration.is_none() {
        let at = spec.traffic.0.first().map_or(Pos::default(), |(n, _)| n.at);
        let message = "this traffic never ends, and nothing else ends the run";
        let hint = "add `duration: 60 s` to the experiment, or `bytes`, `requests` or `stop` to it";
        faults.add(at, message, hint);
    }
    match (clock, programs.is_empty(), traffic.flows) {
        (RunClock::Virtual, _, 0) => warnings.push(
            "there is no traffic: nothing will happen in this virtual run except its events"
                .to_owned(),
        ),
        (RunClock::Real, true, 0) => warnings.push(
            "there are no programs: the run lasts for its `duration`, or until it is interrupted"
                .to_owned(),
        ),
        (RunClock::Real, false, 0) if services => warnings.push(
            "all programs are services, for which a run does not wait: it ends at once".to_owned(),
        ),
        _ => {}
    }
}
