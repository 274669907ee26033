//! Delays that are drawn from a distribution.

use std::sync::Arc;

use longhaul_core::Span;
use longhaul_core::params::{Distribution, Jitter, PipeParams};

use super::line::{Line, evenly};
use super::table::{Asked, Table};
use super::theory::{erlang, normal, quantile};
use super::{ERRORS, N};

const MS: f64 = 1e6;
const IP_LEN: u16 = 40;
/// More than any delay that is drawn here.
const LONG: u64 = 10_000_000_000;

/// A distribution as the file says it, and by its textbook formula.
struct Law {
    asked: &'static str,
    distribution: Distribution,
    cdf: Box<dyn Fn(f64) -> f64>,
    mean: f64,
    deviation: f64,
}

fn laws() -> Vec<Law> {
    let ms = Span::from_ms;
    let (base, mean, spread) = (1.0 * MS, 4.0 * MS, 0.8 * MS);
    let made = "a valid distribution";
    let some = |make: fn(Span, Span, Span) -> Result<Distribution, _>, us| {
        make(ms(1), ms(4), Span::from_us(us)).expect(made)
    };
    // Mean m and deviation d: α = 1 + √(1 + (m/d)²), x₀ = m·(α − 1)/α.
    let alpha = 1.0 + (1.0 + (mean / spread) * (mean / spread)).sqrt();
    let least = mean * (alpha - 1.0) / alpha;
    // σ² = ln(1 + (d/m)²), μ = ln m − σ²/2.
    let variance = libm::log(1.0 + (spread / mean) * (spread / mean));
    let (mu, sigma) = (libm::log(mean) - 0.5 * variance, variance.sqrt());
    let cut = normal(-5.0);
    let law = |asked, distribution, deviation, cdf| Law {
        asked,
        distribution,
        cdf,
        mean: 5.0 * MS,
        deviation,
    };
    vec![
        law(
            "`uniform: [4 ms, 6 ms]`",
            Distribution::uniform(ms(4), ms(6)).expect(made),
            MS / 3f64.sqrt(),
            Box::new(|x| ((x - 4.0 * MS) / (2.0 * MS)).clamp(0.0, 1.0)),
        ),
        law(
            "`normal: { mean: 5 ms, deviation: 1 ms }`",
            Distribution::normal(ms(5), ms(1)).expect(made),
            MS,
            Box::new(move |x| (normal(x / MS - 5.0) - cut) / (1.0 - 2.0 * cut)),
        ),
        law(
            "`base: 1 ms, pareto: { mean: 4 ms, deviation: 0.8 ms }`",
            some(Distribution::pareto, 800),
            spread,
            Box::new(move |x| 1.0 - libm::pow(least / (x - base).max(least), alpha)),
        ),
        law(
            "`base: 1 ms, log_normal: { mean: 4 ms, deviation: 0.8 ms }`",
            some(Distribution::log_normal, 800),
            spread,
            Box::new(move |x| normal((libm::log((x - base).max(1.0)) - mu) / sigma)),
        ),
        // Shape (4/2)² = 4, scale 2²/4 = 1 ms.
        law(
            "`base: 1 ms, gamma: { mean: 4 ms, deviation: 2 ms }`",
            some(Distribution::gamma, 2000),
            2.0 * MS,
            Box::new(move |x| erlang(4, (x - base).max(0.0) / MS)),
        ),
        table_of_four(),
    ]
}

/// A third of all delays evenly between each two of 1, 4, 4.5 and 9 ms.
fn table_of_four() -> Law {
    const KNOTS: [f64; 4] = [1.0 * MS, 4.0 * MS, 4.5 * MS, 9.0 * MS];
    let pairs = || KNOTS.iter().zip(&KNOTS[1..]);
    let mean = pairs().map(|(a, b)| (a + b) / 6.0).sum::<f64>();
    let square = pairs().map(|(a, b)| (a * a + a * b + b * b) / 9.0);
    let share = |x: f64, a: &f64, b: &f64| ((x - a) / (b - a)).clamp(0.0, 1.0) / 3.0;
    Law {
        asked: "`table` of 1, 4, 4.5 and 9 ms",
        distribution: Distribution::Empirical {
            quantiles: KNOTS.into(),
        },
        cdf: Box::new(move |x| pairs().map(|(a, b)| share(x, a, b)).sum()),
        mean,
        deviation: (square.sum::<f64>() - mean * mean).sqrt(),
    }
}

/// The delays of packets that are sent each `gap` ns.
fn delays(law: &Law, correlation: f64, reorder: bool, gap: u64) -> Vec<u64> {
    let jitter = Jitter {
        distribution: law.distribution.clone(),
        correlation,
        reorder,
    };
    let mut line = Line::new(PipeParams {
        jitter: Some(Arc::new(jitter)),
        ..PipeParams::default()
    });
    let mut delays = vec![0; N];
    line.send(evenly(N, gap, IP_LEN), |out| {
        delays[out.number] = out.delay()
    });
    delays
}

