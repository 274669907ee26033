//! What the sandbox counts of its hosts, and how it is asked for.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Answer, Request, Sandbox, SandboxError, unexpected};

/// Counters of one host, each since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCounters {
    /// Frames that the cable lost on the way to the core (its ring was full).
    pub to_core_dropped: u64,
    /// Frames that the cable lost on the way to the host, where no send call says so.
    pub from_core_dropped: u64,
    /// Nanoseconds that its tasks were ready to run but had no CPU.
    pub run_wait_ns: u64,
    /// Nanoseconds that its tasks ran.
    pub cpu_ns: u64,
    /// Processes that it runs, its init not counted.
    pub processes: u32,
    /// Their tasks.
    pub tasks: u32,
}

/// What a host's processes have used since its start, except for what a task used between the last
/// sample of it and its end; for programs, [`Event::Exited`](super::Event::Exited) includes that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostUsage {
    /// Nanoseconds that its tasks ran.
    pub cpu_ns: u64,
    /// Nanoseconds that its tasks were ready to run but had no CPU.
    pub run_wait_ns: u64,
    /// Bytes of memory that its processes hold now; what several share counts for each.
    pub resident_bytes: u64,
    /// Processes now, its init not counted.
    pub processes: u32,
    /// Their tasks now.
    pub tasks: u32,
}

/// What all hosts use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// By number.
    pub hosts: Vec<HostUsage>,
    /// CPU time that sampling all their tasks has cost.
    pub cost: Duration,
}

/// What the TCP of all hosts has counted since their start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpCounters {
    /// Segments sent again (`RetransSegs`).
    pub retransmissions: u64,
    /// Those that their receivers reported to have had already (`TCPDSACKRecv`). Tail loss probes
    /// bring such reports too, without a loss.
    pub spurious_retransmissions: u64,
    /// Retransmission time-outs (`TCPTimeouts`).
    pub timeouts: u64,
    /// Of them, those found to be needless (`TCPSpuriousRTOs`).
    pub spurious_timeouts: u64,
}

impl Sandbox {
    /// What the TCP of all hosts together has counted.
    pub fn tcp_counters(&mut self) -> Result<TcpCounters, SandboxError> {
        match self.ask(&Request::TcpCounters, &[])?.0 {
            Answer::TcpCounters(counters) => Ok(counters),
            other => Err(unexpected(other)),
        }
    }

    /// The counters of every host, by number.
    pub fn counters(&mut self) -> Result<Vec<HostCounters>, SandboxError> {
        match self.ask(&Request::Counters, &[])?.0 {
            Answer::Counters(counters) => Ok(counters),
            other => Err(unexpected(other)),
        }
    }

    /// What the processes of every host have used, by number. Reads a few files of `/proc` for each
    /// task: 30 us for a process of one.
    pub fn usage(&mut self) -> Result<Usage, SandboxError> {
        match self.ask(&Request::Usage, &[])?.0 {
            Answer::Usage(usage) => Ok(usage),
            other => Err(unexpected(other)),
        }
    }
}
