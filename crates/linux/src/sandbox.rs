//! A run's sandbox: everything of a run that the rest of the machine must not see.
//!
//! ```text
//! longhaul run          the caller's namespaces; plans, drives the engine, writes results
//!   └─ sandbox          user, network, mount, PID, UTS, IPC namespaces: the core's end of
//!        │              every cable; starts programs and reaps them
//!        ├─ service     answers the queries of all hosts: names, and the run's state
//!        ├─ host a0     network, mount, PID, UTS, IPC namespaces of its own; an init that reaps
//!        └─ programs    children of the sandbox, inside the namespaces of their host
//! ```
//!
//! Nothing here needs root: the user namespace gives the rights, and only over what belongs to the
//! run. Clean-up is the kernel's: when `longhaul run` dies, however it dies, the sandbox
//! gets a signal (`PR_SET_PDEATHSIG`) and ends; it is process 1 of its PID namespace, so every
//! host and program dies with it, and namespaces, cables and mounts go with their last process.
//!
//! Hosts whose programs have limits get control groups from the process that starts the sandbox
//! ([`crate::resources`]), and a cgroup namespace in which they see no others.

mod boot;
mod counters;
mod dump;
mod groups;
mod identity;
mod launch;
mod server;
mod service;
mod steering;
mod usage;
mod warden;

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Signal, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::channel::Channel;
use crate::packet_io::{RingConfig, Rings};
use crate::resources::{Limits, Membership};
use crate::sys::{self, Fork};
use crate::threads;

use dump::Dumped;

pub use crate::netlink::shaper::{Shaper, Traffic};
pub use counters::{HostCounters, HostUsage, TcpCounters, Usage};
pub use service::{Answers, INFO_SOCKET, Inquiry, NAME_SERVER, NoAnswers};
pub use steering::orders_super_packets;

/// The most segments of a super-packet: as many as the core takes, and UDP has.
pub const SEGMENTS_MAX: u32 = 128;

/// The hosts' gateway addresses: on link, answered by a permanent neighbour entry.
pub(crate) const GATEWAY_V4: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);
pub(crate) const GATEWAY_V6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

/// Whether every host has a private folder in place of this one, so that the machine's is not visible
/// there.
pub fn is_private(folder: &Path) -> bool {
    boot::PRIVATE
        .iter()
        .any(|(private, _)| folder == Path::new(private))
}

/// What all hosts of a run share.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SandboxConfig {
    /// The text of every host's `/etc/hosts`.
    pub hosts_file: String,
    /// The domain in which every host looks names up, where there is a name service.
    pub domain: Option<String>,
    /// Folders that stay visible although they lie below a private one such as `/tmp`.
    pub visible: Vec<PathBuf>,
    /// The CPUs on which hosts and programs run; empty for all.
    pub cpus: Vec<usize>,
    /// A file that must not outlive the run: removed when the run dies without a word.
    pub remove: PathBuf,
    /// The Ethernet address of every host's gateway.
    pub gateway_mac: [u8; 6],
    /// Whether there are hosts that hand over super-packets.
    pub offload: bool,
    /// How many buckets the TCP connection table of each host has ([`tcp_buckets`]); 0 for the
    /// machine's own table.
    pub tcp_buckets: u32,
}

/// How many buckets the TCP connection table of each of this many hosts has. A dump of a host's
/// connections walks its whole table, and the machine's, which namespaces share by default, has up to
/// 524,288 buckets. The tables of all hosts together have half as many, but each has at least 2,048:
/// with those, tens of thousands of connections make chains of a dozen. A bucket takes 8 bytes.
pub fn tcp_buckets(hosts: usize) -> u32 {
    const ALL: usize = 1 << 18;
    const LEAST: usize = 1 << 11;
    const MOST: usize = 1 << 14;
    let each = (ALL / hosts.max(1)).clamp(LEAST, MOST);
    1 << each.ilog2()
}

