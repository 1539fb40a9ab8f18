//! A lab needs Linux: here are types that nobody can make.

use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use anyhow::bail;
use load::LoadConfig;

use crate::model::network::{Applied, NetworkReport, RelayCounts};
use crate::process::stop::Stop;
use crate::spec::network::Network;
use crate::spec::transport::Transport;

/// No host.
#[derive(Clone, Debug)]
pub enum TestbedHost {}

impl TestbedHost {
    /// Nobody calls it.
    pub fn enter(&self, _command: &mut Command) {
        match *self {}
    }

    /// Nobody calls it.
    ///
    /// # Errors
    /// None.
    pub fn within<T: Send>(&self, _work: impl FnOnce() -> T + Send) -> io::Result<T> {
        match *self {}
    }

    /// Nobody calls it.
    pub fn address(&self, _transport: Transport) -> IpAddr {
        match *self {}
    }

    /// Nobody calls it.
    pub fn sources(&self, _of_the_first: &[IpAddr]) -> Vec<IpAddr> {
        match *self {}
    }
}

/// No lab.
pub enum Testbed {}

impl Testbed {
    /// Makes none.
    ///
    /// # Errors
    /// Always.
    pub fn start(
        _network: &Network,
        _program: &Path,
        _cpus: (&[usize], &[usize]),
        _seed: u64,
        _stop: &Stop,
    ) -> anyhow::Result<Self> {
        bail!("a lab needs Linux; leave the network out")
    }

    /// Nobody calls it.
    pub fn server(&self) -> &TestbedHost {
        match *self {}
    }

    /// Nobody calls it.
    pub fn clients(&self) -> &[TestbedHost] {
        match *self {}
    }

    /// Nobody calls it.
    pub fn network(&self) -> &Network {
        match *self {}
    }

    /// Nobody calls it.
    pub fn applied(&self) -> Applied {
        match *self {}
    }

    /// Nobody calls it.
    ///
    /// # Errors
    /// None.
    pub fn sources(&self, _config: &LoadConfig) -> Result<Vec<IpAddr>, String> {
        match *self {}
    }

    /// Nobody calls it.
    ///
    /// # Errors
    /// None.
    pub fn measure(&mut self, _stop: &Stop) -> anyhow::Result<NetworkReport> {
        match *self {}
    }

    /// Nobody calls it.
    ///
    /// # Errors
    /// None.
    pub fn relay_counts(&mut self) -> anyhow::Result<Option<RelayCounts>> {
        match *self {}
    }
}
