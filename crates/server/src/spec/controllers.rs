//! The controllers of a payload stage, as plain data: SEDA's thread-pool controller, batching controller and admission control.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The controllers of a server; all `None` for a static server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Controllers {
    /// Changes the number of payload threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolControl>,
    /// Changes the number of jobs that a payload thread takes at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchControl>,
    /// Rejects requests while responses take too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admission: Option<AdmissionControl>,
}

/// The thread-pool controller. A pool starts with the threads of the architecture's name, and never has fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct PoolControl {
    /// The most threads of a pool.
    pub threads_max: u32,
    /// The length of a queue at which its pool grows by a thread.
    pub queue: u32,
    /// The time between two samples of a queue's length.
    pub interval_ns: u64,
    /// The time without a job after which a thread ends.
    pub idle_ns: u64,
}

impl Default for PoolControl {
    /// 20 threads and 2 s, as in SandStorm, the implementation of SEDA's authors. The other values are ours.
    fn default() -> Self {
        Self { threads_max: 20, queue: 100, interval_ns: 2_000_000_000, idle_ns: 5_000_000_000 }
    }
}

/// The batching controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct BatchControl {
    /// The lowest batching factor.
    pub jobs_min: u32,
    /// The highest batching factor, which is also the first one.
    pub jobs_max: u32,
    /// The time between two samples of the throughput.
    pub interval_ns: u64,
}

impl Default for BatchControl {
    /// The values of `AggThrottle` in SandStorm.
    fn default() -> Self {
        Self { jobs_min: 8, jobs_max: 1_000, interval_ns: 1_000_000_000 }
    }
}

/// Admission control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct AdmissionControl {
    /// The target of the 90th percentile of response times in the server.
    pub target_ns: u64,
    /// The number of responses between two adjustments.
    pub requests: u32,
    /// The longest time between two adjustments.
    pub timeout_ns: u64,
    /// The weight of an additive increase, in requests per second.
    pub increase_per_s: u32,
}

impl AdmissionControl {
    /// A target with the other values of `ResponseTimeControllerMulticlass` in SandStorm.
    pub fn of_target(target_ns: u64) -> Self {
        Self { target_ns, requests: 100, timeout_ns: 1_000_000_000, increase_per_s: 2 }
    }
}

impl Controllers {
    /// Whether no controller is enabled.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether all threads of a pool share one queue, as in SEDA. Otherwise each payload thread has a queue.
    pub fn shares_queues(&self) -> bool {
        self.pool.is_some() || self.batch.is_some()
    }
}
