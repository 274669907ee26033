//! Packets between the engine and the cables of namespace hosts.
//!
//! One AF_PACKET socket, bound to no interface, sees every cable of the core's network
//! namespace: arrivals come through a shared TPACKET_V2 ring with the kernel's stamp,
//! departures go through `sendmmsg`. The ring is used in order, so a frame is taken out and its
//! slot given back at once. Kernel side: `net/packet/af_packet.c`.
//!
//! [`PacketIo`] is what the drive loop knows; it carries the virtio-net header of each frame,
//! so that a path with segmentation offload fits behind it.

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
    /// Offload state.
    pub vnet: VnetHeader,
    /// The frame without FCS.
    pub frame: &'a [u8],
}

/// Most frames that one call to [`PacketIo::send`] takes.
pub const SEND_BATCH: usize = 64;

/// The way of packets in and out.
pub trait PacketIo {
    /// The oldest arrival, left in place.
    fn peek(&mut self) -> Option<Arrival<'_>>;

    /// Gives the place of the oldest arrival back.
    fn release(&mut self);

    /// Sends at most [`SEND_BATCH`] frames in order; returns how many the kernel refused for
    /// other reasons than a full cable, which the interface counts.
    fn send(&mut self, batch: &[Departure<'_>]) -> usize;

    /// Arrivals lost since the last call because there was no room for them.
    fn take_drops(&mut self) -> u64;

    /// A descriptor that is readable when there are arrivals.
    fn readiness(&self) -> BorrowedFd<'_>;
}

/// Dimensions of the receive ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingConfig {
    /// Bytes of one slot, a power of two: the frame and about 100 bytes before it.
    pub slot_bytes: u32,
    /// Number of slots.
    pub slots: u32,
}

/// Bytes of one block: what the kernel allocates at a time.
const BLOCK_BYTES: u32 = 256 << 10;

impl RingConfig {
    /// A ring for frames of an MTU.
    pub fn for_mtu(mtu: u32) -> Self {
        let slot_bytes = (mtu + 14 + 128).next_power_of_two().max(2048);
        Self {
            slot_bytes,
            slots: ((64 << 20) / slot_bytes).clamp(4096, 16384),
        }
    }

    fn bytes(self) -> usize {
        self.slot_bytes as usize * self.slots as usize
    }
}

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
    let block_bytes = BLOCK_BYTES.max(config.slot_bytes);
    let request = libc::tpacket_req {
        tp_block_size: block_bytes,
        tp_block_nr: config.slots / (block_bytes / config.slot_bytes),
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

/// The arguments of `sendmmsg`, joined up once: message → address and part. The pointers stay
/// true because the box never moves its content.
#[derive(Debug)]
struct Outbox {
    addresses: [libc::sockaddr_ll; SEND_BATCH],
    parts: [libc::iovec; SEND_BATCH],
    messages: [libc::mmsghdr; SEND_BATCH],
}

impl Outbox {
    fn new() -> Box<Self> {
        // SAFETY: all three structures are valid when all zero.
        let mut outbox: Box<Self> = Box::new(unsafe { std::mem::zeroed() });
        let Self {
            addresses,
            parts,
            messages,
        } = &mut *outbox;
        for ((address, part), message) in addresses.iter_mut().zip(parts).zip(messages) {
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_halen = 6;
            let header = &mut message.msg_hdr;
            header.msg_name = std::ptr::from_mut(address).cast();
            header.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            header.msg_iov = part;
            header.msg_iovlen = 1;
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
            outbox: Outbox::new(),
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
            let len = (header.tp_snaplen as usize).min(self.config.slot_bytes as usize - start);
            let frame = std::slice::from_raw_parts(slot.cast::<u8>().add(start), len);
            Some(Arrival {
                host: (address.sll_ifindex as u32).wrapping_sub(FIRST_INTERFACE) as usize,
                stamp_ns: u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec),
                vnet: VnetHeader::default(),
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
            let part = &mut self.outbox.parts[index];
            part.iov_base = departure.frame.as_ptr().cast_mut().cast();
            part.iov_len = departure.frame.len();
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
                    refused += usize::from(!full);
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
