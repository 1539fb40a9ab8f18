//! A connection with one deadline for all reads and writes. The system's timeouts apply to each call separately, so a
//! peer that sends a byte now and then could delay the end forever.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A connection with a deadline.
pub struct DeadlineStream<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
}

impl<'a> DeadlineStream<'a> {
    /// Sets the deadline to `patience` from now.
    pub fn within(stream: &'a TcpStream, patience: Duration) -> Self {
        Self { stream, deadline: Instant::now() + patience }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        match self.deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(too_late()),
            left => Ok(Some(left)),
        }
    }
}

fn too_late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it takes longer than it may")
}

/// Maps `WouldBlock`, which some systems return for a timeout, to `TimedOut`.
fn named(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { too_late() } else { error }
}

impl Read for DeadlineStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(buffer).map_err(named)
    }
}

impl Write for DeadlineStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;

    use super::*;

    /// Returns both ends of a new connection.
    pub(crate) fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn a_trickle_is_not_waited_for() {
        let (near, far) = pair();
        // Each byte arrives in time. The thread ends when the peer closes the connection.
        let trickle = thread::spawn(move || {
            while (&far).write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
        });
        let mut said = Vec::new();
        let heard = DeadlineStream::within(&near, Duration::from_millis(300)).read_to_end(&mut said);
        assert_eq!(heard.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(near);
        trickle.join().unwrap();
    }

    #[test]
    fn who_does_not_listen_is_not_waited_for() {
        let (near, _far) = pair();
        let said = DeadlineStream::within(&near, Duration::from_millis(300)).write_all(&vec![0; 64 << 20]);
        assert_eq!(said.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn what_comes_in_time_is_heard() {
        let (near, far) = pair();
        DeadlineStream::within(&far, Duration::from_secs(60)).write_all(b"here").unwrap();
        drop(far);
        let mut said = String::new();
        DeadlineStream::within(&near, Duration::from_secs(60)).read_to_string(&mut said).unwrap();
        assert_eq!(said, "here");
    }
}
