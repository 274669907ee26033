//! The protocol of the information service: HTTP/1.1 ([`crate::http`]).
//!
//! Header fields are ignored, so `curl --unix-socket` and every language's own HTTP client can ask.

use crate::http::{self, Parsed, Status};

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// All hosts.
    Hosts,
    /// One host, by name.
    Host(String),
    /// The host that the question comes from.
    Own,
}

/// What a client has sent so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    /// Not all of a request.
    Part,
    /// One that can be answered.
    Get(Target),
    /// One that cannot.
    Bad(Status),
}

/// Reads what a client has sent so far.
pub(super) fn parse(bytes: &[u8]) -> Request {
    let request = match http::parse(bytes) {
        Parsed::Part => return Request::Part,
        Parsed::Bad => return Request::Bad(Status::BadRequest),
        Parsed::Whole(request) => request,
    };
    if request.method != "GET" {
        return Request::Bad(Status::MethodNotAllowed);
    }
    match request.target {
        "/hosts" | "/hosts/" => Request::Get(Target::Hosts),
        "/self" => Request::Get(Target::Own),
        // Names have no character that needs to be escaped.
        target => match target.strip_prefix("/hosts/") {
            Some(name) => Request::Get(Target::Host(name.to_owned())),
            None => Request::Bad(Status::NotFound),
        },
    }
}

/// A reply of this body.
pub(super) fn reply(status: Status, json: &str) -> Vec<u8> {
    let head = http::head(status, "application/json", json.len() as u64 + 1, &[]);
    [head.as_bytes(), json.as_bytes(), b"\n"].concat()
}

/// A reply that says why there is no answer.
pub(super) fn refusal(status: Status) -> Vec<u8> {
    let remedy = match status {
        Status::NotFound => "no such path: there are /hosts, /hosts/NAME and /self",
        Status::MethodNotAllowed => "only GET is supported",
        _ => "this is not an HTTP request: send, for example, `GET /hosts HTTP/1.1`",
    };
    let json = serde_json::json!({ "error": remedy });
    reply(status, &json.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_in_pieces() {
        let whole = b"GET /hosts/a0 HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";
        for len in 0..whole.len() {
            assert_eq!(parse(&whole[..len]), Request::Part, "{len}");
        }
        let host = Target::Host("a0".to_owned());
        assert_eq!(parse(whole), Request::Get(host));
        assert_eq!(
            parse(b"GET /hosts HTTP/1.0\r\n\r\n"),
            Request::Get(Target::Hosts)
        );
        assert_eq!(parse(b"GET /self HTTP/1.1\n\n"), Request::Get(Target::Own));
    }

    #[test]
    fn other_requests_are_refused() {
        let bad = |text: &str| match parse(text.as_bytes()) {
            Request::Bad(status) => status,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(bad("\u{1}\u{2}\r\n\r\n"), Status::BadRequest);
        assert_eq!(bad("{\"hosts\": {}}\n"), Status::BadRequest);
        assert_eq!(bad("GET / HTTP/1.1\r\n\r\n"), Status::NotFound);
        assert_eq!(bad("GET /hostsx HTTP/1.1\r\n\r\n"), Status::NotFound);
        assert_eq!(
            bad("POST /hosts HTTP/1.1\r\n\r\n"),
            Status::MethodNotAllowed
        );
        let fields = "X: y\r\n".repeat(65);
        assert_eq!(
            bad(&format!("GET /hosts HTTP/1.1\r\n{fields}\r\n")),
            Status::BadRequest
        );
    }

    #[test]
    fn replies_say_how_long_they_are() {
        let text = String::from_utf8(refusal(Status::NotFound)).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 404 Not Found\r\n"), "{head}");
        assert!(
            head.contains(&format!("Content-Length: {}\r\n", body.len())),
            "{head}"
        );
    }
}
