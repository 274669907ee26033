//! The oracle: a sender without offload, field by field and with a checksum of its own.

use longhaul_core::segment::{Kind, Offload, Partial};

/// What a program has asked its kernel to send at once.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) is_ipv6: bool,
    pub(crate) is_tcp: bool,
    /// Words of TCP options.
    pub(crate) options: usize,
    /// Bytes of an IPv6 destination options header.
    pub(crate) extension: usize,
    pub(crate) flags: u8,
    pub(crate) sequence: u32,
    pub(crate) id: u16,
    pub(crate) ecn: u8,
    pub(crate) hop_limit: u8,
    pub(crate) size: usize,
    pub(crate) payload: Vec<u8>,
}

/// The sum of 16-bit words, the slow way.
fn add(mut sum: u32, bytes: &[u8]) -> u32 {
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

impl Sent {
    fn transport(&self) -> usize {
        14 + if self.is_ipv6 {
            40 + self.extension
        } else {
            20
        }
    }

    pub(crate) fn headers(&self) -> usize {
        let transport = if self.is_tcp {
            20 + 4 * self.options
        } else {
            8
        };
        self.transport() + transport
    }

    pub(crate) fn checksum(&self) -> Partial {
        Partial {
            start: self.transport() as u16,
            offset: if self.is_tcp { 16 } else { 6 },
        }
    }

    pub(crate) fn segments(&self) -> usize {
        self.payload.len().div_ceil(self.size)
    }

    /// One packet of this sender: the bytes from `offset`, in place `number`.
    fn packet(&self, number: usize, payload: &[u8], flags: u8, is_partial: bool) -> Vec<u8> {
        let (protocol, segment) = (
            if self.is_tcp { 6 } else { 17 },
            self.headers() - self.transport(),
        );
        let segment = segment + payload.len();
        let mut frame = vec![2; 12];
        let (source, destination): (Vec<u8>, Vec<u8>) = if self.is_ipv6 {
            frame.extend([0x86, 0xdd, 0x60, self.ecn << 4, 0, 0]);
            frame.extend(((segment + self.extension) as u16).to_be_bytes());
            frame.extend([
                if self.extension > 0 { 60 } else { protocol },
                self.hop_limit,
            ]);
            let address = |n: u128| (0xfd00u128 << 112 | n).to_be_bytes().to_vec();
            (address(0), address(1))
        } else {
            frame.extend([0x08, 0, 0x45, self.ecn]);
            frame.extend(((20 + segment) as u16).to_be_bytes());
            frame.extend(self.id.wrapping_add(number as u16).to_be_bytes());
            frame.extend([0x40, 0, self.hop_limit, protocol, 0, 0]);
            (vec![10, 0, 0, 1], vec![10, 0, 0, 2])
        };
        frame.extend(&source);
        frame.extend(&destination);
        if self.extension > 0 {
            frame.extend([
                protocol,
                (self.extension / 8 - 1) as u8,
                1,
                self.extension as u8 - 4,
            ]);
            frame.extend(vec![0; self.extension - 4]);
        }
        if !self.is_ipv6 {
            let sum = !(add(0, &frame[14..34]) as u16);
            frame[24..26].copy_from_slice(&sum.to_be_bytes());
        }
        frame.extend([0x30, 0x39, 0x14, 0x51]);
        if self.is_tcp {
            frame.extend(
                self.sequence
                    .wrapping_add((number * self.size) as u32)
                    .to_be_bytes(),
            );
            frame.extend([
                1,
                2,
                3,
                4,
                (5 + self.options as u8) << 4,
                flags,
                0xff,
                0xff,
                0,
                0,
                0,
                0,
            ]);
            frame.extend((0..4 * self.options).map(|n| n as u8));
        } else {
            frame.extend((segment as u16).to_be_bytes());
            frame.extend([0, 0]);
        }
        frame.extend(payload);
        let pseudo = add(add(0, &source), &destination) + u32::from(protocol);
        let pseudo = add(pseudo, &(segment as u16).to_be_bytes());
        let sum = if is_partial {
            add(pseudo, &[]) as u16
        } else {
            match !(add(pseudo, &frame[self.transport()..]) as u16) {
                0 => 0xffff,
                sum => sum,
            }
        };
        let at = self.transport() + usize::from(self.checksum().offset);
        frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    /// What it hands over with offload.
    pub(crate) fn super_packet(&self) -> (Vec<u8>, Offload) {
        let offload = Offload {
            kind: if self.is_tcp { Kind::Tcp } else { Kind::Udp },
            size: self.size as u16,
            checksum: Some(self.checksum()),
            ..Offload::default()
        };
        (self.packet(0, &self.payload, self.flags, true), offload)
    }

    /// What it sends without.
    pub(crate) fn packets(&self) -> Vec<Vec<u8>> {
        let last = self.segments() - 1;
        let pieces = self.payload.chunks(self.size).enumerate();
        pieces
            .map(|(number, payload)| {
                let mut flags = self.flags;
                flags &= if number < last { !0x09 } else { 0xff };
                flags &= if number > 0 { !0x80 } else { 0xff };
                self.packet(number, payload, flags, false)
            })
            .collect()
    }
}
