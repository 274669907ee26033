//! What a packet costs, and from it the region in which a run will be faithful.
//!
//! Theory: one core handles packets one after the other, so the highest rate that it carries is
//! the inverse of what a packet costs it. A packet enters and leaves once, crosses `h` pipes and
//! has `b` bytes to copy:
//!
//! ```text
//! cost = entry + hop · h + byte · b        carried packets/s = 1 / cost
//! ```
//!
//! The three are found by least squares over the measured rates, none below zero. What is
//! minimised is the relative error of the cost, because a rate that is measured to 10 % has an
//! error of 10 % of its cost, be it large or small. With three unknowns every choice of which
//! ones are zero can be tried: that is the exact solution.
//!
//! Left out: what the programs themselves take from the machine's other CPUs, and that a crowded
//! cache makes each packet dearer. The residuals show how far the line is from the measurement.

use serde::{Deserialize, Serialize};

use crate::fidelity::Quantiles;

/// Coefficients of the model.
const TERMS: usize = 3;
/// A pivot below this part of its column counts as zero: the points do not tell the terms apart.
const SINGULAR: f64 = 1e-9;
/// Sums of squares that differ by less are equal; then the model with fewer surprises is taken.
const EQUAL: f64 = 1e-12;

/// A measured limit: the highest rate of packets of one kind that was carried faithfully.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// Pipes on the way.
    pub hops: u32,
    /// Length of the IP packets in bytes.
    pub mtu: u32,
    /// Packets per second, above 0.
    pub packets_per_s: f64,
}

/// What a packet costs the core.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Nanoseconds for entering and leaving.
    pub entry_ns: f64,
    /// Nanoseconds for each pipe.
    pub hop_ns: f64,
    /// Nanoseconds for each byte.
    pub byte_ns: f64,
}

impl Cost {
    /// The cost model that lies closest to `limits`; all zero without any.
    pub fn fit(limits: &[Limit]) -> Self {
        let sound = |limit: &&Limit| limit.packets_per_s.is_finite() && limit.packets_per_s > 0.0;
        let rows: Vec<[f64; TERMS]> = limits.iter().filter(sound).map(row).collect();
        let mut best: Option<(f64, [f64; TERMS])> = None;
        // Bit n: term n takes part. Fewer terms first, the entry before the others.
        for terms in [0b001, 0b010, 0b100, 0b011, 0b101, 0b110, 0b111] {
            let Some(cost) = solve(&rows, terms) else {
                continue;
            };
            if cost.iter().any(|&term| term < 0.0) {
                continue;
            }
            let error = squares(&rows, &cost);
            if best.is_none_or(|(least, _)| error < least - EQUAL) {
                best = Some((error, cost));
            }
        }
        let (_, [entry_ns, hop_ns, byte_ns]) = best.unwrap_or_default();
        Self {
            entry_ns,
            hop_ns,
            byte_ns,
        }
    }

    /// What one packet costs, in nanoseconds.
    pub fn of(&self, hops: f64, mtu: f64) -> f64 {
        self.entry_ns + self.hop_ns * hops + self.byte_ns * mtu
    }

    /// Packets per second that the core carries; infinite where the cost is 0.
    pub fn packets_per_s(&self, hops: f64, mtu: f64) -> f64 {
        1e9 / self.of(hops, mtu)
    }

    /// Whether it says anything, and nothing absurd: it may come from a file.
    pub fn is_sound(&self) -> bool {
        let terms = [self.entry_ns, self.hop_ns, self.byte_ns];
        let sound = |term: &f64| term.is_finite() && *term >= 0.0;
        terms.iter().all(sound) && terms.iter().sum::<f64>() > 0.0
    }
}

/// The terms of a limit's cost over the measured cost: the model wants their weighted sum to be
/// 1.
fn row(limit: &Limit) -> [f64; TERMS] {
    let cost_ns = 1e9 / limit.packets_per_s;
    [1.0, f64::from(limit.hops), f64::from(limit.mtu)].map(|term| term / cost_ns)
}

fn squares(rows: &[[f64; TERMS]], cost: &[f64; TERMS]) -> f64 {
    let error = |row: &[f64; TERMS]| row.iter().zip(cost).map(|(a, b)| a * b).sum::<f64>() - 1.0;
    rows.iter().map(|row| error(row) * error(row)).sum()
}

