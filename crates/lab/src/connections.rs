//! TCP connections of kernels and of modelled hosts, in one form and in experiment time.
//!
//! What a kernel does not say, or an endpoint does not keep, is `None`.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;

use longhaul_core::Span;
use longhaul_core::topology::NodeId;
use longhaul_linux::connections as kernel;
use longhaul_proto::modelled::{self, Name};

pub use crate::pace::Dilation;

/// Kernels and endpoints know no threshold above this (`TCP_INFINITE_SSTHRESH`).
const NO_SSTHRESH: u32 = 0x7fff_ffff;

/// One end of a TCP connection. Windows are in segments: times [`mss`](Self::mss), in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// The host.
    pub host: NodeId,
    /// The modelled flow; none for a program's connection.
    pub flow: Option<Name>,
    /// Together with host and flow, the same for the same connection and for no other: a kernel's
    /// number of the socket, or which of the flow's connections it is.
    pub id: u64,
    /// Its own address and port.
    pub local: SocketAddr,
    /// The other end's.
    pub remote: SocketAddr,
    /// Its state, as RFC 9293 writes it.
    pub state: &'static str,
    /// Its congestion control, by Linux's name.
    pub congestion: Cow<'static, str>,
    /// Payload of a full segment, in bytes.
    pub mss: u32,
    /// Congestion window, in segments.
    pub cwnd: u32,
    /// Slow start threshold, in segments; `None` before the first reduction.
    pub ssthresh: Option<u32>,
    /// Segments sent and not yet acknowledged.
    pub unacked: u32,
    /// Of them, those thought lost.
    pub lost: u32,
    /// Segments thought to be in the network.
    pub in_flight: u32,
    /// Smoothed round trip and its mean deviation; `None` before the first measurement.
    pub rtt: Option<[Span; 2]>,
    /// Least round trip of late.
    pub min_rtt: Option<Span>,
    /// Bytes per second at which segments may leave; `None` where nothing bounds it.
    pub pacing_rate: Option<u64>,
    /// Bytes per second that arrived of late, at the other end.
    pub delivery_rate: Option<u64>,
    /// Bytes acknowledged by the other end; a kernel counts a SYN and a FIN as one each.
    pub acked: Option<u64>,
    /// Bytes received in order.
    pub received: Option<u64>,
    /// Segments sent again.
    pub retransmissions: u64,
}

impl Connection {
    /// A program's connection, as the kernel of `host` reports it.
    pub fn of_kernel(host: NodeId, of: &kernel::Connection, dilation: Dilation) -> Self {
        let info = &of.info;
        let span = |us: u32| dilation.span(Duration::from_micros(us.into()));
        let rate = |per_s: u64| dilation.per_experiment_second(per_s);
        Self {
            host,
            flow: None,
            id: of.id,
            local: of.local,
            remote: of.remote,
            state: of.state.name(),
            congestion: Cow::Owned(of.congestion.clone()),
            mss: info.mss,
            cwnd: info.cwnd,
            ssthresh: info.ssthresh,
            unacked: info.unacked,
            lost: info.lost,
            in_flight: info.in_flight,
            rtt: (info.rtt_us > 0).then(|| [span(info.rtt_us), span(info.rtt_var_us)]),
            min_rtt: info.min_rtt_us.map(span),
            pacing_rate: info.pacing_rate.map(rate),
            delivery_rate: info.delivery_rate.map(rate),
            acked: info.bytes_acked,
            received: info.bytes_received,
            retransmissions: info.retransmissions.into(),
        }
    }

    /// A modelled connection.
    pub fn of_model(of: &modelled::Connection) -> Self {
        let info = &of.info;
        let bytes = |segments: f64| (segments * f64::from(info.mss)) as u64;
        Self {
            host: of.host,
            flow: Some(of.name.clone()),
            id: of.number.into(),
            local: of.local,
            remote: of.remote,
            state: info.state.name(),
            congestion: Cow::Borrowed(of.congestion.name()),
            mss: info.mss,
            cwnd: info.cwnd,
            ssthresh: Some(info.ssthresh).filter(|&ssthresh| ssthresh < NO_SSTHRESH),
            unacked: info.unacked,
            lost: info.lost,
            in_flight: info.in_flight,
            rtt: (info.srtt > Span::ZERO).then_some([info.srtt, info.rtt_var]),
            min_rtt: info.min_rtt,
            pacing_rate: info.pacing.map(bytes),
            delivery_rate: None,
            acked: Some(info.acknowledged),
            received: Some(info.received),
            retransmissions: info.retransmitted,
        }
    }

