//! Serves the page of a run, with rows of full resolution from the run folder.
//!
//! For the user's own browser on this machine, and nobody else: bound to 127.0.0.1; read-only (GET and HEAD);
//! every path begins with a token of 128 random bits; the `Host` header must name this server, which stops DNS
//! rebinding; an `Origin` other than this server is refused, so that no other page can read. Of the run folder
//! it serves the page, rows of series, and the files that the page links to: those of a fixed list of names and
//! folders, never the target of a symbolic link.
//!
//! **Bounds.** [`THREADS`] connections at a time, one request each; a client slower than [`PATIENCE`] is
//! dropped, and a head longer than [`HEAD_MAX`] refused. An answer has at most [`ROWS`] rows. Files are streamed.
//!
//! Left out: encryption, since nothing leaves the machine; other users of it are kept out by the token.

use std::fs::{self, File};
use std::io::{self, Cursor, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use longhaul_linux::clock::MachineTime;

use super::document::{Ending, Window};
use super::windows::{self, Wanted};
use super::{Extent, gather, specs};
use crate::http::{self, Parsed, Request, Status};

/// Connections that are served at a time; others wait in the kernel's queue.
const THREADS: usize = 8;
/// How long a client may take to send its request, and to take each piece of the reply.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a worker waits after the system has let no connection in.
const RETRY: Duration = Duration::from_millis(100);
/// The longest head of a request.
const HEAD_MAX: usize = 16 << 10;
/// After the reply: how often, and for how long each time, the rest of what a client sends is read.
const REST: (usize, Duration) = (32, Duration::from_millis(100));
/// Rows of an answer.
const ROWS: usize = 50_000;
/// The longest address that is accepted, and the most parts of a key.
const ADDRESS_MAX: usize = 8_192;
const KEYS_MAX: usize = 16;
/// Bytes of the token.
const TOKEN: usize = 16;
/// Files of a run folder that are given, and folders of which they are.
const FILES: [&str; 5] = [
    "experiment.yaml",
    "network.json",
    "hosts.txt",
    "summary.json",
    "flows.csv",
];
const FOLDERS: [&str; 3] = ["logs", "series", "captures"];
const PAGE: &str = "report.html";

/// A server of one run.
pub struct Server {
    listener: TcpListener,
    run: Run,
    address: SocketAddr,
}

/// What requests are about.
struct Run {
    folder: PathBuf,
    extent: Extent,
    token: String,
    /// `127.0.0.1:PORT` and `localhost:PORT`.
    names: [String; 2],
    /// The page of a run that has ended does not change.
    page: Mutex<Option<Arc<[u8]>>>,
}

impl Server {
    /// Listens on 127.0.0.1; on a free port where none is asked for.
    ///
    /// # Errors
    /// The port is taken, or the system has no random numbers.
    pub fn bind(folder: &Path, extent: Extent, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        let mut token = [0; TOKEN];
        File::open("/dev/urandom")?.read_exact(&mut token)?;
        let run = Run {
            folder: folder.canonicalize()?,
            extent,
            token: token.iter().map(|byte| format!("{byte:02x}")).collect(),
            names: ["127.0.0.1", "localhost"].map(|name| format!("{name}:{}", address.port())),
            page: Mutex::default(),
        };
        Ok(Self {
            listener,
            run,
            address,
        })
    }

    /// Where the page is, token and all.
    pub fn url(&self) -> String {
        format!("http://{}/{}/{PAGE}", self.address, self.run.token)
    }

    /// Answers for as long as the process lives.
    pub fn serve(&self) {
        let worker = || {
            loop {
                match self.listener.accept() {
                    // Whoever has gone away wants no answer.
                    Ok((stream, _)) => drop(self.run.converse(stream)),
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    // Such as a lack of file descriptors, which passes (accept(2)).
                    Err(_) => thread::park_timeout(RETRY),
                }
            }
        };
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(worker);
            }
        });
    }
}

/// Reads until the head of a request is whole, wrong, or too long; an error where that takes longer than `patience`.
fn head_of(stream: &mut TcpStream, patience: Duration) -> io::Result<Vec<u8>> {
    let until = MachineTime::now() + patience;
    let (mut head, mut block) = (Vec::new(), [0; 4096]);
    while head.len() < HEAD_MAX && matches!(http::parse(&head), Parsed::Part) {
        let left = until.since(MachineTime::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut block)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => head.extend(&block[..bytes]),
        }
    }
    Ok(head)
}

