//! Answers an HTTP request that arrives in two pieces, without a socket.

use muxbench_wire::Service;
use muxbench_wire::http::{Content, Http, HttpConn};

/// Serves one request.
pub fn main() {
    let pages = Content::files([("hello.txt", b"Hello".to_vec())]).expect("the path is valid");
    // The time of the `Date` of responses, in seconds since 1970.
    let http = Http::new(pages, Box::new(|| 0));
    let mut connection = HttpConn::default();
    assert_eq!(http.receive(&mut connection, b"GET /hello.txt HTTP/1.1\r\nHo"), 0);
    assert_eq!(http.receive(&mut connection, b"st: localhost\r\n\r\n"), 1);
    let mut response = Vec::new();
    loop {
        let part = http.unsent(&connection).to_vec();
        if part.is_empty() {
            break;
        }
        http.sent(&mut connection, part.len());
        response.extend(part);
    }
    let response = String::from_utf8(response).expect("the page is text");
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("\r\n\r\nHello"));
    println!("{response}");
}
