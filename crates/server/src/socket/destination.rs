//! The destination of a datagram, which must be the source of the response. On a socket bound to all addresses the kernel may
//! choose another source, and the client then drops the response. A control message therefore reports the destination.

use std::io;
use std::mem::{self, offset_of};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::io::Errno;

use super::address_of;
use crate::platform;

pub(crate) const NAME_BYTES: usize = size_of::<libc::sockaddr_in6>();
/// Room for one control message of IPv4 or IPv6.
pub(crate) const CONTROL_BYTES: usize = 64;
/// The offset of a control message's contents.
// SAFETY: CMSG_LEN only computes a length.
const DATA: usize = unsafe { libc::CMSG_LEN(0) } as usize;
/// The length of the address in an IPv6 control message; the interface follows it.
const V6_ADDRESS_BYTES: usize = 16;

pub(crate) fn is_needed(socket: impl AsFd) -> bool {
    address_of(socket).is_ok_and(|address| address.ip().is_unspecified())
}

pub(crate) fn enable(socket: BorrowedFd<'_>) -> io::Result<()> {
    if !is_needed(socket) {
        return Ok(());
    }
    let (level, name) = match address_of(socket)? {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, platform::RECEIVE_DESTINATION_V4),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    };
    platform::set_option(socket, level, name, &(1 as libc::c_int))
}

/// A control message; empty if `length` is 0.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(crate) struct Control {
    pub(crate) bytes: [u8; CONTROL_BYTES],
    pub(crate) length: usize,
}

impl Control {
    pub(crate) const NONE: Self = Self { bytes: [0; CONTROL_BYTES], length: 0 };

    /// Makes the control message of a response from `received`, the control message of the request.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only io_uring's loops and tests use it"))]
    pub(crate) fn set_reply_source(&mut self, received: &[u8]) {
        self.length = received.len().min(CONTROL_BYTES);
        self.bytes[..self.length].copy_from_slice(&received[..self.length]);
        self.turn_into_source();
    }

    /// Turns a received control message into one that sets the source of a response. The route chooses the interface.
    fn turn_into_source(&mut self) {
        let number = |at: usize| self.bytes[at..at + 4].try_into().map(i32::from_ne_bytes).unwrap_or_default();
        let kind = (number(offset_of!(libc::cmsghdr, cmsg_level)), number(offset_of!(libc::cmsghdr, cmsg_type)));
        let interface = match kind {
            _ if self.length <= DATA => None,
            // A response cannot come from a multicast group.
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) if self.bytes[DATA] == 0xff => None,
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => Some(V6_ADDRESS_BYTES..V6_ADDRESS_BYTES + 4),
            (libc::IPPROTO_IP, platform::DESTINATION_V4) => Some(platform::DESTINATION_V4_INTERFACE),
            _ => None,
        };
        match interface {
            Some(interface) => self.bytes[DATA + interface.start..DATA + interface.end].fill(0),
            None => self.length = 0,
        }
    }

    pub(crate) fn attach(&mut self, message: &mut libc::msghdr) {
        (message.msg_control, message.msg_controllen) = if self.length == 0 {
            (std::ptr::null_mut(), 0)
        } else {
            (self.bytes.as_mut_ptr().cast(), self.length as _)
        };
    }
}

/// A datagram's sender and destination.
#[derive(Debug)]
pub(crate) struct Endpoints {
    name: [u8; NAME_BYTES],
    name_bytes: usize,
    control: Control,
}

impl Endpoints {
    pub(crate) const NONE: Self = Self { name: [0; NAME_BYTES], name_bytes: 0, control: Control::NONE };

    /// Receives a datagram into the empty `inbox`; returns its length.
    pub(crate) fn receive(&mut self, io: BorrowedFd<'_>, inbox: &mut Vec<u8>) -> Result<usize, Errno> {
        let mut room = libc::iovec { iov_base: inbox.as_mut_ptr().cast(), iov_len: inbox.capacity() };
        // SAFETY: all fields are numbers or pointers, so zeros are valid.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut room, 1);
        (message.msg_name, message.msg_namelen) = (self.name.as_mut_ptr().cast(), NAME_BYTES as libc::socklen_t);
        self.control.length = CONTROL_BYTES;
        self.control.attach(&mut message);
        // SAFETY: all pointers in the message are valid during the call, and the kernel respects the lengths.
        let count = counted(unsafe { libc::recvmsg(io.as_raw_fd(), &raw mut message, 0) })?;
        // SAFETY: the kernel has written `count` bytes.
        unsafe { inbox.set_len(count) };
        self.name_bytes = (message.msg_namelen as usize).min(NAME_BYTES);
        self.control.length = (message.msg_controllen as usize).min(CONTROL_BYTES);
        self.control.turn_into_source();
        Ok(count)
    }

    /// Sends the response to the last datagram; fails without waiting if the send buffer is full.
    pub(crate) fn send(&mut self, io: BorrowedFd<'_>, response: &[u8]) -> Result<usize, Errno> {
        let mut part = libc::iovec { iov_base: response.as_ptr().cast_mut().cast(), iov_len: response.len() };
        // SAFETY: all fields are numbers or pointers, so zeros are valid.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
        (message.msg_name, message.msg_namelen) = (self.name.as_mut_ptr().cast(), self.name_bytes as libc::socklen_t);
        self.control.attach(&mut message);
        // SAFETY: all pointers in the message are valid during the call, and the kernel only reads through them.
        counted(unsafe { libc::sendmsg(io.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT) })
    }
}

/// Converts the result of a system call that returns a count, or −1 for an error.
pub(crate) fn counted(returned: impl TryInto<usize>) -> Result<usize, Errno> {
    returned.try_into().map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn only_wildcard_sockets_ask_for_destinations() {
        for (address, needed) in [("127.0.0.1:0", false), ("0.0.0.0:0", true)] {
            let socket = UdpSocket::bind(address).unwrap();
            assert_eq!(is_needed(&socket), needed, "{address}");
            enable(socket.as_fd()).unwrap();
        }
    }

    #[test]
    fn reply_to_a_multicast_group_leaves_the_source_to_the_route() {
        let mut received = [0; CONTROL_BYTES];
        let length = DATA + V6_ADDRESS_BYTES + 4;
        let (level, kind) = (offset_of!(libc::cmsghdr, cmsg_level), offset_of!(libc::cmsghdr, cmsg_type));
        received[level..level + 4].copy_from_slice(&libc::IPPROTO_IPV6.to_ne_bytes());
        received[kind..kind + 4].copy_from_slice(&libc::IPV6_PKTINFO.to_ne_bytes());
        received[DATA..length].fill(7);
        let mut control = Control::NONE;
        control.set_reply_source(&received[..length]);
        assert_eq!(control.length, length);
        assert_eq!(control.bytes[DATA..DATA + V6_ADDRESS_BYTES], [7; V6_ADDRESS_BYTES]);
        assert_eq!(control.bytes[DATA + V6_ADDRESS_BYTES..length], [0; 4], "the route chooses the interface");
        received[DATA] = 0xff;
        control.set_reply_source(&received[..length]);
        assert_eq!(control.length, 0);
        control.set_reply_source(&[]);
        assert_eq!(control.length, 0);
    }
}
