//! Files: what the writer is given is what an independent reader finds, however the file ends.

mod common;

use std::io::{self, ErrorKind, Write};
use std::net::IpAddr;

use common::config;
use common::reader::{File, read};
use common::trees::{DROPS, fate};
use longhaul_capture::writer::Count;
use longhaul_capture::{Direction, Interface, Limits, Packet, Section, Writer};
use longhaul_core::Time;
use longhaul_core::witness::PacketEvent;
use proptest::prelude::*;

const ROOMY: u64 = u64::MAX;

/// What happens at an interface.
#[derive(Debug, Clone)]
enum Step {
    Packet {
        interface: prop::sample::Index,
        time: u64,
        fate: PacketEvent,
        frame: Vec<u8>,
        /// Bytes of the frame that were cut before.
        beyond: usize,
    },
    Miss(prop::sample::Index, u64),
    Flush,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let frame = prop::collection::vec(any::<u8>(), 0..200);
    let packet = (
        any::<prop::sample::Index>(),
        any::<u64>(),
        fate(),
        frame,
        0..3usize,
    )
        .prop_map(|(interface, time, fate, frame, beyond)| Step::Packet {
            interface,
            time,
            fate,
            frame,
            beyond,
        });
    let miss = (any::<prop::sample::Index>(), 1..1000u64).prop_map(|(at, n)| Step::Miss(at, n));
    let step = prop_oneof![8 => packet, 1 => miss, 1 => Just(Step::Flush)];
    prop::collection::vec(step, 0..60)
}

#[derive(Debug, Clone)]
struct Described {
    texts: [String; 3],
    speed: Option<u64>,
    direction: Option<Direction>,
}

impl Described {
    fn interface(&self) -> Interface<'_> {
        let [name, description, filter] = &self.texts;
        Interface {
            name,
            description,
            filter,
            bits_per_s: self.speed,
            direction: self.direction,
        }
    }
}

fn interfaces() -> impl Strategy<Value = Vec<Described>> {
    let direction = prop_oneof![
        Just(None),
        Just(Some(Direction::Inbound)),
        Just(Some(Direction::Outbound))
    ];
    let one = (any::<[String; 3]>(), any::<Option<u64>>(), direction).prop_map(
        |(texts, speed, direction)| Described {
            texts,
            speed,
            direction,
        },
    );
    prop::collection::vec(one, 1..5)
}

fn all(interfaces: &[Described]) -> Vec<Interface<'_>> {
    interfaces.iter().map(Described::interface).collect()
}

/// Does the steps up to the first error; whether there was one.
fn perform<W: Write>(writer: &mut Writer<W>, steps: &[Step], interfaces: usize) -> io::Result<()> {
    let mut result = Ok(());
    for step in steps {
        let done = match step {
            Step::Packet {
                interface,
                time,
                fate,
                frame,
                beyond,
            } => writer.packet(
                interface.index(interfaces),
                &Packet {
                    time: Time::from_ns(*time),
                    fate: *fate,
                    frame,
                    len: frame.len() + beyond,
                },
            ),
            Step::Miss(interface, count) => {
                writer.miss(interface.index(interfaces), *count);
                Ok(())
            }
            Step::Flush => writer.flush(),
        };
        assert!(result.is_ok() || done.is_ok(), "an error is reported once");
        result = result.and(done);
    }
    let done = writer.finish(Time::ZERO, Time::MAX);
    assert!(result.is_ok() || done.is_ok(), "an error is reported once");
    result.and(done)
}

fn counts<W: Write>(writer: &Writer<W>, interfaces: usize) -> Vec<Count> {
    (0..interfaces).map(|index| writer.count(index)).collect()
}

/// What the statistics must say.
fn expected_counts(steps: &[Step], interfaces: usize, file: &File) -> Vec<Count> {
    let mut counts = vec![Count::default(); interfaces];
    for step in steps {
        match step {
            Step::Packet { interface, .. } => {
                let count = &mut counts[interface.index(interfaces)];
                count.received += 1;
                count.dropped += 1;
            }
            Step::Miss(interface, missed) => {
                let count = &mut counts[interface.index(interfaces)];
                count.received += missed;
                count.dropped += missed;
            }
            Step::Flush => {}
        }
    }
    for packet in &file.packets {
        counts[packet.interface].dropped -= 1;
    }
    counts
}

