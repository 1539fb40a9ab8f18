//! Opens a connection again after the server has announced its end, as many HTTP servers do after some responses.
//!
//! The receive role finds the announcement and opens another connection. The send role then takes it over, and sends the
//! unanswered requests of the old one again. The server has not processed them (RFC 9112 section 9.6). Their t1 and t2 stay, so
//! their latencies include the wait. Requests that become due meanwhile wait too.

use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;

use crate::io::connect::Dialer;
use crate::record::request::Head;
use crate::socket::Socket;
use crate::sync::atomic::{AtomicUsize, Ordering::*};

/// A connection that is open again.
pub struct Reopened {
    /// The connection, as an index of the client's connections.
    pub connection: usize,
    pub socket: Arc<Socket>,
    /// The requests that the old connection answered.
    pub answered: Head,
}

/// The connections that the receive role has opened again, for the send role.
#[derive(Default)]
pub struct Handover {
    count: AtomicUsize,
    reopened: Mutex<Vec<Reopened>>,
}

impl Handover {
    pub fn add(&self, reopened: Reopened) {
        let mut all = self.reopened.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(reopened);
        self.count.store(all.len(), Relaxed);
    }

    /// Whether a connection waits for the send role.
    #[inline]
    pub fn has_some(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    #[cold]
    pub fn take(&self) -> Vec<Reopened> {
        let mut all = self.reopened.lock().unwrap_or_else(PoisonError::into_inner);
        self.count.store(0, Relaxed);
        std::mem::take(&mut all)
    }
}

/// The means of the receive role to open connections again.
pub struct Reopening<'a> {
    dialer: &'a Dialer<'a>,
    dialed: u64,
    pub handover: &'a Handover,
}

impl<'a> Reopening<'a> {
    /// `number` is the client's number, so that clients begin with different source addresses.
    pub fn new(dialer: &'a Dialer<'a>, number: u32, handover: &'a Handover) -> Self {
        Self { dialer, dialed: number.into(), handover }
    }

    /// Starts a connection.
    pub fn begin(&mut self) -> Result<Arc<Socket>, Errno> {
        self.dialer.begin_again(&mut self.dialed).map(Arc::new)
    }
}
