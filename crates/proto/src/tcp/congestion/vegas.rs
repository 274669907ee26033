//! Vegas (Brakmo, O'Malley and Peterson, SIGCOMM 1994; Linux's `tcp_vegas.c`): the window is
//! moved by one a round trip so that 2 to 4 of its segments wait in queues.

use longhaul_core::time::{Span, Time};

use super::{Ack, CongestionControl, CongestionSignal, Phase, Window, reno};

/// Segments that are to wait, at least.
const ALPHA: u64 = 2;
/// Segments that are to wait, at most.
const BETA: u64 = 4;
/// Segments that wait when slow start ends.
const GAMMA: u64 = 1;

/// State of Vegas; all spans are `None` where nothing was measured.
#[derive(Debug, Default)]
pub(super) struct Vegas {
    /// Least round trip ever.
    base: Option<Span>,
    /// Least round trip of this round.
    least: Option<Span>,
    samples: u32,
    /// The round ends when this number is acknowledged.
    end: u64,
    /// Not measuring: something is being repaired.
    off: bool,
}

impl Vegas {
    fn adjust(&self, acked: u32, window: &mut Window) {
        let (Some(base), Some(least)) = (self.base, self.least) else {
            return reno::grow(acked, window);
        };
        let (base, rtt) = (base.as_ns().max(1), least.as_ns().max(1));
        let cwnd = u64::from(window.cwnd);
        let target =
            u64::try_from(u128::from(cwnd) * u128::from(base) / u128::from(rtt)).unwrap_or(cwnd);
        let excess = u128::from(cwnd) * u128::from(rtt - base) / u128::from(base);
        let waiting = u64::try_from(excess).unwrap_or(u64::MAX);
        let lowered = window.ssthresh.min(window.cwnd.saturating_sub(1)).max(2);
        if waiting > GAMMA && window.in_slow_start() {
            window.cwnd = window.cwnd.min(target as u32 + 1);
            window.ssthresh = lowered;
        } else if window.in_slow_start() {
            window.slow_start(acked);
        } else if waiting > BETA {
            window.cwnd -= 1;
            window.ssthresh = lowered;
        } else if waiting < ALPHA {
            window.cwnd = window.cwnd.saturating_add(1);
        }
        window.cwnd = window.cwnd.max(2);
        window.ssthresh = window.guarded_ssthresh(Phase::Open);
    }
}

impl CongestionControl for Vegas {
    fn restarted(&mut self, _now: Time, _idle: Span, _app_limited: bool, _window: &mut Window) {
        *self = Self {
            base: self.base,
            ..Self::default()
        };
    }

    fn acked(&mut self, ack: &Ack, _window: &mut Window) {
        if let Some(rtt) = ack.rtt {
            self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
            self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
            self.samples += 1;
        }
    }

    fn cong_avoid(&mut self, ack: &Ack, window: &mut Window) {
        if self.off {
            return reno::grow(ack.acked, window);
        }
        if ack.una <= self.end {
            if window.in_slow_start() {
                window.slow_start(ack.acked);
            }
            return;
        }
        self.end = ack.nxt;
        // Two samples may both be of delayed acknowledgements.
        if self.samples <= 2 {
            reno::grow(ack.acked, window);
        } else {
            self.adjust(ack.acked, window);
        }
        self.samples = 0;
        self.least = None;
    }

    fn ssthresh(&mut self, window: &Window, _signal: CongestionSignal) -> u32 {
        reno::half(window)
    }

    fn phase_changed(&mut self, _now: Time, phase: Phase, _window: &mut Window) {
        self.off = phase != Phase::Open;
        self.samples = 0;
        self.least = None;
    }
}
