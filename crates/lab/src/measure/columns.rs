//! Declarations of the columns of series: name, kind, and role on the page of a run.
//!
//! A column is declared once, with its series ([`rows`](super::rows), the ledger's seconds). The
//! writers use its name and kind, the [page](crate::report) its role.

/// The columns of a series, in their order.
pub(crate) type Declared = &'static [Column];

/// A column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(super) kind: Kind,
    pub(crate) role: Role,
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Whole,
    Real,
    Text,
    /// The same where some may be missing.
    MaybeWhole,
    MaybeReal,
}

impl Kind {
    pub(super) const fn may_be_missing(self) -> bool {
        matches!(self, Self::MaybeWhole | Self::MaybeReal)
    }
}

/// What a column is for the page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Role {
    /// Not shown by itself.
    Detail,
    /// With others, it names the thing that a row is of.
    Key,
    /// A figure that the page calls so.
    Figure(&'static str, Take),
}

/// How a figure of many rows is taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Take {
    /// An amount that becomes a rate: times this, per second.
    Rate(f64),
    /// An amount.
    Sum,
    /// The mean of a bin, that of the column being weighted by time.
    Level,
    /// The mean over things that the other column counts.
    Weighted(&'static str),
    /// The largest.
    Most,
    /// A sample at an instant: least, mean and most of all samples.
    Sample,
    /// That of the last row.
    Last,
}

/// Bytes as bits a second.
pub(crate) const BITS: Take = Take::Rate(8.0);
/// So many a second.
pub(crate) const EACH: Take = Take::Rate(1.0);
/// Nanoseconds as a share of time.
pub(crate) const SHARE: Take = Take::Rate(1e-9);

/// A column that is not shown.
pub(crate) const fn column(name: &'static str, kind: Kind) -> Column {
    Column {
        name,
        kind,
        role: Role::Detail,
    }
}

impl Column {
    /// The same as a part of the name of what rows are of.
    pub(crate) const fn key(self) -> Self {
        Self {
            role: Role::Key,
            ..self
        }
    }

    /// The same as a figure of the page.
    pub(crate) const fn shown(self, name: &'static str, take: Take) -> Self {
        Self {
            role: Role::Figure(name, take),
            ..self
        }
    }
}
