//! The plan: an experiment file checked against nothing but itself and lowered to numbers.
//!
//! The same file gives the same plan on every machine, whatever the order of its entries:
//! hosts are numbered and addressed in the natural order of their names (`a2` before `a10`).
//! Steps, each in a file of its own: [`nodes`] expands groups, [`links`] names links, [`pipe`]
//! says what they do, [`addresses`] gives addresses, [`paths`] finds unreachable pairs and
//! buffers, [`queues`] what queues hold and which are too short or too long, [`events`] what
//! happens when, [`programs`] orders programs. Problems of independent entries are all reported.
//!
//! Traces and tables that a file names are read with it, relative to its folder.
//!
//! Left out: whether this machine can run the plan (`doctor`, and the run itself).

mod addresses;
mod events;
mod lans;
mod links;
mod nodes;
mod paths;
mod pipe;
mod positions;
mod programs;
mod queues;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use longhaul_core::segment::SUPER_BYTES;
use longhaul_core::topology::NodeKind;
use longhaul_core::units::Framing;
use longhaul_core::{NodeId, PipeId, Span, Topology};
use regex::bytes::Regex;

use crate::elements::Elements;
use crate::file::error::{Errors, Faults, shown};
use crate::file::link::ChangeSpec;
use crate::file::spec::{Clock, Experiment, Tcp};
use crate::file::wrap::{At, Mtu, Quantity};
use crate::file::{self, Loaded};
use crate::patch::Patch;
use crate::schedule::Schedule;

pub(crate) use nodes::check_host_name;

/// The most hosts of an experiment.
pub const MAX_HOSTS: usize = 20_000;
/// The most routers, and the most lans.
pub const MAX_ROUTERS: usize = 100_000;
/// The most links.
pub const MAX_LINKS: usize = 200_000;
/// The most programs, each counted once per host that it runs on.
pub const MAX_PROGRAMS: usize = 10_000;

/// The smallest MTU: IPv6 requires 1280 bytes (RFC 8200 §5).
const MTU_MIN: u32 = 1280;
/// The largest MTU: jumbo frames.
const MTU_MAX: u32 = 9216;
const MTU_DEFAULT: u32 = 1500;
/// The largest and smallest TCP buffers that a file may ask for.
const TCP_BUFFER: std::ops::RangeInclusive<u64> = 4096..=1 << 30;

/// An experiment, ready to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What it is called.
    pub name: String,
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
    /// Whether the file itself says so, and wants to know where it cannot be.
    pub asks_for_offload: bool,
    /// The network.
    pub topology: Topology,
    /// The hosts, by node number.
    pub hosts: Vec<HostPlan>,
    /// The programs, in the natural order of their names.
    pub programs: Vec<ProgramPlan>,
    /// The pipes of each entry of the file that stands for several links, by what it is called
    /// there: `x-y` after groups, or its name.
    pub groups: BTreeMap<String, Vec<PipeId>>,
    /// What happens during the run.
    pub schedule: Arc<Schedule>,
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
}

/// The TCP of a host's kernel, pinned whatever the machine's defaults are.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// So long after its start.
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
        } = file::load(text, file_name, overrides)?;
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

    /// The pipes of a link (`x-y`), of an entry of the file that stands for several, or the one
    /// pipe (`x>y`) of a name; none where there is nothing of it.
    pub fn find_pipes(&self, name: &str) -> Vec<PipeId> {
        find_pipes(&self.topology, &self.groups, name)
    }

    /// All pipes from and to a node of a name that forwards; `None` where there is none.
    pub fn pipes_of_router(&self, name: &str) -> Option<Vec<PipeId>> {
        let node = self.topology.find(name)?;
        if self.topology.node(node).kind == NodeKind::Host {
            return None;
        }
        Some(pipes_at(&self.topology, node))
    }

    /// How many packets the pool must hold: what may be under way and in queues, at most what
    /// fits into 1 GiB.
    pub fn packet_slots(&self) -> usize {
        let wanted = queues::packets_inside(&self.topology, &self.schedule, self.offload);
        let fits = queues::POOL_BYTES / self.slot_bytes();
        wanted.clamp(queues::POOL_MIN.min(fits), fits)
    }

    /// How many super-packets may be under way whole: enough for the pool's packets at 16 to each.
    pub fn super_buffers(&self) -> usize {
        self.packet_slots().div_ceil(16).min(BUFFERS_MAX)
    }

    /// The size of a slot: the largest frame of the experiment, in steps of 256 bytes.
    pub fn slot_bytes(&self) -> usize {
        let pipes = self.topology.pipes().iter().map(|pipe| pipe.mtu);
        let mtu = pipes.max().unwrap_or(self.mtu).max(self.mtu) as usize;
        (mtu + longhaul_core::packet::ETHERNET_LEN).next_multiple_of(256)
    }

    /// The memory of packets and super-packets in bytes; pages that none of them uses take none.
    pub fn memory_bytes(&self) -> u64 {
        let supers = match self.offload {
            true => self.super_buffers() * SUPER_BYTES,
            false => 0,
        };
        (self.packet_slots() * self.slot_bytes() + supers) as u64
    }
}

