//! A stand-in for systems that do not report undelivered datagrams to an unconnected socket. Such datagrams count as lost.

use std::io;
use std::net::UdpSocket;

use crate::report::Class;

/// Does nothing.
#[allow(clippy::unnecessary_wraps, reason = "on Linux it may fail")]
pub fn tell(_socket: &UdpSocket, _is_v4: bool) -> io::Result<()> {
    Ok(())
}

/// Does nothing: there are no reports.
pub fn take(_socket: &UdpSocket, _told: &mut dyn FnMut(&[u8], Class)) {}

/// Returns `None`: only Linux counts drops per socket.
pub fn dropped(_socket: &UdpSocket) -> Option<u64> {
    None
}
