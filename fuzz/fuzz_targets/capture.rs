//! Hostile filters and hostile frames for captures.
//!
//! Input: length of the filter's text, fate, snapshot length, then the text and the frame. Each
//! frame also meets a filter with every kind of test.
#![no_main]

use std::net::IpAddr;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use longhaul_capture::{Filter, Interface, Limits, Packet, Section, Writer};
use longhaul_core::Time;
use longhaul_core::witness::PacketEvent;

static EVERY_TEST: LazyLock<Filter> = LazyLock::new(|| {
    let text = "host a and not src net 10.0.0.0/8 or (tcp dst port 80 or udp portrange 1-9) \
                and icmp or icmp6 or arp host 10.0.0.1 or ip6 net fd00::/8 or dropped queue \
                and less 100 or greater 40";
    Filter::parse(text, &resolve).expect("it parses")
});

fn resolve(name: &str) -> Result<Vec<IpAddr>, String> {
    match name {
        "a" => Ok(vec![
            [10, 0, 0, 1].into(),
            [0xfd00, 0, 0, 0, 0, 0, 0, 1].into(),
        ]),
        _ => Err("the only host is a".to_owned()),
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&[text_len, fate, snaplen], rest)) = data.split_first_chunk() else {
        return;
    };
    let (text, frame) = rest.split_at(usize::from(text_len).min(rest.len()));
    let fates = [PacketEvent::In, PacketEvent::Out, PacketEvent::Queue, PacketEvent::Absorbed];
    let packet = Packet {
        time: Time::from_ns(rest.len() as u64),
        fate: fates[usize::from(fate) % fates.len()],
        frame,
        len: frame.len() + usize::from(fate),
    };
    EVERY_TEST.matches(&packet);
    let text = String::from_utf8_lossy(text);
    match Filter::parse(&text, &resolve) {
        Ok(filter) => {
            filter.matches(&packet);
            let printed = Filter::parse(&filter.to_string(), &resolve);
            assert_eq!(printed.as_ref(), Ok(&filter), "{filter}");
        }
        Err(error) => assert!((1..=text.chars().count() + 1).contains(&error.column)),
    }
    write(&text, &packet, u32::from(snaplen) + 1);
});

fn write(text: &str, packet: &Packet<'_>, snaplen: u32) {
    let limits = Limits {
        snaplen,
        file: 2000,
    };
    let section = Section {
        comment: text,
        ..Section::default()
    };
    let interface = Interface {
        name: text,
        filter: text,
        ..Interface::default()
    };
    let mut file = Vec::new();
    let names = [([10, 0, 0, 1].into(), text)];
    let Ok(mut writer) = Writer::new(&mut file, limits, &section, &[interface], names) else {
        return;
    };
    for _ in 0..3 {
        writer.packet(0, packet).expect("memory takes all");
    }
    writer
        .finish(Time::ZERO, packet.time)
        .expect("memory takes all");
    assert!(file.len() <= 2000);
    let mut rest = &file[..];
    while let Some(&[_, _, _, _, a, b, c, d]) = rest.first_chunk() {
        let len = u32::from_le_bytes([a, b, c, d]) as usize;
        assert!(rest[len - 4..len] == [a, b, c, d] && len.is_multiple_of(4));
        rest = &rest[len..];
    }
    assert!(rest.is_empty());
}
