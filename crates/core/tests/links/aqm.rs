//! Disciplines that drop or mark before the queue is full.

use longhaul_core::params::{CoDel, Discipline, FqCodel, Pie, PipeParams, Red};
use longhaul_core::units::{Probability, QueueLimit, Rate};

use super::N;
use super::line::{Line, Out, Packet, Random, evenly, ipv4_is_sound};
use super::table::Table;

/// 1000 counted bytes with Ethernet's: 800 µs at 10 Mbit/s.
const IP_LEN: u16 = 982;
const SERVICE: u64 = 800_000;
const MS: f64 = 1e6;

fn line(discipline: Discipline, queue: QueueLimit) -> Line {
    Line::new(PipeParams {
        rate: Rate::from_bits_per_s(10_000_000),
        queue,
        discipline,
        ..PipeParams::default()
    })
}

const ENDLESS: QueueLimit = QueueLimit::Packets(u32::MAX);

const fn is_marked(out: &Out<'_>) -> bool {
    out.frame[15] & 0b11 == 0b11
}

/// When RFC 8289's control law drops, in ns: the first time at `first`, and the next one each time
/// an interval over the root of the count later, up to `end`.
fn control_law(first: u64, end: u64) -> Vec<f64> {
    let (mut times, mut at, mut count) = (Vec::new(), first as f64, 1.0f64);
    while at <= end as f64 {
        times.push(at);
        at += 100.0 * MS / count.sqrt();
        count += 1.0;
    }
    times
}

/// Twice what the link carries, steadily: packet k comes at 400·k µs and would start at 800·k. So
/// number 13 is the first to have waited for 5 ms, at 10.4 ms; 100 ms later that has lasted an
/// interval. From there on, and as long as the wait does not fall below 5 ms, drops (or marks) come
/// by the control law, each at the first start of service at or after its time.
pub(crate) fn codel() -> Table {
    const FIRST: u64 = 110_400_000;
    const END: u64 = 20_000_000_000;
    let mut table = Table::new("codel");
    for (asked, ecn) in [("`codel`", false), ("`codel: { ecn: true }`", true)] {
        let discipline = Discipline::CoDel(CoDel {
            ecn,
            ..CoDel::default()
        });
        let mut line = line(discipline, ENDLESS);
        let (mut hits, mut next, mut wrong) = (Vec::new(), 0, 0);
        let packets = evenly(60_000, SERVICE / 2, IP_LEN).map(|packet| Packet { ecn, ..packet });
        line.send(packets, |out| {
            let start = out.due - SERVICE;
            let gone = if ecn {
                usize::from(is_marked(out))
            } else {
                out.number - next
            };
            wrong +=
                u64::from(!ipv4_is_sound(out.frame)) + (ecn as u64 * (out.number - next) as u64);
            next = out.number + 1;
            hits.extend(std::iter::repeat_n(start, gone));
        });
        hits.retain(|&start| start <= END);
        let law = control_law(FIRST, END - SERVICE);
        let late = hits.iter().zip(&law).map(|(&hit, law)| hit as f64 - law);
        let (least, most) = late.fold((0.0, 0.0), |(least, most): (f64, f64), late| {
            (least.min(late), most.max(late))
        });
        let what = if ecn {
            "first mark, µs"
        } else {
            "first drop, µs"
        };
        let asked = table.asked(format!("{asked} at twice the rate, 20 s"));
        let asked = asked.exact(what, FIRST / 1000, hits[0] / 1000);
        let what = if ecn { "marks" } else { "drops" };
        // Those near the end may fall on either side of it.
        let asked = asked.unit("", 0);
        let asked = asked.near(what, law.len() as f64, hits.len() as f64, 2.0);
        // A time in whole nanoseconds is up to 1 ns early.
        let early = law.len() as f64 / MS;
        let asked = asked.unit("ms", 3);
        let asked = asked.at_most(
            "behind the control law",
            SERVICE as f64 / MS + early,
            most / MS,
        );
        let asked = asked.at_most("ahead of the control law", early, -least / MS);
        asked.exact(
            "wrong IPv4 checksums, and drops in place of marks",
            0,
            wrong,
        );
    }
    table
}

/// The others.
pub(crate) fn others() -> Table {
    let mut table = Table::new("other-disciplines");
    red(&mut table);
    pie(&mut table);
    sparse(&mut table);
    shares(&mut table);
    marks(&mut table, "red", Discipline::Red(a_red(true)));
    let pie = Pie {
        ecn: true,
        ..Pie::default()
    };
    marks(&mut table, "pie", Discipline::Pie(pie));
    marks(
        &mut table,
        "fq_codel",
        Discipline::FqCodel(FqCodel::default()),
    );
    table
}

