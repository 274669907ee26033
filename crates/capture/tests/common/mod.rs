//! What the tests of this crate share.

#![allow(dead_code)]

pub(crate) mod frames;
pub(crate) mod reader;
pub(crate) mod trees;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Always the same cases.
pub(crate) fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(11),
        ..ProptestConfig::default()
    }
}
