//! The registry: every model and every mechanism, with the functions that run them.
//!
//! This file alone names both sides, loops and the mechanisms that they run over, so that a mechanism's file uses no loop and a
//! loop's file no table. Adding a model is one row; adding a mechanism is one file and one row.

use std::io;
use std::ops::Deref;

#[cfg(target_os = "linux")]
use crate::completion::io_uring;
use crate::net::{Stage, blocking, ready_loop};
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
    /// Runs the server in the calling thread until it is stopped. Whoever started it waits until it says ([`Stage::started`]) that all
    /// its threads have what they need, or ends.
    pub run: fn(&Stage<'_>, Option<&'static MechanismRow>) -> io::Result<()>,
}

impl Deref for Model {
    type Target = ModelRow;

    fn deref(&self) -> &ModelRow {
        &self.row
    }
}

/// A model in stages.
const fn staged(
    name: &'static str,
    about: &'static str,
    network: NetworkStage,
    payload: PayloadStage,
    threads: ThreadSpec,
) -> Model {
    Model {
        row: ModelRow {
            name,
            about,
            stages: Some(Stages { network, payload }),
            threads,
            counts_syscalls: true,
            per_connection: PerConnection::Nothing,
            needs: "",
            can_run: || Ok(()),
        },
        run: |stage, mechanism| (mechanism.expect("a model that multiplexes has a mechanism").run)(stage),
    }
}

/// Every model that is compiled in.
pub const MODELS: &[Model] = &[
    Model {
        row: ModelRow {
            name: "mp",
            about: "a process per connection, forked on demand, blocking I/O",
            stages: None,
            threads: ThreadSpec::Nothing,
            counts_syscalls: true,
            per_connection: PerConnection::Process,
            needs: "",
            can_run: || Ok(()),
        },
        run: |stage, _| blocking::run_processes(stage),
    },
    Model {
        row: ModelRow {
            name: "mt",
            about: "a thread per connection, created on demand, blocking I/O, 256 KiB stacks",
            stages: None,
            threads: ThreadSpec::Nothing,
            counts_syscalls: true,
            per_connection: PerConnection::Thread,
            needs: "",
            can_run: || Ok(()),
        },
        run: |stage, _| blocking::run_threads(stage),
    },
    #[cfg(target_os = "linux")]
    Model {
        row: ModelRow {
            name: "mp-prefork",
            about: "processes forked beforehand, each serving one connection after the other, blocking I/O",
            stages: None,
            threads: ThreadSpec::NumberOrNothing,
            per_connection: PerConnection::Process,
            counts_syscalls: true,
            needs: "",
            can_run: || Ok(()),
        },
        run: |stage, _| pool::run_processes(stage),
    },
    #[cfg(target_os = "linux")]
    Model {
        row: ModelRow {
            name: "mt-pool",
            about: "threads created beforehand, each serving one connection after the other, blocking I/O, 256 KiB stacks",
            stages: None,
            threads: ThreadSpec::NumberOrNothing,
            per_connection: PerConnection::Thread,
            counts_syscalls: true,
            needs: "",
            can_run: || Ok(()),
        },
        run: |stage, _| pool::run_threads(stage),
    },
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
    Model { row: runtimes::tokio::ROW, run: |stage, _| runtimes::tokio::run_server(stage) },
    #[cfg(all(target_os = "linux", feature = "smol"))]
    Model { row: runtimes::smol::ROW, run: |stage, _| runtimes::smol::run_server(stage) },
    #[cfg(all(target_os = "linux", feature = "may"))]
    Model { row: runtimes::may::ROW, run: |stage, _| runtimes::may::run_server(stage) },
    #[cfg(all(target_os = "linux", feature = "compio"))]
    Model { row: runtimes::compio::ROW, run: |stage, _| runtimes::compio::run_server(stage) },
];

/// Returns the model of that name.
pub fn find_model(name: &str) -> Option<&'static Model> {
    MODELS.iter().find(|row| row.name == name)
}

