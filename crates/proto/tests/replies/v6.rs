//! What routers answer to IPv6 packets, byte for byte, and when they are silent.

use etherparse::TcpHeader;
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

fn error(kind: u8, code: u8, word: [u8; 4], quoted: &[u8]) -> Vec<u8> {
    frame!(
        to_host(v6(ROUTER6, HOST6)).icmpv6_raw(kind, code, word),
        quoted
    )
}

fn udp_to(destination: std::net::Ipv6Addr, payload: &[u8]) -> Vec<u8> {
    frame!(from_host(v6(HOST6, destination)).udp(33000, 33434), payload)
}

fn echo(payload: &[u8]) -> Vec<u8> {
    frame!(
        from_host(v6(HOST6, ROUTER6)).icmpv6_echo_request(7, 9),
        payload
    )
}

#[test]
fn echo_is_answered_at_any_size() {
    for len in [0, 1, 2, 3, 56, 57, 1452, 65_527] {
        let payload: Vec<u8> = (0..len).map(|i| i as u8).collect();
        let expected = frame!(
            to_host(v6(ROUTER6, HOST6)).icmpv6_echo_reply(7, 9),
            &payload
        );
        let mut request = echo(&payload);
        request.resize(request.len() + 3, 0x55);
        assert_eq!(
            respond(PuntReason::Local, &request),
            Some(expected),
            "{len} bytes"
        );
    }
}

#[test]
fn echo_is_found_behind_extension_headers() {
    let request = echo(b"abc");
    let expected = frame!(to_host(v6(ROUTER6, HOST6)).icmpv6_echo_reply(7, 9), b"abc");
    let mut payload = vec![60, 0, 1, 4, 0, 0, 0, 0]; // hop-by-hop
    payload.extend([43, 1, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]); // destination options
    payload.extend([44, 0, 4, 0, 0, 0, 0, 0]); // routing, no segments left
    payload.extend([58, 0, 0, 0, 1, 2, 3, 4]); // an atomic fragment
    payload.extend(&request[54..]);
    let frame = raw_v6(v6(HOST6, ROUTER6), 0, &payload);
    assert_eq!(respond(PuntReason::Local, &frame), Some(expected));
    for cut in 0..payload.len() {
        let frame = raw_v6(v6(HOST6, ROUTER6), 0, &payload[..cut]);
        assert_eq!(respond(PuntReason::Local, &frame), None, "cut to {cut}");
        // From the whole chain on, up to the type, an error about it would be allowed.
        let reported = respond(PuntReason::HopLimit, &frame).is_some();
        assert_eq!(reported, cut > 40, "cut to {cut}");
    }
}

#[test]
fn broken_echo_is_not_answered() {
    let mut request = echo(b"abcd");
    *request.last_mut().unwrap() ^= 1;
    assert_eq!(respond(PuntReason::Local, &request), None, "ICMP checksum");
    let reply = frame!(
        from_host(v6(HOST6, ROUTER6)).icmpv6_echo_reply(7, 9),
        b"abcd"
    );
    assert_eq!(respond(PuntReason::Local, &reply), None, "a reply");
}

#[test]
fn udp_finds_no_port() {
    let datagram = udp_to(ROUTER6, b"traceroute");
    let expected = error(1, 4, [0; 4], &datagram[14..]);
    assert_eq!(respond(PuntReason::Local, &datagram), Some(expected));
    let mut no_checksum = datagram.clone();
    no_checksum[60..62].fill(0);
    assert_eq!(
        respond(PuntReason::Local, &no_checksum),
        None,
        "IPv6 needs one"
    );
    let mut broken = datagram;
    broken[60] ^= 1;
    assert_eq!(respond(PuntReason::Local, &broken), None);
}

#[test]
fn tcp_is_reset() {
    let mut header = TcpHeader::new(80, 40000, 0, 0);
    (header.rst, header.ack, header.acknowledgment_number) = (true, true, 1001);
    let expected = frame!(to_host(v6(ROUTER6, HOST6)).tcp_header(header), &[]);
    let syn = frame!(
        from_host(v6(HOST6, ROUTER6)).tcp(40000, 80, 1000, 9).syn(),
        &[]
    );
    assert_eq!(respond(PuntReason::Local, &syn), Some(expected));

    let mut header = TcpHeader::new(80, 40000, 77, 0);
    header.rst = true;
    let expected = frame!(to_host(v6(ROUTER6, HOST6)).tcp_header(header), &[]);
    let data = frame!(
        from_host(v6(HOST6, ROUTER6))
            .tcp(40000, 80, 1000, 9)
            .ack(77),
        b"hello"
    );
    assert_eq!(respond(PuntReason::Local, &data), Some(expected));
    let rst = frame!(
        from_host(v6(HOST6, ROUTER6)).tcp(40000, 80, 1000, 9).rst(),
        &[]
    );
    assert_eq!(respond(PuntReason::Local, &rst), None);
}

