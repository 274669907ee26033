//! What the programs of a host have of the machine: CPU time, memory, and its disk.

mod census;
mod delegate;
mod device;
pub mod duty;
mod groups;
mod places;
mod reaper;
pub mod scope;
mod support;
mod sweep;
#[cfg(test)]
mod testing;
pub mod watchdog;

use serde::{Deserialize, Serialize};

pub use delegate::delegate;
pub use device::{Device, NoDevice};
pub use groups::{GroupUsage, Groups, Membership, period_us};
pub use support::{Means, Support, Unsupported};

/// What a host's programs have; a resource that is `None` is not limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// CPU time.
    pub cpu: Option<Cpu>,
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// What the disk does at most.
    pub disk: Option<Disk>,
}

/// The CPU time of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// How much all its programs together have, in thousandths of one CPU.
    pub quota: u32,
    /// How many CPUs they see.
    pub count: u32,
}

/// What a disk does at most; what is `None` is as the machine's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// Bytes a second that are read.
    pub read: Option<u64>,
    /// Bytes a second that are written.
    pub write: Option<u64>,
    /// Reads a second, and as many writes.
    pub iops: Option<u64>,
}

impl Limits {
    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.cpu.is_none() && self.memory.is_none() && self.disk.is_none()
    }
}
