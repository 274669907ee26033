//! CUBIC (RFC 9438; Linux's `tcp_cubic.c`): the window is a cubic function of the time since the
//! last reduction, W(t) = C·(t − K)³ + Wmax, so that it grows alike at all round trips.
//!
//! As in Linux the goal is the value one least round trip ahead, the window never grows faster
//! than by one segment for two acknowledged, and where Reno with CUBIC's factor of reduction
//! would have a larger window, that one is taken (RFC 9438 §4.3). As in the RFC the goal is
//! computed in floating point, not in Linux's fixed point.

use longhaul_core::time::{Span, Time};

use super::hystart::HyStart;
use super::{Ack, Config, CongestionControl, CongestionSignal, Phase, Window, growth};

/// C in segments per s³ (RFC 9438 §5).
const C: f64 = 0.4;
/// The window's part after a loss (RFC 9438 §4.6), in Linux 717/1024.
const BETA: f64 = 717.0 / 1024.0;
/// The window is computed at most this often unless it changes (Linux: a 32nd of a second).
const REFRESH: Span = Span::from_ns(31_250_000);

/// State of CUBIC.
#[derive(Debug)]
pub(super) struct Cubic {
    /// The window at the last reduction, or less (fast convergence); 0 before the first.
    last_max: f64,
    /// Start of this epoch; the end of time where it has not begun.
    epoch: Time,
    /// Time from the start of the epoch to the plateau, in s.
    k: f64,
    /// Height of the plateau.
    origin: f64,
    /// What Reno would have.
    reno: f64,
    least: Span,
    last_at: Time,
    last_cwnd: u32,
    /// Segments to be acknowledged for an increase.
    every: u32,
    hystart: Option<HyStart>,
    byte_counting: bool,
}

impl Cubic {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            last_max: 0.0,
            epoch: Time::MAX,
            k: 0.0,
            origin: 0.0,
            reno: 0.0,
            least: Span::MAX,
            last_at: Time::ZERO,
            last_cwnd: 0,
            every: 1,
            hystart: config.hystart.then(HyStart::new),
            byte_counting: config.byte_counting,
        }
    }

    fn start_epoch(&mut self, now: Time, cwnd: f64) {
        self.epoch = now;
        self.reno = cwnd;
        if self.last_max <= cwnd {
            self.k = 0.0;
            self.origin = cwnd;
        } else {
            self.k = libm::cbrt((self.last_max - cwnd) / C);
            self.origin = self.last_max;
        }
    }

    /// Computes `every` (`bictcp_update`).
    fn update(&mut self, now: Time, cwnd: u32, acked: u32) {
        let fresh = self.epoch == Time::MAX;
        let window = f64::from(cwnd);
        if fresh {
            self.start_epoch(now, window);
        }
        // Reno's window with this factor of reduction grows by 3(1 − β)/(1 + β) a round trip.
        let rise = 3.0 * (1.0 - BETA) / (1.0 + BETA);
        self.reno += rise * f64::from(acked) / window;
        let settled = self.last_cwnd == cwnd && now.since(self.last_at) <= REFRESH;
        if fresh || !settled {
            self.last_cwnd = cwnd;
            self.last_at = now;
            let ahead = if self.least == Span::MAX {
                Span::ZERO
            } else {
                self.least
            };
            let t = (now.since(self.epoch) + ahead).as_s() - self.k;
            let goal = self.origin + C * t * t * t;
            let every = if goal > window {
                window / (goal - window)
            } else {
                100.0 * window
            };
            // Before the first loss the search is not to be slow.
            let every = if self.last_max == 0.0 {
                every.min(20.0)
            } else {
                every
            };
            self.every = every as u32;
        }
        if self.reno > window {
            self.every = self.every.min((window / (self.reno - window)) as u32);
        }
        self.every = self.every.max(2);
    }
}

impl CongestionControl for Cubic {
    fn restarted(&mut self, now: Time, idle: Span, _app_limited: bool, _window: &mut Window) {
        // The window does not grow in time without sending.
        if self.epoch != Time::MAX {
            self.epoch = (self.epoch + idle).min(now);
        }
    }

    fn acked(&mut self, ack: &Ack, window: &mut Window) {
        let Some(rtt) = ack.rtt else {
            return;
        };
        // The first second after a recovery still shows its queue.
        if self.epoch != Time::MAX && ack.now.since(self.epoch) < Span::from_s(1) {
            return;
        }
        self.least = self.least.min(rtt.max(Span::from_ns(1)));
        if let Some(hystart) = &mut self.hystart
            && window.in_slow_start()
            && ack.advanced
        {
            hystart.on_ack(ack, rtt, self.least, window);
        }
    }

    fn cong_avoid(&mut self, ack: &Ack, window: &mut Window) {
        if !ack.limited {
            return;
        }
        let mut acked = growth(ack, self.byte_counting);
        if window.in_slow_start() {
            acked = window.slow_start(acked);
        }
        if acked > 0 {
            self.update(ack.now, window.cwnd, acked);
            window.increase(self.every, acked);
        }
    }

    fn ssthresh(&mut self, window: &Window, _signal: CongestionSignal) -> u32 {
        let cwnd = f64::from(window.cwnd);
        self.epoch = Time::MAX;
        // Fast convergence (RFC 9438 §4.7).
        self.last_max = if cwnd < self.last_max {
            cwnd * (1.0 + BETA) / 2.0
        } else {
            cwnd
        };
        ((cwnd * BETA) as u32).max(2)
    }

    fn phase_changed(&mut self, _now: Time, phase: Phase, _window: &mut Window) {
        if phase == Phase::Loss {
            let hystart = self.hystart.take().map(|_| HyStart::new());
            let config = Config {
                byte_counting: self.byte_counting,
                ..Config::default()
            };
            *self = Self {
                hystart,
                ..Self::new(&config)
            };
        }
    }
}
