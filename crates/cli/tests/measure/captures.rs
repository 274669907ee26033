//! Captures of the experiment file, read by a reader of their own.

use std::fs;

use serde_json::Value;

use crate::reader::{self, File, Packet};
use crate::{Run, Scratch};

/// The frame check sequence, which pipes count and files lack.
const FCS: u64 = 4;

/// The captures of a run: what the summary says of each, and its file.
fn captures(run: &Run) -> Vec<(&Value, File)> {
    let captures = run.summary["captures"].as_array().unwrap();
    let read = |listed: &&Value| {
        let path = run.folder.join(listed["file"].as_str().unwrap());
        reader::read(&fs::read(path).unwrap())
    };
    captures
        .iter()
        .map(|listed| (listed, read(&listed)))
        .collect()
}

fn comment(packet: &Packet) -> &str {
    packet.options.text(1)
}

/// The packets of the interface of a pipe.
fn of<'a>(file: &'a File, pipe: &str) -> Vec<&'a Packet> {
    let name = |interface: &reader::Interface| interface.options.text(2) == pipe;
    let interface = file.interfaces.iter().position(name);
    let interface = interface.unwrap_or_else(|| panic!("no interface of {pipe}"));
    let packets = file.packets.iter();
    packets
        .filter(|packet| packet.interface == interface)
        .collect()
}

#[test]
fn an_exit_has_what_the_pipe_counts() {
    let scratch = Scratch::new("exit");
    let run = scratch.run("capture: [all]", &[]);
    let [(listed, file)] = &captures(&run)[..] else {
        panic!("one capture");
    };
    assert_eq!(
        (&listed["links"], &listed["file"]),
        (&"all".into(), &"captures/all.pcapng".into())
    );
    assert_eq!(
        (listed["packets"].as_u64(), listed["missed"].as_u64()),
        (Some(file.packets.len() as u64), Some(0))
    );
    assert_eq!(
        (file.rest, file.statistics.len()),
        (0, file.interfaces.len())
    );
    assert!(
        file.packets.is_sorted_by_key(|packet| packet.time),
        "in order of time"
    );
    for (name, pipe) in run.pipes() {
        let packets = of(file, name);
        let with = |text: &str| {
            packets
                .iter()
                .filter(|packet| comment(packet) == text)
                .count() as u64
        };
        let counted = |field: &str| pipe[field].as_u64().unwrap();
        assert_eq!(with(""), counted("packets"), "{name}");
        assert_eq!(with("dropped: queue"), counted("drops_queue"), "{name}");
        assert_eq!(with("dropped: loss"), counted("drops_loss"), "{name}");
        assert_eq!(with("dropped: link_down"), counted("drops_down"), "{name}");
        let out = packets.iter().filter(|packet| comment(packet).is_empty());
        let bytes: u64 = out.map(|packet| u64::from(packet.len) + FCS).sum();
        assert_eq!(bytes, counted("bytes"), "{name}");
    }
    for statistics in &file.statistics {
        let name = file.interfaces[statistics.interface].options.text(2);
        assert_eq!(
            statistics.options.u64(4),
            Some(of(file, name).len() as u64),
            "isb_ifrecv"
        );
        assert_eq!(statistics.options.u64(5), Some(0), "isb_ifdrop");
    }
    // A virtual run does not say when it was made.
    let text = file.section.text(1);
    assert!(
        text.contains("Experiment measured, seed 1.") && !text.contains("began"),
        "{text}"
    );
}

#[test]
fn an_entry_has_what_comes_to_the_pipe() {
    let scratch = Scratch::new("entry");
    let run = scratch.run("capture: [{ link: \"g>h\", at: entry }, { link: \"h>b1\", at: entry }], packets: [{ link: [\"g>h\", \"h>b1\"] }], format: csv", &[]);
    let rows = run.rows("packets");
    for ((_, file), pipe) in captures(&run).iter().zip(["g>h", "h>b1"]) {
        let mut arrivals: Vec<u64> = rows
            .iter()
            .filter(|row| row.text("pipe") == pipe)
            .map(|row| row.whole("arrival_ns"))
            .collect();
        arrivals.sort_unstable();
        let mut seen: Vec<u64> = of(file, pipe).iter().map(|packet| packet.time).collect();
        assert!(seen.is_sorted());
        // Those that are still inside at the end have no row.
        let last = *arrivals.last().unwrap();
        seen.retain(|time| *time <= last);
        let inside = run.summary["packets"]["inside"].as_u64().unwrap() as usize;
        assert!(
            seen.len() - arrivals.len() <= inside,
            "{} and {}",
            seen.len(),
            arrivals.len()
        );
        assert!(arrivals.len() > 1000);
        // What the queue refuses at once says so; what its discipline drops later came in like all others.
        let refused = of(file, pipe)
            .iter()
            .filter(|packet| comment(packet) == "dropped: queue")
            .count() as u64;
        let counted = run.pipes()[pipe]["drops_queue"].as_u64().unwrap()
            - run.pipes()[pipe]["drops_early"].as_u64().unwrap();
        assert_eq!(refused, counted, "{pipe}");
    }
}

