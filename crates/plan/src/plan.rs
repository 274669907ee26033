//! The plan: an experiment file checked against nothing but itself and lowered to numbers.
//!
//! The same file gives the same plan on every machine, whatever the order of its entries:
//! hosts are numbered and addressed in the natural order of their names (`a2` before `a10`).
//! Steps, each in a file of its own: [`nodes`] expands groups and sets, [`links`] names links, [`pipe`]
//! says what they do, [`addresses`] gives addresses, [`paths`] finds unreachable pairs and
//! buffers, [`resources`] reads what hosts have for their programs, [`queues`] says what queues hold and which are too short or too long, [`events`] what
//! happens when, [`programs`] orders programs, [`traffic`] makes groups of flows, [`clock`] decides
//! whether they can end. Problems of independent entries are all reported.
//!
//! Traces and tables that a file names are read with it, relative to its folder.
//!
//! Left out: whether this machine can run the plan (`doctor`, and the run itself).

mod addresses;
mod clock;
mod events;
mod flows;
mod hosts;
mod lans;
mod links;
mod measure;
mod network;
mod nodes;
mod paths;
pub(crate) mod pipe;
mod positions;
mod programs;
mod queues;
mod resources;
mod sketch;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use longhaul_core::engine::MODELLED_SLOT;
use longhaul_core::segment::SUPER_BYTES;
use longhaul_core::units::Framing;
use longhaul_core::{NodeId, PipeId, Span, Topology};
use regex::bytes::Regex;

use crate::early_release::EarlyRelease;
use crate::elements::Elements;
use crate::file::link::ChangeSpec;
use crate::file::spec::Experiment;
use crate::file::wrap::{At, Mtu, Quantity};
use crate::file::{self, Loaded};
use crate::flow_groups::TrafficPlan;
use crate::limits::Limits;
use crate::measure::Measure;
use crate::names::{NAME_HINT, check_name};
use crate::patch::Patch;
use crate::schedule::Schedule;
use crate::select::{Budget, SelectError};
use crate::text::error::{Errors, Faults, shown};

pub use crate::limits::{MAX_FLOWS, MAX_HOSTS, MAX_LINKS, MAX_ROUTERS, RunClock};
use network::Network;
pub use network::NetworkLabels;
pub use paths::bytes;
pub use queues::queue_bytes;
pub use resources::{CpuTime, Cpus, Disk, Resources};
pub use sketch::{experiment, of_plan};

/// The most programs, each counted once per host that it runs on.
pub const MAX_PROGRAMS: usize = 10_000;

/// The smallest MTU: IPv6 requires 1280 bytes (RFC 8200 §5).
const MTU_MIN: u32 = 1280;
/// The largest MTU: jumbo frames.
const MTU_MAX: u32 = 9216;
const MTU_DEFAULT: u32 = 1500;
/// A run with packets later than this is broken whatever it tolerates.
const TOLERANCE_MAX: Span = Span::from_ms(100);
/// The largest and smallest TCP buffers that a file may ask for.
const TCP_BUFFER: std::ops::RangeInclusive<u64> = 4096..=1 << 30;

