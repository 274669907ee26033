//! The part of HTTP/1.1 (RFC 9112) that Longhaul's servers speak: reads the head of a request, writes that of a reply.
//!
//! A connection has one request and one reply. No request needs a body, so none is read. Bytes in, bytes out: whoever
//! owns the socket bounds how much a client sends, and how long it takes.

/// More header fields than clients send.
const FIELDS_MAX: usize = 64;

/// What a client has sent so far.
#[derive(Debug)]
pub(crate) enum Parsed<'b> {
    /// The head goes on.
    Part,
    /// No HTTP.
    Bad,
    /// A whole head.
    Whole(Request<'b>),
}

/// The head of a request.
#[derive(Debug)]
pub(crate) struct Request<'b> {
    pub(crate) method: &'b str,
    /// Path and query, as they came.
    pub(crate) target: &'b str,
    fields: Vec<httparse::Header<'b>>,
}

impl<'b> Request<'b> {
    /// The values of all fields of this name.
    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'b [u8]> + 'a {
        let fields = self.fields.iter();
        let fields = fields.filter(move |field| field.name.eq_ignore_ascii_case(name));
        fields.map(|field| field.value)
    }
}

/// Reads what a client has sent so far.
pub(crate) fn parse(bytes: &[u8]) -> Parsed<'_> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => Parsed::Part,
        Ok(httparse::Status::Complete(_)) => Parsed::Whole(Request {
            method: request.method.unwrap_or_default(),
            target: request.path.unwrap_or_default(),
            fields: request.headers.to_vec(),
        }),
        Err(_) => Parsed::Bad,
    }
}

/// How a reply begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Ok,
    BadRequest,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    TargetTooLong,
    HeadTooLong,
    InternalError,
}

impl Status {
    const fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::Forbidden => "403 Forbidden",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::TargetTooLong => "414 URI Too Long",
            Self::HeadTooLong => "431 Request Header Fields Too Large",
            Self::InternalError => "500 Internal Server Error",
        }
    }
}

/// The head of a reply, with the length of its body.
pub(crate) fn head(status: Status, kind: &str, bytes: u64, fields: &[(&str, &str)]) -> String {
    let fields = fields
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"));
    format!(
        "HTTP/1.1 {}\r\nContent-Type: {kind}\r\nContent-Length: {bytes}\r\nCache-Control: no-store\r\n\
         Connection: close\r\n{}\r\n",
        status.line(),
        fields.collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn heads_are_read_in_pieces() {
        let whole = b"GET /a?b HTTP/1.1\r\nHost:  x \r\nhOST: y\r\nAccept: */*\r\n\r\n";
        for len in 0..whole.len() {
            assert!(matches!(parse(&whole[..len]), Parsed::Part), "{len}");
        }
        let Parsed::Whole(request) = parse(whole) else {
            panic!("a whole head");
        };
        assert_eq!((request.method, request.target), ("GET", "/a?b"));
        let hosts: Vec<_> = request.values("Host").collect();
        assert_eq!(hosts, [b"x", b"y"]);
        assert_eq!(request.values("Origin").count(), 0);
    }

    #[test]
    fn what_is_no_http_is_bad() {
        let fields = "X: y\r\n".repeat(FIELDS_MAX + 1);
        let too_many = format!("GET / HTTP/1.1\r\n{fields}\r\n");
        for text in ["\u{1}\u{2}\r\n\r\n", "{\"hosts\": {}}\n", &too_many] {
            assert!(matches!(parse(text.as_bytes()), Parsed::Bad), "{text}");
        }
    }

    #[test]
    fn replies_say_how_long_they_are() {
        let head = head(Status::NotFound, "text/plain", 7, &[("X-A", "b")]);
        assert!(head.starts_with("HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\n"));
        assert!(
            head.contains("\r\nContent-Length: 7\r\n") && head.ends_with("\r\nX-A: b\r\n\r\n"),
            "{head}"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            parse(&bytes);
            let head = [b"GET /hosts/".as_slice(), &bytes, b" HTTP/1.1\r\n\r\n"].concat();
            parse(&head);
        }
    }
}
