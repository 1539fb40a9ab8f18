//! Where the kernel does not tell a socket without a connection of datagrams that did not get there: they are lost.

use std::io;
use std::net::UdpSocket;

use crate::report::Class;

/// Nothing: there is nothing to be told.
///
/// # Errors
/// None.
#[allow(clippy::unnecessary_wraps, reason = "on Linux it may fail")]
pub fn tell(_socket: &UdpSocket, _is_v4: bool) -> io::Result<()> {
    Ok(())
}

/// Nothing.
pub fn take(_socket: &UdpSocket, _told: &mut dyn FnMut(&[u8], Class)) {}

/// Unknown: only Linux says it of one socket.
pub fn dropped(_socket: &UdpSocket) -> Option<u64> {
    None
}
