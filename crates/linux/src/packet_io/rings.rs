//! Joins the rings and the outbox.
//!
//! Where two rings share arrivals by length, the kernel still delivers them one after the other:
//! once a frame is visible in one ring, all older ones are visible in the other, but only to a read
//! taken afterwards. So the stamps show which of the two heads is older, and a ring that was found
//! empty before the other was found full is inspected once more.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll;

use super::outbox::Outbox;
use super::ring::{self, Ring};
use super::{Arrival, Ask, Departed, Departure, RingConfig};

/// One or two rings for arrivals, and a separate socket for departures, so that the kernel's stamps
/// of departures do not wake a thread that waits for arrivals.
#[derive(Debug)]
pub struct Rings {
    sender: OwnedFd,
    first: Ring,
    second: Option<Ring>,
    /// Whether the oldest arrival is in the second ring.
    in_second: bool,
    /// Readable when one of them is.
    either: Option<OwnedFd>,
    outbox: Box<Outbox>,
}

impl Rings {
    /// Maps the rings of sockets from [`super::open`]; `sender` is from [`super::open_sender`].
    pub(crate) fn new(sockets: Vec<(OwnedFd, RingConfig)>, sender: OwnedFd) -> io::Result<Self> {
        let mut sockets = sockets.into_iter();
        let (fd, config) = sockets
            .next()
            .ok_or_else(|| io::Error::other("no ring at all"))?;
        let first = Ring::new(fd, config)?;
        // If refused, the end of the send call bounds a frame's departure.
        let asks = super::departed::allow(&sender).is_ok();
        // If refused, the buffer stays as large as `wmem_max` allows.
        let _ = ring::force_send_buffer(&sender);
        let second = match sockets.next() {
            Some((fd, config)) => Some(Ring::new(fd, config)?),
            None => None,
        };
        let either = match &second {
            Some(second) => Some(either(first.fd(), second.fd())?),
            None => None,
        };
        Ok(Self {
            sender,
            first,
            second,
            in_second: false,
            either,
            outbox: Box::new(Outbox::new(config.offload, asks)),
        })
    }
}

/// A descriptor that is readable when one of two is.
fn either(one: &OwnedFd, other: &OwnedFd) -> io::Result<OwnedFd> {
    let either = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for fd in [one, other] {
        let nameless = epoll::EventData::new_u64(0);
        epoll::add(&either, fd, nameless, epoll::EventFlags::IN)?;
    }
    Ok(either)
}

impl Rings {
    /// The oldest arrival, left in place.
    #[inline]
    pub fn peek(&mut self) -> Option<Arrival<'_>> {
        let Some(second) = &mut self.second else {
            return self.first.peek();
        };
        let mut stamp = self.first.stamp();
        let other = second.stamp();
        // An older frame may have come to the first ring between the two reads.
        if stamp.is_none() && other.is_some() {
            stamp = self.first.stamp();
        }
        self.in_second = match (stamp, other) {
            (Some(stamp), Some(other)) => other < stamp,
            (None, Some(_)) => true,
            (Some(_), None) => false,
            // A frame that has come meanwhile is found by the next call.
            (None, None) => return None,
        };
        if self.in_second {
            second.peek()
        } else {
            self.first.peek()
        }
    }

    /// Returns the slot of the arrival that [`peek`](Self::peek) gave last to the kernel.
    #[inline]
    pub fn release(&mut self) {
        match &mut self.second {
            Some(second) if self.in_second => second.release(),
            _ => self.first.release(),
        }
    }

    /// Sends at most [`SEND_BATCH`](super::SEND_BATCH) frames in order and says in `departed` what
    /// became of each. Before Linux 6.7 a frame that a full cable refuses is not among the refused:
    /// its interface counts it ([`crate::sandbox::HostCounters`]).
    pub fn send(&mut self, batch: &[Departure<'_>], ask: Ask, departed: &mut [Departed]) {
        self.outbox.send(&self.sender, batch, ask, departed);
    }

    /// Arrivals lost since the last call because a ring was full.
    pub fn take_drops(&mut self) -> u64 {
        let second = self.second.as_mut().map_or(0, Ring::take_drops);
        self.first.take_drops() + second
    }

    /// A descriptor that is readable when there are arrivals.
    pub fn readiness(&self) -> BorrowedFd<'_> {
        self.either.as_ref().unwrap_or(self.first.fd()).as_fd()
    }
}
