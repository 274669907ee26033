//! What a datagram carries: its number and the time at which it was handed to the kernel.
//!
//! The first 8 bytes are the sequence number, the next 8 the sender's `CLOCK_REALTIME` in
//! nanoseconds, both big-endian; the rest is filler. A payload of 8 to 15 bytes carries the
//! number alone.

use std::time::{SystemTime, UNIX_EPOCH};

/// The smallest payload: a sequence number alone.
pub(crate) const SEQ_LEN: usize = 8;
/// The smallest payload with a stamp.
pub(crate) const HEAD_LEN: usize = 16;
/// The largest payload of a UDP datagram over IPv4.
pub(crate) const MAX_PAYLOAD: usize = 65_507;

/// `CLOCK_REALTIME` now, in nanoseconds: the clock of the kernel's packet stamps.
pub(crate) fn realtime_ns() -> i64 {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX)
}

/// Writes number and stamp as far as `payload` has room for them.
pub(crate) fn write(payload: &mut [u8], seq: u64, stamp_ns: i64) {
    if let Some(field) = payload.get_mut(..SEQ_LEN) {
        field.copy_from_slice(&seq.to_be_bytes());
    }
    if let Some(field) = payload.get_mut(SEQ_LEN..HEAD_LEN) {
        field.copy_from_slice(&stamp_ns.to_be_bytes());
    }
}

/// The number and the stamp of a payload, each if it is there.
pub(crate) fn read(payload: &[u8]) -> (Option<u64>, Option<i64>) {
    let field = |from: usize| -> Option<[u8; 8]> { payload.get(from..from + 8)?.try_into().ok() };
    (
        field(0).map(u64::from_be_bytes),
        field(SEQ_LEN).map(i64::from_be_bytes),
    )
}

/// Parses a payload size in bytes for the command line.
pub(crate) fn payload_size(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(size) if (SEQ_LEN..=MAX_PAYLOAD).contains(&size) => Ok(size),
        _ => Err(format!("a payload has {SEQ_LEN} to {MAX_PAYLOAD} bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut payload = [0; 20];
        write(&mut payload, 7, -3);
        assert_eq!(read(&payload), (Some(7), Some(-3)));
    }

    #[test]
    fn short_payloads_carry_what_fits() {
        let mut payload = [0; 12];
        write(&mut payload, 7, 99);
        assert_eq!(read(&payload), (Some(7), None));
        assert_eq!(read(&payload[..5]), (None, None));
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        assert!(payload_size("7").is_err());
        assert!(payload_size("65508").is_err());
        assert_eq!(payload_size("18"), Ok(18));
    }
}
