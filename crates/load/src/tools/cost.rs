//! The client's cost per request: its send and receive path, including the kernel's part, without a server.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use wire::ServiceSpec;

use crate::config::{LoadConfig, Timestamps};
use crate::error::LoadError;
use crate::io::platform::Pinned;
use crate::io::poller::{EVENTS_MAX, Events};
use crate::io::stamps::{self, Stamper};
use crate::loops::open::receive::Receiver;
use crate::loops::open::send::Sender;
use crate::protocol::Fixed;
use crate::record::progress::Progress;
use crate::record::request::{Link, Record, Shared, Stamp};
use crate::socket::Socket;
use crate::time::clock::Clock;

/// The number of connections, used in turn.
const CONNECTIONS: u32 = 16;
/// The number of initial requests, which are not measured.
const WARM_UP: usize = 1_000;

/// Measures the mean time to send a request of 128 B and to receive its response of 128 B, in nanoseconds. The calling thread
/// also acts as the server, outside the measured time.
pub fn per_request_ns(timestamps: Timestamps, requests: usize, cpu: Option<usize>) -> Result<f64, LoadError> {
    const BYTES: u32 = 128;
    let failed = |error| LoadError::System { what: "cannot connect to measure the cost per request", error };
    let _pinned = Pinned::to(cpu.as_slice())?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    let target = listener.local_addr().map_err(failed)?;
    let service = ServiceSpec::Fixed { request_bytes: BYTES, response_bytes: BYTES };
    let config = LoadConfig::new(target, service).with(|it| it.client.timestamps = timestamps);
    let clock = Clock::calibrate(config.client.clock)?;

    let (mut sockets, mut peers): (Vec<OwnedFd>, _) = (Vec::new(), Vec::new());
    for _ in 0..CONNECTIONS {
        let stream = TcpStream::connect(target).map_err(failed)?;
        stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true)).map_err(failed)?;
        sockets.push(stream.into());
        peers.push(listener.accept().map_err(failed)?.0);
    }
    let kernel = (timestamps == Timestamps::Kernel).then(|| stamps::enable(&config, &sockets)).transpose()?;
    let sockets: Vec<Arc<Socket>> = sockets.into_iter().map(|fd| Arc::new(Socket::from(fd))).collect();
    let links: Vec<Link> = sockets.iter().map(|_| Link::default()).collect();
    let records: Vec<Record> = (0..(WARM_UP + requests) as u32).map(|at| Record::new(1, at % CONNECTIONS)).collect();
    let stamps: Vec<Stamp> = records.iter().map(|_| Stamp::default()).collect();
    let progress = Progress::default();
    let protocol = &Fixed::new(BYTES, BYTES);
    let (records, links, progress) = (&records[..], &links[..], &progress);
    let shared =
        Shared { clock, protocol, first: 0, records, retries: &[], numbers: &[], links, transfers: &[], progress };
    let stamper = kernel.map(|it| Stamper::new(&config, it.hardware, &stamps, shared));
    let mut sender = Sender::new(shared, &config, &sockets, None);
    let mut receiver = Receiver::new(shared, sockets, stamper, None)?;

    let mut events = Events::with_capacity(EVENTS_MAX);
    let mut receive = |receiver: &mut Receiver<'_, Fixed>| {
        receiver.wait(&mut events, 0);
        for event in events.iter() {
            receiver.handle(event);
        }
    };
    let mut bytes = [0; BYTES as usize];
    let mut ticks = 0;
    for (number, record) in records.iter().enumerate() {
        let peer = &mut peers[record.connection() as usize];
        let before = clock.now();
        sender.send();
        // Receive after each send, as `one_loop` does. This collects kernel timestamps, if enabled.
        receive(&mut receiver);
        let sent = clock.now();
        peer.read_exact(&mut bytes).and_then(|()| peer.write_all(&bytes)).map_err(failed)?;
        let answered = clock.now();
        while record.complete.load(Relaxed) == 0 {
            receive(&mut receiver);
        }
        if number >= WARM_UP {
            ticks += (sent - before) + (clock.now() - answered);
        }
    }
    Ok(clock.between_ns(0, ticks) as f64 / requests as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_is_measured_with_and_without_kernel_timestamps() {
        for timestamps in [Timestamps::Client, Timestamps::Kernel] {
            assert!(per_request_ns(timestamps, 100, None).unwrap() > 0.0);
        }
    }
}
