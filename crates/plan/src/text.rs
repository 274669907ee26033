//! Texts with their positions: YAML as a tree ([`tree`]), and problems that point into it
//! ([`error`]).

pub(crate) mod error;
pub(crate) mod tree;
