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
    /// Every random draw follows from it. Default: 1.
    pub(crate) seed: Option<At<u64>>,
    /// What drives the experiment's time. Default: `real`.
    pub(crate) clock: Option<At<Clock>>,
    /// Upper bound of the run; it ends earlier when its programs have ended. Default: none.
    pub(crate) duration: Option<Quantity<Span>>,
    /// The largest IP packet of links that do not say their own, in bytes, 1280 to 9216.
    /// Default: 1500.
    pub(crate) mtu: Option<Quantity<Mtu>>,
    /// Which bytes of a packet use up a link's rate, for links that do not say their own.
    /// Default: `ethernet`.
    pub(crate) framing: Option<Quantity<Framing>>,
    /// How late packets may be in a run that is called faithful. Default: 200 us.
    pub(crate) tolerance: Option<Quantity<Span>>,
    /// Whether hosts hand over super-packets, which are split into packets at the door. Default:
    /// true.
    pub(crate) offload: Option<bool>,
    /// Nodes and the links between them.
    pub(crate) topology: TopologySpec,
    /// TCP of all hosts that do not say their own.
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
    /// What is written down as the run goes on. Default: one row a second.
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
    /// As fast as the machine computes; for traffic that is modelled.
    Virtual,
    /// So many seconds of real time carry one second of experiment time.
    Dilated(#[expect(dead_code, reason = "this version runs only the real clock")] u32),
}

/// Nodes and links.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a topology (`nodes: …`, `links: …`)")]
pub(crate) struct TopologySpec {
    /// A topology by its name and parameters; `nodes` and `links` are added to it.
    #[expect(
        dead_code,
        reason = "it has become nodes and links when the file is decoded"
    )]
    pub(crate) generate: Option<Generate>,
    /// A topology of another format; `nodes` and `links` are added to it.
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

/// A node, or a group of equal nodes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a node, like `{ kind: host }`")]
pub(crate) struct NodeSpec {
    /// Hosts run programs, routers forward, lans join what is linked to them. Default: `host`.
    #[serde(default)]
    pub(crate) kind: Kind,
    /// Makes this a group: the nodes NAME0, NAME1 and so on, so many of them.
    pub(crate) count: Option<At<u32>>,
    /// An IPv4 address, an IPv6 address or a list of one of each. Default: given automatically.
    #[serde(default)]
    pub(crate) address: OneOrMany,
    /// What it has in common with others, like `{ tier: edge }`: `tier=edge` then stands for all
    /// that have it.
    #[schemars(with = "Option<Named<Scalar>>")]
    pub(crate) labels: Option<Box<LabelsSpec>>,
    /// TCP of this host.
    pub(crate) tcp: Option<At<Tcp>>,
    /// The CPU time of its programs: a share of one CPU, a number of CPUs, or a number and a speed.
    /// Default: all that the machine has for programs.
    pub(crate) cpu: Option<CpuField>,
    /// The memory of its programs. Default: the machine's.
    pub(crate) memory: Option<Quantity<Bytes>>,
    /// How fast its disk is. Default: the machine's.
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

/// What a node does with packets that are not for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", expecting = "`host`, `router` or `lan`")]
pub(crate) enum Kind {
    /// Runs programs; never forwards.
    #[default]
    Host,
    /// Forwards packets; runs no programs.
    Router,
    /// A segment: joins hosts and routers as a switch does, and floods broadcast and multicast.
    Lan,
}

/// The TCP of a host's kernel.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "TCP settings, like `{ congestion: reno }`"
)]
pub(crate) struct Tcp {
    /// Congestion control. Default: `cubic`.
    pub(crate) congestion: Option<At<String>>,
    /// Largest receive buffer. Default: four times the largest bandwidth-delay product.
    pub(crate) rmem: Option<Quantity<Bytes>>,
    /// Largest send buffer. Default: four times the largest bandwidth-delay product.
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
    /// A service does not hold the run and is stopped at its end. Default: false.
    #[serde(default)]
    pub(crate) service: bool,
    /// Further environment variables.
    #[serde(default)]
    #[schemars(with = "Named<Scalar>")]
    pub(crate) env: Named<At<String>>,
    /// Where it runs. Default: a folder per host inside the run folder.
    pub(crate) cwd: Option<At<String>>,
    /// How long it may run before it is stopped, which is a failure. Default: no limit.
    pub(crate) timeout: Option<Quantity<Span>>,
    /// Whose rights it has. Default: `caller`.
    #[serde(default, rename = "as")]
    pub(crate) user: User,
}

/// Whose rights a program has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", expecting = "`caller` or `root`")]
pub(crate) enum User {
    /// The user's own.
    #[default]
    Caller,
    /// Those of root within the run's own namespaces.
    Root,
}
