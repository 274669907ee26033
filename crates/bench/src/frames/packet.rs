//! What is common to the frames: protocol numbers, offsets, checksums.

pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86dd;
pub(super) const ARP: u16 = 0x0806;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
pub(super) const ICMP: u8 = 1;
pub(super) const ICMPV6: u8 = 58;
/// Offsets into a frame.
pub(super) const IP: usize = 14;
pub(super) const L4_OF_V4: usize = IP + 20;
pub(super) const L4_OF_V6: usize = IP + 40;

/// Whether a frame claims to carry IPv4.
pub(super) fn is_v4(frame: &[u8]) -> bool {
    frame[12..IP] == IPV4.to_be_bytes()
}

/// Where the transport header of a packet without options begins.
pub(super) fn l4(frame: &[u8]) -> usize {
    if is_v4(frame) { L4_OF_V4 } else { L4_OF_V6 }
}

/// Writes a big-endian field.
pub(super) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Makes the IPv4 header checksum right again; leaves other frames alone.
pub(super) fn repair(frame: &mut [u8]) {
    let header_len = usize::from(frame[IP] & 0x0f) * 4;
    if !is_v4(frame) || header_len < 20 || frame.len() < IP + header_len {
        return;
    }
    put16(frame, IP + 10, 0);
    let sum = checksum(&frame[IP..IP + header_len]);
    put16(frame, IP + 10, sum);
}

/// Writes the transport checksum, which stands `offset` bytes into the transport header and
/// is zero so far, of a packet without options.
pub(super) fn seal(frame: &mut [u8], offset: usize) {
    let at = l4(frame);
    let (addresses, protocol) = if is_v4(frame) {
        (&frame[IP + 12..IP + 20], frame[IP + 9])
    } else {
        (&frame[IP + 8..IP + 40], frame[IP + 6])
    };
    let mut covered = addresses.to_vec();
    covered.extend([0, protocol]);
    covered.extend(((frame.len() - at) as u16).to_be_bytes());
    covered.extend(&frame[at..]);
    let sum = checksum(&covered);
    put16(frame, at + offset, sum);
}

/// The Internet checksum of RFC 1071.
pub(super) fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&b| u32::from(b));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_rfc_1071() {
        assert_eq!(
            checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
            0x220d
        );
        assert_eq!(checksum(&[0xff]), 0x00ff);
    }

    #[test]
    fn repair_leaves_alone_what_it_cannot_repair() {
        let mut short = [vec![0; 12], vec![8, 0, 0x4f]].concat();
        let before = short.clone();
        repair(&mut short);
        assert_eq!(short, before);
    }
}
