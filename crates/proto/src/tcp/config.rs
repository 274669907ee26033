//! What one endpoint may be set to, named as Linux names it (ip-sysctl, ip-route(8), tcp(7)).
//!
//! One `Config` serves many endpoints: they share it. Left out: autotuning of buffers, so that
//! `rmem` and `wmem` are what a program would get by SO_RCVBUF and SO_SNDBUF, without overhead.

use longhaul_core::time::Span;

/// The congestion control of a sender (`net.ipv4.tcp_congestion_control`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Algorithm {
    /// RFC 5681.
    Reno,
    /// Xu, Harfoush and Rhee, INFOCOM 2004.
    Bic,
    /// RFC 9438.
    #[default]
    Cubic,
    /// Cardwell et al., ACM Queue 14 (2016): version 1.
    Bbr,
    /// Brakmo, O'Malley and Peterson, SIGCOMM 1994.
    Vegas,
    /// RFC 8257.
    Dctcp,
}

impl Algorithm {
    /// All of them, with the names that Linux gives them.
    pub const ALL: [(&'static str, Self); 6] = [
        ("reno", Self::Reno),
        ("bic", Self::Bic),
        ("cubic", Self::Cubic),
        ("bbr", Self::Bbr),
        ("vegas", Self::Vegas),
        ("dctcp", Self::Dctcp),
    ];

    /// The name that Linux gives it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Bic => "bic",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Vegas => "vegas",
            Self::Dctcp => "dctcp",
        }
    }
}

/// Explicit congestion notification (`net.ipv4.tcp_ecn`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EcnMode {
    /// Neither asked for nor granted.
    #[default]
    Off,
    /// Asked for and granted.
    On,
    /// Granted where the other side asks.
    Passive,
}

/// The settings of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Largest payload without options, in bytes (MTU less 40); timestamps take 12 of them.
    pub mss: u32,
    /// Congestion control. [`Algorithm::Dctcp`] also asks for ECN and echoes each mark.
    pub congestion: Algorithm,
    /// Explicit congestion notification.
    pub ecn: EcnMode,
    /// First congestion window, in segments (RFC 6928).
    pub initcwnd: u32,
    /// Largest congestion window, in segments (`snd_cwnd_clamp`).
    pub cwnd_clamp: u32,
    /// First slow start threshold, in segments.
    pub init_ssthresh: u32,
    /// Least allowance for the variation of the round trip: RTO ≥ SRTT + `rto_min`.
    pub rto_min: Span,
    /// Longest time-out.
    pub rto_max: Span,
    /// Time-out before there is a measurement (RFC 6298 §2.1).
    pub rto_initial: Span,
    /// Retransmissions of a SYN before giving up.
    pub syn_retries: u8,
    /// Retransmissions of a SYN-ACK before giving up.
    pub synack_retries: u8,
    /// Retransmissions of data, or unanswered probes, before giving up.
    pub retries2: u8,
    /// Shortest delay of an acknowledgement; zero answers each segment at once.
    pub delack_min: Span,
    /// Longest delay of an acknowledgement.
    pub delack_max: Span,
    /// Segments acknowledged at once at the start of a flow; 0 delays from the first on.
    pub quickack: u8,
    /// Selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Timestamps (RFC 7323).
    pub timestamps: bool,
    /// Window scaling (RFC 7323).
    pub window_scaling: bool,
    /// Losses by time (RFC 8985); else by counting (RFC 6675). Needs selective acknowledgements.
    pub rack: bool,
    /// Tail loss probes (RFC 8985 §7, `tcp_early_retrans`).
    pub tlp: bool,
    /// Small segments do not wait for others to be acknowledged (TCP_NODELAY).
    pub nodelay: bool,
    /// An idle connection starts anew (RFC 2861, `tcp_slow_start_after_idle`).
    pub slow_start_after_idle: bool,
    /// The window grows by segments acknowledged, as in Linux; else by acknowledgements, as
    /// before RFC 3465, which delayed acknowledgements slow down.
    pub byte_counting: bool,
    /// Sends spread over the round trip also where the congestion control does not ask for it
    /// (SO_MAX_PACING_RATE with `fq`).
    pub pacing: bool,
    /// CUBIC leaves slow start before losses (Ha and Rhee, PFLDnet 2008).
    pub hystart: bool,
    /// Send buffer in bytes: what is written and not yet acknowledged.
    pub wmem: u64,
    /// Receive buffer in bytes.
    pub rmem: u64,
    /// Time in TIME-WAIT.
    pub time_wait: Span,
}

impl Config {
    /// No sender goes on longer than this without an answer: it waits once before its first try and
    /// once behind each, [`rto_max`](Self::rto_max) at most, which another one of these allows for loss
    /// probes and for the way of the last try.
    pub fn longest_silence(&self) -> Span {
        let waits = u64::from(self.retries2) + 2;
        Span::from_ns(self.rto_max.as_ns().saturating_mul(waits))
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mss: 1460,
            congestion: Algorithm::default(),
            ecn: EcnMode::Off,
            initcwnd: 10,
            cwnd_clamp: u32::MAX,
            init_ssthresh: u32::MAX,
            rto_min: Span::from_ms(200),
            rto_max: Span::from_s(120),
            rto_initial: Span::from_s(1),
            syn_retries: 6,
            synack_retries: 5,
            retries2: 15,
            delack_min: Span::from_ms(40),
            delack_max: Span::from_ms(200),
            quickack: 16,
            sack: true,
            timestamps: true,
            window_scaling: true,
            rack: true,
            tlp: true,
            nodelay: false,
            slow_start_after_idle: true,
            byte_counting: true,
            pacing: false,
            hystart: true,
            wmem: 4 << 20,
            rmem: 6 << 20,
            time_wait: Span::from_s(60),
        }
    }
}

impl Config {
    /// The shift that makes `rmem` fit into 16 bits (RFC 7323 §2.3), at most 14.
    pub fn window_scale(&self) -> u8 {
        let over = (self.rmem >> 16).checked_ilog2().map_or(0, |log| log + 1);
        over.min(14) as u8
    }

    /// Whether this end asks for ECN when it opens a connection.
    pub(super) fn asks_for_ecn(&self) -> bool {
        self.ecn == EcnMode::On || self.congestion == Algorithm::Dctcp
    }

    /// Whether this end grants ECN to one that asks.
    pub(super) fn grants_ecn(&self) -> bool {
        self.ecn != EcnMode::Off || self.congestion == Algorithm::Dctcp
    }
}
