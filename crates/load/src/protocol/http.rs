//! HTTP: requests the paths in turn, and verifies status and length of the responses.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use wire::Address;
use wire::http::client::{Reader, Request, Response, Url};

use super::{ClientProtocol, Reply};
use crate::config::{HttpTarget, HttpTraffic};
use crate::error::LoadError;
use crate::report::Class;

const UNKNOWN: u64 = u64::MAX;

/// The status of a server that is overloaded and rejects the request.
const UNAVAILABLE: u16 = 503;

/// The bits of a length in [`Http::wrong`]. `LENGTH` is the largest value.
const LENGTH_BITS: u32 = 48;
const LENGTH: u64 = (1 << LENGTH_BITS) - 1;

pub struct Http {
    paths: Vec<Path>,
    status: u16,
    /// The last wrong response: status in the upper bits, length in the lower ones.
    wrong: AtomicU64,
}

struct Path {
    request: Request,
    /// The expected length of the content: configured, or taken from the first response.
    body_bytes: AtomicU64,
}

impl Http {
    pub fn new(traffic: &HttpTraffic, server: &Address) -> Result<Self, LoadError> {
        if traffic.targets.is_empty() {
            return Err(LoadError::Config("workload.http: name at least one path".to_owned()));
        }
        let authority = traffic.host.clone().unwrap_or_else(|| match server {
            Address::Ip(address) => address.to_string(),
            Address::Unix(_) => "localhost".to_owned(),
        });
        let headers: Vec<(&str, &str)> =
            traffic.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let path = |target: &HttpTarget| {
            let url = Url { host: String::new(), port: 0, authority: authority.clone(), target: target.path.clone() };
            let request = Request::new("GET", &url, &headers, false);
            let request = request.map_err(|why| LoadError::Config(format!("http: {why}")))?;
            Ok(Path { request, body_bytes: target.body_bytes.unwrap_or(UNKNOWN).into() })
        };
        let paths = traffic.targets.iter().map(path).collect::<Result<_, LoadError>>()?;
        Ok(Self { paths, status: traffic.status, wrong: AtomicU64::new(0) })
    }

    #[inline]
    fn judge(&self, path: &Path, response: &Response) -> Reply {
        let verdict = match self.is_expected(path, response) {
            true => None,
            false if response.status == UNAVAILABLE => Some(Class::Rejected),
            false => Some(Class::Wrong),
        };
        if verdict.is_some() {
            self.wrong.store((u64::from(response.status) << LENGTH_BITS) | (response.body_bytes & LENGTH), Relaxed);
        }
        match (verdict, response.closes) {
            (_, true) => Reply::Last(verdict),
            (None, false) => Reply::Good,
            (Some(class), false) => Reply::Bad(class),
        }
    }

    #[inline]
    fn is_expected(&self, path: &Path, response: &Response) -> bool {
        if response.status != self.status {
            return false;
        }
        match path.body_bytes.load(Relaxed) {
            // Several first responses may arrive at once; one of them sets the length for all.
            UNKNOWN => match path.body_bytes.compare_exchange(UNKNOWN, response.body_bytes, Relaxed, Relaxed) {
                Ok(_) => true,
                Err(known) => known == response.body_bytes,
            },
            known => known == response.body_bytes,
        }
    }
}

impl ClientProtocol for Http {
    type Request = u32;
    type Reader = Reader;

    #[inline]
    fn request(&self, number: u64) -> u32 {
        match self.paths.len() as u64 {
            1 => 0,
            count => (number % count) as u32,
        }
    }

    fn greeting(&self, connection: u64) -> u32 {
        self.request(connection)
    }

    #[inline]
    fn encode<'a>(&'a self, request: u32, _scratch: &'a mut Vec<u8>) -> &'a [u8] {
        &self.paths[request as usize].request.bytes
    }

    #[inline]
    fn read(&self, request: u32, reader: &mut Reader, bytes: &[u8]) -> (usize, Option<Reply>) {
        let path = &self.paths[request as usize];
        let (taken_bytes, response) = reader.read(bytes, path.request.is_head);
        let reply = response.map(|response| match response {
            Ok(response) => self.judge(path, &response),
            Err(_) => Reply::Garbage,
        });
        (taken_bytes, reply)
    }

    fn end(&self, request: u32, reader: &mut Reader) -> Option<Reply> {
        let response = reader.end()?.ok()?;
        Some(self.judge(&self.paths[request as usize], &response))
    }

