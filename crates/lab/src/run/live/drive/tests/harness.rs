//! The loop of a small network on a machine in memory, from its start to the verdict.

use std::sync::Arc;
use std::sync::mpsc::{channel, sync_channel};
use std::thread;

use longhaul_core::engine::EngineConfig;
use longhaul_core::{Span, Time};
use longhaul_emulation::{Applied, Emulation};
use longhaul_plan::plan::Plan;

use super::machine::Machine;
use crate::fidelity::{Judge, Second, Spurious, Verdict};
use crate::measure::Sampler;
use crate::pace::Now;
use crate::run::live::drive::{Command, Drive, Load, Parts};

/// A network whose delays and tolerance are `factor` times shorter than 2 ms, 3 ms and 200 us.
fn network(factor: u32) -> String {
    let us = |us: u32| us / factor;
    format!(
        "
tolerance: {} us
topology:
  nodes: {{ a: {{}}, b: {{}}, c: {{}}, g: {{ kind: router }} }}
  links:
    - {{ ends: [a, g], delay: {} us }}
    - {{ ends: [b, g], delay: {} us }}
    - {{ ends: [c, g], delay: {} us }}
",
        us(200),
        us(2000),
        us(3000),
        us(3000)
    )
}

/// What is run, and on what.
pub(super) struct Setup {
    pub(super) plan: Plan,
    pub(super) machine: Machine,
    pub(super) end: Span,
    /// So many reports find room before the end.
    pub(super) heard: usize,
    /// What is asked of the loop before it begins.
    pub(super) asked: Vec<Command>,
}

/// What has come of a run.
pub(super) struct Run {
    pub(super) verdict: Verdict,
    /// When frames were on their cables, by host.
    pub(super) cables: Vec<Vec<Now>>,
    /// Frames that hosts have sent.
    pub(super) sent: u64,
    pub(super) delivered: u64,
    /// Send calls in which the kernel was asked of the last frame alone.
    pub(super) asked_of_last: u64,
    /// What each second was like.
    pub(super) seconds: Vec<Second>,
    /// The reports of changes, received at the end.
    pub(super) applied: Vec<Applied>,
}

/// Runs the loop on a machine until all is sent and has come out.
pub(super) fn run(machine: Machine, end: Span) -> Run {
    Setup::new(machine, end).run()
}

impl Setup {
    pub(super) fn new(machine: Machine, end: Span) -> Self {
        Self {
            plan: Self::plan(""),
            machine,
            end,
            heard: 1000,
            asked: Vec::new(),
        }
    }

    /// The same by the machine's clock, of an experiment whose clock is `factor` times slower, and
    /// whose times are as much shorter.
    pub(super) fn slowed(machine: Machine, end: Span, factor: u32) -> Self {
        let text = network(factor);
        let plan = Plan::from_text(&text, "f.yaml").unwrap_or_else(|e| panic!("{e}"));
        let end = Span::from_ns(end.as_ns() / u64::from(factor));
        Self {
            plan,
            ..Self::new(machine.slowed(factor), end)
        }
    }

    /// The network, and what is added to its file.
    pub(super) fn plan(more: &str) -> Plan {
        let text = format!("{}{more}", network(1));
        Plan::from_text(&text, "f.yaml").unwrap_or_else(|e| panic!("{e}"))
    }

    pub(super) fn run(self) -> Run {
        let plan = self.plan;
        let config = EngineConfig {
            slots: 1 << 17,
            ..Emulation::engine_config(&plan)
        };
        let mut emulation = Emulation::new(&plan, config).expect("no modelled traffic");
        emulation.report_network_changes();
        let nodes: Vec<_> = plan.hosts.iter().map(|host| host.node).collect();
        let (commands, command_end) = channel();
        for command in self.asked {
            commands.send(command).expect("the loop is there");
        }
        let (report_end, reports) = sync_channel(self.heard);
        let (applied_end, applied) = sync_channel(1);
        let (sent, end) = (self.machine.frames(), Time::ZERO + self.end);
        let (platform, seen, over) = self.machine.platform(&plan, commands, end);
        let listener = thread::spawn(move || {
            // Nobody listens until the end.
            let _ = over.recv();
            reports.into_iter().collect::<Vec<_>>()
        });
        let drive = Drive::new(Parts {
            emulation,
            platform,
            nodes: nodes.clone(),
            tolerance: plan.tolerance,
            commands: command_end,
            applied: applied_end,
            done: Arc::default(),
            reports: report_end,
            load: Arc::new(Load::new(nodes.len())),
            sampler: Sampler::idle(&plan),
        });
        let totals = drive.run().expect("a machine that never fails");
        let names = plan.topology.nodes().iter();
        let names = names.map(|node| node.name.to_string()).collect();
        let mut judge = Judge::new(plan.tolerance, nodes, names);
        let reports = listener.join().expect("it only listens");
        for report in &reports {
            judge.second(&report.second);
        }
        let last = reports.last().expect("the last one is always heard");
        assert_eq!(last.network.inside, 0);
        let seen = seen.take();
        Run {
            verdict: judge.verdict(&totals.measured, Spurious::default()),
            cables: seen.cables,
            asked_of_last: seen.asked_of_last,
            sent,
            delivered: last.network.counters.delivered,
            seconds: reports.into_iter().map(|report| report.second).collect(),
            applied: applied.try_iter().chain(totals.applied).collect(),
        }
    }
}
