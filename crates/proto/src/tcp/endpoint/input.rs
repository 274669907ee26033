//! What a segment does, state by state (RFC 9293 §3.10.7, with the checks of RFC 5961).
//!
//! Nothing that arrives is trusted: numbers outside what was sent or granted change nothing, and
//! are answered so that two ends that disagree do not answer each other for ever.

use longhaul_core::time::{Span, Time};

use super::super::config::Algorithm;
use super::super::segment::{Flags, Segment, SynOptions};
use super::super::sender::Fin;
use super::{CHALLENGE_INTERVAL, Echo, EcnUse, Endpoint, Event, Reset, State, Timing};

/// The smallest MSS that is accepted (`TCP_MIN_SND_MSS`).
const MIN_MSS: u32 = 48;
/// The first time-out where the handshake gave no measurement (RFC 6298 §5.7).
const FALLBACK_RTO: Span = Span::from_s(3);

impl Endpoint {
    /// Takes a segment that has arrived.
    pub fn handle_segment(&mut self, now: Time, segment: &Segment) {
        match self.state {
            State::Closed => self.refuse(segment),
            State::Listen => self.take_syn_in_listen(segment),
            State::SynSent => self.take_in_syn_sent(now, segment),
            _ => self.take(now, segment),
        }
    }

    /// Answers with a reset (RFC 9293 §3.10.7.1).
    fn refuse(&mut self, segment: &Segment) {
        if segment.flags.has(Flags::RST) {
            return;
        }
        self.reset = if segment.flags.has(Flags::ACK) {
            Reset::From(segment.ack)
        } else {
            Reset::Answering(segment.end())
        };
    }

    fn take_syn_in_listen(&mut self, segment: &Segment) {
        let flags = segment.flags;
        if flags.has(Flags::ACK) {
            return self.refuse(segment);
        }
        if flags.has(Flags::RST) || !flags.has(Flags::SYN) || segment.seq != 0 {
            return;
        }
        let asks = flags.has(Flags::ECE.with(Flags::CWR));
        if asks && self.config.grants_ecn() {
            self.use_ecn();
        }
        self.take_syn(segment);
        self.state = State::SynReceived;
        self.syn_due = true;
    }

    fn take_in_syn_sent(&mut self, now: Time, segment: &Segment) {
        let flags = segment.flags;
        let acknowledges = flags.has(Flags::ACK);
        if acknowledges && segment.ack != 1 {
            return self.refuse(segment);
        }
        if flags.has(Flags::RST) {
            if acknowledges {
                self.events.push(Event::Reset);
                self.end();
            }
            return;
        }
        if !flags.has(Flags::SYN) || segment.seq != 0 {
            return;
        }
        self.take_syn(segment);
        if !acknowledges {
            // Both have opened at once.
            self.state = State::SynReceived;
            self.syn_due = true;
            return;
        }
        let grants = flags.has(Flags::ECE) && !flags.has(Flags::CWR);
        if grants && self.config.asks_for_ecn() {
            self.use_ecn();
        }
        self.establish(now, segment);
        self.receiver.ack_now = true;
    }

    fn use_ecn(&mut self) {
        let exact = self.config.congestion == Algorithm::Dctcp;
        self.sender.ecn = if exact { EcnUse::All } else { EcnUse::Data };
        self.receiver.echo = if exact { Echo::Exact } else { Echo::Classic };
    }

    fn take_syn(&mut self, segment: &Segment) {
        let options = segment.syn.unwrap_or(SynOptions {
            mss: 536,
            ..SynOptions::default()
        });
        self.timestamps &= segment.timestamps.is_some();
        self.sender.sack &= options.sack_permitted;
        let scaled = self.config.window_scaling && options.window_scale.is_some();
        self.receiver.scale = if scaled {
            self.config.window_scale()
        } else {
            0
        };
        let room = if self.timestamps { 12 } else { 0 };
        let mss = self.config.mss.min(options.mss).max(MIN_MSS);
        self.sender.mss = mss - room;
        self.receiver.synchronised(1);
        self.take_time(segment);
    }

    fn take_time(&mut self, segment: &Segment) {
        if let Some(stamps) = segment.timestamps
            && self.timestamps
            && segment.seq <= self.receiver.last_acked
        {
            self.receiver.echo_time = self.receiver.echo_time.max(stamps.value);
        }
    }

