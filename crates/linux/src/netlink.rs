//! Netlink, just wide enough: build a message, send it, read the acknowledgement; sockets' states
//! in [`diag`].
//!
//! A rootless run configures thousands of interfaces while it starts, so requests are plain
//! byte buffers on one socket, without an async runtime. Attribute numbers are those of the
//! kernel's `include/uapi/linux/{netlink,rtnetlink,if_link,if_addr,neighbour,pkt_sched}.h`.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use rustix::net::{self, AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

pub(crate) mod diag;
pub(crate) mod shaper;

const NLM_F_REQUEST: u16 = 0x01;
const NLM_F_ACK: u16 = 0x04;
const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_CREATE: u16 = 0x400;
const NLM_F_EXCL: u16 = 0x200;
const NLMSG_ERROR: u16 = 2;
const HEADER_LEN: usize = 16;

/// A netlink message under construction.
pub(crate) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// A request of `kind` with `flags` and the fixed header `family`.
    fn new(kind: u16, flags: u16, family: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER_LEN];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(flags | NLM_F_REQUEST).to_ne_bytes());
        bytes.extend_from_slice(family);
        Self { bytes }
    }

    /// Appends one attribute.
    fn attr(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        let len = u16::try_from(value.len() + 4).expect("attributes here are small");
        self.bytes.extend_from_slice(&len.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    fn attr_u32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.attr(kind, &value.to_ne_bytes())
    }

    fn attr_str(&mut self, kind: u16, value: &str) -> &mut Self {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attr(kind, &bytes)
    }

    fn attr_ip(&mut self, kind: u16, address: IpAddr) -> &mut Self {
        match address {
            IpAddr::V4(v4) => self.attr(kind, &v4.octets()),
            IpAddr::V6(v6) => self.attr(kind, &v6.octets()),
        }
    }

    /// Appends an attribute whose content `fill` writes.
    fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) -> &mut Self {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        fill(self);
        let len = u16::try_from(self.bytes.len() - start).expect("nests here are small");
        self.bytes[start..start + 2].copy_from_slice(&len.to_ne_bytes());
        self.bytes[start + 2..start + 4].copy_from_slice(&(kind | 0x8000).to_ne_bytes());
        self
    }
}

/// A netlink socket; it belongs to the network namespace in which it was opened.
#[derive(Debug)]
pub(crate) struct Netlink {
    fd: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// For requests about interfaces, addresses and routes.
    pub(crate) fn open() -> io::Result<Self> {
        // `NETLINK_ROUTE` is number 0.
        Self::open_protocol(None)
    }

    fn open_protocol(protocol: Option<Protocol>) -> io::Result<Self> {
        let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        let fd = net::socket_with(family, kind, SocketFlags::CLOEXEC, protocol)?;
        Ok(Self { fd, sequence: 0 })
    }

    fn send(&mut self, message: &mut Message) -> io::Result<u32> {
        self.sequence += 1;
        let len = u32::try_from(message.bytes.len()).expect("requests here are small");
        message.bytes[0..4].copy_from_slice(&len.to_ne_bytes());
        message.bytes[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        net::send(&self.fd, &message.bytes, SendFlags::empty())?;
        Ok(self.sequence)
    }

    fn receive(&self, buffer: &mut [u8], flags: RecvFlags) -> io::Result<usize> {
        let (read, _) = net::recv(&self.fd, buffer, flags)?;
        Ok(read)
    }

    /// Sends a request and waits for its acknowledgement.
    pub(crate) fn request(&mut self, mut message: Message) -> io::Result<()> {
        let flags = u16::from_ne_bytes([message.bytes[6], message.bytes[7]]) | NLM_F_ACK;
        message.bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        let sequence = self.send(&mut message)?;
        let mut result = Ok(());
        self.each_reply(sequence, |kind, payload| {
            if kind == NLMSG_ERROR {
                result = error_of(payload);
                return true;
            }
            false
        })?;
        result
    }

    /// Hands every reply to request `sequence` to `visit` until it returns true.
    fn each_reply(
        &self,
        sequence: u32,
        mut visit: impl FnMut(u16, &[u8]) -> bool,
    ) -> io::Result<()> {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let read = self.receive(&mut buffer, RecvFlags::empty())?;
            for reply in messages(&buffer[..read]) {
                if reply.sequence == sequence && visit(reply.kind, reply.payload) {
                    return Ok(());
                }
            }
        }
    }
}

