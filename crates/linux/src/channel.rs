//! Messages with descriptors between the processes of one run.
//!
//! A `SOCK_SEQPACKET` pair carries JSON with `SCM_RIGHTS`: either whole messages or none, and
//! end-of-file when the other side has died, however it died.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::sys::check;

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
    /// Whether files in memory are taken from the other side: reading one may block.
    trusted: bool,
}

impl Channel {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self { fd, trusted: true }
    }

    /// A connected pair.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (a, b) = crate::sys::socket_pair()?;
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
        let mut control = Control::default();
        let raw: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
        let mut part = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        // SAFETY: an all-zero msghdr is valid; every pointer set below outlives the call, and
        // the control buffer has room for DESCRIPTORS_MAX descriptors.
        let sent = unsafe {
            let mut header: libc::msghdr = std::mem::zeroed();
            (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
            if !raw.is_empty() {
                let len = (raw.len() * size_of::<RawFd>()) as u32;
                header.msg_control = control.0.as_mut_ptr().cast();
                header.msg_controllen = libc::CMSG_SPACE(len) as usize;
                let first = libc::CMSG_FIRSTHDR(&raw const header);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = libc::CMSG_LEN(len) as usize;
                std::ptr::copy_nonoverlapping(
                    raw.as_ptr().cast::<u8>(),
                    libc::CMSG_DATA(first),
                    len as usize,
                );
            }
            libc::sendmsg(self.fd.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL)
        };
        if sent < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Waits for a message; `None` when the other side is gone.
    pub fn receive<M: DeserializeOwned>(&self) -> io::Result<Option<(M, Vec<OwnedFd>)>> {
        let mut bytes = vec![0u8; INLINE_MAX];
        let mut control = Control::default();
        let mut part = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let mut fds = Vec::new();
        // SAFETY: an all-zero msghdr is valid; every pointer outlives the call; descriptors are
        // owned as soon as they are seen.
        let read = unsafe {
            let mut header: libc::msghdr = std::mem::zeroed();
            (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = control.0.len();
            let read = libc::recvmsg(self.fd.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC);
            if read >= 0 {
                let mut item = libc::CMSG_FIRSTHDR(&raw const header);
                while !item.is_null() {
                    if (*item).cmsg_type == libc::SCM_RIGHTS {
                        let len = (*item).cmsg_len - libc::CMSG_LEN(0) as usize;
                        for index in 0..len / size_of::<RawFd>() {
                            let raw = libc::CMSG_DATA(item).cast::<RawFd>().add(index);
                            fds.push(OwnedFd::from_raw_fd(raw.read_unaligned()));
                        }
                    }
                    item = libc::CMSG_NXTHDR(&raw const header, item);
                }
            }
            read
        };
        match check(i32::try_from(read).unwrap_or(i32::MAX)) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
            Err(error) => Err(error),
            Ok(0) => Ok(None),
            Ok(read) => {
                let mut bytes = &bytes[..read as usize];
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
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Room for the control message of `DESCRIPTORS_MAX` descriptors, aligned as the kernel wants.
#[repr(align(8))]
struct Control([u8; 64]);

impl Default for Control {
    fn default() -> Self {
        Self([0; 64])
    }
}

/// A socket at which other processes of the same user may call.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    /// Its file; none for an abstract name.
    path: Option<std::path::PathBuf>,
}

/// Room for a socket's path in the kernel's structure.
const SOCKET_PATH_MAX: usize = 107;

/// The address of a socket at `path`. A path that is too long is reached through a descriptor
/// of its folder, which must stay open until the address has been used.
fn socket_address(
    path: &std::path::Path,
) -> io::Result<(libc::sockaddr_un, Option<std::fs::File>)> {
    use std::os::unix::ffi::OsStrExt;
    let invalid = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
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
    // SAFETY: an all-zero address is valid.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    if bytes.len() >= address.sun_path.len() {
        return Err(invalid("the name of a socket is too long"));
    }
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = from as libc::c_char;
    }
    Ok((address, folder))
}

/// The address of an abstract name (unix(7)): `path` behind a zero byte. It is no file, and goes with
/// the socket however its process ends.
fn abstract_address(path: &std::path::Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = path.as_os_str().as_bytes();
    // SAFETY: an all-zero address is valid.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    if bytes.len() >= address.sun_path.len() {
        let why = "the name of a socket is too long";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    for (to, from) in address.sun_path[1..].iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    let len = std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + bytes.len();
    Ok((address, len as libc::socklen_t))
}

/// The user at the other end of a connection.
fn peer_uid(fd: &OwnedFd) -> io::Result<u32> {
    let mut peer = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the structure and its length outlive the call.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut len,
        )
    })?;
    Ok(peer.uid)
}

