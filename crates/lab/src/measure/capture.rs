//! Captures of a run: the witness that records packets, and the file that they go into.
//!
//! A [`Tap`] appends the packets that its filter chooses to one buffer, which the sampler takes away at each
//! edge, so the loop allocates nothing per packet and never waits. The [`CaptureFile`] merges the records of all
//! cores in order of time and writes pcapng (docs/captures.md).
//!
//! A pipe reports a lost packet only when it would have come out, possibly after an edge that follows the loss.
//! So records of an exit are held in memory for the longest delay that its pipes have had, up to
//! [`LONGEST_WAIT`] and as long as there is room ([`HELD`]); beyond, the earliest are written, and a later one
//! may be out of order.
//!
//! At an entry, a packet is recorded as it arrives, and the record is amended if the queue refuses it, which
//! happens in the same instant, before anything else arrives at that pipe.

use std::io::{self, Write};
use std::sync::Arc;

use longhaul_capture::{Filter, Packet, Writer};
use longhaul_core::witness::{PacketEvent, PacketEvents, Place, Sighting, Witness};
use longhaul_core::{PipeId, Span, Time};
use longhaul_plan::measure::{Capture, Point};
use rustc_hash::FxHashMap;

use super::outlet::{Delivery, Outlet};
use crate::summary::CaptureSummary;

/// The most memory that the records of a tap take between two edges, in bytes.
const GATHERED: usize = 64 << 20;
/// The most memory that records take which wait for earlier ones, in bytes.
const HELD: usize = 64 << 20;
/// What a held record takes besides its packet's bytes: itself, their pointer, and the allocator's overhead.
const HELD_EACH: usize = size_of::<(Record, Box<[u8]>)>() + 16;
/// The longest that records wait, whatever the delay of their pipes.
const LONGEST_WAIT: Span = Span::from_s(2);

/// A capture's number among those of the run.
pub(crate) type CaptureId = u32;

/// What a tap has recorded.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) capture: CaptureId,
    records: Vec<Record>,
    bytes: Vec<u8>,
    missed: u64,
    /// How much later than the loss of a packet its pipe may report it.
    wait: Span,
    /// Since when packets are recorded.
    since: Time,
}

/// A packet: its bytes are the next `kept` of the chunk.
#[derive(Debug, Clone, Copy)]
struct Record {
    time: Time,
    pipe: PipeId,
    fate: PacketEvent,
    kept: u32,
    len: u32,
}

/// The totals of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Captured {
    /// Packets in it.
    pub(crate) packets: u64,
    /// Packets that should be in it and are not.
    pub(crate) missed: u64,
}

/// What packets are recorded.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(super) pipes: Vec<PipeId>,
    pub(super) point: Point,
    pub(super) filter: Filter,
    pub(super) snaplen: usize,
}

/// Records packets.
pub(super) struct Tap {
    capture: CaptureId,
    wanted: Arc<Wanted>,
    records: Vec<Record>,
    bytes: Vec<u8>,
    missed: u64,
    frame: Vec<u8>,
    /// The longest delay that its pipes have had; `None` until the first chunk is taken.
    wait: Option<Span>,
    since: Time,
    /// At an entry: the packet that came last, and what was done with it.
    last_in: Option<(PipeId, u32, Time, Taken)>,
}

/// What a tap does with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// It is the last record.
    Kept,
    /// The filter does not choose it.
    Left,
    /// There was no room.
    Missed,
}

impl Wanted {
    /// What a capture asks for.
    pub(super) fn of(capture: &Capture) -> Arc<Self> {
        let filter = capture.filter.as_ref();
        Arc::new(Self {
            pipes: capture.pipes.clone(),
            point: capture.point,
            filter: filter.map_or_else(Filter::default, |filter| filter.parsed.clone()),
            snaplen: capture.snaplen as usize,
        })
    }
}

impl Tap {
    /// Records from `since` on.
    pub(super) fn new(capture: CaptureId, wanted: Arc<Wanted>, since: Time) -> Self {
        Self {
            capture,
            wanted,
            records: Vec::new(),
            bytes: Vec::new(),
            missed: 0,
            frame: Vec::new(),
            wait: None,
            since,
            last_in: None,
        }
    }

    pub(super) const fn capture(&self) -> CaptureId {
        self.capture
    }

    /// The pipes that it watches, and at which point of them.
    pub(super) fn wanted(&self) -> Arc<Wanted> {
        Arc::clone(&self.wanted)
    }

