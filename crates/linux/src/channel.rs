//! Messages with descriptors between the processes of one run.
//!
//! A `SOCK_SEQPACKET` pair carries JSON with `SCM_RIGHTS`: either whole messages or none, and
//! end-of-file when the other side has died, however it died.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::cmsg_space;
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::process::geteuid;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The largest message that goes through the socket itself: far below the smallest limit that
/// kernels have for one (`net.core.wmem_default`).
const INLINE_MAX: usize = 64 << 10;
/// The largest message at all. What does not fit into the socket goes as a file in memory.
const MESSAGE_MAX: usize = 256 << 20;
/// What the socket carries instead; the file's descriptor is the last one.
const IN_MEMORY: &[u8] = b"\"memfd\"";
/// The most descriptors that one message carries.
const DESCRIPTORS_MAX: usize = 4;

/// One end of a connection between two processes of a run.
#[derive(Debug)]
pub struct Channel {
    fd: OwnedFd,
    /// Whether files in memory are accepted from the other side; reading an untrusted one may block.
    trusted: bool,
}

impl Channel {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self { fd, trusted: true }
    }

    /// A connected pair.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (a, b) = pair()?;
        Ok((Self::new(a), Self::new(b)))
    }

    /// Sends `message` with copies of `fds`.
    pub fn send(&self, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = serde_json::to_vec(message).map_err(io::Error::other)?;
        if bytes.len() <= INLINE_MAX {
            return self.send_bytes(&bytes, fds);
        }
        let file = crate::sys::memory_file(&bytes)?;
        let all: Vec<BorrowedFd<'_>> = fds.iter().copied().chain([file.as_fd()]).collect();
        self.send_bytes(IN_MEMORY, &all)
    }

    fn send_bytes(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        if fds.len() > DESCRIPTORS_MAX {
            let why = "too many descriptors for one message";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let mut room = [MaybeUninit::uninit(); CONTROL];
        let mut control = SendAncillaryBuffer::new(&mut room);
        if !fds.is_empty() {
            // There is room for as many as have just been allowed.
            control.push(SendAncillaryMessage::ScmRights(fds));
        }
        let part = [IoSlice::new(bytes)];
        net::sendmsg(&self.fd, &part, &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Waits for a message; `None` when the other side is gone.
    pub fn receive<M: DeserializeOwned>(&self) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
        let mut bytes = vec![0u8; INLINE_MAX];
        let mut room = [MaybeUninit::uninit(); CONTROL];
        let mut control = RecvAncillaryBuffer::new(&mut room);
        let mut part = [IoSliceMut::new(&mut bytes)];
        let received = net::recvmsg(&self.fd, &mut part, &mut control, RecvFlags::CMSG_CLOEXEC);
        let read = match received {
            Err(Errno::CONNRESET) => return Ok(None),
            Err(error) => return Err(error.into()),
            Ok(received) if received.bytes == 0 => return Ok(None),
            Ok(received) => received.bytes,
        };
        let rights = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        });
        let mut fds: Vec<OwnedFd> = rights.flatten().collect();
        let mut bytes = &bytes[..read];
        let in_memory;
        if bytes == IN_MEMORY
            && self.trusted
            && let Some(file) = fds.pop()
        {
            in_memory = crate::sys::read_memory_file(file, MESSAGE_MAX)?;
            bytes = &in_memory;
        }
        let message = serde_json::from_slice(bytes);
        Ok(Some((message.map_err(io::Error::other)?, fds)))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Room for the control message of `DESCRIPTORS_MAX` descriptors.
const CONTROL: usize = cmsg_space!(ScmRights(DESCRIPTORS_MAX));

/// A pair of connected sockets that keep message boundaries.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    Ok(net::socketpair(family, kind, SocketFlags::CLOEXEC, None)?)
}

/// A socket at which other processes of the same user may call.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    /// Its file; none for an abstract name.
    path: Option<std::path::PathBuf>,
}

/// How many callers may wait at a listener.
const BACKLOG: i32 = 16;
/// Room for a socket's path in the kernel's structure.
const SOCKET_PATH_MAX: usize = 107;

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// The address of a socket at `path`. A path that is too long is reached through a descriptor
/// of its folder, which must stay open until the address has been used.
fn socket_address(path: &Path) -> io::Result<(SocketAddrUnix, Option<std::fs::File>)> {
    let (bytes, folder) = if path.as_os_str().len() <= SOCKET_PATH_MAX {
        (path.as_os_str().as_bytes().to_vec(), None)
    } else {
        let parent = path
            .parent()
            .ok_or_else(|| invalid("a socket needs a folder"))?;
        let name = path
            .file_name()
            .ok_or_else(|| invalid("a socket needs a name"))?;
        let folder = std::fs::File::open(parent)?;
        let mut bytes = format!("/proc/self/fd/{}/", folder.as_raw_fd()).into_bytes();
        bytes.extend_from_slice(name.as_bytes());
        (bytes, Some(folder))
    };
    if bytes.len() > SOCKET_PATH_MAX {
        return Err(invalid("the name of a socket is too long"));
    }
    Ok((SocketAddrUnix::new(bytes)?, folder))
}

/// The address of an abstract name (unix(7)): `path` behind a zero byte. It is not a file, and goes with
/// the socket however its process ends.
fn abstract_address(path: &Path) -> io::Result<SocketAddrUnix> {
    let address = SocketAddrUnix::new_abstract_name(path.as_os_str().as_bytes());
    address.map_err(|_| invalid("the name of a socket is too long"))
}

