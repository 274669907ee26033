//! Signals that ask for the end of a calibration.
//!
//! Runs block these signals for good and take those that come in their time. A signal between two runs
//! would wait for the next run, and one during work without runs, as over a plain cable, for the end of
//! that work. So a calibration blocks the signals itself, from before it makes anything that must be removed,
//! and looks for them wherever it waits. It then ends like any that fails.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use longhaul_linux::wait::{take_signal, termination_signals};

use super::CalibrateError;

/// Where signals of this process arrive.
pub(super) struct Interrupt(OwnedFd);

impl Interrupt {
    /// From now on signals that ask for the end are caught.
    pub(super) fn catch() -> Result<Self, CalibrateError> {
        let caught = termination_signals().map_err(|error: io::Error| CalibrateError::Io {
            what: "blocking signals".to_owned(),
            error,
        });
        caught.map(Self)
    }

    /// An error if a signal has arrived.
    pub(super) fn check(&self) -> Result<(), CalibrateError> {
        match take_signal(self.0.as_fd()) {
            Some(signal) => Err(CalibrateError::Interrupted(signal)),
            None => Ok(()),
        }
    }
}

impl AsFd for Interrupt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