/// An experiment, ready to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What it is called.
    pub name: String,
    /// What drives its time.
    pub clock: RunClock,
    /// What every random draw follows from.
    pub seed: u64,
    /// Upper bound of the run.
    pub duration: Option<Span>,
    /// The default MTU of links.
    pub mtu: u32,
    /// How late packets may be in a run that is called faithful.
    pub tolerance: Span,
    /// Whether hosts may hand over super-packets.
    pub offload: bool,
    /// Whether the file itself asks for it; the run then warns where it has no effect.
    pub asks_for_offload: bool,
    /// The network.
    pub topology: Arc<Topology>,
    /// The hosts, by node number.
    pub hosts: Vec<HostPlan>,
    /// The programs, in the natural order of their names.
    pub programs: Vec<ProgramPlan>,
    /// The modelled flows.
    pub traffic: Arc<TrafficPlan>,
    /// The pipes of each entry of the file that stands for several links, by what it is called
    /// there: `x-y` after groups, or its name.
    pub groups: BTreeMap<String, Vec<PipeId>>,
    /// What nodes and links are labelled with.
    pub labels: NetworkLabels,
    /// What happens during the run.
    pub schedule: Arc<Schedule>,
    /// What is recorded as the run goes on.
    pub measure: Measure,
    /// The elements that links may name.
    pub elements: Elements,
    /// Where drawings show nodes, by their names: x to the right, y upwards.
    pub positions: BTreeMap<String, (f64, f64)>,
    /// What is allowed but probably not meant.
    pub warnings: Vec<String>,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPlan {
    /// Its node.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// The smallest MTU of its links.
    pub mtu: u32,
    /// Its kernel's TCP.
    pub tcp: TcpProfile,
    /// The pipes that leave it: its NICs.
    pub nic: Vec<PipeId>,
    /// What its programs have; shared by the members of a group.
    pub resources: Arc<Resources>,
}

/// The TCP of a host's kernel, pinned whatever the machine's defaults are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TcpProfile {
    /// Congestion control.
    pub congestion: String,
    /// The maximum of `tcp_rmem` in bytes.
    pub rmem_max: u64,
    /// The maximum of `tcp_wmem` in bytes.
    pub wmem_max: u64,
    /// Explicit congestion notification.
    pub ecn: bool,
}

/// A program on one host.
#[derive(Debug, Clone)]
pub struct ProgramPlan {
    /// `client`, or `client@a0` where it runs on several hosts.
    pub name: String,
    /// Its host, as an index into [`Plan::hosts`].
    pub host: usize,
    /// The command and its arguments; never empty.
    pub argv: Vec<String>,
    /// Further environment variables.
    pub env: Vec<(String, String)>,
    /// Where it runs, relative to the experiment file's folder; the host's own folder if absent.
    pub cwd: Option<PathBuf>,
    /// How long it may run.
    pub timeout: Option<Span>,
    /// Whether it keeps uid 0.
    pub as_root: bool,
    /// Whether it is stopped at the run's end instead of holding it.
    pub service: bool,
    /// When it counts as ready.
    pub ready: Option<Ready>,
    /// What must be ready, or have exited 0, first: indices into [`Plan::programs`].
    pub after: Vec<usize>,
}

/// When a program counts as ready.
#[derive(Debug, Clone)]
pub enum Ready {
    /// A socket listens on this port in its host.
    Tcp(u16),
    /// A line of its output matches.
    Log(Regex),
    /// This long after its start.
    Delay(Span),
}

impl PartialEq for Ready {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp(a), Self::Tcp(b)) => a == b,
            (Self::Log(a), Self::Log(b)) => a.as_str() == b.as_str(),
            (Self::Delay(a), Self::Delay(b)) => a == b,
            _ => false,
        }
    }
}

