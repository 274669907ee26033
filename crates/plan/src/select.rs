//! Sets of hosts, nodes and links: `all`, patterns (`*-h0`), labels (`tier=edge`) and, for hosts,
//! the beginning of numbered names (`h` for `h0`, `h1`, …).
//!
//! A name that something has always means just that; names have no `*`, `?`, `[` and `=`, so only `all`
//! and such beginnings could be both. The members of a set come in their universe's order, each once.
//! An empty set is an error, which lists what exists.
//!
//! The cost of matching is bounded for nodes and for events as a whole ([`Budget`]): a hostile file may
//! write a million patterns over a million names.
//!
//! Left out: differences and intersections of sets; a label of its own says the same.

pub(crate) mod glob;
pub(crate) mod labels;

use std::cell::Cell;
use std::fmt;

use glob::Glob;
pub use labels::Labels;

use crate::text::error::{Faults, Pos, near_misses, shown};

/// What chooses everything.
pub(crate) const ALL: &str = "all";

/// Why a text stands for nothing that could be used, and what to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectError {
    /// What is wrong.
    pub problem: String,
    /// What to write instead.
    pub remedy: String,
}

impl std::error::Error for SelectError {}

impl fmt::Display for SelectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.problem, self.remedy)
    }
}

/// Things of one kind that have names.
pub(crate) trait Universe {
    /// Their numbers, which have the order of the set.
    type Id: Copy + Ord;
    /// Whether the beginning of numbered names stands for them.
    const STEMS: bool = false;

    /// What one and several of them are called.
    fn what(&self) -> [&'static str; 2];
    /// All of them, in order.
    fn names(&self) -> Box<dyn Iterator<Item = (Self::Id, &str)> + '_>;
    /// Their labels, and perhaps those of others.
    fn labels(&self) -> &Labels<Self::Id>;
    /// Whether a number of the labels is one of them.
    fn has(&self, id: Self::Id) -> bool;
    /// Further names that may have been meant.
    fn aliases(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(std::iter::empty())
    }
}

/// How many names may still be compared.
#[derive(Debug)]
pub(crate) struct Budget {
    left: Cell<u64>,
    /// Whether an error has said that the budget is used up.
    reported: Cell<bool>,
}

/// A few seconds at the very worst; 25 patterns of links in a network of two million.
const COMPARISONS_MAX: u64 = 50_000_000;

impl Default for Budget {
    fn default() -> Self {
        Self {
            left: Cell::new(COMPARISONS_MAX),
            reported: Cell::new(false),
        }
    }
}

impl Budget {
    /// Spends `comparisons` comparisons.
    ///
    /// # Errors
    /// None are left.
    pub(crate) fn take(&self, comparisons: usize) -> Result<(), SelectError> {
        let left = self.left.get().saturating_sub(comparisons as u64);
        self.left.set(left);
        if left > 0 {
            return Ok(());
        }
        Err(SelectError {
            problem: format!(
                "the names and patterns of this file stand for, or are compared with, more than \
                 {COMPARISONS_MAX} names in all"
            ),
            remedy: "write fewer of them: one label or pattern for what several entries say"
                .to_owned(),
        })
    }

    /// Reports an error; a budget that is used up is reported once.
    pub(crate) fn refuse(&self, at: Pos, error: SelectError, faults: &mut Faults) {
        if self.left.get() > 0 || !self.reported.replace(true) {
            faults.add(at, error.problem, error.remedy);
        }
    }
}

/// Whether a text is a set, if it is not a name.
pub(crate) fn is_set(text: &str) -> bool {
    text == ALL || text.contains('=') || Glob::is_pattern(text)
}

/// The members that `text` stands for, in order and at least one; `text` is not a member's own name.
/// With `briefly`, an error may leave out the list of members, which takes long to make.
pub(crate) fn find<U: Universe>(
    universe: &U,
    text: &str,
    budget: &Budget,
    briefly: bool,
) -> Result<Vec<U::Id>, SelectError> {
    budget.take(0)?;
    let [one, _] = universe.what();
    let mut comparisons = 0;
    let mut filtered = |fits: &dyn Fn(&str) -> bool| -> Vec<U::Id> {
        let all = universe.names().inspect(|_| comparisons += 1);
        all.filter(|(_, name)| fits(name))
            .map(|(id, _)| id)
            .collect()
    };
    let (found, problem) = if let Some((key, value)) = text.split_once('=') {
        let (key, value) = label(text, key, value)?;
        let mut found = universe.labels().find(key, &value);
        comparisons += found.len();
        let others = found.len();
        found.retain(|id| universe.has(*id));
        let problem = format!("no {one} has the label `{}`", shown(text));
        match others {
            0 => (found, problem),
            // The label exists, so it is not mistyped: say who has it.
            1 => (
                found,
                format!("{problem}, but 1 node of another kind has it"),
            ),
            others => (
                found,
                format!("{problem}, but {others} nodes of other kinds have it"),
            ),
        }
    } else if Glob::is_pattern(text) {
        let glob = Glob::parse(text)?;
        let found = filtered(&|name| glob.matches(name));
        (
            found,
            format!("no {one} has a name that matches `{}`", shown(text)),
        )
    } else {
        let mut found = if U::STEMS {
            filtered(&|name| is_numbered(name, text))
        } else {
            Vec::new()
        };
        if found.is_empty() && text == ALL {
            found = filtered(&|_| true);
        }
        (found, format!("there is no {one} called `{}`", shown(text)))
    };
    budget.take(comparisons)?;
    if !found.is_empty() {
        return Ok(found);
    }
    let remedy = if briefly {
        String::new()
    } else {
        remedy(universe, text)
    };
    Err(SelectError { problem, remedy })
}

/// The one member of a set where exactly one is needed.
pub(crate) fn only<U: Universe>(
    universe: &U,
    text: &str,
    found: &[U::Id],
) -> Result<U::Id, SelectError> {
    match found {
        [one] => Ok(*one),
        several => {
            let [one, many] = universe.what();
            let names = universe.names().filter(|(id, _)| several.contains(id));
            Err(SelectError {
                problem: format!(
                    "`{}` stands for {} {many}, but exactly one {one} is needed",
                    shown(text),
                    several.len()
                ),
                remedy: format!("write one of {}", some(names.map(|(_, name)| name))),
            })
        }
    }
}

/// Key and value of a label.
fn label<'a>(text: &str, key: &'a str, value: &str) -> Result<(&'a str, Glob), SelectError> {
    let (key, value) = (key.trim(), value.trim());
    if key.is_empty() || value.is_empty() || Glob::is_pattern(key) {
        return Err(SelectError {
            problem: format!("`{}` is not a label", shown(text)),
            remedy: "write a key and a value, like `tier=edge`; `tier=*` is any value".to_owned(),
        });
    }
    Ok((key, Glob::parse(value)?))
}

