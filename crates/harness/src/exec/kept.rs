//! The external servers that a search keeps from one probe to the next: each probe would otherwise begin with a cold server.

use process::folder::PrivateFolder;
use server::Snapshot;

use super::server::{Listening, RunningServer};
use crate::record::WarmUp;
use crate::spec::ServerSpec;

/// A server that has started, with everything that lasts as long.
pub(super) struct StartedServer {
    pub(super) running: RunningServer,
    /// `None` until the server listens.
    pub(super) listening: Option<Listening>,
    /// Exists until the server has ended, and is removed with everything in it.
    pub(super) folder: Option<PrivateFolder>,
    pub(super) warm_up: Option<WarmUp>,
    /// The counters before and after the first connections, before a warm-up. Later ones reuse their memory.
    pub(super) first_connections: Option<[Snapshot; 2]>,
}

/// The kept servers, each with the configuration that it was planned with.
#[derive(Default)]
pub(super) struct KeptServers(Vec<(ServerSpec, StartedServer)>);

impl KeptServers {
    pub(super) fn keep(&mut self, planned: &ServerSpec, server: StartedServer) {
        self.0.push((planned.clone(), server));
    }

    /// Returns a kept server that still runs.
    pub(super) fn take(&mut self, planned: &ServerSpec) -> Option<StartedServer> {
        let at = self.0.iter().position(|(kept, _)| kept == planned)?;
        let (_, mut server) = self.0.swap_remove(at);
        if !server.running.process.has_ended() {
            return Some(server);
        }
        end(planned, server);
        self.take(planned)
    }

    /// Ends the servers with this configuration.
    pub(super) fn end(&mut self, planned: &ServerSpec) {
        self.0.extract_if(.., |(kept, _)| kept == planned).for_each(|(planned, server)| end(&planned, server));
    }
}

impl Drop for KeptServers {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|(planned, server)| end(&planned, server));
    }
}

/// Ends a server. One that failed after its last probe does not fail a trial.
fn end(planned: &ServerSpec, mut server: StartedServer) {
    server.running.process.end();
    let _ = end_leftovers(planned, &server.running);
}

/// Ends the processes that an external server left behind: a killed supervisor cannot end them.
pub(super) fn end_leftovers(planned: &ServerSpec, server: &RunningServer) -> anyhow::Result<()> {
    #[cfg(target_os = "linux")]
    if matches!(planned, ServerSpec::External(_)) {
        return super::leftovers::end_all_of(server.process.pid());
    }
    let _ = (planned, server);
    Ok(())
}
