//! The sending half: what may leave and when, and its timers.
//!
//! Theory: a segment may leave while the network holds fewer segments than the congestion window
//! (RFC 5681) and its end lies in the other side's window; lost ones go before new ones (RFC 6675
//! §5, Linux's `tcp_output.c`). As the count leaves out what is selectively acknowledged, each
//! duplicate acknowledgement lets a new segment leave before losses are known: limited transmit
//! (RFC 3042). One timer serves in turn as retransmission time-out (RFC 6298), tail loss probe,
//! reordering time-out (RFC 8985) and probe of a closed window (RFC 9293 §3.8.6.1).
//!
//! `ack.rs` processes acknowledgements, `recovery.rs` reduces and restores the window, `rack.rs`
//! detects losses, `timer.rs` handles the timer.

mod ack;
mod rack;
mod recovery;
mod timer;

use longhaul_core::time::{Span, Time};

use super::config::Config;
use super::congestion::{self, CongestionControl, Window};
use super::rtt::Rtt;
use super::scoreboard::{APP_LIMITED, Board, FIN, Sent};
use super::segment::Segment;
use super::state::Phase;
use rack::Rack;
pub(super) use recovery::ticks;
pub(super) use timer::Timer;

/// Room for windows that no sender may pass; keeps sums of numbers far from overflow.
const MAX_WRITTEN: u64 = 1 << 62;

/// What a timer has decided to send whatever the windows say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forced {
    Nothing,
    First,
    LossProbe,
    WindowProbe,
}

/// How far the stream's end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fin {
    Open,
    Wanted,
    Sent,
}

/// How this end uses ECN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EcnUse {
    Off,
    /// New data are sent as capable (RFC 3168).
    Data,
    /// All segments are (RFC 8257, as Linux sends them).
    All,
}

/// A segment to be sent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Outgoing {
    pub(super) seq: u64,
    pub(super) len: u32,
    pub(super) fin: bool,
    /// The last of what is written.
    pub(super) push: bool,
    pub(super) again: bool,
    /// Announces that the window was reduced.
    pub(super) cwr: bool,
}

/// The sending half of an endpoint.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) una: u64,
    pub(super) nxt: u64,
    /// The number behind what is written.
    written: u64,
    pub(super) window_end: u64,
    /// Number of the segment that last updated the window.
    window_from: u64,
    /// The number behind the last small segment (Nagle's rule as modified by Minshall).
    small_end: u64,
    pub(super) board: Board,
    pub(super) rtt: Rtt,
    pub(super) control: Box<dyn CongestionControl>,
    pub(super) window: Window,
    rack: Rack,
    high_seq: u64,
    undo_from: u64,
    /// When the first segment of this recovery was sent again; the end of time if none was.
    first_again: Time,
    /// The number behind what was out when a tail loss probe left; 0 if none is unanswered.
    probe_end: u64,
    pub(super) delivered: u64,
    pub(super) delivered_ce: u64,
    delivered_at: Time,
    first_at: Time,
    /// Count of deliveries up to which samples are limited by the application.
    app_limited: u64,
    usage_end: u64,
    last_sent: Time,
    pub(super) timer_at: Time,
    pace_at: Time,
    pub(super) sent: u64,
    pub(super) resent: u64,
    pub(super) timeouts: u32,
    pub(super) undone: u32,
    undo_count: i32,
    prior_ssthresh: u32,
    prr_delivered: u32,
    prr_out: u32,
    most_out: u32,
    pub(super) mss: u32,
    pub(super) timer: Timer,
    forced: Forced,
    pub(super) fin: Fin,
    pub(super) ecn: EcnUse,
    pub(super) phase: Phase,
    pub(super) retries: u8,
    /// Times that the time-out has been doubled.
    pub(super) backoff: u8,
    pub(super) sack: bool,
    probe_again: bool,
    limited: bool,
    reduced: bool,
    waits_for_pace: bool,
    burst: bool,
    pub(super) was_full: bool,
    /// The application waits with what had no room.
    was_cut: bool,
}

