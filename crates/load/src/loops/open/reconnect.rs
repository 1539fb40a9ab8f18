//! Reconnects after the server has closed a connection: between two requests, as servers do with idle connections, or after a response
//! that announced it, as many HTTP servers do after some responses.
//!
//! The receive role finds the end and opens another connection. The send role then takes it over, and sends the unanswered requests
//! behind an announced end again. The server has not processed them (RFC 9112 section 9.6). Their t1 and t2 stay, so their latencies
//! include the wait. Requests that become due meanwhile wait too. Without an announcement, unanswered requests are lost.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, Thread};

use rustix::io::Errno;

use crate::io::connect::Dialer;
use crate::record::request::Head;
use crate::socket::Socket;
use crate::sync::atomic::{AtomicBool, Ordering::*};

/// A connection that is established again.
pub struct Reconnected {
    /// The connection, as an index of the client's connections.
    pub connection: usize,
    pub socket: Arc<Socket>,
    /// The requests that the old connection answered.
    pub answered: Head,
}

/// The connections that the send role takes over from the receive role.
#[derive(Default)]
pub struct Handover {
    has_some: AtomicBool,
    reconnected: Mutex<Vec<Reconnected>>,
    /// The thread of the send role, if it is not that of the receive role.
    sender: OnceLock<Thread>,
}

impl Handover {
    /// Makes this thread the one that [`Handover::add`] wakes from `park`.
    pub fn wake_this_thread(&self) {
        let _ = self.sender.set(thread::current());
    }

    pub fn add(&self, reconnected: Reconnected) {
        self.reconnected.lock().unwrap_or_else(PoisonError::into_inner).push(reconnected);
        self.has_some.store(true, Relaxed);
        self.sender.get().into_iter().for_each(Thread::unpark);
    }

    /// Takes back a connection that ended before the send role took it over. Returns `false` if it has.
    pub fn retract(&self, connection: usize) -> bool {
        let mut reconnected = self.reconnected.lock().unwrap_or_else(PoisonError::into_inner);
        let at = reconnected.iter().position(|it| it.connection == connection);
        at.map(|at| reconnected.swap_remove(at)).is_some()
    }

    #[inline]
    pub fn take(&self) -> Vec<Reconnected> {
        if !self.has_some.load(Relaxed) {
            return Vec::new();
        }
        // A connection that is added after this store sets it again.
        self.has_some.store(false, Relaxed);
        std::mem::take(&mut self.reconnected.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The reconnects of a client's receive role.
pub struct Reconnects<'a> {
    dialer: &'a Dialer<'a>,
    dialed: u64,
    pub handover: &'a Handover,
    /// Connections to dial.
    pub waiting: Vec<usize>,
    /// The time before which none is dialed, in ticks, because the backlog of the server's Unix socket was full.
    pub dial_at: u64,
}

impl<'a> Reconnects<'a> {
    /// `number` is the client's number, so that clients begin with different source addresses.
    pub fn new(dialer: &'a Dialer<'a>, number: u32, handover: &'a Handover) -> Self {
        Self { dialer, dialed: number.into(), handover, waiting: Vec::new(), dial_at: 0 }
    }

    /// Starts a connection.
    pub fn dial(&mut self) -> Result<Arc<Socket>, Errno> {
        self.dialer.begin_again(&mut self.dialed).map(Arc::new)
    }
}
