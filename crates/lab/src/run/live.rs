//! A run on the real clock: set up, drive, supervise, clean up.
//!
//! Two threads. The drive loop has a CPU to itself where there are two or more, and handles nothing
//! but packets. The supervisor, on the programs' CPUs, starts and watches programs, copies their
//! logs, serves the control socket, judges each second and reports progress to the observer.

mod backpressure;
mod bottleneck;
mod callers;
mod captures;
mod clock;
mod drive;
mod drive_thread;
#[cfg(debug_assertions)]
mod faults;
mod govern;
mod host_samples;
mod hosts;
mod hosts_now;
mod links;
mod logs;
mod placement;
mod programs;
mod resources;
mod steering;
mod supervise;
mod top;

use std::os::fd::AsFd;

use longhaul_linux::cpu;
use longhaul_linux::resources::scope::ScopeError;
use longhaul_linux::resources::{Groups, delegate};
use longhaul_linux::sandbox::Sandbox;
use longhaul_linux::wait::{take_signal, termination_signals};
use longhaul_plan::plan::{HostPlan, Plan};

use super::{Observer, Progress, RunError, RunOptions, RunStart, io_error};
use crate::calibrate;
use crate::fidelity::Judge;
use crate::folder::RunFolder;
use crate::info::Services;
use crate::measure::Recorder;
use crate::noise::Noise;
use crate::resources::{Allotment, Facts};
use crate::summary::Summary;
use drive_thread::Core;
pub use hosts::ring_configs;
use hosts::{host_configs, host_list, offloads, sandbox_config, without_offload};
use placement::Placement;

/// The machine's resources for a run, chosen before anything is made: CPUs, and hosts' allotments.
pub(super) struct MachineResources {
    placement: Placement,
    allotment: Allotment,
    /// The machine without the run, where it is calibrated.
    noise: Option<Noise>,
}

impl MachineResources {
    /// Chooses for a plan.
    ///
    /// # Errors
    /// The machine does not have what its hosts ask for.
    pub(super) fn choose(plan: &Plan, options: &RunOptions) -> Result<Self, RunError> {
        // Before the run takes CPUs: a calibration is of a number of them.
        let noise = calibrate::known_noise();
        let placement = Placement::choose();
        let asks =
            |host: &HostPlan| host.resources.cpu.is_some() || host.resources.memory.is_some();
        let delegated = if plan.hosts.iter().any(asks) {
            delegate()
        } else {
            Ok(())
        };
        let facts = Facts::of(plan, placement.for_programs().to_vec(), &options.out);
        let mut allotment = Allotment::of(plan, facts, options.oversubscribe)?;
        let refused = delegated.err();
        allotment.notes.extend(refused.as_ref().map(without_groups));
        Ok(Self {
            placement,
            allotment,
            noise,
        })
    }
}

/// The note for the user when control groups are unavailable and the run limits hosts' resources itself.
fn without_groups(error: &ScopeError) -> String {
    format!(
        "hosts are kept to CPU time and memory without control groups, less exactly \
         (docs/hosts.md): {error}"
    )
}

/// The judge of a run, who knows beforehand what it was given and what the machine does by itself.
fn judge(plan: &Plan, allotment: &Allotment, noise: Option<Noise>) -> Judge {
    let hosts = plan.hosts.iter().map(|host| host.node).collect();
    let nodes = plan.topology.nodes().iter();
    let names = nodes.map(|node| node.name.to_string()).collect();
    let mut judge = Judge::new(plan.tolerance, hosts, names);
    judge.oversubscribed(&allotment.excess);
    judge.alone(noise);
    judge
}

/// Runs a plan with programs; the summary lacks the figures that only the caller knows.
pub(super) fn run(
    plan: &Plan,
    options: &RunOptions,
    (folder, resources): (&RunFolder, &MachineResources),
    observer: &mut dyn Observer,
    begun: RunStart,
) -> Result<Summary, RunError> {
    let MachineResources {
        placement,
        allotment,
        noise,
    } = resources;
    let names = plan.hosts.iter().map(|host| host.name.as_str());
    folder.create_hosts(names)?;
    folder.write("hosts.txt", &host_list(plan))?;
    let _restored_at_end = placement.restore_later();
    let signals = termination_signals().map_err(io_error("blocking signals"))?;
    // Created before the sandbox, so that they are dropped after it: by then they are empty.
    let device = allotment.facts.device.as_ref().ok();
    let (by_groups, by_warden) = allotment.limits();
    let groups = Groups::create(&by_groups, device);
    let groups = groups.map_err(io_error("limiting hosts' resources"))?;
    let config = sandbox_config(plan, options, folder, placement);
    let mut sandbox = Sandbox::start(&config, Some(Services::new(plan)))?;
    drop(config);
    let plan: &Plan = if offloads(plan) && !sandbox.takes_super_packets() {
        &without_offload(plan)
    } else {
        plan
    };
    // Each program's output takes four descriptors; the sandbox starts programs with the old limit.
    longhaul_linux::raise_open_files().map_err(io_error("raising the limit of open files"))?;
    let mut hosts = host_configs(plan);
    for (number, (host, share)) in hosts.iter_mut().zip(&allotment.hosts).enumerate() {
        host.cpus.clone_from(&share.cpus);
        host.limits = by_warden[number];
        host.groups = groups
            .as_ref()
            .map_or(Vec::new(), |groups| groups.of_host(number));
    }
    let total = hosts.len();
    observer.progress(&Progress::Hosts { up: 0, total });
    sandbox.add_hosts(&hosts, |up| {
        observer.progress(&Progress::Hosts { up, total });
        take_signal(signals.as_fd()).is_none()
    })?;
    let ring = sandbox.open_rings(&ring_configs(plan))?;
    let setup = begun.passed();
    if !placement.programs.is_empty() {
        cpu::pin(&placement.programs).map_err(io_error("choosing CPUs"))?;
    }
    let (recorder, sampler) =
        Recorder::start(plan, folder).map_err(io_error("starting to measure"))?;
    let core = Core::start(plan, ring, placement, sampler)?;
    let machine = placement.machine(core.facts);
    let parts = supervise::SupervisorParts {
        sandbox,
        signals,
        recorder,
        judge: judge(plan, allotment, noise.clone()),
        resources: resources::ResourceMonitor::new(plan, allotment, groups.as_ref()),
    };
    let supervisor = supervise::Supervisor::new(plan, options, folder, core, parts)?;
    let mut summary = supervisor.run(observer, machine)?;
    summary.setup_s = setup.as_secs_f64();
    Ok(summary)
}