/// Least squares with the terms of the mask `terms`, the others being zero: the normal equations
/// by elimination. `None` where the points do not determine them.
fn solve(rows: &[[f64; TERMS]], terms: u32) -> Option<[f64; TERMS]> {
    let mut matrix = [[0.0; TERMS + 1]; TERMS];
    for (i, line) in matrix.iter_mut().enumerate() {
        if terms & (1 << i) == 0 {
            line[i] = 1.0;
            continue;
        }
        for (j, cell) in line.iter_mut().enumerate().take(TERMS) {
            if terms & (1 << j) != 0 {
                *cell = rows.iter().map(|row| row[i] * row[j]).sum();
            }
        }
        line[TERMS] = rows.iter().map(|row| row[i]).sum();
    }
    let size: [f64; TERMS] = std::array::from_fn(|i| matrix[i][i]);
    for i in 0..TERMS {
        // The matrix is positive definite where it can be solved: no pivoting is needed.
        if matrix[i][i] <= size[i] * SINGULAR {
            return None;
        }
        for j in (0..TERMS).filter(|&j| j != i) {
            let (pivot, factor) = (matrix[i], matrix[j][i] / matrix[i][i]);
            for (cell, above) in matrix[j].iter_mut().zip(pivot) {
                *cell -= factor * above;
            }
        }
    }
    Some(std::array::from_fn(|i| matrix[i][TERMS] / matrix[i][i]))
}

/// A measured limit beside what the model says of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Pipes on the way.
    pub hops: u32,
    /// Length of the IP packets in bytes.
    pub mtu: u32,
    /// The highest rate that was carried faithfully.
    pub packets_per_s: f64,
    /// The rate by the model; `None` without a model.
    pub fitted_packets_per_s: Option<f64>,
    /// The model's rate over the measured one, less 1.
    pub residual: Option<f64>,
    /// What ended the search.
    pub limited_by: LimitedBy,
}

/// What keeps a machine from carrying more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// More was not faithful: the core, or the machine under it.
    Core,
    /// The sending program could not send more: the core may carry more than was measured.
    Sender,
    /// The highest rate that was tried was carried.
    Nothing,
    /// Packets were late far below the rate at which they get lost: something else disturbed the
    /// machine. Such a limit says nothing about the core, and the model is not fitted to it.
    Noise,
}

/// Where a run will be faithful.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Region {
    /// How late a packet was allowed to be, in nanoseconds.
    pub tolerance_ns: u64,
    /// What a packet costs.
    pub cost: Cost,
    /// What that was fitted to.
    pub points: Vec<Point>,
    /// Lateness in the calmest of the faithful runs: no delay is kept better than this.
    /// `None` where none was faithful.
    pub floor_ns: Option<Quantiles>,
}

