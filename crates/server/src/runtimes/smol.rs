//! smol: tasks over one-shot epoll, in one thread or several.

use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::Context;
use std::time::Instant;
use std::{io, thread};

use smol::io::{AsyncRead, AsyncWrite};
use smol::net::TcpListener;
use smol::net::unix::UnixListener;
use smol::stream::Stream as _;
use smol::{Executor, Timer};

use super::{ConnectionLimiter, Open, REST, TaskContext, accept, in_turns, with_listener};
use crate::net::ServerContext;
use crate::net::connection::{Connect, Unsent};
use crate::spec::model::ModelRow;

pub const ROW: ModelRow = ModelRow {
    name: "smol",
    about: "a task per connection on smol's executor, in one thread or with :N in N threads; system calls not counted",
    ..ModelRow::RUNTIME
};

/// Runs the server in the calling thread, and with `:N` in N - 1 further threads, until the server is stopped.
pub fn run(context: &ServerContext<'_>, service: Box<dyn Connect>) -> io::Result<()> {
    let others = context.threads.map_or(0, |threads| threads.network - 1);
    let tasks = TaskContext::new(context, service, others as usize)?;
    // Dropping the executor ends all tasks. smol's `async-io` thread outlives the server. It polls for events whenever no
    // server thread does.
    let executor = Executor::new();
    let (stop, stopped) = smol::channel::unbounded::<()>();
    thread::scope(|scope| {
        // The end of this scope drops the sender, even after a panic. This ends the threads.
        let _stop = stop;
        for _ in 0..others {
            let until_stopped = || smol::block_on(executor.run(stopped.recv()));
            thread::Builder::new().name("smol".into()).spawn_scoped(scope, until_stopped)?;
        }
        smol::block_on(executor.run(async {
            with_listener!(context.listener, true, TcpListener::try_from, UnixListener::try_from, |next| {
                let limiter = ConnectionLimiter::new(context, tasks)?;
                context.notify_started();
                let next = in_turns(next, smol::future::yield_now);
                let spawn = |open, stream| executor.spawn(serve(open, stream)).detach();
                accept(&limiter, next, spawn, async || _ = Timer::after(REST).await).await
            })
        }))
    })
}

fn serve<T: AsyncRead + AsyncWrite + AsFd + Unpin>(open: Open, stream: T) -> impl Future<Output = ()> {
    let mut timer = open.0.service.check_interval().map(|tick| Box::new(Timer::interval(tick)));
    let write = |stream: Pin<&mut T>, context: &mut Context<'_>, unsent: Unsent<'_>| match unsent.second {
        [] => stream.poll_write(context, unsent.first),
        _ => stream.poll_write_vectored(context, &unsent.slices()),
    };
    let wait = async |until: Option<Instant>| _ = Timer::at(until.unwrap_or_else(Instant::now)).await;
    super::serve(open, stream, T::poll_read, write, smol::future::yield_now, wait, move |context| {
        timer.as_mut().is_some_and(|timer| Pin::new(timer).poll_next(context).is_ready())
    })
}
