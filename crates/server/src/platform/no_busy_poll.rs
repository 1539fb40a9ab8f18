//! A stand-in for systems on which muxbench does not poll network interfaces.

use std::io;
use std::os::fd::BorrowedFd;

use crate::spec::busy_poll::BusyPoll;
use crate::spec::mechanism::BusyPolls;

/// Fails: only Linux has the option.
pub(crate) fn set_socket(_socket: BorrowedFd<'_>, _poll: BusyPoll) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Refuses.
pub(crate) fn can_busy_poll(_by: BusyPolls, _poll: BusyPoll) -> Result<(), String> {
    Err("muxbench polls network interfaces only on Linux; omit the option".into())
}
