//! What all that comes of somebody else's server bears, so that it is known once its keeper has died: a soft limit of file locks
//! (RLIMIT_LOCKS), which names the keeper. It limits nothing, for Linux has looked at none since 2.4.25 (getrlimit(2)).
//!
//! Whatever is started inherits it, in a session of its own too; anybody may read it; and unlike the environment it stays when
//! a server writes over that, as nginx and PostgreSQL do to say what their processes do.

use std::{fs, io};

use rustix::process::{Resource, Rlimit, getpid, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

/// The upper 16 bits of one; no other limit has them.
const SIGN: u64 = 0x6d78;
/// Below are the keeper's number (PID_MAX_LIMIT is 2^22), and as many bits by which keepers differ that had the same.
const BITS: u32 = 24;
/// Which line of /proc/PID/limits has it.
const LINE: &str = "Max file locks";

/// The badge of a keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessTag(u64);

impl ProcessTag {
    /// Puts one on this process, its keeper, and on all that it starts from now on.
    ///
    /// # Errors
    /// When the hard limit is in its way.
    pub fn mark_this_process() -> io::Result<()> {
        let now = clock_gettime(ClockId::Monotonic);
        let Self(limit) = Self::new(getpid().as_raw_pid(), now.tv_nsec as u64);
        Ok(setrlimit(Resource::Locks, Rlimit { current: Some(limit), ..getrlimit(Resource::Locks) })?)
    }

    fn new(supervisor: i32, number: u64) -> Self {
        Self(SIGN << (2 * BITS) | (supervisor as u64) << BITS | number & ((1 << BITS) - 1))
    }

    /// That of a process.
    pub fn read(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/limits")).ok()?)
    }

    fn parse(limits: &str) -> Option<Self> {
        let line = limits.lines().find_map(|line| line.strip_prefix(LINE))?;
        let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
        (limit >> (2 * BITS) == SIGN).then_some(Self(limit))
    }

    /// The number that its keeper has, or had.
    pub fn supervisor(self) -> i32 {
        (self.0 >> BITS & ((1 << BITS) - 1)) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(locks: &str) -> String {
        format!(
            "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max address space         unlimited            unlimited            bytes     \n\
             Max file locks            {locks:20} unlimited            locks     \n"
        )
    }

    #[test]
    fn a_badge_names_its_keeper_and_other_limits_are_none() {
        for supervisor in [1, 4_194_303] {
            let tag = ProcessTag::new(supervisor, u64::MAX);
            assert_eq!(ProcessTag::parse(&limits(&tag.0.to_string())), Some(tag));
            assert_eq!(tag.supervisor(), supervisor);
            assert_ne!(ProcessTag::new(supervisor, 0), tag);
        }
        for other in ["unlimited", "1000", "-1", &(u64::MAX - 1).to_string(), ""] {
            assert_eq!(ProcessTag::parse(&limits(other)), None, "{other}");
        }
        assert_eq!(ProcessTag::parse(""), None);
    }

    #[test]
    fn whatever_is_started_bears_it_though_it_forgets_its_environment() {
        ProcessTag::mark_this_process().unwrap();
        let ours = ProcessTag::read(std::process::id() as i32).unwrap();
        assert_eq!(ours.supervisor(), std::process::id() as i32);
        let mut command = std::process::Command::new("setsid");
        command.args(["env", "-i", "cat", "/proc/self/limits"]);
        let limits = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert_eq!(ProcessTag::parse(&limits), Some(ours));
    }
}
