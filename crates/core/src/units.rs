//! Quantities with their units: rates, sizes, probabilities, queue limits, framing.
//!
//! Text is parsed with integers only, so that a file means the same on every machine. A bare
//! number is an error, and the error says what to write instead. Decimal prefixes are
//! k, M, G, T (powers of 1000); binary ones are Ki, Mi, Gi, Ti.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::time::Span;

/// Why a text is not the quantity that it should be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{problem}; write it like `{example}`")]
pub struct UnitError {
    /// What is wrong with the text, naming it.
    pub problem: String,
    /// A text that would be right.
    pub example: &'static str,
}

/// A transmission rate in bits per second; never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// `bits` per second, or `None` for zero: a pipe that never sends is a link that is down.
    pub const fn from_bits_per_s(bits: u64) -> Option<Self> {
        if bits == 0 { None } else { Some(Self(bits)) }
    }

    /// Bits per second.
    pub const fn bits_per_s(self) -> u64 {
        self.0
    }

    /// How long it takes to send `bytes`, rounded down.
    pub(crate) fn time_for(self, bytes: u64) -> Span {
        let ns = u128::from(bytes) * 8_000_000_000 / u128::from(self.0);
        Span::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A probability, held as a threshold for a uniform 64-bit draw: no rounding by platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Probability(u64);

impl Probability {
    /// Never.
    pub const NEVER: Self = Self(0);
    /// Always.
    pub const ALWAYS: Self = Self(u64::MAX);

    /// The probability `numerator / denominator`, at most 1; `None` above it or for a zero
    /// denominator.
    pub fn from_ratio(numerator: u64, denominator: u64) -> Option<Self> {
        if numerator > denominator || denominator == 0 {
            return None;
        }
        let threshold = (u128::from(numerator) << 64) / u128::from(denominator);
        Some(Self(u64::try_from(threshold).unwrap_or(u64::MAX)))
    }

    /// The point `part / whole` of the way from this to `other`, linear; `whole` is not zero.
    pub fn towards(self, other: Self, part: u64, whole: u64) -> Self {
        Self(between(self.0, other.0, part, whole))
    }

    /// The probability that is `fraction`, to the next lower multiple of 2^-64; `None` outside
    /// 0 to 1. For computed probabilities; what a person writes is parsed exactly.
    pub fn from_f64(fraction: f64) -> Option<Self> {
        // The cast saturates: 1 becomes `ALWAYS`.
        let threshold = (fraction * 18_446_744_073_709_551_616.0) as u64;
        (0.0..=1.0).contains(&fraction).then_some(Self(threshold))
    }

    /// Whether a uniform 64-bit `draw` falls within this probability.
    pub const fn hits(self, draw: u64) -> bool {
        draw < self.0 || self.0 == u64::MAX
    }

    /// True when nothing can ever be hit, so that no draw is needed.
    pub const fn is_never(self) -> bool {
        self.0 == 0
    }

    /// As a fraction, for people and files; never for the engine.
    pub fn as_f64(self) -> f64 {
        if self.0 == u64::MAX {
            1.0
        } else {
            self.0 as f64 / 18_446_744_073_709_551_616.0
        }
    }
}

/// The value `part / whole` of the way from `from` to `to`, rounded towards `from`; `whole` is
/// not zero, and no less than `part`.
pub fn between(from: u64, to: u64, part: u64, whole: u64) -> u64 {
    let way = u128::from(from.abs_diff(to)) * u128::from(part.min(whole)) / u128::from(whole);
    let way = way as u64; // no more than the 64-bit difference
    if to > from { from + way } else { from - way }
}

/// How much may wait in a pipe's queue; what is in service does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QueueLimit {
    /// At most this many packets.
    Packets(u32),
    /// At most this many bytes, counted as the pipe's framing counts them.
    Bytes(u64),
    /// No packet that would have to wait longer than this for its service to start.
    Time(Span),
}

