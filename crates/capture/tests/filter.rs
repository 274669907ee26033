//! Filters: what they mean, how they print, what is said of wrong ones, and hostile frames.

mod common;

use std::net::IpAddr;

use common::config;
use common::frames::sketch;
use common::trees::{Seen, fate, tree};
use longhaul_capture::filter::{DEPTH_MAX, ELEMENTS_MAX, TEXT_MAX};
use longhaul_capture::{Filter, FilterError, Packet};
use longhaul_core::Time;
use longhaul_core::witness::PacketEvent;
use proptest::prelude::*;

/// Hosts `a`, of both kinds of address, `b` and `tcp`, of one, and `none`.
fn resolve(name: &str) -> Result<Vec<IpAddr>, String> {
    let addresses: &[&str] = match name {
        "a" => &["10.0.0.1", "fd00::1"],
        "b" => &["10.0.0.2"],
        "tcp" => &["10.0.0.3"],
        "none" => &[],
        _ => return Err("the hosts are a, b".to_owned()),
    };
    Ok(addresses
        .iter()
        .map(|address| address.parse().unwrap())
        .collect())
}

fn parse(text: &str) -> Result<Filter, FilterError> {
    Filter::parse(text, &resolve)
}

fn packet(frame: &[u8], fate: PacketEvent) -> Packet<'_> {
    Packet {
        time: Time::ZERO,
        fate,
        frame,
        len: frame.len(),
    }
}

proptest! {
    #![proptest_config(config(2000))]

    #[test]
    fn filters_mean_what_their_tree_means(
        tree in tree(false),
        sketches in prop::collection::vec((sketch(false), fate()), 1..20),
    ) {
        let filter = parse(&tree.text()).unwrap();
        for (sketch, fate) in sketches {
            let frame = sketch.frame();
            let seen = Seen { sketch: &sketch, len: frame.len(), fate };
            prop_assert_eq!(
                filter.matches(&packet(&frame, fate)), tree.matches(&seen),
                "{} of {:?}", tree.text(), sketch
            );
        }
    }

    #[test]
    fn filters_are_printed_as_they_are_read(tree in tree(false)) {
        let filter = parse(&tree.text()).unwrap();
        prop_assert_eq!(parse(&filter.to_string()).unwrap(), filter);
    }

    #[test]
    fn cut_frames_only_lack_what_was_cut(
        tree in tree(false), sketch in sketch(false), fate in fate(), len in 0..200usize,
    ) {
        // What a cut frame does not match by lack, no extension of it can have decided: a filter
        // without `not` never gains a match from a cut.
        let frame = sketch.frame();
        let whole = packet(&frame, fate);
        let cut = Packet { frame: &frame[..len.min(frame.len())], ..whole };
        let filter = parse(&tree.text()).unwrap();
        let (cut, whole) = (filter.matches(&cut), filter.matches(&whole));
        prop_assert!(!cut || whole || filter.to_string().contains("not"));
    }

    #[test]
    fn bytes_behind_the_first_256_change_nothing(
        tree in tree(false), sketch in sketch(false), fate in fate(), tail in any::<[u8; 300]>(),
    ) {
        let mut frame = sketch.frame();
        frame.resize(256, 0);
        let filter = parse(&tree.text()).unwrap();
        let before = filter.matches(&Packet { len: 600, ..packet(&frame, fate) });
        frame.extend(tail);
        let after = filter.matches(&Packet { len: 600, ..packet(&frame, fate) });
        prop_assert_eq!(before, after);
    }

    #[test]
    fn no_frame_is_too_hostile(
        tree in tree(false),
        sketch in sketch(false),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        noise in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let filter = parse(&tree.text()).unwrap();
        let mut frame = sketch.frame();
        for (index, value) in flips {
            *index.get_mut(&mut frame) = value;
        }
        for frame in [&frame, &noise] {
            for len in 0..=frame.len() {
                filter.matches(&packet(&frame[..len], PacketEvent::Out));
            }
        }
    }

    #[test]
    fn no_text_is_too_hostile(
        words in prop::collection::vec(
            prop_oneof![
                4 => prop::sample::select(vec![
                    "host", "net", "port", "portrange", "src", "dst", "tcp", "ip6", "less",
                    "dropped", "and", "or", "not", "!", "(", ")", "&&", "||", "a", "b", "80",
                    "10.0.0.1", "fd00::/8", "1-2", "queue",
                ]).prop_map(str::to_owned),
                1 => any::<String>(),
            ],
            0..30,
        ),
    ) {
        let text = words.join(" ");
        match parse(&text) {
            Ok(filter) => prop_assert_eq!(parse(&filter.to_string()).unwrap(), filter),
            Err(error) => {
                let len = text.chars().count();
                prop_assert!((1..=len + 1).contains(&error.column) && error.width > 0, "{:?}", error);
                prop_assert!(error.column + error.width <= len + 2);
                prop_assert!(!error.message.is_empty() && !error.hint.is_empty());
                prop_assert!(!error.to_string().contains(char::is_control));
            }
        }
    }
}

