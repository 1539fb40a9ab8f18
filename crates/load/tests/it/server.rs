//! A TCP server for tests.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

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
