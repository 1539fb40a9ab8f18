//! The loop of a network thread that serves many connections by completions: the kernel does the I/O.

use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::connection::{Connect, Connection, Next};
use super::datagrams;
use super::idle_sweep::IdleSweep;
use super::payload::{HandOff, Message};
use super::staged::{self, NetworkContext, NetworkLoop};
use super::stall::Stalls;
use super::table::ConnectionTable;
use super::timers::{Timers, earlier};
use super::{ACCEPTS, ServerContext};
use crate::completion::{Completion, CompletionEvent, Datagrams, Done, Received};
use crate::metrics::workers::Syscall;
use crate::platform;
use crate::service::service;
use crate::socket::{Accepted, Acceptor, PAUSE};
use crate::token::Token;

/// Runs an event-driven server over `M` until it stops. An error of a connection ends only that connection.
pub fn run<M: Datagrams>(context: &ServerContext<'_>) -> io::Result<()> {
    if context.service.ports().is_some() {
        return datagrams::completion::run::<M>(context);
    }
    run_service::<M>(context, &*service(context)?)
}

pub(crate) fn run_service<M: Completion>(context: &ServerContext<'_>, service: &dyn Connect) -> io::Result<()> {
    staged::run(&CompletionLoops::<M>(PhantomData), context, service)
}

struct CompletionLoops<M>(PhantomData<fn() -> M>);

impl<M: Completion> NetworkLoop for CompletionLoops<M> {
    fn is_nonblocking(&self) -> bool {
        false
    }

    fn inline(&self, network: NetworkContext<'_>) -> io::Result<()> {
        CompletionLoop::<M>::new(network)?.run()
    }

    fn hand_off<'a>(&self, _: NetworkContext<'a>, _: HandOff<'_, 'a>) -> io::Result<()> {
        // `Architecture` rejects this combination with the reason.
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The most bytes of unanswered requests that a loop receives by multishot receives. The
/// kernel fills many buffers for one socket before the loop can cancel its receive. Beyond this size, all receives are one-shot.
const UNANSWERED_BYTES_MAX: u64 = 4 << 20;

struct CompletionLoop<'a, M> {
    // Dropped first: the kernel may be reading from the fields below.
    mechanism: M,
    connections: ConnectionTable<Serving<'a>>,
    acceptor: Option<Acceptor<'a>>,
    /// Connections that are not yet admitted, oldest first, each with whether the accept thread has already counted it.
    arrivals: VecDeque<(OwnedFd, bool)>,
    messages: Vec<Message>,
    /// The sum of `unanswered_bytes` of all connections.
    unanswered_bytes: u64,
    /// Whether all receives are one-shot.
    receives_once: bool,
    /// Present if receives may miss the end of a stream. The loop watches its clock while there are connections.
    idle_sweep: Option<IdleSweep>,
    timers: Timers,
    network: NetworkContext<'a>,
}

/// A connection and its pending operations. Its slot is freed only when none is pending.
struct Serving<'a> {
    io: OwnedFd,
    connection: Box<dyn Connection + 'a>,
    receiving: bool,
    cancelled: bool,
    sending: bool,
    failed: bool,
    /// Whether the client may send faster than it reads: its last bytes came while a response was unsent or not ready, or filled a
    /// read budget and caused a response. Such a connection receives one read budget at a time, because a multishot receive takes
    /// all that arrives.
    is_behind: bool,
    /// Whether the connection has a timer, or a blocking call in another thread.
    is_waiting: bool,
    /// The bytes received since all responses were sent.
    unanswered_bytes: u32,
    /// Whether the connection is new, or has received something since its slot was last swept.
    was_active: bool,
}

impl<'a, M: Completion> CompletionLoop<'a, M> {
    fn new(network: NetworkContext<'a>) -> io::Result<Self> {
        let ServerContext { connections_max, options, .. } = *network.context;
        Ok(Self {
            mechanism: M::polling(
                connections_max,
                options.read_budget_bytes.bytes(),
                network.counters,
                options.busy_poll,
            )?,
            connections: ConnectionTable::with_capacity(connections_max),
            acceptor: network.acceptor(false)?,
            arrivals: VecDeque::new(),
            messages: Vec::new(),
            unanswered_bytes: 0,
            receives_once: false,
            idle_sweep: if M::MISSES_ENDS { Some(IdleSweep::new()?) } else { None },
            timers: Timers::default(),
            network,
        })
    }

