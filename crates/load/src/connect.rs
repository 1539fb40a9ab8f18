//! Connections, each verified: established, and served one whole response.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use rustix::process::{Resource, Rlimit};
use wire::ServiceSpec;

use crate::class::Class;
use crate::config::LoadConfig;
use crate::error::LoadError;

/// Connections in progress at once: few enough for any server's backlog.
const WINDOW: u32 = 128;

/// How often progress is reported.
const PROGRESS: Duration = Duration::from_millis(200);

/// Opens and verifies all of `config.connections`; `progress` is told how many are done.
///
/// # Errors
/// The first connection that cannot be made or is not served: a trial with fewer would be another trial.
pub fn connect(config: &LoadConfig, progress: &mut dyn FnMut(u32)) -> Result<Vec<OwnedFd>, LoadError> {
    raise_descriptor_limit();
    let ServiceSpec::Fixed { request_bytes, response_bytes } = config.service;
    let request = vec![0; request_bytes as usize];
    let mut response = vec![0; response_bytes as usize];
    let timeout = Duration::from_nanos(config.timeout_ns);
    let mut streams: Vec<TcpStream> = Vec::with_capacity(config.connections as usize);
    let mut reported = Instant::now();
    while (streams.len() as u32) < config.connections {
        let verified = streams.len();
        let target = (verified as u32 + WINDOW).min(config.connections) as usize;
        while streams.len() < target {
            let stream = open(config, timeout, &request).map_err(|error| failed(config, streams.len(), error))?;
            streams.push(stream);
        }
        for (number, stream) in streams.iter_mut().enumerate().skip(verified) {
            verify(stream, &mut response).map_err(|error| failed(config, number, error))?;
        }
        if reported.elapsed() >= PROGRESS {
            reported = Instant::now();
            progress(streams.len() as u32);
        }
    }
    Ok(streams.into_iter().map(OwnedFd::from).collect())
}

fn open(config: &LoadConfig, timeout: Duration, request: &[u8]) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&config.target, timeout)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    stream.write_all(request)?;
    // A reset at the end leaves no connection in TIME_WAIT, so that the next trial finds the ports free.
    sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
    Ok(stream)
}

fn verify(stream: &mut TcpStream, response: &mut [u8]) -> io::Result<()> {
    stream.read_exact(response)?;
    stream.set_nonblocking(true)
}

fn failed(config: &LoadConfig, index: usize, error: io::Error) -> LoadError {
    let class = Class::of(&error);
    let remedy = match class {
        Class::Refused => "is the server running there?",
        Class::NoDescriptors => "raise the hard limit of descriptors (ulimit -Hn), or lower the connections",
        Class::NoAddresses => "widen net.ipv4.ip_local_port_range, or lower the connections",
        Class::Timeout => "the server did not answer: raise the timeout, or lower the connections",
        _ => "does the server speak this service, with these sizes, and has it room for this many connections?",
    };
    LoadError::Connect {
        number: index as u32 + 1,
        total: config.connections,
        target: config.target.to_string(),
        class: class.name(),
        error,
        remedy,
    }
}

/// To the hard limit. Whether that is enough is checked when the plan is made, and by each connection.
fn raise_descriptor_limit() {
    let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
