//! The placement of the client's threads on CPUs, and the resolution of `auto`.

use std::thread::{self, Scope, ScopedJoinHandle};

use crate::config::{LoadConfig, Pacing, Roles};
use crate::error::LoadError;
use crate::io::platform::{self, Pinned};

/// Resolves `auto`: returns the roles and the pacing to use.
pub fn resolve(config: &LoadConfig) -> (Roles, Pacing) {
    let cpus = cpus(config);
    let clients = config.client.clients as usize;
    let roles = match config.client.roles {
        // The loop that reads a response knows that its connection is free.
        Roles::Auto if config.no_overlap() => Roles::OneLoop,
        Roles::Auto if cpus >= 2 * clients => Roles::TwoThreads,
        Roles::Auto => Roles::OneLoop,
        roles => roles,
    };
    let threads = if roles == Roles::TwoThreads { 2 * clients } else { clients };
    let pacing = match config.client.pacing {
        // The server may be on the same CPU, and spinning would block it.
        Pacing::Auto if config.client.cpus.is_empty() => Pacing::SleepSpin,
        Pacing::Auto if threads > cpus => Pacing::Yield,
        Pacing::Auto => Pacing::Spin,
        pacing => pacing,
    };
    (roles, pacing)
}

/// Returns the CPUs of threads that only react to events, unless a spinning thread shares the CPU; `None` is any CPU.
///
/// Returns no CPU for an interleaved trial: a meter would wake during other contestants' slices, and count them as stalls.
pub fn sleeping_cpus(config: &LoadConfig, roles: Roles, pacing: Option<Pacing>) -> Vec<Option<usize>> {
    if config.client.slices.is_some() {
        return Vec::new();
    }
    let all = &config.client.cpus;
    let clients = config.client.clients as usize;
    let on = |thread: usize| all[thread % all.len()];
    let mut cpus: Vec<usize> = match (roles, pacing) {
        (_, None) if all.is_empty() => return vec![None],
        (Roles::TwoThreads, Some(Pacing::SleepSpin)) if all.is_empty() => return vec![None],
        _ if all.is_empty() => Vec::new(),
        (_, None) => (0..clients).map(on).collect(),
        (Roles::TwoThreads, Some(pacing)) => {
            let receive = (0..clients).map(|client| on(2 * client + 1));
            let is_spun_on = |cpu: &usize| pacing != Pacing::SleepSpin && (0..clients).any(|it| on(2 * it) == *cpu);
            receive.filter(|cpu| !is_spun_on(cpu)).collect()
        }
        _ => Vec::new(),
    };
    cpus.sort_unstable();
    cpus.dedup();
    cpus.into_iter().map(Some).collect()
}

/// Returns the number of CPUs that the client's threads may use.
pub fn cpus(config: &LoadConfig) -> usize {
    match config.client.cpus.len() {
        0 => platform::cpus(),
        count => count,
    }
}

/// Returns the CPU of a thread, by its number, if the client has its own CPUs.
pub fn cpu_of(config: &LoadConfig, thread: usize) -> Option<usize> {
    config.client.cpus.get(thread % config.client.cpus.len().max(1)).copied()
}

pub fn start_thread<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: String,
    cpu: Option<usize>,
    run: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, LoadError> {
    let _pinned = Pinned::to(cpu.as_slice())?;
    let started = thread::Builder::new().name(name).spawn_scoped(scope, run);
    started.map_err(|error| LoadError::System { what: "cannot start a thread of the client", error })
}
