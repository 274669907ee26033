//! Arbitrary bytes: no panic, and what is written is sound.

use longhaul_core::packet::{ETHERNET_LEN, FrameError, parse};
use longhaul_core::router::{PuntReason, Responder};
use longhaul_proto::RouterReplies;
use proptest::prelude::*;

use crate::common::*;

fn reason() -> impl Strategy<Value = PuntReason> {
    prop_oneof![
        Just(PuntReason::Local),
        Just(PuntReason::HopLimit),
        any::<u32>().prop_map(|mtu| PuntReason::TooBig { mtu }),
        Just(PuntReason::NoRoute),
    ]
}

/// Frames of an IP version with arbitrary fields but right lengths and checksums, so that they
/// reach the depths.
fn deep_frame() -> impl Strategy<Value = Vec<u8>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..120);
    let protocol = prop::sample::select(vec![0u8, 1, 6, 17, 43, 44, 58, 59, 60, 99]);
    prop_oneof![
        (protocol.clone(), any::<u16>(), bytes()).prop_map(|(protocol, fragment, payload)| {
            let mut header = v4(HOST, ROUTER);
            header.more_fragments = fragment & 0x2000 != 0;
            header.fragment_offset = (fragment & fragment >> 8 & 0x1fff)
                .try_into()
                .expect("13 bits");
            raw_v4(header, protocol, &payload)
        }),
        (protocol, bytes())
            .prop_map(|(protocol, payload)| { raw_v6(v6(HOST6, ROUTER6), protocol, &payload) }),
    ]
}

fn check(
    reason: PuntReason,
    frame: &[u8],
    room: usize,
    mtu: u32,
    index: u32,
) -> Result<(), TestCaseError> {
    let mut replies = RouterReplies::new();
    let mut out = vec![0; room];
    if let Some(len) = replies.respond(&router(), reason, frame, &mut out) {
        prop_assert!(len <= room);
        let reply = parse(&out[..len]).expect("replies are sound");
        prop_assert_eq!(reply.ip_len as usize + ETHERNET_LEN, len);
        prop_assert_eq!(respond(PuntReason::Local, &out[..len]), None);
    }
    if let Some(len) = replies.fragment(frame, mtu, index, &mut out) {
        prop_assert!(len <= room && len <= ETHERNET_LEN + mtu as usize);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn arbitrary_bytes(
        mut frame in prop::collection::vec(any::<u8>(), 0..200),
        ethertype in prop::sample::select(vec![0x0800u16, 0x86dd]),
        reason in reason(), room in 0usize..300, mtu: u32, index in 0u32..9
    ) {
        if frame.len() > ETHERNET_LEN {
            frame[0] &= 0xfe;
            frame[6] &= 0xfe;
            frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
        }
        check(reason, &frame, room, mtu, index)?;
    }

    #[test]
    fn arbitrary_payloads(
        frame in deep_frame(), reason in reason(), room in 0usize..300, mtu in 0u32..200, index in 0u32..9
    ) {
        prop_assert_ne!(parse(&frame), Err(FrameError::NotIp));
        check(reason, &frame, room, mtu, index)?;
    }
}
