//! `summary.json`: what a run was, and its results. The names are documented in
//! docs/summary.md and do not change lightly.

use longhaul_core::Time;
use longhaul_core::observe::{Counters, Dropped, PipeCounters, RefusedFrames};
use longhaul_core::topology::{Pipe, PipeParams};
use serde::{Deserialize, Serialize};

use crate::fidelity::{Stalls, State, Verdict};
use crate::flows::{FlowSummary, GroupSummary};
use crate::resources::ResourcesSummary;

/// The machine that a run was made on: the parameters of hardware and system that its figures
/// depend on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// CPUs that the run could use.
    pub cpus: usize,
    /// The kernel's release.
    pub kernel: String,
    /// The processor's name.
    pub processor: String,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Whether it is a virtual one, whose CPUs may be taken away at any time.
    pub virtual_machine: bool,
    /// Whether CPUs share processor cores; `None` where the system does not say.
    pub hyper_threads: Option<bool>,
    /// How CPUs change their frequency; `None` where they do not, or the system does not say.
    pub frequency_governor: Option<String>,
    /// What the kernel reads the time from.
    pub clock_source: String,
    /// Processes that wanted to run, in the mean of the minute before.
    pub load_before: f64,
    /// The CPU that the core had, if it had one to itself.
    pub core_cpu: Option<usize>,
    /// How the kernel scheduled the core: real-time (root, on a CPU of its own) or short-slice.
    pub core_scheduling: String,
    /// The CPUs that programs had.
    pub program_cpus: Vec<usize>,
}

/// What became of all packets, each MTU-sized:
/// `entered + created = delivered + dropped + inside`.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct Packets {
    pub entered: u64,
    pub created: u64,
    pub delivered: u64,
    pub inside: u64,
    pub hops: u64,
    pub dropped: Drops,
    pub refused: Refusals,
    pub replies_suppressed: u64,
}

/// Packets that ended inside the network, by cause.
#[derive(Debug, Clone, Copy, Serialize)]
#[allow(missing_docs)]
pub struct Drops {
    pub queue: u64,
    pub loss: u64,
    pub link_down: u64,
    pub hop_limit: u64,
    pub no_route: u64,
    pub too_big: u64,
    pub misdelivered: u64,
    pub absorbed: u64,
}

/// Frames that never entered, by cause.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Refusals {
    /// Broken headers.
    pub malformed: u64,
    /// Neither IPv4 nor IPv6.
    pub not_ip: u64,
    /// Broadcast and multicast, which only a lan segment carries.
    pub multicast: u64,
    /// Of those, sent by programs and not by the kernel's group membership.
    pub multicast_data: u64,
    /// Longer than any link's MTU.
    pub too_long: u64,
}

impl Packets {
    /// The engine's counters as the summary shows them.
    pub fn new(counters: &Counters, inside: u64, multicast_data: u64) -> Self {
        let Dropped {
            queue,
            loss,
            link_down,
            hop_limit,
            no_route,
            too_big,
            misdelivered,
            absorbed,
        } = counters.dropped;
        let RefusedFrames {
            malformed,
            not_ip,
            multicast,
            too_long,
        } = counters.refused;
        Self {
            entered: counters.entered,
            created: counters.created,
            delivered: counters.delivered,
            inside,
            hops: counters.hops,
            dropped: Drops {
                queue,
                loss,
                link_down,
                hop_limit,
                no_route,
                too_big,
                misdelivered,
                absorbed,
            },
            refused: Refusals {
                malformed,
                not_ip,
                multicast,
                multicast_data,
                too_long,
            },
            replies_suppressed: counters.replies_suppressed,
        }
    }
}

/// One program.
#[derive(Debug, Clone, Serialize)]
pub struct ProgramSummary {
    /// Its name.
    pub name: String,
    /// Its host.
    pub host: String,
    /// The code that a shell would show; `null` for one that never ran.
    pub exit: Option<i32>,
    /// Its logs: this path with `.out` and `.err`, relative to the run folder.
    pub log: String,
    /// When it was started and when it ended, in experiment time.
    pub start_s: Option<f64>,
    /// See `start_s`.
    pub finish_s: Option<f64>,
    /// Stopped at the end of the run as a matter of course.
    pub service: bool,
    /// Still running when the run was over, and ended by it.
    pub ended_by_run: bool,
    /// CPU time of it and its children.
    pub cpu_s: f64,
    /// Bytes of output beyond the bound of a log.
    pub log_discarded_bytes: u64,
    /// What went wrong; `null` where nothing did.
    pub failure: Option<String>,
}

/// One pipe.
#[derive(Debug, Clone, Serialize)]
pub struct PipeSummary {
    /// Its name.
    pub name: String,
    /// What became of its packets.
    #[serde(flatten)]
    pub counts: PipeCounts,
    /// The part of the run that it spent sending; `null` for an unlimited rate.
    pub utilisation: Option<f64>,
    /// Which bytes count: ip, ethernet or wire.
    pub framing: String,
}