impl Default for QueueLimit {
    /// 1000 packets, Linux's `txqueuelen`.
    fn default() -> Self {
        Self::Packets(1000)
    }
}

/// Which bytes of a packet use up a pipe's rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Framing {
    /// The IP packet alone.
    Ip,
    /// The Ethernet frame: 14 bytes of header and 4 of frame check sequence.
    #[default]
    Ethernet,
    /// The frame with preamble, start delimiter and inter-frame gap: 20 bytes more.
    Wire,
}

impl Framing {
    /// The bytes that count for an IP packet of `ip_len` bytes.
    pub const fn counted(self, ip_len: u32) -> u32 {
        match self {
            Self::Ip => ip_len,
            Self::Ethernet => ip_len + 18,
            Self::Wire => ip_len + 38,
        }
    }
}

/// A decimal number read exactly: `digits / 10^scale`.
struct Decimal {
    digits: u128,
    scale: u32,
}

impl Decimal {
    /// Splits `text` into its number and its unit. Signs, exponents and separators are refused.
    fn split(text: &str, what: &str, example: &'static str) -> Result<(Self, String), UnitError> {
        let fail = |problem: String| UnitError { problem, example };
        let text = text.trim();
        let shown: String = text.chars().take(40).collect();
        let end = text
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        if text.starts_with('-') {
            return Err(fail(format!(
                "`{shown}` is negative, and a {what} cannot be"
            )));
        }
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || fraction.contains('.') || number.ends_with('.') {
            return Err(fail(format!("`{shown}` is not a {what}")));
        }
        if digits.len() > 30 {
            return Err(fail(format!("`{shown}` has too many digits for a {what}")));
        }
        let decimal = Self {
            digits: digits
                .parse()
                .map_err(|_| fail(format!("`{shown}` is not a {what}")))?,
            scale: fraction.len() as u32,
        };
        Ok((decimal, unit.trim().to_owned()))
    }

    /// The number times `factor`, rounded to the nearest whole; `None` where it does not fit.
    fn times(&self, factor: u64) -> Option<u64> {
        let scale = 10u128.checked_pow(self.scale)?;
        let product = self.digits.checked_mul(u128::from(factor))?;
        u64::try_from(product.checked_add(scale / 2)? / scale).ok()
    }

    fn is_zero(&self) -> bool {
        self.digits == 0
    }
}

/// Parses `number unit` with the factors of `units`: how many of the smallest it is. Zero stays
/// zero, and what is not zero must not become it.
///
/// # Errors
/// It is not a number, has none of these units, or is too large or too small.
pub fn quantity(
    text: &str,
    what: &str,
    example: &'static str,
    units: &[(&str, u64)],
) -> Result<u64, UnitError> {
    let (number, unit) = Decimal::split(text, what, example)?;
    let shown: String = text.trim().chars().take(40).collect();
    let fail = |problem: String| UnitError { problem, example };
    if unit.is_empty() {
        return Err(fail(format!("`{shown}` has no unit")));
    }
    let Some(&(_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
        return Err(fail(format!(
            "`{shown}` has no unit of a {what} (units are {})",
            names.join(", ")
        )));
    };
    let value = number
        .times(factor)
        .ok_or_else(|| fail(format!("`{shown}` is too large for a {what}")))?;
    if value == 0 && !number.is_zero() {
        return Err(fail(format!("`{shown}` is too small for a {what}")));
    }
    Ok(value)
}

impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        const EXAMPLE: &str = "1 Gbit/s";
        const UNITS: &[(&str, u64)] = &[
            ("bit/s", 1),
            ("kbit/s", 1_000),
            ("Mbit/s", 1_000_000),
            ("Gbit/s", 1_000_000_000),
            ("Tbit/s", 1_000_000_000_000),
            ("Kibit/s", 1 << 10),
            ("Mibit/s", 1 << 20),
            ("Gibit/s", 1 << 30),
            ("Tibit/s", 1 << 40),
        ];
        let bits = quantity(text, "rate", EXAMPLE, UNITS)?;
        Self::from_bits_per_s(bits).ok_or_else(|| UnitError {
            problem: "a rate of zero would never send anything".to_owned(),
            example: EXAMPLE,
        })
    }
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        const UNITS: &[(&str, u64)] = &[
            ("B", 1),
            ("kB", 1_000),
            ("MB", 1_000_000),
            ("GB", 1_000_000_000),
            ("TB", 1_000_000_000_000),
            ("KiB", 1 << 10),
            ("MiB", 1 << 20),
            ("GiB", 1 << 30),
            ("TiB", 1 << 40),
        ];
        quantity(text, "size", "100 MB", UNITS).map(Self)
    }
}

