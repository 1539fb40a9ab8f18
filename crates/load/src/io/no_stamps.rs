//! A stand-in for systems without kernel timestamps: a [`Stamper`] cannot exist, because enabling timestamps always fails.

use std::convert::Infallible;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;

use crate::config::LoadConfig;
use crate::error::LoadError;
use crate::io::poller::Flags;
use crate::protocol::ClientProtocol;
use crate::record::request::{Head, Shared, Stamp};
use crate::result::Hardware;
use crate::result::samples::KernelFacts;

pub(crate) fn enable(_config: &LoadConfig, _sockets: &[impl AsFd]) -> Result<KernelFacts, LoadError> {
    Err(LoadError::Config(
        "client.timestamps: kernel timestamps (SO_TIMESTAMPING) need Linux; set timestamps = \"client\"".to_owned(),
    ))
}

pub(crate) struct Stamper<'a, P: ClientProtocol>(Infallible, PhantomData<(&'a Stamp, &'a P)>);

impl<'a, P: ClientProtocol> Stamper<'a, P> {
    pub fn new(_: &LoadConfig, _: Hardware, _: &'a [Stamp], _: Shared<'a, P>) -> Self {
        unreachable!("kernel timestamps are not enabled")
    }

    pub fn is_all(&mut self, _: Flags, _: usize, _: BorrowedFd<'_>) -> bool {
        match self.0 {}
    }

    pub fn restart(&mut self, _: usize, _: BorrowedFd<'_>, _: Head) -> io::Result<()> {
        match self.0 {}
    }

    pub fn read(&mut self, _io: BorrowedFd<'_>, _inbox: &mut Vec<u8>) -> Result<usize, Errno> {
        match self.0 {}
    }

    pub fn arrived(&self, _record: usize) {
        match self.0 {}
    }
}