impl PipeSummary {
    /// A pipe at the end of a run that took until `end`, its parameters as they were then.
    pub fn new(pipe: &Pipe, params: &PipeParams, counters: &PipeCounters, end: Time) -> Self {
        let busy = end.since(Time::ZERO).per_second(counters.busy_ns) / 1e9;
        Self {
            name: pipe.name.clone(),
            counts: PipeCounts::from(counters),
            utilisation: params.rate.map(|_| busy),
            framing: pipe.params.framing.to_string(),
        }
    }
}

/// What became of the packets of a pipe.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PipeCounts {
    /// Packets that came out of it.
    pub packets: u64,
    /// Their bytes as its framing counts them.
    pub bytes: u64,
    /// Packets lost in it.
    pub drops: u64,
    /// Those of them that found the queue full, or that its discipline chose.
    pub drops_queue: u64,
    /// Those of `drops_queue` that the discipline chose although there was room.
    pub drops_early: u64,
    /// Those of them lost by the model, a trace, bit errors or an element.
    pub drops_loss: u64,
    /// Those of them lost because it was down or went down.
    pub drops_down: u64,
    /// Packets that the discipline marked (ECN) instead of dropping them.
    pub marked: u64,
    /// Packets that it made as duplicates.
    pub duplicated: u64,
    /// Packets with a bit that it flipped.
    pub corrupted: u64,
    /// Packets that came out after one that was sent later.
    pub reordered: u64,
}

impl From<&PipeCounters> for PipeCounts {
    fn from(counters: &PipeCounters) -> Self {
        let &PipeCounters {
            packets,
            bytes,
            drops_queue,
            drops_early,
            drops_loss,
            drops_down,
            marked,
            duplicated,
            corrupted,
            reordered,
            busy_ns: _,
        } = counters;
        Self {
            packets,
            bytes,
            drops: drops_queue + drops_loss + drops_down,
            drops_queue,
            drops_early,
            drops_loss,
            drops_down,
            marked,
            duplicated,
            corrupted,
            reordered,
        }
    }
}

/// The most events that a summary lists.
pub(crate) const EVENTS_MAX: usize = 1000;

/// Something that the file had scheduled.
#[derive(Debug, Clone, Serialize)]
pub struct EventSummary {
    /// When it happened, in experiment time.
    pub at_s: f64,
    /// What it was.
    pub event: String,
}

/// One emulation core.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CoreSummary {
    /// Pipes that it owns.
    pub pipes: usize,
    /// Packets that it processed: those that entered at it, were created in it, or came from other
    /// cores.
    pub packets: u64,
    /// Packets that came from or went to other cores.
    pub cross_core: u64,
    /// The part of the run that it was on its CPU; in virtual time its CPU time over the
    /// experiment's, waiting for other cores left out.
    pub busy: f64,
}

/// How a network was split over several cores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartitionSummary {
    /// What made the partition: the name of a method, or `saved` for one that was given.
    pub method: String,
    /// What work was expected to cost: `machine` as calibrated, or `threads` as built in.
    pub costs: String,
    /// Pipes between cores.
    pub cut_pipes: usize,
    /// The least delay of these; `null` where there is none.
    pub lookahead_ns: Option<u64>,
    /// The loads that were expected.
    pub predicted: Load,
    /// The loads that were measured.
    pub measured: Load,
    /// Packets that entered or were created.
    pub edge_packets: u64,
    /// Packets that cores handed over to others.
    pub crossing_packets: u64,
}

/// The load of several cores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Edge packets over all packets that cores process; 1 where nothing crosses.
    pub efficiency: f64,
    /// The busiest core's time for a second of experiment.
    pub load_max: f64,
    /// The mean over cores.
    pub load_mean: f64,
}

/// One attempt of a run that may be repeated.
#[derive(Debug, Clone, Serialize)]
pub struct AttemptSummary {
    /// Its folder.
    pub run: String,
    /// Its verdict.
    pub state: State,
    /// Late packets as a share of those that left.
    pub late_share: f64,
    /// Packets that the machine lost.
    pub physical_drops: u64,
    /// How often the machine stalled, and for how long.
    pub stalls: Stalls,
}

/// A series.
#[derive(Debug, Clone, Serialize)]
pub struct SeriesSummary {
    /// Its name, and that of its folder in `series/`.
    pub name: String,
    /// Its rows.
    pub rows: u64,
    /// What it takes on disk.
    pub bytes: u64,
}

/// A capture that the file asked for.
#[derive(Debug, Clone, Serialize)]
pub struct CaptureSummary {
    /// The links that it is of.
    pub links: String,
    /// Its file, below the run folder.
    pub file: String,
    /// Packets in it.
    pub packets: u64,
    /// Packets that should be in it and are not.
    pub missed: u64,
}

