//! What routers answer to IPv4 packets, byte for byte, and when they are silent.

use etherparse::{Ipv4Header, TcpHeader};
use longhaul_core::packet::parse;
use longhaul_core::router::{PuntReason, Responder};
use longhaul_proto::RouterReplies;

use crate::common::*;

const REASONS: [PuntReason; 4] = [
    PuntReason::Local,
    PuntReason::HopLimit,
    PuntReason::TooBig { mtu: 1400 },
    PuntReason::NoRoute,
];

/// The header of an ICMP error of a new router.
fn error_header() -> Ipv4Header {
    Ipv4Header {
        dscp: (0xc0 >> 2).try_into().unwrap(),
        ..v4(ROUTER, HOST)
    }
}

fn error(kind: u8, code: u8, word: [u8; 4], quoted: &[u8]) -> Vec<u8> {
    frame!(to_host(error_header()).icmpv4_raw(kind, code, word), quoted)
}

fn udp_to(destination: std::net::Ipv4Addr, payload: &[u8]) -> Vec<u8> {
    frame!(from_host(v4(HOST, destination)).udp(33000, 33434), payload)
}

#[test]
fn echo_is_answered_at_any_size() {
    for len in [0, 1, 2, 3, 56, 57, 1472, 65_507] {
        let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
        let request = frame!(
            from_host(v4(HOST, ROUTER)).icmpv4_echo_request(7, 9),
            &payload
        );
        let expected = frame!(to_host(v4(ROUTER, HOST)).icmpv4_echo_reply(7, 9), &payload);
        assert_eq!(
            respond(PuntReason::Local, &request),
            Some(expected),
            "{len} bytes"
        );
    }
}

#[test]
fn echo_ignores_padding_and_options() {
    let mut header = v4(HOST, ROUTER);
    header.options = [7, 7, 4, 0, 0, 0, 0, 0].into();
    let mut request = frame!(from_host(header).icmpv4_echo_request(7, 9), b"x");
    request.resize(request.len() + 20, 0x55);
    let expected = frame!(to_host(v4(ROUTER, HOST)).icmpv4_echo_reply(7, 9), b"x");
    assert_eq!(respond(PuntReason::Local, &request), Some(expected));
}

#[test]
fn broken_echo_is_not_answered() {
    let mut request = frame!(
        from_host(v4(HOST, ROUTER)).icmpv4_echo_request(7, 9),
        b"abcd"
    );
    *request.last_mut().unwrap() ^= 1;
    assert_eq!(respond(PuntReason::Local, &request), None, "ICMP checksum");
    let reply = frame!(from_host(v4(HOST, ROUTER)).icmpv4_echo_reply(7, 9), b"abcd");
    assert_eq!(respond(PuntReason::Local, &reply), None, "a reply");
    let short = raw_v4(v4(HOST, ROUTER), 1, &[8, 0, 0xf7, 0xff]);
    assert_eq!(respond(PuntReason::Local, &short), None, "half a header");
}

#[test]
fn identification_counts_replies_of_each_router() {
    let mut replies = RouterReplies::new();
    let request = frame!(from_host(v4(HOST, ROUTER)).icmpv4_echo_request(7, 9), b"x");
    let reset = frame!(from_host(v4(HOST, ROUTER)).tcp(1, 2, 3, 4).rst(), &[]);
    for expected in 0..3 {
        let reply = respond_with(&mut replies, PuntReason::Local, &request).unwrap();
        assert_eq!(reply[18..20], [0, expected]);
        assert_eq!(respond_with(&mut replies, PuntReason::Local, &reset), None);
    }
    let mut other = router();
    other.ipv4 = [10, 0, 1, 254].into();
    let mut reply = [0; 100];
    replies
        .respond(&other, PuntReason::Local, &request, &mut reply)
        .unwrap();
    assert_eq!(reply[18..20], [0, 0]);
}

#[test]
fn udp_finds_no_port() {
    let datagram = udp_to(ROUTER, b"traceroute");
    let expected = error(3, 3, [0; 4], &datagram[14..]);
    assert_eq!(respond(PuntReason::Local, &datagram), Some(expected));

    let mut no_checksum = datagram.clone();
    no_checksum[40..42].fill(0);
    assert!(respond(PuntReason::Local, &no_checksum).is_some());
    let mut broken = datagram.clone();
    broken[40] ^= 1;
    assert_eq!(respond(PuntReason::Local, &broken), None);
    let mut too_long = no_checksum;
    too_long[38..40].copy_from_slice(&19u16.to_be_bytes());
    assert_eq!(respond(PuntReason::Local, &too_long), None);
}

