//! Reductions of the window, their repair, and their undoing (Linux's `tcp_fastretrans_alert`).
//!
//! Theory: a loss starts Recovery (RFC 6675), a mark Cwr (RFC 3168); in both the window falls to
//! the threshold in proportion to what is delivered (PRR, RFC 6937, with the slow start bound).
//! A time-out (RFC 6298) starts Loss: everything outstanding is marked lost, the window is one segment.
//! Each phase lasts until everything outstanding at its start is acknowledged. A reduction is undone if
//! all retransmissions turn out to have been needless (RFC 3708) or the first acknowledgement answers an original
//! (Eifel, RFC 3522 and RFC 4015).
//!
//! Left out: F-RTO (RFC 5682).

use longhaul_core::time::Time;

use super::super::config::Config;
use super::super::congestion::CongestionSignal;
use super::super::scoreboard::SACKED;
use super::super::state::Phase;
use super::{Sender, Timer};

/// What an acknowledgement has changed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AckOutcome {
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
    /// Moves the sender's state machine by `outcome`. True if a time-out for reordering was set.
    pub(super) fn alert(&mut self, now: Time, outcome: AckOutcome, config: &Config) -> bool {
        if outcome.ece {
            self.enter_cwr(now);
        }
        self.leave_phase_if_done(now, outcome);
        let mut timer_set = false;
        if !self.board.is_empty() || self.phase >= Phase::Recovery {
            if !self.sack {
                self.count_duplicate(outcome);
            }
            self.undo_if_needless(now, outcome);
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
            self.control.phase_changed(now, phase, &mut self.window);
        }
    }

    /// `tcp_enter_cwr`: at most once in a round trip.
    fn enter_cwr(&mut self, now: Time) {
        if self.phase < Phase::Cwr {
            self.undo_from = 0;
            self.prior_ssthresh = 0;
            self.start_reduction(CongestionSignal::Mark);
            self.reduced = true;
            self.set_phase(now, Phase::Cwr);
        }
    }

    /// Ends a reduction once everything outstanding at its start (`high_seq`) is acknowledged.
    fn leave_phase_if_done(&mut self, now: Time, outcome: AckOutcome) {
        if self.una < self.high_seq {
            return;
        }
        match self.phase {
            Phase::Open | Phase::Disorder => {}
            // Stay until a number beyond is acknowledged: that segment carried CWR to the receiver.
            Phase::Cwr if self.una == self.high_seq => {}
            Phase::Cwr => {
                self.end_reduction();
                self.set_phase(now, Phase::Open);
            }
            Phase::Recovery | Phase::Loss => {
                let undone = self.may_undo(outcome) && self.undo(false);
                // Without selective acknowledgements, late duplicates of this recovery would start another
                // (RFC 6582 §3.2): stay until a number beyond is acknowledged.
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

    /// Each duplicate acknowledgement means that a segment has left the network (`tcp_add_reno_sack`).
    fn count_duplicate(&mut self, outcome: AckOutcome) {
        if outcome.duplicate && !outcome.advanced {
            self.board.sacked += 1;
            let holes = self.board.lost.max(1).min(self.board.len());
            self.board.sacked = self.board.sacked.min(self.board.len() - holes);
        }
    }

    /// `tcp_may_undo`.
    fn may_undo(&self, outcome: AckOutcome) -> bool {
        self.undo_from != 0 && (self.undo_count == 0 || self.answers_original(outcome))
    }

    /// Whether the acknowledgement answers an original, not its retransmission: it echoes a timestamp from
    /// before the first retransmission (Eifel, RFC 3522).
    fn answers_original(&self, outcome: AckOutcome) -> bool {
        self.first_again != Time::MAX
            && outcome.advanced
            && outcome.echo != 0
            && outcome.echo < ticks(self.first_again)
    }

    /// Undoes the reduction if every retransmission proved needless.
    fn undo_if_needless(&mut self, now: Time, outcome: AckOutcome) {
        if self.undo_from == 0 {
            return;
        }
        let needless = match self.phase {
            Phase::Recovery => {
                self.undo_count == 0
                    || (self.answers_original(outcome) && self.board.retransmissions == 0)
            }
            Phase::Loss => self.may_undo(outcome),
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

    /// `tcp_init_undo`: counts the retransmissions that duplicates have yet to prove needless; −1 for none,
    /// so that "none" differs from "all proven needless".
    fn init_undo(&mut self) {
        self.undo_from = self.una;
        let out = self.board.retransmissions as i32;
        self.undo_count = if out > 0 { out } else { -1 };
    }

    /// `tcp_enter_recovery`. During Cwr the window is being reduced already, so it is not reduced again.
    fn enter_recovery(&mut self, now: Time) {
        self.prior_ssthresh = 0;
        self.init_undo();
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
        if self.control.controls_cwnd() {
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
    pub(super) fn reduce(&mut self, outcome: AckOutcome, newly_lost: u32) {
        if outcome.delivered == 0 || self.window.prior_cwnd == 0 {
            return;
        }
        let in_flight = self.board.in_flight();
        self.prr_delivered = self.prr_delivered.saturating_add(outcome.delivered);
        let (delivered, out) = (i64::from(self.prr_delivered), i64::from(self.prr_out));
        let ssthresh = i64::from(self.window.ssthresh);
        let room = ssthresh - i64::from(in_flight);
        let mut send = if room < 0 {
            let prior = i64::from(self.window.prior_cwnd);
            (ssthresh * delivered + prior - 1) / prior - out
        } else {
            let grow = i64::from(outcome.advanced && newly_lost == 0);
            (delivered - out)
                .max(i64::from(outcome.delivered) + grow)
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
            self.init_undo();
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
        if self.board.to_resend > 0
            && self.phase == Phase::Recovery
            && !self.control.controls_cwnd()
        {
            // `tcp_cwnd_reduction(sk, 1, 0, 0)`
            let one = AckOutcome {
                delivered: 1,
                ..AckOutcome::default()
            };
            self.reduce(one, 1);
        }
        if !timer_set {
            self.timer = Timer::Reorder;
            self.arm_retransmit(now, config);
        }
    }
}
