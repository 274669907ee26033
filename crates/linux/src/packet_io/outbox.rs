//! Departures: `sendmmsg` with one address, and up to three parts, per frame.
//!
//! A call stops at the first message that the kernel refuses. Unless that is the call's own first
//! message, the call reports only how many were sent, not the error; the next call retries the same
//! message, and its outcome counts. Since Linux 6.7, a cable without room for a frame refuses it
//! (`veth_xmit` in `drivers/net/veth.c`), but its interface counts both attempts, so its counter is
//! of no use. Older kernels may report success for such a frame, and there the counter is all there
//! is.
//!
//! While a receiver's CPU is busy with other work, this socket's buffer or that CPU's queue
//! (`netdev_max_backlog`) can be full for a few ticks. A packet that waits is late, one that is
//! given up is lost, so a call retries for [`PATIENCE_NS`]. All other frames wait meanwhile: the
//! full buffer or queue is not one host's alone, so they would find no room either.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;
use std::time::Duration;

use super::departed::{self, Answers, Question};
use super::{Ask, Departed, Departure, SEND_BATCH, VNET_BYTES, VnetHeader, interface_of};
use crate::clock::monotonic_ns;

/// Offload state, then the frame in two parts.
const PARTS: usize = 3;
/// How long from its first refusal on a call retries frames that find no room, and how long it
/// sleeps in between: each attempt copies the frame.
const PATIENCE_NS: u64 = 5_000_000;
const BETWEEN: Duration = Duration::from_micros(50);

/// Whether this kernel refuses a frame for which its cable has no room. Where it does not, the
/// interface's counter has to say.
pub(crate) fn says_full() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    crate::doctor::version(&release) >= (6, 7)
}

/// Room for the arguments of `sendmmsg`: message → address and parts → offload state. Each call
/// sets the pointers between them anew, since the outbox may have moved in memory.
#[derive(Debug)]
pub(super) struct Outbox {
    offload: bool,
    says_full: bool,
    addresses: [libc::sockaddr_ll; SEND_BATCH],
    headers: [VnetHeader; SEND_BATCH],
    parts: [[libc::iovec; PARTS]; SEND_BATCH],
    messages: [libc::mmsghdr; SEND_BATCH],
    question: Question,
    /// Where the socket answers requests for stamps: room for answers, and the next request's
    /// number.
    answers: Option<(Answers, u32)>,
}

