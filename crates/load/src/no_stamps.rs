//! Where no kernel stamps what is sent: nobody has a [`Stamper`], and who asks for one is told why.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;

use crate::config::{LoadConfig, Timestamps};
use crate::error::LoadError;
use crate::record::{Shared, Stamp};
use crate::speak::Speak;
use crate::summary::KernelFacts;
use crate::waiter::Flags;

/// Whether what `config` asks for can be had.
///
/// # Errors
/// Why not.
pub fn check(config: &LoadConfig) -> Result<(), String> {
    match config.timestamps {
        Timestamps::Client => Ok(()),
        Timestamps::Kernel => Err("timestamps: the kernel's (SO_TIMESTAMPING) need Linux; use client".to_owned()),
    }
}

/// There is none.
pub struct Stamping(Infallible);

impl Stamping {
    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub fn switch_on(config: &LoadConfig, _sockets: &[OwnedFd]) -> Result<Self, LoadError> {
        Err(LoadError::Config(check(config).expect_err("there are none")))
    }

    /// Never called.
    pub fn stamper<'a, S: Speak>(&self, _: &LoadConfig, _: &'a [Stamp], _: Shared<'a, S>) -> Stamper<'a, S> {
        match self.0 {}
    }

    /// Never called.
    pub fn facts(self, _wall_clock_stepped: bool) -> KernelFacts {
        match self.0 {}
    }
}

/// There is none.
pub struct Stamper<'a, S: Speak>(Infallible, PhantomData<(&'a Stamp, &'a S)>);

impl<S: Speak> Stamper<'_, S> {
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
