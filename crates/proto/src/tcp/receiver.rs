//! The receiving half: reassembly, the window, when to acknowledge, and what to echo.
//!
//! Theory: an acknowledgement is due at once for the second full segment, for what comes out of
//! order or twice, and in the first segments of a flow ("quick" ones); else after the time in
//! which the next segment is expected, 40 to 200 ms (RFC 1122 §4.2.3.2; Linux's `tcp_input.c`,
//! `tcp_event_data_recv` and `__tcp_ack_snd_check`). The window's right edge never moves back.
//! Blocks to be acknowledged selectively are reported most recent first (RFC 2018 §4), a duplicate
//! before all others (RFC 2883). A mark is echoed until the sender confirms (RFC 3168 §6.1.3),
//! or exactly, with each change reported at once (RFC 8257 §3.2).
//!
//! Left out: compression of selective acknowledgements, growth of the window by
//! `tcp_rcv_ssthresh`, overhead of buffers.

use longhaul_core::time::{Span, Time};

use super::config::Config;
use super::ranges::Ranges;
use super::segment::{Ecn, Flags, Range, Sacks, Segment};

/// What has arrived out of order.
#[derive(Debug, Default)]
struct OutOfOrder {
    ranges: Ranges,
    /// The last ranges to change, most recent first; empty ones are free.
    recent: [Range; 4],
}

/// How marks are echoed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Echo {
    /// ECN is not in use.
    Off,
    /// Until confirmed (RFC 3168).
    Classic,
    /// Exactly (RFC 8257).
    Exact,
}

/// An acknowledgement that must leave before anything that came after it is acknowledged.
#[derive(Debug, Clone, Copy)]
pub(super) struct EarlyAck {
    pub(super) ack: u64,
    pub(super) ece: bool,
}

/// The receiving half of an endpoint.
#[derive(Debug)]
pub(super) struct Receiver {
    /// The next number awaited.
    pub(super) next: u64,
    /// Numbers below are read by the application.
    read: u64,
    /// Right edge of the window that was advertised.
    pub(super) window_end: u64,
    /// The number that the last acknowledgement carried.
    pub(super) last_acked: u64,
    /// Number of the FIN; `u64::MAX` while unknown.
    fin: u64,
    late: Option<Box<OutOfOrder>>,
    /// The last duplicate, to be reported once; empty if none.
    duplicate: Range,
    /// Expected time between segments; zero before the first one.
    interval: Span,
    last_data_at: Time,
    /// When the delayed acknowledgement leaves; the end of time while none is due.
    pub(super) delayed: Time,
    /// The other side's clock to echo.
    pub(super) echo_time: u64,
    pub(super) early: Option<EarlyAck>,
    /// Largest segment received, to recognise full ones.
    largest: u32,
    /// Acknowledgements still to be sent at once.
    quick: u8,
    /// Shift of advertised windows.
    pub(super) scale: u8,
    pub(super) echo: Echo,
    /// A mark is to be echoed.
    pub(super) marked: bool,
    pub(super) ack_now: bool,
    /// Interactive traffic: acknowledgements are piggybacked on replies.
    interactive: bool,
    pub(super) auto_read: bool,
}

impl Receiver {
    pub(super) fn new() -> Self {
        Self {
            next: 0,
            read: 0,
            window_end: 0,
            last_acked: 0,
            fin: u64::MAX,
            late: None,
            duplicate: Range::default(),
            interval: Span::ZERO,
            last_data_at: Time::ZERO,
            delayed: Time::MAX,
            echo_time: 0,
            early: None,
            largest: 0,
            quick: 0,
            scale: 0,
            echo: Echo::Off,
            marked: false,
            ack_now: false,
            interactive: false,
            auto_read: false,
        }
    }

    /// Takes the number of the other side's SYN.
    pub(super) fn synchronised(&mut self, syn_end: u64) {
        self.next = syn_end;
        self.read = syn_end;
        self.last_acked = syn_end;
        self.window_end = self.window_end.max(syn_end);
    }

    /// Bytes in order that wait to be read.
    pub(super) fn readable(&self) -> u64 {
        self.data_end() - self.read
    }

    /// Payload bytes received in order (the SYN took number 0).
    pub(super) fn received(&self) -> u64 {
        self.data_end().saturating_sub(1)
    }

    /// Whether the FIN and all before it are here.
    pub(super) fn finished(&self) -> bool {
        self.next > self.fin
    }

    fn data_end(&self) -> u64 {
        self.next.min(self.fin)
    }

