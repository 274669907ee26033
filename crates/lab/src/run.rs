//! One execution of a plan, here on the real clock (for the virtual one see `simulate`): set up, drive, supervise, judge, clean up.
//!
//! Two threads. The drive loop has a CPU to itself where there are two or more and touches
//! nothing but packets; this one, beside the programs, starts and watches them, copies their
//! logs, serves the control socket, judges each second and tells the observer.

mod attempts;
mod callers;
mod govern;
mod links;
mod supervise;
mod top;

pub use attempts::{Attempts, run_until};
pub(crate) use links::EVENTS_MAX;

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread::JoinHandle;

use longhaul_core::engine::{Engine, EngineConfig, GATEWAY_MAC, host_mac};
use longhaul_core::topology::{NodeKind, PipeParams};
use longhaul_core::{PipeId, Span, Time};
use longhaul_linux::clock::monotonic_ns;
use longhaul_linux::core_thread::CoreThread;
use longhaul_linux::cpu::{self, CoreCpu};
use longhaul_linux::packet_io::{RingConfig, Rings};
use longhaul_linux::sandbox::{
    HostConfig, Sandbox, SandboxConfig, SandboxError, TcpConfig, orders_super_packets,
};
use longhaul_linux::wait::{Bell, take_signal, termination_signals};
use longhaul_proto::RouterReplies;
use thiserror::Error;

use crate::drive::{Command, Drive, LinuxPlatform, Load, ModelledHosts, Parts, Report, Totals};
use crate::endpoints::Endpoints;
use crate::fidelity::State;
use crate::folder::{FolderError, RunFolder};
use crate::governor::Governor;
use crate::nic::{self, Limit};
use crate::plan::{HostPlan, Plan, RunClock};
use crate::schedule::Timeline;
use crate::simulate;
use crate::summary::{self, CoreFacts, Machine, Summary};

/// What the caller decides about a run beside the plan.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The run folder.
    pub out: PathBuf,
    /// Whether an earlier run in it is overwritten.
    pub force: bool,
    /// The text of the experiment file, kept in the run folder.
    pub experiment_text: String,
    /// The folder of the experiment file: `LONGHAUL_DIR` of programs, base of a relative `cwd`.
    pub experiment_dir: PathBuf,
}

/// How a run comes along.
#[derive(Debug, Clone)]
pub enum Progress {
    /// Hosts come up.
    Hosts {
        /// How many are up.
        up: usize,
        /// How many there will be.
        total: usize,
    },
    /// t = 0: programs start.
    Started,
    /// The run is under way.
    Running {
        /// Experiment time.
        time: Time,
        /// Its upper bound.
        duration: Option<Span>,
        /// Packets delivered in the last second.
        packets_per_s: u64,
        /// The share of the last second that the core did not need, once there is one.
        headroom: Option<f64>,
        /// The verdict so far.
        state: State,
        /// Programs that have ended.
        ended: usize,
        /// All programs.
        programs: usize,
    },
    /// A virtual run is under way.
    Simulating {
        /// Experiment time.
        time: Time,
        /// Its upper bound.
        duration: Option<Span>,
        /// Experiment time over real time.
        speed: f64,
        /// Packet-hops per second.
        hops_per_s: f64,
        /// Modelled flows that have ended.
        flows_done: u64,
        /// All of them.
        flows: u64,
    },
    /// Something that the user should know at once.
    Note(String),
    /// The run is being wound up.
    Stopping,
}

/// Who is told how a run comes along.
pub trait Observer {
    /// Called often, and never for long.
    fn progress(&mut self, progress: &Progress);
}

/// Why there is no summary.
#[derive(Debug, Error)]
pub enum RunError {
    /// The run folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The sandbox could not be made.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The modelled hosts could not be made.
    #[error("modelled traffic: {0}")]
    Traffic(longhaul_proto::traffic::Error),
    /// A virtual run does not fit.
    #[error(
        "this run needs at least {needed:.1} GiB of memory, and the machine has {available:.1} GiB \
         for it: give it fewer hosts, fewer flows, or fewer flows at a time (their `start`)"
    )]
    Memory {
        /// GiB that it takes at least.
        needed: f64,
        /// GiB that there are.
        available: f64,
    },
    /// The system refused something else.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        error: io::Error,
    },
}

