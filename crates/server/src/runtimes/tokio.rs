//! tokio: tasks over edge-triggered epoll, in one thread or in several that steal work from each other.

use std::io;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Builder;
use tokio::time::{Instant, interval_at};

use super::{ConnectionLimiter, Open, REST, TaskContext, accept, duplicate};
use crate::net::ServerContext;
use crate::net::connection::{Connect, Unsent};
use crate::socket;
use crate::spec::model::ModelRow;

pub const ROW: ModelRow = ModelRow {
    name: "tokio",
    about: "a task per connection on tokio's current-thread runtime, or with :N on its multi-thread runtime with N \
            workers; system calls not counted",
    ..ModelRow::RUNTIME
};

pub const BLOCKING: ModelRow = ModelRow {
    name: "tokio-blocking",
    about: "tokio with blocking calls in its pool of up to 512 threads (spawn_blocking)",
    has_blocking_pool: true,
    ..ROW
};

/// Runs the server in the calling thread until it is stopped.
pub fn run(context: &ServerContext<'_>, service: Box<dyn Connect>) -> io::Result<()> {
    let tasks = TaskContext::new(context, service, context.threads.map_or(0, |threads| threads.network) as usize)?;
    let mut builder = match context.threads {
        None => Builder::new_current_thread(),
        Some(threads) => {
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(threads.network as usize);
            builder
        }
    };
    // Dropping the runtime ends all tasks and joins all threads.
    let runtime = builder.enable_io().enable_time().build()?;
    let listener = duplicate(context.listener, true)?;
    let limiter = ConnectionLimiter::of_listener(listener.try_clone()?, tasks, tasks.refusals)?;
    // A task, because the runtime polls only tasks in its workers: otherwise another thread would accept, and wake them.
    macro_rules! accept {
        ($listener:ty, $std:ty) => {{
            let listener = Arc::new(<$listener>::from_std(<$std>::from(listener))?);
            let next = move || {
                let listener = listener.clone();
                async move { listener.accept().await.map(|(stream, _)| stream) }
            };
            let spawn = |open, stream| drop(tokio::spawn(serve(open, stream)));
            tokio::spawn(accept(Box::new(limiter), next, spawn, || tokio::time::sleep(REST)))
        }};
    }
    runtime.block_on(async {
        let accepting = if socket::is_tcp(&listener) {
            accept!(TcpListener, std::net::TcpListener)
        } else {
            accept!(UnixListener, std::os::unix::net::UnixListener)
        };
        context.notify_started();
        accepting.await?
    })
}

fn serve<T: AsyncRead + AsyncWrite + AsFd + Unpin>(open: Open, stream: T) -> impl Future<Output = ()> {
    let read = |stream: Pin<&mut T>, context: &mut Context<'_>, buffer: &mut [u8]| {
        let mut input = ReadBuf::new(buffer);
        stream.poll_read(context, &mut input).map_ok(|()| input.filled().len())
    };
    let mut timer = open.0.service.check_interval().map(|tick| Box::new(interval_at(Instant::now() + tick, tick)));
    let write = |stream: Pin<&mut T>, context: &mut Context<'_>, unsent: Unsent<'_>| match unsent.second {
        [] => stream.poll_write(context, unsent.first),
        _ => stream.poll_write_vectored(context, &unsent.slices()),
    };
    let tasks = open.0;
    let wait = async |until: Option<std::time::Instant>| match until {
        Some(until) => tokio::time::sleep_until(until.into()).await,
        // A call that panics ends in the pool, and so does the wait of its connection.
        None => _ = tokio::task::spawn_blocking(|| tasks.service.block()).await,
    };
    super::serve(open, stream, read, write, tokio::task::yield_now, wait, move |context| {
        timer.as_mut().is_some_and(|timer| timer.poll_tick(context).is_ready())
    })
}