/// A row of [`MECHANISMS`].
#[derive(Debug)]
pub struct MechanismRow {
    /// The name in flags, files and reports.
    pub name: &'static str,
    /// One line for `muxbench list`.
    pub about: &'static str,
    /// What it needs of the kernel, besides what every Linux has; empty for most.
    pub needs: &'static str,
    /// What of it keeps a CPU busy, though there may be nothing to do.
    pub spins: Spins,
    /// Whether it can run here; if not, why, and what may help.
    pub can_run: fn() -> Result<(), String>,
    /// Whether of several threads that wait for one listener only some are woken (EPOLLEXCLUSIVE).
    pub wakes_exclusively: bool,
    /// Who does the I/O.
    pub family: Family,
    /// Runs all stages of an event-driven server, the accept stage in the calling thread. Called once for each server;
    /// below it nothing is dynamic.
    pub run: fn(&Stage<'_>) -> io::Result<()>,
}

/// Every mechanism there is.
pub const MECHANISMS: &[MechanismRow] = &[
    MechanismRow {
        name: "select",
        about: "select(2): bitmaps scanned on both sides at every wait",
        needs: "",
        spins: Spins::Nothing,
        can_run: || Ok(()),
        wakes_exclusively: false,
        family: Family::Readiness,
        run: ready_loop::run::<select::Select>,
    },
    MechanismRow {
        name: "poll",
        about: "poll(2): an array scanned on both sides at every wait",
        needs: "",
        spins: Spins::Nothing,
        can_run: || Ok(()),
        wakes_exclusively: false,
        family: Family::Readiness,
        run: ready_loop::run::<poll::Poll>,
    },
    #[cfg(target_os = "linux")]
    MechanismRow {
        name: "epoll",
        about: "epoll(7), level-triggered: the kernel keeps the interest list",
        needs: "",
        spins: Spins::Nothing,
        can_run: || Ok(()),
        wakes_exclusively: epoll::Epoll::WAKES_EXCLUSIVELY,
        family: Family::Readiness,
        run: ready_loop::run::<epoll::Epoll>,
    },
    #[cfg(target_os = "linux")]
    MechanismRow {
        name: "epoll-et",
        about: "epoll(7), edge-triggered: each change is reported once, registered once for both ways",
        needs: "",
        spins: Spins::Nothing,
        can_run: || Ok(()),
        wakes_exclusively: epoll_et::EpollEt::WAKES_EXCLUSIVELY,
        family: Family::Readiness,
        run: ready_loop::run::<epoll_et::EpollEt>,
    },
    #[cfg(any(target_os = "freebsd", target_os = "macos"))]
    MechanismRow {
        name: "kqueue",
        about: "kqueue(2), level-triggered: the kernel keeps the interest list",
        needs: "",
        can_run: || Ok(()),
        spins: Spins::Nothing,
        wakes_exclusively: false,
        family: Family::Readiness,
        run: ready_loop::run::<kqueue::Kqueue>,
    },
    MechanismRow {
        name: "spin",
        about: "no wait: tries every socket in turn, and takes a whole CPU",
        needs: "",
        spins: Spins::Loop,
        can_run: || Ok(()),
        wakes_exclusively: false,
        family: Family::Readiness,
        run: ready_loop::run::<spin::Spin>,
    },
    #[cfg(target_os = "linux")]
    MechanismRow {
        name: "rt-signal",
        about: "a queued real-time signal for each event (F_SETSIG), poll(2) when the queue overflows",
        needs: "room in the queue of signals (RLIMIT_SIGPENDING), or it is poll",
        spins: Spins::Nothing,
        can_run: rt_signal::can_run,
        wakes_exclusively: false,
        family: Family::Readiness,
        run: ready_loop::run::<rt_signal::RtSignal>,
    },
    #[cfg(target_os = "linux")]
    MechanismRow {
        name: "io_uring-poll",
        about: "io_uring's multishot poll: completions tell of readiness, read and write do the I/O",
        needs: "Linux 6.1 with io_uring allowed (kernel.io_uring_disabled)",
        spins: Spins::Nothing,
        can_run: io_uring_poll::can_run,
        wakes_exclusively: false,
        family: Family::Readiness,
        run: ready_loop::run::<io_uring_poll::IoUringPoll>,
    },
    #[cfg(target_os = "linux")]
    MechanismRow {
        name: "io_uring",
        about: "io_uring(7): the kernel accepts, receives (multishot, into a ring of buffers) and sends",
        needs: "Linux 6.0",
        spins: Spins::Nothing,
        can_run: io_uring::can_run::<false, true, false>,
        wakes_exclusively: false,
        family: Family::Completion,
        run: completion_loop::run::<io_uring::IoUring<false, true, false>>,
    },
    #[cfg(target_os = "linux")]
    MechanismRow {
        name: "io_uring-sqpoll",
        about: "io_uring, and a thread of the kernel takes the operations: no system call submits (SQPOLL)",
        needs: "Linux 6.0",
        spins: Spins::KernelThread,
        can_run: io_uring::can_run::<true, true, false>,
        wakes_exclusively: false,
        family: Family::Completion,
        run: completion_loop::run::<io_uring::IoUring<true, true, false>>,
    },
    #[cfg(target_os = "linux")]
    MechanismRow {
        name: "io_uring-oneshot",
        about: "io_uring, each accept and receive asked for by itself",
        needs: "Linux 6.0",
        spins: Spins::Nothing,
        can_run: io_uring::can_run::<false, false, false>,
        wakes_exclusively: false,
        family: Family::Completion,
        run: completion_loop::run::<io_uring::IoUring<false, false, false>>,
    },
    #[cfg(target_os = "linux")]
    MechanismRow {
        name: "io_uring-zc",
        about: "io_uring, sending from our memory without a copy (SEND_ZC, SENDMSG_ZC)",
        needs: "Linux 6.1",
        spins: Spins::Nothing,
        can_run: io_uring::can_run::<false, true, true>,
        wakes_exclusively: false,
        family: Family::Completion,
        run: completion_loop::run::<io_uring::IoUring<false, true, true>>,
    },
];

/// A row of [`BUFFERED`].
macro_rules! buffered {
    ($name:literal, $mechanism:ty, $spins:expr, $needs:literal, $can_run:expr) => {
        MechanismRow {
            name: concat!($name, "-buffered"),
            about: concat!(
                $name,
                ", and what is read goes up in a buffer for each packet, through a queue (welsh2001's aSocket)"
            ),
            needs: $needs,
            spins: $spins,
            can_run: $can_run,
            wakes_exclusively: <$mechanism as Readiness>::WAKES_EXCLUSIVELY,
            family: Family::Readiness,
            run: ready_loop::run_buffered::<$mechanism>,
        }
    };
}

/// The mechanisms that say what is ready, each with a layer above the sockets (`buffered`), to see what it costs. They
/// are not among [`MECHANISMS`], so that nobody runs them who does not name them.
pub const BUFFERED: &[MechanismRow] = &[
    buffered!("select", select::Select, Spins::Nothing, "", || Ok(())),
    buffered!("poll", poll::Poll, Spins::Nothing, "", || Ok(())),
    #[cfg(target_os = "linux")]
    buffered!("epoll", epoll::Epoll, Spins::Nothing, "", || Ok(())),
    #[cfg(target_os = "linux")]
    buffered!("epoll-et", epoll_et::EpollEt, Spins::Nothing, "", || Ok(())),
    #[cfg(any(target_os = "freebsd", target_os = "macos"))]
    buffered!("kqueue", kqueue::Kqueue, Spins::Nothing, "", || Ok(())),
    buffered!("spin", spin::Spin, Spins::Loop, "", || Ok(())),
    #[cfg(target_os = "linux")]
    buffered!("rt-signal", rt_signal::RtSignal, Spins::Nothing, "as rt-signal", rt_signal::can_run),
    #[cfg(target_os = "linux")]
    buffered!("io_uring-poll", io_uring_poll::IoUringPoll, Spins::Nothing, "as io_uring-poll", io_uring_poll::can_run),
];

/// Returns the mechanism of that name.
pub fn find_mechanism(name: &str) -> Option<&'static MechanismRow> {
    MECHANISMS.iter().chain(BUFFERED).find(|row| row.name == name)
}
