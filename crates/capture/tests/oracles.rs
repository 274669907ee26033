//! What others make of the same files: tcpdump of the filters, tshark and capinfos of the rest.

mod common;
#[path = "../../../tests/skip.rs"]
mod skip;

use std::io::{ErrorKind, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use common::config;
use common::frames::sketch;
use common::trees::tree;
use longhaul_capture::{Direction, Filter, Interface, Limits, Packet, Section, Writer};
use longhaul_core::Time;
use longhaul_core::witness::PacketEvent;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use skip::skip;

/// Whether a program is there; says so where it is not.
fn is_there(program: &str, package: &str) -> bool {
    match Command::new(program).arg("--version").output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skip(&format!("{program} is missing: install {package}"));
            false
        }
        output => output.is_ok(),
    }
}

/// Runs a program with a file as its input: what it writes, and what it complains of.
fn run(command: &mut Command, input: &[u8]) -> (Vec<u8>, String) {
    let piped = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = thread::scope(|scope| {
        // A program that refuses its arguments does not read.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    });
    (
        output.stdout,
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// Draws many values of a strategy, always the same ones.
fn draw<S: Strategy>(strategy: S, count: usize) -> Vec<S::Value> {
    let mut runner = TestRunner::new(config(1));
    let mut draw = || strategy.new_tree(&mut runner).unwrap().current();
    (0..count).map(|_| draw()).collect()
}

/// The times in microseconds of the packets of a pcap file, which is what tcpdump writes.
fn times(pcap: &[u8]) -> Vec<u64> {
    let word = |at: usize| u32::from_ne_bytes(pcap[at..at + 4].try_into().unwrap());
    assert!(pcap.len() >= 24 && word(0) == 0xa1b2_c3d4, "a pcap file");
    let (mut times, mut at) = (Vec::new(), 24);
    while at < pcap.len() {
        times.push(u64::from(word(at)) * 1_000_000 + u64::from(word(at + 4)));
        at += 16 + word(at + 8) as usize;
    }
    times
}

/// Packets that tcpdump chooses, by their times.
fn tcpdump(filter: &str, file: &[u8]) -> Vec<u64> {
    let mut command = Command::new("tcpdump");
    let (pcap, complaint) = run(command.args(["-n", "-r", "-", "-w", "-", filter]), file);
    if complaint.contains("expression rejects all packets") {
        return Vec::new();
    }
    assert!(!pcap.is_empty(), "{filter}: {complaint}");
    times(&pcap)
}

/// Frames, and a file of them with one a microsecond, by which they are known again.
struct Recorded {
    frames: Vec<Vec<u8>>,
    file: Vec<u8>,
}

impl Recorded {
    fn new(count: usize) -> Self {
        let sketches = draw(sketch(true), count);
        let mut recorded = Self {
            frames: sketches.iter().map(|sketch| sketch.frame()).collect(),
            file: Vec::new(),
        };
        let mut file = Vec::new();
        let limits = Limits {
            snaplen: 150,
            file: u64::MAX,
        };
        let point = [Interface::default()];
        let mut writer = Writer::new(&mut file, limits, &Section::default(), &point, []).unwrap();
        for index in 0..count {
            writer.packet(0, &recorded.packet(index)).unwrap();
        }
        writer.finish(Time::ZERO, Time::ZERO).unwrap();
        recorded.file = file;
        recorded
    }

    fn packet(&self, index: usize) -> Packet<'_> {
        Packet {
            time: Time::from_ns(index as u64 * 1000),
            fate: PacketEvent::Out,
            frame: &self.frames[index],
            len: self.frames[index].len(),
        }
    }

    /// How many packets a filter chooses, on which tcpdump agrees, also about what is printed.
    fn chosen(&self, text: &str) -> usize {
        let filter = Filter::parse(text, &|_| unreachable!()).unwrap();
        let all = 0..self.frames.len();
        let chosen = all.filter(|index| filter.matches(&self.packet(*index)));
        let ours: Vec<u64> = chosen.map(|index| index as u64).collect();
        let printed = filter.to_string();
        assert_eq!(ours, tcpdump(text, &self.file), "{text}");
        assert_eq!(
            ours,
            tcpdump(&printed, &self.file),
            "{text}, printed as {printed}"
        );
        ours.len()
    }
}

#[test]
fn tcpdump_chooses_the_same_packets() {
    if !is_there("tcpdump", "tcpdump") {
        return;
    }
    let recorded = Recorded::new(1000);
    let trees = draw(tree(true), 400);
    let chosen = trees.iter().map(|tree| recorded.chosen(&tree.text()));
    let some = chosen.filter(|chosen| (1..1000).contains(chosen)).count();
    assert!(
        some > 250,
        "only {some} of 400 filters choose neither all nor nothing"
    );
}

#[test]
fn tcpdump_reads_shorthands_alike() {
    if !is_there("tcpdump", "tcpdump") {
        return;
    }
    let recorded = Recorded::new(1000);
    for text in [
        "",
        "src 10.0.0.1",
        "host 10.0.0.1 or 10.0.0.2",
        "not host 10.0.0.1 and 10.0.0.2",
        "host 10.0.0.1 and (10.0.0.2 or 10.1.2.3)",
        "tcp dst port 80 or 443",
        "!port 80&&tcp||udp",
        "ip6 src net fd00::/8 or fe80::/10",
        "arp host 10.0.0.1",
    ] {
        assert!(recorded.chosen(text) > 0, "{text}");
    }
}

/// A file with all that there is to say.
fn example() -> Vec<u8> {
    let mut file = Vec::new();
    let about = Section {
        hardware: "an abacus",
        os: "Linux 6.1",
        application: "longhaul 0.1.0",
        comment: "experiment two-clusters, t = 0 at 2024-05-06T07:08:09Z",
    };
    let point = |name, direction| Interface {
        name,
        description: "pipe a>b",
        filter: "tcp",
        bits_per_s: Some(10_000_000),
        direction: Some(direction),
    };
    let interfaces = [
        point("a>b entry", Direction::Outbound),
        point("a>b exit", Direction::Inbound),
    ];
    let names = [
        (IpAddr::from([10, 0, 0, 1]), "alice"),
        (IpAddr::from([10, 0, 0, 2]), "bob"),
        ("fd00::1".parse().unwrap(), "alice6"),
    ];
    let limits = Limits {
        snaplen: 60,
        file: 1_000_000,
    };
    let mut writer = Writer::new(&mut file, limits, &about, &interfaces, names).unwrap();
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend_from_slice(&[
        0x45, 0, 0, 86, 0, 1, 0, 0, 64, 17, 0x66, 0x94, 10, 0, 0, 1, 10, 0, 0, 2,
    ]);
    frame.extend_from_slice(&[0x0f, 0xa0, 0x0f, 0xa1, 0, 66, 0, 0]);
    frame.resize(100, 0);
    let packet = |ns, fate| Packet {
        time: Time::from_ns(ns),
        fate,
        frame: &frame,
        len: 100,
    };
    writer.packet(0, &packet(1, PacketEvent::In)).unwrap();
    writer
        .packet(0, &packet(1_000_000_007, PacketEvent::Queue))
        .unwrap();
    writer.miss(1, 3);
    writer
        .packet(1, &packet(61_234_567_891, PacketEvent::Out))
        .unwrap();
    writer
        .finish(Time::from_ns(0), Time::from_ns(62_000_000_000))
        .unwrap();
    file
}

#[test]
fn tshark_reads_everything() {
    if !is_there("tshark", "tshark") {
        return;
    }
    let fields = [
        "frame.time_epoch",
        "frame.interface_name",
        "frame.interface_description",
        "frame.len",
        "frame.cap_len",
        "frame.packet_flags_direction",
        "frame.drop_count",
        "frame.comment",
        "ip.src_host",
        "ip.dst_host",
        "ip.checksum.status",
    ];
    let mut command = Command::new("tshark");
    command.args([
        "-r",
        "-",
        "-N",
        "n",
        "-o",
        "ip.check_checksum:TRUE",
        "-T",
        "fields",
        "-E",
        "separator=|",
    ]);
    for field in fields {
        command.args(["-e", field]);
    }
    let (text, complaint) = run(&mut command, &example());
    let text = String::from_utf8(text).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "0.000000001|a>b entry|pipe a>b|100|60|0x00000002|||alice|bob|1",
            "1.000000007|a>b entry|pipe a>b|100|60|0x00000002||dropped: queue|alice|bob|1",
            "61.234567891|a>b exit|pipe a>b|100|60|0x00000001|3||alice|bob|1",
        ],
        "{complaint}"
    );
}

#[test]
fn tshark_finds_drops_by_their_comment() {
    if !is_there("tshark", "tshark") {
        return;
    }
    let mut command = Command::new("tshark");
    command.args([
        "-r",
        "-",
        "-Y",
        "frame.comment contains \"dropped\"",
        "-T",
        "fields",
        "-e",
        "frame.number",
    ]);
    let (text, complaint) = run(&mut command, &example());
    assert_eq!(String::from_utf8_lossy(&text).trim(), "2", "{complaint}");
}

#[test]
fn tshark_reads_a_cut_file_up_to_its_last_whole_block() {
    if !is_there("tshark", "tshark") {
        return;
    }
    let file = example();
    let whole = common::reader::read(&file);
    assert_eq!((whole.packets.len(), whole.statistics.len()), (3, 2));
    // 76 bytes of statistics an interface; of the last packet, the end is missing.
    let cut = &file[..file.len() - 2 * 76 - 4];
    let mut command = Command::new("tshark");
    command.args(["-r", "-", "-T", "fields", "-e", "frame.number"]);
    let (text, complaint) = run(&mut command, cut);
    assert_eq!(String::from_utf8_lossy(&text).trim(), "1\n2", "{complaint}");
}

#[test]
fn capinfos_reads_the_section_and_its_interfaces() {
    if !is_there("capinfos", "wireshark-common") {
        return;
    }
    // It reads no standard input.
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("capinfos.pcapng");
    std::fs::write(&path, example()).unwrap();
    let (text, complaint) = run(Command::new("capinfos").arg("-M").arg(&path), &[]);
    let text = String::from_utf8(text).unwrap();
    assert!(complaint.is_empty(), "{complaint}");
    for part in [
        "Packet size limit:   inferred: 60 bytes",
        "Data size:           300 bytes",
        "Capture hardware:    an abacus",
        "Capture oper-sys:    Linux 6.1",
        "Capture application: longhaul 0.1.0",
        "Capture comment:     experiment two-clusters",
        "Name = a>b entry",
        "Encapsulation = Ethernet",
        "Speed = 10000000",
        "Time precision = nanoseconds (9)",
        "Filter string = tcp",
        "Number of stat entries = 1",
        "Number of resolved IPv4 addresses in file: 2",
        "Number of resolved IPv6 addresses in file: 1",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}
