//! The smallest network there is: each packet takes the time that a function says, or gets lost.
//! Hosts may be spread over several `Traffic`s, each of which goes on alone within a window.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use longhaul_core::packet::fold;
use longhaul_core::{NodeId, Span, Time};
use longhaul_proto::modelled::{FlowResult, FlowSpec, FlowTable, Host, Strays, Traffic, results};

/// A packet on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    /// How many its host has sent before.
    pub(crate) number: u64,
    pub(crate) at: Time,
    pub(crate) headers: Vec<u8>,
    pub(crate) ip_len: u32,
}

/// How long each copy of a packet takes; there may be none. Its bytes may be changed on the way.
pub(crate) type Delays = Box<dyn FnMut(&mut Packet) -> Vec<Span>>;

/// See the module's first lines.
pub(crate) struct Wires {
    pub(crate) shares: Vec<Traffic>,
    /// Which share holds a host, by its number.
    owner: Vec<usize>,
    delays: Delays,
    /// By arrival, receiver, sender, number, copy.
    coming: BTreeMap<(Time, NodeId, NodeId, u64, usize), Packet>,
    /// What each host has sent.
    pub(crate) sent: Vec<Vec<Packet>>,
    /// How far each window goes; less than the shortest delay.
    pub(crate) width: Span,
}

/// So many hosts, numbered from 0.
pub(crate) fn hosts(count: u32) -> Vec<Host> {
    let host = |number| Host {
        node: NodeId(number),
        ipv4: Ipv4Addr::from_bits(0x0a00_0001 + number),
        ipv6: Ipv6Addr::from_bits((0xfd00 << 112) + u128::from(number) + 1),
    };
    (0..count).map(host).collect()
}

impl Packet {
    /// Where its TCP or UDP header begins.
    fn transport(&self) -> usize {
        match self.headers[12..14] {
            [0x86, 0xdd] => 54,
            _ => 34,
        }
    }

    /// The port that it comes from.
    pub(crate) fn port(&self) -> u16 {
        let at = self.transport();
        u16::from_be_bytes([self.headers[at], self.headers[at + 1]])
    }

    /// Sets a 16-bit word of its transport header or payload, and its checksum, which is at
    /// `checksum` (RFC 1624).
    pub(crate) fn set_word(&mut self, checksum: usize, at: usize, new: u16) {
        let start = self.transport();
        let read = |bytes: &[u8], at: usize| {
            u16::from_be_bytes([bytes[start + at], bytes[start + at + 1]])
        };
        let old = read(&self.headers, at);
        let sum = u64::from(!read(&self.headers, checksum)) + u64::from(!old) + u64::from(new);
        self.headers[start + at..start + at + 2].copy_from_slice(&new.to_be_bytes());
        let sum = (!fold(sum)).to_be_bytes();
        self.headers[start + checksum..start + checksum + 2].copy_from_slice(&sum);
    }
}

impl Wires {
    /// `flows` among as many hosts as `owner` is long, each held by the share that it says.
    pub(crate) fn new(flows: Vec<FlowSpec>, seed: u64, owner: Vec<usize>, delays: Delays) -> Self {
        let hosts = hosts(owner.len() as u32);
        let table = Arc::new(FlowTable::new(hosts, flows).expect("sound flows"));
        let count = owner.iter().max().map_or(1, |most| most + 1);
        let share = |share| {
            let holds = |host: NodeId| owner[host.index()] == share;
            Traffic::holding(Arc::clone(&table), seed, holds)
        };
        Self {
            shares: (0..count).map(share).collect(),
            sent: vec![Vec::new(); owner.len()],
            owner,
            delays,
            coming: BTreeMap::new(),
            width: Span::ZERO,
        }
    }

    /// Lets everything happen up to `end`, or until nothing is left to do.
    pub(crate) fn run(&mut self, end: Time) {
        while let Some(next) = self.next().filter(|&at| at <= end) {
            self.window((next + self.width).min(end));
        }
    }

    /// When something happens next.
    pub(crate) fn next(&self) -> Option<Time> {
        let packet = self.coming.keys().next().map(|(at, ..)| *at);
        let timers = self.shares.iter().filter_map(Traffic::poll_timeout);
        timers.chain(packet).min()
    }

    /// Each share goes on to `to`; the last one first, for they must not know of each other.
    fn window(&mut self, to: Time) {
        let mut arrivals = vec![Vec::new(); self.shares.len()];
        while let Some(entry) = self
            .coming
            .first_entry()
            .filter(|entry| entry.key().0 <= to)
        {
            let at = entry.key().0;
            let packet = entry.remove();
            arrivals[self.owner[packet.to.index()]].push((at, packet));
        }
        for (share, arrivals) in self.shares.iter_mut().zip(arrivals).rev() {
            for (at, packet) in arrivals {
                share.handle_packet(at, packet.to, &packet.headers, packet.ip_len);
            }
            share.handle_timeout(to);
            while let Some(packet) = share.poll_transmit() {
                let sent = &mut self.sent[packet.host.index()];
                let mut packet = Packet {
                    from: packet.host,
                    to: packet.to,
                    number: sent.len() as u64,
                    at: packet.at,
                    headers: packet.headers.to_vec(),
                    ip_len: packet.ip_len,
                };
                sent.push(packet.clone());
                for (copy, delay) in (self.delays)(&mut packet).into_iter().enumerate() {
                    assert!(delay > self.width, "a window is shorter than every delay");
                    let Packet {
                        from, to, number, ..
                    } = packet;
                    let key = (packet.at + delay, to, from, number, copy);
                    self.coming.insert(key, packet.clone());
                }
            }
        }
    }

    /// Of all shares together.
    pub(crate) fn results(&self) -> Vec<FlowResult<'_>> {
        results(&self.shares).collect()
    }

    /// Of all shares together.
    pub(crate) fn awaited(&self) -> usize {
        self.shares.iter().map(Traffic::awaited).sum()
    }

    /// Of all shares together.
    pub(crate) fn progress(&self) -> (usize, usize) {
        let add = |sum: (usize, usize), one: (usize, usize)| (sum.0 + one.0, sum.1 + one.1);
        self.shares.iter().map(Traffic::progress).fold((0, 0), add)
    }

    /// Of all shares together.
    pub(crate) fn strays(&self) -> Strays {
        let mut sum = Strays::default();
        self.shares.iter().for_each(|share| sum += share.strays());
        sum
    }
}
