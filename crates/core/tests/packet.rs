//! Headers at ingress: known packets byte for byte, and laws over arbitrary ones.

use std::net::Ipv4Addr;

use longhaul_core::packet::{
    BROADCAST_MAC, Destination, ETHERNET_LEN, FrameError, Headers, fold, group_mac,
    lower_hop_limit, parse, parse_any, source, sum16,
};
use proptest::prelude::*;

/// An echo request 10.0.0.1 → 10.0.0.2, TTL 64, DF, header checksum worked out by hand:
/// 4500+001c+1234+4000+4001+0a00+0001+0a00+0002 = eb54 → 14ab.
const PING_V4: [u8; 42] = [
    0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, 0x08, 0x00, // Ethernet
    0x45, 0, 0x00, 0x1c, 0x12, 0x34, 0x40, 0x00, 64, 1, 0x14, 0xab, // IPv4
    10, 0, 0, 1, 10, 0, 0, 2, // addresses
    8, 0, 0xf7, 0xfd, 0, 1, 0, 1, // ICMP
];

/// An empty UDP datagram fd00::1 → fd00::2, hop limit 3.
fn udp_v6() -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, 0x86, 0xdd];
    frame.extend([0x60, 0, 0, 0, 0, 8, 17, 3]);
    for last in [1, 2] {
        frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    frame.extend([0x30, 0x39, 0, 9, 0, 8, 0, 0]);
    frame
}

#[test]
fn a_source_is_read_from_whatever_is_long_enough() {
    let v4 = Destination::V4([10, 0, 0, 1].into());
    assert_eq!(source(&PING_V4), Some(v4));
    let v6 = udp_v6();
    assert_eq!(
        source(&v6),
        Some(Destination::V6("fd00::1".parse().unwrap()))
    );
    assert_eq!(source(&PING_V4[..ETHERNET_LEN + 15]), None);
    assert_eq!(source(&v6[..ETHERNET_LEN + 23]), None);
    assert_eq!(source(&[]), None);
}

/// The header checksum, computed in the plainest way.
fn checksum(header: &[u8]) -> u16 {
    let mut sum = 0u32;
    for (i, pair) in header.chunks(2).enumerate() {
        if i != 5 {
            sum += u32::from(pair[0]) * 256 + u32::from(pair[1]);
        }
    }
    while sum > 0xffff {
        sum = sum % 65536 + sum / 65536;
    }
    65535 - sum as u16
}

fn seal(frame: &mut [u8]) {
    let len = (usize::from(frame[14] & 15) * 4).min(frame.len() - 14);
    let value = checksum(&frame[14..14 + len]);
    frame[24..26].copy_from_slice(&value.to_be_bytes());
}

/// `PING_V4` with bytes of its IP packet replaced, and a right checksum.
fn ping_with(edits: &[(usize, u8)]) -> Vec<u8> {
    let mut frame = PING_V4.to_vec();
    for (at, value) in edits {
        frame[ETHERNET_LEN + at] = *value;
    }
    seal(&mut frame);
    frame
}

#[test]
fn reads_ipv4() {
    let expected = Headers {
        destination: Destination::V4(Ipv4Addr::new(10, 0, 0, 2)),
        hop_limit: 64,
        ip_len: 28,
        may_fragment: false,
    };
    assert_eq!(parse(&PING_V4), Ok(expected));
    let mut padded = PING_V4.to_vec();
    padded.resize(60, 0xee);
    assert_eq!(
        parse(&padded),
        Ok(expected),
        "padding is not part of the packet"
    );
    let without_df = parse(&ping_with(&[(6, 0)])).expect("still sound");
    assert!(without_df.may_fragment);
}

#[test]
fn reads_ipv6() {
    let expected = Headers {
        destination: Destination::V6("fd00::2".parse().expect("an address")),
        hop_limit: 3,
        ip_len: 48,
        may_fragment: false,
    };
    assert_eq!(parse(&udp_v6()), Ok(expected));
}

