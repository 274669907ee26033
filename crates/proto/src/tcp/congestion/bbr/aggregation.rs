//! How much more than the bandwidth explains acknowledgements deliver at once (`bbr_update_ack_aggregation`).
//!
//! Theory: receivers, links and delayed acknowledgements deliver in bursts, with silence between them. A
//! window of that much more keeps the sender sending through the silence. What an epoch has delivered beyond
//! bandwidth times time is such an excess; an epoch ends when deliveries fall behind the bandwidth. The largest
//! excess of the last 5 to 10 round trips counts, which two halves in turn remember.

use longhaul_core::time::{Span, Time};

use super::super::Ack;

/// Round trips that each half remembers (`bbr_extra_acked_win_rtts`).
const ROUNDS: u8 = 5;
/// The excess counts up to what the bandwidth delivers in this time (`bbr_extra_acked_max_us`).
const MOST: Span = Span::from_ms(100);
/// Deliveries with which an epoch ends in any case (`bbr_ack_epoch_acked_reset_thresh`).
const LONGEST: u32 = 1 << 20;

/// State of the estimate; deliveries in segments.
#[derive(Debug)]
pub(super) struct Aggregation {
    epoch_at: Time,
    delivered: u32,
    /// The largest excess of each half.
    most: [u32; 2],
    half: u8,
    rounds: u8,
}

impl Aggregation {
    pub(super) fn new(now: Time) -> Self {
        Self {
            epoch_at: now,
            delivered: 0,
            most: [0; 2],
            half: 0,
            rounds: 0,
        }
    }

    /// Starts an epoch: the flow was idle.
    pub(super) fn restart(&mut self, now: Time) {
        (self.epoch_at, self.delivered) = (now, 0);
    }

    /// Takes what `ack` delivers; `bandwidth` is in segments per second.
    pub(super) fn update(&mut self, ack: &Ack, bandwidth: f64, cwnd: u32, round_start: bool) {
        if ack.acked == 0 {
            return;
        }
        if round_start {
            self.rounds += 1;
            if self.rounds >= ROUNDS {
                self.rounds = 0;
                self.half ^= 1;
                self.most[usize::from(self.half)] = 0;
            }
        }
        let mut expected = (bandwidth * ack.now.since(self.epoch_at).as_s()) as u32;
        if self.delivered <= expected || self.delivered.saturating_add(ack.acked) >= LONGEST {
            self.restart(ack.now);
            expected = 0;
        }
        self.delivered = self.delivered.saturating_add(ack.acked).min(LONGEST - 1);
        let excess = self.delivered.saturating_sub(expected).min(cwnd);
        let most = &mut self.most[usize::from(self.half)];
        *most = (*most).max(excess);
    }

    /// Segments to add to the window (`bbr_ack_aggregation_cwnd`).
    pub(super) fn room(&self, bandwidth: f64) -> u32 {
        let most = (bandwidth * MOST.as_s()) as u32;
        self.most[0].max(self.most[1]).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::state::Phase;

    fn ack(ms: u64, acked: u32) -> Ack {
        Ack {
            now: Time::from_ns(ms * 1_000_000),
            una: 1,
            nxt: 1,
            acked,
            advanced: true,
            losses: 0,
            in_flight: 100,
            prior_in_flight: 100,
            rtt: None,
            mss: 1448,
            pace_at: Time::ZERO,
            srtt: Span::from_ms(20),
            phase: Phase::Open,
            delivered: 0,
            delivered_ce: 0,
            limited: true,
            rate: None,
        }
    }

    /// At 1,000 segments per second. Alone at its time, a segment is the only excess; bursts of 10 at 30 and 31 ms
    /// are 20 where one was expected.
    #[test]
    fn the_excess_is_what_the_bandwidth_does_not_explain() {
        let mut aggregation = Aggregation::new(Time::ZERO);
        for ms in 0..20 {
            aggregation.update(&ack(ms, 1), 1000.0, 100, false);
        }
        assert_eq!(aggregation.room(1000.0), 1);
        aggregation.update(&ack(30, 10), 1000.0, 100, false);
        assert_eq!(aggregation.room(1000.0), 10);
        aggregation.update(&ack(31, 10), 1000.0, 100, false);
        assert_eq!(aggregation.room(1000.0), 19);
        // At most what the bandwidth delivers in 100 ms, and what the window held.
        assert_eq!(aggregation.room(50.0), 5);
        aggregation.update(&ack(100, 50), 1000.0, 30, false);
        assert_eq!(aggregation.room(1000.0), 30);
    }

    /// The largest excess is remembered for 5 to 10 round trips.
    #[test]
    fn an_excess_is_forgotten_after_ten_round_trips() {
        let mut aggregation = Aggregation::new(Time::ZERO);
        aggregation.update(&ack(0, 40), 1000.0, 100, false);
        let mut rounds = 0;
        while aggregation.room(1000.0) == 40 {
            rounds += 1;
            aggregation.update(&ack(100 * rounds, 1), 1000.0, 100, true);
        }
        assert_eq!((rounds, aggregation.room(1000.0)), (10, 1));
    }
}
