//! smol: tasks over one-shot epoll, run by N threads.

use std::future::poll_fn;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::{io, thread};

use smol::io::{AsyncRead, AsyncWrite};
use smol::net::TcpListener;
use smol::net::unix::UnixListener;
use smol::stream::Stream as _;
use smol::{Executor, Timer};
use wire::Service;

use super::{Admission, AfterFailure, Listener, Open, REST, TaskContext, unless_overdue, with_room};
use crate::net::connection::{Connection, Next};
use crate::net::{ACCEPTS, ServerContext};
use crate::service::with_service;
use crate::spec::model::{ModelRow, ThreadSpec};

/// The row of [`crate::registry::MODELS`].
pub const ROW: ModelRow = ModelRow {
    name: "smol",
    about: "a task per connection on smol's executor, in one thread or, with :N, in N; system calls not counted",
    threads: ThreadSpec::NumberOrNothing,
    counts_syscalls: false,
    ..ModelRow::DEFAULT
};

fn run<S: Service<Conn: Send> + Send + Sync + 'static>(context: &ServerContext<'_>, service: S) -> io::Result<()> {
    let others = context.threads.map_or(0, |threads| threads.network - 1);
    let tasks = TaskContext::new(context, service, others as usize)?;
    // Dropping it ends all tasks. One of smol's own threads stays, and waits when no thread of ours does.
    let executor = Executor::new();
    let (stop, stopped) = smol::channel::unbounded::<()>();
    thread::scope(|scope| {
        // Dropping it ends the threads, even after a panic.
        let _stop = stop;
        for _ in 0..others {
            let until_stopped = || smol::block_on(executor.run(stopped.recv()));
            thread::Builder::new().name("smol".into()).spawn_scoped(scope, until_stopped)?;
        }
        smol::block_on(executor.run(async {
            match super::listener(context, true)? {
                Listener::Tcp(listener) => {
                    let listener = TcpListener::try_from(listener)?;
                    accept(context, tasks, &executor, async || listener.accept().await.map(|(stream, _)| stream)).await
                }
                Listener::Unix(listener) => {
                    let listener = UnixListener::try_from(listener)?;
                    accept(context, tasks, &executor, async || listener.accept().await.map(|(stream, _)| stream)).await
                }
            }
        }))
    })
}

/// Runs the server in the calling thread until it is stopped.
pub(crate) fn run_server(context: &ServerContext<'_>) -> io::Result<()> {
    with_service!(context, |service| run(context, service))
}

/// A connection of either kind.
trait Stream: AsyncRead + AsyncWrite + AsFd + Unpin + Send + 'static {}
impl<T: AsyncRead + AsyncWrite + AsFd + Unpin + Send + 'static> Stream for T {}

/// Accepts by `next`.
async fn accept<S, T: Stream>(
    context: &ServerContext<'_>,
    tasks: &'static TaskContext<S>,
    executor: &Executor<'static>,
    next: impl AsyncFn() -> io::Result<T>,
) -> io::Result<()>
where
    S: Service<Conn: Send> + Send + Sync,
{
    let admission = Admission::new(context, tasks)?;
    context.notify_started();
    for number in 1.. {
        // While connections wait, accept returns at once: give the other tasks their turns.
        if number % ACCEPTS == 0 {
            smol::future::yield_now().await;
        }
        match next().await {
            Ok(stream) => {
                if let Some(open) = admission.admit(&stream) {
                    executor.spawn(serve(open, stream)).detach();
                }
            }
            Err(error) => match admission.after(error)? {
                AfterFailure::Accept => {}
                AfterFailure::Rest => drop(Timer::after(REST).await),
                AfterFailure::Stop => break,
            },
        }
    }
    Ok(())
}

/// Serves one connection to its end.
async fn serve<S: Service>(open: Open<S>, mut stream: impl Stream) {
    let Open(tasks) = open;
    let service = &tasks.service;
    let mut connection = Connection::default();
    let mut timer = service.check_interval().map(|tick| Box::new(Timer::interval(tick)));
    let mut next = Next::Read;
    while next != Next::End {
        next = poll_fn(|context| {
            let polled = match next {
                Next::Write => Pin::new(&mut stream).poll_write(context, connection.unsent(service)).map_ok(|count| {
                    connection.sent(count, service, tasks.counters());
                    connection.next(stream.as_fd(), service)
                }),
                _ => with_room(tasks.read_budget, |buffer| {
                    Pin::new(&mut stream)
                        .poll_read(context, buffer)
                        .map_ok(|count| connection.on_read(&buffer[..count], stream.as_fd(), service, tasks.counters()))
                }),
            };
            let polled = polled.map(|next| next.unwrap_or(Next::End));
            let is_time = || timer.as_mut().is_some_and(|timer| Pin::new(timer).poll_next(context).is_ready());
            unless_overdue(polled, is_time, || connection.is_overdue(stream.as_fd(), service, tasks.counters()))
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::testkit::{
        Echo, Fixture, check_flood_leaves_others_served, check_panic_ends_one_connection, panicking_service,
    };

    #[test]
    fn task_that_panics_is_counted_and_others_go_on() {
        let fixture = Fixture::new();
        let server = fixture.start("smol", Some(2), |context| run(context, panicking_service()));
        check_panic_ends_one_connection(fixture, server);
    }

    #[test]
    fn flood_of_connects_leaves_others_served() {
        check_flood_leaves_others_served("smol", None, ACCEPTS as u64, |context, record| run(context, Echo(record)));
    }
}
