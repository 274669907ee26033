//! Many datagrams a system call: `sendmmsg`, and `recvmmsg` with the kernel's receive stamps.
//!
//! Both keep their headers, vectors and buffers in boxed slices that are never resized, so
//! that the pointers between them stay valid for as long as the batch lives.

use std::io;
use std::mem;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::ptr;

use crate::net;
use crate::stamp::{self, HEAD_LEN};

/// How many datagrams a receive call takes at most.
const RECEIVE: usize = 64;
/// The longest address of a UDP socket, `sockaddr_in6`.
const NAME_LEN: usize = 28;

/// A sender's address as the kernel wrote it; good for comparing only.
pub(crate) type Peer = [u8; NAME_LEN];

/// Datagrams to be sent together.
pub(crate) struct SendBatch {
    payloads: Box<[u8]>,
    size: usize,
    _vectors: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
}

impl SendBatch {
    /// Room for `count` payloads of `size` bytes.
    pub(crate) fn new(count: usize, size: usize) -> Self {
        let mut payloads = vec![0; count * size].into_boxed_slice();
        let mut vectors: Box<[_]> = payloads
            .chunks_exact_mut(size)
            .map(|payload| libc::iovec {
                iov_base: payload.as_mut_ptr().cast(),
                iov_len: size,
            })
            .collect();
        let headers = vectors.iter_mut().map(header).collect();
        Self {
            payloads,
            size,
            _vectors: vectors,
            headers,
        }
    }

    /// Sends the first `count` payloads, numbered from `first_seq` and stamped `stamp_ns`, on
    /// a connected socket; how many the kernel took.
    pub(crate) fn send(
        &mut self,
        socket: &UdpSocket,
        count: usize,
        first_seq: u64,
        stamp_ns: i64,
    ) -> io::Result<usize> {
        let count = count.min(self.headers.len());
        let payloads = self.payloads.chunks_exact_mut(self.size).take(count);
        for (seq, payload) in (first_seq..).zip(payloads) {
            stamp::write(payload, seq, stamp_ns);
        }
        // SAFETY: `count` headers exist; each points at one vector, which points at one
        // payload, all owned by `self` and never resized.
        let sent = unsafe {
            let headers = self.headers.as_mut_ptr();
            libc::sendmmsg(socket.as_raw_fd(), headers, count as u32, 0)
        };
        net::check(sent)?;
        Ok(sent as usize)
    }
}

/// A message header around one vector.
fn header(vector: &mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: an all-zero mmsghdr is valid: null pointers with zero lengths.
    let mut header: libc::mmsghdr = unsafe { mem::zeroed() };
    header.msg_hdr.msg_iov = vector;
    header.msg_hdr.msg_iovlen = 1;
    header
}

/// What a receiver learns of one datagram.
pub(crate) struct Arrival {
    /// Payload bytes.
    pub(crate) len: u64,
    /// Its number, if it is long enough to have one.
    pub(crate) seq: Option<u64>,
    /// The sender's stamp, if it is long enough to have one.
    pub(crate) sent_ns: Option<i64>,
    /// The kernel's stamp.
    pub(crate) received_ns: Option<i64>,
    /// Who sent it.
    pub(crate) peer: Peer,
}

/// One received datagram's buffers. Only the head of the payload is copied out of the kernel;
/// it verifies the checksum of the whole nevertheless.
#[derive(Clone, Copy)]
struct Slot {
    head: [u8; HEAD_LEN],
    name: [u32; NAME_LEN / 4],
    /// Aligned as control messages must be, with room for one stamp.
    control: [u64; 8],
}

/// Datagrams received together.
pub(crate) struct ReceiveBatch {
    slots: Box<[Slot]>,
    _vectors: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
}

impl ReceiveBatch {
    /// An empty batch for `socket`, which from now on stamps what it receives.
    pub(crate) fn new(socket: &UdpSocket) -> io::Result<Self> {
        net::set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        let empty = Slot {
            head: [0; HEAD_LEN],
            name: [0; NAME_LEN / 4],
            control: [0; 8],
        };
        let mut slots = vec![empty; RECEIVE].into_boxed_slice();
        let mut vectors: Box<[_]> = slots
            .iter_mut()
            .map(|slot| libc::iovec {
                iov_base: slot.head.as_mut_ptr().cast(),
                iov_len: HEAD_LEN,
            })
            .collect();
        let mut headers: Box<[_]> = vectors.iter_mut().map(header).collect();
        for (header, slot) in headers.iter_mut().zip(&mut slots) {
            header.msg_hdr.msg_name = slot.name.as_mut_ptr().cast();
            header.msg_hdr.msg_control = slot.control.as_mut_ptr().cast();
        }
        Ok(Self {
            slots,
            _vectors: vectors,
            headers,
        })
    }

