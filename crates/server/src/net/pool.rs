//! The loop of architectures whose threads (`mt-pool`) or processes (`mp-prefork`) exist before the first connection. Each
//! worker serves one connection at a time. Connections beyond the pool wait in the listener's backlog or, with
//! [`Accept::Single`], in the pipe to the pool; there the accept thread refuses more than `connections_max`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use std::time::Duration;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::Resource;

use super::blocking::{ServedConnection, serve, stop_threads};
use super::connection::{Connect, ReadBuffer};
use super::{OnDrop, STACK_BYTES, ServerContext, children};
use crate::metrics::workers::{Slot, Syscall};
use crate::service::service;
use crate::socket::{self, Accepted, Acceptor};
use crate::spec::accept::Accept;
use crate::spec::model::ModelRow;

/// Descriptors besides those of the workers, such as standard streams, listener, pipes and counters of system calls.
const OTHER_DESCRIPTORS: u64 = 24;

/// The pause before a crashed child is replaced, so that children that crash at once do not cause a storm of forks.
const CRASH_PAUSE: Duration = Duration::from_millis(10);

const NUMBER_BYTES: usize = size_of::<i32>();

pub fn run_threads(context: &ServerContext<'_>) -> io::Result<()> {
    threads(context, &*service(context)?)
}

pub fn run_processes(context: &ServerContext<'_>) -> io::Result<()> {
    processes(context, &*service(context)?)
}

/// Checks whether a process with this limit has descriptors for a pool of `size` threads.
fn check_descriptors(accept: Accept, model: &ModelRow, size: u64, limit: Option<u64>) -> io::Result<()> {
    let needed = accept.descriptors(model, size) + OTHER_DESCRIPTORS;
    // A thread without a descriptor would repeat accept4 and take CPU time from the other threads.
    match limit.filter(|limit| *limit < needed) {
        Some(limit) => Err(io::Error::other(format!(
            "{size} threads need {needed} descriptors, which exceeds the limit of {limit}"
        ))),
        None => Ok(()),
    }
}

fn threads(context: &ServerContext<'_>, service: &dyn Connect) -> io::Result<()> {
    let limit = rustix::process::getrlimit(Resource::Nofile).current;
    check_descriptors(context.options.accept, context.model, context.pool_size() as u64, limit)?;
    let (taken_from, given_to) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let threads = context.threads.filter(|threads| threads.most.is_some());
    if threads.is_some() {
        socket::set_accept_timeout(context.listener, IDLE)?;
    }
    let pool = ThreadPool {
        context,
        service,
        pipe: taken_from.as_fd(),
        cursor: Mutex::new(0),
        size: threads.and_then(|threads| Some(Size::new(threads.network, threads.most?))),
        failure: Mutex::new(None),
    };
    let first = threads.map_or(context.pool_size(), |threads| threads.network as usize);
    thread::scope(|scope| {
        let started = (1..=first).try_for_each(|number| {
            let start = pool.start(scope);
            start.map_err(|error| io::Error::new(error.kind(), format!("worker {number} of {first}: {error}")))
        });
        let outcome = started.and_then(|()| match context.options.accept {
            Accept::Single => hand_over(context, &given_to),
            _ => {
                context.notify_started();
                context.wait_for_stop()
            }
        });
        drop(given_to);
        socket::shut_down(context.listener);
        stop_threads(context, Duration::MAX);
        outcome
    })?;
    pool.failure.into_inner().ok().flatten().map_or(Ok(()), Err)
}

/// The time after which an idle thread of a pool that grows ends.
const IDLE: Duration = Duration::from_secs(1);

struct ThreadPool<'a> {
    context: &'a ServerContext<'a>,
    service: &'a dyn Connect,
    pipe: BorrowedFd<'a>,
    /// The place in the slots from which to claim the next one.
    cursor: Mutex<usize>,
    /// The size of a pool that grows.
    size: Option<Size>,
    failure: Mutex<Option<io::Error>>,
}