    fn run(mut self) -> io::Result<()> {
        if let Some(stop) = self.network.stop {
            self.mechanism.watch(stop.as_raw_fd(), Token::STOP)?;
        }
        if let Some(mailbox) = self.network.mailbox {
            self.mechanism.watch(mailbox.descriptor().as_raw_fd(), Token::MAILBOX)?;
        }
        if let Some(listener) = self.network.listener {
            self.mechanism.accept(listener.as_raw_fd())?;
        }
        let mut done = Vec::with_capacity(M::DONE_MAX);
        self.network.counters.begin_network_thread(platform::thread_id());
        let mut state = self.network.worker_state();
        let mut stalls = Stalls::default();
        self.network.started.thread_ready();
        loop {
            let timeout = if self.arrivals.is_empty() { self.timers.timeout() } else { Some(Duration::ZERO) };
            let timeout = match &mut state {
                Some(state) => {
                    state.end_turn(self.network.counters);
                    earlier(timeout, state.wait_max())
                }
                None => timeout,
            };
            self.mechanism.wait(&mut done, timeout)?;
            self.network.counters.events.add(done.len() as u64);
            if let Some(state) = &state {
                state.begin_turn(done.len());
            }
            let is_received = |done: &&Done| matches!(done.event, CompletionEvent::Received(_));
            stalls.begin_turn(self.network.counters, || done.iter().filter(is_received).count() as u64);
            let alone = done.len() == 1;
            for Done { token, event } in done.drain(..) {
                match event {
                    CompletionEvent::Readable if token == Token::STOP => return Ok(()),
                    CompletionEvent::Readable if token == Token::CLOCK => self.sweep_idle()?,
                    CompletionEvent::Readable => {
                        if self.handle_messages(&mut stalls)? {
                            return Ok(());
                        }
                    }
                    CompletionEvent::Accepted { result, more } => self.on_accepted(result, more, alone)?,
                    CompletionEvent::Received(received) => self.on_received(token, received)?,
                    CompletionEvent::Sent(result) => self.on_sent(token, result)?,
                }
            }
            if !self.timers.is_empty() {
                self.resume_due()?;
            }
            self.admit_arrivals()?;
            self.bound_receives()?;
            stalls.end_turn(self.network.counters, self.network.context);
        }
    }

    /// Ends all multishot receives if clients have sent much more than they read.
    fn bound_receives(&mut self) -> io::Result<()> {
        let is_beyond = self.unanswered_bytes > UNANSWERED_BYTES_MAX;
        if is_beyond && !self.receives_once {
            for slot in 0..self.connections.slots() {
                if let Some((token, serving)) = self.connections.tenant_of(slot)
                    && serving.receiving
                    && !serving.cancelled
                {
                    serving.cancelled = true;
                    self.mechanism.cancel_receive(token)?;
                }
            }
        }
        self.receives_once = is_beyond;
        Ok(())
    }

    fn admit_arrivals(&mut self) -> io::Result<()> {
        for _ in 0..ACCEPTS {
            let Some((io, is_counted)) = self.arrivals.pop_front() else { break };
            // With several listeners, the limit of connections is for all threads together.
            if !is_counted && self.network.is_full() {
                self.network.refuse(io);
                continue;
            }
            let is_admitted = self.admit(io)?;
            self.network.counters.assigned.add(u64::from(is_admitted || is_counted));
            match (is_admitted, is_counted) {
                (true, false) => self.network.counters.accepted.add(1),
                (false, true) => self.network.counters.ended.add(1),
                (true, true) | (false, false) => {}
            }
        }
        Ok(())
    }

    /// `alone`: this was the only completion of the wait.
    fn on_accepted(&mut self, result: Result<OwnedFd, Errno>, more: bool, alone: bool) -> io::Result<()> {
        let (Some(acceptor), Some(listener)) = (&mut self.acceptor, self.network.listener) else { return Ok(()) };
        let accepted = acceptor.on_completion(result)?;
        // The next accept would fail in the same way, so pause.
        if alone && matches!(accepted, Accepted::Later) {
            thread::sleep(PAUSE);
        }
        if !more && !matches!(accepted, Accepted::Shutdown) {
            self.mechanism.accept(listener.as_raw_fd())?;
        }
        if let Accepted::Connection(io) = accepted {
            self.arrivals.push_back((io, false));
        }
        Ok(())
    }

