//! An experiment, from a file or from the flags of `compare`.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::candidate::Candidate;
use super::client::Client;
use super::error::ExperimentError;
use super::http::Http;
use super::idle_cpus::IdleCpus;
use super::interleave::Interleave;
use super::network::Network;
use super::one_or_many::OneOrMany;
use super::server::{Exec, Server};
use super::target::Target;
use super::units::{Cpus, Rate, Share, Time};
use super::workload::{WorkloadSpec, is_default};

/// An experiment: architectures × loads × repeats. The loads combine connections, rates and other lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Experiment {
    /// The name, which ends the names of runs. By default, the name of the file without its extension.
    #[serde(default)]
    pub name: String,
    /// The purpose, in one sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// The servers: `MODEL[:THREADS][/MECHANISM]`, `exec:NAME` for the command in the table `exec.NAME`, or `target:NAME` for the
    /// running server in the table `target.NAME`. By default, the servers of all tables.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(with = "OneOrMany<String>")]
    pub architectures: OneOrMany<Candidate>,
    /// The number of repeats of each trial, each with its own random numbers and newly started servers. Confidence intervals need
    /// three repeats.
    #[serde(default = "six")]
    pub repeats: NonZeroU32,
    /// Whether the architectures of a workload run at the same time, with the load in turns. By default `auto`: those that can
    /// share a window.
    #[serde(default, skip_serializing_if = "Interleave::is_auto")]
    pub interleave: Interleave,
    /// The length of the slices of interleaved trials. By default it follows from the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<Time>,
    /// Whether the first architecture runs a second time as a placebo, whose ratio shows the noise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub placebo: bool,
    /// Whether each measured heat is followed by a heat in which the stacks of the servers are sampled, to show where the CPU time of a
    /// request goes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub profile: bool,
    /// The seed of all random numbers.
    #[serde(default)]
    pub seed: u64,
    /// The traffic.
    #[serde(default)]
    pub workload: WorkloadSpec,
    /// The duration of each phase.
    #[serde(default)]
    pub phases: Phases,
    /// The lab on this machine, with separate hosts for the server and the clients. By default, server and clients
    /// communicate over loopback.
    pub network: Option<Network>,
    /// The options of the servers besides their architectures.
    #[serde(default, skip_serializing_if = "Server::is_default")]
    pub server: Server,
    /// The external servers, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub exec: BTreeMap<String, Exec>,
    /// Servers that already run, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub target: BTreeMap<String, Target>,
    /// The options of the client.
    #[serde(default)]
    pub client: Client,
    /// The CPUs of server and client.
    #[serde(default)]
    pub placement: Placement,
    /// The changes that `--quick` makes.
    pub quick: Option<Quick>,
}

/// The duration of each phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Phases {
    /// The ramp: the rate grows exponentially to the first rate of the window.
    pub ramp: Time,
    /// The warm-up: the rate stays at the first rate of the window.
    pub warm_up: Time,
    /// The window: results describe only the requests planned in it. With a rate profile or a trace, the window has its length
    /// instead.
    pub measure: Time,
    /// The mean number of sessions in the window, like httperf's --num-conns. The window lasts as long as they take, at most
    /// `measure`.
    pub sessions: Option<NonZeroU32>,
    /// The cool-down: the longest wait for outstanding responses.
    pub cool_down: Time,
}

/// The CPUs of server and client. By default, each gets half of the cores if there are at least two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Placement {
    /// The server's CPUs.
    pub server: Option<Cpus>,
    /// The client's CPUs.
    pub client: Option<Cpus>,
    /// Whether server and client share all CPUs, and the kernel places their threads.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// The state of idle CPUs of the server's host during the run.
    #[serde(skip_serializing_if = "IdleCpus::is_auto")]
    pub idle_cpus: IdleCpus,
}

impl Phases {
    /// Returns the phases of a load with this rate and this number of requests in a session.
    pub fn of_load(
        &self,
        rate_per_s: Option<f64>,
        requests_per_connection: Option<NonZeroU32>,
    ) -> load::config::Phases {
        let sessions_ns = || {
            let requests = f64::from(self.sessions?.get()) * f64::from(requests_per_connection?.get());
            Some((requests / rate_per_s? * 1e9).round() as u64)
        };
        load::config::Phases {
            ramp_ns: self.ramp.0,
            warm_up_ns: self.warm_up.0,
            measure_ns: sessions_ns().map_or(self.measure.0, |ns| ns.clamp(1, self.measure.0)),
            cool_down_ns: self.cool_down.0,
        }
    }
}

