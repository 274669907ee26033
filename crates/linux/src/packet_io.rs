//! Packets between the engine and the cables of namespace hosts.
//!
//! One AF_PACKET socket, bound to no interface, sees every cable of the core's network
//! namespace: arrivals come through a shared TPACKET_V2 ring with the kernel's stamp,
//! departures go through `sendmmsg`. The ring is used in order, so a frame is taken out and its
//! slot given back at once. Kernel side: `net/packet/af_packet.c`.
//!
//! [`PacketIo`] is what the drive loop knows; it carries the virtio-net header of each frame.
//! With `offload` the kernel puts one in front of each frame and takes one with each
//! (`PACKET_VNET_HDR`, `include/uapi/linux/virtio_net.h`), so that hosts may hand over
//! super-packets and unfinished checksums, and be handed them. Slots then hold the longest
//! super-packet, and there are fewer of them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};

use crate::sys::check;

/// Interface numbers of cables start here, above whatever a new namespace brings along.
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
    /// Offload state; carried only with [`RingConfig::offload`].
    pub vnet: VnetHeader,
    /// The frame without FCS, in two parts, of which the second may be empty.
    pub parts: [&'a [u8]; 2],
    /// How many packets it is.
    pub packets: usize,
}

/// Most frames that one call to [`PacketIo::send`] takes.
pub const SEND_BATCH: usize = 64;

/// The way of packets in and out.
pub trait PacketIo {
    /// The oldest arrival, left in place.
    fn peek(&mut self) -> Option<Arrival<'_>>;

    /// Gives the place of the oldest arrival back.
    fn release(&mut self);

    /// Sends at most [`SEND_BATCH`] frames in order; returns how many packets the kernel refused
    /// for other reasons than a full cable, which the interface counts.
    fn send(&mut self, batch: &[Departure<'_>]) -> usize;

    /// Arrivals lost since the last call because there was no room for them.
    fn take_drops(&mut self) -> u64;

    /// A descriptor that is readable when there are arrivals.
    fn readiness(&self) -> BorrowedFd<'_>;
}

/// Dimensions of the receive ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingConfig {
    /// Bytes of one slot, whole pages or a power of two: the frame and about 120 bytes before it.
    pub slot_bytes: u32,
    /// Number of slots, a multiple of those in a block.
    pub slots: u32,
    /// Whether frames carry virtio-net headers.
    pub offload: bool,
}

/// Bytes of one block, at most: what the kernel allocates at a time.
const BLOCK_BYTES: u32 = 256 << 10;
/// The same for super-packets.
const SUPER_BLOCK_BYTES: u32 = 1 << 20;
/// Pages for the longest super-packet (64 KiB) and what stands before it.
const SUPER_SLOT_BYTES: u32 = 17 << 12;
/// At 12 µs for each super-packet of a flow at 40 Gbit/s, or 5 µs for each small packet of a
/// flood, this is about 10 ms of either.
const SUPER_SLOTS: u32 = 2040;

impl RingConfig {
    /// A ring for frames of an MTU.
    pub fn for_mtu(mtu: u32) -> Self {
        let slot_bytes = (mtu + 14 + 128).next_power_of_two().max(2048);
        Self {
            slot_bytes,
            slots: ((64 << 20) / slot_bytes).clamp(4096, 16384),
            offload: false,
        }
    }

    /// A ring for super-packets.
    pub const fn for_super_packets() -> Self {
        Self {
            slot_bytes: SUPER_SLOT_BYTES,
            slots: SUPER_SLOTS,
            offload: true,
        }
    }

    /// Slots of one block, without a gap behind them.
    fn slots_per_block(self) -> u32 {
        let most = if self.offload {
            SUPER_BLOCK_BYTES
        } else {
            BLOCK_BYTES
        };
        (most / self.slot_bytes).max(1)
    }

    fn bytes(self) -> usize {
        self.slot_bytes as usize * self.slots as usize
    }
}

const _: () = assert!(SUPER_SLOTS.is_multiple_of(SUPER_BLOCK_BYTES / SUPER_SLOT_BYTES));

fn set_option<T>(fd: &OwnedFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value is valid for its length.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            len,
        )
    };
    check(result).map(drop)
}

