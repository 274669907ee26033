//! The page of a run with a server behind it, which gives rows of full resolution from the run folder.
//!
//! For the user's own browser on this machine, and nobody else: bound to 127.0.0.1; read-only (GET and HEAD);
//! every path begins with a token of 128 random bits; the `Host` header must name this server, so that a name
//! of elsewhere that leads here (DNS rebinding) does not; an `Origin` that is not this server is refused, so no
//! other page reads along. Of the run folder it gives the page, rows of series, and files that the page leads
//! to: those of a fixed list of names and folders, never what a link leads to.
//!
//! **Bounds.** [`THREADS`] requests at a time; an answer has at most [`ROWS`] rows. Files are streamed.
//!
//! Left out: encryption, since nothing leaves the machine; other users of it are kept out by the token.

use std::fs::{self, File};
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tiny_http::{Header, Method, Request, Response, ResponseBox, StatusCode};

use super::document::{Ending, Window};
use super::windows::{self, Wanted};
use super::{Extent, gather, specs};

/// Requests that are answered at a time.
const THREADS: usize = 4;
/// Rows of an answer.
const ROWS: usize = 50_000;
/// The longest address that is looked at, and the most parts of a key.
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
    http: tiny_http::Server,
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
    page: Mutex<Option<Arc<str>>>,
}

impl Server {
    /// Listens on 127.0.0.1; on a free port where none is asked for.
    ///
    /// # Errors
    /// The port is taken, or the system has no random numbers.
    pub fn bind(folder: &Path, extent: Extent, port: u16) -> io::Result<Self> {
        let http =
            tiny_http::Server::http((Ipv4Addr::LOCALHOST, port)).map_err(io::Error::other)?;
        let address = http
            .server_addr()
            .to_ip()
            .ok_or_else(|| io::Error::other("no address"))?;
        let mut token = [0; TOKEN];
        File::open("/dev/urandom")?.read_exact(&mut token)?;
        let run = Run {
            folder: folder.canonicalize()?,
            extent,
            token: token.iter().map(|byte| format!("{byte:02x}")).collect(),
            names: ["127.0.0.1", "localhost"].map(|name| format!("{name}:{}", address.port())),
            page: Mutex::default(),
        };
        Ok(Self { http, run, address })
    }

    /// Where the page is, token and all.
    pub fn url(&self) -> String {
        format!("http://{}/{}/{PAGE}", self.address, self.run.token)
    }

    /// Answers until [`Server::stop`].
    pub fn serve(&self) {
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    while let Ok(request) = self.http.recv() {
                        self.run.answer(request);
                    }
                });
            }
        });
    }

    /// Ends [`Server::serve`].
    pub fn stop(&self) {
        for _ in 0..THREADS {
            self.http.unblock();
        }
    }
}

