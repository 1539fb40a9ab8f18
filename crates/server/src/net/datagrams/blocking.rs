//! A thread (`mt`) or a process (`mp`) for each port, which blocks in recvfrom.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use rustix::net::SendFlags;

use super::Desk;
use crate::metrics::workers::{Slot, Syscall};
use crate::net::{OnDrop, STACK_BYTES, Stage, children};
use crate::platform::pin;

/// Between two looks whether all threads have ended.
const LOOK: Duration = Duration::from_millis(1);

/// `mt`: a thread for each port, until the server stops.
pub(in crate::net) fn run_threads(stage: &Stage<'_>) -> io::Result<()> {
    let service = super::service(stage)?;
    pin(&stage.cpus.accept)?;
    thread::scope(|scope| {
        let outcome = for_each_port(stage, |slot, socket| {
            let serve = || {
                let _end = OnDrop(|| {
                    // Without it the server would seem to live, with a port that nobody serves.
                    if thread::panicking() {
                        stage.end_early();
                    }
                    slot.counters.ended.add(1);
                    slot.release();
                });
                let mut desk = Desk::new(&service, stage.sockets);
                while !stage.stopping.load(Relaxed) {
                    desk.turn(socket.as_fd(), &service, &slot.counters);
                }
            };
            thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, serve).map(drop)
        });
        // Those that are there are told, too, where one more could not be had.
        stage.stopping.store(true, Relaxed);
        wake(stage);
        outcome
    })
}

/// `mp`: a process for each port, until the server stops.
pub(in crate::net) fn run_processes(stage: &Stage<'_>) -> io::Result<()> {
    let service = super::service(stage)?;
    pin(&stage.cpus.accept)?;
    let lost = |slot: &'static Slot, _: &_| {
        slot.counters.ended.add(1);
        slot.release();
    };
    children::with_reaper(stage.workers, lost, |reaper| {
        // The child's are copies of this, for it must not allocate.
        let mut desk = Desk::new(&service, stage.sockets);
        for_each_port(stage, |slot, socket| {
            // Until it is killed; whoever reaps it accounts for it.
            let forked = children::fork(slot, || {
                loop {
                    desk.turn(socket.as_fd(), &service, &slot.counters);
                }
            });
            forked.inspect(|()| reaper.unpark())
        })
    })
}

/// Starts the worker of each port with `spawn`, says so, and waits for the order to stop.
fn for_each_port<'a>(
    stage: &Stage<'a>,
    mut spawn: impl FnMut(&'static Slot, &'a OwnedFd) -> io::Result<()>,
) -> io::Result<()> {
    let counters = stage.workers.accept();
    let mut cursor = 0;
    for socket in stage.sockets {
        let slot = stage.workers.claim(&mut cursor).ok_or_else(|| io::Error::other("more ports than counters"))?;
        counters.syscall(Syscall::Spawn);
        spawn(slot, socket).inspect_err(|_| slot.release())?;
        counters.accepted.add(1);
    }
    stage.say_started();
    stage.wait_for_stop()
}

/// Sends each port a datagram of nothing until all threads have ended: on every system it wakes who blocks in recvfrom, which
/// shutdown(2) of a socket that is not connected does on Linux alone.
fn wake(stage: &Stage<'_>) {
    while stage.workers.taken().next().is_some() {
        for socket in stage.sockets {
            if let Some(own) = rustix::net::getsockname(socket).ok().and_then(|it| SocketAddr::try_from(it).ok()) {
                // One that finds no room goes to a thread that has enough to wake it.
                let _ = rustix::net::sendto(socket, &[], SendFlags::DONTWAIT, &own);
            }
        }
        thread::sleep(LOOK);
    }
}
