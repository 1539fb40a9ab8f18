//! The registry: every model and every mechanism, with the functions that run them.
//!
//! Only this file and tests name both mechanisms and loops. A new model needs a row; a new mechanism needs a file and a row.

use std::io;
use std::ops::Deref;

#[cfg(target_os = "linux")]
use crate::completion::Datagrams;
#[cfg(target_os = "linux")]
use crate::completion::io_uring::IoUring;
#[cfg(target_os = "linux")]
use crate::completion::io_uring::features::{
    Bundles, Cooperative, Interrupting, MinimumWait, Multishot, Oneshot, RegisteredBuffers, RegisteredFiles, Sqpoll,
    ZeroCopy,
};
use crate::net::{ServerContext, blocking, ready_loop};
#[cfg(target_os = "linux")]
use crate::net::{completion_loop, pool};
#[cfg(any(target_os = "freebsd", target_os = "macos"))]
use crate::readiness::kqueue;
use crate::readiness::{Readiness, poll, select, shuffled, spin};
#[cfg(target_os = "illumos")]
use crate::readiness::{dev_poll, event_ports};
#[cfg(target_os = "linux")]
use crate::readiness::{epoll, io_uring_epoll, io_uring_poll, rt_signal};
#[cfg(target_os = "linux")]
#[allow(unused_imports, reason = "without features there are none")]
use crate::runtimes;
#[cfg(target_os = "linux")]
#[allow(unused_imports, reason = "without features there are no runtimes")]
use crate::service::service;
use crate::spec::mechanism::{BusyPolls, Family, Spins};
use crate::spec::model::{ModelRow, NetworkStage, PayloadStage, PerConnection, Stages, THREADS_MAX, ThreadSpec};

/// A row of [`MODELS`].
#[derive(Debug)]
pub struct Model {
    /// The model's description.
    pub row: ModelRow,
    /// Runs the server in the calling thread until it is stopped. Sends to `ServerContext::started` once all threads are ready.
    pub run: fn(&ServerContext<'_>, Option<&'static MechanismRow>) -> io::Result<()>,
}

impl Deref for Model {
    type Target = ModelRow;

    fn deref(&self) -> &ModelRow {
        &self.row
    }
}

