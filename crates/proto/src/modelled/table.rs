//! The flows of a run as they are before anything happens: one table, which all that hold ends of
//! them share.
//!
//! A flow is 32 bytes here. What many have in common is kept once: a [`Kind`] for flows that
//! follow one another and are alike, a name's group for those whose numbers follow one another.

use std::net::IpAddr;
use std::sync::Arc;

use longhaul_core::time::Time;
use longhaul_core::topology::NodeId;
use rustc_hash::FxHashMap;

use super::directory::{Address, Directory};
use super::kind::Kind;
use super::side::{EndId, Side};
use super::slots::Key;
use super::spec::{Error, FIRST_PORT, FlowSpec, Host, IpVersion, Name};
use super::wire::Socket;

/// Ports of modelled endpoints at a host.
const PORTS: u64 = 65_536 - FIRST_PORT as u64;

/// A flow.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) start: Time,
    /// The fixed number of bytes that it carries, or 0.
    pub(super) bytes: u64,
    /// The places of its hosts.
    from: u32,
    to: u32,
    /// Which pair of ports its first connection has, of those that it shares with others.
    ports: u32,
    kind: u32,
}

/// Flows whose names have one group, and numbers that follow one another.
#[derive(Debug)]
struct Names {
    /// The first of these flows, and its number in the group.
    flow: u32,
    number: Option<u32>,
    group: Arc<str>,
}

/// Flows that must not have the same pair of ports.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Sharers {
    /// Those between two hosts, in either direction.
    OfPair(u32, u32),
    /// Those from a host to a program's port on another one.
    OfProgram(u32, u32, u16),
}

/// See the module's first lines.
#[derive(Debug)]
pub struct FlowTable {
    hosts: Vec<Host>,
    /// By node, where a host is in the list.
    places: FxHashMap<NodeId, u32>,
    directory: Directory,
    flows: Vec<Flow>,
    kinds: Vec<Arc<Kind>>,
    names: Vec<Names>,
}

impl FlowTable {
    /// The table of `flows` among `hosts`.
    ///
    /// # Errors
    /// Where a flow cannot be; see [`Error`].
    pub fn new(hosts: Vec<Host>, flows: impl IntoIterator<Item = FlowSpec>) -> Result<Self, Error> {
        let places = hosts.iter().map(|host| host.node).zip(0..).collect();
        let mut table = Self {
            directory: Directory::new(&hosts),
            hosts,
            places,
            flows: Vec::new(),
            kinds: Vec::new(),
            names: Vec::new(),
        };
        // How many pairs of ports are taken, by those that share them.
        let mut taken = FxHashMap::default();
        for spec in flows {
            table.add(spec, &mut taken)?;
        }
        table.flows.shrink_to_fit();
        Ok(table)
    }