/// At 1.25 times the rate RED has to drop every fifth packet. Of the packets up to the next drop
/// there are 1, 2, … or 1/p − 1, equally likely (the pseudo-code counts before it draws), 1/(2p)
/// on average. So p = 1/10; with nothing at 10 packets and 20 % at 30 that is at 20. They wait for
/// one another and for the rest of the one in service: packets come each 0.8 of a service, and
/// find 1, 0.2, 0.4, 0.6 and 0.8 of one in turn. That the average moves a little is what the 2 %
/// are for.
fn red(table: &mut Table) {
    let mut line = line(Discipline::Red(a_red(false)), QueueLimit::Packets(1000));
    let (mut sum, mut count) = (0, 0);
    line.send(evenly(N, SERVICE * 4 / 5, IP_LEN), |out| {
        if out.entered > 10_000_000_000 {
            sum += out.delay() - SERVICE;
            count += 1;
        }
    });
    let mean = sum as f64 / f64::from(count) / SERVICE as f64;
    let theory = 20.0 + 0.6;
    let asked = "`red`: 2^-9, 0 at 10 packets to 20 % at 30; 1.25 times the rate";
    let asked = table.asked(asked).unit("", 2);
    let asked = asked.near(
        "mean wait, in times of service",
        theory,
        mean,
        0.02 * theory,
    );
    let counters = line.counters();
    let full = counters.drops_queue - counters.drops_early;
    asked.exact("drops for want of room", 0, full);
}

fn a_red(ecn: bool) -> Red {
    Red {
        min: 10,
        max: 30,
        probability: Probability::from_ratio(1, 5).expect("below 1"),
        weight_log2: 9,
        ecn,
    }
}

/// Marks of capable packets, at 1.25 times the rate.
fn marks(table: &mut Table, name: &str, discipline: Discipline) {
    let mut line = line(discipline, QueueLimit::Packets(1000));
    let (mut marked, mut wrong) = (0, 0);
    let packets = evenly(N / 10, SERVICE * 4 / 5, IP_LEN);
    let packets = packets.map(|packet| Packet {
        ecn: true,
        ..packet
    });
    line.send(packets, |out| {
        marked += u64::from(is_marked(out));
        wrong += u64::from(!ipv4_is_sound(out.frame));
    });
    assert!(marked > 0, "{name} marks");
    let counted = line.counters().marked;
    let asked = table.asked(format!("`{name}` with `ecn: true`, 1.25 times the rate"));
    let asked = asked.exact("marks that are not counted", 0, marked.abs_diff(counted));
    asked.exact("wrong IPv4 checksums", 0, wrong);
}

/// A controller with an integral part has no lasting error; its 5 % are for what Poisson traffic
/// does to the steps of the scale of its probability.
fn pie(table: &mut Table) {
    let discipline = Discipline::Pie(Pie::default());
    let mut line = line(discipline, QueueLimit::Packets(1000));
    let times = Random::new("pie").poisson(SERVICE as f64 / 1.2);
    let (mut sum, mut count) = (0, 0);
    line.send(times.take(N).map(|at| Packet::new(at, IP_LEN)), |out| {
        if out.entered > 10_000_000_000 {
            sum += out.delay() - SERVICE;
            count += 1;
        }
    });
    let asked = table
        .asked("`pie`, Poisson traffic of 1.2 times the rate")
        .unit("ms", 3);
    asked.near("mean wait", 15.0, sum as f64 / f64::from(count) / MS, 0.75);
}

/// Flow 1 sends packets of 1500 bytes at twice the rate, flow 2 one of 100 bytes each 50 ms, which
/// waits for nothing but the packet in service.
fn sparse(table: &mut Table) {
    let gap = 607_200; // half of 1518 bytes at 10 Mbit/s
    let bulk = evenly(100_000, gap, 1500);
    let thin = evenly(1200, 50_000_123, 100).map(|packet| Packet { flow: 2, ..packet });
    let mut packets: Vec<Packet> = bulk.chain(thin).collect();
    packets.sort_by_key(|packet| packet.at);
    let flows: Vec<u16> = packets.iter().map(|packet| packet.flow).collect();
    let discipline = Discipline::FqCodel(FqCodel::default());
    let mut line = line(discipline, QueueLimit::Packets(1000));
    let (mut came, mut longest) = (0, 0);
    line.send(packets, |out| {
        if flows[out.number] == 2 {
            came += 1;
            longest = longest.max(out.delay());
        }
    });
    let asked = table.asked("`fq_codel`: a sparse flow beside one of twice the rate");
    let asked = asked.exact("its packets that are lost", 0, 1200 - came);
    // A packet of the other flow, and its own 118 bytes.
    let bound = 2.0 * gap as f64 + 94_400.0;
    asked
        .unit("ms", 3)
        .at_most("its longest time inside", bound / MS, longest as f64 / MS);
}

/// Two flows at the full rate each, of packets of 1500 and 500 bytes.
fn shares(table: &mut Table) {
    let gap = |ip_len: u64| (ip_len + 18) * 800;
    let long = evenly(50_000, gap(1500), 1500);
    let short = evenly(50_000 * 3, gap(500), 500).map(|packet| Packet { flow: 2, ..packet });
    let mut packets: Vec<Packet> = long.chain(short).collect();
    packets.sort_by_key(|packet| packet.at);
    let end = gap(1500) * 40_000;
    let discipline = Discipline::FqCodel(FqCodel::default());
    let mut line = line(discipline, QueueLimit::Packets(1000));
    let mut bytes = [0.0; 2];
    line.send(packets, |out| {
        let counted = out.frame.len() + 4;
        if out.due < end {
            bytes[usize::from(counted < 1000)] += counted as f64;
        }
    });
    let share = 100.0 * bytes[1] / (bytes[0] + bytes[1]);
    let asked = table.asked("`fq_codel`: two flows, packets of 1500 and 500 bytes");
    asked
        .unit("%", 2)
        .near("bytes of the second", 50.0, share, 0.5);
}
