//! TCP connections of a host's kernel, parsed from its socket diagnostics.
//!
//! Purpose: the typed form of the dump of [`Sandbox::request_connections`]. An answer is a `struct
//! inet_diag_msg` and attributes (`include/uapi/linux/inet_diag.h`), of which `tcp_info` has only
//! ever grown: fields are read at their offsets, as far as the kernel fills it. Parsing ends on any
//! input, and counts answers that make no sense.
//!
//! A connection is the same one as in an earlier dump if its `id` is the same: the kernel never reuses
//! that number of a socket, while addresses and ports are reused.
//!
//! Left out: listening sockets, connections that are being opened, and those in TIME-WAIT, which have
//! no window any more.
//!
//! [`Sandbox::request_connections`]: crate::sandbox::Sandbox::request_connections

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use crate::clock::MachineTime;
use crate::netlink::diag::{INET_DIAG_CONG, INET_DIAG_INFO, SOCK_DIAG_BY_FAMILY};
use crate::netlink::{attributes, messages};
use crate::socket::TcpInfo;

/// The most connections of one host that a dump brings; the others are counted.
pub const PER_HOST_MAX: usize = 10_000;
/// The same of all hosts together: about 45 MB on their way.
pub const TOTAL_MAX: usize = 100_000;

/// The state of a connection that is open or being closed (RFC 9293 §3.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Open on both sides.
    Established,
    /// Has sent its FIN.
    FinWait1,
    /// Its FIN is acknowledged.
    FinWait2,
    /// Has the other side's FIN, not sent its own.
    CloseWait,
    /// Has sent its FIN after the other side's.
    LastAck,
    /// Both FINs are sent, neither acknowledged.
    Closing,
}

/// The numbers of these states (`include/net/tcp_states.h`).
pub(crate) const STATES: [(u8, State); 6] = [
    (1, State::Established),
    (4, State::FinWait1),
    (5, State::FinWait2),
    (8, State::CloseWait),
    (9, State::LastAck),
    (11, State::Closing),
];

impl State {
    /// As RFC 9293 writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Established => "ESTABLISHED",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::CloseWait => "CLOSE-WAIT",
            Self::LastAck => "LAST-ACK",
            Self::Closing => "CLOSING",
        }
    }
}

/// One end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// The kernel's number of the socket (its cookie), which no other one gets.
    pub id: u64,
    /// The host's own address and port; IPv4 where that is on the wire, whatever the socket is.
    pub local: SocketAddr,
    /// The other end's.
    pub remote: SocketAddr,
    /// Its state.
    pub state: State,
    /// Its congestion control; empty where the kernel does not say.
    pub congestion: String,
    /// Windows, round trips, counters.
    pub info: TcpInfo,
}

/// The connections of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostConnections {
    /// The host's number.
    pub host: usize,
    /// When its kernel was asked.
    pub at: MachineTime,
    /// By address family, else in no order.
    pub list: Vec<Connection>,
    /// Connections beyond [`PER_HOST_MAX`] or [`TOTAL_MAX`].
    pub more: u64,
    /// Answers that could not be read.
    pub unread: u64,
    /// The kernel calls this list inconsistent, also after another attempt.
    pub interrupted: bool,
    /// Why there is no list.
    pub error: Option<String>,
}

/// The connections of all hosts that have any or had an error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Connections {
    /// By number.
    pub hosts: Vec<HostConnections>,
    /// CPU time that asking the kernels and reading their answers has cost.
    pub cost: Duration,
}

/// The connections of a dump (netlink messages as the kernel writes them), each once, and how many
/// answers could not be read.
pub fn parse(bytes: &[u8]) -> (Vec<Connection>, u64) {
    let (mut list, mut unread, mut end) = (Vec::new(), 0, 0);
    let mut seen = HashSet::new();
    for message in messages(bytes) {
        end += message.whole.len();
        match (message.kind, message.payload.get(1)) {
            (SOCK_DIAG_BY_FAMILY, Some(state)) => match state_of(*state) {
                Some(state) => match connection(state, message.payload) {
                    Ok(Some(connection)) if seen.insert(connection.id) => list.push(connection),
                    Ok(_) => {}
                    Err(Unreadable) => unread += 1,
                },
                None => unread += 1,
            },
            _ => unread += 1,
        }
    }
    // The rest begins with what is not a message.
    (list, unread + u64::from(end < bytes.len()))
}

#[derive(Debug)]
struct Unreadable;

fn state_of(number: u8) -> Option<State> {
    let mut states = STATES.iter();
    states.find_map(|&(of, state)| (of == number).then_some(state))
}

/// Reads a `struct inet_diag_msg` and its attributes. None where it has no `tcp_info`: what remains of
/// a connection in FIN-WAIT-2 that nobody holds any more (`inet_diag_msg_common_fill`).
fn connection(state: State, payload: &[u8]) -> Result<Option<Connection>, Unreadable> {
    const LEN: usize = 72;
    let (header, rest) = payload.split_first_chunk::<LEN>().ok_or(Unreadable)?;
    let address = |at: usize| -> Option<IpAddr> {
        let bytes: [u8; 16] = *header.get(at..at + 16)?.first_chunk()?;
        match i32::from(header[0]) {
            libc::AF_INET => Some(Ipv4Addr::from(*bytes.first_chunk()?).into()),
            libc::AF_INET6 => Some(Ipv6Addr::from(bytes).to_canonical()),
            _ => None,
        }
    };
    let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    // struct inet_diag_sockid from byte 4 on: ports, addresses, interface, cookie.
    let socket = |port_at, address_at| Some(SocketAddr::new(address(address_at)?, port(port_at)));
    let local = socket(4, 8).ok_or(Unreadable)?;
    let remote = socket(6, 24).ok_or(Unreadable)?;
    let cookie = header.get(44..52).and_then(|bytes| bytes.first_chunk());
    let id = u64::from_ne_bytes(*cookie.ok_or(Unreadable)?);
    let (mut info, mut congestion) = (None, String::new());
    for (kind, value) in attributes(rest) {
        match kind {
            INET_DIAG_INFO => info = Some(TcpInfo::parse(value).ok_or(Unreadable)?),
            INET_DIAG_CONG => {
                let name = value.split(|&byte| byte == 0).next().unwrap_or_default();
                congestion = String::from_utf8_lossy(name).into_owned();
            }
            _ => {}
        }
    }
    Ok(info.map(|info| Connection {
        id,
        local,
        remote,
        state,
        congestion,
        info,
    }))
}

#[cfg(test)]
mod tests;