    /// How many flows there are.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    fn add(&mut self, spec: FlowSpec, taken: &mut FxHashMap<Sharers, u64>) -> Result<(), Error> {
        spec.check()?;
        let place = |node: NodeId| {
            let flow = || spec.name.to_string();
            let error = || Error::UnknownHost {
                flow: flow(),
                node: node.0,
            };
            self.places.get(&node).copied().ok_or_else(error)
        };
        let (from, to) = (place(spec.from)?, place(spec.to.node())?);
        let (kind, bytes) = Kind::of(&spec);
        let (sharers, most) = match kind.program {
            Some(port) => (Sharers::OfProgram(from, to, port), PORTS),
            None => (Sharers::OfPair(from.min(to), from.max(to)), PORTS * PORTS),
        };
        let pair = taken.entry(sharers).or_default();
        if *pair + u64::from(kind.turns) > most {
            let flow = spec.name.to_string();
            return Err(Error::TooManyFlows { flow, most });
        }
        let ports = *pair as u32;
        *pair += u64::from(kind.turns);
        self.add_name(spec.name);
        let kind = self.add_kind(kind);
        self.flows.push(Flow {
            start: spec.start,
            bytes,
            from,
            to,
            ports,
            kind,
        });
        Ok(())
    }

    fn add_kind(&mut self, kind: Kind) -> u32 {
        // Flows of one kind come one after the other.
        if self.kinds.last().is_none_or(|last| **last != kind) {
            self.kinds.push(Arc::new(kind));
        }
        self.kinds.len() as u32 - 1
    }

    /// The name of the flow that is added next.
    fn add_name(&mut self, name: Name) {
        let flow = self.flows.len() as u32;
        let continues = self.names.last().is_some_and(|last| {
            let number = last
                .number
                .and_then(|first| first.checked_add(flow - last.flow));
            last.group == name.group && name.number.is_some() && number == name.number
        });
        if !continues {
            self.names.push(Names {
                flow,
                number: name.number,
                group: name.group,
            });
        }
    }

    /// The host of a node.
    pub(super) fn host(&self, node: NodeId) -> Option<Host> {
        let place = *self.places.get(&node)?;
        Some(self.hosts[place as usize])
    }

    /// The host of an address.
    pub(super) fn find(&self, address: Address) -> Option<NodeId> {
        self.directory.find(&self.hosts, address)
    }

    pub(super) fn flow(&self, flow: u32) -> &Flow {
        &self.flows[flow as usize]
    }

    pub(super) fn kind(&self, flow: u32) -> &Arc<Kind> {
        &self.kinds[self.flow(flow).kind as usize]
    }

    fn end_host(&self, flow: u32, side: Side) -> Host {
        let flow = self.flow(flow);
        let place = match side {
            Side::Opener => flow.from,
            Side::Acceptor => flow.to,
        };
        self.hosts[place as usize]
    }

    /// The node of an end.
    pub(super) fn node(&self, flow: u32, side: Side) -> NodeId {
        self.end_host(flow, side).node
    }

    /// The end of a flow's connection.
    pub(super) fn end(&self, flow: u32, side: Side, connection: u32) -> EndId {
        EndId::new(self.node(flow, side), flow, side, connection)
    }

    /// The end's own socket, and the one at the other end.
    pub(super) fn sockets(&self, end: EndId) -> [Socket; 2] {
        let (flow, side) = (end.flow(), end.side());
        let ip = self.kind(flow).ip();
        let ports = self.ports(flow, end.connection());
        [side, side.other()].map(|side| {
            let host = self.end_host(flow, side);
            Socket {
                node: host.node,
                address: match ip {
                    IpVersion::V4 => IpAddr::V4(host.ipv4),
                    IpVersion::V6 => IpAddr::V6(host.ipv6),
                },
                port: ports[side as usize],
            }
        })
    }

    /// The key of the packets for an end.
    pub(super) fn key(&self, end: EndId) -> Key {
        let [own, remote] = self.sockets(end);
        let address = match remote.address {
            IpAddr::V4(address) => address.to_bits().into(),
            IpAddr::V6(address) => address.to_bits(),
        };
        let is_tcp = self.kind(end.flow()).is_tcp();
        Key::new(own.node, address, own.port, remote.port, is_tcp)
    }

    /// A flow's name.
    pub(super) fn name(&self, flow: u32) -> Name {
        let names = &self.names[self.names.partition_point(|names| names.flow <= flow) - 1];
        Name {
            group: Arc::clone(&names.group),
            number: names.number.map(|first| first + (flow - names.flow)),
        }
    }

    /// The ports of a flow's connection, the opener's first. Pairs of ports are counted for two
    /// hosts whichever of them opens, so which host has which of the two ports must not depend on it.
    fn ports(&self, flow: u32, connection: u32) -> [u16; 2] {
        let (Flow { from, to, .. }, kind) = (self.flow(flow), self.kind(flow));
        let number = self.flow(flow).ports + connection % kind.turns.max(1);
        let port = |number: u32| FIRST_PORT + (number % PORTS as u32) as u16;
        let (fast, slow) = (port(number), port(number / PORTS as u32));
        match kind.program {
            Some(program) => [fast, program],
            None if from < to => [fast, slow],
            None => [slow, fast],
        }
    }
}