/// Mean and quantiles of a sample that says as much as `n` independent ones.
///
/// The mean's standard error is deviation/√n. Of n samples, a share of p ± √(p(1-p)/n) lies below
/// the p-quantile, so a measured quantile lies between the quantiles of those two shares.
fn shape<'a>(asked: Asked<'a>, law: &Law, sorted: &[u64], n: f64) -> Asked<'a> {
    let mean = sorted.iter().sum::<u64>() as f64 / sorted.len() as f64;
    let within = ERRORS * law.deviation / n.sqrt();
    assert!(
        within < 0.005 * law.mean,
        "enough packets for half a per cent"
    );
    let mut asked = asked.unit("ms", 4);
    asked = asked.near("mean", law.mean / MS, mean / MS, within / MS);
    let at = |p| quantile(&*law.cdf, p, 0.0, 1e12) / MS;
    let names = ["1 %", "10 %", "50 %", "90 %", "99 %"];
    for (what, p) in names.into_iter().zip([0.01, 0.1, 0.5, 0.9, 0.99]) {
        let place = p * sorted.len() as f64;
        let error = ERRORS * (p * (1.0 - p) / n).sqrt();
        let within = (at(p + error) - at(p)).max(at(p) - at(p - error));
        asked = asked.near(what, at(p), sorted[place as usize] as f64 / MS, within);
    }
    asked
}

/// Independent delays. Of each distribution three series: with overtaking; one packet at a time,
/// which must be the same delays; and in order, where each packet comes out with the latest so
/// far.
pub(crate) fn delay() -> Table {
    let mut table = Table::new("delay");
    for law in laws() {
        let free = delays(&law, 0.0, true, 1000);
        let alone = delays(&law, 0.0, false, LONG);
        let dense = delays(&law, 0.0, false, 1000);
        let differ = free.iter().zip(&alone).filter(|(a, b)| a != b).count();
        let mut latest = 0;
        let mut astray = 0;
        for (k, (free, dense)) in (0..).zip(free.iter().zip(&dense)) {
            latest = latest.max(k * 1000 + free);
            astray += u64::from(k * 1000 + dense != latest);
        }
        let mut sorted = free;
        sorted.sort_unstable();
        let n = N as f64;
        let off = |(i, &x): (usize, &u64)| ((law.cdf)(x as f64) - (i as f64 + 0.5) / n).abs();
        let distance = sorted.iter().enumerate().map(off).fold(0.0, f64::max);
        let asked = shape(table.asked(law.asked), &law, &sorted, n);
        // Passed by once in a thousand.
        let asked = asked.unit("", 3);
        let asked = asked.at_most(
            "Kolmogorov–Smirnov distance · √n",
            1.95,
            distance * n.sqrt(),
        );
        let asked = asked.exact("delays that differ, one packet at a time", 0, differ as u64);
        asked.exact("packets in order that are not the latest so far", 0, astray);
    }
    table
}

/// Correlated delays. A correlated series of n says as much about its distribution as n(1-ρ)/(1+ρ)
/// independent samples; its lag-1 correlation has a standard error of √((1-ρ²)/n) (M. S. Bartlett,
/// 1946). The correlation is that of a normal variable: the delay itself where that is normal, its
/// logarithm where it is log-normal.
pub(crate) fn correlation() -> Table {
    let mut table = Table::new("correlation");
    let plain: fn(f64) -> f64 = |x| x;
    let logarithm: fn(f64) -> f64 = |x| libm::log(x - MS);
    let laws = laws();
    for (law, rho, score) in [(&laws[1], 0.25, plain), (&laws[3], 0.75, logarithm)] {
        let series = delays(law, rho, true, 1000);
        let scores: Vec<f64> = series.iter().map(|&x| score(x as f64)).collect();
        let n = N as f64;
        let mean = scores.iter().sum::<f64>() / n;
        let off = |x: f64| x - mean;
        let variance: f64 = scores.iter().map(|&x| off(x) * off(x)).sum();
        let pairs = scores.iter().zip(&scores[1..]);
        let lagged: f64 = pairs.map(|(&a, &b)| off(a) * off(b)).sum();
        let mut sorted = series;
        sorted.sort_unstable();
        let asked = format!("{}, `correlation: {} %`", law.asked, rho * 100.0);
        let effective = n * (1.0 - rho) / (1.0 + rho);
        let asked = shape(table.asked(asked), law, &sorted, effective);
        let within = ERRORS * ((1.0 - rho * rho) / n).sqrt();
        asked
            .unit("", 4)
            .near("correlation", rho, lagged / variance, within);
    }
    table
}