/// How texts print: shorthands written out, names resolved.
#[test]
fn shorthands_are_written_out() {
    let cases = [
        ("", ""),
        (" \t", ""),
        ("tcp", "tcp"),
        ("host b", "host 10.0.0.2"),
        ("src b", "src host 10.0.0.2"),
        ("host a", "(host 10.0.0.1 or host fd00::1)"),
        ("not host a", "not (host 10.0.0.1 or host fd00::1)"),
        ("host tcp and tcp", "host 10.0.0.3 and tcp"),
        ("host 10.0.0.1 or b", "host 10.0.0.1 or host 10.0.0.2"),
        ("port 80 or 443", "port 80 or port 443"),
        (
            "not host b and 10.0.0.9",
            "not host 10.0.0.2 and host 10.0.0.9",
        ),
        (
            "dst host b and (10.0.0.8 or 10.0.0.9)",
            "dst host 10.0.0.2 and (dst host 10.0.0.8 or dst host 10.0.0.9)",
        ),
        (
            "tcp port 80 or 81",
            "(tcp and port 80) or (tcp and port 81)",
        ),
        (
            "ip6 src host a",
            "(ip6 and (src host 10.0.0.1 or src host fd00::1))",
        ),
        ("arp net 10.0.0.0/8", "(arp and net 10.0.0.0/8)"),
        ("net 10.0.0.1/32", "host 10.0.0.1"),
        ("net ::/0", "net ::/0"),
        ("portrange 7-7", "port 7"),
        ("udp dst portrange 1-2", "(udp and dst portrange 1-2)"),
        (
            "!tcp&&(less 9||greater 10)",
            "not tcp and (less 9 or greater 10)",
        ),
        ("dropped and dropped queue", "dropped and dropped queue"),
        ("(dropped)", "(dropped)"),
        ("not not dropped loss", "not not dropped loss"),
    ];
    for (text, printed) in cases {
        let filter = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(filter.to_string(), printed, "{text}");
    }
}

#[test]
fn errors_say_where_and_what_to_write() {
    let cases = [
        (
            "tpc",
            1,
            "`tpc` is not the beginning of a test",
            "did you mean `tcp`?",
        ),
        (
            "TCP",
            1,
            "`TCP` is not the beginning of a test",
            "did you mean `tcp`?",
        ),
        (
            "10.0.0.1",
            1,
            "is not the beginning of a test",
            "write `host 10.0.0.1`",
        ),
        (
            "tcp or b",
            8,
            "is not the beginning of a test",
            "write `host b`",
        ),
        (
            "10.0.0.0/8",
            1,
            "is not the beginning of a test",
            "write `net 10.0.0.0/8`",
        ),
        ("vlan 7", 1, "not supported", "docs/captures.md"),
        (
            "quux",
            1,
            "is not the beginning of a test",
            "one of host, net, port",
        ),
        (
            "tcp adn udp",
            5,
            "`adn` follows a whole filter",
            "did you mean `and`?",
        ),
        (
            "tcp udp",
            5,
            "`udp` follows a whole filter",
            "join tests by `and` or `or`",
        ),
        (
            "tcp and",
            8,
            "ends where a test should be",
            "such as `host 10.0.0.1`",
        ),
        ("and tcp", 1, "`and` where a test should be", "such as"),
        ("( )", 3, "`)` where a test should be", "such as"),
        (
            "(tcp",
            5,
            "the `(` of column 1 is not closed",
            "write a `)`",
        ),
        (
            "(tcp udp)",
            6,
            "the `(` of column 1 is not closed",
            "`and` or `or`",
        ),
        ("tcp)", 4, "`)` closes nothing", "remove it"),
        ("host", 5, "ends where a value should be", "`host 10.0.0.1`"),
        (
            "host (a or b)",
            6,
            "`(` where a value should be",
            "`host 10.0.0.1`",
        ),
        ("host c", 6, "no host called `c`", "the hosts are a, b"),
        ("host none", 6, "`none` has no address", "write an address"),
        (
            "host a or prot 80",
            11,
            "no host called `prot`",
            "did you mean `port`?",
        ),
        ("net 10.0.0.0", 5, "is not a net", "`net 10.0.0.0/8`"),
        ("net 10.0.0.0/33", 5, "is not a net", "0 to 32"),
        ("net fd00::/129", 5, "is not a net", "0 to 128"),
        (
            "net 10.0.0.1/8",
            5,
            "has bits set after the first 8",
            "write `net 10.0.0.0/8`",
        ),
        ("port http", 6, "`http` is not a port", "0 to 65535"),
        ("port 65536", 6, "is not a port", "0 to 65535"),
        ("port 010", 6, "is not a port", "decimal"),
        ("port +1", 6, "`+` means nothing", "letters, digits"),
        (
            "portrange 9",
            11,
            "not a range of ports",
            "`portrange 8000-8099`",
        ),
        (
            "portrange 9-8",
            11,
            "`9-8` contains no port",
            "write `portrange 8-9`",
        ),
        ("less x", 6, "`x` is not a length", "`less 100`"),
        ("greater 4294967296", 9, "is not a length", "`greater 100`"),
        (
            "dropped queu",
            9,
            "`queu` is not a cause of drops",
            "did you mean `queue`?",
        ),
        (
            "dropped tcp",
            9,
            "`tcp` is not a cause of drops",
            "queue, loss, link_down",
        ),
        (
            "icmp host a",
            1,
            "`icmp` cannot qualify `host`",
            "`icmp and host 10.0.0.1`",
        ),
        (
            "ip port 80",
            1,
            "`ip` cannot qualify `port`",
            "`ip and port 80`",
        ),
        (
            "tcp src a",
            1,
            "`tcp` cannot qualify `host`",
            "`tcp and host 10.0.0.1`",
        ),
        ("tcp & udp", 5, "`&` means nothing", "`&&` or `and`"),
        (
            "tcp[13] = 2",
            4,
            "`[` means nothing",
            "arithmetic is not supported",
        ),
        ("höst a", 2, "`ö` means nothing", "letters, digits"),
        ("tcp and é", 9, "`é` means nothing", "letters, digits"),
        (
            "tcp and \x1b[2J",
            9,
            "`\\u{1b}` means nothing",
            "letters, digits",
        ),
    ];
    for (text, column, message, hint) in cases {
        let error = parse(text).expect_err(text);
        assert_eq!(error.column, column, "{text}: {error}");
        assert!(error.message.contains(message), "{text}: {error}");
        assert!(error.hint.contains(hint), "{text}: {error}");
    }
}

