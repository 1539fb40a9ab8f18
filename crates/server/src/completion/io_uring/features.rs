//! The io_urings of the table of mechanisms. Each differs from `io_uring` ([`Multishot`]) in one property, except that
//! [`RegisteredBuffers`] differs from [`ZeroCopy`].

/// The features of the kernel that an io_uring uses. The defaults are those of [`Multishot`].
pub(crate) trait Features {
    /// Whether a kernel thread takes requests without a system call.
    const SQPOLL: bool = false;
    const TASK_WORK: TaskWork = TaskWork::Deferred;
    /// Whether accepts and receives repeat until they are cancelled or the kernel ends them.
    const MULTISHOT: bool = true;
    /// Whether one completion of a receive may report several buffers.
    const BUNDLES: bool = false;
    /// Whether the kernel sends from the server's memory. A send completes when that memory is free again.
    const ZERO_COPY: bool = false;
    /// Whether zero-copy sends are from memory that is registered with the ring.
    const SEND_BUFFERS: bool = false;
    /// Whether the sockets of connections are in the ring's table of files.
    const FILES: bool = false;
    const MIN_WAIT: Option<MinWait> = None;
    /// The first kernel with these features.
    const NEEDS: &str = "Linux 6.0";
}

/// When the kernel runs the part of an operation that belongs to the server's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskWork {
    /// At once: it interrupts the thread.
    Interrupting,
    /// At the thread's next system call (COOP_TASKRUN). Only this thread uses the ring (SINGLE_ISSUER).
    Cooperative,
    /// During waits only (DEFER_TASKRUN, SINGLE_ISSUER). Linux 6.0 lacks this flag, and runs it as `Cooperative`.
    Deferred,
}

/// A wait that ends only when several operations have completed, or at the first one after some time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MinWait {
    pub completions: usize,
    pub time_us: u32,
}

/// Makes a type for each row, with the features in which it differs.
macro_rules! rings {
    ($($ring:ident { $($features:tt)* })*) => {
        $(pub(crate) struct $ring;
        impl Features for $ring { $($features)* })*
    };
}

rings! {
    Multishot {}
    Interrupting { const TASK_WORK: TaskWork = TaskWork::Interrupting; }
    Cooperative { const TASK_WORK: TaskWork = TaskWork::Cooperative; }
    Sqpoll { const SQPOLL: bool = true; }
    Oneshot { const MULTISHOT: bool = false; }
    Bundles { const BUNDLES: bool = true; const NEEDS: &str = "Linux 6.10"; }
    MinimumWait {
        /// Half of what the loop accepts in a turn, and the time of a few requests: enough to save most waits under load.
        const MIN_WAIT: Option<MinWait> = Some(MinWait { completions: 16, time_us: 50 });
        const NEEDS: &str = "Linux 6.12";
    }
    RegisteredFiles { const FILES: bool = true; }
    ZeroCopy { const ZERO_COPY: bool = true; const NEEDS: &str = "Linux 6.1"; }
    RegisteredBuffers { const ZERO_COPY: bool = true; const SEND_BUFFERS: bool = true; const NEEDS: &str = "Linux 6.1"; }
}
