//! A stand-in for systems without kernel timestamps: [`Stamper`] cannot exist, and requesting one is an error.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;

use crate::config::LoadConfig;
use crate::error::LoadError;
use crate::io::poller::Flags;
use crate::protocol::ClientProtocol;
use crate::record::request::{Shared, Stamp};
use crate::report::samples::KernelFacts;

/// The type has no values.
pub struct Stamping(Infallible);

impl Stamping {
    /// Always fails.
    pub fn switch_on(_config: &LoadConfig, _sockets: &[OwnedFd]) -> Result<Self, LoadError> {
        Err(LoadError::Config("client.timestamps: the kernel's need Linux; use `client`".to_owned()))
    }

    /// Never called.
    pub fn stamper<'a, P: ClientProtocol>(&self, _: &LoadConfig, _: &'a [Stamp], _: Shared<'a, P>) -> Stamper<'a, P> {
        match self.0 {}
    }

    /// Never called.
    pub fn facts(self, _wall_clock_stepped: bool) -> KernelFacts {
        match self.0 {}
    }
}

/// The type has no values.
pub struct Stamper<'a, P: ClientProtocol>(Infallible, PhantomData<(&'a Stamp, &'a P)>);

impl<P: ClientProtocol> Stamper<'_, P> {
    /// Never called.
    pub fn is_all(&mut self, _: Flags, _: usize) -> bool {
        match self.0 {}
    }

    /// Never called.
    pub fn read(&mut self, _io: BorrowedFd<'_>, _inbox: &mut Vec<u8>) -> Result<usize, Errno> {
        match self.0 {}
    }

    /// Never called.
    pub fn arrived(&self, _record: usize) {
        match self.0 {}
    }
}
