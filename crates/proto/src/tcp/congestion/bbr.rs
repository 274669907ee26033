//! BBR, version 1 (Cardwell et al., ACM Queue 14, 2016; Linux's `tcp_bbr.c`).
//!
//! Theory: the model of the path is the bandwidth of its bottleneck (the largest delivery rate of the last
//! 10 round trips) and its least round trip (of the last 10 s). Sends are paced at the bandwidth times a
//! gain, and the window bounds what is in flight. Startup paces at 2/ln 2 times the bandwidth until that has
//! not grown by a quarter in three round trips; Drain empties the queue that Startup built; ProbeBw cycles
//! through the gains 5/4, 3/4 and six times 1, each for about one least round trip; ProbeRtt lowers the
//! window to 4 segments for 200 ms when no lower round trip was seen for 10 s.
//!
//! Windows have room for super-packets at both hosts, of as many segments as the kernel would hand to
//! segmentation offload at this rate (`super_packet.rs`). The model sends each segment by itself, as the kernel
//! does through an interface without that offload: the room does not depend on the interface. It decides how
//! many segments a probe loses at a queue shorter than a quarter of the bandwidth-delay product, as a probe goes
//! on until its target is in flight, or a loss is known one round trip later.
//!
//! Left out: the estimation of policers' long-term rates (`bbr_lt_bw_sampling`).

mod aggregation;
mod super_packet;

use longhaul_core::time::{Span, Time};

use super::super::windowed::Windowed;
use super::{Ack, Config, CongestionControl, CongestionSignal, Phase, Window};
use aggregation::Aggregation;

/// 2 / ln 2, as the kernel rounds it (`bbr_high_gain`).
const HIGH_GAIN: f64 = 739.0 / 256.0;
/// The inverse of the Startup gain: empties in one round trip what Startup queued in one (`bbr_drain_gain`).
const DRAIN_GAIN: f64 = 88.0 / 256.0;
/// Twice the bandwidth-delay product: keeps sending while acknowledgements are delayed or aggregated.
const CWND_GAIN: f64 = 2.0;
/// Pacing gains of ProbeBw: probe for more bandwidth, drain the queue that made, then cruise.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Round trips over which the largest bandwidth counts.
const BANDWIDTH_ROUNDS: u64 = 10;
const MIN_RTT_WINDOW: Span = Span::from_s(10);
const PROBE_RTT_TIME: Span = Span::from_ms(200);
const MIN_CWND: u32 = 4;
/// Startup ends when the bandwidth has not grown by this factor in `FULL_ROUNDS` round trips.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u8 = 3;
/// Paces 1 % below the estimated bandwidth, so that a queue drains in the long run.
const MARGIN: f64 = 0.99;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// State of BBR; rates in segments per second.
#[derive(Debug)]
pub(super) struct Bbr {
    bandwidth: Windowed<f64>,
    rounds: u64,
    /// The round trip ends with the delivery of a segment that was sent after this many deliveries.
    round_end: u64,
    min_rtt: Span,
    min_rtt_at: Time,
    probe_rtt_end: Time,
    cycle_at: Time,
    full_bandwidth: f64,
    /// Segments per second; 0 before it is known.
    rate: f64,
    pacing_gain: f64,
    cwnd_gain: f64,
    /// State of the stream of draws.
    draws: u64,
    aggregation: Aggregation,
    initcwnd: u32,
    mss: u32,
    prior_cwnd: u32,
    mode: Mode,
    last_phase: Phase,
    cycle: u8,
    full_rounds: u8,
    full: bool,
    round_start: bool,
    probe_rtt_round: bool,
    idle_restart: bool,
    packet_conservation: bool,
    seen_rtt: bool,
}

