//! A tag that identifies all processes of an external server after their supervisor has died. It is a soft limit of file locks
//! (RLIMIT_LOCKS) that contains the supervisor's process id. Every process inherits this limit, and Linux has ignored it since
//! 2.4.25. An environment variable is no substitute: servers such as nginx overwrite it.

use std::{fs, io};

use rustix::process::{Resource, Rlimit, getpid, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

/// The upper 16 bits of every tag. No ordinary limit has these bits.
const SIGN: u64 = 0x6d78;
/// The width of the supervisor's process id (at most 2^22), and of a number that distinguishes supervisors with the same id.
const BITS: u32 = 24;

/// The tag of a supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessTag(u64);

impl ProcessTag {
    /// Tags this process, a supervisor, and all processes that it starts from now on. Fails if the hard limit is too low.
    pub fn mark_this_process() -> io::Result<()> {
        let now = clock_gettime(ClockId::Monotonic);
        let Self(limit) = Self::new(getpid().as_raw_pid(), now.tv_nsec as u64);
        Ok(setrlimit(Resource::Locks, Rlimit { current: Some(limit), ..getrlimit(Resource::Locks) })?)
    }

    fn new(supervisor: i32, number: u64) -> Self {
        Self(SIGN << (2 * BITS) | (supervisor as u64) << BITS | number & ((1 << BITS) - 1))
    }

    /// The tag of a process.
    pub fn read(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/limits")).ok()?)
    }

    fn parse(limits: &str) -> Option<Self> {
        let line = limits.lines().find_map(|line| line.strip_prefix("Max file locks"))?;
        let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
        (limit >> (2 * BITS) == SIGN).then_some(Self(limit))
    }

    /// The process id of the supervisor, which may have ended.
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
    fn tag_names_its_supervisor_and_other_limits_parse_as_none() {
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
    fn children_inherit_the_tag_without_their_environment() {
        ProcessTag::mark_this_process().unwrap();
        let ours = ProcessTag::read(std::process::id() as i32).unwrap();
        assert_eq!(ours.supervisor(), std::process::id() as i32);
        let mut command = std::process::Command::new("setsid");
        command.args(["env", "-i", "cat", "/proc/self/limits"]);
        let limits = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert_eq!(ProcessTag::parse(&limits), Some(ours));
    }
}