/// Opens the socket and its ring. Runs inside the sandbox, which may; the order matters.
pub(crate) fn open(config: RingConfig) -> io::Result<OwnedFd> {
    const PACKET_IGNORE_OUTGOING: i32 = 23;
    const TPACKET_V2: i32 = 1;
    // SAFETY: no pointers; the result is checked and owned at once.
    let fd = unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        OwnedFd::from_raw_fd(check(libc::socket(libc::AF_PACKET, kind, 0))?)
    };
    set_option(&fd, libc::SOL_PACKET, libc::PACKET_VERSION, &TPACKET_V2)?;
    set_option(&fd, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1i32)?;
    set_option(&fd, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1i32)?;
    if config.offload {
        const PACKET_VNET_HDR: i32 = 15;
        set_option(&fd, libc::SOL_PACKET, PACKET_VNET_HDR, &1i32)?;
    }
    let slots_per_block = config.slots_per_block();
    let request = libc::tpacket_req {
        tp_block_size: slots_per_block * config.slot_bytes,
        tp_block_nr: config.slots / slots_per_block,
        tp_frame_size: config.slot_bytes,
        tp_frame_nr: config.slots,
    };
    set_option(&fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
    set_option(&fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &(8i32 << 20))?;
    // SAFETY: an all-zero address is valid; it outlives the call.
    unsafe {
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        check(libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len))?;
    }
    Ok(fd)
}

/// The TPACKET_V2 ring and `sendmmsg` on one socket.
#[derive(Debug)]
pub struct RingSocket {
    fd: OwnedFd,
    ring: NonNull<u8>,
    config: RingConfig,
    head: u32,
    outbox: Box<Outbox>,
}

/// Offload state, then the frame in two parts.
const PARTS: usize = 3;

/// The arguments of `sendmmsg`, joined up once: message → address and parts → offload state. The
/// pointers stay true because the box never moves its content.
#[derive(Debug)]
struct Outbox {
    addresses: [libc::sockaddr_ll; SEND_BATCH],
    headers: [VnetHeader; SEND_BATCH],
    parts: [[libc::iovec; PARTS]; SEND_BATCH],
    messages: [libc::mmsghdr; SEND_BATCH],
}

impl Outbox {
    /// With or without offload state in front of each frame.
    fn new(offload: bool) -> Box<Self> {
        // SAFETY: all four structures are valid when all zero.
        let mut outbox: Box<Self> = Box::new(unsafe { std::mem::zeroed() });
        let Self {
            addresses,
            headers,
            parts,
            messages,
        } = &mut *outbox;
        let places = addresses.iter_mut().zip(headers).zip(parts).zip(messages);
        for (((address, vnet), parts), message) in places {
            parts[0].iov_base = std::ptr::from_mut(vnet).cast();
            parts[0].iov_len = VNET_BYTES;
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_halen = 6;
            let header = &mut message.msg_hdr;
            header.msg_name = std::ptr::from_mut(address).cast();
            header.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            let parts = if offload {
                &mut parts[..]
            } else {
                &mut parts[1..]
            };
            header.msg_iov = parts.as_mut_ptr();
            header.msg_iovlen = parts.len();
        }
        outbox
    }
}

// SAFETY: the mapping and the outbox belong to this value alone, and are reached through
// `&mut self` only.
unsafe impl Send for RingSocket {}

const HEADER_BYTES: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(16);

