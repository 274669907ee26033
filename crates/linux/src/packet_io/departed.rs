//! When frames were put on their cables, by the kernel's own stamps.
//!
//! A send call takes microseconds before its first frame reaches the receiver, and it returns only
//! when the receivers' stacks have run, so a clock read before or after it measures neither. The
//! cable's driver stamps a frame as it goes (`skb_tx_timestamp` in `veth_xmit`,
//! drivers/net/veth.c). A control message asks for the stamp of the message it goes with
//! (`SO_TIMESTAMPING`, Documentation/networking/timestamping.rst), and the answer is on the
//! socket's error queue before the send call returns.
//!
//! Answers carry the number of the request (`SOF_TIMESTAMPING_OPT_ID`), so that after a missing one
//! the next is not taken for it. Whether a frame that the kernel refused has used up a number is
//! unknown; the count then restarts from 0.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::{Departed, SEND_BATCH};
use crate::sys::check;

/// `SOF_TIMESTAMPING_*` of include/uapi/linux/net_tstamp.h.
const TX_SOFTWARE: u32 = 1 << 1;
const SOFTWARE: u32 = 1 << 4;
const OPT_ID: u32 = 1 << 7;
const OPT_TSONLY: u32 = 1 << 11;
/// `PACKET_TX_TIMESTAMP` of include/uapi/linux/if_packet.h: the control message with a frame's
/// stamp.
const TX_TIMESTAMP: i32 = 16;
/// Room for an answer's control messages: a stamp of three times 16 bytes and an extended error, 112
/// bytes with their headers, and whatever a later kernel adds.
const CONTROL_WORDS: usize = 32;

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
            flags: TX_SOFTWARE,
            padding: 0,
        }
    }
}

/// Makes a socket answer requests for stamps, numbered from 0.
pub(super) fn allow(socket: &OwnedFd) -> io::Result<()> {
    let plain = SOFTWARE | OPT_TSONLY;
    // The kernel resets the count only when numbering is switched on, so it is switched off first.
    for flags in [plain, plain | OPT_ID] {
        // SAFETY: the value is valid for its length.
        check(unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_TIMESTAMPING,
                (&raw const flags).cast(),
                size_of::<u32>() as libc::socklen_t,
            )
        })?;
    }
    Ok(())
}

/// The stamp of a frame, in nanoseconds of `CLOCK_REALTIME`, and the number of its question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) number: u32,
    pub(super) stamp_ns: u64,
}

/// Room for the answers to a send call.
#[derive(Debug)]
pub(super) struct Answers {
    control: [[u64; CONTROL_WORDS]; SEND_BATCH],
    messages: [libc::mmsghdr; SEND_BATCH],
}

impl Answers {
    pub(super) fn new() -> Self {
        // SAFETY: both are valid when all zero.
        unsafe { std::mem::zeroed() }
    }

    /// Reads the answers to the requests `first`, `first + 1`, … into `departed`, one for each
    /// frame.
    pub(super) fn read(&mut self, socket: &OwnedFd, first: u32, departed: &mut [Departed]) {
        departed.fill(Departed::Unanswered);
        let mut missing = departed.len();
        while missing > 0 {
            let read = self.receive(socket, missing);
            for number in 0..read {
                missing -= usize::from(match_answer(self.answer(number), first, departed));
            }
            if read == 0 {
                return;
            }
        }
    }

    /// Empties a socket's error queue.
    pub(super) fn discard(&mut self, socket: &OwnedFd) {
        while self.receive(socket, SEND_BATCH) > 0 {}
    }

    /// Takes at most `most` messages off the error queue; returns how many there were.
    fn receive(&mut self, socket: &OwnedFd, most: usize) -> usize {
        let most = most.min(SEND_BATCH);
        for (message, control) in self.messages[..most].iter_mut().zip(&mut self.control) {
            message.msg_hdr.msg_control = control.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = size_of_val(control) as _;
        }
        // SAFETY: the headers point to `control`, which outlives the call; there is no other
        // buffer in them.
        let read = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.messages.as_mut_ptr(),
                most as u32,
                libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        usize::try_from(read).unwrap_or(0)
    }

