//! The client's wait for many sockets: one interface over epoll and kqueue.

#[cfg(target_os = "linux")]
mod epoll;
#[cfg(not(target_os = "linux"))]
mod kqueue;

#[cfg(target_os = "linux")]
pub use epoll::{Events, Flags, Poller};
#[cfg(not(target_os = "linux"))]
pub use kqueue::{Events, Flags, Poller};

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
    fn what_is_unread_is_reported_until_it_is_forgotten() {
        let (poller, mut events) = (Poller::new().unwrap(), Events::with_capacity(8));
        let pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
        pairs.iter().enumerate().for_each(|(at, (ours, _))| poller.add(ours.as_fd(), at).unwrap());
        assert_eq!(ready(&poller, &mut events), []);
        (&pairs[1].1).write_all(b"x").unwrap();
        (&pairs[2].1).write_all(b"x").unwrap();
        assert_eq!(ready(&poller, &mut events), [1, 2]);
        poller.sleep_precise(1_000_000);
        (&pairs[1].0).read_exact(&mut [0]).unwrap();
        assert_eq!(ready(&poller, &mut events), [2], "a sleep_precise takes nothing, and what is unread stays");
        poller.remove(pairs[2].0.as_fd());
        assert_eq!(ready(&poller, &mut events), []);
    }

    #[test]
    fn room_is_waited_for_instead_of_bytes_and_back() {
        let (poller, mut events) = (Poller::new().unwrap(), Events::with_capacity(8));
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        poller.add(ours.as_fd(), 5).unwrap();
        (&theirs).write_all(b"x").unwrap();
        assert_eq!(ready(&poller, &mut events), [5]);

        // Unread bytes do not count while the socket waits for room; room counts until it is used up.
        while (&ours).write(&[0; 4096]).is_ok() {}
        poller.watch_writable(ours.as_fd(), 5).unwrap();
        assert_eq!(ready(&poller, &mut events), []);
        theirs.set_nonblocking(true).unwrap();
        while (&theirs).read(&mut [0; 4096]).is_ok() {}
        for _ in 0..2 {
            assert_eq!(ready(&poller, &mut events), [5], "until it is used up");
        }

        // The socket now waits for bytes again.
        poller.watch_readable(ours.as_fd(), 5).unwrap();
        assert_eq!(ready(&poller, &mut events), [5]);
        (&ours).read_exact(&mut [0]).unwrap();
        assert_eq!(ready(&poller, &mut events), []);

        // A socket that is always writable, and no longer needed.
        poller.watch_writable(ours.as_fd(), 5).unwrap();
        assert_eq!(ready(&poller, &mut events), [5]);
        poller.remove(ours.as_fd());
        assert_eq!(ready(&poller, &mut events), []);
    }

    #[test]
    fn a_doze_is_no_shorter_than_asked() {
        let poller = Poller::new().unwrap();
        let started = Instant::now();
        poller.sleep_precise(3_000_000);
        assert!(started.elapsed() >= Duration::from_millis(3));
    }
}