#[test]
fn every_truncation_is_malformed() {
    for frame in [PING_V4.to_vec(), udp_v6()] {
        for len in 0..frame.len() {
            assert_eq!(
                parse(&frame[..len]),
                Err(FrameError::Malformed),
                "{len} bytes"
            );
        }
    }
}

#[test]
fn what_is_not_ip_is_refused() {
    for ethertype in [0x0806u16, 0x8100, 0x88a8, 0x8863, 0x0000, 46] {
        let mut frame = PING_V4;
        frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
        assert_eq!(parse(&frame), Err(FrameError::NotIp), "{ethertype:04x}");
    }
}

#[test]
fn broken_ipv4_headers_are_malformed() {
    let mut wrong_checksum = PING_V4;
    wrong_checksum[24] ^= 1;
    assert_eq!(parse(&wrong_checksum), Err(FrameError::Malformed));
    let cases: &[(&str, &[(usize, u8)])] = &[
        ("version 6", &[(0, 0x65)]),
        ("header shorter than 20", &[(0, 0x44)]),
        ("header longer than the packet", &[(0, 0x4f)]),
        ("total length below the header", &[(3, 19)]),
        ("total length beyond the frame", &[(3, 29)]),
        ("TTL 0", &[(8, 0)]),
        ("fragment beyond 65535", &[(6, 0x1f), (7, 0xff)]),
        ("source 0.0.0.0", &[(12, 0)]),
        ("source loopback", &[(12, 127)]),
        ("source multicast", &[(12, 224)]),
        ("destination loopback", &[(16, 127)]),
        ("destination 0/8", &[(16, 0)]),
    ];
    for (what, edits) in cases {
        assert_eq!(
            parse(&ping_with(edits)),
            Err(FrameError::Malformed),
            "{what}"
        );
    }
}

#[test]
fn broken_ipv6_headers_are_malformed() {
    let cases: &[(&str, usize, u8)] = &[
        ("version 4", 0, 0x40),
        ("payload beyond the frame", 5, 9),
        ("hop limit 0", 7, 0),
        ("source multicast", 8, 0xff),
    ];
    for (what, at, value) in cases {
        let mut frame = udp_v6();
        frame[ETHERNET_LEN + at] = *value;
        assert_eq!(parse(&frame), Err(FrameError::Malformed), "{what}");
    }
    let mut jumbogram = udp_v6();
    (jumbogram[18], jumbogram[19], jumbogram[20]) = (0, 0, 0);
    assert_eq!(parse(&jumbogram), Err(FrameError::Malformed));
    for address_at in [22, 38] {
        let mut frame = udp_v6();
        frame[address_at] = 0;
        frame[address_at + 15] = 1;
        assert_eq!(
            parse(&frame),
            Err(FrameError::Malformed),
            "loopback at {address_at}"
        );
        frame[address_at + 15] = 0;
        assert_eq!(
            parse(&frame),
            Err(FrameError::Malformed),
            "unspecified at {address_at}"
        );
    }
}

#[test]
fn groups_are_multicast() {
    let to = |a, b, c, d| ping_with(&[(16, a), (17, b), (18, c), (19, d)]);
    assert_eq!(parse(&to(224, 0, 0, 251)), Err(FrameError::Multicast));
    assert_eq!(parse(&to(255, 255, 255, 255)), Err(FrameError::Multicast));
    let mut discover = ping_with(&[(12, 0), (15, 0), (16, 255), (17, 255), (18, 255), (19, 255)]);
    assert_eq!(
        parse(&discover),
        Err(FrameError::Multicast),
        "DHCP, not a forgery"
    );
    discover[24] ^= 1;
    assert_eq!(parse(&discover), Err(FrameError::Malformed));
    for mut frame in [PING_V4.to_vec(), udp_v6()] {
        frame[0] |= 1;
        assert_eq!(parse(&frame), Err(FrameError::Multicast), "Ethernet group");
        frame[0] &= 0xfe;
        frame[6] |= 1;
        assert_eq!(
            parse(&frame),
            Err(FrameError::Malformed),
            "from an Ethernet group"
        );
    }
    let mut neighbours = udp_v6();
    neighbours[38] = 0xff;
    assert_eq!(parse(&neighbours), Err(FrameError::Multicast));
}