impl Sender {
    pub(super) fn new(config: &Config, seed: u64) -> Self {
        Self {
            una: 0,
            nxt: 0,
            written: 1,
            window_end: 0,
            window_from: 0,
            small_end: 0,
            board: Board::default(),
            rtt: Rtt::new(),
            control: congestion::new(config, seed),
            window: Window::new(config),
            rack: Rack::default(),
            high_seq: 0,
            undo_from: 0,
            first_again: Time::MAX,
            probe_end: 0,
            delivered: 0,
            delivered_ce: 0,
            delivered_at: Time::ZERO,
            first_at: Time::ZERO,
            app_limited: 0,
            usage_end: 0,
            last_sent: Time::ZERO,
            timer_at: Time::MAX,
            pace_at: Time::ZERO,
            sent: 0,
            resent: 0,
            timeouts: 0,
            undone: 0,
            undo_count: 0,
            prior_ssthresh: 0,
            prr_delivered: 0,
            prr_out: 0,
            most_out: 0,
            mss: config.mss,
            timer: Timer::None,
            forced: Forced::Nothing,
            fin: Fin::Open,
            ecn: EcnUse::Off,
            phase: Phase::Open,
            retries: 0,
            backoff: 0,
            sack: config.sack,
            probe_again: false,
            limited: false,
            reduced: false,
            waits_for_pace: false,
            burst: false,
            was_full: false,
            was_cut: false,
        }
    }

    /// The handshake is done: numbers start behind the SYN.
    pub(super) fn connected(&mut self, now: Time, window: u64) {
        self.una = 1;
        self.nxt = 1;
        self.high_seq = 1;
        self.window_end = window.saturating_add(1);
        self.last_sent = now;
        self.retries = 0;
        self.stop_timer();
        self.backoff = 0;
    }

    /// The time-out with its back-off.
    pub(super) fn rto(&self, config: &Config) -> Span {
        self.rtt.rto(self.backoff, config)
    }

    /// Doubles the time-out (RFC 6298 §5.5).
    pub(super) fn back_off(&mut self) {
        self.backoff = self.backoff.saturating_add(1);
    }

    /// Accepts up to `bytes` into the send buffer; returns how many.
    pub(super) fn write(&mut self, bytes: u64, config: &Config) -> u64 {
        if self.fin != Fin::Open {
            return 0;
        }
        let used = self.written - self.una.max(1);
        let free = config
            .wmem
            .saturating_sub(used)
            .min(MAX_WRITTEN - self.written);
        let taken = bytes.min(free);
        if !self.was_cut {
            self.note_idle();
        }
        self.was_cut = taken < bytes;
        self.written += taken;
        self.was_full |= taken < bytes || taken == free;
        taken
    }

    /// The application writes again: where there was nothing left to send, it was the limit
    /// (`tcp_rate_check_app_limited`). One that waits for room was not.
    fn note_idle(&mut self) {
        let in_flight = self.board.in_flight();
        let idle = self.unsent() < u64::from(self.mss) && in_flight < self.window.cwnd;
        if idle && self.board.to_resend == 0 {
            self.app_limited = (self.delivered + u64::from(in_flight)).max(1);
        }
    }

    /// Bytes of the send buffer in use.
    pub(super) fn buffered(&self) -> u64 {
        self.written.saturating_sub(self.una.max(1))
    }

    /// Payload bytes acknowledged.
    pub(super) fn acknowledged(&self) -> u64 {
        self.una.min(self.written).saturating_sub(1)
    }

    /// Whether the FIN is acknowledged.
    pub(super) fn finished(&self) -> bool {
        self.fin == Fin::Sent && self.una > self.written
    }

    fn unsent(&self) -> u64 {
        self.written.saturating_sub(self.nxt)
    }

    fn has_new(&self) -> bool {
        self.unsent() > 0 || self.fin == Fin::Wanted
    }

    /// The pacing rate in segments per second, if the sender paces.
    pub(super) fn pacing(&self, config: &Config) -> Option<f64> {
        if let Some(rate) = self.control.pacing() {
            return Some(rate);
        }
        let srtt = self.rtt.srtt();
        if !config.pacing || srtt == Span::ZERO {
            return None;
        }
        // `tcp_update_pacing_rate`: room to grow.
        let ratio = if self.window.cwnd < self.window.ssthresh / 2 {
            2.0
        } else {
            1.2
        };
        Some(ratio * f64::from(self.window.cwnd) / srtt.as_s())
    }

