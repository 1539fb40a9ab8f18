//! Starts the processes of a trial. Tests use fake processes instead.

use std::path::PathBuf;
use std::process::Command;

use load::LoadConfig;
use load::tools::idle::IdleEvent;
use netns::{Testbed, TestbedHost};
use process::child::{Child, Process};
use process::stop::Stop;
use server::control::ServerEvent;
use wire::secret;

use crate::record::{IdleOrder, Trial};
use crate::spec::ServerSpec;
use crate::spec::network::Network;

/// Starts the processes of a trial except the clients, which a [`crate::clients::Fleet`] starts.
pub trait Launch {
    /// Creates the testbed for a trial.
    fn testbed(&self, network: &Network, trial: &Trial, stop: &Stop) -> anyhow::Result<Testbed>;

    /// Starts a server, on `host` of a testbed or on this machine.
    fn server(&self, config: &ServerSpec, host: Option<&TestbedHost>) -> anyhow::Result<Box<dyn Process<ServerEvent>>>;

    /// Starts a process that holds idle connections, on `host` of a testbed or on this machine.
    fn idle(&self, config: &LoadConfig, host: Option<&TestbedHost>) -> anyhow::Result<Box<dyn Process<IdleEvent>>>;
}

/// Starts each process from the muxbench binary.
#[derive(Clone, Debug)]
pub struct Muxbench {
    /// The path of the binary.
    pub program: PathBuf,
}

impl Muxbench {
    fn command(&self, subcommand: &str, host: Option<&TestbedHost>) -> Command {
        let mut command = Command::new(&self.program);
        command.args([subcommand, "--control"]);
        if let Some(host) = host {
            host.enter(&mut command);
        }
        command
    }
}

impl Launch for Muxbench {
    fn testbed(&self, network: &Network, trial: &Trial, stop: &Stop) -> anyhow::Result<Testbed> {
        Testbed::start(network, &self.program, (trial.serve.cpus(), &trial.client.cpus), trial.client.seed, stop)
    }

    fn server(&self, config: &ServerSpec, host: Option<&TestbedHost>) -> anyhow::Result<Box<dyn Process<ServerEvent>>> {
        Ok(Box::new(Child::start("the server", self.command("serve", host), config)?))
    }

    fn idle(&self, config: &LoadConfig, host: Option<&TestbedHost>) -> anyhow::Result<Box<dyn Process<IdleEvent>>> {
        let order = IdleOrder { config: config.clone(), secrets: secret::Known };
        Ok(Box::new(Child::start("the process of idle connections", self.command("idle", host), &order)?))
    }
}