#[test]
fn tcp_is_reset() {
    let expected = |sequence: u32, acknowledged: Option<u32>| {
        let mut header = TcpHeader::new(80, 40000, sequence, 0);
        header.rst = true;
        header.ack = acknowledged.is_some();
        header.acknowledgment_number = acknowledged.unwrap_or(0);
        Some(frame!(to_host(v4(ROUTER, HOST)).tcp_header(header), &[]))
    };
    let segment = || from_host(v4(HOST, ROUTER)).tcp(40000, 80, u32::MAX, 1000);
    let syn = frame!(segment().syn(), &[]);
    assert_eq!(
        respond(PuntReason::Local, &syn),
        expected(0, Some(0)),
        "SYN counts, wrapping"
    );
    let fast_open = frame!(segment().syn(), b"hello");
    assert_eq!(respond(PuntReason::Local, &fast_open), expected(0, Some(5)));
    let fin = frame!(segment().fin(), b"hello");
    assert_eq!(respond(PuntReason::Local, &fin), expected(0, Some(5)));
    let options = [etherparse::TcpOptionElement::MaximumSegmentSize(1460)];
    let with_options = frame!(segment().syn().options(&options).unwrap(), &[]);
    assert_eq!(
        respond(PuntReason::Local, &with_options),
        expected(0, Some(0))
    );
    let ack = frame!(segment().ack(77), b"hello");
    assert_eq!(respond(PuntReason::Local, &ack), expected(77, None));
    let rst = frame!(segment().rst(), &[]);
    assert_eq!(respond(PuntReason::Local, &rst), None);
    let mut broken = syn.clone();
    broken[41] ^= 1;
    assert_eq!(respond(PuntReason::Local, &broken), None);
}

#[test]
fn other_protocols_are_unreachable() {
    let packet = raw_v4(v4(HOST, ROUTER), 132, b"sctp");
    let expected = error(3, 2, [0; 4], &packet[14..]);
    assert_eq!(respond(PuntReason::Local, &packet), Some(expected));
}

#[test]
fn errors_say_why_and_quote() {
    for (reason, kind, code, word) in [
        (PuntReason::HopLimit, 11, 0, [0; 4]),
        (PuntReason::NoRoute, 3, 0, [0; 4]),
        (PuntReason::TooBig { mtu: 1400 }, 3, 4, [0, 0, 0x05, 0x78]),
        (
            PuntReason::TooBig { mtu: 100_000 },
            3,
            4,
            [0, 0, 0xff, 0xff],
        ),
    ] {
        for len in [0, 100, 519, 520, 521, 1472] {
            let mut packet = udp_to(FAR, &vec![1; len]);
            let quoted = packet[14..].len().min(548);
            let expected = error(kind, code, word, &packet[14..14 + quoted]);
            assert!(expected.len() <= 14 + 576);
            packet.resize(packet.len() + 9, 0xee);
            assert_eq!(
                respond(reason, &packet),
                Some(expected),
                "{reason:?}, {len} bytes"
            );
        }
    }
}

#[test]
fn a_packet_with_ttl_0_can_be_reported() {
    let mut header = v4(HOST, FAR);
    header.time_to_live = 0;
    let packet = frame!(from_host(header).udp(1, 2), b"x");
    assert_eq!(
        respond(PuntReason::HopLimit, &packet),
        Some(error(11, 0, [0; 4], &packet[14..]))
    );
}

#[test]
fn service_is_kept_and_ecn_is_not() {
    let mut header = v4(HOST, ROUTER);
    header.dscp = 0x2e.try_into().unwrap();
    header.ecn = 3.try_into().unwrap();
    let request = frame!(from_host(header.clone()).icmpv4_echo_request(7, 9), b"x");
    assert_eq!(respond(PuntReason::Local, &request).unwrap()[15], 0xb8);
    let packet = frame!(from_host(header).udp(1, 2), b"x");
    assert_eq!(
        respond(PuntReason::NoRoute, &packet).unwrap()[15],
        0xc0 | 0x18
    );
}

