//! The registry: every model and every mechanism, with the functions that run them.
//!
//! This file alone names both mechanisms and loops: a mechanism's file uses no loop, and a loop's file no table. To add a model,
//! add a row; to add a mechanism, add a file and a row.

use std::io;
use std::ops::Deref;

#[cfg(target_os = "linux")]
use crate::completion::{Datagrams, io_uring};
use crate::net::{ServerContext, blocking, ready_loop};
#[cfg(target_os = "linux")]
use crate::net::{completion_loop, pool};
#[cfg(any(target_os = "freebsd", target_os = "macos"))]
use crate::readiness::kqueue;
use crate::readiness::{Readiness, poll, select, spin};
#[cfg(target_os = "linux")]
use crate::readiness::{epoll, epoll_et, io_uring_poll, rt_signal};
#[cfg(target_os = "linux")]
#[allow(unused_imports, reason = "without features there are none")]
use crate::runtimes;
use crate::spec::mechanism::{Family, Spins};
use crate::spec::model::{ModelRow, NetworkStage, PayloadStage, PerConnection, Stages, THREADS_MAX, ThreadSpec};

/// A row of [`MODELS`].
#[derive(Debug)]
pub struct Model {
    /// The model's description.
    pub row: ModelRow,
    /// Runs the server in the calling thread until it is stopped. Sends through [`ServerContext::started`] once all its threads
    /// have what they need.
    pub run: fn(&ServerContext<'_>, Option<&'static MechanismRow>) -> io::Result<()>,
}

impl Deref for Model {
    type Target = ModelRow;

    fn deref(&self) -> &ModelRow {
        &self.row
    }
}

/// A model that serves each connection by a thread or process with blocking I/O.
const fn blocking(
    name: &'static str,
    about: &'static str,
    threads: ThreadSpec,
    per_connection: PerConnection,
    run: fn(&ServerContext<'_>, Option<&'static MechanismRow>) -> io::Result<()>,
) -> Model {
    Model { row: ModelRow { name, about, threads, per_connection, ..ModelRow::DEFAULT }, run }
}

/// An event-driven model in stages.
const fn staged(
    name: &'static str,
    about: &'static str,
    network: NetworkStage,
    payload: PayloadStage,
    threads: ThreadSpec,
) -> Model {
    let stages = Some(Stages { network, payload });
    Model {
        row: ModelRow { name, about, stages, threads, ..ModelRow::DEFAULT },
        run: |context, mechanism| (mechanism.expect("an event-driven model has a mechanism").run)(context),
    }
}

