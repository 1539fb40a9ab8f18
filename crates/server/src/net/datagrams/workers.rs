//! The threads of a datagram service that watch ports: one thread, or several with a socket of their own on each port.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::thread;

use crate::metrics::workers::Counters;
use crate::net::payload::Ended;
use crate::net::queue::Mailbox;
use crate::net::staged::ThreadGroup;
use crate::net::{OnDrop, ServerContext, StartSignal};
use crate::platform::{pin, thread_id};
use crate::spec::busy_poll::BusyPoll;
use crate::spec::datagrams::DatagramOptions;

/// A thread that watches ports.
#[derive(Clone, Copy)]
pub(super) struct Worker<'a> {
    /// The thread's sockets, one for each port.
    pub(super) sockets: &'a [OwnedFd],
    /// Readable when the server must stop.
    pub(super) stop: BorrowedFd<'a>,
    pub(super) counters: &'static Counters,
    pub(super) started: &'a StartSignal<'a>,
    pub(super) options: DatagramOptions,
    pub(super) busy_poll: Option<BusyPoll>,
}

/// Calls `serve` in the calling thread or, for a model with network threads, in each of these, until the server must stop.
pub(super) fn run(
    context: &ServerContext<'_>,
    serve: &(dyn Fn(Worker<'_>) -> io::Result<()> + Sync),
) -> io::Result<()> {
    let has_threads = context.model.has_network_threads();
    let threads = if has_threads { context.threads.unwrap_or_default().network.max(1) as usize } else { 1 };
    let started = &StartSignal::new(context, threads);
    let (ports, counters) = (context.sockets.len() / threads, context.workers.accept());
    let ServerContext { sockets, stop, options, .. } = *context;
    let worker = Worker { sockets, stop, counters, started, options: options.datagrams, busy_poll: options.busy_poll };
    counters.accepted.add(ports as u64);
    if !has_threads {
        pin(&context.cpus.accept)?;
        return serve(worker);
    }
    let group = &ThreadGroup::new(context);
    // Each thread has a stop descriptor of its own: `rt-signal` sends the signals of a descriptor to one thread.
    let stops = (0..threads).map(|_| Mailbox::new()).collect::<io::Result<Vec<_>>>()?;
    thread::scope(|scope| {
        // Even if a thread could not be created, the existing threads must end.
        let _end = OnDrop(|| {
            context.end_early();
            stops.iter().for_each(|stop| stop.send((), &Counters::default()));
        });
        let mut cursor = 0;
        for (number, (sockets, stop)) in sockets.chunks(ports).zip(&stops).enumerate() {
            group.start(scope, &mut cursor, format!("network-{number}"), &context.cpus.network, move |counters| {
                counters.begin_network_thread(thread_id());
                counters.assigned.add(ports as u64);
                serve(Worker { sockets, stop: stop.descriptor(), counters, ..worker }).map(|()| Ended::Stopped)
            })?;
        }
        // Pin this thread last: new threads would inherit its CPUs.
        pin(&context.cpus.accept)?;
        context.wait_for_stop()
    })?;
    group.failure()
}
