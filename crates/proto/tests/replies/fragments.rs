//! Fragments of IPv4 packets: the example of RFC 791, and laws over arbitrary packets.

use etherparse::{Ipv4Header, Ipv4HeaderSlice};
use longhaul_core::packet::parse;
use longhaul_core::router::Responder;
use longhaul_proto::RouterReplies;
use proptest::prelude::*;

use crate::common::*;

/// All fragments of a frame.
fn split(frame: &[u8], mtu: u32) -> Vec<Vec<u8>> {
    let mut replies = RouterReplies::new();
    let mut out = vec![0xaa; frame.len()];
    let fragment = |index| {
        replies
            .fragment(frame, mtu, index, &mut out)
            .map(|len| out[..len].to_vec())
    };
    (0..).map_while(fragment).collect()
}

fn header(frame: &[u8]) -> Ipv4Header {
    Ipv4HeaderSlice::from_slice(&frame[14..])
        .expect("a header")
        .to_header()
}

fn payload(frame: &[u8]) -> &[u8] {
    let header = header(frame);
    &frame[14 + header.header_len()..14 + usize::from(header.total_len)]
}

/// Puts fragments together as RFC 791 §3.2 has it; `None` if a piece is missing.
fn reassemble(fragments: &[Vec<u8>]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    let mut more = true;
    for fragment in fragments {
        let offset = usize::from(header(fragment).fragment_offset.value()) * 8;
        if offset != whole.len() || !more {
            return None;
        }
        whole.extend(payload(fragment));
        more = header(fragment).more_fragments;
    }
    (!more).then_some(whole)
}

#[test]
fn the_example_of_rfc_791() {
    // Appendix A, example 2: 472 bytes, identification 111, TTL 123, over a network of 280.
    let mut header = v4(HOST, FAR);
    (header.identification, header.time_to_live) = (111, 123);
    let data: Vec<u8> = (0..452u32).map(|i| i as u8).collect();
    let mut frame = raw_v4(header.clone(), 6, &data);
    frame.resize(frame.len() + 6, 0xee); // padding is no data
    header.more_fragments = true;
    let first = raw_v4(header.clone(), 6, &data[..256]);
    header.more_fragments = false;
    header.fragment_offset = 32.try_into().expect("an offset");
    let second = raw_v4(header, 6, &data[256..]);
    assert_eq!(split(&frame, 280), [first, second]);
}

#[test]
fn options_are_copied_where_their_bit_says_so() {
    let mut header = v4(HOST, FAR);
    let record_route_and_security = [1, 7, 7, 4, 0, 0, 0, 0, 130, 4, 9, 9];
    header.options = record_route_and_security.into();
    let frame = raw_v4(header.clone(), 17, &[5; 100]);
    let fragments = split(&frame, 68);
    let options = fragments.iter().map(|it| self::header(it).options.to_vec());
    let expected = [
        &record_route_and_security[..],
        &[130, 4, 9, 9],
        &[130, 4, 9, 9],
    ];
    assert_eq!(options.collect::<Vec<_>>(), expected);
    let lengths = fragments
        .iter()
        .map(|it| payload(it).len())
        .collect::<Vec<_>>();
    assert_eq!(lengths, [32, 40, 28]);
    assert_eq!(reassemble(&fragments), Some(vec![5; 100]));
}

#[test]
fn the_last_fragment_uses_its_room_to_the_byte() {
    // Room for 33 bytes behind the header: 32 in the first fragment, 33 in the last.
    let frame = raw_v4(v4(HOST, FAR), 17, &[5; 65]);
    let lengths = split(&frame, 53)
        .iter()
        .map(|it| payload(it).len())
        .collect::<Vec<_>>();
    assert_eq!(lengths, [32, 33]);
    let frame = raw_v4(v4(HOST, FAR), 17, &[5; 33]);
    assert_eq!(
        split(&frame, 53),
        std::slice::from_ref(&frame),
        "fits as it is"
    );
}

