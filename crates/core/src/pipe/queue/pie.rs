//! PIE: proportional integral controller enhanced, RFC 8033.
//!
//! Theory: every `update` the probability to drop moves by α·(delay − target) + β·(delay − delay
//! before), α = 1/8 and β = 5/4 per second, scaled down while the probability is small (§4.2).
//! Packets are dropped by that probability as they come (§4.1), unless the delay is small or only
//! a couple wait. A burst passes for `max_burst` after an idle time (§4.4).
//!
//! This is the algorithm of §4 with the pseudo-code of appendix A, which takes the delay from
//! timestamps (§4.3): that of the packet which started service last, 0 while nothing waits. Of
//! the optional parts of §5 only ECN (§5.1) is in: marks in place of drops while the probability
//! is at most 10 %. Left out are the estimate of the departure rate, the switch to inactive,
//! de-randomisation and the cap on growth (§5.2 to §5.5).
//!
//! Updates fall on multiples of `update` from t = 0. There is no event for them: those that were
//! due are made up for when a packet comes or starts service, which is the same, since nothing
//! changes in between. No more than [`MAX_UPDATES`] are made up for at once, which matters only
//! where packets wait for that long without any starting service.

use super::fifo::Fifo;
use super::red::{MeanSize, unit};
use super::{Admission, Ahead, Item};
use crate::params;
use crate::rng::Stream;
use crate::time::{Span, Time};

/// Weights of the delay's error and of its change, 1/s.
const ALPHA: f64 = 0.125;
const BETA: f64 = 1.25;
/// The probability up to which ECN marks are enough (MARK_ECNTH).
const MARK_UP_TO: f64 = 0.1;
/// Updates made up for at once: a minute at the default of 15 ms.
const MAX_UPDATES: u64 = 4096;

/// A queue under PIE.
#[derive(Debug)]
pub(super) struct Pie {
    pub(super) params: params::Pie,
    mean: MeanSize,
    probability: f64,
    burst_allowance: Span,
    /// The delay of the last packet that started service; 0 once nothing waits.
    delay: Span,
    /// The delay at the last update.
    old_delay: Span,
    /// All updates up to here are made up for.
    updated: Time,
}

impl Pie {
    pub(super) fn new(params: params::Pie) -> Self {
        Self {
            params,
            mean: MeanSize::default(),
            probability: 0.0,
            burst_allowance: Span::ZERO,
            delay: Span::ZERO,
            old_delay: Span::ZERO,
            updated: Time::ZERO,
        }
    }

    pub(super) fn admit(
        &mut self,
        now: Time,
        item: &Item,
        ahead: Ahead,
        random: &mut Stream,
    ) -> Admission {
        self.catch_up(now, ahead.packets == 0);
        self.mean.see(item.bytes);
        if !ahead.has_room(item.bytes) {
            return Admission::Full;
        }
        if self.probability == 0.0 && self.is_calm(self.delay) && self.is_calm(self.old_delay) {
            self.burst_allowance = self.params.max_burst;
        }
        if self.burst_allowance > Span::ZERO || !self.hits(ahead.bytes, random) {
            return Admission::In;
        }
        if self.params.ecn && item.ecn_capable && self.probability <= MARK_UP_TO {
            return Admission::Marked;
        }
        Admission::Early
    }

    pub(super) fn dequeue(&mut self, now: Time, fifo: &mut Fifo) -> Option<Item> {
        self.catch_up(now, fifo.len() == 0);
        let item = fifo.pop()?;
        self.delay = now.since(item.entered);
        Some(item)
    }

    /// Whether the next packet is one to drop: `drop_early` of appendix A.
    fn hits(&self, waiting_bytes: u64, random: &mut Stream) -> bool {
        let calm = self.is_calm(self.old_delay) && self.probability < 0.2;
        let couple = waiting_bytes as f64 <= 2.0 * self.mean.bytes();
        !calm && !couple && unit(random) < self.probability
    }

    /// Below half the target.
    fn is_calm(&self, delay: Span) -> bool {
        delay.as_ns() < self.params.target.as_ns() / 2
    }

    /// Makes up for the updates that were due since the last packet came or went.
    fn catch_up(&mut self, now: Time, nothing_waits: bool) {
        if nothing_waits {
            self.delay = Span::ZERO;
        }
        let period = self.params.update.as_ns().max(1);
        let due = now.as_ns() / period - self.updated.as_ns() / period;
        if due == 0 {
            return;
        }
        self.updated = now;
        for _ in 0..due.min(MAX_UPDATES) {
            let before = (self.probability, self.old_delay, self.burst_allowance);
            self.update();
            if before == (self.probability, self.old_delay, self.burst_allowance) {
                return; // and so it would stay
            }
        }
    }

    /// `calculate_drop_prob` of appendix A.
    fn update(&mut self) {
        let (seconds, target) = (self.delay.as_s(), self.params.target.as_s());
        let step = ALPHA * (seconds - target) + BETA * (seconds - self.old_delay.as_s());
        let scale = match self.probability {
            p if p < 0.000_001 => 2048.0,
            p if p < 0.000_01 => 512.0,
            p if p < 0.000_1 => 128.0,
            p if p < 0.001 => 32.0,
            p if p < 0.01 => 8.0,
            p if p < 0.1 => 2.0,
            _ => 1.0,
        };
        self.probability += step / scale;
        if self.delay == Span::ZERO && self.old_delay == Span::ZERO {
            self.probability *= 0.98;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        self.old_delay = self.delay;
        self.burst_allowance = self.burst_allowance.saturating_sub(self.params.update);
    }
}
