//! Addresses, sockets and socket options.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// How often a waiting receiver checks its deadlines.
pub(crate) const TICK: Duration = Duration::from_millis(20);
/// The receive buffer asked for: half a second of small datagrams at 200,000 a second, each
/// of which the kernel charges with several hundred bytes more than it carries.
const RECEIVE_BUFFER: libc::c_int = 128 << 20;

/// Where a receiver listens.
#[derive(Clone, Copy, clap::Args)]
pub(crate) struct Listen {
    /// Port to listen on; 0 takes a free one, which the line `ready PORT` names.
    #[arg(long)]
    pub(crate) port: u16,
    /// Address to listen on: `0.0.0.0` for IPv4 alone. Default: all, IPv4 and IPv6.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) bind: Option<IpAddr>,
}

impl Listen {
    fn addresses(&self) -> Vec<SocketAddr> {
        let any = [
            IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        ];
        let chosen = self.bind.map_or(any.to_vec(), |address| vec![address]);
        chosen
            .into_iter()
            .map(|address| SocketAddr::new(address, self.port))
            .collect()
    }

    /// A UDP socket bound there, with a large receive buffer, that wakes up every [`TICK`].
    pub(crate) fn udp(&self) -> io::Result<UdpSocket> {
        let socket =
            UdpSocket::bind(self.addresses().as_slice()).map_err(|error| self.explain(&error))?;
        socket.set_read_timeout(Some(TICK))?;
        let fd = &socket;
        // Only root of the machine may pass the system's limit.
        if set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER).is_err() {
            set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER)?;
        }
        Ok(socket)
    }

    /// A TCP socket listening there.
    pub(crate) fn tcp(&self) -> io::Result<TcpListener> {
        TcpListener::bind(self.addresses().as_slice()).map_err(|error| self.explain(&error))
    }

    fn explain(&self, error: &io::Error) -> io::Error {
        io::Error::new(
            error.kind(),
            format!("cannot listen on port {}: {error}", self.port),
        )
    }
}

/// Announces on stderr that the receiver is bound.
pub(crate) fn announce(address: io::Result<SocketAddr>) -> io::Result<()> {
    eprintln!("ready {}", address?.port());
    Ok(())
}

/// Whether receiving simply goes on: a time-out, or a signal.
pub(crate) fn passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// Makes `accept` return after `span` without a connection.
pub(crate) fn set_accept_timeout(listener: &TcpListener, span: Duration) -> io::Result<()> {
    let fields: [libc::c_long; 2] = [
        span.as_secs() as libc::c_long,
        libc::c_long::from(span.subsec_micros() as i32),
    ];
    let timeval = fields.map(libc::c_long::to_ne_bytes).concat();
    set_bytes(listener, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &timeval)
}

/// All addresses of `HOST:PORT`, where the host is a name or an address (`[::1]:5000`).
pub(crate) fn resolve(target: &str) -> io::Result<Vec<SocketAddr>> {
    let explain = |error: io::Error| io::Error::new(error.kind(), format!("{target}: {error}"));
    Ok(target.to_socket_addrs().map_err(explain)?.collect())
}

/// A UDP socket connected to `HOST:PORT`.
pub(crate) fn connect_udp(target: &str) -> io::Result<UdpSocket> {
    let mut last = io::Error::other(format!("{target}: no address"));
    for address in resolve(target)? {
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
            Err(error) => last = io::Error::new(error.kind(), format!("{target}: {error}")),
        }
    }
    Err(last)
}

/// Makes a sending UDP socket report every error: by default Linux hides `ENOBUFS`, the sign
/// that a full queue of the host's own interface dropped the datagram.
pub(crate) fn report_errors(socket: &UdpSocket) -> io::Result<()> {
    match socket.local_addr()? {
        SocketAddr::V4(_) => set_option(socket, libc::IPPROTO_IP, libc::IP_RECVERR, 1),
        SocketAddr::V6(_) => set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1),
    }
}

/// Opens a socket that is closed on exec.
pub(crate) fn open(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: socket takes no pointers.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets an integer option.
pub(crate) fn set_option(
    fd: &impl AsRawFd,
    level: i32,
    name: i32,
    value: libc::c_int,
) -> io::Result<()> {
    set_bytes(fd, level, name, &value.to_ne_bytes())
}

/// Sets an option to raw bytes.
pub(crate) fn set_bytes(fd: &impl AsRawFd, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    check(result)
}

/// Reads an option into `buffer`; the part that the kernel has filled.
pub(crate) fn get_bytes<'a>(
    fd: &impl AsRawFd,
    level: i32,
    name: i32,
    buffer: &'a mut [u8],
) -> io::Result<&'a [u8]> {
    let mut length = buffer.len() as libc::socklen_t;
    // SAFETY: the pointer and the length describe `buffer`; the kernel writes no more than
    // `length` bytes and then its size.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            level,
            name,
            buffer.as_mut_ptr().cast(),
            &mut length,
        )
    };
    check(result)?;
    Ok(&buffer[..(length as usize).min(buffer.len())])
}

/// Turns a system call's −1 into its error.
pub(crate) fn check(result: i32) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_resolve() {
        assert_eq!(
            resolve("127.0.0.1:9").unwrap(),
            ["127.0.0.1:9".parse().unwrap()]
        );
        assert_eq!(resolve("[::1]:9").unwrap(), ["[::1]:9".parse().unwrap()]);
        assert!(resolve("nonsense").is_err());
    }

    #[test]
    fn a_receiver_binds_to_its_address() {
        let bind = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let socket = Listen { port: 0, bind }.udp().unwrap();
        assert_eq!(socket.local_addr().unwrap().ip(), Ipv4Addr::LOCALHOST);
        let mut buffer = [0; 4];
        let name = libc::SO_RCVBUF;
        let bytes = get_bytes(&socket, libc::SOL_SOCKET, name, &mut buffer).unwrap();
        assert_eq!(bytes.len(), 4);
    }
}
