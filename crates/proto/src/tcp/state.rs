//! The states of a connection and of its sender, and what an observer sees of them.

use longhaul_core::time::Span;

/// The state of a connection (RFC 9293 §3.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Waits for a SYN.
    Listen,
    /// Has sent a SYN.
    SynSent,
    /// Has sent a SYN-ACK.
    SynReceived,
    /// Open on both sides.
    Established,
    /// Has sent its FIN.
    FinWait1,
    /// Its FIN is acknowledged.
    FinWait2,
    /// Has the other side's FIN, not sent its own.
    CloseWait,
    /// Both FINs are sent, neither acknowledged.
    Closing,
    /// Has sent its FIN after the other side's.
    LastAck,
    /// All is done; old segments are answered.
    TimeWait,
    /// Over.
    Closed,
}

impl State {
    /// As RFC 9293 writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Listen => "LISTEN",
            Self::SynSent => "SYN-SENT",
            Self::SynReceived => "SYN-RECEIVED",
            Self::Established => "ESTABLISHED",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::CloseWait => "CLOSE-WAIT",
            Self::Closing => "CLOSING",
            Self::LastAck => "LAST-ACK",
            Self::TimeWait => "TIME-WAIT",
            Self::Closed => "CLOSED",
        }
    }

    /// Whether data may be on their way: open, or being closed.
    pub const fn is_connected(self) -> bool {
        !matches!(
            self,
            Self::Listen | Self::SynSent | Self::SynReceived | Self::TimeWait | Self::Closed
        )
    }
}

/// How a sender takes what it hears (`enum tcp_ca_state` of Linux's `include/uapi/linux/tcp.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// All is well.
    Open,
    /// Something is out of order, nothing is thought lost.
    Disorder,
    /// The window is being reduced after a mark.
    Cwr,
    /// The window is being reduced after a loss, and losses are repaired.
    Recovery,
    /// A time-out: slow start again.
    Loss,
}

/// What an application learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The handshake is done.
    Connected,
    /// There are bytes to read ([`super::Endpoint::readable`]).
    Readable,
    /// The send buffer was full and a third of it is free again.
    Writable,
    /// The other side has sent all it will, and all of it has arrived.
    PeerClosed,
    /// The other side has reset the connection, or refused it.
    Reset,
    /// The other side no longer answers.
    TimedOut,
    /// The connection is over; always the last event.
    Closed,
}

/// Events not yet reported, at most one of each kind, in the order of their kinds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Events(u8);

impl Events {
    const ORDER: [Event; 7] = [
        Event::Connected,
        Event::Readable,
        Event::Writable,
        Event::PeerClosed,
        Event::Reset,
        Event::TimedOut,
        Event::Closed,
    ];

    pub(super) fn push(&mut self, event: Event) {
        self.0 |= 1 << event as u8;
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        let event = *Self::ORDER.get(self.0.trailing_zeros() as usize)?;
        self.0 &= self.0 - 1;
        Some(event)
    }
}

/// What Linux's `tcp_info` shows, of the moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Info {
    /// State of the connection.
    pub state: State,
    /// State of the sender.
    pub phase: Phase,
    /// Congestion window, in segments.
    pub cwnd: u32,
    /// Slow start threshold, in segments.
    pub ssthresh: u32,
    /// Segments sent and not yet acknowledged.
    pub unacked: u32,
    /// Of them, those thought lost.
    pub lost: u32,
    /// Segments thought to be in the network: sent, less lost and selectively acknowledged.
    pub in_flight: u32,
    /// Payload of a full segment, in bytes.
    pub mss: u32,
    /// Smoothed round-trip time; zero before the first measurement.
    pub srtt: Span,
    /// Its mean deviation.
    pub rtt_var: Span,
    /// Least round-trip time of the last 300 s; `None` before the first measurement.
    pub min_rtt: Option<Span>,
    /// Time-out, backed off.
    pub rto: Span,
    /// Pacing rate in segments per second, where the sender paces.
    pub pacing: Option<f64>,
    /// Segments sent with data, retransmissions included.
    pub segments_sent: u64,
    /// Of them, retransmissions.
    pub retransmitted: u64,
    /// Segments known to have arrived.
    pub delivered: u64,
    /// Of these, those acknowledged with an echo of a congestion mark.
    pub delivered_ce: u64,
    /// Retransmission time-outs.
    pub timeouts: u32,
    /// Reductions of the window that turned out to be needless and were undone.
    pub undone: u32,
    /// Payload bytes acknowledged by the other side.
    pub acknowledged: u64,
    /// Payload bytes received in order.
    pub received: u64,
}