    /// Waits for datagrams, as long as the socket's time-out allows, and takes those there are.
    pub(crate) fn receive(
        &mut self,
        socket: &UdpSocket,
    ) -> io::Result<impl Iterator<Item = Arrival>> {
        for header in &mut self.headers {
            header.msg_hdr.msg_namelen = NAME_LEN as libc::socklen_t;
            header.msg_hdr.msg_controllen = mem::size_of::<[u64; 8]>();
        }
        // MSG_TRUNC: the length of the whole datagram, not of what was copied.
        let flags = libc::MSG_WAITFORONE | libc::MSG_TRUNC;
        // SAFETY: each header points at one vector, one name and one control buffer of the
        // lengths given, all owned by `self` and never resized.
        let count = unsafe {
            let headers = self.headers.as_mut_ptr();
            let no_timeout = ptr::null_mut();
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers,
                RECEIVE as u32,
                flags,
                no_timeout,
            )
        };
        net::check(count)?;
        let filled = self.headers.iter().zip(&self.slots).take(count as usize);
        Ok(filled.map(|(header, slot)| arrival(header, slot)))
    }
}

fn arrival(header: &libc::mmsghdr, slot: &Slot) -> Arrival {
    let len = header.msg_len as usize;
    let (seq, sent_ns) = stamp::read(&slot.head[..len.min(HEAD_LEN)]);
    let mut peer = [0; NAME_LEN];
    for (bytes, word) in peer.chunks_exact_mut(4).zip(slot.name) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
    // An IPv4 address is shorter: what lies behind it is not part of the name.
    peer[(header.msg_hdr.msg_namelen as usize).min(NAME_LEN)..].fill(0);
    Arrival {
        len: len as u64,
        seq,
        sent_ns,
        received_ns: kernel_stamp(&header.msg_hdr),
        peer,
    }
}

/// The receive stamp among a message's control messages, in nanoseconds of `CLOCK_REALTIME`.
pub(crate) fn kernel_stamp(message: &libc::msghdr) -> Option<i64> {
    // SAFETY: the kernel has just filled the control buffer that the header describes; the
    // macros stay within it, and the stamp is read unaligned.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(message);
        while let Some(head) = control.as_ref() {
            if (head.cmsg_level, head.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
                let stamp: libc::timespec = ptr::read_unaligned(libc::CMSG_DATA(head).cast());
                return Some(stamp.tv_sec * 1_000_000_000 + stamp.tv_nsec);
            }
            control = libc::CMSG_NXTHDR(message, head);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Listen;

    #[test]
    fn batches_carry_numbers_lengths_and_stamps() {
        for host in ["127.0.0.1", "::1"] {
            let bind = Some(host.parse().unwrap());
            let receiver = Listen { port: 0, bind }.udp().unwrap();
            let mut batch = ReceiveBatch::new(&receiver).unwrap();
            let target = receiver.local_addr().unwrap().to_string();
            let sender = net::connect_udp(&target).unwrap();
            let before = stamp::realtime_ns();
            let sent = SendBatch::new(5, 300).send(&sender, 3, 40, before);
            assert_eq!(sent.unwrap(), 3);
            sender.send(b"short").unwrap();

            let arrivals: Vec<_> = batch.receive(&receiver).unwrap().collect();
            let seqs: Vec<_> = arrivals.iter().map(|arrival| arrival.seq).collect();
            assert_eq!(seqs, [Some(40), Some(41), Some(42), None]);
            assert_eq!((arrivals[0].len, arrivals[3].len), (300, 5));
            assert_eq!(arrivals[0].sent_ns, Some(before));
            assert_eq!(arrivals[0].peer, arrivals[3].peer);
            assert!(
                arrivals
                    .iter()
                    .all(|arrival| arrival.received_ns >= Some(before))
            );
        }
    }
}