pub(crate) fn io_error(what: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |error| RunError::Io { what, error }
}

/// The beginning of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun {
    at_ns: u64,
    cpu_ns: u64,
}

impl Begun {
    fn now() -> Self {
        Self {
            at_ns: monotonic_ns(),
            cpu_ns: cpu::process_cpu_ns(),
        }
    }

    /// Real time since.
    pub(crate) fn passed(self) -> Span {
        Span::from_ns(monotonic_ns() - self.at_ns)
    }

    /// CPU time of this process since.
    fn used(self) -> Span {
        Span::from_ns(cpu::process_cpu_ns() - self.cpu_ns)
    }
}

/// Runs a plan and returns what came of it, which is also in the run folder.
///
/// Call it while the process has one thread.
pub fn run(
    plan: &Plan,
    options: &RunOptions,
    observer: &mut dyn Observer,
) -> Result<Summary, RunError> {
    let begun = Begun::now();
    if plan.clock == RunClock::Virtual {
        simulate::memory::Needs::of(plan).check()?;
    }
    let folder = RunFolder::create(&options.out, &options.experiment_text, options.force)?;
    let result = match plan.clock {
        RunClock::Real => run_in(plan, options, &folder, observer, begun),
        RunClock::Virtual => {
            let summary = simulate::run(plan, &folder, observer, begun);
            summary.map(|summary| write_down(summary, &folder, begun))
        }
    };
    if matches!(result, Err(RunError::Sandbox(_))) {
        folder.abandon();
    }
    result
}

fn run_in(
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
    let core = Core::start(plan, ring, &placement)?;
    let machine = placement.machine(core.facts);
    let supervisor = supervise::Supervisor::new(plan, options, folder, core, sandbox, signals)?;
    let mut summary = supervisor.run(observer, machine)?;
    summary.setup_s = setup.as_s();
    Ok(write_down(summary, folder, begun))
}

/// Writes the summary and the report.
fn write_down(mut summary: Summary, folder: &RunFolder, begun: Begun) -> Summary {
    summary.wall_s = begun.passed().as_s();
    summary.cpu_s = begun.used().as_s();
    // A folder that cannot be written any more must not cost the result.
    if let Err(error) = folder.write("summary.json", &summary.to_json()) {
        summary.error.get_or_insert(error.to_string());
    }
    let report = crate::report::html(&summary, folder.path());
    if let Err(error) = folder.write("report.html", &report) {
        summary.error.get_or_insert(error.to_string());
    }
    summary
}

/// Which CPUs do what.
struct Placement {
    core: Option<CoreCpu>,
    programs: Vec<usize>,
    all: Vec<usize>,
}

/// The CPUs that a thread had before a run.
struct Home(Vec<usize>);

impl Drop for Home {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            // Where it may not, the next run has those of this one's programs.
            let _ = cpu::pin(&self.0);
        }
    }
}

impl Placement {
    fn choose() -> Self {
        let all = cpu::allowed().unwrap_or_default();
        let core = cpu::claim_core_cpu();
        let is_core = |cpu: &usize| core.as_ref().is_some_and(|core| core.cpu == *cpu);
        let programs = match &core {
            Some(_) => all.iter().copied().filter(|cpu| !is_core(cpu)).collect(),
            None => Vec::new(),
        };
        Self {
            core,
            programs,
            all,
        }
    }

    /// Gives the calling thread all CPUs back when it is dropped: another run may follow.
    fn home(&self) -> Home {
        Home(self.all.clone())
    }

    fn machine(&self, core: CoreFacts) -> Machine {
        summary::machine(core, self.programs.clone(), self.all.len())
    }
}

fn sandbox_config(
    plan: &Plan,
    options: &RunOptions,
    folder: &RunFolder,
    placement: &Placement,
) -> SandboxConfig {
    SandboxConfig {
        hosts_file: hosts_file(plan),
        keep: vec![options.experiment_dir.clone(), folder.path().to_owned()],
        cpus: placement.programs.clone(),
        remove: folder.control_socket(),
        gateway_mac: GATEWAY_MAC,
        offload: offloads(plan),
    }
}

