//! Accept strategies. A worker is a thread or process that serves connections.

use std::fmt;

use serde::{Deserialize, Serialize};
use wire::Address;

use crate::spec::model::{ModelRow, PerConnection};

/// A way in which connections reach the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accept {
    /// One thread accepts for all workers.
    #[default]
    Single,
    /// All workers block in accept4 on one listener; the kernel wakes the one that has waited longest.
    Shared,
    /// Each worker has a listener (SO_REUSEPORT); the kernel chooses one by a hash of the client's address and port. A
    /// connection to a busy worker of a pool waits even if other workers are idle.
    Reuseport,
    /// All workers wait with EPOLLEXCLUSIVE on one listener, then accept. The kernel first wakes the worker that began to wait
    /// last. A network thread then accepts up to 32 waiting connections; a worker of a pool accepts one.
    Exclusive,
}

impl Accept {
    /// Every strategy with its name and its description in `muxbench list`.
    pub const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::Single, "single", "one thread accepts for all workers"),
        (Self::Shared, "shared", "all workers block in accept4 on one listener"),
        (Self::Reuseport, "reuseport", "a listener for each worker (SO_REUSEPORT), chosen by the kernel's hash"),
        (Self::Exclusive, "exclusive", "all workers wait with EPOLLEXCLUSIVE on one listener, then accept"),
    ];

    /// The default strategy of `model`.
    pub fn default_of(model: &ModelRow) -> Self {
        if model.is_pool() { Self::Shared } else { Self::Single }
    }

    /// Checks whether the strategy supports `listen`.
    pub fn check_address(self, listen: &Address) -> Result<(), String> {
        match (self, listen) {
            (Self::Reuseport, Address::Unix(_)) => Err(format!(
                "cannot use the accept strategy `{self}` on a Unix socket: the kernel distributes TCP connections only; \
                 choose shared or exclusive, or listen on TCP"
            )),
            _ => Ok(()),
        }
    }

    /// Whether each worker has a listener or an epoll instance of its own.
    pub(crate) fn takes_a_descriptor(self) -> bool {
        matches!(self, Self::Reuseport | Self::Exclusive)
    }

    /// The number of descriptors that a pool of `size` threads uses, including its connections.
    pub fn descriptors(self, model: &ModelRow, size: u64) -> u64 {
        match model.per_connection {
            // accept4 reserves a descriptor before it waits, so each thread uses one from the start.
            PerConnection::Thread => size * (1 + u64::from(self.takes_a_descriptor())),
            PerConnection::Process | PerConnection::Nothing | PerConnection::Stack => 0,
        }
    }
}

impl fmt::Display for Accept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Self::ALL[*self as usize].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_strategy_is_the_index_of_its_row() {
        for (at, (accept, name, _)) in Accept::ALL.iter().enumerate() {
            assert_eq!(*accept as usize, at);
            assert_eq!(&accept.to_string(), name);
        }
    }
}
