//! An experiment, from a file or from the flags of `compare`.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::candidate::Candidate;
use super::client::Client;
use super::error::ExperimentError;
use super::http::Http;
use super::network::Network;
use super::one_or_many::OneOrMany;
use super::server::{Exec, Server};
use super::stream::Stream;
use super::units::{Cpus, Time};
use super::workload::{Kv, Workload};

/// An experiment: architectures × connections × rates × repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Experiment {
    /// The name. Names of runs begin with it.
    pub name: String,
    /// The purpose, in one sentence.
    #[serde(default)]
    pub about: String,
    /// The servers: `MODEL[:THREADS][/MECHANISM]`, or `exec:NAME` for the command in the table `exec.NAME`.
    #[schemars(with = "OneOrMany<String>")]
    pub architectures: OneOrMany<Candidate>,
    /// The number of repeats of each trial, all with the same schedule. Confidence intervals need repeats.
    #[serde(default = "one")]
    pub repeats: NonZeroU32,
    /// The seed of all random numbers.
    #[serde(default)]
    pub seed: u64,
    /// The traffic.
    pub workload: Workload,
    /// The duration of each phase.
    pub phases: Phases,
    /// The lab on this machine, with separate hosts for the server and the clients. By default, they talk over
    /// loopback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// The options of the servers besides their architectures.
    #[serde(default, skip_serializing_if = "Server::is_default")]
    pub server: Server,
    /// The external servers, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub exec: BTreeMap<String, Exec>,
    /// The options of the client.
    #[serde(default)]
    pub client: Client,
    /// The CPUs of server and client.
    #[serde(default)]
    pub placement: Placement,
    /// The changes that `--quick` makes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quick: Option<Quick>,
}

/// The duration of each phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Phases {
    /// The ramp: the rate grows exponentially to its target.
    pub ramp: Time,
    /// The warm-up: the rate stays at its target.
    #[serde(alias = "warm-up")]
    pub hold: Time,
    /// The window: requests planned in it are the result.
    pub measure: Time,
    /// The cool-down: the longest wait for outstanding responses.
    #[serde(default = "two_seconds")]
    #[serde(alias = "cool-down")]
    pub drain: Time,
}

/// The CPUs of server and client. By default, on two or more CPUs, each gets one half.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Placement {
    /// The server's CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<Cpus>,
    /// The client's CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<Cpus>,
}

/// The changes that `--quick` makes. The configurations stay the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Quick {
    /// Replaces `phases.ramp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ramp: Option<Time>,
    /// Replaces `phases.hold`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(alias = "warm-up")]
    pub hold: Option<Time>,
    /// Replaces `phases.measure`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measure: Option<Time>,
    /// Replaces `phases.drain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(alias = "cool-down")]
    pub drain: Option<Time>,
    /// Replaces `repeats`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats: Option<NonZeroU32>,
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

fn two_seconds() -> Time {
    Time(2_000_000_000)
}

impl Experiment {
    /// Reads an experiment file.
    ///
    /// # Errors
    /// Names the first error: invalid syntax, an unknown key, a value without its unit, or a number outside its limits.
    pub fn parse(text: &str, file: &str) -> Result<Self, ExperimentError> {
        let experiment: Self = toml::from_str(text).map_err(|error| ExperimentError::parsing(file, text, &error))?;
        experiment.check().map_err(|message| ExperimentError::checking(file, text, message))?;
        Ok(experiment)
    }

    /// Returns the number of measuring processes. By default, a lab has one for each client host.
    pub fn processes(&self) -> NonZeroU32 {
        let hosts = self.network.as_ref().map(|network| network.clients);
        self.client.processes.or(hosts).unwrap_or(NonZeroU32::MIN)
    }

    /// Returns the requests of `http`.
    pub fn http(&self) -> Http {
        self.workload.http.clone().unwrap_or_default()
    }

    /// Returns the bursts of `stream`.
    pub fn stream(&self) -> Stream {
        self.workload.stream.clone().unwrap_or_default()
    }

    /// Returns the records and requests of `kv`.
    pub fn kv(&self) -> Kv {
        self.workload.kv.clone().unwrap_or_default()
    }

