//! Clients of the information service: how many, how long, how much.
//!
//! A client sends one request and gets one reply. Time and length of the request are bounded, and so
//! is the number of clients per host, so that one host cannot take the slots of all others.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::MachineTime;

/// The most clients at a time.
pub(super) const CLIENTS_MAX: usize = 256;
/// The most of one host.
pub(super) const CLIENTS_PER_HOST: usize = 8;
/// The longest request.
pub(super) const REQUEST_MAX: usize = 4096;
/// How long a client may take for all of it: a host may have little CPU time.
const PATIENCE: Duration = Duration::from_secs(30);

/// The state of a client.
#[derive(Debug)]
enum State {
    /// It sends its request.
    Reading,
    /// The run is asked for its state.
    Waiting,
    /// It gets its reply; this many bytes of it have been sent.
    Writing(Arc<[u8]>, usize),
}

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) host: usize,
    stream: UnixStream,
    deadline: MachineTime,
    request: Vec<u8>,
    state: State,
}

impl Client {
    pub(super) const fn stream(&self) -> &UnixStream {
        &self.stream
    }

    pub(super) fn request(&self) -> &[u8] {
        &self.request
    }

    pub(super) const fn reads(&self) -> bool {
        matches!(self.state, State::Reading)
    }

    pub(super) const fn waits(&self) -> bool {
        matches!(self.state, State::Waiting)
    }

    pub(super) fn is_full(&self) -> bool {
        self.request.len() >= REQUEST_MAX
    }

    /// Reads what has come; an error where nothing more can.
    pub(super) fn read(&mut self) -> io::Result<()> {
        let mut room = [0; REQUEST_MAX];
        let free = REQUEST_MAX - self.request.len();
        match self.stream.read(&mut room[..free]) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => {
                self.request.extend_from_slice(&room[..len]);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn wait(&mut self) {
        self.state = State::Waiting;
    }

    pub(super) fn reply(&mut self, reply: Arc<[u8]>) {
        self.state = State::Writing(reply, 0);
    }

    /// Sends what the client takes of its reply; false when there is nothing more to do for it.
    pub(super) fn write(&mut self) -> bool {
        match &mut self.state {
            State::Reading | State::Waiting => true,
            State::Writing(reply, sent) => match self.stream.write(&reply[*sent..]) {
                Ok(len) => {
                    *sent += len;
                    *sent < reply.len()
                }
                Err(error) => error.kind() == ErrorKind::WouldBlock,
            },
        }
    }
}

/// All clients, each in a slot of its own.
#[derive(Debug, Default)]
pub(super) struct Clients {
    slots: Vec<Option<Client>>,
}

impl Clients {
    pub(super) fn get(&mut self, slot: usize) -> Option<&mut Client> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// Takes a client in, or hangs up where there are too many.
    pub(super) fn take_in(
        &mut self,
        host: usize,
        stream: UnixStream,
        now: MachineTime,
    ) -> Option<(usize, &UnixStream)> {
        let taken = self.slots.iter().flatten();
        let of_host = taken.filter(|client| client.host == host).count();
        let slot = match self.slots.iter().position(Option::is_none) {
            Some(slot) => slot,
            None if self.slots.len() < CLIENTS_MAX => {
                self.slots.push(None);
                self.slots.len() - 1
            }
            None => return None,
        };
        if of_host >= CLIENTS_PER_HOST || stream.set_nonblocking(true).is_err() {
            return None;
        }
        let client = Client {
            host,
            stream,
            deadline: now + PATIENCE,
            request: Vec::new(),
            state: State::Reading,
        };
        let client = self.slots[slot].insert(client);
        Some((slot, &client.stream))
    }

    pub(super) fn hang_up(&mut self, slot: usize) {
        self.slots[slot] = None;
    }

    /// Hangs up on those who have had their time.
    pub(super) fn hang_up_late(&mut self, now: MachineTime) {
        for slot in &mut self.slots {
            if slot.as_ref().is_some_and(|client| client.deadline <= now) {
                *slot = None;
            }
        }
    }

    /// How long until a client has had its time; `None` where there is none.
    pub(super) fn patience(&self, now: MachineTime) -> Option<Duration> {
        let deadlines = self.slots.iter().flatten().map(|client| client.deadline);
        deadlines.min().map(|deadline| deadline.since(now))
    }

    /// The slots of those who wait for the run's state.
    pub(super) fn waiting(&self) -> Vec<usize> {
        let slots = self.slots.iter().enumerate();
        slots
            .filter(|(_, client)| client.as_ref().is_some_and(Client::waits))
            .map(|(slot, _)| slot)
            .collect()
    }
}
