//! Flows over TCP: bulk transfers, and requests with responses.
//!
//! A bulk transfer ends when the sink has read all and closed, so its time covers delivery and
//! not only the filling of a buffer; that is half a round trip after the last byte's arrival.
//!
//! A request begins with [`HEADER`] bytes: `LHRQ`, its own size and that of the response, each
//! as 8 bytes, the most significant first. Nothing else on a connection begins with that `L`.
//!
//! Left out: pipelining. The next request leaves when the response has been read.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use longhaul_core::Span;
use longhaul_linux::socket::{self, TcpInfo};

use super::watch::{Series, Tally, watching};
use super::{CHUNK, Exchanges, Flow, Origin, Stop, TICK, passing};

/// Bytes at the start of a request: it cannot be smaller.
pub const HEADER: usize = 20;
const MAGIC: [u8; 4] = *b"LHRQ";

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// Its bytes, at least [`HEADER`].
    pub request: u64,
    /// Bytes of the response, at least 1.
    pub response: u64,
    /// Waited after the response.
    pub think: Span,
}

/// Where and how a flow connects.
#[derive(Debug, Clone)]
pub struct Target {
    /// What the flow is called.
    pub name: String,
    /// Tried one after the other.
    pub addresses: Vec<SocketAddr>,
    /// Congestion control; the host's own without.
    pub congestion: Option<String>,
}

impl Target {
    fn connect(&self, origin: Origin) -> io::Result<(TcpStream, Flow)> {
        let start_s = origin.elapsed_s();
        let stream = TcpStream::connect(self.addresses.as_slice()).map_err(|error| {
            let to: Vec<String> = self.addresses.iter().map(SocketAddr::to_string).collect();
            io::Error::new(error.kind(), format!("{}: {error}", to.join(", ")))
        })?;
        if let Some(name) = &self.congestion {
            socket::set_congestion(&stream, name)?;
        }
        stream.set_read_timeout(Some(TICK))?;
        stream.set_write_timeout(Some(TICK))?;
        let ends = [stream.local_addr()?, stream.peer_addr()?];
        Ok((stream, Flow::new(self.name.clone(), "tcp", ends, start_s)))
    }
}

/// The size of a request that begins with `header`, and of its response.
pub(super) fn parse_header(header: &[u8; HEADER]) -> Option<(u64, u64)> {
    let number = |at: usize| u64::from_be_bytes(header[at..at + 8].try_into().expect("8 bytes"));
    let sound = header[..4] == MAGIC && number(4) >= HEADER as u64;
    sound.then(|| (number(4), number(12)))
}

fn header(exchange: &Exchange) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..12].copy_from_slice(&exchange.request.to_be_bytes());
    bytes[12..].copy_from_slice(&exchange.response.to_be_bytes());
    bytes
}

/// Sends `bytes` (without a number as many as go) over one connection, until `until` after the
/// origin at most.
///
/// # Errors
/// Where there is no connection; what happens to one that is under way is the flow's `problem`.
pub fn bulk(
    target: &Target,
    bytes: Option<u64>,
    until: Option<Span>,
    series: Option<&mut Series>,
    origin: Origin,
    stop: &Stop,
) -> io::Result<Flow> {
    let (stream, mut flow) = target.connect(origin)?;
    let work = || -> io::Result<f64> {
        let over = || until.is_some_and(|until| origin.elapsed() >= until);
        let zeros = vec![0; CHUNK];
        let wanted = bytes.unwrap_or(u64::MAX);
        while flow.bytes < wanted && !over() {
            let part = (wanted - flow.bytes).min(CHUNK as u64) as usize;
            flow.bytes += write_some(&stream, &zeros[..part], stop)? as u64;
        }
        stream.shutdown(Shutdown::Write)?;
        match read_some(&stream, &mut [0], stop)? {
            0 => Ok(origin.elapsed_s()),
            _ => Err(io::Error::other(
                "the other end is not a `longhaul traffic sink`: it sent data",
            )),
        }
    };
    let (ended, watched) = watching(&stream, origin, series, work)?;
    flow.watched(watched);
    match ended {
        Ok(finish_s) => flow.end(finish_s, None),
        Err(error) => flow.end(origin.elapsed_s(), Some(error.to_string())),
    }
    Ok(flow)
}

