//! A program's output: copied from its pipe to a file, bounded, and matched against its ready
//! pattern.
//!
//! Programs write into pipes, the run copies to `logs/NAME.out` and `NAME.err`. A program that
//! floods its log fills its file up to [`LOG_MAX`]; what comes after is read and thrown away,
//! counted, and reported.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use regex::bytes::Regex;

/// The most bytes that one stream of one program may leave behind.
pub(crate) const LOG_MAX: u64 = 256 << 20;
/// The most of an unfinished line that is kept to look for a pattern in.
const LINE_MAX: usize = 64 << 10;
/// How much is read at a time, so that one program cannot keep the supervisor busy.
const CHUNK: usize = 256 << 10;

/// One output stream of a program.
#[derive(Debug)]
pub(crate) struct LogStream {
    /// The pipe and the file, closed at the pipe's end: descriptors are scarce.
    ends: Option<(File, File)>,
    written: u64,
    discarded: u64,
    line: Vec<u8>,
}

impl LogStream {
    /// A stream that ends in the file `path`, and the descriptor to give to the program.
    pub(crate) fn create(path: &Path) -> io::Result<(Self, OwnedFd)> {
        let (pipe, program_end) = longhaul_linux::log_pipe()?;
        let file = File::create(path)?;
        let line = Vec::new();
        Ok((
            Self {
                ends: Some((pipe, file)),
                written: 0,
                discarded: 0,
                line,
            },
            program_end,
        ))
    }

    /// The descriptor to wait for, while the program may still write.
    pub(crate) fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.ends.as_ref().map(|(pipe, _)| pipe.as_fd())
    }

    /// Bytes thrown away.
    pub(crate) const fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Copies what has been written since the last call, a bounded piece of it. True when a line
    /// matches `pattern`.
    pub(crate) fn pump(&mut self, pattern: Option<&Regex>) -> io::Result<bool> {
        let mut buffer = [0; 16 << 10];
        let (mut matched, mut total) = (false, 0);
        while total < CHUNK
            && let Some((pipe, _)) = &mut self.ends
        {
            let read = match pipe.read(&mut buffer) {
                Ok(0) => {
                    self.ends = None;
                    matched |= pattern.is_some_and(|p| p.is_match(&self.line));
                    break;
                }
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            total += read;
            self.write(&buffer[..read])?;
            matched |= pattern.is_some_and(|pattern| self.finds(&buffer[..read], pattern));
        }
        Ok(matched)
    }

    /// Writes to the log what still has room in it.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = usize::try_from(LOG_MAX - self.written).unwrap_or(usize::MAX);
        let kept = bytes.len().min(room);
        if let Some((_, file)) = &mut self.ends {
            file.write_all(&bytes[..kept])?;
        }
        self.written += kept as u64;
        self.discarded += (bytes.len() - kept) as u64;
        Ok(())
    }

    /// Whether a line that `bytes` completes, or the prompt at its end, matches.
    fn finds(&mut self, bytes: &[u8], pattern: &Regex) -> bool {
        let mut found = false;
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let room = LINE_MAX.saturating_sub(self.line.len());
            self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            found |= pattern.is_match(self.line.trim_ascii_end());
            if piece.ends_with(b"\n") {
                self.line.clear();
            }
        }
        found
    }
}
