//! The frames: each kind begins as a correct packet, then one thing in it is made wrong.

use std::net::{Ipv4Addr, Ipv6Addr};

use clap::ValueEnum;

use super::packet::{
    ARP, ICMP, ICMPV6, IP, IPV4, IPV6, TCP, UDP, checksum, is_v4, l4, put16, repair, seal,
};

/// The longest frame of an interface with MTU 1500.
const MAX_FRAME: usize = 1514;

/// What is wrong, or at least unusual, with a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Kind {
    /// An Ethernet header with nothing or part of an IP header behind it.
    Truncated,
    /// The IP version contradicts the EtherType.
    WrongVersion,
    /// An IPv4 header length below 5 words or beyond the frame.
    HeaderLength,
    /// An IP length that is zero, or beyond the frame.
    IpLength,
    /// 40 bytes of random IPv4 options.
    GiantOptions,
    /// A long chain of IPv6 extension headers.
    ExtensionChain,
    /// An IPv6 jumbogram or routing header with false lengths.
    ExtensionLength,
    /// A wrong IPv4 header checksum.
    IpChecksum,
    /// A wrong UDP or TCP checksum.
    L4Checksum,
    /// A UDP length or a TCP data offset that contradicts the packet.
    L4Length,
    /// A transport header cut in the middle.
    L4Truncated,
    /// Fragments: overlapping, beyond 64 KiB, tiny, alone.
    Fragment,
    /// TTL or hop limit 0 or 1.
    Ttl,
    /// Source or destination addresses that no packet may have.
    Martian,
    /// An ICMP error that quotes nothing, or nonsense.
    IcmpError,
    /// ARP requests and replies, right and wrong.
    Arp,
    /// Multicast and broadcast.
    Multicast,
    /// A VLAN tag, or several.
    Vlan,
    /// An EtherType or IP protocol that nobody knows.
    UnknownProtocol,
    /// Random bytes behind a right Ethernet header.
    RandomPayload,
    /// Random bytes from the first to the last.
    RandomFrame,
}

impl Kind {
    /// The name on the command line and in the report.
    pub(super) fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Addresses to write, source first.
pub(super) struct Ends {
    pub(super) src_mac: [u8; 6],
    pub(super) dst_mac: [u8; 6],
    pub(super) v4: [Ipv4Addr; 2],
    pub(super) v6: [Ipv6Addr; 2],
}

/// Makes frames out of a seed.
pub(super) struct Craft {
    /// SplitMix64's state: good enough here, and the same everywhere.
    state: u64,
    ends: Ends,
}

impl Craft {
    /// The frames of `seed`.
    pub(super) fn new(seed: u64, ends: Ends) -> Self {
        Self { state: seed, ends }
    }

    /// The next frame, of this kind.
    pub(super) fn frame(&mut self, kind: Kind) -> Vec<u8> {
        match kind {
            Kind::Truncated => self.truncated(),
            Kind::WrongVersion => self.wrong_version(),
            Kind::HeaderLength => self.header_length(),
            Kind::IpLength => self.ip_length(),
            Kind::GiantOptions => self.giant_options(),
            Kind::ExtensionChain => self.extension_chain(),
            Kind::ExtensionLength => self.extension_length(),
            Kind::IpChecksum => self.ip_checksum(),
            Kind::L4Checksum => self.l4_checksum(),
            Kind::L4Length => self.l4_length(),
            Kind::L4Truncated => self.l4_truncated(),
            Kind::Fragment => self.fragment(),
            Kind::Ttl => self.ttl(),
            Kind::Martian => self.martian(),
            Kind::IcmpError => self.icmp_error(),
            Kind::Arp => self.arp(),
            Kind::Multicast => self.multicast(),
            Kind::Vlan => self.vlan(),
            Kind::UnknownProtocol => self.unknown_protocol(),
            Kind::RandomPayload => {
                let ethertype = self.pick([IPV4, IPV6, ARP]);
                let payload = self.random_bytes(0, MAX_FRAME - IP);
                self.ethernet(ethertype, &payload)
            }
            Kind::RandomFrame => self.random_bytes(IP, MAX_FRAME),
        }
    }

    fn truncated(&mut self) -> Vec<u8> {
        let mut frame = self.udp();
        frame.truncate(self.between(IP, IP + 19));
        frame
    }

