//! Services of datagrams: the handling of one datagram, and the loop of a thread that watches many ports for readiness.

#[cfg(target_os = "linux")]
mod batch;
pub(super) mod blocking;
#[cfg(target_os = "linux")]
pub(super) mod completion;
mod message;
mod workers;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::net::{RecvFlags, SendFlags};
use wire::ServiceSpec;
use wire::udp::{ID_BYTES, Udp};

use self::message::{DATAGRAM_BYTES_MAX, Taken, sent, take};
use self::workers::Worker;
use super::ServerContext;
use crate::metrics::workers::{Counters, Syscall};
use crate::readiness::{Interest, Readiness, Trigger};
use crate::service::work::WithWork;
use crate::socket::destination::{self, Endpoints};
use crate::socket::is_readable;
use crate::spec::datagrams::DatagramOptions;
use crate::token::Token;
#[cfg(target_os = "linux")]
use batch::BatchIo;

/// The number of datagrams to read from a port before the other ports have their turn.
const READ_DATAGRAMS: u32 = 32;

fn service(context: &ServerContext<'_>) -> io::Result<WithWork<Udp>> {
    let ServiceSpec::Udp { request_bytes, response_bytes, .. } = *context.service else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    Ok(WithWork::new(Udp::new(request_bytes, response_bytes), context.work.clone(), context.stopping.clone()))
}

/// Receives datagrams and answers requests: one with each system call, or in batches.
enum DatagramIo {
    Single(SingleIo),
    #[cfg(target_os = "linux")]
    Batch(BatchIo),
}

impl DatagramIo {
    /// `sockets` are all bound to the same address.
    fn new(service: &WithWork<Udp>, sockets: &[OwnedFd], options: DatagramOptions) -> Self {
        let reports_destination = sockets.first().is_some_and(destination::is_needed);
        #[cfg(target_os = "linux")]
        if !options.is_default() {
            return Self::Batch(BatchIo::new(service, reports_destination, options));
        }
        let ends = reports_destination.then_some(Endpoints::NONE);
        // The memory stays uninitialised: pages that no datagram reaches cost nothing.
        Self::Single(SingleIo { buffer: Vec::with_capacity(DATAGRAM_BYTES_MAX), response: service.response(), ends })
    }

    /// Receives once, and answers the requests among the datagrams.
    #[inline]
    fn exchange(&mut self, io: BorrowedFd<'_>, service: &WithWork<Udp>, counters: &Counters) -> Taken {
        match self {
            Self::Single(single) => single.exchange(io, service, counters),
            #[cfg(target_os = "linux")]
            Self::Batch(batch) => batch.exchange(io, service, counters),
        }
    }
}

struct SingleIo {
    buffer: Vec<u8>,
    response: Vec<u8>,
    /// For sockets bound to all addresses: a response must come from the address to which its request was sent.
    ends: Option<Endpoints>,
}

impl SingleIo {
    #[inline]
    fn exchange(&mut self, io: BorrowedFd<'_>, service: &WithWork<Udp>, counters: &Counters) -> Taken {
        let one = Taken { datagrams: 1, is_last: false };
        self.buffer.clear();
        counters.syscall(Syscall::Read);
        if let Some(ends) = &mut self.ends {
            let bytes = match ends.receive(io, &mut self.buffer) {
                Ok(bytes) => bytes,
                Err(error) => return Taken::failed(error),
            };
            if let Some(id) = take(service, &self.buffer, bytes, counters) {
                self.response[..ID_BYTES].copy_from_slice(&id);
                counters.syscall(Syscall::Write);
                sent(ends.send(io, &self.response), counters);
            }
            return one;
        }
        let (bytes, from) = match rustix::net::recvfrom(io, spare_capacity(&mut self.buffer), RecvFlags::empty()) {
            Ok((_, bytes, from)) => (bytes, from),
            Err(error) => return Taken::failed(error),
        };
        if let (Some(id), Some(from)) = (take(service, &self.buffer, bytes, counters), from) {
            self.response[..ID_BYTES].copy_from_slice(&id);
            counters.syscall(Syscall::Write);
            // If the socket is full, the response is dropped, even on a blocking socket.
            sent(rustix::net::sendto(io, &self.response, SendFlags::DONTWAIT, &from), counters);
        }
        one
    }
}

pub(super) fn run<M: Readiness>(context: &ServerContext<'_>) -> io::Result<()> {
    let service = service(context)?;
    workers::run(context, &|worker| DatagramReadyLoop::<M>::new(worker, &service)?.run())
}

