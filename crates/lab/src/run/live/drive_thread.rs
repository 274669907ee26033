//! The drive loop in its thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::JoinHandle;

use longhaul_core::engine::EngineConfig;
use longhaul_emulation::{Applied, Emulation};
use longhaul_linux::clock::MachineTime;
use longhaul_linux::core_thread::CoreThread;
use longhaul_linux::packet_io::Rings;
use longhaul_linux::wait::Bell;
use longhaul_plan::plan::Plan;

use super::drive::{Command, Drive, LinuxPlatform, Load, Parts, Platform, Totals};
use super::hosts::offloads;
use super::placement::Placement;
use crate::measure::Sampler;
use crate::pace::{Dilation, Now, Pace};
use crate::run::ledger::Report;
use crate::run::{RunError, io_error};
use crate::summary::CoreFacts;

/// The drive loop in its thread, as the supervisor knows it.
pub(super) struct Core {
    pub(super) thread: Option<JoinHandle<io::Result<Totals>>>,
    /// Dropped to end the loop.
    pub(super) commands: Option<Sender<Command>>,
    /// Changes that the loop has made.
    pub(super) applied: Receiver<Applied>,
    pub(super) reports: Receiver<Report>,
    pub(super) bell: Arc<Bell>,
    pub(super) load: Arc<Load>,
    /// Whether all modelled traffic that ends by itself has ended.
    pub(super) done: Arc<AtomicBool>,
    pub(super) pace: Pace,
    pub(super) facts: CoreFacts,
}

/// The most reports, and changes, that may wait for the supervisor: a minute's worth of reports.
const REPORTS: usize = 64;

impl Core {
    pub(super) fn start(
        plan: &Plan,
        ring: Rings,
        placement: &Placement,
        mut sampler: Sampler,
    ) -> Result<Self, RunError> {
        let config = EngineConfig {
            buffers: if offloads(plan) {
                plan.super_buffers() as u32
            } else {
                0
            },
            ..Emulation::engine_config(plan)
        };
        let mut emulation = Emulation::new(plan, config).map_err(RunError::Traffic)?;
        #[cfg(debug_assertions)]
        for (pipe, params) in super::faults::in_pipes(&plan.topology) {
            emulation.set_params(pipe, params);
        }
        if offloads(plan) {
            for (pipe, early) in plan.early_releases() {
                emulation.set_early_release(pipe, early);
            }
        }
        let nodes: Vec<_> = plan.hosts.iter().map(|host| host.node).collect();
        // Route tables are made now, not at the first packet to each host.
        nodes
            .iter()
            .for_each(|&node| emulation.prepare_routes(node));
        sampler.install(&mut emulation);
        let bell = Arc::new(Bell::new().map_err(io_error("making a bell"))?);
        let load = Arc::new(Load::new(nodes.len()));
        let loop_load = Arc::clone(&load);
        let (commands, command_end) = channel();
        let (report_end, reports) = sync_channel(REPORTS);
        let (applied_end, applied) = sync_channel(REPORTS);
        emulation.report_network_changes();
        let done = Arc::new(AtomicBool::new(false));
        let loop_done = Arc::clone(&done);
        let (cpu, ring_bell, tolerance) = (
            placement.core.as_ref().map(|core| core.cpu),
            Arc::clone(&bell),
            plan.tolerance,
        );
        let dilation = Dilation::of(plan.clock);
        let (started, start) = sync_channel(1);
        let body = move || {
            let thread = CoreThread::enter(cpu)?;
            let facts = CoreFacts {
                cpu,
                scheduling: thread.scheduling().name(),
            };
            let platform = LinuxPlatform::start(ring, ring_bell, thread, dilation);
            let _ = started.send((platform.pace(), facts));
            let drive = Drive::new(Parts {
                emulation,
                platform,
                nodes,
                tolerance,
                commands: command_end,
                applied: applied_end,
                done: loop_done,
                reports: report_end,
                load: loop_load,
                sampler,
            });
            drive.run()
        };
        let thread = std::thread::Builder::new()
            .name("longhaul-core".to_owned())
            .spawn(body);
        let thread = thread.map_err(io_error("starting the core's thread"))?;
        let (pace, facts) = start.recv().unwrap_or_else(|_| {
            (
                Pace::new(MachineTime::now(), dilation),
                CoreFacts::default(),
            )
        });
        let (thread, commands) = (Some(thread), Some(commands));
        Ok(Self {
            thread,
            commands,
            applied,
            reports,
            bell,
            load,
            done,
            pace,
            facts,
        })
    }

    /// Whether all modelled traffic that ends by itself has ended.
    pub(super) fn traffic_is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }

    pub(super) fn now(&self) -> Now {
        self.pace.read(MachineTime::now())
    }

    /// Hands a command to the loop; without a loop nobody will answer it.
    pub(super) fn command(&self, command: Command) {
        if let Some(commands) = &self.commands {
            let _ = commands.send(command);
            self.bell.ring();
        }
    }
}
