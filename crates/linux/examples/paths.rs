//! What a frame costs on its way to a host: through a packet socket and a veth cable, as runs
//! do it, with and without the kernel's stamp of it, and through a TAP device.
//!
//! ```sh
//! cargo run --release -p longhaul-linux --example paths
//! ```
//!
//! Works in a user and network namespace of its own and needs `ip` (iproute2). Both ways end in
//! the same UDP socket, which drops what it has no room for, so the difference is that of the ways: a
//! packet socket takes 16 frames a call, a TAP device one. The figures in docs/fidelity.md are this
//! program's.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::mem;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

use longhaul_linux::clock::monotonic_ns;
use rustix::mount::{MountFlags, mount};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Frames of a call, as the drive loop has them at most.
const BATCH: usize = 16;
const ROUNDS: usize = 5;
const SPAN_NS: u64 = 500_000_000;
const SIZES: [usize; 2] = [64, 1400];
/// `SOF_TIMESTAMPING_*` of include/uapi/linux/net_tstamp.h.
const TX_SOFTWARE: u32 = 1 << 1;
const SOFTWARE: u32 = 1 << 4;
const OPT_ID: u32 = 1 << 7;
const OPT_TSONLY: u32 = 1 << 11;

fn main() -> io::Result<()> {
    enter_namespaces()?;
    let tap = open_tap("t0")?;
    for words in [
        "link add name va type veth peer name vb",
        "link set va up",
        "link set vb up",
        "addr add 10.8.0.1/24 dev vb",
        "link set t0 up",
        "addr add 10.9.0.1/24 dev t0",
    ] {
        ip(words)?;
    }
    let sink = UdpSocket::bind("0.0.0.0:9")?;
    sink.set_nonblocking(true)?;
    for size in SIZES {
        let packet = PacketWay::new("va", frame(&mac("vb")?, [10, 8, 0, 1], size))?;
        let tapped = frame(&mac("t0")?, [10, 9, 0, 1], size);
        // One after the other, round after round: whatever the machine does hits all alike.
        let batches = [(BATCH, 0), (BATCH, 1), (BATCH, BATCH), (1, 0), (1, 1)];
        let mut costs = vec![Vec::new(); batches.len() + 1];
        for _ in 0..ROUNDS {
            for ((batch, stamped), costs) in batches.into_iter().zip(&mut costs) {
                let send = || packet.send(batch, stamped).map(|()| batch);
                costs.push(cost(&sink, send)?);
            }
            let tap = || (&tap).write(&tapped).map(|_| 1);
            costs[batches.len()].push(cost(&sink, tap)?);
        }
        let mut shown = costs.into_iter().map(|mut all| {
            all.sort_by(f64::total_cmp);
            let (p50, low, high) = (all[ROUNDS / 2], all[0], all[ROUNDS - 1]);
            format!("{p50:.0} ns a frame ({low:.0}-{high:.0})")
        });
        for ((batch, stamped), shown) in batches.into_iter().zip(&mut shown) {
            println!("{size} B: packet socket, {batch} a call, {stamped} stamped: {shown}");
        }
        for shown in shown {
            println!("{size} B: TAP device, 1 a call: {shown}");
        }
    }
    Ok(())
}

/// Nanoseconds a frame, of frames that have all reached the socket.
fn cost(sink: &UdpSocket, mut send: impl FnMut() -> io::Result<usize>) -> io::Result<f64> {
    let before = datagrams()?;
    let (start, mut frames) = (monotonic_ns(), 0);
    while monotonic_ns() - start < SPAN_NS {
        frames += send()?;
    }
    let elapsed = monotonic_ns() - start;
    // What the socket holds is counted when it is read.
    while sink.recv(&mut [0; 1]).is_ok() {}
    let arrived = datagrams()? - before;
    assert_eq!(arrived, frames, "frames were lost on the way");
    Ok(elapsed as f64 / frames as f64)
}

/// Datagrams that have reached a socket of this namespace, whether or not it had room.
fn datagrams() -> io::Result<usize> {
    let text = fs::read_to_string("/proc/self/net/snmp")?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
    let all = names.split(' ').zip(values.split(' '));
    let ours = all.filter(|(name, _)| ["InDatagrams", "InErrors"].contains(name));
    Ok(ours
        .filter_map(|(_, value)| value.parse::<usize>().ok())
        .sum())
}

/// A packet socket on one end of a cable, and a batch of frames.
struct PacketWay {
    socket: OwnedFd,
    frame: Box<[u8]>,
}

