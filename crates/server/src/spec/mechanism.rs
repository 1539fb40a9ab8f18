//! Properties of mechanisms. The mechanisms themselves are rows of [`crate::registry`].

/// The part that does the I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The kernel reports which sockets are ready, and the server does the I/O.
    Readiness,
    /// The kernel does the I/O.
    Completion,
}

/// The thread that keeps a CPU busy even when the server is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spins {
    /// None: the mechanism waits.
    Nothing,
    /// The loop itself.
    Loop,
    /// A kernel thread beside the loop, as long as there is work now and then.
    KernelThread,
}

/// The mechanisms that cannot serve Unix sockets. SEND_ZC on one fails with EOPNOTSUPP: io_send_zc in io_uring/net.c requires
/// SOCK_SUPPORT_ZC, which TCP and UDP set.
pub const NEEDS_NETWORK: &[&str] = &["io_uring-zc"];

/// The mechanism of an event-driven model whose name has none: the system's own interest list.
pub const DEFAULT: &str = if cfg!(target_os = "linux") { "epoll" } else { "kqueue" };