impl FromStr for Span {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        const UNITS: &[(&str, u64)] = &[
            ("ns", 1),
            ("us", 1_000),
            ("µs", 1_000),
            ("ms", 1_000_000),
            ("s", 1_000_000_000),
            ("min", 60_000_000_000),
            ("h", 3_600_000_000_000),
        ];
        quantity(text, "time", "5 ms", UNITS).map(Self::from_ns)
    }
}

impl FromStr for Probability {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        const EXAMPLE: &str = "0.01 %";
        let (number, unit) = Decimal::split(text, "probability", EXAMPLE)?;
        let shown: String = text.trim().chars().take(40).collect();
        let fail = |problem: String| UnitError {
            problem,
            example: EXAMPLE,
        };
        if unit != "%" {
            return Err(fail(format!("`{shown}` is not a percentage")));
        }
        // Parts in 10^18, so that every decimal a person writes is exact.
        let parts = number.times(10_000_000_000_000_000);
        parts
            .and_then(|parts| Self::from_ratio(parts, 1_000_000_000_000_000_000))
            .ok_or_else(|| fail(format!("`{shown}` is more than 100 %")))
    }
}

impl FromStr for QueueLimit {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        const EXAMPLE: &str = "250 packets";
        if text.contains("packet") {
            let n = quantity(text, "queue", EXAMPLE, &[("packets", 1), ("packet", 1)])?;
            return u32::try_from(n).map(Self::Packets).map_err(|_| UnitError {
                problem: format!("a queue of {n} packets is too long"),
                example: EXAMPLE,
            });
        }
        // `64 KiB` and `20 ms` differ in the last letter of their units.
        if !text.trim_end().ends_with('B')
            && let Ok(span) = text.parse()
        {
            return Ok(Self::Time(span));
        }
        let sized: Result<Bytes, _> = text.parse();
        sized
            .map(|bytes| Self::Bytes(bytes.0))
            .map_err(|error| UnitError {
                problem: error.problem,
                example: "250 packets`, `64 KiB` or `20 ms",
            })
    }
}

impl FromStr for Framing {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        match text.trim() {
            "ip" => Ok(Self::Ip),
            "ethernet" => Ok(Self::Ethernet),
            "wire" => Ok(Self::Wire),
            other => Err(UnitError {
                problem: format!(
                    "`{}` is not a framing (those are ip, ethernet, wire)",
                    other.chars().take(40).collect::<String>()
                ),
                example: "ethernet",
            }),
        }
    }
}

/// Writes `value` with the largest of `units` that divides it.
fn with_unit(f: &mut fmt::Formatter<'_>, value: u64, units: &[(u64, &str)]) -> fmt::Result {
    let fits = units
        .iter()
        .find(|(factor, _)| value >= *factor && value.is_multiple_of(*factor));
    let (factor, unit) = fits.unwrap_or(&units[units.len() - 1]);
    write!(f, "{} {unit}", value / factor)
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [
            (1_000_000_000_000, "Tbit/s"),
            (1_000_000_000, "Gbit/s"),
            (1_000_000, "Mbit/s"),
            (1_000, "kbit/s"),
            (1, "bit/s"),
        ];
        with_unit(f, self.0, &units)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [
            (1_000_000_000, "GB"),
            (1 << 30, "GiB"),
            (1_000_000, "MB"),
            (1 << 20, "MiB"),
            (1_000, "kB"),
            (1 << 10, "KiB"),
            (1, "B"),
        ];
        with_unit(f, self.0, &units)
    }
}

