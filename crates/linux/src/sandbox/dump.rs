//! The dump of all hosts' TCP connections: requested, made, and delivered.
//!
//! The sandbox queries one host's kernel after the other, and serves other requests in between. The
//! netlink socket in each host's network namespace stays open, since opening one costs 13 us, as much
//! as the walk through a table of 2,048 buckets. The kernels' answers go into one file in memory
//! unchanged, because serialising them for the run would cost more than asking; the run parses them
//! ([`crate::connections`]). Only hosts that have ever run a program are queried.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::launch::inside_network_of;
use super::server::{Host, Server};
use super::{Answer, Request, Sandbox, SandboxError};
use crate::clock::MachineTime;
use crate::connections::{Connections, HostConnections, PER_HOST_MAX, TOTAL_MAX, parse};
use crate::cpu::own_cpu_ns;
use crate::netlink::diag::{self, Diag, Rest};
use crate::netlink::messages;
use crate::sys;

/// A host's part of a dump.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Dumped {
    host: usize,
    at_ns: u64,
    /// Where its bytes begin in the file, and how many there are.
    start: u64,
    len: usize,
    more: u64,
    interrupted: bool,
    error: Option<String>,
}

/// What a host needs to be asked.
#[derive(Debug, Default)]
pub(super) struct HostDiag {
    /// Whether there has been a program.
    pub(super) launched: bool,
    socket: Option<Diag>,
}

/// A dump under way.
#[derive(Debug)]
pub(super) struct Round {
    next: usize,
    file: File,
    /// Bytes of the file.
    written: u64,
    hosts: Vec<Dumped>,
    room: usize,
    cpu_ns: u64,
    /// The last host's answer, and a receive buffer; kept to reuse their memory.
    bytes: Vec<u8>,
    buffer: diag::Buffer,
    /// How many hosts' sockets stay open.
    kept: usize,
}

impl Server {
    /// Begins a dump, unless one is under way.
    pub(super) fn begin_round(&mut self) -> io::Result<()> {
        if self.round.is_none() {
            self.round = Some(Round {
                next: 0,
                file: sys::memory_file(&[])?.into(),
                written: 0,
                hosts: Vec::new(),
                room: TOTAL_MAX,
                cpu_ns: 0,
                bytes: Vec::new(),
                buffer: diag::buffer(),
                // Starting programs takes a few descriptors, too.
                kept: self
                    .open_files
                    .maximum
                    .map_or(usize::MAX, |most| most as usize)
                    / 2,
            });
        }
        Ok(())
    }

    /// Asks the next host of the dump that is under way; gives the whole when there is none.
    pub(super) fn dump_next(&mut self) -> Option<(Answer, File)> {
        let round = self.round.as_mut()?;
        let before = own_cpu_ns();
        let is_asked = |host: &Host| host.alive && host.diag.launched;
        let next = self.hosts.iter().skip(round.next).position(is_asked);
        let Some(number) = next.map(|further| round.next + further) else {
            let Round {
                file,
                hosts,
                cpu_ns,
                ..
            } = self.round.take()?;
            return Some((Answer::Connections { hosts, cpu_ns }, file));
        };
        round.next = number + 1;
        round.ask(&mut self.hosts[number], number);
        round.cpu_ns += own_cpu_ns().saturating_sub(before);
        None
    }
}

impl Round {
    fn ask(&mut self, host: &mut Host, number: usize) {
        let mut dumped = Dumped {
            host: number,
            at_ns: MachineTime::now().as_ns(),
            start: self.written,
            len: 0,
            more: 0,
            interrupted: false,
            error: None,
        };
        self.bytes.clear();
        let limit = PER_HOST_MAX.min(self.room);
        let taken = self.dump(host, limit).and_then(|rest| {
            if number >= self.kept {
                host.diag.socket = None;
            }
            self.file.write_all_at(&self.bytes, self.written)?;
            Ok(rest)
        });
        match taken {
            Ok(rest) => {
                dumped.len = self.bytes.len();
                self.written += self.bytes.len() as u64;
                (dumped.more, dumped.interrupted) = (rest.more, rest.interrupted);
                self.room -= messages(&self.bytes).count();
            }
            Err(error) => dumped.error = Some(error.to_string()),
        }
        if dumped.len > 0 || dumped.more > 0 || dumped.error.is_some() {
            self.hosts.push(dumped);
        }
    }

    /// Asks a host's kernel; after an error by a new socket the next time.
    fn dump(&mut self, host: &mut Host, limit: usize) -> io::Result<Rest> {
        let mut socket = match host.diag.socket.take() {
            Some(socket) => socket,
            None => inside_network_of(host.pid, Diag::open)?,
        };
        let rest = socket.dump(limit, &mut self.buffer, &mut self.bytes)?;
        host.diag.socket = Some(socket);
        Ok(rest)
    }
}

/// The dump that the run has asked for.
#[derive(Debug, Default)]
pub(super) struct PendingDump {
    is_under_way: bool,
    arrived: Option<(Vec<Dumped>, u64, Option<OwnedFd>)>,
}

impl PendingDump {
    pub(super) fn arrived(&mut self, hosts: Vec<Dumped>, cpu_ns: u64, mut fds: Vec<OwnedFd>) {
        self.is_under_way = false;
        self.arrived = Some((hosts, cpu_ns, fds.pop()));
    }
}

impl Sandbox {
    /// Asks the kernels of all hosts for their TCP connections without waiting for the answers,
    /// which [`poll_connections`](Self::poll_connections) returns. False where an earlier dump is
    /// still under way, which then serves for this request too.
    pub fn request_connections(&mut self) -> Result<bool, SandboxError> {
        if self.dump.is_under_way {
            return Ok(false);
        }
        self.expect_done(&Request::Connections)?;
        self.dump.is_under_way = true;
        Ok(true)
    }

    /// The connections that were asked for, once all kernels have answered; never waits. Wait with
    /// [`AsFd`](std::os::fd::AsFd) first. A second dump that arrives before the first is taken
    /// replaces it.
    pub fn poll_connections(&mut self) -> Result<Option<Connections>, SandboxError> {
        let arrived = self.take_unrequested(|sandbox| sandbox.dump.arrived.take())?;
        let Some((hosts, cpu_ns, file)) = arrived else {
            return Ok(None);
        };
        let before = own_cpu_ns();
        let file = file.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof));
        let hosts = file.and_then(|file| read(hosts, &file.into()));
        let hosts = hosts.map_err(SandboxError::Channel)?;
        let own_ns = own_cpu_ns().saturating_sub(before);
        let cost = Duration::from_nanos(cpu_ns + own_ns);
        Ok(Some(Connections { hosts, cost }))
    }
}

fn read(hosts: Vec<Dumped>, file: &File) -> io::Result<Vec<HostConnections>> {
    let mut bytes = Vec::new();
    let mut read_host = |dumped: Dumped| {
        bytes.resize(dumped.len, 0);
        file.read_exact_at(&mut bytes, dumped.start)?;
        let (list, unread) = parse(&bytes);
        Ok(HostConnections {
            host: dumped.host,
            at: MachineTime::from_ns(dumped.at_ns),
            list,
            more: dumped.more,
            unread,
            interrupted: dumped.interrupted,
            error: dumped.error,
        })
    };
    hosts.into_iter().map(&mut read_host).collect()
}
