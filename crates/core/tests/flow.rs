//! The number of a flow: what it depends on, what it does not, and that it is spread evenly.

use longhaul_core::packet::{FlowKey, flow_hash};
use proptest::prelude::*;

/// A frame of a TCP segment or another protocol, without payload beyond 8 bytes.
fn ipv4(source: u32, destination: u32, protocol: u8, ports: [u16; 2], fragment: u16) -> Vec<u8> {
    let mut frame = vec![0; 14 + 28];
    (frame[12], frame[14], frame[17], frame[22]) = (0x08, 0x45, 28, 64);
    frame[20..22].copy_from_slice(&fragment.to_be_bytes());
    frame[23] = protocol;
    frame[26..30].copy_from_slice(&source.to_be_bytes());
    frame[30..34].copy_from_slice(&destination.to_be_bytes());
    frame[34..36].copy_from_slice(&ports[0].to_be_bytes());
    frame[36..38].copy_from_slice(&ports[1].to_be_bytes());
    frame
}

/// A frame whose IPv6 header is followed by `chain`: pairs of a header's number and its bytes,
/// whose first byte is set to the number of the next one.
fn ipv6(chain: &[(u8, &[u8])]) -> Vec<u8> {
    let mut frame = vec![0; 14 + 40];
    (frame[12], frame[13], frame[14], frame[21]) = (0x86, 0xdd, 0x60, 64);
    (frame[22], frame[37], frame[38], frame[53]) = (0xfd, 1, 0xfd, 2);
    frame[20] = chain[0].0;
    for (at, (_, header)) in chain.iter().enumerate() {
        let start = frame.len();
        frame.extend(*header);
        if let Some((next, _)) = chain.get(at + 1) {
            frame[start] = *next;
        }
    }
    frame
}

#[test]
fn every_part_of_the_five_tuple_counts() {
    let base = flow_hash(&ipv4(1, 2, 6, [10, 20], 0), 7);
    let others = [
        ipv4(3, 2, 6, [10, 20], 0),
        ipv4(1, 3, 6, [10, 20], 0),
        ipv4(1, 2, 17, [10, 20], 0),
        ipv4(1, 2, 6, [11, 20], 0),
        ipv4(1, 2, 6, [10, 21], 0),
    ];
    for other in others {
        assert_ne!(flow_hash(&other, 7), base);
    }
    assert_ne!(flow_hash(&ipv4(1, 2, 6, [10, 20], 0), 8), base, "the seed");
}

#[test]
fn nothing_else_counts() {
    let frame = ipv4(1, 2, 17, [10, 20], 0x4000);
    let mut other = ipv4(1, 2, 17, [10, 20], 0);
    (other[0], other[15], other[18], other[22], other[40]) = (2, 3, 9, 1, 77);
    assert_eq!(flow_hash(&frame, 7), flow_hash(&other, 7));
    // Options move the ports.
    let mut with_options = ipv4(1, 2, 17, [10, 20], 0);
    with_options[14] = 0x47;
    with_options.splice(34..34, [1, 1, 1, 1, 1, 1, 1, 0]);
    assert_eq!(flow_hash(&with_options, 7), flow_hash(&frame, 7));
}

#[test]
fn ports_are_those_of_protocols_that_have_them() {
    for protocol in 0..=255 {
        let of = |ports| flow_hash(&ipv4(1, 2, protocol, ports, 0), 7);
        // ESP's index is where ports would be; AH's follows four bytes later.
        let counts = [6, 17, 33, 50, 132, 136].contains(&protocol);
        assert_eq!(of([10, 20]) != of([10, 21]), counts, "{protocol}");
    }
    let mut authenticated = ipv4(1, 2, 51, [0, 0], 0);
    let without = flow_hash(&authenticated, 7);
    authenticated[38] = 1;
    assert_ne!(flow_hash(&authenticated, 7), without);
}