/// What a client gets.
struct Answer {
    status: Status,
    kind: &'static str,
    /// Its content security policy.
    policy: &'static str,
    bytes: u64,
    body: Box<dyn Read>,
}

/// The content security policy of everything but pages: no scripts, no requests.
const INERT: &str = "default-src 'none'; sandbox";

impl Answer {
    fn new(kind: &'static str, policy: &'static str, body: impl AsRef<[u8]> + 'static) -> Self {
        Self {
            status: Status::Ok,
            kind,
            policy,
            bytes: body.as_ref().len() as u64,
            body: Box::new(Cursor::new(body)),
        }
    }

    fn refusal((status, why): Refusal) -> Self {
        let text = format!("{why}\n");
        Self {
            status,
            ..Self::new("text/plain; charset=utf-8", INERT, text)
        }
    }

    /// Writes it, without its body where only the head is asked for. An error where the client takes nothing for
    /// longer than `patience`.
    fn write(
        mut self,
        stream: &mut TcpStream,
        head_alone: bool,
        patience: Duration,
    ) -> io::Result<()> {
        let fields = [
            ("Content-Security-Policy", self.policy),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("X-Frame-Options", "DENY"),
        ];
        stream.set_write_timeout(Some(patience))?;
        stream.write_all(http::head(self.status, self.kind, self.bytes, &fields).as_bytes())?;
        if !head_alone {
            io::copy(&mut self.body, stream)?;
        }
        stream.shutdown(Shutdown::Write)
    }
}

