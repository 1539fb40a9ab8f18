//! The defaults of an experiment: the values of keys that a file omits.

use std::num::NonZeroU32;
use std::path::Path;

use super::candidate::{Candidate, is_word};
use super::experiment::{Experiment, Phases};
use super::one_or_many::OneOrMany;
use super::units::{Rate, Size, Time};
use super::workload::{Service, WorkloadSpec};

/// The name of an experiment whose file has none, such as a pipe.
const NAME: &str = "experiment";

impl Default for Phases {
    fn default() -> Self {
        const MS: u64 = 1_000_000;
        let (ramp, warm_up, measure) = (Time(100 * MS), Time(200 * MS), Time(600 * MS));
        Self { ramp, warm_up, measure, sessions: None, cool_down: Time(2_000 * MS) }
    }
}

impl Experiment {
    /// Completes an experiment from `file`. By default, its servers are those of all its tables.
    pub(super) fn fill_in(&mut self, file: &str) {
        if self.name.is_empty() {
            let stem = Path::new(file).file_stem().and_then(|stem| stem.to_str());
            self.name = stem.filter(|stem| is_word(stem)).unwrap_or(NAME).to_owned();
        }
        if self.architectures.0.is_empty() {
            let targets = self.target.keys().map(|name| Candidate::Target(name.clone()));
            let commands = self.exec.keys().map(|name| Candidate::Exec(name.clone()));
            self.architectures.0 = targets.chain(commands).collect();
        }
        let has_paths = self.has_requests() || self.target_paths().is_some();
        self.workload.fill_in(has_paths);
    }
}

impl WorkloadSpec {
    fn fill_in(&mut self, has_paths: bool) {
        let count = |count| NonZeroU32::new(count).into_iter().collect();
        if self.service == Service::Udp && self.ports.0.is_empty() {
            self.ports.0 = count(10);
        }
        if self.service != Service::Udp && self.connections.0.is_empty() {
            self.connections.0 = count(400);
        }
        if !self.is_closed() && self.rate_profile.is_none() && self.trace.is_none() {
            self.rate.get_or_insert_with(|| OneOrMany(vec![Rate(2_000.0)]));
        }
        let (small, large) = (Size(128), Size(10 << 10));
        match self.service {
            Service::Fixed => {
                self.request.get_or_insert(small);
                self.response.get_or_insert(large);
            }
            Service::Udp => {
                self.request.get_or_insert(small);
                self.response.get_or_insert(small);
            }
            Service::Http if !has_paths => {
                self.response.get_or_insert(large);
            }
            Service::Http | Service::Kv | Service::Redis | Service::Stream => {}
        }
    }
}
