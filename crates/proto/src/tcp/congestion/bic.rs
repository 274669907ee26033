//! BIC (Xu, Harfoush and Rhee, INFOCOM 2004; Linux's `tcp_bic.c`): binary search for the window
//! at which the last loss came, at most 16 segments a round trip, then probing beyond it.
//!
//! Left out: the kernel's estimate of acknowledgements per segment, as growth counts segments.

use longhaul_core::time::{Span, Time};

use super::{Ack, Config, CongestionControl, CongestionSignal, Phase, Window, growth};

/// Below this window BIC is Reno.
const LOW_WINDOW: u32 = 14;
/// Most segments a round trip.
const MAX_INCREMENT: u32 = 16;
/// The window's part after a loss is `BETA / SCALE`: 0.8.
const BETA: u64 = 819;
const SCALE: u64 = 1024;
/// The search halves the distance to the goal in `B / 2` round trips.
const B: u32 = 4;
/// Round trips spent near the goal.
const SMOOTH_PART: u32 = 20;
/// The increase is computed at most this often.
const REFRESH: Span = Span::from_ns(31_250_000);

/// State of BIC.
#[derive(Debug)]
pub(super) struct Bic {
    byte_counting: bool,
    /// The window at the last loss; 0 before the first.
    last_max: u32,
    last_cwnd: u32,
    last_at: Time,
    /// Segments to be acknowledged for an increase; 0 to be computed.
    every: u32,
}

impl Bic {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            byte_counting: config.byte_counting,
            last_max: 0,
            last_cwnd: 0,
            last_at: Time::ZERO,
            every: 0,
        }
    }

    fn update(&mut self, now: Time, cwnd: u32) {
        if self.every > 0 && self.last_cwnd == cwnd && now.since(self.last_at) <= REFRESH {
            return;
        }
        self.last_cwnd = cwnd;
        self.last_at = now;
        let mut every = match cwnd {
            cwnd if cwnd <= LOW_WINDOW => cwnd,
            cwnd if cwnd < self.last_max => {
                let step = (self.last_max - cwnd) / B;
                match step {
                    step if step > MAX_INCREMENT => cwnd / MAX_INCREMENT,
                    0 | 1 => cwnd.saturating_mul(SMOOTH_PART) / B,
                    step => cwnd / step,
                }
            }
            cwnd => {
                let beyond = cwnd - self.last_max;
                if beyond < B {
                    cwnd.saturating_mul(SMOOTH_PART) / B
                } else if beyond < MAX_INCREMENT * (B - 1) {
                    cwnd.saturating_mul(B - 1) / beyond
                } else {
                    cwnd / MAX_INCREMENT
                }
            }
        };
        if self.last_max == 0 {
            every = every.min(20);
        }
        self.every = every.max(1);
    }
}

impl CongestionControl for Bic {
    fn cong_avoid(&mut self, ack: &Ack, window: &mut Window) {
        if !ack.limited {
            return;
        }
        let mut acked = growth(ack, self.byte_counting);
        if window.in_slow_start() {
            acked = window.slow_start(acked);
        }
        if acked > 0 {
            self.update(ack.now, window.cwnd);
            window.increase(self.every, acked);
        }
    }

    fn ssthresh(&mut self, window: &Window, _signal: CongestionSignal) -> u32 {
        let cwnd = u64::from(window.cwnd);
        // Fast convergence: a flow whose goal falls makes room for others.
        let goal = if window.cwnd < self.last_max {
            cwnd * (SCALE + BETA) / (2 * SCALE)
        } else {
            cwnd
        };
        self.last_max = goal as u32;
        self.every = 0;
        let part = if window.cwnd <= LOW_WINDOW {
            cwnd / 2
        } else {
            cwnd * BETA / SCALE
        };
        (part as u32).max(2)
    }

    fn phase_changed(&mut self, _now: Time, phase: Phase, _window: &mut Window) {
        if phase == Phase::Loss {
            *self = Self {
                byte_counting: self.byte_counting,
                ..Self::new(&Config::default())
            };
        }
    }
}
