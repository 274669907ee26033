//! A TPACKET_V2 ring: arrivals, in order, without a system call.
//!
//! The ring is an array of fixed slots in memory shared with the kernel. Each slot's status word
//! says whose it is: the kernel fills a free slot and passes it to us with `TP_STATUS_USER`, we
//! return it with `TP_STATUS_KERNEL`. The Acquire load and Release store of that word order the
//! accesses to the rest of the slot.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};

use super::{Arrival, FIRST_INTERFACE, VNET_BYTES, VnetHeader};
use crate::sys::check;

/// Dimensions of the receive ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingConfig {
    /// Bytes of one slot, whole pages or a power of two: the frame and about 120 bytes before it.
    pub slot_bytes: u32,
    /// Number of slots, a multiple of those in a block.
    pub slots: u32,
    /// Whether frames carry virtio-net headers.
    pub offload: bool,
    /// Frames of fewer bytes are for another ring.
    pub shortest: u32,
    /// Frames of more bytes are for another ring.
    pub longest: u32,
}

/// Bytes of one block, at most: what the kernel allocates at a time.
const BLOCK_BYTES: u32 = 256 << 10;
/// The same for super-packets.
const SUPER_BLOCK_BYTES: u32 = 1 << 20;
/// The most bytes of a slot before the frame.
const BEFORE_FRAME: u32 = 128;
/// Pages for the longest super-packet (64 KiB) and the bytes before it.
const SUPER_SLOT_BYTES: u32 = 17 << 12;
/// 34 MiB, 27 ms of super-packets at 10 Gbit/s.
const SUPER_SLOTS: u32 = 510;

impl RingConfig {
    /// The ring for all frames of an MTU.
    pub fn for_mtu(mtu: u32) -> Self {
        let slot_bytes = (mtu + 14 + BEFORE_FRAME).next_power_of_two().max(2048);
        Self {
            slot_bytes,
            slots: ((64 << 20) / slot_bytes).clamp(4096, 16384),
            offload: false,
            shortest: 0,
            longest: u32::MAX,
        }
    }

    /// The rings for frames of an MTU and for longer ones.
    pub fn with_super_packets(mtu: u32) -> [Self; 2] {
        let small = Self::for_mtu(mtu);
        let longest = small.slot_bytes - BEFORE_FRAME;
        [
            Self {
                offload: true,
                longest,
                ..small
            },
            Self {
                slot_bytes: SUPER_SLOT_BYTES,
                slots: SUPER_SLOTS,
                offload: true,
                shortest: longest + 1,
                longest: u32::MAX,
            },
        ]
    }

    /// Slots of one block, which must leave no gap at its end: slots are indexed across blocks.
    fn slots_per_block(self) -> u32 {
        let most = match self.slot_bytes {
            SUPER_SLOT_BYTES => SUPER_BLOCK_BYTES,
            _ => BLOCK_BYTES,
        };
        (most / self.slot_bytes).max(1)
    }

    /// Memory of the ring.
    pub fn bytes(self) -> usize {
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

/// The most bytes on their way to receivers. Receivers with CPUs of their own take them from queues
/// (`netdev_max_backlog`) that can hold a few ticks' worth of super-packets.
const SEND_BUFFER: i32 = 8 << 20;
const SEND_BUFFER_FORCED: i32 = 64 << 20;

/// Gives a socket all the room for departures that it can use, past `wmem_max`. Only the machine's
/// root may, and only root's runs have receivers with CPUs of their own.
pub(super) fn force_send_buffer(fd: &OwnedFd) -> io::Result<()> {
    let level = libc::SOL_SOCKET;
    set_option(fd, level, libc::SO_SNDBUFFORCE, &SEND_BUFFER_FORCED)
}

/// A packet socket that receives nothing yet.
fn socket(offload: bool) -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::PACKET, SocketType::RAW);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = net::socket_with(family, kind, flags, None)?;
    if offload {
        const PACKET_VNET_HDR: i32 = 15;
        set_option(&fd, libc::SOL_PACKET, PACKET_VNET_HDR, &1i32)?;
    }
    Ok(fd)
}

/// Opens the socket of departures, which never receives.
pub(crate) fn open_sender(offload: bool) -> io::Result<OwnedFd> {
    let fd = socket(offload)?;
    set_option(&fd, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1i32)?;
    set_option(&fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &SEND_BUFFER)?;
    Ok(fd)
}

