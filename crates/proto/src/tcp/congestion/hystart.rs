//! HyStart (Ha and Rhee, PFLDnet 2008; as in Linux's `tcp_cubic.c`): the end of slow start before
//! a queue overflows.
//!
//! Theory: two signs. Acknowledgements that follow each other within 2 ms form a train; when the
//! train of a round has lasted for half the least round trip, the path is half full with one
//! window. Or the least of the first 8 round trips of a round exceeds the least ever by an
//! eighth of it, 4 ms at least and 16 ms at most: a queue builds up.

use longhaul_core::time::{Span, Time};

use super::{Ack, Window};

/// Below this window, HyStart does not check.
const LOW_WINDOW: u32 = 16;
/// Acknowledgements no further apart form a train.
const TRAIN_GAP: Span = Span::from_ms(2);
/// Round-trip samples used in a round.
const SAMPLES: u8 = 8;

/// State of a round.
#[derive(Debug)]
pub(super) struct HyStart {
    round_start: Time,
    last_ack: Time,
    /// The round ends when this number is acknowledged.
    end: u64,
    least: Span,
    samples: u8,
}

impl HyStart {
    pub(super) fn new() -> Self {
        Self {
            round_start: Time::ZERO,
            last_ack: Time::ZERO,
            end: 0,
            least: Span::MAX,
            samples: 0,
        }
    }

    fn start_round(&mut self, ack: &Ack) {
        *self = Self {
            round_start: ack.now,
            last_ack: ack.now,
            end: ack.nxt,
            ..Self::new()
        };
    }

    /// Looks at an acknowledgement in slow start with its round trip; `least` is the least ever.
    /// Sets the threshold where slow start should end.
    pub(super) fn look(&mut self, ack: &Ack, rtt: Span, least: Span, window: &mut Window) {
        if ack.una > self.end {
            self.start_round(ack);
        }
        if window.cwnd < LOW_WINDOW {
            return;
        }
        let mut found = false;
        if ack.now.since(self.last_ack) <= TRAIN_GAP {
            self.last_ack = ack.now;
            found = ack.now.since(self.round_start).as_ns() > least.as_ns() / 2;
        }
        self.least = self.least.min(rtt);
        if self.samples < SAMPLES {
            self.samples += 1;
        } else {
            let allowed =
                Span::from_ns(least.as_ns() / 8).clamp(Span::from_ms(4), Span::from_ms(16));
            found |= self.least > least + allowed;
        }
        if found {
            window.ssthresh = window.cwnd;
        }
    }
}
