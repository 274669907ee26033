//! What an interface can do, and what of it is on: ethtool's ioctls
//! (`include/uapi/linux/ethtool.h`).
//!
//! Left out: everything but offloads.

use std::io;
use std::os::fd::AsRawFd;

use rustix::net::{self, AddressFamily, SocketFlags, SocketType};

use crate::sys::check;

/// Without transmit checksums the kernel completes them in software, and no segmentation offload
/// hands super-packets to the cable (`ETHTOOL_STXCSUM`).
const TRANSMIT_CHECKSUMS: u32 = 0x17;
/// Receive offload (`ETHTOOL_SGRO`).
const RECEIVE_OFFLOAD: u32 = 0x2c;

/// Turns the completion of checksums by the interface on or off.
pub(crate) fn set_transmit_checksums(interface: &str, on: bool) -> io::Result<()> {
    set(interface, TRANSMIT_CHECKSUMS, on)
}

/// Turns receive offload on or off.
pub(crate) fn set_receive_offload(interface: &str, on: bool) -> io::Result<()> {
    set(interface, RECEIVE_OFFLOAD, on)
}

/// `struct ethtool_value`.
fn set(interface: &str, command: u32, on: bool) -> io::Result<()> {
    call(interface, &mut [command, u32::from(on)])
}

/// Turns features off by the names that `ethtool -k` shows; those that the kernel does not have,
/// or cannot turn off, stay as they are.
pub(crate) fn turn_off(interface: &str, features: &[&str]) -> io::Result<()> {
    const SET_FEATURES: u32 = 0x3b; // ETHTOOL_SFEATURES
    let names = feature_names(interface)?;
    // struct ethtool_sfeatures: command, words; then of each word what is valid and what is on.
    let words = names.len().div_ceil(32);
    let mut request = vec![0; 2 + 2 * words];
    (request[0], request[1]) = (SET_FEATURES, words as u32);
    for (number, name) in names.iter().enumerate() {
        if features.iter().any(|feature| feature.as_bytes() == name) {
            request[2 + 2 * (number / 32)] |= 1 << (number % 32);
        }
    }
    call(interface, &mut request)
}

/// The names of all features, by their numbers.
fn feature_names(interface: &str) -> io::Result<Vec<Vec<u8>>> {
    const GET_COUNT: u32 = 0x37; // ETHTOOL_GSSET_INFO
    const GET_STRINGS: u32 = 0x1b; // ETHTOOL_GSTRINGS
    const FEATURES: u32 = 4; // ETH_SS_FEATURES
    const NAME_WORDS: usize = 8; // ETH_GSTRING_LEN
    const NAMES_MAX: usize = 1024;
    // struct ethtool_sset_info: command, reserved, a mask of 64 bits, the count.
    let mask = (1u64 << FEATURES).to_ne_bytes();
    let half = |at: usize| u32::from_ne_bytes([mask[at], mask[at + 1], mask[at + 2], mask[at + 3]]);
    let mut count = [GET_COUNT, 0, half(0), half(4), 0];
    call(interface, &mut count)?;
    let names = (count[4] as usize).min(NAMES_MAX);
    // struct ethtool_gstrings: command, kind, count, the strings.
    let mut strings = vec![0; 3 + names * NAME_WORDS];
    strings[..3].copy_from_slice(&[GET_STRINGS, FEATURES, names as u32]);
    call(interface, &mut strings)?;
    let name = |words: &[u32]| {
        let bytes = words.iter().flat_map(|word| word.to_ne_bytes());
        bytes.take_while(|byte| *byte != 0).collect()
    };
    Ok(strings[3..].chunks(NAME_WORDS).map(name).collect())
}

/// An ioctl on an interface by name; `request` is a structure of ethtool's, as words.
fn call(interface: &str, request: &mut [u32]) -> io::Result<()> {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    let (family, kind) = (AddressFamily::INET, SocketType::DGRAM);
    let socket = net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    // SAFETY: an all-zero ifreq is valid.
    let mut ioctl: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in ioctl.ifr_name.iter_mut().zip(interface.bytes().take(15)) {
        *to = from as libc::c_char;
    }
    ioctl.ifr_ifru.ifru_data = request.as_mut_ptr().cast();
    // SAFETY: both structures outlive the call, and each caller gives the second one the length
    // that it says itself.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut ioctl) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_names_its_features() {
        let names = feature_names("lo").expect("every namespace has a loopback");
        for name in ["tx-tcp-segmentation", "tx-udp_tnl-segmentation"] {
            assert!(names.iter().any(|n| n == name.as_bytes()), "{name}");
        }
        assert!(feature_names("no-such-one").is_err());
    }
}
