//! Packets released early: more may wait, and only the engine sees it.

use longhaul_core::packet::sum16;
use longhaul_core::segment::Offload;
use longhaul_core::units::{Bytes, QueueLimit, Rate};
use longhaul_core::{PipeId, Span};
use longhaul_plan::early_release::EarlyRelease;
use longhaul_plan::patch::Patch;
use longhaul_plan::plan::Plan;

use crate::Emulation;

/// A pipe of 8 Mbit/s, to which 5 packets of 1000 bytes, 5 ms of them, are released early, and a queue.
fn emulation(queue: &str, early: Option<EarlyRelease>) -> (Emulation, PipeId) {
    let text = format!(
        "topology: {{ nodes: {{ a: {{}}, b: {{}} }}, links: [{{ ends: [a, b], rate: 8 Mbit/s, \
         delay: 1 ms, queue: {queue} }}] }}\n"
    );
    let plan = Plan::from_text(&text, "f.yaml").unwrap_or_else(|e| panic!("{e}"));
    let mut emulation = Emulation::new(&plan, Emulation::engine_config(&plan)).unwrap();
    let (pipe, _) = plan
        .early_releases()
        .next()
        .expect("the pipe that leaves `a`");
    if let Some(early) = early {
        emulation.set_early_release(pipe, early);
    }
    (emulation, pipe)
}

/// How many of 20 packets of 500 counted bytes, all at once, find no room.
fn dropped(emulation: &mut Emulation, pipe: PipeId) -> u64 {
    let topology = emulation.engine().topology();
    let (from, to) = (topology.pipe(pipe).from, topology.pipe(pipe).to);
    let mut ip = vec![0x45, 0, 1, 226, 0, 0, 0x40, 0, 64, 17, 0, 0];
    for node in [from, to] {
        ip.extend(topology.node(node).ipv4.octets());
    }
    let checksum = !sum16(&ip);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    let mut frame = [0; 12].to_vec();
    frame.extend([0x08, 0x00]);
    frame.extend(ip);
    frame.resize(14 + 482, 0);
    let before = emulation.engine().counters().dropped.queue;
    let now = emulation.now();
    for _ in 0..20 {
        let entered = emulation.arrive(from, now, &frame, &Offload::default());
        entered.expect("a frame that the network carries");
    }
    emulation.advance(now + Span::from_s(1));
    while emulation.poll_out(Span::ZERO, &mut Vec::new()).is_some() {}
    emulation.engine().counters().dropped.queue - before
}

#[test]
fn more_is_released_than_the_queue_holds() {
    let dropped = |queue: &str| {
        let (mut emulation, pipe) = emulation(queue, Some(EarlyRelease::default()));
        dropped(&mut emulation, pipe)
    };
    // One in service, 2 and 5 in the queue.
    assert_eq!(dropped("2 packets"), 12);
    // 1000 and 5000 bytes are 12 packets of 500.
    assert_eq!(dropped("1000 B"), 7);
    // The one behind 6 ms finds the limit reached.
    let (mut longer, pipe) = emulation("6 ms", None);
    let all = self::dropped(&mut longer, pipe);
    assert_eq!((dropped("1 ms"), all > 0), (all, true));
}

/// The room follows the rate, and goes where nobody knows what waits.
#[test]
fn a_change_of_the_pipe_changes_the_room() {
    let (mut emulation, pipe) = emulation("2 packets", Some(EarlyRelease::default()));
    let change = |emulation: &mut Emulation, patch: Patch| {
        emulation.set(pipe, &patch);
        let own = QueueLimit::Packets(2);
        assert_eq!(emulation.params(pipe).queue, own, "its own queue");
        assert_eq!(emulation.pipe_state(pipe).params, *emulation.params(pipe));
        dropped(emulation, pipe)
    };
    let rate = |bits| Patch {
        rate: Some(Rate::from_bits_per_s(bits)),
        ..Patch::default()
    };
    assert_eq!(change(&mut emulation, rate(1_600_000)), 20 - 1 - 2 - 1);
    assert_eq!(change(&mut emulation, rate(16_000_000)), 20 - 1 - 2 - 10);
    assert_eq!(change(&mut emulation, Patch::default()), 20 - 1 - 2 - 10);
    let burst = Patch {
        burst: Some(Some(Bytes(500))),
        ..Patch::default()
    };
    // The bucket lets one more through at once.
    assert_eq!(change(&mut emulation, burst.clone()), 20 - 2 - 2);
    let (mut without, same) = self::emulation("2 packets", None);
    without.set(same, &rate(16_000_000));
    without.set(same, &burst);
    assert_eq!(dropped(&mut without, same), 20 - 2 - 2, "not with a burst");
}