impl Bbr {
    pub(super) fn new(config: &Config, seed: u64) -> Self {
        let initcwnd = config.initcwnd.max(1);
        Self {
            bandwidth: Windowed::new(0, 0.0),
            rounds: 0,
            round_end: 0,
            min_rtt: Span::MAX,
            min_rtt_at: Time::ZERO,
            probe_rtt_end: Time::MAX,
            cycle_at: Time::ZERO,
            full_bandwidth: 0.0,
            // As if the round trip were 1 ms.
            rate: f64::from(initcwnd) * HIGH_GAIN * 1000.0,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            draws: seed,
            aggregation: Aggregation::new(Time::ZERO),
            initcwnd,
            mss: config.mss,
            prior_cwnd: 0,
            mode: Mode::Startup,
            last_phase: Phase::Open,
            cycle: 0,
            full_rounds: 0,
            full: false,
            round_start: false,
            probe_rtt_round: false,
            idle_restart: false,
            packet_conservation: false,
            seen_rtt: false,
        }
    }

    /// The next draw (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
    /// OOPSLA 2014: SplitMix64).
    fn draw(&mut self) -> u64 {
        self.draws = self.draws.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.draws ^ (self.draws >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Segments that may be in flight for `gain` bandwidth-delay products (`bbr_inflight`).
    fn inflight(&self, gain: f64) -> u32 {
        self.budget(self.product(gain))
    }

    /// `gain` bandwidth-delay products, rounded up (`bbr_bdp`).
    fn product(&self, gain: f64) -> u32 {
        if self.min_rtt == Span::MAX {
            return self.initcwnd;
        }
        let product = self.bandwidth.best() * self.min_rtt.as_s() * gain;
        (product as u32).saturating_add(1)
    }

    /// Three super-packets of slack: one each waits in the sender's queue, in its offload and at the receiver.
    /// An even number because a delayed acknowledgement covers two (`bbr_quantization_budget`).
    fn budget(&self, cwnd: u32) -> u32 {
        let cwnd = cwnd.saturating_add(3 * self.super_packet() + 1) & !1;
        let probing = self.mode == Mode::ProbeBw && self.cycle == 0;
        if probing {
            cwnd.saturating_add(2)
        } else {
            cwnd
        }
    }

    fn super_packet(&self) -> u32 {
        super_packet::segments(self.rate, self.mss)
    }

    /// Counts round trips, and takes a rate sample. Samples limited by the application are below what the
    /// path carries, so they count only if they raise the estimate (`bbr_update_bw`).
    fn update_bandwidth(&mut self, ack: &Ack) {
        self.round_start = false;
        let Some(rate) = ack.rate else {
            return;
        };
        if rate.prior_delivered >= self.round_end {
            self.round_end = ack.delivered;
            self.rounds += 1;
            self.round_start = true;
            self.packet_conservation = false;
        }
        let sample = f64::from(rate.delivered) / rate.interval.as_s();
        if !rate.app_limited || sample >= self.bandwidth.best() {
            self.bandwidth
                .update(self.rounds, sample, BANDWIDTH_ROUNDS, |a, b| a >= b);
        }
    }

    /// Segments in the network when pacing lets the next leave: what is delivered until then no longer counts,
    /// and the super-packet that leaves does where more are to be in flight (`bbr_packets_in_net_at_edt`).
    fn in_network(&self, ack: &Ack, in_flight: u32) -> u32 {
        let delivered = self.bandwidth.best() * ack.pace_at.since(ack.now).as_s();
        let leaving = if self.pacing_gain > 1.0 {
            self.super_packet()
        } else {
            0
        };
        in_flight
            .saturating_add(leaving)
            .saturating_sub(delivered as u32)
    }

    /// Moves to the next gain of ProbeBw. Above 1, only once the extra segments are in flight or were lost;
    /// below 1, as soon as the queue is drained (`bbr_is_next_cycle_phase`).
    fn update_cycle(&mut self, ack: &Ack) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let long_enough = ack.now.since(self.cycle_at) > self.min_rtt;
        let in_network = self.in_network(ack, ack.prior_in_flight);
        let next = if self.pacing_gain > 1.0 {
            long_enough && (ack.losses > 0 || in_network >= self.inflight(self.pacing_gain))
        } else if self.pacing_gain < 1.0 {
            long_enough || in_network <= self.inflight(1.0)
        } else {
            long_enough
        };
        if next {
            self.next_phase(ack.now);
        }
    }

    fn next_phase(&mut self, now: Time) {
        self.cycle = (self.cycle + 1) % 8;
        self.cycle_at = now;
    }

    fn start_probe_bw(&mut self, now: Time) {
        self.mode = Mode::ProbeBw;
        // A random phase, so that flows do not probe together; but not the draining one, as no probe
        // has built a queue yet.
        self.cycle = 7 - (self.draw() % 7) as u8;
        self.next_phase(now);
    }

    /// Finds out whether Startup has filled the pipe (`bbr_check_full_bw_reached`).
    fn check_full(&mut self, ack: &Ack) {
        let app_limited = ack.rate.is_some_and(|rate| rate.app_limited);
        if self.full || !self.round_start || app_limited {
            return;
        }
        if self.bandwidth.best() >= self.full_bandwidth * FULL_GROWTH {
            self.full_bandwidth = self.bandwidth.best();
            self.full_rounds = 0;
            return;
        }
        self.full_rounds += 1;
        self.full = self.full_rounds >= FULL_ROUNDS;
    }

    /// Startup → Drain → ProbeBw (`bbr_check_drain`).
    fn check_drain(&mut self, ack: &Ack, window: &mut Window) {
        if self.mode == Mode::Startup && self.full {
            self.mode = Mode::Drain;
            window.ssthresh = self.inflight(1.0);
        }
        if self.mode == Mode::Drain && self.in_network(ack, ack.in_flight) <= self.inflight(1.0) {
            self.start_probe_bw(ack.now);
        }
    }

    /// Saves the window to restore after recovery or ProbeRtt; within these, only a larger one
    /// (`bbr_save_cwnd`).
    fn save_cwnd(&mut self, window: &Window) {
        let whole = self.last_phase < Phase::Recovery && self.mode != Mode::ProbeRtt;
        self.prior_cwnd = if whole {
            window.cwnd
        } else {
            self.prior_cwnd.max(window.cwnd)
        };
    }

    /// Updates the least round trip, and enters and leaves ProbeRtt (`bbr_update_min_rtt`). ProbeRtt lasts
    /// 200 ms and a round trip, counted from when only 4 segments are in flight: the queue is empty by then.
    fn update_min_rtt(&mut self, ack: &Ack, window: &mut Window) {
        let expired = ack.now.since(self.min_rtt_at) > MIN_RTT_WINDOW;
        if let Some(rtt) = ack.rtt
            && (rtt < self.min_rtt || expired)
        {
            self.min_rtt = rtt;
            self.min_rtt_at = ack.now;
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.save_cwnd(window);
            self.mode = Mode::ProbeRtt;
            self.probe_rtt_end = Time::MAX;
        }
        if self.mode == Mode::ProbeRtt {
            if self.probe_rtt_end == Time::MAX && ack.in_flight <= MIN_CWND {
                self.probe_rtt_end = ack.now + PROBE_RTT_TIME;
                self.probe_rtt_round = false;
                self.round_end = ack.delivered;
            } else if self.probe_rtt_end != Time::MAX {
                self.probe_rtt_round |= self.round_start;
                if self.probe_rtt_round {
                    self.check_probe_rtt_done(ack.now, window);
                }
            }
        }
        if ack.acked > 0 {
            self.idle_restart = false;
        }
    }

    fn check_probe_rtt_done(&mut self, now: Time, window: &mut Window) {
        if self.probe_rtt_end == Time::MAX || now <= self.probe_rtt_end {
            return;
        }
        self.min_rtt_at = now;
        window.cwnd = window.cwnd.max(self.prior_cwnd);
        if self.full {
            self.start_probe_bw(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw => (CYCLE[usize::from(self.cycle)], CWND_GAIN),
            Mode::ProbeRtt => (1.0, 1.0),
        };
    }

    /// Sets the first rate: the window over the first round trip (`bbr_init_pacing_rate_from_rtt`).
    fn see_rtt(&mut self, srtt: Span, window: &Window) {
        if !self.seen_rtt && srtt > Span::ZERO {
            self.seen_rtt = true;
            self.rate = f64::from(window.cwnd) * HIGH_GAIN / srtt.as_s();
        }
    }

    /// Sets the pacing rate. Before the pipe is full it never falls: early samples are too low
    /// (`bbr_set_pacing_rate`).
    fn set_rate(&mut self, ack: &Ack, gain: f64, window: &Window) {
        self.see_rtt(ack.srtt, window);
        let rate = self.bandwidth.best() * gain * MARGIN;
        if rate > 0.0 && (self.full || rate > self.rate) {
            self.rate = rate;
        }
    }

    /// Packet conservation in the first round trip of a recovery: one segment leaves for each delivered. At
    /// the end of recovery, restores the window (`bbr_set_cwnd_to_recover_or_restore`). True while the
    /// window must not grow otherwise.
    fn recover(&mut self, ack: &Ack, window: &mut Window) -> bool {
        if ack.losses > 0 {
            window.cwnd = window.cwnd.saturating_sub(ack.losses).max(1);
        }
        if ack.phase == Phase::Recovery && self.last_phase != Phase::Recovery {
            self.packet_conservation = true;
            self.round_end = ack.delivered;
            window.cwnd = ack.in_flight.saturating_add(ack.acked);
        } else if self.last_phase >= Phase::Recovery && ack.phase < Phase::Recovery {
            window.cwnd = window.cwnd.max(self.prior_cwnd);
            self.packet_conservation = false;
        }
        self.last_phase = ack.phase;
        if self.packet_conservation {
            window.cwnd = window.cwnd.max(ack.in_flight.saturating_add(ack.acked));
        }
        self.packet_conservation
    }

    /// Moves the window towards its target, by what is delivered (`bbr_set_cwnd`).
    fn set_cwnd(&mut self, ack: &Ack, window: &mut Window) {
        if ack.acked > 0 && !self.recover(ack, window) {
            let room = if self.full {
                self.aggregation.room(self.bandwidth.best())
            } else {
                0
            };
            let target = self.budget(self.product(self.cwnd_gain).saturating_add(room));
            if self.full {
                window.cwnd = window.cwnd.saturating_add(ack.acked).min(target);
            } else if window.cwnd < target || ack.delivered < u64::from(self.initcwnd) {
                window.cwnd = window.cwnd.saturating_add(ack.acked);
            }
            window.cwnd = window.cwnd.max(MIN_CWND);
        }
        if self.mode == Mode::ProbeRtt {
            window.cwnd = window.cwnd.min(MIN_CWND);
        }
    }
}

impl CongestionControl for Bbr {
    fn connected(&mut self, srtt: Span, window: &Window) {
        self.see_rtt(srtt, window);
    }

    fn restarted(&mut self, now: Time, _idle: Span, app_limited: bool, window: &mut Window) {
        if !app_limited {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart(now);
        if self.mode == Mode::ProbeBw {
            self.rate = self.bandwidth.best() * MARGIN;
        } else if self.mode == Mode::ProbeRtt {
            self.check_probe_rtt_done(now, window);
        }
    }

    fn cong_avoid(&mut self, ack: &Ack, window: &mut Window) {
        self.mss = ack.mss.max(1);
        self.update_bandwidth(ack);
        if ack.rate.is_some() {
            let bandwidth = self.bandwidth.best();
            self.aggregation
                .update(ack, bandwidth, window.cwnd, self.round_start);
        }
        self.update_cycle(ack);
        self.check_full(ack);
        self.check_drain(ack, window);
        self.update_min_rtt(ack, window);
        self.update_gains();
        self.set_rate(ack, self.pacing_gain, window);
        self.set_cwnd(ack, window);
    }

    fn ssthresh(&mut self, window: &Window, _signal: CongestionSignal) -> u32 {
        self.save_cwnd(window);
        window.ssthresh
    }

    fn phase_changed(&mut self, _now: Time, phase: Phase, _window: &mut Window) {
        if phase == Phase::Loss {
            self.last_phase = Phase::Loss;
            self.full_bandwidth = 0.0;
            self.round_start = true;
        }
    }

    fn undo(&mut self, window: &Window) -> u32 {
        self.full_bandwidth = 0.0;
        self.full_rounds = 0;
        window.cwnd
    }

    fn controls_cwnd(&self) -> bool {
        true
    }

    /// In ProbeRtt: four segments in flight say nothing about the bandwidth (`bbr_update_min_rtt`).
    fn distorts_rate_samples(&self) -> bool {
        self.mode == Mode::ProbeRtt
    }

    fn pacing(&self) -> Option<f64> {
        Some(self.rate)
    }
}
