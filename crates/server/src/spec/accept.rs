//! Accept strategies: the ways in which connections reach the threads or processes that serve them.

use std::fmt;

use serde::{Deserialize, Serialize};
use wire::Address;

use crate::spec::model::{ModelRow, PerConnection};

/// An accept strategy. If one thread accepts for all, only [`Accept::Single`] is possible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accept {
    /// One thread accepts and hands connections over.
    #[default]
    Single,
    /// All block in accept4 on one listener; the kernel wakes the one that has waited longest.
    Shared,
    /// A listener for each (SO_REUSEPORT); the kernel chooses by a hash of the client's address and port, whether the owner is
    /// busy or not. A connection to a busy worker of a pool waits even if others are idle: the strategy is known for that.
    Reuseport,
    /// Each waits with epoll and EPOLLEXCLUSIVE on one listener, then accepts, sometimes in vain. The network thread that began
    /// to wait last is woken first and takes all waiting connections: a busy one gets few.
    Exclusive,
}

impl Accept {
    /// Every strategy with its name and its line for `muxbench list`.
    pub const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::Single, "single", "one thread accepts and hands connections over"),
        (Self::Shared, "shared", "all block in accept4 on one listener"),
        (Self::Reuseport, "reuseport", "a listener for each, SO_REUSEPORT; the kernel's hash decides between them"),
        (Self::Exclusive, "exclusive", "each waits with EPOLLEXCLUSIVE on one listener, then accepts"),
    ];

    /// The default strategy of `model`.
    pub fn default_of(model: &ModelRow) -> Self {
        if model.is_pool() { Self::Shared } else { Self::Single }
    }

    /// Checks whether the strategy supports `listen`.
    pub fn check_address(self, listen: &Address) -> Result<(), String> {
        match (self, listen) {
            (Self::Reuseport, Address::Unix(_)) => Err(format!(
                "cannot use the accept strategy `{self}` on a Unix socket: the kernel distributes connections of TCP \
                 only; choose shared or exclusive, or tcp"
            )),
            _ => Ok(()),
        }
    }

    /// Whether each worker has a listener or an epoll instance of its own.
    pub(crate) fn takes_a_descriptor(self) -> bool {
        matches!(self, Self::Reuseport | Self::Exclusive)
    }

    /// Descriptors of a pool of `size` in one process, including its connections.
    pub fn descriptors(self, model: &ModelRow, size: u64) -> u64 {
        match model.per_connection {
            // accept4 takes its descriptor before it waits, so that a worker has one from the start.
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
    fn strategies_are_indexes_of_their_table() {
        for (at, (accept, name, _)) in Accept::ALL.iter().enumerate() {
            assert_eq!(*accept as usize, at);
            assert_eq!(&accept.to_string(), name);
        }
    }
}