/// Every model that is compiled in.
pub const MODELS: &[Model] = &[
    blocking(
        "mp",
        "a process per connection, forked on demand, blocking I/O",
        ThreadSpec::Nothing,
        PerConnection::Process,
        |context, _| blocking::run_processes(context),
    ),
    blocking(
        "mt",
        "a thread per connection, created on demand, blocking I/O, 256 KiB stacks",
        ThreadSpec::Nothing,
        PerConnection::Thread,
        |context, _| blocking::run_threads(context),
    ),
    #[cfg(target_os = "linux")]
    blocking(
        "mp-prefork",
        "processes forked beforehand, each serving one connection after the other, blocking I/O",
        ThreadSpec::NumberOrNothing,
        PerConnection::Process,
        |context, _| pool::run_processes(context),
    ),
    #[cfg(target_os = "linux")]
    blocking(
        "mt-pool",
        "threads created beforehand, each serving one connection after the other, blocking I/O, 256 KiB stacks",
        ThreadSpec::NumberOrNothing,
        PerConnection::Thread,
        |context, _| pool::run_threads(context),
    ),
    staged(
        "sped",
        "one thread for everything, over a mechanism",
        NetworkStage::InAccept,
        PayloadStage::InNetwork,
        ThreadSpec::Nothing,
    ),
    staged(
        "symped",
        "N threads that each do what one does, over a mechanism each; one thread accepts for them",
        NetworkStage::Threads,
        PayloadStage::InNetwork,
        ThreadSpec::Number { default: 2 },
    ),
    staged(
        "amped",
        "one thread for the network (0: the accept thread, or 1) and M for payload, which get work in turn",
        NetworkStage::Threads,
        PayloadStage::Threads,
        ThreadSpec::NetworkAndPayload { network: 0..=1, default: (1, 2) },
    ),
    staged(
        "seda",
        "N threads for the network and M for payload, which get work in turn",
        NetworkStage::Threads,
        PayloadStage::Threads,
        ThreadSpec::NetworkAndPayload { network: 1..=THREADS_MAX, default: (2, 4) },
    ),
    staged(
        "seda-s",
        "N threads for the network and as many for payload, in pairs",
        NetworkStage::Threads,
        PayloadStage::Paired,
        ThreadSpec::Number { default: 2 },
    ),
    #[cfg(all(target_os = "linux", feature = "tokio"))]
    Model { row: runtimes::tokio::ROW, run: |context, _| runtimes::tokio::run_server(context) },
    #[cfg(all(target_os = "linux", feature = "smol"))]
    Model { row: runtimes::smol::ROW, run: |context, _| runtimes::smol::run_server(context) },
    #[cfg(all(target_os = "linux", feature = "may"))]
    Model { row: runtimes::may::ROW, run: |context, _| runtimes::may::run_server(context) },
    #[cfg(all(target_os = "linux", feature = "compio"))]
    Model { row: runtimes::compio::ROW, run: |context, _| runtimes::compio::run_server(context) },
];

/// Returns the model of that name.
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
    /// Kernel features beyond those of every Linux; empty for most.
    pub needs: &'static str,
    /// The thread that keeps a CPU busy even when the server is idle.
    pub spins: Spins,
    /// Returns why it cannot run here, and the remedy.
    pub can_run: fn() -> Result<(), String>,
    /// Whether a connection wakes only some of the threads that wait for one listener (EPOLLEXCLUSIVE).
    pub wakes_exclusively: bool,
    /// The part that does the I/O.
    pub family: Family,
    /// Runs all stages of an event-driven server, the accept stage in the calling thread. Called once for each server;
    /// below it nothing is dynamic.
    pub run: fn(&ServerContext<'_>) -> io::Result<()>,
}

/// A mechanism that reports which sockets are ready.
const fn readiness<M: Readiness>(name: &'static str, about: &'static str) -> MechanismRow {
    MechanismRow {
        name,
        about,
        needs: "",
        spins: Spins::Nothing,
        can_run: || Ok(()),
        wakes_exclusively: M::WAKES_EXCLUSIVELY,
        family: Family::Readiness,
        run: ready_loop::run::<M>,
    }
}

/// The same mechanism below a layer that hands packets up through a queue.
const fn buffered<M: Readiness>(name: &'static str, about: &'static str) -> MechanismRow {
    MechanismRow { run: ready_loop::run_buffered::<M>, ..readiness::<M>(name, about) }
}

/// A mechanism of the kernel that does the I/O itself.
#[cfg(target_os = "linux")]
const fn completion<M: Datagrams>(
    name: &'static str,
    about: &'static str,
    needs: &'static str,
    can_run: fn() -> Result<(), String>,
) -> MechanismRow {
    MechanismRow {
        name,
        about,
        needs,
        spins: Spins::Nothing,
        can_run,
        wakes_exclusively: false,
        family: Family::Completion,
        run: completion_loop::run::<M>,
    }
}

