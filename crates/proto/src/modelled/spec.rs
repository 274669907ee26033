//! What modelled traffic is made of: hosts, flows, what their applications do, and why a set of
//! them is refused.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use longhaul_core::params::Distribution;
use longhaul_core::time::{Span, Time};
use longhaul_core::topology::NodeId;
use longhaul_core::units::Rate;
use thiserror::Error;

use crate::tcp::Config;

/// A host that flows start or end at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Host {
    /// Its number.
    pub node: NodeId,
    /// Its IPv4 address.
    pub ipv4: Ipv4Addr,
    /// Its IPv6 address.
    pub ipv6: Ipv6Addr,
}

/// A flow's name: one of its own, or a number in a group. The name seeds the flow's draws.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// What all flows of the group share.
    pub group: Arc<str>,
    /// Its number there.
    pub number: Option<u32>,
}

impl From<&str> for Name {
    fn from(name: &str) -> Self {
        Self {
            group: name.into(),
            number: None,
        }
    }
}

impl From<String> for Name {
    fn from(name: String) -> Self {
        name.as_str().into()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.group)?;
        match self.number {
            Some(number) => write!(f, "/{number}"),
            None => Ok(()),
        }
    }
}

/// Where a flow ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// At a modelled endpoint of this host.
    Model(NodeId),
    /// At a real program that listens on this port of a host with a kernel.
    Program(NodeId, u16),
}

impl Peer {
    /// The host.
    pub const fn node(self) -> NodeId {
        match self {
            Self::Model(node) | Self::Program(node, _) => node,
        }
    }
}

impl From<NodeId> for Peer {
    fn from(node: NodeId) -> Self {
        Self::Model(node)
    }
}

/// The version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IpVersion {
    /// RFC 791.
    #[default]
    V4,
    /// RFC 8200.
    V6,
}

/// What carries a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// Both ends have this configuration; with IPv6, segments are 20 bytes shorter.
    Tcp(Arc<Config>, IpVersion),
    /// Datagrams of `payload` bytes, at least [`MIN_PAYLOAD`].
    Udp {
        /// Bytes of each datagram behind the UDP header.
        payload: u32,
        /// The version of IP.
        ip: IpVersion,
    },
}

/// The largest datagram.
const MAX_PAYLOAD: u32 = 65_000;

/// The shortest modelled datagram: its number and the time of its sending, 8 bytes each.
pub const MIN_PAYLOAD: u32 = 16;

/// A number of bytes, or a time in nanoseconds, drawn anew for each use.
#[derive(Debug, Clone, PartialEq)]
pub enum Amount {
    /// Always the same.
    Fixed(u64),
    /// Exponential with this mean.
    Exponential(f64),
    /// Any distribution; where it speaks of nanoseconds, bytes are meant for sizes.
    Drawn(Distribution),
}

impl From<u64> for Amount {
    fn from(amount: u64) -> Self {
        Self::Fixed(amount)
    }
}

impl From<Span> for Amount {
    fn from(span: Span) -> Self {
        Self::Fixed(span.as_ns())
    }
}

/// What a flow's application does.
#[derive(Debug, Clone, PartialEq)]
pub enum Application {
    /// Sends as fast as TCP takes it: this many bytes, or without end.
    Bulk {
        /// The number of bytes.
        bytes: Option<Amount>,
    },
    /// Asks, waits for the whole answer, thinks, and asks again. TCP only.
    Requests {
        /// How many; without end where there is none.
        requests: Option<u64>,
        /// Bytes of a request, at least 1.
        request: Amount,
        /// Bytes of a response, at least 1.
        response: Amount,
        /// Nanoseconds from the end of a response to the next request.
        think: Amount,
        /// Each request has a connection of its own.
        new_connection: bool,
    },
    /// Packets in equal distances: of UDP the payload, of TCP full segments.
    Constant {
        /// Payload bits per second.
        rate: Rate,
        /// Payload in all; without end where there is none.
        bytes: Option<u64>,
    },
    /// Packets in exponential distances.
    Poisson {
        /// Payload bits per second in the mean.
        rate: Rate,
        /// Payload in all; without end where there is none.
        bytes: Option<u64>,
    },
    /// Packets in equal distances while on, none while off. It begins with on, and each time
    /// sends a packet at least.
    OnOff {
        /// Payload bits per second while on.
        rate: Rate,
        /// Payload in all; without end where there is none.
        bytes: Option<u64>,
        /// Nanoseconds on.
        on: Amount,
        /// Nanoseconds off.
        off: Amount,
    },
}

