//! Removes a run's control groups when the run has died without doing so.
//!
//! A process of its own, outside all limits and outside the sandbox: it must outlive both. It reads
//! from a pipe whose other end the run and its sandbox hold; the kernel closes that when the last
//! of them has ended, however it ended. By then the only processes left of the run are those that
//! the kernel is taking down. If the reaper itself is killed, the run removes its groups at its
//! end; if both are killed, the next run removes them ([`Groups`](super::Groups)).

use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Signal, pidfd_send_signal, setsid};
use rustix::thread::set_name;

use crate::sys::{self, Fork};
use crate::threads;

/// How long the kernel may take to end the last processes of a run.
const PATIENCE: Duration = Duration::from_secs(30);

/// The reaper as its run knows it. Dropping it without [`stop`](Self::stop) leaves the groups to it.
#[derive(Debug)]
pub(super) struct Reaper {
    pid: i32,
    pidfd: OwnedFd,
    /// Held for as long as the run needs its groups.
    _alive: PipeWriter,
}

impl Reaper {
    /// Forks it; the process must have one thread. It will remove `folders`.
    pub(super) fn start(folders: &[PathBuf]) -> io::Result<Self> {
        let (ended, alive) = io::pipe()?;
        threads::assert_alone("the reaper");
        // SAFETY: there is one thread, as just asserted.
        match unsafe { sys::fork(0) }? {
            Fork::Child => {
                drop(alive);
                main(ended, folders)
            }
            Fork::Parent { pid, pidfd } => Ok(Self {
                pid,
                pidfd,
                _alive: alive,
            }),
        }
    }

    /// Ends it: the groups have been removed.
    pub(super) fn stop(&self) {
        pidfd_send_signal(&self.pidfd, Signal::KILL).ok();
        sys::wait_for_child(self.pid);
    }
}

fn main(mut ended: PipeReader, folders: &[PathBuf]) -> ! {
    set_name(c"longhaul-reaper").ok();
    // Away from the terminal: Ctrl-C is for the run.
    setsid().ok();
    sys::ignore_endings();
    sys::close_all_but(0, &mut [ended.as_raw_fd()]);
    // Nothing is ever written: this returns when the last process that holds the other end has
    // ended.
    let _ = ended.read(&mut [0]);
    for folder in folders {
        super::sweep::remove(folder, PATIENCE);
    }
    sys::exit_now(0)
}