impl Outbox {
    /// With or without offload state in front of each frame; `asks` where the socket answers.
    pub(super) fn new(offload: bool, asks: bool) -> Self {
        // SAFETY: all three structures are valid when all zero.
        let (address, parts, messages) = unsafe { std::mem::zeroed() };
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_halen: 6,
            ..address
        };
        Self {
            offload,
            says_full: says_full(),
            addresses: [address; SEND_BATCH],
            headers: [VnetHeader::default(); SEND_BATCH],
            parts,
            messages,
            question: Question::new(),
            answers: asks.then(|| (Answers::new(), 0)),
        }
    }

    /// Sends through `socket`; see [`super::Rings::send`].
    pub(super) fn send(
        &mut self,
        socket: &OwnedFd,
        batch: &[Departure<'_>],
        ask: Ask,
        departed: &mut [Departed],
    ) {
        let batch = &batch[..batch.len().min(SEND_BATCH)];
        let departed = &mut departed[..batch.len()];
        departed.fill(Departed::Unasked);
        self.join_up(batch);
        let asked = match (&self.answers, ask) {
            (None, _) => batch.len()..batch.len(),
            (Some(_), Ask::Each) => 0..batch.len(),
            (Some(_), Ask::Last) => batch.len().saturating_sub(1)..batch.len(),
        };
        for message in &mut self.messages[asked.clone()] {
            message.msg_hdr.msg_control = std::ptr::from_mut(&mut self.question).cast();
            message.msg_hdr.msg_controllen = size_of::<Question>();
        }
        let is_clean = self.send_batch(socket, departed);
        let Some((answers, next)) = &mut self.answers else {
            return;
        };
        if asked.is_empty() {
            return;
        }
        if !is_clean {
            // Which attempts used up a number is unknown, so no stamp can be matched with its
            // frame.
            answers.discard(socket);
            *next = 0;
            if departed::allow(socket).is_err() {
                self.answers = None;
            }
            return;
        }
        answers.read(socket, *next, &mut departed[asked.clone()]);
        *next = next.wrapping_add(asked.len() as u32);
    }

    /// Sends the joined-up messages, and notes which are refused. False where any attempt failed.
    fn send_batch(&mut self, socket: &OwnedFd, departed: &mut [Departed]) -> bool {
        let messages = self.messages.as_mut_ptr();
        let mut until_ns = None;
        let wait = || {
            let now_ns = monotonic_ns();
            let is_patient = now_ns < *until_ns.get_or_insert(now_ns + PATIENCE_NS);
            if is_patient {
                thread::sleep(BETWEEN);
            }
            is_patient
        };
        let len = departed.len();
        send_all(departed, self.says_full, wait, |done| {
            // SAFETY: the messages up to `len` point to frames that outlive the call, and to what
            // `join_up` has written, which nobody touches meanwhile.
            let sent = unsafe {
                libc::sendmmsg(
                    socket.as_raw_fd(),
                    messages.add(done),
                    (len - done) as u32,
                    0,
                )
            };
            usize::try_from(sent).map_err(|_| io::Error::last_os_error())
        })
    }

    fn join_up(&mut self, batch: &[Departure<'_>]) {
        let addresses = self.addresses.iter_mut().zip(&mut self.headers);
        let places = addresses.zip(&mut self.parts).zip(&mut self.messages);
        for (departure, (((address, vnet), parts), message)) in batch.iter().zip(places) {
            address.sll_ifindex = interface_of(departure.host) as i32;
            *vnet = departure.vnet;
            parts[0].iov_base = std::ptr::from_mut(vnet).cast();
            parts[0].iov_len = VNET_BYTES;
            for (part, bytes) in parts[1..].iter_mut().zip(departure.parts) {
                part.iov_base = bytes.as_ptr().cast_mut().cast();
                part.iov_len = bytes.len();
            }
            let header = &mut message.msg_hdr;
            header.msg_name = std::ptr::from_mut(address).cast();
            header.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            let parts = if self.offload {
                &mut parts[..]
            } else {
                &mut parts[1..]
            };
            header.msg_iov = parts.as_mut_ptr();
            header.msg_iovlen = parts.len();
            header.msg_controllen = 0;
        }
    }
}

/// Sends one message for each entry of `departed`. `send` sends from the given message on and
/// returns how many went; a message that finds no room is retried for as long as `wait` returns
/// true. Notes the refused ones, except those that an interface's counter reports. False where any
/// attempt failed.
fn send_all(
    departed: &mut [Departed],
    says_full: bool,
    mut wait: impl FnMut() -> bool,
    mut send: impl FnMut(usize) -> io::Result<usize>,
) -> bool {
    let (mut done, mut calls) = (0, 0);
    while done < departed.len() {
        calls += 1;
        match send(done) {
            Ok(sent) => done += sent,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The first message was refused: retry it, or go on behind it.
            Err(error) => {
                let is_full = error.raw_os_error() == Some(libc::ENOBUFS);
                let no_room = is_full && says_full || error.kind() == io::ErrorKind::WouldBlock;
                if no_room && wait() {
                    continue;
                }
                // A kernel that may report success for a full cable leaves the count to the
                // interface; noting it here too would count it twice.
                if !is_full || says_full {
                    departed[done] = Departed::Refused;
                }
                done += 1;
            }
        }
    }
    // A refusal always takes a second call.
    calls <= 1
}

// SAFETY: its pointers are used in the call that writes them, and in no other.
unsafe impl Send for Outbox {}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel that refuses messages a given number of times, as `sendmmsg` reports it; what it
    /// was given.
    fn kernel(
        mut refusals: Vec<(usize, i32)>,
        len: usize,
    ) -> impl FnMut(usize) -> io::Result<usize> {
        move |from| {
            for index in from..len {
                let Some(at) = refusals.iter().position(|(n, _)| *n == index) else {
                    continue;
                };
                let (_, error) = refusals.remove(at);
                return match index - from {
                    0 => Err(io::Error::from_raw_os_error(error)),
                    sent => Ok(sent),
                };
            }
            Ok(len - from)
        }
    }

    /// Without patience.
    fn refused(refusals: &[(usize, i32)], says_full: bool) -> Vec<usize> {
        refused_after(0, refusals, says_full)
    }

    /// Which of four messages are refused by a kernel like that, and that any refusal is reported.
    fn refused_after(mut waits: u32, refusals: &[(usize, i32)], says_full: bool) -> Vec<usize> {
        let wait = || waits.checked_sub(1).map(|left| waits = left).is_some();
        let mut departed = [Departed::Unasked; 4];
        let kernel = kernel(refusals.to_vec(), departed.len());
        let is_clean = send_all(&mut departed, says_full, wait, kernel);
        assert_eq!(is_clean, refusals.is_empty());
        let refused = |index: &usize| departed[*index] == Departed::Refused;
        (0..departed.len()).filter(refused).collect()
    }

    #[test]
    fn a_refused_message_counts_once() {
        const FULL: i32 = libc::ENOBUFS;
        assert!(refused(&[], true).is_empty());
        // Refused twice; the first refusal is not reported.
        assert_eq!(refused(&[(2, FULL), (2, FULL)], true), [2]);
        // There was room at the second attempt.
        assert!(refused(&[(2, FULL)], true).is_empty());
        let four = [(0, FULL), (1, FULL), (3, FULL), (3, FULL)];
        assert_eq!(refused(&four, true), [0, 1, 3]);
        assert!(refused(&[(0, libc::EINTR)], true).is_empty());
        assert_eq!(refused(&[(0, libc::ENETDOWN)], true), [0]);
    }

    #[test]
    fn a_message_without_room_is_offered_again() {
        const FULL: i32 = libc::ENOBUFS;
        let full_twice = [(0, FULL), (0, FULL), (3, FULL), (3, FULL), (3, FULL)];
        assert!(refused_after(4, &full_twice, true).is_empty());
        let buffer_full = [(0, libc::EAGAIN), (0, libc::EAGAIN)];
        assert!(refused_after(2, &buffer_full, false).is_empty());
        assert_eq!(refused_after(1, &buffer_full, false), [0]);
        // The last one finds no patience left.
        assert_eq!(refused_after(3, &full_twice, true), [3]);
        assert_eq!(refused_after(9, &[(0, libc::ENETDOWN)], true), [0]);
    }

    #[test]
    fn what_an_interface_counts_is_not_counted_again() {
        assert!(refused(&[(0, libc::ENOBUFS)], false).is_empty());
        assert_eq!(refused(&[(0, libc::ENETDOWN)], false), [0]);
    }
}
