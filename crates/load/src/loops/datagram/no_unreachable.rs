//! A stand-in for systems that do not report undelivered datagrams to an unconnected socket. Such datagrams count as lost.

use std::io;
use std::net::UdpSocket;

use crate::result::Class;

#[allow(clippy::unnecessary_wraps, reason = "on Linux it may fail")]
pub fn enable(_socket: &UdpSocket, _is_v4: bool) -> io::Result<()> {
    Ok(())
}

pub fn take(_socket: &UdpSocket, _report: &mut dyn FnMut(&[u8], Class)) {}

/// Only Linux counts drops per socket.
pub fn dropped(_socket: &UdpSocket) -> Option<u64> {
    None
}
