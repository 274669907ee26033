//! Pairs of hosts with one link each, and packets over them in virtual time.

use std::net::{Ipv4Addr, Ipv6Addr};

use longhaul_core::observe::PipeCounters;
use longhaul_core::packet::{self, ETHERNET_LEN, fold, sum16};
use longhaul_core::params::PipeParams;
use longhaul_core::rng::Stream;
use longhaul_core::router::Silent;
use longhaul_core::topology::{Link, Node, NodeKind};
use longhaul_core::{Engine, EngineConfig, NodeId, PipeId, Time, Topology};

/// The seed of all figures.
pub(crate) const SEED: u64 = 20_261_121;

/// Packets that are handed over at once.
const BATCH: usize = 1024;
/// UDP header and number of the packet.
const MIN_PAYLOAD: usize = 16;

/// A packet to send.
#[derive(Clone, Copy)]
pub(crate) struct Packet {
    /// When, in ns; no earlier than the packet before.
    pub(crate) at: u64,
    /// Length of the IP packet, at least 36.
    pub(crate) ip_len: u16,
    /// Over which link.
    pub(crate) link: u8,
    /// Source port: packets of a flow share it.
    pub(crate) flow: u16,
    /// Whether the sender understands ECN marks.
    pub(crate) ecn: bool,
}

impl Packet {
    /// One of `ip_len` bytes at `at`, over the first link.
    pub(crate) const fn new(at: u64, ip_len: u16) -> Self {
        Self {
            at,
            ip_len,
            link: 0,
            flow: 1,
            ecn: false,
        }
    }
}

/// A packet that has come out.
pub(crate) struct Out<'a> {
    /// Its place among all that were sent.
    pub(crate) number: usize,
    /// When it entered, in ns.
    pub(crate) entered: u64,
    /// When it came out, in ns.
    pub(crate) due: u64,
    pub(crate) link: u8,
    /// What the engine calls its propagation delay, in ns.
    pub(crate) path_delay: u64,
    pub(crate) frame: &'a [u8],
}

impl Out<'_> {
    /// The whole time inside.
    pub(crate) const fn delay(&self) -> u64 {
        self.due - self.entered
    }
}

/// Hosts `a` and `b` with one link between them, and more such pairs.
pub(crate) struct Line {
    engine: Engine,
    pairs: Vec<Pair>,
    sent: u64,
}

struct Pair {
    ends: [NodeId; 2],
    addresses: [Ipv4Addr; 2],
    pipe: PipeId,
}

impl Line {
    /// One pair.
    pub(crate) fn new(params: PipeParams) -> Self {
        Self::parallel(vec![params], 1500)
    }

    /// A pair for each of `links`, with the largest IP packet.
    pub(crate) fn parallel(links: Vec<PipeParams>, mtu: u32) -> Self {
        let name = |side: char, n: usize| format!("{side}{n}");
        let (mut nodes, mut all) = (Vec::new(), Vec::new());
        let count = links.len();
        for (n, params) in links.into_iter().enumerate() {
            for side in ['a', 'b'] {
                let number = nodes.len() as u32;
                nodes.push(Node {
                    name: name(side, n),
                    kind: NodeKind::Host,
                    ipv4: Ipv4Addr::from(0x0a00_0001 + number),
                    ipv6: Ipv6Addr::from(0xfd00 << 112 | u128::from(number)),
                });
            }
            let link = Link::new(&name('a', n), &name('b', n), params);
            all.push(Link { mtu, ..link });
        }
        let topology = Topology::new(nodes, all).expect("pairs of hosts");
        let pair = |n| {
            let ends = ['a', 'b'].map(|side| topology.find(&name(side, n)).expect("a host"));
            let pipe = format!("{}>{}", name('a', n), name('b', n));
            Pair {
                ends,
                addresses: ends.map(|end| topology.node(end).ipv4),
                pipe: topology.find_pipes(&pipe)[0],
            }
        };
        let pairs = (0..count).map(pair).collect();
        let config = EngineConfig {
            seed: SEED,
            slot_size: ETHERNET_LEN + mtu as usize,
            slots: 1 << 18,
            ..EngineConfig::default()
        };
        Self {
            engine: Engine::new(topology, config, Box::new(Silent)),
            pairs,
            sent: 0,
        }
    }