    /// Reads up to `bytes`; asks for a window update where it would double the window
    /// (`tcp_cleanup_rbuf`).
    pub(super) fn take(&mut self, bytes: u64, config: &Config) -> u64 {
        let taken = bytes.min(self.readable());
        self.read += taken;
        let known = self.window_end.saturating_sub(self.next);
        let open = self.window(config);
        if taken > 0 && open > 0 && open >= known.saturating_mul(2) && !self.finished() {
            self.ack_now = true;
        }
        taken
    }

    /// The window to advertise, in bytes. Its right edge never moves back, and it does not open by less than
    /// a segment (RFC 1122 §4.2.3.3).
    pub(super) fn window(&self, config: &Config) -> u64 {
        let known = self.window_end.saturating_sub(self.next);
        let free = config.rmem.saturating_sub(self.readable());
        let least = u64::from(config.mss).min(config.rmem / 2);
        let open = if free < least {
            0
        } else {
            free >> self.scale << self.scale
        };
        let most = 0xffff << self.scale;
        // An advertised edge stays, rounded up to what the scale can express.
        let unit = (1 << self.scale) - 1;
        open.min(most).max((known + unit) & !unit)
    }

    /// Whether some of `segment` lies where data are awaited (RFC 9293 §3.10.7.4).
    pub(super) fn acceptable(&self, segment: &Segment) -> bool {
        let (start, end) = (segment.seq, segment.end());
        end >= self.last_acked && start <= self.window_end.max(self.next)
    }

    /// Acknowledges an unacceptable `segment` again, as a duplicate if it holds data.
    pub(super) fn refuse(&mut self, segment: &Segment, config: &Config) {
        self.ack_now = true;
        let old = Range {
            start: segment.seq,
            end: segment.end().min(self.next),
        };
        if !old.is_empty() && config.sack {
            self.duplicate = old;
        }
    }

    /// Takes an acceptable segment's data, FIN and mark. `rto` and `srtt` are the sender's, for
    /// the delay of acknowledgements.
    pub(super) fn take_data(&mut self, now: Time, segment: &Segment, timing: Timing<'_>) {
        self.take_ecn_mark(segment);
        let span = segment.span();
        if span == 0 {
            return;
        }
        if segment.flags.has(Flags::FIN) && self.fin == u64::MAX {
            let fin = segment.end() - 1;
            // A FIN below data that have arrived is bogus; one beyond the window waits.
            if fin >= self.next && fin <= self.window_end.max(self.next) {
                self.fin = fin;
            }
        }
        // A FIN takes no room.
        let edge = self.window_end.max(self.next);
        let room = if self.fin == edge { edge + 1 } else { edge };
        let behind_fin = self.fin.saturating_add(1);
        let range = Range {
            start: segment.seq.max(self.next),
            end: segment.end().min(room).min(behind_fin),
        };
        if range.is_empty() {
            self.refuse(segment, timing.config);
            return;
        }
        if segment.seq < self.next && timing.config.sack {
            self.duplicate = Range {
                start: segment.seq,
                end: self.next,
            };
        }
        if range.start == self.next {
            self.take_in_order(range);
        } else {
            self.take_out_of_order(range, timing.config);
        }
        self.largest = self.largest.max(segment.len).min(timing.config.mss);
        self.estimate_interval(now, timing);
        self.schedule(now, timing);
    }

    fn take_in_order(&mut self, range: Range) {
        self.next = range.end;
        if let Some(late) = &mut self.late {
            self.next = late.ranges.take_from(self.next);
            let next = self.next;
            late.recent
                .iter_mut()
                .filter(|r| r.end <= next)
                .for_each(|r| *r = Range::default());
            if late.ranges.is_empty() {
                self.late = None;
            }
            // A filled hole is acknowledged at once (RFC 5681 §4.2).
            self.ack_now = true;
        }
        if self.finished() {
            self.ack_now = true;
        }
        if self.auto_read {
            // Room was never short, so there is no new room to advertise.
            self.read = self.data_end();
        }
    }

    fn take_out_of_order(&mut self, range: Range, config: &Config) {
        self.ack_now = true;
        let late = self.late.get_or_insert_default();
        if late.ranges.holds(range) && config.sack {
            self.duplicate = range;
        }
        let Some(merged) = late.ranges.insert(range) else {
            return;
        };
        // Most recent first; drop the blocks that it has merged.
        let mut recent = [Range::default(); 4];
        recent[0] = merged;
        let others = late
            .recent
            .iter()
            .filter(|r| !r.is_empty() && (r.end < merged.start || r.start > merged.end));
        recent[1..]
            .iter_mut()
            .zip(others)
            .for_each(|(place, other)| *place = *other);
        late.recent = recent;
    }

