//! Flags of the CPUs of a staged server's threads.

use harness::experiment::Server;
use harness::units::Cpus;

/// Where the threads of each stage run, of models in stages.
#[derive(Debug, clap::Args)]
pub struct StageArgs {
    /// CPUs of the accept thread, among the server's [default: all of them]
    #[arg(long, value_name = "CPUS")]
    accept_cpus: Option<Cpus>,
    /// CPUs of the network threads
    #[arg(long, value_name = "CPUS")]
    network_cpus: Option<Cpus>,
    /// CPUs of the payload threads
    #[arg(long, value_name = "CPUS")]
    payload_cpus: Option<Cpus>,
}

impl StageArgs {
    /// Puts what was said in place of what was there.
    pub fn apply(&self, server: &mut Server) {
        let stages = [
            (&self.accept_cpus, &mut server.accept_cpus),
            (&self.network_cpus, &mut server.network_cpus),
            (&self.payload_cpus, &mut server.payload_cpus),
        ];
        for (said, cpus) in stages {
            if said.is_some() {
                cpus.clone_from(said);
            }
        }
    }
}
