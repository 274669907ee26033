//! Answers other processes while a virtual run is under way: its progress, and the load of its cores.
//!
//! Figures of cores and pipes cover the time since t = 0, because a virtual run may take a
//! millisecond or a minute for a second of experiment time. A query changes nothing in the
//! simulation.
//!
//! Left out: changes by callers. Their timing would be part of the result, and could not be
//! reproduced.

use std::time::Duration;

use longhaul_core::Time;
use longhaul_core::observe::PipeCounters;
use longhaul_core::topology::PipeId;
use longhaul_emulation::VirtualRun;
use longhaul_plan::plan::Plan;

use super::Simulation;
use crate::control::{Order, PipeLoad, Reply, Request, SimulationNow, Status, Top};
use crate::folder::RunFolder;
use crate::info::HostsNow;
use crate::run::busiest::{self, busiest};
use crate::run::ledger::{self, Expected, Work};
use crate::summary::PipeCounts;

/// The most pipes whose backlog is measured for an answer.
const BACKLOGS_MAX: usize = 1000;
/// Every virtual run has this verdict, by construction.
const VERDICT: &str = "faithful";

impl Simulation<'_> {
    /// Answers requests, with the run's speed `lately`: experiment time over real time, and packet-hops
    /// per second.
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
            &Request::Top { limit, by } => Reply::Top(Box::new(self.top(by, limit))),
            Request::Hosts {} => {
                let time_s = self.run.now().as_s();
                Reply::Hosts(HostsNow::new(self.plan, time_s, |_| (None, None)))
            }
            Request::Set { .. }
            | Request::Down { .. }
            | Request::Up { .. }
            | Request::Get { .. }
            | Request::Capture(_)
            | Request::EndCapture {}
            | Request::Exec { .. } => Reply::Error(
                "not possible in virtual time: such a run has no programs, changes are `events` of its \
                 file, and captures are `measure: { capture: … }`"
                    .to_owned(),
            ),
        }
    }

    fn top(&self, by: Order, limit: usize) -> Top {
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
            pipes: self.busiest(by, limit),
        }
    }

    /// The busiest pipes since t = 0, of those that had any packet.
    fn busiest(&self, by: Order, limit: usize) -> Vec<PipeLoad> {
        let passed = self.run.now().since(Time::ZERO);
        let pipes = (0..self.plan.topology.pipes().len() as u32).map(PipeId);
        let counters = pipes.map(|pipe| (pipe, self.run.pipe_counters(pipe)));
        let drops = |own: &PipeCounters| PipeCounts::from(own).drops;
        let busy = counters.filter(|(_, own)| own.bytes > 0 || drops(own) > 0);
        let work = busy.map(|(pipe, own)| busiest::Work {
            pipe,
            packets: own.packets,
            bytes: own.bytes,
            drops: drops(&own),
            busy: passed.per_second(own.busy_ns) / 1e9,
            rate_bps: {
                let rate = self.run.params(pipe).rate;
                rate.map(|rate| rate.bits_per_s())
            },
        });
        // Only the engine that owns a pipe has anything in it.
        let backlog = |pipe: &PipeId| {
            let engines = self.run.emulations().map(|emulation| emulation.engine());
            engines.map(|engine| engine.waiting(*pipe).1).sum()
        };
        let backlogs = |pipes: Vec<PipeId>| Some(pipes.iter().map(backlog).collect());
        busiest(
            self.plan,
            work.collect(),
            (by, limit),
            BACKLOGS_MAX,
            backlogs,
        )
    }
}