/// Why there is no answer, as a status and words.
type Refusal = (u16, &'static str);

impl Run {
    fn answer(&self, request: Request) {
        let answer = self.answer_to(&request).unwrap_or_else(|(status, why)| {
            text(
                status,
                "text/plain; charset=utf-8",
                format!("{why}\n").into_bytes(),
            )
        });
        // Whoever has gone away wants no answer.
        let _ = request.respond(answer);
    }

    fn answer_to(&self, request: &Request) -> Result<ResponseBox, Refusal> {
        if !matches!(request.method(), Method::Get | Method::Head) {
            return Err((405, "this server only gives"));
        }
        self.check_headers(request)?;
        let url = request.url();
        if url.len() > ADDRESS_MAX {
            return Err((414, "the address is too long"));
        }
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let rest = path
            .strip_prefix('/')
            .ok_or((404, "there is nothing here"))?;
        let (token, name) = rest.split_once('/').unwrap_or((rest, ""));
        if !same(token, &self.token) {
            return Err((
                403,
                "the token is wrong: use the address that `longhaul report --serve` has printed",
            ));
        }
        match name {
            PAGE | "" => Ok(self.page()),
            "rows" => self.rows(query),
            file => self.file(file),
        }
    }

    /// Only this machine's browser, and only pages of this server.
    fn check_headers(&self, request: &Request) -> Result<(), Refusal> {
        let values = |name: &'static str| {
            let own = move |header: &&Header| header.field.equiv(name);
            request
                .headers()
                .iter()
                .filter(own)
                .map(|header| header.value.as_str())
        };
        let mut hosts = values("Host");
        let host = hosts.next().unwrap_or_default();
        if hosts.next().is_some() || !self.names.iter().any(|name| name == host) {
            return Err((403, "the Host header names another server"));
        }
        let is_own = |origin: &str| {
            let name = origin.strip_prefix("http://");
            name.is_some_and(|name| self.names.iter().any(|own| own == name))
        };
        if values("Origin").any(|origin| !is_own(origin)) {
            return Err((403, "pages of another origin are not answered"));
        }
        if values("Sec-Fetch-Site").any(|site| site == "cross-site") {
            return Err((403, "other sites are not answered"));
        }
        Ok(())
    }

    fn page(&self) -> ResponseBox {
        let mut kept = self.page.lock().unwrap_or_else(PoisonError::into_inner);
        let html = kept.clone().unwrap_or_else(|| {
            let whole = std::cell::Cell::new(false);
            let html: Arc<str> = super::made(&self.extent, |extent| {
                let run = gather::run(&self.folder, None, extent);
                whole.set(run.ending == Ending::Whole);
                let mut document = super::document(vec![run]);
                document.served = true;
                document
            })
            .into();
            if whole.get() {
                *kept = Some(Arc::clone(&html));
            }
            html
        });
        drop(kept);
        text(200, "text/html; charset=utf-8", html.as_bytes().to_vec())
            .with_header(header("Content-Security-Policy", "frame-ancestors 'none'"))
            .boxed()
    }

    /// Rows of a thing of a series, as a window of the page has them.
    fn rows(&self, query: &str) -> Result<ResponseBox, Refusal> {
        const WRONG: Refusal = (
            400,
            "rows?series=NAME&from_ns=N&to_ns=N&key=… is what is asked for",
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
        let json = serde_json::to_vec(&window).map_err(|_| (500, "the rows cannot be told"))?;
        Ok(text(200, "application/json", json))
    }

    /// A file of the run folder.
    fn file(&self, name: &str) -> Result<ResponseBox, Refusal> {
        const NONE: Refusal = (
            404,
            "the run folder has no such file, or it is not for pages",
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
        // As it is written: `a//b` and `a/./b` are other words for the same.
        if parts.join("/") != name {
            return Err(NONE);
        }
        let is_given = match *parts.as_slice() {
            [file] => FILES.contains(&file),
            [folder, ..] => FOLDERS.contains(&folder),
            [] => false,
        };
        let whole = self.folder.join(path);
        // Nothing on the way is a link: what is real is where it says.
        let real = whole.canonicalize().map_err(|_| NONE)?;
        if !is_given || real != whole || !fs::metadata(&real).is_ok_and(|file| file.is_file()) {
            return Err(NONE);
        }
        let file = File::open(&real).map_err(|_| NONE)?;
        let kind = match real.extension().and_then(|ending| ending.to_str()) {
            Some("parquet" | "pcapng") => "application/octet-stream",
            _ => "text/plain; charset=utf-8",
        };
        Ok(
            with_headers(Response::from_file(file).boxed(), kind).with_header(header(
                "Content-Security-Policy",
                "default-src 'none'; sandbox",
            )),
        )
    }
}

/// Compares in a time that tells nothing of where two texts differ.
fn same(a: &str, b: &str) -> bool {
    let differs = a
        .bytes()
        .zip(b.bytes())
        .fold(0, |differs, (a, b)| differs | (a ^ b));
    a.len() == b.len() && differs == 0
}

/// A text of which some bytes are written as `%41`; `None` where it is no text.
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

fn text(status: u16, kind: &str, bytes: Vec<u8>) -> ResponseBox {
    let response = Response::from_data(bytes).with_status_code(StatusCode(status));
    with_headers(response.boxed(), kind)
}

fn with_headers(response: ResponseBox, kind: &str) -> ResponseBox {
    let headers = [
        ("Content-Type", kind),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("X-Frame-Options", "DENY"),
    ];
    let with = |response: ResponseBox, (name, value): (&str, &str)| {
        response.with_header(header(name, value))
    };
    headers.into_iter().fold(response, with)
}

fn header(name: &str, value: &str) -> Header {
    Header::from_bytes(name, value).expect("headers are ASCII")
}

#[cfg(test)]
mod tests;
