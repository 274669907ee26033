//! What is measured of queues, held to what witnesses see of each packet, and plain pipes to shaped
//! ones.

mod common;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use common::cases::{Case, Manner, build, case, params, run_engine};
use common::frame;
use common::mechanisms::all;
use longhaul_core::engine::Windows;
use longhaul_core::observe::QueueUse;
use longhaul_core::router::Silent;
use longhaul_core::witness::{PacketEvent, PacketEvents, Place, Sighting, Witness};
use longhaul_core::{Engine, EngineConfig, NodeId, PipeId, Time};
use proptest::prelude::*;

/// A packet in a pipe: when it entered and when its service began, `None` where it was dropped.
type Passage = (u64, Option<u64>);

/// The packets of each pipe, in order of entry.
#[derive(Default)]
struct Passages(HashMap<u32, Vec<(u32, Passage)>>);

struct Listener(Arc<Mutex<Passages>>);

impl Witness for Listener {
    fn events(&self) -> PacketEvents {
        PacketEvents::NONE
            .with(PacketEvent::In)
            .with(PacketEvent::Served)
            .with(PacketEvent::Queue)
    }

    fn see(&mut self, sighting: &Sighting<'_>) {
        let Place::Pipe(pipe) = sighting.place else {
            panic!("nothing of nodes is asked for");
        };
        let mut passages = self.0.lock().unwrap();
        let pipe = passages.0.entry(pipe.0).or_default();
        let (slot, time) = (sighting.slot(), sighting.time.as_ns());
        let of_slot = |pipe: &mut Vec<(u32, Passage)>| {
            let last = pipe.iter().rposition(|(other, _)| *other == slot);
            last.expect("a packet enters first")
        };
        match sighting.event {
            PacketEvent::In => pipe.push((slot, (time, Some(u64::MAX)))),
            PacketEvent::Served => {
                let last = of_slot(pipe);
                pipe[last].1.1 = Some(time);
            }
            PacketEvent::Queue => {
                let last = of_slot(pipe);
                pipe[last].1.1 = None;
            }
            other => panic!("{other:?} is not asked for"),
        }
    }
}

/// What the queue was like from `from` up to `to`, by its packets.
fn expected(packets: &[Passage], from: u64, to: u64) -> QueueUse {
    let waits = |&(entry, start): &Passage| start.map(|start| (entry, start));
    let waits: Vec<(u64, u64)> = packets.iter().filter_map(waits).collect();
    let mut queue = QueueUse::default();
    let at_first = waits
        .iter()
        .filter(|(entry, start)| *entry < from && *start >= from);
    queue.most = at_first.count() as u32;
    for (place, &(entry, start)) in waits.iter().enumerate() {
        queue.packet_ns += start.min(to).saturating_sub(entry.max(from));
        if (from..to).contains(&start) {
            queue.served += 1;
            queue.wait_ns += start - entry;
            queue.longest_ns = queue.longest_ns.max(start - entry);
        }
        if (from..to).contains(&entry) {
            let waiting = waits[..=place].iter().filter(|(_, other)| *other > entry);
            queue.most = queue.most.max(waiting.count() as u32);
        }
    }
    queue
}

