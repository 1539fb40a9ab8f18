//! Stand-ins for a testbed, which needs Linux. No value of these types exists.

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

/// A host of a testbed.
#[derive(Clone, Debug)]
pub enum TestbedHost {}

impl TestbedHost {
    /// Unreachable.
    pub fn enter(&self, _command: &mut Command) {
        match *self {}
    }

    /// Unreachable.
    ///
    /// # Errors
    /// None.
    pub fn within<T: Send>(&self, _work: impl FnOnce() -> T + Send) -> io::Result<T> {
        match *self {}
    }

    /// Unreachable.
    pub fn address(&self, _transport: Transport) -> IpAddr {
        match *self {}
    }

    /// Unreachable.
    pub fn sources(&self, _of_first: &[IpAddr]) -> Vec<IpAddr> {
        match *self {}
    }
}

/// A testbed.
pub enum Testbed {}

impl Testbed {
    /// Fails.
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
        bail!("a lab needs Linux; remove the network")
    }

    /// Unreachable.
    pub fn server(&self) -> &TestbedHost {
        match *self {}
    }

    /// Unreachable.
    pub fn clients(&self) -> &[TestbedHost] {
        match *self {}
    }

    /// Unreachable.
    pub fn network(&self) -> &Network {
        match *self {}
    }

    /// Unreachable.
    pub fn applied(&self) -> Applied {
        match *self {}
    }

    /// Unreachable.
    ///
    /// # Errors
    /// None.
    pub fn sources(&self, _config: &LoadConfig) -> Result<Vec<IpAddr>, String> {
        match *self {}
    }

    /// Unreachable.
    ///
    /// # Errors
    /// None.
    pub fn measure(&mut self, _stop: &Stop) -> anyhow::Result<NetworkReport> {
        match *self {}
    }

    /// Unreachable.
    ///
    /// # Errors
    /// None.
    pub fn relay_counts(&mut self) -> anyhow::Result<Option<RelayCounts>> {
        match *self {}
    }
}
