//! compio: tasks over io_uring, each thread with a ring and tasks of its own.

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

use super::{Door, Listener, Open, REST, Shared, Then};
use crate::net::connection::{Connection, Next};
use crate::net::{OnDrop, Stage, Started};
use crate::service::with_service;
use crate::socket;
use crate::spec::model::{ModelRow, PerConnection, ThreadSpec};

/// Its description in [`crate::registry::MODELS`].
pub const ROW: ModelRow = ModelRow {
    name: "compio",
    about: "a task per connection on compio, in one thread or, with :N, in N, each with a ring and connections of its \
            own; system calls not counted",
    stages: None,
    threads: ThreadSpec::NumberOrNothing,
    counts_syscalls: false,
    per_connection: PerConnection::Nothing,
    needs: "io_uring",
    can_run: || {
        Runtime::new().map(drop).map_err(|error| {
            format!("no io_uring: {error}; see kernel.io_uring_disabled, seccomp and the limit of locked memory")
        })
    },
};

fn run<S: Service + Sync + Send + 'static>(stage: &Stage<'_>, service: S) -> io::Result<()> {
    let others = stage.threads.map_or(0, |threads| threads.network - 1);
    let shared = Shared::new(stage, service, others as usize)?;
    let door = Door::new(stage, shared)?;
    let started = Started::new(stage, others as usize + 1);
    // However one ends, by a panic too: the others accept for ever otherwise.
    let end_all = || socket::shut_down(stage.listener);
    let run_one = || {
        let _end = OnDrop(end_all);
        run_one(stage, &door, &started)
    };
    thread::scope(|scope| {
        let mut threads = Vec::new();
        let spawned = (0..others).try_for_each(|_| {
            let thread = thread::Builder::new().name("compio".into());
            threads.push(thread.spawn_scoped(scope, run_one)?);
            Ok(())
        });
        let own = spawned.inspect_err(|_| end_all()).and_then(|()| run_one());
        let join =
            |thread: ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")));
        threads.into_iter().map(join).fold(own, Result::and)
    })
}

/// Runs the server in the calling thread until it is stopped.
pub(crate) fn run_server(stage: &Stage<'_>) -> io::Result<()> {
    with_service!(stage, |service| run(stage, service))
}

/// One thread's part. Its runtime is dropped at the end, which ends its tasks.
fn run_one<S: Service>(stage: &Stage<'_>, door: &Door<'_, S>, started: &Started<'_>) -> io::Result<()> {
    Runtime::new()?.block_on(async {
        match super::listener(stage, false)? {
            Listener::Tcp(listener) => {
                let listener = TcpListener::from_std(listener)?;
                accept(door, started, async || listener.accept().await.map(|(stream, _)| stream)).await
            }
            Listener::Unix(listener) => {
                let listener = UnixListener::from_std(listener)?;
                accept(door, started, async || listener.accept().await.map(|(stream, _)| stream)).await
            }
        }
    })
}

/// A connection of either kind.
trait Stream: AsyncRead + AsyncWrite + AsFd + Clone + 'static {}
impl<T: AsyncRead + AsyncWrite + AsFd + Clone + 'static> Stream for T {}

/// Accepts by `next`. All threads do so from the one listener: the kernel wakes them in turn.
async fn accept<S: Service, T: Stream>(
    door: &Door<'_, S>,
    started: &Started<'_>,
    next: impl AsyncFn() -> io::Result<T>,
) -> io::Result<()> {
    started.one_more();
    loop {
        match next().await {
            Ok(stream) => {
                if let Some(open) = door.admit(&stream) {
                    compio::runtime::spawn(serve(open, stream)).detach();
                }
            }
            Err(error) => match door.after(error)? {
                Then::Accept => {}
                Then::Rest => compio::time::sleep(REST).await,
                Then::Stop => return Ok(()),
            },
        }
    }
}

/// What the kernel is given to write: the connection itself, which knows, and is back when it is written.
struct Unsent<S: Service + 'static>(&'static S, Connection<S::Conn>);

impl<S: Service + 'static> IoBuf for Unsent<S> {
    fn as_init(&self) -> &[u8] {
        self.1.unsent(self.0)
    }
}

/// Serves one connection to its end.
async fn serve<S: Service>(open: Open<S>, mut stream: impl Stream) {
    let Open(shared) = open;
    let service = &shared.service;
    // Its own: the kernel holds it while the connection waits for bytes. Memory that no read reaches costs nothing.
    let mut inbox = Vec::with_capacity(shared.read_budget.bytes());
    let mut connection = Connection::default();
    let mut looks = service.looks_every().map(Looks::new);
    // The same socket, for what is not I/O.
    let socket = stream.clone();
    let io = socket.as_fd();
    let mut next = Next::Read;
    while next != Next::End {
        next = match next {
            Next::Write => {
                let (mut write, mut count) = (pin!(stream.write(Unsent(service, connection))), 0);
                let is_late = || {
                    count += 1;
                    count > service.looks_max()
                };
                let Some(BufResult(written, unsent)) = unless_late(write.as_mut(), &mut looks, is_late).await else {
                    shared.counters().timed_out.add(1);
                    socket::reset(io);
                    return;
                };
                connection = unsent.1;
                written.map(|count| {
                    connection.sent(count, service, shared.counters());
                    connection.next(io, service)
                })
            }
            _ => {
                let mut read = pin!(stream.read(inbox));
                let is_late = || connection.is_overdue(io, service, shared.counters());
                let Some(BufResult(read, buffer)) = unless_late(read.as_mut(), &mut looks, is_late).await else {
                    return;
                };
                inbox = buffer;
                read.map(|count| connection.on_read(&inbox[..count], io, service, shared.counters()))
            }
        }
        .unwrap_or(Next::End);
    }
}

/// What comes of `done`, unless it is late at one of the looks; it is dropped then, and the operation ended.
async fn unless_late<F: Future>(
    mut done: Pin<&mut F>,
    looks: &mut Option<Looks>,
    mut is_late: impl FnMut() -> bool,
) -> Option<F::Output> {
    poll_fn(|context| {
        let polled = done.as_mut().poll(context);
        while polled.is_pending() && looks.as_mut().is_some_and(|looks| looks.is_time(context)) {
            if is_late() {
                return Poll::Ready(None);
            }
        }
        polled.map(Some)
    })
    .await
}

/// A timer that fires each tick.
struct Looks {
    tick: Duration,
    sleep: Pin<Box<dyn Future<Output = ()>>>,
}

impl Looks {
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
        Bench, Told, check_that_a_flood_leaves_others_served, check_that_others_outlive_a_panic, panics_at_will,
    };

    #[test]
    fn task_that_panics_is_counted_and_others_go_on() {
        let bench = Bench::new();
        let server = bench.start("compio", Some(2), |stage| run(stage, panics_at_will()));
        check_that_others_outlive_a_panic(bench, server);
    }

    #[test]
    fn flood_of_connects_leaves_others_served() {
        check_that_a_flood_leaves_others_served("compio", None, ACCEPTS as u64, |stage, tell| run(stage, Told(tell)));
    }
}