/// Bursts into a network of such pipes, read every `every` ns.
fn run(case: &Case, always_shaped: bool, windows: Windows, every: u64) {
    let topology = build(case);
    let config = EngineConfig {
        seed: case.seed,
        slots: 4096,
        always_shaped,
        windows,
        ..EngineConfig::default()
    };
    let mut engine = Engine::new(topology.clone(), config, Box::new(Silent));
    let passages = Arc::new(Mutex::new(Passages::default()));
    engine.watch(Box::new(Listener(Arc::clone(&passages))));
    let pipes: Vec<PipeId> = (0..topology.pipes().len() as u32).map(PipeId).collect();
    pipes.iter().for_each(|&pipe| engine.measure_queue(pipe));
    let hosts: Vec<NodeId> = topology.hosts().map(|(id, _)| id).collect();
    let mut time = 0;
    for (number, (ticks, _)) in case.actions.iter().enumerate() {
        time += ticks * 100;
        engine.advance_before(Time::from_ns(time));
        let (from, to) = (
            hosts[number % hosts.len()],
            hosts[(number + 1) % hosts.len()],
        );
        let (from_ip, to_ip) = (topology.node(from).ipv4, topology.node(to).ipv4);
        let frame = frame(from_ip, to_ip, 20 + (number as u16 * 397) % 1480, 64, false);
        for _ in 0..number % 9 {
            engine.arrive(from, Time::from_ns(time), &frame).unwrap();
        }
    }
    let mut readings = Vec::new();
    let mut at = engine.now().as_ns();
    while engine.inside() > 0 {
        at += every;
        engine.advance_before(Time::from_ns(at));
        while engine.poll_egress().is_some_and(|egress| {
            engine.release(egress);
            true
        }) {}
        let all = pipes.iter().map(|&pipe| engine.take_queue_use(pipe));
        readings.push((at, all.collect::<Vec<_>>()));
    }
    let passages = passages.lock().unwrap();
    for (number, pipe) in pipes.iter().enumerate() {
        let packets = passages.0.get(&pipe.0).map_or(&[][..], Vec::as_slice);
        let packets: Vec<Passage> = packets.iter().map(|(_, passage)| *passage).collect();
        let mut from = 0;
        for (at, all) in &readings {
            assert_eq!(all[number], expected(&packets, from, *at), "{from} to {at}");
            from = *at;
        }
    }
}

proptest! {
    /// The measured integral, waits and most are those of the packets, whatever way they go.
    #[test]
    fn a_gauge_knows_what_becomes_of_each_packet(
        case in case(false, params()), every in 1_000u64..200_000,
    ) {
        for (shaped, windows) in [
            (false, Windows::default()),
            (false, Windows::Never),
            (false, Windows::Far),
            (true, Windows::default()),
        ] {
            run(&case, shaped, windows, every);
        }
    }

    /// Plain pipes make up for starts of service that shaped ones have as events, under any change of
    /// their parameters. What waits while a pipe takes the general form counts its wait from then on.
    #[test]
    fn plain_and_shaped_queues_measure_the_same(case in case(true, params())) {
        let measured = Manner { measured: true, ..Manner::default() };
        let plain = run_engine(&case, measured);
        let shaped = run_engine(&case, Manner { always_shaped: true, ..measured });
        prop_assert_eq!(plain.services, shaped.services);
        let (plain, shaped) = (plain.queues, shaped.queues);
        prop_assert_eq!(plain.len(), shaped.len());
        for ((at, plain), (_, shaped)) in plain.iter().zip(&shaped) {
            for (pipe, (plain, shaped)) in plain.iter().zip(shaped).enumerate() {
                prop_assert_eq!(plain.packet_ns, shaped.packet_ns, "pipe {} at {:?}", pipe, at);
            }
        }
        // What begins at the very time of a reading may count before or after it.
        for pipe in 0..build(&case).pipes().len() {
            let whole = |queues: &[(Time, Vec<QueueUse>)]| -> (u64, u32) {
                let of_pipe = queues.iter().map(|(_, all)| all[pipe]);
                of_pipe.fold((0, 0), |(served, most), queue| {
                    (served + queue.served, most.max(queue.most))
                })
            };
            prop_assert_eq!(whole(&plain), whole(&shaped), "pipe {}", pipe);
        }
    }

    /// Measuring changes nothing, and the sums do not depend on how often they are read.
    #[test]
    fn measuring_changes_nothing(case in case(true, all())) {
        let without = run_engine(&case, Manner::default());
        let with = run_engine(&case, Manner { measured: true, ..Manner::default() });
        prop_assert_eq!(without.hash, with.hash);
        prop_assert_eq!(&without.pipes, &with.pipes);
        prop_assert_eq!(without.deliveries, with.deliveries);
        for (pipe, counters) in with.pipes.iter().enumerate() {
            let served: u64 = with.queues.iter().map(|(_, all)| all[pipe].served).sum();
            let copies = counters.duplicated;
            prop_assert!(counters.packets + counters.drops_loss <= served + copies);
        }
    }
}
