//! The sockets of a host's services, opened by the host's own init.

use std::io;
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use super::{INFO_SOCKET, NAME_SERVER, Opened};
use crate::channel::Channel;

/// The port of name servers.
const DOMAIN_PORT: u16 = 53;
/// Room for queries that wait, of which the kernel grants twice as much: some hundred.
const QUERIES_ROOM: usize = 32 << 10;

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
    let (family, kind) = (AddressFamily::INET, SocketType::DGRAM);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = net::socket_with(family, kind, flags, None)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    sockopt::set_socket_reuseport(&fd, true)?;
    sockopt::set_socket_recv_buffer_size(&fd, QUERIES_ROOM)?;
    net::bind(&fd, &SocketAddrV4::new(NAME_SERVER, DOMAIN_PORT))?;
    Ok(fd.into())
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
