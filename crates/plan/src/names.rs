//! What names may look like, and their natural order.

use std::cmp::Ordering;

/// What names look like.
pub(crate) const NAME_HINT: &str =
    "names have letters, digits, `-`, `_` and `.`, such as `a`, `gateway-2`, `eu.west`";

/// Why a text cannot be a name.
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("it is empty");
    }
    if name.len() > 60 {
        return Err("it has more than 60 characters");
    }
    if !name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    {
        return Err("it has characters that names cannot have");
    }
    if name.starts_with(['-', '.']) || name.ends_with(['-', '.']) || name.contains("..") {
        return Err("`-` and `.` must be between other characters");
    }
    Ok(())
}

/// Why a name cannot be that of a host or router, which programs resolve.
pub(crate) fn check_host_name(name: &str) -> Result<(), &'static str> {
    check_name(name)?;
    let number = |label: &str| match label.strip_prefix("0x").or(label.strip_prefix("0X")) {
        Some(hex) => !hex.is_empty() && hex.chars().all(|c| c.is_ascii_hexdigit()),
        None => label.chars().all(|c| c.is_ascii_digit()),
    };
    if name.split('.').all(number) {
        return Err("programs would read it as an address");
    }
    let taken = ["localhost", "ip6-localhost", "ip6-loopback"];
    if taken.iter().any(|taken| name.eq_ignore_ascii_case(taken)) {
        return Err("every host uses it for itself");
    }
    Ok(())
}

/// The natural order of names: numbers within them by value, so that `a2` comes before `a10`.
pub(crate) fn natural(a: &str, b: &str) -> Ordering {
    let (mut x, mut y) = (a, b);
    while let (Some(c), Some(d)) = (x.chars().next(), y.chars().next()) {
        let order = if c.is_ascii_digit() && d.is_ascii_digit() {
            let (m, n) = (digits(&mut x), digits(&mut y));
            m.len().cmp(&n.len()).then_with(|| m.cmp(n))
        } else {
            (x, y) = (&x[c.len_utf8()..], &y[d.len_utf8()..]);
            c.cmp(&d)
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    x.len().cmp(&y.len()).then_with(|| a.cmp(b))
}

/// Takes the digits off the front of `text`; without leading zeros.
fn digits<'a>(text: &mut &'a str) -> &'a str {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    *text = rest;
    number.trim_start_matches('0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count_by_value() {
        let mut names = ["a10", "a2", "b1", "a", "a02", "a1-x", "a1"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["a", "a1", "a1-x", "a02", "a2", "a10", "b1"]);
    }

    #[test]
    fn names_are_host_names() {
        for good in ["a", "gateway-2", "eu.west", "_x", "A9", "dead.beef", "0xz"] {
            assert_eq!(check_host_name(good), Ok(()), "{good}");
        }
        let long = "x".repeat(61);
        let bad = [
            "",
            "a b",
            "a>b",
            "a#2",
            "a@b",
            "a/b",
            "é",
            "-a",
            "a.",
            "a..b",
            "10.0.0.1",
            "7",
            "0x7f",
            "localhost",
            &long,
        ];
        for bad in bad {
            assert!(check_host_name(bad).is_err(), "{bad}");
        }
    }
}
