//! Special functions for delay distributions: the normal and the gamma distribution, both ways.
//!
//! Built on the `libm` crate and plain arithmetic alone, so that every machine computes the same
//! bits. The inverse normal is algorithm AS 241 (PPND16) of M. J. Wichura, "The percentage
//! points of the normal distribution", Applied Statistics 37 (1988), with a relative error of
//! about 1e-16. The incomplete gamma function is its power series below `shape + 1` and
//! Legendre's continued fraction above (Abramowitz and Stegun 6.5.29 and 6.5.31), the fraction
//! evaluated by Lentz's method.
//!
//! Left out: everything that no delay needs, such as other distributions and complex arguments.

/// 1/√2.
const SQRT_HALF: f64 = std::f64::consts::FRAC_1_SQRT_2;
/// ln √(2π).
const LN_SQRT_2PI: f64 = 0.918_938_533_204_672_8;

/// The probability that a standard normal variable is at most `z`.
pub(crate) fn normal_cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z * SQRT_HALF)
}

/// The logarithm of the density of a standard normal variable at `z`.
pub(crate) fn normal_ln_density(z: f64) -> f64 {
    -0.5 * z * z - LN_SQRT_2PI
}

/// The `z` at which [`normal_cdf`] is `p`; infinite at 0 and 1.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * ratio(r, &CENTRE);
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    if tail <= 0.0 {
        return if q < 0.0 {
            f64::NEG_INFINITY
        } else {
            f64::INFINITY
        };
    }
    let r = (-libm::log(tail)).sqrt();
    let z = if r <= 5.0 {
        ratio(r - 1.6, &MIDDLE)
    } else {
        ratio(r - 5.0, &TAIL)
    };
    if q < 0.0 { -z } else { z }
}

/// Numerator and denominator of a rational function, the highest power first.
type Rational = ([f64; 8], [f64; 8]);

#[inline]
fn ratio(x: f64, (above, below): &Rational) -> f64 {
    let polynomial = |c: &[f64; 8]| c[1..].iter().fold(c[0], |sum, c| sum * x + c);
    polynomial(above) / polynomial(below)
}

/// AS 241, |p - 1/2| ≤ 0.425.
#[allow(clippy::excessive_precision, reason = "as published")]
#[rustfmt::skip]
const CENTRE: Rational = (
    [
        2.509_080_928_730_122_672_7e3, 3.343_057_558_358_812_810_5e4,
        6.726_577_092_700_870_085_3e4, 4.592_195_393_154_987_145_7e4,
        1.373_169_376_550_946_112_5e4, 1.971_590_950_306_551_442_7e3,
        1.331_416_678_917_843_774_5e2, 3.387_132_872_796_366_608_0,
    ],
    [
        5.226_495_278_852_854_561_0e3, 2.872_908_573_572_194_267_4e4,
        3.930_789_580_009_271_061_0e4, 2.121_379_430_158_659_586_7e4,
        5.394_196_021_424_751_107_7e3, 6.871_870_074_920_579_083_0e2,
        4.231_333_070_160_091_125_2e1, 1.0,
    ],
);

/// AS 241, tails down to e^-25.
#[allow(clippy::excessive_precision, reason = "as published")]
#[rustfmt::skip]
const MIDDLE: Rational = (
    [
        7.745_450_142_783_414_076_40e-4, 2.272_384_498_926_918_458_33e-2,
        2.417_807_251_774_506_117_70e-1, 1.270_458_252_452_368_382_58,
        3.647_848_324_763_204_605_04, 5.769_497_221_460_691_405_50,
        4.630_337_846_156_545_295_90, 1.423_437_110_749_683_577_34,
    ],
    [
        1.050_750_071_644_416_843_24e-9, 5.475_938_084_995_344_946_00e-4,
        1.519_866_656_361_645_719_66e-2, 1.481_039_764_274_800_745_90e-1,
        6.897_673_349_851_000_045_50e-1, 1.676_384_830_183_803_849_40,
        2.053_191_626_637_758_821_87, 1.0,
    ],
);

/// AS 241, tails beyond e^-25.
#[allow(clippy::excessive_precision, reason = "as published")]
#[rustfmt::skip]
const TAIL: Rational = (
    [
        2.010_334_399_292_288_132_65e-7, 2.711_555_568_743_487_578_15e-5,
        1.242_660_947_388_078_438_60e-3, 2.653_218_952_657_612_309_30e-2,
        2.965_605_718_285_048_912_30e-1, 1.784_826_539_917_291_335_80,
        5.463_784_911_164_114_369_90, 6.657_904_643_501_103_777_20,
    ],
    [
        2.044_263_103_389_939_785_64e-15, 1.421_511_758_316_445_888_70e-7,
        1.846_318_317_510_054_681_80e-5, 7.868_691_311_456_132_591_00e-4,
        1.487_536_129_085_061_485_25e-2, 1.369_298_809_227_358_053_10e-1,
        5.998_322_065_558_879_376_90e-1, 1.0,
    ],
);

