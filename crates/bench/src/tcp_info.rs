//! `TCP_INFO`: what the kernel knows of a connection.
//!
//! The structure has only ever grown, so fields are read at their offsets as far as this
//! kernel fills it; a field that it lacks is null.

use std::io;
use std::os::fd::AsRawFd;

use serde::Serialize;

use crate::net;

/// More than today's structure.
const MAX_LEN: usize = 512;
/// The kernel's own value for "no round trip seen yet".
const NO_RTT: u32 = u32::MAX;

const SND_MSS: usize = 16;
const RCV_MSS: usize = 20;
const RTT: usize = 68;
const SND_CWND: usize = 80;
const TOTAL_RETRANS: usize = 100;
const MIN_RTT: usize = 148;
const DELIVERED_CE: usize = 196;
const DSACK_DUPS: usize = 216;
const REORD_SEEN: usize = 220;
const RCV_OOOPACK: usize = 224;

/// A sender's view.
#[derive(Serialize)]
pub(crate) struct SenderInfo {
    /// Segments sent again, in all.
    retransmits: Option<u32>,
    /// Segments that the receiver says it had already (RFC 2883): sent again in vain.
    dsack_dups: Option<u32>,
    /// Times that reordering was seen.
    reord_seen: Option<u32>,
    rtt_us: Option<u32>,
    min_rtt_us: Option<u32>,
    /// Congestion window in segments.
    cwnd: Option<u32>,
    pub(crate) mss: Option<u32>,
    /// Segments that the receiver saw marked with Congestion Experienced.
    delivered_ce: Option<u32>,
}

/// A receiver's view.
#[derive(Serialize)]
pub(crate) struct ReceiverInfo {
    /// Segments that arrived out of order.
    pub(crate) rcv_ooopack: Option<u32>,
    rcv_mss: Option<u32>,
}

/// The structure as the kernel filled it.
pub(crate) struct TcpInfo(Vec<u8>);

impl TcpInfo {
    /// Reads it from a socket.
    pub(crate) fn read(socket: &impl AsRawFd) -> io::Result<Self> {
        let mut buffer = [0; MAX_LEN];
        net::get_bytes(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut buffer)
            .map(|bytes| Self(bytes.to_vec()))
    }

    fn word(&self, offset: usize) -> Option<u32> {
        let bytes = self.0.get(offset..offset + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    }

    /// What a sender asks for.
    pub(crate) fn sender(&self) -> SenderInfo {
        SenderInfo {
            retransmits: self.word(TOTAL_RETRANS),
            dsack_dups: self.word(DSACK_DUPS),
            reord_seen: self.word(REORD_SEEN),
            rtt_us: self.word(RTT),
            min_rtt_us: self.word(MIN_RTT).filter(|&rtt| rtt != NO_RTT),
            cwnd: self.word(SND_CWND),
            mss: self.word(SND_MSS),
            delivered_ce: self.word(DELIVERED_CE),
        }
    }

    /// What a receiver asks for.
    pub(crate) fn receiver(&self) -> ReceiverInfo {
        ReceiverInfo {
            rcv_ooopack: self.word(RCV_OOOPACK),
            rcv_mss: self.word(RCV_MSS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_beyond_the_kernel_are_null() {
        let mut bytes = vec![0; 104];
        bytes[TOTAL_RETRANS] = 9;
        let info = TcpInfo(bytes);
        assert_eq!(info.word(TOTAL_RETRANS), Some(9_u32.to_le()));
        assert_eq!(info.sender().reord_seen, None);
        assert_eq!(info.receiver().rcv_ooopack, None);
    }
}
