//! glommio: tasks over io_uring; each thread has its own rings, tasks and listener.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_io::{AsyncRead, AsyncWrite};
use glommio::net::{TcpListener, TcpStream};
use glommio::timer::{Timer, sleep};
use glommio::{LocalExecutor, LocalExecutorBuilder, Placement, Task};
use io_uring::{IoUring, Probe};

use super::{ConnectionLimiter, Open, REST, Socket, accept, contain_panic, duplicate, in_turns, run_alike};
use crate::net::connection::Connect;
use crate::net::{ServerContext, StartSignal};
use crate::platform::io_uring::refusal;
use crate::spec::model::ModelRow;

pub const ROW: ModelRow = ModelRow {
    name: "glommio",
    about: "a task per connection on glommio, in one thread or with :N in N threads, each with its own rings, listener \
            (SO_REUSEPORT) and connections; system calls not counted",
    has_own_listeners: true,
    needs: "io_uring",
    can_run,
    ..ModelRow::RUNTIME
};

/// A pause of a loop that other tasks need, in which glommio runs other tasks and submits to its rings. A yield only runs tasks.
const TURN: Duration = Duration::from_micros(10);

fn can_run() -> Result<(), String> {
    runtime().map(drop).map_err(|error| match error.raw_os_error() {
        Some(_) => refusal(&error, "Linux 5.6"),
        None => format!("glommio needs 512 KiB of locked memory ({error}); raise the limit (ulimit -l)"),
    })
}

/// Makes the runtime of one thread. Without io_uring glommio would panic, and on a kernel before Linux 5.6 it would end the process.
/// Such a kernel also rejects the probe.
fn runtime() -> io::Result<LocalExecutor> {
    IoUring::new(1)?.submitter().register_probe(&mut Probe::new())?;
    Ok(LocalExecutorBuilder::new(Placement::Unbound).make()?)
}

/// Runs the server in the calling thread until it is stopped.
pub fn run(context: &ServerContext<'_>, service: Box<dyn Connect>) -> io::Result<()> {
    run_alike("glommio", context, service, run_one)
}

/// Runs the loop of one thread. Threads must not share a listener: an accept switches O_NONBLOCK of the listener on and off, so an
/// accept of another thread could block.
fn run_one(listener: &OwnedFd, limiter: &ConnectionLimiter<'_>, started: &StartSignal<'_>) -> io::Result<()> {
    runtime()?.run(async {
        let listener = duplicate(listener, false)?.into_raw_fd();
        // It also accepts from a Unix socket: glommio's `UnixListener` cannot be made from a descriptor.
        // SAFETY: the new listener owns the descriptor.
        let listener = unsafe { TcpListener::from_raw_fd(listener) };
        started.thread_ready();
        let next = in_turns(async || Ok(Socket(listener.accept().await?)), async || sleep(TURN).await);
        // The tasks of open connections by their descriptors. Dropping the runtime would not end them.
        let tasks: Rc<RefCell<HashMap<RawFd, Task<()>>>> = Rc::default();
        let spawn = |open, stream: Socket<TcpStream>| {
            let (descriptor, open_tasks) = (stream.0.as_raw_fd(), tasks.clone());
            let task = glommio::spawn_local(async move {
                contain_panic(serve(open, stream)).await;
                open_tasks.borrow_mut().remove(&descriptor);
            });
            tasks.borrow_mut().insert(descriptor, task);
        };
        let ended = accept(limiter, next, spawn, async || sleep(REST).await).await;
        for task in tasks.take().into_values() {
            task.cancel().await;
        }
        ended
    })
}

/// Serves one connection to its end.
fn serve(open: Open, stream: Socket<TcpStream>) -> impl Future<Output = ()> {
    let mut timer = open.0.service.check_interval().map(|tick| (Timer::new(tick), tick));
    super::serve(
        open,
        stream,
        |mut stream, context, buffer| Pin::new(&mut stream.0).poll_read(context, buffer),
        // glommio has no vectored writes.
        |mut stream, context, unsent| Pin::new(&mut stream.0).poll_write(context, unsent.first),
        || sleep(TURN),
        async |until: Option<Instant>| {
            sleep(until.unwrap_or_else(Instant::now).saturating_duration_since(Instant::now())).await;
        },
        move |context| {
            timer.as_mut().is_some_and(|(timer, tick)| {
                let is_time = Pin::new(&mut *timer).poll(context).is_ready();
                if is_time {
                    timer.reset(*tick);
                }
                is_time
            })
        },
    )
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;
    use crate::Architecture;
    use crate::net::testkit::{Echo, Fixture};

    #[test]
    fn stop_ends_open_connections_of_every_thread() {
        let fixture = Fixture::new();
        let server = fixture.start("glommio", Some(2), |context| run(context, Box::new(Echo(|_: &[u8]| {}))));
        let mut clients: Vec<_> = (0..16).map(|_| fixture.connect()).collect();
        for client in &mut clients {
            client.write_all(b"?").unwrap();
            client.read_exact(&mut [0]).unwrap();
        }
        server.stop().unwrap();
        assert_eq!(fixture.workers.connections_open(), 0);
        clients.iter_mut().for_each(|client| assert_eq!(client.read(&mut [0]).unwrap(), 0));
    }

    #[test]
    fn only_one_thread_can_serve_a_unix_socket() {
        let can_listen = |name: &str| name.parse::<Architecture>().unwrap().can_listen(&"unix:/s".parse().unwrap());
        assert_eq!(can_listen("glommio").and(can_listen("glommio:1")), Ok(()));
        assert!(can_listen("glommio:2").unwrap_err().contains("choose glommio"));
    }
}
