//! UDP (RFC 768) as far as a router has to judge it: is a datagram sound?

use crate::ip::checksum_holds;

/// True if the length and the checksum of a datagram hold. `pseudo_header` gives the sum for a
/// datagram's length; a checksum of 0 means none, which only IPv4 allows (RFC 8200 §8.1).
pub(crate) fn is_sound(
    datagram: &[u8],
    none_allowed: bool,
    pseudo_header: impl Fn(usize) -> u64,
) -> bool {
    let Some(header) = datagram.first_chunk::<8>() else {
        return false;
    };
    let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let Some(datagram) = datagram.get(..len).filter(|it| it.len() >= header.len()) else {
        return false;
    };
    match [header[6], header[7]] {
        [0, 0] => none_allowed,
        _ => checksum_holds(pseudo_header(len), datagram),
    }
}