/// Every host's `/etc/hosts`: itself, and all nodes that have an address by name.
fn hosts_file(plan: &Plan) -> String {
    let nodes = plan.topology.nodes().iter();
    let addressed = nodes.filter(|node| node.kind != NodeKind::Lan);
    let lines = addressed.map(|n| format!("{}\t{}\n{}\t{}\n", n.ipv4, n.name, n.ipv6, n.name));
    let local = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n".to_owned();
    std::iter::once(local).chain(lines).collect()
}

/// `hosts.txt`: name, IPv4 and IPv6 address of each host.
fn host_list(plan: &Plan) -> String {
    let line = |host: &HostPlan| {
        let node = plan.topology.node(host.node);
        format!("{} {} {}\n", node.name, node.ipv4, node.ipv6)
    };
    plan.hosts.iter().map(line).collect()
}

/// Whether there are hosts that hand over super-packets.
fn offloads(plan: &Plan) -> bool {
    let hands_over = |host: &HostPlan| nic_limit(plan, host, true).segments() > 1;
    // Modelled hosts take packets, not super-packets.
    plan.offload
        && plan.traffic.flows == 0
        && orders_super_packets()
        && plan.hosts.iter().any(hands_over)
}

/// The same plan for a machine that leads super-packets to none of the run's CPUs.
fn without_offload(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.offload = false;
    if plan.asks_for_offload {
        plan.warnings.push(
            "`offload` has no effect: the kernel does not lead packets to any of the run's CPUs \
             (are they isolated?)"
                .to_owned(),
        );
    }
    plan
}

/// What limits the card of a host at the start.
fn nic_limit(plan: &Plan, host: &HostPlan, offload: bool) -> Limit {
    let params = |&pipe: &PipeId| PipeParams::clone(&plan.topology.pipe(pipe).params);
    let nic: Vec<_> = host.nic.iter().map(params).collect();
    nic::limit(&nic, host.mtu, offload)
}

/// The receive rings of a plan's run on this machine.
pub fn ring_configs(plan: &Plan) -> Vec<RingConfig> {
    match offloads(plan) {
        true => RingConfig::with_super_packets(largest_mtu(plan)).into(),
        false => vec![RingConfig::for_mtu(largest_mtu(plan))],
    }
}

fn host_configs(plan: &Plan) -> Vec<HostConfig> {
    let offload = offloads(plan);
    let config = |host: &HostPlan| {
        let node = plan.topology.node(host.node);
        let limit = nic_limit(plan, host, offload);
        HostConfig {
            name: host.name.clone(),
            mac: host_mac(host.node),
            ipv4: node.ipv4,
            ipv6: node.ipv6,
            mtu: host.mtu,
            tcp: TcpConfig {
                congestion: host.tcp.congestion.clone(),
                rmem_max: host.tcp.rmem_max,
                wmem_max: host.tcp.wmem_max,
                ecn: host.tcp.ecn,
            },
            shaper: Some(match limit {
                Limit::Link { shaper, .. } => shaper,
                Limit::Machine => {
                    let frame = nic::longest_frame(host.mtu, offload);
                    nic::machine_shaper(Governor::first_speed(), frame)
                }
            }),
            segments: match offload {
                true => limit.segments(),
                false => 1,
            },
        }
    };
    plan.hosts.iter().map(config).collect()
}

fn largest_mtu(plan: &Plan) -> u32 {
    plan.hosts
        .iter()
        .map(|host| host.mtu)
        .max()
        .unwrap_or(plan.mtu)
}

/// The drive loop in its thread, as the supervisor knows it.
struct Core {
    thread: Option<JoinHandle<io::Result<Totals>>>,
    /// Dropped to end the loop.
    commands: Option<Sender<Command>>,
    reports: Receiver<Report>,
    bell: Arc<Bell>,
    load: Arc<Load>,
    /// Whether all modelled traffic that ends by itself has ended.
    done: Arc<AtomicBool>,
    start_ns: u64,
    facts: CoreFacts,
}