/// See [`Plan::find_pipes`].
fn find_pipes(
    topology: &Topology,
    groups: &BTreeMap<String, Vec<PipeId>>,
    name: &str,
) -> Vec<PipeId> {
    let pipes = topology.find_pipes(name);
    match groups.get(name) {
        Some(group) if pipes.is_empty() => group.clone(),
        _ => pipes,
    }
}

/// All pipes from and to a node.
fn pipes_at(topology: &Topology, node: NodeId) -> Vec<PipeId> {
    let pipes = topology.outgoing(node).iter();
    let both = pipes.flat_map(|&pipe| [pipe, topology.pipe(pipe).back]);
    both.collect()
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
    check_clock(spec, faults);
    let duration = positive(
        spec.duration.as_ref(),
        "a run of no time does nothing",
        faults,
    );
    let tolerance = positive(
        spec.tolerance.as_ref(),
        "no packet can be on time to 0 s",
        faults,
    );
    let framing = spec
        .framing
        .as_ref()
        .and_then(|framing| framing.get(faults));
    let defaults = Defaults {
        mtu: mtu(spec.mtu.as_ref(), faults).unwrap_or(MTU_DEFAULT),
        framing: framing.unwrap_or_default(),
    };
    let tcp = TcpWish::new(spec.tcp.as_ref(), faults);

    let folder = Path::new(file_name).parent().unwrap_or(Path::new(""));
    let context = pipe::Context::new(folder, elements);

    let nodes = nodes::expand(&spec.topology, faults);
    let mut links = links::expand(&spec.topology, &nodes, &defaults, &context, faults);
    lans::check(&spec.topology, &nodes, &links, faults);
    let programs = programs::expand(&spec.programs, &nodes, faults);
    let positions = positions::read(&spec.topology, faults);
    let addressed = addresses::assign(&spec.topology, &nodes, faults);
    if !faults.is_empty() {
        return None;
    }
    let topology = match Topology::new(addressed, std::mem::take(&mut links.list)) {
        Ok(topology) => topology,
        // All of them are found before, with their place.
        Err(error) => {
            faults.push(crate::file::error::Fault::new(error.to_string()));
            return None;
        }
    };
    paths::check_reachable(&topology, &nodes, faults);
    let reach = paths::measure(&topology);
    let hosts = hosts(
        spec,
        &topology,
        &nodes,
        &reach,
        (&tcp, defaults.mtu),
        faults,
    );
    let mut warnings = queues::warnings(&topology, &reach, &links.origin);
    let groups = links.groups(&topology);
    let network = events::Network {
        topology: &topology,
        groups: &groups,
    };
    let schedule = events::lower(spec, &network, &context, duration, &mut warnings, faults);
    let programs = programs::lower(programs, &nodes, &hosts, &mut warnings, faults);
    Some(Plan {
        name,
        seed: spec.seed.as_ref().map_or(1, |seed| seed.value),
        duration,
        mtu: defaults.mtu,
        tolerance: tolerance.unwrap_or(Span::from_us(200)),
        offload: spec.offload.unwrap_or(OFFLOAD_DEFAULT),
        asks_for_offload: spec.offload == Some(true),
        topology,
        hosts,
        programs,
        groups,
        schedule: Arc::new(schedule),
        elements: elements.clone(),
        positions,
        warnings,
    })
}

