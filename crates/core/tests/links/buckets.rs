//! Token buckets: bursts at once, and the rate in the mean.

use longhaul_core::params::PipeParams;
use longhaul_core::units::{Bytes, QueueLimit, Rate};

use super::N;
use super::line::{Line, Packet, Random};
use super::table::Table;

/// Ethernet's bytes around a packet.
const AROUND: u64 = 18;

/// A bucket by its definition: a level that rises with time and falls with packets, below zero for
/// one that is larger than the bucket. Times are in units of 1/rate ns, in which one unit of time
/// brings one unit of work, 10⁻⁹ bit.
struct Bucket {
    rate: i128,
    depth: i128,
    level: i128,
    now: i128,
}

impl Bucket {
    fn new(rate: Rate, depth: u64) -> Self {
        let depth = i128::from(depth) * 8_000_000_000;
        Self {
            rate: i128::from(rate.bits_per_s()),
            depth,
            level: depth,
            now: 0,
        }
    }

    fn wait(&mut self, time: i128) {
        let time = time.max(0);
        self.level = self.depth.min(self.level + time);
        self.now += time;
    }

    /// When `bytes` that come at `ns` go.
    fn send(&mut self, ns: u64, bytes: u64) -> u64 {
        let work = i128::from(bytes) * 8_000_000_000;
        self.wait(i128::from(ns) * self.rate - self.now);
        self.wait(work.min(self.depth) - self.level);
        self.level -= work;
        ((self.now + self.rate - 1) / self.rate) as u64
    }
}

/// Random traffic of 90 % of the rate.
fn off(rate: Rate, depth: u64) -> usize {
    let mut random = Random::new("sizes");
    let mean = (84.0 + AROUND as f64) * 8e9 / rate.bits_per_s() as f64;
    let times = Random::new("times").poisson(mean / 0.9);
    let packets: Vec<Packet> = times
        .take(N)
        .map(|at| Packet::new(at, 40 + random.below(89) as u16))
        .collect();
    let mut model = Bucket::new(rate, depth);
    let bytes = |packet: &Packet| u64::from(packet.ip_len) + AROUND;
    let goes = packets
        .iter()
        .map(|packet| model.send(packet.at, bytes(packet)));
    let goes: Vec<u64> = goes.collect();
    let mut line = bucket(rate, depth);
    let (mut came, mut off) = (0, 0);
    line.send(packets, |out| {
        came += 1;
        off += usize::from(out.due != goes[out.number]);
    });
    off + (N - came)
}

fn bucket(rate: Rate, depth: u64) -> Line {
    Line::new(PipeParams {
        rate: Some(rate),
        burst: Some(Bytes(depth)),
        queue: QueueLimit::Packets(u32::MAX),
        ..PipeParams::default()
    })
}

/// Buckets of several depths.
pub(crate) fn burst() -> Table {
    let mut table = Table::new("burst");
    for (text, depth) in [
        ("8 Mbit/s", 16_000),
        ("7 Mbit/s", 1500),
        ("7 Mbit/s", 100),
        ("1 Gbit/s", 64_000),
    ] {
        let rate: Rate = text.parse().expect("a rate");
        // 1000 packets of 1000 counted bytes at one time.
        let mut line = bucket(rate, depth);
        let packets = (0..1000).map(|_| Packet::new(1_000_000, 982));
        let (mut at_once, mut last) = (0, 0);
        line.send(packets, |out| {
            at_once += u64::from(out.delay() == 0);
            last = out.delay();
        });
        // A packet that is larger than the bucket finds it full, and leaves the rest as a debt.
        let before = 1_000_000 - depth.max(1000);
        let rest = u128::from(before) * 8_000_000_000;
        let rest = rest.div_ceil(u128::from(rate.bits_per_s())) as u64;
        let asked = table.asked(format!("`rate: {text}`, `burst: {depth} B`"));
        let asked = asked.exact(
            "of 1000 packets of 1000 bytes, at once",
            (depth / 1000).max(1),
            at_once,
        );
        let asked = asked.exact("the last one after, ns", rest, last);
        asked.exact(
            "packets of random traffic that go at another time",
            0,
            off(rate, depth) as u64,
        );
    }
    table
}