    /// Returns whether to stop.
    fn handle_messages(&mut self, stalls: &mut Stalls) -> io::Result<bool> {
        let Some(mailbox) = self.network.mailbox else { return Ok(false) };
        let mut messages = mem::take(&mut self.messages);
        mailbox.take(&mut messages, self.network.counters);
        // A watch reports once, so renew it; a later message makes the descriptor readable again.
        self.mechanism.watch(mailbox.descriptor().as_raw_fd(), Token::MAILBOX)?;
        for message in messages.drain(..) {
            match message {
                Message::Connection(io) => self.arrivals.push_back((io, true)),
                Message::Stop => return Ok(true),
                Message::CheckLimits => self.end_overdue()?,
                Message::Stall => stalls.request(),
                Message::Ready(token) => self.resume(token)?,
                // Only payload threads send these, and there are none.
                Message::Blocked(_) | Message::Resume(_) | Message::End(_) => {}
            }
        }
        self.messages = messages;
        Ok(false)
    }

    fn end_overdue(&mut self) -> io::Result<()> {
        let counters = self.network.counters;
        // Count the tick thread's wake-up here: that thread has no counters.
        counters.syscall(Syscall::Wake);
        for slot in 0..self.connections.slots() {
            let Some((token, serving)) = self.connections.tenant_of(slot) else { continue };
            if !serving.failed && serving.connection.is_overdue(serving.io.as_fd(), counters) {
                serving.failed = true;
                if serving.sending {
                    // Abort a zero-copy send, which otherwise lasts until the client has received it or the kernel gives up.
                    let _ = rustix::net::connect_unspec(&serving.io);
                }
                self.advance(token)?;
            }
        }
        Ok(())
    }

