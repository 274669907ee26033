use std::io::Write;
use std::net::TcpStream;

use super::*;
use crate::report::tests::{Folder, summary};

/// A run with a server, which ends with the test.
struct Served {
    folder: Folder,
    server: Arc<Server>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Served {
    fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        folder.write("summary.json", summary().to_json());
        folder.write("logs/client.out", "<script>alert(1)</script>\n");
        folder.write("secret.txt", "secret\n");
        let rows: String = (0..100)
            .map(|n| format!("{},1000000,a>b,1,{n}\n", n * 1_000_000))
            .collect();
        fs::create_dir_all(folder.0.join("series/pipes")).unwrap();
        folder.write(
            "series/pipes/0001.csv",
            format!("start_ns,width_ns,pipe,packets,bytes\n{rows}"),
        );
        let server = Arc::new(Server::bind(&folder.0, Extent::whole(), 0).unwrap());
        let serving = Arc::clone(&server);
        let thread = Some(thread::spawn(move || serving.serve()));
        Self {
            folder,
            server,
            thread,
        }
    }

    /// Answers to a request with these headers, by status, and all of the answer.
    fn ask(&self, first: &str, headers: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.server.address).unwrap();
        write!(
            stream,
            "{first} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        (status.unwrap_or(0), answer)
    }

    fn host(&self) -> String {
        format!("Host: {}\r\n", self.server.address)
    }

    fn get(&self, path: &str) -> (u16, String) {
        let token = &self.server.run.token;
        self.ask(&format!("GET /{token}/{path}"), &self.host())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.server.stop();
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

#[test]
fn the_page_files_and_rows_are_given() {
    let served = Served::new("serve-all");
    assert!(served.server.url().starts_with("http://127.0.0.1:"));
    assert!(served.server.address.ip().is_loopback());
    let (status, page) = served.get("report.html");
    assert_eq!(status, 200, "{page}");
    assert!(
        page.contains("connect-src 'self'") && page.contains("id=\"data\""),
        "{page}"
    );
    let (status, log) = served.get("logs/client.out");
    assert_eq!(status, 200);
    assert!(
        log.contains("text/plain") && log.contains("nosniff") && log.contains("sandbox"),
        "{log}"
    );
    assert_eq!(served.get("summary.json").0, 200);
    let (status, rows) = served.get("rows?series=pipes&from_ns=10000000&to_ns=20000000&key=a%3Eb");
    assert_eq!(status, 200);
    let json = rows.split("\r\n\r\n").nth(1).unwrap();
    let window: serde_json::Value = serde_json::from_str(json).unwrap();
    let starts = window["rows"]["start_ns"].as_array().unwrap();
    assert_eq!(starts.len(), 10, "{window}");
    // 10 bytes in a millisecond.
    assert_eq!(window["rows"]["rate"][0], 80_000);
    for wrong in [
        "series=none&from_ns=0&to_ns=1",
        "series=pipes&from_ns=5&to_ns=1&key=a",
        "series=pipes&from_ns=0&to_ns=1",
        "x",
    ] {
        assert_eq!(served.get(&format!("rows?{wrong}")).0, 400, "{wrong}");
    }
}

#[test]
fn strangers_are_refused() {
    let served = Served::new("serve-strangers");
    let (token, host) = (&served.server.run.token, served.host());
    let path = format!("GET /{token}/report.html");
    let port = served.server.address.port();
    let wrong = format!("GET /{}0/report.html", &token[..token.len() - 1]);
    for (first, headers, status) in [
        (
            &*path,
            format!("{host}Origin: http://127.0.0.1:{port}\r\n"),
            200,
        ),
        (&*path, format!("Host: localhost:{port}\r\n"), 200),
        // A wrong token, and none.
        (
            if token.ends_with('0') {
                "GET /00/report.html"
            } else {
                &*wrong
            },
            host.clone(),
            403,
        ),
        ("GET /", host.clone(), 403),
        ("GET /report.html", host.clone(), 403),
        // Other names that lead here, several, and none.
        (&*path, format!("Host: evil.example:{port}\r\n"), 403),
        (&*path, "Host: 127.0.0.1\r\n".to_owned(), 403),
        (&*path, format!("{host}Host: evil.example\r\n"), 403),
        (&*path, String::new(), 403),
        // Pages of elsewhere.
        (
            &*path,
            format!("{host}Origin: http://evil.example\r\n"),
            403,
        ),
        (&*path, format!("{host}Origin: null\r\n"), 403),
        (
            &*path,
            format!("{host}Origin: https://127.0.0.1:{port}\r\n"),
            403,
        ),
        (&*path, format!("{host}Sec-Fetch-Site: cross-site\r\n"), 403),
        // Nothing is written.
        (
            &*path.replace("GET", "POST"),
            format!("{host}Content-Length: 0\r\n"),
            405,
        ),
        (&*path.replace("GET", "DELETE"), host.clone(), 405),
    ] {
        let (got, answer) = served.ask(first, &headers);
        assert_eq!(
            got,
            status,
            "{first} {headers}\n{}",
            answer.chars().take(300).collect::<String>()
        );
        assert!(
            got == 200 || !answer.contains("id=\"data\""),
            "{first} {headers}"
        );
    }
}

#[test]
fn no_path_leads_out_of_the_run_folder_or_to_what_is_not_for_pages() {
    let served = Served::new("serve-paths");
    std::os::unix::fs::symlink("/etc/passwd", served.folder.0.join("logs/passwd")).unwrap();
    std::os::unix::fs::symlink("/etc", served.folder.0.join("logs/etc")).unwrap();
    std::os::unix::fs::symlink("../secret.txt", served.folder.0.join("logs/inside")).unwrap();
    for path in [
        "../secret.txt",
        "secret.txt",
        "logs/../secret.txt",
        "logs/%2e%2e/secret.txt",
        "logs%2f..%2fsecret.txt",
        "..%2f..%2fetc/passwd",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "logs//client.out",
        "logs/./client.out",
        "logs/passwd",
        "logs/etc/passwd",
        "logs/inside",
        "logs",
        "logs/client.out%00",
        "logs/%ff",
        "logs/%+1",
        "logs/%",
        "series/pipes",
    ] {
        let (status, answer) = served.get(path);
        assert_eq!(status, 404, "{path}: {answer}");
        assert!(
            !answer.contains("root:") && !answer.contains("secret\n"),
            "{path}: {answer}"
        );
    }
    assert_eq!(served.get("series/pipes/0001.csv").0, 200);
    assert_eq!(served.get(&"x".repeat(10_000)).0, 414);
}
