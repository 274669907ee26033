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
    /// The framing of the pipe, which some values depend on.
    pub(crate) framing: Framing,
    /// Collects their problems.
    pub(crate) faults: &'a mut Faults,
}

/// A field that a person writes as a `W` and that has values `V`.
pub(crate) struct Row<W, V> {
    /// What may be written, in the Markdown of docs/format.md.
    pub(crate) form: &'static str,
    /// The value of what is written; `None` where it has a problem.
    pub(crate) read: fn(&W, &mut Reading<'_>) -> Option<V>,
    /// Sets it in the pipe's parameters.
    pub(crate) put: fn(V, &mut PipeParams),
    /// What the pipe has, in words; as it is written where that is exact.
    pub(crate) show: fn(&PipeParams) -> String,
    /// How a ramp changes it; `None` where no values lie between two others.
    pub(crate) ramp: Option<Ramped<V>>,
}

/// A field that a ramp can change.
pub(crate) struct Ramped<V> {
    /// What a ramp takes, for a hint.
    pub(crate) takes: &'static str,
    /// Why no ramp leads to a value; `None` where one does.
    pub(crate) refuses: fn(&V) -> Option<&'static str>,
    /// What a pipe must have for a ramp to begin with and lacks; `None` where it lacks nothing.
    pub(crate) lacks: fn(&PipeParams) -> Option<&'static str>,
    /// The value at a point of the line from what the pipe had to another value.
    pub(crate) between: fn(Line, &PipeParams, &V) -> V,
}

impl<V> Ramped<V> {
    /// The ramp of a field whose values are all numbers.
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
    /// Why no ramp leads to a patch's value; `None` where one does.
    pub(crate) refuses: fn(&Patch) -> Option<&'static str>,
    /// What a pipe must have for a ramp to begin with and lacks; `None` where it lacks nothing.
    pub(crate) lacks: fn(&PipeParams) -> Option<&'static str>,
}
