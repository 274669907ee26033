//! Super-packets against packets that a sender without offload would have sent one by one.
//!
//! The oracle is a sender of `segment/oracle.rs`: whatever a
//! super-packet becomes on its way, each host must see exactly the packets of that sender.

mod common;
#[path = "segment/oracle.rs"]
mod oracle;
#[path = "segment/refused.rs"]
mod refused;

use common::{Plain, assert_balanced, host, topology};
use longhaul_core::engine::{GATEWAY_MAC, host_mac};
use longhaul_core::packet::{FrameError, lower_hop_limit, parse_any, set_macs};
use longhaul_core::params::{Discipline, LossModel, Red, Reorder, Which};
use longhaul_core::segment::{Kind, MAX_SEGMENTS, Offload, Partial, Super, complete};
use longhaul_core::topology::PipeParams;
use longhaul_core::units::{Probability, QueueLimit};
use longhaul_core::witness::{PacketEvent, Sighting, Witness};
use longhaul_core::{Engine, EngineConfig, Refused, Span, Time, Topology};
use oracle::Sent;
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

prop_compose! {
    fn sent()(
        (is_ipv6, is_tcp) in any::<(bool, bool)>(),
        options in 0..=10usize,
        extension in prop_oneof![Just(0usize), Just(8), Just(24)],
        (flags, sequence, id) in any::<(u8, u32, u16)>(),
        ecn in 0..4u8,
        hop_limit in 1..=64u8,
        size in 1..1300usize,
        segments in 1..=24usize,
        less in 0..1300usize,
        seed in any::<u8>(),
    ) -> Sent {
        let len = (size * segments).saturating_sub(less % size).max(1);
        let payload = (0..len).map(|n| (n as u8).wrapping_mul(31).wrapping_add(seed)).collect();
        let extension = if is_ipv6 { extension } else { 0 };
        Sent { is_ipv6, is_tcp, options, extension, flags, sequence, id, ecn, hop_limit, size, payload }
    }
}

/// What a receiving kernel makes of a frame: the packets in it, checksums complete.
fn opened(mut frame: Vec<u8>, offload: &Offload) -> Vec<Vec<u8>> {
    match (offload.kind, offload.checksum) {
        (Kind::Whole, None) => vec![frame],
        (Kind::Whole, Some(partial)) => {
            complete(&mut frame, partial);
            vec![frame]
        }
        _ => {
            let dimensions = Super::parse(&frame, offload).expect("we made it");
            (0..dimensions.count())
                .map(|number| {
                    let mut out = vec![0; 2000];
                    let len = dimensions.write_segment(&frame, number, &mut out);
                    out.truncate(len.expect("room enough"));
                    out
                })
                .collect()
        }
    }
}

