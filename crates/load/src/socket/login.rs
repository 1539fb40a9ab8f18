//! The login of a connection: requests before the first one of the load, and the lines that answer them.

use std::io;
use std::sync::Arc;

use rustix::io::Errno;

use super::tls::Awaits;
use crate::protocol::own_line;

const READ_BYTES: usize = 4 << 10;
const LINE_BYTES_MAX: usize = 4 << 10;

/// The progress of a login, which sends each request after the answer to the one before.
#[derive(Debug)]
pub struct LoginState {
    requests: Arc<[(Vec<u8>, &'static [u8])]>,
    /// The number of answered requests.
    answered: usize,
    /// The bytes of the current request that the socket has accepted.
    written: usize,
    /// The beginning of the current answer.
    line: Vec<u8>,
}

impl LoginState {
    pub fn new(requests: Arc<[(Vec<u8>, &'static [u8])]>) -> Self {
        Self { requests, answered: 0, written: 0, line: Vec::new() }
    }

    /// Continues the login without blocking, by the calls of its socket. `receive` appends to the inbox, and `decrypt` replaces it.
    pub fn proceed(
        &mut self,
        write: impl Fn(&[u8]) -> Result<usize, Errno>,
        receive: impl Fn(&mut Vec<u8>) -> Result<usize, Errno>,
        decrypt: impl Fn(&mut Vec<u8>) -> io::Result<bool>,
    ) -> io::Result<Awaits> {
        while let Some((request, expected)) = self.requests.get(self.answered) {
            while self.written < request.len() {
                match write(&request[self.written..]) {
                    Ok(count) => self.written += count,
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN | Errno::NOTCONN) => return Ok(Awaits::Writable),
                    Err(error) => return Err(error.into()),
                }
            }
            let mut inbox = Vec::with_capacity(READ_BYTES);
            match receive(&mut inbox) {
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Ok(Awaits::Readable),
                Err(error) => return Err(error.into()),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
            }
            if !decrypt(&mut inbox)? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.line.extend_from_slice(&inbox);
            if self.line.strip_suffix(b"\r\n") == Some(expected) {
                (self.answered, self.written) = (self.answered + 1, 0);
                self.line.clear();
            } else if self.line.contains(&b'\n') || self.line.len() > LINE_BYTES_MAX {
                let why = own_line(&self.line).unwrap_or_else(|| "the server did not answer the login".to_owned());
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
        }
        Ok(Awaits::Nothing)
    }
}
