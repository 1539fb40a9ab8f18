//! The loop of architectures in which a connection has a thread (`mt`) or a process (`mp`) of its own.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread;
use std::time::Duration;

use wire::fixed::Fixed;
use wire::{Service, ServiceSpec};

use super::Stage;
use super::connection::{Connection, Inbox, Next};
use crate::socket::{Accepted, Acceptor};
use crate::usage;
use crate::workers::{Counters, Slot, Syscall};

/// Stack of a thread of `mt`: kawai2008 section 5.1.
pub const STACK_BYTES: usize = 256 << 10;

/// The longest wait for connections to end once the server stops.
const STOP_MAX: Duration = Duration::from_secs(2);

/// What creates the thread or process of a connection. On failure it gives the connection back, to be refused.
type Spawn<S> = fn(&Stage<'_>, &'static S, &'static Slot, OwnedFd, &mut Inbox) -> Result<(), OwnedFd>;

/// `mt`: a thread for each connection, until the server stops.
///
/// # Errors
/// Errors of the listener.
pub fn run_threads(stage: &Stage<'_>) -> io::Result<()> {
    match *stage.service {
        ServiceSpec::Fixed { request_bytes, response_bytes } => {
            accept_loop(stage, Fixed::new(request_bytes, response_bytes), spawn_thread)
        }
    }
}

/// `mp`: a process for each connection, until the server stops.
///
/// # Errors
/// Errors of the listener.
pub fn run_processes(stage: &Stage<'_>) -> io::Result<()> {
    // Children are reaped by the kernel; what they used is in their slots.
    // SAFETY: SIG_IGN is a valid disposition, and no handler of ours is replaced.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    match *stage.service {
        ServiceSpec::Fixed { request_bytes, response_bytes } => {
            accept_loop(stage, Fixed::new(request_bytes, response_bytes), spawn_process)
        }
    }
}

fn accept_loop<S: Service + Sync + 'static>(stage: &Stage<'_>, service: S, spawn: Spawn<S>) -> io::Result<()> {
    // Threads may outlive this function by a moment when they are told to stop, so what they share lives for ever.
    let service: &'static S = Box::leak(Box::new(service));
    let counters = stage.workers.accept();
    let mut acceptor = Acceptor::new(stage.listener, false, counters)?;
    let mut inbox = Inbox::new();
    let mut cursor = 0;
    loop {
        match acceptor.accept()? {
            Accepted::Connection(connection) => {
                let Some(slot) = stage.workers.claim(&mut cursor) else {
                    acceptor.refuse(connection);
                    continue;
                };
                counters.syscall(Syscall::Spawn);
                match spawn(stage, service, slot, connection, &mut inbox) {
                    Ok(()) => counters.accepted.add(1),
                    Err(connection) => {
                        slot.release();
                        acceptor.refuse(connection);
                    }
                }
            }
            Accepted::None => {}
            // A blocking accept says this only when a timeout is set, which it is not.
            Accepted::WouldBlock => {}
            Accepted::Shutdown => break,
        }
    }
    stop_workers(stage);
    Ok(())
}

/// Serves one connection to its end.
fn serve<S: Service>(service: &S, io: &OwnedFd, inbox: &mut Inbox, counters: &Counters) {
    let mut connection = Connection::default();
    while connection.on_readable(io.as_fd(), service, inbox, counters) == Next::Read {}
}

fn spawn_thread<S: Service + Sync>(
    _stage: &Stage<'_>,
    service: &'static S,
    slot: &'static Slot,
    connection: OwnedFd,
    _inbox: &mut Inbox,
) -> Result<(), OwnedFd> {
    slot.set_connection(connection.as_raw_fd());
    // The connection goes to the thread by number, so that it is still ours to refuse when there is no thread.
    let descriptor = connection.as_raw_fd();
    let spawned = thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        // SAFETY: the spawner gave the descriptor up when this thread came to be, and nobody else closes it.
        let connection = unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(descriptor) };
        serve(service, &connection, &mut Inbox::new(), &slot.counters);
        slot.forget_connection();
        drop(connection);
        slot.counters.syscall(Syscall::Close);
        slot.counters.ended.add(1);
        slot.release();
    });
    match spawned {
        Ok(_) => {
            std::mem::forget(connection);
            Ok(())
        }
        Err(_) => Err(connection),
    }
}

fn spawn_process<S: Service>(
    stage: &Stage<'_>,
    service: &'static S,
    slot: &'static Slot,
    connection: OwnedFd,
    inbox: &mut Inbox,
) -> Result<(), OwnedFd> {
    let parent = rustix::process::getpid();
    // SAFETY: the child calls only this module's loop and _exit: system calls and counting, no allocation, no lock.
    match unsafe { libc::fork() } {
        -1 => Err(connection),
        0 => {
            let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
            // The parent may have died before the line above.
            if rustix::process::getppid() == Some(parent) {
                // SAFETY: the child's copy of the listener; the parent's is another.
                unsafe { libc::close(stage.listener.as_raw_fd()) };
                serve(service, &connection, inbox, &slot.counters);
                slot.counters.ended.add(1);
                slot.counters.syscall(Syscall::Close);
                let used = usage::of_this_process();
                slot.ended_cpu_ns.add(used.cpu_user_ns + used.cpu_system_ns);
                slot.ended_voluntary_switches.add(used.voluntary_switches);
                slot.ended_involuntary_switches.add(used.involuntary_switches);
                slot.release();
            }
            // SAFETY: ends the child at once, without the parent's destructors and buffers.
            unsafe { libc::_exit(0) }
        }
        child => {
            // A child so quick that it has gone already has released the slot: it must not be taken again.
            slot.set_process_if_taken(child);
            Ok(())
        }
    }
}

/// Ends what still serves: children are killed, threads see their connection shut down.
fn stop_workers(stage: &Stage<'_>) {
    for slot in stage.workers.taken() {
        if let Some(pid) = slot.process() {
            // SAFETY: a signal to our own child, whose slot is still taken; no memory is involved.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            slot.counters.ended.add(1);
            slot.release();
        } else if let Some(descriptor) = slot.connection() {
            // SAFETY: shuts a socket down; a descriptor that its thread has just closed gives EBADF.
            unsafe { libc::shutdown(descriptor, libc::SHUT_RDWR) };
        }
    }
    let started = std::time::Instant::now();
    while stage.workers.taken().next().is_some() && started.elapsed() < STOP_MAX {
        thread::sleep(Duration::from_millis(1));
    }
}
