//! The interface between a server and a protocol.

use std::time::Duration;

/// A service's protocol, sans I/O: the caller moves bytes, the service interprets them.
///
/// All connections of a thread share one value. [`Service::Conn`] has the state of one connection, and is small because ten
/// thousand of them exist at once.
pub trait Service {
    /// State of a connection; a new one has the default.
    type Conn: Default;

    /// Processes input, which may be part of a request or several; returns the number of completed requests.
    fn receive(&self, conn: &mut Self::Conn, input: &[u8]) -> u64;

    /// Returns the next bytes to send, or none if everything is sent.
    ///
    /// These bytes neither move nor change until [`Service::sent`] or the end of the connection, because the kernel may be reading
    /// them.
    fn unsent<'a>(&'a self, conn: &'a Self::Conn) -> &'a [u8];

    /// Marks the first `count` bytes of [`Service::unsent`] as sent; returns the number of waiting requests that this completed.
    fn sent(&self, conn: &mut Self::Conn, count: usize) -> u64;

    /// Whether the connection takes no more input and ends once everything is sent.
    #[inline]
    fn is_over(&self, _conn: &Self::Conn) -> bool {
        false
    }

    /// Whether the client of a connection that is over may still be sending. The server then discards input for a while, because
    /// closing with unread input resets the connection, and the client may lose the last response.
    #[inline]
    fn is_cut_short(&self, _conn: &Self::Conn) -> bool {
        false
    }

    /// Whether no unanswered request, or part of one, has arrived.
    #[inline]
    fn is_idle(&self, _conn: &Self::Conn) -> bool {
        true
    }

    /// Interval between two calls of [`Service::is_overdue`]; `None` if no connection ever is.
    #[inline]
    fn check_interval(&self) -> Option<Duration> {
        None
    }

    /// Number of checks without progress of a response after which to end a connection, for servers that cannot call
    /// [`Service::is_overdue`] during a write.
    #[inline]
    fn checks_max(&self) -> u32 {
        u32::MAX
    }

    /// Whether the client took too long, so that the connection must end.
    #[inline]
    fn is_overdue(&self, _conn: &mut Self::Conn) -> bool {
        false
    }
}

/// The server's clock in seconds since 1970, the only one that services read.
pub type Clock = Box<dyn Fn() -> u32 + Send + Sync>;