impl fmt::Display for Probability {
    /// The shortest decimal that is read as this probability; where none is, that of its fraction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.as_f64() * 100.0;
        let mut texts = (0..=18).map(|digits| format!("{value:.digits$} %"));
        match texts.find(|text| text.parse() == Ok(*self)) {
            Some(exact) => f.write_str(&exact),
            None => write!(f, "{value} %"),
        }
    }
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(n) => write!(f, "{n} packets"),
            Self::Bytes(n) => Bytes(*n).fmt(f),
            Self::Time(span) => span.fmt(f),
        }
    }
}

impl fmt::Display for Framing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ip => "ip",
            Self::Ethernet => "ethernet",
            Self::Wire => "wire",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_exactly() {
        assert_eq!(
            "1.5 Gbit/s".parse::<Rate>().unwrap().bits_per_s(),
            1_500_000_000
        );
        assert_eq!("8kbit/s".parse::<Rate>().unwrap().bits_per_s(), 8_000);
        assert_eq!("0.1 us".parse::<Span>().unwrap().as_ns(), 100);
        assert_eq!("30s".parse::<Span>(), "30 s".parse());
        assert_eq!(
            "64 KiB".parse::<QueueLimit>(),
            Ok(QueueLimit::Bytes(65_536))
        );
        assert_eq!(
            "250 packets".parse::<QueueLimit>(),
            Ok(QueueLimit::Packets(250))
        );
        assert_eq!(
            "20 ms".parse::<QueueLimit>(),
            Ok(QueueLimit::Time(Span::from_ms(20)))
        );
        assert_eq!("100 %".parse::<Probability>(), Ok(Probability::ALWAYS));
        assert_eq!("0%".parse::<Probability>(), Ok(Probability::NEVER));
        assert_eq!(
            "0.01 %".parse::<Probability>(),
            Ok(Probability::from_ratio(1, 10_000).unwrap())
        );
    }

    #[test]
    fn probabilities_are_shown_as_they_are_read() {
        for text in ["0 %", "0.01 %", "0.7 %", "12.5 %", "99.999 %", "100 %"] {
            assert_eq!(text.parse::<Probability>().unwrap().to_string(), text);
        }
        // No decimal is a third.
        let third = Probability::from_ratio(1, 3).unwrap();
        let read: Probability = third.to_string().parse().unwrap();
        assert!((read.as_f64() - third.as_f64()).abs() < 1e-15, "{third}");
    }

    #[test]
    fn what_is_wrong_is_named_with_what_to_write() {
        let cases = [
            ("10", "no unit"),
            ("-1 ms", "negative"),
            ("5 parsec", "no unit of a time"),
            ("1..2 s", "is not a time"),
            ("ms", "is not a time"),
            ("0.1 ns", "too small"),
            ("99999999999999999999999 h", "too large"),
            ("1e3 s", "no unit of a time"),
        ];
        for (text, part) in cases {
            let error = text.parse::<Span>().unwrap_err().to_string();
            assert!(
                error.contains(part) && error.contains("5 ms"),
                "{text}: {error}"
            );
        }
        assert!("101 %".parse::<Probability>().is_err());
        assert!("0.5".parse::<Probability>().is_err());
        assert!("0 Gbit/s".parse::<Rate>().is_err());
        assert!(
            "1 Gbps"
                .parse::<Rate>()
                .unwrap_err()
                .to_string()
                .contains("1 Gbit/s")
        );
    }
}
