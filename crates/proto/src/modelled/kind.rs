//! What flows have in common, kept once for all that are alike.

use std::sync::Arc;

use longhaul_core::time::Time;

use super::side::Side;
use super::spec::{Amount, Application, FlowSpec, IpVersion, Peer, Transport};
use crate::tcp::Config;

/// Ports that a flow with a connection for each request cycles through.
const MAX_PORTS_PER_FLOW: u64 = 1024;

/// See the module's first line.
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

impl Kind {
    /// What a flow has in common with others, and the fixed number of bytes that it carries.
    pub(super) fn of(spec: &FlowSpec) -> (Self, u64) {
        let mut application = spec.application.clone();
        let bytes = application.fixed_bytes().map(std::mem::take);
        let turns = match &application {
            Application::Requests {
                requests,
                new_connection: true,
                ..
            } => requests.unwrap_or(u64::MAX).clamp(1, MAX_PORTS_PER_FLOW) as u32,
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

    /// Whether such a flow ends by itself.
    pub(super) fn is_bounded(&self) -> bool {
        self.application.is_bounded() || self.stop.is_some()
    }

    pub(super) fn ip(&self) -> IpVersion {
        match self.transport {
            Transport::Tcp(_, ip) | Transport::Udp { ip, .. } => ip,
        }
    }

    pub(super) fn is_tcp(&self) -> bool {
        matches!(self.transport, Transport::Tcp(..))
    }

    pub(super) fn is_dialogue(&self) -> bool {
        matches!(self.application, Application::Requests { .. })
    }

    /// Whether each request has a connection of its own.
    pub(super) fn has_connection_each(&self) -> bool {
        matches!(
            self.application,
            Application::Requests {
                new_connection: true,
                ..
            }
        )
    }

    /// Whether a flow has another connection behind this one.
    pub(super) fn has_another(&self, connection: u32) -> bool {
        match self.application {
            Application::Requests {
                requests,
                new_connection: true,
                ..
            } => requests.is_none_or(|requests| u64::from(connection) + 1 < requests),
            _ => false,
        }
    }

    /// Of each exchange of a dialogue, the request, the response, and the thought behind it.
    pub(super) fn exchange(&self) -> [&Amount; 3] {
        const NOTHING: &Amount = &Amount::Fixed(0);
        match &self.application {
            Application::Requests {
                request,
                response,
                think,
                ..
            } => [request, response, think],
            _ => [NOTHING; 3],
        }
    }

    /// The end that receives what a transfer carries, or counts what a program has acknowledged.
    pub(super) fn receives(&self) -> Side {
        match self.program {
            None => Side::Acceptor,
            Some(_) => Side::Opener,
        }
    }

    /// The end that decides when all has arrived: the opener of a dialogue, which gets the last
    /// response; else the one that receives.
    pub(super) fn finishes(&self) -> Side {
        if self.is_dialogue() {
            Side::Opener
        } else {
            self.receives()
        }
    }

    /// The end that is awaited: it knows at some time that the flow is over, whatever else is lost.
    /// Who opens a connection hears that its last byte has arrived, or gives up; the other end may
    /// never hear of it. Who receives datagrams knows when the last ones are sent.
    pub(super) fn decides(&self) -> Side {
        if self.is_tcp() {
            Side::Opener
        } else {
            self.receives()
        }
    }
}
