//! Failing accept(2): accepted connections stay served, and waiting ones are accepted after the error. A filter of system
//! calls (seccomp_unotify(2)) lets the test choose the result of each accept.
#![cfg(target_os = "linux")]

mod common;

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use common::{Serve, eventually, exchange, for_each_architecture, is_alive};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;
use server::Architecture;
use server::spec::mechanism::Family;
use server::spec::model::PerConnection;
use wire::ServiceSpec;

const REQUEST_BYTES: u32 = 10;
const RESPONSE_BYTES: u32 = 1_000;
/// Number of failing accepts for lack of memory, and for a closed connection.
const FAILS: u64 = 3;
/// Descriptors of a server with too few of them.
const DESCRIPTORS: u64 = 32;

/// `_IOWR('!', 0, struct seccomp_notif)` and `_IOWR('!', 1, struct seccomp_notif_resp)` of linux/seccomp.h.
const RECV: libc::c_ulong = 0xC000_2100 | (size_of::<libc::seccomp_notif>() as libc::c_ulong) << 16;
const SEND: libc::c_ulong = 0xC000_2101 | (size_of::<libc::seccomp_notif_resp>() as libc::c_ulong) << 16;

/// Chooses the results of all accepts of the creating thread and of all processes that it starts.
struct Accepts {
    asks: OwnedFd,
    fails: Mutex<Fails>,
    is_over: AtomicBool,
}

/// The error of accepts, how many fail, and how many have failed.
#[derive(Default)]
struct Fails {
    error: i32,
    left: u64,
    failed: u64,
}

impl Accepts {
    /// From now on this thread's accepts ask, those of what it starts too.
    fn filtered() -> io::Result<Self> {
        let of = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
        // The number of the system call is first in what a filter sees.
        let mut filter = [
            of(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            of(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_accept4 as u32, 1, 0),
            of(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_accept as u32, 0, 1),
            of(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_USER_NOTIF, 0, 0),
            of(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
        ];
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        rustix::thread::set_no_new_privs(true)?;
        // SAFETY: the kernel copies the program, which is there.
        let asks = unsafe {
            let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
        };
        if asks < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            // SAFETY: the kernel has just given us the descriptor.
            asks: unsafe { OwnedFd::from_raw_fd(asks as i32) },
            fails: Mutex::default(),
            is_over: AtomicBool::new(false),
        })
    }

    /// Answers each ask until all is over.
    fn answer(&self) {
        while !self.is_over.load(SeqCst) {
            let mut watched = [PollFd::new(&self.asks, PollFlags::IN)];
            let look = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            if rustix::event::poll(&mut watched, Some(&look)) != Ok(1) || !watched[0].revents().contains(PollFlags::IN)
            {
                continue;
            }
            // SAFETY: zeros are a value of it, and what the kernel asks for.
            let mut ask: libc::seccomp_notif = unsafe { std::mem::zeroed() };
            // SAFETY: the kernel fills it in. Who asked may have been interrupted meanwhile.
            if unsafe { libc::ioctl(self.asks.as_raw_fd(), RECV as _, &raw mut ask) } < 0 {
                continue;
            }
            let (error, flags) = match self.fails.lock().unwrap().next(ask.pid) {
                Some(error) => (-error, 0),
                None => (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
            };
            let mut answer = libc::seccomp_notif_resp { id: ask.id, val: 0, error, flags };
            // SAFETY: as above.
            unsafe { libc::ioctl(self.asks.as_raw_fd(), SEND as _, &raw mut answer) };
        }
    }

    /// So many accepts to come fail.
    fn fail(&self, times: u64, error: i32) {
        *self.fails.lock().unwrap() = Fails { error, left: times, failed: 0 };
    }

    fn failed(&self) -> u64 {
        self.fails.lock().unwrap().failed
    }
}

impl Fails {
    /// The error of the next accept of that process, if it fails. Without a descriptor the kernel fails it before anything else.
    fn next(&mut self, process: u32) -> Option<i32> {
        let left = self.left.checked_sub(1)?;
        if !has_descriptor(process) {
            return None;
        }
        self.left = left;
        self.failed += 1;
        Some(self.error)
    }
}

/// Whether a process may open one more descriptor.
fn has_descriptor(process: u32) -> bool {
    let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).unwrap_or_default();
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next());
    let Some(limit) = limit.and_then(|limit| limit.parse::<u64>().ok()) else { return true };
    let taken = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    // What it was given at its start may be beyond the limit.
    let taken = taken.filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok()).filter(|it| *it < limit);
    (taken.count() as u64) < limit
}

/// Whether the kernel accepts by itself, without a system call that a filter would see.
fn is_unseen(architecture: Architecture) -> bool {
    let is_completion = architecture.mechanism.is_some_and(|row| row.family == Family::Completion);
    architecture.model.name == "compio" || architecture.model.name == "sped" && is_completion
}

