//! The client's wait for many sockets: one interface over epoll and kqueue.

use std::os::fd::BorrowedFd;

use rustix::io;

use crate::socket::tls::Awaits;

#[cfg(target_os = "linux")]
mod epoll;
#[cfg(not(target_os = "linux"))]
mod kqueue;

#[cfg(target_os = "linux")]
pub use epoll::{Events, Flags, Poller};
#[cfg(not(target_os = "linux"))]
pub use kqueue::{Events, Flags, Poller};

impl Poller {
    /// Waits for bytes of the new socket `number`.
    pub fn add(&self, io: BorrowedFd<'_>, number: usize) -> io::Result<()> {
        self.watch(io, number, Awaits::Nothing, Awaits::Readable)
    }
}

/// The most events of one wait in any loop.
pub const EVENTS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::time::{Duration, Instant};

    use super::*;

    fn ready(poller: &Poller, events: &mut Events) -> Vec<usize> {
        poller.wait(events, Duration::ZERO).unwrap();
        let mut ready: Vec<usize> = events.iter().map(|(number, _)| number).collect();
        ready.sort_unstable();
        ready
    }

    #[test]
    fn unread_bytes_are_reported_until_removal() {
        let (poller, mut events) = (Poller::new().unwrap(), Events::with_capacity(8));
        let pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
        pairs.iter().enumerate().for_each(|(at, (own, _))| poller.add(own.as_fd(), at).unwrap());
        assert!(ready(&poller, &mut events).is_empty());
        (&pairs[1].1).write_all(b"x").unwrap();
        (&pairs[2].1).write_all(b"x").unwrap();
        assert_eq!(ready(&poller, &mut events), [1, 2]);
        poller.sleep_precise(1_000_000);
        (&pairs[1].0).read_exact(&mut [0]).unwrap();
        assert_eq!(ready(&poller, &mut events), [2], "unread bytes stay, and a sleep consumes no event");
        poller.remove(pairs[2].0.as_fd());
        assert!(ready(&poller, &mut events).is_empty());
    }

    #[test]
    fn interest_changes_between_reading_and_writing() {
        let (poller, mut events) = (Poller::new().unwrap(), Events::with_capacity(8));
        let (own, peer) = UnixStream::pair().unwrap();
        own.set_nonblocking(true).unwrap();
        poller.add(own.as_fd(), 5).unwrap();
        (&peer).write_all(b"x").unwrap();
        assert_eq!(ready(&poller, &mut events), [5]);

        // While the socket waits for room, unread bytes are not reported. Room is reported until it is used up.
        while (&own).write(&[0; 4096]).is_ok() {}
        poller.watch(own.as_fd(), 5, Awaits::Readable, Awaits::Writable).unwrap();
        assert!(ready(&poller, &mut events).is_empty());
        peer.set_nonblocking(true).unwrap();
        while (&peer).read(&mut [0; 4096]).is_ok() {}
        for _ in 0..2 {
            assert_eq!(ready(&poller, &mut events), [5], "a writable socket is reported repeatedly");
        }

        // The socket now waits for bytes again.
        poller.watch(own.as_fd(), 5, Awaits::Writable, Awaits::Readable).unwrap();
        assert_eq!(ready(&poller, &mut events), [5]);
        (&own).read_exact(&mut [0]).unwrap();
        assert!(ready(&poller, &mut events).is_empty());

        // Removal ends the reports of a writable socket.
        poller.watch(own.as_fd(), 5, Awaits::Readable, Awaits::Writable).unwrap();
        assert_eq!(ready(&poller, &mut events), [5]);
        poller.remove(own.as_fd());
        assert!(ready(&poller, &mut events).is_empty());
    }

    #[test]
    fn precise_sleep_is_not_too_short() {
        let poller = Poller::new().unwrap();
        let started = Instant::now();
        poller.sleep_precise(3_000_000);
        assert!(started.elapsed() >= Duration::from_millis(3));
    }
}