/// The TCP settings of a host's kernel, whatever the machine's defaults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpConfig {
    /// Congestion control by its kernel name.
    pub congestion: String,
    /// Largest receive buffer of a socket, in bytes.
    pub rmem_max: u64,
    /// Largest send buffer of a socket, in bytes.
    pub wmem_max: u64,
    /// Whether connections ask for ECN.
    pub ecn: bool,
}

/// One virtual host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostConfig {
    /// Its host name.
    pub name: String,
    /// Its machine-id (machine-id(5)).
    pub machine_id: u128,
    /// The memory that its programs see, in bytes; the machine's where there is none.
    pub memory: Option<u64>,
    /// Its interface's Ethernet address.
    pub mac: [u8; 6],
    /// Its IPv4 address.
    pub ipv4: Ipv4Addr,
    /// Its IPv6 address.
    pub ipv6: Ipv6Addr,
    /// Its interface's MTU, in bytes of IP.
    pub mtu: u32,
    /// Its TCP settings.
    pub tcp: TcpConfig,
    /// The backpressure of its network card.
    pub shaper: Option<Shaper>,
    /// The most segments that it hands over as one, with unfinished checksums; 1 where it hands
    /// over packets one by one, complete.
    pub segments: u32,
    /// The limits of its programs that are imposed without control groups.
    pub limits: Limits,
    /// The control groups of its processes.
    pub groups: Vec<Membership>,
    /// The CPUs on which its programs run; empty for those of all hosts.
    pub cpus: Vec<usize>,
}

impl HostConfig {
    /// Whether it hands over super-packets and unfinished checksums.
    pub const fn offloads(&self) -> bool {
        self.segments > 1
    }
}

/// A program to start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SpawnSpec {
    /// The host's number, in the order of [`Sandbox::add_hosts`].
    pub host: usize,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Its whole environment.
    pub env: Vec<(String, String)>,
    /// Its working folder.
    pub cwd: PathBuf,
    /// Keeps user 0 of the sandbox instead of the caller's own user.
    pub as_root: bool,
}

/// A started program: its process id as the sandbox sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProgramId(pub i32);

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl Exit {
    /// The code that a shell would show: 128 + n for signal n.
    pub fn code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// What the sandbox reports without a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A program has ended.
    Exited {
        /// Which.
        id: ProgramId,
        /// How.
        exit: Exit,
        /// The CPU time that it and its reaped children used.
        cpu: Duration,
    },
    /// A process was killed because its host had used up its memory.
    OutOfMemory {
        /// The host's number.
        host: usize,
        /// The process, which may be a program.
        id: ProgramId,
    },
    /// The process that imposes hosts' limits has died; nothing imposes them any more.
    WardenDied,
    /// A host's init has died, and all its programs with it.
    HostDied {
        /// The host's number.
        host: usize,
    },
    /// The process that answers hosts' queries has died.
    ServiceDied,
}

/// Why a sandbox cannot be made or asked.
#[derive(Debug, Error)]
pub enum SandboxError {
    /// The kernel refuses a user namespace, or rights within it.
    #[error(
        "this machine does not let {who} make the run's namespaces ({error}); `longhaul doctor` says why, and what to do"
    )]
    Forbidden {
        /// The kind of user.
        who: &'static str,
        /// The kernel's answer.
        error: io::Error,
    },
    /// A step of the set-up failed inside the sandbox.
    #[error("{0}")]
    Setup(String),
    /// The caller did not want to go on.
    #[error("interrupted while hosts were being set up")]
    Interrupted,
    /// The sandbox has died.
    #[error("the run's sandbox died (was it killed?)")]
    Died,
    /// The connection to it failed.
    #[error("cannot talk to the run's sandbox: {0}")]
    Channel(io::Error),
}

