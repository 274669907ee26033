//! Fragmentation of IPv4 packets (RFC 791 §3.2): offsets in units of 8 bytes, options without
//! the copied bit in the first fragment only.
//!
//! Fragments are computed one at a time from the packet, each on its own, so nothing is kept
//! between calls. A fragment can be fragmented again.
//!
//! Left out: reassembly (routers do none) and IPv6 (only its sources fragment).

use longhaul_core::packet::{IPV4_LEN, sum16};

use crate::ip::V4;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;
const COPIED: u8 = 0x80;

/// An IPv4 header's greatest length.
const MAX_HEADER: usize = 60;

/// Writes fragment number `index` of `packet` and returns its length; `None` past the last one,
/// if the packet must not or cannot be split for this MTU, or if `out` is too small.
pub(crate) fn write(packet: &V4, mtu: u32, index: u32, out: &mut [u8]) -> Option<usize> {
    let field = packet.fragment_field();
    if field & DONT_FRAGMENT != 0 {
        return None;
    }
    let (later, later_len) = later_header(packet);
    let first_room = room(mtu, packet.header_len)?;
    let later_room = room(mtu, later_len)?;

    let payload = packet.payload();
    let (header, start, room) = match (index as usize).checked_sub(1) {
        None => (&packet.packet[..packet.header_len], 0, first_room),
        Some(later_before) => {
            let start = later_before
                .checked_mul(later_room & !7)?
                .checked_add(first_room & !7)?;
            // The last fragment may use its room to the byte.
            let before = if later_before == 0 {
                first_room
            } else {
                later_room
            };
            if start.checked_add(before & 7)? >= payload.len() {
                return None;
            }
            (&later[..later_len], start, later_room)
        }
    };
    let left = payload.len() - start;
    let end = start + if left <= room { left } else { room & !7 };
    let data = &payload[start..end];

    let offset = usize::from(field & OFFSET) + start / 8;
    if offset > usize::from(OFFSET) {
        return None;
    }
    let more = if end < payload.len() {
        MORE_FRAGMENTS
    } else {
        field & MORE_FRAGMENTS
    };
    let total = header.len() + data.len();
    let out = out.get_mut(..total)?;
    out[..header.len()].copy_from_slice(header);
    out[header.len()..].copy_from_slice(data);
    finish_header(&mut out[..header.len()], total as u16, more | offset as u16);
    Some(total)
}

/// Bytes of payload that fit behind a header: at least 8, or nothing could ever move on.
fn room(mtu: u32, header_len: usize) -> Option<usize> {
    (mtu as usize)
        .checked_sub(header_len)
        .filter(|room| *room >= 8)
}

/// The header of all fragments but the first, and its length.
fn later_header(packet: &V4) -> ([u8; MAX_HEADER], usize) {
    let mut header = [END_OF_OPTIONS; MAX_HEADER];
    header[..IPV4_LEN].copy_from_slice(&packet.packet[..IPV4_LEN]);
    let mut len = IPV4_LEN;
    let mut options = &packet.packet[IPV4_LEN..packet.header_len];
    while let [kind, rest @ ..] = options {
        match *kind {
            END_OF_OPTIONS => break,
            NO_OPERATION => options = rest,
            kind => {
                // An option of an impossible length ends the list.
                let option_len = usize::from(rest.first().copied().unwrap_or(0));
                if option_len < 2 || option_len > options.len() {
                    break;
                }
                let (option, rest) = options.split_at(option_len);
                if kind & COPIED != 0 {
                    header[len..len + option_len].copy_from_slice(option);
                    len += option_len;
                }
                options = rest;
            }
        }
    }
    (header, len.next_multiple_of(4))
}

/// Writes what differs between a packet's header and its fragment's.
fn finish_header(header: &mut [u8], total: u16, fragment_field: u16) {
    header[0] = 0x40 | (header.len() / 4) as u8;
    header[2..4].copy_from_slice(&total.to_be_bytes());
    header[6..8].copy_from_slice(&fragment_field.to_be_bytes());
    header[10..12].fill(0);
    let checksum = !sum16(header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
}