/// The experiment's name: given, or made of the file's.
fn name(spec: &Experiment, file_name: &str, faults: &mut Faults) -> String {
    if let Some(name) = &spec.name {
        if let Err(problem) = nodes::check_name(&name.value) {
            let message = format!("`{}` is no name: {problem}", shown(&name.value));
            faults.add(name.at, message, nodes::NAME_HINT);
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

fn check_clock(spec: &Experiment, faults: &mut Faults) {
    let Some(clock) = &spec.clock else { return };
    let asked = match clock.value {
        Clock::Real => return,
        Clock::Virtual => "virtual",
        Clock::Dilated(_) => "dilated",
    };
    let message = format!("this version runs only the real clock, not the {asked} one");
    faults.add(clock.at, message, "write `clock: real`, or leave it out");
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

/// The TCP that a file asks for; what is absent is pinned to the defaults.
#[derive(Debug, Clone, Default)]
pub(crate) struct TcpWish {
    congestion: Option<String>,
    rmem: Option<u64>,
    wmem: Option<u64>,
    ecn: Option<bool>,
}

impl TcpWish {
    fn new(spec: Option<&Tcp>, faults: &mut Faults) -> Self {
        let Some(spec) = spec else {
            return Self::default();
        };
        let mut buffer = |field: &Option<Quantity<longhaul_core::units::Bytes>>| {
            let field = field.as_ref()?;
            let bytes = field.get(faults)?.0;
            if !TCP_BUFFER.contains(&bytes) {
                let message = "a TCP buffer must have between 4 KiB and 1 GiB";
                faults.add(field.at(), message, "write it like `16 MiB`");
            }
            Some(bytes)
        };
        let (rmem, wmem) = (buffer(&spec.rmem), buffer(&spec.wmem));
        let congestion = spec.congestion.as_ref().map(|name| {
            // The kernel's bound is TCP_CA_NAME_MAX, 16 with the closing zero.
            let fits = (1..16).contains(&name.value.len());
            let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            if !fits || !name.value.chars().all(known) {
                let message = format!("`{}` is no congestion control", shown(&name.value));
                faults.add(
                    name.at,
                    message,
                    "write a name such as `cubic`, `reno` or `bbr`",
                );
            }
            name.value.clone()
        });
        Self {
            congestion,
            rmem,
            wmem,
            ecn: spec.ecn,
        }
    }

    /// With what is absent here taken from `other`.
    fn or(self, other: &Self) -> Self {
        Self {
            congestion: self.congestion.or_else(|| other.congestion.clone()),
            rmem: self.rmem.or(other.rmem),
            wmem: self.wmem.or(other.wmem),
            ecn: self.ecn.or(other.ecn),
        }
    }
}

fn hosts(
    spec: &Experiment,
    topology: &Topology,
    nodes: &nodes::Nodes,
    reach: &paths::Reach,
    (tcp, mtu): (&TcpWish, u32),
    faults: &mut Faults,
) -> Vec<HostPlan> {
    let entries = &spec.topology.nodes.0;
    let wishes: Vec<TcpWish> = entries
        .iter()
        .map(|(_, node)| {
            let own = node.0.as_ref().and_then(|node| node.tcp.as_ref());
            TcpWish::new(own.map(|own| &own.value), faults).or(tcp)
        })
        .collect();
    let host = |(id, node): (NodeId, &longhaul_core::topology::Node)| {
        let entry = nodes
            .find(&node.name)
            .map_or(0, |index| nodes.list[index].entry);
        let wish = wishes.get(entry).unwrap_or(tcp);
        let nic = topology.outgoing(id).to_vec();
        let buffer = reach.tcp_buffer(id);
        HostPlan {
            node: id,
            name: node.name.clone(),
            mtu: nic
                .iter()
                .map(|pipe| topology.pipe(*pipe).mtu)
                .min()
                .unwrap_or(mtu),
            tcp: TcpProfile {
                congestion: wish
                    .congestion
                    .clone()
                    .unwrap_or_else(|| "cubic".to_owned()),
                rmem_max: wish.rmem.unwrap_or(buffer),
                wmem_max: wish.wmem.unwrap_or(buffer),
                ecn: wish.ecn.unwrap_or(false),
            },
            nic,
        }
    };
    topology.hosts().map(host).collect()
}