#[test]
fn filters_are_bounded() {
    let nested = |depth: usize| "(".repeat(depth) + "tcp" + &")".repeat(depth);
    assert!(parse(&nested(DEPTH_MAX)).is_ok());
    assert!(
        parse(&nested(DEPTH_MAX + 1))
            .unwrap_err()
            .message
            .contains("32 deep")
    );
    let negated = |depth: usize| "!".repeat(depth) + "tcp port 80";
    assert!(parse(&negated(DEPTH_MAX - 1)).is_ok());
    assert!(parse(&negated(DEPTH_MAX)).is_err());
    let many = |count: usize| vec!["tcp"; count].join(" or ");
    assert!(parse(&many(ELEMENTS_MAX)).is_ok());
    assert!(
        parse(&many(ELEMENTS_MAX + 1))
            .unwrap_err()
            .message
            .contains("512")
    );
    assert!(parse(&" ".repeat(TEXT_MAX)).is_ok());
    assert!(parse(&" ".repeat(TEXT_MAX + 1)).is_err());
    // A host's addresses count, and whatever parses also prints within bounds.
    let address = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
        .parse::<IpAddr>()
        .unwrap();
    let with = |addresses: usize| Filter::parse("src host a", &|_| Ok(vec![address; addresses]));
    let longest = with(ELEMENTS_MAX - 1).unwrap();
    assert_eq!(parse(&longest.to_string()).unwrap(), longest);
    assert!(with(ELEMENTS_MAX).is_err());
}

#[test]
fn not_binds_most_and_the_others_from_left_to_right() {
    let frame = from_web_server();
    let packet = packet(&frame, PacketEvent::Out);
    // udp is false, tcp is true: each would differ with another precedence.
    for (text, so) in [
        ("tcp or tcp and udp", false),
        ("tcp or (tcp and udp)", true),
        ("not udp or tcp", true),
        ("not (udp or tcp)", false),
        ("not tcp and udp or tcp", true),
    ] {
        assert_eq!(parse(text).unwrap().matches(&packet), so, "{text}");
    }
}

#[test]
fn a_header_shorter_than_one_has_no_ports() {
    let mut frame = from_web_server();
    let port = parse("port 80 or portrange 0-65535").unwrap();
    assert!(port.matches(&packet(&frame, PacketEvent::Out)));
    frame[14] = 0x44;
    assert!(!port.matches(&packet(&frame, PacketEvent::Out)));
}

fn from_web_server() -> Vec<u8> {
    use common::frames::{Network, Sketch};
    let sketch = Sketch {
        tags: Vec::new(),
        network: Network::Ipv4 {
            ends: [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()],
            options: 0,
            offset: 0,
        },
        protocol: 6,
        ports: [80, 4000],
        payload: 20,
    };
    sketch.frame()
}
