//! A pcapng file that is written while packets pass.
//!
//! Theory: draft-ietf-opsawg-pcapng. One section: its header, a description of each interface,
//! names, packets, and at the end what was missed at each interface. The section does not say
//! its length, so a file that ends early is read up to its last whole block. Link type Ethernet
//! and one snapshot length for all interfaces: libpcap reads no file that mixes them.
//!
//! Bounds. The file never grows beyond [`Limits::file`]: room for the statistics is set aside
//! first, and once a packet does not fit, no further one is written; those are counted. Blocks
//! gather in a buffer of 64 KiB, which is allocated once. After an error of the output nothing
//! more is written, and what did not get out whole is counted as dropped.
//!
//! Left out: big-endian files, other link types, several sections.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::net::IpAddr;

use longhaul_core::Time;

use crate::block::{BLOCK_MIN, Block, COMMENT};
use crate::drops::drop_comment;
use crate::packet::Packet;

/// The longest snapshot that libpcap reads.
pub const SNAPLEN_MAX: u32 = 262_144;

/// Gathered blocks are written once the buffer has this length.
const GATHERED: usize = 64 * 1024;
/// More than a packet's block takes beside the frame: header, padding, flags, count, comment.
const AROUND_FRAME: usize = 128;
/// A block of names ends once it has this length.
const NAMES_BLOCK: usize = 32 * 1024;
/// Longer than any name in an experiment.
const NAME_MAX: usize = 255;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const NAMES: u32 = 4;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;

const LINKTYPE_ETHERNET: u16 = 1;
const NANOSECONDS: u8 = 9;
const FULL: &str = "the file reached its size limit";

mod section {
    pub(super) const HARDWARE: u16 = 2;
    pub(super) const OS: u16 = 3;
    pub(super) const APPLICATION: u16 = 4;
}

mod interface {
    pub(super) const NAME: u16 = 2;
    pub(super) const DESCRIPTION: u16 = 3;
    pub(super) const SPEED: u16 = 8;
    pub(super) const TIME_RESOLUTION: u16 = 9;
    pub(super) const FILTER: u16 = 11;
    pub(super) const FCS_LEN: u16 = 13;
}

mod names {
    pub(super) const IPV4: u16 = 1;
    pub(super) const IPV6: u16 = 2;
    /// The last record of a block, which has no value.
    pub(super) const END: u32 = 0;
}

mod packet {
    pub(super) const FLAGS: u16 = 2;
    pub(super) const DROPPED: u16 = 4;
}

mod statistics {
    pub(super) const START: u16 = 2;
    pub(super) const END: u16 = 3;
    pub(super) const RECEIVED: u16 = 4;
    pub(super) const DROPPED: u16 = 5;
}

/// What a file says of itself; empty texts are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Section<'a> {
    /// The machine.
    pub hardware: &'a str,
    /// Its operating system.
    pub os: &'a str,
    /// What wrote the file.
    pub application: &'a str,
    /// What people should know, such as the wall time of t = 0.
    pub comment: &'a str,
}

/// Which way packets go at a point, seen from the node that the point is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Out of a pipe.
    Inbound = 1,
    /// Into a pipe.
    Outbound = 2,
}

/// A point where packets are seen: an end of a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interface<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it is, for people; may be empty.
    pub description: &'a str,
    /// The filter that chose its packets; may be empty.
    pub filter: &'a str,
    /// The rate, where it is known.
    pub bits_per_s: Option<u64>,
    /// Which way its packets go.
    pub direction: Option<Direction>,
}

/// What a file may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of each frame that are kept, 1 to [`SNAPLEN_MAX`].
    pub snaplen: u32,
    /// Bytes of the file.
    pub file: u64,
}

/// What became of the packets of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Packets that should be in the file.
    pub received: u64,
    /// Of those, the ones that are not.
    pub dropped: u64,
}

#[derive(Debug)]
struct Point {
    direction: Option<Direction>,
    count: Count,
    /// Packets missed since the one before.
    missed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// At the limit: only statistics follow.
    Full,
    /// At its end, or after an error: nothing follows.
    Closed,
}