/// At an entry a filter may ask for what the queue refuses, which is known only after the packet has come.
#[test]
fn an_entry_chooses_by_what_is_refused() {
    let scratch = Scratch::new("refused");
    let run = scratch.run(
        "capture: [{ link: all, at: entry }, { link: all, at: entry, filter: dropped }, \
         { link: all, at: entry, filter: not dropped queue }, { link: all, at: entry, filter: dropped link_down }]",
        &[],
    );
    let captures = captures(&run);
    let [(_, all), (_, dropped), (_, others), (_, down)] = &captures[..] else {
        panic!("four captures");
    };
    let chosen = |file: &File, chooses: fn(&str) -> bool| -> Vec<(usize, u64, Vec<u8>)> {
        let packets = file.packets.iter();
        let packets = packets.filter(|packet| chooses(comment(packet)));
        let packet = |packet: &Packet| (packet.interface, packet.time, packet.frame.clone());
        packets.map(packet).collect()
    };
    let all_of = |file: &File| chosen(file, |_| true);
    assert!(all_of(dropped) == chosen(all, |comment| !comment.is_empty()));
    assert!(all_of(others) == chosen(all, |comment| comment != "dropped: queue"));
    assert!(all_of(down) == chosen(all, |comment| comment == "dropped: link_down"));
    let refused: u64 = run
        .pipes()
        .values()
        .map(|pipe| pipe["drops_queue"].as_u64().unwrap() - pipe["drops_early"].as_u64().unwrap())
        .sum();
    let queue = chosen(dropped, |comment| comment == "dropped: queue");
    assert_eq!(queue.len() as u64, refused);
    assert!(refused > 0 && others.packets.len() > 1000);
}

/// A pipe reports a loss when the packet would have come out; a delay that grows meanwhile changes no order.
#[test]
fn packets_are_in_order_when_a_delay_grows() {
    let scratch = Scratch::new("grows");
    let text = "\
name: grows
clock: virtual
duration: 3 s
topology: { nodes: { a: {}, b: {} }, links: [{ ends: [a, b], rate: 10 Mbit/s, delay: 5 ms, loss: 5 % }] }
traffic: { steady: { from: a, to: b, model: udp, rate: 5 Mbit/s } }
events: [{ at: 1 s, link: a-b, set: { delay: 300 ms } }, { at: 2 s, link: a-b, set: { delay: 1 ms } }]
measure: { capture: [\"a>b\"] }
";
    let run = scratch.run_file(text, &[]);
    let captures = captures(&run);
    let packets = &captures[0].1.packets;
    let lost = |packet: &&Packet| comment(packet) == "dropped: loss";
    assert!(packets.iter().filter(lost).count() > 20);
    let falls = packets
        .windows(2)
        .filter(|pair| pair[0].time > pair[1].time);
    assert_eq!(falls.count(), 0, "of {} packets", packets.len());
}

#[test]
fn filters_and_lengths_choose() {
    let scratch = Scratch::new("filter");
    let run = scratch.run(
        "capture: [all, { link: all, filter: udp and host b1, snaplen: 60 B }, { link: all, filter: dropped loss }, \
         { link: [g-h, a-g], filter: greater 1000 }]",
        &[],
    );
    let captures = captures(&run);
    let [(_, all), (_, udp), (_, lost), (named, large)] = &captures[..] else {
        panic!("four captures");
    };
    let b1 = all
        .names
        .iter()
        .find(|(address, name)| name == "b1" && address.is_ipv4());
    let std::net::IpAddr::V4(b1) = b1.expect("b1 has an address").0 else {
        panic!("IPv4");
    };
    let b1 = b1.octets();
    let chosen = all.packets.iter().filter(|packet| {
        packet.frame[23] == 17 && (packet.frame[26..30] == b1 || packet.frame[30..34] == b1)
    });
    let expected: Vec<_> = chosen
        .map(|packet| {
            (
                packet.time,
                packet.len,
                packet.frame[..60.min(packet.frame.len())].to_vec(),
            )
        })
        .collect();
    let found: Vec<_> = udp
        .packets
        .iter()
        .map(|packet| (packet.time, packet.len, packet.frame.clone()))
        .collect();
    assert!(expected.len() > 500);
    assert!(found == expected, "{} and {}", found.len(), expected.len());
    assert!(
        lost.packets
            .iter()
            .all(|packet| comment(packet) == "dropped: loss")
    );
    assert_eq!(
        Some(lost.packets.len() as u64),
        run.summary["packets"]["dropped"]["loss"].as_u64()
    );
    assert_eq!(named["file"], "captures/g-h+a-g.pcapng");
    assert!(large.packets.iter().all(|packet| packet.len >= 1000));
    assert_eq!(large.interfaces.len(), 8);
    for interface in &udp.interfaces {
        assert_eq!(interface.options.get(11), Some(&b"\0udp and host b1"[..]));
    }
}

#[test]
fn a_file_that_is_full_says_so() {
    let scratch = Scratch::new("size");
    let run = scratch.run("capture: [{ link: \"g>h\", size: 1 MB }, g-h]", &[]);
    let captures = captures(&run);
    let [(listed, file), (second, _)] = &captures[..] else {
        panic!("two captures");
    };
    assert_eq!(listed["file"], "captures/g-to-h.pcapng");
    assert_eq!(second["missed"], 0);
    let path = run.folder.join("captures/g-to-h.pcapng");
    assert!(fs::metadata(path).unwrap().len() <= 1_000_000);
    let pipe = run.pipes()["g>h"];
    let all = pipe["packets"].as_u64().unwrap() + pipe["drops"].as_u64().unwrap();
    let (packets, missed) = (
        listed["packets"].as_u64().unwrap(),
        listed["missed"].as_u64().unwrap(),
    );
    assert_eq!(packets, file.packets.len() as u64);
    assert_eq!(packets + missed, all);
    assert!(missed > 100);
    let warning = format!(
        "captures/g-to-h.pcapng (the capture of g>h) lacks {missed} packets: it reached its `size`"
    );
    assert!(run.warnings().contains(&&*warning), "{:?}", run.warnings());
    let statistics = &file.statistics[0].options;
    assert_eq!(statistics.u64(4), Some(all));
    assert_eq!(statistics.u64(5), Some(missed));
}
