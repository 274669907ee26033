//! DCTCP (RFC 8257; Linux's `tcp_dctcp.c`): the window falls in proportion to the part of
//! segments that were marked, so that a queue stays near the threshold of its marks.

use super::{Ack, Config, CongestionControl, CongestionSignal, Window, growth, reno};

/// α in units of 2^-10.
const ONE: u32 = 1 << 10;
/// Weight of a round trip in α: 2^-4 (RFC 8257 §4.2).
const SHIFT_G: u32 = 4;

/// State of DCTCP.
#[derive(Debug)]
pub(super) struct Dctcp {
    /// The part of segments marked, averaged; in units of 2^-10.
    alpha: u32,
    /// The round ends when this number is acknowledged.
    end: u64,
    delivered: u64,
    delivered_ce: u64,
    byte_counting: bool,
}

impl Dctcp {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            alpha: ONE,
            end: 0,
            delivered: 0,
            delivered_ce: 0,
            byte_counting: config.byte_counting,
        }
    }
}

impl CongestionControl for Dctcp {
    fn acked(&mut self, ack: &Ack, _window: &mut Window) {
        if ack.una < self.end {
            return;
        }
        let delivered = (ack.delivered - self.delivered).max(1);
        let marked = ack.delivered_ce - self.delivered_ce;
        // `min_not_zero`: a small α decays to nothing.
        let decay = if self.alpha >> SHIFT_G == 0 {
            self.alpha
        } else {
            self.alpha >> SHIFT_G
        };
        let fresh = (marked << (10 - SHIFT_G)) / delivered;
        self.alpha = (self.alpha - decay + fresh as u32).min(ONE);
        self.end = ack.nxt;
        self.delivered = ack.delivered;
        self.delivered_ce = ack.delivered_ce;
    }

    fn cong_avoid(&mut self, ack: &Ack, window: &mut Window) {
        if ack.limited {
            reno::grow(growth(ack, self.byte_counting), window);
        }
    }

    fn ssthresh(&mut self, window: &Window, signal: CongestionSignal) -> u32 {
        if signal != CongestionSignal::Mark {
            return reno::half(window);
        }
        let cut = (u64::from(window.cwnd) * u64::from(self.alpha)) >> 11;
        (window.cwnd - cut as u32).max(2)
    }
}
