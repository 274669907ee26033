//! Decimal numbers read exactly, with integers only: a file means the same on every machine.

/// `digits / 10^scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decimal {
    digits: u128,
    scale: i32,
}

/// Digits beyond these change nothing that is kept, and are only counted.
const KEPT: u128 = 10u128.pow(30);

impl Decimal {
    /// Reads digits with at most one point, and an exponent as programs print it. What is wrong
    /// is said without the text itself.
    pub(super) fn parse(text: &[u8]) -> Result<Self, &'static str> {
        let (number, exponent) = match text.iter().position(|b| matches!(b, b'e' | b'E')) {
            Some(place) => (&text[..place], Some(&text[place + 1..])),
            None => (text, None),
        };
        let mut decimal = Self {
            digits: 0,
            scale: 0,
        };
        let (mut any, mut point) = (false, false);
        for &byte in number {
            match byte {
                b'0'..=b'9' => {
                    any = true;
                    // Lines are short, so the scale stays far from its bounds.
                    if decimal.digits < KEPT {
                        decimal.digits = decimal.digits * 10 + u128::from(byte - b'0');
                        decimal.scale += i32::from(point);
                    } else {
                        decimal.scale -= i32::from(!point);
                    }
                }
                b'.' if !point => point = true,
                _ => return Err(Self::why(text)),
            }
        }
        if !any {
            return Err(Self::why(text));
        }
        if let Some(exponent) = exponent {
            let exponent = std::str::from_utf8(exponent).ok();
            let exponent: Option<i32> = exponent.and_then(|text| text.parse().ok());
            match exponent.filter(|exponent| exponent.abs() <= 1000) {
                Some(exponent) => decimal.scale -= exponent,
                None => return Err("is not a number"),
            }
        }
        Ok(decimal)
    }

    /// What is wrong with a text that is not a number here.
    fn why(text: &[u8]) -> &'static str {
        let word = text.strip_prefix(b"-").unwrap_or(text);
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        if is("nan") {
            "is not a number"
        } else if is("inf") || is("infinity") {
            "is not finite"
        } else if text.len() > 1 && word.len() < text.len() && Self::parse(word).is_ok() {
            "is negative"
        } else {
            "is not a number"
        }
    }

    pub(super) const fn is_zero(&self) -> bool {
        self.digits == 0
    }

    /// The number times 10^`places`, rounded to the nearest whole; `None` where it does not fit.
    pub(super) fn shifted(&self, places: i32) -> Option<u64> {
        if self.is_zero() {
            return Some(0);
        }
        let scale = self.scale - places;
        let power = 10u128.checked_pow(scale.unsigned_abs());
        if scale <= 0 {
            return u64::try_from(self.digits.checked_mul(power?)?).ok();
        }
        let Some(power) = power else {
            return Some(0); // fewer than 10³¹ · 10 digits over 10³⁹
        };
        let rounded = self.digits / power + u128::from(self.digits % power >= power.div_ceil(2));
        u64::try_from(rounded).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shifted(text: &str, places: i32) -> Option<u64> {
        Decimal::parse(text.as_bytes()).unwrap().shifted(places)
    }

    #[test]
    fn numbers_are_read_exactly_and_rounded_once() {
        assert_eq!(shifted("1234.5678", 3), Some(1_234_568));
        assert_eq!(shifted("0.0005", 3), Some(1));
        assert_eq!(
            shifted("0.00049999999999999999999999999999999999999999", 3),
            Some(0)
        );
        assert_eq!(shifted("5.", 0), Some(5));
        assert_eq!(shifted(".5", 1), Some(5));
        assert_eq!(shifted("1e-05", 18), Some(10_000_000_000_000));
        assert_eq!(shifted("1.5E+3", 0), Some(1_500));
        assert_eq!(shifted("18446744073709551615", 0), Some(u64::MAX));
        assert_eq!(shifted("18446744073709551615.5", 0), None);
        assert_eq!(shifted(&format!("1{}", "0".repeat(60)), 0), None);
        assert_eq!(shifted(&format!("{}7.5", "0".repeat(60)), 0), Some(8));
        assert_eq!(shifted("1e-1000", 18), Some(0));
        assert_eq!(shifted("0e1000", 18), Some(0));
        assert_eq!(shifted("1e1000", 0), None);
    }

    #[test]
    fn what_is_no_number_says_why() {
        let cases = [
            ("-1.5", "is negative"),
            ("NaN", "is not a number"),
            ("-inf", "is not finite"),
            ("", "is not a number"),
            (".", "is not a number"),
            ("1.2.3", "is not a number"),
            ("1e", "is not a number"),
            ("1e9999999999", "is not a number"),
            ("e5", "is not a number"),
            ("--1", "is not a number"),
            ("12ms", "is not a number"),
        ];
        for (text, why) in cases {
            assert_eq!(Decimal::parse(text.as_bytes()), Err(why), "{text}");
        }
    }
}
