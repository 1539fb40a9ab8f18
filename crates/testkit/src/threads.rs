//! The network threads of a server that accept.

use harness::record::{Trial, TrialRecord};
use server::metrics::counters::ThreadFigures;
use server::{Accept, ServerCounters};

/// The values of a server's network threads.
#[derive(Clone, Copy, Debug)]
pub struct Threads {
    /// The standard deviation of connections over the threads.
    pub connections: f64,
    /// The standard deviation of the share of a CPU that a thread uses.
    pub cpu: f64,
    /// The share of connections that waited for the end of a stall.
    pub hung: f64,
    /// The share of the server's CPU time that steering takes.
    pub steering: f64,
}

impl Threads {
    /// Returns the values times a factor.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        let Self { connections, cpu, hung, steering } = self;
        Self { connections: connections * factor, cpu: cpu * factor, hung: hung * factor, steering: steering * factor }
    }

    /// Adds values to a record whose network threads accept; they differ by the accept strategy and the repeat.
    pub(crate) fn made_up(trial: &Trial, record: &mut TrialRecord) {
        let accept = trial.serve.ours().map_or(Accept::Single, |serve| serve.accept);
        let connections = 10.0 * (1.0 + f64::from(accept as u8)) + f64::from(trial.repeat);
        let threads = Self { connections, cpu: connections / 1e3, hung: 0.01, steering: connections / 1e4 };
        record.server.iter_mut().filter(|_| accept != Accept::Single).for_each(|server| threads.apply(server));
    }

    /// Changes the counters of a server to two network threads with these values.
    pub(crate) fn apply(self, server: &mut ServerCounters) {
        const ACCEPTED: f64 = 1e6;
        let of = |sign: f64| ThreadFigures {
            connections: (100_000.0 + sign * self.connections).round() as u64,
            assigned: 1,
            cpu_ns: Some(((0.5 + sign * self.cpu) * server.window_ns as f64).round() as u64),
        };
        server.network_threads = vec![of(1.0), of(-1.0)];
        server.totals.accepted = Some(ACCEPTED as u64);
        server.totals.hung = Some((self.hung * ACCEPTED).round() as u64);
        server.totals.steering_program_ns = Some((self.steering * server.cpu_ns() as f64).round() as u64);
    }
}
