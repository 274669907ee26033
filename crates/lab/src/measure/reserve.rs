//! Reserves room on the disk for the results of the run.
//!
//! Series and captures grow during a run, while its summary, report and tables of seconds are
//! written at its end. So that these find room on a disk that measuring has filled, a file of zeros
//! takes [`RESERVE`] bytes from the start, and is freed when the disk is full, or at the end. It
//! has no name, so it vanishes with a run that is killed, too.
//!
//! Left out: what others write to the same disk meanwhile.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// What is kept: a summary of some thousand pipes, an hour of seconds, and programs' last lines.
const RESERVE: usize = 4 << 20;

/// The room, as long as this is there.
#[derive(Debug)]
pub(super) struct Reserve(#[expect(dead_code, reason = "it is there to be open")] File);

impl Reserve {
    /// Takes as much of the room as there is on the disk of a folder.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        let path = folder.join(".reserve");
        let mut file = File::create(&path)?;
        fs::remove_file(&path)?;
        let zeros = [0; 64 << 10];
        for _ in 0..RESERVE / zeros.len() {
            // A disk that has less is found full as soon as something is measured.
            if file.write_all(&zeros).is_err() {
                break;
            }
        }
        Ok(Self(file))
    }
}

/// Whether an error says that there is no room, be it on the disk or for this user.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
