//! Stand-ins for a testbed, which needs Linux. No value of these types exists.

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use anyhow::bail;
use load::LoadConfig;
use process::stop::Stop;

use crate::network::Network;
use crate::record::{Applied, NetworkRecord, RelayCounts};

/// Defines methods of a type without values.
macro_rules! unreachable_methods {
    ($type:ty: $($name:ident($self:ty $(, $argument:ty)*) -> $result:ty;)*) => {
        impl $type {
            $(
                /// Unreachable.
                pub fn $name(self: $self $(, _: $argument)*) -> $result {
                    match *self {}
                }
            )*
        }
    };
}

/// Refuses: a lab needs Linux.
pub fn can_suspend() -> Result<(), String> {
    Err("a lab needs Linux; omit `suspend`".into())
}

/// A host of a testbed.
#[derive(Clone, Debug)]
pub enum TestbedHost {}

unreachable_methods! { TestbedHost:
    enter(&Self, &mut Command) -> ();
    sources(&Self, &[IpAddr]) -> Vec<IpAddr>;
}

/// A testbed.
pub enum Testbed {}

unreachable_methods! { Testbed:
    server(&Self) -> &TestbedHost;
    clients(&Self) -> &[TestbedHost];
    network(&Self) -> &Network;
    applied(&Self) -> Applied;
    suspend(&mut Self, u64) -> anyhow::Result<()>;
    sources(&Self, &LoadConfig) -> Result<Vec<IpAddr>, String>;
    measure(&mut Self, &Stop) -> anyhow::Result<NetworkRecord>;
    relay_counts(&mut Self) -> anyhow::Result<Option<RelayCounts>>;
}

impl Testbed {
    /// Fails.
    pub fn start(_: &Network, _: &Path, _: (&[usize], &[usize]), _seed: u64, _: &Stop) -> anyhow::Result<Self> {
        bail!("a lab needs Linux; remove the network")
    }
}