proptest! {
    #[test]
    fn segments_are_the_packets_of_a_sender_without_offload(sent in sent()) {
        let (frame, offload) = sent.super_packet();
        prop_assert_eq!(opened(frame, &offload), sent.packets());
    }

    /// Any of them are lost, and runs of neighbours leave as one.
    #[test]
    fn runs_hold_the_packets_that_are_left(sent in sent(), lost in any::<u32>()) {
        let (frame, offload) = sent.super_packet();
        let dimensions = Super::parse(&frame, &offload).unwrap();
        let is_left = |number: u16| lost >> number & 1 == 0;
        let (mut number, mut seen) = (0, Vec::new());
        while number < dimensions.count() {
            let count = (number..dimensions.count()).take_while(|n| is_left(*n)).count() as u16;
            if count > 0 {
                let mut run = vec![0; dimensions.headers()];
                dimensions.write_headers(&frame, number, count, &mut run);
                run.extend(&frame[dimensions.payload(number, count)]);
                let offload = dimensions.offload(&frame, number, count);
                prop_assert_eq!(offload.kind == Kind::Whole, count == 1);
                let says_reduced = sent.is_tcp && number == 0 && count > 1 && sent.flags & 0x80 != 0;
                prop_assert_eq!(offload.cwr, says_reduced);
                seen.extend(opened(run, &offload));
            }
            number += count + 1;
        }
        let packets = sent.packets();
        let left = (0..dimensions.count()).filter(|n| is_left(*n));
        let left: Vec<_> = left.map(|n| packets[usize::from(n)].clone()).collect();
        prop_assert_eq!(seen, left);
    }

    #[test]
    fn hostile_super_packets_do_no_harm(
        mut frame in prop::collection::vec(any::<u8>(), 0..300),
        mends in 0..3u8,
        words in 5..=15u8,
        kind in prop_oneof![Just(Kind::Whole), Just(Kind::Tcp), Just(Kind::Udp)],
        size in prop_oneof![0..4u16, any::<u16>()],
        start in prop_oneof![Just(34u16), Just(54), any::<u16>()],
        offset in prop_oneof![Just(6u16), Just(16), any::<u16>()],
        has_checksum in any::<bool>(),
    ) {
        let protocol = if offset == 6 { 17 } else { 6 };
        let ip_header = 14..14 + 4 * usize::from(words);
        if mends == 1 && frame.len() >= ip_header.end {
            let ip_len = (frame.len() - 14) as u16;
            frame[..12].fill(2);
            frame[12..18].copy_from_slice(&[8, 0, 0x40 | words, 0, 0, 0]);
            frame[16..18].copy_from_slice(&ip_len.to_be_bytes());
            frame[20..24].copy_from_slice(&[0x40, 0, 9, protocol]);
            frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
            frame[34..ip_header.end].fill(1);
            common::seal(&mut frame[ip_header]);
        } else if mends == 2 && frame.len() >= 54 {
            let ip_len = (frame.len() - 54) as u16;
            let address = |n: u128| (0xfd00u128 << 112 | n).to_be_bytes();
            frame[..12].fill(2);
            frame[12..18].copy_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0]);
            frame[18..20].copy_from_slice(&ip_len.to_be_bytes());
            // Now and then extension headers with random bytes.
            frame[20] = if words < 8 { [0, 43, 60][usize::from(words) - 5] } else { protocol };
            frame[21] = 9;
            frame[22..38].copy_from_slice(&address(0));
            frame[38..54].copy_from_slice(&address(1));
        }
        let checksum = has_checksum.then_some(Partial { start, offset });
        let offload = Offload { kind, size, checksum, ..Offload::default() };
        let mut engine = engine(pipes(PipeParams::default(), 2), 4, 9);
        let _ = engine.arrive_super(host(&engine, "h1"), Time::ZERO, &frame, &offload);
        engine.advance(Time::MAX);
        let mut packets = Vec::new();
        while let Some(parcel) = engine.poll_parcel(Span::MAX, &mut packets) {
            let frame = engine.parts(&parcel).concat();
            prop_assert_eq!(frame.len(), parcel.len as usize);
            // Whatever was asked for, headers are whole.
            for packet in opened(frame, &parcel.offload) {
                prop_assert!(parse_any(&packet).is_ok(), "{:02x?}", packet);
            }
            packets.drain(..).for_each(|egress| engine.release(egress));
        }
        assert_balanced(&engine);
        prop_assert_eq!((engine.slots_in_use(), engine.buffers_in_use()), (0, 0));
    }
}

/// h1 - r1 - … - h2, each link alike.
fn pipes(params: PipeParams, hops: usize) -> Topology {
    let names: Vec<String> = ["h1".to_owned(), "h2".to_owned()]
        .into_iter()
        .chain((1..hops).map(|n| format!("r{n}")))
        .collect();
    let place = |n: usize| match n {
        0 => "h1",
        n if n == hops => "h2",
        n => &names[n + 1],
    };
    let links: Vec<_> = (0..hops)
        .map(|n| (place(n), place(n + 1), params.clone()))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    topology(&names, &links)
}

