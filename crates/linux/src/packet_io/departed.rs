//! When a frame was put on its cable, by the kernel's own stamp.
//!
//! A send call takes microseconds before its first frame is with the receiver, and more after
//! that. A clock that is read before or after the call cannot tell the two apart; the cable's
//! driver can (`skb_tx_timestamp` in `veth_xmit`, drivers/net/veth.c). It is asked for single
//! messages (`SO_TIMESTAMPING` as a control message, Documentation/networking/timestamping.rst),
//! and answers on the socket's error queue before the send call returns.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::sys::check;

/// `SOF_TIMESTAMPING_*` of include/uapi/linux/net_tstamp.h.
const STAMP_SENT: u32 = 1 << 1;
const TELL_SOFTWARE: u32 = 1 << 4;
const TELL_STAMP_ONLY: u32 = 1 << 11;

/// A control message that asks for the stamp of the message that it goes with.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Question {
    header: libc::cmsghdr,
    flags: u32,
    padding: u32,
}

const _: () = assert!(
    size_of::<Question>() == size_of::<libc::cmsghdr>().next_multiple_of(align_of::<usize>()) + 8
);

impl Question {
    pub(super) fn new() -> Self {
        // SAFETY: no pointers. It computes a length.
        let len = unsafe { libc::CMSG_LEN(size_of::<u32>() as u32) };
        // SAFETY: the header is valid when all zero; some platforms have padding in it.
        let mut header: libc::cmsghdr = unsafe { std::mem::zeroed() };
        header.cmsg_len = len as _;
        header.cmsg_level = libc::SOL_SOCKET;
        header.cmsg_type = libc::SO_TIMESTAMPING;
        Self {
            header,
            flags: STAMP_SENT,
            padding: 0,
        }
    }
}

/// Lets a socket answer questions.
pub(super) fn allow(socket: &OwnedFd) -> io::Result<()> {
    let flags = TELL_SOFTWARE | TELL_STAMP_ONLY;
    // SAFETY: the value is valid for its length.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPING,
            (&raw const flags).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// Empties a socket's error queue; the last answer, in nanoseconds of `CLOCK_REALTIME`.
pub(super) fn take_answer(socket: &OwnedFd) -> Option<u64> {
    let mut answer = None;
    while let Some(stamp) = read_one(socket) {
        answer = stamp.or(answer);
    }
    answer
}

/// Reads one message of the error queue: `None` where there is none, an empty answer where it is
/// about something else.
fn read_one(socket: &OwnedFd) -> Option<Option<u64>> {
    /// `struct scm_timestamping`, of which the first is the software stamp.
    type Stamps = [libc::timespec; 3];
    let mut control = [0u64; 32];
    // SAFETY: an all-zero header is valid; it points to `control`, which outlives the call, and the
    // kernel writes whole control messages into it, which the macros step through.
    unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        if libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) < 0 {
            return None;
        }
        let mut item = libc::CMSG_FIRSTHDR(&raw const header);
        while !item.is_null() {
            let len = (*item).cmsg_len as usize;
            let kind = ((*item).cmsg_level, (*item).cmsg_type);
            let whole = len >= libc::CMSG_LEN(size_of::<Stamps>() as u32) as usize;
            if kind == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) && whole {
                let [sent, ..] = libc::CMSG_DATA(item).cast::<Stamps>().read_unaligned();
                let ns = sent.tv_sec as u64 * 1_000_000_000 + sent.tv_nsec as u64;
                return Some((ns > 0).then_some(ns));
            }
            item = libc::CMSG_NXTHDR(&raw const header, item);
        }
    }
    Some(None)
}
