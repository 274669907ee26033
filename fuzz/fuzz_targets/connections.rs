//! Socket diagnostics of a hostile kernel: lengths, attributes, structures of any size.
//!
//! Run with `cargo +nightly fuzz run connections`. Input: netlink messages. So that mutations get past
//! the headers, the first message of some inputs has its length, its kind, its family and its state
//! put right.
#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_linux::connections::parse;

/// `struct nlmsghdr` and `struct inet_diag_msg`.
const LEAST: usize = 16 + 72;

fuzz_target!(|data: &[u8]| {
    let Some((&mend, bytes)) = data.split_first() else {
        return;
    };
    let mut bytes = bytes.to_vec();
    if mend & 1 != 0 && bytes.len() >= LEAST {
        let len = bytes.len().min(LEAST + usize::from(mend) * 2) as u32;
        bytes[0..4].copy_from_slice(&len.to_ne_bytes());
        bytes[4..6].copy_from_slice(&20u16.to_ne_bytes());
        bytes[16] = if mend & 2 == 0 { 2 } else { 10 };
        bytes[17] = 1;
    }
    let (list, unread) = parse(&bytes);
    assert!(list.len() * LEAST <= bytes.len());
    assert!(list.len() as u64 + unread <= bytes.len() as u64 / 16 + 1);
});
