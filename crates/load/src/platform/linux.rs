//! Linux.

use std::num::NonZeroU64;

use rustix::thread::CpuSet;

use crate::error::LoadError;

/// The most that the soft limit of descriptors may be where the hard one is higher, or there is none.
pub const DESCRIPTORS_MAX: Option<u64> = None;

/// How many CPUs there are for the calling thread.
pub fn cpus() -> usize {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize)
}

/// Has timers of the calling thread, and of those that it starts, be as exact as they can. By default one may be 50 µs
/// late, so that wake-ups can be put together.
pub fn sharpen_timers() {
    let _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
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
