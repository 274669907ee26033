//! Departures: `sendmmsg` with one address, and up to three parts, a frame.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::{Departure, SEND_BATCH, VNET_BYTES, VnetHeader, interface_of};

/// Offload state, then the frame in two parts.
const PARTS: usize = 3;

/// The arguments of `sendmmsg`, joined up once: message → address and parts → offload state. The
/// pointers stay true because the box never moves its content.
#[derive(Debug)]
pub(super) struct Outbox {
    addresses: [libc::sockaddr_ll; SEND_BATCH],
    headers: [VnetHeader; SEND_BATCH],
    parts: [[libc::iovec; PARTS]; SEND_BATCH],
    messages: [libc::mmsghdr; SEND_BATCH],
}

impl Outbox {
    /// With or without offload state in front of each frame.
    pub(super) fn new(offload: bool) -> Box<Self> {
        // SAFETY: all four structures are valid when all zero.
        let mut outbox: Box<Self> = Box::new(unsafe { std::mem::zeroed() });
        let Self {
            addresses,
            headers,
            parts,
            messages,
        } = &mut *outbox;
        let places = addresses.iter_mut().zip(headers).zip(parts).zip(messages);
        for (((address, vnet), parts), message) in places {
            parts[0].iov_base = std::ptr::from_mut(vnet).cast();
            parts[0].iov_len = VNET_BYTES;
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_halen = 6;
            let header = &mut message.msg_hdr;
            header.msg_name = std::ptr::from_mut(address).cast();
            header.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            let parts = if offload {
                &mut parts[..]
            } else {
                &mut parts[1..]
            };
            header.msg_iov = parts.as_mut_ptr();
            header.msg_iovlen = parts.len();
        }
        outbox
    }

    /// Sends through `socket`; see [`super::PacketIo::send`].
    pub(super) fn send(&mut self, socket: &OwnedFd, batch: &[Departure<'_>]) -> usize {
        let batch = &batch[..batch.len().min(SEND_BATCH)];
        for (index, departure) in batch.iter().enumerate() {
            self.addresses[index].sll_ifindex = interface_of(departure.host) as i32;
            self.headers[index] = departure.vnet;
            let parts = &mut self.parts[index][1..];
            for (part, bytes) in parts.iter_mut().zip(departure.parts) {
                part.iov_base = bytes.as_ptr().cast_mut().cast();
                part.iov_len = bytes.len();
            }
        }
        let (mut done, mut refused) = (0, 0);
        while done < batch.len() {
            // SAFETY: the messages up to `batch.len()` point to frames that outlive the call.
            let sent = unsafe {
                libc::sendmmsg(
                    socket.as_raw_fd(),
                    self.messages.as_mut_ptr().add(done),
                    (batch.len() - done) as u32,
                    0,
                )
            };
            match usize::try_from(sent) {
                Ok(sent) => done += sent,
                Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                // The first message is the one refused: go on behind it. What a cable has no room
                // for, its interface counts; what else is refused, we count.
                Err(_) => {
                    let full = io::Error::last_os_error().raw_os_error() == Some(libc::ENOBUFS);
                    refused += if full { 0 } else { batch[done].packets };
                    done += 1;
                }
            }
        }
        refused
    }
}

// SAFETY: all that its pointers lead to belongs to this value, or to the caller of `send`.
unsafe impl Send for Outbox {}
