//! The loop of architectures in which each connection has a thread (`mt`) or a process (`mp`) of its own.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use super::connection::{Connect, Next, ReadBuffer};
use super::{OnDrop, STACK_BYTES, ServerContext, children, datagrams};
use crate::metrics::workers::{Counters, Slot, Syscall};
use crate::service::work::sleep_until;
use crate::service::{buffered_service, service};
use crate::socket::{self, Acceptor};
use crate::spec::read_budget::ReadBudget;

/// The longest wait for connections to end once the server stops.
const STOP_MAX: Duration = Duration::from_secs(2);

pub fn run_threads(context: &ServerContext<'_>) -> io::Result<()> {
    if context.service.ports().is_some() {
        return datagrams::blocking::run_threads(context);
    }
    serve_by_threads(context, service(context)?)
}

/// Like [`run_threads`], with a layer between sockets and service, as in welsh2001's threaded asynchronous sockets.
pub fn run_threads_buffered(context: &ServerContext<'_>) -> io::Result<()> {
    serve_by_threads(context, buffered_service(context)?)
}

fn serve_by_threads(context: &ServerContext<'_>, service: Box<dyn Connect>) -> io::Result<()> {
    // Like the service: threads may outlive this function by a moment.
    let stopping: &'static Arc<AtomicBool> = Box::leak(Box::new(context.stopping.clone()));
    let outcome = accept_loop(context, service, |service, slot, connection, _| {
        spawn_thread(context.options.read_budget_bytes, service, slot, connection, stopping)
    });
    stop_threads(context, STOP_MAX);
    outcome
}

pub fn run_processes(context: &ServerContext<'_>) -> io::Result<()> {
    if context.service.ports().is_some() {
        return datagrams::blocking::run_processes(context);
    }
    children::with_reaper(context.workers, children::end_lost, |reaper| {
        accept_loop(context, service(context)?, |service, slot, connection, buffer| {
            spawn_process(context, service, slot, connection, buffer).inspect(|()| reaper.unpark())
        })
    })
}

/// Accepts until the listener is shut down. `spawn` creates a connection's thread or process, or else returns the connection.
fn accept_loop(
    context: &ServerContext<'_>,
    service: Box<dyn Connect>,
    spawn: impl Fn(&'static dyn Connect, &'static Slot, OwnedFd, &mut ReadBuffer) -> Result<(), OwnedFd>,
) -> io::Result<()> {
    // Leak the service: threads may outlive this function by a moment.
    let service: &'static dyn Connect = Box::leak(service);
    let counters = context.workers.accept();
    let acceptor = Acceptor::new(context.listener, false, counters)?;
    let mut buffer = ReadBuffer::new(context.options.read_budget_bytes);
    let mut cursor = 0;
    context.notify_started();
    context.accept_each(acceptor, |connection| {
        let Some(slot) = context.workers.claim(&mut cursor) else { return Err(connection) };
        counters.syscall(Syscall::Spawn);
        spawn(service, slot, connection, &mut buffer).inspect_err(|_| slot.release())?;
        counters.accepted.add(1);
        Ok(())
    })
}

pub(super) fn serve(
    service: &dyn Connect,
    io: &OwnedFd,
    buffer: &mut ReadBuffer,
    counters: &Counters,
    stopping: &AtomicBool,
) {
    let mut connection = service.connect();
    if let Some(tick) = service.check_interval() {
        socket::set_io_timeout(io, tick);
    }
    let mut next = Next::Read;
    while next != Next::End && !connection.is_overdue(io.as_fd(), counters) {
        next = match next {
            // A write without progress returns after a tick, so that the limits are checked before it continues.
            Next::Write | Next::WriteOn => connection.on_writable(io.as_fd(), counters),
            Next::Wait | Next::Hold => {
                let until = connection.wait().and_then(|wait| wait.until);
                let is_ready = until.is_none_or(|until| sleep_until(until, || stopping.load(Relaxed)));
                if !is_ready {
                    return;
                }
                connection.resume(counters);
                connection.on_writable(io.as_fd(), counters)
            }
            _ => connection.on_readable(io.as_fd(), buffer, counters),
        };
    }
}