/// Our user.
fn own_uid() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() }
}

fn unix_socket(flags: i32) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | flags;
    // SAFETY: no pointers; the result is checked and owned at once.
    unsafe {
        Ok(OwnedFd::from_raw_fd(check(libc::socket(
            libc::AF_UNIX,
            kind,
            0,
        ))?))
    }
}

const ADDRESS_LEN: libc::socklen_t = size_of::<libc::sockaddr_un>() as libc::socklen_t;

impl Listener {
    /// Listens at `path`, which only the caller's user may use.
    pub fn bind(path: &std::path::Path) -> io::Result<Self> {
        use std::os::unix::fs::PermissionsExt;
        let (address, _folder) = socket_address(path)?;
        let fd = unix_socket(libc::SOCK_NONBLOCK)?;
        // SAFETY: the address outlives the call.
        unsafe {
            let address = (&raw const address).cast();
            check(libc::bind(fd.as_raw_fd(), address, ADDRESS_LEN))?;
        }
        let listener = Self {
            fd,
            path: Some(path.to_owned()),
        };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))?;
        // SAFETY: no pointers.
        check(unsafe { libc::listen(listener.fd.as_raw_fd(), 16) })?;
        Ok(listener)
    }

    /// Listens at the abstract name `path`, for the caller's user and root. Nothing of it is left
    /// where the process is killed, and no other process is needed to see to that.
    pub fn bind_abstract(path: &std::path::Path) -> io::Result<Self> {
        let (address, len) = abstract_address(path)?;
        let fd = unix_socket(libc::SOCK_NONBLOCK)?;
        // SAFETY: the address outlives the call, and is at least `len` bytes long.
        unsafe {
            let address = (&raw const address).cast();
            check(libc::bind(fd.as_raw_fd(), address, len))?;
            check(libc::listen(fd.as_raw_fd(), 16))?;
        }
        Ok(Self { fd, path: None })
    }

    /// The next caller, if one waits. Its channel never blocks: neither a caller that says
    /// nothing nor one that does not listen may hold up the run.
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
        // SAFETY: the address of the caller is not asked for; the result is owned at once.
        let fd = unsafe {
            libc::accept4(
                self.fd.as_raw_fd(),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
            )
        };
        match check(fd) {
            Ok(fd) => Ok(Some(Channel {
                // SAFETY: a descriptor that the kernel has just made for us.
                fd: unsafe { OwnedFd::from_raw_fd(fd) },
                trusted: false,
            })),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
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
    pub fn connect(path: &std::path::Path) -> io::Result<Self> {
        let (address, _folder) = socket_address(path)?;
        let fd = unix_socket(0)?;
        // SAFETY: the address outlives the call.
        unsafe {
            let address = (&raw const address).cast();
            check(libc::connect(fd.as_raw_fd(), address, ADDRESS_LEN))?;
        }
        Ok(Self::new(fd))
    }

    /// Calls the listener at the abstract name `path`, which must be of the caller's user unless that
    /// is root: anybody may take such a name.
    pub fn connect_abstract(path: &std::path::Path) -> io::Result<Self> {
        let (address, len) = abstract_address(path)?;
        let fd = unix_socket(0)?;
        // SAFETY: the address outlives the call, and is at least `len` bytes long.
        unsafe {
            let address = (&raw const address).cast();
            check(libc::connect(fd.as_raw_fd(), address, len))?;
        }
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
}