#[test]
fn fragments_of_a_packet_stay_together() {
    let first = ipv4(1, 2, 17, [10, 20], 0x2000);
    let later = ipv4(1, 2, 17, [999, 888], 0x2004);
    let last = ipv4(1, 2, 17, [5, 5], 0x0008);
    let of = |frame: &[u8]| flow_hash(frame, 7);
    assert_eq!(of(&first), of(&later));
    assert_eq!(of(&first), of(&last));
    // IPv6: offset 0 with more to come, and offset 8 with none.
    let udp = [0, 10, 0, 20, 0, 8, 0, 0];
    let first = ipv6(&[(44, &[0, 0, 0, 1, 0, 0, 0, 9]), (17, &udp)]);
    let last = ipv6(&[(44, &[0, 0, 0, 8, 0, 0, 0, 9]), (17, &[7; 8])]);
    assert_eq!(of(&first), of(&last));
    let whole = ipv6(&[(17, &udp)]);
    assert_ne!(of(&first), of(&whole));
    let atomic = ipv6(&[(44, &[0, 0, 0, 0, 0, 0, 0, 9]), (17, &udp)]);
    assert_eq!(of(&atomic), of(&whole));
}

#[test]
fn extension_headers_are_walked_with_a_bound() {
    let tcp = |port| [0, 10, 0, port, 0, 0, 0, 0];
    let of = |chain: &[(u8, &[u8])]| flow_hash(&ipv6(chain), 7);
    let plain = of(&[(6, &tcp(20))]);
    let options: &[u8] = &[0, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let routing: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 0];
    let chain = |port: &[u8]| of(&[(0, options), (43, routing), (60, options), (6, port)]);
    assert_eq!(chain(&tcp(20)), plain);
    assert_ne!(chain(&tcp(21)), plain);
    let long = |port: &[u8]| {
        let mut chain = vec![(60, routing); 9];
        chain.push((6, port));
        of(&chain)
    };
    assert_eq!(long(&tcp(20)), long(&tcp(21)), "past the bound no ports");
}

#[test]
fn spread_evenly() {
    // 64 Ki neighbouring flows over 16 members: a chi-squared of 15 degrees of freedom has mean
    // 15 and standard deviation sqrt(30); seven of them above is beyond chance.
    for seed in 0..8 {
        let mut members = [0u64; 16];
        for port in 0..=u16::MAX {
            let hash = flow_hash(&ipv4(0x0a00_0001, 0x0a00_0002, 6, [port, 80], 0), seed);
            members[((u128::from(hash) * 16) >> 64) as usize] += 1;
        }
        let chi: f64 = members
            .iter()
            .map(|&n| (n as f64 - 4096.0).powi(2) / 4096.0)
            .sum();
        assert!(chi < 15.0 + 7.0 * 30f64.sqrt(), "seed {seed}: {chi}");
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(mut frame in prop::collection::vec(any::<u8>(), 0..200), seed: u64) {
        let _ = flow_hash(&frame, seed);
        if frame.len() > 14 {
            for ethertype in [0x0800u16, 0x86dd] {
                frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
                let _ = flow_hash(&frame, seed);
            }
        }
        if frame.len() > 20 {
            for header in [0, 43, 44, 60, 135] {
                frame[20] = header;
                let _ = flow_hash(&frame, seed);
            }
        }
    }
}

#[test]
fn a_key_gives_back_what_it_is_made_of() {
    let key = FlowKey::of(&ipv4(0x0a00_0001, 0x0a00_0002, 6, [10, 20], 0));
    let addresses = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
    assert_eq!(key.addresses(), Some(addresses));
    assert_eq!((key.protocol(), key.ports()), (6, (10, 20)));
    let fragment = FlowKey::of(&ipv4(1, 2, 6, [10, 20], 0x2000));
    assert_eq!((fragment.protocol(), fragment.ports()), (6, (0, 0)));
    let key = FlowKey::of(&ipv6(&[(17, &[0, 7, 0, 9, 0, 8, 0, 0])]));
    let (from, to) = key.addresses().unwrap();
    assert!(from.is_ipv6() && to.is_ipv6() && from != to);
    assert_eq!((key.protocol(), key.ports()), (17, (7, 9)));
    let nothing = FlowKey::of(&[0; 14]);
    assert_eq!(
        (nothing.addresses(), nothing.protocol(), nothing.ports()),
        (None, 0, (0, 0))
    );
}
