//! The types of the experiment file, field by field as a person writes it.
//!
//! The comments of the public fields are the descriptions in the JSON Schema. What the fields
//! mean together is checked by [`crate::plan`].

use longhaul_core::Span;
use longhaul_core::units::{Bytes, Framing};
use schemars::JsonSchema;
use serde::Deserialize;

use super::generate::{Generate, Import};
use super::link::{EventSpec, LinkSpec, RoutingSpec};
use super::measure::MeasureSpec;
use super::resources::{CpuField, DiskSpec, ResourceFields};
use super::traffic::TrafficSpec;
use super::wrap::{At, Checked, LabelsSpec, Mtu, Named, OneOrMany, Quantity, Scalar};

/// An experiment: a network, and the programs that run on its hosts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "an experiment (`topology: …`, `programs: …`)"
)]
#[schemars(title = "Longhaul experiment")]
pub(crate) struct Experiment {
    /// What the experiment is called: letters, digits, `-`, `_` and `.`. Default: the file's
    /// name without its ending.
    pub(crate) name: Option<At<String>>,
    /// The seed of every random draw. Default: 1.
    pub(crate) seed: Option<At<u64>>,
    /// What drives the experiment's time. Default: `real`.
    pub(crate) clock: Option<At<Clock>>,
    /// Upper bound of the run; it ends earlier when its programs, and all traffic that ends by itself,
    /// have ended. Default: none.
    pub(crate) duration: Option<Quantity<Span>>,
    /// The largest IP packet, in bytes, of links that set no `mtu`; 1280 to 9216. Default: 1500.
    pub(crate) mtu: Option<Quantity<Mtu>>,
    /// Which bytes of a packet count against a link's rate, for links that set no `framing`.
    /// Default: `ethernet`.
    pub(crate) framing: Option<Quantity<Framing>>,
    /// How much later than due a packet may leave without counting as late; above 0, at most 100 ms.
    /// Default: 200 us.
    pub(crate) tolerance: Option<Quantity<Span>>,
    /// Whether hosts send super-packets (segmentation offload), which are split into packets at
    /// ingress. Default: true.
    pub(crate) offload: Option<bool>,
    /// Nodes and the links between them.
    pub(crate) topology: TopologySpec,
    /// TCP settings of all hosts that set none.
    pub(crate) tcp: Option<Tcp>,
    /// The programs to run, by name.
    #[serde(default)]
    pub(crate) programs: Named<Checked<Program>>,
    /// Modelled flows, by name: they share the links with the packets of programs.
    #[serde(default)]
    pub(crate) traffic: Named<Checked<At<TrafficSpec>>>,
    /// What happens to links and routers during the run.
    #[serde(default)]
    pub(crate) events: Vec<Checked<At<EventSpec>>>,
    /// How routers react to failures.
    pub(crate) routing: Option<RoutingSpec>,
    /// Which series and captures the run records. Default: one row a second.
    pub(crate) measure: Option<MeasureSpec>,
}

/// What drives the experiment's time.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(
    rename_all = "lowercase",
    expecting = "`real`, `virtual` or `{ dilated: 10 }`"
)]
pub(crate) enum Clock {
    /// The machine's clock: programs run at their own speed.
    Real,
    /// As fast as the machine computes; for modelled traffic without programs.
    Virtual,
    /// One second of experiment time takes this many seconds of real time.
    Dilated(
        #[expect(
            dead_code,
            reason = "this version runs only the real and the virtual clock"
        )]
        u32,
    ),
}

/// Nodes and links.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a topology (`nodes: …`, `links: …`)")]
pub(crate) struct TopologySpec {
    /// A generated topology: its kind and parameters; `nodes` and `links` are added to it.
    #[expect(
        dead_code,
        reason = "it has become nodes and links when the file is decoded"
    )]
    pub(crate) generate: Option<Generate>,
    /// A topology from a file in another format; `nodes` and `links` are added to it.
    #[expect(
        dead_code,
        reason = "it has become nodes and links when the file is decoded"
    )]
    pub(crate) import: Option<Import>,
    /// Hosts and routers by name.
    #[schemars(default)]
    pub(crate) nodes: Named<Checked<NodeSpec>>,
    /// Duplex links between them.
    #[serde(default)]
    pub(crate) links: Vec<Checked<At<LinkSpec>>>,
}

