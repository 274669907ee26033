use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use super::clients::{CLIENTS_MAX, CLIENTS_PER_HOST, REQUEST_MAX};
use super::*;

/// Longer than a socket's buffer.
const LONG: usize = 1 << 20;

/// Echoes names backwards; `short` and `long` are all that can be inquired.
#[derive(Default)]
struct Echo {
    state: String,
}

impl Answers for Echo {
    type State = String;

    fn name(&self, query: &[u8]) -> Option<Vec<u8>> {
        let answer = query.iter().rev().copied().collect();
        (query != b"silence").then_some(answer)
    }

    fn inquiry(&self, host: usize, request: &[u8], fresh: bool) -> Inquiry {
        match request {
            [.., b'\n'] if !fresh => Inquiry::Ask,
            b"long\n" => Inquiry::Reply(vec![b'x'; LONG].into()),
            [.., b'\n'] => Inquiry::Reply(format!("{host} {}", self.state).into_bytes().into()),
            _ => Inquiry::More,
        }
    }

    fn learn(&mut self, state: String) {
        self.state = state;
    }
}

/// A service of one host in a thread.
struct Bench {
    folder: PathBuf,
    names: UdpSocket,
    run: Channel,
    _feed: Channel,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Bench {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("longhaul-service-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        let listener = UnixListener::bind(folder.join("info.sock")).unwrap();
        listener.set_nonblocking(true).unwrap();
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_nonblocking(true).unwrap();
        let names = UdpSocket::bind("127.0.0.1:0").unwrap();
        names.connect(server.local_addr().unwrap()).unwrap();
        names
            .set_read_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        let (feed, taken) = channel::pair().unwrap();
        let (run, ours) = channel::pair().unwrap();
        let feed = Channel::new(feed);
        let opened = Opened { host: 3 };
        feed.send(&opened, &[server.as_fd(), listener.as_fd()])
            .unwrap();
        let serving = Serving::new(Echo::default(), taken, ours).unwrap();
        Self {
            folder,
            names,
            run: Channel::new(run),
            _feed: feed,
            thread: Some(std::thread::spawn(|| serving.serve())),
        }
    }

    fn client(&self) -> UnixStream {
        let stream = UnixStream::connect(self.folder.join("info.sock")).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        stream
    }

    /// Takes the service's question, and answers with this state.
    fn answer(&self, state: &str) {
        self.run.receive::<Ask>().unwrap().expect("a question");
        self.run.send(&state, &[]).unwrap();
    }

    fn is_asked(&self) -> bool {
        sys::wait_readable(&[self.run.as_fd()], Some(Duration::from_millis(50))).unwrap()[0]
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // The run hangs up.
        let (other, _) = Channel::pair().unwrap();
        drop(std::mem::replace(&mut self.run, other));
        let served = self.thread.take().unwrap().join();
        std::fs::remove_dir_all(&self.folder).unwrap();
        if !std::thread::panicking() {
            served.unwrap().unwrap();
        }
    }
}

fn read(mut stream: &UnixStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Whether the service has hung up; with what was sent unread is no matter.
fn is_hung_up_on(mut stream: &UnixStream) -> bool {
    match stream.read(&mut [0; 8]) {
        Ok(len) => len == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

#[test]
fn queries_are_answered_in_turn() {
    let bench = Bench::new();
    let mut room = [0; 2000];
    for query in [b"abc".as_slice(), b"silence", b"", b"de"] {
        bench.names.send(query).unwrap();
    }
    for answer in [b"cba".as_slice(), b"", b"ed"] {
        let len = bench.names.recv(&mut room).unwrap();
        assert_eq!(&room[..len], answer);
    }
    assert!(bench.names.recv(&mut room).is_err(), "no fourth answer");
    // What is too long arrives cut off, and longer than any query may be.
    bench.names.send(&[b'y'; 1500]).unwrap();
    assert_eq!(bench.names.recv(&mut room).unwrap(), DATAGRAM_ROOM);
}

#[test]
fn clients_that_wait_are_answered_with_the_runs_state_once() {
    let bench = Bench::new();
    let clients: Vec<_> = (0..5).map(|_| bench.client()).collect();
    for mut client in &clients {
        // In pieces, and nothing more to come.
        client.write_all(b"a ques").unwrap();
        client.write_all(b"tion\n").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
    }
    std::thread::sleep(Duration::from_millis(50));
    bench.answer("sunny");
    for client in &clients {
        assert_eq!(read(client), "3 sunny");
    }
    let mut late = bench.client();
    late.write_all(b"again\n").unwrap();
    assert_eq!(read(&late), "3 sunny");
    assert!(!bench.is_asked(), "what is fresh is not asked for again");
    std::thread::sleep(FRESH);
    let mut later = bench.client();
    later.write_all(b"again\n").unwrap();
    bench.answer("rainy");
    assert_eq!(read(&later), "3 rainy");
}

#[test]
fn a_reply_longer_than_a_buffer_arrives_whole() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.write_all(b"long\n").unwrap();
    bench.answer("");
    // Others are served while it does not read.
    std::thread::sleep(Duration::from_millis(20));
    let mut other = bench.client();
    other.write_all(b"short\n").unwrap();
    assert_eq!(read(&other), "3 ");
    assert_eq!(read(&client).len(), LONG);
}

#[test]
fn clients_are_held_to_their_bounds() {
    let bench = Bench::new();
    let mut chatty = bench.client();
    chatty.write_all(&[b'z'; REQUEST_MAX]).unwrap();
    assert!(is_hung_up_on(&chatty));
    let silent: Vec<_> = (0..CLIENTS_PER_HOST).map(|_| bench.client()).collect();
    let mut refused = bench.client();
    refused.write_all(b"question\n").ok();
    assert!(is_hung_up_on(&refused), "one too many");
    drop(silent);
    std::thread::sleep(Duration::from_millis(50));
    let mut welcome = bench.client();
    welcome.write_all(b"question\n").unwrap();
    bench.answer("free");
    assert_eq!(read(&welcome), "3 free");
}

#[test]
fn no_more_clients_than_there_are_slots_and_none_for_ever() {
    let mut clients = Clients::default();
    let now = MachineTime::from_ns(0);
    assert_eq!(clients.patience(now), None);
    let mut others = Vec::new();
    for host in 0..CLIENTS_MAX {
        let (ours, theirs) = UnixStream::pair().unwrap();
        others.push(theirs);
        assert!(clients.take_in(host, ours, now).is_some());
    }
    let (ours, _theirs) = UnixStream::pair().unwrap();
    assert!(clients.take_in(1 << 20, ours, now).is_none());
    let patience = clients.patience(now).unwrap();
    clients.hang_up_late(now + (patience - Duration::from_nanos(1)));
    assert!(clients.get(0).is_some());
    clients.hang_up_late(now + patience);
    assert!((0..CLIENTS_MAX).all(|slot| clients.get(slot).is_none()));
}

#[test]
fn tokens_come_back_as_they_went() {
    for token in [
        Token::Feed,
        Token::Run,
        Token::Names(0),
        Token::Info(19_999),
        Token::Client(255),
    ] {
        assert_eq!(Token::unpack(token.pack()), token);
    }
}
