//! Congestion control: one small trait, one file for each algorithm.
//!
//! Theory: the sender detects losses and their repair; an algorithm decides how far the window
//! falls and how it grows, as Linux's `tcp_congestion_ops` does. All windows are in segments. The window is
//! kept by the sender, so that reductions (PRR, time-outs, undoing) are the same for all algorithms. An
//! algorithm that controls the window itself (BBR) is exempt from them.

mod bbr;
mod bic;
mod cubic;
mod dctcp;
mod hystart;
mod reno;
mod vegas;

use std::fmt::Debug;

use longhaul_core::time::{Span, Time};

use super::config::{Algorithm, Config};
use super::state::Phase;

/// The congestion signal after which the slow start threshold is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CongestionSignal {
    /// A segment is lost.
    Loss,
    /// A time-out.
    Timeout,
    /// An echoed mark.
    Mark,
}

/// The sender's window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Congestion window.
    pub cwnd: u32,
    /// Slow start threshold; `u32::MAX` before the first reduction.
    pub ssthresh: u32,
    /// Segments counted towards the next increase.
    pub count: u32,
    /// The window before the last reduction.
    pub prior_cwnd: u32,
}

impl Window {
    /// The first window.
    pub fn new(config: &Config) -> Self {
        Self {
            cwnd: config.initcwnd.clamp(1, config.cwnd_clamp.max(1)),
            ssthresh: config.init_ssthresh,
            count: 0,
            prior_cwnd: 0,
        }
    }

    /// Whether the window is below the threshold.
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Grows by `acked` up to the threshold; returns what is left (`tcp_slow_start`).
    pub fn slow_start(&mut self, acked: u32) -> u32 {
        let grown = self.cwnd.saturating_add(acked).min(self.ssthresh);
        let used = grown - self.cwnd;
        self.cwnd = grown;
        acked - used
    }

    /// Grows by one for each `every` segments acknowledged (`tcp_cong_avoid_ai`).
    pub fn increase(&mut self, every: u32, acked: u32) {
        let every = every.max(1);
        if self.count >= every {
            self.count = 0;
            self.cwnd = self.cwnd.saturating_add(1);
        }
        self.count = self.count.saturating_add(acked);
        if self.count >= every {
            self.cwnd = self.cwnd.saturating_add(self.count / every);
            self.count %= every;
        }
    }

    /// The threshold to come back to (`tcp_current_ssthresh`).
    pub(super) fn guarded_ssthresh(&self, phase: Phase) -> u32 {
        if matches!(phase, Phase::Cwr | Phase::Recovery) {
            return self.ssthresh;
        }
        self.ssthresh.max(self.cwnd / 2 + self.cwnd / 4)
    }
}

/// A delivery rate sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Segments delivered in `interval`.
    pub delivered: u32,
    /// The longer of the times in which they were sent and acknowledged; not zero.
    pub interval: Span,
    /// Segments delivered at its start.
    pub prior_delivered: u64,
    /// The application, not the path, may have been the limit.
    pub app_limited: bool,
}

/// What an algorithm gets from an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// Now.
    pub now: Time,
    /// The lowest number not acknowledged.
    pub una: u64,
    /// The next number to be sent.
    pub nxt: u64,
    /// Segments newly delivered.
    pub acked: u32,
    /// Whether `una` has moved.
    pub advanced: bool,
    /// Segments newly marked lost.
    pub losses: u32,
    /// Segments in the network, now.
    pub in_flight: u32,
    /// Segments in the network before this acknowledgement.
    pub prior_in_flight: u32,
    /// Round trip of the last segment delivered, if it was sent once.
    pub rtt: Option<Span>,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// When pacing lets the next segment leave.
    pub pace_at: Time,
    /// Smoothed round trip.
    pub srtt: Span,
    /// The sender's phase.
    pub phase: Phase,
    /// Segments delivered in all.
    pub delivered: u64,
    /// Of them, those acknowledged with an echoed mark.
    pub delivered_ce: u64,
    /// Whether the window, not the application, is the limit.
    pub limited: bool,
    /// Delivery rate.
    pub rate: Option<Rate>,
}

/// An algorithm. Methods come in the order of a sender's life; all but two may be left out.
pub trait CongestionControl: Debug + Send {
    /// The handshake is done and has given this round trip (zero if none).
    fn connected(&mut self, _srtt: Span, _window: &Window) {}

    /// The connection has been idle for `idle` and sends again.
    fn restarted(&mut self, _now: Time, _idle: Span, _app_limited: bool, _window: &mut Window) {}

    /// An acknowledgement, before losses and reductions are derived from it.
    fn acked(&mut self, _ack: &Ack, _window: &mut Window) {}

    /// The window may grow: no reduction is under way, and new data are acknowledged (`cong_avoid`). For an
    /// algorithm that controls the window itself: each acknowledgement (`cong_control`).
    fn cong_avoid(&mut self, ack: &Ack, window: &mut Window);

    /// The threshold after `signal`.
    fn ssthresh(&mut self, window: &Window, signal: CongestionSignal) -> u32;

    /// The sender's phase has changed.
    fn phase_changed(&mut self, _now: Time, _phase: Phase, _window: &mut Window) {}

    /// The window after a reduction that was needless.
    fn undo(&mut self, window: &Window) -> u32 {
        window.cwnd.max(window.prior_cwnd)
    }

    /// Whether the algorithm controls the window itself, in recovery too.
    fn controls_cwnd(&self) -> bool {
        false
    }

    /// Whether the algorithm limits the flow at present, so that delivery rates say nothing about the path.
    fn distorts_rate_samples(&self) -> bool {
        false
    }

    /// Segments per second, where sends are to be spread.
    fn pacing(&self) -> Option<f64> {
        None
    }
}

/// The algorithm that `config` names; `seed` is for those that draw.
pub(super) fn new(config: &Config, seed: u64) -> Box<dyn CongestionControl> {
    match config.congestion {
        Algorithm::Reno => Box::new(reno::Reno::new(config)),
        Algorithm::Bic => Box::new(bic::Bic::new(config)),
        Algorithm::Cubic => Box::new(cubic::Cubic::new(config)),
        Algorithm::Bbr => Box::new(bbr::Bbr::new(config, seed)),
        Algorithm::Vegas => Box::new(vegas::Vegas::default()),
        Algorithm::Dctcp => Box::new(dctcp::Dctcp::new(config)),
    }
}

/// What an acknowledgement counts for in growth.
fn growth(ack: &Ack, byte_counting: bool) -> u32 {
    if byte_counting {
        ack.acked
    } else {
        ack.acked.min(1)
    }
}

#[cfg(test)]
mod tests {
    use std::mem::size_of_val;

    use super::*;

    /// What an endpoint holds on the heap for good; see `docs/tcp-model.md`.
    #[test]
    fn algorithms_are_small() {
        for (name, congestion) in Algorithm::ALL {
            let config = Config {
                congestion,
                ..Config::default()
            };
            let size = size_of_val(&*new(&config, 1));
            assert_eq!(congestion.name(), name);
            println!("{name}: {size} bytes");
            assert!(size <= 256, "{name}: {size}");
        }
    }

    /// One for each window acknowledged, however the acknowledgements come.
    #[test]
    fn increases_carry_their_remainders() {
        for step in [1, 2, 3, 7, 25] {
            let mut window = Window::new(&Config::default());
            (0..(10 + 11 + 12 + 13 + 14) / step).for_each(|_| window.increase(window.cwnd, step));
            assert!((14..=15).contains(&window.cwnd), "{step}: {}", window.cwnd);
        }
    }
}