/// The whole.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The experiment's name.
    pub experiment: String,
    /// The clock: real or virtual.
    pub clock: String,
    /// The seed of all random draws.
    pub seed: u64,
    /// The version that ran it.
    pub version: String,
    /// The run folder.
    pub run: String,
    /// Where it ran.
    pub machine: Machine,
    /// Whether it can be trusted.
    pub verdict: Verdict,
    /// What became of all packets.
    pub packets: Packets,
    /// Hash over all events; only in virtual time.
    pub trace_hash: Option<String>,
    /// Experiment time that passed.
    pub simulated_s: f64,
    /// Real time that passed, set-up and clean-up included.
    pub wall_s: f64,
    /// CPU time of Longhaul itself, all its threads; that of hosts and programs not.
    pub cpu_s: f64,
    /// Of it, the set-up of hosts and cables.
    pub setup_s: f64,
    /// Real time from the end of the experiment until nothing of its hosts was left.
    pub teardown_s: f64,
    /// Packet-hops per second of the drive loop's CPU time; of several cores, of its real time.
    pub hops_per_s: f64,
    /// What went wrong with the run itself; `null` where nothing did.
    pub error: Option<String>,
    /// What is worth knowing.
    pub warnings: Vec<String>,
    /// What hosts were kept to; `null` where none was kept to anything.
    pub resources: Option<ResourcesSummary>,
    /// Every program.
    pub programs: Vec<ProgramSummary>,
    /// The first 10,000 modelled flows, entry by entry.
    pub flows: Vec<FlowSummary>,
    /// How many there were in all; `flows.csv` has them.
    pub flows_seen: u64,
    /// The flows of each entry of `traffic` together.
    pub flow_groups: Vec<GroupSummary>,
    /// The first 1000 events that happened; of a ramp its beginning.
    pub events: Vec<EventSummary>,
    /// How many happened in all.
    pub events_seen: u64,
    /// Every pipe; where there are more than 400,000, the 10,000 that carried most.
    pub pipes: Vec<PipeSummary>,
    /// How many there were in all.
    pub pipes_seen: usize,
    /// Every core.
    pub cores: Vec<CoreSummary>,
    /// Edge packets (entered or created) over all packets that cores processed, one that crosses
    /// cores at each of them; `null` with one core.
    pub efficiency: Option<f64>,
    /// How the network was split, with the load that was expected and that which came; `null` with
    /// one core.
    pub partition: Option<PartitionSummary>,
    /// The series that have rows, in `series/NAME/`.
    pub series: Vec<SeriesSummary>,
    /// The files of captures.
    pub captures: Vec<CaptureSummary>,
    /// All attempts, of which this is one; empty for a run that was not to be repeated.
    pub attempts: Vec<AttemptSummary>,
}

impl Summary {
    /// Exit code 1 applies: the run or one of its programs failed.
    pub fn failed(&self) -> bool {
        self.error.is_some()
            || self
                .programs
                .iter()
                .any(|program| program.failure.is_some())
    }

    /// The JSON text of `summary.json`.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain data") + "\n"
    }
}

/// How a core's thread is run.
#[derive(Debug, Clone, Copy, Default)]
pub struct CoreFacts {
    /// Its own CPU, if it has one.
    pub cpu: Option<usize>,
    /// How the kernel schedules it; empty before any run.
    pub scheduling: &'static str,
}

/// The machine as it is now.
pub fn machine(core: CoreFacts, program_cpus: Vec<usize>, cpus: usize) -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':'))
            .map_or(String::new(), |(_, v)| v.trim().to_owned())
    };
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    let kib: u64 = memory
        .split(' ')
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(0);
    let word = |path: &str| {
        let text = read(path);
        Some(text.trim().to_owned()).filter(|word| !word.is_empty())
    };
    let cpu_info = read("/proc/cpuinfo");
    let flags = field(&cpu_info, "flags");
    let load = read("/proc/loadavg");
    Machine {
        cpus,
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        processor: field(&cpu_info, "model name"),
        memory_bytes: kib * 1024,
        virtual_machine: flags.split(' ').any(|flag| flag == "hypervisor"),
        hyper_threads: word("/sys/devices/system/cpu/smt/active").map(|active| active == "1"),
        frequency_governor: word("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        clock_source: word("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .unwrap_or_default(),
        load_before: load
            .split(' ')
            .next()
            .and_then(|word| word.parse().ok())
            .unwrap_or(0.0),
        core_cpu: core.cpu,
        core_scheduling: core.scheduling.to_owned(),
        program_cpus,
    }
}

/// Seconds of a point in experiment time.
pub fn seconds(time: Time) -> f64 {
    time.as_s()
}
