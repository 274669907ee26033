//! Resources of hosts on this machine: what a plan asks for, in what the machine has.
//!
//! Two questions are answered before anything starts. *Can this machine give it at all?* A CPU
//! faster than its own, more CPUs or memory than it has, a disk that cannot be throttled: what
//! cannot be given is an error. *Can it give all of it at once?* All hosts' CPU time has to fit the
//! CPUs that are left to programs, and all hosts' memory what is free: what does not fit is refused
//! too, unless the caller insists, and then the verdict says so.
//!
//! Left out: what hosts need that ask for nothing. They have what is left.

mod allot;
mod facts;
pub mod mapping;
pub mod reference;
mod summary;

pub use allot::{Allotment, HostShare, Misfit};
pub use facts::Facts;
pub use summary::{CpuResources, HostResources, ResourcesSummary};
