//! Accept strategies. `mp-prefork` has processes in place of the threads.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wire::{Address, ServiceSpec};

use crate::spec::model::{ModelRow, PerConnection};

/// A way in which connections reach the threads that serve them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Accept {
    /// One thread accepts for all others.
    #[default]
    Single,
    /// All threads block in accept4 on one listener; the kernel wakes the one that has waited longest.
    Shared,
    /// Each thread has a listener (SO_REUSEPORT); the kernel chooses one by a hash of the client's address and port. A
    /// connection to a busy thread of a pool waits even if other threads are idle.
    Reuseport,
    /// All threads wait with EPOLLEXCLUSIVE on one listener, then accept. The kernel first wakes the thread that began to wait
    /// last. A network thread then accepts up to 32 waiting connections; a thread of a pool accepts one.
    Exclusive,
    /// Like [`Accept::Reuseport`], but the CPU that processes the client's SYN chooses: CPU N thread N, modulo the threads. A
    /// classic BPF program chooses (SO_ATTACH_REUSEPORT_CBPF).
    ReuseportCpu,
    /// Like [`Accept::ReuseportCpu`], by the socket option SO_INCOMING_CPU.
    IncomingCpu,
    /// Like [`Accept::Reuseport`], but an eBPF program chooses the thread with the fewest connections.
    ReuseportLeast,
    /// Like [`Accept::Reuseport`], but the hash chooses only among threads that do not hang and have few connections and events
    /// (Hermes, SIGCOMM 2025). Each thread reports these and chooses the eligible threads, which an eBPF program reads.
    Hermes,
}

impl Accept {
    /// Every strategy with its name and its description in `muxbench list`.
    pub const ALL: [(Self, &'static str, &'static str); 8] = [
        (Self::Single, "single", "one thread accepts for all others"),
        (Self::Shared, "shared", "all threads block in accept4 on one listener"),
        (Self::Reuseport, "reuseport", "a listener for each thread (SO_REUSEPORT), chosen by the kernel's hash"),
        (Self::Exclusive, "exclusive", "all threads wait with EPOLLEXCLUSIVE on one listener, then accept"),
        (Self::ReuseportCpu, "reuseport-cpu", "as reuseport, chosen by the CPU that gets the SYN (classic BPF)"),
        (Self::IncomingCpu, "incoming-cpu", "as reuseport-cpu, by SO_INCOMING_CPU"),
        (Self::ReuseportLeast, "reuseport-least", "as reuseport, the thread with the fewest connections (eBPF)"),
        (Self::Hermes, "hermes", "as reuseport, without threads that hang or have many connections (eBPF)"),
    ];

    /// The default strategy of `model`.
    pub fn default_of(model: &ModelRow) -> Self {
        if model.is_pool() { Self::Shared } else { Self::Single }
    }

    /// Checks whether the strategy supports `listen`.
    pub fn check_address(self, listen: &Address) -> Result<(), String> {
        match (self, listen) {
            (accept, Address::Unix(_)) if accept.has_own_listeners() => Err(format!(
                "cannot use the accept strategy `{self}` on a Unix socket: the kernel distributes TCP connections only; \
                 choose shared or exclusive, or listen on TCP"
            )),
            _ => Ok(()),
        }
    }

    /// Checks whether the strategy can distribute the requests of `service` over the threads of `model`.
    pub fn check_service(self, model: &ModelRow, service: &ServiceSpec) -> Result<(), String> {
        let has_sockets = model.serves_datagrams() && model.has_network_threads();
        if service.ports().is_some() && has_sockets && self != Self::Reuseport {
            return Err(format!(
                "`{}` cannot serve `{}` with the accept strategy `{self}`: datagrams have no connections to hand over or to steer; \
                 choose reuseport, which gives each thread a socket on each port",
                model.name,
                service.name()
            ));
        }
        Ok(())
    }

    /// Whether each thread has a listener of its own.
    pub fn has_own_listeners(self) -> bool {
        !matches!(self, Self::Single | Self::Shared | Self::Exclusive)
    }

    /// Whether the CPU that processes a client's SYN chooses the thread.
    pub fn chooses_by_cpu(self) -> bool {
        matches!(self, Self::ReuseportCpu | Self::IncomingCpu)
    }

    /// Whether the threads' state steers new connections.
    pub fn steers_by_state(self) -> bool {
        matches!(self, Self::ReuseportLeast | Self::Hermes)
    }

    /// The number of descriptors that a pool of `size` threads uses, including its connections.
    pub fn descriptors(self, model: &ModelRow, size: u64) -> u64 {
        match model.per_connection {
            // accept4 reserves a descriptor before it waits, so each thread uses one from the start. A listener or an epoll
            // instance of its own takes another.
            PerConnection::Thread => size * (1 + u64::from(self.has_own_listeners() || self == Self::Exclusive)),
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
