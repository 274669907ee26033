use domain::base::iana::OptionCode;
use domain::base::opt::AllOptData;
use proptest::prelude::*;

use super::*;

const MAX_MEAN_NS: &str = "x23456789-x23456789-x23456789-x23456789-x23456789-x234567890";

fn address(number: u8) -> (Ipv4Addr, Ipv6Addr) {
    let ipv6 = Ipv6Addr::new(0xfd6c, 0x6f6e, 0x6768, 0, 0, 0, 0, number.into());
    (Ipv4Addr::new(10, 0, 0, number), ipv6)
}

fn names() -> Names {
    let all = ["a0", "a1", "eu.west", "A0", MAX_MEAN_NS]
        .into_iter()
        .zip(1..);
    Names::new(all.map(|(name, number)| {
        let (ipv4, ipv6) = address(number);
        (name, ipv4, ipv6)
    }))
}

/// A query with or without an extension of this version.
fn query(name: &str, kind: Rtype, extended: Option<u8>) -> Vec<u8> {
    let mut wire = labels(name.trim_end_matches('.'));
    if wire == [0] {
        wire.clear();
    }
    wire.push(0);
    let mut builder = MessageBuilder::new_vec();
    builder.header_mut().set_id(0x1234);
    builder.header_mut().set_rd(true);
    let mut builder = builder.question();
    let name = Name::<Vec<u8>>::from_octets(wire).unwrap();
    builder.push((name, kind)).unwrap();
    let mut builder = builder.additional();
    if let Some(version) = extended {
        let set = builder.opt(|opt| {
            opt.set_version(version);
            opt.set_udp_payload_size(4096);
            Ok(())
        });
        set.unwrap();
    }
    builder.finish()
}

/// What a query gets: rcode, answers and authority, as text.
fn ask(query: &[u8]) -> (Rcode, Vec<String>, Vec<String>) {
    let bytes = names().answer(query).expect("an answer");
    assert!(bytes.len() <= MAX_ANSWER, "{} bytes", bytes.len());
    let message = Message::from_octets(bytes).unwrap();
    let header = message.header();
    assert!(header.qr() && !header.tc(), "{header:?}");
    assert_eq!(header.id(), 0x1234);
    let text = |section: domain::base::message::RecordSection<'_, Vec<u8>>| {
        let records = section.limit_to::<domain::rdata::AllRecordData<_, _>>();
        let text = records.map(|record| {
            let record = record.unwrap();
            format!("{} {} {}", record.owner(), record.rtype(), record.data())
        });
        text.collect::<Vec<_>>()
    };
    (
        header.rcode(),
        text(message.answer().unwrap()),
        text(message.authority().unwrap()),
    )
}

fn answers(name: &str, kind: Rtype) -> Vec<String> {
    let (rcode, answers, authority) = ask(&query(name, kind, None));
    assert_eq!((rcode, authority.len()), (Rcode::NOERROR, 0), "{name}");
    answers
}

/// Whether a name is there without this type.
fn is_empty(name: &str, kind: Rtype) -> bool {
    let (rcode, answers, authority) = ask(&query(name, kind, None));
    assert_eq!((answers.len(), authority.len()), (0, 1), "{name}");
    assert!(authority[0].starts_with(" SOA "), "{authority:?}");
    assert!(
        [Rcode::NOERROR, Rcode::NXDOMAIN].contains(&rcode),
        "{rcode}"
    );
    rcode == Rcode::NOERROR
}

#[test]
fn nodes_have_addresses_by_both_names() {
    assert_eq!(answers("a1", Rtype::A), ["a1 A 10.0.0.2"]);
    assert_eq!(
        answers("a1.longhaul.internal.", Rtype::AAAA),
        ["a1.longhaul.internal AAAA fd6c:6f6e:6768::2"]
    );
    assert_eq!(answers("eu.west", Rtype::ANY).len(), 2);
    // As it was asked, which some clients check; the first of two that differ in case only.
    assert_eq!(
        answers("A0.LongHaul.Internal", Rtype::A),
        ["A0.LongHaul.Internal A 10.0.0.1"]
    );
    assert_eq!(
        answers("x.localhost", Rtype::A),
        ["x.localhost A 127.0.0.1"]
    );
    assert_eq!(answers("localhost", Rtype::AAAA), ["localhost AAAA ::1"]);
}

