//! Status codes, and what is said with them.

/// What a response says in its first line: RFC 9110 section 15 has them all, these are ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    BadRequest,
    NotFound,
    MethodNotAllowed,
    ContentTooLarge,
    UriTooLong,
    ExpectationFailed,
    HeadTooLarge,
    NotImplemented,
    VersionNotSupported,
}

/// Everything of a response but its date, its last field and its body.
macro_rules! parts {
    ($line:literal, $fields:literal) => {
        (concat!("HTTP/1.1 ", $line, "\r\n"), concat!("Content-Type: text/plain\r\n", $fields), concat!($line, "\n"))
    };
}

impl Status {
    /// The first line, fields of its own, and a body that says it again.
    pub fn parts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::BadRequest => parts!("400 Bad Request", ""),
            Self::NotFound => parts!("404 Not Found", ""),
            Self::MethodNotAllowed => parts!("405 Method Not Allowed", "Allow: GET, HEAD\r\n"),
            Self::ContentTooLarge => parts!("413 Content Too Large", ""),
            Self::UriTooLong => parts!("414 URI Too Long", ""),
            Self::ExpectationFailed => parts!("417 Expectation Failed", ""),
            Self::HeadTooLarge => parts!("431 Request Header Fields Too Large", ""),
            Self::NotImplemented => parts!("501 Not Implemented", ""),
            Self::VersionNotSupported => parts!("505 HTTP Version Not Supported", ""),
        }
    }
}