/// A message as the kernel sends it (`struct nlmsghdr`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reply<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    pub(crate) payload: &'a [u8],
    /// All of it, header and padding included.
    pub(crate) whole: &'a [u8],
}

/// The messages of a buffer, up to the first that is cut off or says that it is shorter than its
/// header.
pub(crate) fn messages(bytes: &[u8]) -> impl Iterator<Item = Reply<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let word = |at: usize| Some(u32::from_ne_bytes(*rest.get(at..at + 4)?.first_chunk()?));
        let half = |at: usize| Some(u16::from_ne_bytes(*rest.get(at..at + 2)?.first_chunk()?));
        let (kind, flags, sequence) = (half(4)?, half(6)?, word(8)?);
        let len = word(0)? as usize;
        let payload = rest.get(HEADER_LEN..len)?;
        let (whole, behind) = rest.split_at(len.next_multiple_of(4).min(rest.len()));
        rest = behind;
        Some(Reply {
            kind,
            flags,
            sequence,
            payload,
            whole,
        })
    })
}

/// The attributes of a message (`struct nlattr`): kind and value, up to the first that is cut off or
/// too short.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    /// `NLA_F_NESTED` and `NLA_F_NET_BYTEORDER`.
    const FLAGS: u16 = 0xc000;
    const HEADER: usize = 4;
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let header: [u8; HEADER] = *rest.first_chunk()?;
        let len = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]) & !FLAGS;
        let value = rest.get(HEADER..len)?;
        rest = &rest[len.next_multiple_of(4).min(rest.len())..];
        Some((kind, value))
    })
}

fn error_of(payload: &[u8]) -> io::Result<()> {
    let code = payload
        .get(..4)
        .map_or(-libc::EPROTO, |b| i32::from_ne_bytes(b.try_into().unwrap()));
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(-code))
    }
}

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_PID: u16 = 19;
const IFLA_GROUP: u16 = 27;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFLA_GSO_MAX_SEGS: u16 = 40;
const IFLA_GRO_MAX_SIZE: u16 = 58;
const IFLA_GRO_IPV4_MAX_SIZE: u16 = 64;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;

/// `struct ifinfomsg` for interface `index`, optionally brought up.
fn ifinfomsg(index: u32, up: bool) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    let flags = if up { libc::IFF_UP as u32 } else { 0 };
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..16].copy_from_slice(&flags.to_ne_bytes());
    header
}

/// A veth pair: `name` here and up, `peer_name` in the namespace of process `peer_pid`.
pub(crate) struct VethPair<'a> {
    pub(crate) index: u32,
    pub(crate) name: &'a str,
    pub(crate) group: u32,
    pub(crate) mtu: u32,
    pub(crate) gro_max_size: u32,
    pub(crate) peer_name: &'a str,
    pub(crate) peer_pid: i32,
    pub(crate) peer_mac: [u8; 6],
    pub(crate) peer_gso_max_segs: u32,
}

pub(crate) fn new_veth(pair: &VethPair<'_>) -> Message {
    let flags = NLM_F_CREATE | NLM_F_EXCL;
    let mut message = Message::new(libc::RTM_NEWLINK, flags, &ifinfomsg(pair.index, true));
    let queues = |message: &mut Message| {
        message
            .attr_u32(IFLA_NUM_TX_QUEUES, 1)
            .attr_u32(IFLA_NUM_RX_QUEUES, 1);
        message.attr_u32(IFLA_MTU, pair.mtu);
    };
    message
        .attr_str(IFLA_IFNAME, pair.name)
        .attr_u32(IFLA_GROUP, pair.group);
    message.attr_u32(IFLA_GRO_MAX_SIZE, pair.gro_max_size);
    message.attr_u32(IFLA_GRO_IPV4_MAX_SIZE, pair.gro_max_size);
    queues(&mut message);
    message.nest(IFLA_LINKINFO, |info| {
        info.attr_str(IFLA_INFO_KIND, "veth")
            .nest(IFLA_INFO_DATA, |data| {
                data.nest(VETH_INFO_PEER, |peer| {
                    peer.bytes.extend_from_slice(&ifinfomsg(0, false));
                    peer.attr_str(IFLA_IFNAME, pair.peer_name)
                        .attr(IFLA_ADDRESS, &pair.peer_mac);
                    peer.attr_u32(IFLA_NET_NS_PID, pair.peer_pid as u32);
                    peer.attr_u32(IFLA_GSO_MAX_SEGS, pair.peer_gso_max_segs);
                    queues(peer);
                });
            });
    });
    message
}

