//! The control socket: how other processes change a run that is under way.
//!
//! `control.sock` in the run folder takes `SOCK_SEQPACKET` connections of the run's own user.
//! A message is one JSON object; a connection may send several requests, each answered in turn.
//!
//! - `{"status": {}}` → `{"status": {"run", "experiment", "time_s", "verdict", "hosts"}}`
//! - `{"set": {"link": "ga-gb", "values": {"delay": "50 ms", "rate": "1 Gbit/s"}}}` →
//!   `{"set": {"pipes": ["ga>gb", "gb>ga"], "at_s": 3.2}}`: in force for packets that enter from
//!   then on
//! - `{"exec": {"host", "argv", "env", "cwd", "as_root"}}` with the three standard streams as
//!   descriptors → `{"started": {}}`, and when the program has ended `{"exited": {"code"}}`.
//!   Closing the connection ends the program.
//! - anything wrong → `{"error": "why"}`

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use longhaul_core::Span;
use longhaul_core::params::{LossModel, PipeParams};
use longhaul_core::units::{Probability, QueueLimit, Rate};
use longhaul_linux::channel::Channel;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What a caller may ask.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// How the run is doing.
    Status {},
    /// New parameters of a link or pipe.
    Set {
        /// A link (`x-y`, both directions) or a pipe (`x>y`).
        link: String,
        /// Parameter → value, as in the file.
        values: BTreeMap<String, String>,
    },
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

/// What the run answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// How the run is doing.
    Status(Status),
    /// Which pipes changed, and from when.
    Set {
        /// Their names.
        pipes: Vec<String>,
        /// Experiment time in seconds.
        at_s: f64,
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

/// Why a run cannot be found or asked.
#[derive(Debug, Error)]
pub enum ControlError {
    /// No run is under way.
    #[error("no run is under way (start one with `longhaul run FILE`)")]
    NoRun,
    /// More than one, and none was named.
    #[error("several runs are under way; choose one with --run: {}", .0.join(", "))]
    Several(Vec<String>),
    /// None of this name.
    #[error("no run called `{name}` is under way; there are: {running}")]
    Unknown {
        /// The name.
        name: String,
        /// Those that there are.
        running: String,
    },
    /// It does not answer.
    #[error("the run in {run}: {error}")]
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
    /// Connects to the run named `run` (its experiment or its folder), or to the only one.
    pub fn connect(run: Option<&str>) -> Result<Self, ControlError> {
        if let Some(folder) = run.map(Path::new).filter(|path| path.is_dir()) {
            return Self::open(folder);
        }
        let mut runs = running();
        let names = |runs: &[Status]| {
            runs.iter()
                .map(|s| format!("{} ({})", s.experiment, s.run.display()))
                .collect()
        };
        if let Some(name) = run {
            let all: Vec<String> = names(&runs);
            runs.retain(|status| {
                status.experiment == name || status.run.file_name().is_some_and(|f| f == name)
            });
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
        let run = run.to_owned();
        match Channel::connect(&run.join("control.sock")) {
            Ok(channel) => Ok(Self { channel, run }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ControlError::NoRun),
            Err(error) => Err(ControlError::Io { run, error }),
        }
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
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// Whether a run listens at a control socket.
pub fn is_alive(socket: &Path) -> bool {
    Channel::connect(socket).is_ok()
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

/// The parameters `now` with `values` put in.
pub fn changed(now: &PipeParams, values: &BTreeMap<String, String>) -> Result<PipeParams, String> {
    let mut params = now.clone();
    for (key, value) in values {
        let wrong = |error: longhaul_core::units::UnitError| format!("{key}: {error}");
        match key.as_str() {
            "rate" if value == "unlimited" => params.rate = None,
            "rate" => params.rate = Some(value.parse::<Rate>().map_err(wrong)?),
            "delay" => params.delay = value.parse::<Span>().map_err(wrong)?,
            "loss" => {
                params.loss = LossModel::Independent(value.parse::<Probability>().map_err(wrong)?)
            }
            "queue" => params.queue = value.parse::<QueueLimit>().map_err(wrong)?,
            other => {
                return Err(format!(
                    "a link has no `{other}` that can be set while it runs (those are rate, delay, loss, queue)"
                ));
            }
        }
    }
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_touches_only_what_it_names() {
        let now = PipeParams {
            delay: Span::from_ms(5),
            ..PipeParams::default()
        };
        let values = BTreeMap::from([("rate".to_owned(), "8 Mbit/s".to_owned())]);
        let then = changed(&now, &values).unwrap();
        assert_eq!(then.delay, Span::from_ms(5));
        assert_eq!(then.rate, Rate::from_bits_per_s(8_000_000));
        let wrong = BTreeMap::from([("delay".to_owned(), "5".to_owned())]);
        assert!(changed(&now, &wrong).unwrap_err().contains("5 ms"));
        let unknown = BTreeMap::from([("colour".to_owned(), "red".to_owned())]);
        assert!(changed(&now, &unknown).unwrap_err().contains("colour"));
    }
}