/// Reports that may wait for the supervisor: a minute's worth.
const REPORTS: usize = 64;

impl Core {
    fn start(plan: &Plan, ring: Rings, placement: &Placement) -> Result<Self, RunError> {
        let config = EngineConfig {
            seed: plan.seed,
            slot_size: plan.slot_bytes(),
            slots: u32::try_from(plan.packet_slots()).unwrap_or(u32::MAX - 1),
            buffers: match offloads(plan) {
                true => plan.super_buffers() as u32,
                false => 0,
            },
            ..EngineConfig::default()
        };
        let mut engine = Engine::new(
            plan.topology.clone(),
            config,
            Box::new(RouterReplies::new()),
        );
        #[cfg(debug_assertions)]
        for (pipe, params) in crate::faults::in_pipes(&plan.topology) {
            engine.set(pipe, params);
        }
        if offloads(plan) {
            for &pipe in plan.hosts.iter().flat_map(|host| &host.nic) {
                let params = PipeParams {
                    card: nic::AHEAD,
                    ..engine.params(pipe).clone()
                };
                engine.set(pipe, params);
            }
        }
        let nodes: Vec<_> = plan.hosts.iter().map(|host| host.node).collect();
        // Route tables are made now, not at the first packet to each host.
        nodes.iter().for_each(|&node| engine.prepare_routes(node));
        let bell = Arc::new(Bell::new().map_err(io_error("making a bell"))?);
        let load = Arc::new(Load::new(nodes.len()));
        let loop_load = Arc::clone(&load);
        let (commands, command_end) = channel();
        let (report_end, reports) = sync_channel(REPORTS);
        let timeline = Timeline::new(Arc::clone(&plan.schedule));
        let done = Arc::new(AtomicBool::new(false));
        let modelled = match plan.traffic.flows {
            0 => None,
            _ => {
                let traffic = Endpoints::new(plan).traffic(plan);
                let traffic = traffic.map_err(RunError::Traffic)?;
                Some(ModelledHosts::new(traffic, Arc::clone(&done)))
            }
        };
        let (cpu, ring_bell, tolerance) = (
            placement.core.as_ref().map(|core| core.cpu),
            Arc::clone(&bell),
            plan.tolerance,
        );
        let (started, start) = sync_channel(1);
        let body = move || {
            let thread = CoreThread::enter(cpu)?;
            let facts = CoreFacts {
                cpu,
                scheduling: thread.scheduling().name(),
            };
            let platform = LinuxPlatform::start(ring, ring_bell, thread);
            let _ = started.send((platform.start_ns(), facts));
            let drive = Drive::new(Parts {
                engine,
                platform,
                nodes,
                tolerance,
                commands: command_end,
                timeline,
                modelled,
                reports: report_end,
                load: loop_load,
            });
            drive.run()
        };
        let thread = std::thread::Builder::new()
            .name("longhaul-core".to_owned())
            .spawn(body);
        let thread = thread.map_err(io_error("starting the core's thread"))?;
        let (start_ns, facts) = start
            .recv()
            .unwrap_or_else(|_| (monotonic_ns(), CoreFacts::default()));
        let (thread, commands) = (Some(thread), Some(commands));
        Ok(Self {
            thread,
            commands,
            reports,
            bell,
            load,
            done,
            start_ns,
            facts,
        })
    }

    /// Whether all modelled traffic that ends by itself has ended.
    fn traffic_is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }

    fn now(&self) -> Time {
        Time::from_ns(monotonic_ns().saturating_sub(self.start_ns))
    }

    /// Hands a command to the loop; without a loop nobody will answer it.
    fn command(&self, command: Command) {
        if let Some(commands) = &self.commands {
            let _ = commands.send(command);
            self.bell.ring();
        }
    }
}

/// The default place of run folders, below the working folder.
pub fn default_out(plan: &Plan) -> PathBuf {
    RunFolder::next_free(Path::new("longhaul-runs"), &plan.name)
}
