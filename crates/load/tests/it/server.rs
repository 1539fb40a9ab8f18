//! A TCP server for tests.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;

use rustix::net::{AddressFamily, SocketType};
use wire::ServiceSpec;

pub const REQUEST: usize = 16;
pub const RESPONSE: usize = 100;

/// The service of [`answer_one`] and [`answer_all`].
pub fn service() -> ServiceSpec {
    ServiceSpec::Fixed { request_bytes: REQUEST as u32, response_bytes: RESPONSE as u32 }
}

/// Starts a server that runs `serve` for each connection in a new thread.
pub fn server(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // The backlog of std is 128, and the retry of a dropped SYN takes a second.
    rustix::net::listen(&listener, 4096).unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            stream.set_nodelay(true).unwrap();
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Reads one request and answers it; `None` if the connection has ended.
pub fn answer_one(stream: &mut (impl Read + Write)) -> Option<()> {
    stream.read_exact(&mut [0; REQUEST]).ok()?;
    stream.write_all(&[0; RESPONSE]).ok()
}

/// Answers requests until the connection ends.
pub fn answer_all(mut stream: impl Read + Write) {
    while answer_one(&mut stream).is_some() {}
}

/// Reads a request up to the empty line after its headers; `None` if the connection has ended.
pub fn read_head(stream: &mut impl Read) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    Some(String::from_utf8(head).unwrap())
}

/// Answers HTTP requests. Response `last` of a connection announces its end, and the client closes it. If the server closed it with
/// unread requests, a reset could overtake the response.
pub fn http<S: Read + Write>(last: u32) -> impl Fn(&mut S, u32) -> Option<()> + Send + Sync {
    move |stream, number| {
        if number == last {
            while stream.read(&mut [0; 4_096]).is_ok_and(|bytes| bytes > 0) {}
            return None;
        }
        read_head(stream)?;
        let close = if number + 1 == last { "Connection: close\r\n" } else { "" };
        stream.write_all(format!("HTTP/1.1 200 OK\r\n{close}Content-Length: 2\r\n\r\nok").as_bytes()).ok()
    }
}

/// Reserves the port of a server that has stopped, by a bound socket.
pub fn reserve_port(target: SocketAddr) -> OwnedFd {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    rustix::net::bind(&socket, &target).unwrap();
    socket
}