#[test]
fn addresses_lead_back_to_names() {
    assert_eq!(
        answers("3.0.0.10.in-addr.arpa", Rtype::PTR),
        ["3.0.0.10.in-addr.arpa PTR eu.west.longhaul.internal."]
    );
    let v6 = |digit| {
        format!(
            "{digit}.{}8.6.7.6.e.6.f.6.c.6.d.f.ip6.arpa",
            "0.".repeat(19)
        )
    };
    assert_eq!(
        answers(&v6(2), Rtype::PTR),
        [format!("{} PTR a1.longhaul.internal.", v6(2))]
    );
    assert_eq!(answers("1.0.0.127.in-addr.arpa", Rtype::PTR).len(), 1);
    assert!(!is_empty("99.0.0.10.in-addr.arpa", Rtype::PTR));
    assert!(!is_empty(&v6(0), Rtype::PTR));
    assert!(is_empty("3.0.0.10.in-addr.arpa", Rtype::A));
    for above in [
        "arpa",
        "in-addr.arpa",
        "0.0.10.in-addr.arpa",
        "c.6.d.f.ip6.arpa",
    ] {
        assert!(is_empty(above, Rtype::PTR), "{above}");
    }
    for other in [
        "1.3.0.0.10.in-addr.arpa",
        "03.0.0.10.in-addr.arpa",
        "x.0.0.10.in-addr.arpa",
        "ab.ip6.arpa",
        "x.arpa",
    ] {
        assert!(!is_empty(other, Rtype::PTR), "{other}");
    }
}

#[test]
fn what_does_not_exist_is_answered_at_once() {
    for unknown in [
        "b",
        "example.com",
        "a0.example.com",
        "a0.a1",
        "b.longhaul.internal",
        "a0.internal",
    ] {
        assert!(!is_empty(unknown, Rtype::A), "{unknown}");
    }
    for above in [
        "west",
        "west.longhaul.internal",
        "longhaul.internal",
        "internal",
        ".",
    ] {
        assert!(is_empty(above, Rtype::A), "{above}");
    }
    assert_eq!(answers(".", Rtype::SOA).len(), 1);
    for kind in [Rtype::MX, Rtype::HTTPS, Rtype::from_int(65280)] {
        assert!(is_empty("a0", kind), "{kind}");
    }
}

#[test]
fn questions_of_other_kinds_are_refused() {
    let rcode = |query: &[u8]| ask(query).0;
    let plain = query("a0", Rtype::A, None);
    let with = |at: usize, byte: u8| {
        let mut changed = plain.clone();
        changed[at] = byte;
        changed
    };
    let class = plain.len() - 1;
    assert_eq!(rcode(&with(class, 3)), Rcode::REFUSED, "CH");
    assert_eq!(rcode(&with(class, 255)), Rcode::NOERROR, "ANY");
    assert_eq!(rcode(&with(2, 4 << 3)), Rcode::NOTIMP, "NOTIFY");
    assert_eq!(rcode(&with(5, 2)), Rcode::FORMERR, "a question is missing");
    assert_eq!(rcode(&with(5, 0)), Rcode::FORMERR, "no question");
    assert_eq!(rcode(&with(7, 1)), Rcode::FORMERR, "an answer");
    assert_eq!(rcode(&query("a0", Rtype::AXFR, None)), Rcode::REFUSED);
    assert!(names().answer(&with(2, 0x80)).is_none(), "a reply");
    assert!(names().answer(&plain[..11]).is_none(), "no header");
}