/// Opens a socket and its ring. Runs inside the sandbox, which has the rights; the order of options
/// matters to the kernel.
pub(crate) fn open(config: RingConfig) -> io::Result<OwnedFd> {
    const PACKET_IGNORE_OUTGOING: i32 = 23;
    const TPACKET_V2: i32 = 1;
    let fd = socket(config.offload)?;
    set_option(&fd, libc::SOL_PACKET, libc::PACKET_VERSION, &TPACKET_V2)?;
    set_option(&fd, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1i32)?;
    choose_lengths(&fd, config.shortest, config.longest)?;
    let slots_per_block = config.slots_per_block();
    let request = libc::tpacket_req {
        tp_block_size: slots_per_block * config.slot_bytes,
        tp_block_nr: config.slots / slots_per_block,
        tp_frame_size: config.slot_bytes,
        tp_frame_nr: config.slots,
    };
    set_option(&fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
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

/// Leaves frames of other lengths to other sockets: a classic BPF program
/// (`include/uapi/linux/filter.h`), which needs no privilege.
fn choose_lengths(fd: &OwnedFd, shortest: u32, longest: u32) -> io::Result<()> {
    const LOAD_LENGTH: u16 = 0x80; // BPF_LD | BPF_W | BPF_LEN
    const JUMP_NOT_LESS: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
    const JUMP_GREATER: u16 = 0x25; // BPF_JMP | BPF_JGT | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    if (shortest, longest) == (0, u32::MAX) {
        return Ok(());
    }
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = [
        step(LOAD_LENGTH, 0, 0, 0),
        step(JUMP_NOT_LESS, 0, 2, shortest),
        step(JUMP_GREATER, 1, 0, longest),
        step(RETURN, 0, 0, u32::MAX),
        step(RETURN, 0, 0, 0),
    ];
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    set_option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

/// The mapped ring of a socket.
#[derive(Debug)]
pub(super) struct Ring {
    fd: OwnedFd,
    ring: NonNull<u8>,
    config: RingConfig,
    head: u32,
}

// SAFETY: the mapping belongs to this value alone, and is reached through `&mut self` only.
unsafe impl Send for Ring {}

const HEADER_BYTES: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(16);

impl Ring {
    /// Maps the ring of a socket from [`open`].
    pub(super) fn new(fd: OwnedFd, config: RingConfig) -> io::Result<Self> {
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
        })
    }

    /// The header of the oldest slot.
    fn slot(&self) -> *mut libc::tpacket2_hdr {
        let offset = self.head as usize * self.config.slot_bytes as usize;
        debug_assert!(offset < self.config.bytes());
        // SAFETY: `head` is below `slots`, so the slot lies within the mapping.
        unsafe { self.ring.as_ptr().add(offset).cast() }
    }

    /// The status word of the oldest slot, which says whether the slot is the kernel's or ours.
    fn status(&self) -> &AtomicU32 {
        // SAFETY: the status is the slot's first word, aligned, and shared with the kernel,
        // which an atomic allows for.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.slot()).tp_status) }
    }

    /// The stamp of the oldest arrival.
    #[inline]
    pub(super) fn stamp(&self) -> Option<(u32, u32)> {
        if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        let slot = self.slot();
        // SAFETY: the kernel has handed the slot to us until we release it.
        unsafe { Some(((*slot).tp_sec, (*slot).tp_nsec)) }
    }

    /// The oldest arrival, left in place.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<Arrival<'_>> {
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
            let vnet = if self.config.offload && start >= VNET_BYTES {
                slot.cast::<u8>()
                    .add(start - VNET_BYTES)
                    .cast::<VnetHeader>()
                    .read_unaligned()
            } else {
                VnetHeader::default()
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

    /// Returns the slot of the oldest arrival to the kernel.
    #[inline]
    pub(super) fn release(&mut self) {
        self.status()
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        // The kernel delivers slots in order, so the next arrival can only be in the next slot.
        self.head = if self.head + 1 == self.config.slots {
            0
        } else {
            self.head + 1
        };
    }

    /// Arrivals lost since the last call because the ring was full; the kernel resets its count
    /// when read.
    pub(super) fn take_drops(&mut self) -> u64 {
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

    /// The socket.
    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, used by nobody else.
        unsafe { libc::munmap(self.ring.as_ptr().cast(), self.config.bytes()) };
    }
}