impl ThreadPool<'_> {
    fn start<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) -> io::Result<()> {
        let context = self.context;
        let slot = context.workers.claim(&mut self.cursor.lock().unwrap_or_else(PoisonError::into_inner));
        let slot = slot.ok_or_else(|| io::Error::other("more threads than counters"))?;
        let started = ConnectionSource::open(context, self.pipe).and_then(|source| {
            // Set this before the thread starts, so that the thread can always be stopped.
            slot.set_connection(source.descriptor().as_raw_fd());
            // Count in the new thread's slot, which has no other writer yet: threads start others.
            slot.counters.syscall(Syscall::Spawn);
            let thread = thread::Builder::new().stack_size(STACK_BYTES);
            thread.spawn_scoped(scope, move || self.run(scope, &source, slot)).map(drop)
        });
        started.inspect_err(|_| slot.release())
    }

    fn run<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, source: &ConnectionSource<'_>, slot: &'static Slot) {
        let context = self.context;
        let _end = OnDrop(|| {
            // Otherwise the server would continue with one worker fewer.
            if thread::panicking() {
                context.end_early();
            }
            slot.release();
        });
        let mut buffer = ReadBuffer::new(context.options.read_budget_bytes);
        let grow = || match self.size.as_ref() {
            // Without resources for another thread, connections wait for one of these.
            Some(size) if size.take() && self.start(scope).is_err() => size.cancel(),
            _ => {}
        };
        if let Err(error) = work(context, self.service, source, slot, &mut buffer, self.size.as_ref(), grow) {
            // The error concerns no single connection, so it ends the server.
            if let Ok(mut failure) = self.failure.lock() {
                failure.get_or_insert(error);
            }
            context.end_early();
        }
    }
}

/// The size of a pool that grows when all its threads are busy, and shrinks when they are idle.
struct Size {
    threads_min: u32,
    threads_max: u32,
    /// All threads, and those that serve a connection.
    threads: Mutex<(u32, u32)>,
}

impl Size {
    fn new(threads_min: u32, threads_max: u32) -> Self {
        Self { threads_min, threads_max, threads: Mutex::new((threads_min, 0)) }
    }

    fn threads(&self) -> MutexGuard<'_, (u32, u32)> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a thread serves a connection; returns whether to start another thread, so that one waits for the next connection.
    fn take(&self) -> bool {
        let (all, busy) = &mut *self.threads();
        *busy += 1;
        let grows = *all == *busy && *all < self.threads_max;
        *all += u32::from(grows);
        grows
    }

    fn cancel(&self) {
        self.threads().0 -= 1;
    }

    fn give_back(&self) {
        self.threads().1 -= 1;
    }

    /// Returns whether an idle thread must end: others are idle too, and the pool has more than its fewest threads.
    fn shrink(&self) -> bool {
        let (all, busy) = &mut *self.threads();
        let shrinks = *all > self.threads_min && *all - *busy > 1;
        *all -= u32::from(shrinks);
        shrinks
    }
}

fn processes(context: &ServerContext<'_>, service: &dyn Connect) -> io::Result<()> {
    let start = |slot: &'static Slot| {
        // Pass any descriptor as the pipe: processes never use [`Accept::Single`], which reads it.
        let (source, mut buffer) =
            (ConnectionSource::open(context, context.stop)?, ReadBuffer::new(context.options.read_budget_bytes));
        // Count in the worker's slot, which has no other writer yet: the accept thread and the reaper both start workers.
        slot.counters.syscall(Syscall::Spawn);
        children::fork(slot, || {
            // If the worker ends, exit with an error, so that the reaper replaces it.
            let _ = work(context, service, &source, slot, &mut buffer, None, || {});
            1
        })
    };
    let replace = |slot: &'static Slot, stopping: &AtomicBool| {
        // The connection of the crashed worker ended too.
        let counters = &slot.counters;
        counters.ended.add(counters.accepted.get().saturating_sub(counters.ended.get()));
        while !stopping.load(SeqCst) {
            thread::sleep(CRASH_PAUSE);
            // If processes have run out, retry later.
            if !stopping.load(SeqCst) && start(slot).is_ok() {
                return;
            }
        }
        slot.release();
    };
    children::with_reaper(context.workers, replace, |reaper| {
        each_slot(context, |slot| start(slot).inspect(|()| reaper.unpark()))?;
        context.notify_started();
        context.wait_for_stop()
    })
}