#[test]
fn no_error_about_errors() {
    let reasons = [
        PuntReason::HopLimit,
        PuntReason::TooBig { mtu: 68 },
        PuntReason::NoRoute,
    ];
    for reason in reasons {
        for kind in 0..=255 {
            let packet = frame!(from_host(v4(HOST, FAR)).icmpv4_raw(kind, 0, [0; 4]), b"x");
            let is_query = matches!(kind, 0 | 8..=10 | 13..=18 | 42 | 43);
            assert_eq!(respond(reason, &packet).is_some(), is_query, "type {kind}");
        }
        let nothing = raw_v4(v4(HOST, FAR), 1, &[]);
        assert_eq!(respond(reason, &nothing), None, "no type at all");
    }
}

#[test]
fn fragments_are_reported_once_and_never_reassembled() {
    let request = frame!(
        from_host(v4(HOST, ROUTER)).icmpv4_echo_request(7, 9),
        &[1; 16]
    );
    for (more, offset, about) in [(true, 0, true), (true, 1, false), (false, 3, false)] {
        let mut header = v4(HOST, ROUTER);
        header.more_fragments = more;
        header.fragment_offset = offset.try_into().unwrap();
        let fragment = raw_v4(header, 1, &request[34..]);
        assert_eq!(respond(PuntReason::Local, &fragment), None);
        assert_eq!(respond(PuntReason::HopLimit, &fragment).is_some(), about);
        assert_eq!(respond(PuntReason::NoRoute, &fragment).is_some(), about);
    }
}

#[test]
fn silence_towards_what_is_no_single_node() {
    for reason in REASONS {
        for source in [
            "0.0.0.0",
            "127.0.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
        ] {
            let packet = frame!(
                from_host(v4(source.parse().unwrap(), ROUTER)).udp(1, 2),
                b"x"
            );
            assert_eq!(respond(reason, &packet), None, "from {source}");
        }
        for destination in ["0.0.0.0", "127.0.0.1", "224.0.0.251", "255.255.255.255"] {
            let packet = udp_to(destination.parse().unwrap(), b"x");
            assert_eq!(respond(reason, &packet), None, "to {destination}");
        }
        let mut to_group = udp_to(ROUTER, b"x");
        to_group[0] |= 1;
        assert_eq!(respond(reason, &to_group), None, "to a group of stations");
        let mut from_group = udp_to(ROUTER, b"x");
        from_group[6] |= 1;
        assert_eq!(
            respond(reason, &from_group),
            None,
            "from a group of stations"
        );
        let mut broken = udp_to(ROUTER, b"x");
        broken[24] ^= 1;
        assert_eq!(respond(reason, &broken), None, "header checksum");
        let mut arp = udp_to(ROUTER, b"x");
        arp[13] = 6;
        assert_eq!(respond(reason, &arp), None, "ARP");
    }
}

#[test]
fn short_buffers_and_short_frames_are_no_reply() {
    let echo = frame!(
        from_host(v4(HOST, ROUTER)).icmpv4_echo_request(7, 9),
        b"abc"
    );
    let syn = frame!(from_host(v4(HOST, ROUTER)).tcp(1, 2, 3, 4).syn(), &[]);
    for (frame, reason) in [
        (&echo, PuntReason::Local),
        (&echo, PuntReason::NoRoute),
        (&syn, PuntReason::Local),
    ] {
        let needed = respond(reason, frame).unwrap().len();
        let mut replies = RouterReplies::new();
        for room in 0..needed {
            let mut reply = vec![0; room];
            assert_eq!(replies.respond(&router(), reason, frame, &mut reply), None);
        }
        for len in 0..frame.len() {
            assert_eq!(respond(reason, &frame[..len]), None);
        }
    }
}

#[test]
fn replies_may_enter_the_network_and_end_there() {
    let echo = frame!(
        from_host(v4(HOST, ROUTER)).icmpv4_echo_request(7, 9),
        b"abc"
    );
    let syn = frame!(from_host(v4(HOST, ROUTER)).tcp(1, 2, 3, 4).syn(), &[]);
    for frame in [
        echo,
        syn,
        udp_to(ROUTER, b"x"),
        raw_v4(v4(HOST, ROUTER), 99, b"x"),
    ] {
        let reply = respond(PuntReason::Local, &frame).unwrap();
        assert!(parse(&reply).is_ok());
        assert_eq!(
            respond(PuntReason::Local, &reply),
            None,
            "no conversation between routers"
        );
    }
}
