//! The results of a run, whatever its clock: recorded as it goes, and summed up at the end.

mod core_end;
mod network;
mod series;
#[cfg(test)]
mod tests;

use std::time::Duration;

use longhaul_core::Time;
use longhaul_core::topology::{PipeId, PipeParams};
use longhaul_emulation::Applied;
use longhaul_plan::plan::Plan;
use longhaul_proto::modelled::Traffic;

use super::{RunError, io_error};
use crate::fidelity::{Second, Verdict};
use crate::flows::{self, Flows};
use crate::folder::RunFolder;
use crate::measure::Outcome;
use crate::resources::ResourcesSummary;
use crate::summary::{
    EVENTS_MAX, EventSummary, Machine, Packets, PipeSummary, ProgramSummary, Summary,
};
pub(crate) use core_end::{CoreEnd, Expected, Work, partition};
pub(crate) use network::{Network, Report};
pub(crate) use series::SECONDS;
use series::Series;

/// Pipes are written down second by second where there are at most this many.
pub(super) const PIPES_MAX: usize = 100_000;
/// So many pipes are in `summary.json`; of more, the busiest.
const PIPES_SHOWN: usize = 400_000;
/// The pipes in `summary.json` of an experiment with more.
const BUSIEST: usize = 10_000;

/// What is known of a run under way.
pub(super) struct Ledger<'a> {
    plan: &'a Plan,
    folder: &'a RunFolder,
    series: Series,
    /// The first events that have happened, and how many there were in all.
    events: Vec<EventSummary>,
    events_seen: u64,
    /// What went wrong with the run itself; the first counts.
    error: Option<String>,
    warnings: Vec<String>,
}

/// What is known only at the end.
pub(super) struct End<'a> {
    /// When it was, in experiment time.
    pub(super) time: Time,
    pub(super) machine: Machine,
    pub(super) verdict: Verdict,
    /// What a pipe is like, where it is not as the plan has it.
    pub(super) params: &'a dyn Fn(PipeId) -> Option<&'a PipeParams>,
    /// How long all cores together took, set-up and ends not counted.
    pub(super) loop_time: Duration,
    /// The totals of each core, with its part of all pipes' counters.
    pub(super) cores: Vec<CoreEnd>,
    /// Of several cores, how the network was split.
    pub(super) expected: Option<&'a Expected>,
    /// The modelled hosts of all cores.
    pub(super) traffic: Vec<&'a Traffic>,
    pub(super) programs: Vec<ProgramSummary>,
    pub(super) trace_hash: Option<u64>,
    /// What has been written down as it went on.
    pub(super) measured: Outcome,
    /// What hosts were kept to.
    pub(super) resources: Option<ResourcesSummary>,
}

impl<'a> Ledger<'a> {
    /// Of a run that is about to begin, with what is worth knowing by then.
    pub(super) fn new(
        plan: &'a Plan,
        folder: &'a RunFolder,
        warnings: Vec<String>,
    ) -> Result<Self, RunError> {
        let pipes = plan.topology.pipes();
        let names = pipes.iter().map(|pipe| pipe.name.clone());
        let names = match pipes.len() {
            ..=PIPES_MAX => names.collect(),
            _ => Vec::new(),
        };
        Ok(Self {
            plan,
            folder,
            series: Series::create(folder, names).map_err(io_error("time series"))?,
            events: Vec::new(),
            events_seen: 0,
            error: None,
            warnings,
        })
    }

    /// Something went wrong with the run itself.
    pub(super) fn fail(&mut self, problem: impl Into<String>) {
        self.error.get_or_insert(problem.into());
    }

    /// Whether anything did.
    pub(super) fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Something is worth knowing.
    pub(super) fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }

    /// Changes have been made.
    pub(super) fn note(&mut self, applied: &Applied) {
        for &(at, number) in &applied.begun {
            if self.events.len() < EVENTS_MAX {
                self.events.push(EventSummary {
                    at_s: at.as_s(),
                    event: self.plan.schedule.events[number].text.clone(),
                });
            }
        }
        self.events_seen += applied.begun.len() as u64 + applied.begun_more;
    }

    /// A second is over.
    pub(super) fn second(&mut self, second: &Second, network: &Network) -> Result<(), RunError> {
        let written = self.series.add(second, network);
        written.map_err(io_error("writing time series"))
    }

    /// Sums up, without the figures that only the caller knows.
    pub(super) fn close(mut self, end: End<'_>) -> Summary {
        let plan = self.plan;
        let flows = match end.traffic.as_slice() {
            [] => Ok(Flows::default()),
            shares => flows::write_down(plan, shares, self.folder, end.time),
        };
        let flows = flows.unwrap_or_else(|error| {
            self.fail(format!("writing flows: {error}"));
            Flows::default()
        });
        let Self {
            series,
            mut error,
            mut warnings,
            ..
        } = self;
        warnings.extend(end.measured.warnings);
        if let Err(problem) = series.finish() {
            error.get_or_insert(format!("writing time series: {problem}"));
        }
        let work: Vec<Work<'_>> = end.cores.iter().map(CoreEnd::work).collect();
        let cores = work.iter().map(Work::summary).collect();
        let efficiency = core_end::efficiency(&work);
        let partition = end.expected.map(|expected| partition(&work, expected));
        let network = core_end::whole(end.cores);
        let counters = &network.counters;
        Summary {
            experiment: plan.name.clone(),
            clock: plan.clock.name().to_owned(),
            seed: plan.seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            run: self.folder.path().display().to_string(),
            machine: end.machine,
            verdict: end.verdict,
            packets: Packets::new(counters, network.inside, network.multicast_data),
            trace_hash: end.trace_hash.map(|hash| format!("{hash:016x}")),
            simulated_s: end.time.as_s(),
            wall_s: 0.0,
            cpu_s: 0.0,
            setup_s: 0.0,
            teardown_s: 0.0,
            hops_per_s: match end.loop_time {
                Duration::ZERO => 0.0,
                time => counters.hops as f64 / time.as_secs_f64(),
            },
            error,
            warnings,
            resources: end.resources,
            programs: end.programs,
            flows: flows.list,
            flows_seen: flows.seen,
            flow_groups: flows.groups,
            events: self.events,
            events_seen: self.events_seen,
            pipes: pipe_summaries(plan, &network, end.params, end.time),
            pipes_seen: plan.topology.pipes().len(),
            cores,
            efficiency,
            partition,
            series: end.measured.series,
            captures: end.measured.captures,
            attempts: Vec::new(),
        }
    }
}

/// All pipes, or the busiest of very many.
fn pipe_summaries<'a>(
    plan: &Plan,
    network: &Network,
    params: &dyn Fn(PipeId) -> Option<&'a PipeParams>,
    end: Time,
) -> Vec<PipeSummary> {
    let pipes = plan.topology.pipes().iter().zip((0..).map(PipeId));
    let mut pipes: Vec<PipeSummary> = pipes
        .zip(&network.pipes)
        .map(|((pipe, id), counters)| {
            let params = params(id).unwrap_or(&pipe.params);
            PipeSummary::new(pipe, params, counters, end)
        })
        .collect();
    if pipes.len() > PIPES_SHOWN {
        pipes.sort_by_key(|pipe| std::cmp::Reverse(pipe.counts.bytes));
        pipes.truncate(BUSIEST);
    }
    pipes
}