impl Application {
    /// Whether it ends by itself.
    pub(super) const fn is_bounded(&self) -> bool {
        match self {
            Self::Bulk { bytes } => bytes.is_some(),
            Self::Requests { requests, .. } => requests.is_some(),
            Self::Constant { bytes, .. }
            | Self::Poisson { bytes, .. }
            | Self::OnOff { bytes, .. } => bytes.is_some(),
        }
    }

    /// A fixed number of bytes in all.
    pub(super) const fn fixed_bytes(&mut self) -> Option<&mut u64> {
        match self {
            Self::Bulk {
                bytes: Some(Amount::Fixed(bytes)),
            } => Some(bytes),
            Self::Constant { bytes, .. }
            | Self::Poisson { bytes, .. }
            | Self::OnOff { bytes, .. } => bytes.as_mut(),
            Self::Bulk { .. } | Self::Requests { .. } => None,
        }
    }
}

/// A flow.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowSpec {
    /// Its name, unique in a run.
    pub name: Name,
    /// The host that opens it.
    pub from: NodeId,
    /// Where it goes.
    pub to: Peer,
    /// What carries it.
    pub transport: Transport,
    /// What its application does.
    pub application: Application,
    /// When it begins.
    pub start: Time,
    /// When its application writes no more; what is in buffers is still sent.
    pub stop: Option<Time>,
    /// Whether the congestion window's series is kept.
    pub series: bool,
}

impl FlowSpec {
    /// What a flow can be wrong in by itself.
    pub(super) fn check(&self) -> Result<(), Error> {
        let flow = || self.name.to_string();
        if self.from == self.to.node() {
            return Err(Error::ToItself(flow()));
        }
        if let Peer::Program(_, port) = self.to
            && port >= FIRST_PORT
        {
            return Err(Error::ProgramPort { flow: flow(), port });
        }
        let by_clock = !matches!(
            self.application,
            Application::Bulk { .. } | Application::Requests { .. }
        );
        if let Transport::Udp { payload, .. } = self.transport {
            if !by_clock {
                return Err(Error::NeedsTcp(flow()));
            }
            if !(MIN_PAYLOAD..=MAX_PAYLOAD).contains(&payload) {
                return Err(Error::Payload {
                    flow: flow(),
                    payload,
                });
            }
        }
        let amounts: &[&Amount] = match &self.application {
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
}

/// Why flows are refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// A flow names a host that is not among the modelled ones.
    #[error("flow `{flow}` names node {node}, which is not among the hosts of the traffic")]
    UnknownHost {
        /// The flow.
        flow: String,
        /// The node's number.
        node: u32,
    },
    /// A flow from a host to itself.
    #[error("flow `{0}` leads from a host to itself; name another host as its end")]
    ToItself(String),
    /// More flows than ports.
    #[error(
        "flow `{flow}` is one too many between its two hosts: there are ports for {most}; spread the flows over more hosts"
    )]
    TooManyFlows {
        /// The first flow without a port.
        flow: String,
        /// How many have one.
        most: u64,
    },
    /// A program's port among those of modelled endpoints.
    #[error(
        "flow `{flow}` goes to port {port} of a program; modelled endpoints have the ports from {FIRST_PORT} on, so have it listen below"
    )]
    ProgramPort {
        /// The flow.
        flow: String,
        /// The port.
        port: u16,
    },
    /// A transport that the application cannot have.
    #[error("flow `{0}`: bulk transfers and requests need TCP; use a constant rate over UDP")]
    NeedsTcp(String),
    /// A datagram too small or too large.
    #[error("flow `{flow}`: a datagram of {payload} bytes; write {MIN_PAYLOAD} to 65000")]
    Payload {
        /// The flow.
        flow: String,
        /// Its payload.
        payload: u32,
    },
    /// A mean that is no positive number.
    #[error("flow `{0}`: the mean of an exponential distribution must be above 0 and finite")]
    Mean(String),
}

/// The first port of modelled endpoints; the last is 65535. Linux takes ephemeral ports from
/// 32768 to 60999 by default (`ip_local_port_range`), so that these are left alone.
pub const FIRST_PORT: u16 = 61_000;
