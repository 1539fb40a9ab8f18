//! tokio: tasks over epoll, edge-triggered, in one thread or in several that steal work from each other.

use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Builder;
use tokio::time::{Instant, interval_at};
use wire::Service;

use super::{Door, Listener, Open, REST, Shared, Then, unless_overdue, with_room};
use crate::net::Stage;
use crate::net::connection::{Connection, Next};
use crate::service::with_service;
use crate::spec::model::{ModelRow, PerConnection, ThreadSpec};

/// Its description in [`crate::registry::MODELS`].
pub const ROW: ModelRow = ModelRow {
    name: "tokio",
    about: "a task per connection on tokio's current-thread runtime; with :N on its multi-thread one with N workers, \
            even if N is 1; system calls not counted",
    stages: None,
    threads: ThreadSpec::NumberOrNothing,
    counts_syscalls: false,
    per_connection: PerConnection::Nothing,
    needs: "",
    can_run: || Ok(()),
};

fn run<S: Service<Conn: Send> + Send + Sync + 'static>(stage: &Stage<'_>, service: S) -> io::Result<()> {
    let shared = Shared::new(stage, service, stage.threads.map_or(0, |threads| threads.network) as usize)?;
    let mut builder = match stage.threads {
        None => Builder::new_current_thread(),
        Some(threads) => {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(threads.network as usize);
            builder
        }
    };
    // Dropped at the end, which ends all tasks and joins all threads.
    let runtime = builder.enable_io().enable_time().build()?;
    runtime.block_on(async {
        match super::listener(stage, true)? {
            Listener::Tcp(listener) => {
                let listener = TcpListener::from_std(listener)?;
                accept(stage, shared, async || listener.accept().await.map(|(stream, _)| stream)).await
            }
            Listener::Unix(listener) => {
                let listener = UnixListener::from_std(listener)?;
                accept(stage, shared, async || listener.accept().await.map(|(stream, _)| stream)).await
            }
        }
    })
}

/// Runs the server in the calling thread until it is stopped.
pub(crate) fn run_server(stage: &Stage<'_>) -> io::Result<()> {
    with_service!(stage, |service| run(stage, service))
}

/// A connection of either kind.
trait Stream: AsyncRead + AsyncWrite + AsFd + Unpin + Send + 'static {}
impl<T: AsyncRead + AsyncWrite + AsFd + Unpin + Send + 'static> Stream for T {}

/// Accepts by `next`.
async fn accept<S, T: Stream>(
    stage: &Stage<'_>,
    shared: &'static Shared<S>,
    next: impl AsyncFn() -> io::Result<T>,
) -> io::Result<()>
where
    S: Service<Conn: Send> + Send + Sync,
{
    let door = Door::new(stage, shared)?;
    stage.say_started();
    loop {
        match next().await {
            Ok(stream) => {
                if let Some(open) = door.admit(&stream) {
                    tokio::spawn(serve(open, stream));
                }
            }
            Err(error) => match door.after(error)? {
                Then::Accept => {}
                Then::Rest => tokio::time::sleep(REST).await,
                Then::Stop => return Ok(()),
            },
        }
    }
}

/// Serves one connection to its end.
async fn serve<S: Service>(open: Open<S>, mut stream: impl Stream) {
    let Open(shared) = open;
    let service = &shared.service;
    let mut connection = Connection::default();
    let mut looks = service.looks_every().map(|tick| Box::new(interval_at(Instant::now() + tick, tick)));
    let mut next = Next::Read;
    while next != Next::End {
        next = poll_fn(|context| {
            let polled = match next {
                Next::Write => Pin::new(&mut stream).poll_write(context, connection.unsent(service)).map_ok(|count| {
                    connection.sent(count, service, shared.counters());
                    connection.next(stream.as_fd(), service)
                }),
                _ => with_room(shared.read_budget, |inbox| {
                    let mut input = ReadBuf::new(inbox);
                    Pin::new(&mut stream)
                        .poll_read(context, &mut input)
                        .map_ok(|()| connection.on_read(input.filled(), stream.as_fd(), service, shared.counters()))
                }),
            };
            let polled = polled.map(|next| next.unwrap_or(Next::End));
            let is_time = || looks.as_mut().is_some_and(|looks| looks.poll_tick(context).is_ready());
            unless_overdue(polled, is_time, || connection.is_overdue(stream.as_fd(), service, shared.counters()))
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::testkit::{
        Bench, Told, check_that_a_flood_leaves_others_served, check_that_others_outlive_a_panic, panics_at_will,
    };

    #[test]
    fn task_that_panics_is_counted_and_others_go_on() {
        let bench = Bench::new();
        let server = bench.start("tokio", Some(2), |stage| run(stage, panics_at_will()));
        check_that_others_outlive_a_panic(bench, server);
    }

    #[test]
    fn flood_of_connects_leaves_others_served() {
        // Its own budget: a task is interrupted after 128 operations.
        check_that_a_flood_leaves_others_served("tokio", None, 128, |stage, tell| run(stage, Told(tell)));
    }
}