impl RingSocket {
    /// Maps the ring of a socket from [`open`].
    pub(crate) fn new(fd: OwnedFd, config: RingConfig) -> io::Result<Self> {
        // SAFETY: a fresh mapping of the ring that `open` has set up with the same dimensions.
        let ring = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                config.bytes(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                fd.as_raw_fd(),
                0,
            )
        };
        if ring == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let ring = NonNull::new(ring.cast()).ok_or_else(|| io::Error::other("mapped at zero"))?;
        Ok(Self {
            fd,
            ring,
            config,
            head: 0,
            outbox: Outbox::new(config.offload),
        })
    }

    /// The header of the oldest slot.
    fn slot(&self) -> *mut libc::tpacket2_hdr {
        let offset = self.head as usize * self.config.slot_bytes as usize;
        debug_assert!(offset < self.config.bytes());
        // SAFETY: `head` is below `slots`, so the slot lies within the mapping.
        unsafe { self.ring.as_ptr().add(offset).cast() }
    }

    /// The status word of the oldest slot, which the kernel and we hand to and fro.
    fn status(&self) -> &AtomicU32 {
        // SAFETY: the status is the slot's first word, aligned, and shared with the kernel,
        // which an atomic allows for.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.slot()).tp_status) }
    }
}

impl Drop for RingSocket {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, used by nobody else.
        unsafe { libc::munmap(self.ring.as_ptr().cast(), self.config.bytes()) };
    }
}

impl PacketIo for RingSocket {
    #[inline]
    fn peek(&mut self) -> Option<Arrival<'_>> {
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        let slot = self.slot();
        // SAFETY: the kernel has handed the slot to us until we release it; `&mut self` keeps
        // the borrow of the frame and the release apart. Lengths are bounded by the slot, so
        // that even a corrupt header cannot reach beyond it.
        unsafe {
            let header = slot.read();
            let address = slot
                .cast::<u8>()
                .add(HEADER_BYTES)
                .cast::<libc::sockaddr_ll>()
                .read();
            let start = usize::from(header.tp_mac).min(self.config.slot_bytes as usize);
            let vnet = match self.config.offload && start >= VNET_BYTES {
                true => slot
                    .cast::<u8>()
                    .add(start - VNET_BYTES)
                    .cast::<VnetHeader>()
                    .read_unaligned(),
                false => VnetHeader::default(),
            };
            let len = (header.tp_snaplen as usize).min(self.config.slot_bytes as usize - start);
            let frame = std::slice::from_raw_parts(slot.cast::<u8>().add(start), len);
            Some(Arrival {
                host: (address.sll_ifindex as u32).wrapping_sub(FIRST_INTERFACE) as usize,
                stamp_ns: u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec),
                vnet,
                frame,
                full_len: header.tp_len as usize,
                tagged: status & libc::TP_STATUS_VLAN_VALID != 0,
            })
        }
    }

    #[inline]
    fn release(&mut self) {
        self.status()
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.head = if self.head + 1 == self.config.slots {
            0
        } else {
            self.head + 1
        };
    }

    fn send(&mut self, batch: &[Departure<'_>]) -> usize {
        let batch = &batch[..batch.len().min(SEND_BATCH)];
        for (index, departure) in batch.iter().enumerate() {
            self.outbox.addresses[index].sll_ifindex = interface_of(departure.host) as i32;
            self.outbox.headers[index] = departure.vnet;
            let parts = &mut self.outbox.parts[index][1..];
            for (part, bytes) in parts.iter_mut().zip(departure.parts) {
                part.iov_base = bytes.as_ptr().cast_mut().cast();
                part.iov_len = bytes.len();
            }
        }
        let (mut done, mut refused) = (0, 0);
        while done < batch.len() {
            // SAFETY: the messages up to `batch.len()` point to frames that outlive the call.
            let sent = unsafe {
                libc::sendmmsg(
                    self.fd.as_raw_fd(),
                    self.outbox.messages.as_mut_ptr().add(done),
                    (batch.len() - done) as u32,
                    0,
                )
            };
            match usize::try_from(sent) {
                Ok(sent) => done += sent,
                Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                // The first message is the one refused: go on behind it. What a cable has no room
                // for, its interface counts; what else is refused, we count.
                Err(_) => {
                    let full = io::Error::last_os_error().raw_os_error() == Some(libc::ENOBUFS);
                    refused += if full { 0 } else { batch[done].packets };
                    done += 1;
                }
            }
        }
        refused
    }

    fn take_drops(&mut self) -> u64 {
        let mut stats = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        let mut len = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: both pointers outlive the call.
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut len,
            )
        };
        if result < 0 { 0 } else { stats.tp_drops.into() }
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
