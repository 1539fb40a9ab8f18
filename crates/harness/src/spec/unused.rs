//! The settings of an experiment that have no effect on it. They are no errors: a file may serve several experiments.

use load::config::Schedule;

use super::candidate::Candidate;
use super::experiment::Experiment;
use super::workload::Service;

/// What an experiment must have so that a setting has an effect.
struct Need {
    keys: &'static [&'static str],
    is_met: fn(&Experiment) -> bool,
    /// What has the setting.
    owner: &'static str,
}

const NEEDS: &[Need] = &[
    Need {
        keys: &["workload.kv"],
        is_met: |it| it.workload.service.has_records(),
        owner: "the services `kv` and `redis` have records",
    },
    Need {
        keys: &["workload.http"],
        is_met: |it| it.workload.service == Service::Http,
        owner: "the service `http` has paths, headers and folders; choose it with service = \"http\" (--service)",
    },
    Need {
        keys: &["workload.stream"],
        is_met: |it| it.workload.service == Service::Stream,
        owner: "the service `stream` has bursts",
    },
    Need {
        keys: &["workload.ports", "server.datagram-batch", "server.datagram-offload"],
        is_met: |it| it.workload.service == Service::Udp,
        owner: "the service `udp` has ports",
    },
    Need {
        keys: &["workload.connections", "workload.idle", "workload.requests-per-connection"],
        is_met: |it| it.workload.service != Service::Udp,
        owner: "services over TCP have connections; `udp` has ports",
    },
    Need {
        keys: &["workload.request"],
        is_met: |it| matches!(it.workload.service, Service::Fixed | Service::Udp),
        owner: "the services `fixed` and `udp` have requests of one size",
    },
    Need {
        keys: &["workload.response"],
        is_met: |it| matches!(it.workload.service, Service::Fixed | Service::Udp | Service::Http),
        owner: "the services `fixed`, `udp` and `http` have responses of one size",
    },
    Need {
        keys: &["workload.think", "workload.pipeline"],
        is_met: |it| it.workload.is_closed() && it.workload.service != Service::Stream,
        owner: "a closed loop has it; choose it with schedule = \"closed\" (--schedule)",
    },
    Need {
        keys: &["workload.pipeline", "client.request-timeout"],
        is_met: |it| it.workload.requests_per_connection.is_none(),
        owner: "lasting connections have it, and requests-per-connection ends them",
    },
    Need {
        keys: &["workload.rate", "workload.profile", "workload.trace", "client.request-timeout", "client.pacing"],
        is_met: |it| !it.workload.is_closed(),
        owner: "an open loop has planned times; the rate of a closed loop is a result",
    },
    Need {
        keys: &["workload.rate", "workload.profile"],
        is_met: |it| it.workload.trace.is_none(),
        owner: "requests without a trace have it; the trace has the times of the requests",
    },
    Need {
        keys: &["workload.schedule"],
        is_met: |it| it.workload.trace.is_none() || it.workload.schedule.0 == [Schedule::SlotRandom],
        owner: "requests without a trace have it; the trace has the times of the requests",
    },
    Need {
        keys: &["workload.active", "workload.popularity", "client.roles"],
        is_met: |it| !it.workload.is_closed() && it.workload.requests_per_connection.is_none(),
        owner: "an open loop over lasting connections chooses among them; otherwise all send",
    },
    Need {
        keys: &["phases.sessions"],
        is_met: |it| {
            let workload = &it.workload;
            let is_over_time = workload.profile.is_some() || workload.trace.is_some();
            workload.requests_per_connection.is_some() && !workload.is_closed() && !is_over_time
        },
        owner: "an open loop with requests-per-connection and a constant rate has sessions",
    },
    Need {
        keys: &["client.retries", "client.retry-budget"],
        is_met: |it| it.client.request_timeout.is_some(),
        owner: "requests with a time limit fail in time; add request-timeout, such as 1s",
    },
    Need {
        keys: &["client.retry-budget"],
        is_met: |it| it.client.retries.is_some_and(|retries| retries > 0),
        owner: "retries need a budget; add `retries`",
    },
    Need {
        keys: &["server", "workload.kv.memory", "workload.kv.item-max"],
        is_met: |it| it.architectures.0.iter().any(|it| it.ours().is_some()),
        owner: "built-in servers have it, such as epoll",
    },
    Need {
        keys: &["workload.tls"],
        is_met: |it| {
            it.architectures.0.iter().any(|server| match server {
                Candidate::Target(name) => it.target.get(name).is_none_or(|it| it.url.certified_name(true).is_some()),
                Candidate::Ours(_) | Candidate::Exec(_) => true,
            })
        },
        owner: "servers with TLS have it, and http:// is plain text; write https://",
    },
];

impl Experiment {
    /// Returns a sentence for each setting without effect, which begins with its key.
    pub fn unused(&self) -> Vec<String> {
        let Ok(table) = toml::Value::try_from(self) else { return Vec::new() };
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
        for Need { keys, owner, .. } in NEEDS.iter().filter(|need| !(need.is_met)(self)) {
            unused
                .extend(keys.iter().filter(|key| is_set(key)).map(|key| format!("{key} has no effect: only {owner}")));
        }
        unused
    }
}