fn engine(topology: Topology, buffers: u32, seed: u64) -> Engine {
    let config = EngineConfig {
        slots: 2000,
        buffers,
        seed,
        ..EngineConfig::default()
    };
    Engine::new(topology, config, Box::new(Plain))
}

prop_compose! {
    fn params()(
        choice in 0..6u8,
        delay_us in 0..50u64,
        mbit in prop_oneof![Just(0u64), Just(100), Just(10_000)],
        queue in 1..40u32,
    ) -> PipeParams {
        let chance = Probability::from_f64(0.2).unwrap();
        let mut params = PipeParams {
            delay: Span::from_us(delay_us),
            rate: format!("{mbit} Mbit/s").parse().ok(),
            queue: QueueLimit::Packets(queue),
            ..PipeParams::default()
        };
        match choice {
            1 => params.loss = LossModel::Independent(chance),
            2 => params.duplicate = chance,
            3 => params.corrupt = chance,
            4 => params.reorder = Some(Reorder { which: Which::Random(chance), hold: Span::from_us(5) }),
            5 => params.discipline = Discipline::Red(red()),
            _ => {}
        }
        params
    }
}

/// Marks some of what meets a queue of a packet or more.
fn red() -> Red {
    Red {
        min: 1,
        max: 8,
        probability: Probability::from_f64(0.5).unwrap(),
        weight_log2: 1,
        ecn: true,
    }
}

/// What a witness sees of packets that reach their host: when, and the bytes.
#[derive(Clone, Default)]
struct Delivered(Arc<Mutex<Seen>>);

/// When a packet was seen, and its frame.
type Seen = Vec<(u64, Vec<u8>)>;

impl Witness for Delivered {
    fn see(&mut self, sighting: &Sighting<'_>) {
        if sighting.event == PacketEvent::Delivered {
            let mut frame = Vec::new();
            sighting.append_frame(usize::MAX, &mut frame);
            let mut seen = self.0.lock().unwrap();
            seen.push((sighting.time.as_ns(), frame));
        }
    }
}

/// What came out of an engine: when, at what length, and the bytes.
type Out = Vec<(u32, u64, Vec<u8>)>;

/// Takes everything out, packet by packet.
fn singles(engine: &mut Engine) -> Out {
    let mut out = Out::new();
    while let Some(egress) = engine.poll_egress() {
        out.push((
            egress.id,
            egress.due.as_ns(),
            engine.frame(&egress).to_vec(),
        ));
        engine.release(egress);
    }
    out
}

/// Takes everything out in parcels, and opens them as a receiving kernel does.
fn parcels(engine: &mut Engine, gap: Span) -> (Out, usize) {
    let (mut out, mut number, mut packets) = (Out::new(), 0, Vec::new());
    while let Some(parcel) = engine.poll_parcel(gap, &mut packets) {
        number += 1;
        let frame = engine.parts(&parcel).concat();
        assert_eq!(frame.len(), parcel.len as usize);
        let frames = opened(frame, &parcel.offload);
        assert_eq!(frames.len(), usize::from(parcel.packets));
        let times = packets.windows(2).map(|two| two[1].due.since(two[0].due));
        assert!(times.into_iter().all(|apart| apart <= gap));
        for (egress, frame) in packets.drain(..).zip(frames) {
            assert_eq!(egress.len as usize, frame.len());
            out.push((egress.id, egress.due.as_ns(), frame));
            engine.release(egress);
        }
    }
    (out, number)
}

