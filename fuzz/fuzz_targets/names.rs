//! Hostile queries for the name service.
//!
//! Run with `cargo +nightly fuzz run names`. Input: a datagram; so that mutations get past the header,
//! some inputs have their counts put right.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use longhaul_proto::names::{MAX_ANSWER, Names};

static NAMES: LazyLock<Names> = LazyLock::new(|| {
    let names = ["a0", "a1", "eu.west"].into_iter().zip(1u8..);
    Names::new(names.map(|(name, number)| {
        let ipv6 = [0xfd, 0x6c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number];
        (name, [10, 0, 0, number].into(), ipv6.into())
    }))
});

fuzz_target!(|data: &[u8]| {
    let Some((&mend, bytes)) = data.split_first() else {
        return;
    };
    let mut bytes = bytes.to_vec();
    if mend & 1 != 0 && bytes.len() > 12 {
        bytes[2] &= 0x07;
        bytes[4..12].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, mend >> 7]);
    }
    let Some(answer) = NAMES.answer(&bytes) else {
        return;
    };
    assert!(answer.len() <= MAX_ANSWER && answer.len() <= bytes.len() + 144);
    assert_eq!(answer[..2], bytes[..2]);
    assert!(NAMES.answer(&answer).is_none());
});
