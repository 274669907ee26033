//! A segment as the model sees it: the fields of RFC 9293 §3.1 without their encoding.
//!
//! Sequence numbers are 64-bit counts from the sender's SYN at 0; the window is in bytes, already
//! scaled; options are fields. Left out: ports and checksums, which belong to whoever carries
//! the segment, and the payload, of which only the length is known.

/// A range of sequence numbers, `start` included, `end` excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Range {
    /// The first number.
    pub start: u64,
    /// The first number behind.
    pub end: u64,
}

impl Range {
    /// True where there is nothing in it, also where it is the wrong way round.
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }
}

/// The control bits, at their places in the header's byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise.
    pub const SYN: Self = Self(0x02);
    /// Reset.
    pub const RST: Self = Self(0x04);
    /// Push: the end of what was written.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement field counts.
    pub const ACK: Self = Self(0x10);
    /// Congestion was experienced (RFC 3168).
    pub const ECE: Self = Self(0x40);
    /// The congestion window was reduced (RFC 3168).
    pub const CWR: Self = Self(0x80);

    /// These bits and `other`'s.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other`'s bits are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The codepoint in the IP header (RFC 3168 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ecn {
    /// The transport does not understand marks.
    #[default]
    NotEct,
    /// Capable, ECT(1).
    Ect1,
    /// Capable, ECT(0): what Linux sends.
    Ect0,
    /// Congestion experienced: marked by a queue.
    Ce,
}

/// Options of segments with SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SynOptions {
    /// Largest payload that the sender takes, before the room of other options is subtracted.
    pub mss: u32,
    /// Shift of the windows to come (RFC 7323 §2), 0 to 14; `None` refuses scaling.
    pub window_scale: Option<u8>,
    /// Selective acknowledgements are welcome (RFC 2018).
    pub sack_permitted: bool,
}

/// The option of RFC 7323 §3, in ticks of 1 ms as in Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timestamps {
    /// The sender's clock.
    pub value: u64,
    /// The clock of the other side that is answered; 0 where none is known.
    pub echo: u64,
}

/// Selective acknowledgements (RFC 2018, RFC 2883): at most 4 blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sacks {
    blocks: [Range; 4],
    len: u8,
}

impl Sacks {
    /// Adds `block`; what is beyond four is forgotten.
    pub fn push(&mut self, block: Range) {
        if let Some(place) = self.blocks.get_mut(usize::from(self.len)) {
            *place = block;
            self.len += 1;
        }
    }

    /// The blocks, the first one first.
    pub fn blocks(&self) -> &[Range] {
        &self.blocks[..usize::from(self.len)]
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// One segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Segment {
    /// Number of the first byte (of the SYN, where there is one).
    pub seq: u64,
    /// The number awaited next from the other side; counts with [`Flags::ACK`].
    pub ack: u64,
    /// Payload, in bytes.
    pub len: u32,
    /// Receive window in bytes, scaled already.
    pub window: u64,
    /// Control bits.
    pub flags: Flags,
    /// Codepoint of the IP header.
    pub ecn: Ecn,
    /// Options that only segments with SYN have.
    pub syn: Option<SynOptions>,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// Selective acknowledgements.
    pub sacks: Sacks,
}

impl Segment {
    /// Sequence numbers that it takes: payload, SYN and FIN.
    pub fn span(&self) -> u64 {
        let controls =
            u64::from(self.flags.has(Flags::SYN)) + u64::from(self.flags.has(Flags::FIN));
        u64::from(self.len) + controls
    }

    /// The number behind its last one.
    pub fn end(&self) -> u64 {
        self.seq.saturating_add(self.span())
    }

    /// Length of the TCP header in bytes with its options, padded as Linux pads them.
    pub fn header_len(&self) -> u32 {
        let syn = self.syn.map_or(0, |syn| {
            4 + if syn.window_scale.is_some() { 4 } else { 0 }
                // The two bytes of SACK-permitted lie in the padding of the timestamps.
                + if syn.sack_permitted && self.timestamps.is_none() { 4 } else { 0 }
        });
        let timestamps = if self.timestamps.is_some() { 12 } else { 0 };
        let sacks = match self.sacks.blocks().len() as u32 {
            0 => 0,
            blocks => 4 + 8 * blocks,
        };
        20 + syn + timestamps + sacks
    }
}