/// A client that connects and closes at once.
fn visit(serve: &Serve) {
    let mut stream = serve.connect();
    // It may have been turned away.
    let _ = stream.write_all(&[7; REQUEST_BYTES as usize]);
}

/// A client that connects, if the server accepts it.
fn is_served(serve: &Serve) -> Option<TcpStream> {
    serve.try_exchange(REQUEST_BYTES as usize, RESPONSE_BYTES as usize)
}

fn ask(stream: &mut TcpStream) {
    exchange(stream, REQUEST_BYTES as usize, RESPONSE_BYTES as usize);
}

fn goes_on(architecture: Architecture, serve: &Serve, accepts: &Accepts) {
    let mut inside = serve.connect();
    ask(&mut inside);
    for error in [libc::ENOMEM, libc::ENOBUFS, libc::EPERM] {
        accepts.fail(u64::MAX, error);
        // An accept that waits already takes the first one, and a worker of a pool is back when that one is gone.
        eventually(&format!("{architecture}: accept fails again and again with {error}"), || {
            visit(serve);
            accepts.failed() >= FAILS
        });
        let mut outside = serve.connect();
        outside.write_all(&[7; REQUEST_BYTES as usize]).unwrap();
        (0..20).for_each(|_| ask(&mut inside));
        accepts.fail(0, 0);
        outside.read_exact(&mut [0; RESPONSE_BYTES as usize]).unwrap_or_else(|why| panic!("{architecture}: {why}"));
    }
    for error in [libc::EPROTO, libc::ENETDOWN, libc::EHOSTUNREACH, libc::ECONNABORTED] {
        accepts.fail(FAILS, error);
        eventually(&format!("{architecture}: accept failed with {error}"), || {
            ask(&mut serve.connect());
            accepts.failed() == FAILS
        });
    }
    ask(&mut inside);
}

/// Forbidden accepts without free descriptors: the server cannot even refuse a connection.
fn goes_on_without_descriptors(architecture: Architecture, serve: &Serve, accepts: &Accepts) {
    let mut inside = serve.connect();
    ask(&mut inside);
    let forbid = || {
        let others: Vec<_> = std::iter::from_fn(|| is_served(serve)).take(DESCRIPTORS as usize).collect();
        assert!(others.len() < DESCRIPTORS as usize, "{architecture}: descriptors do not run out");
        accepts.fail(u64::MAX, libc::EPERM);
        eventually(&format!("{architecture}: accept fails again and again, without descriptors"), || {
            visit(serve);
            accepts.failed() >= FAILS
        });
        others
    };
    let others = forbid();
    (0..20).for_each(|_| ask(&mut inside));
    accepts.fail(0, 0);
    drop(others);
    eventually(&format!("{architecture}: there is room again"), || is_served(serve).is_some());
    let _others = forbid();
    // It is told to stop while that lasts.
    rustix::process::kill_process(serve.pid(), Signal::TERM).unwrap();
    eventually(&format!("{architecture}: it stops"), || !is_alive(serve.pid()));
}

#[test]
fn accept_errors_end_no_connection_in_every_architecture() {
    with_each_filtered(None, |_| true, goes_on);
}

#[test]
fn forbidden_accept_without_descriptors_ends_no_connection() {
    // A process has descriptors of its own, and a pool of threads has one for each from the start.
    let shares = |it: Architecture| !it.model.is_pool() && it.model.per_connection != PerConnection::Process;
    with_each_filtered(Some(DESCRIPTORS), shares, goes_on_without_descriptors);
}

/// Runs a test with each architecture whose accepts the filter sees, with a limit of descriptors.
fn with_each_filtered(
    descriptors_max: Option<u64>,
    is_tried: impl Fn(Architecture) -> bool + Sync,
    test: impl Fn(Architecture, &Serve, &Accepts) + Sync,
) {
    let service = ServiceSpec::Fixed { request_bytes: REQUEST_BYTES, response_bytes: RESPONSE_BYTES };
    for_each_architecture(&service, 6, |architecture| {
        if is_unseen(architecture) || !is_tried(architecture) {
            return;
        }
        std::thread::scope(|scope| {
            // A filter stays with its thread, which the server's life hangs on, too.
            let tried = scope.spawn(|| {
                let accepts = Accepts::filtered()
                    .unwrap_or_else(|why| panic!("no filter of system calls (seccomp_unotify(2)): {why}"));
                std::thread::scope(|scope| {
                    scope.spawn(|| accepts.answer());
                    let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        let serve =
                            Serve::start_with(architecture, REQUEST_BYTES, RESPONSE_BYTES, &[], descriptors_max);
                        test(architecture, &serve, &accepts);
                        let (status, _) = serve.stop();
                        assert!(status.success(), "{architecture}: {status}");
                    }));
                    accepts.is_over.store(true, SeqCst);
                    tried
                })
            });
            tried.join().unwrap().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
    });
}