    /// Checks some of the silent connections. A receive that missed an event is restarted.
    fn sweep_idle(&mut self) -> io::Result<()> {
        let Some(idle_sweep) = &mut self.idle_sweep else { return Ok(()) };
        let slots = idle_sweep.next_slots(self.connections.slots())?;
        idle_sweep.is_watched = false;
        let is_silent = |serving: &Serving<'_>| serving.receiving && !serving.cancelled && !serving.was_active;
        let silent = self.connections.tenants(slots.clone()).filter(|(_, serving)| is_silent(serving));
        let (tokens, mut polled): (Vec<Token>, Vec<PollFd<'_>>) =
            silent.map(|(token, serving)| (token, PollFd::new(&serving.io, PollFlags::IN))).unzip();
        self.network.counters.syscall(Syscall::Rescan);
        if !polled.is_empty() {
            self.network.counters.syscall(Syscall::Rescan);
            // If poll fails it reports nothing, and a later sweep checks again.
            let _ = rustix::event::poll(&mut polled, Some(&Timespec::default()));
        }
        let missed = tokens.into_iter().zip(&polled).filter(|(_, fd)| !fd.revents().is_empty());
        let missed: Vec<Token> = missed.map(|(token, _)| token).collect();
        for slot in slots {
            if let Some((_, serving)) = self.connections.tenant_of(slot) {
                serving.was_active = false;
            }
        }
        for token in missed {
            if let Some(serving) = self.connections.get(token) {
                serving.cancelled = true;
                self.mechanism.cancel_receive(token)?;
            }
        }
        if self.connections.is_empty() { Ok(()) } else { self.watch_clock() }
    }

    fn watch_clock(&mut self) -> io::Result<()> {
        match &mut self.idle_sweep {
            Some(idle_sweep) if !idle_sweep.is_watched => {
                idle_sweep.is_watched = true;
                self.mechanism.watch(idle_sweep.clock().as_raw_fd(), Token::CLOCK)
            }
            _ => Ok(()),
        }
    }

    /// Gives a connection a slot and starts to receive, or refuses the connection.
    fn admit(&mut self, io: OwnedFd) -> io::Result<bool> {
        let Some(token) = self.connections.reserve() else {
            self.network.refuse(io);
            return Ok(false);
        };
        self.mechanism.open(io.as_raw_fd(), token)?;
        let connection = self.network.service.connect();
        let (receiving, cancelled, sending, failed, is_behind, was_active) = (false, false, false, false, false, true);
        let (unanswered_bytes, is_waiting) = (0, false);
        let serving = Serving {
            io,
            connection,
            receiving,
            cancelled,
            sending,
            failed,
            is_behind,
            is_waiting,
            unanswered_bytes,
            was_active,
        };
        self.connections.fill(token, serving);
        self.advance(token)?;
        self.watch_clock()?;
        Ok(true)
    }

    fn on_received(&mut self, token: Token, received: Received) -> io::Result<()> {
        let Some(serving) = self.connections.get(token) else {
            self.mechanism.give_back(received);
            return Ok(());
        };
        serving.was_active = true;
        serving.receiving = received.more;
        serving.cancelled &= received.more;
        match received.result {
            Ok(0) => serving.connection.finish(),
            Ok(count) => {
                for part in self.mechanism.parts(&received) {
                    serving.connection.receive(part, self.network.counters);
                }
                let is_unanswered = !serving.connection.unsent().is_empty() || serving.connection.wait().is_some();
                if is_unanswered {
                    // A slot counts less than 4 GiB, which no connection can store.
                    serving.unanswered_bytes += count as u32;
                    self.unanswered_bytes += count as u64;
                }
                let is_full = count >= self.network.context.options.read_budget_bytes.bytes();
                serving.is_behind = serving.sending || serving.is_waiting || (is_full && is_unanswered);
            }
            // The buffers ran out, or the receive was cancelled. `advance` requests it again.
            Err(Errno::NOBUFS | Errno::CANCELED | Errno::AGAIN | Errno::INTR) => {}
            Err(_) => serving.failed = true,
        }
        self.mechanism.give_back(received);
        self.advance(token)
    }

    /// Resumes the connections whose waits have ended.
    fn resume_due(&mut self) -> io::Result<()> {
        let now = Instant::now();
        while let Some(token) = self.timers.pop_due(now) {
            self.resume(token)?;
        }
        Ok(())
    }

    fn resume(&mut self, token: Token) -> io::Result<()> {
        let Some(serving) = self.connections.get(token) else { return Ok(()) };
        serving.is_waiting = false;
        serving.connection.resume(self.network.counters);
        self.advance(token)
    }

    fn on_sent(&mut self, token: Token, result: Result<usize, Errno>) -> io::Result<()> {
        let Some(serving) = self.connections.get(token) else { return Ok(()) };
        serving.sending = false;
        match result {
            Ok(count) => {
                // After a partial send the client may not be reading.
                serving.is_behind |= count < serving.connection.unsent().len();
                serving.connection.sent(count, self.network.counters);
            }
            Err(Errno::AGAIN | Errno::INTR) => serving.is_behind = true,
            Err(_) => serving.failed = true,
        }
        self.advance(token)
    }

    /// Requests the operation that the connection waits for, unless it is pending, or ends the connection. If responses to a client
    /// that is behind are unsent, cancels a multishot receive; a later call requests the next one once all responses are sent.
    #[inline]
    fn advance(&mut self, token: Token) -> io::Result<()> {
        let counters = self.network.counters;
        let Some(serving) = self.connections.get(token) else { return Ok(()) };
        let io = serving.io.as_raw_fd();
        let next = if serving.failed { Next::End } else { serving.connection.next(serving.io.as_fd()) };
        if next.is_wait()
            && !serving.is_waiting
            && let Some(wait) = serving.connection.wait()
        {
            serving.is_waiting = true;
            self.network.begin_wait(wait, token, &mut self.timers);
        }
        match next {
            // The bytes before a wait are answered or in the service; those after it lead to `Hold`.
            Next::Read | Next::Wait => {
                self.unanswered_bytes -= u64::from(mem::take(&mut serving.unanswered_bytes));
                if !serving.receiving {
                    serving.receiving = true;
                    self.mechanism.receive(io, token, serving.is_behind || self.receives_once)?;
                }
            }
            Next::Hold => {
                if serving.is_behind && serving.receiving && !serving.cancelled {
                    serving.cancelled = true;
                    self.mechanism.cancel_receive(token)?;
                }
            }
            Next::Write | Next::WriteOn => {
                if serving.is_behind && serving.receiving && !serving.cancelled {
                    serving.cancelled = true;
                    self.mechanism.cancel_receive(token)?;
                }
                if !serving.sending {
                    serving.sending = true;
                    let unsent = serving.connection.unsent();
                    // SAFETY: `unsent` promises stable bytes. A slot is freed only after its send, and the mechanism is dropped before
                    // all slots.
                    unsafe { self.mechanism.send(io, token, unsent)? };
                }
            }
            Next::End if serving.receiving || serving.sending => {
                // The shutdown ends the pending operations.
                let _ = rustix::net::shutdown(&serving.io, rustix::net::Shutdown::Both);
            }
            Next::End => {
                self.mechanism.close(token)?;
                self.unanswered_bytes -= u64::from(serving.unanswered_bytes);
                drop(self.connections.remove(token));
                counters.syscall(Syscall::Close);
                counters.ended.add(1);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::Shutdown;
    use std::os::fd::{BorrowedFd, RawFd};

    use wire::fixed::Fixed;

    use super::*;
    use crate::metrics::workers::Counters;
    use crate::net::connection::Unsent;
    use crate::net::testkit::Fixture;

    #[test]
    fn slot_of_a_connection_takes_at_most_40_bytes() {
        const { assert!(ConnectionTable::<Serving<'_>>::SLOT_BYTES <= 40) };
    }

    /// A one-time operation.
    #[derive(Clone, Copy)]
    enum Operation {
        Watch,
        Accept,
        Receive,
    }

    /// A mechanism whose first receive reports nothing until it is cancelled. This may happen with io_uring.
    struct Deaf {
        requested: Vec<(BorrowedFd<'static>, Token, Operation)>,
        was_deaf: bool,
        cancelled: Option<Token>,
    }

    impl Deaf {
        fn request(&mut self, descriptor: RawFd, token: Token, operation: Operation) {
            // SAFETY: the caller keeps the descriptor open until the operation completes, or drops the mechanism first.
            self.requested.push((unsafe { BorrowedFd::borrow_raw(descriptor) }, token, operation));
        }
    }

    impl Completion for Deaf {
        const DONE_MAX: usize = 1;
        const MISSES_ENDS: bool = true;

        fn new(_: usize, _: usize, _: &'static Counters) -> io::Result<Self> {
            Ok(Self { requested: Vec::new(), was_deaf: false, cancelled: None })
        }

        fn watch(&mut self, descriptor: RawFd, token: Token) -> io::Result<()> {
            self.request(descriptor, token, Operation::Watch);
            Ok(())
        }

        fn accept(&mut self, listener: RawFd) -> io::Result<()> {
            self.request(listener, Token::LISTENER, Operation::Accept);
            Ok(())
        }

        fn receive(&mut self, io: RawFd, token: Token, _once: bool) -> io::Result<()> {
            if mem::replace(&mut self.was_deaf, true) {
                self.request(io, token, Operation::Receive);
            }
            Ok(())
        }

        fn cancel_receive(&mut self, token: Token) -> io::Result<()> {
            self.cancelled = Some(token);
            Ok(())
        }

        unsafe fn send(&mut self, _: RawFd, _: Token, _: Unsent<'_>) -> io::Result<()> {
            unreachable!("no request arrives")
        }

        fn parts(&self, _: &Received) -> impl Iterator<Item = &[u8]> {
            std::iter::empty()
        }

        fn give_back(&mut self, _: Received) {}

        fn wait(&mut self, done: &mut Vec<Done>, _: Option<Duration>) -> io::Result<()> {
            let received = |result| CompletionEvent::Received(Received { result, more: false, buffer: None });
            if let Some(token) = self.cancelled.take() {
                done.push(Done { token, event: received(Err(Errno::CANCELED)) });
                return Ok(());
            }
            let mut polled: Vec<_> = self.requested.iter().map(|(io, ..)| PollFd::new(io, PollFlags::IN)).collect();
            rustix::event::poll(&mut polled, None)?;
            let at = polled.iter().position(|fd| !fd.revents().is_empty()).expect("poll reported a descriptor");
            let (io, token, operation) = self.requested.swap_remove(at);
            let event = match operation {
                Operation::Watch => CompletionEvent::Readable,
                Operation::Accept => CompletionEvent::Accepted { result: rustix::net::accept(io), more: false },
                Operation::Receive => received(rustix::io::read(io, &mut [0; 1])),
            };
            done.push(Done { token, event });
            Ok(())
        }
    }

    #[test]
    fn receive_that_missed_the_end_is_restarted() {
        let fixture = Fixture::new();
        let server = fixture.start("sped", None, |context| run_service::<Deaf>(context, &Fixed::new(1, 1)));
        let mut client = fixture.connect();
        client.shutdown(Shutdown::Write).unwrap();
        // Unlike `read`, this continues after a signal that stopped the process for a while.
        assert_eq!(client.read_to_end(&mut Vec::new()).expect("the sweep restarts the receive"), 0);
        server.stop().unwrap();
        assert_eq!((fixture.workers.totals().accepted, fixture.workers.connections_open()), (Some(1), 0));
    }
}