impl Plan {
    /// The hosts that have programs, each once, in order.
    pub fn program_nodes(&self) -> Vec<NodeId> {
        let programs = self.programs.iter();
        let nodes = programs.map(|program| self.hosts[program.host].node);
        nodes.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Reads and checks an experiment file.
    pub fn from_file(path: &Path) -> Result<Self, Errors> {
        Self::from_file_with(path, &[])
    }

    /// Reads an experiment file, applies overrides (path, value) and checks the result.
    pub fn from_file_with(path: &Path, overrides: &[(String, String)]) -> Result<Self, Errors> {
        let text = file::read(path)?;
        Self::from_text_with(&text, &path.display().to_string(), overrides)
    }

    /// Checks the text of an experiment file; `file_name` is what errors call it, and its folder
    /// is where the files lie that links name.
    pub fn from_text(text: &str, file_name: &str) -> Result<Self, Errors> {
        Self::from_text_with(text, file_name, &[])
    }

    /// Applies overrides, such as (`links.ga-gb.delay`, `5 ms`), to the text of an experiment
    /// file and checks the result.
    pub fn from_text_with(
        text: &str,
        file_name: &str,
        overrides: &[(String, String)],
    ) -> Result<Self, Errors> {
        Self::load(text, file_name, overrides, &Elements::default())
    }

    /// The same, where links may name `elements`.
    pub fn load(
        text: &str,
        file_name: &str,
        overrides: &[(String, String)],
        elements: &Elements,
    ) -> Result<Self, Errors> {
        let Loaded {
            spec,
            sources,
            notes,
        } = file::load(text, file_name, overrides, crate::topology::expand)?;
        let mut faults = Faults::default();
        let plan = lower(&spec, file_name, elements, &mut faults);
        match plan.filter(|_| faults.is_empty()) {
            Some(mut plan) => {
                plan.warnings.splice(0..0, notes);
                Ok(plan)
            }
            None => Err(sources.explain(faults)),
        }
    }

    /// The pipes of a link (`x-y`), of an entry of the file that stands for several, of a set of
    /// links or pipes, or the one pipe (`x>y`) of a name.
    ///
    /// # Errors
    /// There is nothing of it.
    pub fn find_pipes(&self, name: &str) -> Result<Vec<PipeId>, SelectError> {
        self.network().pipes(name, &Budget::default(), false)
    }

    /// All pipes from and to a node of a name that forwards, or a set of them.
    ///
    /// # Errors
    /// There is nothing of it, or it is a host.
    pub fn pipes_of_routers(&self, name: &str) -> Result<Vec<PipeId>, SelectError> {
        self.network()
            .pipes_of_routers(name, &Budget::default(), false)
    }

    /// The host of a name, or the only one of a set, as an index into [`Plan::hosts`].
    ///
    /// # Errors
    /// There is none, or more than one.
    pub fn find_host(&self, name: &str) -> Result<usize, SelectError> {
        let node = self.network().host(name, &Budget::default())?;
        let place = self.hosts.binary_search_by_key(&node, |host| host.node);
        place.map_err(|_| SelectError {
            problem: format!("this run has no host `{}`", shown(name)),
            remedy: "name another host".to_owned(),
        })
    }

    fn network(&self) -> Network<'_> {
        Network {
            topology: &self.topology,
            groups: &self.groups,
            labels: &self.labels,
        }
    }

    /// How many packets the pool must hold: those in flight and in queues, capped at what fits into
    /// 1 GiB; in a virtual run, whose packets are headers alone, at most 16 million.
    pub fn packet_slots(&self) -> usize {
        self.packet_slots_of(|_| true)
    }

    /// The same for a share of the network's pipes.
    pub fn packet_slots_of(&self, has: impl Fn(PipeId) -> bool) -> usize {
        let wanted = queues::packets_inside(&self.topology, &self.schedule, self.offload, has);
        if self.clock == RunClock::Virtual {
            return wanted.clamp(queues::POOL_MIN, queues::VIRTUAL_MAX);
        }
        let fits = queues::POOL_BYTES / self.slot_bytes();
        wanted.clamp(queues::POOL_MIN.min(fits), fits)
    }

    /// What hosts' shapers release early, by the pipe that leaves the host, if hosts hand over super-packets.
    pub fn early_releases(&self) -> impl Iterator<Item = (PipeId, EarlyRelease)> {
        let nics = self.hosts.iter().flat_map(|host| &host.nic);
        nics.map(|&pipe| (pipe, EarlyRelease::default()))
    }

    /// How many super-packets may be in flight whole: enough for the pool's packets at 16 to each.
    pub fn super_buffers(&self) -> usize {
        self.packet_slots().div_ceil(16).min(BUFFERS_MAX)
    }

