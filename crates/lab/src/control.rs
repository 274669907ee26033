//! The control socket: how other processes change a run that is under way.
//!
//! `control.sock` in the run folder takes `SOCK_SEQPACKET` connections of the run's own user; a run in
//! virtual time has the same path as an abstract name (unix(7)), which is not a file. A message is one JSON
//! object; a connection may send several requests, each answered in turn.
//!
//! The requests are the variants of [`Request`], the answers those of [`Reply`]: an object with the
//! variant's name as its only key. docs/control.md describes them for programs in any language.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul_linux::channel::Channel;
use longhaul_linux::wait_readable;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::fidelity::{PhysicalDrops, Quantiles};
use crate::folder;
use crate::info::HostsNow;
use crate::summary::{CoreSummary, PartitionSummary, PipeCounts};

/// What a caller may ask.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// How the run is doing.
    Status {},
    /// Which hosts it has, and what they do.
    Hosts {},
    /// What its last second was like.
    Top {
        /// How many pipes, the busiest first.
        #[serde(default, alias = "pipes")]
        limit: usize,
        /// What makes them the busiest.
        #[serde(default)]
        by: Order,
    },
    /// New parameters of a link or pipe.
    Set {
        /// A link (`x-y`, both directions), a pipe (`x>y`), or an entry of the file that stands
        /// for several links.
        link: String,
        /// Field → value, as in the file: a text, or what JSON has for it.
        values: BTreeMap<String, Value>,
    },
    /// Takes a link or a router down.
    Down {
        /// The link, pipe, or entry of the file that fails.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        link: Option<String>,
        /// The router that fails, with all its links.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        router: Option<String>,
        /// Whether what waits in queues survives.
        #[serde(default)]
        keep_queue: bool,
    },
    /// Brings a link or a router up.
    Up {
        /// The link, pipe, or entry of the file that comes back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        link: Option<String>,
        /// The router that comes back, with all its links.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        router: Option<String>,
    },
    /// What a link is like at present.
    Get {
        /// A link, a pipe, or an entry of the file.
        link: String,
    },
    /// The packets of a link, in pcapng, to a descriptor that comes with the request.
    Capture(CaptureRequest),
    /// Ends this connection's capture.
    EndCapture {},
    /// A program on a host.
    Exec {
        /// The host's name.
        host: String,
        /// The program and its arguments.
        argv: Vec<String>,
        /// Variables beside those of every program of the run.
        env: Vec<(String, String)>,
        /// Its working folder; the host's own if absent.
        cwd: Option<PathBuf>,
        /// Whether it keeps user 0.
        as_root: bool,
    },
}

/// Which packets a caller wants.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureRequest {
    /// A link, a pipe, or a set of them.
    pub link: String,
    /// Where in the pipes.
    #[serde(default)]
    pub at: CapturePoint,
    /// Which packets (docs/captures.md); all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// How many bytes of each packet; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snaplen: Option<u32>,
    /// The most bytes in all; 1 GB if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

/// A point of a pipe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CapturePoint {
    /// What reaches it, whatever becomes of it there.
    Entry,
    /// What comes out of it, and what it drops.
    #[default]
    Exit,
}

/// What pipes are sorted by, the largest first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// What came out of them, in bytes.
    #[default]
    Rate,
    /// The share of the time that they spent sending.
    Utilisation,
    /// Packets lost in them.
    Drops,
    /// Bytes that wait in their queues.
    Backlog,
}

/// What the run answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// How the run is doing.
    Status(Status),
    /// Its hosts.
    Hosts(HostsNow),
    /// What its last second was like.
    Top(Box<Top>),
    /// Which pipes changed, and from when.
    Set {
        /// Their names.
        pipes: Vec<String>,
        /// Experiment time in seconds.
        at_s: f64,
    },
    /// Which pipes failed, and when; those that were down before are not among them.
    Down {
        /// Their names.
        pipes: Vec<String>,
        /// Experiment time in seconds.
        at_s: f64,
    },
    /// Which pipes came back, and when; those that were up before, or have been taken down more
    /// often, are not among them.
    Up {
        /// Their names.
        pipes: Vec<String>,
        /// Experiment time in seconds.
        at_s: f64,
    },
    /// What pipes are like.
    Get {
        /// One entry a pipe.
        pipes: Vec<PipeNow>,
        /// Experiment time in seconds.
        at_s: f64,
    },
    /// Packets are written from then on.
    Capturing {
        /// The pipes that they are of.
        pipes: Vec<String>,
        /// Experiment time in seconds.
        at_s: f64,
    },
    /// The capture is complete.
    Captured {
        /// Packets in it.
        packets: u64,
        /// Packets that should be in it and are not: its reader was too slow, or it was full.
        missed: u64,
    },
    /// The program runs.
    Started {},
    /// The program has ended.
    Exited {
        /// The code that a shell would show.
        code: i32,
    },
    /// The request was wrong, or failed.
    Error(String),
}

