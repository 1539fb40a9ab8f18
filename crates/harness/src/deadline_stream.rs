//! A connection on which everything has to be said and heard by a deadline. The system's timeouts are of one read or write each,
//! so that who sends a byte now and then would be waited for as long as it likes.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A connection, until a deadline.
pub struct DeadlineStream<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
}

impl<'a> DeadlineStream<'a> {
    /// From now on, for `patience`.
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

/// Systems have another name for it.
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

    /// Both ends of a connection.
    pub(crate) fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn a_trickle_is_not_waited_for() {
        let (near, far) = pair();
        // Each byte comes in time; it ends when nobody listens any more.
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