    /// The size of a slot: the largest frame of the experiment, in steps of 256 bytes; in a
    /// virtual run, the headers of a modelled packet.
    pub fn slot_bytes(&self) -> usize {
        if self.clock == RunClock::Virtual {
            return MODELLED_SLOT;
        }
        let pipes = self.topology.pipes().iter().map(|pipe| pipe.mtu);
        let mtu = pipes.max().unwrap_or(self.mtu).max(self.mtu) as usize;
        (mtu + longhaul_core::packet::ETHERNET_LEN).next_multiple_of(256)
    }

    /// The memory of packets and super-packets in bytes; pages that none of them uses take none.
    pub fn memory_bytes(&self) -> u64 {
        let supers = if self.offload {
            self.super_buffers() * SUPER_BYTES
        } else {
            0
        };
        (self.packet_slots() * self.slot_bytes() + supers) as u64
    }
}

/// What `spec` changes about pipes of such a framing.
pub(crate) fn change(
    spec: &At<ChangeSpec>,
    framing: Framing,
    folder: &Path,
    elements: &Elements,
    faults: &mut Faults,
) -> Option<Patch> {
    let context = pipe::Context::new(folder, elements);
    events::change(spec, framing, &context, faults)
}

/// Whether hosts hand over super-packets where the file does not say.
const OFFLOAD_DEFAULT: bool = true;
/// 256 MiB of super-packets, mapped where they are used.
const BUFFERS_MAX: usize = 4096;

/// What links inherit from the experiment.
pub(crate) struct Defaults {
    pub(crate) mtu: u32,
    pub(crate) framing: Framing,
}

fn lower(
    spec: &Experiment,
    file_name: &str,
    elements: &Elements,
    faults: &mut Faults,
) -> Option<Plan> {
    let name = name(spec, file_name, faults);
    let seed = spec.seed.as_ref().map_or(1, |seed| seed.value);
    let limits = Limits::of(clock::read(spec, faults));
    let duration = positive(
        spec.duration.as_ref(),
        "a `duration` of 0 s leaves a run no time",
        faults,
    );
    clock::check(spec, limits.clock, duration, faults);
    let tolerance = positive(
        spec.tolerance.as_ref(),
        "no packet can be on time with a tolerance of 0 s",
        faults,
    );
    if let (Some(field), Some(wide)) = (&spec.tolerance, tolerance)
        && wide > TOLERANCE_MAX
    {
        faults.add(
            field.at(),
            "a tolerance above 100 ms has no effect: a packet that late makes the run broken",
            "write a time such as `500 us`, or leave it out for `200 us`",
        );
    }
    let framing = spec
        .framing
        .as_ref()
        .and_then(|framing| framing.get(faults));
    let defaults = Defaults {
        mtu: mtu(spec.mtu.as_ref(), faults).unwrap_or(MTU_DEFAULT),
        framing: framing.unwrap_or_default(),
    };
    let tcp = hosts::TcpWish::new(spec.tcp.as_ref(), faults);

    let folder = Path::new(file_name).parent().unwrap_or(Path::new(""));
    let context = pipe::Context::new(folder, elements);

    let nodes = nodes::expand(&spec.topology, &limits, faults);
    let mut links = links::expand(
        &spec.topology,
        &nodes,
        (&defaults, &limits),
        &context,
        faults,
    );
    lans::check(&spec.topology, &nodes, &links, faults);
    let programs = programs::expand(&spec.programs, &nodes, faults);
    let positions = positions::read(&spec.topology, faults);
    let mut warnings = Vec::new();
    let resources = resources::read(spec, limits.clock, &mut warnings, faults);
    let addressed = addresses::assign(&spec.topology, &nodes, faults);
    if !faults.is_empty() {
        return None;
    }
    let topology = match Topology::new(addressed, std::mem::take(&mut links.list)) {
        Ok(topology) => Arc::new(topology),
        // Earlier checks have reported every such error, with its place; this one is a safeguard.
        Err(error) => {
            faults.push(crate::text::error::Fault::new(error.to_string()));
            return None;
        }
    };
    paths::check_reachable(&topology, &nodes, faults);
    let reach = paths::measure(&topology);
    let hosts = hosts::lower(
        spec,
        &topology,
        &nodes,
        &reach,
        (&tcp, defaults.mtu, &resources),
        faults,
    );
    warnings.extend(queues::warnings(&topology, &reach, &links.origin));
    let groups = links.groups(&topology);
    let labels = NetworkLabels {
        nodes: nodes
            .labels
            .map(|node| topology.find(&nodes.list[node].name)),
        links: links.labels(&topology),
    };
    let network = Network {
        topology: &topology,
        groups: &groups,
        labels: &labels,
    };
    let schedule = events::lower(spec, &network, &context, duration, &mut warnings, faults);
    let measure = measure::lower(spec.measure.as_ref(), &network, faults);
    warnings.extend(measure::warning(&measure, limits.clock));
    let programs = programs::lower(programs, &nodes, &hosts, &mut warnings, faults);
    let traffic = flows::lower(
        &spec.traffic,
        &flows::Context {
            limits,
            network,
            topology: &topology,
            nodes: &nodes,
            hosts: &hosts,
            folder,
            seed,
            duration,
            mtu: topology
                .pipes()
                .iter()
                .map(|pipe| pipe.mtu)
                .min()
                .unwrap_or(defaults.mtu),
        },
        &mut warnings,
        faults,
    );
    clock::check_end(
        spec,
        limits.clock,
        (&traffic, &programs),
        duration,
        &mut warnings,
        faults,
    );
    Some(Plan {
        name,
        clock: limits.clock,
        seed,
        duration,
        mtu: defaults.mtu,
        tolerance: tolerance.unwrap_or(Span::from_us(200)),
        offload: spec.offload.unwrap_or(OFFLOAD_DEFAULT),
        asks_for_offload: spec.offload == Some(true),
        topology,
        hosts,
        programs,
        traffic: Arc::new(traffic),
        groups,
        labels,
        schedule: Arc::new(schedule),
        measure,
        elements: elements.clone(),
        positions,
        warnings,
    })
}

