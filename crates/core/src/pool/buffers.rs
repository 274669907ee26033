//! Buffers of super-packets, each shared by the packets that are its segments.
//!
//! One zeroed slab like that of the slots, mapped at first touch; a buffer that was freed last is
//! used next. Where none is free, segments are written to slots of their own instead: that costs
//! copies and changes nothing else.

use super::BufferId;
use crate::segment::{SUPER_BYTES, Super};

/// Bytes of a buffer, so that each begins on a page.
const BUFFER_BYTES: usize = SUPER_BYTES;

/// All buffers of a pool.
#[derive(Debug)]
pub(crate) struct Buffers {
    slab: Vec<u8>,
    /// How many there may be.
    most: u32,
    used: Vec<Buffer>,
    free: Vec<BufferId>,
}

#[derive(Debug)]
struct Buffer {
    /// How many need it.
    users: u32,
    len: usize,
    dimensions: Super,
}

/// The place of a buffer among those used so far.
fn place(id: BufferId) -> usize {
    id.get() as usize - 1
}

impl Buffers {
    pub(super) fn new(most: u32) -> Self {
        Self {
            slab: vec![0; most as usize * BUFFER_BYTES],
            most,
            used: Vec::with_capacity(most as usize),
            free: Vec::with_capacity(most as usize),
        }
    }

    /// Copies a super-packet into a free buffer, which its caller is the first user of; `None`
    /// where there is none, or where it is too long.
    pub(crate) fn take(&mut self, frame: &[u8], dimensions: Super) -> Option<BufferId> {
        if frame.len() > BUFFER_BYTES {
            return None;
        }
        let buffer = Buffer {
            users: 1,
            len: frame.len(),
            dimensions,
        };
        let id = if let Some(id) = self.free.pop() {
            self.used[place(id)] = buffer;
            id
        } else if (self.used.len() as u32) < self.most {
            self.used.push(buffer);
            BufferId::new(self.used.len() as u32)?
        } else {
            return None;
        };
        let at = place(id) * BUFFER_BYTES;
        self.slab[at..at + frame.len()].copy_from_slice(frame);
        Some(id)
    }

    /// One user more.
    pub(crate) fn join(&mut self, id: BufferId) {
        self.used[place(id)].users += 1;
    }

    /// One user less; the buffer is free without any.
    pub(crate) fn leave(&mut self, id: BufferId) {
        let buffer = &mut self.used[place(id)];
        debug_assert!(buffer.users > 0);
        buffer.users -= 1;
        if buffer.users == 0 {
            self.free.push(id);
        }
    }

    /// The super-packet in a buffer, as it came.
    pub(crate) fn frame(&self, id: BufferId) -> &[u8] {
        let at = place(id) * BUFFER_BYTES;
        &self.slab[at..at + self.used[place(id)].len]
    }

    pub(crate) fn super_of(&self, id: BufferId) -> Super {
        self.used[place(id)].dimensions
    }

    /// Buffers that are not free.
    pub(crate) fn in_use(&self) -> u32 {
        (self.used.len() - self.free.len()) as u32
    }
}