impl Region {
    /// The region that follows from measured limits.
    pub fn new(tolerance_ns: u64, limits: &[(Limit, LimitedBy)], floor: Option<Quantiles>) -> Self {
        let core = limits.iter().filter(|(_, by)| *by != LimitedBy::Noise);
        let cost = Cost::fit(&core.map(|(limit, _)| *limit).collect::<Vec<_>>());
        let point = |(limit, limited_by): &(Limit, LimitedBy)| {
            let fitted = cost
                .is_sound()
                .then(|| cost.packets_per_s(limit.hops.into(), limit.mtu.into()));
            Point {
                hops: limit.hops,
                mtu: limit.mtu,
                packets_per_s: limit.packets_per_s,
                fitted_packets_per_s: fitted,
                residual: fitted.map(|fitted| fitted / limit.packets_per_s - 1.0),
                limited_by: *limited_by,
            }
        };
        Self {
            tolerance_ns,
            cost,
            points: limits.iter().map(point).collect(),
            floor_ns: floor,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Limits that follow the model exactly, each times a factor.
    fn limits(cost: Cost, factors: &[f64]) -> Vec<Limit> {
        let kinds = [
            (1, 1500),
            (4, 1500),
            (12, 1500),
            (1, 9000),
            (1, 100),
            (12, 9000),
        ];
        let limit = |(&(hops, mtu), factor): (&(u32, u32), &f64)| Limit {
            hops,
            mtu,
            packets_per_s: factor * cost.packets_per_s(hops.into(), mtu.into()),
        };
        kinds.iter().zip(factors).map(limit).collect()
    }

    fn costs() -> impl Strategy<Value = Cost> {
        (500.0..20_000.0, 0.0..1_000.0, 0.0..2.0).prop_map(|(entry_ns, hop_ns, byte_ns)| Cost {
            entry_ns,
            hop_ns,
            byte_ns,
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: proptest::test_runner::RngSeed::Fixed(7), ..ProptestConfig::default() })]

        #[test]
        fn the_model_is_recovered_from_what_follows_it(cost in costs()) {
            let fitted = Cost::fit(&limits(cost, &[1.0; 6]));
            // Relative to the cheapest packet: a term of nearly nothing need not be seen.
            let scale = cost.of(1.0, 100.0) * 1e-5;
            prop_assert!((fitted.entry_ns - cost.entry_ns).abs() < scale, "{fitted:?}");
            prop_assert!((fitted.hop_ns - cost.hop_ns).abs() < scale, "{fitted:?}");
            prop_assert!((fitted.byte_ns - cost.byte_ns).abs() * 1500.0 < scale, "{fitted:?}");
        }

        #[test]
        fn no_other_model_lies_closer(
            cost in costs(),
            factors in proptest::array::uniform6(0.7..1.4),
            nudges in proptest::array::uniform3(-0.2..0.2),
        ) {
            let limits = limits(cost, &factors);
            let fitted = Cost::fit(&limits);
            prop_assert!(fitted.is_sound());
            let error = |cost: &Cost| -> f64 {
                let relative = |limit: &Limit| {
                    cost.of(limit.hops.into(), limit.mtu.into()) * limit.packets_per_s / 1e9 - 1.0
                };
                limits.iter().map(|limit| relative(limit) * relative(limit)).sum()
            };
            let [a, b, c]: [f64; 3] = nudges;
            let other = Cost {
                entry_ns: fitted.entry_ns * (1.0 + a) + 10.0 * a.max(0.0),
                hop_ns: fitted.hop_ns * (1.0 + b) + 10.0 * b.max(0.0),
                byte_ns: fitted.byte_ns * (1.0 + c) + 0.01 * c.max(0.0),
            };
            prop_assert!(error(&fitted) <= error(&other) + 1e-9, "{fitted:?} {other:?}");
        }

        #[test]
        fn a_longer_way_and_a_larger_packet_never_allow_more(
            cost in costs(),
            factors in proptest::array::uniform6(0.5..2.0),
            hops in (1.0..100.0, 0.0..100.0),
            mtu in (64.0..9000.0, 0.0..9000.0),
        ) {
            let fitted = Cost::fit(&limits(cost, &factors));
            let near = fitted.packets_per_s(hops.0, mtu.0);
            prop_assert!(fitted.packets_per_s(hops.0 + hops.1, mtu.0) <= near);
            prop_assert!(fitted.packets_per_s(hops.0, mtu.0 + mtu.1) <= near);
        }

        #[test]
        fn residuals_are_what_the_model_misses(cost in costs(), factors in proptest::array::uniform6(0.7..1.4)) {
            let limits: Vec<_> = limits(cost, &factors)
                .into_iter()
                .map(|limit| (limit, LimitedBy::Core))
                .collect();
            let region = Region::new(200_000, &limits, None);
            for point in &region.points {
                let fitted = point.fitted_packets_per_s.unwrap();
                let rate = point.packets_per_s * (1.0 + point.residual.unwrap());
                prop_assert!((rate / fitted - 1.0).abs() < 1e-9);
                let model = region.cost.packets_per_s(point.hops.into(), point.mtu.into());
                prop_assert!((model / fitted - 1.0).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn noise_does_not_move_the_model() {
        let limit = |hops, packets_per_s| Limit {
            hops,
            mtu: 1500,
            packets_per_s,
        };
        // 2 us and 1 us a hop.
        let clean = [
            (limit(1, 1e6 / 3.0), LimitedBy::Core),
            (limit(4, 1e6 / 6.0), LimitedBy::Sender),
        ];
        let noise = (limit(12, 1_000.0), LimitedBy::Noise);
        let region = Region::new(1, &[clean[0], noise, clean[1]], None);
        assert_eq!(region.cost, Region::new(1, &clean, None).cost);
        assert!((region.cost.of(12.0, 1500.0) - 14_000.0).abs() < 1e-3);
        assert!(
            region.points[1].residual.unwrap() > 70.0,
            "and is shown for what it is"
        );
        let only = Region::new(1, &[noise], None);
        assert!(!only.cost.is_sound() && only.points[0].residual.is_none());
    }

    #[test]
    fn few_or_odd_points_still_give_an_answer() {
        assert_eq!(Cost::fit(&[]), Cost::default());
        assert!(!Cost::default().is_sound());
        let limit = |hops, packets_per_s| Limit {
            hops,
            mtu: 1500,
            packets_per_s,
        };
        // One point: all of it is entry. Its rate is met.
        let one = Cost::fit(&[limit(4, 100_000.0)]);
        assert!((one.entry_ns - 10_000.0).abs() < 1e-6, "{one:?}");
        assert_eq!((one.hop_ns, one.byte_ns), (0.0, 0.0));
        // More with more hops is noise: a hop then costs nothing, and never less.
        let odd = Cost::fit(&[limit(1, 100_000.0), limit(12, 120_000.0)]);
        assert_eq!(odd.hop_ns, 0.0);
        assert!((9_000.0 - odd.of(1.0, 1500.0)).abs() < 1_000.0, "{odd:?}");
        // What was never carried says nothing.
        let none = [limit(1, 0.0), limit(1, f64::NAN), limit(4, 50_000.0)];
        assert!((Cost::fit(&none).entry_ns - 20_000.0).abs() < 1e-6);
    }
}
