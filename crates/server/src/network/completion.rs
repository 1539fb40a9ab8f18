//! The loop of architectures in which one thread serves many connections and the kernel does the I/O: we ask for it and
//! are told what came of it. Written once, compiled for each mechanism.

use std::io;
use std::os::fd::AsRawFd;

use rustix::io::Errno;
use wire::fixed::Fixed;
use wire::{Service, ServiceSpec};

use super::Stage;
use super::connection::{Connection, Next};
use super::ready::Connections;
use crate::mechanism::Token;
use crate::mechanism::completion::{Completion, Done, Received, What};
use crate::socket::{Accepted, Acceptor};
use crate::workers::{Counters, Syscall};

/// `sped`: accept and network in this thread, until the server stops.
///
/// # Errors
/// Errors of the listener and of the mechanism; those of single connections end only these.
pub fn run<M: Completion>(stage: &Stage<'_>) -> io::Result<()> {
    match *stage.service {
        ServiceSpec::Fixed { request_bytes, response_bytes } => {
            CompletionLoop::<M, _>::new(stage, Fixed::new(request_bytes, response_bytes))?.run(stage)
        }
    }
}

struct CompletionLoop<'a, M, S: Service> {
    // Dropped first: the kernel may be reading from those below.
    mechanism: M,
    connections: Connections<Serving<S::Conn>>,
    service: S,
    acceptor: Acceptor<'a>,
    counters: &'a Counters,
}

/// A connection, and what the kernel is doing for it. Its slot is given up when that is nothing.
#[derive(Default)]
struct Serving<C> {
    connection: Connection<C>,
    /// A receive has not ended.
    receiving: bool,
    /// It was told to.
    cancelled: bool,
    /// A send has not ended. There is one at a time.
    sending: bool,
    /// Reset, or whatever else befell this one connection.
    failed: bool,
}

impl<'a, M: Completion, S: Service> CompletionLoop<'a, M, S> {
    fn new(stage: &'a Stage<'_>, service: S) -> io::Result<Self> {
        let counters = stage.workers.accept();
        // The kernel waits for a listener only if the listener itself would.
        rustix::io::ioctl_fionbio(stage.listener, false)?;
        Ok(Self {
            mechanism: M::new(stage.connections_max, counters)?,
            connections: Connections::with_capacity(stage.connections_max),
            service,
            acceptor: Acceptor::new(stage.listener, false, counters)?,
            counters,
        })
    }

    fn run(mut self, stage: &Stage<'_>) -> io::Result<()> {
        self.mechanism.watch_stop(stage.stop.as_raw_fd())?;
        self.mechanism.accept(stage.listener.as_raw_fd())?;
        let mut done = Vec::with_capacity(M::DONE_MAX);
        loop {
            self.mechanism.wait(&mut done)?;
            self.counters.events.add(done.len() as u64);
            for Done { token, what } in done.drain(..) {
                match what {
                    What::Stop => return Ok(()),
                    What::Accepted { result, more } => {
                        let accepted = self.acceptor.completed(result)?;
                        if !more && !matches!(accepted, Accepted::Shutdown) {
                            self.mechanism.accept(stage.listener.as_raw_fd())?;
                        }
                        self.admit(accepted)?;
                    }
                    What::Received(received) => self.on_received(token, received)?,
                    What::Sent(result) => self.on_sent(token, result)?,
                }
            }
        }
    }

    /// Gives a connection its slot, and begins to receive.
    fn admit(&mut self, accepted: Accepted) -> io::Result<()> {
        let Accepted::Connection(io) = accepted else { return Ok(()) };
        match self.connections.insert(io) {
            Ok(token) => {
                self.counters.accepted.add(1);
                self.go_on(token, false)
            }
            Err(io) => {
                self.acceptor.refuse(io);
                Ok(())
            }
        }
    }

    #[inline]
    fn on_received(&mut self, token: Token, received: Received) -> io::Result<()> {
        let Some(entry) = self.connections.get(token) else {
            self.mechanism.give_back(received);
            return Ok(());
        };
        let serving = &mut entry.connection;
        serving.receiving = received.more;
        serving.cancelled &= received.more;
        match received.result {
            Ok(0) => serving.connection.finish(),
            Ok(_) => {
                serving.connection.receive(self.mechanism.bytes(&received), &self.service, self.counters);
            }
            // Buffers ran out, and are back by the next time; or we said so ourselves. It is asked for again in time.
            Err(Errno::NOBUFS | Errno::CANCELED | Errno::AGAIN | Errno::INTR) => {}
            Err(_) => serving.failed = true,
        }
        let behind = serving.sending;
        self.mechanism.give_back(received);
        self.go_on(token, behind)
    }

    #[inline]
    fn on_sent(&mut self, token: Token, result: Result<usize, Errno>) -> io::Result<()> {
        let Some(entry) = self.connections.get(token) else { return Ok(()) };
        let serving = &mut entry.connection;
        serving.sending = false;
        match result {
            Ok(count) => serving.connection.sent(count, &self.service, self.counters),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => serving.failed = true,
        }
        self.go_on(token, true)
    }

    /// Asks for what the connection waits for, unless that is under way. `behind`: its responses did not go out at once,
    /// and a receive that goes on by itself is ended until they have. What it brings before it ends is taken in: at most
    /// the mechanism's buffers, which are free again at once.
    #[inline]
    fn go_on(&mut self, token: Token, behind: bool) -> io::Result<()> {
        let Some(entry) = self.connections.get(token) else { return Ok(()) };
        let (io, serving) = (entry.io.as_raw_fd(), &mut entry.connection);
        let next = if serving.failed { Next::End } else { serving.connection.next(&self.service) };
        match next {
            Next::Read => {
                if !serving.receiving {
                    serving.receiving = true;
                    self.mechanism.receive(io, token)?;
                }
            }
            Next::Write => {
                if behind && serving.receiving && !serving.cancelled {
                    serving.cancelled = true;
                    self.mechanism.cancel_receive(token)?;
                }
                if !serving.sending {
                    serving.sending = true;
                    let unsent = serving.connection.unsent(&self.service);
                    // SAFETY: the service keeps its promise of `unsent`; neither it nor a slot moves while the loop
                    // runs, a slot is given up after its send only, and the mechanism is dropped before both.
                    unsafe { self.mechanism.send(io, token, unsent)? };
                }
            }
            Next::End if serving.receiving || serving.sending => {
                // What the kernel still does for it ends by this.
                let _ = rustix::net::shutdown(&entry.io, rustix::net::Shutdown::Both);
            }
            Next::End => {
                drop(self.connections.remove(token));
                self.counters.syscall(Syscall::Close);
                self.counters.ended.add(1);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_costs_at_most_48_bytes_here() {
        assert!(size_of::<super::super::ready::Slot<Serving<<Fixed as Service>::Conn>>>() <= 48);
    }
}
