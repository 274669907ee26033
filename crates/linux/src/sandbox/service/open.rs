//! The sockets of a host's services, opened by the host's own init.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use super::{INFO_SOCKET, NAME_SERVER, Opened};
use crate::channel::Channel;
use crate::sys::check;

/// The port of name servers.
const DOMAIN_PORT: u16 = 53;
/// Room for queries that wait, of which the kernel grants twice as much: some hundred.
const QUERIES_ROOM: i32 = 32 << 10;

/// Opens the sockets of host number `host`, in this process's namespaces, and hands them to the
/// service. A host without a `/run` of its own has no information service.
pub(crate) fn hand_over(feed: &Channel, host: usize, own_run: bool) -> io::Result<()> {
    let names = name_socket()?;
    let info = own_run.then(info_socket).transpose()?;
    let fds: Vec<_> = [Some(names.as_fd()), info.as_ref().map(AsFd::as_fd)]
        .into_iter()
        .flatten()
        .collect();
    feed.send(&Opened { host }, &fds)
}

/// A UDP socket on the name server's address that lets others have all addresses.
fn name_socket() -> io::Result<UdpSocket> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers; the result is checked and owned at once.
    let fd = unsafe { OwnedFd::from_raw_fd(check(libc::socket(libc::AF_INET, kind, 0))?) };
    set(&fd, libc::SO_REUSEADDR, 1)?;
    set(&fd, libc::SO_REUSEPORT, 1)?;
    set(&fd, libc::SO_RCVBUF, QUERIES_ROOM)?;
    bind(&fd, SocketAddr::from((NAME_SERVER, DOMAIN_PORT)))?;
    Ok(fd.into())
}

fn set(fd: &OwnedFd, option: i32, value: i32) -> io::Result<()> {
    let len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the value outlives the call and has the length that is told.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            len,
        )
    })
    .map(drop)
}

fn bind(fd: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    let SocketAddr::V4(address) = address else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from(*address.ip()).to_be(),
        },
        sin_zero: [0; 8],
    };
    let len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: the address outlives the call and has the length that is told.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) }).map(drop)
}

/// A Unix socket at the information service's path, for every user of the host.
fn info_socket() -> io::Result<UnixListener> {
    let path = Path::new(INFO_SOCKET);
    let allow = |path: &Path, mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, mode)
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
        allow(folder, 0o755)?;
    }
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    allow(path, 0o666)?;
    Ok(listener)
}
