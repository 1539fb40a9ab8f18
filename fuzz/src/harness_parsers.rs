//! Parsers of the harness: messages between workers, files and flags.

use crate::files::{parse_and_write, read_and_write};

/// Reads a message of the handshake, a later message, and the JSON that messages contain.
pub fn frame(data: &[u8]) {
    for is_known in [false, true] {
        if let Some(written) = fleet::reencode(data, is_known) {
            assert_eq!(fleet::reencode(&written, is_known).as_ref(), Some(&written));
        }
    }
    read_and_write::<harness::record::LoadOrder>(data);
    read_and_write::<load::Event>(data);
}

/// Reads a capture, and estimates the traffic of its first destination.
pub fn capture(data: &[u8]) {
    use traffic::observe::{Observation, capture, flows::Flows};
    let mut first = None;
    let _ = capture::read(data, |packet| {
        first.get_or_insert(packet.destination.port());
    });
    let Some(port) = first.and_then(std::num::NonZeroU16::new) else { return };
    let mut flows = Flows::new(port);
    let _ = capture::read(data, |packet| flows.add(packet));
    let observation = Observation::of(port, &flows.finish(Vec::new()));
    let requests = observation.requests.as_ref();
    assert!(requests.is_none_or(|it| it.request.bytes.is_finite() && it.response.bytes.is_finite()), "{observation:?}");
    let _ = harness::traffic_profile::experiment(&observation);
}

/// Parses an architecture's name with its numbers.
pub fn architecture(data: &[u8]) {
    std::str::from_utf8(data).ok().and_then(parse_and_write::<server::Architecture>);
}

/// Reads `run.json` and the trials of a stored run.
pub fn record(data: &[u8]) {
    read_and_write::<harness::record::RunHeader>(data);
    read_and_write::<harness::record::TrialRecord>(data);
}

/// Reads an experiment file. An accepted experiment must plan or give an error.
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
        assert!(!plan.trials.is_empty(), "the plan has no trials");
    }
}

/// Reads a file of samples.
pub fn samples(data: &[u8]) {
    if let Ok(samples) = traffic::samples::read_from(&mut std::io::Cursor::new(data)) {
        assert!(samples.len() <= (1 << 20) + 4 * data.len(), "{} rows", samples.len());
    }
}

/// Reads recorded arrivals.
pub fn trace(data: &[u8]) {
    if let Ok(rows) = traffic::trace::Rows::read(std::io::Cursor::new(data.to_vec()), &[]) {
        let rows = rows.take_while(Result::is_ok).take((1 << 20) + 4 * data.len() + 1).count();
        assert!(rows <= (1 << 20) + 4 * data.len(), "{rows} rows");
    }
}

/// Parses values of flags and keys, and host lists of Slurm and Open MPI.
pub fn units(data: &[u8]) {
    use harness::spec::{self, Candidate, requests, units};
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
    parse_and_write::<spec::profile::Profile>(text);
    parse_and_write::<requests::Header>(text);
    parse_and_write::<requests::Length>(text);
    if let Some(units::Rates(rates)) = read(text) {
        assert!(!rates.is_empty() && rates.len() <= 1_000, "{} of {text:?}", rates.len());
        assert!(rates.is_sorted_by(|a, b| a.0 <= b.0), "{rates:?}");
    }
    let _ = (read::<units::TimeLimit>(text), read::<spec::network::Network>(text));
    let _ = read::<wire::http::client::Url>(text);
    for engine in [["SLURM_PROCID", "SLURM_STEP_NODELIST"], ["OMPI_COMM_WORLD_RANK", "OMPI_MCA_orte_hnp_uri"]] {
        let _ = fleet::launcher::membership_in(&|name| match name {
            _ if name == engine[0] => Some("1".into()),
            _ if name == engine[1] => Some(text.into()),
            "SLURM_JOB_ID" | "SLURM_NTASKS" | "OMPI_COMM_WORLD_SIZE" => Some("7".into()),
            _ => None,
        });
    }
}