    /// The congestion window in bytes.
    pub fn cwnd_bytes(&self) -> u64 {
        u64::from(self.cwnd) * u64::from(self.mss)
    }
}

#[cfg(test)]
mod tests {
    use longhaul_linux::socket::TcpInfo;
    use longhaul_proto::modelled::Side;
    use longhaul_proto::tcp::{Algorithm, Info, Phase, State};

    use super::*;

    fn kernel() -> kernel::Connection {
        kernel::Connection {
            id: 77,
            local: "10.0.0.1:5201".parse().unwrap(),
            remote: "10.0.0.2:40000".parse().unwrap(),
            state: kernel::State::FinWait1,
            congestion: "bbr".to_owned(),
            info: TcpInfo {
                mss: 1448,
                cwnd: 20,
                ssthresh: Some(15),
                unacked: 9,
                lost: 2,
                in_flight: 7,
                rtt_us: 20_000,
                rtt_var_us: 3000,
                min_rtt_us: Some(10_000),
                retransmissions: 4,
                bytes_acked: Some(123),
                bytes_received: Some(45),
                pacing_rate: Some(1_000_000),
                delivery_rate: Some(500_000),
            },
        }
    }

    fn model() -> modelled::Connection {
        modelled::Connection {
            flow: 3,
            name: "bulk".into(),
            side: Side::Opener,
            number: 77,
            host: NodeId(5),
            local: "10.0.0.1:5201".parse().unwrap(),
            remote: "10.0.0.2:40000".parse().unwrap(),
            congestion: Algorithm::Bbr,
            info: Info {
                state: State::FinWait1,
                phase: Phase::Open,
                cwnd: 20,
                ssthresh: 15,
                unacked: 9,
                lost: 2,
                in_flight: 7,
                mss: 1448,
                srtt: Span::from_ms(20),
                rtt_var: Span::from_ms(3),
                min_rtt: Some(Span::from_ms(10)),
                rto: Span::from_ms(220),
                pacing: Some(1_000_000.0 / 1448.0),
                segments_sent: 100,
                retransmitted: 4,
                delivered: 90,
                delivered_ce: 0,
                timeouts: 0,
                undone: 0,
                acknowledged: 123,
                received: 45,
            },
        }
    }

    #[test]
    fn a_kernel_and_a_model_in_one_state_are_described_alike() {
        let kernel = Connection::of_kernel(NodeId(5), &kernel(), Dilation::NONE);
        let model = Connection::of_model(&model());
        assert_eq!(model.flow, Some("bulk".into()));
        // To a byte per second, of floating-point numbers.
        assert!(model.pacing_rate.unwrap().abs_diff(1_000_000) <= 1);
        let same = Connection {
            flow: None,
            delivery_rate: Some(500_000),
            pacing_rate: Some(1_000_000),
            ..model
        };
        assert_eq!(kernel, same);
        assert_eq!(kernel.cwnd_bytes(), 20 * 1448);
        assert_eq!(kernel.rtt, Some([20, 3].map(Span::from_ms)));
        assert_eq!((kernel.state, kernel.id), ("FIN-WAIT-1", 77));
    }

    #[test]
    fn a_kernels_times_and_rates_become_the_experiments() {
        let slow = Connection::of_kernel(NodeId(5), &kernel(), Dilation::by(10));
        assert_eq!(slow.rtt, Some([Span::from_ms(2), Span::from_us(300)]));
        assert_eq!(slow.min_rtt, Some(Span::from_ms(1)));
        let rates = [slow.pacing_rate, slow.delivery_rate];
        assert_eq!(rates, [Some(10_000_000), Some(5_000_000)]);
        assert_eq!((slow.cwnd, slow.acked), (20, Some(123)));
    }

    #[test]
    fn what_is_not_known_is_none() {
        let (mut kernel, mut model) = (kernel(), model());
        (kernel.info.rtt_us, kernel.info.ssthresh) = (0, None);
        (model.info.srtt, model.info.ssthresh) = (Span::ZERO, u32::MAX);
        let kernel = Connection::of_kernel(NodeId(5), &kernel, Dilation::NONE);
        let model = Connection::of_model(&model);
        assert_eq!((kernel.rtt, kernel.ssthresh), (None, None));
        assert_eq!((model.rtt, model.ssthresh), (None, None));
    }
}
