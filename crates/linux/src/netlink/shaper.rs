//! Shapers: the token buckets that give a host the backpressure of a network card.
//!
//! Three kinds of shaper, for three kinds of [`Traffic`]:
//!
//! - `tbf` (`net/sched/sch_tbf.c`) counts every packet to the byte. But it splits a super-packet
//!   that is larger than the bucket, and counts the segments without the configured overhead; and
//!   one that shrinks below a packet in its queue never sends again. So it is for hosts that send
//!   single packets.
//! - `htb` with one class (`net/sched/sch_htb.c`) passes super-packets whole, and goes into debt for
//!   them. It counts the headers of each segment, but the overhead once.
//! - The machine's shaper is for TCP alone: an `htb` into whose class `u32` filters direct TCP over
//!   IPv4 and IPv6, while all other packets bypass it (`direct_queue`). TCP slows down when it is
//!   held up, but putting a sender of datagrams to sleep and waking it costs the machine more than
//!   its packets.

use std::io;
use std::time::Duration;

use super::{Message, NLM_F_CREATE, NLM_F_REPLACE, NLMSG_ERROR, Netlink, error_of};

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TC_H_ROOT: u32 = 0xffff_ffff;
const TC_LINKLAYER_ETHERNET: u8 = 1;
/// Handles differ, so that one kind takes the place of the other.
const TBF: u32 = 0x1_0000;
const HTB_TCP: u32 = 0x2_0000;
const HTB_ALL: u32 = 0x3_0000;
/// The class of an htb.
const CLASS: u32 = 1;

/// The packets that a shaper holds back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Traffic {
    /// All packets, which come one by one.
    Packets,
    /// All packets and super-packets; the latter count the overhead once, which is not below zero.
    SuperPackets,
    /// TCP alone, in packets or super-packets.
    Tcp,
}

impl Traffic {
    /// The handle of the discipline for it.
    const fn handle(self) -> u32 {
        match self {
            Self::Packets => TBF,
            Self::SuperPackets => HTB_ALL,
            Self::Tcp => HTB_TCP,
        }
    }
}

/// A token bucket: the backpressure that a network card gives its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Shaper {
    /// Bytes per second, counted with `overhead` bytes added to each Ethernet frame.
    pub bytes_per_s: u64,
    /// Bytes that a frame counts beyond header and payload (4 for the frame check sequence),
    /// or less (−14 for IP alone).
    pub overhead: i32,
    /// Depth of the bucket in bytes.
    pub burst_bytes: u32,
    /// Bytes that may wait for tokens before the host's own stack drops.
    pub limit_bytes: u32,
    /// What waits for it.
    pub traffic: Traffic,
}

/// `burst` in the kernel's unit: time at `rate`, in ticks of 64 ns (`PSCHED_SHIFT`).
fn burst_ticks(shaper: &Shaper) -> u32 {
    let ns = u64::from(shaper.burst_bytes) * 1_000_000_000 / shaper.bytes_per_s.max(1);
    u32::try_from(ns >> 6).unwrap_or(u32::MAX)
}

/// Sets the shaper of an interface. The queue of a shaper of another kind is drained first: the
/// kernel would discard it, and no counter would show that. Returns how many frames were still
/// waiting, and so were lost.
pub(crate) fn set_shaper(netlink: &mut Netlink, index: u32, shaper: &Shaper) -> io::Result<u64> {
    let lost = match root(netlink, index)? {
        Some(root) if root.handle == shaper.traffic.handle() => {
            return change(netlink, index, shaper).map(|()| 0);
        }
        Some(root) if root.packets > 0 => drain(netlink, index, root)?,
        _ => 0,
    };
    let changed = match shaper.traffic {
        Traffic::Packets => Err(io::ErrorKind::Unsupported.into()),
        Traffic::SuperPackets => set_htb(netlink, index, shaper, CLASS),
        // With class 0 as the default, packets that no filter takes bypass the shaper.
        Traffic::Tcp => {
            set_htb(netlink, index, shaper, 0).and_then(|()| set_tcp_filters(netlink, index))
        }
    };
    // On a kernel without htb or u32, a tbf serves for everything; what is left of the htb is
    // removed first.
    let changed = changed.or_else(|_| {
        let _ = netlink.request(request(libc::RTM_DELQDISC, index, 0, TC_H_ROOT, 0));
        netlink.request(tbf(index, shaper))
    });
    changed.map(|()| lost)
}

