//! TCP (RFC 9293) as a closed port speaks it: a reset for every segment but a reset.

use crate::ip::checksum_holds;

/// Length of a header without options.
pub(crate) const TCP_LEN: usize = 20;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// The reset that answers `segment`, its checksum field still 0 (RFC 9293 §3.10.7.1); `None` if
/// the segment is a reset itself or not sound.
pub(crate) fn reset(segment: &[u8], pseudo_header: u64) -> Option<[u8; TCP_LEN]> {
    let header = segment.first_chunk::<TCP_LEN>()?;
    let header_len = usize::from(header[12] >> 4) * 4;
    let flags = header[13];
    let sound =
        (TCP_LEN..=segment.len()).contains(&header_len) && checksum_holds(pseudo_header, segment);
    if !sound || flags & RST != 0 {
        return None;
    }
    let mut reset = [0; TCP_LEN];
    reset[0..2].copy_from_slice(&header[2..4]);
    reset[2..4].copy_from_slice(&header[0..2]);
    reset[12] = (TCP_LEN as u8 / 4) << 4;
    if flags & ACK != 0 {
        reset[4..8].copy_from_slice(&header[8..12]);
        reset[13] = RST;
    } else {
        // SYN and FIN take a sequence number each.
        let occupied = segment.len() - header_len
            + usize::from(flags & SYN != 0)
            + usize::from(flags & FIN != 0);
        let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        let next = sequence.wrapping_add(occupied as u32);
        reset[8..12].copy_from_slice(&next.to_be_bytes());
        reset[13] = RST | ACK;
    }
    Some(reset)
}
