//! Even gaps: when each packet leaves a link of constant rate.

use longhaul_core::params::PipeParams;
use longhaul_core::units::{Framing, QueueLimit, Rate};

use super::line::{Line, Packet, Random};
use super::table::Table;

/// Packets at each rate.
const SOME: usize = 100_000;
/// Packets that wait, about.
const AHEAD: usize = 50;

/// The first whole nanosecond at which `bytes` are out at `rate`.
fn departure(bytes: u64, rate: Rate) -> u64 {
    let work = u128::from(bytes) * 8_000_000_000;
    work.div_ceil(u128::from(rate.bits_per_s())) as u64
}

/// Departures of a backlog of packets of many sizes that are off, with events at each start of
/// service or without.
fn off(rate: Rate, framing: Framing, shaped: bool) -> u64 {
    let mut random = Random::new("sizes");
    let sizes: Vec<u16> = (0..SOME).map(|_| 40 + random.below(100) as u16).collect();
    let counted = |&ip_len: &u16| u64::from(framing.counted(u32::from(ip_len)));
    let sum = |sum: &mut u64, bytes| {
        *sum += bytes;
        Some(departure(*sum, rate))
    };
    let ends: Vec<u64> = sizes.iter().map(counted).scan(0, sum).collect();
    let mut line = Line::new(PipeParams {
        rate: Some(rate),
        framing,
        queue: QueueLimit::Packets(200),
        overtake: shaped, // of no effect, since the delay is constant
        ..PipeParams::default()
    });
    let stamp = |k: usize| k.checked_sub(AHEAD).map_or(0, |k| ends[k]);
    let packets = (0..SOME).map(|k| Packet::new(stamp(k), sizes[k]));
    let (mut came, mut off) = (0, 0);
    line.send(packets, |out| {
        came += 1;
        off += u64::from(out.due != ends[out.number]);
    });
    off + (SOME - came) as u64
}

/// From the slowest modem to the fastest cable.
pub(crate) fn rate() -> Table {
    const WHAT: &str = "departures that are not ⌈8·10⁹ · bytes so far / rate⌉ ns";
    let mut table = Table::new("rate");
    let rates = [
        "8 kbit/s",
        "56 kbit/s",
        "1 Mbit/s",
        "7 Mbit/s",
        "100 Mbit/s",
        "1 Gbit/s",
        "9.95328 Gbit/s",
        "10 Gbit/s",
        "40 Gbit/s",
        "100 Gbit/s",
    ];
    for text in rates {
        let rate = text.parse().expect("a rate");
        let off = off(rate, Framing::Ethernet, false) + off(rate, Framing::Ethernet, true);
        table.asked(format!("`{text}`")).exact(WHAT, 0, off);
    }
    for (text, framing) in [("ip", Framing::Ip), ("wire", Framing::Wire)] {
        let rate = "7 Mbit/s".parse().expect("a rate");
        let off = off(rate, framing, false) + off(rate, framing, true);
        let asked = format!("`7 Mbit/s`, `framing: {text}`");
        table.asked(asked).exact(WHAT, 0, off);
    }
    table
}