/// What `longhaul run` asks of its sandbox.
#[derive(Debug, Serialize, Deserialize)]
enum Request {
    Begin(SandboxConfig),
    AddHosts(Vec<HostConfig>),
    Guard,
    OpenRing(RingConfig),
    OpenSender { offload: bool },
    Spawn(SpawnSpec),
    Signal { id: ProgramId, signal: i32 },
    Listening { host: usize, port: u16 },
    Counters,
    Usage,
    TcpCounters,
    Connections,
    SetShaper { host: usize, shaper: Shaper },
    OpenSteering { host: usize },
    Shutdown,
}

/// What it answers.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Done,
    Begun {
        steers: bool,
    },
    Ring,
    Spawned(ProgramId),
    Listening(bool),
    Counters(Vec<HostCounters>),
    Usage(Usage),
    TcpCounters(TcpCounters),
    /// Without a request, once all hosts have been asked: where a file in memory has each host's
    /// answer, and the CPU time that it took.
    Connections {
        hosts: Vec<Dumped>,
        cpu_ns: u64,
    },
    Steering,
    Failed(String),
    Event(Event),
}

/// The run's handle on its sandbox. Dropping it ends everything inside.
#[derive(Debug)]
pub struct Sandbox {
    channel: Option<Channel>,
    pid: i32,
    pidfd: OwnedFd,
    events: VecDeque<Event>,
    /// The channel on which the hosts' service asks for the run's state, if there is a service.
    inquiries: Option<Channel>,
    dump: dump::PendingDump,
    hosts: usize,
    steers: bool,
    /// The CPUs of programs.
    cpus: Vec<usize>,
}

/// How many hosts one request carries: a message stays far below a socket's buffer.
const HOSTS_PER_REQUEST: usize = 64;

impl Sandbox {
    /// Forks the sandbox, with services for its hosts where there are `answers`.
    ///
    /// Call it while the process has one thread only; panics otherwise, because the child
    /// would inherit locks that nobody can release.
    pub fn start<A: Answers>(
        config: &SandboxConfig,
        answers: Option<A>,
    ) -> Result<Self, SandboxError> {
        threads::assert_alone("the sandbox");
        let (ours, theirs) = Channel::pair().map_err(SandboxError::Channel)?;
        let flags = libc::CLONE_NEWUSER
            | libc::CLONE_NEWNET
            | libc::CLONE_NEWNS
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWUTS
            | libc::CLONE_NEWIPC;
        let (uid, gid) = sys::user_and_group();
        // SAFETY: there is one thread, as just asserted.
        let (pid, pidfd) = match unsafe { sys::fork(flags) }.map_err(forbidden)? {
            Fork::Child => {
                drop(ours);
                server::main(theirs, uid, gid, answers)
            }
            Fork::Parent { pid, pidfd } => (pid, pidfd),
        };
        drop(theirs);
        let mut sandbox = Self {
            channel: Some(ours),
            pid,
            pidfd,
            events: VecDeque::new(),
            inquiries: None,
            dump: dump::PendingDump::default(),
            hosts: 0,
            steers: false,
            cpus: config.cpus.clone(),
        };
        if let Err(error) = map_ids(pid, uid, gid) {
            let ended = sys::wait_readable(&[sandbox.pidfd.as_fd()], Some(Duration::ZERO));
            let died = ended.is_ok_and(|ended| ended[0]);
            return Err(if died {
                SandboxError::Died
            } else {
                forbidden(error)
            });
        }
        let (begun, mut fds) = sandbox.ask(&Request::Begin(config.clone()), &[])?;
        sandbox.steers = match begun {
            Answer::Begun { steers } => steers,
            other => return Err(unexpected(other)),
        };
        sandbox.inquiries = fds.pop().map(Channel::new);
        Ok(sandbox)
    }

    /// Whether hosts may hand over super-packets ([`HostConfig::offload`]): the configuration has
    /// asked for it, and the kernel leads them all to one CPU.
    pub const fn takes_super_packets(&self) -> bool {
        self.steers
    }

