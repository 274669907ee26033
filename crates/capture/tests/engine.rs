//! A capture of what the engine does: what it counts is what the file holds.

mod common;

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use common::frames::{Network, Sketch};
use common::reader::read;
use longhaul_capture::{Filter, Interface, Limits, Packet, Section, Writer};
use longhaul_core::packet::sum16;
use longhaul_core::params::PipeParams;
use longhaul_core::router::Silent;
use longhaul_core::topology::{Link, Node, NodeKind};
use longhaul_core::units::{QueueLimit, Rate};
use longhaul_core::witness::{PacketEvent, PacketEvents, Place, Sighting, Witness};
use longhaul_core::{Engine, EngineConfig, PipeId, Time, Topology};

/// Less than what the filter reads.
const SNAPLEN: u32 = 30;

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Records both ends of a pipe.
struct Recorder {
    pipe: PipeId,
    filter: Filter,
    writer: Writer<Shared>,
    frame: Vec<u8>,
}

impl Witness for Recorder {
    fn events(&self) -> PacketEvents {
        [PacketEvent::In, PacketEvent::Out, PacketEvent::Queue]
            .into_iter()
            .fold(PacketEvents::NONE, PacketEvents::with)
    }

    fn see(&mut self, sighting: &Sighting<'_>) {
        if sighting.place != Place::Pipe(self.pipe) {
            return;
        }
        let packet = Packet::seen(sighting, SNAPLEN as usize, &mut self.frame);
        if self.filter.matches(&packet) {
            let interface = usize::from(packet.fate == PacketEvent::Out);
            self.writer.packet(interface, &packet).unwrap();
            self.writer.flush().unwrap();
        }
    }
}

fn topology() -> Topology {
    let node = |name: &str, kind, last| Node {
        name: name.to_owned(),
        kind,
        ipv4: [10, 0, 0, last].into(),
        ipv6: [0xfd00, 0, 0, 0, 0, 0, 0, u16::from(last)].into(),
    };
    let nodes = vec![
        node("a", NodeKind::Host, 1),
        node("b", NodeKind::Host, 2),
        node("r", NodeKind::Router, 3),
    ];
    let slow = PipeParams {
        rate: Rate::from_bits_per_s(1_000_000),
        queue: QueueLimit::Packets(3),
        ..PipeParams::default()
    };
    let links = vec![
        Link::new("a", "r", PipeParams::default()),
        Link::new("r", "b", slow),
    ];
    Topology::new(nodes, links).unwrap()
}

/// A datagram from a to b, longer than what filters read.
fn datagram(port: u16) -> Vec<u8> {
    let sketch = Sketch {
        tags: Vec::new(),
        network: Network::Ipv4 {
            ends: [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()],
            options: 0,
            offset: 0,
        },
        protocol: 17,
        ports: [4000, port],
        payload: 500,
    };
    let mut frame = sketch.frame();
    let checksum = !sum16(&frame[14..34]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame
}

#[test]
fn the_file_has_what_the_engine_counts() {
    let mut engine = Engine::new(topology(), EngineConfig::default(), Box::new(Silent));
    let find = |engine: &Engine, name: &str| engine.topology().find(name).unwrap();
    let (a, r) = (find(&engine, "a"), find(&engine, "r"));
    let pipes = engine.topology().pipes();
    let pipe = pipes.iter().position(|pipe| pipe.from == r && pipe.to != a);
    let pipe = PipeId(pipe.unwrap() as u32);

    let out = Shared::default();
    let points = ["r>b entry", "r>b exit"].map(|name| Interface {
        name,
        ..Interface::default()
    });
    let limits = Limits {
        snaplen: SNAPLEN,
        file: 1_000_000,
    };
    let writer = Writer::new(out.clone(), limits, &Section::default(), &points, []).unwrap();
    let filter = Filter::parse("dst port 80 or dropped", &|_| unreachable!()).unwrap();
    engine.watch(Box::new(Recorder {
        pipe,
        filter,
        writer,
        frame: Vec::new(),
    }));
    for n in 0..10 {
        let port = if n < 5 { 80 } else { 81 };
        engine.arrive(a, Time::from_ns(n), &datagram(port)).unwrap();
    }
    engine.advance(Time::from_ns(1_000_000_000));

    let counters = engine.pipe_counters(pipe);
    assert_eq!((counters.packets, counters.drops_queue), (4, 6));
    let file = read(&out.0.lock().unwrap());
    let seen = |interface: usize, comment: &str| {
        let all = file.packets.iter();
        let here = all.filter(|packet| packet.interface == interface);
        here.filter(|packet| packet.options.text(1) == comment)
            .count()
    };
    assert_eq!(seen(0, ""), 5, "those for port 80 reach the pipe");
    assert_eq!(seen(0, "dropped: queue"), 6, "whatever their port");
    assert_eq!(seen(1, ""), 4, "the queue has room for those in front");
    for packet in &file.packets {
        assert_eq!((packet.frame.len(), packet.len), (30, 538));
        assert_eq!(packet.frame[22], 63, "the router has lowered the hop limit");
    }
    // 538 bytes and the FCS at 1 Mbit/s, one behind the other.
    let out: Vec<u64> = file
        .packets
        .iter()
        .filter(|p| p.interface == 1)
        .map(|p| p.time)
        .collect();
    assert!(
        out.windows(2)
            .all(|pair| pair[1] - pair[0] == 542 * 8 * 1000),
        "{out:?}"
    );
}