/// Above this shape the gamma distribution is that of Wilson and Hilferty ("The distribution of
/// chi-square", PNAS 17, 1931): the cube root is normal. The error in the cdf is there below
/// 1e-6, and the series would take thousands of terms.
const WILSON_HILFERTY_ABOVE: f64 = 1e4;

/// The least shape. Half of all samples are then below 1e-28 of the mean.
pub(crate) const MIN_SHAPE: f64 = 0.01;

/// Terms of series and fraction after which to stop; below the shape above some 1500 are needed.
const MAX_TERMS: u32 = 10_000;

/// The gamma distribution of scale 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gamma {
    shape: f64,
    /// ln Γ(shape).
    ln_gamma: f64,
}

impl Gamma {
    /// The distribution of `shape`, held at or above [`MIN_SHAPE`].
    pub(crate) fn new(shape: f64) -> Self {
        let shape = shape.max(MIN_SHAPE); // which no NaN survives
        Self {
            shape,
            ln_gamma: libm::lgamma(shape),
        }
    }

    /// Whether [`of_normal`](Self::of_normal) is a closed form.
    pub(crate) const fn is_closed(&self) -> bool {
        self.shape > WILSON_HILFERTY_ABOVE
    }

    /// The probability of at most `x`.
    pub(crate) fn cdf(&self, x: f64) -> f64 {
        if x <= 0.0 {
            0.0
        } else if x == f64::INFINITY {
            1.0
        } else if self.is_closed() {
            let a = self.shape;
            let root = libm::cbrt(x / a) - 1.0 + 1.0 / (9.0 * a);
            normal_cdf(root * 3.0 * a.sqrt())
        } else {
            libm::exp(self.ln_tails(libm::log(x)).0)
        }
    }

    /// The value below which lies as much as lies below `z` in a standard normal distribution.
    pub(crate) fn of_normal(&self, z: f64) -> f64 {
        let closed = self.wilson_hilferty(z);
        if self.is_closed() {
            closed
        } else {
            libm::exp(self.solve(z, closed))
        }
    }

    /// [`of_normal`](Self::of_normal) and its slope.
    pub(crate) fn with_slope(&self, z: f64) -> (f64, f64) {
        let t = self.solve(z, self.wilson_hilferty(z));
        // dx/dz = φ(z) / f(x), and the density of t = ln x is x·f(x).
        let slope = libm::exp(normal_ln_density(z) + t - self.ln_density(t));
        (libm::exp(t), slope)
    }

    fn wilson_hilferty(&self, z: f64) -> f64 {
        let a = self.shape;
        let root = 1.0 - 1.0 / (9.0 * a) + z / (3.0 * a.sqrt());
        a * root.max(0.0) * root.max(0.0) * root.max(0.0)
    }

    /// The logarithm of the density of t = ln x.
    fn ln_density(&self, t: f64) -> f64 {
        self.shape * t - libm::exp(t) - self.ln_gamma
    }

    /// The t = ln x of `z`, from a first `guess` at x.
    ///
    /// The density of t is log-concave, and so are both its tails: Newton's method on the
    /// logarithm of a tail converges from every start at which the slope is not lost to
    /// underflow. Since P(a, x) ≤ x^a / Γ(a + 1), no t below `bound` is the one.
    fn solve(&self, z: f64, guess: f64) -> f64 {
        let (ln_lower, ln_upper) = (libm::log(normal_cdf(z)), libm::log(normal_cdf(-z)));
        let bound = (ln_lower + self.ln_gamma + libm::log(self.shape)) / self.shape;
        let mut t = bound.max(libm::log(guess)); // -∞ where there is no guess
        for _ in 0..100 {
            let (ln_p, ln_q) = self.ln_tails(t);
            let density = self.ln_density(t);
            // The tail that is not close to 1.
            let step = if z < 0.0 {
                (ln_lower - ln_p) * libm::exp(ln_p - density)
            } else {
                (ln_q - ln_upper) * libm::exp(ln_q - density)
            };
            let next = (t + step.clamp(-2.0, 2.0)).max(bound);
            let done = (next - t).abs() <= 1e-13 * t.abs().max(1.0);
            t = next;
            if done {
                break;
            }
        }
        t
    }

    /// ln P(a, e^t) and ln Q(a, e^t), the regularised incomplete gamma functions.
    fn ln_tails(&self, t: f64) -> (f64, f64) {
        let (a, x) = (self.shape, libm::exp(t));
        let front = self.ln_density(t);
        if x < a + 1.0 {
            let (mut term, mut sum) = (1.0 / a, 1.0 / a);
            for n in 1..MAX_TERMS {
                term *= x / (a + f64::from(n));
                sum += term;
                if term < sum * 1e-17 {
                    break;
                }
            }
            let ln_p = (front + libm::log(sum)).min(0.0);
            (ln_p, libm::log(-libm::expm1(ln_p)))
        } else {
            let ln_q = (front + libm::log(fraction(a, x))).min(0.0);
            (libm::log(-libm::expm1(ln_q)), ln_q)
        }
    }
}