/// Whether a file has the first packets of the steps, each as it was given.
fn check_packets(
    file: &File,
    steps: &[Step],
    interfaces: &[Described],
    snaplen: u32,
) -> Result<usize, TestCaseError> {
    let mut missed = vec![0; interfaces.len()];
    let mut found = file.packets.iter();
    let mut given = 0;
    for step in steps {
        let Step::Packet {
            interface,
            time,
            fate,
            frame,
            beyond,
        } = step
        else {
            if let Step::Miss(interface, count) = step {
                missed[interface.index(interfaces.len())] += count;
            }
            continue;
        };
        given += 1;
        let Some(packet) = found.next() else { continue };
        let index = interface.index(interfaces.len());
        prop_assert_eq!((packet.interface, packet.time), (index, *time));
        prop_assert_eq!(
            &packet.frame[..],
            &frame[..frame.len().min(snaplen as usize)]
        );
        prop_assert_eq!(packet.len as usize, frame.len() + beyond);
        let mut options = Vec::new();
        if let Some(direction) = interfaces[index].direction {
            let flag = match direction {
                Direction::Inbound => 1,
                Direction::Outbound => 2,
            };
            options.push((2, vec![flag, 0, 0, 0]));
        }
        let missed = std::mem::take(&mut missed[index]);
        if missed > 0 {
            options.push((4, missed.to_le_bytes().to_vec()));
        }
        if let Some((name, _)) = DROPS.iter().find(|(_, drop)| drop == fate) {
            options.push((1, format!("dropped: {name}").into_bytes()));
        }
        prop_assert_eq!(&packet.options.0, &options);
    }
    prop_assert!(found.next().is_none());
    Ok(given)
}

fn check_statistics(file: &File, counts: &[Count]) -> Result<(), TestCaseError> {
    prop_assert_eq!(file.statistics.len(), counts.len());
    for (index, (statistics, count)) in file.statistics.iter().zip(counts).enumerate() {
        prop_assert_eq!((statistics.interface, statistics.time), (index, u64::MAX));
        let options = &statistics.options;
        prop_assert_eq!(options.time(2), Some(0));
        prop_assert_eq!(options.time(3), Some(u64::MAX));
        prop_assert_eq!(options.u64(4), Some(count.received));
        prop_assert_eq!(options.u64(5), Some(count.dropped));
    }
    Ok(())
}