#[test]
fn a_question_cannot_refer_to_what_stands_before_it() {
    // The flags look like a name of one letter, and the question ends in a reference to them.
    let mut query = b"\x12\x34\x01x\0\x01\0\0\0\0\0\0".to_vec();
    query.extend_from_slice(b"\x02a0\xc0\x02\0\x01\0\x01");
    assert_eq!(ask(&query).0, Rcode::FORMERR);
}

#[test]
fn extensions_are_understood() {
    let answer = |version| {
        let answer = names().answer(&query("a0", Rtype::A, Some(version)));
        Message::from_octets(answer.unwrap()).unwrap()
    };
    let new = answer(0);
    let opt = new.opt().expect("an extension");
    assert_eq!(usize::from(opt.udp_payload_size()), MAX_QUERY);
    assert_eq!(opt.opt().iter::<AllOptData<_, _>>().count(), 0);
    assert_eq!(new.header_counts().ancount(), 1);
    let newer = answer(1);
    assert_eq!(newer.opt_rcode(), OptRcode::BADVERS);
    assert_eq!(newer.header_counts().ancount(), 0);
    let old = names().answer(&query("a0", Rtype::A, None)).unwrap();
    assert!(Message::from_octets(old).unwrap().opt().is_none());
}

#[test]
fn the_longest_names_fit() {
    for kind in [Rtype::ANY, Rtype::A, Rtype::MX] {
        let (rcode, ..) = ask(&query(&format!("{MAX_MEAN_NS}.{DOMAIN}"), kind, Some(0)));
        assert_eq!(rcode, Rcode::NOERROR);
    }
    assert_eq!(
        ask(&query("5.0.0.10.in-addr.arpa", Rtype::PTR, Some(0))).0,
        Rcode::NOERROR
    );
    // 255 bytes with the root.
    let unknown = format!("{0}.{0}.{0}.{1}", "y".repeat(63), "z".repeat(61));
    assert_eq!(ask(&query(&unknown, Rtype::A, Some(0))).0, Rcode::NXDOMAIN);
    assert_eq!(ask(&query(&unknown, Rtype::SOA, Some(1))).0, Rcode::NOERROR);
}

/// What holds for whatever arrives.
fn holds(bytes: &[u8]) {
    let Some(answer) = names().answer(bytes) else {
        return;
    };
    assert!(bytes.len() >= 12 && bytes[2] & 0x80 == 0, "answers a reply");
    // One start of authority or one name, and the extension.
    assert!(answer.len() <= MAX_ANSWER && answer.len() <= bytes.len() + 144);
    assert_eq!(answer[..2], bytes[..2]);
    assert_eq!(
        names().answer(&answer),
        None,
        "two servers would talk for ever"
    );
    let message = Message::from_octets(answer.as_slice()).unwrap();
    for record in message.iter() {
        record.expect("a record");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..700)) {
        holds(&bytes);
    }

    #[test]
    fn any_change_of_a_query_is_survived(
        name in "[a-z0-9.]{0,9}(longhaul\\.internal|in-addr\\.arpa|ip6\\.arpa|a0)",
        kind in any::<u16>(),
        extended in any::<Option<u8>>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let labels: Vec<&str> = name.split('.').filter(|label| !label.is_empty()).collect();
        let name = labels.join(".");
        let mut bytes = query(&name, Rtype::from_int(kind), extended);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        holds(&bytes);
        bytes.truncate(cut.index(bytes.len() + 1));
        holds(&bytes);
    }

    #[test]
    fn options_of_an_extension_are_passed_over(data in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut builder = MessageBuilder::new_vec().question();
        builder.push((Name::root_vec(), Rtype::NS)).unwrap();
        let mut builder = builder.additional();
        let option = domain::base::opt::UnknownOptData::new(OptionCode::PADDING, data).unwrap();
        builder.opt(|opt| opt.push(&option)).unwrap();
        holds(&builder.finish());
    }
}