    /// Gives all that has been recorded since, if there is anything; `delay` is the longest that its pipes
    /// have now.
    pub(super) fn take(&mut self, delay: Span) -> Option<Chunk> {
        let missed = std::mem::take(&mut self.missed);
        let wait = self.wait.map_or(delay, |wait| wait.max(delay));
        let waits_longer = self.wait.replace(wait) != Some(wait);
        if self.records.is_empty() && missed == 0 && !waits_longer {
            return None;
        }
        self.last_in = None;
        // The next buffers are as large, so that none grows packet by packet.
        let (records, bytes) = (self.records.capacity(), self.bytes.capacity());
        Some(Chunk {
            capture: self.capture,
            records: std::mem::replace(&mut self.records, Vec::with_capacity(records)),
            bytes: std::mem::replace(&mut self.bytes, Vec::with_capacity(bytes)),
            missed,
            wait,
            since: self.since,
        })
    }

    /// Records a packet that the filter chooses, as long as there is room.
    fn record(&mut self, sighting: &Sighting<'_>, pipe: PipeId) -> Taken {
        let packet = Packet::seen(sighting, self.wanted.snaplen, &mut self.frame);
        if !self.wanted.filter.matches(&packet) {
            return Taken::Left;
        }
        let kept = packet.frame.len().min(self.wanted.snaplen);
        if self.bytes.len() + kept + (self.records.len() + 1) * size_of::<Record>() > GATHERED {
            self.missed += 1;
            return Taken::Missed;
        }
        self.records.push(Record {
            time: packet.time,
            pipe,
            fate: packet.fate,
            kept: kept as u32,
            len: packet.len as u32,
        });
        self.bytes.extend_from_slice(&packet.frame[..kept]);
        Taken::Kept
    }

    /// At a pipe's entry: amends the record of a packet that the queue refuses. One that came in earlier and ends
    /// inside the pipe is ignored here.
    fn refuse(&mut self, sighting: &Sighting<'_>, pipe: PipeId) {
        let Some((last, slot, time, taken)) = self.last_in.take() else {
            return;
        };
        if (last, slot, time) != (pipe, sighting.slot(), sighting.time) || taken == Taken::Missed {
            return;
        }
        if taken == Taken::Kept
            && let Some(record) = self.records.pop()
        {
            // The record is made anew: the filter may choose otherwise, given the packet's fate.
            self.bytes.truncate(self.bytes.len() - record.kept as usize);
        }
        self.record(sighting, pipe);
    }
}

impl Witness for Tap {
    fn events(&self) -> PacketEvents {
        let fates = match self.wanted.point {
            Point::Entry => [PacketEvent::In, PacketEvent::Queue, PacketEvent::LinkDown].as_slice(),
            Point::Exit => [
                PacketEvent::Out,
                PacketEvent::Queue,
                PacketEvent::Loss,
                PacketEvent::LinkDown,
            ]
            .as_slice(),
        };
        fates
            .iter()
            .copied()
            .fold(PacketEvents::NONE, PacketEvents::with)
    }

    fn see(&mut self, sighting: &Sighting<'_>) {
        let Place::Pipe(pipe) = sighting.place else {
            return;
        };
        if self.wanted.pipes.binary_search(&pipe).is_err() {
            return;
        }
        match (self.wanted.point, sighting.event) {
            (Point::Exit, _) => {
                self.record(sighting, pipe);
            }
            (Point::Entry, PacketEvent::In) => {
                let taken = self.record(sighting, pipe);
                self.last_in = Some((pipe, sighting.slot(), sighting.time, taken));
            }
            (Point::Entry, _) => self.refuse(sighting, pipe),
        }
    }
}

/// A capture being written, to a file or to a reader.
pub(crate) struct CaptureFile {
    writer: Writer<Box<dyn Write + Send>>,
    /// The links, as they were asked for.
    links: String,
    to: Destination,
    /// The interface of each pipe.
    interfaces: FxHashMap<PipeId, usize>,
    /// How long records wait for earlier ones.
    wait: Span,
    /// Since when packets are recorded.
    since: Option<Time>,
    /// In order of time.
    held: Vec<(Record, Box<[u8]>)>,
    held_bytes: usize,
    /// What went wrong; nothing is written any more.
    failed: Option<io::Error>,
    /// Whether it reached its limit before its end was written.
    was_full: bool,
}

/// Where a capture goes.
pub(super) enum Destination {
    /// A file, by its name below the run folder.
    File(String),
    /// A reader.
    Reader(Outlet),
}

impl CaptureFile {
    pub(super) fn new(
        writer: Writer<Box<dyn Write + Send>>,
        links: &str,
        to: Destination,
        pipes: &[PipeId],
    ) -> Self {
        Self {
            writer,
            links: links.to_owned(),
            to,
            interfaces: pipes.iter().copied().zip(0..).collect(),
            wait: Span::ZERO,
            since: None,
            held: Vec::new(),
            held_bytes: 0,
            failed: None,
            was_full: false,
        }
    }