/// Begins a file in memory.
fn begin<'a>(
    out: &'a mut Vec<u8>,
    interfaces: &[Described],
    snaplen: u32,
    file: u64,
) -> io::Result<Writer<&'a mut Vec<u8>>> {
    let limits = Limits { snaplen, file };
    Writer::new(out, limits, &Section::default(), &all(interfaces), [])
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn what_is_written_is_read(
        interfaces in interfaces(),
        steps in steps(),
        snaplen in 1..250u32,
        section in any::<[String; 4]>(),
        names in prop::collection::vec((any::<IpAddr>(), "[a-z.]{1,60}"), 0..50),
    ) {
        let mut out = Vec::new();
        let about = Section {
            hardware: &section[0],
            os: &section[1],
            application: &section[2],
            comment: &section[3],
        };
        let given = names.iter().map(|(address, name)| (*address, name.as_str()));
        let limits = Limits { snaplen, file: ROOMY };
        let mut writer = Writer::new(&mut out, limits, &about, &all(&interfaces), given).unwrap();
        perform(&mut writer, &steps, interfaces.len()).unwrap();
        let counts = counts(&writer, interfaces.len());
        prop_assert_eq!(writer.unnamed(), 0);

        let file = read(&out);
        prop_assert_eq!(file.rest, 0);
        prop_assert_eq!([2, 3, 4, 1].map(|code| file.section.text(code)), section.each_ref().map(|s| &s[..]));
        prop_assert_eq!(&file.names, &names);
        for (interface, given) in file.interfaces.iter().zip(&interfaces) {
            prop_assert_eq!((interface.link_type, interface.snaplen), (1, snaplen));
            let options = &interface.options;
            prop_assert_eq!([2, 3].map(|code| options.text(code)), [&given.texts[0][..], &given.texts[1]]);
            let filter = Some(format!("\0{}", given.texts[2])).filter(|text| text.len() > 1);
            prop_assert_eq!(options.get(11), filter.as_ref().map(|text| text.as_bytes()));
            prop_assert_eq!(options.u64(8), given.speed);
            prop_assert_eq!([9, 13].map(|code| options.get(code)), [Some(&[9][..]), Some(&[0])]);
        }
        let given = check_packets(&file, &steps, &interfaces, snaplen)?;
        prop_assert_eq!(file.packets.len(), given);
        prop_assert_eq!(&counts, &expected_counts(&steps, interfaces.len(), &file));
        check_statistics(&file, &counts)?;
    }

    #[test]
    fn files_stay_below_their_limit_and_say_what_is_missing(
        interfaces in interfaces(), steps in steps(), share in 0.0..1.2f64,
    ) {
        let mut out = Vec::new();
        let mut writer = begin(&mut out, &interfaces, 100, ROOMY).unwrap();
        perform(&mut writer, &steps, interfaces.len()).unwrap();
        let limit = (out.len() as f64 * share) as u64;

        let mut out = Vec::new();
        let Ok(mut writer) = begin(&mut out, &interfaces, 100, limit) else { return Ok(()) };
        perform(&mut writer, &steps, interfaces.len()).unwrap();
        let counts = counts(&writer, interfaces.len());
        let file = read(&out);
        prop_assert!(out.len() as u64 <= limit && file.rest == 0);
        let given = check_packets(&file, &steps, &interfaces, 100)?;
        prop_assert_eq!(&counts, &expected_counts(&steps, interfaces.len(), &file));
        check_statistics(&file, &counts)?;
        let full = file.statistics[0].options.text(1);
        prop_assert_eq!(full, if file.packets.len() < given { "the file reached its size limit" } else { "" });
    }

    #[test]
    fn a_cut_file_is_read_to_its_last_whole_block(
        interfaces in interfaces(), steps in steps(), cut in any::<prop::sample::Index>(),
    ) {
        let mut out = Vec::new();
        let mut writer = begin(&mut out, &interfaces, 100, ROOMY).unwrap();
        perform(&mut writer, &steps, interfaces.len()).unwrap();
        let (whole, cut) = (read(&out), cut.index(out.len()));
        let part = read(&out[..cut]);
        prop_assert!(part.packets[..] == whole.packets[..part.packets.len()]);
        // The next block would have gone beyond the cut.
        let next = out[cut - part.rest..][4..8].try_into().unwrap();
        prop_assert!(u32::from_le_bytes(next) as usize > part.rest);
    }

    #[test]
    fn what_a_full_disk_swallows_is_counted(
        interfaces in interfaces(), steps in steps(), room in 0..30_000usize, chunk in 1..5000usize,
    ) {
        let mut disk = Disk { bytes: Vec::new(), room, chunk, calls: 0 };
        let limits = Limits { snaplen: 100, file: ROOMY };
        let made = Writer::new(&mut disk, limits, &Section::default(), &all(&interfaces), []);
        let mut writer = made.unwrap();
        let result = perform(&mut writer, &steps, interfaces.len());
        let counts = counts(&writer, interfaces.len());
        prop_assert_eq!(result.is_err(), disk.bytes.len() == disk.room);
        let file = read(&disk.bytes);
        check_packets(&file, &steps, &interfaces, 100)?;
        prop_assert_eq!(counts, expected_counts(&steps, interfaces.len(), &file));
    }
}

