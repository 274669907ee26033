//! What an acknowledgement does (Linux's `tcp_ack`).
//!
//! In this order: the window, selective acknowledgements, what is acknowledged, the round trip,
//! a tail loss probe's outcome, losses and reductions, growth, the timer. Delivery rates are
//! sampled as `tcp_rate.c` does (draft-cheng-iccrg-delivery-rate-estimation).

use longhaul_core::time::{Span, Time};

use super::super::config::Config;
use super::super::congestion::{Ack, Rate};
use super::super::scoreboard::{APP_LIMITED, EVER_RESENT, SACKED, Sent};
use super::super::segment::{Flags, Range, Segment};
use super::super::state::Phase;
use super::rack::Rack;
use super::recovery::{AckOutcome, ticks};
use super::{EcnUse, Sender, Timer};

/// What was newly delivered.
#[derive(Default)]
struct Delivery {
    /// Segments delivered, acknowledged in sequence or selectively.
    count: u32,
    /// Times of sending of segments sent once: first and last acknowledged, first and last
    /// selectively.
    first: Option<Time>,
    last: Option<Time>,
    first_sacked: Option<Time>,
    last_sacked: Option<Time>,
    /// A segment that was sent again is acknowledged.
    ambiguous: bool,
    /// The last sent one.
    latest: Option<Sent>,
    /// Something sent once came after what had been sent later.
    reordered: bool,
}

impl Delivery {
    fn take(&mut self, sent: &Sent, rack: &mut Rack, now: Time, least: Option<Span>) {
        self.count += 1;
        let later = |latest: &Sent| (sent.at, sent.end()) > (latest.at, latest.end());
        if self.latest.as_ref().is_none_or(later) {
            self.latest = Some(*sent);
        }
        rack.delivered(sent, now, least);
    }
}

impl Sender {
    /// Takes the acknowledgement in `segment`; its number is not above what was sent.
    pub(in super::super) fn take_ack(&mut self, now: Time, segment: &Segment, config: &Config) {
        let prior_una = self.una;
        let prior_in_flight = self.board.in_flight();
        let prior_marked = self.board.marked;
        // What this acknowledgement acknowledges in both ways at once, as a delayed one in front of a hole
        // does, was not reordered: order is judged by what earlier ones had (`prior_fack`,
        // `tcp_clean_rtx_queue` in net/ipv4/tcp_input.c).
        let prior_highest = self.board.highest;
        let window_moved = self.take_window(segment);
        let mut delivery = Delivery::default();
        let duplicate = self.take_sacks(now, segment, &mut delivery);
        let acknowledged = self.take_acknowledged(now, segment.ack, prior_highest, &mut delivery);
        let mut outcome = AckOutcome {
            advanced: self.una > prior_una,
            delivered: delivery.count,
            duplicate: segment.ack == prior_una && segment.len == 0 && !window_moved,
            ece: self.ecn != EcnUse::Off && segment.flags.has(Flags::ECE),
            echo: segment.timestamps.map_or(0, |t| t.echo),
        };
        if !self.sack && acknowledged > 0 {
            // Duplicates have accounted for most of it already (`tcp_remove_reno_sacks`).
            outcome.delivered = acknowledged.saturating_sub(self.board.sacked).max(1);
            self.board.sacked = self.board.sacked.saturating_sub(acknowledged - 1);
        } else if !self.sack && outcome.duplicate && self.board.sacked + 1 < self.board.len() {
            outcome.delivered = 1;
        }
        if outcome.advanced {
            self.retries = 0;
        }
        self.account(now, &delivery, outcome);
        let rtt = self.take_round_trip(now, &delivery, outcome, config);
        self.take_probe_outcome(now, segment, duplicate, outcome);
        let mut ack = self.ack_summary(now, &delivery, outcome, prior_in_flight);
        ack.rtt = rtt;
        self.control.acked(&ack, &mut self.window);
        let ece = AckOutcome {
            ece: outcome.ece && (outcome.advanced || outcome.delivered > 0),
            ..outcome
        };
        let timer_set = self.alert(now, ece, config);
        ack.losses = self.board.marked.saturating_sub(prior_marked) as u32;
        ack.in_flight = self.board.in_flight();
        ack.phase = self.phase;
        self.update_cwnd(&ack, outcome);
        self.window.cwnd = self.window.cwnd.clamp(1, config.cwnd_clamp);
        self.rearm(now, outcome, timer_set, config);
    }