    /// The next segment that may leave now.
    pub(super) fn poll(&mut self, now: Time, config: &Config) -> Option<Outgoing> {
        let forced = std::mem::replace(&mut self.forced, Forced::Nothing);
        let outgoing = match forced {
            Forced::Nothing => None,
            Forced::First => self.send_again(now, 0),
            Forced::LossProbe => self.loss_probe(now, config),
            Forced::WindowProbe => self.window_probe(now, config),
        };
        if outgoing.is_some() {
            return outgoing;
        }
        self.waits_for_pace = false;
        let outgoing = self.poll_by_windows(now, config);
        if outgoing.is_none() {
            self.settle(now, config);
        }
        outgoing
    }

    fn poll_by_windows(&mut self, now: Time, config: &Config) -> Option<Outgoing> {
        if self.board.in_flight() >= self.window.cwnd {
            return None;
        }
        let again = self.board.next_to_resend();
        let new = if again.is_none() {
            self.new_len(config)
        } else {
            None
        };
        if again.is_none() && new.is_none() {
            return None;
        }
        let pacing = self.pacing(config);
        if pacing.is_some() && self.pace_at > now {
            self.waits_for_pace = true;
            return None;
        }
        let outgoing = match again {
            Some(index) => self.send_again(now, index),
            None => new.map(|len| self.send_new(now, len, config)),
        }?;
        if let Some(rate) = pacing {
            let share = f64::from(outgoing.len.max(1)) / f64::from(self.mss);
            self.pace_at = now + Span::from_ns((share * 1e9 / rate) as u64);
        }
        Some(outgoing)
    }

    /// Length of the next new segment, if the other side's window and Nagle let it leave.
    fn new_len(&self, config: &Config) -> Option<u32> {
        if !self.has_new() {
            return None;
        }
        let len = self.unsent().min(u64::from(self.mss)) as u32;
        if len > 0 && self.nxt + u64::from(len) > self.window_end {
            return None;
        }
        let last = self.fin == Fin::Wanted;
        let small_out = self.small_end > self.una && !self.board.is_empty();
        if len < self.mss && small_out && !last && !config.nodelay {
            return None;
        }
        Some(len)
    }

    fn send_new(&mut self, now: Time, len: u32, config: &Config) -> Outgoing {
        self.restart_after_idle(now, config);
        let last = u64::from(len) == self.unsent();
        let fin = last && self.fin == Fin::Wanted;
        let was_empty = self.board.is_empty();
        if was_empty {
            self.first_at = now;
            self.delivered_at = now;
        }
        let limited = if self.app_limited > 0 { APP_LIMITED } else { 0 };
        let sent = Sent {
            seq: self.nxt,
            span: len + u32::from(fin),
            flags: limited | if fin { FIN } else { 0 },
            at: now,
            first_at: self.first_at,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
        };
        self.board.push(sent);
        self.nxt = sent.end();
        if len < self.mss {
            self.small_end = self.nxt;
        }
        if fin {
            self.fin = Fin::Sent;
        }
        self.count(now);
        if was_empty || self.timer == Timer::LossProbe || self.timer == Timer::None {
            self.arm_retransmit(now, config);
        }
        self.arm_loss_probe(now, config);
        let cwr = std::mem::take(&mut self.reduced) && self.ecn != EcnUse::Off;
        Outgoing {
            seq: sent.seq,
            len,
            fin,
            push: last,
            again: false,
            cwr,
        }
    }

    fn count(&mut self, now: Time) {
        self.sent += 1;
        self.last_sent = now;
        self.burst = true;
        self.prr_out = self.prr_out.saturating_add(1);
    }

    fn send_again(&mut self, now: Time, index: usize) -> Option<Outgoing> {
        let (first_at, delivered, delivered_at) =
            (self.first_at, self.delivered, self.delivered_at);
        let limited = self.app_limited > 0;
        let sent = self.board.resend(index, |sent| {
            sent.at = now;
            sent.first_at = first_at;
            sent.delivered = delivered;
            sent.delivered_at = delivered_at;
            sent.flags = (sent.flags & !APP_LIMITED) | if limited { APP_LIMITED } else { 0 };
        })?;
        if self.first_again == Time::MAX {
            self.first_again = now;
        }
        self.undo_count = self.undo_count.max(0).saturating_add(1);
        self.resent += 1;
        self.count(now);
        let fin = sent.is(FIN);
        Some(Outgoing {
            seq: sent.seq,
            len: sent.span - u32::from(fin),
            fin,
            push: sent.end() >= self.written,
            again: true,
            cwr: false,
        })
    }