    /// Sends all packets, until nothing is inside; `each` sees what comes out, in order.
    pub(crate) fn send(
        &mut self,
        packets: impl IntoIterator<Item = Packet>,
        mut each: impl FnMut(&Out<'_>),
    ) {
        let mut packets = packets.into_iter().peekable();
        let mut frame = Vec::new();
        while packets.peek().is_some() {
            for packet in packets.by_ref().take(BATCH) {
                let pair = &self.pairs[usize::from(packet.link)];
                write_frame(&mut frame, &packet, pair.addresses, self.sent);
                let stamp = Time::from_ns(packet.at);
                let entered = self.engine.arrive(pair.ends[0], stamp, &frame);
                entered.expect("a sound frame, and room for it");
                self.sent += 1;
            }
            let next = packets.peek().map_or(u64::MAX - 1, |packet| packet.at);
            self.engine.advance_before(Time::from_ns(next));
            self.receive(&mut each);
        }
        assert_eq!((self.engine.inside(), self.engine.slots_in_use()), (0, 0));
        assert_eq!(self.engine.counters().pool_exhausted, 0);
    }

    fn receive(&mut self, each: &mut impl FnMut(&Out<'_>)) {
        while let Some(egress) = self.engine.poll_egress() {
            let frame = self.engine.frame(&egress);
            assert!(packet::parse(frame).is_ok(), "what comes out is sound");
            assert_eq!(egress.shift.as_ns(), 0);
            let at = |pair: &Pair| pair.ends[1] == egress.host;
            let link = self.pairs.iter().position(at).expect("a receiver");
            each(&Out {
                number: egress.id as usize,
                entered: egress.entered.as_ns(),
                due: egress.due.as_ns(),
                link: link as u8,
                path_delay: egress.path_delay.as_ns(),
                frame,
            });
            self.engine.release(egress);
        }
    }

    /// The counters of the first link.
    pub(crate) fn counters(&self) -> PipeCounters {
        self.engine.pipe_counters(self.pairs[0].pipe)
    }
}

/// A UDP frame with true checksums that carries its number.
fn write_frame(frame: &mut Vec<u8>, packet: &Packet, addresses: [Ipv4Addr; 2], number: u64) {
    let ip_len = usize::from(packet.ip_len);
    let udp_len = packet.ip_len - 20;
    assert!(usize::from(udp_len) >= MIN_PAYLOAD);
    frame.clear();
    frame.resize(ETHERNET_LEN + ip_len, 0);
    frame[12] = 0x08;
    let ip = &mut frame[ETHERNET_LEN..];
    (ip[0], ip[1]) = (0x45, if packet.ecn { 0b10 } else { 0 });
    ip[2..4].copy_from_slice(&packet.ip_len.to_be_bytes());
    (ip[8], ip[9]) = (64, 17);
    ip[12..16].copy_from_slice(&addresses[0].octets());
    ip[16..20].copy_from_slice(&addresses[1].octets());
    let checksum = !sum16(&ip[..20]);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    ip[20..22].copy_from_slice(&packet.flow.to_be_bytes());
    ip[24..26].copy_from_slice(&udp_len.to_be_bytes());
    ip[28..36].copy_from_slice(&number.to_be_bytes());
    // Behind the number all is zero.
    let checksum = !udp_sum(&ip[12..20], udp_len, &ip[20..20 + MIN_PAYLOAD]);
    let checksum = if checksum == 0 { 0xffff } else { checksum }; // RFC 768
    ip[26..28].copy_from_slice(&checksum.to_be_bytes());
}

/// The frame in which the first pair sends a packet.
pub(crate) fn frame_of(packet: &Packet, number: u64) -> Vec<u8> {
    let mut frame = Vec::new();
    let addresses = [1, 2].map(|n| Ipv4Addr::from(0x0a00_0000 + n));
    write_frame(&mut frame, packet, addresses, number);
    frame
}

/// The sum over pseudo header (RFC 768) and datagram.
fn udp_sum(addresses: &[u8], len: u16, datagram: &[u8]) -> u16 {
    let parts = [sum16(addresses), 17, len, sum16(datagram)];
    fold(parts.into_iter().map(u64::from).sum())
}

/// Whether a frame's UDP checksum is right.
pub(crate) fn udp_is_sound(frame: &[u8]) -> bool {
    let datagram = &frame[34..];
    udp_sum(&frame[26..34], datagram.len() as u16, datagram) == 0xffff
}

/// Whether a frame's IPv4 checksum is right.
pub(crate) fn ipv4_is_sound(frame: &[u8]) -> bool {
    sum16(&frame[14..34]) == 0xffff
}

/// Packets of `ip_len` bytes, one each `gap` ns.
pub(crate) fn evenly(n: usize, gap: u64, ip_len: u16) -> impl Iterator<Item = Packet> {
    (0..n as u64).map(move |k| Packet::new(k * gap, ip_len))
}

/// Random numbers of a test's own.
pub(crate) struct Random(Stream);

impl Random {
    pub(crate) fn new(name: &str) -> Self {
        Self(Stream::new(SEED, name))
    }

    /// Exponentially distributed, with mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        let uniform = ((self.0.draw() >> 12) as f64 + 0.5) * f64::EPSILON;
        -libm::log(uniform)
    }

    /// A whole number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0.draw() % n
    }

    /// Times of a Poisson process with a mean gap, in ns.
    pub(crate) fn poisson(mut self, gap: f64) -> impl Iterator<Item = u64> {
        let mut now = 0.0;
        std::iter::repeat_with(move || {
            now += gap * self.exponential();
            now as u64
        })
    }
}