proptest! {
    /// Whatever the pipes do to them, segments come out as the packets would that a sender without
    /// offload had sent: bytes, times, order, counters. Few buffers, none, or enough.
    #[test]
    fn segments_fare_like_packets(
        all in prop::collection::vec((sent(), 0..100u64), 1..5),
        params in params(),
        hops in 1..4usize,
        buffers in 0..4u32,
        gap_us in 0..20u64,
        seed in any::<u64>(),
    ) {
        let make = |buffers| engine(pipes(params.clone(), hops), buffers, seed);
        let (mut plain, mut split, mut merged) = (make(0), make(buffers), make(buffers));
        let delivered = Delivered::default();
        split.watch(Box::new(delivered.clone()));
        let mut stamp = Time::ZERO;
        for (sent, after_us) in &all {
            stamp += Span::from_us(*after_us);
            for packet in sent.packets() {
                plain.arrive(host(&plain, "h1"), stamp, &packet).unwrap();
            }
            let (frame, offload) = sent.super_packet();
            for engine in [&mut split, &mut merged] {
                engine.arrive_super(host(engine, "h1"), stamp, &frame, &offload).unwrap();
            }
        }
        for engine in [&mut plain, &mut split, &mut merged] {
            engine.advance(Time::MAX);
            assert_balanced(engine);
        }
        prop_assert_eq!(plain.counters(), split.counters());
        let expected = singles(&mut plain);
        let seen = delivered.0.lock().unwrap();
        // Each host's Ethernet addresses are written when it takes its frame.
        let from_ip = |frame: &Vec<u8>| frame[14..].to_vec();
        let witnessed = expected.iter().map(|(_, due, frame)| (*due, from_ip(frame)));
        prop_assert!(seen.iter().map(|(due, frame)| (*due, from_ip(frame))).eq(witnessed));
        prop_assert_eq!(&singles(&mut split), &expected);
        let (seen, _) = parcels(&mut merged, Span::from_us(gap_us));
        prop_assert_eq!(&seen, &expected);
        for engine in [&plain, &split, &merged] {
            prop_assert_eq!((engine.slots_in_use(), engine.buffers_in_use()), (0, 0));
        }
    }
}

/// 10 segments of 1000 bytes of TCP over IPv4.
fn ten() -> Sent {
    Sent {
        is_ipv6: false,
        is_tcp: true,
        options: 3,
        extension: 0,
        flags: 0x98,
        sequence: 0xffff_f000,
        id: 0xfffe,
        ecn: 2,
        hop_limit: 64,
        size: 1000,
        payload: vec![7; 9_500],
    }
}

/// 10 segments that are all of the same size.
fn ten_full() -> Sent {
    Sent {
        payload: vec![7; 10_000],
        ..ten()
    }
}

/// A frame as the receiving host sees it behind `hops` links.
fn received(mut packet: Vec<u8>, engine: &Engine, hops: u8) -> Vec<u8> {
    lower_hop_limit(&mut packet, hops - 1);
    set_macs(&mut packet, GATEWAY_MAC, host_mac(host(engine, "h2")));
    packet
}

#[test]
fn one_super_packet_goes_in_and_one_comes_out() {
    let mut engine = engine(pipes(PipeParams::default(), 3), 4, 1);
    let (frame, offload) = ten().super_packet();
    let h1 = host(&engine, "h1");
    engine
        .arrive_super(h1, Time::ZERO, &frame, &offload)
        .unwrap();
    assert_eq!((engine.slots_in_use(), engine.buffers_in_use()), (10, 1));
    engine.advance(Time::MAX);
    assert_eq!(
        (engine.counters().entered, engine.counters().hops),
        (10, 30)
    );
    let mut packets = Vec::new();
    let parcel = engine.poll_parcel(Span::ZERO, &mut packets).unwrap();
    assert_eq!((parcel.packets, packets.len()), (10, 10));
    // The very frame that went in, two hops on; its identification is that of the first segment.
    let whole = engine.parts(&parcel).concat();
    assert_eq!(whole, received(frame, &engine, 3));
    assert!(parcel.offload.cwr && parcel.offload.size == 1000);
    assert_eq!(engine.poll_parcel(Span::ZERO, &mut Vec::new()), None);
    packets
        .into_iter()
        .for_each(|packet| engine.release(packet));
    assert_eq!((engine.slots_in_use(), engine.buffers_in_use()), (0, 0));
}