    /// Creates hosts and their cables; they are up and addressed when this returns.
    /// `progress` is called with how many are, and returns whether to go on.
    pub fn add_hosts(
        &mut self,
        hosts: &[HostConfig],
        mut progress: impl FnMut(usize) -> bool,
    ) -> Result<(), SandboxError> {
        for batch in hosts.chunks(HOSTS_PER_REQUEST) {
            self.expect_done(&Request::AddHosts(batch.to_vec()))?;
            self.hosts += batch.len();
            if !progress(self.hosts) {
                return Err(SandboxError::Interrupted);
            }
        }
        if hosts.iter().any(|host| !host.limits.is_empty()) {
            self.expect_done(&Request::Guard)?;
        }
        Ok(())
    }

    /// Opens the rings that carry every host's packets.
    pub fn open_rings(&mut self, configs: &[RingConfig]) -> Result<Rings, SandboxError> {
        let mut sockets = Vec::with_capacity(configs.len());
        for &config in configs {
            let (answer, mut fds) = self.ask(&Request::OpenRing(config), &[])?;
            match (answer, fds.pop()) {
                (Answer::Ring, Some(socket)) => sockets.push((socket, config)),
                (other, _) => return Err(unexpected(other)),
            }
        }
        let offload = configs.iter().any(|config| config.offload);
        let (answer, mut fds) = self.ask(&Request::OpenSender { offload }, &[])?;
        let sender = match (answer, fds.pop()) {
            (Answer::Ring, Some(sender)) => sender,
            (other, _) => return Err(unexpected(other)),
        };
        Rings::new(sockets, sender).map_err(|e| SandboxError::Setup(format!("packet ring: {e}")))
    }