#[test]
fn unknown_headers_are_pointed_at() {
    let packet = raw_v6(v6(HOST6, ROUTER6), 132, b"sctp");
    let expected = error(4, 1, [0, 0, 0, 6], &packet[14..]);
    assert_eq!(
        respond(PuntReason::Local, &packet),
        Some(expected),
        "in the fixed header"
    );

    let packet = raw_v6(v6(HOST6, ROUTER6), 60, &[132, 0, 1, 4, 0, 0, 0, 0, 1]);
    let expected = error(4, 1, [0, 0, 0, 40], &packet[14..]);
    assert_eq!(
        respond(PuntReason::Local, &packet),
        Some(expected),
        "in an extension header"
    );

    let late = [0, 0, 1, 4, 0, 0, 0, 0, 59, 0, 1, 4, 0, 0, 0, 0];
    let packet = raw_v6(v6(HOST6, ROUTER6), 60, &late);
    let expected = error(4, 1, [0, 0, 0, 40], &packet[14..]);
    assert_eq!(
        respond(PuntReason::Local, &packet),
        Some(expected),
        "hop-by-hop must come first"
    );

    let packet = raw_v6(v6(HOST6, ROUTER6), 43, &[59, 0, 0, 1, 0, 0, 0, 0]);
    let expected = error(4, 0, [0, 0, 0, 42], &packet[14..]);
    assert_eq!(
        respond(PuntReason::Local, &packet),
        Some(expected),
        "a routing header's type"
    );

    let nothing = raw_v6(v6(HOST6, ROUTER6), 59, b"ignored");
    assert_eq!(respond(PuntReason::Local, &nothing), None, "no next header");
}

#[test]
fn errors_say_why_and_quote() {
    for (reason, kind, code, word) in [
        (PuntReason::HopLimit, 3, 0, [0; 4]),
        (PuntReason::NoRoute, 1, 0, [0; 4]),
        (PuntReason::TooBig { mtu: 1400 }, 2, 0, [0, 0, 0x05, 0x78]),
        (
            PuntReason::TooBig { mtu: 100_000 },
            2,
            0,
            [0, 1, 0x86, 0xa0],
        ),
    ] {
        for len in [0, 100, 1183, 1184, 1185, 1452] {
            let mut header = v6(HOST6, FAR6);
            (header.hop_limit, header.traffic_class) = (0, 0xff);
            let mut packet = frame!(from_host(header).udp(1, 2), &vec![1; len]);
            let quoted = packet[14..].len().min(1232);
            let expected = error(kind, code, word, &packet[14..14 + quoted]);
            assert!(expected.len() <= 14 + 1280);
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
fn no_error_about_errors() {
    for reason in [
        PuntReason::HopLimit,
        PuntReason::TooBig { mtu: 1280 },
        PuntReason::NoRoute,
    ] {
        for kind in 0..=255 {
            let packet = frame!(from_host(v6(HOST6, FAR6)).icmpv6_raw(kind, 0, [0; 4]), b"x");
            let informational = kind >= 128 && kind != 137;
            assert_eq!(
                respond(reason, &packet).is_some(),
                informational,
                "type {kind}"
            );
            let mut hidden = vec![58, 0, 1, 4, 0, 0, 0, 0];
            hidden.extend(&packet[54..]);
            let packet = raw_v6(v6(HOST6, FAR6), 60, &hidden);
            assert_eq!(
                respond(reason, &packet).is_some(),
                informational,
                "hidden type {kind}"
            );
        }
        let nothing = raw_v6(v6(HOST6, FAR6), 58, &[]);
        assert_eq!(respond(reason, &nothing), None, "no type at all");
    }
}

#[test]
fn fragments_are_reported_and_never_reassembled() {
    for (offset_and_more, protocol) in [(1u16, 17), (9, 17), (8, 58)] {
        let mut payload = vec![protocol, 0, 0, 0, 0, 0, 0, 1];
        payload[2..4].copy_from_slice(&offset_and_more.to_be_bytes());
        payload.extend([1; 16]);
        let packet = raw_v6(v6(HOST6, FAR6), 44, &payload);
        assert_eq!(respond(PuntReason::Local, &packet), None);
        let expected = error(2, 0, [0, 0, 5, 0x78], &packet[14..]);
        assert_eq!(
            respond(PuntReason::TooBig { mtu: 1400 }, &packet),
            Some(expected)
        );
    }
    let first_of_an_error = raw_v6(v6(HOST6, FAR6), 44, &[58, 0, 0, 1, 0, 0, 0, 1, 3, 0, 0, 0]);
    assert_eq!(respond(PuntReason::HopLimit, &first_of_an_error), None);
}

#[test]
fn silence_towards_what_is_no_single_node() {
    for reason in REASONS {
        for source in ["::", "::1", "ff02::1"] {
            let packet = frame!(
                from_host(v6(source.parse().unwrap(), ROUTER6)).udp(1, 2),
                b"x"
            );
            assert_eq!(respond(reason, &packet), None, "from {source}");
        }
        for destination in ["::", "::1", "ff02::fb"] {
            let packet = udp_to(destination.parse().unwrap(), b"x");
            assert_eq!(respond(reason, &packet), None, "to {destination}");
        }
        let mut to_group = udp_to(ROUTER6, b"x");
        to_group[0] |= 1;
        assert_eq!(respond(reason, &to_group), None, "to a group of stations");
        let mut from_group = udp_to(ROUTER6, b"x");
        from_group[6] |= 1;
        assert_eq!(
            respond(reason, &from_group),
            None,
            "from a group of stations"
        );
    }
}

#[test]
fn short_buffers_and_short_frames_are_no_reply() {
    let syn = frame!(from_host(v6(HOST6, ROUTER6)).tcp(1, 2, 3, 4).syn(), &[]);
    let echo = echo(b"abc");
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
    let syn = frame!(from_host(v6(HOST6, ROUTER6)).tcp(1, 2, 3, 4).syn(), &[]);
    for frame in [
        echo(b"abc"),
        syn,
        udp_to(ROUTER6, b"x"),
        raw_v6(v6(HOST6, ROUTER6), 99, b"x"),
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
