//! Patterns of names: `*` for any characters, `?` for one, `[a-c]` and `[!a-c]` for one of a
//! class, as in shells (glob(7)).
//!
//! A pattern is a nondeterministic automaton whose states are the places between its elements,
//! one bit each: a character moves every state by one element that accepts it, and a state
//! before a `*` also stays. So a name takes a few operations for each of its
//! characters, whatever the pattern: nothing backtracks (Baeza-Yates and Gonnet, "A New Approach
//! to Text Searching", CACM 35(10), 1992).
//!
//! Names are ASCII, so an element accepts ASCII only. Left out: `{a,b}`, which lists say, and
//! escapes, since no name has a character that means something here.

use super::SelectError;
use crate::text::error::shown;

/// The most elements of a pattern beside `*`: one state more has room in a word.
const ELEMENTS_MAX: usize = 127;

/// A pattern.
#[derive(Debug, Clone)]
pub(crate) struct Glob {
    /// For each ASCII character the elements that accept it.
    accepted: Box<[u128; 128]>,
    /// The states before a `*`.
    stay: u128,
    /// The state behind the last element.
    last: u128,
}

impl Glob {
    /// Whether a text means something other than itself.
    pub(crate) fn is_pattern(text: &str) -> bool {
        text.contains(['*', '?', '['])
    }

    /// Reads a pattern; a text without special characters matches itself.
    ///
    /// # Errors
    /// A class that does not end or is empty, or a pattern that is too long.
    pub(crate) fn parse(pattern: &str) -> Result<Self, SelectError> {
        let mut glob = Self {
            accepted: Box::new([0; 128]),
            stay: 0,
            last: 1,
        };
        let mut count = 0;
        let mut rest = pattern.chars();
        while let Some(c) = rest.next() {
            if c == '*' {
                glob.stay |= glob.last;
                continue;
            }
            if count == ELEMENTS_MAX {
                return Err(SelectError {
                    problem: format!(
                        "the pattern `{}` has more than {ELEMENTS_MAX} characters besides `*`",
                        shown(pattern)
                    ),
                    remedy: "write `*` for a part of it".to_owned(),
                });
            }
            count += 1;
            match c {
                '?' => glob.accepted.iter_mut().for_each(|set| *set |= glob.last),
                '[' => {
                    let (accepted, len) = class(rest.as_str()).map_err(|problem| SelectError {
                        problem: format!("the pattern `{}` {problem}", shown(pattern)),
                        remedy: "write a class like `[a-c]`, `[135]` or `[!0]`".to_owned(),
                    })?;
                    for (byte, set) in glob.accepted.iter_mut().enumerate() {
                        *set |= if accepted >> byte & 1 == 1 {
                            glob.last
                        } else {
                            0
                        };
                    }
                    rest = rest.as_str()[len + 1..].chars();
                }
                c => {
                    // What is not ASCII is in no name: the element accepts nothing.
                    if let Some(set) = glob.accepted.get_mut(c as usize) {
                        *set |= glob.last;
                    }
                }
            }
            glob.last <<= 1;
        }
        Ok(glob)
    }

    /// Whether the whole of a name is as the pattern says.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let mut states = 1u128;
        for byte in name.bytes() {
            let accepted = self.accepted.get(usize::from(byte)).copied();
            // A `*` takes any character.
            let moved = (states & accepted.unwrap_or(0)) << 1;
            states = moved | (states & self.stay);
            if states == 0 {
                return false;
            }
        }
        states & self.last != 0
    }
}

/// Reads a class whose `[` is over: the ASCII characters that it accepts, one bit each, and its
/// length in bytes without the `]`. What is wrong with it goes on from "the pattern".
fn class(rest: &str) -> Result<(u128, usize), &'static str> {
    let len = rest.find(']').ok_or("has an unclosed class")?;
    let negated = rest.starts_with(['!', '^']);
    let mut chars = rest[usize::from(negated)..len].chars();
    if chars.as_str().is_empty() {
        return Err("has an empty class");
    }
    let mut accepted = 0;
    while let Some(first) = chars.next() {
        let mut ahead = chars.clone();
        let last = match (ahead.next(), ahead.next()) {
            (Some('-'), Some(last)) => {
                chars = ahead;
                last
            }
            _ => first,
        };
        if last < first {
            return Err("has a class with a reversed range");
        }
        accepted |= up_to(last) & (!up_to(first) | bit(first));
    }
    Ok((if negated { !accepted } else { accepted }, len))
}