/// A connection that a thread, or a process of a pool, serves. It is closed and counted when dropped, even by a panic.
pub(super) struct ServedConnection<'a> {
    slot: &'a Slot,
    pub(super) io: OwnedFd,
    idle: Option<BorrowedFd<'a>>,
}

impl<'a> ServedConnection<'a> {
    /// Stores the connection in the slot, so that stopping the server can shut it down.
    pub(super) fn new(slot: &'a Slot, io: OwnedFd, idle: Option<BorrowedFd<'a>>) -> Self {
        slot.set_connection(io.as_raw_fd());
        Self { slot, io, idle }
    }
}

impl Drop for ServedConnection<'_> {
    fn drop(&mut self) {
        // Update the slot before closing: stopping the server shuts down the slots' descriptors, and this one may be reused.
        match self.idle {
            Some(idle) => self.slot.set_connection(idle.as_raw_fd()),
            None => self.slot.forget_connection(),
        }
        self.slot.counters.syscall(Syscall::Close);
        self.slot.counters.ended.add(1);
    }
}

fn spawn_thread(
    budget: ReadBudget,
    service: &'static dyn Connect,
    slot: &'static Slot,
    connection: OwnedFd,
    stopping: &'static AtomicBool,
) -> Result<(), OwnedFd> {
    slot.set_connection(connection.as_raw_fd());
    // Pass the descriptor by number, so that the connection can still be refused if no thread starts.
    let descriptor = connection.as_raw_fd();
    let spawned = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        // SAFETY: the spawner forgets the descriptor once this thread exists, and nothing else closes it.
        let connection = unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(descriptor) };
        // Declared first, so that it is dropped last.
        let _release = OnDrop(|| slot.release());
        let served = ServedConnection::new(slot, connection, None);
        serve(service, &served.io, &mut ReadBuffer::new(budget), &slot.counters, stopping);
    });
    match spawned {
        Ok(_) => {
            std::mem::forget(connection);
            Ok(())
        }
        Err(_) => Err(connection),
    }
}

fn spawn_process(
    context: &ServerContext<'_>,
    service: &'static dyn Connect,
    slot: &'static Slot,
    connection: OwnedFd,
    buffer: &mut ReadBuffer,
) -> Result<(), OwnedFd> {
    let forked = children::fork(slot, || {
        // SAFETY: closes the child's copy of the listener, not the parent's.
        unsafe { libc::close(context.listener.as_raw_fd()) };
        slot.counters.syscall(Syscall::Close);
        // The end of the process closes the connection.
        serve(service, &connection, buffer, &slot.counters, context.stopping);
        slot.counters.ended.add(1);
        children::leave(context.workers, slot);
        0
    });
    match forked {
        Ok(()) => {
            drop(connection);
            context.workers.accept().syscall(Syscall::Close);
            Ok(())
        }
        Err(_) => Err(connection),
    }
}

/// Shuts down the sockets that threads serve or wait on, until no thread is left or `timeout` has passed.
pub(super) fn stop_threads(context: &ServerContext<'_>, timeout: Duration) {
    let started = std::time::Instant::now();
    // Repeat this: a thread of a pool may have moved from one descriptor to another.
    while context.workers.taken().next().is_some() && started.elapsed() < timeout {
        for descriptor in context.workers.taken().filter_map(Slot::connection) {
            // SAFETY: shuts a socket down; a descriptor that has just been closed gives EBADF.
            unsafe { libc::shutdown(descriptor, libc::SHUT_RDWR) };
        }
        thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::testkit::{Fixture, check_panic_ends_one_connection, panicking_service, wait_until};

    #[test]
    fn panicking_thread_frees_its_slot() {
        let fixture = Fixture::new();
        let server = fixture.start("mt", None, |context| serve_by_threads(context, Box::new(panicking_service())));
        check_panic_ends_one_connection(fixture, server);
        wait_until("every slot is free", || fixture.workers.taken().next().is_none());
    }
}
