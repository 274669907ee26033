//! The services of a run's hosts: one process answers for all of them.
//!
//! ```text
//! longhaul-box
//!   ├─ longhaul-answer       waits for the sockets of all hosts with epoll
//!   └─ longhaul-host (a0)    opens 127.0.0.153:53 and /run/longhaul/info.sock and hands them over
//! ```
//!
//! The sockets belong to the hosts' own namespaces, so a query uses nothing of the emulated network,
//! and each host's init opens them while it boots. The service is a process of its own: separate from
//! the sandbox, which must be free to start and reap programs, and from the run, which holds the
//! results, so that whatever programs send cannot reach either. The caller defines the answers
//! ([`Answers`]).
//!
//! Bounds: sockets' buffers bound the datagrams that wait; clients of the information service are
//! bounded in number, in what they may send and in time ([`clients`]); the run is asked for its state
//! once for all clients that wait, at most ten times a second.
//!
//! The name service has no TCP: all its answers fit into datagrams, and a TCP socket listening on one
//! address would prevent programs from listening on port 53 of all addresses. A UDP socket can have all
//! addresses beside ours if it has `SO_REUSEADDR` or `SO_REUSEPORT`, as ours has.

mod clients;
mod open;

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::time::Duration;

use rustix::thread::set_name;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use self::clients::Clients;
use super::Sandbox;
use crate::channel::{self, Channel};
use crate::clock::MachineTime;
use crate::epoll::{Epoll, Interest};
use crate::sys::{self, Fork};

pub(super) use open::hand_over;

/// Where the name service of each host is.
pub const NAME_SERVER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 153);
/// Where the information service of each host is.
pub const INFO_SOCKET: &str = "/run/longhaul/info.sock";

/// How old the run's state may be that clients get.
const FRESH: Duration = Duration::from_millis(100);
/// The most datagrams of one host that are answered before others have their turn.
const DATAGRAMS_MAX: usize = 32;
/// Room for the longest query that is answered, and one byte more, so that a query cut off does not pass
/// for a whole one.
const DATAGRAM_ROOM: usize = 1233;

/// The answers of the services.
pub trait Answers {
    /// The run's state, which the run sends when it is asked.
    type State: DeserializeOwned;

    /// The answer to a query at a host's name service; none where it deserves none.
    fn name(&self, query: &[u8]) -> Option<Vec<u8>>;

    /// What a client of the information service of host number `host` gets for all that it has sent so
    /// far. `fresh` says whether the last state is new enough to pass on.
    fn inquiry(&self, host: usize, request: &[u8], fresh: bool) -> Inquiry;

    /// Takes the run's state in.
    fn learn(&mut self, state: Self::State);
}

/// The state of an inquiry.
#[derive(Debug)]
pub enum Inquiry {
    /// The request is not complete.
    More,
    /// The run's state is needed.
    Ask,
    /// This is the reply, and the end of the connection.
    Reply(Arc<[u8]>),
}

/// For hosts without services.
#[derive(Debug)]
pub enum NoAnswers {}

impl Answers for NoAnswers {
    type State = ();

    fn name(&self, _: &[u8]) -> Option<Vec<u8>> {
        match *self {}
    }

    fn inquiry(&self, _: usize, _: &[u8], _: bool) -> Inquiry {
        match *self {}
    }

    fn learn(&mut self, (): ()) {
        match *self {}
    }
}

/// What the service asks the run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ask {}

/// The sockets of a host come with this: its name service, and its information service where it has one.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Opened {
    pub(super) host: usize,
}

impl Sandbox {
    /// What can be read when the hosts' service asks for the run's state; the sandbox itself where
    /// there is no service.
    pub fn inquiries(&self) -> BorrowedFd<'_> {
        let inquiries = self.inquiries.as_ref();
        inquiries.map_or_else(|| self.as_fd(), AsFd::as_fd)
    }

    /// Whether the hosts' service asks for the run's state. Call it when
    /// [`inquiries`](Self::inquiries) can be read.
    pub fn is_asked(&mut self) -> bool {
        let asked = |channel: &Channel| matches!(channel.receive::<Ask>(), Ok(Some(_)));
        let asked = self.inquiries.as_ref().is_some_and(asked);
        if !asked {
            // It has died, and an event says so.
            self.inquiries = None;
        }
        asked
    }

    /// Sends the hosts' service the run's state, which it has [asked for](Self::is_asked).
    pub fn send_state(&mut self, state: &impl Serialize) {
        self.inquiries
            .take_if(|channel| channel.send(state, &[]).is_err());
    }
}

