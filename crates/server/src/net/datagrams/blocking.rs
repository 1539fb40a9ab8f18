//! A thread (`mt`) or a process (`mp`) for each port, which blocks in recvfrom(2) or recvmsg(2).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use rustix::net::SendFlags;

use super::DatagramIo;
use crate::metrics::workers::{Slot, Syscall};
use crate::net::{OnDrop, STACK_BYTES, ServerContext, children};
use crate::platform::pin;
use crate::socket::address_of;

const WAKE_INTERVAL: Duration = Duration::from_millis(1);

pub(in crate::net) fn run_threads(context: &ServerContext<'_>) -> io::Result<()> {
    let service = super::service(context)?;
    pin(&context.cpus.accept)?;
    thread::scope(|scope| {
        let outcome = for_each_port(context, |slot, socket| {
            let serve = || {
                let _end = OnDrop(|| {
                    // Otherwise the server would continue with a port that no thread serves.
                    if thread::panicking() {
                        context.end_early();
                    }
                    slot.counters.ended.add(1);
                    slot.release();
                });
                let mut datagram_io = DatagramIo::new(&service, context.sockets, context.options.datagrams);
                while !context.stopping.load(Relaxed) {
                    datagram_io.exchange(socket.as_fd(), &service, &slot.counters);
                }
            };
            thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, serve).map(drop)
        });
        // Even if a thread could not be created, the existing threads must end.
        context.stopping.store(true, Relaxed);
        wake(context);
        outcome
    })
}

pub(in crate::net) fn run_processes(context: &ServerContext<'_>) -> io::Result<()> {
    let service = super::service(context)?;
    pin(&context.cpus.accept)?;
    children::with_reaper(context.workers, children::end_lost, |reaper| {
        // Make this before the forks: each child gets a copy.
        let mut datagram_io = DatagramIo::new(&service, context.sockets, context.options.datagrams);
        for_each_port(context, |slot, socket| {
            // The child runs until it is killed; the reaper accounts for it.
            let forked = children::fork(slot, || {
                loop {
                    datagram_io.exchange(socket.as_fd(), &service, &slot.counters);
                }
            });
            forked.inspect(|()| reaper.unpark())
        })
    })
}

/// Starts the worker of each port with `spawn`, and waits until the server must stop.
fn for_each_port<'a>(
    context: &ServerContext<'a>,
    mut spawn: impl FnMut(&'static Slot, &'a OwnedFd) -> io::Result<()>,
) -> io::Result<()> {
    let counters = context.workers.accept();
    let mut cursor = 0;
    for socket in context.sockets {
        let slot = context.workers.claim(&mut cursor).ok_or_else(|| io::Error::other("more ports than counters"))?;
        counters.syscall(Syscall::Spawn);
        spawn(slot, socket).inspect_err(|_| slot.release())?;
        counters.accepted.add(1);
    }
    context.notify_started();
    context.wait_for_stop()
}

/// Wakes all threads with empty datagrams. shutdown(2) of an unconnected socket wakes a receive only on Linux.
fn wake(context: &ServerContext<'_>) {
    while context.workers.taken().next().is_some() {
        for socket in context.sockets {
            if let Ok(address) = address_of(socket) {
                // If the socket's queue is full, the datagrams in it wake the thread.
                let _ = rustix::net::sendto(socket, &[], SendFlags::DONTWAIT, &address);
            }
        }
        thread::sleep(WAKE_INTERVAL);
    }
}
