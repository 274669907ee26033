//! A series in files: parts of at most [`ROWS`] rows, each whole at any time.
//!
//! The part that grows has its rows in memory and is written anew as a whole, under another name first,
//! when its last rows have waited for [`UNSAVED`] or it is full. So whatever ends the run, all files of
//! a series can be read, and one glob reads them; and a long and quiet run has few of them.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul_linux::clock::MachineTime;
use longhaul_plan::measure::Format;

use super::encode::{Kind, Table};

/// The most rows of a part: some 30 MB in memory.
const ROWS: usize = 200_000;
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
    /// Its bytes on disk.
    written: u64,
    /// Bytes of parts that are full.
    full: u64,
    /// Since when there are rows that are not saved.
    unsaved: Option<MachineTime>,
    rows: u64,
}

impl Parts {
    /// A series in `folder`, which is made with the first row.
    pub(super) fn new(
        folder: PathBuf,
        format: Format,
        names: &'static [(&'static str, Kind)],
    ) -> Self {
        Self {
            folder,
            format,
            table: Table::new(names),
            number: 1,
            written: 0,
            full: 0,
            unsaved: None,
            rows: 0,
        }
    }

    /// The table that rows are added to; [`Parts::save`] must be called afterwards.
    pub(super) const fn table(&mut self) -> &mut Table {
        &mut self.table
    }

    /// Bytes on disk.
    pub(super) const fn bytes(&self) -> u64 {
        self.full + self.written
    }

    /// Rows so far.
    pub(super) const fn rows(&self) -> u64 {
        self.rows + self.table.rows() as u64
    }

    /// Writes what has to be written by now.
    pub(super) fn save(&mut self, now: MachineTime) -> io::Result<()> {
        if self.table.rows() == 0 {
            return Ok(());
        }
        let since = *self.unsaved.get_or_insert(now);
        if self.table.rows() < ROWS && now.since(since) < UNSAVED {
            return Ok(());
        }
        self.write()
    }

    /// Writes whatever is not saved yet, if there is anything.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match self.unsaved {
            Some(_) => self.write(),
            None => Ok(()),
        }
    }

    fn write(&mut self) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let ending = match self.format {
            Format::Parquet if cfg!(feature = "parquet") => "parquet",
            _ => "csv",
        };
        let path = self.folder.join(format!("{:04}.{ending}", self.number));
        self.written = write_whole(&path, |to| self.table.encode(self.format, to))?;
        self.unsaved = None;
        if self.table.rows() >= ROWS {
            self.full += std::mem::take(&mut self.written);
            self.rows += self.table.rows() as u64;
            self.number += 1;
            self.table.clear();
        }
        Ok(())
    }
}

/// Writes a file under another name first, so that it is whole or not there; gives its length.
fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<u64> {
    let partial = path.with_extension("partial");
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
