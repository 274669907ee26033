//! The sandbox's last act when its run has been killed: remove the run's one temporary file.
//!
//! A signal handler does it, because the sandbox may be in the middle of something else when
//! its parent dies. `unlink` and `_exit` are async-signal-safe (signal-safety(7)); ending the
//! process 1 of a PID namespace ends everything in it.

use std::ffi::{CStr, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use rustix::process::{Signal, set_parent_process_death_signal};

use crate::sys::{self, check, cstring};

static REMOVE: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());

extern "C" fn on_signal(_: i32) {
    run()
}

/// Removes the file and ends the process, and with it everything in its PID namespace.
pub(crate) fn run() -> ! {
    let path = REMOVE.load(Ordering::Acquire);
    if !path.is_null() {
        // SAFETY: the path is NUL-terminated and never freed.
        let path = unsafe { CStr::from_ptr(path) };
        // No more than the system call, which is async-signal-safe.
        rustix::fs::unlink(path).ok();
    }
    sys::exit_now(0)
}

/// From now on this process removes `path` and ends when its parent dies.
pub(crate) fn arm(path: &Path) -> io::Result<()> {
    let path = cstring(path.as_os_str().as_bytes())?;
    REMOVE.store(path.into_raw(), Ordering::Release);
    // SAFETY: an all-zero sigaction is valid; the handler only makes async-signal-safe calls.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        check(libc::sigaction(
            libc::SIGUSR2,
            &raw const action,
            ptr::null_mut(),
        ))?;
    }
    Ok(set_parent_process_death_signal(Some(Signal::USR2))?)
}