    fn wrong_version(&mut self) -> Vec<u8> {
        let mut frame = self.udp();
        // Any version but the right one.
        frame[IP] ^= (self.between(1, 15) as u8) << 4;
        repair(&mut frame);
        frame
    }

    fn header_length(&mut self) -> Vec<u8> {
        let payload = self.random_bytes(0, 20);
        let mut frame = self.ipv4(UDP, &[], &payload);
        let words = self.pick([0, 1, 2, 3, 4, 15, 15]);
        frame[IP] = 0x40 | words;
        frame
    }

    fn ip_length(&mut self) -> Vec<u8> {
        let mut frame = self.udp();
        let length = self.pick([0, 1, 19, 1501, 0xffff]);
        let field = if is_v4(&frame) { IP + 2 } else { IP + 4 };
        put16(&mut frame, field, length);
        repair(&mut frame);
        frame
    }

    fn giant_options(&mut self) -> Vec<u8> {
        let options = self.random_bytes(40, 40);
        let payload = self.random_bytes(8, 64);
        self.ipv4(UDP, &options, &payload)
    }

    fn extension_chain(&mut self) -> Vec<u8> {
        // Hop-by-hop, routing, fragment and destination headers of 8 bytes each, in any order.
        let links = self.between(1, 180);
        let mut chain = Vec::new();
        for _ in 0..links {
            let next = self.pick([0, 43, 44, 60]);
            chain.extend([next, 0, 1, 4, 0, 0, 0, 0]);
        }
        let first = self.pick([0, 43, 44, 60]);
        self.ipv6(first, &chain)
    }

    fn extension_length(&mut self) -> Vec<u8> {
        let header = if self.coin() {
            // Hop-by-hop with a jumbo payload option.
            [UDP, 0, 0xc2, 4, 0, 1, 0, 0]
        } else {
            // Routing header type 0, longer than the packet.
            [UDP, 255, 0, 200, 0, 0, 0, 0]
        };
        let first = if header[2] == 0 { 43 } else { 0 };
        let mut frame = self.ipv6(first, &header);
        if first == 0 {
            put16(&mut frame, IP + 4, 0);
        }
        frame
    }

    fn ip_checksum(&mut self) -> Vec<u8> {
        let mut frame = self.udp4();
        frame[IP + 10] ^= self.between(1, 255) as u8;
        frame
    }

    fn l4_checksum(&mut self) -> Vec<u8> {
        let tcp = self.coin();
        let mut frame = if tcp { self.tcp() } else { self.udp() };
        let at = l4(&frame) + if tcp { 16 } else { 6 };
        frame[at] ^= self.between(1, 255) as u8;
        frame
    }

    fn l4_length(&mut self) -> Vec<u8> {
        if self.coin() {
            let mut frame = self.tcp();
            let at = l4(&frame) + 12;
            frame[at] = self.pick([0x00, 0x40, 0xf0]);
            frame
        } else {
            let mut frame = self.udp();
            let at = l4(&frame) + 4;
            let length = self.pick([0, 7, 9, 0xffff]);
            put16(&mut frame, at, length);
            frame
        }
    }

    fn l4_truncated(&mut self) -> Vec<u8> {
        let protocol = self.pick([TCP, UDP, ICMP, ICMPV6]);
        let stub = self.random_bytes(0, 7);
        if self.coin() {
            self.ipv4(protocol, &[], &stub)
        } else {
            self.ipv6(protocol, &stub)
        }
    }

    fn fragment(&mut self) -> Vec<u8> {
        let payload = self.random_bytes(8, 64);
        let mut frame = self.ipv4(UDP, &[], &payload);
        // Flags and offset: the last possible place, an overlap, a tiny first piece, a lone
        // tail, the reserved bit, and Don't Fragment on a fragment.
        let field = self.pick([0x1fff, 0x3fff, 0x2000, 0x0001, 0x8000, 0x6001]);
        let id = self.between(0, 3) as u16;
        put16(&mut frame, IP + 6, field);
        put16(&mut frame, IP + 4, id);
        repair(&mut frame);
        frame
    }

    fn ttl(&mut self) -> Vec<u8> {
        let mut frame = self.udp();
        let field = if is_v4(&frame) { IP + 8 } else { IP + 7 };
        frame[field] = self.pick([0, 1]);
        repair(&mut frame);
        frame
    }

