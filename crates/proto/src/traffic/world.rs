//! What flows share: their descriptions, the timers, the packets that leave, the results.
//!
//! A flow that is not under way is one [`Flow`] of 64 bytes, its result included. What many flows
//! have in common (a [`Kind`], the group's name) is kept once.

use std::sync::Arc;

use longhaul_core::time::Time;
use longhaul_core::topology::NodeId;
use rustc_hash::FxHashMap;

use super::outbox::Outbox;
use super::report::{DatagramFigures, Outcome, RequestFigures, WindowPoint};
use super::spec::{Amount, IpVersion, LEAST_PAYLOAD};
use super::spec::{Application, Error, FIRST_PORT, FlowSpec, Host, Name, Peer, Transport};
use super::timers::Timers;
use crate::tcp::Config;

/// Ports of modelled endpoints at a host.
const PORTS: u64 = 65_536 - FIRST_PORT as u64;
/// Connections of their own that the requests of a flow use in turn.
const MOST_TURNS: u64 = 1024;
/// The number of a flow that has none in its group.
const NO_NUMBER: u32 = u32::MAX;
/// The largest datagram.
const MOST_PAYLOAD: u32 = 65_000;

/// What flows have in common.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Kind {
    pub(super) transport: Transport,
    /// A fixed number of bytes is the flow's own, and 0 here.
    pub(super) application: Application,
    pub(super) stop: Option<Time>,
    pub(super) series: bool,
    pub(super) program: Option<u16>,
    /// Payload of what a source by the clock sends at once.
    pub(super) segment: u32,
    /// How many ports a flow takes in turn.
    pub(super) turns: u32,
}

/// A flow and its result.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) start: Time,
    /// The end of time while it is not over.
    pub(super) finish: Time,
    /// Before the start, the fixed number of bytes that it carries; then, those that have arrived
    /// by connections that are over.
    pub(super) bytes: u64,
    pub(super) from: u32,
    pub(super) to: u32,
    /// Which of the ports of its two hosts it has.
    pub(super) ports: u32,
    /// The kind, times 8, and the outcome.
    kind: u32,
    name: u32,
    number: u32,
    pub(super) retransmissions: u32,
    pub(super) trips: [u32; 3],
}

const _: () = assert!(size_of::<Flow>() <= 64);

const OUTCOMES: [Outcome; 6] = [
    Outcome::Waiting,
    Outcome::Running,
    Outcome::Finished,
    Outcome::Reset,
    Outcome::TimedOut,
    Outcome::Unreachable,
];

impl Flow {
    pub(super) fn outcome(&self) -> Outcome {
        OUTCOMES[(self.kind % 8) as usize % OUTCOMES.len()]
    }

    pub(super) fn set_outcome(&mut self, outcome: Outcome) {
        self.kind = self.kind / 8 * 8 + outcome as u32;
    }
}

/// See the module's first lines.
#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) hosts: Vec<Host>,
    pub(super) places: FxHashMap<NodeId, u32>,
    kinds: Vec<Arc<Kind>>,
    names: Vec<Arc<str>>,
    pub(super) flows: Vec<Flow>,
    pub(super) timers: Timers,
    pub(super) outbox: Outbox,
    pub(super) datagrams: FxHashMap<u32, DatagramFigures>,
    pub(super) requests: FxHashMap<u32, RequestFigures>,
    pub(super) series: FxHashMap<u32, Vec<WindowPoint>>,
    /// Flows that are not over.
    pub(super) unfinished: usize,
    /// Those of them that end by themselves.
    pub(super) awaited: usize,
}

impl World {
    pub(super) fn new(
        hosts: Vec<Host>,
        flows: impl IntoIterator<Item = FlowSpec>,
    ) -> Result<Self, Error> {
        let places = hosts.iter().map(|host| host.node).zip(0..).collect();
        let mut world = Self {
            hosts,
            places,
            ..Self::default()
        };
        // Of each pair of hosts, how many ports are taken.
        let mut taken = FxHashMap::default();
        for spec in flows {
            world.add(spec, &mut taken)?;
        }
        world.flows.shrink_to_fit();
        world.unfinished = world.flows.len();
        let numbers = 0..world.flows.len() as u32;
        world.awaited = numbers
            .filter(|&flow| world.kind(flow).is_bounded())
            .count();
        Ok(world)
    }

    fn place(&self, node: NodeId, spec: &FlowSpec) -> Result<u32, Error> {
        self.places.get(&node).copied().ok_or(Error::UnknownHost {
            flow: spec.name.to_string(),
            node: node.0,
        })
    }

    fn add(&mut self, spec: FlowSpec, taken: &mut FxHashMap<(u32, u32), u64>) -> Result<(), Error> {
        check(&spec)?;
        let (from, to) = (
            self.place(spec.from, &spec)?,
            self.place(spec.to.node(), &spec)?,
        );
        let (kind, bytes) = Kind::of(&spec);
        let pair = taken.entry((from.min(to), from.max(to))).or_default();
        let most = match kind.program {
            Some(_) => PORTS,
            None => PORTS * PORTS,
        };
        if *pair + u64::from(kind.turns) > most {
            let flow = spec.name.to_string();
            return Err(Error::TooManyFlows { flow, most });
        }
        let ports = *pair as u32;
        *pair += u64::from(kind.turns);
        let kind = self.intern_kind(kind);
        let name = self.intern_name(&spec.name.group);
        self.flows.push(Flow {
            start: spec.start,
            finish: Time::MAX,
            bytes,
            from,
            to,
            ports,
            kind: kind * 8,
            name,
            number: spec.name.number.unwrap_or(NO_NUMBER),
            retransmissions: 0,
            trips: [0; 3],
        });
        Ok(())
    }

