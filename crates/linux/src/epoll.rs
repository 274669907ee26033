//! Waiting for many descriptors at once, at a cost that does not grow with their number.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::sys::check;

/// The most events that one wait returns.
const EVENTS_MAX: usize = 64;

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    Read,
    Write,
    /// Nothing but the end of the connection, both ways.
    End,
}

impl Interest {
    const fn bits(self) -> u32 {
        (match self {
            Self::Read => libc::EPOLLIN,
            Self::Write => libc::EPOLLOUT,
            Self::End => 0,
        }) as u32
    }
}

/// A set of descriptors, each with a token of the caller's. Level-triggered; a descriptor leaves the
/// set when it is closed.
#[derive(Debug)]
pub(crate) struct Epoll {
    fd: OwnedFd,
}

impl Epoll {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the result is checked and owned at once.
        unsafe {
            let fd = check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?;
            Ok(Self {
                fd: OwnedFd::from_raw_fd(fd),
            })
        }
    }

    pub(crate) fn add(&self, fd: &impl AsFd, interest: Interest, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, interest, token)
    }

    /// Waits for something else of a descriptor that is in the set.
    pub(crate) fn change(&self, fd: &impl AsFd, interest: Interest, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, interest, token)
    }

    fn control(
        &self,
        operation: i32,
        fd: &impl AsFd,
        interest: Interest,
        token: u64,
    ) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: interest.bits(),
            u64: token,
        };
        let raw = fd.as_fd().as_raw_fd();
        // SAFETY: the event outlives the call.
        check(unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), operation, raw, &raw mut event) })
            .map(drop)
    }

    /// The tokens of what is ready, at most `EVENTS_MAX`; none after `timeout`, or after a signal.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> io::Result<Vec<u64>> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX];
        let timeout = timeout.map_or(-1, |timeout| {
            // Rounded up: a deadline has passed when the wait is over.
            i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
        });
        // SAFETY: the array has room for as many events as the call is told.
        let count = check(unsafe {
            libc::epoll_wait(
                self.fd.as_raw_fd(),
                events.as_mut_ptr(),
                EVENTS_MAX as i32,
                timeout,
            )
        });
        match count {
            Ok(count) => Ok(events[..count as usize].iter().map(|e| e.u64).collect()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}
