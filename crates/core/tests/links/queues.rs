//! Queues in the order of entry: their bounds, and how long packets wait in them.

use longhaul_core::Span;
use longhaul_core::params::PipeParams;
use longhaul_core::units::{Framing, QueueLimit, Rate};

use super::N;
use super::line::{Line, Packet, Random, evenly};
use super::table::Table;

/// 1000 counted bytes with Ethernet's: 1 ms at 8 Mbit/s.
const IP_LEN: u16 = 982;

fn line(queue: QueueLimit) -> Line {
    Line::new(PipeParams {
        rate: Rate::from_bits_per_s(8_000_000),
        queue,
        ..PipeParams::default()
    })
}

/// What a burst and a lasting overload meet.
pub(crate) fn drop_tail() -> Table {
    let mut table = Table::new("queue");
    let limits = [
        ("`250 packets`", QueueLimit::Packets(250), 250),
        (
            "`64 KiB`, packets of 1000 bytes",
            QueueLimit::Bytes(65_536),
            65,
        ),
        (
            "`20 ms`, packets of 1 ms",
            QueueLimit::Time(Span::from_ms(20)),
            20,
        ),
    ];
    for (asked, limit, waiting) in limits {
        let mut out = 0;
        line(limit).send(evenly(1000, 0, IP_LEN), |_| out += 1);
        let asked = table.asked(asked);
        let asked = asked.exact(
            "of 1000 packets at once, in service or waiting",
            1 + waiting,
            out,
        );
        // Twice as many as the link carries: each that finds room finds the last place.
        let mut line = line(limit);
        let (mut came, mut longest) = (0, 0);
        line.send(evenly(N / 10, 500_000, IP_LEN), |out| {
            came += 1;
            longest = longest.max(out.delay());
        });
        // All but the wait of the last has been sent when it is accepted.
        let time = (N as u64 / 10 - 1) / 2 + 1;
        let asked = asked.exact(
            "longest time inside at twice the rate, µs",
            (waiting + 1) * 1000,
            longest / 1000,
        );
        let carried = came - came.min(time + waiting);
        let asked = asked.exact("packets beyond what the link carries", 0, carried);
        let drops = line.counters().drops_queue;
        asked.exact(
            "packets that are neither out nor dropped",
            0,
            N as u64 / 10 - came - drops,
        );
    }
    table
}

/// Poisson arrivals. M/D/1: a mean wait of ρ/(2μ(1-ρ)) (Pollaczek and Khinchine). M/M/1/K: a share
/// of (1-ρ)ρᴷ/(1-ρᴷ⁺¹) finds all K places taken, that of the packet in service among them.
pub(crate) fn waiting() -> Table {
    let mut table = Table::new("waiting");
    for (asked, rho) in [("M/D/1, load 0.5", 0.5), ("M/D/1, load 0.8", 0.8)] {
        let times = Random::new(asked).poisson(1e6 / rho);
        let packets = times.take(N).map(|at| Packet::new(at, IP_LEN));
        let mut sum = 0;
        line(QueueLimit::Packets(u32::MAX)).send(packets, |out| sum += out.delay() - 1_000_000);
        let theory = rho / (2.0 * (1.0 - rho));
        let mean = sum as f64 / N as f64 / 1e6;
        let asked = table.asked(asked).unit("ms", 4);
        asked.near("mean wait", theory, mean, 0.01 * theory);
    }
    for (rho, places) in [(0.8, 5), (1.2, 10)] {
        let (lost, theory) = (blocked(rho, places), blocking(rho, places));
        let asked = table
            .asked(format!("M/M/1/{places}, load {rho}"))
            .unit("%", 4);
        asked.near("loss", 100.0 * theory, 100.0 * lost, 2.0 * theory);
    }
    table
}

fn blocking(rho: f64, places: u32) -> f64 {
    let power = (0..places).fold(1.0, |power, _| power * rho);
    (1.0 - rho) * power / (1.0 - power * rho)
}

/// The share of packets lost, with sizes that make service exponential: 2000 bytes on average.
/// The least is 36 bytes, which makes the mean 0.02 % longer.
fn blocked(rho: f64, places: u32) -> f64 {
    const MEAN: f64 = 2000.0;
    const MOST: f64 = 32_000.0;
    let rate = 16_000_000; // 1 ms
    let params = PipeParams {
        rate: Rate::from_bits_per_s(rate),
        framing: Framing::Ip,
        queue: QueueLimit::Packets(places - 1),
        ..PipeParams::default()
    };
    let mut line = Line::parallel(vec![params], MOST as u32);
    let mut sizes = Random::new("sizes");
    let mut size = || (MEAN * sizes.exponential() + 0.5).clamp(36.0, MOST) as u16;
    let times = Random::new("times").poisson(1e6 / rho);
    let mut came = 0;
    line.send(times.take(N).map(|at| Packet::new(at, size())), |_| {
        came += 1
    });
    assert_eq!(line.counters().drops_queue, N as u64 - came);
    1.0 - came as f64 / N as f64
}
