//! A run on the real clock: set up, drive, supervise, clean up.
//!
//! Two threads. The drive loop has a CPU to itself where there are two or more and touches
//! nothing but packets; this one, beside the programs, starts and watches them, copies their
//! logs, serves the control socket, judges each second and tells the observer.

mod callers;
mod captures;
mod clock;
mod drive;
mod drive_thread;
#[cfg(debug_assertions)]
mod faults;
mod govern;
mod governor;
mod hosts;
mod links;
mod logs;
mod looks;
mod nic;
mod placement;
mod programs;
mod steering;
mod supervise;
mod top;
mod trim;

use std::os::fd::AsFd;

use longhaul_linux::cpu;
use longhaul_linux::sandbox::Sandbox;
use longhaul_linux::wait::{take_signal, termination_signals};
use longhaul_plan::plan::Plan;

use super::{Begun, Observer, Progress, RunError, RunOptions, io_error};
use crate::folder::RunFolder;
use crate::measure::Recorder;
use crate::summary::Summary;
use drive_thread::Core;
pub use hosts::ring_configs;
use hosts::{host_configs, host_list, offloads, sandbox_config, without_offload};
use placement::Placement;

/// Runs a plan with programs; the summary lacks the figures that only the caller knows.
pub(super) fn run(
    plan: &Plan,
    options: &RunOptions,
    folder: &RunFolder,
    observer: &mut dyn Observer,
    begun: Begun,
) -> Result<Summary, RunError> {
    let names = plan.hosts.iter().map(|host| host.name.as_str());
    folder.create_hosts(names)?;
    folder.write("hosts.txt", &host_list(plan))?;
    let placement = Placement::choose();
    let _home = placement.home();
    let signals = termination_signals().map_err(io_error("blocking signals"))?;
    let mut sandbox = Sandbox::start(&sandbox_config(plan, options, folder, &placement))?;
    let plan: &Plan = match offloads(plan) && !sandbox.takes_super_packets() {
        true => &without_offload(plan),
        false => plan,
    };
    // Each program's output takes four descriptors; programs themselves keep the old limit.
    longhaul_linux::raise_open_files().map_err(io_error("raising the limit of open files"))?;
    let hosts = host_configs(plan);
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
    let core = Core::start(plan, ring, &placement, sampler)?;
    let machine = placement.machine(core.facts);
    let outside = supervise::Outside {
        sandbox,
        signals,
        recorder,
    };
    let supervisor = supervise::Supervisor::new(plan, options, folder, core, outside)?;
    let mut summary = supervisor.run(observer, machine)?;
    summary.setup_s = setup.as_secs_f64();
    Ok(summary)
}
