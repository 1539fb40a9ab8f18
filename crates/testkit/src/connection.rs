//! Connections over loopback.

use std::net::{Ipv4Addr, TcpListener, TcpStream};

/// Returns both ends of a new connection.
pub fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}