/// Changes an existing shaper, of whichever kind it was made.
fn change(netlink: &mut Netlink, index: u32, shaper: &Shaper) -> io::Result<()> {
    let changed = match shaper.traffic {
        Traffic::Packets => Err(io::ErrorKind::Unsupported.into()),
        Traffic::SuperPackets | Traffic::Tcp => netlink.request(class(index, shaper)),
    };
    changed.or_else(|_| netlink.request(tbf(index, shaper)))
}

/// The queueing discipline of an interface.
#[derive(Clone, Copy)]
struct Root {
    /// Which of ours it is.
    handle: u32,
    /// Packets that wait.
    packets: u32,
}

/// The discipline at the root of an interface; `None` where the kernel reports none.
fn root(netlink: &mut Netlink, index: u32) -> io::Result<Option<Root>> {
    const NLM_F_DUMP: u16 = 0x300;
    const NLMSG_DONE: u16 = 3;
    const TCA_STATS2: u16 = 7;
    const TCA_STATS_QUEUE: u16 = 3;
    let mut message = Message::new(libc::RTM_GETQDISC, NLM_F_DUMP, &[0; 20]);
    let sequence = netlink.send(&mut message)?;
    let mut found = None;
    let mut result = Ok(());
    netlink.each_reply(sequence, |reply, payload| {
        if reply == NLMSG_ERROR {
            result = error_of(payload);
        }
        // struct tcmsg: the interface is its second word, then handle and parent.
        let word = |at: usize| {
            Some(u32::from_ne_bytes(
                payload.get(at..at + 4)?.try_into().ok()?,
            ))
        };
        if reply == libc::RTM_NEWQDISC && word(4) == Some(index) && word(12) == Some(TC_H_ROOT) {
            let attributes = payload.get(20..).unwrap_or_default();
            let statistics = attribute(attributes, TCA_STATS2);
            let queue = statistics.and_then(|nest| attribute(nest, TCA_STATS_QUEUE));
            let packets = queue.and_then(|queue| queue.get(..4)?.try_into().ok());
            found = word(8).map(|handle| Root {
                handle,
                packets: packets.map_or(0, u32::from_ne_bytes),
            });
        }
        matches!(reply, NLMSG_DONE | NLMSG_ERROR)
    })?;
    result.map(|()| found)
}

/// The value of an attribute of a list of them.
fn attribute(mut list: &[u8], wanted: u16) -> Option<&[u8]> {
    while let [a, b, c, d, ..] = *list {
        let len = usize::from(u16::from_ne_bytes([a, b]));
        // The two highest bits are flags.
        if u16::from_ne_bytes([c, d]) & 0x3fff == wanted {
            return list.get(4..len);
        }
        list = list.get(len.max(4).next_multiple_of(4)..)?;
    }
    None
}