/// A node, or a group of nodes with the same fields.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a node, like `{ kind: host }`")]
pub(crate) struct NodeSpec {
    /// Hosts run programs, routers forward packets, LAN segments join what is linked to them. Default:
    /// `host`.
    #[serde(default)]
    pub(crate) kind: Kind,
    /// Makes this a group of this many nodes: NAME0, NAME1 and so on.
    pub(crate) count: Option<At<u32>>,
    /// An IPv4 address, an IPv6 address or a list of one of each. Default: assigned automatically.
    #[serde(default)]
    pub(crate) address: OneOrMany,
    /// Properties by which sets select it, like `{ tier: edge }`: `tier=edge` stands for all nodes
    /// that have it.
    #[schemars(with = "Option<Named<Scalar>>")]
    pub(crate) labels: Option<Box<LabelsSpec>>,
    /// TCP settings of this host. Default: the experiment's.
    pub(crate) tcp: Option<At<Tcp>>,
    /// The CPU time of its programs: a share of one CPU, a number of CPUs, or a number and a speed.
    /// Default: all that the machine has for programs.
    pub(crate) cpu: Option<CpuField>,
    /// The memory of its programs. Default: the machine's.
    pub(crate) memory: Option<Quantity<Bytes>>,
    /// The speed of its disk. Default: the machine's.
    pub(crate) disk: Option<Box<At<DiskSpec>>>,
    /// Where drawings show it: x to the right, y upwards, in any unit.
    #[schemars(with = "Option<[f64; 2]>")]
    pub(crate) position: Option<At<Vec<At<String>>>>,
}

impl NodeSpec {
    /// What is said of its resources.
    pub(crate) fn resources(&self) -> ResourceFields<'_> {
        ResourceFields {
            cpu: self.cpu.as_ref(),
            memory: self.memory.as_ref(),
            disk: self.disk.as_deref(),
        }
    }
}

/// What a node does with packets that are not addressed to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", expecting = "`host`, `router` or `lan`")]
pub(crate) enum Kind {
    /// Runs programs; never forwards.
    #[default]
    Host,
    /// Forwards packets; runs no programs.
    Router,
    /// A LAN segment: joins hosts and routers as a switch does, and floods broadcast and multicast.
    Lan,
}

/// TCP settings of a host's kernel.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "TCP settings, like `{ congestion: reno }`"
)]
pub(crate) struct Tcp {
    /// Congestion control, by the kernel's name. Default: `cubic`.
    pub(crate) congestion: Option<At<String>>,
    /// Largest receive buffer (maximum of `tcp_rmem`). Default: four times the largest bandwidth-delay
    /// product of the host's paths.
    pub(crate) rmem: Option<Quantity<Bytes>>,
    /// Largest send buffer (maximum of `tcp_wmem`). Default: four times the largest bandwidth-delay
    /// product of the host's paths.
    pub(crate) wmem: Option<Quantity<Bytes>>,
    /// Explicit congestion notification. Default: false.
    pub(crate) ecn: Option<bool>,
}

/// A program.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a program, like `{ on: a, run: iperf3 -s }`"
)]
pub(crate) struct Program {
    /// Where it runs: a host, a group, `all`, a pattern (`web*`), a label (`tier=edge`), or a list
    /// of these.
    pub(crate) on: OneOrMany,
    /// The command: a text that is split like a shell word list, or a list of words.
    pub(crate) run: OneOrMany,
    /// When it counts as ready: `tcp PORT`, `log REGEX` or a time such as `2 s`.
    pub(crate) ready: Option<At<String>>,
    /// The program or programs that must be ready, or have exited 0, before this one starts.
    #[serde(default)]
    pub(crate) after: OneOrMany,
    /// Whether it is a service: the run does not wait for it to end, and stops it at its own end.
    /// Default: false.
    #[serde(default)]
    pub(crate) service: bool,
    /// Additional environment variables.
    #[serde(default)]
    #[schemars(with = "Named<Scalar>")]
    pub(crate) env: Named<At<String>>,
    /// Its working folder; a relative path starts at the experiment file. Default: a folder per host
    /// inside the run folder.
    pub(crate) cwd: Option<At<String>>,
    /// How long it may run before it is stopped, which is a failure. Default: no limit.
    pub(crate) timeout: Option<Quantity<Span>>,
    /// The user that it runs as. Default: `caller`.
    #[serde(default, rename = "as")]
    pub(crate) user: User,
}

/// The user that a program runs as.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", expecting = "`caller` or `root`")]
pub(crate) enum User {
    /// The user who started the run.
    #[default]
    Caller,
    /// Root within the run's own namespaces.
    Root,
}
