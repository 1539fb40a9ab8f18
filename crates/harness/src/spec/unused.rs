//! The settings of an experiment that have no effect on it. They are no errors: a file may serve several experiments.

use load::config::{Loop, Traffic};

use super::candidate::Candidate;
use super::experiment::Experiment;
use super::workload::{Schedule, Service};

/// What an experiment and its traffic must have so that settings have an effect.
struct Need {
    keys: &'static [&'static str],
    is_met: fn(&Experiment, &Traffic) -> bool,
    /// What has the settings.
    owner: &'static str,
}

macro_rules! needs {
    ($($($key:literal)+, |$it:pat_param, $traffic:pat_param| $is_met:expr, $owner:literal;)+) => {
        &[$(Need { keys: &[$($key),+], is_met: |$it: &Experiment, $traffic: &Traffic| $is_met, owner: $owner }),+]
    };
}

const NEEDS: &[Need] = needs! {
    // Services and servers.
    "workload.kv", |it, _| it.workload.service.has_records(), "the services `kv` and `redis` have records";
    "workload.http", |it, _| it.workload.service == Service::Http,
        "the service `http` has paths, headers and folders; choose it with service = \"http\" (--service)";
    "workload.stream", |it, _| it.workload.service == Service::Stream, "the service `stream` has bursts";
    "workload.ports" "server.datagram-batch" "server.datagram-offload", |it, _| it.workload.service == Service::Udp,
        "the service `udp` has ports";
    "workload.connections" "workload.idle" "workload.requests-per-connection" "client.request-timeout",
        |it, _| it.workload.service != Service::Udp, "services over TCP have connections; `udp` has ports";
    "workload.request", |it, _| matches!(it.workload.service, Service::Fixed | Service::Udp),
        "the services `fixed` and `udp` have requests of one size";
    "workload.response", |it, _| matches!(it.workload.service, Service::Fixed | Service::Udp | Service::Http),
        "the services `fixed`, `udp` and `http` have responses of one size";
    "server" "workload.kv.memory" "workload.kv.item-max", |it, _| it.architectures.0.iter().any(|it| it.ours().is_some()),
        "built-in servers have it, such as epoll";
    "workload.tls", |it, _| it.architectures.0.iter().any(|server| has_tls(it, server)),
        "servers with TLS have it, and http:// is plain text; write https://";

    // Loops.
    "workload.think" "workload.pipeline", |_, it| it.is_closed() && it.the_loop != Loop::Stream,
        "a closed loop has it; choose it with schedule = \"closed\" (--schedule)";
    "workload.pipeline" "client.request-timeout", |_, it| it.requests_per_connection().is_none(),
        "lasting connections have it, and requests-per-connection ends them";
    "workload.rate" "workload.rate-profile" "workload.trace" "client.request-timeout" "client.pacing", |_, it| !it.is_closed(),
        "an open loop has planned times; the rate of a closed loop is a result";
    "workload.active" "workload.popularity" "client.roles", |_, it| it.requests().is_some(),
        "an open loop over lasting connections chooses among them; otherwise all send";
    "workload.no-overlap", |_, it| matches!(it.the_loop, Loop::Open { .. }), "an open loop over lasting connections overlaps requests";
    "workload.popularity", |_, it| !it.no_overlap(),
        "requests that may overlap have it; with no-overlap the connection that is free for the longest time gets the next one";
    "phases.sessions", |_, it| matches!(it.the_loop, Loop::Sessions { .. }) && !it.is_varied(),
        "an open loop with requests-per-connection and a constant rate has sessions";
    "workload.rate" "workload.rate-profile", |_, it| it.trace().is_none(),
        "requests without a trace have it; the trace has the times of the requests";
    "workload.schedule", |it, load| load.trace().is_none() || it.workload.schedule.0 == [Schedule::SlotRandom],
        "requests without a trace have it; the trace has the times of the requests";
    "client.retries" "client.retry-budget", |it, _| it.client.request_timeout.is_some(),
        "requests with a time limit fail in time; add request-timeout, such as 1s";
    "client.retry-budget", |it, _| it.client.retries.is_some_and(|retries| retries > 0),
        "retries need a budget; add `retries`";
};

fn has_tls(experiment: &Experiment, server: &Candidate) -> bool {
    match server {
        Candidate::Target(name) => {
            experiment.target.get(name).is_none_or(|target| target.url.certified_name(true).is_some())
        }
        Candidate::Ours(_) | Candidate::Exec(_) => true,
    }
}

impl Experiment {
    /// Returns a sentence for each setting without effect, which begins with its key. All loads of a valid experiment have one loop.
    pub fn unused(&self) -> Vec<String> {
        // A server alone has no connections.
        let mut filled = self.clone();
        filled.fill_in("");
        let (Ok(table), Ok(loads)) = (toml::Value::try_from(self), filled.unread_loads()) else { return Vec::new() };
        let usual = [
            ("workload", toml::Value::try_from(super::WorkloadSpec::default())),
            ("client", toml::Value::try_from(super::Client::default())),
        ];
        let usual: toml::Table =
            usual.into_iter().filter_map(|(group, it)| Some((group.to_owned(), it.ok()?))).collect();
        let usual = toml::Value::from(usual);
        let is_set = |key: &str| {
            let find = |table| key.split('.').try_fold(table, |table: &toml::Value, part| table.get(part)).cloned();
            find(&table).is_some_and(|value| find(&usual) != Some(value))
        };
        let mut unused = Vec::new();
        for Need { keys, owner, .. } in NEEDS.iter().filter(|need| !(need.is_met)(self, &loads[0])) {
            unused
                .extend(keys.iter().filter(|key| is_set(key)).map(|key| format!("{key} has no effect: only {owner}")));
        }
        unused
    }
}
