//! Datagrams over io_uring: RECVMSG and SENDMSG.

use std::os::fd::{OwnedFd, RawFd};
use std::{io, mem, ptr, slice};

use io_uring::types::{Fd, RecvMsgOut};
use io_uring::{opcode, squeue};

use super::IoUring;
use super::buffers::Buffers;
use super::features::Features;
use crate::completion::{Datagram, Datagrams, Envelope, Received};
use crate::metrics::workers::Operation;
use crate::socket::destination::{self, CONTROL_BYTES, NAME_BYTES};
use crate::token::Token;

/// Makes the kernel report a datagram's full length.
const FLAGS: u32 = libc::MSG_TRUNC as u32;
/// A send fails if the socket's buffer is full, as in the other architectures.
const SEND_FLAGS: u32 = libc::MSG_DONTWAIT as u32;

impl Envelope {
    pub fn for_sockets(sockets: &[OwnedFd]) -> Box<[Self]> {
        // SAFETY: all fields are numbers, pointers or `bool`, for which zeros are valid.
        let empty = || -> Self { unsafe { mem::zeroed() } };
        sockets.iter().map(|socket| Self { has_control: destination::is_needed(socket), ..empty() }).collect()
    }
}

impl<F: Features> Datagrams for IoUring<F> {
    #[inline]
    unsafe fn receive_datagrams(&mut self, io: RawFd, token: Token, envelope: &mut Envelope) -> io::Result<()> {
        // The kernel selects the buffer.
        envelope.room = libc::iovec { iov_base: ptr::null_mut(), iov_len: self.buffers.bytes_each };
        envelope.message.msg_iov = &raw mut envelope.room;
        envelope.message.msg_iovlen = 1;
        envelope.message.msg_name = envelope.name.as_mut_ptr().cast();
        envelope.message.msg_namelen = NAME_BYTES as libc::socklen_t;
        envelope.control.length = if envelope.has_control { CONTROL_BYTES } else { 0 };
        envelope.control.attach(&mut envelope.message);
        let message = &raw mut envelope.message;
        let receive = if F::MULTISHOT {
            // The kernel also writes the sender's address into the buffer.
            opcode::RecvMsgMulti::new(Fd(io), message, Buffers::GROUP).flags(FLAGS).build()
        } else {
            let receive = opcode::RecvMsg::new(Fd(io), message).flags(FLAGS).buf_group(Buffers::GROUP);
            receive.build().flags(squeue::Flags::BUFFER_SELECT)
        };
        // SAFETY: the caller keeps the envelope valid, and the buffers outlive the ring.
        unsafe { self.push(Operation::Receive, token, receive) }
    }

    #[inline]
    unsafe fn send_datagram(&mut self, io: RawFd, token: Token, message: *const libc::msghdr) -> io::Result<()> {
        let send = if F::ZERO_COPY {
            opcode::SendMsgZc::new(Fd(io), message).flags(SEND_FLAGS).build()
        } else {
            opcode::SendMsg::new(Fd(io), message).flags(SEND_FLAGS).build()
        };
        // SAFETY: the caller keeps the message valid.
        unsafe { self.push(Operation::Send, token, send) }
    }

    #[inline]
    fn datagram<'a>(&'a self, received: &Received, envelope: &'a Envelope) -> Option<Datagram<'a>> {
        let length = received.result.ok()?;
        let bytes = received.buffer.map_or(&[][..], |buffer| self.buffers.bytes(buffer, length));
        if !F::MULTISHOT {
            // The sender's address is in the envelope. An empty datagram has no buffer.
            let from = &envelope.name[..(envelope.message.msg_namelen as usize).min(NAME_BYTES)];
            let control =
                &envelope.control.bytes[..(envelope.message.msg_controllen as libc::size_t).min(CONTROL_BYTES)];
            return Some(Datagram { from, control, bytes, length });
        }
        let parts = RecvMsgOut::parse(bytes, &envelope.message).ok()?;
        let length = parts.incoming_payload_len() as usize;
        // SAFETY: each part is within the buffer, which lives for `'a`.
        let in_buffer = |part: &[u8]| -> &'a [u8] { unsafe { slice::from_raw_parts(part.as_ptr(), part.len()) } };
        let (from, control) = (in_buffer(parts.name_data()), in_buffer(parts.control_data()));
        Some(Datagram { from, control, bytes: in_buffer(parts.payload_data()), length })
    }
}