/// Writes a pcapng file.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    /// Whole blocks that have not been written yet.
    buffer: Vec<u8>,
    snaplen: usize,
    /// Bytes that the file may still grow by, without the statistics.
    left: u64,
    points: Vec<Point>,
    unnamed: u64,
    state: State,
}

impl<W: Write> Writer<W> {
    /// Begins a file: section, interfaces in the order of their numbers, names of addresses.
    /// Names take at most a quarter of the file; [`Writer::unnamed`] says how many are left out.
    ///
    /// # Errors
    /// `InvalidInput` where the limits leave no room; errors of the output.
    pub fn new<'n>(
        out: W,
        limits: Limits,
        section: &Section<'_>,
        interfaces: &[Interface<'_>],
        names: impl IntoIterator<Item = (IpAddr, &'n str)>,
    ) -> io::Result<Self> {
        if !(1..=SNAPLEN_MAX).contains(&limits.snaplen) {
            return Err(invalid(format_args!(
                "a snapshot length of {} bytes: choose 1 to {SNAPLEN_MAX}",
                limits.snaplen
            )));
        }
        let too_small = || {
            invalid(format_args!(
                "a capture of {} points does not fit into {} bytes: raise its limit or choose \
                 fewer pipes",
                interfaces.len(),
                limits.file
            ))
        };
        let reserved = interfaces.len() as u64 * statistics_len();
        let mut writer = Self {
            out,
            buffer: Vec::with_capacity(GATHERED + limits.snaplen as usize + AROUND_FRAME),
            snaplen: limits.snaplen as usize,
            left: limits.file.checked_sub(reserved).ok_or_else(too_small)?,
            points: Vec::with_capacity(interfaces.len()),
            unnamed: 0,
            state: State::Open,
        };
        if !writer.block(|buffer| write_section(buffer, section))? {
            return Err(too_small());
        }
        for interface in interfaces {
            if !writer.block(|buffer| write_interface(buffer, interface, limits.snaplen))? {
                return Err(too_small());
            }
            writer.points.push(Point {
                direction: interface.direction,
                count: Count::default(),
                missed: 0,
            });
        }
        writer.names(names)?;
        Ok(writer)
    }

    /// Writes a packet of an interface, which must exist; past the limit, counts it.
    ///
    /// # Errors
    /// The output's, once; later packets are counted.
    pub fn packet(&mut self, interface: usize, packet: &Packet<'_>) -> io::Result<()> {
        let snaplen = self.snaplen;
        let point = &mut self.points[interface];
        point.count.received += 1;
        let (direction, missed) = (point.direction, point.missed);
        if self.state == State::Open {
            let written = self.block(|buffer| {
                write_packet(buffer, interface, packet, snaplen, direction, missed);
            });
            if written? {
                self.points[interface].missed = 0;
                return Ok(());
            }
            self.state = State::Full;
        }
        self.points[interface].count.dropped += 1;
        Ok(())
    }

    /// Counts packets of an interface that should have reached the writer and did not.
    pub fn miss(&mut self, interface: usize, packets: u64) {
        let point = &mut self.points[interface];
        point.count.received += packets;
        point.count.dropped += packets;
        point.missed += packets;
    }

    /// What has become of an interface's packets.
    pub fn count(&self, interface: usize) -> Count {
        self.points[interface].count
    }

    /// Names that are not in the file: there was no room, or they were no names.
    pub fn unnamed(&self) -> u64 {
        self.unnamed
    }

    /// True once the file has reached its limit.
    pub fn is_full(&self) -> bool {
        self.state == State::Full
    }

    /// Writes what has gathered.
    ///
    /// # Errors
    /// The output's; nothing more is written then.
    pub fn flush(&mut self) -> io::Result<()> {
        let mut sent = 0;
        let result = self.send(&mut sent);
        if result.is_err() {
            self.drop_gathered(sent);
            self.state = State::Closed;
        }
        self.buffer.clear();
        result
    }

    /// Ends the file with the statistics of each interface over a span of time.
    ///
    /// # Errors
    /// The output's, if it has not been reported before.
    pub fn finish(&mut self, start: Time, end: Time) -> io::Result<()> {
        if self.state == State::Closed {
            return Ok(());
        }
        let full = self.state == State::Full;
        for index in 0..self.points.len() {
            let count = self.points[index].count;
            write_statistics(&mut self.buffer, index, count, [start, end], full);
            if self.buffer.len() >= GATHERED {
                self.flush()?;
            }
        }
        self.flush()?;
        self.state = State::Closed;
        Ok(())
    }

    /// Adds a block, unless the file has no room for it.
    fn block(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> io::Result<bool> {
        let start = self.buffer.len();
        write(&mut self.buffer);
        let len = (self.buffer.len() - start) as u64;
        if len > self.left {
            self.buffer.truncate(start);
            return Ok(false);
        }
        self.left -= len;
        if self.buffer.len() >= GATHERED {
            self.flush()?;
        }
        Ok(true)
    }

    fn names<'n>(&mut self, names: impl IntoIterator<Item = (IpAddr, &'n str)>) -> io::Result<()> {
        let mut names = names.into_iter().peekable();
        let mut room = self.left / 4;
        while names.peek().is_some() {
            let mut unnamed = 0;
            self.block(|buffer| {
                let start = buffer.len();
                unnamed = write_names(buffer, &mut names, room);
                room -= ((buffer.len() - start) as u64).min(room);
            })?;
            self.unnamed += unnamed;
        }
        Ok(())
    }

