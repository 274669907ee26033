//! What a virtual run tells other processes while it goes on: how it comes along, and how loaded its
//! cores are.
//!
//! Figures of cores and pipes are those since t = 0, since a virtual run may do a second of experiment
//! within a millisecond or within a minute. Asking changes nothing of what is simulated.
//!
//! Left out: changes by callers. When they came would be part of the result, and is not known before.

use std::time::Duration;

use longhaul_core::Time;
use longhaul_core::observe::PipeCounters;
use longhaul_core::topology::PipeId;
use longhaul_emulation::VirtualRun;
use longhaul_plan::plan::Plan;

use super::Simulation;
use crate::control::{PipeLoad, Reply, Request, SimulationNow, Status, Top};
use crate::folder::RunFolder;
use crate::info::HostsNow;
use crate::run::ledger::{self, Expected, Work};
use crate::summary::PipeCounts;

/// The most pipes that an answer tells of.
const PIPES_MAX: usize = 1000;
/// Every virtual run is, by construction.
const VERDICT: &str = "faithful";

impl Simulation<'_> {
    /// Answers whoever has asked, with what the run has done `lately`: experiment time over real time,
    /// and packet-hops per second.
    pub(super) fn serve(&mut self, lately: (f64, f64)) {
        let flows_done = self.flows_done();
        let cpu_times = self.cpu_times();
        let view = View {
            plan: self.plan,
            folder: self.folder,
            run: &self.run,
            expected: self.expected.as_ref(),
            cpu_times: &cpu_times,
            flows_done,
            lately,
        };
        self.machine.serve(&mut |request| view.reply(request));
    }
}

/// The run between two pieces of work.
struct View<'a> {
    plan: &'a Plan,
    folder: &'a RunFolder,
    run: &'a VirtualRun,
    expected: Option<&'a Expected>,
    /// By core.
    cpu_times: &'a [Duration],
    flows_done: u64,
    lately: (f64, f64),
}

impl View<'_> {
    fn reply(&self, request: &Request) -> Reply {
        match request {
            Request::Status {} => Reply::Status(Status {
                run: self.folder.path().to_owned(),
                experiment: self.plan.name.clone(),
                time_s: self.run.now().as_s(),
                verdict: VERDICT.to_owned(),
                hosts: {
                    let hosts = self.plan.hosts.iter();
                    hosts.map(|host| host.name.clone()).collect()
                },
            }),
            Request::Hosts {} => {
                let time_s = self.run.now().as_s();
                Reply::Hosts(HostsNow::new(self.plan, time_s, |_| (None, None)))
            }
            Request::Top { pipes } => Reply::Top(Box::new(self.top((*pipes).min(PIPES_MAX)))),
            Request::Set { .. }
            | Request::Down { .. }
            | Request::Up { .. }
            | Request::Get { .. }
            | Request::Capture(_)
            | Request::EndCapture {}
            | Request::Exec { .. } => Reply::Error(
                "this run is in virtual time: it has no programs; what is to change in it stands in its \
                 file, as `events`, and what is to be captured, as `measure: { capture: … }`"
                    .to_owned(),
            ),
        }
    }

    fn top(&self, pipes: usize) -> Top {
        let had = Duration::from_nanos(self.run.now().as_ns());
        let all_pipes = || (0..self.plan.topology.pipes().len() as u32).map(PipeId);
        let cores = self.run.emulations().zip(self.cpu_times);
        let work: Vec<Work<'_>> = cores
            .map(|(emulation, &cpu)| Work {
                cpu,
                had,
                pipes: all_pipes()
                    .filter(|&id| emulation.engine().owns_pipe(id))
                    .count(),
                counters: emulation.engine().counters(),
            })
            .collect();
        Top {
            experiment: self.plan.name.clone(),
            time_s: had.as_secs_f64(),
            duration_s: self.plan.duration.map(|duration| duration.as_s()),
            verdict: VERDICT.to_owned(),
            reasons: Vec::new(),
            second: None,
            simulation: Some(SimulationNow {
                speed: self.lately.0,
                hops_per_s: self.lately.1,
                flows_done: self.flows_done,
                flows: self.plan.traffic.flows,
                cores: work.iter().map(Work::summary).collect(),
                partition: self
                    .expected
                    .map(|expected| ledger::partition(&work, expected)),
            }),
            pipes: self.busiest(pipes),
        }
    }

    /// The pipes with the most bytes, of those that had any packet.
    fn busiest(&self, most: usize) -> Vec<PipeLoad> {
        let pipes = self.plan.topology.pipes();
        let counters = (0..pipes.len() as u32).map(|id| self.run.pipe_counters(PipeId(id)));
        let mut busy: Vec<_> = counters
            .enumerate()
            .filter(|(_, own)| own.bytes > 0)
            .collect();
        busy.sort_by_key(|(index, own)| (u64::MAX - own.bytes, *index));
        busy.truncate(most);
        let passed = self.run.now().since(Time::ZERO);
        let load = |(index, own): (usize, PipeCounters)| PipeLoad {
            name: pipes[index].name.clone(),
            packets: own.packets,
            bytes: own.bytes,
            utilisation: {
                let rate = pipes[index].params.rate;
                rate.map(|_| passed.per_second(own.busy_ns) / 1e9)
            },
            drops: PipeCounts::from(&own).drops,
        };
        busy.into_iter().map(load).collect()
    }
}