#[test]
fn groups_are_read_where_they_are_asked_for() {
    let to = |a, b, c, d| ping_with(&[(16, a), (17, b), (18, c), (19, d)]);
    let groups = [
        (to(224, 0, 0, 251), [0x01, 0x00, 0x5e, 0, 0, 251]),
        (to(239, 255, 2, 3), [0x01, 0x00, 0x5e, 0x7f, 2, 3]),
        (to(255, 255, 255, 255), BROADCAST_MAC),
    ];
    for (frame, mac) in groups {
        let headers = parse_any(&frame).expect("sound");
        assert_eq!(
            (headers.destination, headers.ip_len),
            (Destination::Group, 28)
        );
        assert_eq!(group_mac(&frame), mac);
        for (what, edit) in [
            ("TTL 0", (8, 0)),
            ("source loopback", (12, 127)),
            ("source multicast", (12, 230)),
            ("source 0/8 but 0.0.0.0", (12, 0)),
        ] {
            let mut frame = frame.clone();
            frame[ETHERNET_LEN + edit.0] = edit.1;
            seal(&mut frame);
            assert_eq!(parse_any(&frame), Err(FrameError::Malformed), "{what}");
        }
        let mut from_nobody = frame.clone();
        from_nobody[26..30].fill(0);
        seal(&mut from_nobody);
        assert!(parse_any(&from_nobody).is_ok(), "DHCP");
    }
    assert_eq!(parse_any(&to(240, 0, 0, 1)), parse(&to(240, 0, 0, 1)));
    let mut frame = udp_v6();
    frame[38..54].copy_from_slice(&[0xff, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]);
    let headers = parse_any(&frame).expect("sound");
    assert_eq!(headers.destination, Destination::Group);
    assert_eq!(group_mac(&frame), [0x33, 0x33, 1, 2, 3, 4]);
    frame[22..38].fill(0);
    assert!(parse_any(&frame).is_ok(), "MLD before there is an address");
    frame[37] = 1;
    assert_eq!(
        parse_any(&frame),
        Err(FrameError::Malformed),
        "from loopback"
    );
    // A group of stations, and one node: a network carries no such thing.
    for mut frame in [PING_V4.to_vec(), udp_v6()] {
        frame[0] |= 1;
        assert_eq!(parse_any(&frame), Err(FrameError::Multicast));
    }
}

#[test]
fn options_must_fit() {
    let with_options = |options: [u8; 8]| {
        let mut frame = PING_V4[..34].to_vec();
        frame.extend(options);
        frame.extend(&PING_V4[34..]);
        frame[14] = 0x47;
        frame[17] += 8;
        seal(&mut frame);
        parse(&frame)
    };
    assert!(
        with_options([7, 7, 4, 0, 0, 0, 0, 0]).is_ok(),
        "record route, end"
    );
    assert!(
        with_options([1, 1, 1, 1, 148, 4, 0, 0]).is_ok(),
        "padding, router alert"
    );
    assert!(
        with_options([0, 7, 99, 0, 0, 0, 0, 0]).is_ok(),
        "nothing counts after the end"
    );
    assert_eq!(
        with_options([7, 9, 4, 0, 0, 0, 0, 0]),
        Err(FrameError::Malformed)
    );
    assert_eq!(
        with_options([7, 1, 4, 0, 0, 0, 0, 0]),
        Err(FrameError::Malformed)
    );
    assert_eq!(
        with_options([7, 0, 4, 0, 0, 0, 0, 0]),
        Err(FrameError::Malformed)
    );
    assert_eq!(
        with_options([1, 1, 1, 1, 1, 1, 1, 7]),
        Err(FrameError::Malformed)
    );
}