/// Whether a name is `stem` and a number.
fn is_numbered(name: &str, stem: &str) -> bool {
    let number = name.strip_prefix(stem).unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// What to write instead of a text that stands for nothing.
fn remedy<U: Universe>(universe: &U, text: &str) -> String {
    if let Some((key, value)) = text.split_once('=') {
        return other_labels(universe, key.trim(), value.trim());
    }
    let near = if Glob::is_pattern(text) {
        String::new()
    } else {
        let names = universe.names().map(|(_, name)| name);
        meant(text, universe.aliases().chain(names), |name| {
            format!("`{name}`")
        })
    };
    let [one, many] = universe.what();
    near + &existing([one, many], universe.names().map(|(_, name)| name))
}

/// Labels that there are instead of one that nothing has.
fn other_labels<U: Universe>(universe: &U, key: &str, value: &str) -> String {
    let known: Vec<(&str, &str)> = universe.labels().of(|id| universe.has(id)).collect();
    let values: Vec<&str> = known
        .iter()
        .filter(|(k, _)| *k == key)
        .map(|(_, v)| *v)
        .collect();
    if !values.is_empty() {
        let near = meant(value, values.iter().copied(), |value| {
            format!("`{key}={value}`")
        });
        return format!(
            "{near}values of `{}` here: {}",
            shown(key),
            some(values.into_iter())
        );
    }
    let mut keys: Vec<&str> = known.iter().map(|(key, _)| *key).collect();
    keys.dedup();
    let [_, many] = universe.what();
    if keys.is_empty() {
        return format!("no {many} have labels: give them some, like `labels: {{ tier: edge }}`");
    }
    let near = meant(key, keys.iter().copied(), |key| format!("`{key}={value}`"));
    format!("{near}labels of {many} here: {}", some(keys.into_iter()))
}

/// The question whether one of the names was meant that are near to `word`; empty where none is.
pub(crate) fn meant<'a>(
    word: &str,
    names: impl Iterator<Item = &'a str>,
    spelled: impl Fn(&str) -> String,
) -> String {
    /// How many names are compared with a wrong one.
    const SEARCHED: usize = 20_000;
    let near: Vec<String> = near_misses(word, names.take(SEARCHED))
        .into_iter()
        .map(|name| spelled(&shown(name)))
        .collect();
    match near.split_last() {
        None => String::new(),
        Some((last, [])) => format!("did you mean {last}? "),
        Some((last, others)) => format!("did you mean {} or {last}? ", others.join(", ")),
    }
}

/// What there is: how many, and some of the names.
pub(crate) fn existing<'a>([one, many]: [&str; 2], names: impl Iterator<Item = &'a str>) -> String {
    let mut names = names.peekable();
    let mut count = 0;
    if names.peek().is_none() {
        return format!("there are no {many}");
    }
    let list = some(names.inspect(|_| count += 1));
    match count {
        1 => format!("the only {one} is {list}"),
        _ => format!("the {count} {many} are {list}"),
    }
}

/// The first of some names, and how many more there are.
pub(crate) fn some<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 8;
    let (mut first, mut more) = (Vec::new(), 0);
    for name in names {
        if first.len() < SHOWN {
            first.push(shown(name))
        } else {
            more += 1
        }
    }
    match more {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