/// Sends requests one after the other, over one connection or each over a `fresh` one, and
/// waits for their responses; until `until` after the origin at most.
///
/// # Errors
/// Where there is no connection at the start.
pub fn requests(
    target: &Target,
    exchanges: impl Iterator<Item = Exchange>,
    fresh: bool,
    until: Option<Span>,
    origin: Origin,
    stop: &Stop,
) -> io::Result<Flow> {
    let (mut stream, mut flow) = target.connect(origin)?;
    let (mut began_s, mut last_s) = (flow.start_s, flow.start_s);
    let mut times = Vec::new();
    let mut tally = Tally::default();
    let work = || -> io::Result<()> {
        for (number, exchange) in exchanges.enumerate() {
            if until.is_some_and(|until| origin.elapsed() >= until) {
                break;
            }
            if number > 0 {
                began_s = origin.elapsed_s();
                if fresh {
                    tally.close(&TcpInfo::read(&stream)?);
                    stream = target.connect(origin)?.0;
                }
            }
            exchange_once(&stream, &exchange, stop)?;
            tally.sample(&TcpInfo::read(&stream)?);
            flow.bytes += exchange.request + exchange.response;
            let now = origin.elapsed();
            last_s = now.as_s();
            times.push(last_s - began_s);
            if exchange.think > Span::ZERO && !stop.sleep(origin, now + exchange.think) {
                return Err(interrupted());
            }
        }
        Ok(())
    };
    let ended = work();
    tally.close(&TcpInfo::read(&stream)?);
    flow.watched(tally.watched(socket::congestion(&stream)?));
    match ended {
        Ok(()) => flow.end(last_s, None),
        Err(error) => flow.end(origin.elapsed_s(), Some(error.to_string())),
    }
    flow.exchanges = Exchanges::of(times);
    Ok(flow)
}

fn exchange_once(stream: &TcpStream, exchange: &Exchange, stop: &Stop) -> io::Result<()> {
    let mut chunk = vec![
        0;
        CHUNK
            .min(exchange.request.max(exchange.response) as usize)
            .max(HEADER)
    ];
    chunk[..HEADER].copy_from_slice(&header(exchange));
    let mut sent = 0;
    while sent < exchange.request {
        let at = (sent as usize).min(HEADER);
        let part = (exchange.request - sent).min((chunk.len() - at) as u64) as usize;
        sent += write_some(stream, &chunk[at..at + part], stop)? as u64;
    }
    let mut got = 0;
    while got < exchange.response {
        let part = (exchange.response - got).min(chunk.len() as u64) as usize;
        match read_some(stream, &mut chunk[..part], stop)? {
            0 => {
                return Err(io::Error::new(
                    ErrorKind::UnexpectedEof,
                    "the sink closed the connection",
                ));
            }
            length => got += length as u64,
        }
    }
    Ok(())
}

/// Writes what goes, at least one byte.
pub(super) fn write_some(mut stream: &TcpStream, bytes: &[u8], stop: &Stop) -> io::Result<usize> {
    loop {
        if stop.is_set() {
            return Err(interrupted());
        }
        match stream.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(length) => return Ok(length),
            Err(error) if passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Reads what is there, at least one byte; 0 is the end.
pub(super) fn read_some(
    mut stream: &TcpStream,
    buffer: &mut [u8],
    stop: &Stop,
) -> io::Result<usize> {
    loop {
        if stop.is_set() {
            return Err(interrupted());
        }
        match stream.read(buffer) {
            Err(error) if passing(&error) => {}
            other => return other,
        }
    }
}

fn interrupted() -> io::Error {
    io::Error::new(ErrorKind::Interrupted, "stopped by a signal")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_written() {
        let exchange = Exchange {
            request: 300,
            response: u64::MAX,
            think: Span::ZERO,
        };
        let bytes = header(&exchange);
        assert_eq!(parse_header(&bytes), Some((300, u64::MAX)));
        let mut short = bytes;
        short[4..12].copy_from_slice(&19u64.to_be_bytes());
        assert_eq!(parse_header(&short), None);
        assert_eq!(parse_header(&[0; HEADER]), None);
    }
}
