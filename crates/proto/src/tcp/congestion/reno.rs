//! Reno (RFC 5681; Linux's `tcp_cong.c`): one segment a round trip up, half the window down.

use super::{Ack, Config, CongestionControl, CongestionSignal, Window, growth};

/// Reno has no state but how it counts.
#[derive(Debug)]
pub(super) struct Reno {
    byte_counting: bool,
}

impl Reno {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            byte_counting: config.byte_counting,
        }
    }
}

/// Growth of RFC 5681 §3.1.
pub(super) fn grow(acked: u32, window: &mut Window) {
    let left = if window.in_slow_start() {
        window.slow_start(acked)
    } else {
        acked
    };
    if left > 0 {
        window.increase(window.cwnd, left);
    }
}

/// Half the window, at least 2.
pub(super) fn half(window: &Window) -> u32 {
    (window.cwnd / 2).max(2)
}

impl CongestionControl for Reno {
    fn cong_avoid(&mut self, ack: &Ack, window: &mut Window) {
        if ack.limited {
            grow(growth(ack, self.byte_counting), window);
        }
    }

    fn ssthresh(&mut self, window: &Window, _signal: CongestionSignal) -> u32 {
        half(window)
    }
}