impl PacketWay {
    fn new(interface: &str, frame: Box<[u8]>) -> io::Result<Self> {
        let (family, kind) = (AddressFamily::PACKET, SocketType::RAW);
        let socket = net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        let index = net::netdevice::name_to_index(&socket, interface)?;
        // SAFETY: plain calls with valid pointers; results are checked.
        unsafe {
            let mut address: libc::sockaddr_ll = mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_ifindex = index as i32;
            let len = mem::size_of_val(&address) as u32;
            check(libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                len,
            ))?;
            let (yes, len) = (1i32, mem::size_of::<i32>() as u32);
            let option = libc::PACKET_QDISC_BYPASS;
            check(libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_PACKET,
                option,
                (&raw const yes).cast(),
                len,
            ))?;
            let flags = SOFTWARE | OPT_TSONLY | OPT_ID;
            check(libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_TIMESTAMPING,
                (&raw const flags).cast(),
                len,
            ))?;
            Ok(Self { socket, frame })
        }
    }

    /// Sends a batch of frames in a call, and reads the kernel's stamps of the last ones.
    fn send(&self, batch: usize, stamped: usize) -> io::Result<()> {
        let mut vector = libc::iovec {
            iov_base: self.frame.as_ptr().cast_mut().cast(),
            iov_len: self.frame.len(),
        };
        // SAFETY: an all-zero header is valid; each points at the one vector and the one question,
        // which outlive the call.
        let sent = unsafe {
            let mut question = [0u64; 3];
            let header = question.as_mut_ptr().cast::<libc::cmsghdr>();
            (*header).cmsg_len = libc::CMSG_LEN(4) as _;
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SO_TIMESTAMPING;
            libc::CMSG_DATA(header)
                .cast::<u32>()
                .write_unaligned(TX_SOFTWARE);
            let mut headers: [libc::mmsghdr; BATCH] = mem::zeroed();
            for (number, message) in headers[..batch].iter_mut().enumerate() {
                message.msg_hdr.msg_iov = &raw mut vector;
                message.msg_hdr.msg_iovlen = 1;
                if number + stamped >= batch {
                    message.msg_hdr.msg_control = header.cast();
                    message.msg_hdr.msg_controllen = mem::size_of_val(&question) as _;
                }
            }
            check(libc::sendmmsg(
                self.socket.as_raw_fd(),
                headers.as_mut_ptr(),
                batch as u32,
                0,
            ))?
        };
        assert_eq!(sent as usize, batch, "the cable refused a frame");
        if stamped > 0 {
            assert_eq!(self.stamps()?, stamped, "a frame without a stamp");
        }
        Ok(())
    }

    /// Empties the error queue; how many messages were in it.
    fn stamps(&self) -> io::Result<usize> {
        // SAFETY: an all-zero header is valid; each points at control messages of its own, which
        // outlive the call.
        let read = unsafe {
            let mut control = [[0u64; 32]; 2 * BATCH];
            let mut headers: [libc::mmsghdr; 2 * BATCH] = mem::zeroed();
            for (header, control) in headers.iter_mut().zip(&mut control) {
                header.msg_hdr.msg_control = control.as_mut_ptr().cast();
                header.msg_hdr.msg_controllen = mem::size_of_val(control) as _;
            }
            check(libc::recvmmsg(
                self.socket.as_raw_fd(),
                headers.as_mut_ptr(),
                2 * BATCH as u32,
                libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            ))?
        };
        Ok(read as usize)
    }
}

/// A TAP device, its frames without a header of its own.
fn open_tap(name: &str) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    // SAFETY: an all-zero request is valid, and outlives the call.
    unsafe {
        let mut request: libc::ifreq = mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as i16;
        check(libc::ioctl(
            file.as_raw_fd(),
            libc::TUNSETIFF,
            &raw const request,
        ))?;
    }
    Ok(file)
}

/// An Ethernet frame with a UDP datagram of `size` bytes to port 9, without a UDP checksum.
fn frame(to: &[u8; 6], address: [u8; 4], size: usize) -> Box<[u8]> {
    let mut frame = Vec::from(to);
    frame.extend([2, 0, 0, 0, 0, 9, 8, 0]);
    let mut header = [0u8; 20];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&(28 + size as u16).to_be_bytes());
    header[8..10].copy_from_slice(&[64, 17]);
    header[12..16].copy_from_slice(&[address[0], address[1], address[2], 2]);
    header[16..20].copy_from_slice(&address);
    let words = header.chunks_exact(2);
    let sum: u32 = words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    frame.extend(header);
    frame.extend([0, 9, 0, 9]);
    frame.extend((8 + size as u16).to_be_bytes());
    frame.resize(14 + 28 + size, 0);
    frame.into()
}

fn mac(interface: &str) -> io::Result<[u8; 6]> {
    let text = fs::read_to_string(format!("/sys/class/net/{interface}/address"))?;
    let mut mac = [0; 6];
    for (byte, digits) in mac.iter_mut().zip(text.trim().split(':')) {
        *byte = u8::from_str_radix(digits, 16).map_err(io::Error::other)?;
    }
    Ok(mac)
}

/// A user namespace in which this process is root, a network of its own, and `/sys` to match.
fn enter_namespaces() -> io::Result<()> {
    let (uid, gid) = longhaul_linux::user_and_group();
    let flags = UnshareFlags::NEWUSER | UnshareFlags::NEWNET | UnshareFlags::NEWNS;
    // SAFETY: the table of descriptors stays shared.
    unsafe { unshare_unsafe(flags) }?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {gid} 1"))?;
    Ok(mount("sysfs", "/sys", "sysfs", MountFlags::empty(), c"")?)
}

fn ip(words: &str) -> io::Result<()> {
    let status = Command::new("ip").args(words.split(' ')).status()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!("ip {words}: {status}")))
    }
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}