fn each_slot(context: &ServerContext<'_>, mut start: impl FnMut(&'static Slot) -> io::Result<()>) -> io::Result<()> {
    let mut cursor = 0;
    let size = context.pool_size();
    for number in 1..=size {
        let slot = context.workers.claim(&mut cursor).expect("there is a slot for each worker");
        start(slot).map_err(|error| {
            slot.release();
            io::Error::new(error.kind(), format!("worker {number} of {size}: {error}"))
        })?;
    }
    Ok(())
}

/// Accepts for the whole pool, and writes the descriptor number of each connection into the pipe that the workers read.
fn hand_over(context: &ServerContext<'_>, given_to: &OwnedFd) -> io::Result<()> {
    rustix::io::ioctl_fionbio(given_to, true)?;
    let counters = context.workers.accept();
    let acceptor = Acceptor::new(context.listener, false, counters)?;
    context.notify_started();
    context.accept_each(acceptor, |connection| {
        if context.is_full() {
            return Err(connection);
        }
        counters.syscall(Syscall::Control);
        if rustix::io::write(given_to, &connection.as_raw_fd().to_ne_bytes()).is_err() {
            return Err(connection);
        }
        counters.accepted.add(1);
        // The connection belongs to the worker that reads its number.
        std::mem::forget(connection);
        Ok(())
    })
}

enum ConnectionSource<'a> {
    /// accept4 on the shared listener.
    Shared(&'a OwnedFd),
    /// accept4 on the worker's own listener.
    Own(OwnedFd),
    /// epoll_wait, then accept4 on the shared listener.
    Watched {
        epoll: OwnedFd,
        listener: &'a OwnedFd,
    },
    Handed(BorrowedFd<'a>),
}

impl<'a> ConnectionSource<'a> {
    /// Opens the source. Call this before the worker starts, so that the starting thread gets the error.
    fn open(context: &ServerContext<'a>, pipe: BorrowedFd<'a>) -> io::Result<Self> {
        Ok(match context.options.accept {
            Accept::Single => Self::Handed(pipe),
            Accept::Shared => Self::Shared(context.listener),
            Accept::Exclusive => {
                let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
                let interest = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
                epoll::add(&epoll, context.listener, epoll::EventData::new_u64(0), interest)?;
                Self::Watched { epoll, listener: context.listener }
            }
            _ => Self::Own(context.listen_reuseport()?),
        })
    }

    /// The listener or the pipe. A shutdown of the listener, or the close of the pipe's write end, ends an idle worker.
    fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Self::Shared(listener) | Self::Watched { listener, .. } => listener.as_fd(),
            Self::Own(listener) => listener.as_fd(),
            Self::Handed(pipe) => *pipe,
        }
    }
}

