//! One end of one connection: the application's side, what leaves, and time.
//!
//! `input.rs` takes segments: the states of RFC 9293 §3.10. After each call that takes something
//! in, [`Endpoint::poll_transmit`] is to be called until it gives `None`, then
//! [`Endpoint::poll_timeout`] and [`Endpoint::poll_event`]. An endpoint whose `poll_timeout` is
//! not later than now is to be handed to [`Endpoint::handle_timeout`] before time goes on.

mod input;

use std::sync::Arc;

use longhaul_core::time::{Span, Time};

use super::config::{Algorithm, Config};
use super::receiver::{Echo, Receiver, Timing};
use super::rtt::RoundTrips;
use super::segment::{Ecn, Flags, Segment, SynOptions, Timestamps};
use super::sender::{EcnUse, Fin, Outgoing, Sender, Timer, ticks};
use super::state::{Event, Events, Info, State};

/// A reset that is to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reset {
    None,
    /// With this number.
    From(u64),
    /// With number 0, acknowledging this one.
    Answering(u64),
}

/// One end of a connection; see the module's page.
#[derive(Debug)]
pub struct Endpoint {
    config: Arc<Config>,
    sender: Sender,
    receiver: Receiver,
    reset: Reset,
    /// When the SYN or SYN-ACK was last sent.
    syn_at: Time,
    /// No challenge acknowledgement before this time.
    no_challenge_before: Time,
    state: State,
    events: Events,
    /// A SYN or SYN-ACK is to leave.
    syn_due: bool,
    timestamps: bool,
}

impl Endpoint {
    fn new(config: Arc<Config>, seed: u64, state: State) -> Self {
        Self {
            sender: Sender::new(&config, seed),
            receiver: Receiver::new(),
            timestamps: config.timestamps,
            config,
            reset: Reset::None,
            syn_at: Time::ZERO,
            no_challenge_before: Time::ZERO,
            state,
            events: Events::default(),
            syn_due: false,
        }
    }

    /// Opens a connection: the SYN waits to be polled. `seed` is for algorithms that draw.
    pub fn connect(_now: Time, config: Arc<Config>, seed: u64) -> Self {
        let mut endpoint = Self::new(config, seed, State::SynSent);
        endpoint.syn_due = true;
        endpoint
    }

    /// Waits for the SYN of one connection.
    pub fn listen(config: Arc<Config>, seed: u64) -> Self {
        Self::new(config, seed, State::Listen)
    }

    /// Puts up to `bytes` into the send buffer; returns how many found room. None do after
    /// [`close`](Self::close). [`Event::Writable`] reports new room.
    pub fn write(&mut self, bytes: u64) -> u64 {
        if self.state == State::Closed {
            return 0;
        }
        self.sender.write(bytes, &self.config)
    }

    /// Takes up to `bytes` out of the receive buffer; returns how many there were.
    pub fn read(&mut self, bytes: u64) -> u64 {
        self.receiver.take(bytes, &self.config)
    }

    /// Bytes in the receive buffer that can be read.
    pub fn readable(&self) -> u64 {
        self.receiver.readable()
    }

    /// Bytes written and not yet acknowledged.
    pub fn buffered(&self) -> u64 {
        self.sender.buffered()
    }

    /// From now on what arrives is read at once, without [`Event::Readable`].
    pub fn set_auto_read(&mut self, auto: bool) {
        self.receiver.auto_read = auto;
        if auto {
            self.receiver.take(u64::MAX, &self.config);
        }
    }

    /// Nothing more will be written: a FIN follows what is, also where the handshake is not yet
    /// done.
    pub fn close(&mut self) {
        match self.state {
            State::Listen => return self.end(),
            State::SynSent | State::SynReceived | State::Established | State::CloseWait => {}
            _ => return,
        }
        if self.sender.fin == Fin::Open {
            self.sender.fin = Fin::Wanted;
        }
        match self.state {
            State::Established => self.state = State::FinWait1,
            State::CloseWait => self.state = State::LastAck,
            _ => {}
        }
    }

    /// Ends the connection at once, with a reset if the other side may have a connection.
    pub fn abort(&mut self) {
        let known = !matches!(self.state, State::Listen | State::SynSent | State::TimeWait);
        if known && self.state != State::Closed {
            self.reset = Reset::From(self.sender.nxt);
        }
        self.end();
    }

