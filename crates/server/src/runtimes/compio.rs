//! compio: tasks over io_uring; each thread has its own ring and tasks.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use compio::buf::{IoBuf, IoVectoredBuf};
use compio::io::{AsyncRead, AsyncWrite};
use compio::net::{TcpListener, UnixListener};
use compio::runtime::Runtime;

use super::owned::{self, Unsent};
use super::{ConnectionLimiter, Open, REST, accept, run_alike, with_listener};
use crate::net::connection::Connect;
use crate::net::{ServerContext, StartSignal};
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
pub fn run(context: &ServerContext<'_>, service: Box<dyn Connect>) -> io::Result<()> {
    run_alike("compio", context, service, run_one)
}

/// Runs the loop of one thread. All threads accept from one listener: the kernel wakes them in turn.
fn run_one(listener: &OwnedFd, limiter: &ConnectionLimiter<'_>, started: &StartSignal<'_>) -> io::Result<()> {
    Runtime::new()?.block_on(async {
        with_listener!(listener, false, TcpListener::from_std, UnixListener::from_std, |next| {
            started.thread_ready();
            let spawn = |open, stream| compio::runtime::spawn(serve(open, stream)).detach();
            accept(limiter, next, spawn, async || compio::time::sleep(REST).await).await
        })
    })
}

impl IoBuf for Unsent {
    fn as_init(&self) -> &[u8] {
        self.parts().first
    }
}

impl IoVectoredBuf for Unsent {
    fn iter_slice(&self) -> impl Iterator<Item = &[u8]> {
        let parts = self.parts();
        [parts.first, parts.second].into_iter()
    }
}

/// Serves one connection to its end.
async fn serve(open: Open, stream: impl AsyncRead + AsyncWrite + AsFd + Clone) {
    // A second handle of the socket, for calls other than reads and writes.
    let socket = stream.clone();
    owned::serve(
        open,
        stream,
        socket.as_fd(),
        async |stream, buffer| stream.read(buffer).await.into(),
        async |stream, unsent| match unsent.parts().second {
            [] => stream.write(unsent).await.into(),
            _ => stream.write_vectored(unsent).await.into(),
        },
        |time| Box::pin(compio::time::sleep(time)),
    )
    .await;
}
