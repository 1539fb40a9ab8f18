//! Files and command-line values: a parsed value must be written in a form that parses to the same value.

use stats::Histogram;

/// Parses a server's address.
pub fn address(data: &[u8]) {
    std::str::from_utf8(data).ok().and_then(parse_and_write::<wire::Address>);
}

/// Parses a server's ports.
pub fn ports(data: &[u8]) {
    if let Some(ports) = std::str::from_utf8(data).ok().and_then(parse_and_write::<wire::Ports>) {
        assert_eq!(ports.iter().count(), ports.count() as usize);
    }
}

/// Parses a value; checks that its text parses to the same value.
fn parse_and_write<T: std::str::FromStr + std::fmt::Display + PartialEq>(text: &str) -> Option<T> {
    let value = text.parse::<T>().ok()?;
    let written = value.to_string();
    assert!(written.parse().ok().as_ref() == Some(&value), "{written:?} of {text:?}");
    Some(value)
}

/// Reads a service and its sizes from a server's description.
pub fn service(data: &[u8]) {
    read_and_write::<wire::ServiceSpec>(data);
}

/// Reads a value from JSON; checks that its JSON reads back to the same.
pub fn read_and_write<T: serde::Serialize + serde::de::DeserializeOwned>(data: &[u8]) {
    let Ok(read) = serde_json::from_slice::<T>(data) else { return };
    let written = serde_json::to_string(&read).expect("what was read can be written");
    let again: T = serde_json::from_str(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(serde_json::to_string(&again).expect("and again"), written);
}

/// Parses an architecture's name with its numbers.
#[cfg(feature = "harness")]
pub fn architecture(data: &[u8]) {
    std::str::from_utf8(data).ok().and_then(parse_and_write::<server::Architecture>);
}

/// Reads `run.json` and the trials of a stored run.
#[cfg(feature = "harness")]
pub fn record(data: &[u8]) {
    read_and_write::<harness::model::RunHeader>(data);
    read_and_write::<harness::model::TrialRecord>(data);
}

/// Reads an experiment file. An accepted experiment must plan or give an error.
#[cfg(feature = "harness")]
pub fn experiment(data: &[u8]) {
    use harness::spec::Experiment;
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(experiment) = Experiment::parse(text, "fuzz.toml") else { return };
    check_plan(experiment.clone());
    let quick = experiment.quick();
    if quick.check().is_ok() {
        check_plan(quick);
    }
}

/// Checks plans for a fictional host. Limits repeats to one and lists to two values, because plans may be long.
#[cfg(feature = "harness")]
fn check_plan(mut experiment: harness::spec::Experiment) {
    experiment.repeats = std::num::NonZeroU32::MIN;
    experiment.architectures.0.truncate(2);
    let traffic = &mut experiment.workload;
    traffic.connections.0.truncate(2);
    traffic.ports.0.truncate(2);
    traffic.idle.0.truncate(2);
    traffic.active.0.truncate(2);
    traffic.schedule.0.truncate(2);
    if let Some(rates) = &mut traffic.rate {
        rates.0.truncate(2);
    }
    if let Ok(plan) = harness::plan::plan(&experiment, &harness::host::Host::made_up()) {
        assert!(!plan.trials.is_empty(), "a plan has trials");
    }
}

/// Reads a file of samples.
#[cfg(feature = "harness")]
pub fn samples(data: &[u8]) {
    if let Ok(samples) = harness::samples::read_from(&mut std::io::Cursor::new(data)) {
        assert!(samples.len() <= (1 << 20) + 4 * data.len(), "{} rows", samples.len());
    }
}

/// Parses values of flags and keys, and host lists of Slurm and Open MPI.
#[cfg(feature = "harness")]
pub fn units(data: &[u8]) {
    use harness::spec::{self, Candidate, http, units};
    let Ok(text) = std::str::from_utf8(data) else { return };
    fn read<T: std::str::FromStr>(text: &str) -> Option<T> {
        text.parse().ok()
    }
    parse_and_write::<units::Size>(text);
    parse_and_write::<units::Sizes>(text);
    parse_and_write::<units::Time>(text);
    parse_and_write::<units::Rate>(text);
    parse_and_write::<units::Share>(text);
    parse_and_write::<units::Cpus>(text);
    parse_and_write::<units::Work>(text);
    parse_and_write::<units::Think>(text);
    parse_and_write::<units::Bandwidth>(text);
    parse_and_write::<load::config::Popularity>(text);
    parse_and_write::<Candidate>(text);
    parse_and_write::<http::Header>(text);
    if let Some(units::Rates(rates)) = read(text) {
        assert!(!rates.is_empty() && rates.len() <= 1_000, "{} of {text:?}", rates.len());
        assert!(rates.is_sorted_by(|a, b| a.0 <= b.0), "{rates:?}");
    }
    let _ = (read::<units::Limit>(text), read::<spec::network::Network>(text), read::<wire::http::client::Url>(text));
    for engine in [["SLURM_PROCID", "SLURM_STEP_NODELIST"], ["OMPI_COMM_WORLD_RANK", "OMPI_MCA_orte_hnp_uri"]] {
        let _ = harness::fleet::launcher::membership_in(&|name| match name {
            _ if name == engine[0] => Some("1".into()),
            _ if name == engine[1] => Some(text.into()),
            "SLURM_JOB_ID" | "SLURM_NTASKS" | "OMPI_COMM_WORLD_SIZE" => Some("7".into()),
            _ => None,
        });
    }
}

/// Reads a stored histogram.
pub fn histogram(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(histogram) = serde_json::from_value::<Histogram>(text.into()) else { return };
    let mut sum = Histogram::new();
    sum.merge(&histogram);
    assert_eq!(sum.count(), histogram.count());
    let distribution = histogram.distribution();
    assert!(
        distribution.p1_ns <= distribution.p50_ns && distribution.p50_ns <= distribution.max_ns,
        "{distribution:?}"
    );
}
