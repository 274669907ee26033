//! What is done to single packets: duplication, corruption, reordering.

use std::num::NonZeroU32;

use longhaul_core::params::{PipeParams, Reorder, Which};
use longhaul_core::units::Probability;
use longhaul_core::{Span, Time};

use super::line::{Line, Packet, evenly, frame_of, udp_is_sound};
use super::table::Table;
use super::{ERRORS, N};

/// IP and UDP header, the number, and 24 bytes more.
const IP_LEN: u16 = 60;
const GAP: u64 = 100_000;
const DELAY: Span = Span::from_ms(5);
const HOLD: Span = Span::from_ms(2);

/// All of them.
pub(crate) fn changes() -> Table {
    let mut table = Table::new("changes");
    duplicate(&mut table);
    corrupt(&mut table);
    let probability = Which::Random(one_in(100));
    reorder(
        &mut table,
        "`reorder: { probability: 1 %, delay: 2 ms }`",
        probability,
    );
    let block = Which::OneIn(NonZeroU32::new(100).expect("not zero"));
    reorder(&mut table, "`reorder: { one_in: 100, delay: 2 ms }`", block);
    table
}

fn one_in(n: u64) -> Probability {
    Probability::from_ratio(1, n).expect("below 1")
}

/// Four standard errors of a share of all packets, in per cent.
fn within(share: f64) -> f64 {
    100.0 * ERRORS * (share * (1.0 - share) / N as f64).sqrt()
}

fn duplicate(table: &mut Table) {
    let mut line = Line::new(PipeParams {
        duplicate: one_in(100),
        delay: DELAY,
        ..PipeParams::default()
    });
    let mut first: Vec<Option<(u64, Vec<u8>)>> = vec![None; N];
    let (mut copies, mut differ) = (0, 0);
    line.send(evenly(N, GAP, IP_LEN), |out| {
        let this = (out.due, out.frame.to_vec());
        match &first[out.number] {
            None => first[out.number] = Some(this),
            Some(first) => {
                copies += 1;
                differ += u64::from(*first != this);
            }
        }
    });
    let missing = first.iter().filter(|first| first.is_none()).count();
    let asked = table.asked("`duplicate: 1 %`").unit("%", 4);
    let measured = 100.0 * copies as f64 / N as f64;
    let asked = asked.near("packets that come out twice", 1.0, measured, within(0.01));
    let asked = asked.exact(
        "copies that are not counted",
        0,
        line.counters().duplicated.abs_diff(copies),
    );
    let asked = asked.exact("copies that differ in a byte or in time", 0, differ);
    asked.exact("packets that do not come out", 0, missing as u64);
}

fn corrupt(table: &mut Table) {
    let mut line = Line::new(PipeParams {
        corrupt: one_in(1000),
        delay: DELAY,
        ..PipeParams::default()
    });
    let (mut hit, mut sound, mut odd, mut headers) = (0, 0, 0, 0);
    let mut in_byte = vec![0; usize::from(IP_LEN) - 20];
    line.send(evenly(N, GAP, IP_LEN), |out| {
        let sent = frame_of(&Packet::new(out.entered, IP_LEN), out.number as u64);
        headers += u64::from(sent[14..34] != out.frame[14..34]);
        let bytes = sent[34..].iter().zip(&out.frame[34..]);
        let mut flipped = 0;
        for ((a, b), count) in bytes.zip(&mut in_byte) {
            flipped += (a ^ b).count_ones();
            *count += u32::from(a != b);
        }
        hit += u64::from(flipped > 0);
        odd += u64::from(flipped > 1);
        sound += u64::from((flipped > 0) == udp_is_sound(out.frame));
    });
    let untouched = in_byte.iter().filter(|&&count| count == 0).count();
    let asked = table.asked("`corrupt: 0.1 %`").unit("%", 4);
    let measured = 100.0 * hit as f64 / N as f64;
    let asked = asked.near("packets hit", 0.1, measured, within(0.001));
    let counted = line.counters().corrupted.abs_diff(hit);
    let asked = asked.exact("packets hit and not counted", 0, counted);
    let asked = asked.exact("packets with more than one bit flipped", 0, odd);
    let asked = asked.exact("UDP checksums that do not reveal it", 0, sound);
    let asked = asked.exact("changed IP headers", 0, headers);
    asked.exact(
        "bytes behind the IP header that are never hit",
        0,
        untouched as u64,
    );
}

fn reorder(table: &mut Table, name: &str, which: Which) {
    let mut line = Line::new(PipeParams {
        reorder: Some(Reorder { which, hold: HOLD }),
        delay: DELAY,
        ..PipeParams::default()
    });
    let mut held = vec![false; N];
    let (mut astray, mut late, mut latest) = (0, 0, 0);
    line.send(evenly(N, GAP, IP_LEN), |out| {
        held[out.number] = out.delay() > DELAY.as_ns();
        let way = DELAY + if held[out.number] { HOLD } else { Span::ZERO };
        astray += u64::from(Time::from_ns(out.due) != Time::from_ns(out.entered) + way);
        late += u64::from(out.number < latest);
        latest = latest.max(out.number);
    });
    let count = held.iter().filter(|&&held| held).count();
    let mut asked = table.asked(name).unit("%", 4);
    let measured = 100.0 * count as f64 / N as f64;
    asked = match which {
        Which::Random(_) => asked.near("packets held back", 1.0, measured, within(0.01)),
        Which::OneIn(n) => {
            let blocks = held.chunks(n.get() as usize);
            let one = |block: &&[bool]| block.iter().filter(|&&held| held).count() == 1;
            let odd = blocks.filter(|block| !one(block)).count();
            asked.exact("blocks of 100 with other than one held back", 0, odd as u64)
        }
    };
    asked = asked.exact("packets with a delay other than 5 ms or 7 ms", 0, astray);
    let counted = line.counters().reordered.abs_diff(late);
    asked.exact("late packets (RFC 4737) and not counted", 0, counted);
}