/// The bit of an ASCII character.
fn bit(c: char) -> u128 {
    if c.is_ascii() { 1 << (c as u32) } else { 0 }
}

/// The bits of the ASCII characters up to this one.
fn up_to(c: char) -> u128 {
    if c.is_ascii() {
        u128::MAX >> (127 - c as u32)
    } else {
        u128::MAX
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Glob::parse(pattern).unwrap().matches(name)
    }

    #[test]
    fn patterns_are_those_of_shells() {
        let cases = [
            ("a", "a", true),
            ("a", "ab", false),
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*-h0", "Chicago-h0", true),
            ("*-h0", "Chicago-h01", false),
            ("r?", "r1", true),
            ("r?", "r", false),
            ("r?", "r10", false),
            ("**a**", "banana", true),
            ("a*b*c", "abbc", true),
            ("a*b*c", "acb", false),
            ("[a-c]x", "bx", true),
            ("[a-c]x", "dx", false),
            ("[!a-c]x", "dx", true),
            ("[^a-c]x", "ax", false),
            ("[-a]", "-", true),
            ("[a-]", "-", true),
            ("[!-]", "-", false),
            ("[0-9a]", "a", true),
            ("[é-ü]", "a", false),
            ("[a-é]", "z", true),
            ("é*", "e", false),
            ("A*", "a1", false),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
        for (pattern, part) in [
            ("a[", "unclosed class"),
            ("[]", "an empty class"),
            ("[!]", "an empty class"),
            ("[b-a]", "reversed range"),
            (&"?".repeat(128), "more than 127 characters"),
            (&"?".repeat(1_000_000), "more than 127 characters"),
            (&"[".repeat(1_000_000), "unclosed class"),
        ] {
            let error = Glob::parse(pattern).unwrap_err();
            assert!(error.problem.contains(part), "{error:?}");
            assert!(error.problem.chars().count() < 200);
        }
    }

    #[test]
    fn the_longest_pattern_uses_every_state() {
        let name = "a".repeat(127);
        assert!(matches(&name, &name) && matches(&"?".repeat(127), &name));
        assert!(!matches(&name, &name[1..]));
        assert!(!matches(&name, &format!("{name}a")));
        assert!(matches(&format!("{name}*"), &format!("{name}{name}")));
    }

    /// What makes backtracking matchers take exponential time: a hundred million steps here.
    #[test]
    fn no_pattern_takes_long() {
        let pattern = "a*".repeat(127);
        let class = format!("[{}]", "a-b".repeat(1_000_000));
        let stars = "*".repeat(1_000_000);
        let name = "a".repeat(10_000_000) + "b";
        for pattern in [&pattern, &class, &stars] {
            let glob = Glob::parse(pattern).unwrap();
            assert_eq!(glob.matches(&name), *pattern != class);
        }
    }

    /// The same as a regular expression, which another library matches.
    fn expression(pattern: &str) -> regex::Regex {
        let mut text = "^".to_owned();
        let mut class = false;
        for c in pattern.chars() {
            match c {
                '*' if !class => text.push_str(".*"),
                '?' if !class => text.push('.'),
                '!' if text.ends_with('[') => text.push('^'),
                '[' | ']' => {
                    class = c == '[';
                    text.push(c);
                }
                '-' if class => text.push('-'),
                c => text.push_str(&regex::escape(&c.to_string())),
            }
        }
        regex::Regex::new(&(text + "$")).unwrap()
    }

    proptest! {
        #[test]
        fn patterns_match_what_a_regular_expression_matches(
            pattern in "([ab.-]|\\*|\\?|\\[!?(a|b|a-b|b-c|[ac])[ab]?\\]){0,8}",
            names in prop::collection::vec("[abc.-]{0,8}", 20),
        ) {
            let (glob, expression) = (Glob::parse(&pattern).unwrap(), expression(&pattern));
            for name in names {
                prop_assert_eq!(glob.matches(&name), expression.is_match(&name), "{} {}", pattern, name);
            }
        }

        /// Any text is a pattern or an error, and no name upsets it.
        #[test]
        fn any_text_is_read(pattern in "[*?a!\\[\\]^é-]{0,30}|\\PC{0,200}", name in "\\PC{0,80}") {
            if let Ok(glob) = Glob::parse(&pattern) {
                glob.matches(&name);
                if !Glob::is_pattern(&pattern) && pattern.is_ascii() {
                    prop_assert!(glob.matches(&pattern));
                    prop_assert_eq!(glob.matches(&name), pattern == name);
                }
            }
        }
    }
}