    /// Marks what is selectively acknowledged. True where a duplicate was reported (RFC 2883).
    fn take_sacks(&mut self, now: Time, segment: &Segment, delivery: &mut Delivery) -> bool {
        let blocks = segment.sacks.blocks();
        if !self.sack || blocks.is_empty() {
            return false;
        }
        let duplicate = self.is_duplicate(segment.ack, blocks);
        if duplicate {
            let duplicate = blocks[0];
            self.rack.widen(self.una, self.nxt);
            if self.undo_from != 0 && self.undo_count > 0 && duplicate.end > self.undo_from {
                self.undo_count -= 1;
            }
        }
        let least = self.rtt.least();
        let (rack, before) = (&mut self.rack, self.board.highest);
        for block in blocks.iter().skip(usize::from(duplicate)) {
            let sane = block.start >= self.una && block.end <= self.nxt && !block.is_empty();
            if !sane {
                continue;
            }
            self.board.sack(*block, |sent| {
                delivery.take(sent, rack, now, least);
                if !sent.is(EVER_RESENT) {
                    delivery.reordered |= sent.end() < before;
                    delivery.first_sacked.get_or_insert(sent.at);
                    delivery.last_sacked = Some(sent.at);
                }
            });
        }
        self.board.remember(blocks);
        duplicate
    }

    /// RFC 2883 §4: the first block lies below the acknowledgement, or within the second.
    fn is_duplicate(&self, ack: u64, blocks: &[Range]) -> bool {
        let first = blocks[0];
        let within = |second: &Range| first.start >= second.start && first.end <= second.end;
        !first.is_empty() && (first.end <= ack || blocks.get(1).is_some_and(within))
    }

    /// Takes out what lies below `ack`; returns how many segments. One that ends below `prior_highest` was
    /// reordered, if it was never sent again.
    fn take_acknowledged(
        &mut self,
        now: Time,
        ack: u64,
        prior_highest: u64,
        delivery: &mut Delivery,
    ) -> u32 {
        let least = self.rtt.least();
        let mut acknowledged = 0;
        self.una = self.una.max(ack);
        while let Some(sent) = self.board.pop_acknowledged(self.una, self.sack) {
            acknowledged += 1;
            delivery.ambiguous |= sent.is(EVER_RESENT);
            if sent.is(SACKED) {
                continue;
            }
            delivery.take(&sent, &mut self.rack, now, least);
            if !sent.is(EVER_RESENT) {
                delivery.reordered |= sent.end() < prior_highest;
                delivery.first.get_or_insert(sent.at);
                delivery.last = Some(sent.at);
            }
        }
        self.board.release();
        acknowledged
    }

    fn account(&mut self, now: Time, delivery: &Delivery, outcome: AckOutcome) {
        self.rack.reordered |= delivery.reordered;
        if outcome.delivered == 0 {
            return;
        }
        self.delivered += u64::from(outcome.delivered);
        self.delivered_ce += if outcome.ece {
            u64::from(outcome.delivered)
        } else {
            0
        };
        self.delivered_at = now;
        if let Some(latest) = delivery.latest {
            self.first_at = latest.at;
        }
        if self.delivered > self.app_limited {
            self.app_limited = 0;
        }
    }

