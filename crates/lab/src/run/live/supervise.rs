//! The supervisor: everything of a run but its packets.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, TryRecvError};
use std::thread::JoinHandle;
use std::time::Duration;

use longhaul_core::Time;
use longhaul_core::topology::PipeId;
use longhaul_emulation::Known;
use longhaul_linux::channel::Listener;
use longhaul_linux::clock::MachineTime;
use longhaul_linux::cpu;
use longhaul_linux::sandbox::{Event, HostCounters, Sandbox, is_private};
use longhaul_linux::wait::take_signal;
use longhaul_linux::wait_readable;

use super::bottleneck;
use super::callers::Caller;
use super::drive_thread::Core;
use super::govern::backpressure;
use super::{Observer, Progress, RunError, RunOptions, io_error};
use crate::control::Reply;
use crate::fidelity::{Judge, STARVED, Spurious};
use crate::folder::RunFolder;
use crate::measure::Recorder;
use crate::run::ledger::{CoreEnd, End, Ledger, Report};
use crate::run::live::backpressure::Backpressure;
use crate::run::live::drive::Totals;
use crate::run::live::host_samples::HostSampler;
use crate::run::live::hosts_now::Used;
use crate::run::live::programs::{GRACE, Programs, run_environment};
use crate::run::live::resources::ResourceMonitor;
use crate::run::live::steering::Steering;
use crate::summary::{Machine, ProgramSummary, Summary, seconds};
use longhaul_plan::plan::Plan;

/// The longest that the supervisor waits between two rounds.
pub(super) const TICK: Duration = Duration::from_millis(20);
/// How often progress is reported to the observer.
const PROGRESS: Duration = Duration::from_millis(200);
/// How long programs that callers have started may take to end, after the experiment's programs'
/// grace.
const CALLERS_GRACE: Duration = Duration::from_secs(2);
const SIGTERM: i32 = 15;
/// The code of a program that SIGKILL has ended, or of a shell whose last command was.
const KILLED: i32 = 128 + 9;
/// The most packets that a frame for a host holds where there is offload.
const SEGMENTS_MAX: u64 = longhaul_core::segment::MAX_SEGMENTS as u64;

/// The phase of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    Stopping { since: MachineTime },
}

pub(super) struct Supervisor<'a> {
    pub(super) plan: &'a Plan,
    pub(super) folder: &'a RunFolder,
    pub(super) core: Core,
    pub(super) sandbox: Sandbox,
    pub(super) signals: OwnedFd,
    pub(super) listener: Listener,
    pub(super) callers: Vec<Caller>,
    pub(super) programs: Programs,
    pub(super) ledger: Ledger<'a>,
    pub(super) judge: Judge,
    /// The TCP counters of hosts' kernels at the end.
    pub(super) tcp: Spurious,
    /// The most packets that a frame of each host has held so far.
    pub(super) segments: Vec<u64>,
    /// Packets from and to each host by the last second.
    pub(super) packets_seen: Vec<u64>,
    pub(super) env: Vec<(String, String)>,
    pub(super) host_counters: Vec<HostCounters>,
    /// What hosts have used by the last second, and when that was.
    pub(super) used: Used,
    used_at: MachineTime,
    /// CPU time that the hypervisor had taken by the last second.
    pub(super) stolen_seen_ns: u64,
    /// The host that a pipe leaves, of the pipes that leave hosts.
    pub(super) host_of_nic: HashMap<PipeId, usize>,
    /// Whether hosts may hand over super-packets.
    pub(super) offload: bool,
    pub(super) backpressure: Backpressure,
    /// When the core's load was sampled last, and its counters then.
    pub(super) governed: (MachineTime, Duration, [u64; 2]),
    /// None where the kernel does not allow it.
    pub(super) steering: Option<Steering>,
    /// The network, as far as the loop has reported changes.
    pub(super) known: Known,
    pub(super) latest: Option<Report>,
    /// The report before the latest.
    pub(super) before: Option<Report>,
    pub(super) phase: Phase,
    pub(super) experiment_dir: PathBuf,
    pub(super) recorder: Recorder,
    pub(super) host_sampler: HostSampler,
    pub(super) resources: ResourceMonitor<'a>,
}

