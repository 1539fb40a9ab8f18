//! A connection with one deadline for all reads and writes. The system's timeouts apply to each call separately. So a peer that
//! sends one byte at a time could delay the end of a transfer forever.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A connection with a deadline.
pub struct DeadlineStream<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
}

impl<'a> DeadlineStream<'a> {
    /// Sets the deadline to `timeout` from now.
    pub fn within(stream: &'a TcpStream, timeout: Duration) -> Self {
        Self { stream, deadline: Instant::now() + timeout }
    }

    fn time_left(&self) -> io::Result<Option<Duration>> {
        match self.deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(too_late()),
            left => Ok(Some(left)),
        }
    }
}

fn too_late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the deadline has passed")
}

/// Maps `WouldBlock`, which some systems return for a timeout, to `TimedOut`.
fn unify_timeout(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { too_late() } else { error }
}

impl Read for DeadlineStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.time_left()?)?;
        self.stream.read(buffer).map_err(unify_timeout)
    }
}

impl Write for DeadlineStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.time_left()?)?;
        self.stream.write(bytes).map_err(unify_timeout)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use testkit::pair;

    use super::*;

    #[test]
    fn trickle_of_bytes_does_not_extend_the_deadline() {
        let (near, far) = pair();
        // Each byte arrives in time. The thread ends when the peer closes the connection.
        let trickle = thread::spawn(move || {
            while (&far).write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
        });
        let outcome = DeadlineStream::within(&near, Duration::from_millis(300)).read_to_end(&mut Vec::new());
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(near);
        trickle.join().unwrap();
    }

    #[test]
    fn write_to_a_peer_that_does_not_read_times_out() {
        let (near, _far) = pair();
        let outcome = DeadlineStream::within(&near, Duration::from_millis(300)).write_all(&vec![0; 64 << 20]);
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn bytes_before_the_deadline_are_received() {
        let (near, far) = pair();
        DeadlineStream::within(&far, Duration::from_secs(60)).write_all(b"here").unwrap();
        drop(far);
        let mut received = String::new();
        DeadlineStream::within(&near, Duration::from_secs(60)).read_to_string(&mut received).unwrap();
        assert_eq!(received, "here");
    }
}
