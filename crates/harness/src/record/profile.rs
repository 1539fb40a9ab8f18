//! What the CPU time of a server was spent for, from a heat of its own.

use load::config::Phases;
use profile::Calls;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Trial, Workload};

/// The shortest window of a heat in which stacks are sampled, in nanoseconds: a server that uses a fifth of a CPU then has 490 samples.
const WINDOW_NS_MIN: u64 = 5_000_000_000;

/// The sampled stacks of a server, in the measured parts of its slices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    /// The stacks.
    pub stacks: Calls,
    /// The samples in which its CPUs were idle.
    pub idle: u32,
    /// The samples in which its CPUs executed other processes.
    pub others: u32,
    /// The samples that were lost, of all servers of the heat.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// The CPU time per request while stacks were sampled, in nanoseconds; `None` without requests.
    pub cpu_ns_per_request: Option<f64>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Profile {
    /// Returns the shares of the samples in which the server's CPUs executed it, were idle, and executed others.
    pub fn shares(&self) -> [f64; 3] {
        let counts = [self.stacks.samples() as f64, f64::from(self.idle), f64::from(self.others)];
        let all = counts.iter().sum::<f64>().max(1.0);
        counts.map(|count| count / all)
    }
}

impl Trial {
    /// Returns the trial with a window that is long enough for samples. Rates over time and sessions keep theirs.
    pub fn profiled(&self) -> Self {
        let Workload { traffic, .. } = &self.workload;
        let keeps = traffic.is_varied() || traffic.requests_per_connection().is_some();
        let measure_ns = if keeps { traffic.phases.measure_ns } else { traffic.phases.measure_ns.max(WINDOW_NS_MIN) };
        let phases = Phases { measure_ns, ..traffic.phases };
        Self { workload: self.workload.clone().with(|it| it.phases = phases), ..self.clone() }
    }
}