/// The service as the sandbox knows it.
pub(super) struct Service {
    pub(super) pid: i32,
    /// Where hosts' inits hand over their sockets.
    pub(super) feed: Channel,
}

impl Service {
    /// Forks the service; returns it and the run's end of its channel.
    pub(super) fn fork(answers: impl Answers) -> io::Result<(Self, OwnedFd)> {
        let (feed, taken) = channel::pair()?;
        let (ours, runs) = channel::pair()?;
        // SAFETY: the sandbox has one thread.
        match unsafe { sys::fork(0) }? {
            Fork::Child => {
                drop((feed, runs));
                main(answers, taken, ours)
            }
            Fork::Parent { pid, .. } => {
                let feed = Channel::new(feed);
                Ok((Self { pid, feed }, runs))
            }
        }
    }
}

/// The service's main function: serves until the sandbox ends, and this process with it.
fn main(answers: impl Answers, feed: OwnedFd, run: OwnedFd) -> ! {
    set_name(c"longhaul-answer").ok();
    sys::reset_signals();
    // Clients hang up when they like.
    sys::ignore_broken_pipes();
    sys::close_all_but(3, &mut [feed.as_raw_fd(), run.as_raw_fd()]);
    let served = Serving::new(answers, feed, run).and_then(Serving::serve);
    sys::exit_now(i32::from(served.is_err()))
}

/// What an event of the epoll set is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Feed,
    Run,
    Names(usize),
    Info(usize),
    Client(usize),
}

impl Token {
    const KIND: u32 = 32;

    const fn pack(self) -> u64 {
        let (kind, number) = match self {
            Self::Feed => (0, 0),
            Self::Run => (1, 0),
            Self::Names(host) => (2, host),
            Self::Info(host) => (3, host),
            Self::Client(slot) => (4, slot),
        };
        kind << Self::KIND | number as u64
    }

    const fn unpack(token: u64) -> Self {
        let number = token as u32 as usize;
        match token >> Self::KIND {
            0 => Self::Feed,
            1 => Self::Run,
            2 => Self::Names(number),
            3 => Self::Info(number),
            _ => Self::Client(number),
        }
    }
}

/// All state of the service.
struct Serving<A> {
    answers: A,
    feed: Channel,
    run: Channel,
    epoll: Epoll,
    /// By host.
    names: Vec<Option<UdpSocket>>,
    /// By host.
    info: Vec<Option<UnixListener>>,
    clients: Clients,
    /// When the run's state was learnt.
    learnt: Option<MachineTime>,
    /// Whether the run has been asked and has not answered yet.
    asked: bool,
}

