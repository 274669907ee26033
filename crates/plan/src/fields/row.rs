//! What a row of the table says, with the types of its field and without them.

use longhaul_core::params::PipeParams;
use longhaul_core::units::Framing;

use super::Patch;
use crate::plan::pipe::Context;
use crate::schedule::Line;
use crate::text::error::Faults;

/// What values are read with.
pub(crate) struct Reading<'a> {
    /// What they refer to.
    pub(crate) context: &'a Context<'a>,
    /// The framing of the pipe.
    pub(crate) framing: Framing,
    /// Takes their problems.
    pub(crate) faults: &'a mut Faults,
}

/// A field that a person writes as a `W` and that has values `V`.
pub(crate) struct Row<W, V> {
    /// What may be written, in the Markdown of docs/format.md.
    pub(crate) form: &'static str,
    /// The value of what is written; `None` where it has a problem.
    pub(crate) read: fn(&W, &mut Reading<'_>) -> Option<V>,
    /// Makes it the pipe's.
    pub(crate) put: fn(V, &mut PipeParams),
    /// What the pipe has, in words; as it is written where that is exact.
    pub(crate) show: fn(&PipeParams) -> String,
    /// How a ramp changes it; `None` where there is nothing between two values.
    pub(crate) ramp: Option<Ramped<V>>,
}

/// A field that a ramp can change.
pub(crate) struct Ramped<V> {
    /// What a ramp takes, for a hint.
    pub(crate) takes: &'static str,
    /// What a value is that no straight line leads to.
    pub(crate) refuses: fn(&V) -> Option<&'static str>,
    /// What a pipe must have for a ramp to begin with, and has not.
    pub(crate) lacks: fn(&PipeParams) -> Option<&'static str>,
    /// The value on the way from what the pipe had to another one.
    pub(crate) between: fn(Line, &PipeParams, &V) -> V,
}

impl<V> Ramped<V> {
    /// Of a field whose values are all numbers.
    pub(super) const fn from_any(
        takes: &'static str,
        between: fn(Line, &PipeParams, &V) -> V,
    ) -> Self {
        Self {
            takes,
            refuses: |_| None,
            lacks: |_| None,
            between,
        }
    }
}

/// A row without the types of its field.
pub struct Field {
    /// Its name in the file.
    pub name: &'static str,
    /// What may be written, in the Markdown of docs/format.md.
    pub form: &'static str,
    /// What is meant where nothing is written.
    pub default: &'static str,
    /// What it means, in a sentence.
    pub meaning: &'static str,
    /// What a ramp takes, in words; `None` where no ramp can change it.
    pub ramp: Option<&'static str>,
    /// What a pipe has, in words.
    pub(crate) show: fn(&PipeParams) -> String,
    /// Whether a patch changes it.
    pub(crate) changes: fn(&Patch) -> bool,
    /// What a patch has that no ramp leads to.
    pub(crate) refuses: fn(&Patch) -> Option<&'static str>,
    /// What a pipe must have for a ramp to begin with, and has not.
    pub(crate) lacks: fn(&PipeParams) -> Option<&'static str>,
}
