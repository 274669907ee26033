//! Labels: what nodes and links are called together, `tier: edge`.

use std::collections::BTreeMap;

use super::glob::Glob;
use crate::file::wrap::{At, Named};
use crate::names::check_name;
use crate::text::error::{Faults, shown};

/// The most labels of a node or link.
const LABELS_MAX: usize = 16;

/// Who has which label: members by key and value.
#[derive(Debug, Clone)]
pub struct Labels<T> {
    by_key: BTreeMap<String, BTreeMap<String, Vec<T>>>,
}

impl<T> Default for Labels<T> {
    fn default() -> Self {
        Self {
            by_key: BTreeMap::new(),
        }
    }
}

impl<T: Copy + Ord> Labels<T> {
    /// Gives a label to members.
    pub(crate) fn add(&mut self, key: &str, value: &str, members: impl IntoIterator<Item = T>) {
        let values = self.by_key.entry(key.to_owned()).or_default();
        values.entry(value.to_owned()).or_default().extend(members);
    }

    /// Puts the members of each label in their order.
    pub(crate) fn sort(&mut self) {
        let values = self.by_key.values_mut().flat_map(BTreeMap::values_mut);
        values.for_each(|members| members.sort_unstable());
    }

    /// The same of what a number stands for.
    pub(crate) fn map<U: Copy + Ord>(&self, number: impl Fn(T) -> Option<U>) -> Labels<U> {
        let mut labels = Labels::default();
        for (key, value, members) in self.iter() {
            labels.add(
                key,
                value,
                members.iter().filter_map(|member| number(*member)),
            );
        }
        labels.sort();
        labels
    }

    /// Every key and value with its members, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &[T])> {
        self.by_key.iter().flat_map(|(key, values)| {
            let values = values.iter();
            values.map(|(value, members)| (key.as_str(), value.as_str(), members.as_slice()))
        })
    }

    /// The members whose label `key` has a value like this, in order.
    pub(crate) fn find(&self, key: &str, value: &Glob) -> Vec<T> {
        let values = self.by_key.get(key).into_iter().flatten();
        let fitting = values.filter(|(known, _)| value.matches(known));
        let mut members: Vec<T> = fitting.flat_map(|(_, members)| members).copied().collect();
        members.sort_unstable();
        members
    }

    /// The keys and values that members of some kind have.
    pub(super) fn of(&self, fits: impl Fn(T) -> bool) -> impl Iterator<Item = (&str, &str)> {
        let known = self.iter();
        let known = known.filter(move |(.., members)| members.iter().any(|member| fits(*member)));
        known.map(|(key, value, _)| (key, value))
    }
}

/// The valid labels of an entry of the file; what is wrong goes to `faults`.
pub(crate) fn read<'a>(
    labels: Option<&'a Named<At<String>>>,
    faults: &mut Faults,
) -> Vec<(&'a str, &'a str)> {
    const HINT: &str = "keys and values have letters, digits, `-`, `_` and `.`, such as \
                        `labels: { tier: edge }`";
    let labels = labels.map_or(&[][..], |labels| &labels.0);
    if let Some((key, _)) = labels.get(LABELS_MAX) {
        let message = format!("more than {LABELS_MAX} labels");
        faults.add(key.at, message, "remove those that no set uses");
        return Vec::new();
    }
    let mut read = Vec::with_capacity(labels.len());
    for (key, value) in labels {
        let mut wrong = |part: &At<String>, what: &str| match check_name(&part.value) {
            Ok(()) => false,
            Err(problem) => {
                let message = format!("`{}` cannot be {what}: {problem}", shown(&part.value));
                faults.add(part.at, message, HINT);
                true
            }
        };
        if !(wrong(key, "the name of a label") | wrong(value, "the value of a label")) {
            read.push((key.value.as_str(), value.value.as_str()));
        }
    }
    read
}
