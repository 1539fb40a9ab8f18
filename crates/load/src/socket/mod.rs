//! The socket of a connection, with TLS or without.

pub mod tls;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, sockopt};

use tls::{Awaits, Handshake, Session, Tls};

/// A socket. Without TLS, its calls are system calls and nothing else.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    /// The send role and the receive role may be two threads.
    session: Option<Box<Mutex<Session>>>,
}

impl Socket {
    /// Adds TLS to a socket, if the load has TLS.
    pub fn new(fd: OwnedFd, tls: Option<&Tls>) -> io::Result<Self> {
        let session = tls.map(|tls| tls.session().map(|session| Box::new(Mutex::new(session)))).transpose()?;
        Ok(Self { fd, session })
    }

    #[inline]
    pub fn has_tls(&self) -> bool {
        self.session.is_some()
    }

    #[inline]
    fn session(&self) -> Option<MutexGuard<'_, Session>> {
        let session = self.session.as_ref()?;
        Some(session.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Encrypts a request before t2. The next call must be [`Socket::write`] with the same bytes.
    #[inline]
    pub fn encrypt(&self, bytes: &[u8]) {
        if let Some(mut session) = self.session() {
            session.encrypt(bytes);
        }
    }

    /// Writes to the socket. With TLS, [`Errno::AGAIN`] means that a call with the same bytes must follow.
    #[inline]
    pub fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        match self.session() {
            // send(2) and recv(2) take less CPU time than write(2) and read(2), which serve files too.
            None => rustix::net::send(&self.fd, bytes, SendFlags::empty()),
            Some(mut session) => session.write(self.fd.as_fd(), bytes),
        }
    }

    /// Appends bytes of the socket, encrypted if it has TLS, to the inbox. Returns their number.
    #[inline]
    pub fn receive(&self, inbox: &mut Vec<u8>) -> Result<usize, Errno> {
        rustix::net::recv(&self.fd, spare_capacity(inbox), RecvFlags::empty()).map(|(bytes, _)| bytes)
    }

    /// Replaces the bytes read from the socket by their decrypted content, which may be empty. Returns whether the server may
    /// send more.
    #[inline]
    pub fn decrypt(&self, inbox: &mut Vec<u8>) -> io::Result<bool> {
        match self.session() {
            None => Ok(true),
            Some(mut session) => session.decrypt(inbox),
        }
    }

    /// Whether the end of the connection may truncate a response, because TLS has not announced it.
    pub fn is_cut_off(&self) -> bool {
        self.session().is_some_and(|session| !session.has_ended())
    }

    /// Continues to establish a connection, including the TLS handshake, without blocking.
    pub fn establish(&self) -> io::Result<Awaits> {
        sockopt::socket_error(&self.fd)??;
        self.continue_handshake()
    }

    /// Continues the TLS handshake without blocking.
    pub fn continue_handshake(&self) -> io::Result<Awaits> {
        self.session().map_or(Ok(Awaits::Nothing), |mut session| session.continue_handshake(self.fd.as_fd()))
    }

    /// Returns the complete TLS handshake once.
    pub fn take_handshake(&self) -> Option<Handshake> {
        self.session()?.take_handshake()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl From<OwnedFd> for Socket {
    fn from(fd: OwnedFd) -> Self {
        Self { fd, session: None }
    }
}

impl From<Socket> for OwnedFd {
    fn from(socket: Socket) -> Self {
        socket.fd
    }
}