    /// Takes the round trip (`tcp_ack_update_rtt`); returns the one for congestion control.
    fn take_round_trip(
        &mut self,
        now: Time,
        delivery: &Delivery,
        outcome: AckOutcome,
        config: &Config,
    ) -> Option<Span> {
        let first = delivery.first.filter(|_| !delivery.ambiguous);
        let mut sample = first.or(delivery.first_sacked).map(|at| now.since(at));
        let last = delivery
            .last_sacked
            .or(delivery.last.filter(|_| !delivery.ambiguous));
        let latest = last.map(|at| now.since(at));
        if sample.is_none() && outcome.advanced && outcome.echo != 0 {
            let elapsed = ticks(now).saturating_sub(outcome.echo);
            sample = Some(Span::from_ms(elapsed.max(1)));
        }
        if let Some(rtt) = latest {
            self.rtt.sample_least(now, rtt);
        }
        if let Some(rtt) = sample {
            self.backoff = 0;
            self.rtt.sample(rtt, self.una, self.nxt, config);
        }
        latest
    }

    /// RFC 8985 §7.4: whether a tail loss probe has repaired a loss that nothing else indicated.
    fn take_probe_outcome(
        &mut self,
        now: Time,
        segment: &Segment,
        duplicate: bool,
        outcome: AckOutcome,
    ) {
        if self.probe_end == 0 || segment.ack < self.probe_end {
            return;
        }
        let repaired =
            self.probe_again && !duplicate && segment.ack == self.probe_end && outcome.advanced;
        self.probe_end = 0;
        if repaired && self.phase < Phase::Cwr {
            self.reduce_for_probe(now);
        }
    }

    fn ack_summary(
        &self,
        now: Time,
        delivery: &Delivery,
        outcome: AckOutcome,
        prior_in_flight: u32,
    ) -> Ack {
        let mut ack = Ack {
            now,
            una: self.una,
            nxt: self.nxt,
            acked: outcome.delivered,
            advanced: outcome.advanced,
            losses: 0,
            in_flight: self.board.in_flight(),
            prior_in_flight,
            rtt: None,
            mss: self.mss,
            pace_at: self.pace_at,
            srtt: self.rtt.srtt(),
            phase: self.phase,
            delivered: self.delivered,
            delivered_ce: self.delivered_ce,
            limited: self.is_limited(),
            rate: None,
        };
        let Some(latest) = delivery.latest else {
            return ack;
        };
        let send = latest.at.since(latest.first_at);
        let interval = now.since(latest.delivered_at).max(send);
        let least = self.rtt.least().unwrap_or_default();
        if interval > Span::ZERO && interval >= least {
            ack.rate = Some(Rate {
                delivered: (self.delivered - latest.delivered) as u32,
                interval,
                prior_delivered: latest.delivered,
                app_limited: latest.is(APP_LIMITED),
            });
        }
        ack
    }

    /// Updates the congestion window (`tcp_cong_control`).
    fn update_cwnd(&mut self, ack: &Ack, outcome: AckOutcome) {
        if self.control.controls_cwnd() {
            self.control.cong_avoid(ack, &mut self.window);
            if self.control.distorts_rate_samples() {
                self.app_limited = (self.delivered + u64::from(ack.in_flight)).max(1);
            }
        } else if matches!(self.phase, Phase::Cwr | Phase::Recovery) {
            self.reduce(outcome, ack.losses);
        } else if outcome.advanced && outcome.delivered > 0 {
            self.control.cong_avoid(ack, &mut self.window);
        }
    }

    fn rearm(&mut self, now: Time, outcome: AckOutcome, timer_set: bool, config: &Config) {
        if self.board.is_empty() {
            self.retries = 0;
            let open = self.new_len(config).is_some();
            // A window that stays closed is probed on, ever more rarely.
            if self.timer != Timer::Persist || open {
                self.stop_timer();
            }
            if open {
                self.backoff = 0;
            }
        } else if outcome.advanced && !timer_set {
            self.timer = Timer::None;
            self.arm_retransmit(now, config);
            self.arm_loss_probe(now, config);
        }
    }
}