/// A pipe at a moment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PipeNow {
    /// Its name.
    pub name: String,
    /// The link that it is a direction of.
    pub link: String,
    /// Whether it is up.
    pub up: bool,
    /// Its rate; `null` is unlimited.
    pub rate_bps: Option<u64>,
    /// Its delay; the mean where it is spread.
    pub delay_ns: u64,
    /// The share of packets that it loses in the long run.
    pub loss: f64,
    /// Every field that is not as it is by default, in words.
    pub params: BTreeMap<String, String>,
    /// Packets that wait in its queue.
    pub waiting_packets: u32,
    /// Their bytes as its framing counts them.
    pub waiting_bytes: u64,
    /// What has become of its packets since t = 0.
    pub counters: PipeCounts,
}

/// How a run is doing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Status {
    /// The run folder.
    pub run: PathBuf,
    /// The experiment's name.
    pub experiment: String,
    /// Experiment time.
    pub time_s: f64,
    /// The verdict so far.
    pub verdict: String,
    /// The names of the hosts.
    pub hosts: Vec<String>,
}

/// A run's last whole second.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Top {
    /// The experiment's name.
    pub experiment: String,
    /// Experiment time now.
    pub time_s: f64,
    /// Its upper bound, where the file has one.
    pub duration_s: Option<f64>,
    /// The verdict so far.
    pub verdict: String,
    /// What speaks against the run so far, the newest last.
    pub reasons: Vec<String>,
    /// The second; `null` in the first one, and in virtual time.
    pub second: Option<SecondNow>,
    /// How a run in virtual time comes along; `null` by the real clock.
    pub simulation: Option<SimulationNow>,
    /// The busiest pipes in it.
    pub pipes: Vec<PipeLoad>,
}

/// A second of a run.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct SecondNow {
    /// Its number, from 0.
    pub number: u64,
    /// Packets delivered to hosts.
    pub packets: u64,
    /// Those whose error was beyond the tolerance.
    pub late: u64,
    /// Lateness of its packets.
    pub lateness_ns: Quantiles,
    /// Packets that the machine lost.
    pub physical_drops: PhysicalDrops,
    /// Packets inside at its end.
    pub inside: u64,
    /// The share of it that the core worked, 0 to 1.
    pub core_load: f64,
    /// The share of it that the core did not need: what is left for more traffic of this kind.
    pub headroom: f64,
    /// The share of it that the core's thread was on its CPU, working or spinning.
    pub core_busy: f64,
}

/// A run in virtual time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SimulationNow {
    /// Experiment time over real time, lately.
    pub speed: f64,
    /// Packet-hops per second of real time, lately.
    pub hops_per_s: f64,
    /// Modelled flows that have ended, and all of them.
    pub flows_done: u64,
    /// See `flows_done`.
    pub flows: u64,
    /// Every core, since t = 0.
    pub cores: Vec<CoreSummary>,
    /// How the network is split, and the load that follows, since t = 0; `null` with one core.
    pub partition: Option<PartitionSummary>,
}

/// A pipe in a second of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PipeLoad {
    /// Its name.
    pub name: String,
    /// Packets that came out of it.
    pub packets: u64,
    /// Their bytes as its framing counts them.
    pub bytes: u64,
    /// The share of the second that it spent sending; `null` for an unlimited rate.
    pub utilisation: Option<f64>,
    /// Packets lost in it, for whatever reason.
    pub drops: u64,
    /// Its rate at present; `null` is unlimited.
    pub rate_bps: Option<u64>,
    /// Bytes that wait in its queue at present, as its framing counts them; `null` where it was not sampled.
    pub backlog_bytes: Option<u64>,
}

