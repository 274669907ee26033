//! Frames from sketches: a test knows what it has drawn, and need not read the frame.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use proptest::sample::select;

/// What a frame holds; addresses and ports are those of source and destination.
#[derive(Debug, Clone)]
pub(crate) struct Sketch {
    /// EtherTypes of VLAN tags.
    pub(crate) tags: Vec<u16>,
    pub(crate) network: Network,
    /// What IP carries.
    pub(crate) protocol: u8,
    pub(crate) ports: [u16; 2],
    /// Bytes behind the ports.
    pub(crate) payload: usize,
}

#[derive(Debug, Clone)]
pub(crate) enum Network {
    Ipv4 {
        ends: [Ipv4Addr; 2],
        options: usize,
        /// In units of eight bytes.
        offset: u16,
    },
    Ipv6 {
        ends: [Ipv6Addr; 2],
        extensions: Vec<u8>,
        /// Where there is a fragment header.
        offset: Option<u16>,
    },
    Arp {
        ends: [Ipv4Addr; 2],
    },
    Other,
}

impl Sketch {
    pub(crate) fn addresses(&self) -> Option<[IpAddr; 2]> {
        match self.network {
            Network::Ipv4 { ends, .. } | Network::Arp { ends } => Some(ends.map(IpAddr::from)),
            Network::Ipv6 { ends, .. } => Some(ends.map(IpAddr::from)),
            Network::Other => None,
        }
    }

    pub(crate) fn is_later_fragment(&self) -> bool {
        match self.network {
            Network::Ipv4 { offset, .. } => offset > 0,
            Network::Ipv6 { offset, .. } => offset.is_some_and(|offset| offset > 0),
            _ => false,
        }
    }

    pub(crate) fn frame(&self) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        for tag in &self.tags {
            frame.extend_from_slice(&tag.to_be_bytes());
            frame.extend_from_slice(&[0, 7]);
        }
        let mut payload: Vec<u8> = self
            .ports
            .iter()
            .flat_map(|port| port.to_be_bytes())
            .collect();
        // Where TCP has its data offset, so that other readers find a header in it.
        payload.resize(4 + self.payload, 0x50);
        match &self.network {
            Network::Ipv4 {
                ends,
                options,
                offset,
            } => {
                frame.extend_from_slice(&[0x08, 0x00, 0x45 + *options as u8, 0]);
                let len = 20 + 4 * options + payload.len();
                frame.extend_from_slice(&(len as u16).to_be_bytes());
                frame.extend_from_slice(&[0, 1]);
                frame.extend_from_slice(&offset.to_be_bytes());
                frame.extend_from_slice(&[64, self.protocol, 0, 0]);
                frame.extend(ends.iter().flat_map(|end| end.octets()));
                frame.resize(frame.len() + 4 * options, 1);
            }
            Network::Ipv6 {
                ends,
                extensions,
                offset,
            } => self.ipv6(&mut frame, *ends, extensions, *offset, payload.len()),
            Network::Arp { ends } => {
                frame.extend_from_slice(&[0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
                for end in ends {
                    frame.extend_from_slice(&[2, 0, 0, 0, 0, 9]);
                    frame.extend_from_slice(&end.octets());
                }
            }
            Network::Other => frame.extend_from_slice(&[0x88, 0xcc]),
        }
        frame.extend(payload);
        frame
    }

    fn ipv6(
        &self,
        frame: &mut Vec<u8>,
        ends: [Ipv6Addr; 2],
        extensions: &[u8],
        offset: Option<u16>,
        payload: usize,
    ) {
        let mut headers: Vec<(u8, Vec<u8>)> = extensions
            .iter()
            .map(|kind| match kind {
                51 => (
                    51,
                    vec![
                        0, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9,
                    ],
                ),
                kind => (*kind, vec![0, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            })
            .collect();
        if let Some(offset) = offset {
            let [high, low] = (offset << 3 | 1).to_be_bytes();
            headers.push((44, vec![0, 0, high, low, 0, 0, 0, 1]));
        }
        let kinds: Vec<u8> = headers
            .iter()
            .map(|(kind, _)| *kind)
            .chain([self.protocol])
            .collect();
        let len = headers
            .iter()
            .map(|(_, header)| header.len())
            .sum::<usize>()
            + payload;
        frame.extend_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend_from_slice(&(len as u16).to_be_bytes());
        frame.extend_from_slice(&[kinds[0], 64]);
        frame.extend(ends.iter().flat_map(|end| end.octets()));
        for ((_, mut header), next) in headers.into_iter().zip(&kinds[1..]) {
            header[0] = *next;
            frame.extend(header);
        }
    }
}

pub(crate) fn ipv4() -> impl Strategy<Value = Ipv4Addr> + Clone {
    select(vec![
        [10, 0, 0, 1],
        [10, 0, 0, 2],
        [10, 1, 2, 3],
        [192, 168, 7, 1],
    ])
    .prop_map(Ipv4Addr::from)
}

pub(crate) fn ipv6() -> impl Strategy<Value = Ipv6Addr> + Clone {
    let first = select(vec![0xfd00u16, 0xfd01, 0xfe80]);
    (first, 1..3u16).prop_map(|(first, last)| Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, last))
}

pub(crate) fn port() -> impl Strategy<Value = u16> + Clone {
    select(vec![0, 53, 80, 81, 443, 8080, 65535])
}

/// Any frame; with `plain`, one in which libpcap finds what there is: no tags, no extension headers
/// before ports.
pub(crate) fn sketch(plain: bool) -> impl Strategy<Value = Sketch> {
    let ends4 = || [ipv4(), ipv4()];
    let extension = select(vec![0u8, 43, 51, 60, 135, 139, 140]);
    let v4 =
        (ends4(), 0..4usize, select(vec![0, 0, 0, 1, 185])).prop_map(|(ends, options, offset)| {
            Network::Ipv4 {
                ends,
                options,
                offset,
            }
        });
    let v6 = (
        [ipv6(), ipv6()],
        prop::collection::vec(extension, 0..5),
        select(vec![None, None, Some(0), Some(1), Some(185)]),
    )
        .prop_map(move |(ends, extensions, offset)| {
            if plain {
                Network::Ipv6 {
                    ends,
                    extensions: Vec::new(),
                    offset: offset.filter(|offset| *offset > 0),
                }
            } else {
                Network::Ipv6 {
                    ends,
                    extensions,
                    offset,
                }
            }
        });
    let arp = ends4().prop_map(|ends| Network::Arp { ends });
    let network = prop_oneof![4 => v4, 4 => v6, 1 => arp, 1 => Just(Network::Other)];
    let tags = prop::collection::vec(select(vec![0x8100, 0x88a8]), 0..if plain { 1 } else { 3 });
    let protocol = select(vec![1u8, 6, 6, 17, 17, 58, 59, 132]);
    (tags, network, protocol, [port(), port()], 20..120usize).prop_map(
        |(tags, network, protocol, ports, payload)| Sketch {
            tags,
            network,
            protocol,
            ports,
            payload,
        },
    )
}
