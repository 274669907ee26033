//! What the fields of a link mean: from what a person wrote to a [`Patch`].
//!
//! One way for the links of the file, the way back, events and the command `set`, so that a value
//! means the same wherever it is used. Files that a link names (traces, tables, patterns) are
//! read here, relative to the experiment file.

pub(crate) mod delay;
pub(crate) mod loss;
pub(crate) mod queue;
pub(crate) mod recorded;

use std::num::NonZeroU32;
use std::path::Path;

use longhaul_core::Span;
use longhaul_core::element::ElementFactory;
use longhaul_core::params::{Reorder, Which};
use longhaul_core::units::Framing;

pub(crate) use recorded::{Recordings, refuse};

use crate::elements::Elements;
use crate::fields::{Reading, Wishes};
use crate::file::link::ReorderSpec;
use crate::file::wrap::{At, Either, NONE, Quantity};
use crate::patch::Patch;
use crate::text::error::{Faults, Pos, near_miss, shown};

/// What the values of links refer to.
pub(crate) struct Context<'a> {
    /// Elements by name.
    pub(crate) elements: &'a Elements,
    /// Files beside the experiment file.
    pub(crate) recordings: Recordings<'a>,
}

impl<'a> Context<'a> {
    /// Names are those of `elements`; file names are relative to `folder`.
    pub(crate) fn new(folder: &'a Path, elements: &'a Elements) -> Self {
        Self {
            elements,
            recordings: Recordings::new(folder),
        }
    }
}

/// The changes that `wishes` ask for of a pipe whose framing is `framing` unless they say
/// otherwise; problems go to `faults`.
pub(crate) fn patch(
    wishes: &Wishes<'_>,
    framing: Framing,
    context: &Context<'_>,
    faults: &mut Faults,
) -> Patch {
    // Traces are read with the framing, so it comes first; its own problem is reported when its row
    // is read.
    let own = wishes.framing;
    let own = own.and_then(|framing| framing.get(&mut Faults::default()));
    wishes.read(&mut Reading {
        context,
        framing: own.unwrap_or(framing),
        faults,
    })
}

/// A time above zero.
pub(crate) fn positive(quantity: &Quantity<Span>, name: &str, faults: &mut Faults) -> Option<Span> {
    let span = quantity.get(faults)?;
    if span == Span::ZERO {
        let message = format!("`{name}` cannot be 0 s");
        faults.add(quantity.at(), message, "write it like `5 ms`");
        return None;
    }
    Some(span)
}

/// A number of packets from 1.
fn one_in(number: &At<u32>, faults: &mut Faults) -> Option<NonZeroU32> {
    let found = NonZeroU32::new(number.value);
    if found.is_none() {
        faults.add(
            number.at,
            "`one_in: 0` is impossible",
            "write a number from 1, such as `one_in: 100`",
        );
    }
    found
}

/// Packets that are held back.
pub(crate) fn held(
    spec: &Either<At<String>, At<ReorderSpec>>,
    faults: &mut Faults,
) -> Option<Option<Reorder>> {
    const HINT: &str = "write it like `{ probability: 1 %, delay: 2 ms }` or `none`";
    let At { at, value } = match spec {
        Either::Short(word) if word.value == NONE => return Some(None),
        Either::Short(word) => {
            let message = format!(
                "`{}` lacks the time for which packets are held back",
                shown(&word.value)
            );
            faults.add(word.at, message, HINT);
            return None;
        }
        Either::Long(spec) => spec.as_ref(),
    };
    let hold = positive(&value.delay, "delay", faults);
    let which = match (&value.probability, &value.one_in) {
        (Some(probability), None) => probability.get(faults).map(Which::Random),
        (None, Some(number)) => one_in(number, faults).map(Which::OneIn),
        _ => {
            let message =
                "exactly one of `probability` and `one_in` must say which packets are held back";
            faults.add(*at, message, HINT);
            None
        }
    };
    Some(Some(Reorder {
        which: which?,
        hold: hold?,
    }))
}

/// A user's own element.
pub(crate) fn element(
    name: &At<String>,
    elements: &Elements,
    faults: &mut Faults,
) -> Option<Option<ElementFactory>> {
    if name.value == NONE {
        return Some(None);
    }
    if let Some(element) = elements.get(&name.value) {
        return Some(Some(element.clone()));
    }
    let message = format!("there is no element called `{}`", shown(&name.value));
    let known: Vec<&str> = elements.names().collect();
    let hint = match near_miss(&name.value, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if known.is_empty() => {
            "this longhaul has no elements; docs/elements.md shows how to add some".into()
        }
        None => format!("the elements of this longhaul are {}", known.join(", ")),
    };
    faults.add(name.at, message, hint);
    None
}

/// The one of several choices that is there; none or several go to `faults`.
pub(crate) fn only_one<T>(
    at: Pos,
    choices: Vec<(&'static str, Option<T>)>,
    what: &str,
    faults: &mut Faults,
) -> Option<T> {
    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
    let hint = format!("write one of {}", names.join(", "));
    let mut given: Vec<(&str, T)> = choices
        .into_iter()
        .filter_map(|(name, choice)| Some((name, choice?)))
        .collect();
    match given.len() {
        1 => given.pop().map(|(_, choice)| choice),
        0 => {
            faults.add(at, format!("no {what} is given"), hint);
            None
        }
        _ => {
            let message = format!("`{}` and `{}` exclude each other", given[0].0, given[1].0);
            faults.add(at, message, hint);
            None
        }
    }
}