    /// Returns the experiment with the changes of `[quick]`.
    #[must_use]
    pub fn quick(mut self) -> Self {
        let quick = self.quick.take().unwrap_or_default();
        let phases = &mut self.phases;
        for (time, instead) in [
            (&mut phases.ramp, quick.ramp),
            (&mut phases.hold, quick.hold),
            (&mut phases.measure, quick.measure),
            (&mut phases.drain, quick.drain),
        ] {
            *time = instead.unwrap_or(*time);
        }
        self.repeats = quick.repeats.unwrap_or(self.repeats);
        self
    }

    /// Returns the JSON Schema (draft 2020-12) of an experiment file.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(Self).to_value()
    }
}

#[cfg(test)]
mod tests {
    use server::Architecture;

    use load::config::Choice;

    use super::*;
    use crate::spec::units::Rate;

    const GOOD: &str = r#"
name = "x"
architectures = "epoll"
[workload]
connections = 10
rate = [100, 200.5]
request = "1B"
response = "10KiB"
[phases]
ramp = "0"
hold = "0"
measure = "1s"
"#;

    /// The lines that a test replaces for a closed loop of `kv`.
    const CLOSED_OF: &str = "rate = [100, 200.5]\nrequest = \"1B\"\nresponse = \"10KiB\"\n[phases]";

    #[test]
    fn a_closed_loop_of_kv_and_its_defaults() {
        let text =
            GOOD.replace(CLOSED_OF, "service = \"kv\"\nschedule = \"closed\"\nthink = \"1ms,exponential\"\n[phases]");
        let experiment = Experiment::parse(&text, "x.toml").unwrap();
        assert_eq!(experiment.kv(), Kv::default());
        assert!(experiment.workload.think.0.exponential);
        let mut experiment = experiment;
        experiment.workload.kv = Some(Kv { keys: Choice::Zipf { exponent: 0.99 }, ..Kv::default() });
        let again = toml::to_string(&experiment).unwrap();
        assert_eq!(Experiment::parse(&again, "again").unwrap(), experiment);
    }

    #[test]
    fn read_budget_of_external_servers_alone_is_refused() {
        let text = GOOD.replace("architectures = \"epoll\"", "architectures = \"exec:it\"");
        let text = format!("{text}[exec.it]\ncommand = [\"sh\", \"{{port}}\"]\n[server]\nread-budget = \"256KiB\"\n");
        let error = Experiment::parse(&text, "x.toml").unwrap_err().to_string();
        assert!(error.contains("server.read-budget: external servers do not know it"), "{error}");
        let mixed = text.replace("\"exec:it\"", "[\"epoll\", \"exec:it\"]");
        let experiment = Experiment::parse(&mixed, "x.toml").unwrap();
        assert_eq!(experiment.server.read_budget.unwrap().to_string(), "256KiB");
        let large = Experiment::parse(&mixed.replace("256KiB", "2MiB"), "x.toml").unwrap_err().to_string();
        assert!(large.contains("`2MiB` is no read budget from 1B to 1MiB"), "{large}");
    }

    #[test]
    fn a_small_file_and_its_defaults() {
        let experiment = Experiment::parse(GOOD, "x.toml").unwrap();
        assert_eq!(experiment.workload.rate.as_ref().unwrap().0, [Rate(100.0), Rate(200.5)]);
        assert_eq!(experiment.repeats, one());
        assert_eq!(experiment.client, Client::default());
        let again = toml::to_string(&experiment).unwrap();
        assert_eq!(Experiment::parse(&again, "again").unwrap(), experiment);
    }

