//! Errors of accept(2): open connections stay served, and waiting connections are accepted after the error. A filter of
//! system calls (seccomp_unotify(2)) lets the test choose the result of each accept.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::cases::{Cases, case};
use crate::common::{Serve, eventually, exchange, is_alive};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;
use server::Architecture;
use server::spec::mechanism::Family;
use server::spec::model::PerConnection;

const REQUEST_BYTES: u32 = 10;
const RESPONSE_BYTES: u32 = 1_000;
/// Number of accepts that must fail with each error.
const FAILS: u64 = 3;
/// Limit of descriptors of a server, low enough for the clients to exhaust.
const DESCRIPTORS: u64 = 32;

/// `_IOWR('!', 0, struct seccomp_notif)` and `_IOWR('!', 1, struct seccomp_notif_resp)` of linux/seccomp.h.
const RECV: libc::c_ulong = 0xC000_2100 | (size_of::<libc::seccomp_notif>() as libc::c_ulong) << 16;
const SEND: libc::c_ulong = 0xC000_2101 | (size_of::<libc::seccomp_notif_resp>() as libc::c_ulong) << 16;

/// Decides the result of each accept(2) in the thread that installs the filter, and in all processes that this thread starts.
struct Accepts {
    requests: OwnedFd,
    failures: Mutex<Failures>,
    is_over: AtomicBool,
}

/// The error of failing accepts, the number of accepts to fail, and the number that have failed.
#[derive(Default)]
struct Failures {
    error: i32,
    left: u64,
    failed: u64,
}

impl Accepts {
    /// Installs the filter for accepts of this thread and of all processes that it starts.
    fn filtered() -> io::Result<Self> {
        let instruction = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
        // A filter's input begins with the number of the system call.
        let mut filter = [
            instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_accept4 as u32, 1, 0),
            instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_accept as u32, 0, 1),
            instruction(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_USER_NOTIF, 0, 0),
            instruction(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
        ];
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        rustix::thread::set_no_new_privs(true)?;
        // SAFETY: the kernel copies the program, which lives until the call returns.
        let requests = unsafe {
            let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
        };
        if requests < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            // SAFETY: the kernel has just returned this descriptor, which nothing else owns.
            requests: unsafe { OwnedFd::from_raw_fd(requests as i32) },
            failures: Mutex::default(),
            is_over: AtomicBool::new(false),
        })
    }

    /// Answers the filter's requests until the test is over.
    fn answer(&self) {
        while !self.is_over.load(SeqCst) {
            let mut watched = [PollFd::new(&self.requests, PollFlags::IN)];
            let timeout = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            if rustix::event::poll(&mut watched, Some(&timeout)) != Ok(1)
                || !watched[0].revents().contains(PollFlags::IN)
            {
                continue;
            }
            // SAFETY: the struct is valid as zeros, and the kernel requires zeros.
            let mut request: libc::seccomp_notif = unsafe { std::mem::zeroed() };
            // SAFETY: the kernel writes to the struct. The call fails if the thread was interrupted meanwhile.
            if unsafe { libc::ioctl(self.requests.as_raw_fd(), RECV as _, &raw mut request) } < 0 {
                continue;
            }
            let (error, flags) = match self.failures.lock().unwrap().next(request.pid) {
                Some(error) => (-error, 0),
                None => (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
            };
            let mut answer = libc::seccomp_notif_resp { id: request.id, val: 0, error, flags };
            // SAFETY: the kernel reads the struct, which lives until the call returns.
            unsafe { libc::ioctl(self.requests.as_raw_fd(), SEND as _, &raw mut answer) };
        }
    }

    /// Makes the next `times` accepts fail with `error`.
    fn fail(&self, times: u64, error: i32) {
        *self.failures.lock().unwrap() = Failures { error, left: times, failed: 0 };
    }

    fn failed(&self) -> u64 {
        self.failures.lock().unwrap().failed
    }
}

impl Failures {
    /// Returns the error of this process's next accept; `None` if the kernel decides, as without a free descriptor.
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

/// Returns whether a process may open another descriptor.
fn has_descriptor(process: u32) -> bool {
    let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).unwrap_or_default();
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next());
    let Some(limit) = limit.and_then(|limit| limit.parse::<u64>().ok()) else { return true };
    let taken = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    // Inherited descriptors may have numbers above the limit.
    let taken = taken.filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok()).filter(|it| *it < limit);
    (taken.count() as u64) < limit
}

/// Returns whether the kernel accepts without a system call that the filter sees.
fn accepts_in_kernel(architecture: Architecture) -> bool {
    let is_completion = architecture.mechanism.is_some_and(|row| row.family == Family::Completion);
    ["compio", "monoio", "glommio"].contains(&architecture.model.name)
        || architecture.threads.is_none_or(|threads| threads.network == 0) && is_completion
}

