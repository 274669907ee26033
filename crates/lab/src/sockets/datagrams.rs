//! Flows over UDP: datagrams at given times.
//!
//! A sender sleeps until a datagram is due and then sends all that are, so that a late wake-up
//! delays a few of them and never changes their number. Where the kernel blocks, because the
//! host's first link is the bottleneck, all later ones wait; where it refuses, they are counted.
//!
//! Left out: when datagrams leave, which are the caller's to draw.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use longhaul_core::Span;
use longhaul_linux::cpu;

use super::{Flow, Origin, Stop};

/// Largest payload of a datagram: 65535 less the headers of UDP and IPv4.
pub const PAYLOAD_MAX: u32 = 65_507;

/// Datagram after datagram: when it leaves, after the flow's start, and how large it is.
pub type Departure = (Span, u32);

/// Sends datagrams of zeros to the first of `addresses` that can be reached, as `departures`
/// say (in order of time), until they end or until `until` after the origin.
///
/// # Errors
/// Where none of the addresses can be reached.
pub fn send(
    name: &str,
    addresses: &[SocketAddr],
    departures: impl Iterator<Item = Departure>,
    until: Option<Span>,
    origin: Origin,
    stop: &Stop,
) -> io::Result<Flow> {
    cpu::without_timer_slack();
    let socket = connect(addresses)?;
    let began = origin.elapsed();
    let ends = [socket.local_addr()?, socket.peer_addr()?];
    let mut flow = Flow::new(name.to_owned(), "udp", ends, began.as_s());
    let zeros = vec![0; PAYLOAD_MAX as usize];
    let (mut packets, mut refused) = (0u64, 0u64);
    let mut cut = None;
    for (after, size) in departures {
        let due = began + after;
        if until.is_some_and(|until| due >= until) {
            break;
        }
        if !stop.sleep(origin, due) {
            cut = Some("stopped by a signal".to_owned());
            break;
        }
        // An ICMP error that comes back, such as for a closed port, is an error of this call.
        match socket.send(&zeros[..size.min(PAYLOAD_MAX) as usize]) {
            Ok(length) => {
                packets += 1;
                flow.bytes += length as u64;
            }
            Err(_) => refused += 1,
        }
    }
    (flow.packets, flow.refused) = (Some(packets), Some(refused));
    flow.end(origin.elapsed_s(), cut);
    Ok(flow)
}

fn connect(addresses: &[SocketAddr]) -> io::Result<UdpSocket> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        let any: IpAddr = match address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let connected = UdpSocket::bind((any, 0)).and_then(|socket| {
            socket.connect(address)?;
            Ok(socket)
        });
        match connected {
            Ok(socket) => return Ok(socket),
            Err(error) => last = io::Error::new(error.kind(), format!("{address}: {error}")),
        }
    }
    Err(last)
}
