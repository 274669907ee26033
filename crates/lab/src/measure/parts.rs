//! A series in files: parts of some [`ROWS`] rows, each a whole file at any time.
//!
//! The part that grows has its rows in memory. When the last of them have waited for [`UNSAVED`], or it is full,
//! it is rewritten as a whole, under another name first, then renamed. So however the run ends, all files of a
//! series can be read, by one glob; and a long and quiet run has few of them.
//!
//! The size of a series on disk is estimated from rows: full parts count with their files' sizes, other rows with
//! the mean of those. So the estimate does not depend on when the growing part was written, nor on the machine.
//! Where little room is allowed, parts are smaller, so that the estimate is soon right.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul_linux::clock::MachineTime;
use longhaul_plan::measure::Format;

use super::columns::Declared;
use super::encode::Table;

/// A part is full with this many rows: some 30 MB in memory.
const ROWS: usize = 200_000;
/// The fewest rows of a part where little room is allowed.
const ROWS_MIN: u64 = 500;
/// The estimate of a value's size on disk until a part is full: about right for CSV, less in Parquet.
const VALUE_BYTES: u64 = 8;
/// How long rows may stay unsaved.
pub(super) const UNSAVED: Duration = Duration::from_secs(10);

/// A series.
#[derive(Debug)]
pub(super) struct Parts {
    folder: PathBuf,
    format: Format,
    table: Table,
    /// The number of the part that grows, from 1.
    number: u32,
    /// Its rows and bytes on disk.
    saved: (usize, u64),
    /// Since when there are rows that are not saved.
    unsaved: Option<MachineTime>,
    /// Rows and bytes of parts that are full.
    full: (u64, u64),
    /// A part is full with this many rows.
    rows_max: usize,
    /// What a row takes as long as no part is full.
    row_bytes: u64,
}

impl Parts {
    /// A series in `folder`, which is made with the first row. `disk_bytes` is the budget that it shares
    /// with other series.
    pub(super) fn new(
        folder: PathBuf,
        (format, disk_bytes): (Format, u64),
        declared: Declared,
    ) -> Self {
        let row_bytes = declared.len() as u64 * VALUE_BYTES;
        let rows = disk_bytes / 16 / row_bytes;
        Self {
            rows_max: rows.clamp(ROWS_MIN, ROWS as u64) as usize,
            row_bytes,
            folder,
            format,
            table: Table::new(declared),
            number: 1,
            saved: (0, 0),
            unsaved: None,
            full: (0, 0),
        }
    }

    /// The table that rows are added to; [`Parts::save`] must be called afterwards.
    pub(super) const fn table(&mut self) -> &mut Table {
        &mut self.table
    }

    /// Bytes on disk.
    pub(super) const fn bytes(&self) -> u64 {
        self.full.1 + self.saved.1
    }

    /// Rows on disk.
    pub(super) const fn rows(&self) -> u64 {
        self.full.0 + self.saved.0 as u64
    }

    /// The estimate of what all rows so far take on disk.
    pub(super) fn reckoned(&self) -> u64 {
        let (rows, bytes) = self.full;
        let row = bytes.checked_div(rows).unwrap_or(self.row_bytes);
        bytes + row * self.table.rows() as u64
    }

    /// Forgets rows that are not saved; no part can be written any more.
    pub(super) fn forget(&mut self) {
        self.table.clear();
        self.unsaved = None;
    }

    /// Writes what has to be written by now.
    pub(super) fn save(&mut self, now: MachineTime) -> io::Result<()> {
        if self.table.rows() == self.saved.0 {
            return Ok(());
        }
        let since = *self.unsaved.get_or_insert(now);
        if self.table.rows() < self.rows_max && now.since(since) < UNSAVED {
            return Ok(());
        }
        self.write()
    }

    /// Writes whatever is not saved yet, if there is anything.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        if self.table.rows() == self.saved.0 {
            Ok(())
        } else {
            self.write()
        }
    }

    fn write(&mut self) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let ending = match self.format {
            Format::Parquet if cfg!(feature = "parquet") => "parquet",
            _ => "csv",
        };
        let path = self.folder.join(format!("{:04}.{ending}", self.number));
        let bytes = write_whole(&path, |to| self.table.encode(self.format, to))?;
        self.saved = (self.table.rows(), bytes);
        self.unsaved = None;
        if self.table.rows() >= self.rows_max {
            let (rows, bytes) = std::mem::take(&mut self.saved);
            self.full = (self.full.0 + rows as u64, self.full.1 + bytes);
            self.number += 1;
            self.table.clear();
        }
        Ok(())
    }
}

/// Writes a file under another name first, so that it is whole or not there; returns its length. That name begins
/// with a dot, so that globs skip what a killed run leaves behind.
fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<u64> {
    let mut partial = OsString::from(".");
    partial.push(path.file_name().unwrap_or_default());
    let partial = path.with_file_name(partial).with_extension("partial");
    let result = File::create(&partial).and_then(|file| {
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.flush()?;
        let length = file.get_ref().metadata()?.len();
        fs::rename(&partial, path)?;
        Ok(length)
    });
    if result.is_err() {
        let _ = fs::remove_file(&partial);
    }
    result
}