    fn establish(&mut self, now: Time, segment: &Segment) {
        let tries = self.sender.retries;
        self.sender.connected(now, segment.window);
        let sender = &mut self.sender;
        if tries == 0 {
            let rtt = now.since(self.syn_at);
            sender.backoff = 0;
            sender.rtt.sample(rtt, 1, 1, &self.config);
            sender.rtt.sample_least(now, rtt);
        } else {
            sender.rtt.fall_back(FALLBACK_RTO, &self.config);
        }
        if tries > 1 {
            sender.window.cwnd = 1;
        }
        sender.control.connected(sender.rtt.srtt(), &sender.window);
        self.state = if sender.fin == Fin::Wanted {
            State::FinWait1
        } else {
            State::Established
        };
        self.syn_due = false;
        self.events.push(Event::Connected);
    }

    /// Sends a challenge acknowledgement (RFC 5961), at a limited rate.
    fn send_challenge_ack(&mut self, now: Time) {
        if now >= self.no_challenge_before {
            self.no_challenge_before = now + CHALLENGE_INTERVAL;
            self.receiver.ack_now = true;
        }
    }

    fn take(&mut self, now: Time, segment: &Segment) {
        let flags = segment.flags;
        if !self.receiver.acceptable(segment) {
            return self.take_unacceptable(now, segment);
        }
        if flags.has(Flags::RST) {
            if segment.seq != self.receiver.next {
                return self.send_challenge_ack(now);
            }
            self.events.push(Event::Reset);
            return self.end();
        }
        if self.state == State::SynReceived && !self.complete(now, segment) {
            return;
        }
        if flags.has(Flags::SYN) {
            // A repeated SYN-ACK wants its acknowledgement.
            return self.send_challenge_ack(now);
        }
        if !flags.has(Flags::ACK) {
            return;
        }
        if segment.ack > self.sender.nxt {
            return self.send_challenge_ack(now);
        }
        self.take_time(segment);
        if self.state == State::TimeWait {
            return self.take_data(now, segment);
        }
        self.sender.take_ack(now, segment, &self.config);
        self.after_ack(now);
        self.take_data(now, segment);
    }

    fn take_unacceptable(&mut self, now: Time, segment: &Segment) {
        if segment.flags.has(Flags::RST) {
            return;
        }
        if segment.span() > 0 && !segment.flags.has(Flags::SYN) {
            self.receiver.refuse(segment, &self.config);
        } else {
            self.send_challenge_ack(now);
        }
    }

    /// The end of the handshake on the side that answered; false where it is not yet reached.
    fn complete(&mut self, now: Time, segment: &Segment) -> bool {
        if !segment.flags.has(Flags::ACK) {
            self.syn_due |= segment.flags.has(Flags::SYN);
            return false;
        }
        if segment.ack != 1 {
            self.refuse(segment);
            return false;
        }
        self.establish(now, segment);
        true
    }

    fn after_ack(&mut self, now: Time) {
        let room = self.config.wmem - self.config.wmem / 3;
        if self.sender.was_full && self.sender.buffered() <= room && self.sender.fin == Fin::Open {
            self.sender.was_full = false;
            self.events.push(Event::Writable);
        }
        if !self.sender.finished() {
            return;
        }
        match self.state {
            State::FinWait1 => self.state = State::FinWait2,
            State::Closing => self.wait(now),
            State::LastAck => self.end(),
            _ => {}
        }
    }

    fn take_data(&mut self, now: Time, segment: &Segment) {
        if self.state == State::Closed {
            return;
        }
        if self.receiver.finished() {
            if segment.span() > 0 {
                self.receiver.refuse(segment, &self.config);
                if self.state == State::TimeWait {
                    self.wait(now);
                }
            }
            return;
        }
        let timing = Timing {
            config: &self.config,
            rto: self.sender.rto(&self.config),
            srtt: self.sender.rtt.srtt(),
        };
        self.receiver.take_data(now, segment, timing);
        if self.receiver.readable() > 0 && !self.receiver.auto_read {
            self.events.push(Event::Readable);
        }
        if self.receiver.finished() {
            self.events.push(Event::PeerClosed);
            match self.state {
                State::Established => self.state = State::CloseWait,
                State::FinWait1 => self.state = State::Closing,
                State::FinWait2 => self.wait(now),
                _ => {}
            }
        }
    }

    fn wait(&mut self, now: Time) {
        self.state = State::TimeWait;
        self.sender.halt();
        self.sender.timer_at = now + self.config.time_wait;
    }
}