/// The user at the other end of a connection.
fn peer_uid(fd: &OwnedFd) -> io::Result<u32> {
    Ok(net::sockopt::socket_peercred(fd)?.uid.as_raw())
}

/// Our user.
fn own_uid() -> u32 {
    geteuid().as_raw()
}

fn unix_socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let flags = flags | SocketFlags::CLOEXEC;
    Ok(net::socket_with(family, kind, flags, None)?)
}

impl Listener {
    /// Listens at `path`, which only the caller's user may use.
    pub fn bind(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::PermissionsExt;
        let (address, _folder) = socket_address(path)?;
        let fd = unix_socket(SocketFlags::NONBLOCK)?;
        net::bind(&fd, &address)?;
        let listener = Self {
            fd,
            path: Some(path.to_owned()),
        };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))?;
        net::listen(&listener.fd, BACKLOG)?;
        Ok(listener)
    }

    /// Listens at the abstract name `path`, for the caller's user and root. Nothing of it is left
    /// where the process is killed, and no other process is needed to see to that.
    pub fn bind_abstract(path: &Path) -> io::Result<Self> {
        let fd = unix_socket(SocketFlags::NONBLOCK)?;
        net::bind(&fd, &abstract_address(path)?)?;
        net::listen(&fd, BACKLOG)?;
        Ok(Self { fd, path: None })
    }

    /// The next caller, if one waits. Its channel never blocks: neither a caller that sends nothing
    /// nor one that reads nothing may hold up the run.
    pub fn accept(&self) -> io::Result<Option<Channel>> {
        while let Some(channel) = self.accept_any()? {
            // A file has permissions, an abstract name has none.
            if self.path.is_some() || [own_uid(), 0].contains(&peer_uid(&channel.fd)?) {
                return Ok(Some(channel));
            }
        }
        Ok(None)
    }

    fn accept_any(&self) -> io::Result<Option<Channel>> {
        match net::accept_with(&self.fd, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(fd) => Ok(Some(Channel { fd, trusted: false })),
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Channel {
    /// Calls the listener at `path`.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let (address, _folder) = socket_address(path)?;
        let fd = unix_socket(SocketFlags::empty())?;
        net::connect(&fd, &address)?;
        Ok(Self::new(fd))
    }

    /// Calls the listener at the abstract name `path`, which must be of the caller's user unless that
    /// is root: anybody may take such a name.
    pub fn connect_abstract(path: &Path) -> io::Result<Self> {
        let fd = unix_socket(SocketFlags::empty())?;
        net::connect(&fd, &abstract_address(path)?)?;
        if own_uid() != 0 && peer_uid(&fd)? != own_uid() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(Self::new(fd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abstract_name_is_no_file_and_ends_with_its_listener() {
        let path = std::env::temp_dir().join(format!("longhaul-abstract-{}", std::process::id()));
        let listener = Listener::bind_abstract(&path).unwrap();
        assert!(listener.accept().unwrap().is_none() && !path.exists());
        let caller = Channel::connect_abstract(&path).unwrap();
        let called = listener
            .accept()
            .unwrap()
            .expect("a caller of our own user");
        caller.send(&"ping", &[]).unwrap();
        let (message, _) = called.receive::<String>().unwrap().unwrap();
        assert_eq!(message, "ping");
        assert!(Listener::bind_abstract(&path).is_err(), "taken");
        drop((listener, called));
        let error = Channel::connect_abstract(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let long = "x".repeat(108);
        assert!(Listener::bind_abstract(long.as_ref()).is_err());
    }

    #[test]
    fn as_many_descriptors_arrive_as_are_allowed_and_exec_closes_them() {
        let (ours, theirs) = Channel::pair().unwrap();
        let (reader, writer) = io::pipe().unwrap();
        let all = [reader.as_fd(); DESCRIPTORS_MAX];
        ours.send(&"few", &[]).unwrap();
        ours.send(&"many", &all).unwrap();
        let (_, none) = theirs.receive::<String>().unwrap().unwrap();
        assert!(none.is_empty());
        let (_, fds) = theirs.receive::<String>().unwrap().unwrap();
        assert_eq!(fds.len(), DESCRIPTORS_MAX);
        for fd in &fds {
            let flags = rustix::io::fcntl_getfd(fd).unwrap();
            assert_eq!(flags, rustix::io::FdFlags::CLOEXEC);
        }
        let too_many = [writer.as_fd(); DESCRIPTORS_MAX + 1];
        let error = ours.send(&"more", &too_many).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        drop(ours);
        assert!(theirs.receive::<String>().unwrap().is_none());
    }

    #[test]
    fn a_message_that_no_socket_holds_arrives_with_its_descriptors() {
        let (ours, theirs) = Channel::pair().unwrap();
        let (reader, _writer) = io::pipe().unwrap();
        let large = "x".repeat(2 * INLINE_MAX);
        ours.send(&large, &[reader.as_fd()]).unwrap();
        let (message, fds) = theirs.receive::<String>().unwrap().unwrap();
        assert_eq!((message == large, fds.len()), (true, 1));
    }

    #[test]
    fn a_path_is_refused_where_the_kernel_would_cut_it() {
        let error = Listener::bind("/tmp/a\0b".as_ref()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