/// Takes what it has room for, a chunk at a time, and is interrupted now and then.
#[derive(Debug)]
struct Disk {
    bytes: Vec<u8>,
    room: usize,
    chunk: usize,
    calls: usize,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.calls += 1;
        if self.calls.is_multiple_of(3) {
            return Err(ErrorKind::Interrupted.into());
        }
        let len = bytes
            .len()
            .min(self.chunk)
            .min(self.room - self.bytes.len());
        if len == 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn one_interface() -> Vec<Described> {
    vec![Described {
        texts: ["a>b entry".into(), "".into(), "".into()],
        speed: None,
        direction: None,
    }]
}

#[test]
fn limits_without_room_are_refused() {
    for (snaplen, file, reason) in [
        (0, ROOMY, "choose 1 to 262144"),
        (262_145, ROOMY, "choose 1 to 262144"),
        (100, 0, "raise its limit or choose fewer pipes"),
        (100, 190, "does not fit into 190 bytes"),
    ] {
        let error = begin(&mut Vec::new(), &one_interface(), snaplen, file).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn names_take_a_quarter_at_most_and_no_strange_ones() {
    let numbered: Vec<String> = (0..100_000).map(|n| format!("host-{n}")).collect();
    let address = IpAddr::from([10, 0, 0, 1]);
    let names = |limit: u64| {
        let mut out = Vec::new();
        let limits = Limits {
            snaplen: 100,
            file: limit,
        };
        let given = numbered.iter().map(|name| (address, name.as_str()));
        let interfaces = one_interface();
        let writer = Writer::new(
            &mut out,
            limits,
            &Section::default(),
            &all(&interfaces),
            given,
        );
        let mut writer = writer.unwrap();
        writer.flush().unwrap();
        let unnamed = writer.unnamed();
        let file = read(&out);
        assert_eq!(file.names.len() as u64 + unnamed, 100_000);
        (out.len() as u64, file.names.len())
    };
    let (len, written) = names(1_000_000);
    assert!(
        (240_000..250_300).contains(&len) && written > 9_000,
        "{len} {written}"
    );
    assert_eq!(names(ROOMY).1, 100_000);

    let long = "x".repeat(256);
    let strange = ["", "a\0b", &long, "good"].map(|name| (address, name));
    let mut out = Vec::new();
    let limits = Limits {
        snaplen: 100,
        file: ROOMY,
    };
    let interfaces = one_interface();
    let writer = Writer::new(
        &mut out,
        limits,
        &Section::default(),
        &all(&interfaces),
        strange,
    );
    let mut writer = writer.unwrap();
    writer.flush().unwrap();
    assert_eq!(writer.unnamed(), 3);
    assert_eq!(read(&out).names, [(address, "good".to_owned())]);
}

#[test]
fn long_texts_are_cut_between_characters() {
    let mut out = Vec::new();
    let comment = "é".repeat(40_000);
    let about = Section {
        comment: &comment,
        ..Section::default()
    };
    let limits = Limits {
        snaplen: 100,
        file: ROOMY,
    };
    let mut writer = Writer::new(&mut out, limits, &about, &[], []).unwrap();
    writer.flush().unwrap();
    assert_eq!(read(&out).section.text(1).len(), 65_534);
}

#[test]
fn a_file_that_is_flushed_is_whole_so_far() {
    let mut disk = Disk {
        bytes: Vec::new(),
        room: usize::MAX,
        chunk: usize::MAX,
        calls: 0,
    };
    let limits = Limits {
        snaplen: 1500,
        file: ROOMY,
    };
    let interfaces = one_interface();
    let about = Section::default();
    let mut writer = Writer::new(&mut disk, limits, &about, &all(&interfaces), []).unwrap();
    let packet = Packet {
        time: Time::ZERO,
        fate: PacketEvent::In,
        frame: &[7; 1000],
        len: 1000,
    };
    for _ in 0..100 {
        writer.packet(0, &packet).unwrap();
    }
    drop(writer);
    let written = read(&disk.bytes);
    assert_eq!(written.rest, 0, "whole blocks are written");
    assert!(
        (50..100).contains(&written.packets.len()),
        "the rest has gathered"
    );
}
