//! A virtual run's interface to the machine that computes it.
//!
//! The simulation does not depend on it: it measures the run's own cost, and reports when somebody
//! wants the run to end. So another implementation is all that virtual runs need for another
//! operating system; tests have one of their own.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::calibrate::MachineCosts;
use crate::control::{Reply, Request};
use crate::summary;

/// A clock that several threads may read.
pub(crate) type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// The machine as a virtual run knows it.
pub(crate) trait Machine {
    /// Bytes of memory that this process may have, with those that it has; `None` where the system
    /// does not say.
    fn memory(&self) -> Option<u64>;

    /// Makes ready for a run of this thread. From here on, signals that ask for its end wait for
    /// [`interrupted`](Self::interrupted).
    fn begin(&mut self) -> io::Result<()>;

    /// The clock: how long after some fixed moment it is.
    fn clock(&self) -> Clock;

    /// CPU time that the thread which asks has used.
    fn cpu_clock(&self) -> Clock;

    /// Opens the run's control socket, by the name `socket`, to other processes.
    fn listen(&mut self, socket: &Path) -> io::Result<()>;

    /// Answers the requests that have come since the last call.
    fn serve(&mut self, answer: &mut dyn FnMut(&Request) -> Reply);

    /// The signal that asks for the run's end, once for each that came.
    fn interrupted(&mut self) -> Option<i32>;

    /// How many CPUs this process may use.
    fn cpus(&self) -> usize;

    /// What work costs its threads.
    fn costs(&self) -> MachineCosts;

    /// What it is like.
    fn facts(&self) -> summary::Machine;
}
