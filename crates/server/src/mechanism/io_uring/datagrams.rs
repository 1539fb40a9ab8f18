//! Datagrams: what comes has its sender's address with it, and what goes a receiver's.

use std::os::fd::RawFd;
use std::{io, mem, ptr, slice};

use io_uring::types::{Fd, RecvMsgOut};
use io_uring::{opcode, squeue};

use super::IoUring;
use super::buffers::Buffers;
use crate::mechanism::Token;
use crate::mechanism::completion::{Completion, Datagram, Datagrams, Envelope, NAME_BYTES, Received};
use crate::workers::Operation;

/// The result of a receive is how long the datagram was, though its end may have found no room.
const FLAGS: u32 = libc::MSG_TRUNC as u32;
/// A send that finds no room fails, and does not wait for any, as in the other architectures.
const SEND_FLAGS: u32 = libc::MSG_DONTWAIT as u32;

impl Envelope {
    /// One for each of `count` sockets.
    pub fn of(count: usize) -> Box<[Self]> {
        // SAFETY: numbers and null pointers, of which zeros are valid.
        (0..count).map(|_| unsafe { mem::zeroed() }).collect()
    }
}

impl<const SQPOLL: bool, const MULTISHOT: bool, const ZERO_COPY: bool> Datagrams
    for IoUring<SQPOLL, MULTISHOT, ZERO_COPY>
{
    #[inline]
    unsafe fn receive_datagrams(&mut self, io: RawFd, token: Token, envelope: &mut Envelope) -> io::Result<()> {
        // The buffer is of the ring's choice.
        envelope.room = libc::iovec { iov_base: ptr::null_mut(), iov_len: self.buffers.bytes_each() };
        envelope.message.msg_iov = &raw mut envelope.room;
        envelope.message.msg_iovlen = 1;
        envelope.message.msg_name = envelope.name.as_mut_ptr().cast();
        envelope.message.msg_namelen = NAME_BYTES as libc::socklen_t;
        let message = &raw mut envelope.message;
        let receive = if MULTISHOT {
            // The address comes in the buffer, too.
            opcode::RecvMsgMulti::new(Fd(io), message, Buffers::GROUP).flags(FLAGS).build()
        } else {
            let into_a_buffer = opcode::RecvMsg::new(Fd(io), message).flags(FLAGS).buf_group(Buffers::GROUP);
            into_a_buffer.build().flags(squeue::Flags::BUFFER_SELECT)
        };
        // SAFETY: the caller's promise, and the buffers outlive the ring.
        unsafe { self.push(Operation::Receive, token, receive) }
    }

    #[inline]
    unsafe fn send_datagram(&mut self, io: RawFd, token: Token, message: *const libc::msghdr) -> io::Result<()> {
        let send = if ZERO_COPY {
            opcode::SendMsgZc::new(Fd(io), message).flags(SEND_FLAGS).build()
        } else {
            opcode::SendMsg::new(Fd(io), message).flags(SEND_FLAGS).build()
        };
        // SAFETY: the caller's promise.
        unsafe { self.push(Operation::Send, token, send) }
    }

    #[inline]
    fn datagram<'a>(&'a self, received: &Received, envelope: &'a Envelope) -> Option<Datagram<'a>> {
        let length = received.result.ok()?;
        let bytes = self.bytes(received);
        if !MULTISHOT {
            // One of no bytes takes no buffer.
            let from = &envelope.name[..(envelope.message.msg_namelen as usize).min(NAME_BYTES)];
            return Some(Datagram { from, bytes, length });
        }
        let parts = RecvMsgOut::parse(bytes, &envelope.message).ok()?;
        let length = parts.incoming_payload_len() as usize;
        let (from, bytes) = (parts.name_data(), parts.payload_data());
        // SAFETY: both are parts of the buffer, and `parts` only borrows them.
        let (from, bytes) = unsafe {
            (slice::from_raw_parts(from.as_ptr(), from.len()), slice::from_raw_parts(bytes.as_ptr(), bytes.len()))
        };
        Some(Datagram { from, bytes, length })
    }
}
