use super::*;
use crate::report::tests::{Folder, summary};

/// A run with a server, whose threads end with the process.
struct Served {
    folder: Folder,
    server: Arc<Server>,
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
        thread::spawn(move || serving.serve());
        Self { folder, server }
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
        (&*path, format!("{host}Sec-Fetch-Site: same-site\r\n"), 403),
        (&*path, format!("{host}Sec-Fetch-Site: none\r\n"), 200),
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

#[test]
fn what_is_no_request_is_refused_and_holds_up_nobody() {
    let served = Served::new("serve-odd");
    let idle: Vec<_> = (0..THREADS - 1)
        .map(|_| TcpStream::connect(served.server.address).unwrap())
        .collect();
    let (status, head) = served.ask(
        &format!("HEAD /{}/logs/client.out", served.server.run.token),
        &served.host(),
    );
    assert_eq!(status, 200);
    assert!(
        head.contains("Content-Length: 26\r\n") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    let long = format!("X: {}\r\n", "x".repeat(2 * HEAD_MAX));
    for (first, headers, status) in [
        ("GET / and so on", served.host(), 400),
        ("\u{1}", String::new(), 400),
        ("GET /", long, 431),
    ] {
        assert_eq!(served.ask(first, &headers).0, status, "{first:?}");
    }
    // A body that nobody reads does not cost the client the reply.
    let body = "x".repeat(50_000);
    let (status, _) = served.ask(&format!("POST / HTTP/1.1\r\n\r\n{body}"), "");
    assert_eq!(status, 405);
    drop(idle);
}

/// The two ends of a connection: the client's and the server's.
fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

#[test]
fn clients_that_are_slow_are_left() {
    const SHORT: Duration = Duration::from_millis(200);
    // One that sends nothing, and one that never comes to an end.
    for drips in [false, true] {
        let (mut client, mut server) = connection();
        let began = MachineTime::now();
        let sender = thread::spawn(move || {
            let wait = Some(Duration::from_millis(10));
            client.set_read_timeout(wait).unwrap();
            if drips {
                client.write_all(b"GET / HTTP/1.1\r\nX: ").unwrap();
            }
            // Until the server hangs up.
            let is_over = |error: io::Error| error.kind() != io::ErrorKind::WouldBlock;
            while client.read(&mut [0]).is_err_and(|error| !is_over(error)) {
                if drips && client.write_all(b"x").is_err() {
                    break;
                }
            }
        });
        let left = head_of(&mut server, SHORT).unwrap_err();
        assert!(
            matches!(
                left.kind(),
                io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
            ),
            "{left}"
        );
        assert!(MachineTime::now().since(began) >= SHORT);
        drop(server);
        sender.join().unwrap();
    }
    // One that takes nothing of a reply longer than sockets hold, and one that takes it in small pieces.
    const LONG: usize = 16 << 20;
    let long = || Answer::new("text/plain", INERT, vec![b'x'; LONG]);
    let (client, mut server) = connection();
    let left = long().write(&mut server, false, SHORT).unwrap_err();
    assert_eq!(left.kind(), io::ErrorKind::WouldBlock);
    drop(client);
    let (mut client, mut server) = connection();
    let reader = thread::spawn(move || {
        let (mut piece, mut bytes) = ([0; 4096], 0);
        while let more @ 1.. = client.read(&mut piece).unwrap() {
            bytes += more;
        }
        bytes
    });
    long().write(&mut server, false, PATIENCE).unwrap();
    assert!(reader.join().unwrap() > LONG);
}

#[test]
fn hostile_heads_are_refused() {
    let served = Served::new("serve-heads");
    let (token, host) = (&served.server.run.token, served.host());
    let whole = format!("/{token}/logs/client.out");
    let many = "X: y\r\n".repeat(70);
    for (first, headers, status) in [
        // Two requests in one, by each way of ending a line.
        (format!("GET {whole}\r\nHost: evil.example"), &host, 400),
        (format!("GET {whole}\nHost: evil.example"), &host, 400),
        // A field over several lines, one without a name, one with a blank in it.
        (
            format!("GET {whole}"),
            &format!("{host}X: a\r\n b\r\n"),
            400,
        ),
        (format!("GET {whole}"), &format!("{host}: a\r\n"), 400),
        (format!("GET {whole}"), &format!("{host}Ho st: a\r\n"), 400),
        (format!("GET {whole}"), &format!("{host}X: \0\r\n"), 400),
        (format!("GET {whole}"), &format!("{host}{many}"), 400),
        // A blank between a name and its colon must not hide a field.
        (
            format!("GET {whole}"),
            &format!("{host}Origin : http://evil.example\r\n"),
            400,
        ),
        (
            format!("GET {whole}"),
            &format!("{host}oRiGiN:http://evil.example\r\n"),
            403,
        ),
        (
            format!("GET http://{}{whole}", served.server.address),
            &host,
            404,
        ),
        ("GET *".to_owned(), &host, 404),
        (format!("get {whole}"), &host, 405),
        (format!("GET {whole}"), &host, 200),
    ] {
        let (got, answer) = served.ask(&first, headers);
        assert_eq!(got, status, "{first:?} {headers:?}\n{answer}");
    }
}