/// The changes that `--quick` makes: durations, repeats, the client, interleaving, and fewer servers or loads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Quick {
    /// Replaces `phases.ramp`.
    pub ramp: Option<Time>,
    /// Replaces `phases.warm-up`.
    pub warm_up: Option<Time>,
    /// Replaces `phases.measure`.
    pub measure: Option<Time>,
    /// Replaces `phases.cool-down`.
    pub cool_down: Option<Time>,
    /// Replaces `repeats`.
    pub repeats: Option<NonZeroU32>,
    /// Replaces `client`.
    pub client: Option<Client>,
    /// Replaces `interleave`.
    pub interleave: Option<Interleave>,
    /// Replaces `architectures`.
    #[schemars(with = "Option<OneOrMany<String>>")]
    pub architectures: Option<OneOrMany<Candidate>>,
    /// Replaces `workload.connections`.
    pub connections: Option<OneOrMany<NonZeroU32>>,
    /// Replaces `workload.ports`.
    pub ports: Option<OneOrMany<NonZeroU32>>,
    /// Replaces `workload.active`.
    pub active: Option<OneOrMany<Share>>,
    /// Replaces `workload.rate`.
    pub rate: Option<OneOrMany<Rate>>,
}

fn six() -> NonZeroU32 {
    const { NonZeroU32::new(6).expect("above 0") }
}

impl Experiment {
    /// Reads and checks an experiment file. The error shows the first wrong line.
    pub fn parse(text: &str, file: &str) -> Result<Self, ExperimentError> {
        Self::read(text, file)?.checked(text, file)
    }

    /// Reads an experiment file to which flags may add servers. Checks a file without servers only later, with the flags.
    pub fn parse_base(text: &str, file: &str) -> Result<Self, ExperimentError> {
        let experiment = Self::read(text, file)?;
        if experiment.architectures.0.is_empty() { Ok(experiment) } else { experiment.checked(text, file) }
    }

    fn checked(self, text: &str, file: &str) -> Result<Self, ExperimentError> {
        self.check().map_err(|message| ExperimentError::checking(file, text, message))?;
        Ok(self)
    }

    fn read(text: &str, file: &str) -> Result<Self, ExperimentError> {
        let mut experiment: Self =
            toml::from_str(text).map_err(|error| ExperimentError::parsing(file, text, &error))?;
        experiment.fill_in(file);
        experiment.conceal();
        Ok(experiment)
    }

    /// Replaces the texts of secret bodies by their digests.
    pub fn conceal(&mut self) {
        self.workload.http.iter_mut().for_each(Http::conceal);
    }

    /// Returns the number of client processes, without those of idle connections. By default, a lab has one per client host.
    pub fn processes(&self) -> NonZeroU32 {
        let hosts = self.network.as_ref().map(|network| network.clients);
        self.client.processes.or(hosts).unwrap_or(NonZeroU32::MIN)
    }

    /// Returns the experiment with the changes of `[quick]`.
    #[must_use]
    pub fn quick(mut self) -> Self {
        let quick = self.quick.take().unwrap_or_default();
        let phases = &mut self.phases;
        for (time, instead) in [
            (&mut phases.ramp, quick.ramp),
            (&mut phases.warm_up, quick.warm_up),
            (&mut phases.measure, quick.measure),
            (&mut phases.cool_down, quick.cool_down),
        ] {
            *time = instead.unwrap_or(*time);
        }
        self.repeats = quick.repeats.unwrap_or(self.repeats);
        self.client = quick.client.unwrap_or(self.client);
        self.interleave = quick.interleave.unwrap_or(self.interleave);
        self.architectures = quick.architectures.unwrap_or(self.architectures);
        let is_used = |server| self.architectures.0.contains(&server);
        self.exec.retain(|name, _| is_used(Candidate::Exec(name.clone())));
        self.target.retain(|name, _| is_used(Candidate::Target(name.clone())));
        self.workload.connections = quick.connections.unwrap_or(self.workload.connections);
        self.workload.ports = quick.ports.unwrap_or(self.workload.ports);
        self.workload.active = quick.active.unwrap_or(self.workload.active);
        self.workload.rate = quick.rate.or(self.workload.rate);
        self
    }

    /// Returns the JSON Schema (draft 2020-12) of an experiment file.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(Self).to_value()
    }
}

#[cfg(test)]
impl Experiment {
    /// Returns the experiment of a valid file.
    pub(crate) fn of(text: &str) -> Self {
        Self::parse(text, "x.toml").unwrap_or_else(|error| panic!("{error}"))
    }

    /// Fails unless the experiment's file has the same experiment.
    #[track_caller]
    pub(crate) fn assert_reads_back(&self) {
        assert_eq!(Self::of(&toml::to_string(self).unwrap()), *self);
    }
}

#[cfg(test)]
mod tests;
