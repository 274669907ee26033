//! A raw packet socket on one interface, for sending only.

use std::ffi::CString;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::net;

/// A raw packet socket bound to an interface.
pub(super) struct RawSocket {
    fd: OwnedFd,
    /// The interface's address; zero where it has none.
    pub(super) mac: [u8; 6],
}

impl RawSocket {
    /// Opens it; needs CAP_NET_RAW in the network namespace.
    pub(super) fn open(interface: &str) -> io::Result<Self> {
        let explain =
            |error: io::Error| io::Error::new(error.kind(), format!("{interface}: {error}"));
        let name = CString::new(interface)?;
        // SAFETY: the pointer is a zero-terminated string that outlives the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(explain(io::Error::last_os_error()));
        }
        // Protocol 0: nothing is received.
        let fd = net::open(libc::AF_PACKET, libc::SOCK_RAW, 0).map_err(explain)?;
        let mac = bind(&fd, index).map_err(explain)?;
        Ok(Self { fd, mac })
    }

    /// Sends one frame.
    pub(super) fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: the pointer and the length describe `frame`, which outlives the call.
        let sent =
            unsafe { libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        net::check(if sent < 0 { -1 } else { 0 })
    }
}

/// Binds to an interface; its MAC address.
fn bind(fd: &OwnedFd, index: u32) -> io::Result<[u8; 6]> {
    // SAFETY: an all-zero sockaddr_ll is valid.
    let mut name: libc::sockaddr_ll = unsafe { mem::zeroed() };
    name.sll_family = libc::AF_PACKET as u16;
    name.sll_ifindex = i32::try_from(index).map_err(io::Error::other)?;
    let mut length = mem::size_of_val(&name) as libc::socklen_t;
    // SAFETY: the pointer and the length describe `name`, which outlives the call.
    net::check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const name).cast(), length) })?;
    // SAFETY: as above; the kernel writes at most `length` bytes, then the size.
    net::check(unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut name).cast(), &mut length) })?;
    let mut mac = [0; 6];
    if usize::from(name.sll_halen) == mac.len() {
        mac.copy_from_slice(&name.sll_addr[..6]);
    }
    Ok(mac)
}