    fn intern_kind(&mut self, kind: Kind) -> u32 {
        // Flows of one kind come one after the other.
        if self.kinds.last().is_none_or(|last| **last != kind) {
            self.kinds.push(Arc::new(kind));
        }
        self.kinds.len() as u32 - 1
    }

    fn intern_name(&mut self, name: &Arc<str>) -> u32 {
        if self.names.last() != Some(name) {
            self.names.push(name.clone());
        }
        self.names.len() as u32 - 1
    }

    pub(super) fn kind(&self, flow: u32) -> &Arc<Kind> {
        &self.kinds[(self.flows[flow as usize].kind / 8) as usize]
    }

    pub(super) fn name(&self, flow: u32) -> Name {
        let flow = &self.flows[flow as usize];
        Name {
            group: self.names[flow.name as usize].clone(),
            number: (flow.number != NO_NUMBER).then_some(flow.number),
        }
    }

    /// The ports of a flow's connection, the opener's first.
    pub(super) fn ports(&self, flow: u32, connection: u32) -> [u16; 2] {
        let kind = self.kind(flow);
        let number = self.flows[flow as usize].ports + connection % kind.turns.max(1);
        let source = FIRST_PORT + (number % PORTS as u32) as u16;
        let destination = FIRST_PORT.saturating_add((number / PORTS as u32) as u16);
        [source, kind.program.unwrap_or(destination)]
    }

    /// A flow is over, unless it was before.
    pub(super) fn end(&mut self, flow: u32, outcome: Outcome, at: Time) {
        let is_bounded = self.kind(flow).is_bounded();
        let flow = &mut self.flows[flow as usize];
        if flow.outcome() == Outcome::Running {
            flow.set_outcome(outcome);
            flow.finish = at;
            self.unfinished -= 1;
            self.awaited -= usize::from(is_bounded);
        }
    }
}

impl Kind {
    /// Whether such a flow ends by itself.
    fn is_bounded(&self) -> bool {
        self.application.is_bounded() || self.stop.is_some()
    }

    /// What it has in common with others, and the fixed number of bytes that it carries.
    fn of(spec: &FlowSpec) -> (Self, u64) {
        let mut application = spec.application.clone();
        let bytes = application.fixed_bytes().map(std::mem::take);
        let turns = match &application {
            Application::Requests {
                requests,
                new_connection: true,
                ..
            } => requests.unwrap_or(u64::MAX).clamp(1, MOST_TURNS) as u32,
            _ => 1,
        };
        let transport = match &spec.transport {
            // Its header is 20 bytes longer than the one that `mss` leaves room for.
            Transport::Tcp(config, IpVersion::V6) => {
                let config = Config {
                    mss: config.mss.saturating_sub(20),
                    ..Config::clone(config)
                };
                Transport::Tcp(Arc::new(config), IpVersion::V6)
            }
            transport => transport.clone(),
        };
        let kind = Self {
            segment: match &transport {
                Transport::Tcp(config, _) => config.mss,
                Transport::Udp { payload, .. } => *payload,
            },
            transport,
            application,
            stop: spec.stop,
            series: spec.series,
            program: match spec.to {
                Peer::Model(_) => None,
                Peer::Program(_, port) => Some(port),
            },
            turns,
        };
        (kind, bytes.unwrap_or_default())
    }
}

/// What a flow can be wrong in by itself.
fn check(spec: &FlowSpec) -> Result<(), Error> {
    let flow = || spec.name.to_string();
    if spec.from == spec.to.node() {
        return Err(Error::ToItself(flow()));
    }
    if let Peer::Program(_, port) = spec.to
        && port >= FIRST_PORT
    {
        return Err(Error::ProgramPort { flow: flow(), port });
    }
    let by_clock = !matches!(
        spec.application,
        Application::Bulk { .. } | Application::Requests { .. }
    );
    if let Transport::Udp { payload, .. } = spec.transport {
        if !by_clock {
            return Err(Error::NeedsTcp(flow()));
        }
        if !(LEAST_PAYLOAD..=MOST_PAYLOAD).contains(&payload) {
            return Err(Error::Payload {
                flow: flow(),
                payload,
            });
        }
    }
    let amounts: &[&Amount] = match &spec.application {
        Application::Bulk { bytes: Some(bytes) } => &[bytes],
        Application::Requests {
            request,
            response,
            think,
            ..
        } => &[request, response, think],
        Application::OnOff { on, off, .. } => &[on, off],
        _ => &[],
    };
    let is_sound = |amount: &&Amount| match amount {
        Amount::Exponential(mean) => mean.is_finite() && *mean > 0.0,
        _ => true,
    };
    if amounts.iter().all(is_sound) {
        Ok(())
    } else {
        Err(Error::Mean(flow()))
    }
}
