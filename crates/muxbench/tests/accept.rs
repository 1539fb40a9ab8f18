//! Accepts that fail with what accept(2) may fail with: those who are inside go on being served, and those who wait are when
//! it has passed. A filter of system calls (seccomp_unotify(2)) asks us before each accept of a server what it is to give.
#![cfg(target_os = "linux")]

mod common;

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst};

use common::{Serve, eventually, exchange, with_each};
use rustix::event::{PollFd, PollFlags, Timespec};
use server::Architecture;
use server::mechanism::Family;
use wire::ServiceSpec;

const REQUEST_BYTES: u32 = 10;
const RESPONSE_BYTES: u32 = 1_000;
/// How often an accept fails for want of memory before somebody looks, and for a connection that has gone.
const FAILS: u64 = 3;

/// `_IOWR('!', 0, struct seccomp_notif)` and `_IOWR('!', 1, struct seccomp_notif_resp)` of linux/seccomp.h.
const RECV: libc::c_ulong = 0xC000_2100 | (size_of::<libc::seccomp_notif>() as libc::c_ulong) << 16;
const SEND: libc::c_ulong = 0xC000_2101 | (size_of::<libc::seccomp_notif_resp>() as libc::c_ulong) << 16;

/// What the accepts of a thread that made this, and of all processes that it starts, give.
struct Accepts {
    asks: OwnedFd,
    /// What they fail with.
    error: AtomicI32,
    /// How many will, and how many have.
    left: AtomicU64,
    failed: AtomicU64,
    is_over: AtomicBool,
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
            error: AtomicI32::new(0),
            left: AtomicU64::new(0),
            failed: AtomicU64::new(0),
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
            let fails = self.left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
            let mut answer = libc::seccomp_notif_resp { id: ask.id, val: 0, error: 0, flags: 0 };
            if fails {
                answer.error = -self.error.load(SeqCst);
                self.failed.fetch_add(1, SeqCst);
            } else {
                answer.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
            }
            // SAFETY: as above.
            unsafe { libc::ioctl(self.asks.as_raw_fd(), SEND as _, &raw mut answer) };
        }
    }

    /// So many accepts to come fail.
    fn fail(&self, times: u64, error: i32) {
        self.failed.store(0, SeqCst);
        self.error.store(error, SeqCst);
        self.left.store(times, SeqCst);
    }

    fn failed(&self) -> u64 {
        self.failed.load(SeqCst)
    }
}

/// Whether the kernel accepts by itself, without a system call that a filter would see.
fn is_unseen(architecture: Architecture) -> bool {
    let is_completion = architecture.mechanism.is_some_and(|row| row.family == Family::Completion);
    architecture.model.name == "compio" || architecture.model.name == "sped" && is_completion
}

/// A new client that is gone again, and may never have been let in.
fn visit(serve: &Serve) {
    let mut stream = serve.connect();
    stream.write_all(&[7; REQUEST_BYTES as usize]).unwrap();
}

fn goes_on(architecture: Architecture, serve: &Serve, accepts: &Accepts) {
    let ask = |stream: &mut _| exchange(stream, REQUEST_BYTES as usize, RESPONSE_BYTES as usize);
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

#[test]
fn what_an_accept_fails_with_ends_nobody_in_every_architecture() {
    let service = ServiceSpec::Fixed { request_bytes: REQUEST_BYTES, response_bytes: RESPONSE_BYTES };
    with_each(&service, 6, |architecture| {
        if is_unseen(architecture) {
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
                        let serve = Serve::start_of(architecture, &service, &[]);
                        goes_on(architecture, &serve, &accepts);
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
