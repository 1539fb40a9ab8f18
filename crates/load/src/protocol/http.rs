//! HTTP: prepared requests, sent in turn or drawn by weight, and the verification of status and length of the responses.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rand::RngExt;
use wire::http::client::{Garbage, Request, Response, ResponseReader, Url};
use wire::{Address, secret};

use super::{ClientProtocol, Reply, random_of};
use crate::config::{Body, ClientConfig, ExpectedStatus, HttpTarget, HttpTraffic, Login};
use crate::error::LoadError;
use crate::result::Class;

/// The length of a response whose first response has not arrived yet.
const UNKNOWN: u64 = u64::MAX;
/// The length of a response that may have any length.
const ANY: u64 = u64::MAX - 1;

const AUTHORIZATION: &str = "Authorization";

/// The status of a server that is overloaded and rejects the request.
const UNAVAILABLE: u16 = 503;

/// The bits of a length in [`Prepared::wrong`]. `LENGTH` is the largest value.
const LENGTH_BITS: u32 = 48;
const LENGTH: u64 = (1 << LENGTH_BITS) - 1;

/// The reader of a connection's responses.
#[derive(Default)]
pub struct HttpReader {
    responses: ResponseReader,
    /// The status of the last complete response.
    status: u16,
    /// What is wrong with the bytes that are no response.
    fault: Option<&'static str>,
}

pub struct Http {
    requests: Vec<Prepared>,
    /// The sum of the weights up to each request; empty if the requests are sent in turn.
    weights: Vec<u64>,
    seed: u64,
}

struct Prepared {
    /// Method and path.
    name: String,
    request: Request,
    status: ExpectedStatus,
    /// The expected length of the content: configured, or taken from the first response.
    body_bytes: AtomicU64,
    /// The last wrong response: status in the upper bits, length in the lower ones.
    wrong: AtomicU64,
}

