//! Connections of runtimes whose operations own their buffers until the kernel has finished with them.

use std::future::poll_fn;
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use wire::Wait;

use super::Open;
use crate::net::connection::{self, Connection, Next};
use crate::socket;

/// A connection as the buffer of a write. The kernel reads from it until the write ends.
pub struct Unsent(Box<dyn Connection>);

impl Unsent {
    pub fn parts(&self) -> connection::Unsent<'_> {
        self.0.unsent()
    }
}

/// The result of an operation, and the buffer that it owned.
pub type Owned<T> = (io::Result<usize>, T);

/// A wait of the runtime for some time.
pub type Sleep = fn(Duration) -> Pin<Box<dyn Future<Output = ()>>>;

/// Serves one connection to its end with the runtime's operations `read` and `write` and its `sleep`. `io` is the socket of
/// `stream`.
pub async fn serve<T>(
    open: Open,
    mut stream: T,
    io: BorrowedFd<'_>,
    read: impl AsyncFn(&mut T, Vec<u8>) -> Owned<Vec<u8>>,
    write: impl AsyncFn(&mut T, Unsent) -> Owned<Unsent>,
    sleep: Sleep,
) {
    let Open(tasks) = open;
    let service = &tasks.service;
    // Each connection has a buffer, because the kernel uses it while the connection waits. Unused pages cost nothing.
    let mut buffer = Vec::with_capacity(tasks.read_budget.bytes());
    let mut connection = service.connect();
    let mut timer = service.check_interval().map(|tick| OverdueTimer { tick, sleep, sleeping: sleep(tick) });
    let mut next = Next::Read;
    while next != Next::End {
        if next.is_wait()
            && let Some(Wait { until: Some(until), .. }) = connection.wait()
        {
            sleep(until.saturating_duration_since(Instant::now())).await;
            connection.resume(tasks.counters());
            next = connection.next(io);
            continue;
        }
        next = match next {
            Next::Write | Next::WriteOn => {
                let (mut write, mut count) = (pin!(write(&mut stream, Unsent(connection))), 0);
                let is_overdue = || {
                    count += 1;
                    count > service.checks_max()
                };
                let Some((written, unsent)) = unless_overdue(write.as_mut(), &mut timer, is_overdue).await else {
                    tasks.counters().timed_out.add(1);
                    socket::reset(io);
                    return;
                };
                connection = unsent.0;
                written.map(|count| {
                    connection.sent(count, tasks.counters());
                    connection.next(io)
                })
            }
            _ => {
                let mut read = pin!(read(&mut stream, buffer));
                let is_overdue = || connection.is_overdue(io, tasks.counters());
                let Some((read, filled)) = unless_overdue(read.as_mut(), &mut timer, is_overdue).await else {
                    return;
                };
                buffer = filled;
                read.map(|count| connection.on_read(&buffer[..count], io, tasks.counters()))
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
    sleep: Sleep,
    sleeping: Pin<Box<dyn Future<Output = ()>>>,
}

impl OverdueTimer {
    fn is_time(&mut self, context: &mut Context<'_>) -> bool {
        let is_time = self.sleeping.as_mut().poll(context).is_ready();
        if is_time {
            self.sleeping = (self.sleep)(self.tick);
        }
        is_time
    }
}
