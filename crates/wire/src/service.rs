//! The interface between a server and a protocol.

use std::time::{Duration, Instant};

/// A service's protocol: the caller moves bytes, and the service interprets them. Many connections share one service, and
/// each has its own [`Service::Conn`], which is small because ten thousand of them exist at once.
pub trait Service {
    /// State of a connection; a new one has the default.
    type Conn: Default;

    /// Processes input, which may be part of a request or several requests. Returns the number of completed requests.
    fn receive(&self, conn: &mut Self::Conn, input: &[u8]) -> u64;

    /// Processes input like [`Service::receive`], but answers each completed request with an error and does not serve it.
    /// Returns the number of these requests; `None` if the protocol has no such response.
    fn reject(&self, _conn: &mut Self::Conn, _input: &[u8]) -> Option<u64> {
        None
    }

    /// Returns the next bytes to send, if any. They neither move nor change until [`Service::sent`] or the end of the
    /// connection, because the kernel may be reading them.
    fn unsent<'a>(&'a self, conn: &'a Self::Conn) -> &'a [u8];

    /// Returns bytes to send after those of [`Service::unsent`] that are elsewhere in memory, if any, so that one write can send
    /// both. They stay in place as long.
    #[inline]
    fn unsent_tail<'a>(&'a self, _conn: &'a Self::Conn) -> &'a [u8] {
        &[]
    }

    /// Marks `count` bytes of [`Service::unsent`] and [`Service::unsent_tail`] as sent. Returns the number of waiting requests that
    /// this completed.
    fn sent(&self, conn: &mut Self::Conn, count: usize) -> u64;

    /// Returns the application's bytes among the `bytes` that moved since the last call. Encryption adds others.
    #[inline]
    fn content_bytes(&self, _conn: &mut Self::Conn, bytes: usize) -> usize {
        bytes
    }

    /// Whether encryption has failed since the last call.
    #[inline]
    fn has_just_failed(&self, _conn: &mut Self::Conn) -> bool {
        false
    }

    /// Performs the simulated work of completed requests, if the service has any. `works` says whether the requests of this
    /// connection take work, once that is drawn.
    fn work(&self, _conn: &Self::Conn, _requests: u64, _works: &mut Option<bool>) {}

    /// The wait before the response of the last request, during which nothing is unsent; `None` without one. Input waits too.
    #[inline]
    fn wait(&self, _conn: &Self::Conn) -> Option<Wait> {
        None
    }

    /// Makes the blocking call of a request whose [`Wait`] has no end. Another thread calls it before [`Service::resume`].
    fn block(&self) {}

    /// Ends the wait. Returns the number of requests that this completed.
    fn resume(&self, _conn: &mut Self::Conn) -> u64 {
        0
    }

    /// Whether the connection takes no more input and ends once everything is sent.
    fn is_over(&self, _conn: &Self::Conn) -> bool {
        false
    }

    /// Whether the client may still be sending on a connection that is over. The server then discards input for a while.
    /// Closing with unread input resets the connection, and the client may lose the last response.
    fn is_cut_short(&self, _conn: &Self::Conn) -> bool {
        false
    }

    /// Whether the connection has neither an unanswered request nor a part of one.
    fn is_idle(&self, _conn: &Self::Conn) -> bool {
        true
    }

    /// The interval between two calls of [`Service::is_overdue`]; `None` if connections are never overdue.
    fn check_interval(&self) -> Option<Duration> {
        None
    }

    /// The limit of consecutive checks without progress of a response; beyond it, the connection must end.
    fn checks_max(&self) -> u32 {
        u32::MAX
    }

    /// Whether the client took too long, so that the connection must end.
    fn is_overdue(&self, _conn: &mut Self::Conn) -> bool {
        false
    }
}

/// A service that can answer the requests of a connection one after the other.
pub trait OneByOne: Service {
    /// Lets each call of [`Service::receive`] or [`Service::sent`] complete at most one request. The next one waits until everything
    /// is sent; a call of `sent` for no bytes completes it too.
    fn one_by_one(self) -> Self;
}

/// A wait of a connection, see [`Service::wait`].
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// The end; `None` if another thread must call [`Service::block`].
    pub until: Option<Instant>,
    /// Whether input has arrived that must wait.
    pub has_input: bool,
}

/// The server's clock in seconds since 1970, the only clock that services read.
pub type Clock = Box<dyn Fn() -> u32 + Send + Sync>;
