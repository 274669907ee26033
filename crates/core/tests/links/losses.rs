//! Loss: alone, one in n, in bursts, by a list, by bit errors.

use std::num::NonZeroU32;

use longhaul_core::params::{LossModel, PipeParams};
use longhaul_core::units::Probability;

use super::line::{Line, Random, evenly};
use super::table::{Asked, Table};
use super::theory::Chain;
use super::{ERRORS, N};

/// Which of all packets of `ip_len` bytes are lost.
fn lost(params: PipeParams, ip_len: u16) -> Vec<bool> {
    let mut line = Line::new(params);
    let mut lost = vec![true; N];
    line.send(evenly(N, 1000, ip_len), |out| lost[out.number] = false);
    let count = lost.iter().filter(|&&lost| lost).count();
    assert_eq!(line.counters().drops_loss, count as u64);
    lost
}

fn by(loss: LossModel) -> Vec<bool> {
    let params = PipeParams {
        loss,
        ..PipeParams::default()
    };
    lost(params, 40)
}

fn per_cent(text: &str) -> Probability {
    text.parse().expect("a probability")
}

fn share(lost: &[bool]) -> f64 {
    lost.iter().filter(|&&lost| lost).count() as f64 / lost.len() as f64
}

/// Packets lost in a row, on average.
fn mean_burst(lost: &[bool]) -> f64 {
    let starts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
    let bursts = starts + usize::from(lost[0]);
    share(lost) * lost.len() as f64 / bursts as f64
}

/// Loss in per cent and mean burst, beside those of a chain.
fn chained(asked: Asked<'_>, lost: &[bool], chain: Chain) {
    let n = lost.len() as f64;
    let (rate, rate_error) = chain.rate(n);
    let (burst, burst_error) = chain.burst(n);
    let measured = 100.0 * share(lost);
    let within = 100.0 * ERRORS * rate_error;
    let asked = asked
        .unit("%", 4)
        .near("loss", 100.0 * rate, measured, within);
    let within = ERRORS * burst_error;
    asked
        .unit("packets", 3)
        .near("mean burst", burst, mean_burst(lost), within);
}

/// All models of loss.
pub(crate) fn loss() -> Table {
    let mut table = Table::new("loss");
    let all = by(LossModel::Independent(per_cent("1 %")));
    chained(table.asked("`1 %`"), &all, Chain::independent(0.01));
    one_in(&mut table);
    let model = LossModel::from_rate_and_burst(per_cent("1 %"), 5.0).expect("possible");
    // A burst ends after a packet with 1/5; 99 packets in 495 go between two of them.
    let chain = Chain {
        leave: [1.0 / 495.0, 0.2],
        loss: [0.0, 1.0],
    };
    chained(table.asked("`{ rate: 1 %, burst: 5 }`"), &by(model), chain);
    for (good, bad) in [(0.0, 100.0), (0.1, 50.0)] {
        let asked = format!(
            "`gilbert_elliott: {{ to_bad: 1 %, to_good: 20 %, in_good: {good} %, in_bad: {bad} % }}`"
        );
        let model = LossModel::GilbertElliott {
            to_bad: per_cent("1 %"),
            to_good: per_cent("20 %"),
            in_good: per_cent(&format!("{good} %")),
            in_bad: per_cent(&format!("{bad} %")),
        };
        let chain = Chain {
            leave: [0.01, 0.2],
            loss: [good / 100.0, bad / 100.0],
        };
        chained(table.asked(asked), &by(model), chain);
    }
    pattern(&mut table);
    for ip_len in [64, 1500] {
        bit_errors(&mut table, ip_len);
    }
    table
}

/// The place in a block of n has a variance of (n² − 1)/12.
fn one_in(table: &mut Table) {
    const BLOCK: u32 = 100;
    let lost = by(LossModel::OneIn(NonZeroU32::new(BLOCK).expect("not zero")));
    let (mut odd, mut places) = (0, 0);
    for block in lost.chunks(BLOCK as usize) {
        let hit: Vec<usize> = (0..block.len()).filter(|&place| block[place]).collect();
        odd += u64::from(hit.len() != 1);
        places += hit.iter().sum::<usize>();
    }
    let blocks = N as f64 / f64::from(BLOCK);
    let variance = f64::from(BLOCK * BLOCK - 1) / 12.0;
    let within = ERRORS * (variance / blocks).sqrt();
    let asked = table.asked("`{ one_in: 100 }`");
    let asked = asked.exact("blocks of 100 with other than one loss", 0, odd);
    let middle = f64::from(BLOCK - 1) / 2.0;
    asked.unit("", 2).near(
        "mean place in the block",
        middle,
        places as f64 / blocks,
        within,
    );
}

fn pattern(table: &mut Table) {
    let mut random = Random::new("pattern");
    let list: Vec<bool> = (0..997).map(|_| random.below(10) == 0).collect();
    let lost = by(LossModel::Pattern(list.clone().into()));
    let wrong = lost.iter().zip(list.iter().cycle());
    let wrong = wrong.filter(|(lost, listed)| lost != listed).count();
    let asked = table.asked("`pattern` of 997 packets");
    asked.exact("packets that are not as listed", 0, wrong as u64);
}

/// Of a frame with 18 bytes around its packet, all bits have to be right.
fn bit_errors(table: &mut Table, ip_len: u16) {
    let bits = 8 * (u32::from(ip_len) + 18);
    let right = (0..bits).fold(1.0, |right, _| right * (1.0 - 1e-5));
    let params = PipeParams {
        bit_errors: Probability::from_ratio(1, 100_000).expect("below 1"),
        ..PipeParams::default()
    };
    let asked = table.asked(format!("`bit_errors: 1e-5`, packets of {ip_len} bytes"));
    chained(
        asked,
        &lost(params, ip_len),
        Chain::independent(1.0 - right),
    );
}
