//! From the flows of a plan to the endpoints of an emulation.
//!
//! Flows are enumerated in the same order each time (the specifications here, results and names
//! later), so that nothing is stored besides what the endpoints store themselves.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Write as _;
use std::sync::Arc;

use longhaul_core::NodeId;
use longhaul_proto::modelled::{
    Amount, Application, Error, FlowSpec, FlowTable, Host, IpVersion, Name, Peer, Transport,
};
use longhaul_proto::tcp::Config;

use longhaul_plan::flow_groups::{Carrier, Flow, FlowGroup, Gaps, TcpChoice, Work};
use longhaul_plan::plan::{Plan, TcpProfile};

/// The endpoints of a plan.
pub(crate) struct Endpoints {
    /// The hosts that have any, by number.
    hosts: Vec<NodeId>,
}

impl Endpoints {
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut has = vec![false; plan.topology.nodes().len()];
        for group in &plan.traffic.groups {
            for (from, to) in group.pairs.iter() {
                has[from.index()] = true;
                // A program's host has a kernel.
                has[to.index()] |= group.port.is_none();
            }
        }
        let hosts = has.into_iter().zip((0..).map(NodeId));
        Self {
            hosts: hosts
                .filter(|(has, _)| *has)
                .map(|(_, node)| node)
                .collect(),
        }
    }

    /// The hosts that have any, by number.
    pub(crate) fn hosts(&self) -> &[NodeId] {
        &self.hosts
    }

    /// What flows there are between them.
    pub(crate) fn table(&self, plan: &Plan) -> Result<FlowTable, Error> {
        let mut builder = SpecBuilder::new(plan);
        let flows = plan.traffic.flows(&plan.topology, plan.seed);
        let flows = flows.map(|flow| builder.spec(&flow));
        let named = plan.traffic.groups.iter().filter(|g| g.port.is_some());
        let programs = named.flat_map(|group| group.pairs.iter().map(|(_, to)| to));
        let mut nodes: Vec<NodeId> = self.hosts.iter().copied().chain(programs).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let host = |node: NodeId| {
            let addresses = plan.topology.node(node);
            Host {
                node,
                ipv4: addresses.ipv4,
                ipv6: addresses.ipv6,
            }
        };
        let hosts = nodes.into_iter().map(host).collect();
        FlowTable::new(hosts, flows)
    }
}

/// Makes specifications, and shares what they have in common.
struct SpecBuilder<'a> {
    plan: &'a Plan,
    /// The TCP of each node, as a number.
    profiles: Vec<u32>,
    by_profile: Vec<&'a TcpProfile>,
    /// By group and the profiles of the two hosts.
    configs: HashMap<(usize, u32, u32), Arc<Config>>,
    /// By group and pair of hosts: the name of its flows, and how many there have been.
    names: HashMap<(usize, NodeId, NodeId), (Arc<str>, u32)>,
}

impl<'a> SpecBuilder<'a> {
    fn new(plan: &'a Plan) -> Self {
        let mut known: HashMap<&TcpProfile, u32> = HashMap::new();
        let mut by_profile = Vec::new();
        let mut profiles = vec![0; plan.topology.nodes().len()];
        for host in &plan.hosts {
            profiles[host.node.index()] = *known.entry(&host.tcp).or_insert_with(|| {
                by_profile.push(&host.tcp);
                by_profile.len() as u32 - 1
            });
        }
        Self {
            plan,
            profiles,
            by_profile,
            configs: HashMap::new(),
            names: HashMap::new(),
        }
    }

    fn spec(&mut self, flow: &Flow) -> FlowSpec {
        let plan = self.plan;
        let group = &plan.traffic.groups[flow.group];
        let version = if group.ipv6 {
            IpVersion::V6
        } else {
            IpVersion::V4
        };
        FlowSpec {
            name: self.name(flow, group),
            from: flow.from,
            to: match group.port {
                Some(port) => Peer::Program(flow.to, port),
                None => Peer::Model(flow.to),
            },
            transport: match &group.work {
                Work::Bulk { tcp, .. }
                | Work::Requests { tcp, .. }
                | Work::Paced {
                    by: Carrier::Tcp(tcp),
                    ..
                } => Transport::Tcp(self.config(flow, tcp), version),
                Work::Paced {
                    by: Carrier::Udp(payload),
                    ..
                } => Transport::Udp {
                    payload: *payload,
                    ip: version,
                },
            },
            application: application(&group.work, flow),
            start: flow.start,
            stop: group.stop,
            series: group.series,
        }
    }

    /// Names are what the draws of endpoints follow from. Where there are draws, the flows of a
    /// pair share its name and have their own numbers, so that other pairs change nothing about
    /// them; where there are none, the flows of an entry share its name, which takes no memory.
    fn name(&mut self, flow: &Flow, group: &FlowGroup) -> Name {
        let draws = !matches!(group.work, Work::Bulk { .. });
        let pair = if draws {
            (flow.group, flow.from, flow.to)
        } else {
            (flow.group, NodeId(0), NodeId(0))
        };
        let (name, count) = self.names.entry(pair).or_insert_with(|| {
            let mut name = group.name.clone();
            if draws {
                let node = |id| self.plan.topology.node(id).name.as_str();
                let _ = write!(name, "@{}>{}", node(flow.from), node(flow.to));
            }
            (name.into(), 0)
        });
        *count += 1;
        Name {
            group: Arc::clone(name),
            number: Some(*count - 1),
        }
    }

    fn config(&mut self, flow: &Flow, choice: &TcpChoice) -> Arc<Config> {
        let [from, to] = [flow.from, flow.to].map(|node| self.profiles[node.index()]);
        match self.configs.entry((flow.group, from, to)) {
            Entry::Occupied(entry) => Arc::clone(entry.get()),
            Entry::Vacant(entry) => {
                let [from, to] = [from, to].map(|profile| self.by_profile[profile as usize]);
                Arc::clone(entry.insert(Arc::new(choice.config(from, to))))
            }
        }
    }
}

fn application(work: &Work, flow: &Flow) -> Application {
    match work {
        Work::Bulk { .. } => match flow.rate {
            None => Application::Bulk {
                bytes: flow.bytes.map(Amount::Fixed),
            },
            Some(rate) => Application::Constant {
                rate,
                bytes: flow.bytes,
            },
        },
        Work::Requests {
            request,
            response,
            think,
            count,
            reuses_connection,
            ..
        } => Application::Requests {
            requests: *count,
            request: request.amount(),
            response: response.amount(),
            think: think.amount(),
            new_connection: !reuses_connection,
        },
        Work::Paced { rate, gaps, .. } => {
            let (rate, bytes) = (flow.rate.unwrap_or(*rate), flow.bytes);
            match gaps {
                Gaps::Even => Application::Constant { rate, bytes },
                Gaps::Poisson => Application::Poisson { rate, bytes },
                Gaps::OnOff(on, off) => Application::OnOff {
                    rate,
                    bytes,
                    on: on.amount(),
                    off: off.amount(),
                },
            }
        }
    }
}