    /// Starts a program with the three given standard streams.
    pub fn spawn(
        &mut self,
        spec: &SpawnSpec,
        streams: [BorrowedFd<'_>; 3],
    ) -> Result<ProgramId, SandboxError> {
        match self.ask(&Request::Spawn(spec.clone()), &streams)?.0 {
            Answer::Spawned(id) => Ok(id),
            other => Err(unexpected(other)),
        }
    }

    /// Sends a signal to a program and all of its process group; one that has ended is ignored.
    pub fn signal(&mut self, id: ProgramId, signal: i32) -> Result<(), SandboxError> {
        self.expect_done(&Request::Signal { id, signal })
    }

    /// Whether a TCP socket of the host listens on a port, by its socket table.
    pub fn listening(&mut self, host: usize, port: u16) -> Result<bool, SandboxError> {
        match self.ask(&Request::Listening { host, port }, &[])?.0 {
            Answer::Listening(yes) => Ok(yes),
            other => Err(unexpected(other)),
        }
    }

    /// Changes the backpressure of a host's network card.
    pub fn set_shaper(&mut self, host: usize, shaper: Shaper) -> Result<(), SandboxError> {
        self.expect_done(&Request::SetShaper { host, shaper })
    }

    /// The next event that has arrived; never waits. Wait with [`AsFd`] first.
    pub fn poll_event(&mut self) -> Result<Option<Event>, SandboxError> {
        self.take_unrequested(|sandbox| sandbox.events.pop_front())
    }

    /// What `take` finds, now or after receiving reports that have arrived; never waits.
    fn take_unrequested<T>(
        &mut self,
        mut take: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<Option<T>, SandboxError> {
        loop {
            if let Some(found) = take(self) {
                return Ok(Some(found));
            }
            let channel = self.channel.as_ref().ok_or(SandboxError::Died)?;
            let ready = sys::wait_readable(&[channel.as_fd()], Some(Duration::ZERO));
            if !ready.map_err(SandboxError::Channel)?[0] {
                return Ok(None);
            }
            let (answer, fds) = self.receive()?;
            if let Some((answer, _)) = self.store_unrequested(answer, fds) {
                return Err(unexpected(answer));
            }
        }
    }

    /// Stores what the sandbox reports without a request; returns an answer to one.
    fn store_unrequested(
        &mut self,
        answer: Answer,
        fds: Vec<OwnedFd>,
    ) -> Option<(Answer, Vec<OwnedFd>)> {
        match answer {
            Answer::Event(event) => self.events.push_back(event),
            Answer::Connections { hosts, cpu_ns } => self.dump.arrived(hosts, cpu_ns, fds),
            answer => return Some((answer, fds)),
        }
        None
    }

    /// Ends every program and host and waits until nothing is left.
    pub fn shutdown(mut self) -> Result<(), SandboxError> {
        let result = self.expect_done(&Request::Shutdown);
        drop(self);
        result
    }

    fn expect_done(&mut self, request: &Request) -> Result<(), SandboxError> {
        match self.ask(request, &[])?.0 {
            Answer::Done => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// One request and its answer; events that come between are kept.
    fn ask(
        &mut self,
        request: &Request,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(Answer, Vec<OwnedFd>), SandboxError> {
        let channel = self.channel.as_ref().ok_or(SandboxError::Died)?;
        channel
            .send(request, fds)
            .map_err(|error| match error.kind() {
                io::ErrorKind::BrokenPipe => SandboxError::Died,
                _ => SandboxError::Channel(error),
            })?;
        loop {
            let (answer, fds) = self.receive()?;
            match self.store_unrequested(answer, fds) {
                None => {}
                Some((Answer::Failed(message), _)) => return Err(SandboxError::Setup(message)),
                Some(answer) => return Ok(answer),
            }
        }
    }

    fn receive(&mut self) -> Result<(Answer, Vec<OwnedFd>), SandboxError> {
        let channel = self.channel.as_ref().ok_or(SandboxError::Died)?;
        channel
            .receive()
            .map_err(SandboxError::Channel)?
            .ok_or(SandboxError::Died)
    }
}

impl AsFd for Sandbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel
            .as_ref()
            .map_or(self.pidfd.as_fd(), AsFd::as_fd)
    }
}

impl Drop for Sandbox {
    /// Kills the sandbox and waits until every process in it is gone.
    fn drop(&mut self) {
        self.channel = None;
        pidfd_send_signal(&self.pidfd, Signal::KILL).ok();
        sys::wait_for_child(self.pid);
    }
}

fn unexpected(answer: Answer) -> SandboxError {
    match answer {
        Answer::Failed(message) => SandboxError::Setup(message),
        other => SandboxError::Setup(format!("the sandbox answered {other:?} out of turn")),
    }
}

pub(crate) fn forbidden(error: io::Error) -> SandboxError {
    let who = if sys::user_and_group().0 == 0 {
        "root"
    } else {
        "ordinary users"
    };
    SandboxError::Forbidden { who, error }
}

/// Gives the sandbox its users: all of ours for root, else the caller alone, as user 0.
pub(crate) fn map_ids(pid: i32, uid: u32, gid: u32) -> io::Result<()> {
    let ours = |kind: &str| std::fs::read_to_string(format!("/proc/self/{kind}"));
    let (uids, gids) = if uid == 0 {
        (identity(&ours("uid_map")?), identity(&ours("gid_map")?))
    } else {
        sys::write_file(&format!("/proc/{pid}/setgroups"), "deny")?;
        (format!("0 {uid} 1\n"), format!("0 {gid} 1\n"))
    };
    sys::write_file(&format!("/proc/{pid}/uid_map"), &uids)?;
    sys::write_file(&format!("/proc/{pid}/gid_map"), &gids)
}

/// Every id that `map` knows, mapped to itself.
fn identity(map: &str) -> String {
    let lines = map.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (start, count) = (words.next()?, words.nth(1)?);
        Some(format!("{start} {start} {count}\n"))
    });
    lines.collect()
}
