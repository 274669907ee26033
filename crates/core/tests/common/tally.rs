//! A witness that counts what it sees, to be held against the engine's own counters.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use longhaul_core::packet;
use longhaul_core::witness::{PacketEvent, Place, Sighting, Witness};
use longhaul_core::{Engine, PipeId, Time};

/// What has been seen.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pipes: HashMap<(u32, u8), u64>,
    nodes: HashMap<u8, u64>,
    /// By pipe: when the last packet came out.
    last_out: HashMap<u32, Time>,
}

/// The engine's end of a tally.
#[derive(Clone, Default)]
pub(crate) struct Teller(pub(crate) Arc<Mutex<Tally>>);

impl Witness for Teller {
    fn see(&mut self, sighting: &Sighting<'_>) {
        let mut tally = self.0.lock().unwrap();
        let mut frame = vec![0xff; 3];
        sighting.append_frame(usize::MAX, &mut frame);
        assert_eq!(frame.len(), 3 + sighting.frame_len());
        assert!(packet::parse_any(&frame[3..]).is_ok(), "a frame is sound");
        let mut head = Vec::new();
        sighting.append_frame(40, &mut head);
        assert_eq!(head, frame[3..][..40.min(sighting.frame_len())]);
        match sighting.place {
            Place::Pipe(pipe) => {
                if sighting.event == PacketEvent::Out {
                    let last = tally.last_out.insert(pipe.0, sighting.time);
                    assert!(last.is_none_or(|last| last <= sighting.time));
                }
                *tally
                    .pipes
                    .entry((pipe.0, sighting.event as u8))
                    .or_default() += 1;
            }
            Place::Node(_) => *tally.nodes.entry(sighting.event as u8).or_default() += 1,
        }
    }
}

impl Tally {
    fn pipe(&self, pipe: u32, event: PacketEvent) -> u64 {
        self.pipes.get(&(pipe, event as u8)).copied().unwrap_or(0)
    }

    /// Every counter is the number of events seen; nothing is inside the engine.
    pub(crate) fn check(&self, engine: &Engine) {
        for pipe in 0..engine.topology().pipes().len() as u32 {
            let counters = engine.pipe_counters(PipeId(pipe));
            let seen = |event| self.pipe(pipe, event);
            assert_eq!(seen(PacketEvent::Out), counters.packets);
            assert_eq!(seen(PacketEvent::Loss), counters.drops_loss);
            assert_eq!(seen(PacketEvent::Queue), counters.drops_queue);
            assert_eq!(seen(PacketEvent::LinkDown), counters.drops_down);
            assert_eq!(seen(PacketEvent::Marked), counters.marked);
            assert_eq!(seen(PacketEvent::Corrupted), counters.corrupted);
            let ended = [
                PacketEvent::Out,
                PacketEvent::Loss,
                PacketEvent::Queue,
                PacketEvent::LinkDown,
            ]
            .map(seen);
            let went_in = seen(PacketEvent::In) + counters.duplicated;
            assert_eq!(went_in, ended.iter().sum());
        }
        let counters = engine.counters();
        let seen = |event: PacketEvent| self.nodes.get(&(event as u8)).copied().unwrap_or(0);
        assert_eq!(seen(PacketEvent::Entered), counters.entered);
        assert_eq!(seen(PacketEvent::Delivered), counters.delivered);
        let dropped = counters.dropped;
        assert_eq!(seen(PacketEvent::Misdelivered), dropped.misdelivered);
        assert_eq!(seen(PacketEvent::Absorbed), dropped.absorbed);
        assert_eq!(seen(PacketEvent::HopLimit), dropped.hop_limit);
        assert_eq!(seen(PacketEvent::NoRoute), dropped.no_route);
        assert_eq!(seen(PacketEvent::TooBig), dropped.too_big);
    }
}