/// Why there is no answer, as a status and words.
type Refusal = (Status, &'static str);

impl Run {
    /// Answers to the one request of a connection.
    fn converse(&self, mut stream: TcpStream) -> io::Result<()> {
        let head = head_of(&mut stream, PATIENCE)?;
        let (answer, head_alone) = match http::parse(&head) {
            Parsed::Whole(request) => (self.answer(&request), request.method == "HEAD"),
            Parsed::Part => (Err((Status::HeadTooLong, "the request is too long")), false),
            Parsed::Bad => (
                Err((Status::BadRequest, "this is not an HTTP request")),
                false,
            ),
        };
        let answer = answer.unwrap_or_else(Answer::refusal);
        answer.write(&mut stream, head_alone, PATIENCE)?;
        // A connection that is closed with something unread is reset, which can cost the client the reply.
        let (times, each) = REST;
        stream.set_read_timeout(Some(each))?;
        let mut block = [0; 4096];
        for _ in 0..times {
            if stream.read(&mut block)? == 0 {
                break;
            }
        }
        Ok(())
    }

    fn answer(&self, request: &Request<'_>) -> Result<Answer, Refusal> {
        if !matches!(request.method, "GET" | "HEAD") {
            return Err((Status::MethodNotAllowed, "only GET and HEAD are supported"));
        }
        self.check_fields(request)?;
        let target = request.target;
        if target.len() > ADDRESS_MAX {
            return Err((Status::TargetTooLong, "the URL is too long"));
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let rest = path
            .strip_prefix('/')
            .ok_or((Status::NotFound, "no such page"))?;
        let (token, name) = rest.split_once('/').unwrap_or((rest, ""));
        if !same(token, &self.token) {
            return Err((
                Status::Forbidden,
                "wrong token: use the address that `longhaul report --serve` printed",
            ));
        }
        match name {
            PAGE | "" => Ok(self.page()),
            "rows" => self.rows(query),
            file => self.file(file),
        }
    }

    /// Only this machine's browser, and only pages of this server.
    fn check_fields(&self, request: &Request<'_>) -> Result<(), Refusal> {
        let is_own = |name: &[u8]| self.names.iter().any(|own| own.as_bytes() == name);
        let mut hosts = request.values("Host");
        let host = hosts.next().unwrap_or_default();
        if hosts.next().is_some() || !is_own(host) {
            return Err((Status::Forbidden, "the Host header names another server"));
        }
        let mut origins = request.values("Origin");
        if !origins.all(|origin| origin.strip_prefix(b"http://").is_some_and(is_own)) {
            return Err((
                Status::Forbidden,
                "requests from pages of another origin are refused",
            ));
        }
        // `none` is an address that the user has typed or opened.
        let mut sites = request.values("Sec-Fetch-Site");
        if !sites.all(|site| matches!(site, b"same-origin" | b"none")) {
            return Err((Status::Forbidden, "requests from other sites are refused"));
        }
        Ok(())
    }

    fn page(&self) -> Answer {
        let mut kept = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        let html = kept.clone().unwrap_or_else(|| {
            let whole = std::cell::Cell::new(false);
            let html = super::made(&self.extent, |extent| {
                let run = gather::run(&self.folder, None, extent);
                whole.set(run.ending == Ending::Whole);
                let mut document = super::document(vec![run]);
                document.served = true;
                document
            });
            let html: Arc<[u8]> = html.into_bytes().into();
            if whole.get() {
                *kept = Some(Arc::clone(&html));
            }
            html
        });
        drop(kept);
        Answer::new("text/html; charset=utf-8", "frame-ancestors 'none'", html)
    }

    /// Rows of a thing of a series, as a window of the page has them.
    fn rows(&self, query: &str) -> Result<Answer, Refusal> {
        const WRONG: Refusal = (
            Status::BadRequest,
            "malformed query: write rows?series=NAME&from_ns=N&to_ns=N&key=…",
        );
        let (mut series, mut from_ns, mut to_ns, mut key) = (None, None, None, Vec::new());
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or(WRONG)?;
            let value = decoded(&value.replace('+', " ")).ok_or(WRONG)?;
            match name {
                "series" => series = specs::find(&value),
                "from_ns" => from_ns = value.parse::<u64>().ok(),
                "to_ns" => to_ns = value.parse::<u64>().ok(),
                "key" if key.len() < KEYS_MAX => key.push(value),
                _ => return Err(WRONG),
            }
        }
        let (Some(spec), Some(from_ns), Some(to_ns)) = (series, from_ns, to_ns) else {
            return Err(WRONG);
        };
        if from_ns > to_ns || key.len() != spec.keys.len() {
            return Err(WRONG);
        }
        let wanted = [Wanted {
            track: 0,
            why: "asked",
            from_ns,
            to_ns,
        }];
        let windows = windows::collect(&self.folder, spec, &[&key], &wanted, ROWS);
        let window: Option<&Window> = windows.first();
        let json = serde_json::to_vec(&window)
            .map_err(|_| (Status::InternalError, "the rows cannot be encoded"))?;
        Ok(Answer::new("application/json", INERT, json))
    }

    /// A file of the run folder.
    fn file(&self, name: &str) -> Result<Answer, Refusal> {
        const NONE: Refusal = (
            Status::NotFound,
            "the run folder has no such file, or it may not be served",
        );
        let name = decoded(name).ok_or(NONE)?;
        let path = Path::new(&name);
        let parts: Option<Vec<_>> = path
            .components()
            .map(|part| match part {
                Component::Normal(part) => part.to_str(),
                _ => None,
            })
            .collect();
        let parts = parts.ok_or(NONE)?;
        // Only the canonical spelling: `a//b` and `a/./b` would name the same file.
        if parts.join("/") != name {
            return Err(NONE);
        }
        let is_given = match *parts.as_slice() {
            [file] => FILES.contains(&file),
            [folder, ..] => FOLDERS.contains(&folder),
            [] => false,
        };
        let whole = self.folder.join(path);
        // No part of the path is a symbolic link if the canonical path is the path itself.
        let real = whole.canonicalize().map_err(|_| NONE)?;
        if !is_given || real != whole || !fs::metadata(&real).is_ok_and(|file| file.is_file()) {
            return Err(NONE);
        }
        let file = File::open(&real).map_err(|_| NONE)?;
        // A file that grows meanwhile is served at this length.
        let bytes = file.metadata().map_err(|_| NONE)?.len();
        let kind = match real.extension().and_then(|ending| ending.to_str()) {
            Some("parquet" | "pcapng") => "application/octet-stream",
            _ => "text/plain; charset=utf-8",
        };
        Ok(Answer {
            bytes,
            body: Box::new(file.take(bytes)),
            ..Answer::new(kind, INERT, [])
        })
    }
}

/// Compares in constant time, so that timing does not reveal where two texts differ.
fn same(a: &str, b: &str) -> bool {
    let differs = a
        .bytes()
        .zip(b.bytes())
        .fold(0, |differs, (a, b)| differs | (a ^ b));
    a.len() == b.len() && differs == 0
}

/// Decodes percent-encoding; `None` where the result is not UTF-8.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        bytes.push(match first {
            b'%' => {
                let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
                rest = &rest[2..];
                u8::from_str_radix(digits, 16)
                    .ok()
                    .filter(|_| !digits.starts_with('+'))?
            }
            byte => *byte,
        });
    }
    String::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests;