/// Bounds the segments of a super-packet that an interface is given.
pub(crate) fn set_gso_max_segs(index: u32, most: u32) -> Message {
    let mut message = link_up(index);
    message.attr_u32(IFLA_GSO_MAX_SEGS, most);
    message
}

pub(crate) fn link_up(index: u32) -> Message {
    Message::new(libc::RTM_NEWLINK, 0, &ifinfomsg(index, true))
}

/// Deletes every interface of a group with one request.
pub(crate) fn delete_group(group: u32) -> Message {
    let mut message = Message::new(libc::RTM_DELLINK, 0, &ifinfomsg(0, false));
    message.attr_u32(IFLA_GROUP, group);
    message
}

fn family_of(address: IpAddr) -> (u8, u8) {
    match address {
        IpAddr::V4(_) => (libc::AF_INET as u8, 32),
        IpAddr::V6(_) => (libc::AF_INET6 as u8, 128),
    }
}

/// The address as a single-host network, without duplicate-address detection.
pub(crate) fn new_address(index: u32, address: IpAddr) -> Message {
    const IFA_ADDRESS: u16 = 1;
    const IFA_LOCAL: u16 = 2;
    const IFA_F_NODAD: u8 = 0x02;
    let (family, prefix) = family_of(address);
    let mut header = [family, prefix, IFA_F_NODAD, 0, 0, 0, 0, 0];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    let mut message = Message::new(libc::RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &header);
    message
        .attr_ip(IFA_LOCAL, address)
        .attr_ip(IFA_ADDRESS, address);
    message
}

/// A permanent neighbour entry, so that no address resolution ever runs.
pub(crate) fn new_neighbour(index: u32, address: IpAddr, mac: [u8; 6]) -> Message {
    const NDA_DST: u16 = 1;
    const NDA_LLADDR: u16 = 2;
    const NUD_PERMANENT: u16 = 0x80;
    let mut header = [0; 12];
    header[0] = family_of(address).0;
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..10].copy_from_slice(&NUD_PERMANENT.to_ne_bytes());
    let flags = NLM_F_CREATE | NLM_F_REPLACE;
    let mut message = Message::new(libc::RTM_NEWNEIGH, flags, &header);
    message.attr_ip(NDA_DST, address).attr(NDA_LLADDR, &mac);
    message
}

/// The default route via `gateway`, on link, with source address and congestion control pinned.
pub(crate) fn default_route(
    index: u32,
    gateway: IpAddr,
    source: IpAddr,
    congestion: Option<&str>,
) -> Message {
    const RTA_OIF: u16 = 4;
    const RTA_GATEWAY: u16 = 5;
    const RTA_PREFSRC: u16 = 7;
    const RTA_METRICS: u16 = 8;
    const RTAX_CC_ALGO: u16 = 16;
    const RTNH_F_ONLINK: u32 = 4;
    const RT_TABLE_MAIN: u8 = 254;
    const RTPROT_STATIC: u8 = 4;
    const RTN_UNICAST: u8 = 1;
    let mut header = [0; 12];
    header[0] = family_of(gateway).0;
    (header[4], header[5], header[7]) = (RT_TABLE_MAIN, RTPROT_STATIC, RTN_UNICAST);
    header[8..12].copy_from_slice(&RTNH_F_ONLINK.to_ne_bytes());
    let flags = NLM_F_CREATE | NLM_F_REPLACE;
    let mut message = Message::new(libc::RTM_NEWROUTE, flags, &header);
    message
        .attr_ip(RTA_GATEWAY, gateway)
        .attr_u32(RTA_OIF, index)
        .attr_ip(RTA_PREFSRC, source);
    if let Some(name) = congestion {
        message.nest(RTA_METRICS, |metrics| {
            metrics.attr_str(RTAX_CC_ALGO, name);
        });
    }
    message
}
