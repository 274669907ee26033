//! Names for nodes and links, made of whatever another format calls them.
//!
//! A node's name is a host name that programs resolve: letters, digits, `-`, `_` and `.`, at most
//! 60 characters, unique whatever its case.

use std::collections::{HashMap, HashSet};

/// The names that are taken.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// In lower case.
    taken: HashSet<String>,
    /// For a name that was wished for again, in lower case, the next number to try: a hundred
    /// thousand equal wishes must not take quadratic time.
    next: HashMap<String, u64>,
}

impl Names {
    /// The longest name in characters.
    pub const MAX: usize = 60;

    /// Takes a name as it is; `false` if it was taken before.
    pub fn reserve(&mut self, name: &str) -> bool {
        self.taken.insert(name.to_lowercase())
    }

    /// A name that is still free, made of `wish` (`New York` gives `New-York`, a second one
    /// `New-York-2`), or of `else_` where nothing of it is valid in a name.
    pub fn take(&mut self, wish: &str, else_: &str) -> String {
        let mut name = clean(wish);
        if name.is_empty() {
            name = clean(else_);
        }
        if crate::names::check_host_name(&name).is_err() {
            // A number, or what every host calls itself.
            name = format!("n{name}");
            name.truncate(Self::MAX);
        }
        if self.reserve(&name) {
            return name;
        }
        let first = self.next.get(&name.to_lowercase()).copied().unwrap_or(2);
        for number in first.. {
            let suffix = format!("-{number}");
            let room = Self::MAX - suffix.len();
            let stem = name[..name.len().min(room)].trim_end_matches(['-', '.']);
            let numbered = format!("{stem}{suffix}");
            if self.reserve(&numbered) {
                self.next.insert(name.to_lowercase(), number + 1);
                return numbered;
            }
        }
        unreachable!("names do not run out")
    }

    /// The first free name of `stem` and a number from `next` on, which is counted up.
    pub fn numbered(&mut self, stem: &str, next: &mut usize) -> String {
        loop {
            let name = format!("{stem}{next}");
            *next += 1;
            if self.reserve(&name) {
                return name;
            }
        }
    }
}

/// `text`, such as a label's value, with what is invalid in a name replaced by `-`; empty if nothing is left.
pub(super) fn clean(text: &str) -> String {
    let mut name = String::new();
    for c in text.chars() {
        let before = name.len();
        match plain(c) {
            Some(letters) => name.push_str(letters),
            None if c.is_ascii_alphanumeric() || c == '_' => name.push(c),
            // No two in a row, and none at the start.
            None if name.is_empty() || name.ends_with(['-', '.']) => {}
            None => name.push(if c == '.' { '.' } else { '-' }),
        }
        if name.len() > Names::MAX {
            name.truncate(before);
            break;
        }
    }
    name.truncate(name.trim_end_matches(['-', '.']).len());
    name
}

/// Letters with marks, as they occur in the names of places, without them.
fn plain(c: char) -> Option<&'static str> {
    Some(match c {
        'À'..='Å' | 'Ā' | 'Ă' | 'Ą' => "A",
        'à'..='å' | 'ā' | 'ă' | 'ą' => "a",
        'Æ' => "Ae",
        'æ' => "ae",
        'Ç' | 'Ć' | 'Č' => "C",
        'ç' | 'ć' | 'č' => "c",
        'Ď' | 'Đ' | 'Ð' => "D",
        'ď' | 'đ' | 'ð' => "d",
        'È'..='Ë' | 'Ē' | 'Ė' | 'Ę' | 'Ě' => "E",
        'è'..='ë' | 'ē' | 'ė' | 'ę' | 'ě' => "e",
        'Ğ' | 'Ģ' => "G",
        'ğ' | 'ģ' => "g",
        'Ì'..='Ï' | 'Ī' | 'Į' | 'İ' => "I",
        'ì'..='ï' | 'ī' | 'į' | 'ı' => "i",
        'Ķ' => "K",
        'ķ' => "k",
        'Ĺ' | 'Ļ' | 'Ľ' | 'Ł' => "L",
        'ĺ' | 'ļ' | 'ľ' | 'ł' => "l",
        'Ñ' | 'Ń' | 'Ņ' | 'Ň' => "N",
        'ñ' | 'ń' | 'ņ' | 'ň' => "n",
        'Ò'..='Ö' | 'Ø' | 'Ō' | 'Ő' => "O",
        'ò'..='ö' | 'ø' | 'ō' | 'ő' => "o",
        'Œ' => "Oe",
        'œ' => "oe",
        'Ŕ' | 'Ř' => "R",
        'ŕ' | 'ř' => "r",
        'Ś' | 'Ş' | 'Š' | 'Ș' => "S",
        'ś' | 'ş' | 'š' | 'ș' => "s",
        'ß' => "ss",
        'Ţ' | 'Ť' | 'Ț' => "T",
        'ţ' | 'ť' | 'ț' => "t",
        'Ù'..='Ü' | 'Ū' | 'Ů' | 'Ű' | 'Ų' => "U",
        'ù'..='ü' | 'ū' | 'ů' | 'ű' | 'ų' => "u",
        'Ý' => "Y",
        'ý' | 'ÿ' => "y",
        'Ź' | 'Ż' | 'Ž' => "Z",
        'ź' | 'ż' | 'ž' => "z",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_stay_recognisable() {
        let cases = [
            ("New York", "New-York"),
            ("Zürich", "Zurich"),
            ("Łódź (PL)", "Lodz-PL"),
            ("new york", "new-york-2"),
            ("42", "n42"),
            ("10.0.0.1", "n10.0.0.1"),
            ("localhost", "nlocalhost"),
            ("  東京 ", "node"),
            ("...", "node-2"),
            ("a..b--c", "a.b-c"),
        ];
        let mut names = Names::default();
        for (wish, name) in cases {
            assert_eq!(names.take(wish, "node"), name);
        }
    }

    proptest! {
        #[test]
        fn any_text_gives_names_that_may_stand_in_a_file(wishes in prop::collection::vec(".{0,80}", 1..20)) {
            let mut names = Names::default();
            let mut seen = HashSet::new();
            for wish in wishes.iter().chain(&wishes) {
                let name = names.take(wish, "node");
                prop_assert_eq!(crate::names::check_host_name(&name), Ok(()), "{}", name);
                prop_assert!(seen.insert(name.to_lowercase()), "{} twice", name);
                let label = clean(wish);
                prop_assert!(label.is_empty() || crate::names::check_name(&label).is_ok(), "{}", label);
            }
        }
    }
}
