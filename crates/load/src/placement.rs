//! On which CPUs the client's threads run, and what `auto` stands for there.

use rustix::thread::CpuSet;

use crate::config::{LoadConfig, Pacing, Roles};
use crate::error::LoadError;

/// What `auto` stands for: the roles and the pacing to use. The one place where this is decided.
pub fn resolve(config: &LoadConfig) -> (Roles, Pacing) {
    let cpus = match config.cpus.len() {
        0 => rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize),
        count => count,
    };
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

/// Keeps the calling thread on some CPUs while it lives. A thread that is started meanwhile inherits them and keeps
/// them, so a CPU that cannot be had is an error before anything has started.
#[derive(Debug)]
pub struct Pinned(Option<CpuSet>);

impl Pinned {
    /// To `cpus`; to none in particular when it is empty.
    ///
    /// # Errors
    /// When there is no such CPU, or it is not ours to use.
    pub fn to(cpus: &[usize]) -> Result<Self, LoadError> {
        if cpus.is_empty() {
            return Ok(Self(None));
        }
        let failed = |error: &dyn std::fmt::Display| {
            LoadError::Config(format!("cpus: cannot run on {cpus:?} ({error}); name CPUs that this process may use"))
        };
        let mut set = CpuSet::new();
        for &cpu in cpus {
            if cpu >= CpuSet::MAX_CPU {
                return Err(failed(&format_args!("the highest number is {}", CpuSet::MAX_CPU - 1)));
            }
            set.set(cpu);
        }
        let before = rustix::thread::sched_getaffinity(None).map_err(|error| failed(&error))?;
        rustix::thread::sched_setaffinity(None, &set).map_err(|error| failed(&error))?;
        Ok(Self(Some(before)))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // It was allowed before; if it no longer is, there is nothing better to do than to stay.
            let _ = rustix::thread::sched_setaffinity(None, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mine() -> Vec<usize> {
        let set = rustix::thread::sched_getaffinity(None).unwrap();
        (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
    }

    #[test]
    fn threads_inherit_what_their_parent_gives_up_again() {
        let before = mine();
        let last = *before.last().unwrap();
        let inherited = {
            let _pinned = Pinned::to(&[last]).unwrap();
            assert_eq!(mine(), [last]);
            std::thread::spawn(mine)
        };
        assert_eq!(mine(), before);
        assert_eq!(inherited.join().unwrap(), [last]);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error() {
        for cpu in [CpuSet::MAX_CPU - 1, usize::MAX] {
            let error = Pinned::to(&[cpu]).unwrap_err().to_string();
            assert!(error.starts_with("cpus: cannot run on"), "{error}");
        }
    }
}
