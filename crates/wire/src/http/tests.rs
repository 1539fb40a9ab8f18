//! Responses of the service byte for byte, its memory, and the addresses of its output.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;

use super::connection::{DROPPED_BYTES_MAX, OUTPUT_BYTES_MAX};
use super::content::{COPIED_BYTES_MAX, FILL_BYTES};
use super::head::{FIELDS_MAX, HEAD_BYTES_MAX, LINE_BYTES_MAX};
use super::response::BODY_BYTES_MAX;
use super::*;
use crate::Service;
use crate::buffers::KEPT_BYTES_MAX;

/// `Fri, 15 Jan 2027 08:00:00 GMT`.
const NOW: u32 = 1_800_000_000;

fn generated() -> &'static Http {
    static HTTP: LazyLock<Http> = LazyLock::new(|| Http::new(Content::generated(), Box::new(|| NOW)));
    &HTTP
}

/// A service with files at these paths, each of which contains its path.
fn files(paths: &[&str]) -> Http {
    let files = paths.iter().map(|path| (path, path.as_bytes().to_vec()));
    Http::new(Content::files(files).unwrap(), Box::new(|| NOW))
}

/// Sends all output, at most `at_most` bytes at a time, and returns it.
fn drain(http: &Http, conn: &mut HttpConn, at_most: usize) -> Vec<u8> {
    drain_counted(http, conn, at_most, &mut 0)
}

/// Sends and returns all output like [`drain`], and adds the completed requests to `requests`.
fn drain_counted(http: &Http, conn: &mut HttpConn, at_most: usize, requests: &mut u64) -> Vec<u8> {
    let mut output = Vec::new();
    while !http.unsent(conn).is_empty() {
        let both = [http.unsent(conn), http.unsent_tail(conn)].concat();
        let count = both.len().min(at_most);
        output.extend_from_slice(&both[..count]);
        *requests += http.sent(conn, count);
    }
    output
}

/// Returns the responses to input on a new connection, and whether the connection ends.
fn respond(http: &Http, input: &[u8]) -> (String, bool) {
    respond_in_pieces(http, input, usize::MAX)
}

/// Returns the same as [`respond`], but passes the input in pieces of this size.
fn respond_in_pieces(http: &Http, input: &[u8], piece_bytes: usize) -> (String, bool) {
    let (mut conn, mut output) = (HttpConn::default(), Vec::new());
    for piece in input.chunks(piece_bytes) {
        http.receive(&mut conn, piece);
        output.extend(drain(http, &mut conn, usize::MAX));
    }
    (String::from_utf8_lossy(&output).into_owned(), http.is_over(&conn))
}

/// Returns the status codes of responses.
fn codes(output: &str) -> Vec<&str> {
    output.match_indices("HTTP/1.1 ").map(|(at, line)| &output[at + line.len()..][..3]).collect()
}

/// Returns a head with this status line, the common fields and these fields.
fn head(line: &str, fields: &str) -> String {
    format!("HTTP/1.1 {line}\r\nServer: muxbench\r\nDate: Fri, 15 Jan 2027 08:00:00 GMT\r\n{fields}\r\n")
}

