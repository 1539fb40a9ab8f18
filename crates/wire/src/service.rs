//! What a server does with bytes.

use std::time::Duration;

/// A service's protocol, sans I/O: the caller moves the bytes, the service says what they mean.
///
/// One value is shared by every connection of a thread; what belongs to one connection is in
/// [`Service::Conn`], which is kept small because ten thousand of them exist at once.
pub trait Service {
    /// One connection's state. A new connection starts at `Default`.
    type Conn: Default;

    /// Takes in `input`, which may hold part of a request or several; answers how many requests it completed.
    fn receive(&self, conn: &mut Self::Conn, input: &[u8]) -> u64;

    /// The next bytes to send, contiguous; empty when nothing is left to send.
    ///
    /// Bytes once offered stay where they are and as they are until [`Service::sent`] or the end of the connection,
    /// whatever is received meanwhile: the kernel may be reading them.
    fn unsent<'a>(&'a self, conn: &'a Self::Conn) -> &'a [u8];

    /// Says that the first `count` bytes of [`Service::unsent`] are sent; answers how many requests that completed, which
    /// had waited for it.
    fn sent(&self, conn: &mut Self::Conn, count: usize) -> u64;

    /// Whether no more input is wanted: the connection is to end once everything is sent.
    #[inline]
    fn is_over(&self, _conn: &Self::Conn) -> bool {
        false
    }

    /// Whether the client of a connection that is over may still be sending. What it sends is then read for a while and thrown
    /// away: a close with input unread has the kernel reset the connection, which can take the last response from the client.
    #[inline]
    fn is_cut_short(&self, _conn: &Self::Conn) -> bool {
        false
    }

    /// Whether no part of a request has come that is not answered.
    #[inline]
    fn is_idle(&self, _conn: &Self::Conn) -> bool {
        true
    }

    /// How often to ask whether a connection is overdue; `None` if none ever is.
    #[inline]
    fn check_interval(&self) -> Option<Duration> {
        None
    }

    /// How many such looks may find that nothing of a response was taken, for who cannot ask about a connection meanwhile.
    #[inline]
    fn checks_max(&self) -> u32 {
        u32::MAX
    }

    /// Whether the client has taken too long, and is to be cut off.
    #[inline]
    fn is_overdue(&self, _conn: &mut Self::Conn) -> bool {
        false
    }
}

/// What the server's clock says: seconds since 1970. A service asks it, and no other, where time matters to it.
pub type Clock = Box<dyn Fn() -> u32 + Send + Sync>;