/// The experiment's name: given, or made of the file's.
fn name(spec: &Experiment, file_name: &str, faults: &mut Faults) -> String {
    if let Some(name) = &spec.name {
        if let Err(problem) = check_name(&name.value) {
            let message = format!("`{}` is not a name: {problem}", shown(&name.value));
            faults.add(name.at, message, NAME_HINT);
        }
        return name.value.clone();
    }
    let stem = Path::new(file_name)
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy();
    let allowed = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '-'
        }
    };
    let name: String = stem.chars().take(60).map(allowed).collect();
    let name = name.trim_matches(['-', '.']);
    if name.is_empty() {
        "experiment".to_owned()
    } else {
        name.to_owned()
    }
}

/// A span that must not be zero.
fn positive(field: Option<&Quantity<Span>>, problem: &str, faults: &mut Faults) -> Option<Span> {
    let field = field?;
    let span = field.get(faults)?;
    if span == Span::ZERO {
        faults.add(
            field.at(),
            problem,
            "write a time such as `30 s`, or leave it out",
        );
        return None;
    }
    Some(span)
}

/// An MTU within what IPv6 and Ethernet allow.
fn mtu(field: Option<&Quantity<Mtu>>, faults: &mut Faults) -> Option<u32> {
    let field = field?;
    let Mtu(mtu) = field.get(faults)?;
    let message = if mtu < MTU_MIN {
        format!("an MTU of {mtu} is too small: IPv6 needs at least {MTU_MIN} bytes")
    } else if mtu > MTU_MAX {
        format!("an MTU of {mtu} is too large: at most {MTU_MAX} bytes")
    } else {
        return Some(mtu);
    };
    faults.add(
        field.at(),
        message,
        "write a number such as `1500` or `9000`",
    );
    None
}