#[test]
fn responses_match_byte_for_byte() {
    let ten = "Content-Type: application/octet-stream\r\nContent-Length: 10\r\n";
    let http = generated();
    let fill = String::from_utf8_lossy(http.content.from(content::Found::Generated { bytes: 10 }, 0)).into_owned();
    let not_found = "Content-Type: text/plain\r\nContent-Length: 14\r\n";
    let not_allowed = "Content-Type: text/plain\r\nAllow: GET, HEAD\r\nContent-Length: 23\r\n";
    let bad = "Content-Type: text/plain\r\nContent-Length: 16\r\nConnection: close\r\n";
    for (input, output) in [
        ("GET /bytes/10 HTTP/1.1\r\nHost: h\r\n\r\n", head("200 OK", ten) + &fill),
        ("HEAD /bytes/10 HTTP/1.1\r\nHost: h\r\n\r\n", head("200 OK", ten)),
        ("HEAD /bytes/1000000 HTTP/1.1\r\nHost: h\r\n\r\n", head("200 OK", &ten.replace("10", "1000000"))),
        ("GET /bytes/0 HTTP/1.1\r\nHost: h\r\n\r\n", head("200 OK", &ten.replace("10", "0"))),
        (
            "GET /bytes/10 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
            head("200 OK", &format!("{ten}Connection: close\r\n")) + &fill,
        ),
        ("GET /bytes/10 HTTP/1.0\r\n\r\n", head("200 OK", &format!("{ten}Connection: close\r\n")) + &fill),
        (
            "GET /bytes/10 HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
            head("200 OK", &format!("{ten}Connection: keep-alive\r\n")) + &fill,
        ),
        ("GET /none HTTP/1.1\r\nHost: h\r\n\r\n", head("404 Not Found", not_found) + "404 Not Found\n"),
        ("HEAD /none HTTP/1.1\r\nHost: h\r\n\r\n", head("404 Not Found", not_found)),
        (
            "DELETE / HTTP/1.1\r\nHost: h\r\n\r\n",
            head("405 Method Not Allowed", not_allowed) + "405 Method Not Allowed\n",
        ),
        ("GET / HTTP/1.1\r\n\r\n", head("400 Bad Request", bad) + "400 Bad Request\n"),
        ("HEAD /%00 HTTP/1.1\r\nHost: h\r\n\r\n", head("400 Bad Request", bad)),
        (
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc",
            "HTTP/1.1 100 Continue\r\n\r\n".to_owned()
                + &head("405 Method Not Allowed", not_allowed)
                + "405 Method Not Allowed\n",
        ),
    ] {
        assert_eq!(respond(http, input.as_bytes()).0, output, "{input}");
    }
}

#[test]
fn content_of_one_size_is_at_each_valid_path() {
    let http = Http::new(Content::of_size(7), Box::new(|| NOW));
    let length = |path: &str| {
        let output = respond(&http, format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).0;
        let length = output.split_once("Content-Length: ").unwrap().1.split("\r\n").next().unwrap();
        (codes(&output)[0].to_owned(), length.to_owned())
    };
    let of_size = |bytes: &str| ("200".to_owned(), bytes.to_owned());
    for path in ["/", "/index.html", "/a/b?c=d", "/%41", "/a/../b", "/.well-known/a"] {
        assert_eq!(length(path), of_size("7"), "{path}");
    }
    assert_eq!(length("/bytes/10"), of_size("10"));
    for path in ["/../a", "/%00", "/a%"] {
        assert_eq!(length(path).0, "400", "{path}");
    }
}