/// Serves connections until the server stops, or until the pool shrinks by this thread. `grow` is called before each connection.
fn work(
    context: &ServerContext<'_>,
    service: &dyn Connect,
    source: &ConnectionSource<'_>,
    slot: &Slot,
    buffer: &mut ReadBuffer,
    size: Option<&Size>,
    grow: impl Fn(),
) -> io::Result<()> {
    let counters = &slot.counters;
    let mut acceptor = match source {
        ConnectionSource::Handed(_) => None,
        ConnectionSource::Own(listener)
        | &ConnectionSource::Shared(listener)
        | &ConnectionSource::Watched { listener, .. } => Some(Acceptor::for_pool_worker(listener, counters)),
    };
    loop {
        if let ConnectionSource::Watched { epoll, .. } = source {
            counters.syscall(Syscall::Wait);
            let mut events = [std::mem::MaybeUninit::<epoll::Event>::uninit()];
            match epoll::wait(epoll, &mut events, None) {
                Ok((events, _)) => counters.events.add(events.len() as u64),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
        }
        let accepted = match (&mut acceptor, source) {
            (Some(acceptor), _) => acceptor.accept()?,
            (None, source) => {
                counters.syscall(Syscall::Wait);
                receive_handed_over(source.descriptor())?
            }
        };
        match accepted {
            Accepted::Connection(connection) => {
                if acceptor.is_some() {
                    counters.accepted.add(1);
                }
                let served = ServedConnection::new(slot, connection, Some(source.descriptor()));
                grow();
                serve(service, &served.io, buffer, counters, context.stopping);
                drop(served);
                size.iter().for_each(|size| size.give_back());
            }
            // A pool that grows has a limit of time for accepts.
            Accepted::WouldBlock if size.is_some_and(Size::shrink) => return Ok(()),
            Accepted::None | Accepted::WouldBlock | Accepted::Later => {}
            Accepted::Shutdown => return Ok(()),
        }
    }
}

/// Reads the descriptor number of the next connection. Writes of so few bytes to a pipe are atomic, so numbers stay whole.
fn receive_handed_over(pipe: BorrowedFd<'_>) -> io::Result<Accepted> {
    let mut number = [0; NUMBER_BYTES];
    match rustix::io::read(pipe, &mut number) {
        // SAFETY: the accept thread gave up the descriptor when it wrote the number, and only one worker reads the number.
        Ok(NUMBER_BYTES) => Ok(Accepted::Connection(unsafe { OwnedFd::from_raw_fd(i32::from_ne_bytes(number)) })),
        Ok(_) => Ok(Accepted::Shutdown),
        Err(Errno::INTR) => Ok(Accepted::None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use crate::Architecture;
    use crate::net::testkit::{Fixture, panicking_service};

    #[test]
    fn pool_with_too_few_descriptors_is_refused() {
        let model = "mt-pool".parse::<Architecture>().unwrap().model;
        let check = |accept, size, limit| check_descriptors(accept, model, size, limit).map_err(|it| it.to_string());
        for (accept, size, needed) in [(Accept::Shared, 100, 124), (Accept::Exclusive, 40, 104)] {
            let words = format!("{size} threads need {needed} descriptors, which exceeds the limit of 64");
            assert_eq!(check(accept, size, Some(64)), Err(words));
            assert_eq!(check(accept, size, Some(needed)), Ok(()));
        }
        assert_eq!(check(Accept::Shared, 100, None), Ok(()));
    }

    #[test]
    fn pool_grows_while_all_threads_are_busy_and_keeps_one_idle() {
        let size = Size::new(1, 3);
        assert!(size.take() && size.take(), "the last idle thread starts another");
        assert!(!size.take(), "the pool has its most threads");
        assert!(!size.shrink(), "no thread is idle");
        size.give_back();
        assert!(!size.shrink(), "one thread is idle");
        size.give_back();
        assert!(size.shrink() && !size.shrink());
        size.give_back();
        assert!(size.shrink() && !size.shrink(), "the pool has its fewest threads");
        assert!(size.take(), "it grows again");
        size.cancel();
    }

    #[test]
    fn pool_whose_thread_panics_ends_with_an_error() {
        let fixture = Fixture::new();
        let server = fixture.start("mt-pool", Some(2), |context| threads(context, &panicking_service())).started();
        let mut client = fixture.connect();
        client.write_all(b"!").unwrap();
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "the connection of the panicking thread ends");
        server.outcome().unwrap_err();
        assert_eq!(fixture.workers.connections_open(), 0);
        assert!(fixture.workers.taken().next().is_none(), "every slot is free");
    }
}