#[test]
fn lowering_keeps_checksums_at_the_edges() {
    // Identifications chosen freely sweep the checksum over all its values.
    for identification in 0..=u16::MAX {
        let [high, low] = identification.to_be_bytes();
        let mut frame = ping_with(&[(4, high), (5, low), (9, 255), (8, 255)]);
        lower_hop_limit(&mut frame, 1);
        let lowered = frame.clone();
        seal(&mut frame);
        assert_eq!(lowered, frame, "identification {identification:04x}");
    }
    // A checksum of 0xffff is another way to write 0x0000.
    let zero = (0..=u16::MAX)
        .map(|id| ping_with(&[(4, id.to_be_bytes()[0]), (5, id.to_be_bytes()[1])]))
        .find(|frame| frame[24..26] == [0, 0])
        .expect("one identification gives checksum 0");
    let mut other_zero = zero.clone();
    other_zero[24..26].fill(0xff);
    assert!(parse(&other_zero).is_ok());
    for mut frame in [zero, other_zero] {
        lower_hop_limit(&mut frame, 1);
        let lowered = frame.clone();
        seal(&mut frame);
        assert_eq!(lowered, frame);
    }
}

fn any_ipv4() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop::collection::vec(any::<u8>(), 0..200);
    (any::<[u8; 20]>(), 5u8..=15, payload, 0usize..40).prop_map(|(head, words, payload, pad)| {
        let mut frame = vec![0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, 0x08, 0x00];
        frame.extend(head);
        frame.resize(14 + usize::from(words) * 4, 1);
        frame.extend(payload);
        let len = (frame.len() - 14) as u16;
        frame[14] = 0x40 | words;
        frame[16..18].copy_from_slice(&len.to_be_bytes());
        frame[20] &= 0x4f; // a low offset
        frame[22] = frame[22].max(1);
        (frame[26], frame[30]) = (10, 10);
        seal(&mut frame);
        frame.resize(frame.len() + pad, 0);
        frame
    })
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(mut frame in prop::collection::vec(any::<u8>(), 0..200), by: u8) {
        let _ = (parse(&frame), parse_any(&frame), group_mac(&frame));
        lower_hop_limit(&mut frame, by);
        if frame.len() > 14 {
            frame[6] = 2;
            for ethertype in [0x0800u16, 0x86dd] {
                frame[0] = 2;
                frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
                let _ = (parse(&frame), parse_any(&frame), group_mac(&frame));
                lower_hop_limit(&mut frame, by);
            }
        }
    }

    #[test]
    fn sound_packets_are_read(frame in any_ipv4()) {
        let headers = parse(&frame).expect("sound");
        prop_assert_eq!(headers.hop_limit, frame[22]);
        prop_assert!(ETHERNET_LEN + headers.ip_len as usize <= frame.len());
    }

    #[test]
    fn one_flipped_header_bit_is_noticed(mut frame in any_ipv4(), at in 1usize..20, bit in 0u8..8) {
        frame[ETHERNET_LEN + at] ^= 1u8 << bit;
        prop_assert!(parse(&frame).is_err());
    }

    #[test]
    fn lowering_equals_computing_afresh(mut frame in any_ipv4(), by: u8) {
        let by = by.min(frame[22]);
        let hop_limit = frame[22] - by;
        lower_hop_limit(&mut frame, by);
        prop_assert_eq!(frame[22], hop_limit);
        let lowered = frame.clone();
        seal(&mut frame);
        prop_assert_eq!(lowered, frame);
    }

    #[test]
    fn sums_equal_the_plain_way(bytes in prop::collection::vec(any::<u8>(), 0..100), any: u64) {
        let mut sum = 0u64;
        for pair in bytes.chunks(2) {
            sum += u64::from(pair[0]) * 256 + u64::from(*pair.get(1).unwrap_or(&0));
        }
        while sum > 0xffff {
            sum = sum % 65536 + sum / 65536;
        }
        prop_assert_eq!(u64::from(sum16(&bytes)), sum);
        prop_assert_eq!(u64::from(fold(any)) % 65535, any % 65535);
    }
}
