//! A run's options, its progress reports, and its errors.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use longhaul_core::{Span, Time};
use longhaul_linux::clock::MachineTime;
use longhaul_linux::cpu;
use longhaul_linux::sandbox::SandboxError;
use longhaul_partition::Partition;
use thiserror::Error;

use crate::fidelity::State;
use crate::folder::FolderError;
use crate::resources::Misfit;

/// What the caller decides about a run beside the plan.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The run folder.
    pub out: PathBuf,
    /// Whether an earlier run in it is overwritten.
    pub force: bool,
    /// The text of the experiment file, kept in the run folder.
    pub experiment_text: String,
    /// The folder of the experiment file: `LONGHAUL_DIR` of programs, base of a relative `cwd`.
    pub experiment_dir: PathBuf,
    /// Whether hosts may be given more than the machine has, which the verdict then reports.
    pub oversubscribe: bool,
    /// On how many cores a virtual run may go, and who has what.
    pub cores: Cores,
}

/// The cores of a virtual run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cores {
    /// At most this many threads, as far as they pay; the best partition is found.
    UpTo(u16),
    /// Those of a partition that was made before.
    Given(Partition),
}

impl Default for Cores {
    /// One.
    fn default() -> Self {
        Self::UpTo(1)
    }
}

/// The progress of a run.
#[derive(Debug, Clone)]
pub enum Progress {
    /// Hosts come up.
    Hosts {
        /// How many are up.
        up: usize,
        /// How many there will be.
        total: usize,
    },
    /// t = 0: programs start.
    Started,
    /// The run is under way.
    Running {
        /// Experiment time.
        time: Time,
        /// Its upper bound.
        duration: Option<Span>,
        /// Packets delivered in the last second.
        packets_per_s: u64,
        /// The share of the last second that the core did not need, once there is one.
        headroom: Option<f64>,
        /// The verdict so far.
        state: State,
        /// Programs that have ended.
        ended: usize,
        /// All programs.
        programs: usize,
    },
    /// A virtual run is under way.
    Simulating {
        /// Experiment time.
        time: Time,
        /// Its upper bound.
        duration: Option<Span>,
        /// Experiment time over real time.
        speed: f64,
        /// Packet-hops per second.
        hops_per_s: f64,
        /// Modelled flows that have ended.
        flows_done: u64,
        /// All of them.
        flows: u64,
    },
    /// Something that the user should know at once.
    Note(String),
    /// The run is being wound up.
    Stopping,
}

/// Receives the progress of a run.
pub trait Observer {
    /// Called often, and never for long.
    fn progress(&mut self, progress: &Progress);
}

/// Why there is no summary.
#[derive(Debug, Error)]
pub enum RunError {
    /// The run folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The sandbox could not be made.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The modelled hosts could not be made.
    #[error("modelled traffic: {0}")]
    Traffic(longhaul_proto::modelled::Error),
    /// A virtual run does not fit.
    #[error(
        "this run needs at least {needed:.1} GiB of memory, and the machine has {available:.1} GiB \
         available: use fewer hosts or flows, or start flows later so that fewer are active at once"
    )]
    Memory {
        /// GiB that it takes at least.
        needed: f64,
        /// GiB that there are.
        available: f64,
    },
    /// The machine does not have what hosts ask for.
    #[error(transparent)]
    Resources(#[from] Misfit),
    /// The system refused something else.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The system's answer.
        error: io::Error,
    },
}

pub(crate) fn io_error(what: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |error| RunError::Io { what, error }
}

/// The beginning of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunStart {
    at: MachineTime,
    cpu: Duration,
}

impl RunStart {
    pub(crate) fn now() -> Self {
        Self {
            at: MachineTime::now(),
            cpu: Duration::from_nanos(cpu::process_cpu_ns()),
        }
    }

    /// Real time since.
    pub(crate) fn passed(self) -> Duration {
        MachineTime::now().since(self.at)
    }

    /// CPU time of this process since.
    pub(crate) fn used(self) -> Duration {
        Duration::from_nanos(cpu::process_cpu_ns()).saturating_sub(self.cpu)
    }
}