    /// Blocks for the next acknowledgement: a duplicate first, at most `most`.
    pub(super) fn sacks(&mut self, most: usize) -> Sacks {
        let mut sacks = Sacks::default();
        let duplicate = std::mem::take(&mut self.duplicate);
        let recent = self
            .late
            .as_ref()
            .map(|late| late.recent)
            .unwrap_or_default();
        let all = [duplicate].into_iter().chain(recent);
        all.filter(|r| !r.is_empty())
            .take(most)
            .for_each(|r| sacks.push(r));
        sacks
    }

    fn take_ecn_mark(&mut self, segment: &Segment) {
        let ce = segment.ecn == Ecn::Ce;
        match self.echo {
            Echo::Off => {}
            Echo::Classic => {
                if segment.flags.has(Flags::CWR) {
                    self.marked = false;
                }
                if ce {
                    self.marked = true;
                }
            }
            // `dctcp_ece_ack_update`: a delayed acknowledgement is sent with the old state.
            Echo::Exact if segment.len > 0 && ce != self.marked => {
                if self.delayed != Time::MAX {
                    self.early = Some(EarlyAck {
                        ack: self.next,
                        ece: self.marked,
                    });
                }
                self.marked = ce;
                self.ack_now = true;
            }
            Echo::Exact => {}
        }
    }

    /// Estimates the interval between data segments (`tcp_event_data_recv`).
    fn estimate_interval(&mut self, now: Time, timing: Timing<'_>) {
        let least = timing.config.delack_min;
        let gap = now.since(self.last_data_at);
        self.last_data_at = now;
        let half = |span: Span| Span::from_ns(span.as_ns() / 2);
        if self.interval == Span::ZERO {
            self.start_quick_acks(timing.config);
            self.interval = least;
        } else if gap <= half(least) {
            self.interval = half(self.interval) + half(least);
        } else if gap < self.interval {
            self.interval = (half(self.interval) + gap).min(timing.rto);
        } else if gap > timing.rto {
            // The sender may have started anew.
            self.start_quick_acks(timing.config);
        }
    }

    /// The next acknowledgements leave at once, so that a small window grows
    /// (`tcp_incr_quickack`).
    fn start_quick_acks(&mut self, config: &Config) {
        let full = 2 * u64::from(self.largest.max(1));
        let window = self.window_end.saturating_sub(self.next) / full;
        let quick = window.clamp(2, u64::from(u8::MAX)) as u8;
        self.quick = self.quick.max(quick.min(config.quickack));
    }

    fn schedule(&mut self, now: Time, timing: Timing<'_>) {
        let waiting = self.next.saturating_sub(self.last_acked);
        let full = waiting > u64::from(self.largest);
        let quick = self.quick > 0 && !self.interactive;
        if self.ack_now
            || full
            || quick
            || self.late.is_some()
            || timing.config.delack_min == Span::ZERO
        {
            self.ack_now = true;
            return;
        }
        let (least, most) = (timing.config.delack_min, timing.config.delack_max);
        let mut delay = self.interval;
        if delay > least {
            let mut bound = if self.interactive {
                most
            } else {
                Span::from_ms(500)
            };
            if timing.srtt > Span::ZERO {
                bound = bound.min(timing.srtt.max(least));
            }
            delay = delay.min(bound);
        }
        self.delayed = self.delayed.min(now + delay.min(most));
    }

    /// The delayed acknowledgement's time has come (`tcp_delack_timer_handler`).
    pub(super) fn handle_timeout(&mut self, rto: Span, config: &Config) {
        if self.interactive {
            self.interactive = false;
            self.interval = config.delack_min;
        } else {
            self.interval = (self.interval + self.interval).min(rto);
        }
        self.ack_now = true;
        self.delayed = Time::MAX;
    }

    /// Notes that a segment with the current acknowledgement and window was sent; `data` if it had any.
    pub(super) fn ack_sent(&mut self, now: Time, window: u64, data: bool, config: &Config) {
        self.last_acked = self.next;
        self.window_end = self.window_end.max(self.next.saturating_add(window));
        self.ack_now = false;
        self.delayed = Time::MAX;
        if self.quick > 0 {
            self.quick -= 1;
            if self.quick == 0 {
                self.interval = config.delack_min;
            }
        }
        if data && self.last_data_at > Time::ZERO && now.since(self.last_data_at) < self.interval {
            // A reply within the delay: the traffic is interactive.
            self.interactive = true;
        }
    }
}

/// What the sending half has measured of the path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing<'a> {
    pub(super) config: &'a Config,
    pub(super) rto: Span,
    pub(super) srtt: Span,
}