/// Why a run cannot be found or asked.
#[derive(Debug, Error)]
pub enum ControlError {
    /// No run is under way.
    #[error("no run is under way (start one with `longhaul run FILE`)")]
    NoRun,
    /// More than one, and none was named.
    #[error("several runs are under way; name one with --run: {}", .0.join(", "))]
    Several(Vec<String>),
    /// None of this name.
    #[error("no run called `{name}` is under way; those that are: {running}")]
    Unknown {
        /// The name.
        name: String,
        /// Those that there are.
        running: String,
    },
    /// It does not answer.
    #[error("cannot talk to the run in {run}: {error}")]
    Io {
        /// Its folder.
        run: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// It refuses.
    #[error("{0}")]
    Refused(String),
    /// It has ended meanwhile.
    #[error("the run has ended")]
    Ended,
}

/// A connection to a run.
#[derive(Debug)]
pub struct Control {
    channel: Channel,
    run: PathBuf,
}

impl Control {
    /// The run's folder.
    pub fn run(&self) -> &Path {
        &self.run
    }

    /// Connects to the run named `run` (its experiment or its folder), or to the only one.
    pub fn connect(run: Option<&str>) -> Result<Self, ControlError> {
        if let Some(folder) = run.map(Path::new).filter(|path| path.is_dir()) {
            return Self::open(&folder::under_way(folder));
        }
        let mut runs = running();
        let names = |runs: &[Status]| {
            runs.iter()
                .map(|s| format!("{} ({})", s.experiment, s.run.display()))
                .collect()
        };
        if let Some(name) = run {
            let all: Vec<String> = names(&runs);
            runs.retain(|status| is_named(status, name));
            if runs.is_empty() && !all.is_empty() {
                let running = all.join(", ");
                return Err(ControlError::Unknown {
                    name: name.to_owned(),
                    running,
                });
            }
        }
        match runs.as_slice() {
            [] => Err(ControlError::NoRun),
            [one] => Self::open(&one.run),
            several => Err(ControlError::Several(names(several))),
        }
    }

    fn open(run: &Path) -> Result<Self, ControlError> {
        let run = run.canonicalize().unwrap_or_else(|_| run.to_owned());
        let path = run.join("control.sock");
        let channel = match Channel::connect(&path) {
            // A run in virtual time has a name that is not a file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let none = |_| ControlError::NoRun;
                Channel::connect_abstract(&path).map_err(none)?
            }
            Err(error) => return Err(ControlError::Io { run, error }),
            Ok(channel) => channel,
        };
        Ok(Self { channel, run })
    }

    /// Sends a request, with descriptors for `exec`, and waits for the answer.
    pub fn ask(&self, request: &Request, fds: &[BorrowedFd<'_>]) -> Result<Reply, ControlError> {
        let failed = |error| ControlError::Io {
            run: self.run.clone(),
            error,
        };
        self.channel.send(request, fds).map_err(failed)?;
        self.next()
    }

    /// Waits for a further message: the end of a program that `exec` started.
    pub fn next(&self) -> Result<Reply, ControlError> {
        let failed = |error| ControlError::Io {
            run: self.run.clone(),
            error,
        };
        match self.channel.receive().map_err(failed)? {
            Some((Reply::Error(message), _)) => Err(ControlError::Refused(message)),
            Some((reply, _)) => Ok(reply),
            None => Err(ControlError::Ended),
        }
    }

    /// Waits this long, or until the run has ended; returns whether it is still under way.
    pub fn pause(&self, length: Duration) -> bool {
        let readable = wait_readable(&[self.as_fd()], Some(length));
        // The run sends nothing unasked, so a readable socket means that it has ended.
        readable.is_ok_and(|readable| readable == [false])
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// Whether a run goes by this name: its experiment's, its folder's, or that of all its attempts.
pub(crate) fn is_named(status: &Status, name: &str) -> bool {
    let is_named = |folder: &Path| folder.file_name().is_some_and(|f| f == name);
    status.experiment == name
        || is_named(&status.run)
        || folder::of_attempts(&status.run).is_some_and(is_named)
}

/// The runs of this machine that answer us: the kernel lists every socket with its path, so no
/// registry is needed that a killed run would leave behind.
pub fn running() -> Vec<Status> {
    let table = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let mut paths: Vec<&str> = table
        .lines()
        .filter_map(|line| line.find('/').map(|at| &line[at..]))
        .filter(|path| path.ends_with("/control.sock"))
        .collect();
    paths.sort_unstable();
    paths.dedup();
    let ask = |path: &&str| {
        let control = Control::open(Path::new(path).parent()?).ok()?;
        match control.ask(&Request::Status {}, &[]) {
            Ok(Reply::Status(status)) => Some(status),
            _ => None,
        }
    };
    paths.iter().filter_map(ask).collect()
}