    fn end(&mut self) {
        if self.state != State::Closed {
            self.state = State::Closed;
            self.syn_due = false;
            self.sender.halt();
            self.receiver.delayed = Time::MAX;
            self.events.push(Event::Closed);
        }
    }

    /// Whether [`poll_event`](Self::poll_event) would return an event.
    pub fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    /// The next event for the application.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called; `None` if nothing is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        let at = self.sender.poll_timeout().min(self.receiver.delayed);
        (at != Time::MAX).then_some(at)
    }

    /// Does what is due by `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.receiver.delayed <= now {
            let rto = self.sender.rto(&self.config);
            self.receiver.handle_timeout(rto, &self.config);
        }
        match self.state {
            State::SynSent | State::SynReceived => self.handshake_timeout(now),
            State::TimeWait if self.sender.timer_at <= now => self.end(),
            State::Closed | State::Listen | State::TimeWait => {}
            _ => {
                if !self.sender.handle_timeout(now, &self.config) {
                    self.events.push(Event::TimedOut);
                    self.end();
                }
            }
        }
    }

    fn handshake_timeout(&mut self, now: Time) {
        if self.sender.timer_at > now {
            return;
        }
        self.sender.stop_timer();
        let most = match self.state {
            State::SynSent => self.config.syn_retries,
            _ => self.config.synack_retries,
        };
        if self.sender.retries >= most {
            self.events.push(Event::TimedOut);
            return self.end();
        }
        self.sender.retries += 1;
        self.sender.back_off();
        self.syn_due = true;
    }

    /// The next segment that leaves now.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Segment> {
        match std::mem::replace(&mut self.reset, Reset::None) {
            Reset::None => {}
            Reset::From(seq) => {
                return Some(Segment {
                    seq,
                    flags: Flags::RST,
                    ..Segment::default()
                });
            }
            Reset::Answering(ack) => {
                let flags = Flags::RST.with(Flags::ACK);
                return Some(Segment {
                    ack,
                    flags,
                    ..Segment::default()
                });
            }
        }
        match self.state {
            State::Closed | State::Listen => None,
            State::SynSent | State::SynReceived => self.poll_handshake(now),
            State::TimeWait => self.poll_ack(now),
            _ => {
                if let Some(early) = self.receiver.early.take() {
                    let mut segment = self.segment(now, self.sender.nxt, Flags::ACK);
                    segment.ack = early.ack;
                    segment.flags = ack_flags(early.ece);
                    return Some(segment);
                }
                match self.sender.poll(now, &self.config) {
                    Some(outgoing) => Some(self.data(now, outgoing)),
                    None => self.poll_ack(now),
                }
            }
        }
    }

    fn poll_handshake(&mut self, now: Time) -> Option<Segment> {
        if !std::mem::take(&mut self.syn_due) {
            return None;
        }
        self.syn_at = now;
        let rto = self.sender.rto(&self.config);
        self.sender.set_timer(Timer::Retransmit, now + rto);
        let answer = self.state == State::SynReceived;
        let mut flags = if answer {
            Flags::SYN.with(Flags::ACK)
        } else {
            Flags::SYN
        };
        let ecn = if answer {
            self.sender.ecn != EcnUse::Off
        } else {
            self.config.asks_for_ecn()
        };
        if ecn {
            flags = flags.with(Flags::ECE);
            if !answer {
                flags = flags.with(Flags::CWR);
            }
        }
        let mut segment = self.segment(now, 0, flags);
        segment.window = self.config.rmem.min(0xffff);
        self.receiver.window_end = self.receiver.next + segment.window;
        segment.syn = Some(SynOptions {
            mss: self.config.mss,
            window_scale: self
                .config
                .window_scaling
                .then(|| self.config.window_scale()),
            sack_permitted: self.config.sack,
        });
        if answer {
            let options = segment.syn.get_or_insert_default();
            options.sack_permitted = self.sender.sack;
            options.window_scale = options.window_scale.filter(|_| self.peer_scales());
        }
        if ecn && self.config.congestion == Algorithm::Dctcp {
            segment.ecn = Ecn::Ect0;
        }
        Some(segment)
    }

    fn peer_scales(&self) -> bool {
        self.receiver.scale > 0 || self.config.window_scale() == 0
    }

    fn poll_ack(&mut self, now: Time) -> Option<Segment> {
        if !self.receiver.ack_now {
            return None;
        }
        let flags = ack_flags(self.receiver.marked);
        let mut segment = self.segment(now, self.sender.nxt, flags);
        self.fill_ack(now, &mut segment);
        Some(segment)
    }

    fn data(&mut self, now: Time, outgoing: Outgoing) -> Segment {
        let mut flags = ack_flags(self.receiver.marked);
        for (set, flag) in [
            (outgoing.fin, Flags::FIN),
            (outgoing.push && outgoing.len > 0, Flags::PSH),
            (outgoing.cwr, Flags::CWR),
        ] {
            flags = if set { flags.with(flag) } else { flags };
        }
        let mut segment = self.segment(now, outgoing.seq, flags);
        segment.len = outgoing.len;
        if self.sender.ecn == EcnUse::Data && outgoing.len > 0 && !outgoing.again {
            segment.ecn = Ecn::Ect0;
        }
        self.fill_ack(now, &mut segment);
        segment
    }

    /// Fills in the current window and SACK blocks, and notes that they were sent.
    fn fill_ack(&mut self, now: Time, segment: &mut Segment) {
        let most = if self.timestamps { 3 } else { 4 };
        segment.window = self.receiver.window(&self.config);
        if self.sender.sack {
            segment.sacks = self.receiver.sacks(most);
        }
        let data = segment.len > 0;
        self.receiver
            .ack_sent(now, segment.window, data, &self.config);
    }

    fn segment(&self, now: Time, seq: u64, flags: Flags) -> Segment {
        let known = flags.has(Flags::ACK);
        let stamps = Timestamps {
            value: ticks(now),
            echo: if known { self.receiver.echo_time } else { 0 },
        };
        Segment {
            seq,
            ack: if known { self.receiver.next } else { 0 },
            window: self.receiver.window_end.saturating_sub(self.receiver.next),
            flags,
            ecn: if self.sender.ecn == EcnUse::All {
                Ecn::Ect0
            } else {
                Ecn::NotEct
            },
            timestamps: self.timestamps.then_some(stamps),
            ..Segment::default()
        }
    }

    /// The state of the connection.
    pub fn state(&self) -> State {
        self.state
    }

    /// The numbers of the next byte to send and of the next one awaited (0 before the other
    /// side's SYN).
    pub fn next_numbers(&self) -> (u64, u64) {
        (self.sender.nxt, self.receiver.next)
    }

    /// Its congestion control.
    pub fn congestion(&self) -> Algorithm {
        self.config.congestion
    }

    /// Congestion window and slow start threshold, in segments.
    pub fn window(&self) -> (u32, u32) {
        (self.sender.window.cwnd, self.sender.window.ssthresh)
    }

    /// All round trips measured.
    pub fn round_trips(&self) -> RoundTrips {
        self.sender.rtt.taken()
    }

    /// Figures of the moment.
    pub fn info(&self) -> Info {
        let sender = &self.sender;
        Info {
            state: self.state,
            phase: sender.phase,
            cwnd: sender.window.cwnd,
            ssthresh: sender.window.ssthresh,
            unacked: sender.board.len(),
            lost: sender.board.lost,
            in_flight: sender.board.in_flight(),
            mss: sender.mss,
            srtt: sender.rtt.srtt(),
            rtt_var: sender.rtt.deviation(),
            min_rtt: sender.rtt.least(),
            rto: sender.rto(&self.config),
            pacing: sender.pacing(&self.config),
            segments_sent: sender.sent,
            retransmitted: sender.resent,
            delivered: sender.delivered,
            delivered_ce: sender.delivered_ce,
            timeouts: sender.timeouts,
            undone: sender.undone,
            acknowledged: sender.acknowledged(),
            received: self.receiver.received(),
        }
    }
}

fn ack_flags(ece: bool) -> Flags {
    if ece {
        Flags::ACK.with(Flags::ECE)
    } else {
        Flags::ACK
    }
}

/// The least time between challenge acknowledgements (`tcp_invalid_ratelimit`).
const CHALLENGE_INTERVAL: Span = Span::from_ms(500);