    fn martian(&mut self) -> Vec<u8> {
        let addresses = [
            Ipv4Addr::UNSPECIFIED,
            Ipv4Addr::LOCALHOST,
            Ipv4Addr::BROADCAST,
            Ipv4Addr::new(224, 0, 0, 1),
            Ipv4Addr::new(240, 0, 0, 1),
            self.ends.v4[1],
        ];
        let mut frame = self.udp4();
        let (address, field) = (self.pick(addresses), self.pick([IP + 12, IP + 16]));
        frame[field..field + 4].copy_from_slice(&address.octets());
        repair(&mut frame);
        frame
    }

    fn icmp_error(&mut self) -> Vec<u8> {
        let quote = self.random_bytes(0, 60);
        let v4 = self.coin();
        let kind = if v4 {
            self.pick([3, 4, 5, 11, 12])
        } else {
            self.pick([1, 2, 3, 4, 137])
        };
        let mut message = vec![kind, self.between(0, 5) as u8, 0, 0, 0, 0, 0, 0];
        message.extend(quote);
        if v4 {
            let sum = checksum(&message);
            put16(&mut message, 2, sum);
            self.ipv4(ICMP, &[], &message)
        } else {
            self.ipv6(ICMPV6, &message)
        }
    }

    fn arp(&mut self) -> Vec<u8> {
        let [from, to] = self.ends.v4;
        let operation = self.pick([1, 1, 2, 9]);
        let mut body = vec![0, 1, 8, 0, 6, 4, 0, operation];
        body.extend(self.ends.src_mac);
        body.extend(from.octets());
        body.extend([0; 6]);
        body.extend(to.octets());
        match self.between(0, 3) {
            0 => body.truncate(self.between(0, 27)),
            1 => body[4] = 255,
            _ => {}
        }
        let mut frame = self.ethernet(ARP, &body);
        frame[..6].fill(0xff);
        frame
    }

    fn multicast(&mut self) -> Vec<u8> {
        let mut frame = self.udp();
        if !is_v4(&frame) {
            frame[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]);
            let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
            frame[IP + 24..IP + 40].copy_from_slice(&all_nodes.octets());
        } else if self.coin() {
            frame[..6].copy_from_slice(&[0x01, 0x00, 0x5e, 0, 0, 1]);
            frame[IP + 16..IP + 20].copy_from_slice(&[224, 0, 0, 1]);
        } else {
            frame[..6].fill(0xff);
            frame[IP + 16..IP + 20].fill(0xff);
        }
        repair(&mut frame);
        frame
    }

    fn vlan(&mut self) -> Vec<u8> {
        let mut frame = self.udp();
        for _ in 0..self.between(1, 4) {
            let tag = self.between(0, 0xffff) as u16;
            let tpid: u16 = self.pick([0x8100, 0x88a8]);
            let bytes = [tpid.to_be_bytes(), tag.to_be_bytes()].concat();
            frame.splice(12..12, bytes);
        }
        frame
    }

    fn unknown_protocol(&mut self) -> Vec<u8> {
        let payload = self.random_bytes(0, 100);
        match self.between(0, 2) {
            0 => {
                let ethertype = self.pick([0, 46, 0x05ff, 0x0600, 0x88cc, 0xffff]);
                self.ethernet(ethertype, &payload)
            }
            1 => self.ipv4(253, &[], &payload),
            _ => self.ipv6(253, &payload),
        }
    }

    /// A correct UDP packet, IPv4 or IPv6.
    fn udp(&mut self) -> Vec<u8> {
        if self.coin() {
            return self.udp4();
        }
        let datagram = self.datagram();
        let mut frame = self.ipv6(UDP, &datagram);
        seal(&mut frame, 6);
        frame
    }

    /// A correct UDP packet over IPv4.
    fn udp4(&mut self) -> Vec<u8> {
        let datagram = self.datagram();
        let mut frame = self.ipv4(UDP, &[], &datagram);
        seal(&mut frame, 6);
        frame
    }

    /// A UDP header, its checksum zero, and a payload.
    fn datagram(&mut self) -> Vec<u8> {
        let payload = self.random_bytes(0, 200);
        let mut datagram = vec![0x13, 0x88, 0x13, 0x88, 0, 0, 0, 0];
        datagram.extend(payload);
        let length = datagram.len() as u16;
        put16(&mut datagram, 4, length);
        datagram
    }

