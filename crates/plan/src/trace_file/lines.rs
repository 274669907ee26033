//! Lines of a file that may hold anything.
//!
//! One buffer for all lines. What no text file of values has (a line beyond all measure, control
//! characters, the marks of compressed files and of UTF-16) is an error that says what it is.

use std::io::{BufRead, Read};

use super::{TraceFault, unreadable};

/// The longest line, in bytes.
const LONGEST: usize = 4096;

/// A reader of lines.
pub(super) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    /// The line read last, from 1.
    pub(super) number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input,
            buffer: Vec::with_capacity(LONGEST + 1),
            number: 0,
        }
    }

    /// A fault in the line read last.
    pub(super) fn fault(&self, message: impl Into<String>, hint: impl Into<String>) -> TraceFault {
        TraceFault::new(message, hint).in_line(self.number)
    }

    /// The next line without its end; `None` after the last.
    pub(super) fn next_line(&mut self) -> Result<Option<&[u8]>, TraceFault> {
        self.buffer.clear();
        let mut limited = (&mut self.input).take(LONGEST as u64 + 1);
        let read = limited.read_until(b'\n', &mut self.buffer);
        read.map_err(|error| unreadable(error).in_line(self.number + 1))?;
        if self.buffer.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let skipped = if self.number == 1 {
            self.beginning()?
        } else {
            0
        };
        let mut line = &self.buffer[skipped..];
        if let Some(rest) = line.strip_suffix(b"\n") {
            line = rest.strip_suffix(b"\r").unwrap_or(rest);
        } else if line.len() > LONGEST {
            return Err(self.fault(
                format!("this line is longer than {LONGEST} bytes"),
                "write one row of values on a line",
            ));
        }
        let odd = |&byte: &u8| (byte < b' ' && byte != b'\t') || byte == 0x7f;
        if let Some(place) = line.iter().position(odd) {
            let fault = self.fault(
                format!("this is not text: byte 0x{:02x} in a line", line[place]),
                "save the values as plain text",
            );
            return Err(fault.in_column(column(line, place)));
        }
        Ok(Some(line))
    }

    /// How many bytes of the first line to skip: the mark that some programs put in front of
    /// UTF-8.
    fn beginning(&self) -> Result<usize, TraceFault> {
        let fault = |what: &str, hint: &str| Err(TraceFault::new(format!("this is {what}"), hint));
        match self.buffer.as_slice() {
            [0xef, 0xbb, 0xbf, ..] => Ok(3),
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
                fault("text in UTF-16", "save it as plain text in UTF-8")
            }
            [0x1f, 0x8b, ..] => fault("a file compressed by gzip", "unpack it: gunzip FILE"),
            [0xfd, b'7', b'z', b'X', b'Z', ..] => {
                fault("a file compressed by xz", "unpack it: unxz FILE")
            }
            [0x28, 0xb5, 0x2f, 0xfd, ..] => {
                fault("a file compressed by zstd", "unpack it: unzstd FILE")
            }
            [b'P', b'K', 3, 4, ..] => fault("a ZIP archive", "unpack it, and name the file inside"),
            _ => Ok(0),
        }
    }
}

/// The column, in characters from 1, of a byte of a line.
pub(super) fn column(line: &[u8], byte: usize) -> u64 {
    let starts = line[..byte].iter().filter(|&&b| b & 0xc0 != 0x80);
    starts.count() as u64 + 1
}
