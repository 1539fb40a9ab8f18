//! monoio: tasks over io_uring; each thread has its own ring and tasks.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use monoio::buf::{IoBuf, IoVecBuf};
use monoio::io::{AsyncReadRent, AsyncWriteRent};
use monoio::net::{TcpListener, UnixListener};
use monoio::time::TimeDriver;
use monoio::{IoUringDriver, Runtime, RuntimeBuilder};

use super::owned::{self, Unsent};
use super::{ConnectionLimiter, Open, REST, Socket, accept, contain_panic, run_alike, with_listener};
use crate::net::connection::Connect;
use crate::net::{ServerContext, StartSignal};
use crate::platform::io_uring::refusal;
use crate::spec::model::ModelRow;

pub const ROW: ModelRow = ModelRow {
    name: "monoio",
    about: "a task per connection on monoio, in one thread or with :N in N threads, each with its own ring and \
            connections; system calls not counted",
    needs: "io_uring",
    can_run: || runtime().map(drop).map_err(|error| refusal(&error, "Linux 5.6")),
    ..ModelRow::RUNTIME
};

fn runtime() -> io::Result<Runtime<TimeDriver<IoUringDriver>>> {
    RuntimeBuilder::<IoUringDriver>::new().enable_timer().build()
}

/// Runs the server in the calling thread until it is stopped.
pub fn run(context: &ServerContext<'_>, service: Box<dyn Connect>) -> io::Result<()> {
    run_alike("monoio", context, service, run_one)
}

/// Runs the loop of one thread. All threads accept from one listener: the kernel wakes them in turn.
fn run_one(listener: &OwnedFd, limiter: &ConnectionLimiter<'_>, started: &StartSignal<'_>) -> io::Result<()> {
    runtime()?.block_on(async {
        with_listener!(listener, false, TcpListener::from_std, UnixListener::from_std, |next| {
            started.thread_ready();
            let next = async || next().await.map(Socket);
            let spawn = |open, Socket(stream)| drop(monoio::spawn(contain_panic(serve(open, stream))));
            accept(limiter, next, spawn, async || monoio::time::sleep(REST).await).await
        })
    })
}

// SAFETY: the bytes are in a box or belong to the service, so moving this value does not move them.
unsafe impl IoBuf for Unsent {
    fn read_ptr(&self) -> *const u8 {
        self.parts().first.as_ptr()
    }

    fn bytes_init(&self) -> usize {
        self.parts().first.len()
    }
}

/// Both parts of [`Unsent`] as the kernel's list.
struct Parts(Unsent, Box<[libc::iovec; 2]>);

impl Parts {
    fn new(unsent: Unsent) -> Self {
        let parts = unsent.parts();
        let part = |bytes: &[u8]| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let list = [parts.first, parts.second].map(part);
        Self(unsent, Box::new(list))
    }
}

// SAFETY: the list is in a box, and so are the bytes, or they belong to the service.
unsafe impl IoVecBuf for Parts {
    fn read_iovec_ptr(&self) -> *const libc::iovec {
        self.1.as_ptr()
    }

    fn read_iovec_len(&self) -> usize {
        self.1.len()
    }
}

/// Serves one connection to its end.
async fn serve(open: Open, stream: impl AsyncReadRent + AsyncWriteRent + AsRawFd) {
    // SAFETY: the stream lives until the connection has ended.
    let io = unsafe { BorrowedFd::borrow_raw(stream.as_raw_fd()) };
    owned::serve(
        open,
        stream,
        io,
        async |stream, buffer| stream.read(buffer).await,
        async |stream, unsent| match unsent.parts().second {
            [] => stream.write(unsent).await,
            _ => {
                let (written, Parts(unsent, _)) = stream.writev(Parts::new(unsent)).await;
                (written, unsent)
            }
        },
        |time| Box::pin(monoio::time::sleep(time)),
    )
    .await;
}
