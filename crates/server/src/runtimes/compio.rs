//! compio: tasks over io_uring; each thread has its own ring and tasks.

use std::future::poll_fn;
use std::os::fd::AsFd;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::thread::ScopedJoinHandle;
use std::time::Duration;
use std::{io, thread};

use compio::BufResult;
use compio::buf::IoBuf;
use compio::io::{AsyncRead, AsyncWrite};
use compio::net::{TcpListener, UnixListener};
use compio::runtime::Runtime;
use wire::Service;

use super::{Admission, Open, REST, TaskContext, accept, with_listener};
use crate::net::connection::{Connection, Next};
use crate::net::{OnDrop, ServerContext, StartSignal};
use crate::socket;
use crate::spec::model::ModelRow;

pub const ROW: ModelRow = ModelRow {
    name: "compio",
    about: "a task per connection on compio, in one thread or with :N in N threads, each with its own ring and \
            connections; system calls not counted",
    needs: "io_uring",
    can_run: || {
        Runtime::new().map(drop).map_err(|error| {
            format!("no io_uring: {error}; see kernel.io_uring_disabled, seccomp and the limit of locked memory")
        })
    },
    ..ModelRow::RUNTIME
};

/// Runs the server in the calling thread until it is stopped.
pub fn run<S: Service + Sync + Send + 'static>(context: &ServerContext<'_>, service: S) -> io::Result<()> {
    let others = context.threads.map_or(0, |threads| threads.network - 1);
    let tasks = TaskContext::new(context, service, others as usize)?;
    let admission = Admission::new(context, tasks)?;
    let started = StartSignal::new(context, others as usize + 1);
    // When one thread ends, even by a panic, the other threads must stop accepting.
    let end_all = || socket::shut_down(context.listener);
    let run_one = || {
        let _end = OnDrop(end_all);
        run_one(context, &admission, &started)
    };
    thread::scope(|scope| {
        let mut threads = Vec::new();
        let spawned = (0..others).try_for_each(|_| {
            let thread = thread::Builder::new().name("compio".into());
            threads.push(thread.spawn_scoped(scope, run_one)?);
            Ok(())
        });
        let own = spawned.inspect_err(|_| end_all()).and_then(|()| run_one());
        let join = |thread: ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
        };
        threads.into_iter().map(join).fold(own, Result::and)
    })
}

/// Runs the loop of one thread. All threads accept from one listener: the kernel wakes them in turn.
fn run_one<S: Service>(
    context: &ServerContext<'_>,
    admission: &Admission<'_, S>,
    started: &StartSignal<'_>,
) -> io::Result<()> {
    Runtime::new()?.block_on(async {
        with_listener!(context, false, TcpListener::from_std, UnixListener::from_std, |next| {
            started.thread_ready();
            let spawn = |open, stream| compio::runtime::spawn(serve(open, stream)).detach();
            accept(admission, next, spawn, async || compio::time::sleep(REST).await).await
        })
    })
}

/// A connection as the buffer of a write. The kernel reads from it until the write ends.
struct Unsent<S: Service + 'static>(&'static S, Connection<S::Conn>);

impl<S: Service + 'static> IoBuf for Unsent<S> {
    fn as_init(&self) -> &[u8] {
        self.1.unsent(self.0)
    }
}

/// Serves one connection to its end.
async fn serve<S: Service>(open: Open<S>, mut stream: impl AsyncRead + AsyncWrite + AsFd + Clone) {
    let Open(tasks) = open;
    let service = &tasks.service;
    // Each connection has a buffer, because the kernel uses it while the connection waits. Unused pages cost nothing.
    let mut buffer = Vec::with_capacity(tasks.read_budget.bytes());
    let mut connection = Connection::default();
    let mut timer = service.check_interval().map(OverdueTimer::new);
    // A second handle of the socket, for calls other than reads and writes.
    let socket = stream.clone();
    let io = socket.as_fd();
    let mut next = Next::Read;
    while next != Next::End {
        next = match next {
            Next::Write => {
                let (mut write, mut count) = (pin!(stream.write(Unsent(service, connection))), 0);
                let is_overdue = || {
                    count += 1;
                    count > service.checks_max()
                };
                let Some(BufResult(written, unsent)) = unless_overdue(write.as_mut(), &mut timer, is_overdue).await
                else {
                    tasks.counters().timed_out.add(1);
                    socket::reset(io);
                    return;
                };
                connection = unsent.1;
                written.map(|count| {
                    connection.sent(count, service, tasks.counters());
                    connection.next(io, service)
                })
            }
            _ => {
                let mut read = pin!(stream.read(buffer));
                let is_overdue = || connection.is_overdue(io, service, tasks.counters());
                let Some(BufResult(read, filled)) = unless_overdue(read.as_mut(), &mut timer, is_overdue).await else {
                    return;
                };
                buffer = filled;
                read.map(|count| connection.on_read(&buffer[..count], io, service, tasks.counters()))
            }
        }
        .unwrap_or(Next::End);
    }
}

/// Awaits the operation `done`; returns `None` if the client is overdue at a tick.
async fn unless_overdue<F: Future>(
    mut done: Pin<&mut F>,
    timer: &mut Option<OverdueTimer>,
    mut is_overdue: impl FnMut() -> bool,
) -> Option<F::Output> {
    poll_fn(|context| {
        let polled = done.as_mut().poll(context);
        while polled.is_pending() && timer.as_mut().is_some_and(|timer| timer.is_time(context)) {
            if is_overdue() {
                return Poll::Ready(None);
            }
        }
        polled.map(Some)
    })
    .await
}

/// A timer that fires each tick.
struct OverdueTimer {
    tick: Duration,
    sleep: Pin<Box<dyn Future<Output = ()>>>,
}

impl OverdueTimer {
    fn new(tick: Duration) -> Self {
        Self { tick, sleep: Box::pin(compio::time::sleep(tick)) }
    }

    fn is_time(&mut self, context: &mut Context<'_>) -> bool {
        let is_time = self.sleep.as_mut().poll(context).is_ready();
        if is_time {
            *self = Self::new(self.tick);
        }
        is_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::ACCEPTS;
    use crate::net::testkit::{
        Echo, Fixture, check_flood_leaves_others_served, check_panic_ends_one_connection, panicking_service,
    };

    #[test]
    fn panicking_task_is_counted_and_others_continue() {
        let fixture = Fixture::new();
        let server = fixture.start("compio", Some(2), |context| run(context, panicking_service()));
        check_panic_ends_one_connection(fixture, server);
    }

    #[test]
    fn flood_of_connects_leaves_others_served() {
        check_flood_leaves_others_served("compio", None, ACCEPTS as u64, |context, record| run(context, Echo(record)));
    }
}