impl<A: Answers> Serving<A> {
    fn new(answers: A, feed: OwnedFd, run: OwnedFd) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        epoll.add(&feed, Interest::Read, Token::Feed.pack())?;
        epoll.add(&run, Interest::Read, Token::Run.pack())?;
        Ok(Self {
            answers,
            feed: Channel::new(feed),
            run: Channel::new(run),
            epoll,
            names: Vec::new(),
            info: Vec::new(),
            clients: Clients::default(),
            learnt: None,
            asked: false,
        })
    }

    /// Serves until the run or the sandbox hangs up.
    fn serve(mut self) -> io::Result<()> {
        loop {
            let timeout = self.clients.patience(MachineTime::now());
            for token in self.epoll.wait(timeout)? {
                match Token::unpack(token) {
                    Token::Feed => match self.feed.receive::<Opened>()? {
                        Some((opened, fds)) => self.take_host(&opened, fds)?,
                        None => return Ok(()),
                    },
                    Token::Run => match self.run.receive::<A::State>()? {
                        Some((state, _)) => self.take_state(state),
                        None => return Ok(()),
                    },
                    Token::Names(host) => self.answer(host),
                    Token::Info(host) => self.accept(host),
                    Token::Client(slot) => self.advance(slot),
                }
            }
            self.clients.hang_up_late(MachineTime::now());
        }
    }

    /// Takes a host's sockets in.
    fn take_host(&mut self, opened: &Opened, fds: Vec<OwnedFd>) -> io::Result<()> {
        let host = opened.host;
        let len = self.names.len().max(host + 1);
        self.names.resize_with(len, || None);
        self.info.resize_with(len, || None);
        let mut fds = fds.into_iter();
        if let Some(fd) = fds.next() {
            self.epoll
                .add(&fd, Interest::Read, Token::Names(host).pack())?;
            self.names[host] = Some(fd.into());
        }
        if let Some(fd) = fds.next() {
            self.epoll
                .add(&fd, Interest::Read, Token::Info(host).pack())?;
            self.info[host] = Some(fd.into());
        }
        Ok(())
    }

    /// Answers queries of a host. One that fails was the host's own business.
    fn answer(&self, host: usize) {
        let Some(Some(socket)) = self.names.get(host) else {
            return;
        };
        let mut room = [0; DATAGRAM_ROOM];
        for _ in 0..DATAGRAMS_MAX {
            // This also reports, and clears, the error of an earlier answer.
            let Ok((len, from)) = socket.recv_from(&mut room) else {
                return;
            };
            if let Some(answer) = self.answers.name(&room[..len]) {
                let _ = socket.send_to(&answer, from);
            }
        }
    }

    /// Takes clients of a host's information service in.
    fn accept(&mut self, host: usize) {
        let Some(Some(listener)) = self.info.get(host) else {
            return;
        };
        // One per event: the set is level-triggered, so others get their turn before the next one.
        if let Ok((stream, _)) = listener.accept() {
            let now = MachineTime::now();
            let Some((slot, stream)) = self.clients.take_in(host, stream, now) else {
                return;
            };
            let token = Token::Client(slot).pack();
            if self.epoll.add(stream, Interest::Read, token).is_err() {
                self.clients.hang_up(slot);
            }
        }
    }

    /// Goes on with a client: reads what it sends, or writes what it gets.
    fn advance(&mut self, slot: usize) {
        let fresh = self.is_fresh();
        let Some(client) = self.clients.get(slot) else {
            return;
        };
        if client.waits() {
            // A client that waits is woken only by its hang-up.
            self.clients.hang_up(slot);
        } else if !client.reads() {
            self.write(slot);
        } else if client.read().is_ok() {
            let inquiry = self.answers.inquiry(client.host, client.request(), fresh);
            self.follow(slot, inquiry);
        } else {
            self.clients.hang_up(slot);
        }
    }

    /// Does what an inquiry needs.
    fn follow(&mut self, slot: usize, inquiry: Inquiry) {
        let Some(client) = self.clients.get(slot) else {
            return;
        };
        let interest = match inquiry {
            Inquiry::More if client.is_full() => return self.clients.hang_up(slot),
            Inquiry::More => Interest::Read,
            Inquiry::Ask => {
                client.wait();
                Interest::End
            }
            Inquiry::Reply(reply) => {
                client.reply(reply);
                Interest::Write
            }
        };
        let token = Token::Client(slot).pack();
        if self.epoll.change(client.stream(), interest, token).is_err() {
            return self.clients.hang_up(slot);
        }
        match interest {
            Interest::End if !self.asked => self.asked = self.run.send(&Ask {}, &[]).is_ok(),
            Interest::Write => self.write(slot),
            _ => {}
        }
    }

    fn write(&mut self, slot: usize) {
        if let Some(client) = self.clients.get(slot)
            && !client.write()
        {
            self.clients.hang_up(slot);
        }
    }

    fn is_fresh(&self) -> bool {
        let age = |learnt| MachineTime::now().since(learnt);
        self.learnt.is_some_and(|learnt| age(learnt) < FRESH)
    }

    /// Answers all clients that wait.
    fn take_state(&mut self, state: A::State) {
        self.answers.learn(state);
        (self.learnt, self.asked) = (Some(MachineTime::now()), false);
        for slot in self.clients.waiting() {
            let Some(client) = self.clients.get(slot) else {
                continue;
            };
            let inquiry = self.answers.inquiry(client.host, client.request(), true);
            self.follow(slot, inquiry);
        }
    }
}

#[cfg(test)]
mod tests;
