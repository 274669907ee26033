//! A frame from a hostile host: parsing, lowering the hop limit, router replies, fragments.
//!
//! Run with `cargo +nightly fuzz run packet`. Input: reason, MTU, fragment number, room for
//! replies, then the frame. So that mutations get past the checks at ingress, some inputs have
//! their EtherType and their header checksum put right.
#![no_main]

use std::net::{Ipv4Addr, Ipv6Addr};

use libfuzzer_sys::fuzz_target;
use longhaul_core::packet::{ETHERNET_LEN, IPV4_LEN, lower_hop_limit, parse, source, sum16};
use longhaul_core::router::{PuntReason, Responder};
use longhaul_core::topology::{Node, NodeKind};
use longhaul_proto::RouterReplies;

fuzz_target!(|data: &[u8]| {
    let Some((&[reason, mtu_high, mtu_low, index, room, mend], frame)) = data.split_first_chunk()
    else {
        return;
    };
    let mtu = u32::from(u16::from_be_bytes([mtu_high, mtu_low]));
    let reason = match reason % 4 {
        0 => PuntReason::Local,
        1 => PuntReason::HopLimit,
        2 => PuntReason::TooBig { mtu },
        _ => PuntReason::NoRoute,
    };
    let mut frame = frame.to_vec();
    put_right(&mut frame, mend);
    // What may enter says where it comes from.
    assert!(parse(&frame).is_err() || source(&frame).is_some());
    respond(reason, &frame, usize::from(room) * 16);
    fragment(&frame, mtu, u32::from(index));
    lower(&mut frame, room);
});

fn put_right(frame: &mut [u8], mend: u8) {
    if frame.len() < ETHERNET_LEN + IPV4_LEN || mend == 0 {
        return;
    }
    frame[0] &= 0xfe;
    frame[6] &= 0xfe;
    if mend & 1 == 0 {
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        return;
    }
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    let header_len = usize::from(frame[14] & 0x0f) * 4;
    let end = (ETHERNET_LEN + header_len.max(IPV4_LEN)).min(frame.len());
    frame[24..26].fill(0);
    let checksum = !sum16(&frame[ETHERNET_LEN..end]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
}

fn respond(reason: PuntReason, frame: &[u8], room: usize) {
    let router = Node {
        name: "r".into(),
        kind: NodeKind::Router,
        ipv4: Ipv4Addr::new(10, 0, 0, 254),
        ipv6: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0xfe),
    };
    let mut replies = RouterReplies::new();
    let mut reply = vec![0; room];
    let Some(len) = replies.respond(&router, reason, frame, &mut reply) else {
        return;
    };
    let headers = parse(&reply[..len]).expect("replies are sound");
    assert_eq!(headers.ip_len as usize + ETHERNET_LEN, len);
    let again = replies.respond(&router, PuntReason::Local, &reply[..len], &mut [0; 2048]);
    assert_eq!(again, None, "replies provoke no replies");
}

fn fragment(frame: &[u8], mtu: u32, index: u32) {
    let mut replies = RouterReplies::new();
    let mut out = vec![0; frame.len() + 40];
    for index in [0, 1, index, u32::MAX - index] {
        if let Some(len) = replies.fragment(frame, mtu, index, &mut out) {
            assert!(len <= ETHERNET_LEN + mtu as usize);
            if parse(frame).is_ok() {
                assert!(
                    parse(&out[..len]).is_ok(),
                    "fragments are as sound as their packet"
                );
            }
        }
    }
}

fn lower(frame: &mut [u8], by: u8) {
    let before = parse(frame);
    lower_hop_limit(frame, by);
    if let Ok(before) = before
        && before.hop_limit > by
    {
        let after = parse(frame).expect("still sound");
        assert_eq!(after.hop_limit, before.hop_limit - by);
        assert_eq!(after.destination, before.destination);
    }
}