    /// RFC 8985 §7.3: new data if there are any and the other side's window has room, else the
    /// last segment again; the congestion window does not hold a probe back.
    fn loss_probe(&mut self, now: Time, config: &Config) -> Option<Outgoing> {
        self.timer = Timer::None;
        let outgoing = if self.probe_end != 0 {
            None
        } else if let Some(len) = self.new_len(config) {
            self.probe_again = false;
            Some(self.send_new(now, len, config))
        } else {
            self.probe_again = true;
            let index = self.board.last_index()?;
            self.send_again(now, index)
        };
        if outgoing.is_some() {
            self.probe_end = self.nxt;
        }
        self.arm_retransmit(now, config);
        outgoing
    }

    /// What fits into the window if anything does, else a number that the other side has already
    /// (`tcp_write_wakeup`).
    fn window_probe(&mut self, now: Time, config: &Config) -> Option<Outgoing> {
        self.timer = Timer::None;
        let room = self.window_end.saturating_sub(self.nxt);
        let len = room.min(self.unsent()).min(u64::from(self.mss)) as u32;
        if len > 0 || self.unsent() == 0 {
            return self.has_new().then(|| self.send_new(now, len, config));
        }
        self.back_off();
        self.arm_persist(now, config);
        let seq = self.una - 1;
        Some(Outgoing {
            seq,
            ..Outgoing::default()
        })
    }

    /// After a burst: notes whether the congestion window was the limit, and arms the persist timer if the
    /// peer's window is closed.
    fn settle(&mut self, now: Time, config: &Config) {
        let in_flight = self.board.in_flight();
        if std::mem::take(&mut self.burst) {
            self.validate(in_flight);
        }
        let blocked = self.has_new() && self.board.is_empty() && !self.waits_for_pace;
        if blocked && self.timer == Timer::None {
            self.arm_persist(now, config);
        }
    }

    /// Whether the congestion window was the limit in this round trip (`tcp_cwnd_validate`).
    fn validate(&mut self, in_flight: u32) {
        let limited = in_flight >= self.window.cwnd;
        let out = self.board.len();
        if self.una >= self.usage_end || limited || (!self.limited && out > self.most_out) {
            self.limited = limited;
            self.most_out = out;
            self.usage_end = self.nxt;
        }
    }

    /// Whether the window may grow (`tcp_is_cwnd_limited`).
    fn is_limited(&self) -> bool {
        let slow_start = self.window.cwnd < self.window.ssthresh;
        self.limited || (slow_start && self.window.cwnd < 2 * self.most_out)
    }

    /// An idle sender halves its window for each time-out that has passed (RFC 2861,
    /// `tcp_cwnd_restart`).
    fn restart_after_idle(&mut self, now: Time, config: &Config) {
        if !self.board.is_empty() {
            return;
        }
        let idle = now.since(self.last_sent);
        let rto = self.rtt.base(config).as_ns().max(1);
        let halvings = (idle.as_ns().saturating_sub(1) / rto).min(31) as u32;
        if config.slow_start_after_idle && halvings > 0 && !self.control.controls_cwnd() {
            self.window.ssthresh = self.window.guarded_ssthresh(self.phase);
            let floor = config.initcwnd.min(self.window.cwnd);
            self.window.cwnd = (self.window.cwnd >> halvings).max(floor);
        }
        if self.sent > 0 {
            self.control
                .restarted(now, idle, self.app_limited > 0, &mut self.window);
        }
    }

    /// Takes the window that `segment` advertises, if it is newer (`tcp_may_update_window`); true where
    /// the right edge moves.
    pub(super) fn take_window(&mut self, segment: &Segment) -> bool {
        let end = segment.ack.saturating_add(segment.window);
        let newer = segment.ack > self.una
            || segment.seq > self.window_from
            || (segment.seq == self.window_from && end > self.window_end);
        if segment.ack < self.una || !newer {
            return false;
        }
        self.window_from = segment.seq;
        std::mem::replace(&mut self.window_end, end) != end
    }
}