/// Connects, sends a request, and closes without reading the response.
fn visit(serve: &Serve) {
    let mut stream = serve.connect();
    // The server may have refused the connection.
    let _ = stream.write_all(&[7; REQUEST_BYTES as usize]);
}

/// Returns a new connection after one exchange; `None` if the server refused the connection.
fn served_connection(serve: &Serve) -> Option<TcpStream> {
    serve.try_exchange(REQUEST_BYTES as usize, RESPONSE_BYTES as usize)
}

fn exchange_once(stream: &mut TcpStream) {
    exchange(stream, REQUEST_BYTES as usize, RESPONSE_BYTES as usize);
}

fn assert_survives_errors(architecture: Architecture, serve: &Serve, accepts: &Accepts) {
    let mut inside = serve.connect();
    exchange_once(&mut inside);
    for error in [libc::ENOMEM, libc::ENOBUFS, libc::EPERM] {
        accepts.fail(u64::MAX, error);
        // An accept that already waits in the kernel succeeds with the first connection. A pool's worker accepts again when
        // that connection ends.
        eventually(&format!("{architecture}: accept fails again and again with {error}"), || {
            visit(serve);
            accepts.failed() >= FAILS
        });
        let mut outside = serve.connect();
        outside.write_all(&[7; REQUEST_BYTES as usize]).unwrap();
        (0..20).for_each(|_| exchange_once(&mut inside));
        accepts.fail(0, 0);
        outside.read_exact(&mut [0; RESPONSE_BYTES as usize]).unwrap_or_else(|why| panic!("{architecture}: {why}"));
    }
    for error in [libc::EPROTO, libc::ENETDOWN, libc::EHOSTUNREACH, libc::ECONNABORTED] {
        accepts.fail(FAILS, error);
        eventually(&format!("{architecture}: accept failed with {error}"), || {
            exchange_once(&mut serve.connect());
            accepts.failed() == FAILS
        });
    }
    exchange_once(&mut inside);
}

/// Makes accepts fail when the server has no free descriptor, so that it cannot even refuse a connection.
fn assert_survives_without_descriptors(architecture: Architecture, serve: &Serve, accepts: &Accepts) {
    let mut inside = serve.connect();
    exchange_once(&mut inside);
    let forbid = || {
        let others: Vec<_> = std::iter::from_fn(|| served_connection(serve)).take(DESCRIPTORS as usize).collect();
        assert!(others.len() < DESCRIPTORS as usize, "{architecture}: the server exhausts its descriptors");
        accepts.fail(u64::MAX, libc::EPERM);
        eventually(&format!("{architecture}: accept fails again and again, without descriptors"), || {
            visit(serve);
            accepts.failed() >= FAILS
        });
        others
    };
    let others = forbid();
    (0..20).for_each(|_| exchange_once(&mut inside));
    accepts.fail(0, 0);
    drop(others);
    eventually(&format!("{architecture}: a new connection is served again"), || served_connection(serve).is_some());
    let _others = forbid();
    // Stop the server while its accepts fail.
    rustix::process::kill_process(serve.pid(), Signal::TERM).unwrap();
    eventually(&format!("{architecture}: the server stops"), || !is_alive(serve.pid()));
}

fn accept_errors_end_no_connection(architecture: Architecture) {
    with_filter(architecture, None, assert_survives_errors);
}

fn forbidden_accept_without_descriptors_ends_no_connection(architecture: Architecture) {
    with_filter(architecture, Some(DESCRIPTORS), assert_survives_without_descriptors);
}

/// Runs a test with a server whose accepts go through the filter, and which may have at most `descriptors_max` descriptors.
fn with_filter(architecture: Architecture, descriptors_max: Option<u64>, test: fn(Architecture, &Serve, &Accepts)) {
    std::thread::scope(|scope| {
        // A filter stays until its thread ends: use a new thread.
        let tried = scope.spawn(|| {
            let accepts = Accepts::filtered()
                .unwrap_or_else(|why| panic!("no filter of system calls (seccomp_unotify(2)): {why}"));
            std::thread::scope(|scope| {
                scope.spawn(|| accepts.answer());
                let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    let serve = Serve::start_with(architecture, REQUEST_BYTES, RESPONSE_BYTES, &[], descriptors_max);
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
}

/// Adds the cases of this file.
pub fn cases(cases: &mut Cases) {
    let is_seen = |it: &Architecture| !accepts_in_kernel(*it);
    cases.each_that(is_seen, case!(accept_errors_end_no_connection));
    // A process per connection has its own descriptors, and a pool of threads reserves one per thread at its start.
    let shares = |it: &Architecture| !it.model.is_pool() && it.model.per_connection != PerConnection::Process;
    let both = |it: &Architecture| is_seen(it) && shares(it);
    cases.each_that(both, case!(forbidden_accept_without_descriptors_ends_no_connection));
}