    /// Adds what taps have recorded up to `until`, and writes the records that no earlier one can follow.
    pub(super) fn add(&mut self, chunks: Vec<Chunk>, until: Time) {
        for chunk in chunks {
            let mut at = 0;
            for record in &chunk.records {
                let bytes = &chunk.bytes[at..at + record.kept as usize];
                at += bytes.len();
                self.held_bytes += bytes.len() + HELD_EACH;
                self.held.push((*record, bytes.into()));
            }
            if chunk.missed > 0 {
                // Which pipe they were of is not known.
                self.writer.miss(0, chunk.missed);
            }
            self.wait = self.wait.max(chunk.wait.min(LONGEST_WAIT));
            self.since = self.since.or(Some(chunk.since));
        }
        self.write_up_to(until - self.wait);
    }

    fn write_up_to(&mut self, until: Time) {
        self.held
            .sort_by_key(|(record, _)| (record.time, record.pipe));
        let due = self.held.partition_point(|(record, _)| record.time < until);
        let mut beyond = self.held_bytes.saturating_sub(HELD);
        let surplus = self.held.iter().take_while(|(_, bytes)| {
            let is_over = beyond > 0;
            beyond = beyond.saturating_sub(bytes.len() + HELD_EACH);
            is_over
        });
        let count = surplus.count().max(due);
        let mut result = Ok(());
        for (record, bytes) in self.held.drain(..count) {
            self.held_bytes -= bytes.len() + HELD_EACH;
            let packet = Packet {
                time: record.time,
                fate: record.fate,
                frame: &bytes,
                len: record.len as usize,
            };
            let interface = self.interfaces.get(&record.pipe).copied().unwrap_or(0);
            if self.failed.is_none() && self.to.is_ready() {
                result = result.and(self.writer.packet(interface, &packet));
            } else {
                self.writer.miss(interface, 1);
            }
        }
        if self.failed.is_none() {
            self.failed = result.and_then(|()| self.writer.flush()).err();
        }
    }

    /// Writes nothing more to a file: there is no room on its disk, or none is left for it.
    pub(super) fn give_up(&mut self) {
        if let Destination::File(_) = self.to {
            let full = || io::ErrorKind::StorageFull.into();
            self.failed.get_or_insert_with(full);
        }
    }

    /// What went wrong with it.
    pub(super) const fn failed(&self) -> Option<&io::Error> {
        self.failed.as_ref()
    }

    /// Its totals so far.
    pub(super) fn captured(&self) -> Captured {
        let mut captured = Captured {
            packets: 0,
            missed: 0,
        };
        for number in 0..self.interfaces.len() {
            let count = self.writer.count(number);
            captured.packets += count.received - count.dropped;
            captured.missed += count.dropped;
        }
        captured
    }

    /// What is worth knowing of a capture that is over.
    pub(super) fn warning(&self) -> Option<String> {
        let Destination::File(file) = &self.to else {
            return None; // whoever reads along has seen it
        };
        let missed = self.captured().missed;
        let what = format!("{file} (the capture of {})", self.links);
        if let Some(error) = &self.failed {
            return Some(format!(
                "{what} is incomplete, since it could not be written: {error}"
            ));
        }
        let reason = if self.was_full {
            "it reached its `size`"
        } else {
            "they arrived faster than they could be written"
        };
        (missed > 0).then(|| format!("{what} lacks {missed} packets: {reason}"))
    }

    /// Itself in `summary.json`, if it is a file.
    pub(super) fn summary(&self) -> Option<CaptureSummary> {
        let Destination::File(file) = &self.to else {
            return None;
        };
        let Captured { packets, missed } = self.captured();
        Some(CaptureSummary {
            links: self.links.clone(),
            file: file.clone(),
            packets,
            missed,
        })
    }

    /// Writes what is left, and the counts of the capture, which ends at `end`.
    pub(super) fn finish(&mut self, end: Time) {
        let start = self.since.unwrap_or(end);
        self.write_up_to(Time::MAX);
        self.was_full |= self.writer.is_full();
        if self.failed.is_none() {
            self.failed = self.writer.finish(start, end).err();
        }
    }

    /// Closes it. Blocks that a reader has yet to take are still delivered; returns a handle to wait for that.
    pub(super) fn close(self) -> Option<Delivery> {
        match self.to {
            Destination::File(_) => None,
            Destination::Reader(outlet) => Some(outlet.close()),
        }
    }
}

impl Destination {
    /// Whether it takes more.
    fn is_ready(&self) -> bool {
        match self {
            Self::File(_) => true,
            Self::Reader(outlet) => outlet.is_ready(),
        }
    }
}