/// Makes the table of models.
macro_rules! models {
    (
        blocking {
            $($(#[$pool:meta])* $worker:literal $per_connection:ident $count:ident $run:path
                $({ $($setting:ident: $is:expr),* })?: $serving:literal;)*
        }
        staged {
            $($staged:literal $network:ident $payload:ident $threads:ident $({ $($key:ident: $value:expr),* })?
                $coalesces:literal: $about:literal;)*
        }
        runtimes { $($(#[$feature:meta])* $runtime:ident $row:ident;)* }
    ) => {
        /// Every model that is compiled in.
        pub const MODELS: &[Model] = &[
            $($(#[$pool])* Model {
                row: ModelRow {
                    name: $worker,
                    about: $serving,
                    threads: ThreadSpec::$count,
                    per_connection: PerConnection::$per_connection,
                    $($($setting: $is,)*)?
                    ..ModelRow::DEFAULT
                },
                run: |context, _| $run(context),
            },)*
            $(Model {
                row: ModelRow {
                    name: $staged,
                    about: $about,
                    stages: Some(Stages {
                        network: NetworkStage::$network,
                        payload: PayloadStage::$payload,
                        coalesces: $coalesces,
                    }),
                    threads: ThreadSpec::$threads $({ $($key: $value),* })?,
                    ..ModelRow::DEFAULT
                },
                run: |context, mechanism| (mechanism.expect("an event-driven model has a mechanism").run)(context),
            },)*
            $($(#[$feature])* Model {
                row: runtimes::$runtime::$row,
                run: |context, _| runtimes::$runtime::run(context, service(context)?),
            },)*
        ];
    };
}

models! {
    blocking {
        "mp" Process Nothing blocking::run_processes: "a process per connection, forked on accept, with blocking I/O";
        "mt" Thread Nothing blocking::run_threads:
            "a thread per connection, created on accept, with blocking I/O and a stack of 256 KiB";
        "mt-buffered" Thread Nothing blocking::run_threads_buffered { is_buffered: true }:
            "mt below a layer that copies each packet and passes it up through a queue (welsh2001's threaded aSocket)";
        #[cfg(target_os = "linux")]
        "mp-prefork" Process NumberOrNothing pool::run_processes:
            "a pool of preforked processes, each serving one connection at a time with blocking I/O";
        #[cfg(target_os = "linux")]
        "mt-pool" Thread NumberOrNothing pool::run_threads:
            "a pool of threads, each serving one connection at a time with blocking I/O and a stack of 256 KiB";
    }
    staged {
        "sped" InAccept InNetwork Nothing false: "one thread that accepts and serves all connections";
        "symped" Threads InNetwork Number { default: 2 } false:
            "N threads that each serve many connections; one more thread accepts";
        "amped" Threads Threads NetworkAndPayload { network: 0..=1, default: (1, 2) } false:
            "one network thread (0: the accept thread) that reads, and M payload threads that make and write responses in turn";
        "amped-coalesced" Threads Threads NetworkAndPayload { network: 0..=1, default: (1, 2) } true:
            "amped that queues jobs in batches and closes connections in the accept thread (voras2009)";
        "seda" Threads Threads NetworkAndPayload { network: 1..=THREADS_MAX, default: (2, 4) } false:
            "N network threads that read, and M payload threads that make and write responses in turn";
        "seda-coalesced" Threads Threads NetworkAndPayload { network: 1..=THREADS_MAX, default: (2, 4) } true:
            "seda that queues jobs in batches and closes connections in the accept thread (voras2009)";
        "seda-s" Threads Paired Number { default: 2 } false:
            "N pairs of a network thread, which reads, and a payload thread, which makes and writes responses";
        "seda-s-coalesced" Threads Paired Number { default: 2 } true:
            "seda-s that queues jobs in batches and closes connections in the accept thread (voras2009)";
        "offload" Threads Offloading NetworkAndPayload { network: 0..=THREADS_MAX, default: (0, 4) } false:
            "N network threads (0: the accept thread) that serve, and a pool of M threads that makes their blocking calls (libuv)";
    }
    runtimes {
        #[cfg(all(target_os = "linux", feature = "tokio"))]
        tokio ROW;
        #[cfg(all(target_os = "linux", feature = "tokio"))]
        tokio BLOCKING;
        #[cfg(all(target_os = "linux", feature = "smol"))]
        smol ROW;
        #[cfg(all(target_os = "linux", feature = "may"))]
        may ROW;
        #[cfg(all(target_os = "linux", feature = "compio"))]
        compio ROW;
        #[cfg(all(target_os = "linux", feature = "monoio"))]
        monoio ROW;
        #[cfg(all(target_os = "linux", feature = "glommio"))]
        glommio ROW;
    }
}

/// Returns the model `name`.
pub fn find_model(name: &str) -> Option<&'static Model> {
    MODELS.iter().find(|row| row.name == name)
}

/// A row of [`MECHANISMS`] or [`BUFFERED`].
#[derive(Clone, Copy, Debug)]
pub struct MechanismRow {
    /// The name in flags, files and reports.
    pub name: &'static str,
    /// One line for `muxbench list`.
    pub about: &'static str,
    /// Required kernel features, beyond those of every supported Linux; empty for most.
    pub needs: &'static str,
    /// The thread that keeps a CPU busy while the server is idle.
    pub spins: Spins,
    /// Whether each wait scans all connections, so that a request costs more the more connections are open.
    pub scans: bool,
    /// Returns an error with the reason and the remedy if the mechanism cannot run on this host.
    pub can_run: fn() -> Result<(), String>,
    /// Whether threads can wait on a shared listener so that a new connection wakes only some of them (EPOLLEXCLUSIVE).
    pub wakes_exclusively: bool,
    /// Whether the server or the kernel does the I/O.
    pub family: Family,
    /// Whether the mechanism also acts on datagrams.
    pub serves_datagrams: bool,
    /// Whether the read budget bounds its reads.
    pub bounds_reads: bool,
    /// The system calls that can poll the network interface.
    pub busy_polls: BusyPolls,
    /// Runs all stages of an event-driven server, the accept stage in the calling thread. The loops are compiled for each
    /// mechanism, so they call it without a vtable.
    pub run: fn(&ServerContext<'_>) -> io::Result<()>,
}

const fn readiness<M: Readiness>(name: &'static str, about: &'static str) -> MechanismRow {
    MechanismRow {
        name,
        about,
        needs: M::NEEDS,
        spins: if M::REPORTS_ALL { Spins::Loop } else { Spins::Nothing },
        scans: M::SCANS,
        can_run: M::can_run,
        wakes_exclusively: M::WAKES_EXCLUSIVELY,
        family: Family::Readiness,
        serves_datagrams: true,
        bounds_reads: true,
        busy_polls: M::BUSY_POLLS,
        run: ready_loop::run::<M>,
    }
}

#[cfg(target_os = "linux")]
const fn completion<M: Datagrams>(name: &'static str, about: &'static str) -> MechanismRow {
    MechanismRow {
        name,
        about,
        needs: M::NEEDS,
        spins: M::SPINS,
        scans: false,
        can_run: M::can_run,
        wakes_exclusively: false,
        family: Family::Completion,
        serves_datagrams: M::SERVES_DATAGRAMS,
        bounds_reads: M::BOUNDS_READS,
        busy_polls: BusyPolls::Ring,
        run: completion_loop::run::<M>,
    }
}

/// Makes the tables of mechanisms. Each readiness mechanism has a row in both.
macro_rules! mechanisms {
    (
        readiness { $($(#[$cfg:meta])* $name:literal $mechanism:ty: $about:literal;)* }
        completion { $($completion:literal $ring:ty: $requests:literal;)* }
    ) => {
        /// Every mechanism of this system.
        pub const MECHANISMS: &[MechanismRow] = &[
            $($(#[$cfg])* readiness::<$mechanism>($name, $about),)*
            $(#[cfg(target_os = "linux")] completion::<$ring>($completion, $requests),)*
        ];

        /// The readiness mechanisms below a layer like welsh2001's aSocket, which copies each packet. They measure the layer's
        /// cost, and run only in experiments that name them.
        pub const BUFFERED: &[MechanismRow] = &[
            $($(#[$cfg])* MechanismRow {
                run: ready_loop::run_buffered::<$mechanism>,
                ..readiness::<$mechanism>(
                    concat!($name, "-buffered"),
                    concat!($name, " below a layer that copies each packet and passes it up through a queue (welsh2001's aSocket)"),
                )
            },)*
        ];
    };
}

mechanisms! {
    readiness {
        "select" select::Select: "select(2): the kernel and the server scan bitmaps at every wait";
        "poll" poll::Poll: "poll(2): the kernel and the server scan an array at every wait";
        "select-shuffled" shuffled::Shuffled<select::Select>:
            "select(2), and the server serves ready connections in random order";
        "poll-shuffled" shuffled::Shuffled<poll::Poll>:
            "poll(2), and the server serves ready connections in random order (welsh2001's SelectSource)";
        #[cfg(target_os = "linux")]
        "epoll" epoll::Epoll<false>: "epoll(7), level-triggered: the kernel keeps the interest list";
        #[cfg(target_os = "linux")]
        "epoll-et" epoll::Epoll<true>: "epoll(7), edge-triggered: the kernel reports each change once";
        #[cfg(any(target_os = "freebsd", target_os = "macos"))]
        "kqueue" kqueue::Kqueue: "kqueue(2), level-triggered: the kernel keeps the interest list";
        #[cfg(target_os = "illumos")]
        "event-ports" event_ports::EventPorts: "event ports (port_create(3C)): the kernel queues an event for a descriptor once";
        #[cfg(target_os = "illumos")]
        "dev-poll" dev_poll::DevPoll: "/dev/poll (poll(7D)): writes to the device change the kernel's interest list";
        "spin" spin::Spin: "no wait: the loop tries every socket in turn and keeps a CPU busy";
        #[cfg(target_os = "linux")]
        "rt-signal" rt_signal::RtSignal: "a real-time signal for each event (F_SETSIG); poll(2) when the queue overflows";
        #[cfg(target_os = "linux")]
        "io_uring-poll" io_uring_poll::IoUringPoll:
            "multishot poll requests of io_uring(7): completions report readiness, and the server reads and writes";
        #[cfg(target_os = "linux")]
        "io_uring-epoll" io_uring_epoll::IoUringEpoll:
            "epoll(7), level-triggered, with waits as requests of io_uring(7) (EPOLL_WAIT)";
    }
    completion {
        "io_uring" IoUring<Multishot>:
            "io_uring(7): the kernel accepts, receives (multishot, into a buffer ring) and sends";
        "io_uring-plain" IoUring<Interrupting>:
            "io_uring without COOP_TASKRUN, SINGLE_ISSUER and DEFER_TASKRUN: completions interrupt the server's thread";
        "io_uring-coop" IoUring<Cooperative>:
            "io_uring without DEFER_TASKRUN: operations complete at any system call of the thread (COOP_TASKRUN, SINGLE_ISSUER)";
        "io_uring-sqpoll" IoUring<Sqpoll>:
            "io_uring with SQPOLL: a kernel thread takes the requests, so submitting needs no system call";
        "io_uring-oneshot" IoUring<Oneshot>: "io_uring without multishot: one request for each accept and each receive";
        "io_uring-bundle" IoUring<Bundles>:
            "io_uring with bundles: one completion of a receive reports several buffers of up to 4 KiB";
        "io_uring-min-wait" IoUring<MinimumWait>:
            "io_uring with minimum waits: a wait ends at 16 completions, or after 50 µs at the first one";
        "io_uring-files" IoUring<RegisteredFiles>: "io_uring with connections in the ring's table of files (registered files)";
        "io_uring-zc" IoUring<ZeroCopy>: "io_uring with zero-copy sends (SEND_ZC, SENDMSG_ZC)";
        "io_uring-buffers" IoUring<RegisteredBuffers>:
            "io_uring-zc with registered buffers: responses up to 16 KiB are copied into memory that the kernel has pinned";
    }
}

/// Returns the mechanism `name`.
pub fn find_mechanism(name: &str) -> Option<&'static MechanismRow> {
    MECHANISMS.iter().chain(BUFFERED).find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mechanism_names_are_unique_and_rows_documented() {
        let rows: Vec<&MechanismRow> = MECHANISMS.iter().chain(BUFFERED).collect();
        for (at, row) in rows.iter().enumerate() {
            assert!(!row.about.is_empty());
            assert!(rows[..at].iter().all(|earlier| earlier.name != row.name));
        }
    }
}
