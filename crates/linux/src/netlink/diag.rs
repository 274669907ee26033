//! Socket diagnostics: every TCP connection of a network namespace (sock_diag(7)).
//!
//! A dump walks the whole hash table of the namespace, once per address family (`inet_diag_dump_icsk`
//! in the kernel's `net/ipv4/inet_diag.c`), and answers in messages of at most 32 KiB. It is no
//! snapshot: connections come and go meanwhile, so that one may be missing or be reported twice.
//!
//! Left out: what the messages say, see [`crate::connections`].

use std::io;

use rustix::net::RecvFlags;
use rustix::net::netlink::SOCK_DIAG;

use super::{Message, NLMSG_ERROR, Netlink, error_of, messages};
use crate::connections::STATES;

const NLM_F_ROOT_MATCH: u16 = 0x300;
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLMSG_DONE: u16 = 3;
/// `SOCK_DIAG_BY_FAMILY`: the type of a request, and of each connection's message in its answer.
pub(crate) const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// Attributes of an answer; a request asks for each by a bit.
pub(crate) const INET_DIAG_INFO: u16 = 2;
pub(crate) const INET_DIAG_CONG: u16 = 4;
/// Room for the kernel's answers, which are of at most 32 KiB.
pub(crate) type Buffer = Box<[u8; 64 << 10]>;
/// How often a dump that the kernel calls inconsistent is repeated.
const REPEATS: usize = 1;

/// A socket for dumps of the network namespace in which it was opened.
#[derive(Debug)]
pub(crate) struct Diag(Netlink);

/// An empty buffer.
pub(crate) fn buffer() -> Buffer {
    Box::new([0; 64 << 10])
}

/// What a dump left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rest {
    /// Connections beyond the limit.
    pub(crate) more: u64,
    /// The table changed under each attempt, so that the kernel calls the dump inconsistent.
    pub(crate) interrupted: bool,
}

impl Diag {
    pub(crate) fn open() -> io::Result<Self> {
        Netlink::open_protocol(Some(SOCK_DIAG)).map(Self)
    }

    /// Appends the messages of up to `limit` connections to `out`, as the kernel wrote them, and
    /// counts the others. After an error the socket may still be in the middle of a dump: open
    /// another one.
    pub(crate) fn dump(
        &mut self,
        limit: usize,
        buffer: &mut Buffer,
        out: &mut Vec<u8>,
    ) -> io::Result<Rest> {
        let start = out.len();
        let mut rest = Rest::default();
        for _ in 0..=REPEATS {
            out.truncate(start);
            rest = Rest::default();
            let mut room = limit;
            for family in [libc::AF_INET, libc::AF_INET6] {
                self.walk(family as u8, (&mut room, &mut rest), buffer, out)?;
            }
            if !rest.interrupted {
                break;
            }
        }
        Ok(rest)
    }

    fn walk(
        &mut self,
        family: u8,
        (room, rest): (&mut usize, &mut Rest),
        buffer: &mut Buffer,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let sequence = self.0.send(&mut request(family))?;
        loop {
            // The kernel writes the next answer while we ask for it, so that none is awaited: a
            // socket without one would never have one.
            let read = self.0.receive(&mut buffer[..], RecvFlags::DONTWAIT)?;
            let replies = messages(&buffer[..read]).filter(|reply| reply.sequence == sequence);
            for reply in replies {
                rest.interrupted |= reply.flags & NLM_F_DUMP_INTR != 0;
                match reply.kind {
                    // Without a code where all is well, or on old kernels.
                    NLMSG_DONE if reply.payload.len() < 4 => return Ok(()),
                    NLMSG_DONE | NLMSG_ERROR => return error_of(reply.payload),
                    SOCK_DIAG_BY_FAMILY if *room > 0 => {
                        out.extend_from_slice(reply.whole);
                        *room -= 1;
                    }
                    SOCK_DIAG_BY_FAMILY => rest.more += 1,
                    _ => {}
                }
            }
        }
    }
}

/// `struct inet_diag_req_v2`: all TCP connections of a family that are in [`STATES`].
fn request(family: u8) -> Message {
    const SOCKET_ID_LEN: usize = 48;
    let bit = |attribute: u16| 1u8 << (attribute - 1);
    let extensions = bit(INET_DIAG_INFO) | bit(INET_DIAG_CONG);
    let states = STATES.iter().fold(0u32, |all, (state, _)| all | 1 << state);
    let mut header = vec![family, libc::IPPROTO_TCP as u8, extensions, 0];
    header.extend_from_slice(&states.to_ne_bytes());
    header.resize(header.len() + SOCKET_ID_LEN, 0);
    Message::new(SOCK_DIAG_BY_FAMILY, NLM_F_ROOT_MATCH, &header)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::connections::parse;

    /// Sockets of this test alone, in the machine's own namespace.
    fn pairs(count: usize, address: &str) -> (TcpListener, Vec<TcpStream>) {
        let listener = TcpListener::bind(address).unwrap();
        let to = listener.local_addr().unwrap();
        let streams = (0..count).map(|_| TcpStream::connect(to).unwrap());
        let streams = streams.collect();
        (listener, streams)
    }

    #[test]
    fn connections_of_both_families_are_dumped_and_listeners_are_not() {
        let mut kept = Vec::new();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(_) = TcpListener::bind(address) else {
                continue; // a machine without that family
            };
            let (listener, streams) = pairs(2, address);
            let mut bytes = Vec::new();
            let mut diag = Diag::open().unwrap();
            let rest = diag.dump(usize::MAX, &mut buffer(), &mut bytes).unwrap();
            assert_eq!(rest.more, 0);
            let (all, unread) = parse(&bytes);
            assert_eq!(unread, 0);
            let to = listener.local_addr().unwrap();
            for stream in &streams {
                let own = stream.local_addr().unwrap();
                let find = |local, remote| {
                    let mut found = all
                        .iter()
                        .filter(|c| c.local == local && c.remote == remote);
                    (found.next().expect("it is connected"), found.next())
                };
                let (mine, None) = find(own, to) else {
                    panic!("listed twice")
                };
                let info = crate::socket::TcpInfo::read(stream).unwrap();
                assert_eq!((mine.info.cwnd, mine.info.mss), (info.cwnd, info.mss));
                let name = crate::socket::congestion(stream).unwrap();
                assert_eq!(mine.congestion, name);
                assert_ne!(find(to, own).0.id, mine.id);
            }
            let listens =
                |c: &crate::connections::Connection| c.local == to && c.remote.port() == 0;
            assert!(!all.iter().any(listens));
            kept.push((listener, streams));
        }
        assert!(!kept.is_empty());
    }

    #[test]
    fn what_is_beyond_the_limit_is_counted() {
        let (_listener, streams) = pairs(4, "127.0.0.1:0");
        let (mut bytes, mut diag) = (vec![7], Diag::open().unwrap());
        let rest = diag.dump(3, &mut buffer(), &mut bytes).unwrap();
        assert_eq!(bytes[0], 7, "what was there stays");
        assert_eq!(parse(&bytes[1..]).0.len(), 3);
        // Both ends of each, and whatever else this machine has.
        assert!(rest.more >= 2 * streams.len() as u64 - 3, "{rest:?}");
        bytes.clear();
        let rest = diag.dump(0, &mut buffer(), &mut bytes).unwrap();
        assert!(bytes.is_empty() && rest.more >= 2 * streams.len() as u64);
    }
}
