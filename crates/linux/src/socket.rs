//! What the standard library leaves out of sockets: TCP's state, congestion control, buffers.
//!
//! `TCP_INFO` fills a structure that has only ever grown (`include/uapi/linux/tcp.h`), so fields
//! are read at their offsets, as far as this kernel fills it.
//!
//! Left out: everything that the standard library can do with a socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::net::sockopt;

use crate::sys::check;

/// More than today's structure.
const MAX_LEN: usize = 512;
/// Longest name of a congestion control, with its final zero (`TCP_CA_NAME_MAX`).
const NAME_MAX: usize = 16;
/// The kernel's own value for "no round trip seen yet".
const NO_RTT: u32 = u32::MAX;

/// A connection's state (`struct tcp_info`); windows in segments, times in microseconds. `None`
/// where this kernel does not say, besides what each field says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpInfo {
    /// Largest payload of a segment, in bytes (`tcpi_snd_mss`).
    pub mss: u32,
    /// Congestion window (`tcpi_snd_cwnd`).
    pub cwnd: u32,
    /// Slow start threshold (`tcpi_snd_ssthresh`); `None` until the first reduction.
    pub ssthresh: Option<u32>,
    /// Segments sent and not yet acknowledged (`tcpi_unacked`).
    pub unacked: u32,
    /// Of them, those thought lost (`tcpi_lost`).
    pub lost: u32,
    /// Segments on their way (`tcpi_unacked` less what was reported or found lost).
    pub in_flight: u32,
    /// Smoothed round trip (`tcpi_rtt`).
    pub rtt_us: u32,
    /// Its mean deviation (`tcpi_rttvar`).
    pub rtt_var_us: u32,
    /// Least round trip of late (`tcpi_min_rtt`); `None` before the first, or on old kernels.
    pub min_rtt_us: Option<u32>,
    /// Segments sent again (`tcpi_total_retrans`).
    pub retransmissions: u32,
    /// Bytes acknowledged (`tcpi_bytes_acked`), where the kernel says so.
    pub bytes_acked: Option<u64>,
    /// Bytes received (`tcpi_bytes_received`), where the kernel says so.
    pub bytes_received: Option<u64>,
    /// Bytes per second at which segments may leave (`tcpi_pacing_rate`); `None` where nothing
    /// bounds it.
    pub pacing_rate: Option<u64>,
    /// Bytes per second that arrived of late (`tcpi_delivery_rate`); `None` before a measurement.
    pub delivery_rate: Option<u64>,
}

impl TcpInfo {
    /// Reads it from a connection.
    ///
    /// # Errors
    /// Those of `getsockopt`; `Unsupported` on kernels before 3.15.
    pub fn read(socket: &impl AsFd) -> io::Result<Self> {
        let mut buffer = [0; MAX_LEN];
        let filled = tcp_info(socket, &mut buffer)?;
        Self::parse(filled).ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Reads it from the bytes of the structure, as many as there are; `None` below 104.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        /// `TCP_INFINITE_SSTHRESH`.
        const NO_SSTHRESH: u32 = 0x7fff_ffff;
        let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..at + 4)?.first_chunk()?));
        let long = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..at + 8)?.first_chunk()?));
        let (unacked, sacked, lost, again) = (word(24)?, word(28)?, word(32)?, word(36)?);
        Some(Self {
            mss: word(16)?,
            cwnd: word(80)?,
            ssthresh: Some(word(76)?).filter(|&ssthresh| ssthresh < NO_SSTHRESH),
            unacked,
            lost,
            in_flight: unacked
                .saturating_add(again)
                .saturating_sub(sacked.saturating_add(lost)),
            rtt_us: word(68)?,
            rtt_var_us: word(72)?,
            min_rtt_us: word(148).filter(|&rtt| rtt != NO_RTT),
            retransmissions: word(100)?,
            bytes_acked: long(120),
            bytes_received: long(128),
            pacing_rate: long(104).filter(|&rate| rate != u64::MAX),
            delivery_rate: long(160).filter(|&rate| rate > 0),
        })
    }
}

/// Sets the congestion control of a connection. A route's own choice (`congctl`) replaces what
/// was set before connecting, so this is to be called afterwards, before the first byte.
///
/// # Errors
/// Which names there are is in `/proc/sys/net/ipv4/tcp_available_congestion_control`; which of
/// them an ordinary user may take, in `tcp_allowed_congestion_control`.
pub fn set_congestion(socket: &impl AsFd, name: &str) -> io::Result<()> {
    let problem = |error: io::Error| {
        let hint = match error.raw_os_error() {
            Some(libc::EPERM) => {
                "this user may not choose it: see tcp_allowed_congestion_control in tcp(7), or choose it for the host"
            }
            Some(libc::ENOENT) => {
                "this kernel does not have it: see tcp_available_congestion_control in tcp(7)"
            }
            _ => "the kernel refused",
        };
        io::Error::new(
            error.kind(),
            format!("congestion control {name}: {error}; {hint}"),
        )
    };
    if name.is_empty() || name.len() >= NAME_MAX {
        return Err(problem(io::Error::from_raw_os_error(libc::ENOENT)));
    }
    sockopt::set_tcp_congestion(socket, name).map_err(|error| problem(error.into()))
}

/// The congestion control of a connection.
///
/// # Errors
/// Those of `getsockopt`.
pub fn congestion(socket: &impl AsFd) -> io::Result<String> {
    Ok(sockopt::tcp_congestion(socket)?)
}

/// Asks for a receive buffer of `bytes`; the kernel gives what the user may have
/// (`net.core.rmem_max`).
///
/// # Errors
/// Those of `setsockopt`.
pub fn set_receive_buffer(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    let bytes = bytes.min(i32::MAX as u32) as usize;
    Ok(sockopt::set_socket_recv_buffer_size(socket, bytes)?)
}

/// Reads `TCP_INFO` into `buffer`; the part that the kernel has filled.
fn tcp_info<'a>(socket: &impl AsFd, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let mut length = buffer.len() as libc::socklen_t;
    // SAFETY: the pointer and the length describe `buffer`; the kernel writes no more than
    // `length` bytes and then its size.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            buffer.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    check(result)?;
    Ok(&buffer[..(length as usize).min(buffer.len())])
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn connection() -> (TcpListener, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener, stream)
    }

    #[test]
    fn a_connection_knows_its_congestion_control() {
        let (_listener, stream) = connection();
        // Reno is in every kernel and free to use.
        set_congestion(&stream, "reno").unwrap();
        assert_eq!(congestion(&stream).unwrap(), "reno");
        for wrong in ["nosuch", "", "a-name-that-is-far-too-long"] {
            let error = set_congestion(&stream, wrong).unwrap_err().to_string();
            assert!(error.contains("tcp_available"), "{error}");
        }
        assert_eq!(congestion(&stream).unwrap(), "reno");
    }

    #[test]
    fn a_new_connection_has_a_window_and_nothing_sent_again() {
        let (_listener, stream) = connection();
        let info = TcpInfo::read(&stream).unwrap();
        assert!(info.cwnd >= 1 && info.mss > 500, "{info:?}");
        assert_eq!((info.in_flight, info.retransmissions), (0, 0));
        assert_eq!(info.ssthresh, None);
    }

    #[test]
    fn a_structure_that_is_too_short_is_none() {
        for length in [0, 50, 103] {
            assert_eq!(TcpInfo::parse(&vec![0; length]), None);
        }
        let old = TcpInfo::parse(&[0; 104]).unwrap();
        assert_eq!((old.min_rtt_us, old.bytes_acked), (None, None));
    }
}
