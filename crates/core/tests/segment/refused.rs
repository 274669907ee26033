//! Super-packets that are none: each is refused at ingress, with its reason and in full.

use super::*;

#[test]
fn what_is_no_super_packet_is_refused() {
    let mut engine = engine(pipes(PipeParams::default(), 1), 4, 1);
    let h1 = host(&engine, "h1");
    let (frame, good) = ten().super_packet();
    let wrong = [
        Offload {
            kind: Kind::Udp,
            ..good
        },
        Offload {
            checksum: None,
            ..good
        },
        Offload { size: 0, ..good },
        Offload { size: 1, ..good },
        Offload {
            checksum: Some(Partial {
                start: 35,
                offset: 16,
            }),
            ..good
        },
        Offload {
            checksum: Some(Partial {
                start: 34,
                offset: 6,
            }),
            ..good
        },
        Offload {
            kind: Kind::Whole,
            checksum: Some(Partial {
                start: 20,
                offset: 4,
            }),
            ..good
        },
        Offload {
            kind: Kind::Whole,
            checksum: Some(Partial {
                start: u16::MAX,
                offset: 4,
            }),
            ..good
        },
    ];
    for offload in wrong {
        let refused = engine.arrive_super(h1, Time::ZERO, &frame, &offload);
        assert_eq!(
            refused,
            Err(Refused::Frame(FrameError::Malformed)),
            "{offload:?}"
        );
    }
    let long = Offload { size: 3000, ..good };
    let before = engine.counters().refused;
    let refused = engine.arrive_super(h1, Time::ZERO, &frame, &long);
    assert_eq!(refused, Err(Refused::TooLong));
    let segments = (frame.len() - ten().headers()).div_ceil(3000) as u64;
    assert_eq!(engine.counters().refused.too_long, segments);
    // What is no IP at all still says how many packets it would have been.
    let mut other = frame.clone();
    other[12] = 0x88;
    let refused = engine.arrive_super(h1, Time::ZERO, &other, &good);
    assert_eq!(refused, Err(Refused::Frame(FrameError::NotIp)));
    assert_eq!(engine.counters().refused.not_ip, ten().segments() as u64);
    // Too small a piece makes too many of them.
    let many = Offload { size: 1, ..good };
    let refused = engine.arrive_super(h1, Time::ZERO, &frame, &many);
    assert_eq!(refused, Err(Refused::Frame(FrameError::Malformed)));
    let payload = (frame.len() - ten().headers()) as u64;
    assert_eq!(
        engine.counters().refused.malformed,
        before.malformed + payload
    );
    assert_eq!(
        (
            engine.counters().entered,
            engine.slots_in_use(),
            engine.buffers_in_use()
        ),
        (0, 0, 0)
    );
    let most = Sent {
        size: 1,
        payload: vec![1; MAX_SEGMENTS],
        ..ten()
    };
    let (frame, offload) = most.super_packet();
    assert_eq!(
        engine.arrive_super(h1, Time::ZERO, &frame, &offload),
        Ok(())
    );
}

/// TCP in a tunnel: its checksum and sizes are the inner headers', which nobody here splits.
#[test]
fn super_packets_in_tunnels_are_refused() {
    let mut engine = engine(pipes(PipeParams::default(), 1), 4, 1);
    let h1 = host(&engine, "h1");
    let inner = ten();
    let (frame, offload) = inner.super_packet();
    let start = inner.checksum().start;
    let mut outer = |outer: Sent, protocol: u8, tunnel: &[u8]| {
        let payload = [tunnel, &frame[14..]].concat();
        let more = tunnel.len() as u16;
        let (mut frame, _) = Sent {
            payload,
            is_tcp: false,
            ..outer
        }
        .super_packet();
        let transport = outer.checksum().start;
        // In place of UDP.
        frame.drain(usize::from(transport)..usize::from(transport) + 8);
        let at = if outer.is_ipv6 { 20 } else { 23 };
        frame[at] = protocol;
        let ip_len = (frame.len() - 14) as u16;
        if outer.is_ipv6 {
            frame[18..20].copy_from_slice(&(ip_len - 40).to_be_bytes());
        } else {
            frame[16..18].copy_from_slice(&ip_len.to_be_bytes());
            common::seal(&mut frame[14..34]);
        }
        let checksum = Some(Partial {
            start: transport + more + start - 14,
            offset: 16,
        });
        let offload = Offload {
            checksum,
            ..offload
        };
        engine.arrive_super(h1, Time::ZERO, &frame, &offload)
    };
    let ipv6 = Sent {
        is_ipv6: true,
        ..ten()
    };
    // VXLAN with an inner Ethernet header (RFC 7348), then IPv4 in IPv4, and in IPv6.
    let mut vxlan = vec![2; 8 + 8 + 14];
    vxlan[..8].copy_from_slice(&[0x30, 0x39, 0x12, 0xb5, 0, 0, 0, 0]);
    let refused = Err(Refused::Frame(FrameError::Malformed));
    for sent in [ten(), ipv6.clone()] {
        assert_eq!(outer(sent.clone(), 17, &vxlan), refused);
        assert_eq!(outer(sent.clone(), 4, &[]), refused);
        // Of the length of an extension header, but a fragment's, which is not repeated as it is.
        assert_eq!(outer(sent, 44, &[6, 2, 0, 0]), refused);
    }
    assert_eq!(outer(ipv6, 60, &[6, 2, 0, 0]), Ok(()));
}

#[test]
fn a_checksum_within_the_ip_header_is_refused() {
    let mut engine = engine(pipes(PipeParams::default(), 1), 4, 1);
    let h1 = host(&engine, "h1");
    let small = Sent {
        payload: vec![1; 100],
        ..ten()
    };
    let (frame, _) = small.super_packet();
    let (frame6, _) = Sent {
        is_ipv6: true,
        ..small
    }
    .super_packet();
    // Eight bytes of options that do nothing.
    let mut options = [&frame[..34], &[1; 8], &frame[34..]].concat();
    options[14] = 0x47;
    let ip_len = (options.len() - 14) as u16;
    options[16..18].copy_from_slice(&ip_len.to_be_bytes());
    common::seal(&mut options[14..42]);
    for (frame, first) in [(frame, 34), (options, 42), (frame6, 54)] {
        let mut arrive = |start| {
            let checksum = Some(Partial { start, offset: 16 });
            let offload = Offload {
                checksum,
                ..Offload::default()
            };
            engine.arrive_super(h1, Time::ZERO, &frame, &offload)
        };
        assert_eq!(
            arrive(first - 1),
            Err(Refused::Frame(FrameError::Malformed))
        );
        assert_eq!(arrive(first), Ok(()));
    }
}