/// Input, the status codes of the responses, and whether the connection ends.
const EXCHANGES: &[(&str, &[&str], bool)] = &[
    // Connections that persist or end.
    ("GET / HTTP/1.1\r\nHost: h\r\n\r\n", &["200"], false),
    (
        "GET / HTTP/1.1\r\nHost: h\r\n\r\nHEAD / HTTP/1.1\r\nHost: h\r\n\r\nGET /a HTTP/1.1\r\nHost:\r\n\r\n",
        &["200", "200", "404"],
        false,
    ),
    ("GET / HTTP/1.1\r\nHost: h\r\nConnection: x, ClOsE\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", &["200"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n", &["200"], true),
    ("GET / HTTP/1.0\r\n\r\nGET / HTTP/1.0\r\n\r\n", &["200"], true),
    ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET / HTTP/1.0\r\n\r\n", &["200", "200"], true),
    ("GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", &["200"], true),
    ("\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", &["200"], false),
    // Targets.
    ("GET /?query HTTP/1.1\r\nHost: h\r\n\r\n", &["200"], false),
    ("GET http://h HTTP/1.1\r\nHost: h\r\n\r\n", &["200"], false),
    ("GET http://h/index.html?query HTTP/1.1\r\nHost: h\r\n\r\n", &["200"], false),
    ("GET /%69ndex.html HTTP/1.1\r\nHost: h\r\n\r\n", &["200"], false),
    ("GET /./a/..//index.html HTTP/1.1\r\nHost: h\r\n\r\n", &["200"], false),
    ("GET /bytes/1073741825 HTTP/1.1\r\nHost: h\r\n\r\n", &["404"], false),
    ("GET /bytes/99999999999999999999 HTTP/1.1\r\nHost: h\r\n\r\n", &["404"], false),
    ("GET /bytes/+1 HTTP/1.1\r\nHost: h\r\n\r\n", &["404"], false),
    ("GET /bytes/ HTTP/1.1\r\nHost: h\r\n\r\n", &["404"], false),
    ("GET * HTTP/1.1\r\nHost: h\r\n\r\n", &["400"], true),
    ("GET index.html HTTP/1.1\r\nHost: h\r\n\r\n", &["400"], true),
    ("GET /.. HTTP/1.1\r\nHost: h\r\n\r\n", &["400"], true),
    ("GET /#a HTTP/1.1\r\nHost: h\r\n\r\n", &["400"], true),
    ("GET /%g0 HTTP/1.1\r\nHost: h\r\n\r\n", &["400"], true),
    // Methods.
    ("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", &["405"], false),
    ("CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n", &["405"], false),
    (
        "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nabGET / HTTP/1.1\r\nHost: h\r\n\r\n",
        &["405", "200"],
        false,
    ),
    ("BREW / HTTP/1.1\r\nHost: h\r\n\r\nget / HTTP/1.1\r\nHost: h\r\n\r\n", &["501", "501"], false),
    // Versions.
    ("GET / HTTP/2.0\r\nHost: h\r\n\r\n", &["505"], true),
    ("GET / HTTP/3.1\r\nHost: h\r\n\r\n", &["505"], true),
    ("GET / HTTP/0.9\r\nHost: h\r\n\r\n", &["505"], true),
    ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &["505"], true),
    ("GET / HTTP/11\r\nHost: h\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.10\r\nHost: h\r\n\r\n", &["400"], true),
    ("GET / http/1.1\r\nHost: h\r\n\r\n", &["400"], true),
    ("GET /\r\n\r\n", &["400"], true),
    // Hosts.
    ("GET / HTTP/1.1\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.0\r\nHost: h\r\nHost: h\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: user@h\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nhOST: [::1]:80\r\n\r\n", &["200"], false),
    // Malformed lines and fields.
    ("GET / HTTP/1.1\nHost: h\n\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\n\n", &["400"], true),
    ("\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", &["400"], true),
    ("\rGET / HTTP/1.1\r\nHost: h\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\n folded\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\n Host: h\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nA: b\rc\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nA: b\0c\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nA\0: b\r\n\r\n", &["400"], true),
    ("GET /\0 HTTP/1.1\r\nHost: h\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost : h\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\n: b\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nA b\r\n\r\n", &["400"], true),
    ("GET  / HTTP/1.1\r\nHost: h\r\n\r\n", &["400"], true),
    ("GET / a HTTP/1.1\r\nHost: h\r\n\r\n", &["400"], true),
    ("G\x01T / HTTP/1.1\r\nHost: h\r\n\r\n", &["400"], true),
    (" GET / HTTP/1.1\r\nHost: h\r\n\r\n", &["400"], true),
    // A client that speaks TLS gets an answer.
    ("\x16\x03\x01\x02", &["400"], true),
    // Bodies are discarded, and the next request follows them.
    (
        "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nHTTP/GET / HTTP/1.1\r\nHost: h\r\n\r\n",
        &["200", "200"],
        false,
    ),
    ("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", &["200", "200"], false),
    ("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nabcd", &[], false),
    ("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1048577\r\n\r\n", &["413"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1048577\r\nConnection: close\r\n\r\n", &["413"], true),
    (
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
        &["405", "200"],
        false,
    ),
    (
        "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n00a;x=\"y\"\r\n0123456789\r\n0\r\nA: b\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
        &["200", "200"],
        false,
    ),
    ("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n100001\r\n", &["413"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", &["413"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\n0\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;a\nb\r\nabc\r\n0\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", &["400"], true),
    // Two lengths of a body may be request smuggling.
    ("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", &["400"], true),
    (
        "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        &["400"],
        true,
    ),
    ("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, gzip, chunked\r\n\r\n0\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", &["501"], true),
    ("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n0\r\n\r\n", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 3, 3\r\n\r\nabc", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: +3\r\n\r\nabc", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: -3\r\n\r\nabc", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0x3\r\n\r\nabc", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n\r\nabc", &["400"], true),
    ("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551619\r\n\r\nabc", &["400"], true),
    // Expectations.
    ("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 3\r\n\r\n", &["100"], false),
    (
        "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        &["100", "405"],
        false,
    ),
    ("GET / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n", &["200"], false),
    ("GET / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", &["200"], true),
    ("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 9999999\r\n\r\n", &["413"], true),
    ("POST / HTTP/1.1\r\nHost: h\r\nExpect: tea\r\nContent-Length: 3\r\n\r\n", &["417"], true),
];

#[test]
fn higher_minor_version_is_answered_as_1_1() {
    let http = generated();
    let mut compared = 0;
    for (input, ..) in EXCHANGES.iter().filter(|(input, ..)| input.contains(" HTTP/1.1\r\n")) {
        for minor in ['2', '9'] {
            let higher = input.replace(" HTTP/1.1\r\n", &format!(" HTTP/1.{minor}\r\n"));
            for piece_bytes in [input.len(), 7] {
                let expected = respond_in_pieces(http, input.as_bytes(), piece_bytes);
                assert_eq!(respond_in_pieces(http, higher.as_bytes(), piece_bytes), expected, "{higher}");
                compared += 1;
            }
        }
    }
    assert!(compared > 200, "only {compared} exchanges compared");
}

#[test]
fn rejected_requests_get_503_on_a_lasting_connection() {
    let (http, mut conn) = (generated(), HttpConn::default());
    let get = b"GET /bytes/70000 HTTP/1.1\r\nHost: h\r\n\r\n";
    let part = &get[..9];
    assert_eq!(http.reject(&mut conn, &[&get[..], get, part].concat()), Some(2));
    let output = String::from_utf8(drain(http, &mut conn, 100)).unwrap();
    assert_eq!(codes(&output), ["503", "503"]);
    assert!(!output.contains("Connection: close"), "{output}");
    // The rest of a request decides whether it is served.
    assert_eq!(http.receive(&mut conn, &get[9..]), 1);
    assert!(drain(http, &mut conn, 100_000).starts_with(b"HTTP/1.1 200 OK"));
    assert_eq!(http.reject(&mut conn, b"GET / HTTP/1.1\r\n\r\n"), Some(1));
    let output = String::from_utf8(drain(http, &mut conn, 100)).unwrap();
    assert_eq!(codes(&output), ["400"], "an invalid request keeps its status");
}

#[test]
fn responses_follow_the_rfcs() {
    let http = generated();
    for (input, expected, ends) in EXCHANGES {
        let (output, is_over) = respond(http, input.as_bytes());
        assert_eq!((codes(&output), is_over), (expected.to_vec(), *ends), "{input:?}");
        assert_eq!(output.matches("Connection: close").count(), usize::from(*ends), "{input:?}");
    }
}

#[test]
fn lines_and_heads_beyond_their_limits_are_refused() {
    let http = generated();
    let line = |bytes: usize| format!("GET /?{} HTTP/1.1", "a".repeat(bytes - "GET /? HTTP/1.1\r".len()));
    let get = |line: &str, fields: &str| respond(http, format!("{line}\r\nHost: h\r\n{fields}\r\n").as_bytes());
    assert_eq!(codes(&get(&line(LINE_BYTES_MAX), "").0), ["200"]);
    assert_eq!(codes(&get(&line(LINE_BYTES_MAX + 1), "").0), ["414"]);

    let rest_bytes = "GET / HTTP/1.1\r\nHost: h\r\nA: \r\n\r\n".len();
    let field = |bytes: usize| format!("A: {}\r\n", "a".repeat(bytes - rest_bytes));
    assert_eq!(codes(&get("GET / HTTP/1.1", &field(HEAD_BYTES_MAX + 1)).0), ["200"]);
    assert_eq!(codes(&get("GET / HTTP/1.1", &field(HEAD_BYTES_MAX + 2)).0), ["431"]);

    assert_eq!(codes(&get("GET / HTTP/1.1", &"A: b\r\n".repeat(FIELDS_MAX - 1)).0), ["200"]);
    assert_eq!(codes(&get("GET / HTTP/1.1", &"A: b\r\n".repeat(FIELDS_MAX)).0), ["431"]);
}

#[cfg_attr(miri, ignore = "too many chunks for an interpreter")]
#[test]
fn chunk_sizes_count_towards_the_limit_of_a_body() {
    let http = generated();
    let chunks = |count: usize| format!("{}0\r\n\r\n", "1\r\na\r\n".repeat(count));
    let most = (BODY_BYTES_MAX as usize - "0\r\n\r\n".len()) / "1\r\na\r\n".len();
    for (count, code) in [(most, "200"), (most + 1, "413")] {
        let input = format!("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{}", chunks(count));
        assert_eq!(codes(&respond(http, input.as_bytes()).0), [code]);
    }
}

#[test]
fn only_files_are_found_by_their_paths() {
    let http = files(&["index.html", "a b/index.html", "a b/c.css", "..c", "%41"]);
    for (path, code, end) in [
        ("/", "200", "index.html"),
        ("/index.html", "200", "index.html"),
        ("/a%20b/", "200", "a b/index.html"),
        ("/a%20b/c.css", "200", "a b/c.css"),
        ("/a%20b%2fc.css?version=1", "200", "a b/c.css"),
        ("/..c", "200", "..c"),
        ("/%2541", "200", "%41"),
        // `%41` stands for the path `A`, which does not exist. It does not stand for the file `%41`.
        ("/%41", "404", "Not Found\n"),
        ("/a%20b", "404", "Not Found\n"),
        ("/bytes/10", "404", "Not Found\n"),
        ("/a%20b/%2e%2e%2f%2e%2e%2fetc/passwd", "400", "Bad Request\n"),
        ("/../../../etc/passwd", "400", "Bad Request\n"),
        ("/..%5c..%5cetc%5cpasswd", "404", "Not Found\n"),
        ("/..\\..\\etc\\passwd", "404", "Not Found\n"),
        ("//etc/passwd", "404", "Not Found\n"),
        ("file:///etc/passwd", "400", "Bad Request\n"),
        ("/index.html%00.css", "400", "Bad Request\n"),
    ] {
        let (output, _) = respond(&http, format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
        assert!(codes(&output) == [code] && output.ends_with(end), "{path}: {output}");
    }
    let (output, _) = respond(&http, b"GET /a%20b/c.css HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(output.contains("\r\nContent-Type: text/css; charset=utf-8\r\nContent-Length: 9\r\n"), "{output}");
}

#[test]
fn files_that_no_request_can_name_are_refused() {
    let add =
        |paths: &[&str]| Content::files(paths.iter().map(|path| (path, Vec::new()))).err().map(|it| it.to_string());
    for path in ["", "/a", "a/", "a//b", "../a", "a/..", "a/./b", "a\0b"] {
        let error = add(&[path]).unwrap();
        assert!(error.starts_with(&format!("{path}: no request can name it")), "{error}");
    }
    assert_eq!(add(&["a", "b", "a"]).unwrap(), "a: the path occurs twice; remove one file");
    assert_eq!(add(&["a", "a/b", "index.html"]), None);
}

#[test]
fn large_content_is_sent_without_a_copy() {
    let large = vec![b'x'; COPIED_BYTES_MAX as usize + 1];
    let length = format!("Content-Length: {}\r\n\r\n", large.len());
    let content = Content::files([("large", large), ("small", b"small".to_vec())]).unwrap();
    let http = Http::new(content, Box::new(|| NOW));
    let mut conn = HttpConn::default();
    let (large, small) = ("GET /large HTTP/1.1\r\nHost: h\r\n\r\n", "GET /small HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(http.receive(&mut conn, format!("{small}{large}{large}{small}").as_bytes()), 2);
    let head_bytes = http.unsent(&conn).len();
    assert!(http.unsent(&conn).ends_with(length.as_bytes()));
    // A request that arrives while content is being sent is answered after the content.
    assert_eq!(http.receive(&mut conn, b"HEAD /large HTTP/1.1\r\nHost: h\r\n\r\n"), 0);
    assert_eq!(http.unsent(&conn).len(), head_bytes);
    // One write sends the head and the content, or a part of both.
    let content = http.content.page(0).bytes.as_ptr();
    assert_eq!(http.unsent_tail(&conn).as_ptr_range(), http.content.page(0).bytes.as_ptr_range());
    let mut requests = http.sent(&mut conn, head_bytes - 1);
    assert_eq!((http.unsent(&conn), http.unsent_tail(&conn).as_ptr()), (&b"\n"[..], content));
    requests += http.sent(&mut conn, 1 + 7);
    for at in [7, 777] {
        let unsent = http.unsent(&conn);
        assert_eq!((unsent.as_ptr(), http.unsent_tail(&conn)), (content.wrapping_add(at), &b""[..]));
        assert_eq!(unsent.len(), COPIED_BYTES_MAX as usize + 1 - at);
        requests += http.sent(&mut conn, 770);
    }
    let output = String::from_utf8(drain_counted(&http, &mut conn, 5000, &mut requests)).unwrap();
    assert_eq!(codes(&output), ["200", "200", "200"]);
    assert!(output.contains("\r\n\r\nsmallHTTP/1.1 200 OK") && output.ends_with(&length));
    assert_eq!(requests, 3);
}

#[test]
fn generated_content_has_its_size_and_is_repeatable() {
    let http = generated();
    let sizes = [1, COPIED_BYTES_MAX as usize, COPIED_BYTES_MAX as usize + 1, 5 * FILL_BYTES + 3];
    let mut longest = Vec::new();
    for (at_most, size) in [1000, 1 << 20, usize::MAX].into_iter().flat_map(|most| sizes.map(|size| (most, size))) {
        let mut conn = HttpConn::default();
        http.receive(&mut conn, format!("GET /bytes/{size} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
        let mut output = drain(http, &mut conn, at_most);
        let head_bytes = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        let body = output.split_off(head_bytes);
        assert_eq!(body.len(), size);
        let (shorter, longer) = if body.len() < longest.len() { (&body, &longest) } else { (&longest, &body) };
        assert!(longer.starts_with(shorter));
        if body.len() > longest.len() {
            longest = body;
        }
    }
}

#[test]
fn clock_is_read_once_a_batch() {
    let now = Arc::new(AtomicU32::new(0));
    let clock = Arc::clone(&now);
    let http = Http::new(Content::generated(), Box::new(move || clock.fetch_add(1, Relaxed)));
    let dates = |input: &[u8]| {
        let output = respond(&http, input).0;
        output.match_indices("Date: ").map(|(at, _)| output[at + 6..at + 35].to_owned()).collect::<Vec<_>>()
    };
    let get = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    assert_eq!(dates(&get.repeat(2)), ["Thu, 01 Jan 1970 00:00:00 GMT"; 2]);
    assert_eq!(dates(get), ["Thu, 01 Jan 1970 00:00:01 GMT"]);
    assert_eq!(dates(b"GET / HTTP/1.1\r\n").len() + now.load(Relaxed) as usize, 2);
}

#[test]
fn unsent_bytes_do_not_move() {
    let http = generated();
    let mut conn = HttpConn::default();
    let get = b"GET /bytes/5 HTTP/1.1\r\nHost: h\r\n\r\n";
    http.receive(&mut conn, get);
    let (before, address) = (http.unsent(&conn).to_vec(), http.unsent(&conn).as_ptr());
    for _ in 0..1000 {
        http.receive(&mut conn, get);
        assert_eq!((http.unsent(&conn), http.unsent(&conn).as_ptr()), (&before[..], address));
    }
    http.sent(&mut conn, 3);
    http.receive(&mut conn, get);
    assert_eq!(http.unsent(&conn).as_ptr(), address.wrapping_add(3));
    assert_eq!(drain(http, &mut conn, usize::MAX), before.repeat(1002)[3..]);
}

#[test]
fn requests_for_large_output_wait_until_it_is_sent() {
    let http = generated();
    let mut conn = HttpConn::default();
    let input = "GET /bytes/10000 HTTP/1.1\r\nHost: h\r\n\r\n".repeat(1000);
    let (mut requests, mut output_bytes) = (http.receive(&mut conn, input.as_bytes()), 0);
    let response_bytes = respond(http, b"GET /bytes/10000 HTTP/1.1\r\nHost: h\r\n\r\n").0.len().max(10_000);
    while !http.unsent(&conn).is_empty() {
        assert!(http.unsent(&conn).len() < OUTPUT_BYTES_MAX + response_bytes);
        let count = http.unsent(&conn).len();
        output_bytes += count;
        requests += http.sent(&mut conn, count);
    }
    assert_eq!(requests, 1000);
    assert!(output_bytes > 10_000_000 && output_bytes % 1000 == 0);
}

#[test]
fn body_is_discarded_on_arrival() {
    let http = generated();
    for (head, pieces) in [
        ("Content-Length: 1000000", vec![[b'\n'; 100_000].to_vec(); 10]),
        ("Transfer-Encoding: chunked", vec![[&b"186a0\r\n"[..], &[b'\n'; 100_000], b"\r\n"].concat(); 10]),
    ] {
        let mut conn = HttpConn::default();
        assert_eq!(http.receive(&mut conn, format!("POST / HTTP/1.1\r\nHost: h\r\n{head}\r\n\r\n").as_bytes()), 0);
        let mut requests = 0;
        for piece in pieces {
            requests += http.receive(&mut conn, &piece);
            assert!(conn.input.pending().is_empty());
        }
        if head.contains("chunked") {
            requests += http.receive(&mut conn, b"0\r\n\r\n");
        }
        assert_eq!(requests, 1, "{head}");
    }
}

#[test]
fn idle_connection_is_small() {
    assert!(size_of::<HttpConn>() <= 256, "{}", size_of::<HttpConn>());
    let http = generated();
    let mut conn = HttpConn::default();
    http.receive(&mut conn, b"GET /bytes/30000 HTTP/1.1\r\nHost: h\r\nA: ");
    for _ in 0..10 {
        http.receive(&mut conn, &[b'a'; 3000]);
    }
    assert_eq!(http.receive(&mut conn, b"\r\n\r\n"), 1);
    assert!(drain(http, &mut conn, 777).len() > 30_000);
    let capacity_bytes = conn.input.capacity() + conn.output.space().capacity();
    assert!(capacity_bytes <= 2 * KEPT_BYTES_MAX, "{capacity_bytes}");
}

fn requests() -> impl Strategy<Value = Vec<u8>> {
    let exchange = (0..EXCHANGES.len()).prop_map(|at| EXCHANGES[at].0.as_bytes().to_vec());
    let goes_on: Vec<_> = EXCHANGES.iter().filter(|row| !row.2 && row.1 != ["100"] && !row.1.is_empty()).collect();
    let harmless = (0..goes_on.len()).prop_map(move |at| goes_on[at].0.as_bytes().to_vec());
    let sized = (0usize..200_000, any::<bool>()).prop_map(|(bytes, is_head)| {
        let method = if is_head { "HEAD" } else { "GET" };
        format!("{method} /bytes/{bytes} HTTP/1.1\r\nHost: h\r\n\r\n").into_bytes()
    });
    let long = (0usize..40_000)
        .prop_map(|bytes| format!("GET / HTTP/1.1\r\nHost: h\r\nA: {}\r\n\r\n", "a".repeat(bytes)).into());
    let body = prop::collection::vec(0usize..5000, 0..5).prop_map(|sizes| {
        let chunks: String =
            sizes.into_iter().map(|size| format!("{:x}\r\n{}\r\n", size + 1, "\n".repeat(size + 1))).collect();
        format!("PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\nA: b\r\n\r\n").into()
    });
    let garbage = prop::collection::vec(any::<u8>(), 0..100);
    prop_oneof![1 => exchange, 8 => harmless, 4 => sized, 1 => long, 2 => body, 1 => garbage]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_split_of_a_stream_gives_the_same_responses(
        pieces in prop::collection::vec(requests(), 1..8),
        cuts in prop::collection::vec((prop_oneof![1usize..30, 1usize..3000], any::<bool>()), 1..100),
    ) {
        let (http, stream) = (generated(), pieces.concat());
        let mut conn = HttpConn::default();
        let mut requests = http.receive(&mut conn, &stream);
        let expected = drain_counted(http, &mut conn, usize::MAX, &mut requests);

        let mut split_conn = HttpConn::default();
        let (mut output, mut split_requests, mut rest) = (Vec::new(), 0, &stream[..]);
        for (length, is_sent) in cuts.iter().cycle() {
            let (piece, later) = rest.split_at(rest.len().min(*length));
            split_requests += http.receive(&mut split_conn, piece);
            if *is_sent {
                output.extend(drain_counted(http, &mut split_conn, 777, &mut split_requests));
            }
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        output.extend(drain_counted(http, &mut split_conn, 777, &mut split_requests));
        prop_assert!(output == expected, "{} bytes of output, expected {}", output.len(), expected.len());
        prop_assert_eq!(split_requests, requests);
        prop_assert_eq!(http.is_over(&split_conn), http.is_over(&conn));
    }

    #[test]
    fn garbage_is_answered_and_not_kept(
        head in prop_oneof![Just(""), Just("GET / HTTP/1.1\r\nHost: h\r\n"), Just("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")],
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..2000), 1..50),
    ) {
        let (http, mut conn) = (generated(), HttpConn::default());
        http.receive(&mut conn, head.as_bytes());
        for piece in pieces {
            http.receive(&mut conn, &piece);
            drain(http, &mut conn, usize::MAX);
            prop_assert!(conn.input.pending().len() <= HEAD_BYTES_MAX);
        }
    }
}

#[test]
fn head_without_an_end_ends_the_connection() {
    for (beginning, more, code, most) in [
        (&b"GET /"[..], &b"aaaaaaaaaa"[..], "414", LINE_BYTES_MAX),
        (b"GET / HTTP/1.1\r\n", b"A: bcdef\r\n", "431", HEAD_BYTES_MAX),
        (b"GET / HTTP/1.1\r\nA:", b"aaaaaaaaaa", "431", HEAD_BYTES_MAX),
    ] {
        let (http, mut conn) = (generated(), HttpConn::default());
        http.receive(&mut conn, beginning);
        let mut sent_bytes = beginning.len();
        while !http.is_over(&conn) {
            assert!(
                sent_bytes <= most && conn.input.pending().len() == sent_bytes,
                "{sent_bytes} bytes of a head were sent, and {} are kept",
                conn.input.pending().len()
            );
            http.receive(&mut conn, more);
            sent_bytes += more.len();
        }
        assert!(sent_bytes > most && conn.input.pending().is_empty());
        let output = drain(http, &mut conn, usize::MAX);
        assert_eq!(codes(&String::from_utf8_lossy(&output)), [code]);
    }
}

#[test]
fn connection_is_cut_short_if_the_client_may_still_send() {
    for (input, is_cut_short) in [
        ("GET / HTTP/1.0\r\n\r\n", false),
        ("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", false),
        ("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nGET /", true),
        ("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9999999\r\n\r\n", true),
        ("GET / HTTP/1.1\nHost: h\n", true),
        ("GET / HTTP/1.1\r\nHost: h\r\n\r\n", false),
    ] {
        let (http, mut conn) = (generated(), HttpConn::default());
        http.receive(&mut conn, input.as_bytes());
        drain(http, &mut conn, usize::MAX);
        assert_eq!(http.is_cut_short(&conn), is_cut_short, "{input:?}");
        // Input is discarded only up to a limit.
        if !is_cut_short {
            continue;
        }
        (0..DROPPED_BYTES_MAX >> 20).for_each(|_| assert_eq!(http.receive(&mut conn, &[b'\r'; 1 << 20]), 0));
        assert!(!http.is_cut_short(&conn));
    }
}

#[test]
fn connection_is_idle_only_between_requests() {
    let (http, mut conn) = (generated(), HttpConn::default());
    assert!(http.is_idle(&conn));
    for (input, is_idle) in [
        ("\r", true),
        ("\n", true),
        ("G", false),
        ("ET / HTTP/1.1\r\nHost: h\r\n\r\n", true),
        ("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n", false),
        ("a", false),
        ("b", true),
        ("GET / HTTP/1.1\r\nHost: h\r\n\r\nGET /", false),
        (" HTTP/1.1\r\nHost: h\r\n\r\n", true),
    ] {
        http.receive(&mut conn, input.as_bytes());
        drain(http, &mut conn, usize::MAX);
        assert_eq!(http.is_idle(&conn), is_idle, "{input:?}");
    }
}