    /// A correct TCP segment with random flags.
    fn tcp(&mut self) -> Vec<u8> {
        let mut segment = self.random_bytes(20, 200);
        segment[12] = 0x50;
        put16(&mut segment, 16, 0);
        let mut frame = if self.coin() {
            self.ipv4(TCP, &[], &segment)
        } else {
            self.ipv6(TCP, &segment)
        };
        seal(&mut frame, 16);
        frame
    }

    fn ipv4(&mut self, protocol: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let header_len = 20 + options.len();
        let mut packet = vec![0; 20];
        packet[0] = 0x40 | (header_len / 4) as u8;
        put16(&mut packet, 2, (header_len + payload.len()) as u16);
        packet[8] = 64;
        packet[9] = protocol;
        packet[12..16].copy_from_slice(&self.ends.v4[0].octets());
        packet[16..20].copy_from_slice(&self.ends.v4[1].octets());
        packet.extend(options);
        packet.extend(payload);
        let mut frame = self.ethernet(IPV4, &packet);
        repair(&mut frame);
        frame
    }

    fn ipv6(&mut self, next_header: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 8];
        packet[0] = 0x60;
        put16(&mut packet, 4, payload.len() as u16);
        packet[6] = next_header;
        packet[7] = 64;
        packet.extend(self.ends.v6[0].octets());
        packet.extend(self.ends.v6[1].octets());
        packet.extend(payload);
        self.ethernet(IPV6, &packet)
    }

    fn ethernet(&mut self, ethertype: u16, payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::with_capacity(IP + payload.len());
        frame.extend(self.ends.dst_mac);
        frame.extend(self.ends.src_mac);
        frame.extend(ethertype.to_be_bytes());
        frame.extend(payload);
        frame
    }

    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn coin(&mut self) -> bool {
        self.draw() & 1 == 0
    }

    /// A number from `low` to `high`, both included.
    fn between(&mut self, low: usize, high: usize) -> usize {
        low + (self.draw() % (high - low + 1) as u64) as usize
    }

    fn pick<T: Copy, const N: usize>(&mut self, from: [T; N]) -> T {
        from[self.between(0, N - 1)]
    }

    fn random_bytes(&mut self, low: usize, high: usize) -> Vec<u8> {
        let length = self.between(low, high);
        (0..length).map(|_| self.draw() as u8).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::L4_OF_V4;
    use super::*;

    fn craft(seed: u64) -> Craft {
        let ends = Ends {
            src_mac: [2, 0, 0, 0, 0, 1],
            dst_mac: [2, 0, 0, 0, 0, 2],
            v4: [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)],
            v6: [Ipv6Addr::LOCALHOST; 2],
        };
        Craft::new(seed, ends)
    }

    #[test]
    fn every_kind_fits_an_ethernet_frame() {
        let mut craft = craft(1);
        for &kind in Kind::value_variants() {
            for _ in 0..500 {
                let length = craft.frame(kind).len();
                assert!((IP..=MAX_FRAME).contains(&length), "{kind:?}: {length}");
            }
        }
    }

    #[test]
    fn the_seed_decides_everything() {
        let all = |seed| -> Vec<_> {
            let mut craft = craft(seed);
            let kinds = Kind::value_variants();
            kinds.iter().map(|&kind| craft.frame(kind)).collect()
        };
        assert_eq!(all(7), all(7));
        assert_ne!(all(7), all(8));
    }

    #[test]
    fn correct_packets_have_right_checksums() {
        let mut craft = craft(3);
        for _ in 0..50 {
            let frame = craft.udp4();
            assert_eq!(checksum(&frame[IP..L4_OF_V4]), 0);
            let mut covered = frame[IP + 12..IP + 20].to_vec();
            covered.extend([0, UDP]);
            covered.extend(((frame.len() - L4_OF_V4) as u16).to_be_bytes());
            covered.extend(&frame[L4_OF_V4..]);
            assert_eq!(checksum(&covered), 0);
        }
    }

    #[test]
    fn checksums_that_should_be_wrong_are() {
        let mut craft = craft(4);
        for _ in 0..50 {
            let frame = craft.frame(Kind::IpChecksum);
            assert_ne!(checksum(&frame[IP..L4_OF_V4]), 0);
        }
    }
}
