//! smol: tasks over epoll, one-shot, run by as many threads as are asked for.

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

use super::{Door, Listener, Open, REST, Shared, Then, unless_overdue, with_room};
use crate::net::connection::{Connection, Next};
use crate::net::{ACCEPTS, Stage};
use crate::service::with_service;
use crate::spec::model::{ModelRow, PerConnection, ThreadSpec};

/// Its description in [`crate::registry::MODELS`].
pub const ROW: ModelRow = ModelRow {
    name: "smol",
    about: "a task per connection on smol's executor, in one thread or, with :N, in N; system calls not counted",
    stages: None,
    threads: ThreadSpec::NumberOrNothing,
    counts_syscalls: false,
    per_connection: PerConnection::Nothing,
    needs: "",
    can_run: || Ok(()),
};

fn run<S: Service<Conn: Send> + Send + Sync + 'static>(stage: &Stage<'_>, service: S) -> io::Result<()> {
    let others = stage.threads.map_or(0, |threads| threads.network - 1);
    let shared = Shared::new(stage, service, others as usize)?;
    // Dropped at the end, which ends all tasks. Of smol's own threads one stays, which waits when no thread of ours does.
    let executor = Executor::new();
    let (stop, stopped) = smol::channel::unbounded::<()>();
    thread::scope(|scope| {
        // The threads end when it is dropped, however this one ends.
        let _stop = stop;
        for _ in 0..others {
            let until_stopped = || smol::block_on(executor.run(stopped.recv()));
            thread::Builder::new().name("smol".into()).spawn_scoped(scope, until_stopped)?;
        }
        smol::block_on(executor.run(async {
            match super::listener(stage, true)? {
                Listener::Tcp(listener) => {
                    let listener = TcpListener::try_from(listener)?;
                    accept(stage, shared, &executor, async || listener.accept().await.map(|(stream, _)| stream)).await
                }
                Listener::Unix(listener) => {
                    let listener = UnixListener::try_from(listener)?;
                    accept(stage, shared, &executor, async || listener.accept().await.map(|(stream, _)| stream)).await
                }
            }
        }))
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
    executor: &Executor<'static>,
    next: impl AsyncFn() -> io::Result<T>,
) -> io::Result<()>
where
    S: Service<Conn: Send> + Send + Sync,
{
    let door = Door::new(stage, shared)?;
    stage.say_started();
    for number in 1.. {
        // While connections wait accept goes on at once, and others would not have their turns.
        if number % ACCEPTS == 0 {
            smol::future::yield_now().await;
        }
        match next().await {
            Ok(stream) => {
                if let Some(open) = door.admit(&stream) {
                    executor.spawn(serve(open, stream)).detach();
                }
            }
            Err(error) => match door.after(error)? {
                Then::Accept => {}
                Then::Rest => drop(Timer::after(REST).await),
                Then::Stop => break,
            },
        }
    }
    Ok(())
}

/// Serves one connection to its end.
async fn serve<S: Service>(open: Open<S>, mut stream: impl Stream) {
    let Open(shared) = open;
    let service = &shared.service;
    let mut connection = Connection::default();
    let mut looks = service.looks_every().map(|tick| Box::new(Timer::interval(tick)));
    let mut next = Next::Read;
    while next != Next::End {
        next = poll_fn(|context| {
            let polled = match next {
                Next::Write => Pin::new(&mut stream).poll_write(context, connection.unsent(service)).map_ok(|count| {
                    connection.sent(count, service, shared.counters());
                    connection.next(stream.as_fd(), service)
                }),
                _ => with_room(shared.read_budget, |inbox| {
                    Pin::new(&mut stream)
                        .poll_read(context, inbox)
                        .map_ok(|count| connection.on_read(&inbox[..count], stream.as_fd(), service, shared.counters()))
                }),
            };
            let polled = polled.map(|next| next.unwrap_or(Next::End));
            let is_time = || looks.as_mut().is_some_and(|looks| Pin::new(looks).poll_next(context).is_ready());
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
        let server = bench.start("smol", Some(2), |stage| run(stage, panics_at_will()));
        check_that_others_outlive_a_panic(bench, server);
    }

    #[test]
    fn flood_of_connects_leaves_others_served() {
        check_that_a_flood_leaves_others_served("smol", None, ACCEPTS as u64, |stage, tell| run(stage, Told(tell)));
    }
}
