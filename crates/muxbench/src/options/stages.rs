//! Flags of the CPUs of a staged server's threads.

use harness::spec::Server;
use harness::spec::units::Cpus;

/// CPUs of each stage.
#[derive(Debug, clap::Args)]
pub struct StageArgs {
    /// CPUs of the accept thread of a staged server, a subset of the server's [default: all of them]
    #[arg(long, value_name = "CPUS")]
    accept_cpus: Option<Cpus>,
    /// CPUs of its network threads
    #[arg(long, value_name = "CPUS")]
    network_cpus: Option<Cpus>,
    /// CPUs of its payload threads
    #[arg(long, value_name = "CPUS")]
    payload_cpus: Option<Cpus>,
}

impl StageArgs {
    /// Overwrites the CPUs with flags that the user gave.
    pub fn apply(&self, server: &mut Server) {
        let stages = [
            (&self.accept_cpus, &mut server.accept_cpus),
            (&self.network_cpus, &mut server.network_cpus),
            (&self.payload_cpus, &mut server.payload_cpus),
        ];
        for (flag, cpus) in stages.into_iter().filter(|(flag, _)| flag.is_some()) {
            cpus.clone_from(flag);
        }
    }
}