struct DatagramReadyLoop<'a, M> {
    mechanism: M,
    service: &'a WithWork<Udp>,
    datagram_io: DatagramIo,
    /// For edge-triggered mechanisms: ports that may have more to read. `is_unread` ensures that each is listed once.
    unread: VecDeque<u32>,
    is_unread: Vec<bool>,
    worker: Worker<'a>,
}

impl<'a, M: Readiness> DatagramReadyLoop<'a, M> {
    fn new(worker: Worker<'a>, service: &'a WithWork<Udp>) -> io::Result<Self> {
        let ports = worker.sockets.len();
        // The loop watches only the sockets and the stop descriptor.
        let highest = worker.sockets.iter().map(|socket| socket.as_raw_fd()).max().unwrap_or(0);
        let descriptors_max = highest.max(worker.stop.as_raw_fd()) as usize + 1;
        let listed = if M::TRIGGER == Trigger::Edge { ports } else { 0 };
        Ok(Self {
            mechanism: M::polling(descriptors_max, worker.busy_poll)?,
            service,
            datagram_io: DatagramIo::new(service, worker.sockets, worker.options),
            unread: VecDeque::with_capacity(listed),
            is_unread: vec![false; listed],
            worker,
        })
    }

    fn run(mut self) -> io::Result<()> {
        let Worker { sockets, stop, counters, started, .. } = self.worker;
        self.watch(stop, Token::STOP)?;
        for (at, socket) in sockets.iter().enumerate() {
            self.watch(socket.as_fd(), Token::new(at as u32, 0))?;
        }
        let mut ready = Vec::with_capacity(sockets.len() + 1);
        started.thread_ready();
        loop {
            let timeout = (!self.unread.is_empty()).then_some(Duration::ZERO);
            counters.syscall(Syscall::Wait);
            self.mechanism.wait(&mut ready, timeout)?;
            self.mechanism.count_irregular(counters);
            counters.events.add(ready.len() as u64);
            for event in &ready {
                match event.token {
                    Token::STOP if is_readable(stop, Some(Duration::ZERO))? => return Ok(()),
                    // Readiness may be spurious.
                    Token::STOP => {}
                    token => self.read(token.slot()),
                }
            }
            for _ in 0..self.unread.len() {
                let Some(port) = self.unread.pop_front() else { break };
                self.is_unread[port as usize] = false;
                self.read(port);
            }
        }
    }

    fn watch(&mut self, io: BorrowedFd<'_>, token: Token) -> io::Result<()> {
        if M::ADD_SYSCALLS > 0 {
            self.worker.counters.syscalls_of(Syscall::Control, M::ADD_SYSCALLS);
        }
        self.mechanism.add(io.as_raw_fd(), token, Interest::Read)
    }

    /// Reads at least [`READ_DATAGRAMS`] if there are as many, at most a batch more. A level-triggered mechanism reports the rest again; otherwise `unread` lists the port.
    #[inline]
    fn read(&mut self, port: u32) {
        if M::TRIGGER == Trigger::Edge && self.is_unread[port as usize] {
            return;
        }
        let io = self.worker.sockets[port as usize].as_fd();
        let mut read = 0;
        while read < READ_DATAGRAMS {
            let taken = self.datagram_io.exchange(io, self.service, self.worker.counters);
            if taken.is_last {
                return;
            }
            read += taken.datagrams;
        }
        if M::TRIGGER == Trigger::Edge {
            self.is_unread[port as usize] = true;
            self.unread.push_back(port);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::sync::atomic::AtomicBool;
    use std::sync::{Arc, mpsc};

    use super::*;
    use crate::metrics::workers::Workers;

    #[test]
    fn response_to_full_socket_is_dropped_even_if_it_blocks() {
        // Use Unix sockets, which have room for few datagrams. UDP on loopback always has room.
        let folder = tempfile::tempdir().unwrap();
        let server = UnixDatagram::bind(folder.path().join("server")).unwrap();
        let client = UnixDatagram::bind(folder.path().join("client")).unwrap();
        client.connect(folder.path().join("server")).unwrap();
        let counters = Workers::new(0).unwrap().accept();
        let udp = Udp::new(16, 40);
        let request = udp.request();
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let service = WithWork::new(udp, None, Arc::new(AtomicBool::new(false)));
            let mut datagram_io = DatagramIo::new(&service, &[], DatagramOptions::default());
            while !datagram_io.exchange(server.as_fd(), &service, counters).is_last {
                sender.send(()).unwrap();
            }
        });
        let mut sent = 0;
        while counters.unsent.get() == 0 {
            client.send(&request).unwrap();
            sent += 1;
            receiver.recv_timeout(Duration::from_secs(30)).expect("a full socket must not block the server");
        }
        assert_eq!(counters.requests.get(), sent);
        assert_eq!(counters.bytes_out.get(), (sent - 1) * 40);
    }
}