    #[test]
    fn every_mistake_is_told_with_its_place() {
        let wrong = [
            ("connections = 10", "conections = 10"),
            ("connections = 10", "connections = 0"),
            ("connections = 10", "connections = -5"),
            ("connections = 10", "connections = []"),
            ("connections = 10", "connections = [10, 10]"),
            ("connections = 10", "connections = 1.5"),
            ("rate = [100, 200.5]", "rate = [100, 0]"),
            ("rate = [100, 200.5]", "rate = nan"),
            ("rate = [100, 200.5]", "rate = \"fast\""),
            ("rate = [100, 200.5]", "rate = true"),
            ("request = \"1B\"", "request = 1"),
            ("request = \"1B\"", ""),
            ("request = \"1B\"", "request = \"1\""),
            ("request = \"1B\"", "request = \"0B\""),
            ("measure = \"1s\"", "measure = \"1 parsec\""),
            ("measure = \"1s\"", "measure = \"0\""),
            ("\"epoll\"", "\"epol\""),
            ("\"epoll\"", "\"mt/epoll\""),
            ("name = \"x\"", "name = \"../x\""),
            ("name = \"x\"", "name = \"x\"\nrepeats = 0"),
            ("name = \"x\"", "name = \"x\"\nseed = -1"),
            ("[phases]", "[phases"),
            ("[phases]", "active = 0\n[phases]"),
            ("[phases]", "active = [\"1/64\", \"150%\"]\n[phases]"),
            ("[phases]", "idle = -1\n[phases]"),
            ("[phases]", "choice = \"pareto\"\n[phases]"),
            ("[phases]", "schedule = \"random\"\n[phases]"),
            ("rate = [100, 200.5]", ""),
            ("rate = [100, 200.5]", "rate = 100\nthink = \"1ms\""),
            ("rate = [100, 200.5]", "rate = 100\nschedule = \"closed\""),
            ("rate = [100, 200.5]", "rate = 100\nschedule = [\"constant\", \"closed\"]"),
            ("rate = [100, 200.5]", "schedule = \"closed\"\nthink = \"1ms,normal\""),
            ("rate = [100, 200.5]", "schedule = \"closed\"\nactive = \"1/2\""),
            ("[phases]", "service = \"kv\"\n[phases]"),
            ("[phases]", "[workload.kv]\nrecords = 10\n[phases]"),
            ("[phases]", "service = \"http\"\n[phases]"),
            ("request = \"1B\"\nresponse = \"10KiB\"\n[phases]", "service = \"http\"\n[phases]"),
            (
                "request = \"1B\"\nresponse = \"10KiB\"\n[phases]",
                "service = \"http\"\n[workload.http]\npaths = \"bytes\"\n[phases]",
            ),
            ("request = \"1B\"\n", "service = \"http\"\n[workload.http]\nheaders = [\"Accept\"]\n"),
            ("[phases]", "[workload.http]\npaths = \"/\"\n[phases]"),
            ("[phases]", "calls-per-connection = 0\n[phases]"),
            ("[phases]", "calls-per-connection = 1\nactive = \"1/2\"\n[phases]"),
            (CLOSED_OF, "service = \"kv\"\nschedule = \"closed\"\n[workload.kv]\nrecords = 0\n[phases]"),
            (CLOSED_OF, "service = \"kv\"\nschedule = \"closed\"\n[workload.kv]\nvalue-size = \"9B..2B\"\n[phases]"),
            (CLOSED_OF, "service = \"kv\"\nschedule = \"closed\"\n[workload.kv]\nkeys = \"first\"\n[phases]"),
            (CLOSED_OF, "service = \"kv\"\nschedule = \"closed\"\n[workload.kv]\nrecords = 3000000\n[phases]"),
            (CLOSED_OF, "service = \"kv\"\nschedule = \"closed\"\n[workload.kv]\nvalue-size = \"2MiB\"\n[phases]"),
            ("[phases]", "[client]\ntimestamps = \"hardware\"\n[phases]"),
            ("[phases]", "[client]\nclients = 11\n[phases]"),
            ("[phases]", "[server]\naccept = \"thundering\"\n[phases]"),
            ("[phases]", "[faces]"),
            ("[phases]", "[network]\nclients = 0\n[phases]"),
            ("[phases]", "[network]\ndelay = 10\n[phases]"),
            ("[phases]", "[network]\ndelay = \"1ms\"\njitter = \"2ms\"\n[phases]"),
            ("[phases]", "[network]\nloss = 0\n[phases]"),
            ("[phases]", "[network]\nloss = \"60%\"\n[phases]"),
            ("[phases]", "[network]\nbandwidth = \"1GB\"\n[phases]"),
            ("[phases]", "[network]\nlatency = \"1ms\"\n[phases]"),
            ("[phases]", "transport = \"unix\"\n[network]\n[phases]"),
            ("\"epoll\"", "\"exec:go\""),
            ("\"epoll\"", "\"exec:\""),
            ("[phases]", "[exec.go]\ncommand = [\"go\", \"{port}\"]\n[phases]"),
            ("[phases]", "[exec.\"g o\"]\ncommand = [\"go\", \"{port}\"]\n[phases]"),
            ("[phases]", "[exec.go]\ncommand = \"go {port}\"\n[phases]"),
            ("[phases]", "[exec.go]\ncommand = []\n[phases]"),
            ("[phases]", "[exec.go]\ncommand = [\"go\"]\n[phases]"),
            ("[phases]", "[exec.go]\ncommand = [\"go\", \"{port}\", \"{size}\"]\n[phases]"),
            ("[phases]", "[exec.go]\ncommand = [\"go\", \"{port}\", \"{socket}\"]\n[phases]"),
            ("[phases]", "transport = \"unix\"\n[exec.go]\ncommand = [\"go\", \"{port}\"]\n[phases]"),
            ("[phases]", "transport = \"udp\"\n[phases]"),
            ("connections = 10", ""),
            ("connections = 10", "connections = 10\nports = 10"),
            ("connections = 10", "service = \"udp\""),
            ("connections = 10", "service = \"udp\"\nports = []"),
            ("connections = 10", "service = \"udp\"\nports = 10\nconnections = 10"),
            ("connections = 10", "service = \"udp\"\nports = 10"),
            ("connections = 10\nrate = [100, 200.5]\nrequest = \"1B\"\n", "service = \"udp\"\nports = 10\nrate = 10\n"),
            (
                "connections = 10\nrate = [100, 200.5]\nrequest = \"1B\"\n",
                "service = \"udp\"\nports = 10\nrate = 10\nrequest = \"8B\"\ntransport = \"tcp6\"\n",
            ),
            (
                "connections = 10\nrate = [100, 200.5]\nrequest = \"1B\"\n",
                "service = \"udp\"\nports = 10\nschedule = \"closed\"\nrequest = \"8B\"\n",
            ),
            (
                "connections = 10\nrate = [100, 200.5]\nrequest = \"1B\"\n",
                "service = \"udp\"\nports = 10\nrate = 10\nidle = 5\nrequest = \"8B\"\n",
            ),
            ("[phases]", "[exec.go]\nprogram = \"go\"\n[phases]"),
            ("[phases]", "[exec.go]\ncommand = [\"go\", \"{port}\"]\nstart-timeout = \"0\"\n[phases]"),
            ("[phases]", "[exec.go]\ncommand = [\"go\", \"{port}\"]\nenvironment = {\"A=B\" = \"1\"}\n[phases]"),
        ];
        // The known architectures depend on the enabled features.
        let known = Architecture::all().iter().map(Architecture::to_string).collect::<Vec<_>>().join(", ");
        let messages: Vec<String> = wrong
            .iter()
            .map(|(good, bad)| {
                assert!(GOOD.contains(good));
                let error = Experiment::parse(&GOOD.replace(good, bad), "x.toml").unwrap_err();
                let error = error.to_string().replace(&known, "[all architectures]");
                format!("{bad}\n    {}", error.replace('\n', "\n    "))
            })
            .collect();
        // Mask the list of architectures: a new one must not change the snapshot.
        let known: Vec<String> = Architecture::all().iter().map(Architecture::to_string).collect();
        insta::assert_snapshot!(messages.join("\n").replace(&known.join(", "), "(every row)"));
    }

    #[test]
    fn the_schema_names_every_key() {
        let schema = Experiment::schema();
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert_eq!(schema["additionalProperties"], false);
        let keys = [
            "name",
            "architectures",
            "workload",
            "phases",
            "network",
            "server",
            "client",
            "placement",
            "quick",
            "exec",
        ];
        for key in keys {
            assert!(schema["properties"][key].is_object(), "{key}");
        }
    }

    #[test]
    fn standard_names_of_keys_read_as_the_first_ones() {
        let with = |extra: &str| GOOD.replace("[phases]", &format!("{extra}\n[phases]"));
        let first = with("calls-per-connection = 3\nwork = \"cpu=1us\"\nchoice = \"uniform\"\n")
            .replace("[phases]", "[phases]\ndrain = \"3s\"");
        let mut standard = first.clone();
        for (old, new) in [
            ("calls-per-connection", "requests-per-connection"),
            ("work =", "simulated-work ="),
            ("choice", "popularity"),
            ("drain", "cool-down"),
            ("hold", "warm-up"),
        ] {
            assert!(standard.contains(old), "{old}");
            standard = standard.replace(old, new);
        }
        let parse = |text: &str| Experiment::parse(text, "x.toml").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(parse(&standard), parse(&first));
    }
}
