//! The sender's one timer: what it waits for in turn, and what follows.

use longhaul_core::time::{Span, Time};

use super::super::config::Config;
use super::super::scoreboard::Board;
use super::super::state::Phase;
use super::{Forced, Sender};

/// What the one timer is set for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Timer {
    None,
    Retransmit,
    LossProbe,
    Reorder,
    Persist,
}

impl Sender {
    pub(in super::super) fn stop_timer(&mut self) {
        self.timer = Timer::None;
        self.timer_at = Time::MAX;
    }

    /// Nothing will be sent any more.
    pub(in super::super) fn halt(&mut self) {
        self.stop_timer();
        self.waits_for_pace = false;
        self.forced = Forced::Nothing;
        self.board = Board::default();
    }

    pub(in super::super) fn set_timer(&mut self, timer: Timer, at: Time) {
        self.timer = timer;
        self.timer_at = at;
    }

    /// RFC 6298 §5.1 to 5.3; a time-out that other uses of the timer have hidden counts from
    /// when the first segment left (`tcp_rearm_rto`).
    pub(super) fn arm_retransmit(&mut self, now: Time, config: &Config) {
        let Some(first) = self.board.first() else {
            return self.stop_timer();
        };
        let rto = self.rto(config);
        let hidden = matches!(self.timer, Timer::LossProbe | Timer::Reorder);
        let at = if hidden {
            (first.at + rto).max(now + Span::from_ns(1))
        } else {
            now + rto
        };
        self.set_timer(Timer::Retransmit, at);
    }

    /// RFC 8985 §7.2, `tcp_schedule_loss_probe`: two round trips after the last sending, in place of
    /// a time-out that would come first.
    pub(super) fn arm_loss_probe(&mut self, now: Time, config: &Config) {
        let calm = matches!(self.phase, Phase::Open | Phase::Cwr);
        if !config.tlp || !self.sack || !calm || self.board.is_empty() || self.board.sacked > 0 {
            return;
        }
        if self.timer != Timer::Retransmit {
            return;
        }
        let srtt = self.rtt.srtt();
        let slack = if self.board.len() == 1 {
            config.rto_min
        } else {
            Span::from_ms(2)
        };
        let wait = match srtt {
            Span::ZERO => config.rto_initial,
            srtt => srtt + srtt + slack,
        };
        self.set_timer(Timer::LossProbe, self.timer_at.min(now + wait));
    }

    pub(super) fn arm_persist(&mut self, now: Time, config: &Config) {
        let wait = self.rto(config).max(config.rto_min);
        self.set_timer(Timer::Persist, now + wait);
    }

    /// When something is to be done.
    pub(in super::super) fn poll_timeout(&self) -> Time {
        if self.waits_for_pace {
            self.timer_at.min(self.pace_at)
        } else {
            self.timer_at
        }
    }

    /// Does what is due. False where the other side is to be given up.
    pub(in super::super) fn handle_timeout(&mut self, now: Time, config: &Config) -> bool {
        if self.pace_at <= now {
            self.waits_for_pace = false;
        }
        if self.timer_at > now {
            return true;
        }
        let timer = self.timer;
        self.timer_at = Time::MAX;
        match timer {
            Timer::None => {}
            Timer::LossProbe => self.forced = Forced::LossProbe,
            Timer::Reorder => self.reorder_timeout(now, config),
            Timer::Retransmit | Timer::Persist if self.retries >= config.retries2 => return false,
            Timer::Persist => {
                self.retries += 1;
                self.forced = Forced::WindowProbe;
            }
            Timer::Retransmit => {
                self.timeout(now);
                self.forced = Forced::First;
                self.back_off();
                self.timer = Timer::None;
                self.arm_retransmit(now, config);
            }
        }
        true
    }
}