    fn complaint(&self) -> Option<String> {
        let wrong = self.wrong.load(Relaxed);
        let known: Vec<u64> = self.paths.iter().map(|path| path.body_bytes.load(Relaxed)).collect();
        let length = match known.as_slice() {
            [UNKNOWN] => String::new(),
            [bytes] => format!(" with {bytes} bytes"),
            _ => " with the length expected for its path".to_owned(),
        };
        (wrong != 0).then(|| {
            format!(
                "the server's response was {} with {} bytes of content, not {}{length}",
                wrong >> LENGTH_BITS,
                wrong & LENGTH,
                self.status
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(targets: &[(&str, Option<u64>)]) -> Http {
        let targets = targets.iter().map(|&(path, body_bytes)| HttpTarget { path: path.into(), body_bytes }).collect();
        let headers = vec![("X-Trace".to_owned(), "1".to_owned())];
        let traffic = HttpTraffic { host: None, targets, headers, status: 200 };
        Http::new(&traffic, &([127, 0, 0, 1], 80).into()).unwrap()
    }

    fn read(http: &Http, request: u32, response: &str) -> Option<Reply> {
        http.read(request, &mut Reader::default(), response.as_bytes()).1
    }

    #[test]
    fn paths_are_requested_in_turn_with_the_headers() {
        let http = http(&[("/a", None), ("/b?c=d", None)]);
        let requests: Vec<String> = (0..3)
            .map(|number| String::from_utf8_lossy(http.encode(http.request(number), &mut Vec::new())).into_owned())
            .collect();
        assert_eq!(requests[0], "GET /a HTTP/1.1\r\nHost: 127.0.0.1:80\r\nX-Trace: 1\r\n\r\n");
        assert!(requests[1].starts_with("GET /b?c=d HTTP/1.1\r\n"));
        assert_eq!(requests[2], requests[0]);
    }

    #[test]
    fn first_length_binds_later_responses() {
        let http = http(&[("/a", None), ("/b", Some(3))]);
        let ok = |bytes: usize| format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n{}", "x".repeat(bytes));
        assert_eq!(read(&http, 1, &ok(2)), Some(Reply::Bad(Class::Wrong)));
        assert_eq!(read(&http, 1, &ok(3)), Some(Reply::Good));
        let found = "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno";
        assert_eq!(
            read(&http, 0, found),
            Some(Reply::Bad(Class::Wrong)),
            "a wrong response does not set the expected length"
        );
        assert!(http.complaint().unwrap().contains("404 with 2 bytes of content, not 200"));
        assert_eq!(read(&http, 0, &ok(7)), Some(Reply::Good));
        assert_eq!(read(&http, 0, &ok(8)), Some(Reply::Bad(Class::Wrong)));
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\nabcdefg\r\n0\r\n\r\n";
        assert_eq!(read(&http, 0, chunked), Some(Reply::Good));
    }

    #[test]
    fn unavailable_server_rejects_requests() {
        let http = http(&[("/a", Some(2))]);
        let unavailable = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno";
        assert_eq!(read(&http, 0, unavailable), Some(Reply::Bad(Class::Rejected)));
    }

    #[test]
    fn last_response_of_a_connection_is_recognised() {
        let http = http(&[("/a", Some(2))]);
        let closes = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
        assert_eq!(read(&http, 0, closes), Some(Reply::Last(None)));
        assert_eq!(read(&http, 0, &closes.replace("200", "500")), Some(Reply::Last(Some(Class::Wrong))));
        assert_eq!(read(&http, 0, "SSH-2.0-OpenSSH\r\n\r\n"), Some(Reply::Garbage));
        // Without a length, the content ends with the connection.
        let mut reader = Reader::default();
        assert_eq!(http.read(0, &mut reader, b"HTTP/1.1 200 OK\r\n\r\nok").1, None);
        assert_eq!(http.end(0, &mut reader), Some(Reply::Last(None)));
        assert_eq!(http.end(0, &mut reader), None);
    }

    #[test]
    fn invalid_path_or_header_is_rejected() {
        for (path, header) in [("/a b", "x"), ("/a\r\nX: y", "x"), ("/", "a\r\nB: c")] {
            let traffic = HttpTraffic {
                host: None,
                targets: vec![HttpTarget { path: path.into(), body_bytes: None }],
                headers: vec![("X".into(), header.into())],
                status: 200,
            };
            assert!(Http::new(&traffic, &([127, 0, 0, 1], 80).into()).is_err(), "{path:?} {header:?}");
        }
    }
}
