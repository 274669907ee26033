//! Reductions of the window, their repair, and their undoing (Linux's `tcp_fastretrans_alert`).
//!
//! Theory: a loss starts Recovery (RFC 6675), a mark Cwr (RFC 3168); in both the window falls to
//! the threshold in proportion to what is delivered (PRR, RFC 6937, with the slow start bound).
//! A time-out (RFC 6298) starts Loss: all is lost, the window is one segment. Each lasts until
//! what was out at its start is acknowledged. A reduction is undone where all retransmissions
//! turn out to have been needless (RFC 3708) or the first acknowledgement answers an original
//! (Eifel, RFC 3522 and RFC 4015).
//!
//! Left out: F-RTO (RFC 5682).

use longhaul_core::time::Time;

use super::super::config::Config;
use super::super::congestion::CongestionSignal;
use super::super::scoreboard::SACKED;
use super::super::state::Phase;
use super::{Sender, Timer};

/// What an acknowledgement has brought.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct News {
    /// The lowest unacknowledged number has moved.
    pub(super) advanced: bool,
    /// Newly delivered segments.
    pub(super) delivered: u32,
    /// A duplicate acknowledgement (counts without selective acknowledgements only).
    pub(super) duplicate: bool,
    /// Marks are echoed.
    pub(super) ece: bool,
    /// The clock that is echoed, in ticks; 0 if unknown.
    pub(super) echo: u64,
}

/// The clock of RFC 7323: ticks of 1 ms, never 0.
pub(in super::super) const fn ticks(now: Time) -> u64 {
    now.as_ns() / 1_000_000 + 1
}

impl Sender {
    /// Takes `news` into the state of the sender. True where a time-out for reordering was set.
    pub(super) fn alert(&mut self, now: Time, news: News, config: &Config) -> bool {
        if news.ece {
            self.take_mark(now);
        }
        self.leave_if_done(now, news);
        let mut timer_set = false;
        if !self.board.is_empty() || self.phase >= Phase::Recovery {
            if !self.sack {
                self.count_duplicate(news);
            }
            self.undo_if_needless(now, news);
            let lost_before = self.board.lost;
            timer_set = self.detect(now, config);
            let lost = self.board.lost > lost_before || self.board.to_resend > 0;
            if lost && self.phase < Phase::Recovery {
                self.enter_recovery(now);
            }
        }
        if self.phase < Phase::Cwr {
            let calm = self.board.sacked == 0 && self.board.lost == 0;
            self.set_phase(now, if calm { Phase::Open } else { Phase::Disorder });
        }
        timer_set
    }

    fn set_phase(&mut self, now: Time, phase: Phase) {
        if self.phase != phase {
            self.phase = phase;
            self.control.phase(now, phase, &mut self.window);
        }
    }

    /// `tcp_enter_cwr`: at most once in a round trip.
    fn take_mark(&mut self, now: Time) {
        if self.phase < Phase::Cwr {
            self.undo_from = 0;
            self.prior_ssthresh = 0;
            self.start_reduction(CongestionSignal::Mark);
            self.reduced = true;
            self.set_phase(now, Phase::Cwr);
        }
    }

    fn leave_if_done(&mut self, now: Time, news: News) {
        if self.una < self.high_seq {
            return;
        }
        match self.phase {
            Phase::Open | Phase::Disorder => {}
            // One more number, so that the confirmation was sent.
            Phase::Cwr if self.una == self.high_seq => {}
            Phase::Cwr => {
                self.end_reduction();
                self.set_phase(now, Phase::Open);
            }
            Phase::Recovery | Phase::Loss => {
                let undone = self.may_undo(news) && self.undo(false);
                // Without selective acknowledgements late duplicates would start it again.
                if !self.sack && !undone && self.una == self.high_seq && !self.board.is_empty() {
                    return;
                }
                if self.phase == Phase::Recovery && !undone {
                    self.end_reduction();
                }
                self.rack.recovered();
                self.first_again = Time::MAX;
                self.set_phase(now, Phase::Open);
            }
        }
    }

    /// Each duplicate stands for a segment that has left the network (`tcp_add_reno_sack`).
    fn count_duplicate(&mut self, news: News) {
        if news.duplicate && !news.advanced {
            self.board.sacked += 1;
            let holes = self.board.lost.max(1).min(self.board.len());
            self.board.sacked = self.board.sacked.min(self.board.len() - holes);
        }
    }

    /// `tcp_may_undo`.
    fn may_undo(&self, news: News) -> bool {
        self.undo_from != 0 && (self.undo_count == 0 || self.answers_original(news))
    }

    fn answers_original(&self, news: News) -> bool {
        self.first_again != Time::MAX
            && news.advanced
            && news.echo != 0
            && news.echo < ticks(self.first_again)
    }

    fn undo_if_needless(&mut self, now: Time, news: News) {
        if self.undo_from == 0 {
            return;
        }
        let needless = match self.phase {
            Phase::Recovery => {
                self.undo_count == 0
                    || (self.answers_original(news) && self.board.retransmissions == 0)
            }
            Phase::Loss => self.may_undo(news),
            Phase::Open | Phase::Disorder => self.undo_count == 0,
            Phase::Cwr => false,
        };
        if needless && self.undo(true) {
            self.first_again = Time::MAX;
            self.set_phase(now, Phase::Open);
        }
    }