impl Prepared {
    fn new(
        traffic: &HttpTraffic,
        target: &HttpTarget,
        authority: &str,
        login: Option<&Login>,
    ) -> Result<Self, LoadError> {
        let failed = |why: &dyn Display| LoadError::Config(secret::redact(&format!("http: {why}")));
        let reveal = |text| secret::reveal(text).map_err(|why| failed(&why));
        let path = reveal(&target.path)?.into_owned();
        let url = Url { host: String::new(), port: 0, authority: authority.to_owned(), target: path };
        let headers = traffic.headers.iter().chain(&target.headers);
        let revealed = headers.map(|(name, value)| Ok((name.as_str(), reveal(value)?)));
        let mut headers = revealed.collect::<Result<Vec<_>, LoadError>>()?;
        if let Some(login) = login.filter(|_| !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION)))
        {
            headers.push((AUTHORIZATION, login.basic().map_err(|why| failed(&why))?.into()));
        }
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, &**value)).collect();
        let body = target.body.as_ref().map(Body::bytes).transpose().map_err(|why| failed(&why))?;
        let request = Request::new(&target.method, &url, &headers, body.as_deref());
        let length = if target.any_length { ANY } else { target.body_bytes.unwrap_or(UNKNOWN) };
        Ok(Self {
            name: target.to_string(),
            request: request.map_err(|why| failed(&why))?,
            status: target.status.unwrap_or(traffic.status),
            body_bytes: length.into(),
            wrong: AtomicU64::new(0),
        })
    }

    #[inline]
    fn judge(&self, response: &Response) -> Reply {
        let verdict = match self.is_expected(response) {
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
    fn is_expected(&self, response: &Response) -> bool {
        if !self.status.accepts(response.status) {
            return false;
        }
        match self.body_bytes.load(Relaxed) {
            // Several first responses may arrive at once; one of them sets the length for all.
            UNKNOWN => match self.body_bytes.compare_exchange(UNKNOWN, response.body_bytes, Relaxed, Relaxed) {
                Ok(_) => true,
                Err(known) => known == response.body_bytes,
            },
            ANY => true,
            known => known == response.body_bytes,
        }
    }

    /// Describes the last wrong response; `None` if all were as expected.
    fn complaint(&self) -> Option<String> {
        let wrong = self.wrong.load(Relaxed);
        let (status, bytes) = (wrong >> LENGTH_BITS, wrong & LENGTH);
        let length = match self.body_bytes.load(Relaxed) {
            UNKNOWN | ANY => String::new(),
            bytes => format!(" with {bytes} bytes"),
        };
        let hint = match status {
            300..=399 => "; redirects are not followed: request the new location, or set --expect-status",
            _ => "",
        };
        let (name, expected) = (&self.name, self.status);
        (wrong != 0).then(|| {
            format!("the response to {name} was {status} with {bytes} bytes of content, not {expected}{length}{hint}")
        })
    }
}

impl Http {
    pub fn new(traffic: &HttpTraffic, client: &ClientConfig, server: &Address) -> Result<Self, LoadError> {
        let is_wanted = |target: &&HttpTarget| client.path.as_ref().is_none_or(|path| *path == target.path);
        let targets: Vec<&HttpTarget> = traffic.targets.iter().filter(is_wanted).collect();
        if targets.is_empty() {
            return Err(LoadError::Config("workload.http: name at least one path".to_owned()));
        }
        let authority = client.host.clone().unwrap_or_else(|| match server {
            Address::Ip(address) => address.to_string(),
            Address::Unix(_) => "localhost".to_owned(),
        });
        let login = client.login.as_ref();
        let requests = targets.iter().map(|target| Prepared::new(traffic, target, &authority, login));
        let is_even = targets.iter().all(|target| target.weight == targets[0].weight);
        let sums = targets.iter().scan(0, |sum, target| {
            *sum += u64::from(target.weight);
            Some(*sum)
        });
        let weights = if is_even { Vec::new() } else { sums.collect() };
        Ok(Self { requests: requests.collect::<Result<_, _>>()?, weights, seed: client.seed })
    }
}

impl ClientProtocol for Http {
    type Request = u32;
    type Reader = HttpReader;

    #[inline]
    fn request(&self, number: u64) -> u32 {
        match (self.requests.len() as u64, self.weights.last()) {
            (1, _) => 0,
            (count, None) => (number % count) as u32,
            (_, Some(&total)) => {
                let drawn = random_of(self.seed, number).random_range(0..total);
                self.weights.partition_point(|&end| end <= drawn) as u32
            }
        }
    }

    fn greeting(&self, connection: u64) -> u32 {
        self.request(connection)
    }

    #[inline]
    fn encode<'a>(&'a self, request: u32, _scratch: &'a mut Vec<u8>) -> &'a [u8] {
        &self.requests[request as usize].request.bytes
    }

    #[inline]
    fn read(&self, request: u32, reader: &mut HttpReader, bytes: &[u8]) -> (usize, Option<Reply>) {
        let prepared = &self.requests[request as usize];
        let (taken_bytes, response) = reader.responses.read(bytes, prepared.request.is_head);
        let reply = response.map(|response| match response {
            Ok(response) => {
                reader.status = response.status;
                prepared.judge(&response)
            }
            Err(Garbage(fault)) => {
                reader.fault = Some(fault);
                Reply::Garbage
            }
        });
        (taken_bytes, reply)
    }

    fn end(&self, request: u32, reader: &mut HttpReader) -> Option<Reply> {
        let response = reader.responses.end()?.ok()?;
        reader.status = response.status;
        Some(self.requests[request as usize].judge(&response))
    }

    #[inline]
    fn status(&self, reader: &HttpReader) -> Option<u16> {
        Some(reader.status)
    }

    fn complaint(&self) -> Option<String> {
        self.requests.iter().find_map(Prepared::complaint)
    }

    fn fault(&self, reader: &HttpReader) -> Option<&'static str> {
        reader.fault
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http_of(targets: Vec<HttpTarget>) -> Result<Http, LoadError> {
        let headers = vec![("X-Trace".to_owned(), "1".to_owned())];
        let traffic = HttpTraffic { headers, ..HttpTraffic::new(targets) };
        Http::new(&traffic, &ClientConfig { seed: 7, ..ClientConfig::default() }, &([127, 0, 0, 1], 80).into())
    }

    fn http(targets: &[(&str, Option<u64>)]) -> Http {
        http_of(targets.iter().map(|&(path, body_bytes)| HttpTarget::get(path, body_bytes)).collect()).unwrap()
    }

    fn read(http: &Http, request: u32, response: &str) -> Option<Reply> {
        http.read(request, &mut HttpReader::default(), response.as_bytes()).1
    }

    fn sent(http: &Http, number: u64) -> String {
        String::from_utf8_lossy(http.encode(http.request(number), &mut Vec::new())).into_owned()
    }

    #[test]
    fn paths_are_requested_in_turn_with_the_headers() {
        let http = http(&[("/a", None), ("/b?c=d", None)]);
        let requests: Vec<String> = (0..3).map(|number| sent(&http, number)).collect();
        assert_eq!(requests[0], "GET /a HTTP/1.1\r\nHost: 127.0.0.1:80\r\nX-Trace: 1\r\n\r\n");
        assert!(requests[1].starts_with("GET /b?c=d HTTP/1.1\r\n"));
        assert_eq!(requests[2], requests[0]);
    }

    #[test]
    fn request_has_its_method_headers_and_body() {
        let post = HttpTarget {
            method: "POST".into(),
            headers: vec![("Content-Type".into(), "application/json".into())],
            body: Some(Body::Bytes(b"{}".to_vec())),
            ..HttpTarget::get("/a", None)
        };
        let expected = "POST /a HTTP/1.1\r\nHost: 127.0.0.1:80\r\nX-Trace: 1\r\nContent-Type: application/json\r\n\
                        Content-Length: 2\r\n\r\n{}";
        assert_eq!(sent(&http_of(vec![post]).unwrap(), 0), expected);
    }

    #[test]
    fn weights_determine_the_shares_of_requests() {
        let weighted = |path: &str, weight| HttpTarget { weight, ..HttpTarget::get(path, None) };
        let http = http_of(vec![weighted("/a", 1), weighted("/b", 7), weighted("/c", 2)]).unwrap();
        let mut counts = [0; 3];
        (0..10_000).for_each(|number| counts[http.request(number) as usize] += 1);
        for (count, expected) in counts.into_iter().zip([1_000, 7_000, 2_000_i32]) {
            // The largest standard deviation is 46.
            assert!((expected - count).abs() < 250, "{counts:?}");
        }
        let even = http_of(vec![weighted("/a", 5), weighted("/b", 5)]).unwrap();
        assert_eq!((0..4).map(|number| even.request(number)).collect::<Vec<_>>(), [0, 1, 0, 1]);
    }

    #[test]
    fn first_length_binds_later_responses() {
        let any =
            HttpTarget { any_length: true, status: Some(ExpectedStatus::Class(2)), ..HttpTarget::get("/c", None) };
        let http = http_of(vec![HttpTarget::get("/a", None), HttpTarget::get("/b", Some(3)), any]).unwrap();
        let ok = |bytes: usize| format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n{}", "x".repeat(bytes));
        assert_eq!(read(&http, 1, &ok(3)), Some(Reply::Good));
        let found = "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno";
        assert_eq!(
            read(&http, 0, found),
            Some(Reply::Bad(Class::Wrong)),
            "a wrong response does not set the expected length"
        );
        let complaint = http.complaint().unwrap();
        assert_eq!(complaint, "the response to GET /a was 404 with 2 bytes of content, not 200");
        assert_eq!(read(&http, 0, &ok(7)), Some(Reply::Good));
        assert_eq!(read(&http, 0, &ok(8)), Some(Reply::Bad(Class::Wrong)));
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\nabcdefg\r\n0\r\n\r\n";
        assert_eq!(read(&http, 0, chunked), Some(Reply::Good));
        assert_eq!((read(&http, 2, &ok(1)), read(&http, 2, &ok(2))), (Some(Reply::Good), Some(Reply::Good)));
        assert_eq!(read(&http, 2, &ok(2).replace("200", "201")), Some(Reply::Good));
        assert_eq!(read(&http, 2, found), Some(Reply::Bad(Class::Wrong)));
    }

    #[test]
    fn redirect_is_a_response_of_its_own() {
        let http = http(&[("/a", None)]);
        let moved = "HTTP/1.1 301 Moved Permanently\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(read(&http, 0, moved), Some(Reply::Bad(Class::Wrong)));
        let complaint = http.complaint().unwrap();
        assert!(complaint.contains("was 301") && complaint.contains("redirects are not followed"), "{complaint}");
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
        let mut reader = HttpReader::default();
        assert_eq!(http.read(0, &mut reader, b"HTTP/1.1 200 OK\r\n\r\nok").1, None);
        assert_eq!(http.end(0, &mut reader), Some(Reply::Last(None)));
        assert_eq!((http.status(&reader), http.end(0, &mut reader)), (Some(200), None));
    }

    #[test]
    fn invalid_path_or_header_is_rejected() {
        let with =
            |header: &str| HttpTarget { headers: vec![("X".into(), header.into())], ..HttpTarget::get("/", None) };
        for target in [HttpTarget::get("/a b", None), HttpTarget::get("/a\r\nX: y", None), with("a\r\nB: c")] {
            assert!(http_of(vec![target.clone()]).is_err(), "{target:?}");
        }
    }
}