    /// The `index`th of the messages that have just been received.
    fn answer(&self, index: usize) -> Option<Answer> {
        // SAFETY: the kernel has filled in its header and control messages.
        unsafe { parse(&self.messages[index].msg_hdr) }
    }
}

/// Notes an answer to one of the requests from `first` on; whether it is the first to that request.
fn match_answer(answer: Option<Answer>, first: u32, departed: &mut [Departed]) -> bool {
    let place = answer.map(|answer| answer.number.wrapping_sub(first) as usize);
    let (Some(answer), Some(departed)) = (answer, place.and_then(|it| departed.get_mut(it))) else {
        return false;
    };
    let is_first = *departed == Departed::Unanswered;
    *departed = Departed::At(answer.stamp_ns);
    is_first
}

/// Parses a message of the error queue as an answer, if it is one.
///
/// # Safety
/// The control messages of `header` are the kernel's.
unsafe fn parse(header: &libc::msghdr) -> Option<Answer> {
    /// `struct scm_timestamping`, of which the first is the software stamp.
    type Stamps = [libc::timespec; 3];
    let (mut stamp_ns, mut number) = (None, None);
    // SAFETY: the macros step through whole control messages, and each is read as far as its
    // length says that it goes.
    unsafe {
        let mut item = libc::CMSG_FIRSTHDR(header);
        while !item.is_null() {
            let len = (*item).cmsg_len as usize;
            let holds = |bytes: usize| len >= libc::CMSG_LEN(bytes as u32) as usize;
            let kind = ((*item).cmsg_level, (*item).cmsg_type);
            if kind == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) && holds(size_of::<Stamps>()) {
                let [sent, ..] = libc::CMSG_DATA(item).cast::<Stamps>().read_unaligned();
                stamp_ns = Some(sent.tv_sec as u64 * 1_000_000_000 + sent.tv_nsec as u64);
            } else if kind == (libc::SOL_PACKET, TX_TIMESTAMP)
                && holds(size_of::<libc::sock_extended_err>())
            {
                let error = libc::CMSG_DATA(item).cast::<libc::sock_extended_err>();
                let error = error.read_unaligned();
                if error.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING {
                    number = Some(error.ee_data);
                }
            }
            item = libc::CMSG_NXTHDR(header, item);
        }
    }
    Some(Answer {
        number: number?,
        stamp_ns: stamp_ns.filter(|ns| *ns > 0)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of three frames whose questions begin with `first`, with such answers.
    fn matched(first: u32, answers: &[(u32, u64)]) -> ([Departed; 3], usize) {
        let mut departed = [Departed::Unanswered; 3];
        let answers = answers
            .iter()
            .map(|&(number, stamp_ns)| Answer { number, stamp_ns });
        let taken = answers.filter(|&answer| match_answer(Some(answer), first, &mut departed));
        let taken = taken.count();
        (departed, taken)
    }

    #[test]
    fn answers_belong_to_the_frames_of_their_numbers() {
        use Departed::{At, Unanswered};
        let all = [(7, 70), (8, 80), (9, 90)];
        assert_eq!(matched(7, &all), ([At(70), At(80), At(90)], 3));
        // One is missing, and not taken for the next.
        assert_eq!(
            matched(7, &[all[0], all[2]]),
            ([At(70), Unanswered, At(90)], 2)
        );
        // Of an earlier call, and of one that was never made.
        assert_eq!(matched(7, &[(6, 60), (10, 100)]), ([Unanswered; 3], 0));
        // Numbers start again from 0 behind the last.
        let around = [(u32::MAX, 1), (0, 2), (1, 3)];
        assert_eq!(matched(u32::MAX, &around), ([At(1), At(2), At(3)], 3));
        // An answer that comes twice is one.
        assert_eq!(
            matched(7, &[all[0], all[0]]),
            ([At(70), Unanswered, Unanswered], 1)
        );
        assert!(!match_answer(None, 0, &mut [Unanswered]));
    }
}
