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
    ServiceUnavailable,
    VersionNotSupported,
}

macro_rules! parts {
    ($line:literal, $fields:literal) => {
        (concat!("HTTP/1.1 ", $line, "\r\n"), concat!("Content-Type: text/plain\r\n", $fields), concat!($line, "\n"))
    };
}

impl Status {
    /// Returns the status line, the fields of this status, and a body that repeats the status.
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
            Self::ServiceUnavailable => parts!("503 Service Unavailable", ""),
            Self::VersionNotSupported => parts!("505 HTTP Version Not Supported", ""),
        }
    }
}