/// Makes both tables: a line of readiness mechanisms is a row of each.
macro_rules! mechanisms {
    (
        readiness { $($(#[$cfg:meta])* $name:literal $mechanism:ty: $about:literal $({ $($field:ident: $value:expr),* })?;)* }
        completion { $($rows:tt)* }
    ) => {
        /// Every mechanism there is.
        pub const MECHANISMS: &[MechanismRow] = &[
            $($(#[$cfg])* MechanismRow { $($($field: $value,)*)? ..readiness::<$mechanism>($name, $about) },)*
            $($rows)*
        ];

        /// The readiness mechanisms, each below a layer as in welsh2001's aSocket, to measure the layer's cost. A table of
        /// their own, so that only an experiment that names them runs them.
        pub const BUFFERED: &[MechanismRow] = &[
            $($(#[$cfg])* MechanismRow {
                $($($field: $value,)*)?
                ..buffered::<$mechanism>(
                    concat!($name, "-buffered"),
                    concat!($name, ", and what is read goes up in a buffer for each packet, through a queue (welsh2001's aSocket)"),
                )
            },)*
        ];
    };
}

mechanisms! {
    readiness {
        "select" select::Select: "select(2): bitmaps scanned on both sides at every wait";
        "poll" poll::Poll: "poll(2): an array scanned on both sides at every wait";
        #[cfg(target_os = "linux")]
        "epoll" epoll::Epoll: "epoll(7), level-triggered: the kernel keeps the interest list";
        #[cfg(target_os = "linux")]
        "epoll-et" epoll_et::EpollEt:
            "epoll(7), edge-triggered: each change is reported once, registered once for both ways";
        #[cfg(any(target_os = "freebsd", target_os = "macos"))]
        "kqueue" kqueue::Kqueue: "kqueue(2), level-triggered: the kernel keeps the interest list";
        "spin" spin::Spin: "no wait: tries every socket in turn, and takes a whole CPU" { spins: Spins::Loop };
        #[cfg(target_os = "linux")]
        "rt-signal" rt_signal::RtSignal:
            "a queued real-time signal for each event (F_SETSIG), poll(2) when the queue overflows"
            {
                needs: "room in the queue of signals (RLIMIT_SIGPENDING), or it is poll",
                can_run: rt_signal::can_run
            };
        #[cfg(target_os = "linux")]
        "io_uring-poll" io_uring_poll::IoUringPoll:
            "io_uring's multishot poll: completions tell of readiness, read and write do the I/O"
            {
                needs: "Linux 6.1 with io_uring allowed (kernel.io_uring_disabled)",
                can_run: io_uring_poll::can_run
            };
    }
    completion {
        #[cfg(target_os = "linux")]
        completion::<io_uring::IoUring<false, true, false>>(
            "io_uring",
            "io_uring(7): the kernel accepts, receives (multishot, into a ring of buffers) and sends",
            "Linux 6.0",
            io_uring::can_run::<false, true, false>,
        ),
        #[cfg(target_os = "linux")]
        MechanismRow {
            spins: Spins::KernelThread,
            ..completion::<io_uring::IoUring<true, true, false>>(
                "io_uring-sqpoll",
                "io_uring, and a thread of the kernel takes the operations: no system call submits (SQPOLL)",
                "Linux 6.0",
                io_uring::can_run::<true, true, false>,
            )
        },
        #[cfg(target_os = "linux")]
        completion::<io_uring::IoUring<false, false, false>>(
            "io_uring-oneshot",
            "io_uring, each accept and receive asked for by itself",
            "Linux 6.0",
            io_uring::can_run::<false, false, false>,
        ),
        #[cfg(target_os = "linux")]
        completion::<io_uring::IoUring<false, true, true>>(
            "io_uring-zc",
            "io_uring, sending from our memory without a copy (SEND_ZC, SENDMSG_ZC)",
            "Linux 6.1",
            io_uring::can_run::<false, true, true>,
        ),
    }
}

/// Returns the mechanism of that name.
pub fn find_mechanism(name: &str) -> Option<&'static MechanismRow> {
    MECHANISMS.iter().chain(BUFFERED).find(|row| row.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_rows_documented() {
        let rows: Vec<&MechanismRow> = MECHANISMS.iter().chain(BUFFERED).collect();
        for (at, row) in rows.iter().enumerate() {
            assert!(!row.about.is_empty());
            assert!(rows[..at].iter().all(|earlier| earlier.name != row.name));
        }
    }
}