#[test]
fn what_cannot_be_split_is_not() {
    let frame = raw_v4(v4(HOST, FAR), 17, &[5; 100]);
    for mtu in [0, 1, 19, 20, 27] {
        assert!(split(&frame, mtu).is_empty(), "no room at {mtu}");
    }
    let mut header = v4(HOST, FAR);
    header.dont_fragment = true;
    assert!(split(&raw_v4(header, 17, &[5; 100]), 68).is_empty());
    let ipv6 = frame!(from_host(v6(HOST6, FAR6)).udp(1, 2), &[5; 2000]);
    assert!(split(&ipv6, 1280).is_empty());
    let mut replies = RouterReplies::new();
    assert_eq!(
        replies.fragment(&frame, 68, 0, &mut [0; 81]),
        None,
        "short buffer"
    );
    assert_eq!(replies.fragment(&frame, 68, 0, &mut [0; 82]), Some(82));
    assert_eq!(
        replies.fragment(&frame, u32::MAX, u32::MAX, &mut [0; 200]),
        None
    );
    assert_eq!(replies.fragment(&frame, 68, u32::MAX, &mut [0; 200]), None);
}

#[derive(Debug, Clone)]
struct Packet {
    header: Ipv4Header,
    payload: Vec<u8>,
    padding: usize,
}

impl Packet {
    fn frame(&self) -> Vec<u8> {
        let mut frame = raw_v4(self.header.clone(), 17, &self.payload);
        frame.resize(frame.len() + self.padding, 0xee);
        frame
    }
}

/// A list of options that fills the header's last word.
fn options() -> impl Strategy<Value = Vec<u8>> {
    let option = (any::<u8>(), prop::collection::vec(any::<u8>(), 0..12));
    prop::collection::vec(option, 0..6).prop_map(|options| {
        let mut bytes = Vec::new();
        for (kind, data) in options {
            let option = match kind {
                0 | 1 => vec![1],
                kind => [&[kind, data.len() as u8 + 2], &data[..]].concat(),
            };
            if bytes.len() + option.len() <= 40 {
                bytes.extend(option);
            }
        }
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    })
}

fn packet() -> impl Strategy<Value = Packet> {
    let payload = prop_oneof![0usize..300, 0usize..5000, 65_000usize..=65_475]
        .prop_map(|len| (0..len).map(|i| (i % 251) as u8).collect::<Vec<u8>>());
    (options(), payload, 0usize..46, any::<u16>()).prop_map(|(options, payload, padding, id)| {
        let mut header = v4(HOST, FAR);
        header.identification = id;
        header.options = options[..].try_into().expect("options");
        Packet {
            header,
            payload,
            padding,
        }
    })
}

/// The options with the copied bit among those of a header.
fn copied(mut options: &[u8]) -> Vec<u8> {
    let mut copied = Vec::new();
    while !options.is_empty() && options[0] != 0 {
        let len = if options[0] == 1 {
            1
        } else {
            usize::from(options[1])
        };
        if options[0] >= 128 {
            copied.extend(&options[..len]);
        }
        options = &options[len..];
    }
    copied.resize(copied.len().next_multiple_of(4), 0);
    copied
}

proptest! {
    #[test]
    fn fragments_make_the_packet(packet in packet(), mtu in prop_oneof![68u32..200, 68u32..9000]) {
        let fragments = split(&packet.frame(), mtu);
        prop_assert_eq!(reassemble(&fragments), Some(packet.payload.clone()));
        let original = header(&packet.frame());
        for (index, fragment) in fragments.iter().enumerate() {
            prop_assert!(parse(fragment).is_ok());
            prop_assert!(fragment.len() <= 14 + mtu as usize);
            let header = header(fragment);
            prop_assert_eq!(header.header_checksum, header.calc_header_checksum());
            prop_assert_eq!(usize::from(header.total_len) + 14, fragment.len());
            let mut expected = original.clone();
            if index > 0 {
                expected.options = copied(&original.options)[..].try_into().expect("options");
            }
            expected.total_len = header.total_len;
            expected.header_checksum = header.header_checksum;
            expected.more_fragments = index + 1 < fragments.len();
            expected.fragment_offset = header.fragment_offset;
            prop_assert_eq!(header, expected);
        }
    }

    #[test]
    fn fragments_of_fragments_make_the_packet(
        packet in packet(), first in 68u32..9000, second in 68u32..2000, third in 68u32..2000
    ) {
        let mut fragments = split(&packet.frame(), first);
        for mtu in [second, third] {
            fragments = fragments.iter().flat_map(|it| split(it, mtu)).collect();
            prop_assert!(fragments.iter().all(|it| it.len() <= 14 + mtu as usize));
        }
        prop_assert_eq!(reassemble(&fragments), Some(packet.payload));
    }
}
