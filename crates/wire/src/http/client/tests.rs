//! Reading of responses in any pieces, and requests to the service of this crate.

use proptest::prelude::*;

use super::*;
use crate::Service;
use crate::http::{Content, Http, HttpConn};

/// Reads a stream in pieces of this size, up to the end of the connection; returns its responses.
fn read(stream: &[u8], piece_bytes: usize, is_head: bool) -> Vec<Result<Response, Garbage>> {
    let (mut reader, mut responses) = (ResponseReader::default(), Vec::new());
    for mut piece in stream.chunks(piece_bytes) {
        while !piece.is_empty() {
            let (taken_bytes, response) = reader.read(piece, is_head);
            assert!(reader.pending.len() <= RESPONSE_HEAD_BYTES_MAX);
            responses.extend(response);
            piece = &piece[taken_bytes..];
        }
    }
    responses.extend(reader.end());
    responses
}

fn response() -> impl Strategy<Value = Vec<u8>> {
    let body = || prop::collection::vec(any::<u8>(), 0..300);
    let sized = (body(), any::<bool>()).prop_map(|(body, ends)| {
        let ends = if ends { "Connection: close\r\n" } else { "" };
        [format!("HTTP/1.1 200 OK\r\n{ends}Content-Length: {}\r\n\r\n", body.len()).as_bytes(), &body].concat()
    });
    let chunked = (prop::collection::vec(body(), 0..5), any::<bool>()).prop_map(|(chunks, has_trailer)| {
        let mut text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for chunk in chunks.iter().filter(|chunk| !chunk.is_empty()) {
            text.extend([format!("{:x};a=b\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
        }
        text.extend(if has_trailer { &b"0\r\nA: b\r\n\r\n"[..] } else { b"0\r\n\r\n" });
        text
    });
    let bare = [
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.0 200 OK\r\n\r\n",
    ];
    let bare = prop::sample::select(bare.to_vec()).prop_map(|text| text.as_bytes().to_vec());
    let garbage = prop::collection::vec(any::<u8>(), 1..300);
    prop_oneof![4 => sized, 4 => chunked, 2 => bare, 1 => garbage]
}

proptest! {
    #[test]
    fn any_split_of_a_stream_gives_the_same_responses(
        responses in prop::collection::vec(response(), 1..8),
        cuts in prop::collection::vec(prop_oneof![1usize..5, 1usize..300], 1..50),
        is_head: bool,
    ) {
        let stream = responses.concat();
        // Drop the reasons of errors: with other cuts, the reader may see another error first. Stop at an error.
        let read = |cuts: &[usize]| {
            let (mut reader, mut found, mut rest) = (ResponseReader::default(), Vec::new(), &stream[..]);
            for length in cuts.iter().cycle() {
                let (mut piece, later) = rest.split_at(rest.len().min(*length));
                while !piece.is_empty() {
                    let (taken_bytes, response) = reader.read(piece, is_head);
                    found.extend(response.map(|response| response.map_err(drop)));
                    if found.last().is_some_and(Result::is_err) {
                        return found;
                    }
                    piece = &piece[taken_bytes..];
                }
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            found.extend(reader.end().map(|response| response.map_err(drop)));
            found
        };
        prop_assert_eq!(read(&cuts), read(&[usize::MAX]));
    }
}

fn persistent(status: u16, body_bytes: u64) -> Result<Response, Garbage> {
    Ok(Response { status, body_bytes, closes: false })
}

fn ends(status: u16, body_bytes: u64) -> Result<Response, Garbage> {
    Ok(Response { status, body_bytes, closes: true })
}

#[test]
fn responses_in_any_pieces_are_read() {
    let stream = b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nHTTP/\
        HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\n\r\n0\r\n\r\n00b\r\nhello world\r\n0\r\nTrailer: a\r\n\r\n\
        HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n\
        HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n\
        HTTP/1.1 304 Not Modified\r\nContent-Length: 1000\r\n\r\n\
        HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\nx\
        HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx\
        HTTP/1.1 200 \r\nConnection: x, close\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nxy\
        HTTP/1.1 200 OK\r\n\r\nall the rest\r\n\r\n";
    for piece_bytes in crate::piece_sizes(stream.len()) {
        assert_eq!(
            read(stream, piece_bytes, false),
            [
                persistent(200, 5),
                persistent(200, 16),
                persistent(404, 0),
                persistent(204, 0),
                persistent(304, 0),
                persistent(200, 1),
                ends(200, 1),
                ends(200, 2),
                ends(200, 16)
            ],
            "in pieces of {piece_bytes}"
        );
    }
}

#[test]
fn response_split_at_each_byte_is_read() {
    let rows: [(&[u8], _); 7] = [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", persistent(200, 5)),
        (b"HTTP/1.1 301 Moved Permanently\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n", persistent(301, 0)),
        (b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n3;a\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: x\r\n\r\n", persistent(201, 13)),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", persistent(204, 0)),
        (b"HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno", ends(503, 2)),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", ends(200, 13)),
        (b"HTTP/1.0 302 Found\r\nLocation: /\r\n\r\n", ends(302, 0)),
    ];
    for (stream, expected) in rows {
        for at in 0..=stream.len() {
            let (mut reader, mut found) = (ResponseReader::default(), Vec::new());
            let (first, second) = stream.split_at(at);
            for mut piece in [first, second] {
                while !piece.is_empty() {
                    let (taken_bytes, response) = reader.read(piece, false);
                    found.extend(response);
                    piece = &piece[taken_bytes..];
                }
            }
            found.extend(reader.end());
            assert_eq!(found, [expected], "{} at {at}", String::from_utf8_lossy(stream));
        }
    }
}

#[test]
fn higher_minor_version_is_read_as_1_1() {
    let stream = b"HTTP/1.2 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/\
        HTTP/1.9 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n\
        HTTP/1.3 100 Continue\r\n\r\nHTTP/1.2 204 No Content\r\n\r\n\
        HTTP/1.2 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx\
        HTTP/1.2 404 Not Found\r\n\r\nall the rest";
    for piece_bytes in crate::piece_sizes(stream.len()) {
        assert_eq!(
            read(stream, piece_bytes, false),
            [persistent(200, 5), persistent(200, 1), persistent(204, 0), ends(200, 1), ends(404, 12)],
            "in pieces of {piece_bytes}"
        );
    }
}

#[test]
fn response_to_head_has_no_body() {
    let stream = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
        HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
    for piece_bytes in crate::piece_sizes(stream.len()) {
        assert_eq!(read(stream, piece_bytes, true), [persistent(200, 0), persistent(200, 0), ends(200, 0)]);
    }
}

#[test]
fn invalid_response_is_garbage() {
    for stream in [
        &b"VALUE k 0 1\r\n\r\n"[..],
        b"\r\n",
        b"HTTP/1.1 200 OK\n\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/3.1 200 OK\r\n\r\n",
        b"HTTP/0.9 200 OK\r\n\r\n",
        b"HTTP/1.10 200 OK\r\n\r\n",
        b"HTTP/1.2 20 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        &[&b"HTTP/1.1 200 OK\r\nA: "[..], &[b'a'; 310_000]].concat(),
        &b"HTTP/1.1 200 OK\r\n".iter().chain(&b"A: b\r\n".repeat(5_001)).chain(b"\r\n").copied().collect::<Vec<_>>(),
        &[&b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;"[..], &[b'a'; 2000]].concat(),
        // Truncated responses.
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcd",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n",
    ] {
        let text = String::from_utf8_lossy(stream);
        for piece_bytes in [stream.len(), if cfg!(miri) { stream.len().div_ceil(32) } else { 1 }] {
            let responses = read(stream, piece_bytes, false);
            assert!(matches!(responses[0], Err(Garbage(_))), "{text}: {responses:?}");
        }
    }
}

#[test]
fn large_heads_and_folded_headers_are_read() {
    let head = |fields: &[u8]| [b"HTTP/1.1 200 OK\r\n", fields, b"Content-Length: 1\r\n\r\nx"].concat();
    for fields in [&b"A: b\r\n c\r\n"[..], &b"A: b\r\n".repeat(300), &[b"A: ", &[b'a'; 100_000][..], b"\r\n"].concat()]
    {
        let stream = head(fields);
        assert_eq!(read(&stream, stream.len(), false), [persistent(200, 1)]);
        assert_eq!(read(&stream, 1_000, false), [persistent(200, 1)]);
    }
}

#[test]
fn requests_that_usually_have_a_body_name_its_length() {
    let url: Url = "http://h/".parse().unwrap();
    for (method, is_named) in [("GET", false), ("DELETE", false), ("POST", true), ("PUT", true), ("PATCH", true)] {
        let bytes = Request::new(method, &url, &[], None).unwrap().bytes;
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.contains("\r\nContent-Length: 0\r\n"), is_named, "{text}");
    }
}

#[test]
fn end_between_responses_is_not_garbage() {
    assert_eq!(read(b"", 1, false), []);
    assert_eq!(read(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", 7, false), [persistent(200, 1)]);
}

#[test]
fn valid_urls_are_parsed_and_others_refused() {
    for (url, host, port, authority, target) in [
        ("http://127.0.0.1:8080/a?b=c", "127.0.0.1", 8080, "127.0.0.1:8080", "/a?b=c"),
        ("HTTP://host", "host", 80, "host", "/"),
        ("http://host?b", "host", 80, "host", "/?b"),
        ("http://[::1]:81/", "::1", 81, "[::1]:81", "/"),
        ("http://[fe80::1%eth0]/", "fe80::1%eth0", 80, "[fe80::1%eth0]", "/"),
        ("http://[::1]/a:b", "::1", 80, "[::1]", "/a:b"),
        ("http://host/@a?b=c@d", "host", 80, "host", "/@a?b=c@d"),
    ] {
        let url: Url = url.parse().unwrap();
        assert_eq!((&*url.host, url.port, &*url.authority, &*url.target), (host, port, authority, target));
    }
    for url in [
        "",
        "host",
        "https://host/",
        "http://",
        "http:///a",
        "http://h:x/",
        "http://h:70000/",
        "http://h:+80/",
        "http://::1/",
        "http://::1:80/",
        "http://[::1:80/",
        "http://[::1]x/",
        "http://[127.0.0.1]:80/",
        "http://[host]/",
        "http://u@h/",
        "http://h/#a",
    ] {
        let error = url.parse::<Url>().unwrap_err().to_string();
        assert!(error.starts_with(&format!("invalid URL `{url}`: expected http://")), "{error}");
    }
}

#[test]
fn invalid_requests_are_refused() {
    let url: Url = "http://h:81/a?b".parse().unwrap();
    let get = Request::new("GET", &url, &[("User-Agent", "m"), ("Accept", "*/*")], None).unwrap();
    assert_eq!(get.bytes, b"GET /a?b HTTP/1.1\r\nHost: h:81\r\nUser-Agent: m\r\nAccept: */*\r\n\r\n");
    let head = Request::new("HEAD", &url, &[("host", "other")], None).unwrap();
    assert_eq!(head.bytes, b"HEAD /a?b HTTP/1.1\r\nhost: other\r\n\r\n");
    let post = Request::new("POST", &url, &[("A", "b")], Some(b"\r\n\r\n\xff")).unwrap();
    assert_eq!(post.bytes, b"POST /a?b HTTP/1.1\r\nHost: h:81\r\nA: b\r\nContent-Length: 5\r\n\r\n\r\n\r\n\xff");
    let empty = Request::new("DELETE", &url, &[], Some(b"")).unwrap();
    assert_eq!(empty.bytes, b"DELETE /a?b HTTP/1.1\r\nHost: h:81\r\nContent-Length: 0\r\n\r\n");
    assert!(head.is_head && !get.is_head);

    let with = |target: &str| Url { target: target.to_owned(), ..url.clone() };
    for (method, url, headers) in [
        ("GET", &with("/a b"), &[][..]),
        ("GET", &with("/ü"), &[]),
        ("GET", &url, &[("A", "ü")]),
        ("GET", &with("/a HTTP/1.1\r\nHost: h\r\n\r\nGET /b"), &[]),
        ("G T", &url, &[]),
        ("", &url, &[]),
        ("CONNECT", &url, &[]),
        ("GET", &url, &[("A", "b\r\nC: d")]),
        ("GET", &url, &[("A", "b\r\n\r\nGET / HTTP/1.1")]),
        ("GET", &url, &[("A\r\nB", "c")]),
        ("GET", &url, &[("A b", "c")]),
        ("GET", &url, &[("A", "\0")]),
        ("GET", &url, &[("Host", "h"), ("Host", "h")]),
        ("GET", &url, &[("content-length", "5")]),
        ("GET", &url, &[("Transfer-Encoding", "chunked")]),
        ("GET", &url, &[("Connection", "close")]),
        ("GET", &url, &[("Expect", "100-continue")]),
    ] {
        let error = Request::new(method, url, headers, None).unwrap_err().to_string();
        assert!(error.starts_with("invalid request"), "{error}");
    }
}

#[test]
fn service_answers_requests_of_the_client() {
    let http = Http::new(Content::generated(), Box::new(|| 1));
    let (mut conn, mut reader) = (HttpConn::default(), ResponseReader::default());
    for (method, path, status, length) in [
        ("GET", "/bytes/100000", 200, 100_000),
        ("HEAD", "/bytes/100000", 200, 0),
        ("GET", "/bytes/0", 200, 0),
        ("GET", "/none", 404, 14),
        ("POST", "/", 405, 23),
    ] {
        let url: Url = format!("http://h{path}").parse().unwrap();
        let request = Request::new(method, &url, &[], None).unwrap();
        for _ in 0..3 {
            assert_eq!(http.receive(&mut conn, &request.bytes), 1);
            let response = loop {
                let unsent = http.unsent(&conn);
                let count = unsent.len().min(33_333);
                let (taken_bytes, response) = reader.read(&unsent[..count], request.is_head);
                assert_eq!(taken_bytes, count);
                http.sent(&mut conn, count);
                if let Some(response) = response {
                    break response;
                }
            };
            let response = response.unwrap();
            assert_eq!((response.status, response.body_bytes), (status, length), "{path}");
        }
    }
}
