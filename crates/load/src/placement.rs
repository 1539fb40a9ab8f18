//! What `auto` stands for on the CPUs that the client's threads run on.

use crate::config::{LoadConfig, Pacing, Roles};
use crate::platform;

/// What `auto` stands for: the roles and the pacing to use. The one place where this is decided.
pub fn resolve(config: &LoadConfig) -> (Roles, Pacing) {
    let cpus = cpus(config);
    let clients = config.clients as usize;
    let roles = match config.roles {
        Roles::Auto if cpus >= 2 * clients => Roles::TwoThreads,
        Roles::Auto => Roles::OneLoop,
        roles => roles,
    };
    let threads = if roles == Roles::TwoThreads { 2 * clients } else { clients };
    let pacing = match config.pacing {
        // Unplaced, the server may be on the same CPU, and must not be kept from it.
        Pacing::Auto if config.cpus.is_empty() => Pacing::SleepSpin,
        Pacing::Auto if threads > cpus => Pacing::Yield,
        Pacing::Auto => Pacing::Spin,
        pacing => pacing,
    };
    (roles, pacing)
}

/// CPUs that the client's threads may run on.
pub fn cpus(config: &LoadConfig) -> usize {
    match config.cpus.len() {
        0 => platform::cpus(),
        count => count,
    }
}
