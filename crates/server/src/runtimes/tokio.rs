//! tokio: tasks over edge-triggered epoll, in one thread or in several that steal work from each other.

use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Builder;
use tokio::time::{Instant, interval_at};
use wire::Service;

use super::{Admission, AfterFailure, Listener, Open, REST, TaskContext, unless_overdue, with_room};
use crate::net::ServerContext;
use crate::net::connection::{Connection, Next};
use crate::service::with_service;
use crate::spec::model::{ModelRow, ThreadSpec};

/// The row of [`crate::registry::MODELS`].
pub const ROW: ModelRow = ModelRow {
    name: "tokio",
    about: "a task per connection on tokio's current-thread runtime; with :N on its multi-thread one with N workers, \
            even if N is 1; system calls not counted",
    threads: ThreadSpec::NumberOrNothing,
    counts_syscalls: false,
    ..ModelRow::DEFAULT
};

fn run<S: Service<Conn: Send> + Send + Sync + 'static>(context: &ServerContext<'_>, service: S) -> io::Result<()> {
    let tasks = TaskContext::new(context, service, context.threads.map_or(0, |threads| threads.network) as usize)?;
    let mut builder = match context.threads {
        None => Builder::new_current_thread(),
        Some(threads) => {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(threads.network as usize);
            builder
        }
    };
    // Dropping it ends all tasks and joins all threads.
    let runtime = builder.enable_io().enable_time().build()?;
    runtime.block_on(async {
        match super::listener(context, true)? {
            Listener::Tcp(listener) => {
                let listener = TcpListener::from_std(listener)?;
                accept(context, tasks, async || listener.accept().await.map(|(stream, _)| stream)).await
            }
            Listener::Unix(listener) => {
                let listener = UnixListener::from_std(listener)?;
                accept(context, tasks, async || listener.accept().await.map(|(stream, _)| stream)).await
            }
        }
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
    next: impl AsyncFn() -> io::Result<T>,
) -> io::Result<()>
where
    S: Service<Conn: Send> + Send + Sync,
{
    let admission = Admission::new(context, tasks)?;
    context.notify_started();
    loop {
        match next().await {
            Ok(stream) => {
                if let Some(open) = admission.admit(&stream) {
                    tokio::spawn(serve(open, stream));
                }
            }
            Err(error) => match admission.after(error)? {
                AfterFailure::Accept => {}
                AfterFailure::Rest => tokio::time::sleep(REST).await,
                AfterFailure::Stop => return Ok(()),
            },
        }
    }
}

/// Serves one connection to its end.
async fn serve<S: Service>(open: Open<S>, mut stream: impl Stream) {
    let Open(tasks) = open;
    let service = &tasks.service;
    let mut connection = Connection::default();
    let mut timer = service.check_interval().map(|tick| Box::new(interval_at(Instant::now() + tick, tick)));
    let mut next = Next::Read;
    while next != Next::End {
        next = poll_fn(|context| {
            let polled = match next {
                Next::Write => Pin::new(&mut stream).poll_write(context, connection.unsent(service)).map_ok(|count| {
                    connection.sent(count, service, tasks.counters());
                    connection.next(stream.as_fd(), service)
                }),
                _ => with_room(tasks.read_budget, |buffer| {
                    let mut input = ReadBuf::new(buffer);
                    Pin::new(&mut stream)
                        .poll_read(context, &mut input)
                        .map_ok(|()| connection.on_read(input.filled(), stream.as_fd(), service, tasks.counters()))
                }),
            };
            let polled = polled.map(|next| next.unwrap_or(Next::End));
            let is_time = || timer.as_mut().is_some_and(|timer| timer.poll_tick(context).is_ready());
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
        let server = fixture.start("tokio", Some(2), |context| run(context, panicking_service()));
        check_panic_ends_one_connection(fixture, server);
    }

    #[test]
    fn flood_of_connects_leaves_others_served() {
        // tokio's own budget: it interrupts a task after 128 operations.
        check_flood_leaves_others_served("tokio", None, 128, |context, record| run(context, Echo(record)));
    }
}
