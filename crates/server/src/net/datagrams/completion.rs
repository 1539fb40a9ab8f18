//! The loop of a thread that serves all ports by completions.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::{mem, ptr};

use rustix::io::Errno;
use wire::udp::{ID_BYTES, Udp};

use super::message::{DATAGRAM_BYTES_MAX, sent, take};
use super::workers::{self, Worker};
use crate::completion::{CompletionEvent, Datagrams, Done, Envelope, Received};
use crate::net::ServerContext;
use crate::service::work::WithWork;
use crate::socket::destination::{Control, NAME_BYTES};
use crate::token::Token;

/// The most pending responses: one for each port, within these limits. Further requests wait in their buffers or sockets.
const SENDS: std::ops::RangeInclusive<usize> = 16..=1024;

pub(in crate::net) fn run<M: Datagrams>(context: &ServerContext<'_>) -> io::Result<()> {
    let service = super::service(context)?;
    workers::run(context, &|worker| DatagramCompletionLoop::<M>::new(worker, &service)?.run())
}

struct DatagramCompletionLoop<'a, M> {
    // Dropped first: the kernel may be using the fields below.
    mechanism: M,
    envelopes: Box<[Envelope]>,
    replies: Box<[Reply]>,
    free: Vec<u32>,
    /// Datagrams, each with its port, that arrived when no reply was free.
    waiting: VecDeque<(u32, Received)>,
    response: Vec<u8>,
    service: &'a WithWork<Udp>,
    worker: Worker<'a>,
}

/// A response that the kernel is sending. Its fields point to each other, so it must not move.
struct Reply {
    to: [u8; NAME_BYTES],
    from: Control,
    id: [u8; ID_BYTES],
    parts: [libc::iovec; 2],
    message: libc::msghdr,
}

impl<'a, M: Datagrams> DatagramCompletionLoop<'a, M> {
    fn new(worker: Worker<'a>, service: &'a WithWork<Udp>) -> io::Result<Self> {
        let ports = worker.sockets.len();
        let sends_max = ports.clamp(*SENDS.start(), *SENDS.end());
        // SAFETY: all fields are numbers or pointers, so zeros are valid.
        let replies = (0..sends_max).map(|_| unsafe { mem::zeroed() }).collect();
        Ok(Self {
            mechanism: M::polling(ports.max(sends_max), DATAGRAM_BYTES_MAX, worker.counters, worker.busy_poll)?,
            envelopes: Envelope::for_sockets(worker.sockets),
            replies,
            free: (0..sends_max as u32).rev().collect(),
            waiting: VecDeque::with_capacity(M::DONE_MAX),
            response: service.response(),
            service,
            worker,
        })
    }

    fn run(mut self) -> io::Result<()> {
        let Worker { sockets, stop, counters, started, .. } = self.worker;
        self.mechanism.watch(stop.as_raw_fd(), Token::STOP)?;
        (0..sockets.len() as u32).try_for_each(|port| self.receive(port))?;
        let mut done = Vec::with_capacity(M::DONE_MAX);
        started.thread_ready();
        loop {
            self.mechanism.wait(&mut done, None)?;
            counters.events.add(done.len() as u64);
            for Done { token, event } in done.drain(..) {
                match event {
                    CompletionEvent::Readable => return Ok(()),
                    CompletionEvent::Received(received) => self.on_received(token.slot(), received)?,
                    CompletionEvent::Sent(result) => self.on_sent(token.slot(), result)?,
                    CompletionEvent::Accepted { .. } => {}
                }
            }
        }
    }

    fn receive(&mut self, port: u32) -> io::Result<()> {
        let (io, token) = (self.worker.sockets[port as usize].as_raw_fd(), Token::new(port, 0));
        // SAFETY: envelopes do not move, nothing else writes them, and they outlive the mechanism.
        unsafe { self.mechanism.receive_datagrams(io, token, &mut self.envelopes[port as usize]) }
    }

    fn on_received(&mut self, port: u32, received: Received) -> io::Result<()> {
        if self.free.is_empty() {
            self.waiting.push_back((port, received));
            return Ok(());
        }
        self.serve(port, received)
    }

    /// Answers a datagram and repeats a one-shot receive. A reply must be free.
    #[inline]
    fn serve(&mut self, port: u32, received: Received) -> io::Result<()> {
        let more = received.more;
        self.answer(port, received)?;
        // Repeat the receive after the answer, which needs the sender's address in the envelope.
        if more { Ok(()) } else { self.receive(port) }
    }

    /// Answers a datagram if it is a request, and gives its buffer back.
    fn answer(&mut self, port: u32, received: Received) -> io::Result<()> {
        let Some(datagram) = self.mechanism.datagram(&received, &self.envelopes[port as usize]) else {
            self.mechanism.give_back(received);
            return Ok(());
        };
        let id = take(self.service, datagram.bytes, datagram.length, self.worker.counters);
        let (Some(id), Some(number)) = (id, self.free.last().copied()) else {
            self.mechanism.give_back(received);
            return Ok(());
        };
        self.free.pop();
        let reply = &mut self.replies[number as usize];
        reply.id = id;
        let name_bytes = datagram.from.len();
        reply.to[..name_bytes].copy_from_slice(datagram.from);
        reply.from.set_reply_source(datagram.control);
        self.mechanism.give_back(received);
        let rest = &self.response[ID_BYTES..];
        reply.parts = [
            libc::iovec { iov_base: reply.id.as_mut_ptr().cast(), iov_len: ID_BYTES },
            libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() },
        ];
        reply.message.msg_name = reply.to.as_mut_ptr().cast();
        reply.message.msg_namelen = name_bytes as libc::socklen_t;
        reply.from.attach(&mut reply.message);
        reply.message.msg_iov = reply.parts.as_mut_ptr();
        reply.message.msg_iovlen = reply.parts.len() as _;
        let io = self.worker.sockets[port as usize].as_raw_fd();
        let message = ptr::from_ref(&reply.message);
        // SAFETY: neither replies nor the response move. A reply is free again only after its send, and all outlive the
        // mechanism.
        unsafe { self.mechanism.send_datagram(io, Token::new(number, 0), message) }
    }

    fn on_sent(&mut self, number: u32, result: Result<usize, Errno>) -> io::Result<()> {
        sent(result, self.worker.counters);
        self.free.push(number);
        // Serve until no reply is free: a datagram that is not a request causes no send, which would continue from here.
        while !self.free.is_empty()
            && let Some((port, received)) = self.waiting.pop_front()
        {
            self.serve(port, received)?;
        }
        Ok(())
    }
}