/// Γ(a, x) / (x^a e^-x) for x ≥ a + 1, by the continued fraction 1/(x+1-a- 1(1-a)/(x+3-a- …)).
fn fraction(a: f64, x: f64) -> f64 {
    let mut b = x + 1.0 - a;
    let mut d = 1.0 / b;
    let mut c = f64::INFINITY;
    let mut value = d;
    for n in 1..MAX_TERMS {
        let n = f64::from(n);
        let numerator = n * (a - n);
        b += 2.0;
        // In the range of this function no denominator comes near zero.
        d = 1.0 / (b + numerator * d);
        c = b + numerator / c;
        value *= c * d;
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, expected: f64, relative: f64) {
        let error = (got - expected).abs();
        assert!(
            error <= relative * expected.abs(),
            "{got:e} is not {expected:e}: off by {:e}",
            error / expected.abs()
        );
    }

    /// The error function is the oracle, in both tails; and the one quantile that everybody knows.
    #[test]
    fn normal_quantiles_invert_the_error_function() {
        close(normal_quantile(0.975), 1.959_963_984_540_054, 1e-15);
        assert_eq!(normal_quantile(0.5), 0.0);
        assert_eq!(normal_quantile(0.0), f64::NEG_INFINITY);
        assert_eq!(normal_quantile(1.0), f64::INFINITY);
        let mut p = 0.5;
        while p > 1e-300 {
            // The tail's relative error is z times the error of z, which is some 1e-16·z.
            let z = normal_quantile(p);
            close(normal_cdf(z), p, 1e-15 * (1.0 + z * z));
            let upper = 1.0 - p;
            if upper < 1.0 {
                close(normal_quantile(upper), -normal_quantile(1.0 - upper), 1e-14);
            }
            p *= 0.83;
        }
    }

    /// Shapes with closed forms: 1/2 is the error function of a square root, and whole ones are
    /// Poisson sums.
    #[test]
    fn the_gamma_cdf_has_its_closed_forms() {
        for x in [1e-9, 1e-3, 0.1, 0.7, 1.0, 2.5, 9.0, 25.0, 26.5, 60.0] {
            close(Gamma::new(0.5).cdf(x), libm::erf(f64::sqrt(x)), 1e-13);
            for shape in [1_u32, 2, 5, 25] {
                let (mut term, mut above) = (libm::exp(-x), 0.0);
                for n in 1..=shape {
                    above += term;
                    term *= x / f64::from(n);
                }
                let gamma = Gamma::new(f64::from(shape));
                let (ln_lower, ln_upper) = gamma.ln_tails(libm::log(x));
                close(libm::exp(ln_upper), above, 1e-12);
                if above < 0.9 {
                    close(libm::exp(ln_lower), 1.0 - above, 1e-12);
                }
            }
        }
    }

    /// P(a + 1, x) = P(a, x) - x^a e^-x / Γ(a + 1), Abramowitz and Stegun 6.5.21: it ties shapes
    /// without closed forms together, and the series to the fraction.
    #[test]
    fn the_gamma_cdf_has_its_recurrence() {
        for shape in [0.01, 0.1, 0.37, 0.9, 3.3, 17.7, 250.5, 4000.2] {
            for factor in [0.5, 0.8, 0.99, 1.0, 1.01, 1.2, 1.9] {
                let x = shape * factor + 0.1 * factor;
                let (low, high) = (Gamma::new(shape), Gamma::new(shape + 1.0));
                let density = low.ln_density(libm::log(x)) - libm::log(shape);
                let expected = low.cdf(x) - libm::exp(density);
                let error = (high.cdf(x) - expected).abs();
                assert!(error < 1e-11, "shape {shape}, x {x}: off by {error:e}");
            }
        }
    }

    #[test]
    fn gamma_quantiles_invert_the_cdf_in_both_tails() {
        for shape in [0.01, 0.1, 0.5, 1.0, 2.2, 25.0, 400.0, 9999.0] {
            let gamma = Gamma::new(shape);
            let mut before = -1.0;
            for step in -34..=34 {
                let z = f64::from(step) * 0.25;
                let x = gamma.of_normal(z);
                assert!(x >= before, "shape {shape}, z {z}: {x} after {before}");
                before = x;
                let t = gamma.solve(z, gamma.wilson_hilferty(z));
                let (ln_lower, ln_upper) = gamma.ln_tails(t);
                let tail = if z < 0.0 { ln_lower } else { ln_upper };
                // With shape 9999 the terms of the density are near 1e5, of which 1e-16 is lost.
                close(libm::exp(tail), normal_cdf(-z.abs()), 1e-9);
            }
        }
    }

    /// The bound that the constant's comment claims, where the formula takes over and beyond.
    #[test]
    fn wilson_and_hilferty_take_over_unseen() {
        let gamma = Gamma::new(WILSON_HILFERTY_ABOVE);
        for step in -60..=60 {
            let z = f64::from(step) * 0.1;
            let ln_x = libm::log(gamma.wilson_hilferty(z));
            let error = (libm::exp(gamma.ln_tails(ln_x).0) - normal_cdf(z)).abs();
            assert!(error < 1e-6, "z {z}: off by {error:e}");
        }
        let closed = Gamma::new(1e6);
        close(closed.cdf(closed.of_normal(1.3)), normal_cdf(1.3), 1e-9);
    }
}