/// 1070 bytes (1052 of IP, 14 of Ethernet, 4 of its check) take 8.56 µs at 1 Gbit/s.
#[test]
fn what_is_due_further_apart_leaves_by_itself() {
    let slow = PipeParams {
        rate: "1 Gbit/s".parse().ok(),
        ..PipeParams::default()
    };
    for (gap_ns, expected) in [(8_559, 10), (8_560, 1)] {
        let mut engine = engine(pipes(slow.clone(), 1), 4, 1);
        let (frame, offload) = ten_full().super_packet();
        let h1 = host(&engine, "h1");
        engine
            .arrive_super(h1, Time::ZERO, &frame, &offload)
            .unwrap();
        engine.advance(Time::MAX);
        let (out, number) = parcels(&mut engine, Span::from_ns(gap_ns));
        assert_eq!((out.len(), number), (10, expected));
        let all = ten_full().packets();
        let all: Vec<_> = all.into_iter().map(|p| received(p, &engine, 1)).collect();
        assert_eq!(
            out.into_iter().map(|(.., frame)| frame).collect::<Vec<_>>(),
            all
        );
    }
}

#[test]
fn what_has_not_come_out_is_not_waited_for() {
    let slow = PipeParams {
        rate: "10 Gbit/s".parse().ok(),
        ..PipeParams::default()
    };
    let mut engine = engine(pipes(slow, 1), 4, 1);
    let (frame, offload) = ten().super_packet();
    let h1 = host(&engine, "h1");
    engine
        .arrive_super(h1, Time::ZERO, &frame, &offload)
        .unwrap();
    // Each takes 856 ns: four are out by now.
    engine.advance(Time::from_ns(4_000));
    assert_eq!(parcels(&mut engine, Span::MAX).0.len(), 4);
    engine.advance(Time::MAX);
    assert_eq!(parcels(&mut engine, Span::MAX).0.len(), 6);
}

#[test]
fn a_partial_checksum_is_passed_on_or_completed() {
    let sent = Sent {
        payload: vec![5; 700],
        ..ten()
    };
    let (frame, offload) = sent.super_packet();
    let offload = Offload {
        kind: Kind::Whole,
        size: 0,
        ..offload
    };
    for merged in [false, true] {
        let mut engine = engine(pipes(PipeParams::default(), 1), 0, 1);
        let h1 = host(&engine, "h1");
        engine
            .arrive_super(h1, Time::ZERO, &frame, &offload)
            .unwrap();
        engine.advance(Time::MAX);
        if merged {
            let mut packets = Vec::new();
            let parcel = engine.poll_parcel(Span::ZERO, &mut packets).unwrap();
            assert_eq!(parcel.offload.checksum, Some(sent.checksum()));
            assert_eq!(
                engine.parts(&parcel).concat(),
                received(frame.clone(), &engine, 1)
            );
        } else {
            let complete = received(sent.packets().remove(0), &engine, 1);
            assert_eq!(singles(&mut engine)[0].2, complete);
        }
    }
}

#[test]
fn segments_that_find_no_slot_are_counted() {
    let config = EngineConfig {
        slots: 7,
        buffers: 1,
        ..EngineConfig::default()
    };
    let mut engine = Engine::new(pipes(PipeParams::default(), 1), config, Box::new(Plain));
    let (frame, offload) = ten().super_packet();
    let h1 = host(&engine, "h1");
    let refused = engine.arrive_super(h1, Time::ZERO, &frame, &offload);
    assert_eq!(refused, Err(Refused::PoolExhausted));
    assert_eq!(
        (engine.counters().entered, engine.counters().pool_exhausted),
        (7, 3)
    );
    engine.advance(Time::MAX);
    assert_eq!(singles(&mut engine).len(), 7);
    assert_eq!((engine.slots_in_use(), engine.buffers_in_use()), (0, 0));
}
