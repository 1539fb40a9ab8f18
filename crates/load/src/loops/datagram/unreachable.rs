//! ICMP reports of undelivered datagrams, from the socket's error queue (IP_RECVERR).

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::{mem, ptr};

use crate::io::platform;
use crate::result::Class;

/// Enough of a datagram's beginning to contain the id.
const BEGINNING_BYTES: usize = 64;
/// Bytes for an extended error and an address.
const CONTROL_BYTES: usize = 128;

pub fn enable(socket: &UdpSocket, is_v4: bool) -> io::Result<()> {
    let (level, name) =
        if is_v4 { (libc::IPPROTO_IP, libc::IP_RECVERR) } else { (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) };
    Ok(platform::set_option(socket, level, name, 1)?)
}

/// Empties the error queue. Calls `report` with each datagram's beginning and its class of failure.
pub fn take(socket: &UdpSocket, report: &mut dyn FnMut(&[u8], Class)) {
    loop {
        let mut beginning = [0u8; BEGINNING_BYTES];
        let mut control = [0u64; CONTROL_BYTES / 8];
        let mut part = libc::iovec { iov_base: beginning.as_mut_ptr().cast(), iov_len: BEGINNING_BYTES };
        // SAFETY: the structure has only numbers and pointers, for which zeros are valid.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_BYTES as _;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: the header's pointers and lengths describe buffers that live across the call.
        let count = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
        let Ok(count) = usize::try_from(count) else { return };
        report(&beginning[..count.min(BEGINNING_BYTES)], class(&header));
    }
}

fn class(header: &libc::msghdr) -> Class {
    // SAFETY: the kernel has filled in the control messages of the header, and the macros stay inside them.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while let Some(it) = message.as_ref() {
            let kind = (it.cmsg_level, it.cmsg_type);
            if kind == (libc::IPPROTO_IP, libc::IP_RECVERR) || kind == (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) {
                let error: libc::sock_extended_err = ptr::read_unaligned(libc::CMSG_DATA(message).cast());
                return match error.ee_errno as i32 {
                    libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH => Class::Unreachable,
                    _ => Class::Other,
                };
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    Class::Other
}

/// Returns the datagrams that a socket dropped for lack of buffer space (SO_MEMINFO); `None` if unknown.
pub fn dropped(socket: &UdpSocket) -> Option<u64> {
    /// The index of the drops (linux/sock_diag.h: SK_MEMINFO_DROPS).
    const DROPS: usize = 8;
    let mut figures = [0u32; DROPS + 1];
    let mut bytes = size_of_val(&figures) as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes into `figures`, and their number into `bytes`.
    let result = unsafe {
        let (level, name) = (libc::SOL_SOCKET, libc::SO_MEMINFO);
        libc::getsockopt(socket.as_raw_fd(), level, name, figures.as_mut_ptr().cast(), &raw mut bytes)
    };
    (result == 0 && bytes as usize == size_of_val(&figures)).then(|| figures[DROPS].into())
}
