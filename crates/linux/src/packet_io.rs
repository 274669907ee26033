//! Packets between the engine and the cables of namespace hosts.
//!
//! AF_PACKET sockets, bound to no interface, see every cable of the core's network namespace:
//! arrivals come through shared TPACKET_V2 rings with the kernel's stamp ([`ring`]), departures go
//! through `sendmmsg` ([`outbox`]), and the kernel stamps when they left ([`departed`]). The kernel
//! fills and expects back slots in ring order, so each frame is copied out and its slot returned at
//! once. Kernel side: `net/packet/af_packet.c`.
//!
//! [`Rings`] joins both directions; it carries the virtio-net header of each frame. With `offload`
//! the kernel puts such a header in front of each arrival and expects one with each departure
//! (`PACKET_VNET_HDR`, `include/uapi/linux/virtio_net.h`), so that hosts can send and receive
//! super-packets and unfinished checksums. Frames longer than the MTU then have a second ring with
//! slots for the longest super-packet. It has few, so that the memory that a flow cycles through
//! stays in the processor's caches.

mod departed;
mod outbox;
mod ring;
mod rings;

pub(crate) use outbox::says_full;
pub use ring::RingConfig;
pub(crate) use ring::{open, open_sender};
pub use rings::Rings;

/// Interface numbers of cables start here, above those that a new namespace comes with.
const FIRST_INTERFACE: u32 = 1000;

/// The interface number of the cable of host `number`.
pub(crate) fn interface_of(number: usize) -> u32 {
    FIRST_INTERFACE + number as u32
}

/// Offload state of a frame (`struct virtio_net_hdr`); all zero for a complete frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct VnetHeader {
    /// Whether a checksum is still to be filled in.
    pub flags: u8,
    /// The kind of segmentation that is still to be done.
    pub gso_type: u8,
    /// Length of the headers that every segment repeats.
    pub hdr_len: u16,
    /// Payload bytes of a segment.
    pub gso_size: u16,
    /// Where the checksum's range starts.
    pub csum_start: u16,
    /// Where, from there, the checksum is stored.
    pub csum_offset: u16,
}

impl VnetHeader {
    /// In `flags`: the checksum is partial (`VIRTIO_NET_HDR_F_NEEDS_CSUM`).
    pub const NEEDS_CSUM: u8 = 1;
    /// In `gso_type`: one packet (`VIRTIO_NET_HDR_GSO_NONE`).
    pub const GSO_NONE: u8 = 0;
    /// In `gso_type`: TCP over IPv4.
    pub const GSO_TCPV4: u8 = 1;
    /// In `gso_type`: TCP over IPv6.
    pub const GSO_TCPV6: u8 = 4;
    /// In `gso_type`: UDP datagrams of one size.
    pub const GSO_UDP_L4: u8 = 5;
    /// Added to `gso_type`: the first segment has CWR set.
    pub const GSO_ECN: u8 = 0x80;

    /// Whether the frame is still to be cut into segments.
    pub const fn is_super(&self) -> bool {
        self.gso_type != Self::GSO_NONE
    }
}

const VNET_BYTES: usize = size_of::<VnetHeader>();
const _: () = assert!(VNET_BYTES == 10, "struct virtio_net_hdr");

/// A frame that a host has sent.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// The host's number.
    pub host: usize,
    /// The kernel's stamp, in nanoseconds of `CLOCK_REALTIME`.
    pub stamp_ns: u64,
    /// Offload state.
    pub vnet: VnetHeader,
    /// The frame without FCS; cut where it was longer than a ring slot.
    pub frame: &'a [u8],
    /// Its length on the cable.
    pub full_len: usize,
    /// Whether the kernel has taken an 802.1Q tag off.
    pub tagged: bool,
}

/// A frame for a host.
#[derive(Debug, Clone, Copy)]
pub struct Departure<'a> {
    /// The host's number.
    pub host: usize,
    /// Offload state; carried only by [`RingConfig::with_super_packets`].
    pub vnet: VnetHeader,
    /// The frame without FCS, in two parts, of which the second may be empty.
    pub parts: [&'a [u8]; 2],
}

/// For which frames of a send call the kernel is asked for a stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Each of them; an answer takes about 0.4 us (example `paths`).
    Each,
    /// The last one, whose stamp bounds those before it.
    Last,
}

/// What became of a frame in a send call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departed {
    /// The kernel put it on its cable at this time, in nanoseconds of `CLOCK_REALTIME`.
    At(u64),
    /// The kernel was not asked: no later than the next stamp of the call, or than its end.
    Unasked,
    /// The kernel was asked, and did not answer.
    Unanswered,
    /// The kernel refused it.
    Refused,
}

/// The most frames that one send call takes.
pub const SEND_BATCH: usize = 64;