    /// Writes all that has gathered; `sent` bytes of it have got out.
    fn send(&mut self, sent: &mut usize) -> io::Result<()> {
        while *sent < self.buffer.len() {
            match self.out.write(&self.buffer[*sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => *sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.flush()
    }

    /// Counts the packets among the gathered blocks that did not get out whole.
    fn drop_gathered(&mut self, sent: usize) {
        let mut end = 0;
        // A block starts with its type and its length; that of a packet goes on with its interface.
        while let Some(&[a, b, c, d, e, f, g, h, i, j, k, l]) = self.buffer[end..].first_chunk() {
            end += u32::from_le_bytes([e, f, g, h]) as usize;
            if u32::from_le_bytes([a, b, c, d]) == PACKET && end > sent {
                let interface = u32::from_le_bytes([i, j, k, l]) as usize;
                self.points[interface].count.dropped += 1;
            }
        }
    }
}

fn invalid(message: impl Display) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, message.to_string())
}

fn write_section(buffer: &mut Vec<u8>, section: &Section<'_>) {
    let mut block = Block::new(buffer, SECTION);
    block.u32(0x1a2b_3c4d); // by which readers know the byte order
    block.u16(1);
    block.u16(0);
    block.bytes(&(-1i64).to_le_bytes()); // of unknown length
    block.text(section::HARDWARE, section.hardware);
    block.text(section::OS, section.os);
    block.text(section::APPLICATION, section.application);
    block.text(COMMENT, section.comment);
    block.end();
}

fn write_interface(buffer: &mut Vec<u8>, interface: &Interface<'_>, snaplen: u32) {
    let mut block = Block::new(buffer, INTERFACE);
    block.u16(LINKTYPE_ETHERNET);
    block.u16(0);
    block.u32(snaplen);
    block.text(interface::NAME, interface.name);
    block.text(interface::DESCRIPTION, interface.description);
    if let Some(speed) = interface.bits_per_s {
        block.option_u64(interface::SPEED, speed);
    }
    block.option(interface::TIME_RESOLUTION, &[NANOSECONDS]);
    if !interface.filter.is_empty() {
        // The kind of the filter: 0 is text for libpcap, which this is but for `dropped`.
        block.text(interface::FILTER, &format!("\0{}", interface.filter));
    }
    // Says that frames have no FCS; otherwise readers may take their last four bytes for one.
    block.option(interface::FCS_LEN, &[0]);
    block.end();
}

/// Writes names until their block is long enough or the room taken; says how many it left out.
fn write_names<'n>(
    buffer: &mut Vec<u8>,
    names: &mut impl Iterator<Item = (IpAddr, &'n str)>,
    room: u64,
) -> u64 {
    let (start, mut unnamed) = (buffer.len(), 0);
    let mut block = Block::new(buffer, NAMES);
    while block.len() < NAMES_BLOCK {
        let Some((address, name)) = names.next() else {
            break;
        };
        let (kind, octets) = match address {
            IpAddr::V4(address) => (names::IPV4, &address.octets()[..]),
            IpAddr::V6(address) => (names::IPV6, &address.octets()[..]),
        };
        let len = octets.len() + name.len() + 1;
        // The length once the last record and the block's own length are added.
        let after = block.len() + 4 + len.next_multiple_of(4) + 8;
        // A name ends with a zero.
        let is_name = (1..=NAME_MAX).contains(&name.len()) && !name.contains('\0');
        if !is_name || after as u64 > room {
            unnamed += 1;
            continue;
        }
        block.u16(kind);
        block.u16(len as u16);
        block.bytes(octets);
        block.bytes(name.as_bytes());
        block.bytes(&[0]);
        block.pad();
    }
    if block.len() + 4 == BLOCK_MIN {
        buffer.truncate(start);
        return unnamed;
    }
    block.u32(names::END);
    block.end();
    unnamed
}

fn write_packet(
    buffer: &mut Vec<u8>,
    interface: usize,
    packet: &Packet<'_>,
    snaplen: usize,
    direction: Option<Direction>,
    missed: u64,
) {
    let frame = &packet.frame[..packet.frame.len().min(snaplen)];
    let mut block = Block::new(buffer, PACKET);
    block.u32(interface as u32);
    block.time(packet.time.as_ns());
    block.u32(frame.len() as u32);
    block.u32(packet.len.max(frame.len()) as u32);
    block.bytes(frame);
    block.pad();
    if let Some(direction) = direction {
        block.option(packet::FLAGS, &(direction as u32).to_le_bytes());
    }
    if missed > 0 {
        block.option_u64(packet::DROPPED, missed);
    }
    block.text(COMMENT, drop_comment(packet.fate).unwrap_or_default());
    block.end();
}

fn write_statistics(
    buffer: &mut Vec<u8>,
    interface: usize,
    count: Count,
    [start, end]: [Time; 2],
    full: bool,
) {
    let mut block = Block::new(buffer, STATISTICS);
    block.u32(interface as u32);
    block.time(end.as_ns());
    block.option_time(statistics::START, start.as_ns());
    block.option_time(statistics::END, end.as_ns());
    block.option_u64(statistics::RECEIVED, count.received);
    block.option_u64(statistics::DROPPED, count.dropped);
    block.text(COMMENT, if full { FULL } else { "" });
    block.end();
}

/// The most that the statistics of an interface take.
fn statistics_len() -> u64 {
    let mut buffer = Vec::new();
    write_statistics(&mut buffer, 0, Count::default(), [Time::ZERO; 2], true);
    buffer.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_core::witness::PacketEvent;

    #[test]
    fn packets_need_no_more_room_than_the_buffer_has() {
        let limits = Limits {
            snaplen: 9000,
            file: u64::MAX,
        };
        let interface = Interface {
            direction: Some(Direction::Inbound),
            ..Interface::default()
        };
        let about = Section::default();
        let mut writer = Writer::new(io::sink(), limits, &about, &[interface], []).unwrap();
        let room = writer.buffer.capacity();
        for len in 0..10_000 {
            writer.miss(0, 1);
            let packet = Packet {
                time: Time::ZERO,
                fate: PacketEvent::Misdelivered,
                frame: &[0; 9001][..len % 9002],
                len,
            };
            writer.packet(0, &packet).unwrap();
            assert_eq!(writer.buffer.capacity(), room);
        }
    }
}