/// What the supervisor works with beside the core.
pub(super) struct SupervisorParts<'a> {
    pub(super) sandbox: Sandbox,
    pub(super) signals: OwnedFd,
    pub(super) recorder: Recorder,
    pub(super) judge: Judge,
    pub(super) resources: ResourceMonitor<'a>,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        options: &RunOptions,
        folder: &'a RunFolder,
        core: Core,
        parts: SupervisorParts<'a>,
    ) -> Result<Self, RunError> {
        let SupervisorParts {
            sandbox,
            signals,
            recorder,
            judge,
            resources,
        } = parts;
        let programs = Programs::new(plan, folder, &options.experiment_dir);
        let nics = plan
            .hosts
            .iter()
            .zip(0..)
            .flat_map(|(host, number)| host.nic.iter().map(move |&pipe| (pipe, number)));
        let offload = super::hosts::offloads(plan);
        let began = core.pace.begin().at;
        let listener = Listener::bind(&folder.control_socket());
        let host_sampler = HostSampler::new(plan, core.pace);
        let warnings = warnings(plan, &options.experiment_dir).into_iter();
        let warnings = warnings.chain(resources.notes().iter().cloned()).collect();
        Ok(Self {
            plan,
            folder,
            core,
            sandbox,
            signals,
            listener: listener.map_err(io_error("making the control socket"))?,
            callers: Vec::new(),
            programs: programs.map_err(io_error("preparing programs"))?,
            ledger: Ledger::new(plan, folder, warnings)?,
            judge,
            tcp: Spurious::default(),
            segments: vec![1; plan.hosts.len()],
            packets_seen: vec![0; plan.hosts.len()],
            env: run_environment(plan, folder, &options.experiment_dir),
            host_counters: vec![HostCounters::default(); plan.hosts.len()],
            used: Used::default(),
            used_at: began,
            stolen_seen_ns: cpu::stolen_ns(),
            host_of_nic: nics.collect(),
            backpressure: backpressure(plan, offload),
            offload,
            governed: (began, Duration::ZERO, [0; 2]),
            steering: Some(Steering::new(plan.hosts.len())),
            known: Known::default(),
            latest: None,
            before: None,
            phase: Phase::Running,
            experiment_dir: options.experiment_dir.clone(),
            recorder,
            host_sampler,
            resources,
        })
    }

    /// Runs to the end and returns the summary, without the figures that only the caller knows.
    pub(super) fn run(
        mut self,
        observer: &mut dyn Observer,
        machine: Machine,
    ) -> Result<Summary, RunError> {
        observer.progress(&Progress::Started);
        let mut reported = self.core.pace.begin().at;
        loop {
            match self.step(observer) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.ledger.fail(error.to_string());
                    break;
                }
            }
            let now = self.core.now();
            if now.at.since(reported) >= PROGRESS {
                reported = now.at;
                let (ended, programs) = self.programs.progress();
                observer.progress(&Progress::Running {
                    time: now.time,
                    duration: self.plan.duration,
                    packets_per_s: self.delivered(),
                    headroom: self.latest.as_ref().map(|report| report.second.headroom()),
                    state: self.judge.state(),
                    ended,
                    programs,
                });
            }
        }
        self.finish(machine)
    }

    /// One round: waits for something to do and does it. False when the run is over.
    fn step(&mut self, observer: &mut dyn Observer) -> Result<bool, RunError> {
        let known = self.callers.len();
        let ready = {
            let mut fds = vec![
                self.sandbox.as_fd(),
                self.signals.as_fd(),
                self.listener.as_fd(),
                self.sandbox.inquiries(),
            ];
            fds.extend(self.callers.iter().map(|caller| caller.channel.as_fd()));
            fds.extend(self.programs.readiness());
            let tick = self.host_sampler.due_in(self.core.now().at);
            let tick = tick.map_or(TICK, |tick| tick.min(TICK));
            wait_readable(&fds, Some(tick)).map_err(io_error("waiting"))?
        };
        while let Some(event) = self.sandbox.poll_event()? {
            self.take_event(event);
        }
        if let Some(signal) = ready[1]
            .then(|| take_signal(self.signals.as_fd()))
            .flatten()
        {
            observer.progress(&Progress::Note("interrupted: stopping".to_owned()));
            self.ledger.fail(format!("interrupted by signal {signal}"));
            self.stop(observer)?;
        }
        if ready[2] {
            self.accept();
        }
        if ready[3] {
            self.answer_inquiry();
        }
        let calling: Vec<usize> = (0..known).filter(|index| ready[4 + index]).collect();
        for index in calling.into_iter().rev() {
            self.serve(index)?;
        }
        self.programs
            .pump()
            .map_err(io_error("writing a program's log"))?;
        while let Some(report) = self.next_report()? {
            self.take_report(report)?;
        }
        self.sample_hosts()?;
        self.decide(observer)
    }

    /// Starts programs, and decides whether the run goes on.
    fn decide(&mut self, observer: &mut dyn Observer) -> Result<bool, RunError> {
        let now = self.core.now();
        self.follow_calmly()?;
        self.govern(now.at)?;
        self.programs.tick(now, &mut self.sandbox, self.folder)?;
        match self.phase {
            Phase::Running => {
                let passed = now.time.since(Time::ZERO);
                let over = self.plan.duration.is_some_and(|bound| passed >= bound);
                if over || self.ledger.has_failed() || self.has_ended() {
                    self.stop(observer)?;
                }
                Ok(true)
            }
            Phase::Stopping { since } => {
                let guests = self.callers.iter().any(|caller| caller.program.is_some());
                let patience = GRACE + CALLERS_GRACE;
                Ok((self.programs.any_running() || guests) && now.at.since(since) < patience)
            }
        }
    }

    /// Whether everything that ends by itself has ended, if there is anything.
    fn has_ended(&self) -> bool {
        let programs = !self.programs.list().is_empty();
        let traffic = self.plan.traffic.bounded > 0;
        (programs || traffic)
            && (!programs || self.programs.are_done())
            && (!traffic || self.core.traffic_is_done())
    }

    fn stop(&mut self, observer: &mut dyn Observer) -> Result<(), RunError> {
        if self.phase != Phase::Running {
            return Ok(());
        }
        observer.progress(&Progress::Stopping);
        let now = self.core.now().at;
        self.phase = Phase::Stopping { since: now };
        self.programs.stop_all(now, &mut self.sandbox)?;
        for caller in &self.callers {
            if let Some(id) = caller.program {
                self.sandbox.signal(id, SIGTERM)?;
            }
        }
        Ok(())
    }

    fn take_event(&mut self, event: Event) {
        match event {
            Event::Exited { id, exit, cpu } => {
                if exit.code() == KILLED
                    && let Some(host) = self.programs.host_of(id)
                    && let Some(why) = self.resources.killed(host)
                {
                    self.programs.killed_for(id, why);
                }
                if self.programs.ended(id, exit, cpu, self.core.now().time) {
                    return;
                }
                if let Some(caller) = self.callers.iter_mut().find(|c| c.program == Some(id)) {
                    caller.program = None;
                    let _ = caller
                        .channel
                        .send(&Reply::Exited { code: exit.code() }, &[]);
                }
            }
            // Which program it was is known from its end, which is reported later.
            Event::OutOfMemory { host, .. } => self.resources.note_kill(host),
            Event::WardenDied => {
                let what = "the process that limits hosts' resources died (was it killed?)";
                self.ledger.fail(what.to_owned());
            }
            Event::HostDied { host } => {
                let name = self
                    .plan
                    .hosts
                    .get(host)
                    .map_or("?", |host| host.name.as_str());
                self.ledger
                    .fail(format!("host {name} died: its init was killed"));
            }
            Event::ServiceDied => {
                let what = "the process that runs the hosts' name server died (was it killed?)";
                self.ledger.fail(what.to_owned());
            }
        }
    }

    fn next_report(&mut self) -> Result<Option<Report>, RunError> {
        match self.core.reports.try_recv() {
            Ok(report) => Ok(Some(report)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => {
                self.ledger
                    .fail("the drive loop ended unexpectedly; please report this".to_owned());
                Ok(None)
            }
        }
    }

    /// Completes a second with what the sandbox knows and judges it.
    fn take_report(&mut self, mut report: Report) -> Result<(), RunError> {
        let counters = self.sandbox.counters()?;
        let now = self.core.now().at;
        self.used
            .take(&counters, now.since(self.used_at).as_secs_f64());
        self.used_at = now;
        for (host, (now, seen)) in counters.iter().zip(&mut self.host_counters).enumerate() {
            // Counters never fall, except that those of a host that has died read as zero.
            let before = *seen;
            seen.to_core_dropped = before.to_core_dropped.max(now.to_core_dropped);
            seen.from_core_dropped = before.from_core_dropped.max(now.from_core_dropped);
            seen.run_wait_ns = before.run_wait_ns.max(now.run_wait_ns);
            // A lost frame counts as all the packets that it may have held.
            let of_plan = &self.plan.hosts[host];
            let bottleneck = bottleneck::of_host(self.plan, of_plan, &self.known, self.offload);
            let sent = self.segments[host].max(bottleneck.segments().into());
            self.segments[host] = sent;
            let to_core = sent * (seen.to_core_dropped - before.to_core_dropped);
            let received = if self.offload { SEGMENTS_MAX } else { 1 };
            let from_core = received * (seen.from_core_dropped - before.from_core_dropped);
            report.second.drops.to_core += to_core;
            report.second.drops.from_core += from_core;
            self.judge.cables_lost(host, to_core, from_core);
            seen.cpu_ns = before.cpu_ns.max(now.cpu_ns);
            let lacked = self
                .resources
                .lacked(host, &before, now, report.second.took);
            let packets = self.core.load.packets(host);
            let had_traffic = packets > std::mem::replace(&mut self.packets_seen[host], packets);
            if self.core.pace.span(lacked.of_a_cpu) >= STARVED && had_traffic {
                report.second.starved.push((host, lacked.time));
            }
        }
        let segments = self.segments.iter().max().copied().unwrap_or(1);
        report.second.drops.ring *= segments;
        report.second.rate_left = self.backpressure.left();
        let stolen_ns = cpu::stolen_ns();
        report.second.stolen = Duration::from_nanos(stolen_ns.saturating_sub(self.stolen_seen_ns));
        self.stolen_seen_ns = stolen_ns;
        self.take_second(report)
    }

    /// Judges a second and writes it down.
    fn take_second(&mut self, report: Report) -> Result<(), RunError> {
        self.judge.second(&report.second);
        let written = self.ledger.second(&report.second, &report.network);
        self.before = self.latest.replace(report);
        written
    }

    /// Ends the drive loop and the sandbox, in this order, and sums up.
    fn finish(mut self, machine: Machine) -> Result<Summary, RunError> {
        if let Err(error) = self.programs.pump() {
            self.ledger
                .fail(format!("writing a program's log: {error}"));
        }
        self.note_leftovers();
        self.ask_kernels();
        let simulated = self.core.now().time;
        self.core.commands = None;
        self.core.bell.ring();
        let mut totals = Totals::none();
        loop {
            match self.core.reports.recv_timeout(Duration::from_secs(5)) {
                Ok(report) => {
                    let taken = match self.take_report(report.clone()) {
                        // Without the sandbox its counters are gone, not the core's.
                        Err(RunError::Sandbox(error)) => {
                            self.ledger.fail(error.to_string());
                            self.take_second(report)
                        }
                        taken => taken,
                    };
                    if let Err(error) = taken {
                        self.ledger.fail(error.to_string());
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    self.ledger
                        .fail("the drive loop did not end; please report this".to_owned());
                    // Left alone: it ends with the process.
                    self.core.thread = None;
                    break;
                }
            }
        }
        match self.core.thread.take().map(JoinHandle::join) {
            Some(Ok(Ok(done))) => totals = done,
            Some(Ok(Err(error))) => {
                self.ledger.fail(format!("the drive loop failed: {error}"));
            }
            Some(Err(_)) => {
                self.ledger
                    .fail("the drive loop panicked; please report this".to_owned());
            }
            None => {}
        }
        // No shaper has to follow any more, but the summary lists every change.
        while let Ok(applied) = self.core.applied.try_recv() {
            self.take_applied(applied);
        }
        if let Some(applied) = totals.applied.take() {
            self.take_applied(applied);
        }
        self.summarise(simulated, machine, &totals)
    }

    /// Reads the TCP counters of hosts' kernels, before they are gone.
    fn ask_kernels(&mut self) {
        if let Ok(tcp) = self.sandbox.tcp_counters() {
            self.tcp = Spurious {
                retransmissions: tcp.retransmissions,
                spurious_retransmissions: tcp.spurious_retransmissions,
                timeouts: tcp.timeouts,
                spurious_timeouts: tcp.spurious_timeouts,
            };
        }
    }

    /// Warns of processes that outlived their programs; they end with the sandbox.
    fn note_leftovers(&mut self) {
        let Ok(counters) = self.sandbox.counters() else {
            return;
        };
        for (host, counters) in self.plan.hosts.iter().zip(&counters) {
            if counters.processes > 0 {
                let (number, name) = (counters.processes, &host.name);
                let what = if number == 1 { "process" } else { "processes" };
                self.ledger.warn(format!(
                    "{number} {what} on {name} outlived the programs and were killed at the end"
                ));
            }
        }
    }

    fn summarise(
        mut self,
        simulated: Time,
        machine: Machine,
        totals: &Totals,
    ) -> Result<Summary, RunError> {
        let network = self.latest.take().map(|report| report.network);
        let network = network.unwrap_or_default();
        if network.multicast_data > 0 {
            self.ledger.warn(format!(
                "{} broadcast or multicast packets were not carried: only LAN segments (`kind: lan`) \
                 carry them",
                network.multicast_data
            ));
        }
        let chatty = self
            .programs
            .list()
            .iter()
            .filter(|p| p.log_discarded() > 0);
        for program in chatty {
            self.ledger.warn(format!(
                "the logs of {} on {} reached their limit: {} bytes of output were discarded",
                program.name(),
                program.host,
                program.log_discarded()
            ));
        }
        for warning in self.resources.warnings() {
            self.ledger.warn(warning);
        }
        for warning in self.host_sampler.warnings(self.core.pace) {
            self.ledger.warn(warning);
        }
        let core = CoreEnd {
            cpu: totals.cpu,
            had: self.core.pace.duration(simulated.since(Time::ZERO)),
            pipes: self.plan.topology.pipes().len(),
            network,
        };
        let mut summary = self.ledger.close(End {
            time: simulated,
            machine,
            verdict: self.judge.verdict(&totals.measured, self.tcp),
            params: &|pipe| self.known.changed(pipe),
            loop_time: totals.cpu,
            cores: vec![core],
            expected: None,
            traffic: totals.traffic.iter().collect(),
            programs: self.programs.list().iter().map(program_summary).collect(),
            trace_hash: None,
            measured: self.recorder.finish(),
            resources: self.resources.summary(&self.host_counters),
        });
        drop(self.listener);
        drop(self.callers);
        let ended = MachineTime::now();
        // Killing its init is enough: the kernel takes the namespaces apart, and we wait for that.
        let _ = self.sandbox.shutdown();
        summary.teardown_s = MachineTime::now().since(ended).as_secs_f64();
        Ok(summary)
    }
}

/// What is worth knowing before the first packet.
fn warnings(plan: &Plan, experiment_dir: &Path) -> Vec<String> {
    let mut warnings = plan.warnings.clone();
    if plan.asks_for_offload && plan.traffic.flows > 0 {
        warnings.push(
            "`offload` has no effect: modelled hosts take packets, not super-packets".to_owned(),
        );
    } else if plan.asks_for_offload && !longhaul_linux::sandbox::orders_super_packets() {
        warnings.push(
            "`offload` has no effect: this kernel cannot keep super-packets in order (Linux 6.3 \
             and later can)"
                .to_owned(),
        );
    }
    if is_private(experiment_dir) {
        warnings.push(format!(
            "the experiment file lies in {0}, and every host has its own {0}: programs do not see \
             the files beside it; put the experiment into a folder of its own",
            experiment_dir.display()
        ));
    }
    warnings
}

fn program_summary(program: &crate::run::live::programs::Program) -> ProgramSummary {
    ProgramSummary {
        name: program.name().to_owned(),
        host: program.host.clone(),
        exit: program.exit_code(),
        log: format!("logs/{}", program.name()),
        start_s: program.started.map(seconds),
        finish_s: program.finished.map(seconds),
        service: program.is_service(),
        ended_by_run: program.ended_by == Some(crate::run::live::programs::EndedBy::Run),
        cpu_s: program.cpu.as_secs_f64(),
        log_discarded_bytes: program.log_discarded(),
        failure: program.failure(),
    }
}
