//! What is lost: by time (RACK, RFC 8985; Linux's `tcp_recovery.c`), by counting (RFC 6675), or
//! by duplicate acknowledgements (RFC 6582).
//!
//! Theory of RACK: of two segments, if the later sent one is delivered and a round trip and a
//! window for reordering have passed since the earlier was sent, the earlier is lost. This holds
//! for retransmissions too. The window is zero until reordering has been seen and three segments
//! are selectively acknowledged; afterwards it is a quarter of the least round trip, more where
//! duplicates show that this was too short.

use longhaul_core::time::{Span, Time};

use super::super::config::Config;
use super::super::scoreboard::EVER_RESENT;
use super::super::scoreboard::Sent;
use super::super::state::Phase;
use super::{Sender, Timer};

/// Segments acknowledged behind a hole that make it a loss (`tcp_reordering`).
const REORDERING: u32 = 3;
/// Recoveries for which a widened window stays (`TCP_RACK_RECOVERY_THRESH`).
const PERSISTENCE: u8 = 16;

/// State of RACK.
#[derive(Debug, Default)]
pub(super) struct Rack {
    /// Of the segment delivered last by time of sending: that time and the number behind it.
    at: Time,
    end: u64,
    /// Its round trip.
    rtt: Span,
    /// The window is widened at most once until this number is acknowledged.
    widened: u64,
    /// Quarters of the least round trip; 0 means 1.
    steps: u8,
    persistence: u8,
    /// Reordering was seen.
    pub(super) reordered: bool,
}

impl Rack {
    /// Learns that `sent` was delivered (RFC 8985 §6.2 step 2).
    pub(super) fn delivered(&mut self, sent: &Sent, now: Time, least: Option<Span>) {
        let rtt = now.since(sent.at);
        // Too fast for the retransmission: this acknowledges the original, whose time is unknown.
        if sent.is(EVER_RESENT) && least.is_some_and(|least| rtt < least) {
            return;
        }
        self.rtt = rtt;
        if (sent.at, sent.end()) > (self.at, self.end) {
            (self.at, self.end) = (sent.at, sent.end());
        }
    }

    /// A duplicate arrived: the window was too short (§6.2 step 4).
    pub(super) fn widen(&mut self, una: u64, nxt: u64) {
        if una > self.widened {
            self.steps = self.steps.max(1).saturating_add(1);
            self.persistence = PERSISTENCE;
            self.widened = nxt;
        }
    }

    /// A recovery is over: a widened window lasts for some of them.
    pub(super) fn recovered(&mut self) {
        self.persistence = self.persistence.saturating_sub(1);
        if self.persistence == 0 {
            self.steps = 1;
        }
    }
}

impl Sender {
    /// Marks lost segments by whichever method the connection uses. True if a time-out for reordering was
    /// set.
    pub(super) fn detect(&mut self, now: Time, config: &Config) -> bool {
        if !self.sack {
            let full = self.board.sacked >= REORDERING || self.phase >= Phase::Recovery;
            let first_untouched = self
                .board
                .first()
                .is_some_and(|first| !first.is(EVER_RESENT));
            if full && first_untouched {
                self.board.mark_lost(0);
            }
            return false;
        }
        if config.rack {
            return self.detect_by_time(now);
        }
        self.detect_by_count();
        false
    }

    /// How much longer than a round trip a segment may take (RFC 8985 §6.2 step 4).
    fn reordering_window(&self) -> Span {
        let repairing = self.phase >= Phase::Recovery || self.board.sacked >= REORDERING;
        if !self.rack.reordered && repairing {
            return Span::ZERO;
        }
        let least = self.rtt.least().unwrap_or_default().as_ns() / 4;
        let window = least.saturating_mul(u64::from(self.rack.steps.max(1)));
        Span::from_ns(window.min(self.rtt.srtt().as_ns()))
    }

    /// RFC 8985 §6.2 step 5. Originals and retransmissions are each in the order of their sending, so each
    /// walk stops at the first segment that is not yet overdue.
    fn detect_by_time(&mut self, now: Time) -> bool {
        let latest = (self.rack.at, self.rack.end);
        let overdue_after = self.rack.rtt + self.reordering_window();
        let mut wait = Time::MAX;
        while let Some(index) = self.board.oldest_original()
            && let Some(sent) = self.board.get(index)
            && (sent.at, sent.end()) < latest
        {
            if sent.at + overdue_after > now {
                wait = wait.min(sent.at + overdue_after);
                break;
            }
            self.board.mark_lost(index);
        }
        while let Some((index, at)) = self.board.oldest_resent()
            && let Some(sent) = self.board.get(index)
            && (at, sent.end()) < latest
        {
            if at + overdue_after > now {
                wait = wait.min(at + overdue_after);
                break;
            }
            self.board.mark_lost(index);
        }
        if wait == Time::MAX {
            return false;
        }
        self.set_timer(Timer::Reorder, wait);
        true
    }

    /// RFC 6675 §4: three segments behind it are selectively acknowledged.
    fn detect_by_count(&mut self) {
        let mut index = self.board.index_from(self.board.highest);
        let mut behind = 0;
        while behind < REORDERING {
            let Some(before) = index.checked_sub(1) else {
                return;
            };
            index = before;
            let sacked = self
                .board
                .get(index)
                .is_some_and(|s| s.is(super::super::scoreboard::SACKED));
            behind += u32::from(sacked);
        }
        let bound = self.board.get(index).map_or(0, |sent| sent.seq);
        while let Some(index) = self.board.oldest_original()
            && self.board.get(index).is_some_and(|sent| sent.seq < bound)
        {
            self.board.mark_lost(index);
        }
    }
}
