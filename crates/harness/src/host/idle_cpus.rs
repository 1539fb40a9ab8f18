//! Keeps idle CPUs polling during a run, so that wake-ups take little time and always about the same.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

use super::Host;
use crate::spec::idle_cpus::IdleCpus;

/// The kernel limits the latency of wake-ups while a process has this device open:
/// <https://docs.kernel.org/power/pm_qos_interface.html>.
const DEVICE: &str = "/dev/cpu_dma_latency";
/// The host's fact that tells whether idle CPUs can poll, or why not.
pub(crate) const FACT: &str = "idle polling";
/// The value of the fact if idle CPUs can poll.
pub(crate) const ALLOWED: &str = "allowed";

/// Lets idle CPUs poll, on all CPUs of this host, until the file is closed.
pub fn poll() -> io::Result<File> {
    let mut device = OpenOptions::new().write(true).open(DEVICE)?;
    device.write_all(&0_i32.to_ne_bytes())?;
    Ok(device)
}

/// Returns the value of the fact. `states` lists the idle states of a CPU.
#[cfg(target_os = "linux")]
pub(super) fn fact(states: Option<&str>) -> String {
    if !states.is_some_and(|states| states.starts_with("POLL")) {
        return "the kernel has no idle state that polls".into();
    }
    match OpenOptions::new().write(true).open(DEVICE) {
        Ok(_) => ALLOWED.into(),
        Err(error) => format!("{DEVICE}: {error}"),
    }
}

/// Decides whether idle CPUs poll. Fails if they shall but cannot.
pub fn decide(requested: IdleCpus, host: &Host) -> Result<bool, String> {
    let fact = |name: &str| host.facts.get(name).map(String::as_str);
    let is_allowed = fact(FACT) == Some(ALLOWED);
    match requested {
        IdleCpus::Poll if !is_allowed => {
            let reason = fact(FACT).unwrap_or("only Linux has the means");
            Err(format!("placement.idle-cpus: idle CPUs cannot poll: {reason}; run as root, or choose auto"))
        }
        IdleCpus::Poll => Ok(true),
        IdleCpus::Auto => Ok(is_allowed && fact("hypervisor") == Some("true")),
        IdleCpus::Sleep => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_cpus_poll_by_default_only_on_virtual_machines() {
        let decide = |requested, polling: &str, hypervisor: &str| {
            let facts = [(FACT, polling), ("hypervisor", hypervisor)];
            let facts = facts.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
            decide(requested, &Host { facts, ..Host::made_up() })
        };
        assert_eq!(decide(IdleCpus::Auto, ALLOWED, "true"), Ok(true));
        assert_eq!(decide(IdleCpus::Auto, ALLOWED, "false"), Ok(false));
        assert_eq!(decide(IdleCpus::Auto, "no permission", "true"), Ok(false));
        assert_eq!(decide(IdleCpus::Sleep, ALLOWED, "true"), Ok(false));
        assert_eq!(decide(IdleCpus::Poll, ALLOWED, "false"), Ok(true));
        let refused = decide(IdleCpus::Poll, "no permission", "true").unwrap_err();
        assert_eq!(refused, "placement.idle-cpus: idle CPUs cannot poll: no permission; run as root, or choose auto");
        assert!(super::decide(IdleCpus::Poll, &Host::made_up()).is_err());
    }
}