/// Drains the queue at a rate faster than any sender, until it is empty or that has taken too long.
/// Returns how many frames still wait.
fn drain(netlink: &mut Netlink, index: u32, now: Root) -> io::Result<u64> {
    const TRIES: u32 = 200;
    const PAUSE: Duration = Duration::from_micros(100);
    let fast = |traffic| Shaper {
        bytes_per_s: 100_000_000_000,
        overhead: 0,
        burst_bytes: 1 << 30,
        limit_bytes: 1 << 30,
        traffic,
    };
    let traffic = match now.handle {
        TBF => Traffic::Packets,
        HTB_ALL => Traffic::SuperPackets,
        HTB_TCP => Traffic::Tcp,
        // Of a kind that is not ours.
        _ => return Ok(now.packets.into()),
    };
    change(netlink, index, &fast(traffic))?;
    let mut waiting = 0;
    for _ in 0..TRIES {
        waiting = root(netlink, index)?.map_or(0, |root| root.packets);
        if waiting == 0 {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    Ok(waiting.into())
}

/// Sets the root queueing discipline to a shaper for what goes into its class: all that no filter
/// takes, if that is the `default`.
fn set_htb(netlink: &mut Netlink, index: u32, shaper: &Shaper, default: u32) -> io::Result<()> {
    netlink.request(htb(index, shaper.traffic, default))?;
    netlink.request(class(index, shaper))
}

fn set_tcp_filters(netlink: &mut Netlink, index: u32) -> io::Result<()> {
    // The protocol is byte 9 of an IPv4 header, and byte 6 of an IPv6 header.
    netlink.request(tcp_filter(index, libc::ETH_P_IP as u16, 8, 0x00ff_0000))?;
    netlink.request(tcp_filter(index, libc::ETH_P_IPV6 as u16, 4, 0x0000_ff00))
}

/// A request about queueing disciplines: `struct tcmsg`.
fn request(kind: u16, index: u32, handle: u32, parent: u32, info: u32) -> Message {
    let mut header = [0; 20];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&handle.to_ne_bytes());
    header[12..16].copy_from_slice(&parent.to_ne_bytes());
    header[16..20].copy_from_slice(&info.to_ne_bytes());
    Message::new(kind, NLM_F_CREATE | NLM_F_REPLACE, &header)
}

/// `struct tc_ratespec`.
fn rate_spec(shaper: &Shaper, overhead: u16) -> [u8; 12] {
    let mut spec = [0; 12];
    spec[1] = TC_LINKLAYER_ETHERNET;
    spec[2..4].copy_from_slice(&overhead.to_ne_bytes());
    let rate = u32::try_from(shaper.bytes_per_s).unwrap_or(u32::MAX);
    spec[8..12].copy_from_slice(&rate.to_ne_bytes());
    spec
}

/// The root of an htb.
fn htb(index: u32, traffic: Traffic, default: u32) -> Message {
    const TCA_HTB_INIT: u16 = 2;
    const VERSION: u32 = 3;
    let mut message = request(libc::RTM_NEWQDISC, index, traffic.handle(), TC_H_ROOT, 0);
    message
        .attr_str(TCA_KIND, "htb")
        .nest(TCA_OPTIONS, |options| {
            // struct tc_htb_glob: version, rate2quantum, defcls and two more.
            let mut init = [0; 20];
            init[0..4].copy_from_slice(&VERSION.to_ne_bytes());
            init[4..8].copy_from_slice(&10u32.to_ne_bytes());
            init[8..12].copy_from_slice(&default.to_ne_bytes());
            options.attr(TCA_HTB_INIT, &init);
        });
    message
}

/// The class with its token bucket.
fn class(index: u32, shaper: &Shaper) -> Message {
    const TCA_HTB_PARMS: u16 = 1;
    const TCA_HTB_RATE64: u16 = 6;
    const TCA_HTB_CEIL64: u16 = 7;
    /// How much a class sends in its turn; there is only one.
    const QUANTUM: u32 = 60_000;
    let htb = shaper.traffic.handle();
    let mut message = request(libc::RTM_NEWTCLASS, index, htb | CLASS, htb, 0);
    message
        .attr_str(TCA_KIND, "htb")
        .nest(TCA_OPTIONS, |options| {
            // struct tc_htb_opt: rate, ceil, buffer, cbuffer, quantum, level, prio.
            let spec = rate_spec(shaper, u16::try_from(shaper.overhead).unwrap_or(0));
            let mut parms = [0; 44];
            parms[..12].copy_from_slice(&spec);
            parms[12..24].copy_from_slice(&spec);
            parms[24..28].copy_from_slice(&burst_ticks(shaper).to_ne_bytes());
            parms[28..32].copy_from_slice(&burst_ticks(shaper).to_ne_bytes());
            parms[32..36].copy_from_slice(&QUANTUM.to_ne_bytes());
            options.attr(TCA_HTB_PARMS, &parms);
            if u32::try_from(shaper.bytes_per_s).is_err() {
                options
                    .attr(TCA_HTB_RATE64, &shaper.bytes_per_s.to_ne_bytes())
                    .attr(TCA_HTB_CEIL64, &shaper.bytes_per_s.to_ne_bytes());
            }
        });
    message
}

/// Directs packets into the class whose IP header has TCP's number in the word at `offset`.
fn tcp_filter(index: u32, ethertype: u16, offset: i32, mask: u32) -> Message {
    const TCA_U32_CLASSID: u16 = 1;
    const TCA_U32_SEL: u16 = 5;
    const TC_U32_TERMINAL: u8 = 1;
    let tcp = mask & u32::from_be_bytes([libc::IPPROTO_TCP as u8; 4]);
    // A priority of its own for each protocol.
    let info = u32::from(ethertype & 0xff | 1) << 16 | u32::from(ethertype.to_be());
    let mut message = request(libc::RTM_NEWTFILTER, index, 0, HTB_TCP, info);
    message
        .attr_str(TCA_KIND, "u32")
        .nest(TCA_OPTIONS, |options| {
            // struct tc_u32_sel of 16 bytes, then one tc_u32_key: mask, value (big-endian), offset.
            let mut selector = [0; 32];
            selector[0] = TC_U32_TERMINAL;
            selector[2] = 1;
            selector[16..20].copy_from_slice(&mask.to_be_bytes());
            selector[20..24].copy_from_slice(&tcp.to_be_bytes());
            selector[24..28].copy_from_slice(&offset.to_ne_bytes());
            options
                .attr_u32(TCA_U32_CLASSID, HTB_TCP | CLASS)
                .attr(TCA_U32_SEL, &selector);
        });
    message
}

/// Sets the root queueing discipline of an interface to a tbf, which holds for all packets.
fn tbf(index: u32, shaper: &Shaper) -> Message {
    const TCA_STAB: u16 = 8;
    const TCA_STAB_BASE: u16 = 1;
    const TCA_TBF_PARMS: u16 = 1;
    const TCA_TBF_RATE64: u16 = 4;
    const TCA_TBF_BURST: u16 = 6;
    let mut message = request(
        libc::RTM_NEWQDISC,
        index,
        shaper.traffic.handle(),
        TC_H_ROOT,
        0,
    );
    message.attr_str(TCA_KIND, "tbf").nest(TCA_STAB, |table| {
        // struct tc_sizespec: the overhead is all that we need of it.
        let mut base = [0; 24];
        base[4..8].copy_from_slice(&shaper.overhead.to_ne_bytes());
        table.attr(TCA_STAB_BASE, &base);
    });
    message.nest(TCA_OPTIONS, |options| {
        // struct tc_tbf_qopt: two tc_ratespecs of 12 bytes, then limit, buffer, mtu.
        let mut parms = [0; 36];
        parms[..12].copy_from_slice(&rate_spec(shaper, 0));
        parms[24..28].copy_from_slice(&shaper.limit_bytes.to_ne_bytes());
        parms[28..32].copy_from_slice(&burst_ticks(shaper).to_ne_bytes());
        options
            .attr(TCA_TBF_PARMS, &parms)
            .attr_u32(TCA_TBF_BURST, shaper.burst_bytes);
        if u32::try_from(shaper.bytes_per_s).is_err() {
            options.attr(TCA_TBF_RATE64, &shaper.bytes_per_s.to_ne_bytes());
        }
    });
    message
}
