//! The socket of a connection, with TLS or without.

mod login;
pub mod tls;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, sockopt};

use crate::config::LoadConfig;
use crate::error::LoadError;
use login::LoginState;
use tls::{Awaits, Handshake, Session, Tls};

/// A socket. Without TLS, its calls are system calls and nothing else.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    /// The send role and the receive role may be two threads.
    session: Option<Box<Mutex<Session>>>,
    login: Option<Box<Mutex<LoginState>>>,
}

/// What begins each connection of a load before its first request: TLS, a login, both or nothing.
pub struct Beginning {
    tls: Option<Tls>,
    /// The requests of the login, with the line that answers each.
    login: Arc<[(Vec<u8>, &'static [u8])]>,
}

impl Beginning {
    pub fn of(config: &LoadConfig) -> Result<Self, LoadError> {
        let login = config.client.login.as_ref().map(|login| login.requests(&config.service)).transpose();
        let login = login.map_err(|error| LoadError::Config(error.to_string()))?.unwrap_or_default().into();
        Ok(Self { tls: Tls::of(config)?, login })
    }
}

impl Socket {
    /// Prepares a socket for the beginning of its connection, which [`Socket::establish`] continues.
    pub fn new(fd: OwnedFd, beginning: &Beginning) -> io::Result<Self> {
        let session = beginning.tls.as_ref().map(|tls| tls.session().map(|session| Box::new(Mutex::new(session))));
        let login = (!beginning.login.is_empty()).then(|| Box::new(LoginState::new(beginning.login.clone()).into()));
        Ok(Self { fd, session: session.transpose()?, login })
    }

    /// Whether the connection has more to do before its first request than to be accepted.
    #[inline]
    pub fn has_handshake(&self) -> bool {
        self.session.is_some() || self.login.is_some()
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

    /// Continues to establish a connection, including its handshake, without blocking.
    pub fn establish(&self) -> io::Result<Awaits> {
        sockopt::socket_error(&self.fd)??;
        self.continue_handshake()
    }

    /// Continues the TLS handshake, and then the login, without blocking.
    pub fn continue_handshake(&self) -> io::Result<Awaits> {
        let awaits = self.session().map(|mut session| session.continue_handshake(self.fd.as_fd())).transpose()?;
        match (awaits.unwrap_or(Awaits::Nothing), &self.login) {
            (Awaits::Nothing, Some(login)) => login.lock().unwrap_or_else(PoisonError::into_inner).proceed(
                |bytes| self.write(bytes),
                |inbox| self.receive(inbox),
                |inbox| self.decrypt(inbox),
            ),
            (awaits, _) => Ok(awaits),
        }
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
        Self { fd, session: None, login: None }
    }
}

impl From<Socket> for OwnedFd {
    fn from(socket: Socket) -> Self {
        socket.fd
    }
}
