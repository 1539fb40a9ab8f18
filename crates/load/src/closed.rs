//! A small closed loop: every connection has exactly one request outstanding. It finds the highest rate of a server, and
//! is as lean as such a loop can be, so that the server is the limit.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::io::Errno;

use crate::config::LoadConfig;
use crate::connect;
use crate::error::LoadError;
use crate::platform::Pinned;
use crate::waiter::{Events, Waiter};

/// What a closed loop did.
#[derive(Clone, Copy, Debug)]
pub struct ClosedReport {
    /// Requests completed after the warm-up.
    pub completed: u64,
    /// In this time.
    pub elapsed: Duration,
}

impl ClosedReport {
    /// Requests a second.
    pub fn rate_per_s(&self) -> f64 {
        self.completed as f64 / self.elapsed.as_secs_f64()
    }
}

/// Drives a server with `config`'s target, service, connections, timeout and first CPU, in the calling thread.
///
/// # Errors
/// When connecting fails, or a connection ends.
pub fn drive(config: &LoadConfig, warm_up: Duration, duration: Duration) -> Result<ClosedReport, LoadError> {
    let system = |what| move |error: Errno| LoadError::System { what, error: error.into() };
    let _pinned = Pinned::to(&config.cpus[..config.cpus.len().min(1)])?;
    let (request_bytes, response_bytes) = config.fixed();
    let sockets = connect::connect(config, &mut |_| ())?;
    let waiter = Waiter::new().map_err(system("waiting for responses"))?;
    for (at, socket) in sockets.iter().enumerate() {
        waiter.add(socket.as_fd(), at).map_err(system("waiting for responses"))?;
    }
    let request = vec![0x5a; request_bytes as usize];
    let send = |at: usize| match rustix::io::write(&sockets[at], &request) {
        Ok(count) if count == request.len() => Ok(()),
        Ok(_) => Err(Errno::MSGSIZE),
        Err(error) => Err(error),
    };
    let mut received = vec![0u64; sockets.len()];
    let mut events = Events::with_capacity(1024);
    let mut inbox = Vec::with_capacity(64 << 10);
    let mut completed = 0u64;
    let mut measured: Option<(Instant, u64)> = None;
    let started = Instant::now();
    for at in 0..sockets.len() {
        send(at).map_err(system("a request of the closed loop"))?;
    }
    loop {
        waiter.wait(&mut events, Duration::from_millis(100)).map_err(system("waiting for responses"))?;
        for (at, _) in events.iter() {
            inbox.clear();
            match rustix::io::read(sockets[at].as_fd(), spare_capacity(&mut inbox)) {
                Ok(0) => return Err(system("the server closed a connection")(Errno::CONNRESET)),
                Ok(count) => received[at] += count as u64,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(system("a response of the closed loop")(error)),
            }
            if received[at] >= u64::from(response_bytes) {
                if received[at] > u64::from(response_bytes) {
                    return Err(system("a response of the closed loop was too long")(Errno::PROTO));
                }
                received[at] = 0;
                completed += 1;
                send(at).map_err(system("a request of the closed loop"))?;
            }
        }
        let now = Instant::now();
        match measured {
            None if now - started >= warm_up => measured = Some((now, completed)),
            Some((since, before)) if now - since >= duration => {
                return Ok(ClosedReport { completed: completed - before, elapsed: now - since });
            }
            _ => {}
        }
    }
}