    /// Restores the window (`tcp_undo_cwnd_reduction`); always true.
    fn undo(&mut self, unmark: bool) -> bool {
        if unmark {
            self.board.unmark_lost();
        }
        if self.prior_ssthresh > 0 {
            self.window.cwnd = self.control.undo(&self.window);
            self.window.ssthresh = self.window.ssthresh.max(self.prior_ssthresh);
            self.reduced = false;
            self.undone += 1;
        }
        self.undo_from = 0;
        true
    }

    fn mark_for_undo(&mut self) {
        self.undo_from = self.una;
        let out = self.board.retransmissions as i32;
        self.undo_count = if out > 0 { out } else { -1 };
    }

    fn enter_recovery(&mut self, now: Time) {
        self.prior_ssthresh = 0;
        self.mark_for_undo();
        if self.board.retransmissions == 0 {
            self.first_again = Time::MAX;
        }
        if self.phase < Phase::Cwr {
            self.prior_ssthresh = self.window.guarded_ssthresh(self.phase);
            self.start_reduction(CongestionSignal::Loss);
            self.reduced = true;
        } else {
            self.high_seq = self.nxt;
        }
        self.set_phase(now, Phase::Recovery);
    }

    /// `tcp_init_cwnd_reduction`.
    fn start_reduction(&mut self, signal: CongestionSignal) {
        self.high_seq = self.nxt;
        self.probe_end = 0;
        self.window.count = 0;
        self.window.prior_cwnd = self.window.cwnd;
        self.prr_delivered = 0;
        self.prr_out = 0;
        self.window.ssthresh = self.control.ssthresh(&self.window, signal);
    }

    /// `tcp_end_cwnd_reduction`.
    fn end_reduction(&mut self) {
        if self.control.rules_alone() {
            return;
        }
        if self.window.ssthresh < u32::MAX && (self.phase == Phase::Cwr || self.undo_from != 0) {
            self.window.cwnd = self.window.ssthresh;
        }
    }

    /// A tail loss probe has repaired a loss: the window falls at once (`tcp_process_tlp_ack`).
    pub(super) fn reduce_for_probe(&mut self, now: Time) {
        self.undo_from = 0;
        self.start_reduction(CongestionSignal::Loss);
        self.set_phase(now, Phase::Cwr);
        self.end_reduction();
        self.set_phase(now, Phase::Open);
    }

    /// PRR: what may leave for `delivered` new deliveries (RFC 6937 §3, `tcp_cwnd_reduction`).
    pub(super) fn reduce(&mut self, news: News, newly_lost: u32) {
        if news.delivered == 0 || self.window.prior_cwnd == 0 {
            return;
        }
        let in_flight = self.board.in_flight();
        self.prr_delivered = self.prr_delivered.saturating_add(news.delivered);
        let (delivered, out) = (i64::from(self.prr_delivered), i64::from(self.prr_out));
        let ssthresh = i64::from(self.window.ssthresh);
        let room = ssthresh - i64::from(in_flight);
        let mut send = if room < 0 {
            let prior = i64::from(self.window.prior_cwnd);
            (ssthresh * delivered + prior - 1) / prior - out
        } else {
            let grow = i64::from(news.advanced && newly_lost == 0);
            (delivered - out)
                .max(i64::from(news.delivered) + grow)
                .min(room)
        };
        // The first retransmission always leaves.
        send = send.max(i64::from(out == 0));
        self.window.cwnd = in_flight.saturating_add(send.max(0) as u32).max(1);
    }

    /// A retransmission time-out: `tcp_enter_loss`.
    pub(super) fn timeout(&mut self, now: Time) {
        self.timeouts += 1;
        let first_in_window = self.phase <= Phase::Disorder
            || self.una >= self.high_seq
            || (self.phase == Phase::Loss && self.retries == 0);
        if self.board.first().is_some_and(|first| first.is(SACKED)) {
            self.board.renege();
        }
        if !self.sack {
            self.board.sacked = 0;
        }
        self.board.mark_all_lost();
        if first_in_window {
            self.prior_ssthresh = self.window.guarded_ssthresh(self.phase);
            self.window.prior_cwnd = self.window.cwnd;
            self.window.ssthresh = self
                .control
                .ssthresh(&self.window, CongestionSignal::Timeout);
            self.mark_for_undo();
            self.first_again = Time::MAX;
        }
        self.window.cwnd = self.board.in_flight() + 1;
        self.window.count = 0;
        self.high_seq = self.nxt;
        self.probe_end = 0;
        self.reduced = self.ecn != super::EcnUse::Off;
        self.retries = self.retries.saturating_add(1);
        self.set_phase(now, Phase::Loss);
    }

    /// The time for reordering is over (`tcp_rack_reo_timeout`).
    pub(super) fn reorder_timeout(&mut self, now: Time, config: &Config) {
        let timer_set = self.detect(now, config);
        if self.board.to_resend > 0 && self.phase < Phase::Recovery {
            self.enter_recovery(now);
        }
        if self.board.to_resend > 0 && self.phase == Phase::Recovery && !self.control.rules_alone()
        {
            // `tcp_cwnd_reduction(sk, 1, 0, 0)`
            let one = News {
                delivered: 1,
                ..News::default()
            };
            self.reduce(one, 1);
        }
        if !timer_set {
            self.timer = Timer::Reorder;
            self.arm_retransmit(now, config);
        }
    }
}
