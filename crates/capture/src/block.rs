//! The one shape of everything in a pcapng file: a block.
//!
//! Theory: draft-ietf-opsawg-pcapng §3.1 and §3.5. A block is its type, its length, a body, options
//! and its length again, all in multiples of four bytes. An option is a code, a length and a
//! value. All numbers are little-endian here, so that the same run writes the same bytes
//! everywhere.

/// The least that a block takes: type and both lengths.
pub(crate) const BLOCK_MIN: usize = 12;

/// The code that ends options; also of records of names.
const END: u16 = 0;
/// A comment, in every kind of block.
pub(crate) const COMMENT: u16 = 1;

/// A block that is being built at the end of a buffer.
pub(crate) struct Block<'a> {
    buffer: &'a mut Vec<u8>,
    start: usize,
    has_options: bool,
}

impl<'a> Block<'a> {
    /// Begins a block.
    pub(crate) fn new(buffer: &'a mut Vec<u8>, kind: u32) -> Self {
        let start = buffer.len();
        buffer.extend_from_slice(&kind.to_le_bytes());
        buffer.extend_from_slice(&[0; 4]); // the length, known at the end
        Self {
            buffer,
            start,
            has_options: false,
        }
    }

    /// Bytes of the block so far.
    pub(crate) fn len(&self) -> usize {
        self.buffer.len() - self.start
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

    /// A time in nanoseconds: the high half comes first in any byte order.
    pub(crate) fn time(&mut self, ns: u64) {
        self.u32((ns >> 32) as u32);
        self.u32(ns as u32);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Fills up to a multiple of four.
    pub(crate) fn pad(&mut self) {
        let len = self.len().next_multiple_of(4);
        self.buffer.resize(self.start + len, 0);
    }

    /// An option; of a value that is too long for one, the beginning.
    pub(crate) fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.u16(code);
        self.u16(value.len() as u16);
        self.bytes(value);
        self.pad();
        self.has_options = true;
    }

    /// A text as an option; an empty one is left out.
    pub(crate) fn text(&mut self, code: u16, text: &str) {
        let mut end = text.len().min(usize::from(u16::MAX));
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        if end > 0 {
            self.option(code, &text.as_bytes()[..end]);
        }
    }

    pub(crate) fn option_u64(&mut self, code: u16, value: u64) {
        self.option(code, &value.to_le_bytes());
    }

    pub(crate) fn option_time(&mut self, code: u16, ns: u64) {
        self.u16(code);
        self.u16(8);
        self.time(ns);
        self.has_options = true;
    }

    /// Ends the block.
    pub(crate) fn end(mut self) {
        if self.has_options {
            self.u32(u32::from(END));
        }
        let len = (self.len() + 4) as u32;
        self.u32(len);
        self.buffer[self.start + 4..self.start + 8].copy_from_slice(&len.to_le_bytes());
    }
}
