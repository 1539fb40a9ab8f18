//! Properties of mechanisms. [`crate::registry`] lists the mechanisms.

/// Whether the server or the kernel does the I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The kernel reports which sockets are ready, and the server does the I/O.
    Readiness,
    /// The kernel does the I/O and reports its results.
    Completion,
}

/// The thread that keeps a CPU busy while the server is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spins {
    /// None: the mechanism waits.
    Nothing,
    /// The loop itself.
    Loop,
    /// A kernel thread, which sleeps after some time without requests.
    KernelThread,
}

/// The system calls of a thread that poll the network interface, if asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BusyPolls {
    /// None.
    Nothing,
    /// Waits for an epoll instance.
    Epoll,
    /// Waits for the completions of a ring. The kernel sets the budget.
    Ring,
    /// Receives from sockets.
    Receives,
}

/// The mechanisms that cannot serve Unix sockets: SEND_ZC requires SOCK_SUPPORT_ZC, which only TCP and UDP set.
pub const NEEDS_NETWORK: &[&str] = &["io_uring-zc", "io_uring-buffers"];

/// The mechanism of an event-driven model whose name contains none.
pub const DEFAULT: &str = if cfg!(target_os = "linux") {
    "epoll"
} else if cfg!(target_os = "illumos") {
    "event-ports"
} else {
    "kqueue"
};
