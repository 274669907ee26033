//! Waiting for many descriptors at once, at a cost that does not grow with their number.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

use crate::sys::timespec;

/// The most events that one wait returns.
const EVENTS_MAX: usize = 64;
/// As long as the kernel's milliseconds go.
const TIMEOUT_MAX: Duration = Duration::from_millis(i32::MAX as u64);

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    Read,
    Write,
    /// Nothing but the end of the connection, both ways.
    End,
}

impl Interest {
    const fn flags(self) -> EventFlags {
        match self {
            Self::Read => EventFlags::IN,
            Self::Write => EventFlags::OUT,
            Self::End => EventFlags::empty(),
        }
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
        let fd = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { fd })
    }

    pub(crate) fn add(&self, fd: &impl AsFd, interest: Interest, token: u64) -> io::Result<()> {
        let token = EventData::new_u64(token);
        Ok(epoll::add(&self.fd, fd, token, interest.flags())?)
    }

    /// Waits for something else of a descriptor that is in the set.
    pub(crate) fn change(&self, fd: &impl AsFd, interest: Interest, token: u64) -> io::Result<()> {
        let token = EventData::new_u64(token);
        Ok(epoll::modify(&self.fd, fd, token, interest.flags())?)
    }

    /// The tokens of what is ready, at most `EVENTS_MAX`; none after `timeout`, or after a signal. To
    /// whole milliseconds, rounded up: a deadline has passed when the wait is over.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> io::Result<Vec<u64>> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let timeout = timeout.map(|timeout| timespec(timeout.min(TIMEOUT_MAX)));
        match epoll::wait(&self.fd, spare_capacity(&mut events), timeout.as_ref()) {
            Ok(_) => Ok(events.iter().map(|event| event.data.u64()).collect()),
            Err(Errno::INTR) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_wait_ends_with_an_event_or_after_its_time_and_no_sooner() {
        let epoll = Epoll::new().unwrap();
        let (reader, mut writer) = io::pipe().unwrap();
        epoll.add(&reader, Interest::Read, 7).unwrap();
        let (span, begun) = (Duration::from_micros(1_200), Instant::now());
        assert!(epoll.wait(Some(span)).unwrap().is_empty());
        assert!(begun.elapsed() >= span);
        writer.write_all(b"!").unwrap();
        for timeout in [None, Some(Duration::ZERO), Some(Duration::MAX)] {
            assert_eq!(epoll.wait(timeout).unwrap(), [7]);
        }
        epoll.change(&reader, Interest::End, 8).unwrap();
        assert!(epoll.wait(Some(Duration::ZERO)).unwrap().is_empty());
        drop(writer);
        assert_eq!(epoll.wait(None).unwrap(), [8]);
    }
}
