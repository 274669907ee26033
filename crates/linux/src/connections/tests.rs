use proptest::prelude::*;

use super::*;

/// A `tcp_info` of `len` bytes as a kernel would fill it.
fn tcp_info(len: usize) -> Vec<u8> {
    let mut info = vec![0; 256];
    let words = [
        (16, 1448u32),
        (24, 30),
        (28, 4),
        (32, 5),
        (36, 2),
        (68, 20_500),
        (72, 750),
        (76, 0x7fff_ffff),
        (80, 42),
        (100, 17),
        (148, 20_100),
    ];
    for (at, value) in words {
        info[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    let longs = [
        (104, 3_000_000u64),
        (120, 5_000_000_000),
        (128, 77),
        (160, 2_500_000),
    ];
    for (at, value) in longs {
        info[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    }
    info.truncate(len);
    info
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((value.len() + 4) as u16).to_ne_bytes().to_vec();
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32 + 16).to_ne_bytes().to_vec();
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.resize(16, 0);
    bytes.extend_from_slice(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

struct Answer {
    family: i32,
    state: u8,
    addresses: [IpAddr; 2],
    cookie: u64,
    attributes: Vec<u8>,
}

impl Answer {
    fn new() -> Self {
        let name = attribute(INET_DIAG_CONG, b"cubic\0");
        Self {
            family: libc::AF_INET,
            state: 1,
            addresses: [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()],
            cookie: 1 << 40 | 3,
            attributes: [name, attribute(INET_DIAG_INFO, &tcp_info(232))].concat(),
        }
    }

    fn payload(&self) -> Vec<u8> {
        let mut bytes = vec![self.family as u8, self.state, 0, 0];
        bytes.extend_from_slice(&5201u16.to_be_bytes());
        bytes.extend_from_slice(&40_000u16.to_be_bytes());
        for address in self.addresses {
            let mut octets = match address {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            };
            octets.resize(16, 0);
            bytes.extend(octets);
        }
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.cookie.to_ne_bytes());
        bytes.resize(72, 0);
        bytes.extend_from_slice(&self.attributes);
        bytes
    }

    fn bytes(&self) -> Vec<u8> {
        message(SOCK_DIAG_BY_FAMILY, &self.payload())
    }
}

fn only(bytes: &[u8]) -> Connection {
    let (mut list, unread) = parse(bytes);
    assert_eq!((list.len(), unread), (1, 0));
    list.remove(0)
}

#[test]
fn every_figure_is_read_from_its_place() {
    let connection = only(&Answer::new().bytes());
    let info = TcpInfo {
        mss: 1448,
        cwnd: 42,
        ssthresh: None,
        unacked: 30,
        lost: 5,
        in_flight: 30 + 2 - 4 - 5,
        rtt_us: 20_500,
        rtt_var_us: 750,
        min_rtt_us: Some(20_100),
        retransmissions: 17,
        bytes_acked: Some(5_000_000_000),
        bytes_received: Some(77),
        pacing_rate: Some(3_000_000),
        delivery_rate: Some(2_500_000),
    };
    let expected = Connection {
        id: 1 << 40 | 3,
        local: "10.0.0.1:5201".parse().unwrap(),
        remote: "10.0.0.2:40000".parse().unwrap(),
        state: State::Established,
        congestion: "cubic".to_owned(),
        info,
    };
    assert_eq!(connection, expected);
}

#[test]
fn addresses_are_those_on_the_wire() {
    let v6 = |text: &str| IpAddr::V6(text.parse().unwrap());
    let mut answer = Answer::new();
    answer.family = libc::AF_INET6;
    for (address, shown) in [
        ("fd00::1", "[fd00::1]:5201"),
        ("::ffff:10.0.0.1", "10.0.0.1:5201"),
    ] {
        answer.addresses[0] = v6(address);
        answer.addresses[1] = v6(address);
        assert_eq!(only(&answer.bytes()).local.to_string(), shown);
    }
}

#[test]
fn states_have_the_kernels_numbers() {
    for number in 0..=u8::MAX {
        let mut answer = Answer::new();
        answer.state = number;
        let (list, unread) = parse(&answer.bytes());
        let name = list.first().map(|connection| connection.state.name());
        let expected = match number {
            1 => Some("ESTABLISHED"),
            4 => Some("FIN-WAIT-1"),
            5 => Some("FIN-WAIT-2"),
            8 => Some("CLOSE-WAIT"),
            9 => Some("LAST-ACK"),
            11 => Some("CLOSING"),
            _ => None,
        };
        assert_eq!((name, unread), (expected, u64::from(expected.is_none())));
    }
}

#[test]
fn kernels_of_any_age_are_read() {
    let with = |info: &[u8]| {
        let mut answer = Answer::new();
        answer.attributes = attribute(INET_DIAG_INFO, info);
        answer.bytes()
    };
    for len in 0..256 {
        let (list, unread) = parse(&with(&tcp_info(len)));
        assert_eq!(
            (list.len(), unread),
            if len < 104 { (0, 1) } else { (1, 0) }
        );
        let Some(connection) = list.first() else {
            continue;
        };
        let info = connection.info;
        assert_eq!((info.cwnd, info.retransmissions), (42, 17));
        assert_eq!(info.pacing_rate.is_some(), len >= 112, "{len}");
        assert_eq!(info.bytes_acked.is_some(), len >= 128, "{len}");
        assert_eq!(info.bytes_received.is_some(), len >= 136, "{len}");
        assert_eq!(info.min_rtt_us.is_some(), len >= 152, "{len}");
        assert_eq!(info.delivery_rate.is_some(), len >= 168, "{len}");
    }
    // Newer than ours.
    let newer = [tcp_info(256), vec![0xff; 300]].concat();
    assert_eq!(only(&with(&newer)).info.delivery_rate, Some(2_500_000));
}

#[test]
fn what_is_unknown_to_the_kernel_is_none() {
    let mut info = tcp_info(232);
    info[76..80].copy_from_slice(&21u32.to_ne_bytes());
    info[104..112].fill(0xff);
    info[148..152].fill(0xff);
    info[160..168].fill(0);
    let mut answer = Answer::new();
    answer.attributes = attribute(INET_DIAG_INFO, &info);
    let connection = only(&answer.bytes());
    assert_eq!(connection.congestion, "");
    let info = connection.info;
    assert_eq!(info.ssthresh, Some(21));
    assert_eq!((info.pacing_rate, info.min_rtt_us), (None, None));
    assert_eq!(info.delivery_rate, None);
}

#[test]
fn a_connection_that_is_listed_twice_counts_once_and_one_of_the_same_ports_is_another() {
    let (first, mut next) = (Answer::new(), Answer::new());
    next.cookie += 1;
    let (list, unread) = parse(&[first.bytes(), next.bytes(), first.bytes()].concat());
    let ids: Vec<u64> = list.iter().map(|connection| connection.id).collect();
    assert_eq!((ids, unread), (vec![first.cookie, next.cookie], 0));
    assert_eq!(list[0].local, list[1].local);
}

#[test]
fn what_nobody_holds_any_more_is_left_out() {
    let mut answer = Answer::new();
    answer.attributes.clear();
    assert_eq!(parse(&answer.bytes()), (Vec::new(), 0));
}

#[test]
fn every_cut_is_noticed_and_what_is_before_it_stays() {
    let whole = Answer::new().bytes();
    for cut in 0..whole.len() {
        let bytes = [&whole[..], &whole[..cut]].concat();
        let (list, unread) = parse(&bytes);
        assert_eq!(list.len(), 1, "{cut}");
        assert_eq!(unread, u64::from(cut > 0), "{cut}");
    }
}

#[test]
fn other_messages_are_counted_and_passed_over() {
    let whole = Answer::new().bytes();
    let mut family = Answer::new();
    family.family = libc::AF_UNIX;
    let wrong = [
        message(3, &[0; 4]),
        message(SOCK_DIAG_BY_FAMILY, &[]),
        message(SOCK_DIAG_BY_FAMILY, &Answer::new().payload()[..71]),
        family.bytes(),
    ];
    for wrong in wrong {
        let (list, unread) = parse(&[wrong, whole.clone()].concat());
        assert_eq!((list.len(), unread), (1, 1));
    }
    // A length below a header's would never end.
    let mut endless = whole.clone();
    endless[0..4].copy_from_slice(&0u32.to_ne_bytes());
    assert_eq!(parse(&endless), (Vec::new(), 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let (list, unread) = parse(&bytes);
        prop_assert!(list.len() * 72 <= bytes.len());
        prop_assert!(bytes.is_empty() || !list.is_empty() || unread > 0);
    }

    #[test]
    fn damage_costs_no_more_than_what_follows(
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        count in 1usize..5,
    ) {
        let mut answer = Answer::new();
        let mut bytes = Vec::new();
        for _ in 0..count {
            answer.cookie += 1;
            bytes.extend(answer.bytes());
        }
        let size = bytes.len() / count;
        let first = hits.iter().map(|(at, _)| at.index(bytes.len())).min().unwrap_or(0);
        for (at, value) in &hits {
            let at = at.index(bytes.len());
            bytes[at] ^= value;
        }
        let (list, unread) = parse(&bytes);
        prop_assert!(list.len() >= first / size);
        prop_assert!(list.len() as u64 + unread <= bytes.len() as u64 / 16 + 1);
    }
}
