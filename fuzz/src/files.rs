//! What is read from disk, or typed.

use stats::Histogram;

/// An address, which is written as it is read.
pub fn address(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(address) = text.parse::<wire::Address>() {
        assert_eq!(address.to_string().parse(), Ok(address), "of {text:?}");
    }
}

/// Ports, which are written as they are read.
pub fn ports(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(ports) = text.parse::<wire::Ports>() {
        assert_eq!(ports.to_string().parse(), Ok(ports.clone()), "of {text:?}");
        assert_eq!(ports.iter().count(), ports.count() as usize, "of {text:?}");
    }
}

/// A service and its sizes, as a server describes itself to whoever asks.
pub fn service(data: &[u8]) {
    written_as_read::<wire::ServiceSpec>(data);
}

/// What is read is written so that it is read again, and written the same.
pub fn written_as_read<T: serde::Serialize + serde::de::DeserializeOwned>(data: &[u8]) {
    let Ok(read) = serde_json::from_slice::<T>(data) else { return };
    let written = serde_json::to_string(&read).expect("what was read can be written");
    let again: T = serde_json::from_str(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(serde_json::to_string(&again).expect("and again"), written);
}

/// An architecture's name, with its numbers.
#[cfg(feature = "harness")]
pub fn architecture(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(architecture) = text.parse::<server::Architecture>() {
        assert_eq!(architecture.to_string().parse().ok(), Some(architecture), "of {text:?}");
    }
}

/// The file `run.json` of a stored run, and a trial's record, as its database has them.
#[cfg(feature = "harness")]
pub fn record(data: &[u8]) {
    written_as_read::<harness::model::RunHeader>(data);
    written_as_read::<harness::model::TrialRecord>(data);
}

/// An experiment file. What is accepted can be planned or is refused in words.
#[cfg(feature = "harness")]
pub fn experiment(data: &[u8]) {
    use harness::spec::Experiment;
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(experiment) = Experiment::parse(text, "fuzz.toml") else { return };
    planned(experiment.clone());
    let quick = experiment.quick();
    if quick.check().is_ok() {
        planned(quick);
    }
}

/// Plans for a host that never was: one repeat, of two of each list, for a plan is as long as it is asked to be.
#[cfg(feature = "harness")]
fn planned(mut experiment: harness::spec::Experiment) {
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
        assert!(!plan.trials.is_empty(), "what is planned is something");
    }
}

/// A file of samples.
#[cfg(feature = "harness")]
pub fn samples(data: &[u8]) {
    if let Ok(samples) = harness::samples::read_from(&mut std::io::Cursor::new(data)) {
        assert!(samples.len() <= (1 << 20) + 4 * data.len(), "{} rows", samples.len());
    }
}

/// What users type, and what Slurm and Open MPI say of hosts: what is read is written so that it is read again.
#[cfg(feature = "harness")]
pub fn units(data: &[u8]) {
    use harness::spec::{self, Candidate, http, units};
    let Ok(text) = std::str::from_utf8(data) else { return };
    fn read<T: std::str::FromStr>(text: &str) -> Option<T> {
        text.parse().ok()
    }
    fn written_as_read<T: std::str::FromStr + std::fmt::Display + PartialEq>(text: &str) {
        if let Some(value) = read::<T>(text) {
            let written = value.to_string();
            assert!(read(&written) == Some(value), "{written:?} of {text:?}");
        }
    }
    written_as_read::<units::Size>(text);
    written_as_read::<units::Sizes>(text);
    written_as_read::<units::Time>(text);
    written_as_read::<units::Rate>(text);
    written_as_read::<units::Share>(text);
    written_as_read::<units::Cpus>(text);
    written_as_read::<units::Work>(text);
    written_as_read::<units::Think>(text);
    written_as_read::<units::Bandwidth>(text);
    written_as_read::<load::config::Choice>(text);
    written_as_read::<Candidate>(text);
    written_as_read::<http::Header>(text);
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

/// A histogram as it is stored.
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
